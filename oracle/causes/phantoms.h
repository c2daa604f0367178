#pragma once

#include <optional>
#include <vector>

#include "oracle/causes/site.h"

namespace tilescope {

/// What a KV tile holds behind seqlen_kv, where a kernel forgets to mask it.
enum class PhantomKeys { zeros, of_tile_before, next_in_memory, of_next_head, last_key, nan };

struct NamedPhantoms {
    PhantomKeys keys;
    const char* name;
};
inline constexpr NamedPhantoms all_phantoms[] = {
    {PhantomKeys::zeros, "zeros"},
    {PhantomKeys::of_tile_before, "rows of the tile before"},
    {PhantomKeys::next_in_memory, "the next rows in memory"},
    {PhantomKeys::of_next_head, "the first rows of the next head"},
    {PhantomKeys::last_key, "the last key again"},
    {PhantomKeys::nan, "NaN"}};

/// Rows of K or V from `first`, which is behind the last key, on. Nullopt where nobody knows what they are.
std::optional<Matrix> phantom_rows(const SearchedTile& site, Stage operand, PhantomKeys which,
                                   std::int64_t first, std::int64_t count);

/// The call with `count` keys more, and a mask that does not end with the keys, around the same diagonal. A bias is not
/// known there and left out.
HeadCall with_phantom_keys(const HeadCall& call, std::int64_t count);

/// Scores of the keys behind seqlen_kv as the softmax sees them, up to the end of the tile. A bias is not
/// known there and left out. Nullopt where the tile has no room for any, and where nobody knows what they
/// are.
std::optional<Estimate> phantom_scores(const SearchedTile& site, PhantomKeys which);

/// `more` to the right of `all`.
void append_columns(const Estimate& more, Estimate& all);

}  // namespace tilescope
