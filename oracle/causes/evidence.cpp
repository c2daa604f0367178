#include "oracle/causes/evidence.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>

#include "oracle/causes/chosen_blocks.h"
#include "oracle/causes/in_parallel.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

constexpr std::size_t most_bad_tiles = 5;   ///< of a query block
constexpr std::size_t most_good_tiles = 3;  ///< of a query block
/// Units of work that judging an element takes.
constexpr std::int64_t effort_of_judging = 128;

TileContext context_of(const CauseSearch& world, const SearchedTile& site, Stage observed,
                       const MatrixF& got) {
    TileContext context =
        tile_context(world.recording(), site.call->problem, site.call->units, observed, site.id, got);
    context.expects_nan = is_operand(observed);
    context.may_be_unwritten = world.recording().capture().ended != "completed";
    return context;
}

Expected expected_at(const CauseSearch& world, const Observation& seen, const Estimate& expected,
                     Eigen::Index i) {
    // Operands must be exact copies: a tolerance given by hand is not for them.
    return expected_of(expected, i, is_operand(seen.context.stage) ? CompareOptions() : world.compare());
}

Finding finding_at(const CauseSearch& world, const Observation& seen, const Estimate& expected,
                   Eigen::Index i) {
    return judge_element(seen.context, i / seen.got.cols(), seen.got.data()[i],
                         expected_at(world, seen, expected, i));
}

/// Whether the type of P cannot hold an element because its maximum is too small: what is there then is no mistake of P.
bool overflows_by_its_maximum(const Units& units, const Observation& seen, Eigen::Index row,
                              Eigen::Index col) {
    if (seen.context.stage != Stage::p || units.p_cast == Dtype::f32) return false;
    const double least =
        (seen.expected.value(row, col) - seen.expected.error(row, col)) / seen.factor.at(row, col);
    return least > std::exp(units.m_stale_threshold) &&
           least * units.p_scale > double(dtype_info(units.p_cast).max_finite);
}

/// Nothing is asked of the elements that are inside, or outside.
void leave_unjudged(Observation& seen, const decltype(Change::where)& is_inside, bool inside) {
    for (Eigen::Index i = 0; i < seen.got.size(); ++i)
        if (is_inside(seen.site, i / seen.got.cols(), i % seen.got.cols()) == inside)
            seen.unjudged[std::size_t(i)] = true;
}

/// Marks what the inputs of the stage leave open, whatever the kernel did.
void find_unjudged(const CauseSearch& world, Observation& seen) {
    const Units& units = world.recording().units();
    seen.unjudged.assign(std::size_t(seen.got.size()), false);
    for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
        const Finding finding = finding_at(world, seen, seen.expected, i);
        const bool is_open = std::isnan(seen.expected.value.data()[i]) && finding == Finding::indifferent;
        seen.unjudged[std::size_t(i)] =
            is_open || finding == Finding::not_judged ||
            overflows_by_its_maximum(units, seen, i / seen.got.cols(), i % seen.got.cols());
    }
}

/// Compares with what is expected so far.
void judge(const CauseSearch& world, Observation& seen) {
    seen.wrong.assign(std::size_t(seen.got.size()), false);
    seen.bad_rows.assign(std::size_t(seen.got.rows()), false);
    if (seen.settled.empty()) seen.settled.assign(std::size_t(seen.got.rows()), false);
    seen.wrong_elements = seen.compared = 0;
    spend(effort_of_judging * seen.got.size());
    for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
        if (seen.unjudged[std::size_t(i)] || seen.settled[std::size_t(i / seen.got.cols())]) continue;
        const Finding finding = finding_at(world, seen, seen.expected, i);
        // NaN that a known change leaves is to be NaN.
        const bool by_change = std::isnan(seen.expected.value.data()[i]) && finding == Finding::indifferent;
        const bool unknown = finding == Finding::indifferent || finding == Finding::not_judged;
        if (unknown && !by_change) continue;
        ++seen.compared;
        if (by_change ? is_computed_nan(seen.got.data()[i]) : !is_divergence(finding)) continue;
        seen.wrong[std::size_t(i)] = true;
        seen.bad_rows[std::size_t(i / seen.got.cols())] = true;
        ++seen.wrong_elements;
    }
}

enum class Fit { none, unknown, swallowed, sharp };

/// Beyond this number a stage holds infinity, or where casts saturate the number itself.
double most_stored(const Observation& seen) {
    return dtype_info(seen.context.stage == Stage::p ? seen.site.call->units.p_cast : Dtype::f32).max_finite;
}

