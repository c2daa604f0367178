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
Estimate output_past_end(const CauseSearch& world, std::int64_t batch, std::int64_t head, Stage stage) {
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
    Estimate rows = stage == Stage::o ? replay.output() : replay.log_sum_exp();
    const std::int64_t past = rows_past_end(problem);
    return {rows.value.bottomRows(past), rows.error.bottomRows(past)};
}

std::shared_ptr<const Estimate> known_past_end(const CauseSearch& world, std::int64_t batch,
                                               std::int64_t head, Stage stage) {
    const std::string name =
        "past end " + std::string(stage_info(stage).name) + " " + digits(batch) + " " + digits(head);
    return world.once<Estimate>(name, [&] { return output_past_end(world, batch, head, stage); });
}

/// Over the first rows of the next head, where that is stored before.
Change stores_over_next_head(Stage stage, std::int64_t rows) {
    return {.result = [=](const SearchedTile& site, Estimate& estimate) {
        const Problem& problem = site.call->problem;
        const std::int64_t before = site.id.batch * problem.heads + site.id.head - 1;
        const std::int64_t past = std::min(rows, rows_past_end(problem));
        if (before < 0 || site.first_row >= past) return;
        const auto tail = known_past_end(*site.world, before / problem.heads, before % problem.heads, stage);
        const auto count = std::min<Eigen::Index>(past - site.first_row, estimate.value.rows());
        estimate.value.topRows(count) = tail->value.middleRows(site.first_row, count);
        estimate.error.topRows(count) = tail->error.middleRows(site.first_row, count);
    }};
}

/// Those of the last head over lse, which begins where o ends.
Change stores_over_lse(std::int64_t rows) {
    return {.result = [=](const SearchedTile& site, Estimate& lse) {
        const Problem& problem = site.call->problem;
        const auto tail = known_past_end(*site.world, problem.batch - 1, problem.heads - 1, Stage::o);
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

/// One more than the last wrong element of the output, counted by its rows or from the beginning of its array.
std::int64_t end_of_wrong(const Evidence& evidence, bool in_array) {
    std::int64_t end = 0;
    for (const Observation& seen : evidence.seen) {
        const TileId& id = seen.site.id;
        const std::int64_t head =
            in_array ? (id.batch * evidence.problem().heads + id.head) * evidence.problem().seqlen_q : 0;
        for (std::size_t i = 0; i < seen.bad_rows.size(); ++i)
            if (seen.bad_rows[i]) end = std::max(end, head + seen.site.first_row + std::int64_t(i) + 1);
    }
    return end;
}

/// All rows past the end, or as many as are needed for what is wrong.
template <class ChangeOf>
std::vector<Candidate> candidates_of_rows(std::int64_t past, std::int64_t needed, const ChangeOf& change_of) {
    std::vector<Candidate> candidates;
    if (needed > past || needed == 0) return candidates;
    candidates.push_back({{}, change_of(past)});
    if (needed < past) candidates.push_back({{{"rows", digits(needed)}}, change_of(needed), 1});
    return candidates;
}

bool is_past_end_known(const Evidence& evidence) {
    return evidence.direct() && !evidence.call().read_bias && !evidence.call().visible &&
           evidence.world->recording().side_inputs().seqlens_q.empty();
}

std::vector<Candidate> stored_past_end(const Evidence& evidence) {
    if (!is_past_end_known(evidence)) return {};
    return candidates_of_rows(
        rows_past_end(evidence.problem()), end_of_wrong(evidence, false),
        [stage = evidence.acts](std::int64_t rows) { return stores_over_next_head(stage, rows); });
}

std::vector<Candidate> stored_over_lse(const Evidence& evidence) {
    if (!is_past_end_known(evidence)) return {};
    const std::int64_t past = rows_past_end(evidence.problem());
    const std::int64_t cols = evidence.problem().head_dim_v;
    const std::int64_t rows = (end_of_wrong(evidence, true) + cols - 1) / cols;
    return candidates_of_rows(past, std::min(rows, past), stores_over_lse);
}

}  // namespace

std::vector<Cause> past_end_causes() {
    return {{"rows_stored_past_end",
             "coverage",
             {Stage::o, Stage::lse},
             "rows past the end of the sequence are stored, over the first rows of the next head",
             "the bound of the store",
             stored_past_end},
            {rows_stored_over_lse_name,
             "coverage",
             {Stage::lse},
             "rows of o past the end of the last head are stored, over lse, which lies behind it",
             "the bound of the store of o",
             stored_over_lse}};
}

}  // namespace tilescope
