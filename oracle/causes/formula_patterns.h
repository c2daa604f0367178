#pragma once

#include <span>
#include <string_view>

namespace tilescope {

/// A name for formulas, each part of which that differs is one of its patterns. A pattern is words, one for each factor, term or
/// condition; `-` or `/` before a word: that is subtracted, or divided by. `1`: nothing.
///   rescale                     a read of that array, the axis or the size; descale_*: of an array that begins so; operand: Q, K, V or dO
///   exp cast max sum            a call of that function, any cast, a maximum, a sum; narrow: a sum in 16 bits; minus, product: a difference,
///                               factors
///   < <j <v <# <i <end same<    a comparison: any, of axes, of values, with a number, of a row without one, of axes but the row, one of the
///                               same direction; <length: with the length of an entry
///   : % %block                  whole / whole, a rest, a rest by the block of the axis
///   [h] [h %] [h block] ...     a read of the same array whose index along h is another one, a rest, whole blocks away; moved: by a number;
///                               ^, bits: by bits; exchanged: its two parts; picked: one by one; [transposed] [pitch]: rows and columns of a
///                               tile; [before]: its state; [bshd] [flat]: by the number of the element, which may be moved as well;
///                               []: whatever it is
///   # scale log2e padded 0 -1   all numbers among factors together: any, sm_scale, log2(e), of a padded head_dim
///   +# bound constant cap       a number that is added, that is a least value, that stands there alone, that is the soft cap
///   one                         the number 1 that stands there alone
///   uncast cut_off              what was cast, and what lacks the last bits
///   p~ ? *                      p or what takes it, anything, any number of anything
struct FormulaName {
    std::string_view name;
    std::string_view stages;  ///< `load`: of an operand, as a stage or as an input
    /// Words of what the part stands in, or beside; `!word`: of none. `from`: it is what the state begins with. `causal`: the
    /// mask is; `windowed`: it has a window, and is not causal; `capped`: scores have a soft cap. `also`: beside another part.
    std::string_view around;
    std::string_view was;
    std::string_view is;
    /// Axes that its condition may take; `-`: it has none; empty: either. `lanes`: it leaves one of each period out.
    std::string_view where = {};
};

/// All of them; of those that are patterns of a formula the first one is its name.
std::span<const FormulaName> formula_patterns();

}  // namespace tilescope