/// How the element is as a changed kernel has it.
Fit fit_of(const CauseSearch& world, const Observation& seen, const Estimate& changed, Eigen::Index i,
           bool widens) {
    const double value = changed.value.data()[i];
    const float got = seen.got.data()[i];
    const bool wrong = seen.wrong[std::size_t(i)];
    const auto fits_if = [](bool fits) { return fits ? Fit::sharp : Fit::none; };
    if (seen.unjudged[std::size_t(i)]) return Fit::sharp;
    // What the change leaves open explains nothing by itself.
    if (std::isinf(changed.error.data()[i])) return wrong ? Fit::unknown : Fit::sharp;
    if (is_unwritten(float(value))) return fits_if(is_unwritten(got) || seen.context.may_be_unwritten);
    // NaN explains NaN only. What nobody wrote where nothing shows is no contradiction.
    if (std::isnan(value)) return fits_if(is_computed_nan(got) || (is_unwritten(got) && !wrong));
    const double most = most_stored(seen);
    // Unless it is beyond it without the change, which then says nothing of what is left of it.
    const bool is_moved_beyond = std::abs(value) > most && !(std::abs(seen.expected.value.data()[i]) > most);
    if (std::isfinite(value) && is_moved_beyond)
        return fits_if(std::abs(got) >= most && std::signbit(got) == std::signbit(value));
    if (is_divergence(finding_at(world, seen, changed, i))) return Fit::none;
    // What the change hides need not be written. But a loop that comes by writes all of a row or nothing of it.
    if (wrong && is_unwritten(got) && !(changed.value.row(i / seen.got.cols()).array() == value).all())
        return Fit::swallowed;
    if (widens || !wrong || !std::isfinite(value)) return Fit::sharp;
    // A wider budget explains nothing: the replay has to be as near as the healthy budget asks for, or what
    // is right outside of its own.
    const double healthy = expected_at(world, seen, seen.expected, i).tolerance;
    const double allowed = expected_at(world, seen, changed, i).tolerance;
    const double moved = std::abs(double(got) - seen.expected.value.data()[i]);
    const bool is_near = std::abs(double(got) - value) <= healthy;
    return is_near || !(allowed >= moved) ? Fit::sharp : Fit::swallowed;
}

/// Adds how much nearer a wrong element is to the replay than to what is right.
void add_distance(const Observation& seen, double value, double error, Eigen::Index i, Misfit& misfit) {
    const double got = seen.got.data()[i];
    const double moved = std::abs(got - seen.expected.value.data()[i]);
    if (!std::isfinite(value) || !std::isfinite(moved)) return;
    misfit.distance += distance_from(value, error, got) / moved;
    ++misfit.distances;
}

void add_misfit(const CauseSearch& world, const Observation& seen, const Estimate& changed, Misfit& misfit) {
    spend(effort_of_judging * seen.got.size());
    for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
        if (seen.settled[std::size_t(i / seen.got.cols())]) continue;
        const Fit fit = fit_of(world, seen, changed, i, misfit.widens);
        const bool wrong = seen.wrong[std::size_t(i)];
        const double most = most_stored(seen);
        double value = changed.value.data()[i];
        if (std::isfinite(value)) value = std::clamp(value, -most, most);
        misfit.sharp += wrong && fit == Fit::sharp;
        misfit.swallowed += fit == Fit::swallowed;
        misfit.unknown += fit == Fit::unknown;
        const bool is_nan = std::isnan(value) && !is_unwritten(float(value));
        // What the mask hides stays hidden, whatever the kernel computes.
        misfit.finite += fit == Fit::sharp && std::isfinite(value) && !seen.unjudged[std::size_t(i)];
        misfit.by_value += fit == Fit::sharp && !is_nan && wrong;
        if (wrong && (fit == Fit::sharp || fit == Fit::swallowed))
            add_distance(seen, value, changed.error.data()[i], i, misfit);
        misfit.unexplained += wrong && fit == Fit::none;
        const bool is_in_bad_row = seen.bad_rows[std::size_t(i / seen.got.cols())];
        const auto count = [&](std::int64_t& bad_rows, std::int64_t& beside, std::int64_t& good_tiles) {
            ++(!seen.is_bad() ? good_tiles : is_in_bad_row ? bad_rows : beside);
        };
        if (std::isinf(changed.error.data()[i]) && !seen.unjudged[std::size_t(i)])
            count(misfit.open_in_bad_rows, misfit.open_beside_bad_rows, misfit.open_in_good_tiles);
        if (fit != Fit::sharp) count(misfit.in_bad_rows, misfit.beside_bad_rows, misfit.in_good_tiles);
    }
}

