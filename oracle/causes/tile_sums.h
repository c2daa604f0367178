#pragma once

#include <functional>
#include <vector>

#include "oracle/causes/evidence.h"

namespace tilescope {

/// s, l, acc, delta, dp and the gradients are sums of products over one index. What the hypotheses about such a sum
/// share.
struct TileSum {
    /// A number for each value of the index, in natural units before cap and bias; none of a maximum.
    std::vector<double> terms;
    double carried = 0;  ///< what a healthy kernel adds them to
    double got = 0;      ///< natural units, before cap and bias; NaN where the mask or a cap hides it
    double error = 0;    ///< of a healthy sum; of a maximum, of its conversion alone
};

/// The maximum of a row after a tile whose own is `most`, where it stays unless that is larger by the threshold.
inline double risen(double before, double most, double threshold) {
    return most > before + threshold ? most : before;
}

/// P as l adds it up.
inline Estimate& p_added_up(SearchedTile& site) {
    return site.call->units.l_sums_cast_p ? site.operand_p : site.p;
}
inline const Estimate& p_added_up(const SearchedTile& site) {
    return site.call->units.l_sums_cast_p ? site.operand_p : site.p;
}

/// Of a sum for which `site` holds the inputs.
void fill_terms(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col,
                std::vector<double>& terms);
double carried_over(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col);

/// Adds to each sum, before cap, bias and mask, what `extra` leaves in a matrix of zeros; natural units.
Change adds_to_sums(Stage stage, std::function<void(const SearchedTile&, Matrix& more)> extra);

/// An element whose sum is known: a wrong one, where nothing else is said.
struct WrongSum {
    const Observation* seen = nullptr;
    Eigen::Index row = 0;
    Eigen::Index col = 0;
    TileSum sum;
};

/// Of the wrong elements of the evidence at most so many, evenly.
std::vector<WrongSum> wrong_sums(const Evidence& evidence, std::size_t most);

/// What turns 1 in the kernel's own sum into natural units.
double kernel_unit(Stage stage, const SearchedTile& site);

}  // namespace tilescope
