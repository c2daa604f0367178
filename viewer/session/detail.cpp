// The thread that answers questions about elements, rows and selections.

#include <algorithm>
#include <mutex>

#include "dump/schema/error.h"
#include "oracle/explain/explain.h"
#include "oracle/heatmap/drift_rows.h"
#include "oracle/program/explain_element.h"
#include "viewer/session/work.h"

namespace tilescope::viewer {

namespace {

std::string explanation_of(const Document& of, const std::string& element) {
    if (of.declared == nullptr)
        return to_text(explain_tolerance(*of.recording, element_place(*of.recording, element)));
    const RecordedCall& recorded = of.declared->recorded;
    return explanation_text(recorded.program,
                            explain_stage_element(recorded.call, recorded.stored,
                                                  stage_element(recorded.call, element, element)));
}

}  // namespace

template <class Key, class Value, class Compute>
bool Session::Work::answer(std::unique_lock<std::mutex>& lock, Answers<Key, Value>& questions,
                           const char* message, Compute compute) {
    const std::optional<Key> key = questions.take();
    if (!key) return false;
    const std::uint64_t ticket = epoch;
    const DocumentPointer of = document;
    activities[detailing] = {true, message, 0};
    lock.unlock();
    try {
        auto value = std::make_shared<const Value>(compute(*of, *key, ticket));
        lock.lock();
        // Of another document it is no answer.
        if (document != nullptr && document->generation == of->generation) questions.put(*key, value);
    } catch (const Cancelled&) {
        lock.lock();
        questions.forget(*key);
        throw;
    } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        questions.put(*key, nullptr);
        throw;
    }
    return true;
}

bool Session::Work::step_detailing(std::unique_lock<std::mutex>& lock) {
    // A declared kernel was read as a whole.
    if (document == nullptr || (file_written_over && document->declared == nullptr)) return false;
    const auto explain = [](const Document& of, const std::string& element, std::uint64_t) {
        try {
            return explanation_of(of, element);
        } catch (const Error& refusal) {
            return one_line(refusal.what()) + "\n";
        }
    };
    if (answer(lock, explanations, "", explain)) return true;
    const auto read = [](const Document& of, const WritersQuestion& q, std::uint64_t) {
        std::vector<ElementWriter> found(
            static_cast<std::size_t>(tile_shape(of.problem(), q.first).elements()));
        of.recording->read_writers(q.first, q.second, found);
        return found;
    };
    if (answer(lock, writers, "", read)) return true;
    const auto trace = [this](const Document& of, const RowQuestion& q, std::uint64_t ticket) {
        return trace_row(*of.recording, of.other_recording.get(), judge_options(detailing, ticket, 1),
                         q.batch, q.head, q.row);
    };
    if (answer(lock, rows, "", trace)) return true;
    for (const Reference against : {Reference::local, Reference::end_to_end, Reference::replay})
        if (detail_from(lock, against)) return true;
    const auto follow = [this](const Document& of, const HistoryPlace& place, std::uint64_t ticket) {
        JudgeOptions judge_with = judge_options(detailing, ticket, 1);
        judge_with.may_inherit = of.report != nullptr && of.report->guilty.has_value();
        return pixel_history(*of.recording, of.other_recording.get(), judge_with, place);
    };
    if (answer(lock, histories, "", follow)) return true;
    const auto count = [this](const Document& of, const HistogramQuestion& q, std::uint64_t ticket) {
        return compute_histogram(of, q, ticket);
    };
    if (answer(lock, histograms, "counting", count)) return true;
    const auto drift = [this](const Document& of, const DriftQuestion& head, std::uint64_t ticket) {
        return drift_rows(*of.recording, head.first, head.second, default_confidence,
                          judge_options(detailing, ticket, 1).progress);
    };
    if (answer(lock, drifts, "computing the drift", drift)) return true;
    const auto compare = [this](const Document& of, const StageQuestion& question, std::uint64_t ticket) {
        return viewer::stage_values(*of.declared, question, [this, ticket] { check(ticket); });
    };
    if (answer(lock, stage_values, "judging the elements", compare)) return true;
    const auto draw = [this](const Document&, const SheetQuestion& question, std::uint64_t) {
        return viewer::picture_of(*known_values(question.of), question);
    };
    if (answer(lock, sheets, "", draw)) return true;
    const auto count_part = [this](const Document&, const SheetPart& part, std::uint64_t) {
        return histogram_of(*known_values(part.of), part);
    };
    return answer(lock, sheet_histograms, "", count_part);
}

