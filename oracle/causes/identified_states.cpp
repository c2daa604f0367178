#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "oracle/causes/element_places.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/describe/edits.h"
#include "oracle/formula/products.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

// ---- the state of another row or column

/// The state of another row or column, before the tile, or what the tile has made of it by then.
struct OtherElement {
    Stage stage;
    Index at;  ///< of row and column
    bool in_place = false;

    /// NaN beyond the tile. `place` is that of element (i, j).
    double read(const Matrix& before, const Matrix& after, const Place& place, Eigen::Index i,
                Eigen::Index j) const {
        const Eigen::Index r = at.parts[0].at(place);
        const Eigen::Index c = at.parts[1].at(place);
        if (r < 0 || c < 0 || r >= before.rows() || c >= before.cols()) return quiet_nan;
        const bool is_done = in_place && std::pair(r, c) < std::pair(i, j);
        return (is_done ? after : before)(r, c);
    }

    CauseParameter told() const {
        const bool has_cols = stage_info(stage).col_axis != Axis::unit;
        const Index index = has_cols ? at : Index{{at.parts.front()}, {}};
        return {"state of",
                std::string(stage_info(stage).name) + index.text() + (in_place ? ", as updated so far" : "")};
    }
};

/// One number of the index is another one.
std::vector<OtherElement> other_elements(Stage stage, const Problem& problem, bool by_columns) {
    const std::vector<CoordinateRange> ranges = ranges_of_tile(stage, problem);
    const Expr row = ranges[0].coordinate;
    const Expr col = ranges[1].coordinate;
    std::vector<OtherElement> others;
    for (const bool in_place : {false, true}) {
        for (const Expr& other : common_edits_with(ranges[0], ranges))
            others.push_back({stage, {{other, col}, {}}, in_place});
        if (!by_columns) continue;
        for (const Expr& other : common_edits_with(ranges[1], ranges))
            others.push_back({stage, {{row, other}, {}}, in_place});
    }
    return others;
}

const Matrix& before_of(Stage stage, const SearchedTile& site) {
    if (stage == Stage::m) return site.before.m.value;
    return stage == Stage::l ? site.before.l.value : site.before.acc.value;
}

/// The largest score of each row.
Matrix row_maxima(const SearchedTile& site) {
    const Estimate s = finished_scores(site);
    return s.value.cols() > 0 ? Matrix(s.value.rowwise().maxCoeff())
                              : Matrix::Constant(site.rows(), 1, -infinity);
}

/// What the element is, if that is the state it goes on from. `own` is what the tile itself adds.
double goes_on(Stage stage, const SearchedTile& site, double state, double factor, double own) {
    if (stage != Stage::m) return state * factor + own;
    return risen(state, own, site.call->units.m_stale_threshold);
}

/// Whether most of the wrong elements of the first bad tile are what this makes of them.
bool may_read(const Observation& seen, Stage stage, const Matrix& own, const OtherElement& other) {
    const Matrix after = [&] {
        Matrix natural(seen.got.rows(), seen.got.cols());
        for (Eigen::Index i = 0; i < natural.size(); ++i)
            natural.data()[i] = seen.natural(i / natural.cols(), i % natural.cols());
        return natural;
    }();
    Place place = element_place(stage, seen.site, 0, 0);
    std::int64_t tried = 0;
    std::int64_t right = 0;
    for (Eigen::Index i = 0; i < after.rows(); ++i) {
        const double factor = stage == Stage::m ? 1 : seen.site.factor.value(i, 0);
        for (Eigen::Index j = 0; j < after.cols(); ++j) {
            if (!seen.is_wrong(i, j)) continue;
            move_in_tile(stage, i, j, place);
            const double state = other.read(before_of(stage, seen.site), after, place, i, j);
            const double value = goes_on(stage, seen.site, state, factor, own(i, j));
            const double slack = 1e-5 * (1e-3 + std::abs(value) + std::abs(after(i, j)));
            ++tried;
            right += value == after(i, j) || std::abs(value - after(i, j)) <= slack;
        }
    }
    return tried > 0 && right * 10 >= tried * 9;
}

/// What the tile itself adds to each element.
Matrix own_of(Stage stage, const SearchedTile& site, Eigen::Index rows, Eigen::Index cols) {
    if (stage == Stage::m) return row_maxima(site);
    Matrix own(rows, cols);
    std::vector<double> terms;
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            fill_terms(stage, site, i, j, terms);
            own(i, j) = std::accumulate(terms.begin(), terms.end(), 0.0);
        }
    }
    return own;
}

