#include "oracle/causes/tile_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "oracle/causes/product_results.h"
#include "oracle/formula/scores.h"
#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

bool is_over_head(Stage stage) {
    return stage == Stage::s || stage == Stage::delta || stage == Stage::dp;
}

std::int64_t terms_of_sum(const Problem& problem, Stage stage) {
    if (stage == Stage::delta || stage == Stage::dp) return problem.head_dim_v;
    if (stage == Stage::s) return problem.head_dim;
    return is_of_all_queries(stage) ? problem.block_m : problem.block_n;
}

/// A mistake that is known already may have made the operands longer: what is behind is no term of this sum.
Eigen::Index at_most(const std::vector<double>& terms, Eigen::Index columns) {
    return std::min(Eigen::Index(terms.size()), columns);
}

/// What is multiplied in it, row by row of each.
std::pair<const Operand&, const Operand&> head_operands(Stage stage, const SearchedTile& site) {
    if (stage == Stage::s) return {site.q, site.k};
    return {site.dout, stage == Stage::dp ? site.v : site.o};
}

/// What turns the kernel's own sum into the gradient.
double gradient_scale(Stage stage, const SearchedTile& site) {
    return stage == Stage::dv ? 1 : site.call->problem.sm_scale;
}

void fill_gradient_terms(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col,
                         std::vector<double>& terms) {
    const double scale = gradient_scale(stage, site);
    for (const GradientPart& part : *site.parts) {
        for (Eigen::Index c = 0; c < part.a.value.cols(); ++c) {
            const double a = part.a.value(row, c);
            if (std::size_t(c) >= terms.size()) break;
            if (a != 0) terms[std::size_t(c)] += scale * a * part.b.value(c, col);
        }
    }
}

/// What the cast that follows a value on its way to the dump may round off.
double cast_after(const SearchedTile& site, Stage stage, double magnitude) {
    const Problem& problem = site.call->problem;
    switch (stage) {
        case Stage::p:
            return cast_bound(site.call->units.p_cast, magnitude);
        case Stage::acc:
            return cast_bound(problem.dtype_acc, magnitude);
        case Stage::ds:
            return cast_bound(site.call->units.ds_cast, magnitude);
        case Stage::o:
        case Stage::dq:
        case Stage::dk:
        case Stage::dv:
            return cast_bound(stage_dtype(problem, stage), magnitude);
        default:
            return 0;
    }
}

std::vector<double> finite_terms(std::vector<double> terms) {
    // What the mask hides adds nothing, whatever lies beside it.
    for (double& term : terms)
        if (!std::isfinite(term)) term = 0;
    return terms;
}

}  // namespace

std::vector<WrongSum> wrong_sums(const Evidence& evidence, std::size_t most) {
    std::vector<WrongSum> sums;
    if (!evidence.direct() || !evidence.known.empty() || evidence.seen.empty()) return sums;
    const Stage stage = evidence.acts;
    // Odd, so that it meets all columns.
    const std::int64_t step = evidence.wrong_elements / std::int64_t(most) | 1;
    std::int64_t met = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        spend(4 * seen.got.size());
        const SlotNumbers scores = stage == Stage::s ? scores_before_cap(seen) : SlotNumbers();
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            if (!seen.wrong[std::size_t(i)] || seen.unjudged[std::size_t(i)]) continue;
            if (seen.settled[std::size_t(i / seen.got.cols())]) continue;
            if (met++ % step != 0) continue;
            WrongSum next{&seen, i / seen.got.cols(), i % seen.got.cols(), {}};
            next.sum.got = seen.natural(next.row, next.col);
            next.sum.error = seen.expected.error.data()[i] / std::abs(seen.factor.at(next.row, next.col));
            next.sum.error += cast_after(seen.site, stage, std::abs(next.sum.got));
            next.sum.carried = carried_over(stage, seen.site, next.row, next.col);
            if (stage == Stage::s) {
                next.sum.got = scores.taken(next.row, next.col);
                next.sum.error = scores.error(next.row, next.col);
            }
            if (std::isnan(next.sum.got) || !std::isfinite(next.sum.error)) continue;
            if (stage == Stage::m) {
                // A maximum is a score or what was there before, whatever the threshold leaves open.
                next.sum.error = std::isfinite(next.sum.got) ? 8 * u_f32 * std::abs(next.sum.got) : 0;
            } else {
                // Only a maximum may be infinite.
                if (!std::isfinite(next.sum.got) || !std::isfinite(next.sum.carried) || next.sum.error == 0)
                    continue;
                fill_terms(stage, seen.site, next.row, next.col, next.sum.terms);
                next.sum.terms = finite_terms(std::move(next.sum.terms));
            }
            sums.push_back(std::move(next));
        }
    }
    return sums;
}

