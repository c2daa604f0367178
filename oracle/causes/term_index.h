#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/causes/evidence.h"

namespace tilescope {

/// What the terms of a sum are counted by: dq, dk and dv are sums within tiles and over tiles.
enum class TermIndex : std::uint8_t {
    within_tile,  ///< head elements, columns of the tile, or its rows
    tile,         ///< KV tiles, or query blocks
    from_last,    ///< tiles from the last one that the kernel adds
    head          ///< query heads of the KV head
};
std::span<const TermIndex> term_indices(Stage stage);

/// Whether each tile's sum is one over head elements.
bool is_over_head(Stage stage);
/// "head elements" or "columns", and how many a whole tile has.
std::string_view terms_name(Stage stage, TermIndex index = TermIndex::within_tile);
std::int64_t terms_of_sum(const Problem& problem, Stage stage, TermIndex index = TermIndex::within_tile);
/// The number of a part of a gradient, as `index` counts.
std::size_t number_of_part(Stage stage, const SearchedTile& site, std::size_t part, TermIndex index);

/// Some of the tiles that a gradient is the sum of: all of them, or those whose number is one of `period` from `first`
/// on.
struct PartSet {
    TermIndex by = TermIndex::within_tile;  ///< within_tile: all of them
    std::int64_t period = 0;                ///< 0: `first` alone
    std::int64_t first = 0;
    bool others = false;  ///< those that this does not say

    bool is_all() const { return by == TermIndex::within_tile; }
    bool contains(Stage stage, const SearchedTile& site, std::size_t part) const;
    /// "query blocks 2", "all but KV tiles 0"; of all of them "".
    std::string text(Stage stage) const;
};
/// Those that somebody may have meant, without all of them.
std::vector<PartSet> part_sets(const Problem& problem, Stage stage);

/// The tile with the parts of the set alone, or without them.
SearchedTile with_parts(const PartSet& set, Stage stage, const SearchedTile& site, bool inside);

/// The change in these tiles alone.
Change only_in(const PartSet& set, Stage stage, Change change);

}  // namespace tilescope
