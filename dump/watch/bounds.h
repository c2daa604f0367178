#pragma once

// How far the numbers of a healthy kernel may be from what holds in exact arithmetic. Bounds of a whole tile,
// wider than the oracle's: they must hold for every kernel that the problem and its units describe.

#include <optional>

#include "dump/watch/block.h"

namespace tilescope {

/// Number that a score is multiplied with to have natural units; nullopt where descales are part of it.
std::optional<double> score_unit(const WatchedCall& call, bool scaled, LogBase base);

/// P lies within [0, most]; where an element is its row's maximum it is at least `least_at_maximum`. As
/// dumped; nullopt in the backward pass, where lse may be anything, and where m was not kept.
struct ProbabilityBound {
    double most = 0;
    double least_at_maximum = 0;
};
std::optional<ProbabilityBound> probability_bound(const WatchedTile& tile);

/// l of a row that has seen a key, as dumped; the lower bound is of the sum over its lanes.
struct RowSumBound {
    double most = 0;
    double least = 0;
};
std::optional<RowSumBound> row_sum_bound(const WatchedTile& tile);

/// What the sum over a tile's l may be off by, relative to the sums of P and of l before that it is added up
/// from; nullopt as above.
std::optional<double> tile_sum_error(const WatchedTile& tile);

/// What the weights of the splits may be off by, relative to them: exp(lse - total) of numbers that float32
/// rounds. 0 without splits; nullopt where m was not kept.
std::optional<double> split_error(const WatchedTile& tile);

/// What a weighted mean of V may be off by, relative to the largest |v|: P is rounded to its operand type,
/// and the sums over `keys` round.
double mean_error(const WatchedCall& call, double keys, double tiles);

}  // namespace tilescope
