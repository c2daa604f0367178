#pragma once

#include "tests/oracle/honest_block.h"
#include "tests/oracle/honest_scores.h"

namespace tilescope::test {

/// P of a tile: the exponential; scaled, before its cast; as it multiplies V; and as it is dumped.
struct Probabilities {
    Tile value;
    Tile scaled;
    Tile operand;
    Tile dumped;
    static constexpr std::array parts = {&Probabilities::value, &Probabilities::scaled,
                                         &Probabilities::operand, &Probabilities::dumped};
};

// What the steps of an element take. Rows and columns are those of the tile.

struct MaxStep {
    const Block& b;
    const Tile& scores;
    const Tile& before;
    std::int64_t row = 0;
};
/// The new maximum over the tile's columns that `keep` names, from row `of_row`.
template <class Keep>
float max_over(const MaxStep& step, std::int64_t of_row, float before, const Keep& keep);

struct ProbabilityStep {
    const Block& b;
    const Scores& scores;
    const Tile& before;
    const Tile& m;
    std::int64_t row = 0;
    std::int64_t col = 0;

    float score() const { return scores.held.at(row, col); }
};
/// The argument of the exponential, to the base that exponential() takes, with the maximum `m`.
float exponent(const ProbabilityStep& step, float m);
float exponential(const Block& b, float x);
/// ln p_scale to the base that exponential() takes; 0 where it is not in the exponent.
float log_p_scale(const Block& b);
/// What a healthy kernel computes.
float probability(const ProbabilityStep& step);

struct SumStep {
    const Block& b;
    const Tile& before_m;
    const Tile& before;  ///< l
    const Probabilities& p;
    const std::vector<float>& factors;  ///< of the rows
    std::int64_t row = 0;
    std::int64_t lane = 0;

    float factor() const { return factors[std::size_t(row)]; }
    float l() const { return before.at(row, lane); }
};
/// The numbers of a row that l adds up.
std::vector<float> summands(const Block& b, const Probabilities& p, std::int64_t row);
/// l of the lane after the tile.
float next_l(const SumStep& step, float before, float factor, std::span<const float> p);

struct AccStep {
    const Block& b;
    const Tile& before;
    const Tile& p;
    const Tile& v;
    const std::vector<float>& factors;
    std::int64_t row = 0;
    std::int64_t col = 0;

    float factor() const { return factors[std::size_t(row)]; }
    float acc() const { return before.at(row, col); }
};
float next_acc(const AccStep& step, float before, float factor);

/// Before the first tile of a split.
State initial_state(const Block& block, bool first_split);

/// Moves the state past a tile, and records p and the state. `state` is null before the first tile of a
/// split, which `first_split` tells from the others.
Probabilities softmax_step(Block& block, const Scores& scores, const Tile& v, bool first_split,
                           std::optional<State>& state);

/// exp(before - now) of two maxima, in the units of m.
float rescale_factor(const Block& block, float before, float now);

/// A number of natural units in those of m.
float in_units_of_max(const Block& block, float value);

/// A held score in the units of m.
float held_max(const Block& block, float score, std::int64_t row, std::int64_t key);
/// The new maximum, or the old one where that may stay.
float chosen_max(const Block& block, float before, float now, std::int64_t row);

template <class Keep>
float max_over(const MaxStep& step, std::int64_t of_row, float before, const Keep& keep) {
    const Block& b = step.b;
    const std::int64_t row = b.first_row() + of_row;
    float most = -infinity;
    for (std::int64_t j = 0; j < step.scores.cols; ++j) {
        if (keep(j)) most = std::max(most, held_max(b, step.scores.at(of_row, j), row, b.first_key() + j));
    }
    return chosen_max(b, before, std::max(before, most), row);
}

}  // namespace tilescope::test
