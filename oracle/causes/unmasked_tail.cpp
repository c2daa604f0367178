// A kernel without a mask behind the last key, from what follows: the maximum, the sums and the output.

#include <algorithm>

#include "oracle/causes/phantoms.h"
#include "oracle/causes/table.h"

namespace tilescope {

namespace {

/// Nobody knows what lies behind the last head: nothing is claimed of it.
Matrix rows_or_nothing(const SearchedTile& site, Stage operand, PhantomKeys which, std::int64_t first,
                       std::int64_t count) {
    const std::optional<Matrix> rows = phantom_rows(site, operand, which, first, count);
    return rows ? *rows : Matrix::Zero(count, tile_shape(site.call->problem, operand).cols);
}

Change shows_tail(PhantomKeys which) {
    const auto leave_open = [=](const SearchedTile& site, Estimate& s) {
        const std::int64_t keys = site.world->call(site.id.batch, site.id.head)->problem.seqlen_kv;
        const std::int64_t behind = site.first_key + s.value.cols() - keys;
        if (behind > 0 && !phantom_rows(site, Stage::k, which, keys, behind))
            s.error.rightCols(behind).setConstant(infinity);
    };
    return {
        .result = leave_open,
        .keys_behind = [=](const SearchedTile& site, Stage operand, std::int64_t first, std::int64_t count) {
            return rows_or_nothing(site, operand, which, first, count);
        }};
}

}  // namespace

std::vector<Candidate> tail_not_masked(const Evidence& evidence) {
    const CauseSearch& world = *evidence.world;
    const Problem& problem = evidence.problem();
    const bool is_seen = world.has(Stage::k) || world.has(Stage::v) || world.has(Stage::p);
    const bool has_tail = std::ranges::any_of(evidence.blocks, [&](const TileId& block) {
        const Problem& entry = world.call(block.batch, block.head)->problem;
        return entry.seqlen_kv % entry.block_n != 0;
    });
    // In the maximum and in the row sum the tail has names of its own.
    if (evidence.observed < Stage::acc || is_seen || !has_tail || problem.direction == Direction::backward)
        return {};
    std::vector<Candidate> candidates;
    for (const NamedPhantoms& phantoms : all_phantoms) {
        if (phantoms.keys == PhantomKeys::nan) continue;
        candidates.push_back({{{"they are", phantoms.name}}, shows_tail(phantoms.keys)});
    }
    return candidates;
}

}  // namespace tilescope
