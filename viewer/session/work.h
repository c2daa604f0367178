#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "oracle/causes/observe_replayed.h"
#include "oracle/heatmap/drift_rows.h"
#include "oracle/heatmap/quantity.h"
#include "oracle/judge/observe.h"
#include "viewer/session/answers.h"
#include "viewer/session/detail_store.h"
#include "viewer/session/file_stamp.h"
#include "viewer/session/session.h"

namespace tilescope::viewer {

/// Thrown in a thread whose work is not wanted any more.
struct Cancelled {};

struct RowQuestion {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;
    bool operator==(const RowQuestion&) const = default;
};

struct HistogramQuestion {
    Plane plane;
    Rect elements;
    Reference against = Reference::local;
    bool operator==(const HistogramQuestion&) const = default;
};

using WritersQuestion = std::pair<Stage, TileId>;

/// What the threads of a session share. Everything but the atomics is read and written under `mutex`, which
/// nobody holds while reading a file or computing.
class Session::Work {
 public:
    explicit Work(SessionOptions given);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    using PictureKey = std::pair<Plane, Quantity>;
    struct Picture {
        enum class State { waiting, running, done, stopped };
        std::shared_ptr<Pyramid> pyramid;
        State state = State::waiting;
        std::uint64_t used = 0;
    };
    /// Of a head: batch and query head.
    using DriftQuestion = std::pair<std::int64_t, std::int64_t>;
    using DetailQuestion = std::pair<PictureKey, Rect>;
    /// An element whose tolerance is to be explained is named as --explain-tolerance has it.
    using Question =
        std::variant<PictureKey, DetailQuestion, RowQuestion, DriftQuestion, std::string, HistogramQuestion,
                     WritersQuestion, HistoryPlace, StageQuestion, SheetQuestion, SheetPart>;
    struct Opening {
        std::string path;
        std::string other;
        std::shared_ptr<const Recording> recording;  ///< null: it is opened
    };
    /// What one thread does right now.
    struct Activity {
        bool busy = false;
        std::string message;
        double progress = 0;
    };
    enum TaskKind : std::size_t { judging, picturing, detailing };
    using DocumentPointer = std::shared_ptr<const Document>;

    const SessionOptions options;
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::atomic<std::uint64_t> version = 0;
    /// Rises when what runs is not wanted any more: work that began with another number ends.
    std::atomic<std::uint64_t> epoch = 0;
    /// Replays that began with another number are of another cause.
    std::atomic<std::uint64_t> replay_epoch = 0;

    DocumentPointer document;
    std::optional<Opening> opening;
    std::array<Activity, 3> activities;
    std::string error;
    bool file_changed = false;
    bool file_gone = false;
    bool file_written_over = false;
    std::uint64_t settled_changes = 0;

    std::uint64_t clock = 0;
    std::map<PictureKey, Picture> pictures;
    std::array<DetailStore, 3> details;  ///< by Reference
    std::size_t chosen_cause = 0;
    bool search_given_up = false;  ///< of the document's causes
    Answers<RowQuestion, RowTrace> rows{64};
    Answers<HistoryPlace, PixelHistory> histories{16};
    Answers<std::string, std::string> explanations{64};
    Answers<WritersQuestion, std::vector<ElementWriter>> writers{16};
    Answers<DriftQuestion, DriftRows> drifts{4};
    Answers<HistogramQuestion, Histogram> histograms{8};
    Answers<StageQuestion, StageValues> stage_values{
        2};  ///< the stage on screen, and the state whose history is
    Answers<SheetQuestion, std::shared_ptr<const Pyramid>> sheets{8};
    Answers<SheetPart, Histogram> sheet_histograms{8};
    std::deque<Question> asked;  ///< what the last frames asked for, the newest last
    bool cancelled = false;      ///< by cancel(): the questions in `asked` are not worked on

