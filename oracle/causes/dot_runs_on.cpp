// A product over the padded head_dim, of operands that are loaded without a bound: each row goes on with those behind it.

#include <algorithm>
#include <set>
#include <utility>

#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

/// Features [head_dim, features) of each row, as memory goes on behind it; behind the array zeros.
Matrix features_behind(const SearchedTile& site, Stage stage, std::int64_t rows, std::int64_t features) {
    const Problem& problem = site.world->recording().problem();
    const std::int64_t dims = problem.head_dim;
    const bool is_query = is_of_queries(stage);
    const std::int64_t first = is_query ? site.first_row : site.first_key;
    const std::int64_t head = is_query ? site.id.head : problem.head_kv(site.id.head);
    const std::int64_t heads = is_query ? problem.heads : problem.heads_kv;
    const std::int64_t length = is_query ? problem.seqlen_q : problem.seqlen_kv;
    const std::int64_t further = (features - dims + dims - 1) / dims;
    // Rows behind the head's last one are the first ones of the next head.
    Matrix memory = site.world->input_rows(stage, site.id.batch, head, first + 1, rows + further);
    const std::int64_t inside = std::clamp<std::int64_t>(length - first - 1, 0, memory.rows());
    const std::int64_t next = head + 1 < heads ? head + 1 : 0;
    const std::int64_t batch = site.id.batch + (head + 1 == heads);
    if (inside < memory.rows())
        memory.bottomRows(memory.rows() - inside) =
            site.world->input_rows(stage, batch, next, 0, memory.rows() - inside);
    Matrix behind(rows, features - dims);
    for (Eigen::Index i = 0; i < rows; ++i)
        for (Eigen::Index d = 0; d < behind.cols(); ++d) behind(i, d) = memory(i + d / dims, d % dims);
    return behind;
}

Change runs_on(std::int64_t features) {
    return {.inputs = [=](SearchedTile& site) {
        for (const auto& [stage, operand] : {std::pair(Stage::q, &site.q), std::pair(Stage::k, &site.k)}) {
            const Matrix behind = features_behind(site, stage, operand->value.rows(), features);
            operand->value.conservativeResize(Eigen::NoChange, features);
            operand->value.rightCols(behind.cols()) = behind;
        }
    }};
}

}  // namespace

std::vector<Candidate> dot_runs_on(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const SideInputs& side = evidence.world->recording().side_inputs();
    // Entries of other lengths may be packed or paged: what lies behind a row is not known then.
    const bool is_plain =
        side.descale_q.empty() && side.descale_k.empty() && side.seqlens_q.empty() && side.seqlens_kv.empty();
    if (!is_plain || evidence.units().q_scale != 1 || evidence.units().k_scale != 1) return {};
    std::set<std::int64_t> padded;
    for (const std::int64_t multiple : {16, 32, 64, 128})
        padded.insert((problem.head_dim + multiple - 1) / multiple * multiple);
    padded.erase(problem.head_dim);
    std::vector<Candidate> candidates;
    for (const std::int64_t features : padded)
        candidates.push_back({{{"features", digits(features)}}, runs_on(features)});
    return candidates;
}

}  // namespace tilescope
