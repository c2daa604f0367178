#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tilescope {

/// A number of a kernel's formulas, of an element, its row or the call.
struct Variable {
    std::uint8_t number = 0;

    bool operator==(const Variable&) const = default;
};

namespace var {
inline constexpr Variable result{0}, constant{1};  // what the stage holds; what is chosen
inline constexpr Variable s{2}, hidden{3};         // 1 where the mask hides the key, else 0
// What s is made of: sm_scale q k, with its cap, what is added to it; what q k is multiplied with; s - m.
inline constexpr Variable scaled{26}, capped{27}, bias{28}, score_unit{29}, argument{30};
inline constexpr Variable log_factor{31};  // m_before - m
// The maximum: m_start is m_before of the first tile, m_tile that of the tile's own scores.
inline constexpr Variable m_before{4}, m_start{5}, m{6}, m_tile{7}, factor{8};
// P, that of the tile before, and as the row sum adds it up and as it multiplies V.
inline constexpr Variable p{9}, p_before{10}, p_summed{11}, p_operand{12};
// What the tile adds to l or acc; lse - m; what acc of each split is divided by.
inline constexpr Variable sum{13}, l_before{14}, l{15}, log_l{16}, acc_before{17}, divisor{18};
inline constexpr Variable dp{19}, delta{20}, cap_slope{21};  // the derivative of the soft cap
inline constexpr Variable sm_scale{22}, alibi_slope{23}, alibi_shift{24}, sink{25};
}  // namespace var
inline constexpr std::size_t variable_count = 32;

/// As a formula has it: "m_before".
std::string_view variable_name(Variable variable);

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

/// What one operation of a formula makes of what its operands may be off by, rounded to float32 each time. Errors of what is
/// not finite are 0. Source: Higham, lemma 3.1, to first order.
Uncertain added(Uncertain x, Uncertain y);
Uncertain multiplied(Uncertain x, Uncertain y);
Uncertain divided(Uncertain x, Uncertain y);
/// Of the larger one, or of both where either may be it.
Uncertain larger(Uncertain x, Uncertain y);
Uncertain negative(Uncertain x);
Uncertain exponential(Uncertain x);
Uncertain logarithm(Uncertain x);

}  // namespace tilescope
