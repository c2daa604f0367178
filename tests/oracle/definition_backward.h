#pragma once

#include <cstdint>
#include <vector>

#include "tests/oracle/definition_attention.h"

namespace tilescope::test {

/// One call of the backward kernel. What lies beyond a batch entry's lengths is not read.
struct BackwardCall {
    AttentionCall attention;  ///< the forward call, and the units of the backward dump
    std::vector<float> dout;  ///< [batch][heads][seqlen_q][head_dim_v]
    std::vector<Real> o;      ///< laid out as dout; may be empty where delta is given
    std::vector<Real> lse;    ///< [batch][heads][seqlen_q], to the base lse_log_base, with the sink
    std::vector<Real> delta;  ///< laid out as lse; empty: the row sums of dout * o
};

/// A number for every element of the stages, row-major; NaN beyond a batch entry's lengths.
struct BackwardTensors {
    std::vector<Real> s;      ///< [batch][heads][seqlen_q][seqlen_kv]
    std::vector<Real> p;      ///< the same
    std::vector<Real> delta;  ///< [batch][heads][seqlen_q]
    std::vector<Real> dp;     ///< [batch][heads][seqlen_q][seqlen_kv]
    std::vector<Real> ds;     ///< the same
    std::vector<Real> dq;     ///< [batch][heads][seqlen_q][head_dim]
    std::vector<Real> dk;     ///< [batch][heads_kv, or heads where dkv_per_head][seqlen_kv][head_dim]
    std::vector<Real> dv;     ///< [batch][heads_kv, or heads where dkv_per_head][seqlen_kv][head_dim_v]
};

struct DefinedBackward {
    BackwardTensors value;      ///< in the dump's units; no operand is cast
    BackwardTensors magnitude;  ///< of the terms that met in each value, in the same units
};

/// The backward pass by its definition: whole matrices of each head, with no tiles.
DefinedBackward define_backward(const BackwardCall& call);

/// Sizes of a tensor, or of the part of it within a batch entry's lengths, beside the batch.
struct BackwardShape {
    std::int64_t heads = 0;
    std::int64_t rows = 0;
    std::int64_t columns = 0;

    std::size_t index(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t column) const {
        return std::size_t(((batch * heads + head) * rows + row) * columns + column);
    }
};

struct BackwardTensor {
    Stage stage;
    std::vector<Real> BackwardTensors::*elements;
    std::int64_t Problem::*rows;     ///< seqlen_kv: the tensor has the heads of dk and dv
    std::int64_t Problem::*columns;  ///< null: one
};

/// In order of computation.
inline constexpr BackwardTensor backward_tensors[] = {
    {Stage::s, &BackwardTensors::s, &Problem::seqlen_q, &Problem::seqlen_kv},
    {Stage::p, &BackwardTensors::p, &Problem::seqlen_q, &Problem::seqlen_kv},
    {Stage::delta, &BackwardTensors::delta, &Problem::seqlen_q, nullptr},
    {Stage::dp, &BackwardTensors::dp, &Problem::seqlen_q, &Problem::seqlen_kv},
    {Stage::ds, &BackwardTensors::ds, &Problem::seqlen_q, &Problem::seqlen_kv},
    {Stage::dq, &BackwardTensors::dq, &Problem::seqlen_q, &Problem::head_dim},
    {Stage::dk, &BackwardTensors::dk, &Problem::seqlen_kv, &Problem::head_dim},
    {Stage::dv, &BackwardTensors::dv, &Problem::seqlen_kv, &Problem::head_dim_v},
};

const BackwardTensor& backward_tensor(Stage stage);
BackwardShape shape_of(const BackwardTensor& tensor, const Problem& problem);
BackwardShape extent_of(const BackwardTensor& tensor, const AttentionCall& call, std::int64_t batch);

/// Calls visit(batch, head, row, column) for every element within the batch entries' lengths.
template <class Visit>
void for_each_element(const BackwardTensor& tensor, const AttentionCall& call, Visit visit) {
    for (std::int64_t batch = 0; batch < call.problem.batch; ++batch) {
        const BackwardShape extent = extent_of(tensor, call, batch);
        for (std::int64_t head = 0; head < extent.heads; ++head) {
            for (std::int64_t row = 0; row < extent.rows; ++row) {
                for (std::int64_t column = 0; column < extent.columns; ++column)
                    visit(batch, head, row, column);
            }
        }
    }
}

/// The call with o and lse by the forward definition, exact.
BackwardCall backward_call(const AttentionCall& attention, std::vector<float> dout);

/// Rounds o to dtype_o and lse to float32, as a forward kernel stores them.
void round_stored(BackwardCall& call);

/// Uniform between -1.5 and 1.5, exact in dtype_dout.
std::vector<float> draw_dout(const Problem& problem, std::uint64_t seed);

}  // namespace tilescope::test
