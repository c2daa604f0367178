#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "oracle/program/judge_program.h"
#include "oracle/program/rewrites.h"

namespace tilescope {

/// What it reads where nobody knows what stands; the more of it, the more may be said in its place.
inline constexpr double bits_of_all_open = 56;
/// By so much longer is as short, and of what kernels are known to do.
inline constexpr double bits_of_as_short = 1;
inline constexpr double bits_of_known_as_short = 3;

/// A mistake that was found, and what a search weighs it by.
struct WeighedMistake {
    ProgramRewrite rewrite;
    Dtype dtype = Dtype::f32;
    ProgramMistake mistake;
    double saved = 0;  ///< bits of other mistakes that it leaves nothing to
    double left = 0;   ///< and that of elements which it leaves as they are
    bool depends_on_state = false;
    bool is_in_places = false;  ///< that its formula does not say

    double open = 0;  ///< share of what was wrong that it reads where nothing is known

    double bits() const { return mistake.bits - saved + left + bits_of_all_open * open; }
};

inline double as_short(bool is_known) {
    return is_known ? bits_of_known_as_short : bits_of_as_short;
}

/// Whether any of them says of most of what is wrong what it is.
bool says_most(std::span<const WeighedMistake> found);

/// The shortest, and those that are as good beside it. `found`: by their bits; where there are none those of `parts`, of which each
/// explains some of it.
std::vector<ProgramMistake> as_short_as_any(std::span<const WeighedMistake> found,
                                            std::vector<WeighedMistake> parts);

}  // namespace tilescope