bool Session::Work::detail_from(std::unique_lock<std::mutex>& lock, Reference against) {
    DetailStore& store = details[static_cast<std::size_t>(against)];
    const auto band = store.next();
    if (!band) return false;
    const std::uint64_t ticket = epoch;
    const std::uint64_t replay_ticket = replay_epoch;
    const DocumentPointer of = document;
    const Stage stage = band->tiles.begin()->first;
    const bool replays = against == Reference::replay;
    const auto replay = replays ? replay_of(stage) : nullptr;
    activities[detailing] = {true, "", 0};
    lock.unlock();
    // Stages without query blocks may be of a KV head.
    const std::int64_t head = query_heads(of->problem(), stage, band->head).first;
    const std::optional<std::int64_t> q_block =
        band->per_q_block ? std::optional(band->q_block) : std::nullopt;
    const auto check_wanted = [&] {
        check(ticket);
        if (replays && replay_epoch != replay_ticket) throw Cancelled();
    };
    compute_band(*of, store, *band, check_wanted, [&](const ObservedTileFunction& observe) {
        if (replay != nullptr) {
            observe_replayed(*of->recording, *of->report, *replay, cause_options(ticket, 1), band->batch,
                             head, q_block, observe);
        } else {
            show_tiles(*of, against, judge_options(detailing, ticket, 1), band->batch, head, q_block,
                       observe);
        }
    });
    return true;
}

void Session::Work::compute_band(const Document& of, DetailStore& store, const DetailStore::Band& band,
                                 const std::function<void()>& check_wanted,
                                 const std::function<void(const ObservedTileFunction&)>& show_all) {
    const auto put = [&](const DetailStore::Key& key, std::shared_ptr<const DetailTile> tile) {
        const std::scoped_lock lock(mutex);
        check_wanted();
        if (document == nullptr || document->generation != of.generation) throw Cancelled();
        store.put(key, std::move(tile));
        ++version;
    };
    std::set<DetailStore::Key> left = band.tiles;
    // What may have inherited an error is shown again: until then nobody is told that it matches.
    std::map<DetailStore::Key, std::shared_ptr<const DetailTile>> found;
    try {
        show_all([&](const ObservedTile& tile) {
            check_wanted();
            DetailStore::Key key{tile.context.stage, tile.context.tile};
            if (left.contains(key)) found[key] = std::make_shared<const DetailTile>(tile);
        });
        for (auto& [key, tile] : found) {
            left.erase(key);
            put(key, std::move(tile));
        }
    } catch (const Cancelled&) {
        throw;
    } catch (...) {
        // Not asked for over and over.
        for (const DetailStore::Key& key : left) put(key, nullptr);
        throw;
    }
    for (const DetailStore::Key& key : left) put(key, nullptr);
}

Histogram Session::Work::compute_histogram(const Document& of, const HistogramQuestion& question,
                                           std::uint64_t ticket) {
    const Plane& plane = question.plane;
    const Problem& problem = of.problem();
    Histogram whole;
    std::mutex merging;
    const auto observe = [&](const ObservedTile& tile) {
        const PlaceInPlane corner = corner_of(problem, tile.context.stage, tile.context.tile);
        if (corner.plane != plane) return;
        check(ticket);
        const Rect& r = question.elements;
        const auto from_zero = [](std::int64_t x) { return std::max<std::int64_t>(x, 0); };
        const Rect part{from_zero(r.first_row - corner.row), from_zero(r.first_col - corner.col),
                        r.last_row - corner.row, r.last_col - corner.col};
        if (part.empty()) return;
        Histogram of_tile;
        add_tile(tile, part, of_tile);
        const std::scoped_lock lock(merging);
        merge(of_tile, whole);
    };
    const PlaneShape shape = plane_shape(problem, plane.stage);
    const auto row = [&](std::int64_t x) { return std::clamp<std::int64_t>(x, 0, shape.rows - 1); };
    const std::int64_t first =
        place_in_tile(problem, plane, row(question.elements.first_row), 0).tile.q_block;
    const std::int64_t last =
        place_in_tile(problem, plane, row(question.elements.last_row - 1), 0).tile.q_block;
    // A pass over the head loads K and V once; one over a query block each time.
    constexpr std::int64_t few = 16;
    const JudgeOptions judge_with = judge_options(detailing, ticket, 1);
    const std::int64_t head = query_heads(problem, plane.stage, plane.head).first;
    const StageInfo info = stage_info(problem, plane.stage);
    // Each tile is counted once.
    const auto count = [&](std::optional<std::int64_t> q_block) {
        if (question.against == Reference::end_to_end)
            return observe_end_to_end(*of.recording, judge_with, plane.batch, head, q_block, observe);
        observe_tiles(*of.recording, of.other_recording.get(), judge_with, plane.batch, head, q_block,
                      observe);
    };
    if (last - first >= few || !info.per_q_block || info.col_axis == Axis::query) {
        count(std::nullopt);
        return whole;
    }
    for (std::int64_t q_block = first; q_block <= last; ++q_block) count(q_block);
    return whole;
}

}  // namespace tilescope::viewer
