#include "oracle/causes/tile_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "oracle/causes/curves.h"
#include "oracle/causes/product_results.h"
#include "oracle/formula/scores.h"
#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// A mistake that is known already may have made the operands longer: what is behind is no term of this sum.
Eigen::Index at_most(const std::vector<double>& terms, Eigen::Index columns) {
    return std::min(Eigen::Index(terms.size()), columns);
}

void weigh_columns(const std::vector<double>& weights, Estimate& estimate) {
    for (Eigen::Index j = 0; j < at_most(weights, estimate.value.cols()); ++j) {
        estimate.value.col(j) *= weights[std::size_t(j)];
        estimate.error.col(j) *= std::abs(weights[std::size_t(j)]);
    }
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
                         TermIndex index, std::vector<double>& terms) {
    const double scale = gradient_scale(stage, site);
    for (std::size_t i = 0; i < site.parts->size(); ++i) {
        const GradientPart& part = (*site.parts)[i];
        for (Eigen::Index c = 0; c < part.a.value.cols(); ++c) {
            const double a = part.a.value(row, c);
            if (a == 0) continue;
            const auto at =
                index == TermIndex::within_tile ? std::size_t(c) : number_of_part(stage, site, i, index);
            if (at >= terms.size()) break;
            terms[at] += scale * a * part.b.value(c, col);
        }
    }
}

std::vector<double> finite_terms(std::vector<double> terms) {
    // What the mask hides adds nothing, whatever lies beside it.
    for (double& term : terms)
        if (!std::isfinite(term)) term = 0;
    return terms;
}

/// Of the wrong or of the right elements.
std::vector<WrongSum> known_sums(const Evidence& evidence, bool wrong, std::size_t most, TermIndex index,
                                 const PartSet& set) {
    std::vector<WrongSum> sums;
    if (!evidence.direct() || !evidence.known.empty() || evidence.seen.empty()) return sums;
    const Stage stage = evidence.acts;
    const std::int64_t all = wrong ? evidence.wrong_elements : evidence.compared - evidence.wrong_elements;
    // Odd, so that it meets all columns.
    const std::int64_t step = all / std::int64_t(most) | 1;
    std::int64_t met = 0;
    for (const Observation& seen : evidence.seen) {
        if (wrong && !seen.is_bad()) continue;
        spend(4 * seen.got.size());
        const SlotNumbers scores = stage == Stage::s ? scores_before_cap(seen) : SlotNumbers();
        const SearchedTile inside = set.is_all() ? SearchedTile() : with_parts(set, stage, seen.site, true);
        const SearchedTile outside = set.is_all() ? SearchedTile() : with_parts(set, stage, seen.site, false);
        const SearchedTile& site = set.is_all() ? seen.site : inside;
        std::vector<double> others;
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            if (seen.wrong[std::size_t(i)] != wrong || seen.unjudged[std::size_t(i)]) continue;
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
                fill_terms(stage, site, next.row, next.col, next.sum.terms, index);
                if (!set.is_all()) {
                    fill_terms(stage, outside, next.row, next.col, others, TermIndex::within_tile);
                    next.sum.carried += std::accumulate(others.begin(), others.end(), 0.0);
                }
                next.sum.terms = finite_terms(std::move(next.sum.terms));
            }
            sums.push_back(std::move(next));
        }
    }
    return sums;
}

}  // namespace

void fill_terms(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col,
                std::vector<double>& terms, TermIndex index) {
    const Problem& problem = site.call->problem;
    spend(8 * terms_of_sum(problem, stage, index));
    if (is_gradient(stage)) spend(4 * std::ssize(*site.parts) * problem.block_n);
    terms.assign(std::size_t(terms_of_sum(problem, stage, index)), 0);
    if (is_over_head(stage)) {
        const auto [a, b] = head_operands(stage, site);
        const double scale = stage == Stage::s ? problem.sm_scale : 1;
        // delta has one column: the products of its row of both.
        const Eigen::Index other = stage == Stage::delta ? row : col;
        for (Eigen::Index d = 0; d < at_most(terms, a.value.cols()); ++d)
            terms[std::size_t(d)] = scale * a.value(row, d) * b.value(other, d);
    } else if (is_gradient(stage)) {
        fill_gradient_terms(stage, site, row, col, index, terms);
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

void weigh_terms(Stage stage, const std::vector<double>& weights, SearchedTile& site, TermIndex index) {
    if (is_over_head(stage)) {
        Matrix& a = stage == Stage::s ? site.q.value : site.dout.value;
        for (Eigen::Index d = 0; d < at_most(weights, a.cols()); ++d) a.col(d) *= weights[std::size_t(d)];
    } else if (is_gradient(stage)) {
        GradientParts& parts = site.own_parts();
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (index == TermIndex::within_tile) {
                weigh_columns(weights, parts[i].a);
            } else {
                const double weight = weights[number_of_part(stage, site, i, index)];
                parts[i].a.value *= weight;
                parts[i].a.error *= std::abs(weight);
            }
        }
    } else {
        weigh_columns(weights, stage == Stage::l ? p_added_up(site) : site.operand_p);
    }
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

std::vector<WrongSum> wrong_sums(const Evidence& evidence, std::size_t most, TermIndex index,
                                 const PartSet& set) {
    return known_sums(evidence, true, most, index, set);
}

std::vector<WrongSum> right_sums(const Evidence& evidence, std::size_t most) {
    return known_sums(evidence, false, most, TermIndex::within_tile, {});
}

double kernel_unit(Stage stage, const SearchedTile& site) {
    if (stage == Stage::l) return 1 / site.call->units.l_scale;
    if (is_gradient(stage)) return gradient_scale(stage, site);
    const double scale = stage == Stage::s ? site.call->problem.sm_scale : 1;
    return scale * product_unit(*site.call, stage);
}

}  // namespace tilescope
