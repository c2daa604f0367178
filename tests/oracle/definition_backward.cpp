// Written from the formulas alone: it shares no function with the oracle. Every element carries the magnitude
// of its terms along.

#include "tests/oracle/definition_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <stdexcept>

namespace tilescope::test {

namespace {

Defined exactly(Real value) {
    return {value, std::abs(value)};
}

Defined operator+(const Defined& a, const Defined& b) {
    return {a.value + b.value, a.magnitude + b.magnitude};
}

Defined operator-(const Defined& a, const Defined& b) {
    return {a.value - b.value, a.magnitude + b.magnitude};
}

Defined operator*(const Defined& a, const Defined& b) {
    return {a.value * b.value, a.magnitude * b.magnitude};
}

/// Of one head.
struct Matrix {
    std::int64_t rows;
    std::int64_t columns;
    std::vector<Defined> elements;

    Matrix(std::int64_t row_count, std::int64_t column_count)
        : rows(row_count), columns(column_count), elements(std::size_t(row_count * column_count)) {}

    Defined& at(std::int64_t row, std::int64_t column) {
        return elements[std::size_t(row * columns + column)];
    }
    const Defined& at(std::int64_t row, std::int64_t column) const {
        return elements[std::size_t(row * columns + column)];
    }
};

Matrix transposed(const Matrix& a) {
    Matrix result(a.columns, a.rows);
    for (std::int64_t i = 0; i < a.rows; ++i) {
        for (std::int64_t j = 0; j < a.columns; ++j) result.at(j, i) = a.at(i, j);
    }
    return result;
}

Matrix product(const Matrix& a, const Matrix& b) {
    Matrix result(a.rows, b.columns);
    for (std::int64_t i = 0; i < a.rows; ++i) {
        for (std::int64_t j = 0; j < b.columns; ++j) {
            for (std::int64_t n = 0; n < a.columns; ++n)
                result.at(i, j) = result.at(i, j) + a.at(i, n) * b.at(n, j);
        }
    }
    return result;
}

void add_to(Matrix& sum, const Matrix& term) {
    for (std::size_t i = 0; i < sum.elements.size(); ++i)
        sum.elements[i] = sum.elements[i] + term.elements[i];
}

Matrix times(Real factor, Matrix matrix) {
    for (Defined& element : matrix.elements) element = exactly(factor) * element;
    return matrix;
}

/// One query head of a batch entry.
struct Head {
    const BackwardCall& call;
    std::int64_t batch;
    std::int64_t head;
    std::int64_t rows;
    std::int64_t keys;

