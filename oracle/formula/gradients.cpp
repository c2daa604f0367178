#include "oracle/formula/gradients.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "oracle/formula/budget.h"
#include "oracle/formula/products.h"
#include "oracle/formula/softmax.h"

namespace tilescope {

namespace {

/// Products that ds is made of: with P, the derivative of a cap and ds_scale; two more where P is scaled, and
/// that is taken off again.
double ds_roundings(const HeadCall& call) {
    return call.units.p_scale == 1 ? 3 : 5;
}

/// Of one element, P (dP - delta).
struct ScoreGradient {
    double p;
    double p_error;
    double dp;
    double dp_error;
    double delta;
    double delta_error;
};

template <class Error>
Bounded<Error> gradient_element(const HeadCall& call, const ScoreGradient& in) {
    const double magnitude = std::abs(in.p);
    const double difference = in.dp - in.delta;
    const double distance = std::abs(difference);
    Bounded<Error> ds{in.p * difference, Error()};
    const double value = std::abs(ds.value);
    const double of_difference = in.dp_error + in.delta_error + (u_f32 + u_oracle) * distance;
    ds.error.add(magnitude * of_difference, [&](BudgetTerms& terms) {
        terms.add("dp, not dumped", fmt::format("{:.3g} * {:.3g} (p)", in.dp_error, magnitude),
                  in.dp_error * magnitude, "from dp");
        terms.add("delta, not dumped", fmt::format("{:.3g} * {:.3g} (p)", in.delta_error, magnitude),
                  in.delta_error * magnitude, "from delta");
        terms.add("dp - delta", fmt::format("{:.3g} * {:.3g} * {:.3g} (p)", u_f32, distance, magnitude),
                  u_f32 * distance * magnitude, "IEEE 754");
        terms.add_own_error(u_oracle * distance * magnitude);
    });
    ds.error.add(in.p_error * (distance + of_difference), [&] {
        return TermName{"p, not dumped",
                        fmt::format("{:.3g} * {:.3g}, |dp - delta|", in.p_error, distance + of_difference),
                        "from p"};
    });
    const double count = ds_roundings(call);
    ds.error.add((gamma(count, u_f32) + u_oracle) * value, [&](BudgetTerms& terms) {
        terms.add("products with dp - delta", roundings(count, value), gamma(count, u_f32) * value,
                  "Higham, lemma 3.1");
        terms.add_own_error(u_oracle * value);
    });
    ds.error.add_flush_to_zero(flush_to_zero / call.units.ds_scale);
    return ds;
}

/// Times the derivative of the soft cap.
template <class Error>
void chain_element(double derivative, double derivative_error, Bounded<Error>& ds) {
    const double slope = std::abs(derivative);
    const double value = std::abs(ds.value);
    ds.error.scale(slope + derivative_error, [&] { return fmt::format("{:.3g} (1 - tanh^2)", slope); });
    ds.error.add(value * derivative_error, [&] {
        return TermName{"derivative of the soft cap", fmt::format("{:.3g} * {:.3g}", derivative_error, value),
                        "from s"};
    });
    ds.value *= derivative;
}

Product delta_product(const HeadCall& call, const Matrix& dout, const Matrix& o) {
    return {call, Stage::delta, Accumulation::fma_f32, dout, o, true};
}

Product dp_product(const HeadCall& call, const Matrix& dout, const Operand& v) {
    return {call, Stage::dp, call.units.dp_accumulation, dout, v.value, true};
}

}  // namespace

Estimate row_delta(const HeadCall& call, const Matrix& dout, const Matrix& o) {
    const Estimate products = sum_of_products(delta_product(call, dout, o));
    return {products.value.diagonal(), products.error.diagonal()};
}

BudgetTerms delta_terms(const HeadCall& call, const Matrix& dout, const Matrix& o, Eigen::Index row) {
    return product_terms(delta_product(call, dout, o), row, row);
}

Estimate probability_gradients(const HeadCall& call, const Matrix& dout, const Operand& v) {
    Estimate dp = sum_of_products(dp_product(call, dout, v));
    if (!call.bounds) return dp;
    if (!v.is_exact()) add_product(dout.cwiseAbs(), error_of(v), true, dp.error);
    // The product of the sum with descale_v.
    if (!call.units.v_dequantised) dp.error += u_f32 * dp.value.cwiseAbs();
    return dp;
}

BudgetTerms dp_terms(const HeadCall& call, const Matrix& dout, const Operand& v, Eigen::Index row,
                     Eigen::Index col) {
    BudgetTerms terms = product_terms(dp_product(call, dout, v), row, col);
    const Eigen::RowVectorXd weights = dout.row(row).cwiseAbs();
    const double of_v = v.error * weights.dot(v.value.row(col).cwiseAbs()) + v.absolute * weights.sum();
    terms.add("v not dumped, dequantised", fmt::format("{:.3g}, sum of |dout| * error", of_v), of_v,
              "from v");
    const double dp = std::abs(dout.row(row).dot(v.value.row(col)));
    if (!call.units.v_dequantised)
        terms.add("product with descale_v", roundings(1, dp), u_f32 * dp, "IEEE 754");
    return terms;
}

Estimate score_gradients(const HeadCall& call, const Estimate& p, const Estimate& dp, const Estimate& delta) {
    Estimate ds = zeros(p.value.rows(), p.value.cols());
    for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
            if (p.value(i, j) == 0 && p.error(i, j) == 0) continue;
            const auto element =
                gradient_element<ErrorSum>(call, {p.value(i, j), p.error(i, j), dp.value(i, j),
                                                  dp.error(i, j), delta.value(i, 0), delta.error(i, 0)});
            ds.value(i, j) = element.value;
            if (call.bounds) ds.error(i, j) = element.error.total();
        }
    }
    return ds;
}

Estimate chain_cap(Estimate ds, const Estimate& derivative) {
    for (Eigen::Index i = 0; i < ds.value.size(); ++i) {
        Bounded<ErrorSum> element{ds.value.data()[i], ErrorSum(ds.error.data()[i])};
        chain_element(derivative.value.data()[i], derivative.error.data()[i], element);
        ds.value.data()[i] = element.value;
        ds.error.data()[i] = element.error.total();
    }
    return ds;
}

BudgetTerms ds_terms(const HeadCall& call, const Estimate& p, const Estimate& dp, const Estimate& delta,
                     const Estimate* derivative, Eigen::Index row, Eigen::Index col) {
    if (p.value(row, col) == 0 && p.error(row, col) == 0) return {};
    auto ds =
        gradient_element<BudgetTerms>(call, {p.value(row, col), p.error(row, col), dp.value(row, col),
                                             dp.error(row, col), delta.value(row, 0), delta.error(row, 0)});
    if (derivative != nullptr) chain_element(derivative->value(row, col), derivative->error(row, col), ds);
    const Units& units = call.units;
    add_cast_terms(units.ds_cast, units.ds_scale, Overflow::to_infinity, "cast of ds to", ds.value, ds.error);
    return std::move(ds.error);
}

}  // namespace tilescope
