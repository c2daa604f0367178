#include "oracle/remote/remote_recording.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "oracle/remote/questions.h"

namespace tilescope {

namespace {

/// Of all tiles of a stage, whether they are there: asked for once.
class Presence {
 public:
    template <class Ask>
    bool at(std::int64_t index, const Ask& ask) const {
        const std::scoped_lock lock(mutex_);
        if (!there_) there_ = ask();
        return index >= 0 && index < std::ssize(*there_) && (*there_)[std::size_t(index)] != 0;
    }

 private:
    mutable std::mutex mutex_;
    mutable std::optional<std::string> there_;
};

class RemoteRecording final : public Recording {
 public:
    RemoteRecording(WorkSharing& sharing, int process, std::string path, RecordingFacts facts)
        : sharing_(sharing), process_(process), path_(std::move(path)), facts_(std::move(facts)) {}
    ~RemoteRecording() override {
        try {
            ask({.asked = Asked::close});
        } catch (const std::exception&) {
            return;  // it closes the file when it ends
        }
    }

    const std::string& name() const override { return path_; }
    const Problem& problem() const override { return facts_.problem; }
    const Units& units() const override { return facts_.units; }
    const Provenance& provenance() const override { return facts_.provenance; }
    const CaptureSummary& capture() const override { return facts_.capture; }
    const ThreadLayouts& threads() const override { return facts_.threads; }
    bool has_stage(Stage stage) const override { return facts_.stages[std::size_t(stage)]; }
    bool has_tile(Stage stage, const TileId& tile) const override {
        return presence_[std::size_t(stage)].at(tile_index(problem(), stage, tile),
                                                [&] { return ask({.asked = Asked::tiles, .stage = stage}); });
    }
    bool may_hold(const TileId& q_block) const override {
        return q_blocks_.at(tile_index(problem(), Stage::q, q_block),
                            [&] { return ask({.asked = Asked::q_blocks}); });
    }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override {
        return take(ask({.asked = Asked::tile, .stage = stage, .tile = tile}), out);
    }
    bool has_writers(Stage stage) const override { return facts_.writers[std::size_t(stage)]; }
    bool read_writers(Stage stage, const TileId& tile, Span<ElementWriter> out) const override {
        return take(ask({.asked = Asked::writers, .stage = stage, .tile = tile}), out);
    }
    bool has_input(Input input) const override { return facts_.inputs[std::size_t(input)]; }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override {
        take(ask({.asked = Asked::input,
                  .input = input,
                  .batch = batch,
                  .head = head,
                  .row = row,
                  .count = count}),
             out);
    }
    const SideInputs& side_inputs() const override { return facts_.side_inputs; }
    bool has_bias() const override { return facts_.has_bias; }
    void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                   Span<float> out) const override {
        take(ask({.asked = Asked::bias,
                  .batch = batch,
                  .head = head,
                  .row = row,
                  .first_key = first_key,
                  .count = std::int64_t(out.size())}),
             out);
    }
    void require_unchanged() const override { ask({.asked = Asked::unchanged}); }
    Span<const ReferenceInfo> references() const override { return facts_.references; }
    void read_reference(std::size_t index, Stage stage, std::int64_t batch, std::int64_t head,
                        std::int64_t row, std::int64_t count, Span<float> out) const override {
        take(ask({.asked = Asked::reference,
                  .stage = stage,
                  .batch = batch,
                  .head = head,
                  .row = row,
                  .count = count,
                  .reference = std::int64_t(index)}),
             out);
    }

 private:
    std::string ask(Question question) const {
        question.number = facts_.number;
        return sharing_.ask(process_, to_bytes(question));
    }
    template <class T>
    static bool take(const std::string& bytes, Span<T> out) {
        std::memcpy(static_cast<void*>(out.data()), bytes.data(),
                    std::min(bytes.size(), out.size() * sizeof(T)));
        return !bytes.empty();
    }

    WorkSharing& sharing_;
    int process_;
    std::string path_;
    RecordingFacts facts_;
    std::array<Presence, stage_count> presence_;
    Presence q_blocks_;
};

}  // namespace

std::unique_ptr<Recording> open_remote(WorkSharing& sharing, int process, const std::string& path,
                                       bool is_tried) {
    const Question question{.asked = Asked::open, .path = path, .is_tried = is_tried};
    return std::make_unique<RemoteRecording>(
        sharing, process, path, from_bytes<RecordingFacts>(sharing.ask(process, to_bytes(question))));
}

}  // namespace tilescope