/// Whether the change leaves all that is wrong in the tile open, such as what was in memory before the first tile.
bool is_open(const Observation& seen, const Estimate& changed) {
    for (Eigen::Index i = 0; i < seen.got.size(); ++i)
        if (seen.wrong[std::size_t(i)] && !std::isinf(changed.error.data()[i])) return false;
    return seen.is_bad();
}

/// Bad tiles from both ends of the query block, and good ones, first those of KV tiles that are bad elsewhere: what would
/// be wrong in them, too, tells that a mistake is not made in this block.
std::vector<Observation> chosen_of(std::vector<Observation> all,
                                   const std::set<std::int64_t>& bad_elsewhere) {
    std::vector<std::size_t> bad;
    std::vector<std::size_t> good;
    for (std::size_t i = 0; i < all.size(); ++i) (all[i].is_bad() ? bad : good).push_back(i);
    std::ranges::stable_partition(
        good, [&](std::size_t i) { return bad_elsewhere.contains(all[i].site.id.kv_tile); });
    std::set<std::size_t> keep;
    const auto take = [&](const std::vector<std::size_t>& from, std::size_t most) {
        for (std::size_t i = 0; i < std::min(most, from.size()); ++i) {
            const std::size_t at = i + 1 == most ? from.size() - 1 : i;
            keep.insert(from[at]);
        }
    };
    take(bad, most_bad_tiles);
    take(good, most_good_tiles);
    std::vector<Observation> chosen;
    for (const std::size_t i : keep) chosen.push_back(std::move(all[i]));
    return chosen;
}

std::vector<Observation> observe_block(const CauseSearch& world, const TileId& block, Stage observed,
                                       const std::set<std::int64_t>& bad_elsewhere) {
    std::vector<Observation> all;
    ChangedReplay walk(world, block, observed, {});
    walk.run(observed, [&](const SearchedTile& site, const Estimate& expected) {
        const Problem& problem = site.call->problem;
        std::optional<MatrixF> got = load_tile(world.recording(), problem, observed, site.id);
        if (!got) return;
        Observation seen;
        seen.got = std::move(*got);
        if (!is_operand(observed))
            seen.factor = dump_factor(*site.call, observed, site.first_row, site.first_key, seen.got.rows(),
                                      seen.got.cols());
        seen.expected = in_dump_units(expected, seen.factor);
        seen.context = context_of(world, site, observed, seen.got);
        find_unjudged(world, seen);
        judge(world, seen);
        seen.site = site;
        seen.id = site.id;
        all.push_back(std::move(seen));
    });
    return chosen_of(std::move(all), bad_elsewhere);
}

/// Adds tiles of these blocks, given what was bad in those before.
void observe_blocks(Evidence& evidence, const std::vector<TileId>& blocks, int threads) {
    std::set<std::int64_t> bad_elsewhere;
    for (const Observation& seen : evidence.seen)
        if (seen.is_bad()) bad_elsewhere.insert(seen.site.id.kv_tile);
    std::vector<std::vector<Observation>> of_block(blocks.size());
    in_parallel(blocks.size(), threads, [&](std::size_t i) {
        of_block[i] = observe_block(*evidence.world, blocks[i], evidence.observed, bad_elsewhere);
    });
    for (auto& block : of_block)
        for (Observation& seen : block) evidence.seen.push_back(std::move(seen));
    evidence.blocks.insert(evidence.blocks.end(), blocks.begin(), blocks.end());
}

/// Of tiles that were judged bad ones first, which tell soonest that a change explains nothing; and what is wrong in all of them.
void arrange(Evidence& evidence) {
    std::ranges::stable_sort(evidence.seen, {}, [](const Observation& seen) { return !seen.is_bad(); });
    evidence.wrong_elements = evidence.compared = 0;
    for (const Observation& seen : evidence.seen) {
        evidence.wrong_elements += seen.wrong_elements;
        evidence.compared += seen.compared;
    }
}

void leave_out_unasked(Evidence& evidence) {
    std::erase_if(evidence.seen, [](const Observation& seen) { return seen.compared == 0; });
}

