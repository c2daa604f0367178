#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "oracle/causes/site.h"

namespace tilescope {

/// What the memory of the tile's elements held before it, as dumped: the tile that was computed or loaded `behind`
/// tiles before in the same block or, past its first one, in the block before, as if blocks ran one after the
/// other; then those before it. A running state is that of the same split.
std::vector<MatrixF> left_in_memory(Stage stage, const SearchedTile& site, std::int64_t behind);

/// What m, l or acc held after the last KV tile of the query block `behind` blocks before, all heads one after the other, as
/// the blocks of a persistent grid take them, in the dump's units; nullopt where there is no such block, or no tile of it.
std::optional<MatrixF> left_by_block(Stage stage, const SearchedTile& site, std::int64_t behind);

/// Elements that a tile leaves as they were.
using IsLeft = std::function<bool(const SearchedTile&, Eigen::Index row, Eigen::Index col)>;

bool is_left_anywhere(const SearchedTile& tile, Eigen::Index row, Eigen::Index col);

/// The elements as the tile `behind` tiles before left them in their memory, in natural units; those beyond its end, which were
/// not dumped, as the one before it in the same memory did where `is_left`, and elsewhere as the kernel fills up a tile: with zeros,
/// or with what the mask leaves. Of what no thread recorded, and of what was there before the first tile, nothing is known.
void take_left(Stage stage, const SearchedTile& site, std::int64_t behind, const IsLeft& is_left,
               Estimate& estimate);

/// What a tile makes of what was there before it, in the dump's units, of block_m rows. Only what it leaves in rows behind
/// seqlen_q counts, whose queries are zeros: they are not dumped.
using PhantomPass = std::function<void(const SearchedTile& tile, MatrixF& left)>;

/// Where it is not known what becomes of these rows.
void forget_phantoms(const SearchedTile& tile, MatrixF& left);

/// What the memory of s, m, l or acc held before the tile, in the dump's units: block_m rows and all columns of a tile. As
/// dumped, and behind seqlen_q as `pass` says, tile by tile of the block before. NaN where that is not known.
MatrixF left_in_rows(Stage stage, const SearchedTile& site, const PhantomPass& pass);

/// The sums of products that zero queries would have, `sums` in natural units, taken through cap, bias and mask to what the
/// dump holds; false where that is not known behind seqlen_q.
bool finish_phantom_scores(const SearchedTile& tile, MatrixF& sums);

}  // namespace tilescope
