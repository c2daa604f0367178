// O in the shared memory of an operand, on its way to global memory: a store that comes too early stores that operand.

#include "oracle/causes/staged_output.h"

#include <algorithm>

namespace tilescope {

namespace {

/// How rows lie in swizzled memory: `chunks` pieces of 16 bytes change places, others in every `rows` rows.
struct Swizzle {
    const char* name;
    int chunks;
    int rows;
};
constexpr Swizzle swizzles[] = {{"none", 1, 1}, {"128 bytes", 8, 1}, {"64 bytes", 4, 2}, {"32 bytes", 2, 4}};

/// The first row of the operand that a block's memory holds in the end: of its queries, or of the last keys that it sees.
std::int64_t first_row_in(const SearchedTile& site, Stage operand) {
    if (operand == Stage::q) return site.first_row;
    const Problem& problem = site.call->problem;
    const std::int64_t last_row = std::min(problem.seqlen_q, site.first_row + problem.block_m) - 1;
    const std::int64_t keys = visible_keys(problem, last_row).last;
    return keys > 0 ? (keys - 1) / problem.block_n * problem.block_n : 0;
}

/// What o holds where its rows are those of the operand.
Matrix rows_of(const SearchedTile& site, Stage operand, const Swizzle& swizzle, Eigen::Index rows) {
    const Problem& problem = site.call->problem;
    const std::int64_t head = operand == Stage::q ? site.id.head : problem.head_kv(site.id.head);
    const Matrix held =
        site.world->input_rows(operand, site.id.batch, head, first_row_in(site, operand), rows);
    const Eigen::Index chunk = Eigen::Index(16 / dtype_info(problem.dtype_o).bytes);
    Matrix read(held.rows(), held.cols());
    for (Eigen::Index i = 0; i < read.rows(); ++i) {
        const Eigen::Index moved = i / swizzle.rows % swizzle.chunks * chunk;
        for (Eigen::Index j = 0; j < read.cols(); ++j) read(i, j) = held(i, j ^ moved);
    }
    return read;
}

/// Whether most of what is wrong is what the operand left: a replay is worth it then.
bool is_left_by(const Evidence& evidence, Stage operand, const Swizzle& swizzle) {
    std::int64_t wrong = 0;
    std::int64_t equal = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        const Matrix held = rows_of(seen.site, operand, swizzle, seen.got.rows());
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                if (!seen.is_wrong(i, j)) continue;
                ++wrong;
                equal += seen.natural(i, j) == held(i, j) ? 1 : 0;
            }
        }
    }
    return 2 * equal > wrong;
}

}  // namespace

std::vector<Candidate> staged_over_operand(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const bool has_same_elements = problem.dtype_q == problem.dtype_o && problem.dtype_k == problem.dtype_o &&
                                   problem.dtype_v == problem.dtype_o;
    const bool is_swizzled_evenly = problem.head_dim % 64 == 0 && problem.head_dim == problem.head_dim_v;
    if (!evidence.direct() || !has_same_elements || !is_swizzled_evenly) return {};
    std::vector<Candidate> candidates;
    for (const Stage operand : {Stage::q, Stage::k, Stage::v}) {
        for (const Swizzle& swizzle : swizzles) {
            if (!is_left_by(evidence, operand, swizzle)) continue;
            candidates.push_back(
                {{{"memory of", std::string(stage_info(operand).name)}, {"swizzle", swizzle.name}},
                 {.result =
                      [=](const SearchedTile& site, Estimate& o) {
                          o.value = rows_of(site, operand, swizzle, o.value.rows());
                          o.error.setZero();
                      }},
                 2});
        }
    }
    return candidates;
}

}  // namespace tilescope