void fill_terms(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col,
                std::vector<double>& terms) {
    const Problem& problem = site.call->problem;
    spend(8 * terms_of_sum(problem, stage));
    if (is_gradient(stage)) spend(4 * std::ssize(*site.parts) * problem.block_n);
    terms.assign(std::size_t(terms_of_sum(problem, stage)), 0);
    if (is_over_head(stage)) {
        const auto [a, b] = head_operands(stage, site);
        const double scale = stage == Stage::s ? problem.sm_scale : 1;
        // delta has one column: the products of its row of both.
        const Eigen::Index other = stage == Stage::delta ? row : col;
        for (Eigen::Index d = 0; d < at_most(terms, a.value.cols()); ++d)
            terms[std::size_t(d)] = scale * a.value(row, d) * b.value(other, d);
    } else if (is_gradient(stage)) {
        fill_gradient_terms(stage, site, row, col, terms);
    } else if (stage == Stage::l) {
        const Matrix& p = p_added_up(site).value;
        for (Eigen::Index c = 0; c < at_most(terms, p.cols()); ++c)
            if (problem.l_lane(c) == col) terms[std::size_t(c)] = p(row, c);
    } else {
        const Matrix& p = site.operand_p.value;
        for (Eigen::Index c = 0; c < at_most(terms, p.cols()); ++c)
            terms[std::size_t(c)] = p(row, c) == 0 ? 0 : p(row, c) * site.v.value(c, col);
    }
}

double carried_over(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col) {
    if (is_over_head(stage) || is_gradient(stage)) return 0;
    if (stage == Stage::m) return site.before.m.value(row, 0);
    const Matrix& before = stage == Stage::l ? site.before.l.value : site.before.acc.value;
    return site.factor.value(row, 0) * before(row, col);
}

Change adds_to_sums(Stage stage, std::function<void(const SearchedTile&, Matrix&)> extra) {
    return {.result = [=](const SearchedTile& site, Estimate& result) {
        Matrix more = Matrix::Zero(result.value.rows(), result.value.cols());
        extra(site, more);
        // The cap comes after the sum, and so do the bias and the mask.
        Estimate sums = stage == Stage::s ? scaled_scores(*site.call, site.q, site.k) : std::move(result);
        sums.value += more;
        sums.error += 2 * u_f32 * more.cwiseAbs();
        for (Eigen::Index i = 0; i < more.size(); ++i)
            if (!std::isfinite(more.data()[i])) sums.error.data()[i] = 0;
        for (Eigen::Index i = 0; i < more.size(); ++i)
            sums.error.data()[i] += cast_after(site, stage, std::abs(sums.value.data()[i]));
        result = stage == Stage::s
                     ? dumped_from_scaled(*site.call, site.first_row, site.first_key, std::move(sums))
                     : std::move(sums);
    }};
}

double kernel_unit(Stage stage, const SearchedTile& site) {
    if (stage == Stage::l) return 1 / site.call->units.l_scale;
    if (is_gradient(stage)) return gradient_scale(stage, site);
    const double scale = stage == Stage::s ? site.call->problem.sm_scale : 1;
    return scale * product_unit(*site.call, stage);
}

}  // namespace tilescope
