#include "viewer/session/work.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <tuple>

#include "oracle/judge/report.h"

namespace tilescope::viewer {

namespace {

/// What judges must not take the processor from what draws. No less than this: on a busy machine the judge
/// would come to a standstill.
void lower_priority(int niceness) {
    // Of the calling thread on Linux, and of the team that it starts.
    ::setpriority(PRIO_PROCESS, 0, niceness);
}

}  // namespace

Session::Work::Work(SessionOptions given)
    : options(given),
      details{DetailStore(given.detail_bytes), DetailStore(given.detail_bytes / 2),
              DetailStore(given.detail_bytes / 2)} {
    const auto start = [&](TaskKind lane, int niceness, auto step) {
        threads_.emplace_back([this, lane, niceness, step] {
            run_lane(lane, niceness, [this, step](auto& lock) { return (this->*step)(lock); });
        });
    };
    start(judging, 10, &Work::step_judging);
    start(picturing, 10, &Work::step_picturing);
    start(detailing, 5, &Work::step_detailing);
    threads_.emplace_back([this] { watch_files(); });
}

Session::Work::~Work() {
    {
        const std::scoped_lock lock(mutex);
        stopping_ = true;
        ++epoch;
    }
    changed.notify_all();
    threads_.clear();
}

/// `step` does the next piece of work, without the lock while it works, and returns false when there is none.
void Session::Work::run_lane(TaskKind lane, int niceness,
                             const std::function<bool(std::unique_lock<std::mutex>&)>& step) {
    lower_priority(niceness);
    std::unique_lock lock(mutex);
    while (!stopping_) {
        const std::uint64_t ticket = epoch;
        std::string failure;
        bool worked = true;
        try {
            worked = step(lock);
        } catch (const Cancelled&) {
        } catch (const std::bad_alloc&) {
            failure = "not enough memory; close other programs, or look at a smaller recording";
        } catch (const std::exception& thrown) {
            failure = one_line(thrown.what());
        }
        if (!lock.owns_lock()) lock.lock();
        if (!failure.empty() && epoch == ticket) error = failure;
        activities[lane] = {};
        if (worked)
            wake();
        else if (!stopping_)
            changed.wait(lock);
    }
}

void Session::Work::watch_files() {
    std::vector<FileStamp> last;
    std::vector<FileStamp> settled;
    std::unique_lock lock(mutex);
    while (!stopping_) {
        const DocumentPointer opened = document;
        lock.unlock();
        bool lost = false;
        bool written_over = false;
        std::vector<FileStamp> now;
        if (opened != nullptr) now = stamps_of(opened->path, opened->other);
        for (std::size_t i = 0; i < now.size(); ++i) {
            lost = lost || !now[i].exists;
            written_over = written_over || is_written_over(opened->stamps[i], now[i]);
        }
        const bool differs = opened != nullptr && now != opened->stamps;
        lock.lock();
        // What was written over in its place does not come back by being removed.
        written_over = written_over || file_written_over;
        const bool same =
            opened != nullptr && document != nullptr && document->generation == opened->generation;
        if (same && std::tuple(differs, lost, written_over) !=
                        std::tuple(file_changed, file_gone, file_written_over)) {
            file_changed = differs;
            file_gone = lost;
            file_written_over = written_over;
            ++version;
        }
        // Whoever writes it may not be done.
        if (same && differs && !lost && now == last && now != settled) {
            settled = now;
            ++settled_changes;
            ++version;
        }
        last = now;
        const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
        changed.wait_until(lock, soon, [&] { return stopping_; });
    }
}

void Session::Work::begin(TaskKind lane, std::string message) {
    const std::scoped_lock lock(mutex);
    activities[lane] = {true, std::move(message), 0};
    ++version;
}

void Session::Work::report_progress(TaskKind lane, std::uint64_t ticket, std::int64_t done,
                                    std::int64_t total) {
    check(ticket);
    const std::scoped_lock lock(mutex);
    activities[lane].progress = double(done) / double(std::max<std::int64_t>(total, 1));
    ++version;
}

JudgeOptions Session::Work::judge_options(TaskKind lane, std::uint64_t ticket, int threads) {
    JudgeOptions judge;
    judge.compare = options.compare;
    judge.threads = threads;
    judge.progress = [this, lane, ticket](std::int64_t done, std::int64_t total) {
        report_progress(lane, ticket, done, total);
    };
    return judge;
}

void Session::Work::notice(const Question& question) {
    // Frames ask for a few things each: these are those of the last frames, at least of two.
    constexpr std::size_t most_asked = 64;
    if (cancelled && std::ranges::find(asked, question) == asked.end()) {
        cancelled = false;
        for (auto& [key, picture] : pictures) {
            if (picture.state == Picture::State::stopped) picture.state = Picture::State::waiting;
        }
        for (DetailStore& store : details) store.allow_asking();
        rows.ask_again();
        histories.ask_again();
        explanations.ask_again();
        writers.ask_again();
        drifts.ask_again();
        histograms.ask_again();
        stage_values.ask_again();
        sheets.ask_again();
        sheet_histograms.ask_again();
        wake();
    }
    asked.push_back(question);
    if (asked.size() > most_asked) asked.pop_front();
}

Session::Work::Picture& Session::Work::picture_of(const Plane& plane, Quantity quantity) {
    const PictureKey key{plane, quantity};
    const auto known = pictures.find(key);
    if (known != pictures.end()) {
        known->second.used = ++clock;
        return known->second;
    }
    const PlaneShape shape = plane_shape(document->problem(), plane.stage);
    Picture picture{std::make_shared<Pyramid>(shape.rows, shape.cols,
                                              shape.tiles_down() * shape.tiles_across(), sign_of(quantity)),
                    Picture::State::waiting, ++clock};
    std::int64_t bytes = picture.pyramid->bytes();
    for (const auto& [other, kept] : pictures) bytes += kept.pyramid->bytes();
    while (bytes > options.picture_bytes) {
        auto oldest = pictures.end();
        for (auto it = pictures.begin(); it != pictures.end(); ++it) {
            const bool older = oldest == pictures.end() || it->second.used < oldest->second.used;
            if (it->second.state != Picture::State::running && older) oldest = it;
        }
        if (oldest == pictures.end()) break;
        bytes -= oldest->second.pyramid->bytes();
        pictures.erase(oldest);
    }
    return pictures[key] = std::move(picture);
}

void Session::Work::forget_everything() {
    pictures.clear();
    for (DetailStore& store : details) store.clear();
    rows.clear();
    histories.clear();
    explanations.clear();
    writers.clear();
    drifts.clear();
    histograms.clear();
    stage_values.clear();
    sheets.clear();
    sheet_histograms.clear();
    asked.clear();
    cancelled = false;
    chosen_cause = 0;
    search_given_up = false;
    forget_replays();
}

bool Session::Work::idle() const {
    const auto busy = [](const Activity& activity) { return activity.busy; };
    const auto waits = [](const auto& entry) { return entry.second.state == Picture::State::waiting; };
    return !opening && std::ranges::none_of(activities, busy) && std::ranges::none_of(pictures, waits) &&
           !is_to_be_searched() && std::ranges::none_of(details, &DetailStore::waiting) && !rows.waiting() &&
           !histories.waiting() && !explanations.waiting() && !writers.waiting() && !drifts.waiting() &&
           !histograms.waiting() && !stage_values.waiting() && !sheets.waiting() &&
           !sheet_histograms.waiting();
}

}  // namespace tilescope::viewer
