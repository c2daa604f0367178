#include "oracle/causes/replayed.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <map>

#include "oracle/replay.h"
#include "oracle/tiles.h"

namespace tilescope {

namespace {

using SeeTile = std::function<void(const Site&, const MatrixF& got, Estimate expected)>;

/// The captured tiles of a query block, and what a kernel with these changes holds, in the dump's units.
void replay_block(const World& world, const TileId& block, const CauseReplay& replay,
                  std::span<const Change> changes, const SeeTile& see) {
    const Stage stage = replay.observed;
    const bool operand = stage == Stage::q || stage == Stage::k || stage == Stage::v;
    Walk walk(world, block, replay.acts, changes);
    walk.run(stage, [&](const Site& site, const Estimate& natural) {
        const auto got = load_tile(world.recording(), site.call->problem, stage, site.id);
        if (!got) return;
        const DumpFactor factor = operand ? DumpFactor()
                                          : dump_factor(*site.call, stage, site.first_row, site.first_key,
                                                        got->rows(), got->cols());
        see(site, *got, in_dump_units(natural, factor));
    });
}

/// Outside of its scope a kernel is as it is without the mistake.
void keep_to(Scope scope, const ObservedTile& without, Estimate& expected) {
    std::vector<bool> bad(std::size_t(without.got.rows()), false);
    for (Eigen::Index row = 0; row < without.got.rows(); ++row)
        for (Eigen::Index col = 0; col < without.got.cols() && !bad[std::size_t(row)]; ++col)
            bad[std::size_t(row)] = is_divergence(judged_element(without, row, col).finding);
    const bool bad_tile = std::ranges::find(bad, true) != bad.end();
    for (Eigen::Index row = 0; row < without.got.rows(); ++row) {
        if (scope == Scope::bad_tiles ? bad_tile : bad[std::size_t(row)]) continue;
        expected.value.row(row) = without.expected->value.row(row);
        expected.error.row(row) = without.expected->error.row(row);
    }
}

void observe_block(const World& world, const TileId& block, const CauseReplay& replay,
                   const ObservedTileFunction& observe) {
    const std::span<const Change> changes(replay.changes);
    const Stage stage = replay.observed;
    std::map<TileId, Estimate> without;
    if (replay.scope != Scope::everywhere) {
        const auto keep = [&](const Site& site, const MatrixF&, Estimate expected) {
            without[site.id] = std::move(expected);
        };
        replay_block(world, block, replay, changes.first(changes.size() - 1), keep);
    }
    replay_block(world, block, replay, changes, [&](const Site& site, const MatrixF& got, Estimate expected) {
        const Problem& problem = site.call->problem;
        const auto found = without.find(site.id);
        if (found != without.end()) {
            const TileContext context = observed_context(problem, stage, site.id, false);
            keep_to(replay.scope, {problem, context, got, &found->second, world.compare()}, expected);
        }
        // A mistake may leave NaN and unwritten elements: those are expected, then.
        const TileContext context = observed_context(problem, stage, site.id, true);
        observe({problem, context, got, &expected, world.compare()});
    });
}

}  // namespace

void observe_replayed(const Recording& recording, const Report& report, const CauseReplay& replay,
                      const CauseOptions& options, std::int64_t batch, std::int64_t head,
                      std::optional<std::int64_t> q_block, const ObservedTileFunction& observe) {
    const World world(recording, options.compare, report.confidence, options.check);
    const Problem entry = problem_of(recording.problem(), recording.side_inputs(), batch);
    const std::int64_t first = q_block.value_or(0);
    const std::int64_t last = std::min(q_block ? first + 1 : entry.q_blocks(), entry.q_blocks());
    std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic) \
    num_threads(options.threads > 0 ? options.threads : omp_get_max_threads())
    for (std::int64_t block = first; block < last; ++block) {
        try {
            observe_block(world, {batch, head, block, 0}, replay, observe);
        } catch (...) {
#pragma omp critical
            failure = std::current_exception();
        }
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace tilescope
