#include "oracle/causes/bare_scores.h"

#include <cmath>

#include "dump/schema/semantics.h"
#include "oracle/formula/scores.h"

namespace tilescope {

double unit_of(const HeadCall& call, std::int64_t row, std::int64_t key) {
    const double of_q = call.units.q_dequantised ? 1 : call.q_descale(row);
    const double of_k = call.units.k_dequantised ? 1 : call.k_descale(key);
    return product_scale(call.problem, call.units) * of_q * of_k;
}

void for_each_bare_score(const Observation& seen,
                         const std::function<void(Eigen::Index, Eigen::Index, const BareScore&)>& see) {
    const SearchedTile& site = seen.site;
    const HeadCall& call = *site.call;
    const double cap = call.units.s_capped ? call.problem.logits_soft_cap : 0;
    const bool is_bare = cap == 0 && !(call.biased() && call.units.s_biased);
    const Estimate scaled = scaled_scores(call, site.q, site.k);
    const Estimate full = dumped_from_scaled(call, site.first_row, site.first_key, scaled);
    for (Eigen::Index i = 0; i < full.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < full.value.cols(); ++j) {
            const double unit = unit_of(call, site.first_row + i, site.first_key + j);
            const double expected = scaled.value(i, j);
            double error = full.error(i, j);
            double got = seen.natural(i, j);
            if (!is_bare) got -= full.value(i, j) - (cap > 0 ? cap * std::tanh(expected / cap) : expected);
            if (cap > 0) {
                const double tangent = got / cap;
                // Near the cap a score is anything.
                if (!(std::abs(tangent) < 0.9)) continue;
                got = cap * std::atanh(tangent);
                error = std::max(error / (1 - tangent * tangent), scaled.error(i, j));
            }
            see(i, j, {got, expected, error, unit, is_bare});
        }
    }
}

std::vector<BareScore> bare_scores(const Evidence& evidence) {
    std::vector<BareScore> scores;
    if (!evidence.direct() || evidence.observed != Stage::s) return scores;
    for (const Observation& seen : evidence.seen) {
        for_each_bare_score(seen, [&](Eigen::Index i, Eigen::Index j, const BareScore& score) {
            if (seen.is_wrong(i, j)) scores.push_back(score);
        });
    }
    return scores;
}

}  // namespace tilescope
