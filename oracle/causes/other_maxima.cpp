// The number that each row of P subtracts from its scores is solved for, and looked for among the maxima at hand.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "oracle/causes/element_places.h"
#include "oracle/causes/signature.h"
#include "oracle/describe/edits.h"

namespace tilescope {

namespace {

/// A number for each row, in natural units, that may stand in the place of its maximum.
struct RowNumbers {
    const char* text;
    Eigen::VectorXd (*of)(const SearchedTile& site);
    bool of_own_row = true;  ///< false: that is right, or has a row of its own
    bool of_other_rows = false;
};

Eigen::VectorXd maxima_of_tile(const SearchedTile& site) {
    const Matrix s = finished_scores(site).value;
    if (s.cols() == 0) return Eigen::VectorXd::Constant(s.rows(), -infinity);
    return s.rowwise().maxCoeff();
}

constexpr std::array<RowNumbers, 6> row_numbers = {{
    {"m", [](const SearchedTile& site) -> Eigen::VectorXd { return site.m.value.col(0); }, false, true},
    {"the m before the tile",
     [](const SearchedTile& site) -> Eigen::VectorXd { return site.before.m.value.col(0); }, false, true},
    {"the maximum of the tile", maxima_of_tile, true, true},
    {"m + the m before the tile",
     [](const SearchedTile& site) -> Eigen::VectorXd {
         return site.m.value.col(0) + site.before.m.value.col(0);
     }},
    {"m - the m before the tile",
     [](const SearchedTile& site) -> Eigen::VectorXd {
         return site.m.value.col(0) - site.before.m.value.col(0);
     }},
    {"-m", [](const SearchedTile& site) -> Eigen::VectorXd { return -site.m.value.col(0); }},
}};

/// The number of each row as it is read; NaN beyond the tile.
Eigen::VectorXd read_numbers(const RowNumbers& numbers, const Expr& row, const SearchedTile& site) {
    const Eigen::VectorXd all = numbers.of(site);
    Eigen::VectorXd read = all;
    Place place = element_place(Stage::p, site, 0, 0);
    for (Eigen::Index i = 0; i < all.size(); ++i) {
        move_in_tile(Stage::p, i, 0, place);
        const std::int64_t from = row.at(place);
        read(i) = from >= 0 && from < all.size() ? all(from) : quiet_nan;
    }
    // Without a maximum nothing is subtracted.
    return read.unaryExpr([](double m) { return std::isinf(m) ? 0 : m; });
}

/// What each wrong row of a tile subtracts: the median of s - log p over its columns; NaN of other rows.
Eigen::VectorXd subtracted_by(const Observation& seen) {
    const Matrix s = finished_scores(seen.site).value;
    Eigen::VectorXd subtracted = Eigen::VectorXd::Constant(s.rows(), quiet_nan);
    for (Eigen::Index i = 0; i < s.rows(); ++i) {
        std::vector<double> of_row;
        for (Eigen::Index j = 0; j < s.cols(); ++j) {
            const double p = seen.natural(i, j);
            if (seen.is_wrong(i, j) && std::isfinite(s(i, j)) && p > 1e-30 && std::isfinite(p))
                of_row.push_back(s(i, j) - std::log(p));
        }
        subtracted(i) = median_of(std::move(of_row));
    }
    return subtracted;
}

/// Tiles that diverge, with what their rows subtract.
struct Subtracted {
    const Observation* seen;
    Eigen::VectorXd by;
};

/// Whether most rows subtract these numbers.
bool may_subtract(const std::vector<Subtracted>& tiles, const RowNumbers& numbers, const Expr& row,
                  double rounding) {
    std::int64_t tried = 0;
    std::int64_t right = 0;
    for (const Subtracted& tile : tiles) {
        const Eigen::VectorXd read = read_numbers(numbers, row, tile.seen->site);
        for (Eigen::Index i = 0; i < read.size(); ++i) {
            if (std::isnan(read(i)) || std::isnan(tile.by(i))) continue;
            ++tried;
            right += std::abs(read(i) - tile.by(i)) <= rounding + 1e-5 * (1 + std::abs(read(i)));
        }
    }
    return tried > 0 && right * 10 >= tried * 9;
}

Change subtracts(const RowNumbers& numbers, const Expr& row) {
    const auto read = [=](const SearchedTile& site) { return read_numbers(numbers, row, site); };
    return {.inputs =
                [=](SearchedTile& site) {
                    const Eigen::VectorXd numbers_read = read(site);
                    for (Eigen::Index i = 0; i < numbers_read.size(); ++i)
                        if (!std::isnan(numbers_read(i))) site.m.value(i, 0) = numbers_read(i);
                    // Another number may leave more above it than a maximum.
                    site.own_call().units.m_stale_threshold = infinity;
                },
            .result =
                [=](const SearchedTile& site, Estimate& p) {
                    // The maximum of a row beyond the tile is not known.
                    const Eigen::VectorXd numbers_read = read(site);
                    for (Eigen::Index i = 0; i < numbers_read.size(); ++i)
                        if (std::isnan(numbers_read(i))) p.error.row(i).setConstant(infinity);
                }};
}

std::vector<Candidate> p_of_other_max(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || evidence.problem().direction == Direction::backward) return candidates;
    constexpr std::size_t most_read_tiles = 4;
    std::vector<Subtracted> tiles;
    for (const Observation& seen : evidence.seen)
        if (seen.is_bad() && tiles.size() < most_read_tiles) tiles.push_back({&seen, subtracted_by(seen)});
    const Dtype cast = evidence.units().p_cast;
    const double rounding = cast == Dtype::f32 ? 0 : 2 * unit_roundoff(cast);
    const std::vector<CoordinateRange> ranges = ranges_of_tile(Stage::p, evidence.problem());
    const std::vector<Expr> rows = common_edits_with(ranges.front(), ranges);
    for (const RowNumbers& numbers : row_numbers) {
        if (numbers.of_own_row && may_subtract(tiles, numbers, Coordinate::row, rounding))
            candidates.push_back({{{"subtracts", numbers.text}}, subtracts(numbers, Coordinate::row), 0});
        for (const Expr& row : rows) {
            if (!numbers.of_other_rows || !may_subtract(tiles, numbers, row, rounding)) continue;
            const std::string of = (row.takes(Coordinate::row) ? "" : "row ") + row.text();
            candidates.push_back(
                {{{"subtracts", fmt::format("{} of {}", numbers.text, of)}}, subtracts(numbers, row), 1});
        }
    }
    return candidates;
}

}  // namespace

std::vector<Cause> other_maximum_causes() {
    return {{"p_of_other_max",
             "recurrence",
             {Stage::p},
             "P is computed with another maximum than that of its row",
             "which maximum the exponential subtracts, and the row that it is read at",
             p_of_other_max}};
}

}  // namespace tilescope
