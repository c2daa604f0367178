#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

// What l and acc are rescaled by when the running maximum rises.

std::vector<Candidate> not_rescaled(const Evidence& evidence);
std::vector<Candidate> rescaled_inversely(const Evidence& evidence);
std::vector<Candidate> rescaled_twice(const Evidence& evidence);
/// P of the tile's own maximum joins l or acc as it is.
std::vector<Candidate> tile_not_rescaled(const Evidence& evidence);
/// Of an acc that is divided by l after each tile.
std::vector<Candidate> not_multiplied_with_l(const Evidence& evidence);

}  // namespace tilescope
