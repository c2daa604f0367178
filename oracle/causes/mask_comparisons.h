#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// Masks one of whose comparisons is another one: with another sign, with another index on one of its sides, or with
/// the end of the keys elsewhere. Which one it is, the scores tell that are shown and those that are hidden.
std::vector<Candidate> other_comparisons(const Evidence& evidence);

/// The same without a mask.
SearchedTile unmasked(SearchedTile site);

/// Of the scores that the mask hides wherever a rule says, whatever it compares.
inline const CauseParameter all_hidden = {"scores", "hidden"};

}  // namespace tilescope
