// P in the shared memory of V: what is left of V depends on what is stored over it.

#include <bit>
#include <limits>
#include <optional>

#include "oracle/causes/signature.h"
#include "oracle/causes/staged_output.h"

namespace tilescope {

namespace {

/// P of a tile as the kernel stores it: as dumped, and as masks and rows of zeros make it beyond seqlen_q and
/// seqlen_kv, of which nothing is dumped. NaN where that is not known; nullopt where P was not dumped.
std::optional<MatrixF> whole_p(const SearchedTile& site) {
    const HeadCall& call = *site.call;
    const Problem& problem = call.problem;
    MatrixF p(problem.block_m, problem.block_n);
    if (!site.world->has(Stage::p) ||
        !site.world->recording().read_tile(Stage::p, site.id, {p.data(), std::size_t(p.size())}))
        return std::nullopt;
    const bool zero_scores = !call.biased() && problem.sink == AttentionSink::none;
    for (Eigen::Index i = 0; i < p.rows(); ++i) {
        const std::int64_t row = site.first_row + i;
        const KeyRange seen = visible_keys(problem, row);
        for (Eigen::Index j = 0; j < p.cols(); ++j) {
            const std::int64_t key = site.first_key + j;
            if (row < problem.seqlen_q && key < problem.seqlen_kv) continue;
            const bool is_open = row >= problem.seqlen_q && !zero_scores;
            p(i, j) = is_open              ? std::numeric_limits<float>::quiet_NaN()
                      : seen.contains(key) ? float(call.units.p_scale)
                                           : 0;
        }
    }
    return p;
}

/// Rows of P as raw numbers in the memory of V, with rows of `ld_v` and `ld_p` elements.
Change overwritten_by_p(std::int64_t ld_v, std::int64_t ld_p) {
    return {.result = [=](const SearchedTile& site, Estimate& e) {
        const std::optional<MatrixF> p = whole_p(site);
        if (!p) return;
        const Problem& problem = site.call->problem;
        for (Eigen::Index i = 0; i < e.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < e.value.cols(); ++j) {
                const std::int64_t half = i * ld_v + j;
                const std::int64_t row = half / 2 / ld_p;
                const std::int64_t col = half / 2 % ld_p;
                if (row >= p->rows() || col >= p->cols()) continue;
                const auto bits = std::bit_cast<std::uint32_t>((*p)(row, col));
                e.value(i, j) = double(decode(problem.dtype_v, half % 2 == 0 ? bits & 0xffffu : bits >> 16));
                e.error(i, j) = std::isnan((*p)(row, col)) ? infinity : 0;
            }
        }
    }};
}

std::vector<Candidate> buffer_aliased(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Problem& problem = evidence.problem();
    if (!evidence.world->has(Stage::p) || dtype_info(problem.dtype_v).bytes != 2) return {};
    for (const std::int64_t v_padding : {0, 8, 16}) {
        for (const std::int64_t p_padding : {0, 4, 8, 16})
            candidates.push_back(
                {{{"padding of V", digits(v_padding)}, {"padding of P", digits(p_padding)}},
                 overwritten_by_p(problem.head_dim_v + v_padding, problem.block_n + p_padding),
                 2});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> overwritten_causes() {
    return {
        {"buffer_aliased",
         "unwritten / stale",
         {Stage::v},
         "P is stored over the V tile that it is about to be multiplied with",
         "the shared memory that P and V share",
         buffer_aliased},
        {"operand_stored_as_o",
         "unwritten / stale",
         {Stage::o},
         "the output holds the operand in whose shared memory it is staged",
         "the barrier and the fence between the stores to shared memory and the copy from it",
         staged_over_operand},
    };
}

}  // namespace tilescope
