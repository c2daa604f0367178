#pragma once

#include <cstdint>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/describe/expr.h"

namespace tilescope {

/// The index of another head than a number of the call should be taken of. It may be one step beyond its array: there the
/// number is that of the other end.
struct OtherHead {
    Expr head;
    int free_parameters = 1;
};

/// Of the coordinate `own`: the KV head in place of the head, a step beside it, and each of the first `count` of them.
std::vector<OtherHead> other_heads(const Evidence& evidence, Coordinate own, std::int64_t count);
/// Of query heads.
std::vector<OtherHead> other_heads(const Evidence& evidence);

/// Batch, head and KV head of a tile.
Place head_place(const SearchedTile& site);

}  // namespace tilescope
