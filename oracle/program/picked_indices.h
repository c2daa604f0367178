#pragma once

#include <vector>

#include "oracle/program/rewrites.h"
#include "oracle/program/searched_call.h"

namespace tilescope {

/// Of a sum along a short axis, as over the query heads of a KV head: which elements it took in place of those that it should have
/// taken. Least squares say how often each was added; where these are no formula they are told one by one.
std::vector<ProgramRewrite> picked_indices(SearchedCall& searched);

}  // namespace tilescope
