#pragma once

#include <cstdint>
#include <vector>

#include "oracle/causes/element_places.h"
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

/// The number of a tile's head.
inline std::int64_t at_tile(const Expr& head, const SearchedTile& site) {
    return head.at(element_place(Stage::q, site, 0, 0));
}

}  // namespace tilescope
