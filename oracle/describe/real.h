#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "dump/schema/rounding.h"

namespace tilescope {

/// A number of a kernel's formulas, of an element, its row or the call.
struct Variable {
    std::uint8_t number = 0;

    bool operator==(const Variable&) const = default;
};

/// As formulas have them.
inline constexpr auto variable_names = std::to_array<std::string_view>(
    {"result",   "c",        "s",         "hidden",    "scaled",   "capped",      "bias",        "score_unit",
     "argument", "m_before", "m_start",   "m",         "m_tile",   "factor",      "log(factor)", "p",
     "p_before", "p_summed", "p_operand", "sum",       "l_before", "l",           "log(l)",      "acc_before",
     "split_l",  "dp",       "delta",     "cap_slope", "sm_scale", "alibi_slope", "alibi_shift", "sink"});
inline constexpr std::size_t variable_count = variable_names.size();

constexpr std::string_view variable_name(Variable variable) {
    return variable_names[variable.number];
}

/// Compiles only where there is one of that name.
consteval Variable variable_named(std::string_view name) {
    std::uint8_t number = 0;
    while (variable_names.at(number) != name) ++number;
    return {number};
}

namespace var {
/// What the stage holds, and what is chosen.
inline constexpr Variable result = variable_named("result"), constant = variable_named("c");
/// Scores as the softmax sees them; 1 where the mask hides the key, else 0.
inline constexpr Variable s = variable_named("s"), hidden = variable_named("hidden");
/// What s is made of: sm_scale q k, that with its cap, and what is added to it.
inline constexpr Variable scaled = variable_named("scaled"), capped = variable_named("capped"),
                          bias = variable_named("bias");
/// What q k is multiplied with; s - m.
inline constexpr Variable score_unit = variable_named("score_unit"), argument = variable_named("argument");
/// The maximum before the tile, that before the first tile, that after it, and that of the tile's own scores.
inline constexpr Variable m_before = variable_named("m_before"), m_start = variable_named("m_start"),
                          m = variable_named("m"), m_tile = variable_named("m_tile");
/// exp(m_before - m).
inline constexpr Variable factor = variable_named("factor"), log_factor = variable_named("log(factor)");
/// P, that of the tile before, and as the row sum adds it up and as it multiplies V.
inline constexpr Variable p = variable_named("p"), p_before = variable_named("p_before"),
                          p_summed = variable_named("p_summed"), p_operand = variable_named("p_operand");
/// What the tile adds to l or acc.
inline constexpr Variable sum = variable_named("sum");
/// The row sum; lse - m; what acc of each split is divided by.
inline constexpr Variable l_before = variable_named("l_before"), l = variable_named("l"),
                          log_l = variable_named("log(l)"), divisor = variable_named("split_l");
inline constexpr Variable acc_before = variable_named("acc_before");
/// Of the backward pass; the derivative of the soft cap.
inline constexpr Variable dp = variable_named("dp"), delta = variable_named("delta"),
                          cap_slope = variable_named("cap_slope");
inline constexpr Variable sm_scale = variable_named("sm_scale"), alibi_slope = variable_named("alibi_slope"),
                          alibi_shift = variable_named("alibi_shift"), sink = variable_named("sink");
}  // namespace var

/// A number that may be off by `error`.
struct Uncertain {
    double value = 0;
    double error = 0;
};

/// The numbers that the variables have.
class Variables {
 public:
    Uncertain& operator[](Variable variable) { return numbers_[variable.number]; }
    const Uncertain& operator[](Variable variable) const { return numbers_[variable.number]; }

 private:
    std::array<Uncertain, variable_count> numbers_{};
};

/// With what an operation of so many float32 roundings adds; `is_open`: nothing is known of it.
inline Uncertain rounded(double value, double error, bool is_open, double roundings = 1) {
    if (is_open) return {value, std::numeric_limits<double>::infinity()};
    if (!std::isfinite(value)) return {value, 0};
    return {value, error + roundings * u_f32 * std::abs(value)};
}

// What one operation of a formula makes of what its operands may be off by, rounded to float32 each time. Errors of what is
// not finite are 0. Source: Higham, lemma 3.1, to first order.

inline Uncertain added(Uncertain x, Uncertain y) {
    // Nothing is rounded where nothing is added.
    if (x.value == 0 && x.error == 0) return y;
    if (y.value == 0 && y.error == 0) return x;
    return rounded(x.value + y.value, x.error + y.error, std::isinf(x.error) || std::isinf(y.error));
}

inline Uncertain multiplied(Uncertain x, Uncertain y) {
    const double error = std::abs(x.value) * y.error + (std::abs(y.value) + y.error) * x.error;
    return rounded(x.value * y.value, error, std::isinf(x.error) || std::isinf(y.error));
}

Uncertain divided(Uncertain x, Uncertain y);

/// Of the larger one, or of both where either may be it.
inline Uncertain larger(Uncertain x, Uncertain y) {
    if (x.value - x.error > y.value + y.error) return x;
    if (y.value - y.error > x.value + x.error) return y;
    return {std::max(x.value, y.value), std::max(x.error, y.error)};
}

inline Uncertain negative(Uncertain x) {
    return {-x.value, x.error};
}

Uncertain exponential(Uncertain x);
Uncertain logarithm(Uncertain x);

}  // namespace tilescope
