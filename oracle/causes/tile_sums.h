#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
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

/// Some of the tiles that a gradient is the sum of: all of them, or those whose number is one of `period` from `first` on.
struct PartSet {
    TermIndex by = TermIndex::within_tile;  ///< within_tile: all of them
    std::int64_t period = 0;                ///< 0: `first` alone
    std::int64_t first = 0;
    bool others = false;  ///< those that this does not say

    bool is_all() const { return by == TermIndex::within_tile; }
    bool contains(Stage stage, const SearchedTile& site, std::size_t part) const;
    /// "query block 2", "odd heads of the group"; of all of them "".
    std::string text(Stage stage) const;
};
/// Those that somebody may have meant, without all of them.
std::vector<PartSet> part_sets(const Problem& problem, Stage stage);

/// The change in these tiles alone.
Change only_in(const PartSet& set, Stage stage, Change change);

/// s, l, acc, delta, dp and the gradients are sums of products over one index. What the hypotheses about such a sum
/// share.
struct TileSum {
    /// A number for each value of the index, in natural units before cap and bias; none of a maximum.
    std::vector<double> terms;
    double carried = 0;  ///< what a healthy kernel adds them to
    double got = 0;      ///< natural units, before cap and bias; NaN where the mask or a cap hides it
    double error = 0;    ///< of a healthy sum; of a maximum, of its conversion alone
};

/// "head elements" or "columns", and how many a whole tile has.
std::string_view terms_name(Stage stage, TermIndex index = TermIndex::within_tile);
std::int64_t terms_of_sum(const Problem& problem, Stage stage, TermIndex index = TermIndex::within_tile);

/// Of a sum for which `site` holds the inputs.
void fill_terms(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col,
                std::vector<double>& terms, TermIndex index = TermIndex::within_tile);
double carried_over(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col);

/// Multiplies each term of every sum with its weight.
void weigh_terms(Stage stage, const std::vector<double>& weights, SearchedTile& site,
                 TermIndex index = TermIndex::within_tile);

/// Adds to each sum, before cap, bias and mask, what `extra` leaves in a matrix of zeros; natural units.
Change adds_to_sums(Stage stage, std::function<void(const SearchedTile&, Matrix& more)> extra);

/// A wrong element whose sum is known.
struct WrongSum {
    const Observation* seen = nullptr;
    Eigen::Index row = 0;
    Eigen::Index col = 0;
    TileSum sum;
};

/// Of the wrong elements of the evidence at most so many, evenly.
/// What the tiles outside of `set` add is in what a sum carries over.
std::vector<WrongSum> wrong_sums(const Evidence& evidence, std::size_t most,
                                 TermIndex index = TermIndex::within_tile, const PartSet& set = {});

/// What turns 1 in the kernel's own sum into natural units.
double kernel_unit(Stage stage, const SearchedTile& site);

}  // namespace tilescope
