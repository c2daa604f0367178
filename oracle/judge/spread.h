#pragma once

#include <cstdint>

#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/replay/replay.h"

namespace tilescope {

/// Of scores: sm_scale |q| |k|, R x N, natural units.
Matrix spread_of_scores(const HeadCall& call, const Operand& q, const Operand& k);

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
    void see(std::int64_t row, KeyRange keys, const Matrix& v);

    const HeadCall& call_;
    std::int64_t first_row_;
    double largest_p_;
    std::int64_t split_ = 0;
    Eigen::VectorXd largest_l_;
    Matrix acc_least_;
    Matrix acc_most_;
    Matrix v_least_;
    Matrix v_most_;
    /// Of the keys of the current tile that the last row saw: rows after it mostly see the same.
    KeyRange seen_keys_;
    Eigen::RowVectorXd seen_least_;
    Eigen::RowVectorXd seen_most_;
    Eigen::RowVectorXd seen_negative_;
    Eigen::RowVectorXd seen_positive_;
};

}  // namespace tilescope