/// Of each tile seen, what the kernel with these changes holds.
void for_each_changed(const Evidence& evidence, std::span<const Change> changes,
                      const std::function<bool(std::size_t, Estimate)>& visit) {
    if (evidence.direct()) {
        for (std::size_t i = 0; i < evidence.seen.size(); ++i) {
            const Observation& seen = evidence.seen[i];
            const Estimate natural = expected_with(changes, evidence.observed, seen.site);
            if (!visit(i, in_dump_units(natural, seen.factor))) return;
        }
        return;
    }
    bool going = true;
    for (const TileId& block : evidence.blocks) {
        ChangedReplay walk(*evidence.world, block, evidence.acts, changes);
        walk.run(evidence.observed, [&](const SearchedTile& site, const Estimate& natural) {
            for (std::size_t i = 0; i < evidence.seen.size() && going; ++i) {
                if (evidence.seen[i].site.id != site.id) continue;
                going = visit(i, in_dump_units(natural, evidence.seen[i].factor));
            }
        });
        if (!going) return;
    }
}

/// Whether many numbers speak for the change, and next to none of those that are known against it.
bool is_beyond_doubt(const Misfit& misfit) {
    constexpr std::int64_t many = 64;
    return misfit.by_value >= many && misfit.unexplained * 100 <= misfit.by_value;
}

}  // namespace

SeenTiles seen_tiles_of(const Evidence& evidence) {
    SeenTiles tiles{evidence.observed, {}, evidence.wrong_elements, evidence.compared};
    for (const Observation& seen : evidence.seen) tiles.tiles.push_back(&seen);
    return tiles;
}

Evidence collect_evidence(const CauseSearch& world, const Report& report, Stage observed, int threads) {
    Evidence evidence;
    evidence.world = &world;
    evidence.acts = evidence.observed = observed;
    const ChosenBlocks blocks = choose_blocks(world, report, observed);
    observe_blocks(evidence, blocks.bad, threads);
    observe_blocks(evidence, blocks.good, threads);
    arrange(evidence);
    return evidence;
}

Evidence with_known(const Evidence& evidence, Stage acts, std::vector<Change> known) {
    Evidence next = evidence;
    next.acts = acts;
    next.known = std::move(known);
    if (next.known.empty()) return next;
    for_each_changed(next, next.known, [&](std::size_t i, Estimate changed) {
        next.seen[i].expected = std::move(changed);
        judge(*next.world, next.seen[i]);
        return true;
    });
    arrange(next);
    return next;
}

Evidence with_inputs(const Evidence& evidence, const Change& change) {
    Evidence next = evidence;
    next.beneath.push_back(change);
    next.seen.clear();
    for (const Observation& whole : evidence.seen) {
        Observation seen = whole;
        if (change.where) {
            next.seen.push_back(whole);
            leave_unjudged(next.seen.back(), change.where, true);
            judge(*next.world, next.seen.back());
            leave_unjudged(seen, change.where, false);
        }
        change.inputs(seen.site);
        const Estimate natural = expected_with(evidence.known, next.observed, seen.site);
        seen.expected = in_dump_units(natural, seen.factor);
        judge(*next.world, seen);
        next.seen.push_back(std::move(seen));
    }
    leave_out_unasked(next);
    arrange(next);
    return next;
}

namespace {

/// The same, judged again after `leave_out` was shown each tile beside what it would be with the change.
template <class LeaveOut>
Evidence judged_without(const Evidence& evidence, const Change& change, const LeaveOut& leave_out) {
    Evidence rest = evidence;
    std::vector<Change> changes = evidence.known;
    changes.push_back(change);
    for_each_changed(evidence, changes, [&](std::size_t i, const Estimate& changed) {
        leave_out(changed, rest.seen[i]);
        judge(*rest.world, rest.seen[i]);
        return true;
    });
    return rest;
}

}  // namespace

Evidence without_explained(const Evidence& evidence, const Change& change) {
    Evidence rest = judged_without(evidence, change, [&](const Estimate& changed, Observation& seen) {
        for (Eigen::Index row = 0; row < seen.got.rows(); ++row) {
            bool explained = seen.bad_rows[std::size_t(row)];
            for (Eigen::Index col = 0; col < seen.got.cols() && explained; ++col)
                explained = fit_of(*evidence.world, seen, changed, row * seen.got.cols() + col,
                                   change.widens) == Fit::sharp;
            if (explained) seen.settled[std::size_t(row)] = true;
        }
    });
    arrange(rest);
    return rest;
}

Evidence without_changed(const Evidence& evidence, const Change& change) {
    Evidence rest = judged_without(evidence, change, [](const Estimate& changed, Observation& seen) {
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            const double off = changed.error.data()[i] + seen.expected.error.data()[i];
            const double by = std::abs(changed.value.data()[i] - seen.expected.value.data()[i]);
            if (!(by <= off)) seen.unjudged[std::size_t(i)] = true;
        }
    });
    leave_out_unasked(rest);
    arrange(rest);
    return rest;
}

