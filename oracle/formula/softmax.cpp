#include "oracle/formula/softmax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "oracle/formula/budget.h"
#include "oracle/formula/products.h"

namespace tilescope {

namespace {

ExponentialBound exponential_bound(const HeadCall& call) {
    const Units& units = call.units;
    const ExpArgumentBound argument = exp_argument_bound(call);
    const ExpFunctionBound function = exp_function_bound(units);
    ExponentialBound bound;
    bound.argument_difference = argument.difference;
    bound.argument_terms = argument.terms;
    bound.function = function.constant;
    bound.function_argument = function.per_argument;
    // An lse that the kernel was given may be anything.
    const bool backward = call.problem.direction == Direction::backward;
    bound.most_above_m = backward ? inf : std::max(units.m_stale_threshold - units.m_offset, 0.0);
    // The scale is a product after the exponential, or its logarithm a term inside it, which is rounded,
    // added to m, and added to s - m.
    const double log_scale = std::abs(std::log(units.p_scale));
    if (units.p_scale != 1)
        bound.function += gamma(3, u_f32) * (1 + log_scale) + function.per_argument * log_scale;
    return bound;
}

Estimate exponentials(const Estimate& s, const Estimate& m, const ExponentialBound& bound, bool with_error) {
    Estimate result;
    result.value.resize(s.value.rows(), s.value.cols());
    result.error.resize(s.value.rows(), s.value.cols());
    if (!with_error) result.error.setZero();
    vector_kernels().exponentials(view(s.value), view(s.error), m.value.data(), m.error.data(), bound,
                                  view(result.value), with_error ? view(result.error) : View<double>());
    return result;
}

/// Scores whose distance from m is at least what it is declared to be; hidden ones stay hidden.
Estimate clamped(const HeadCall& call, const Estimate& s, const Estimate& m) {
    const double least = call.units.p_least_argument;
    Estimate result = s;
    for (Eigen::Index i = 0; i < s.value.rows() && least > -inf; ++i) {
        for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
            double& score = result.value(i, j);
            if (score != -inf && score - m.value(i, 0) < least) score = m.value(i, 0) + least;
        }
    }
    return result;
}

/// The exponential of the least argument, where hidden scores may give it in place of 0: as long as a row of 2^20
/// keys adds less than half an ulp to its sum by it.
double hidden_error(const HeadCall& call) {
    const double p = std::exp(call.units.p_least_argument);
    return p < std::ldexp(u_f32, -20) ? p * (1 + 0x1p-10) : 0;
}

/// How far below the declared argument that of an exponential is, with what it may be off by: above 0 a kernel that
/// flushes may hold 0.
double flushed_by(const HeadCall& call, double s, double s_error, double m, double m_error) {
    const ExpArgumentBound argument = exp_argument_bound(call);
    const double least = call.units.p_flush_below;
    const double x = s - m;
    const double off = s_error + m_error + argument.difference * std::abs(x) +
                       argument.terms * (std::abs(s) + std::abs(m)) + gamma(3, u_f32) * std::abs(least);
    return least - (x - off);
}

/// What 0 in place of an exponential is off by, where the kernel may hold it: not less than the exponential.
void allow_flushed(const HeadCall& call, const Estimate& s, const Estimate& m, Estimate& exponentials) {
    if (call.units.p_flush_below == -inf || !call.bounds) return;
    for (Eigen::Index i = 0; i < exponentials.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < exponentials.value.cols(); ++j) {
            const double value = exponentials.value(i, j);
            double& error = exponentials.error(i, j);
            if (error < value &&
                flushed_by(call, s.value(i, j), s.error(i, j), m.value(i, 0), m.error(i, 0)) > 0)
                error = value;
        }
    }
}

Estimate exactly(const Estimate& estimate) {
    return {estimate.value, Matrix::Zero(estimate.value.rows(), estimate.value.cols())};
}

std::string exponential_formula(const HeadCall& call, double p, double distance) {
    const ExpFunctionBound bound = exp_function_bound(call.units);
    if (bound.per_argument == 0) return fmt::format("{:.3g} * {:.3g}", p, bound.constant);
    return fmt::format("{:.3g} * ({:.3g} + {:.3g} * |s - m| {:.3g})", p, bound.constant, bound.per_argument,
                       distance);
}

/// A cast that multiplies with `scale`.
struct Cast {
    Cast(Dtype to, double by, Overflow at_overflow, const char* called = "")
        : dtype(to),
          scale(by),
          overflow(at_overflow),
          name(called),
          unit(unit_roundoff(to)),
          quantum(half_quantum(to) / by),
          most(double(dtype_info(to).max_finite) / by) {}

    Dtype dtype;
    double scale;
    Overflow overflow;
    const char* name;
    double unit;
    double quantum;  ///< in the units before the cast, as `most`
    double most;
};

