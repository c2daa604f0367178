#pragma once

#include <string>
#include <vector>

namespace tilescope {

struct KnownNumber {
    std::string name;
    double value = 0;
    bool is_round = true;  ///< it has a name or few digits
};

/// The simplest number within `uncertainty` of `value`: one of `known`, a small fraction, a few decimals; its
/// own digits where there is none.
KnownNumber simplest_number(double value, double uncertainty, const std::vector<KnownNumber>& known);

/// The simplest number between two others; that with the fewest digits where none is simple.
KnownNumber simplest_number_between(double low, double high);

/// The integer, half or quarter that is no further from `value` than `uncertainty`; `value` where there is none.
double simple_number(double value, double uncertainty);

/// Fractions and numbers of one digit between 0 and `most`, each less than the next.
std::vector<double> simple_numbers_below(double most);

}  // namespace tilescope
