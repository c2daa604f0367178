#include "oracle/causes/bare_scores.h"

#include <cmath>

#include "dump/schema/semantics.h"
#include "oracle/causes/product_results.h"

namespace tilescope {

double unit_of(const HeadCall& call, std::int64_t row, std::int64_t key) {
    const double of_q = call.units.q_dequantised ? 1 : call.q_descale(row);
    const double of_k = call.units.k_dequantised ? 1 : call.k_descale(key);
    return product_scale(call.problem, call.units) * of_q * of_k;
}

std::vector<BareScore> bare_scores(const Evidence& evidence) {
    std::vector<BareScore> scores;
    if (!evidence.direct() || evidence.observed != Stage::s) return scores;
    const HeadCall& call = evidence.call();
    const bool is_bare = !(call.capped() && call.units.s_capped) && !(call.biased() && call.units.s_biased);
    for (const Observation& seen : evidence.seen) {
        const SlotNumbers numbers = scores_before_cap(seen);
        const SearchedTile& site = seen.site;
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                if (!seen.is_wrong(i, j) || std::isnan(numbers.taken(i, j))) continue;
                const double unit = unit_of(*site.call, site.first_row + i, site.first_key + j);
                scores.push_back(
                    {numbers.taken(i, j), numbers.right(i, j), numbers.error(i, j), unit, is_bare});
            }
        }
    }
    return scores;
}

}  // namespace tilescope