/// In the inputs, since l and acc are rescaled from it, too.
Change goes_on_from_maximum_of(const OtherElement& other) {
    return {
        .inputs =
            [=](SearchedTile& site) {
                const Matrix own = row_maxima(site);
                const Matrix before = site.before.m.value;
                Matrix after = before;
                Place place = element_place(Stage::m, site, 0, 0);
                for (Eigen::Index i = 0; i < before.rows(); ++i) {
                    move_in_tile(Stage::m, i, 0, place);
                    const double state = other.read(before, after, place, i, 0);
                    if (std::isnan(state)) continue;
                    site.before.m.value(i, 0) = state;
                    site.before.m.error(i, 0) = std::isfinite(state) ? 8 * u_f32 * std::abs(state) : 0;
                    after(i, 0) = goes_on(Stage::m, site, state, 1, own(i, 0));
                }
            },
        .result =
            [=](const SearchedTile& site, Estimate& m) {
                // Of what lies beyond the tile nothing is known.
                Place place = element_place(Stage::m, site, 0, 0);
                for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
                    move_in_tile(Stage::m, i, 0, place);
                    if (std::isnan(other.read(m.value, m.value, place, i, 0)) && !std::isnan(m.value(i, 0)))
                        m.error(i, 0) = infinity;
                }
            }};
}

Change reads_state_of(Stage stage, const OtherElement& other) {
    if (stage == Stage::m) return goes_on_from_maximum_of(other);
    return {.result = [=](const SearchedTile& site, Estimate& result) {
        const Matrix& before = before_of(stage, site);
        const Matrix own = own_of(stage, site, result.value.rows(), result.value.cols());
        Place place = element_place(stage, site, 0, 0);
        for (Eigen::Index i = 0; i < own.rows(); ++i) {
            const double factor = site.factor.value(i, 0);
            for (Eigen::Index j = 0; j < own.cols(); ++j) {
                move_in_tile(stage, i, j, place);
                const double state = other.read(before, result.value, place, i, j);
                double& value = result.value(i, j);
                if (std::isnan(value)) continue;
                // Of what lies beyond the tile nothing is known.
                if (std::isnan(state)) {
                    result.error(i, j) = infinity;
                    continue;
                }
                value = goes_on(stage, site, state, factor, own(i, j));
                if (std::isfinite(value)) result.error(i, j) += 8 * u_f32 * std::abs(value);
            }
        }
    }};
}

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

/// The sum, where every element goes on from another one; NaN where that lies beyond the tile.
Matrix summed_from(const OtherElement& other, const SearchedTile& site, const std::vector<Matrix>& added,
                   Eigen::Index rows, Eigen::Index cols) {
    Matrix sum = Matrix::Zero(rows, cols);
    Place place = element_place(other.stage, site, 0, 0);
    for (const Matrix& own : added) {
        const Matrix before = sum;
        for (Eigen::Index i = 0; i < rows; ++i) {
            for (Eigen::Index j = 0; j < cols; ++j) {
                move_in_tile(other.stage, i, j, place);
                sum(i, j) = other.read(before, sum, place, i, j) + own(i, j);
            }
        }
    }
    return sum;
}

bool may_be_summed_from(const Observation& seen, const OtherElement& other,
                        const std::vector<Matrix>& added) {
    const Matrix sum = summed_from(other, seen.site, added, seen.got.rows(), seen.got.cols());
    const Problem& problem = seen.site.call->problem;
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

Change sums_from(Stage stage, const OtherElement& other) {
    return {.result = [=](const SearchedTile& site, Estimate& result) {
        const Matrix sum =
            summed_from(other, site, added_by_tiles(stage, site), result.value.rows(), result.value.cols());
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

std::vector<Candidate> sum_of_other_element(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Observation& seen = evidence.seen.front();
    const Stage stage = evidence.acts;
    if (!seen.is_bad() || seen.site.parts->size() < 2) return candidates;
    const std::vector<Matrix> added = added_by_tiles(stage, seen.site);
    for (const OtherElement& other : other_elements(stage, evidence.problem(), true))
        if (may_be_summed_from(seen, other, added))
            candidates.push_back({{other.told()}, sums_from(stage, other), other.in_place ? 2 : 1});
    return candidates;
}

std::vector<Candidate> state_of_other_element(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || !evidence.known.empty()) return candidates;
    if (is_gradient(evidence.acts)) return sum_of_other_element(evidence);
    // A tile that another one came before, if there is one.
    auto seen = std::ranges::find_if(evidence.seen,
                                     [](const Observation& one) { return one.is_bad() && !one.site.begins; });
    if (seen == evidence.seen.end()) seen = evidence.seen.begin();
    if (!seen->is_bad()) return candidates;
    const Stage stage = evidence.acts;
    const Matrix own = own_of(stage, seen->site, seen->got.rows(), seen->got.cols());
    for (const OtherElement& other : other_elements(stage, evidence.problem(), stage == Stage::acc))
        if (may_read(*seen, stage, own, other))
            candidates.push_back({{other.told()}, reads_state_of(stage, other), other.in_place ? 2 : 1});
    return candidates;
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

std::vector<Cause> identified_state_causes() {
    return {
        {"m_stays",
         "recurrence",
         {Stage::m},
         "the maximum stays although a score is larger",
         "the condition under which the running maximum is left as it is",
         m_stays},
        {"state_of_other_element",
         "recurrence",
         {Stage::m, Stage::l, Stage::acc, Stage::dq, Stage::dk, Stage::dv},
         "the running state goes on from that of another row or column",
         "the index at which the state before the tile is read",
         state_of_other_element},
    };
}

}  // namespace tilescope
