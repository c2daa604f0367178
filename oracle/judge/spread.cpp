#include "oracle/judge/spread.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

/// Nothing was seen yet.
ValuesSeen nothing(std::int64_t rows, std::int64_t cols) {
    const Matrix zero = Matrix::Zero(rows, cols);
    const Matrix none = Matrix::Constant(rows, cols, std::numeric_limits<double>::infinity());
    return {none, -none, zero, zero};
}

/// 0 for NaN and infinities, of which nothing follows.
double finite_part(double value) {
    return std::isfinite(value) ? value : 0;
}

/// To a row of `whole`.
void add_seen(const ValuesSeen& seen, ValuesSeen& whole, std::int64_t row) {
    whole.least.row(row) = whole.least.row(row).cwiseMin(seen.least);
    whole.most.row(row) = whole.most.row(row).cwiseMax(seen.most);
    whole.negative.row(row) += seen.negative;
    whole.positive.row(row) += seen.positive;
}

}  // namespace

Matrix spread_of_scores(const HeadCall& call, const Operand& q, const Operand& k,
                        const ScoreOperands& operands) {
    RowNorms of_q;
    RowNorms of_k;
    if (operands.q_norms == nullptr) of_q.take(q.value);
    if (operands.k_packed == nullptr) of_k.take(k.value);
    const auto q_norms = operands.q_norms == nullptr ? of_q.norms() : operands.q_norms->norms();
    const auto k_norms = operands.k_packed == nullptr ? of_k.norms() : operands.k_packed->norms();
    Matrix spread(q.value.rows(), k.value.rows());
    vector_kernels().outer_product(q_norms.data(), k_norms.data(), call.problem.sm_scale, view(spread));
    return spread;
}

Spreads::Spreads(const HeadCall& call, std::int64_t q_block, std::int64_t rows)
    : call_(call),
      first_row_(q_block * call.problem.block_m),
      largest_p_(std::exp(call.units.m_stale_threshold - call.units.m_offset)),
      largest_l_(Eigen::VectorXd::Zero(rows)),
      of_rows_(nothing(rows, call.problem.head_dim_v)),
      of_all_rows_(nothing(1, call.problem.head_dim_v)) {
    if (call.problem.sink == AttentionSink::none) return;
    // A sink is a key whose v is 0.
    of_all_rows_.least.setZero();
    of_all_rows_.most.setZero();
    if (call.problem.sink == AttentionSink::first) largest_l_.setConstant(largest_p_);
}

void Spreads::begin_split(std::int64_t kv_tile) {
    const std::int64_t split = call_.problem.split_of(kv_tile);
    if (split == split_) return;
    split_ = split;
    largest_l_.setZero();
    for (ValuesSeen* seen : {&of_rows_, &of_all_rows_}) {
        seen->negative.setZero();
        seen->positive.setZero();
    }
}

ValuesSeen Spreads::seen_in(KeyRange keys, const Matrix& v) const {
    const Matrix values = v.middleRows(keys.first, keys.last - keys.first).unaryExpr([](double value) {
        return finite_part(value);
    });
    return {values.colwise().minCoeff(), values.colwise().maxCoeff(),
            largest_p_ * values.cwiseMin(0).colwise().sum(), largest_p_ * values.cwiseMax(0).colwise().sum()};
}

void Spreads::see(std::span<const KeyRange> keys_of_rows, const Matrix& v) {
    for (std::size_t row = 0; row < keys_of_rows.size(); ++row)
        largest_l_(std::int64_t(row)) +=
            largest_p_ * double(keys_of_rows[row].last - keys_of_rows[row].first);
    if (v.size() == 0) return;
    const KeyRange& first = keys_of_rows.front();
    if (!first.empty() &&
        std::ranges::all_of(keys_of_rows, [&](const KeyRange& keys) { return keys == first; }))
        return add_seen(seen_in(first, v), of_all_rows_, 0);
    // Rows mostly see the same as the one before.
    KeyRange last;
    ValuesSeen seen;
    for (std::size_t row = 0; row < keys_of_rows.size(); ++row) {
        const KeyRange& keys = keys_of_rows[row];
        if (keys.empty()) continue;
        if (!(keys == last)) seen = seen_in(last = keys, v);
        add_seen(seen, of_rows_, std::int64_t(row));
    }
}

Matrix Spreads::spread_of_means(const Matrix& value) const {
    return spread_of(value, of_rows_.least.cwiseMin(of_all_rows_.least.replicate(value.rows(), 1)),
                     of_rows_.most.cwiseMax(of_all_rows_.most.replicate(value.rows(), 1)));
}

Matrix Spreads::spread_of_sums(const Matrix& value) const {
    return spread_of(value, of_rows_.negative.rowwise() + of_all_rows_.negative.row(0),
                     of_rows_.positive.rowwise() + of_all_rows_.positive.row(0));
}

void Spreads::add(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped,
                  TileEstimates& tile) {
    begin_split(kv_tile);
    if (of(dumped, Stage::s))
        tile.s.spread = spread_of_scores(call_, operands.q, operands.k, operands.score_operands);
    if (of(dumped, Stage::p) && tile.p.value.size() > 0)
        tile.p.spread = tile.p.value.cwiseMax((largest_p_ - tile.p.value.array()).matrix());
    if (tile.l.value.size() == 0) return;

    const std::int64_t first_key = kv_tile * call_.problem.block_n;
    std::vector<KeyRange> keys;
    for (std::int64_t i = 0; i < largest_l_.size(); ++i) {
        const KeyRange visible = call_.visible_to(first_row_ + i, first_key);
        const KeyRange of_row{std::max<std::int64_t>(visible.first - first_key, 0),
                              std::min<std::int64_t>(visible.last - first_key, operands.k.value.rows())};
        keys.push_back(of_row.empty() ? KeyRange() : of_row);
    }
    see(keys, operands.v.value);
    if (of(dumped, Stage::l)) {
        const Matrix largest = largest_l_.replicate(1, tile.l.value.cols());
        tile.l.spread = spread_of(tile.l.value, Matrix::Zero(largest.rows(), largest.cols()), largest);
    }
    if (of(dumped, Stage::acc) && tile.acc.value.size() > 0)
        tile.acc.spread =
            call_.units.acc_normalised ? spread_of_means(tile.acc.value) : spread_of_sums(tile.acc.value);
}

void Spreads::add_output(Estimate& o) const {
    o.spread = spread_of_means(o.value);
}

}  // namespace tilescope
