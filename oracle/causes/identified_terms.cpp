// Mistakes that change each factor of the products that a sum adds up: the function is read out of the sums.

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "oracle/causes/curves.h"
#include "oracle/causes/some_terms.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/solve/factor_function.h"

namespace tilescope {

namespace {

constexpr std::size_t most_sums = 160;
/// Products that are looked at, of all sums together.
constexpr std::size_t most_products = 200'000;

using Factors = std::vector<std::pair<double, double>>;

void pass_operand(const Curve& curve, Operand& operand) {
    Estimate estimate{operand.value, operand.error * operand.value.cwiseAbs(), {}};
    pass_through(curve, 1, estimate);
    operand.value = std::move(estimate.value);
}

/// Products of a row of one operand with a row of the other.
template <Operand SearchedTile::*own, Operand SearchedTile::*other>
Factors products_of_rows(const SearchedTile& site, Eigen::Index row, Eigen::Index other_row) {
    Factors factors;
    const Matrix& a = (site.*own).value;
    for (Eigen::Index d = 0; d < a.cols(); ++d)
        factors.emplace_back(a(row, d), (site.*other).value(other_row, d));
    return factors;
}

Factors with_scale(double scale, Factors factors) {
    for (auto& [a, b] : factors) b *= scale;
    return factors;
}

Factors of_score_q(const SearchedTile& site, const PartSet&, Eigen::Index i, Eigen::Index j) {
    return with_scale(site.call->problem.sm_scale,
                      products_of_rows<&SearchedTile::q, &SearchedTile::k>(site, i, j));
}

Factors of_score_k(const SearchedTile& site, const PartSet&, Eigen::Index i, Eigen::Index j) {
    return with_scale(site.call->problem.sm_scale,
                      products_of_rows<&SearchedTile::k, &SearchedTile::q>(site, j, i));
}

Factors of_acc(const SearchedTile& site, const PartSet&, Eigen::Index i, Eigen::Index j) {
    Factors factors;
    for (Eigen::Index c = 0; c < site.operand_p.value.cols(); ++c)
        factors.emplace_back(site.operand_p.value(i, c), site.v.value(c, j));
    return factors;
}

Factors of_delta(const SearchedTile& site, const PartSet&, Eigen::Index i, Eigen::Index) {
    return products_of_rows<&SearchedTile::dout, &SearchedTile::o>(site, i, i);
}

Factors of_dp(const SearchedTile& site, const PartSet&, Eigen::Index i, Eigen::Index j) {
    return products_of_rows<&SearchedTile::dout, &SearchedTile::v>(site, i, j);
}

template <Stage stage>
Factors of_gradient(const SearchedTile& site, const PartSet& set, Eigen::Index i, Eigen::Index j) {
    Factors factors;
    for (std::size_t n = 0; n < site.parts->size(); ++n) {
        if (!set.contains(stage, site, n)) continue;
        const GradientPart& part = (*site.parts)[n];
        for (Eigen::Index c = 0; c < part.a.value.cols(); ++c)
            if (part.a.value(i, c) != 0) factors.emplace_back(part.a.value(i, c), part.b.value(c, j));
    }
    return with_scale(kernel_unit(stage, site), std::move(factors));
}

template <Operand SearchedTile::*operand>
void pass_member(const Curve& curve, SearchedTile& site) {
    pass_operand(curve, site.*operand);
}

void pass_p(const Curve& curve, SearchedTile& site) {
    pass_through(curve, 1, site.operand_p);
}

void pass_parts(const Curve& curve, SearchedTile& site) {
    for (GradientPart& part : site.own_parts()) pass_through(curve, 1, part.a);
}

/// A factor of the products of a sum.
struct FactorOfSum {
    Stage sum;
    const char* name;
    Factors (*products)(const SearchedTile&, const PartSet&, Eigen::Index row, Eigen::Index col);
    void (*pass)(const Curve&, SearchedTile&);
};

constexpr std::array<FactorOfSum, 8> factors_of_sums = {{
    {Stage::s, "q", of_score_q, pass_member<&SearchedTile::q>},
    {Stage::s, "k", of_score_k, pass_member<&SearchedTile::k>},
    {Stage::acc, "p", of_acc, pass_p},
    {Stage::delta, "dout", of_delta, pass_member<&SearchedTile::dout>},
    {Stage::dp, "dout", of_dp, pass_member<&SearchedTile::dout>},
    {Stage::dq, "ds", of_gradient<Stage::dq>, pass_parts},
    {Stage::dk, "ds", of_gradient<Stage::dk>, pass_parts},
    {Stage::dv, "p", of_gradient<Stage::dv>, pass_parts},
}};

/// Functions in tiles of the set alone.
void add_functions(const Evidence& evidence, const PartSet& set, std::vector<Candidate>& candidates) {
    const Stage stage = evidence.acts;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, most_sums, TermIndex::within_tile, set);
    for (const FactorOfSum& factor : factors_of_sums) {
        if (factor.sum != stage) continue;
        std::vector<SumOfProducts> sums;
        std::size_t products = 0;
        for (const WrongSum& one : wrong) {
            sums.push_back({factor.products(one.seen->site, set, one.row, one.col),
                            one.sum.got - one.sum.carried, one.sum.error});
            if ((products += sums.back().factors.size()) > most_products) break;
        }
        for (const Curve& curve : functions_of_factor(sums, factor.name)) {
            const auto change = [=](SearchedTile& site) { factor.pass(curve, site); };
            Candidate candidate{{{"factor", curve.formula}},
                                only_in(set, stage, {.inputs = change}),
                                curve.parameters + (set.is_all() ? 0 : 1)};
            if (!set.is_all()) candidate.parameters.push_back({"in", set.text(stage)});
            candidates.push_back(std::move(candidate));
        }
    }
}

/// Functions by the sign of a factor, in some terms alone: which these are is solved for.
void add_functions_of_some(const Evidence& evidence, std::vector<Candidate>& candidates) {
    using enum CurveDomain::Kind;
    for (const FactorOfSum& factor : factors_of_sums) {
        if (factor.sum != evidence.acts) continue;
        for (const auto kind : {below, above}) {
            for (const double slope : {-1.0, 0.0, 0.5, 2.0}) {
                const Curve curve = curve_of({kind, 0}, {.slope = slope}, factor.name);
                const auto change = [=](SearchedTile& site) { factor.pass(curve, site); };
                const Candidate of_all{{{"factor", curve.formula}}, {.inputs = change}, curve.parameters};
                for (Candidate& some : in_some_terms(evidence, of_all)) candidates.push_back(std::move(some));
            }
        }
    }
}

std::vector<Candidate> function_of_factor(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!can_be_read(evidence)) return candidates;
    add_functions(evidence, {}, candidates);
    if (!candidates.empty()) return candidates;
    if (!is_gradient(evidence.acts)) {
        add_functions_of_some(evidence, candidates);
        return candidates;
    }
    for (const PartSet& set : part_sets(evidence.problem(), evidence.acts))
        add_functions(evidence, set, candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> identified_term_causes() {
    return {
        {"function_of_factor",
         "values",
         {Stage::s, Stage::acc, Stage::delta, Stage::dp, Stage::dq, Stage::dk, Stage::dv},
         "a factor of the products that the sum adds up is passed through a function that it should not be",
         "what is done to the operand between its tile and the product",
         function_of_factor}};
}

}  // namespace tilescope
