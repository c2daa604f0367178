#include "oracle/judge/spread.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/formula/products.h"

namespace tilescope {

namespace {

/// How far `value` is from the further end of what is possible; exactly 0 where the ends are one.
double spread_of(double value, double least, double most) {
    return least >= most ? 0 : std::max(value - least, most - value);
}

Matrix spread_of(const Matrix& value, const Matrix& least, const Matrix& most) {
    Matrix spread(value.rows(), value.cols());
    for (Eigen::Index i = 0; i < spread.size(); ++i)
        spread.data()[i] = spread_of(value.data()[i], least.data()[i], most.data()[i]);
    return spread;
}

/// 0 for NaN and infinities, of which nothing follows.
double finite_part(double value) {
    return std::isfinite(value) ? value : 0;
}

}  // namespace

Matrix spread_of_scores(const HeadCall& call, const Operand& q, const Operand& k) {
    Matrix spread(q.value.rows(), k.value.rows());
    vector_kernels().product_of_norms(view(q.value), view(k.value), call.problem.sm_scale, view(spread));
    return spread;
}

Spreads::Spreads(const HeadCall& call, std::int64_t q_block, std::int64_t rows)
    : call_(call),
      first_row_(q_block * call.problem.block_m),
      largest_p_(std::exp(call.units.m_stale_threshold)),
      largest_l_(Eigen::VectorXd::Zero(rows)),
      acc_least_(Matrix::Zero(rows, call.problem.head_dim_v)),
      acc_most_(acc_least_),
      v_least_(Matrix::Constant(rows, call.problem.head_dim_v, std::numeric_limits<double>::infinity())),
      v_most_(-v_least_) {
    if (call.problem.sink == AttentionSink::none) return;
    // A sink is a key whose v is 0.
    v_least_.setZero();
    v_most_.setZero();
    if (call.problem.sink == AttentionSink::first) largest_l_.setConstant(largest_p_);
}

void Spreads::begin_split(std::int64_t kv_tile) {
    const std::int64_t split = call_.problem.split_of(kv_tile);
    if (split == split_) return;
    split_ = split;
    largest_l_.setZero();
    acc_least_.setZero();
    acc_most_.setZero();
}

void Spreads::see(std::int64_t row, KeyRange keys, const Matrix& v) {
    largest_l_(row) += largest_p_ * double(keys.last - keys.first);
    if (v.size() == 0) return;
    if (!(keys.first == seen_keys_.first && keys.last == seen_keys_.last)) {
        const auto seen = v.middleRows(keys.first, keys.last - keys.first)
                              .unaryExpr([](double value) { return finite_part(value); })
                              .eval();
        seen_keys_ = keys;
        seen_least_ = seen.colwise().minCoeff();
        seen_most_ = seen.colwise().maxCoeff();
        seen_negative_ = largest_p_ * seen.cwiseMin(0).colwise().sum();
        seen_positive_ = largest_p_ * seen.cwiseMax(0).colwise().sum();
    }
    v_least_.row(row) = v_least_.row(row).cwiseMin(seen_least_);
    v_most_.row(row) = v_most_.row(row).cwiseMax(seen_most_);
    acc_least_.row(row) += seen_negative_;
    acc_most_.row(row) += seen_positive_;
}

void Spreads::add(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped,
                  TileEstimates& tile) {
    begin_split(kv_tile);
    if (of(dumped, Stage::s)) tile.s.spread = spread_of_scores(call_, operands.q, operands.k);
    if (of(dumped, Stage::p) && tile.p.value.size() > 0)
        tile.p.spread = tile.p.value.cwiseMax((largest_p_ - tile.p.value.array()).matrix());
    if (tile.l.value.size() == 0) return;

    const std::int64_t first_key = kv_tile * call_.problem.block_n;
    seen_keys_ = {};
    for (std::int64_t i = 0; i < largest_l_.size(); ++i) {
        const KeyRange visible = call_.visible_to(first_row_ + i, first_key);
        const KeyRange keys{std::max<std::int64_t>(visible.first - first_key, 0),
                            std::min<std::int64_t>(visible.last - first_key, operands.k.value.rows())};
        if (!keys.empty()) see(i, keys, operands.v.value);
    }
    if (of(dumped, Stage::l)) {
        const Matrix largest = largest_l_.replicate(1, tile.l.value.cols());
        tile.l.spread = spread_of(tile.l.value, Matrix::Zero(largest.rows(), largest.cols()), largest);
    }
    if (of(dumped, Stage::acc) && tile.acc.value.size() > 0)
        tile.acc.spread = call_.units.acc_normalised ? spread_of(tile.acc.value, v_least_, v_most_)
                                                     : spread_of(tile.acc.value, acc_least_, acc_most_);
}

void Spreads::add_output(Estimate& o) const {
    o.spread = spread_of(o.value, v_least_, v_most_);
}

}  // namespace tilescope
