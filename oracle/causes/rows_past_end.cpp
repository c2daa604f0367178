// Rows past the end of the sequence that are stored as well: their q is zeros, so that what they hold is known.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "dump/schema/rounding.h"
#include "dump/schema/semantics.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/signature.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// Rows of the last query block that no query has.
std::int64_t rows_past_end(const Problem& problem) {
    return problem.q_blocks() * problem.block_m - problem.seqlen_q;
}

/// The call as its last query block computes it, whole.
HeadCall with_whole_blocks(const HeadCall& call) {
    HeadCall whole = call;
    const std::int64_t past = rows_past_end(call.problem);
    whole.problem.seqlen_q += past;
    // A diagonal that is aligned with the end stays where it was.
    if (diagonal_of(whole.problem, 0) != diagonal_of(call.problem, 0)) whole.problem.diagonal_offset += past;
    if (whole.q_descale.size() > 0) {
        whole.q_descale.conservativeResize(whole.problem.seqlen_q);
        whole.q_descale.tail(past).setOnes();
    }
    return whole;
}

/// The output's rows past the end, in natural units: those of one head.
Estimate output_past_end(const CauseSearch& world, std::int64_t batch, std::int64_t head) {
    const HeadCall& call = *world.call(batch, head);
    const Problem& problem = call.problem;
    const HeadCall whole = with_whole_blocks(call);
    const std::int64_t block = problem.q_blocks() - 1;
    const std::int64_t first = block * problem.block_m;
    const Operand q = staged_operand(whole, Stage::q, first,
                                     world.input_rows(Stage::q, batch, head, first, problem.block_m))
                          .natural;
    Replay replay(whole, block, Stage::acc, Replay::Source::inputs);
    for (std::int64_t i = 0; i < problem.kv_tiles(); ++i) {
        const std::int64_t tile = kv_tile_in_order(problem, world.recording().units().kv_order, i);
        if (!tile_is_visible(problem, block, tile)) continue;
        const std::int64_t key = tile * problem.block_n;
        const auto staged = [&](Stage operand) {
            const std::int64_t keys = std::min(problem.block_n, problem.seqlen_kv - key);
            return staged_operand(whole, operand, key,
                                  world.input_rows(operand, batch, problem.head_kv(head), key, keys))
                .natural;
        };
        replay.step(tile, {q, staged(Stage::k), staged(Stage::v)}, {});
    }
    Estimate rows = replay.output();
    const std::int64_t past = rows_past_end(problem);
    return {rows.value.bottomRows(past), rows.error.bottomRows(past)};
}

/// Those of the last head over lse, which begins where o ends.
Change stores_over_lse(std::int64_t rows) {
    return {.result = [=](const SearchedTile& site, Estimate& lse) {
        const Problem& problem = site.call->problem;
        const auto tail = site.world->once<Estimate>("o past the end", [&] {
            return output_past_end(*site.world, problem.batch - 1, problem.heads - 1);
        });
        const std::int64_t stored = std::min(rows, rows_past_end(problem)) * problem.head_dim_v;
        const std::int64_t first =
            (site.id.batch * problem.heads + site.id.head) * problem.seqlen_q + site.first_row;
        const DumpFactor factor = dump_factor(*site.call, Stage::lse, site.first_row, 0, lse.value.rows(), 1);
        for (Eigen::Index i = 0; i < lse.value.rows() && first + i < stored; ++i) {
            const double value = tail->value.data()[first + i];
            const double error = tail->error.data()[first + i] + cast_bound(problem.dtype_o, std::abs(value));
            lse.value(i, 0) = value / factor.at(i, 0);
            lse.error(i, 0) = error / std::abs(factor.at(i, 0));
        }
    }};
}

/// One more than the last wrong element of lse, from the beginning of its array.
std::int64_t end_of_wrong(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    std::int64_t end = 0;
    for (const Observation& seen : evidence.seen) {
        const TileId& id = seen.site.id;
        const std::int64_t head = (id.batch * problem.heads + id.head) * problem.seqlen_q;
        for (std::size_t i = 0; i < seen.bad_rows.size(); ++i)
            if (seen.bad_rows[i]) end = std::max(end, head + seen.site.first_row + std::int64_t(i) + 1);
    }
    return end;
}

bool is_past_end_known(const Evidence& evidence) {
    return evidence.direct() && !evidence.call().read_bias && !evidence.call().visible &&
           evidence.world->recording().side_inputs().seqlens_q.empty();
}

/// All rows past the end, or as many as are needed for what is wrong.
std::vector<Candidate> stored_over_lse(const Evidence& evidence) {
    const std::int64_t past = rows_past_end(evidence.problem());
    const std::int64_t cols = evidence.problem().head_dim_v;
    const std::int64_t needed = std::min((end_of_wrong(evidence) + cols - 1) / cols, past);
    if (!is_past_end_known(evidence) || needed == 0) return {};
    std::vector<Candidate> candidates = {{{}, stores_over_lse(past)}};
    if (needed < past) candidates.push_back({{{"rows", digits(needed)}}, stores_over_lse(needed), 1});
    return candidates;
}

}  // namespace

std::vector<Cause> past_end_causes() {
    return {{rows_stored_past_end_name,
             "coverage",
             {Stage::o, Stage::lse, Stage::dq, Stage::dk, Stage::dv},
             "rows past the end of the sequence are stored, over the first rows of the next head",
             "the bound of the store",
             nullptr},
            {rows_stored_over_lse_name,
             "coverage",
             {Stage::lse},
             "rows of o past the end of the last head are stored, over lse, which lies behind it",
             "the bound of the store of o",
             stored_over_lse}};
}

}  // namespace tilescope