template <class Error>
void cast_element(const Cast& cast, Bounded<Error>& element) {
    const double magnitude = std::abs(element.value);
    const double error = element.error.total();
    // A masked cell is 0 before its cast and after it.
    if (magnitude == 0 && error == 0) return;
    // Beyond the range of its type a number is lost, and not rounded: what should be there stays expected.
    const bool lost = cast.overflow == Overflow::saturate && magnitude > cast.most;
    if (error == 0 && !lost) {
        const auto scaled = float(element.value * cast.scale);
        element.value = double(decode(cast.dtype, encode(cast.dtype, scaled, cast.overflow))) / cast.scale;
        return;
    }
    element.error.add(cast.unit * (magnitude + error) + cast.quantum,
                      [&] { return rounding_to(cast.dtype, cast.name, magnitude + error, cast.quantum); });
}

/// The same of a product that is rounded to float32 before: p_scale may be in the descale already.
template <class Error>
void cast_product(const Cast& cast, Bounded<Error>& element) {
    const double magnitude = std::abs(element.value);
    const double rounding = gamma(2, u_f32) * magnitude;
    if (magnitude == 0 && element.error.total() == 0) return;
    if (element.error.total() > 0 || magnitude > cast.most || cast.dtype == Dtype::f32) {
        element.error.add(rounding, [&] {
            return TermName{"product with descale_v", roundings(2, magnitude), "Higham, lemma 3.1"};
        });
        element.error.add_flush_to_zero(flush_to_zero / cast.scale);
        if (cast.dtype != Dtype::f32) cast_element(cast, element);
        return;
    }
    const auto rounded = [&](double value) {
        return double(decode(cast.dtype, encode(cast.dtype, float(value * cast.scale), cast.overflow))) /
               cast.scale;
    };
    const double least = rounded(element.value - rounding);
    const double most = rounded(element.value + rounding);
    element.value = (least + most) / 2;
    element.error.add((most - least) / 2, [&] {
        return TermName{"product with descale_v", "half the distance of its two roundings", "IEEE 754"};
    });
}

}  // namespace

Estimate probabilities(const HeadCall& call, const Estimate& s, const Estimate& m) {
    const bool clamps = call.units.p_least_argument > -inf;
    Estimate p = clamps ? exponentials(clamped(call, s, m), m, exponential_bound(call), call.bounds)
                        : exponentials(s, m, exponential_bound(call), call.bounds);
    allow_flushed(call, s, m, p);
    if (!clamps) return p;
    for (Eigen::Index i = 0; i < p.value.rows(); ++i)
        for (Eigen::Index j = 0; j < p.value.cols(); ++j)
            if (s.value(i, j) == -inf) p.error(i, j) = hidden_error(call);
    return p;
}

Estimate cast_probabilities(const HeadCall& call, Estimate p, Dtype dtype) {
    return cast_scaled(call, std::move(p), dtype, {call.units.p_scale, {}, {}}, Overflow::saturate);
}

Estimate cast_with_descale(const HeadCall& call, std::int64_t first_key, Estimate p, Dtype dtype) {
    if (!call.bounds) return p;
    const DumpFactor factor = operand_factor_of_p(call, first_key, p.value.rows(), p.value.cols());
    for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
            Bounded<ErrorSum> element{p.value(i, j), ErrorSum(p.error(i, j))};
            cast_product(Cast(dtype, factor.at(i, j), Overflow::saturate), element);
            p.value(i, j) = element.value;
            p.error(i, j) = element.error.total();
        }
    }
    return p;
}

Estimate cast_scaled(const HeadCall& call, Estimate estimate, Dtype dtype, const DumpFactor& scale,
                     Overflow overflow) {
    // Exact values stay exact.
    if (dtype == Dtype::f32 || !call.bounds) return estimate;
    const bool is_uniform = scale.row.size() == 0;
    const Cast uniform(dtype, scale.scalar, overflow);
    for (Eigen::Index i = 0; i < estimate.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < estimate.value.cols(); ++j) {
            Bounded<ErrorSum> element{estimate.value(i, j), ErrorSum(estimate.error(i, j))};
            cast_element(is_uniform ? uniform : Cast(dtype, scale.at(i, j), overflow), element);
            estimate.value(i, j) = element.value;
            estimate.error(i, j) = element.error.total();
        }
    }
    return estimate;
}

void add_cast_terms(Dtype dtype, double scale, Overflow overflow, const char* name, double value,
                    BudgetTerms& terms) {
    if (dtype == Dtype::f32) return;
    Bounded<BudgetTerms> element{value, std::move(terms)};
    cast_element(Cast(dtype, scale, overflow, name), element);
    terms = std::move(element.error);
}

