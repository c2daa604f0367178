#pragma once

#include <cstdint>
#include <span>

#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/replay/replay.h"

namespace tilescope {

/// Of scores: sm_scale |q| |k|, R x N, natural units.
Matrix spread_of_scores(const HeadCall& call, const Operand& q, const Operand& k,
                        const ScoreOperands& operands = {});

/// What rows have seen of V, each or all of them, R x head_dim_v.
struct ValuesSeen {
    Matrix least;
    Matrix most;
    Matrix negative;  ///< sum of the negative values, times the largest p
    Matrix positive;  ///< and of the others
};

/// How far the stages of a query block can be from their expected values, whatever the kernel made of its
/// scores. |s| is at most sm_scale |q| |k|; p lies between 0 and its largest legal value, l between 0 and so
/// much for every visible key; acc between the sums of the negative and of the positive values of V, o
/// between the least and the greatest V of the visible keys. Natural units, of the forward pass.
/// Estimate::spread has it.
class Spreads {
 public:
    Spreads(const HeadCall& call, std::int64_t q_block, std::int64_t rows);

    /// Sees a tile's keys, and sets the spreads of those estimates that dumped values are held against; in
    /// the order of Replay::step().
    void add(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped,
             TileEstimates& tile);
    void add_output(Estimate& o) const;

 private:
    void begin_split(std::int64_t kv_tile);
    ValuesSeen seen_in(KeyRange keys, const Matrix& v) const;
    /// [row]: keys of the tile.
    void see(std::span<const KeyRange> keys_of_rows, const Matrix& v);
    /// Of averages of V, and of its sums.
    Matrix spread_of_means(const Matrix& value) const;
    Matrix spread_of_sums(const Matrix& value) const;

    const HeadCall& call_;
    std::int64_t first_row_;
    double largest_p_;
    std::int64_t split_ = 0;
    Eigen::VectorXd largest_l_;
    ValuesSeen of_rows_;
    /// Of the tiles of which all rows saw the same, which are most of them.
    ValuesSeen of_all_rows_;
};

}  // namespace tilescope
