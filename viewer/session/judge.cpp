// The thread that opens recordings and judges them as a whole.

#include <algorithm>
#include <mutex>
#include <tuple>

#include "dump/reader.h"
#include "oracle/judge.h"
#include "oracle/judge/tile_judge.h"
#include "viewer/session/work.h"

namespace tilescope::viewer {

namespace {

/// Over budget of the first plane of every stage: that much is filled on the way.
std::vector<std::pair<Plane, Quantity>> first_pictures(const Document& opened) {
    std::vector<std::pair<Plane, Quantity>> keys;
    for (const StageInfo& info : stages_of(opened.problem())) {
        const bool captured = opened.recording->has_stage(info.stage) &&
                              (!opened.pair() || opened.other_recording->has_stage(info.stage));
        if (captured) keys.emplace_back(Plane{info.stage, 0, 0, 0}, Quantity::over_budget);
    }
    return keys;
}

/// The rows that differ end to end, as threads find them.
class RowsByStage {
 public:
    void add(const ObservedTile& tile, TileMap& map) {
        QuantityValues values;
        values_of(tile, Quantity::over_budget, values);
        std::vector<BadRow> rows;
        map.set(tile.context.stage, tile.context.tile, finding_of(tile, values, &rows));
        const std::scoped_lock lock(mutex_);
        std::vector<BadRow>& known = tallies_[static_cast<std::size_t>(tile.context.stage)].bad_rows;
        known.insert(known.end(), rows.begin(), rows.end());
    }
    /// Operands and named tiles have no other reference than that of the report.
    std::array<std::vector<BadRow>, stage_count> all(const Report& report) {
        std::array<std::vector<BadRow>, stage_count> rows;
        for (const StageInfo& info : stages_of(report.problem)) {
            const auto i = static_cast<std::size_t>(info.stage);
            compact_bad_rows(tallies_[i]);
            const bool by_itself = is_operand(info.stage) || is_named(info.stage);
            rows[i] = by_itself ? report.stages[i].tally.bad_rows : tallies_[i].bad_rows;
        }
        return rows;
    }

