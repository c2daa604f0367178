#include "oracle/causes/consequences.h"

#include <cmath>
#include <optional>

#include "oracle/causes/phantoms.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

constexpr double most_left = 0.01;  ///< of what diverges

/// What no dump has of P: before its cast, where it is dumped after it, and in the columns behind the keys, where it
/// is 0, and what the mistake makes of 0.
std::optional<Change> hidden_probabilities(const FoundCause& first, const Evidence& later) {
    if (first.stage != Stage::p || later.observed != Stage::l || !first.changes) return std::nullopt;
    const Change mistake = first.changes->back();
    if (!mistake.result) return std::nullopt;
    return Change{.inputs = [mistake](SearchedTile& site) {
        const Units& units = site.call->units;
        if (units.p_cast != Dtype::f32 && !units.l_sums_cast_p) mistake.result(site, site.p);
        const std::int64_t behind = site.call->problem.block_n - site.keys();
        if (behind <= 0) return;
        const Matrix none = Matrix::Zero(site.rows(), behind);
        Estimate p{none, none, {}};
        mistake.result(site, p);
        append_columns(p, units.l_sums_cast_p ? site.operand_p : site.p);
    }};
}

/// How much the row of o is less than it should be, and how uncertain that is, relative.
struct Shrinking {
    double by = 1;
    double error = 0;
};

Shrinking shrinking_of(const MatrixF& got, const DumpFactor& factor, const Estimate& expected,
                       Eigen::Index row) {
    double products = 0;
    double squares = 0;
    double errors = 0;
    for (Eigen::Index j = 0; j < got.cols(); ++j) {
        const double o = double(got(row, j)) / factor.at(row, j);
        products += o * expected.value(row, j);
        squares += o * o;
        errors += std::abs(o) * expected.error(row, j);
    }
    return {products / squares, errors / std::abs(products)};
}

/// lse of the sum that o was divided by.
Change logarithm_of_divisor(const Evidence& later) {
    const Recording& recording = later.world->recording();
    return {.result = [&recording](const SearchedTile& site, Estimate& lse) {
        const Problem& problem = site.call->problem;
        const std::optional<MatrixF> o = load_tile(recording, problem, Stage::o, site.id);
        if (!o || o->rows() != lse.value.rows()) return;
        const Estimate expected = expected_of(Stage::o, site);
        const DumpFactor factor =
            dump_factor(*site.call, Stage::o, site.first_row, site.first_key, o->rows(), o->cols());
        for (Eigen::Index i = 0; i < o->rows(); ++i) {
            const Shrinking shrinking = shrinking_of(*o, factor, expected, i);
            if (!(shrinking.by > 0)) continue;
            lse.value(i, 0) += std::log(shrinking.by);
            lse.error(i, 0) += shrinking.error;
        }
    }};
}

bool explains(const Evidence& later, const Change& change) {
    const Misfit misfit = misfit_of(later, change);
    return double(misfit.in_bad_tiles()) <= most_left * double(later.wrong_elements) && misfit.tells_values();
}

}  // namespace

bool follows_from(const FoundCause& first, const Evidence& later) {
    if (const auto hidden = hidden_probabilities(first, later)) return explains(later, *hidden);
    const bool is_divided = first.stage == Stage::o && later.observed == Stage::lse;
    return is_divided && later.world->has(Stage::o) && explains(later, logarithm_of_divisor(later));
}

}  // namespace tilescope