    // With `mutex` held:
    /// Called with each question. After cancel(), the first one that is not in `asked` starts the work again.
    void notice(const Question& question);
    Picture& picture_of(const Plane& plane, Quantity quantity);
    void forget_everything();
    /// Those of the cause that was chosen before.
    void forget_replays();
    /// Null where the chosen cause has no replay of the stage.
    std::shared_ptr<const FoundCause> replay_of(Stage stage) const;
    bool can_show(Stage stage, Quantity quantity) const;
    bool shows_recording() const { return document != nullptr && document->recording != nullptr; }
    bool shows_declared(std::uint64_t generation) const {
        return document != nullptr && document->declared != nullptr && document->generation == generation;
    }
    bool is_to_be_searched() const;
    bool idle() const;
    /// Of a declared kernel, by the generation of its document. Takes `mutex` itself.
    template <class Key, class Value>
    std::shared_ptr<const Value> ask_declared(std::uint64_t generation, Answers<Key, Value>& answers,
                                              const Key& question) {
        const std::scoped_lock lock(mutex);
        if (!shows_declared(generation)) return nullptr;
        notice(question);
        auto answer = answers.ask(question);
        if (answers.waiting()) changed.notify_all();
        return answer;
    }
    void wake() {
        ++version;
        changed.notify_all();
    }

 private:
    void run_lane(TaskKind lane, int niceness,
                  const std::function<bool(std::unique_lock<std::mutex>&)>& step);
    void watch_files();
    void check(std::uint64_t ticket) const {
        if (epoch != ticket) throw Cancelled();
    }
    void begin(TaskKind lane, std::string message);
    void report_progress(TaskKind lane, std::uint64_t ticket, std::int64_t done, std::int64_t total);
    JudgeOptions judge_options(TaskKind lane, std::uint64_t ticket, int threads);

    bool step_judging(std::unique_lock<std::mutex>& lock);
    static std::shared_ptr<Document> begin_document(const Opening& what);
    std::shared_ptr<Document> open_document(const Opening& what, std::uint64_t ticket);
    static bool is_declared(const Opening& what);
    /// Opens a declared kernel; it is shown once it is judged.
    void judge_declared(const Opening& what, std::uint64_t ticket);
    /// Throws Cancelled where they are not there any more.
    std::shared_ptr<const StageValues> known_values(const StageQuestion& question);
    FoundMistakes find_declared_mistakes(const Document& of, std::uint64_t ticket);
    /// With `mutex` held.
    void publish(const DocumentPointer& shown, const std::vector<PictureKey>& filled);
    Report judge_whole(const std::shared_ptr<Document>& opened, TileMap& map, EndToEnd* end_to_end,
                       std::uint64_t ticket);
    /// Looks for the causes of what was judged.
    bool step_searching(std::unique_lock<std::mutex>& lock);
    CauseOptions cause_options(std::uint64_t ticket, int threads) const;
    /// Those that run; nothing where `of` is not shown any more.
    void end_pictures(const Document& of, const std::vector<PictureKey>& keys, Picture::State state);

    /// The captured tiles of a head or of a query block, local or end to end. Some may be shown twice: the last time counts.
    static void show_tiles(const Document& of, Reference against, JudgeOptions judge_with, std::int64_t batch,
                           std::int64_t head, std::optional<std::int64_t> q_block,
                           const ObservedTileFunction& show);

    bool step_picturing(std::unique_lock<std::mutex>& lock);
    /// Those that one pass over a head fills, all of a replay or none; empty for none.
    std::vector<PictureKey> next_pictures() const;
    void fill_dumped(const Document& of, const Plane& plane, Pyramid& pyramid, std::uint64_t ticket);
    void fill_judged(const Document& of, const std::vector<PictureKey>& keys,
                     const std::vector<std::shared_ptr<Pyramid>>& pyramids, std::uint64_t ticket);
    void fill_replayed(const Document& of, const FoundCause& replay, const std::vector<PictureKey>& keys,
                       const std::vector<std::shared_ptr<Pyramid>>& pyramids, std::uint64_t ticket);

    bool step_detailing(std::unique_lock<std::mutex>& lock);
    /// Computes a band of what is asked of the store; false where nothing is.
    bool detail_from(std::unique_lock<std::mutex>& lock, Reference against);
    /// Takes those tiles of the band that `show_all` shows into the store.
    void compute_band(const Document& of, DetailStore& store, const DetailStore::Band& band,
                      const std::function<void()>& check_wanted,
                      const std::function<void(const ObservedTileFunction&)>& show_all);
    Histogram compute_histogram(const Document& of, const HistogramQuestion& question, std::uint64_t ticket);
    /// Computes without the lock, and puts what came out.
    template <class Key, class Value, class Compute>
    bool answer(std::unique_lock<std::mutex>& lock, Answers<Key, Value>& questions, const char* message,
                Compute compute);

    bool stopping_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace tilescope::viewer
