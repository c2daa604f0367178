#pragma once

#include <optional>

#include "oracle/causes/evidence.h"

namespace tilescope {

/// The sums of products that the elements of a tile of s, acc or dp are, as the kernel computed them: in natural units
/// without what is added to them; NaN where that is not known.
struct ProductResults {
    Matrix got;
    Matrix error;
    Matrix expected;  ///< of a healthy kernel
};

ProductResults product_results(const Observation& seen);

/// The same of the tile that the site is of, from the recording; nullopt where it was not dumped.
std::optional<ProductResults> dumped_product_results(Stage stage, const SearchedTile& site);

}  // namespace tilescope
