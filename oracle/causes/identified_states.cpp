#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "oracle/causes/element_places.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/describe/edits.h"
#include "oracle/formula/products.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

// ---- a gradient, whose sum goes on from tile to tile without being dumped

/// What each tile adds to the gradient, in natural units.
std::vector<Matrix> added_by_tiles(Stage stage, const SearchedTile& site) {
    std::vector<Matrix> added;
    for (const GradientPart& part : *site.parts) {
        added.push_back(Matrix::Zero(part.a.value.rows(), part.b.value.cols()));
        add_product(part.a.value, part.b.value, false, added.back());
        added.back() *= kernel_unit(stage, site);
    }
    return added;
}

/// The sum, where every element goes on from that of an index of rows and columns; NaN where that lies beyond the tile.
Matrix summed_from(Stage stage, const Index& from, const SearchedTile& site, const std::vector<Matrix>& added,
                   Eigen::Index rows, Eigen::Index cols) {
    Matrix sum = Matrix::Zero(rows, cols);
    Place place = element_place(stage, site, 0, 0);
    for (const Matrix& own : added) {
        const Matrix before = sum;
        for (Eigen::Index i = 0; i < rows; ++i) {
            for (Eigen::Index j = 0; j < cols; ++j) {
                move_in_tile(stage, i, j, place);
                const std::int64_t row = from.parts[0].at(place);
                const std::int64_t col = from.parts[1].at(place);
                const bool is_inside = row >= 0 && row < rows && col >= 0 && col < cols;
                sum(i, j) = (is_inside ? before(row, col) : quiet_nan) + own(i, j);
            }
        }
    }
    return sum;
}

bool may_be_summed_from(const Observation& seen, const Index& from, const std::vector<Matrix>& added) {
    const Problem& problem = seen.site.call->problem;
    const Matrix sum =
        summed_from(seen.context.stage, from, seen.site, added, seen.got.rows(), seen.got.cols());
    std::int64_t tried = 0;
    std::int64_t right = 0;
    for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
        const double got = seen.got.data()[i];
        if (!seen.wrong[std::size_t(i)] || std::isnan(sum.data()[i])) continue;
        const double stored = cast_bound(stage_dtype(problem, seen.context.stage), std::abs(got));
        ++tried;
        right += std::abs(sum.data()[i] - got) <= 2 * (seen.expected.error.data()[i] + stored);
    }
    return tried > 4 && right * 10 >= tried * 9;
}

Change sums_from(Stage stage, const Index& from) {
    return {.result = [=](const SearchedTile& site, Estimate& result) {
        const Matrix sum = summed_from(stage, from, site, added_by_tiles(stage, site), result.value.rows(),
                                       result.value.cols());
        const Dtype dtype = stage_dtype(site.call->problem, stage);
        for (Eigen::Index i = 0; i < sum.size(); ++i) {
            const double value = sum.data()[i];
            double& error = result.error.data()[i];
            // Of what lies beyond the tile nothing is known.
            error = std::isnan(value) ? infinity : error + cast_bound(dtype, std::abs(value));
            if (!std::isnan(value)) result.value.data()[i] = value;
        }
    }};
}

// ---- a maximum that stays

std::vector<Candidate> m_stays(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || !evidence.known.empty()) return candidates;
    bool rises_beside = false;       // in a tile in which other rows stay
    double most_stayed = -infinity;  // new maxima of rows that kept the old one
    double least_risen = infinity;   // and of those that did not
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            const double before = seen.site.before.m.value(i, 0);
            const double healthy = seen.expected.value(i, 0) / seen.factor.at(i, 0);
            if (!(healthy > before)) continue;
            if (seen.is_wrong(i, 0)) {
                most_stayed = std::max(most_stayed, healthy);
                if (seen.natural(i, 0) != before) return candidates;
            } else {
                least_risen = std::min(least_risen, healthy);
                rises_beside = rises_beside || seen.is_bad();
            }
        }
    }
    const auto stays_if = [](auto stays) {
        return Change{.result = [=](const SearchedTile& site, Estimate& m) {
            for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
                if (!stays(m.value(i, 0))) continue;
                m.value(i, 0) = site.before.m.value(i, 0);
                m.error(i, 0) = site.before.m.error(i, 0);
            }
        }};
    };
    // That rows stay in which it stays says little.
    candidates.push_back(
        {{{"where", "always"}}, stays_if([](double) { return true; }), rises_beside ? 2 : 0});
    if (most_stayed < least_risen && std::isfinite(least_risen)) {
        const double middle = 0.5 * (most_stayed + least_risen);
        const double limit = simple_number(middle, 0.5 * (least_risen - most_stayed));
        candidates.push_back({{{"where", "the new one is below " + digits(limit)}},
                              stays_if([=](double m) { return m < limit; }),
                              1});
    }
    return candidates;
}

}  // namespace

std::vector<Candidate> sum_of_other_element(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || !evidence.known.empty()) return candidates;
    const Observation& seen = evidence.seen.front();
    const Stage stage = evidence.acts;
    if (!seen.is_bad() || seen.site.parts->size() < 2) return candidates;
    const std::vector<Matrix> added = added_by_tiles(stage, seen.site);
    const std::vector<CoordinateRange> ranges = ranges_of_tile(stage, evidence.problem());
    const Index own{{ranges[0].coordinate, ranges[1].coordinate}, {}};
    for (std::size_t part = 0; part < own.parts.size(); ++part) {
        for (const Expr& other : common_edits_with(ranges[part], ranges)) {
            Index from = own;
            from.parts[part] = other;
            if (may_be_summed_from(seen, from, added))
                candidates.push_back({{{"state of", std::string(stage_info(stage).name) + from.text()}},
                                      sums_from(stage, from),
                                      1});
        }
    }
    return candidates;
}

std::vector<Cause> identified_state_causes() {
    return {
        {"m_stays",
         "recurrence",
         {Stage::m},
         "the maximum stays although a score is larger",
         "the condition under which the running maximum is left as it is",
         m_stays},
    };
}

}  // namespace tilescope
