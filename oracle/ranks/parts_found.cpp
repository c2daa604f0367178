#include "oracle/ranks/parts_found.h"

#include <cmath>
#include <mutex>
#include <utility>

#include "dump/schema/dtype.h"
#include "dump/schema/rounding.h"
#include "oracle/judge/share_pieces.h"

namespace tilescope {

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Arrival>
void each_field(Io& io, Of& arrival) {
    auto& [input, tally, rows_not_owned, cause, says] = arrival;
    io(input, tally, rows_not_owned, cause, says);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, MergeReport>
void each_field(Io& io, Of& report) {
    auto& [is_judged, o, lse, cause, says, look_at] = report;
    io(is_judged, o, lse, cause, says, look_at);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, HeldAgainst>
void each_field(Io& io, Of& held) {
    auto& [arrivals, received, merged] = held;
    io(arrivals, received, merged);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, CoverageFault>
void each_field(Io& io, Of& fault) {
    auto& [step, first_row, first_key, last_key, more, owner, cause, says] = fault;
    io(step, first_row, first_key, last_key, more, owner, cause, says);
}

namespace {

HeldAgainst hold_against_others(const RunOfRanks& run, const Recording& part) {
    const Shard& shard = part.problem().shard;
    HeldAgainst held;
    if (shard.kind == ShardKind::owned) return held;
    const bool is_step = shard.kind == ShardKind::step;
    if (is_step && part.has_inputs() && run.owned_by(shard.rank) != &part)
        for (const Input input : {Input::q, Input::k, Input::v})
            held.arrivals.push_back(judge_arrival(run, part, input));
    if (shard.kind == ShardKind::received) held.received = judge_received(run, part);
    held.merged = shard.is_merged() ? judge_merge(run, part) : judge_final(run, part);
    return held;
}

/// The coarsest type in which o is stored anywhere.
Dtype coarsest_o(const RunOfRanks& run) {
    Dtype coarsest = Dtype::f32;
    for (const auto& part : run.parts()) {
        const Dtype dtype = part->problem().dtype_o;
        if (unit_roundoff(dtype) > unit_roundoff(coarsest)) coarsest = dtype;
    }
    return coarsest;
}

/// Each step's o was rounded to its type: half a unit in the last place of what o could be.
Estimate after_merges(Estimate expected, Stage stage, Dtype dtype) {
    if (stage != Stage::o) return expected;
    for (Eigen::Index i = 0; i < expected.value.size(); ++i) {
        const double spread = expected.spread.size() > 0 ? expected.spread.data()[i] : 0;
        expected.error.data()[i] += cast_bound(dtype, std::abs(expected.value.data()[i]) + spread);
    }
    return expected;
}

/// The tiles of some of the parts; `recordings` are theirs, one after the other.
void judge_those(std::span<const Recording* const> recordings, std::span<const JudgeOptions> options,
                 std::span<TilesFound* const> found, WorkSharing& sharing) {
    if (recordings.empty()) return;
    std::vector<TilesFound> tiles = judge_tiles(recordings, options, sharing);
    for (std::size_t i = 0; i < tiles.size(); ++i) *found[i] = std::move(tiles[i]);
}

void judge_steps(const RunOfRanks& run, std::span<const std::size_t> parts, const JudgeOptions& options,
                 WorkSharing& sharing, PartsFound& found) {
    std::vector<const Recording*> steps;
    std::vector<TilesFound*> tiles;
    for (const std::size_t i : parts) {
        if (run.parts()[i]->problem().shard.kind != ShardKind::step) continue;
        steps.push_back(run.parts()[i].get());
        tiles.push_back(&found.tiles[i]);
    }
    judge_those(steps, std::vector(steps.size(), options), tiles, sharing);
}

bool has_outputs(const Recording& recording) {
    return recording.problem().shard.kind == ShardKind::final &&
           (recording.has_stage(Stage::o) || recording.has_stage(Stage::lse));
}

/// Adds what the observers of all processes have compared.
void fold_outputs(std::span<FromAllKeys* const> all, const CompareOptions& compare, WorkSharing& sharing) {
    std::vector<std::pair<StageTally, StageTally>> outputs;
    for (FromAllKeys* const one : all) outputs.emplace_back(std::move(one->o), std::move(one->lse));
    fold(sharing, outputs, [&](const auto& part, auto& whole) {
        for (std::size_t i = 0; i < whole.size(); ++i) {
            merge(part[i].first, compare, whole[i].first);
            merge(part[i].second, compare, whole[i].second);
        }
    });
    for (std::size_t i = 0; i < all.size(); ++i) std::tie(all[i]->o, all[i]->lse) = std::move(outputs[i]);
}

void judge_from_all_keys(const RunOfRanks& run, std::span<const std::size_t> parts,
                         const JudgeOptions& options, WorkSharing& sharing, PartsFound& all) {
    std::vector<const Recording*> views;
    std::vector<JudgeOptions> observing;
    std::vector<FromAllKeys*> judged;
    std::vector<TilesFound*> tiles;
    std::mutex mutex;
    const Dtype dtype = coarsest_o(run);
    for (const std::size_t i : parts) {
        if (!has_outputs(*run.parts()[i])) continue;
        FromAllKeys& found = all.from_all_keys[i];
        found.view = std::make_unique<WholeView>(run, *run.parts()[i]);
        if (!found.has_inputs()) continue;
        views.push_back(found.view.get());
        judged.push_back(&found);
        tiles.push_back(&found.tiles);
        observing.push_back(options);
        observing.back().observe = [&](Stage stage, const TileId& tile, const MatrixF& got,
                                       const Estimate& expected) {
            const Problem& problem = found.view->problem();
            const std::lock_guard lock(mutex);
            compare_tile(tile_context(problem, stage, tile), got, after_merges(expected, stage, dtype),
                         nullptr, options.compare, stage == Stage::o ? found.o : found.lse);
        };
    }
    judge_those(views, observing, tiles, sharing);
    fold_outputs(judged, options.compare, sharing);
}

}  // namespace

PartsFound nothing_of_parts(const RunOfRanks& run, const JudgeOptions& options, WorkSharing& sharing) {
    PartsFound found;
    found.coverage = share_pieces<std::optional<CoverageFault>>(
        run.ranks(), options.threads, sharing,
        [&](std::int64_t rank) { return find_coverage_fault(run, rank); });
    found.tiles.resize(run.parts().size());
    found.beside.resize(run.parts().size());
    found.from_all_keys.resize(run.parts().size());
    return found;
}

void judge_parts(const RunOfRanks& run, std::span<const std::size_t> parts, const JudgeOptions& options,
                 WorkSharing& sharing, PartsFound& found) {
    judge_steps(run, parts, options, sharing, found);
    std::vector<WorkSharing::Stretch> stretches;
    for (const std::size_t i : parts) stretches.push_back({1, sharing.home_of(run.parts()[i]->name())});
    std::vector<HeldAgainst> beside = share_pieces<HeldAgainst>(
        stretches, options.threads, sharing,
        [&](std::int64_t i) { return hold_against_others(run, *run.parts()[parts[std::size_t(i)]]); });
    for (std::size_t i = 0; i < parts.size(); ++i) found.beside[parts[i]] = std::move(beside[i]);
    judge_from_all_keys(run, parts, options, sharing, found);
}

}  // namespace tilescope