 private:
    std::mutex mutex_;
    std::array<StageTally, stage_count> tallies_;
};

/// Also where there is no verdict.
Report report_of(const Document& opened, const JudgeOptions& options) {
    try {
        return opened.pair() ? judge_pair(*opened.recording, *opened.other_recording, options)
                             : judge(*opened.recording, options);
    } catch (const NoVerdict& unjudged) {
        return unjudged.report();
    }
}

}  // namespace

bool Session::Work::step_judging(std::unique_lock<std::mutex>& lock) {
    if (!opening) return step_searching(lock);
    const Opening what = *std::exchange(opening, std::nullopt);
    const std::uint64_t ticket = epoch;
    activities[judging] = {true, "opening " + what.path, 0};
    lock.unlock();

    if (is_declared(what)) {
        judge_declared(what, ticket);
        return true;
    }
    const std::shared_ptr<Document> opened = open_document(what, ticket);
    const auto map = std::make_shared<TileMap>(opened->problem());
    opened->map = map;
    const auto end_to_end = opened->pair() ? nullptr : std::make_shared<EndToEnd>(opened->problem());

    lock.lock();
    const DocumentPointer before = document;
    const std::tuple changes_before(file_changed, file_gone, file_written_over);
    lock.unlock();
    try {
        const Report report = judge_whole(opened, *map, end_to_end.get(), ticket);
        lock.lock();
        check(ticket);
        auto judged = std::make_shared<Document>(*opened);
        judged->report = std::make_shared<const Report>(report);
        judged->end_to_end = end_to_end;
        document = judged;
        // Gradients of keys may have inherited an error of another head, which was not known until now.
        if (report.guilty && report.problem.direction == Direction::backward)
            details[std::size_t(Reference::local)].clear();
    } catch (const Cancelled&) {
        throw;
    } catch (...) {
        lock.lock();
        if (document != before) {
            publish(before, {});
            std::tie(file_changed, file_gone, file_written_over) = changes_before;
        }
        // Its own judging was given up for this one.
        if (before != nullptr && before->recording != nullptr && before->report == nullptr && !opening &&
            epoch == ticket)
            opening = {before->path, before->other, before->of_run ? before->recording : nullptr};
        throw;
    }
    return true;
}

std::shared_ptr<Document> Session::Work::begin_document(const Opening& what) {
    static std::atomic<std::uint64_t> generations = 0;
    auto opened = std::make_shared<Document>();
    opened->path = what.path;
    opened->other = what.other;
    opened->stamps = stamps_of(what.path, what.other);
    opened->of_run = what.recording != nullptr;
    opened->generation = ++generations;
    return opened;
}

std::shared_ptr<Document> Session::Work::open_document(const Opening& what, std::uint64_t ticket) {
    std::shared_ptr<Document> opened = begin_document(what);
    opened->recording = opened->of_run ? what.recording : open_recording(what.path);
    check(ticket);
    if (!what.other.empty()) opened->other_recording = open_recording(what.other);
    check(ticket);
    return opened;
}

void Session::Work::publish(const DocumentPointer& shown, const std::vector<PictureKey>& filled) {
    document = shown;
    forget_everything();
    file_changed = file_gone = file_written_over = false;
    for (const auto& [plane, quantity] : filled) picture_of(plane, quantity).state = Picture::State::running;
    ++version;
}

/// The document is shown as soon as a tile was judged: before that a refusal must leave no trace.
Report Session::Work::judge_whole(const std::shared_ptr<Document>& opened, TileMap& map, EndToEnd* end_to_end,
                                  std::uint64_t ticket) {
    begin(judging, "judging " + opened->path);
    const std::vector<PictureKey> filled = first_pictures(*opened);
    std::mutex showing;
    bool shown = false;
    std::array<std::shared_ptr<Pyramid>, stage_count> targets;
    const auto show = [&] {
        const std::scoped_lock once(showing);
        if (shown) return;
        const std::scoped_lock lock(mutex);
        check(ticket);
        publish(opened, filled);
        for (const PictureKey& key : filled)
            targets[static_cast<std::size_t>(key.first.stage)] = pictures.at(key).pyramid;
        shown = true;
    };
    const Recording& recording = *opened->recording;
    const ObservedTileFunction observe = [&](const ObservedTile& tile) {
        check(ticket);
        show();
        QuantityValues values;
        values_of(tile, Quantity::over_budget, values);
        const Stage stage = tile.context.stage;
        map.set(stage, tile.context.tile, finding_of(tile, values));
        const PlaceInPlane corner = corner_of(recording.problem(), stage, tile.context.tile);
        if (corner.plane != Plane{stage, 0, 0, 0}) return;
        targets[static_cast<std::size_t>(stage)]->set_tile(corner.row, corner.col, tile.got.rows(),
                                                           tile.got.cols(), values.values, values.kinds);
    };
    JudgeOptions judge_with = judge_options(judging, ticket, options.threads);
    judge_with.observe = observer_of(recording, opened->other_recording.get(), options.compare, observe);
    RowsByStage found;
    const ObservedTileFunction observe_again = [&](const ObservedTile& tile) {
        observe(tile);
        if (end_to_end != nullptr) found.add(end_to_end_of(tile), end_to_end->map);
    };
    judge_with.observe_inherited = inherited_observer_of(recording, options.compare, observe_again);
    try {
        const Report report = report_of(*opened, judge_with);
        show();
        map.finish(recording, opened->other_recording.get());
        if (end_to_end != nullptr) {
            end_to_end->map.finish_from(map);
            end_to_end->bad_rows = found.all(report);
        }
        for (const PictureKey& key : filled) {
            const auto& target = targets[static_cast<std::size_t>(key.first.stage)];
            set_missing_tiles(recording, opened->other_recording.get(), key.first, *target);
            set_unjudged_tiles(recording, key.first, *target);
            target->complete();
        }
        end_pictures(*opened, filled, Picture::State::done);
        return report;
    } catch (...) {
        // Of one that is not wanted any more, the pictures may be in other hands by now.
        if (shown && epoch == ticket) end_pictures(*opened, filled, Picture::State::stopped);
        throw;
    }
}

void Session::Work::end_pictures(const Document& of, const std::vector<PictureKey>& keys,
                                 Picture::State state) {
    const std::scoped_lock lock(mutex);
    if (document == nullptr || document->generation != of.generation) return;
    for (const PictureKey& key : keys) {
        const auto found = pictures.find(key);
        if (found != pictures.end() && found->second.state == Picture::State::running)
            found->second.state = state;
    }
    ++version;
}

}  // namespace tilescope::viewer
