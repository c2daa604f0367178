#include "oracle/ranks/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "dump/schema/semantics.h"

namespace tilescope {

namespace {

/// Rows next to each other that the same steps have.
struct RowClass {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::vector<const Recording*> steps;
};

bool has_row(const Recording& step, std::int64_t position) {
    const std::int64_t row = row_at(step.problem().shard.q_positions, position);
    return row >= 0 && row < step.problem().seqlen_q;
}

/// Of all positions that any step of the rank, or what it leaves at the end, has.
std::vector<RowClass> row_classes(const RunOfRanks& run, std::int64_t rank) {
    const std::vector<const Recording*> steps = run.steps_of(rank);
    std::vector<RowClass> classes;
    for (std::int64_t position = 0; position < run.whole().seqlen_q; ++position) {
        std::vector<const Recording*> with;
        for (const Recording* const step : steps)
            if (has_row(*step, position)) with.push_back(step);
        const Recording* const final = run.final_of(rank);
        if (with.empty() && (final == nullptr || !has_row(*final, position))) continue;
        RowClass* const last = classes.empty() ? nullptr : &classes.back();
        if (last != nullptr && last->steps == with) {
            last->last = position;
        } else {
            classes.push_back({position, position, std::move(with)});
        }
    }
    return classes;
}

/// The keys that any row of the class sees: windows and diagonals move with the row, so the first and last tell.
KeyRange seen_by(const Problem& whole, const RowClass& rows) {
    const KeyRange first = visible_keys(whole, rows.first);
    const KeyRange last = visible_keys(whole, rows.last);
    if (first.empty()) return last;
    if (last.empty()) return first;
    return {std::min(first.first, last.first), std::max(first.last, last.last)};
}

/// Which step took each key first; -1 none. Stops at the first that is taken again.
std::optional<CoverageFault> fault_of(const RunOfRanks& run, const RowClass& rows, bool is_whole) {
    const KeyRange seen = seen_by(run.whole(), rows);
    if (seen.empty()) return std::nullopt;
    const auto index = [&](std::int64_t position) { return std::size_t(position - seen.first); };
    std::vector<std::int64_t> taken(std::size_t(seen.last - seen.first), -1);
    for (const Recording* const step : rows.steps) {
        const Problem& problem = step->problem();
        std::optional<CoverageFault> fault;
        for (std::int64_t key = 0; key < problem.seqlen_kv; ++key) {
            const std::int64_t position = key_position(problem, key);
            if (!seen.contains(position)) continue;
            std::int64_t& by = taken[index(position)];
            if (by < 0) {
                by = problem.shard.step;
            } else if (!fault) {
                fault = CoverageFault{problem.shard.step, rows.first, position, position, 0, -1,
                                      "keys_taken_twice", ""};
                fault->says = fmt::format("step {} has taken them", by);
            } else if (position == fault->last_key + 1) {
                fault->last_key = position;
            } else {
                ++fault->more;
            }
        }
        if (fault) return fault;
    }
    if (!is_whole) return std::nullopt;
    const auto missing = std::ranges::find(taken, -1);
    if (missing == taken.end()) return std::nullopt;
    const auto end = std::ranges::find_if(missing, taken.end(), [](std::int64_t by) { return by >= 0; });
    CoverageFault fault;
    fault.step = -1;
    fault.first_row = rows.first;
    fault.first_key = seen.first + (missing - taken.begin());
    fault.last_key = seen.first + (end - taken.begin()) - 1;
    fault.more = std::count(end, taken.end(), -1);
    fault.cause = "keys_left_out";
    fault.says = "no step takes them";
    return fault;
}

/// Whether every step that takes them is of a rank with the same keys: replicated ones, counted once a rank.
bool are_on_every_rank(const RunOfRanks& run, std::int64_t position) {
    for (std::int64_t rank = 0; rank < run.ranks(); ++rank) {
        const Recording* const owned = run.owned_by(rank);
        if (owned == nullptr) return false;
        const std::int64_t key = row_at(owned->problem().shard.kv_positions, position);
        if (key < 0 || key >= owned->problem().seqlen_kv) return false;
    }
    return run.ranks() > 1;
}

}  // namespace

std::optional<CoverageFault> find_coverage_fault(const RunOfRanks& run, std::int64_t rank) {
    const std::vector<const Recording*> steps = run.steps_of(rank);
    bool is_whole = run.final_of(rank) != nullptr && !steps.empty();
    for (std::size_t i = 0; i < steps.size(); ++i)
        is_whole = is_whole && steps[i]->problem().shard.step == std::int64_t(i);
    std::optional<CoverageFault> first;
    for (const RowClass& rows : row_classes(run, rank)) {
        std::optional<CoverageFault> fault = fault_of(run, rows, is_whole);
        const auto later = [](std::int64_t step) { return std::uint64_t(step); };  // -1 is the last of all
        if (fault && (!first || later(fault->step) < later(first->step))) first = std::move(fault);
    }
    if (!first) return std::nullopt;
    first->owner = run.owner_of(Input::k, first->first_key).recording == nullptr
                       ? -1
                       : run.owner_of(Input::k, first->first_key).rank;
    if (first->step >= 0 && are_on_every_rank(run, first->first_key)) {
        first->cause = "replicated_keys_counted_again";
        first->says = "every rank holds them, and " + first->says;
    }
    return first;
}

}  // namespace tilescope
