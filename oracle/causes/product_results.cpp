#include "oracle/causes/product_results.h"

#include <cmath>
#include <utility>

#include "oracle/causes/bare_scores.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

ProductResults product_results(const Observation& seen) {
    const SearchedTile& site = seen.site;
    ProductResults results{Matrix::Constant(seen.got.rows(), seen.got.cols(), quiet_nan), {}, {}};
    results.error = results.expected = results.got;
    const auto see = [&](Eigen::Index i, Eigen::Index j, double got, double expected, double error) {
        if (!std::isfinite(got) || !std::isfinite(seen.expected.value(i, j))) return;
        results.got(i, j) = got;
        results.expected(i, j) = expected;
        results.error(i, j) = error;
    };
    if (seen.context.stage == Stage::s) {
        for_each_bare_score(seen, [&](Eigen::Index i, Eigen::Index j, const BareScore& score) {
            see(i, j, score.got, score.expected, score.error);
        });
        return results;
    }
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
            const double before = carried_over(seen.context.stage, site, i, j);
            const double error = seen.expected.error(i, j) / std::abs(seen.factor.at(i, j));
            see(i, j, seen.natural(i, j) - before, seen.expected.value(i, j) / seen.factor.at(i, j) - before,
                error);
        }
    }
    return results;
}

std::optional<ProductResults> dumped_product_results(Stage stage, const SearchedTile& site) {
    std::optional<MatrixF> got = load_tile(site.world->recording(), site.call->problem, stage, site.id);
    if (!got) return std::nullopt;
    Observation seen;
    seen.site = site;
    seen.context.stage = stage;
    seen.factor = dump_factor(*site.call, stage, site.first_row, site.first_key, got->rows(), got->cols());
    seen.expected = in_dump_units(expected_of(stage, site), seen.factor);
    seen.got = std::move(*got);
    return product_results(seen);
}

}  // namespace tilescope