    const Problem& problem() const { return call.attention.problem; }
    std::size_t row_index(std::int64_t row) const {
        return std::size_t((batch * problem().heads + head) * problem().seqlen_q + row);
    }
};

/// q, k or v of the head, dequantised.
Matrix operand(const Head& h, Stage stage) {
    const AttentionCall natural{h.problem(), {}, h.call.attention.inputs};
    Matrix result(stage == Stage::q ? h.rows : h.keys,
                  stage == Stage::v ? h.problem().head_dim_v : h.problem().head_dim);
    for (std::int64_t i = 0; i < result.rows; ++i) {
        const std::vector<Real> values = define_operand(natural, stage, h.batch, h.head, i);
        for (std::int64_t j = 0; j < result.columns; ++j) result.at(i, j) = exactly(values[std::size_t(j)]);
    }
    return result;
}

template <class Element>
Matrix rows_of(const Head& h, const std::vector<Element>& tensor, std::int64_t columns) {
    Matrix result(h.rows, columns);
    for (std::int64_t i = 0; i < h.rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
            const std::size_t index = h.row_index(i) * std::size_t(columns) + std::size_t(j);
            result.at(i, j) = exactly(Real(tensor[index]));
        }
    }
    return result;
}

/// float64 knows the exponential of a difference whose terms' magnitude x met in to x 2^-52.
Defined probability(const DefinedScore& score, Real lse) {
    if (!score.seen()) return {0, 0};
    const Real p = std::exp(score.value - lse);
    return {p, p * std::max<Real>(1, (score.magnitude + std::abs(lse)) / 256)};
}

/// Of the capped score by the score; 1 without a cap. A difference from 1 where it is small.
Defined cap_derivative(const Problem& problem, const DefinedScore& score) {
    if (problem.logits_soft_cap == 0) return {1, 1};
    const Real growth = std::cosh(score.scaled / Real(problem.logits_soft_cap));
    return {1 / (growth * growth), 1};
}

Matrix delta_of(const Head& h, const Matrix& dout) {
    if (!h.call.delta.empty()) return rows_of(h, h.call.delta, 1);
    const Matrix o = rows_of(h, h.call.o, dout.columns);
    Matrix delta(h.rows, 1);
    for (std::int64_t i = 0; i < h.rows; ++i) {
        for (std::int64_t d = 0; d < dout.columns; ++d)
            delta.at(i, 0) = delta.at(i, 0) + dout.at(i, d) * o.at(i, d);
    }
    return delta;
}

/// What one query head computes, in natural units.
struct HeadMatrices {
    Matrix p;
    Matrix delta;
    Matrix dp;
    Matrix ds;
    Matrix ds_of_capped;  ///< gradient of the score after its cap
};

HeadMatrices define_matrices(const Head& h, const Matrix& v, const Matrix& dout) {
    const Matrix none(h.rows, h.keys);
    HeadMatrices m{none, delta_of(h, dout), product(dout, transposed(v)), none, none};
    const bool base_two = h.call.attention.units.lse_log_base == LogBase::two;
    for (std::int64_t i = 0; i < h.rows; ++i) {
        const Real lse = h.call.lse[h.row_index(i)] * (base_two ? std::numbers::ln2_v<Real> : 1);
        const std::vector<DefinedScore> scores = define_scores(h.call.attention, h.batch, h.head, i);
        for (std::int64_t j = 0; j < h.keys; ++j) {
            const DefinedScore& score = scores[std::size_t(j)];
            m.p.at(i, j) = probability(score, lse);
            // delta of a row that sees nothing may be NaN.
            if (!score.seen()) continue;
            m.ds_of_capped.at(i, j) = m.p.at(i, j) * (m.dp.at(i, j) - m.delta.at(i, 0));
            m.ds.at(i, j) = m.ds_of_capped.at(i, j) * cap_derivative(h.problem(), score);
        }
    }
    return m;
}

Matrix dumped_scores(const Head& h) {
    Matrix s(h.rows, h.keys);
    for (std::int64_t i = 0; i < h.rows; ++i) {
        const DefinedRow row = define_row(h.call.attention, h.batch, h.head, i);
        for (std::int64_t j = 0; j < h.keys; ++j) s.at(i, j) = row.s[std::size_t(j)];
    }
    return s;
}

/// `head` counts heads of the tensor.
void store(const Matrix& matrix, Stage stage, const Problem& problem, std::int64_t batch, std::int64_t head,
           DefinedBackward& result) {
    const BackwardTensor& tensor = backward_tensor(stage);
    const BackwardShape shape = shape_of(tensor, problem);
    for (std::int64_t i = 0; i < matrix.rows; ++i) {
        for (std::int64_t j = 0; j < matrix.columns; ++j) {
            const std::size_t index = shape.index(batch, head, i, j);
            (result.value.*tensor.elements)[index] = matrix.at(i, j).value;
            (result.magnitude.*tensor.elements)[index] = matrix.at(i, j).magnitude;
        }
    }
}

/// Stores the stages of a query head, and adds what it gives to dk and dv.
void define_head(const Head& h, Matrix& dk, Matrix& dv, DefinedBackward& result) {
    const Problem& p = h.problem();
    const Units& u = h.call.attention.units;
    const Matrix q = operand(h, Stage::q);
    const Matrix k = operand(h, Stage::k);
    const Matrix v = operand(h, Stage::v);
    const Matrix dout = rows_of(h, h.call.dout, p.head_dim_v);
    const HeadMatrices m = define_matrices(h, v, dout);
    const auto put = [&](Stage stage, const Matrix& matrix) {
        store(matrix, stage, p, h.batch, h.head, result);
    };
    put(Stage::s, dumped_scores(h));
    put(Stage::p, times(Real(u.p_scale), m.p));
    put(Stage::delta, m.delta);
    put(Stage::dp, m.dp);
    put(Stage::ds, times(Real(u.ds_scale), u.ds_capped ? m.ds : m.ds_of_capped));
    put(Stage::dq, times(Real(p.sm_scale), product(m.ds, k)));
    add_to(dk, times(Real(p.sm_scale), product(transposed(m.ds), q)));
    add_to(dv, product(transposed(m.p), dout));
}

DefinedBackward unwritten(const Problem& problem) {
    DefinedBackward result;
    for (const BackwardTensor& tensor : backward_tensors) {
        const BackwardShape shape = shape_of(tensor, problem);
        const std::size_t count = shape.index(problem.batch, 0, 0, 0);
        (result.value.*tensor.elements).assign(count, std::numeric_limits<Real>::quiet_NaN());
        (result.magnitude.*tensor.elements).assign(count, std::numeric_limits<Real>::quiet_NaN());
    }
    return result;
}

}  // namespace