BudgetTerms probability_terms(const HeadCall& call, const Estimate& scores, const Estimate& max,
                              Eigen::Index row, Eigen::Index col, const BudgetTerms& of_score,
                              std::int64_t first_key) {
    // The whole row: where one of its bounds is wide, all of them are computed that way.
    const Estimate m{max.value.row(row), max.error.row(row)};
    const Estimate s = clamped(call, {scores.value.row(row), scores.error.row(row), {}}, m);
    const auto error_of = [&](const Estimate& of_s, const Estimate& of_m, const ExponentialBound& bound) {
        return exponentials(of_s, of_m, bound, true).error(0, col);
    };
    const bool descaled = call.units.p_descale_v == DescaleInP::recorded;
    const double in_cast = dump_factor(call, Stage::p, 0, first_key + col, 1, 1).at(0, 0);
    const ExponentialBound bound = exponential_bound(call);
    HeadCall unscaled_call = call;
    unscaled_call.units.p_scale = 1;
    const ExponentialBound unscaled = exponential_bound(unscaled_call);
    ExponentialBound exact = unscaled;
    // Not 0, which a growth without bound would make a NaN.
    exact.function = std::numeric_limits<double>::min();
    exact.function_argument = 0;
    const double all = error_of(s, m, bound);
    const double without_scale = error_of(s, m, unscaled);
    const double without_function = error_of(s, m, exact);
    const double without_m = error_of(s, exactly(m), exact);
    const double without_s = error_of(exactly(s), exactly(m), exact);
    // Masked: exactly 0, or next to it.
    if (all == 0) {
        BudgetTerms hidden;
        hidden.add("least argument, of a hidden score", "its exponential", hidden_error(call),
                   "least_argument");
        add_cast_terms(call.units.p_cast, in_cast, Overflow::saturate, "cast of p to", 0, hidden);
        return hidden;
    }

    const double p = exponentials(s, m, bound, true).value(0, col);
    const double own = p * u_oracle;
    const double distance = std::abs(s.value(0, col) - m.value(0, 0));
    const double magnitude = std::abs(s.value(0, col)) + std::abs(m.value(0, 0));
    const ExpArgumentBound argument = exp_argument_bound(call);
    const bool backward = call.problem.direction == Direction::backward;
    BudgetTerms terms;
    if (const double inherited = part_of(without_m, without_s); inherited != 0) {
        terms = of_score;
        const double by = inherited / terms.total();
        terms.scale(by, in_formula(by) + " (p)");
    }
    terms.add("m, not dumped", fmt::format("{:.3g} * {:.3g}", p, m.error(0, 0)),
              part_of(without_function, without_m), "from m");
    terms.add(backward ? "argument s - lse" : "argument s - m",
              fmt::format("{:.3g} * ({:.3g} * {:.3g} + {:.3g} * {:.3g})", p, argument.difference, distance,
                          argument.terms, magnitude),
              part_of(without_s, own + flush_to_zero), "Higham, lemma 3.1");
    terms.add("exponential", exponential_formula(call, p, distance), part_of(without_scale, without_function),
              call.units.p_exp_error > 0 ? "declared exp_error" : "CUDA guide, math");
    terms.add("scale of p",
              fmt::format("{:.3g}, for a product or ln {:.3g} in the exponent", part_of(all, without_scale),
                          call.units.p_scale),
              part_of(all, without_scale), "IEEE 754");
    terms.add_own_error(own);
    terms.add_flush_to_zero(flush_to_zero);
    Estimate flushed{Matrix::Constant(1, 1, p), Matrix::Constant(1, 1, all), {}};
    allow_flushed(call, {scores.value.block(row, col, 1, 1), scores.error.block(row, col, 1, 1), {}}, m,
                  flushed);
    terms.add("may be flushed to 0",
              fmt::format("{:.3g}, its argument below {:.3g}", p, call.units.p_flush_below),
              part_of(flushed.error(0, 0), all), "declared flush_below");
    if (descaled) {
        terms.add("product with descale_v", roundings(2, p), gamma(2, u_f32) * p, "Higham, lemma 3.1");
        terms.add_flush_to_zero(flush_to_zero / in_cast);
    }
    add_cast_terms(call.units.p_cast, in_cast, Overflow::saturate, "cast of p to", p, terms);
    return terms;
}

Estimate rescale_factor(const HeadCall& call, const Estimate& m_before, const Estimate& m) {
    const auto nothing_before = [&](Eigen::Index i) {
        return m_before.value(i, 0) == -inf && !std::isnan(m.value(i, 0));
    };
    Estimate factor = exponentials(m_before, m, exponential_bound(call), call.bounds);
    allow_flushed(call, m_before, m, factor);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        if (nothing_before(i)) factor.value(i, 0) = factor.error(i, 0) = 0;
    }
    return factor;
}

}  // namespace tilescope
