#include "oracle/causes/product_results.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oracle/causes/tile_sums.h"
#include "oracle/formula/scores.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

bool SlotNumbers::is_known(Eigen::Index row, Eigen::Index col) const {
    return std::isfinite(taken(row, col)) && std::isfinite(error(row, col));
}

SlotNumbers scores_before_cap(const Observation& seen) {
    const SearchedTile& site = seen.site;
    const HeadCall& call = *site.call;
    const double cap = call.units.s_capped ? call.problem.logits_soft_cap : 0;
    Estimate scaled = scaled_scores(call, site.q, site.k);
    const Estimate full = dumped_from_scaled(call, site.first_row, site.first_key, scaled);
    SlotNumbers numbers{std::move(scaled.value), seen.got.cast<double>(), full.error};
    for (Eigen::Index i = 0; i < full.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < full.value.cols(); ++j) {
            const double right = numbers.right(i, j);
            double& taken = numbers.taken(i, j);
            double& error = numbers.error(i, j);
            if (!std::isfinite(full.value(i, j))) {
                taken = quiet_nan;
                continue;
            }
            // What is added is what is not of the product.
            taken =
                seen.natural(i, j) - (full.value(i, j) - (cap > 0 ? cap * std::tanh(right / cap) : right));
            if (cap == 0) continue;
            const double tangent = taken / cap;
            error = std::max(error / (1 - tangent * tangent), scaled.error(i, j));
            // Near the cap a score is anything.
            taken = std::abs(tangent) < 0.9 ? cap * std::atanh(tangent) : quiet_nan;
        }
    }
    return numbers;
}

SlotNumbers product_results(const Observation& seen) {
    const bool is_score = seen.context.stage == Stage::s;
    SlotNumbers results =
        is_score ? scores_before_cap(seen)
                 : SlotNumbers{seen.expected.value, seen.got.cast<double>(), seen.expected.error};
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
            if (!is_score) {
                const double unit = seen.factor.at(i, j);
                const double before = carried_over(seen.context.stage, seen.site, i, j);
                results.right(i, j) = results.right(i, j) / unit - before;
                results.taken(i, j) = seen.natural(i, j) - before;
                results.error(i, j) /= std::abs(unit);
            }
            if (!std::isfinite(results.right(i, j)) || std::isinf(results.taken(i, j)))
                results.taken(i, j) = quiet_nan;
        }
    }
    return results;
}

}  // namespace tilescope