DefinedBackward define_backward(const BackwardCall& call) {
    const Problem& p = call.attention.problem;
    DefinedBackward result = unwritten(p);
    const std::int64_t heads_of_dk = p.dkv_per_head ? p.heads : p.heads_kv;
    const std::int64_t group = p.heads / heads_of_dk;
    const bool interleaved = group > 1 && p.head_grouping == HeadGrouping::interleaved;
    for (std::int64_t batch = 0; batch < p.batch; ++batch) {
        const std::int64_t rows = rows_of_entry(call.attention, batch);
        const std::int64_t keys = keys_of_entry(call.attention, batch);
        for (std::int64_t head_of_dk = 0; head_of_dk < heads_of_dk; ++head_of_dk) {
            Matrix dk(keys, p.head_dim);
            Matrix dv(keys, p.head_dim_v);
            for (std::int64_t i = 0; i < group; ++i)
                define_head({call, batch, interleaved ? head_of_dk + i * heads_of_dk : head_of_dk * group + i,
                             rows, keys},
                            dk, dv, result);
            store(dk, Stage::dk, p, batch, head_of_dk, result);
            store(dv, Stage::dv, p, batch, head_of_dk, result);
        }
    }
    return result;
}

const BackwardTensor& backward_tensor(Stage stage) {
    const auto* found = std::ranges::find(backward_tensors, stage, &BackwardTensor::stage);
    if (found == std::end(backward_tensors)) throw std::invalid_argument("a stage without a tensor");
    return *found;
}

BackwardShape shape_of(const BackwardTensor& tensor, const Problem& problem) {
    const bool of_dk = tensor.rows == &Problem::seqlen_kv;
    return {of_dk && !problem.dkv_per_head ? problem.heads_kv : problem.heads, problem.*tensor.rows,
            tensor.columns == nullptr ? 1 : problem.*tensor.columns};
}

BackwardShape extent_of(const BackwardTensor& tensor, const AttentionCall& call, std::int64_t batch) {
    Problem entry = call.problem;
    entry.seqlen_q = rows_of_entry(call, batch);
    entry.seqlen_kv = keys_of_entry(call, batch);
    return shape_of(tensor, entry);
}

BackwardCall backward_call(const AttentionCall& attention, std::vector<float> dout) {
    BackwardCall call{attention, std::move(dout), {}, {}, {}};
    call.attention.problem.direction = Direction::backward;
    const Problem& p = attention.problem;
    AttentionCall forward = attention;
    forward.units.lse_includes_sink = true;
    for (std::int64_t i = 0; i < p.batch * p.heads * p.seqlen_q; ++i) {
        const std::int64_t batch = i / (p.heads * p.seqlen_q);
        const std::int64_t row = i % p.seqlen_q;
        DefinedRow defined;
        defined.o.resize(std::size_t(p.head_dim_v));
        if (row < rows_of_entry(attention, batch))
            defined = define_row(forward, batch, i / p.seqlen_q % p.heads, row);
        for (const Defined& o : defined.o) call.o.push_back(o.value);
        call.lse.push_back(defined.lse.value);
    }
    return call;
}

void round_stored(BackwardCall& call) {
    for (Real& o : call.o) o = Real(rounded(call.attention.problem.dtype_o, double(o), Overflow::saturate));
    for (Real& lse : call.lse) lse = Real(float(lse));
}

std::vector<float> draw_dout(const Problem& problem, std::uint64_t seed) {
    std::mt19937_64 random(seed * 6700417u + 29);
    std::vector<float> dout(
        std::size_t(problem.batch * problem.heads * problem.seqlen_q * problem.head_dim_v));
    for (float& value : dout)
        value =
            rounded(problem.dtype_dout, 3 * (double(random() % 1'000'000) / 1e6) - 1.5, Overflow::saturate);
    return dout;
}

}  // namespace tilescope::test
