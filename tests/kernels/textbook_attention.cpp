#include "tests/kernels/textbook_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tilescope::testing {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The elements of an operand, [batch][heads][seqlen][head_dim], each times its descale.
std::vector<double> to_double(Dtype dtype, const std::vector<std::byte>& bytes, const Descale& descale,
                              std::int64_t heads, std::int64_t seqlen, std::int64_t head_dim) {
    const std::size_t size = std::size_t(dtype_info(dtype).bytes);
    std::vector<double> values(bytes.size() / size);
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, bytes.data() + i * size, size);
        const std::int64_t row = std::int64_t(i) / head_dim;
        const std::int64_t matrix = row / seqlen;
        values[i] =
            double(decode(dtype, bits)) * double(descale.at(matrix / heads, matrix % heads, row % seqlen));
    }
    return values;
}

/// Of a term of a sum: truncation and few guard bits in tensor cores.
double sum_unit_of(Accumulation accumulation) {
    switch (accumulation) {
        case Accumulation::tensor_core_fp8:
            return std::ldexp(1.0, -12);
        case Accumulation::tensor_core_f32:
            return std::ldexp(1.0, -22);
        default:
            return std::ldexp(1.0, -24);
    }
}

/// One query against all keys of its head.
struct Row {
    std::vector<double> scores;
    double score_error = 0;  ///< of the worst score
    double max = -infinity;
    double min = infinity;
};

Row scores_of(const Problem& problem, const double* q, const double* k, std::int64_t row, double unit) {
    Row result;
    result.scores.assign(std::size_t(problem.seqlen_kv), -infinity);
    for (std::int64_t key = 0; key < problem.seqlen_kv; ++key) {
        if (!is_visible(problem, row, key)) continue;
        double product = 0;
        double magnitude = 0;
        for (std::int64_t d = 0; d < problem.head_dim; ++d) {
            const double term = q[d] * k[key * problem.head_dim + d];
            product += term;
            magnitude += std::abs(term);
        }
        const double score = product * problem.sm_scale;
        result.scores[std::size_t(key)] = score;
        const double error = double(problem.head_dim + 2) * unit * magnitude * problem.sm_scale;
        result.score_error = std::max(result.score_error, error);
        result.max = std::max(result.max, score);
        result.min = std::min(result.min, score);
    }
    return result;
}

}  // namespace

bool is_visible(const Problem& problem, std::int64_t row, std::int64_t key) {
    if (problem.mask == Mask::none) return true;
    const std::int64_t shift =
        problem.causal_alignment == CausalAlignment::bottom_right ? problem.seqlen_kv - problem.seqlen_q : 0;
    return key <= row + shift;
}

TextbookAttention textbook_attention(const Problem& problem, const Units& units, const RunInputs& inputs) {
    const double float32 = std::ldexp(1.0, -24);
    const double s_unit = sum_unit_of(units.s_accumulation);
    const double acc_unit = sum_unit_of(units.acc_accumulation);
    const bool casts_p = problem.dtype_p != Dtype::f32;
    const double p_unit = casts_p ? unit_roundoff(problem.dtype_p) : 0.0;
    const double p_quantum = casts_p ? half_quantum(problem.dtype_p) / units.p_scale : 0.0;
    const std::int64_t dim = problem.head_dim;
    const SideInputs& side = inputs.side;
    const std::vector<double> q =
        to_double(problem.dtype_q, inputs.q, side.descale_q, problem.heads, problem.seqlen_q, dim);
    const std::vector<double> k =
        to_double(problem.dtype_k, inputs.k, side.descale_k, problem.heads_kv, problem.seqlen_kv, dim);
    const std::vector<double> v =
        to_double(problem.dtype_v, inputs.v, side.descale_v, problem.heads_kv, problem.seqlen_kv, dim);

    TextbookAttention result;
    for (std::int64_t matrix = 0; matrix < problem.batch * problem.heads; ++matrix) {
        const std::int64_t head_kv = matrix % problem.heads * problem.heads_kv / problem.heads;
        const std::int64_t kv =
            (matrix / problem.heads * problem.heads_kv + head_kv) * problem.seqlen_kv * dim;
        for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
            const Row scores = scores_of(problem, &q[std::size_t((matrix * problem.seqlen_q + row) * dim)],
                                         &k[std::size_t(kv)], row, s_unit);
            const bool empty = scores.max == -infinity;

            // exp(score - max), the running sums and their rescaling, each to first order.
            const double range = empty ? 0.0 : scores.max - scores.min;
            // To base two the argument has the roundings of a scale with log2(e) and, where the maximum is
            // not scaled, that of the maximum times this scale.
            const double scalings = units.m_scaled ? 1 : 3;
            const double own_max = units.m_scaled || empty ? 0.0 : std::abs(scores.max);
            const double p_error = 2 * scores.score_error + (scalings * range + own_max + 6) * float32;
            const double rescaling = double(problem.kv_tiles()) * 6 * float32 + scalings * range * float32;
            const double l_error = p_error + rescaling + double(problem.seqlen_kv + 8) * float32;
            const double acc_error = p_error + rescaling + double(problem.seqlen_kv + 8) * acc_unit + p_unit;

            double l = 0;
            for (double score : scores.scores) l += empty ? 0.0 : std::exp(score - scores.max);
            result.lse.push_back(empty ? -infinity : scores.max + std::log(l));
            result.lse_tolerance.push_back(
                empty ? 0.0 : scores.score_error + l_error + 4 * float32 * (1 + std::abs(result.lse.back())));

            for (std::int64_t d = 0; d < dim; ++d) {
                double o = 0;
                double magnitude = 0;
                double v_sum = 0;
                for (std::int64_t key = 0; key < problem.seqlen_kv && !empty; ++key) {
                    if (!is_visible(problem, row, key)) continue;
                    const double p = std::exp(scores.scores[std::size_t(key)] - scores.max) / l;
                    const double value = v[std::size_t(kv + key * dim + d)];
                    o += p * value;
                    magnitude += p * std::abs(value);
                    v_sum += std::abs(value) / l;
                }
                result.o.push_back(o);
                result.o_tolerance.push_back((acc_error + l_error) * magnitude + p_quantum * v_sum +
                                             unit_roundoff(problem.dtype_o) * std::abs(o) +
                                             half_quantum(problem.dtype_o));
            }
        }
    }
    return result;
}

}  // namespace tilescope::testing