Evidence part_of(
    const Evidence& evidence, std::size_t most,
    const std::function<bool(const SearchedTile&, Eigen::Index row, Eigen::Index col)>& is_inside) {
    Evidence part = evidence;
    part.seen.clear();
    std::size_t kept[2] = {};
    for (const Observation& whole : evidence.seen) {
        if (std::min(kept[0], kept[1]) >= most) break;
        Observation seen = whole;
        leave_unjudged(seen, is_inside, false);
        judge(*part.world, seen);
        if (seen.compared == 0 || kept[seen.is_bad()]++ >= most) continue;
        part.seen.push_back(std::move(seen));
    }
    arrange(part);
    return part;
}

void visit_sides(const Evidence& evidence, const Change& change,
                 const std::function<void(const Observation&, Eigen::Index, Side)>& see) {
    std::vector<Change> changes = evidence.known;
    changes.push_back(change);
    for_each_changed(evidence, changes, [&](std::size_t n, Estimate changed) {
        const Observation& seen = evidence.seen[n];
        spend(effort_of_judging * seen.got.size());
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            if (seen.unjudged[std::size_t(i)] || seen.settled[std::size_t(i / seen.got.cols())]) continue;
            const bool fits = fit_of(*evidence.world, seen, changed, i, change.widens) == Fit::sharp;
            const bool wrong = seen.wrong[std::size_t(i)];
            see(seen, i,
                wrong  ? (fits ? Side::changed : Side::neither)
                : fits ? Side::either
                       : Side::healthy);
        }
        return true;
    });
}

bool Misfit::tells_values() const {
    // Twice as near, on the whole: chance does not do that where right elements have to stay right.
    return widens || distance <= 0.5 * double(distances);
}

std::int64_t left_by(Scope scope, const Misfit& misfit) {
    switch (scope) {
        case Scope::bad_tiles:
            return misfit.in_bad_tiles();
        case Scope::bad_rows:
            return misfit.in_bad_rows;
        default:
            return misfit.anywhere();
    }
}

std::int64_t open_by(Scope scope, const Misfit& misfit) {
    const std::int64_t in_bad_tiles = misfit.open_in_bad_rows + misfit.open_beside_bad_rows;
    switch (scope) {
        case Scope::bad_tiles:
            return in_bad_tiles;
        case Scope::bad_rows:
            return misfit.open_in_bad_rows;
        default:
            return in_bad_tiles + misfit.open_in_good_tiles;
    }
}

Misfit misfit_of(const Evidence& evidence, const Change& change) {
    std::vector<Change> changes = evidence.known;
    changes.push_back(change);
    Misfit misfit;
    misfit.widens = change.widens;
    std::int64_t wrong = 0;
    std::int64_t open = 0;  // in tiles that speak neither for the change nor against it
    int bad_tiles = 0;
    // Of a stage that is replayed from others, a tile takes as long as a whole query block.
    const int telling = evidence.direct() ? 3 : 1;
    for_each_changed(evidence, changes, [&](std::size_t i, Estimate changed) {
        const Observation& seen = evidence.seen[i];
        add_misfit(*evidence.world, seen, changed, misfit);
        wrong += seen.wrong_elements;
        if (change.takes_memory && is_open(seen, changed)) open += seen.wrong_elements;
        bad_tiles += seen.is_bad();
        // A change that was dumped may apply to a part of a row: only what is wrong tells.
        const std::int64_t misfits = evidence.direct() ? misfit.unexplained : misfit.in_bad_rows;
        const bool hopeless = bad_tiles >= telling && double(misfits) > 0.97 * double(wrong);
        if (hopeless) misfit.in_bad_rows = misfit.unexplained = evidence.compared;
        return !hopeless;
    });
    // What is not known says nothing against a change that as many others speak for; tiles of which nothing is known, nothing
    // against one that is proved in others.
    std::int64_t fitting = 0;
    for (const std::int64_t unknown : {misfit.unknown - open, open})
        if (misfit.sharp * (is_beyond_doubt(misfit) ? 3 : 1) >= unknown) fitting += unknown;
    misfit.unknown_left = misfit.unknown - fitting;
    if (misfit.sharp >= 3 * misfit.swallowed) fitting += misfit.swallowed;
    misfit.in_bad_rows -= std::min(fitting, misfit.in_bad_rows);
    return misfit;
}

}  // namespace tilescope
