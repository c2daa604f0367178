#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/dtype.h"
#include "dump/schema/side_inputs.h"

namespace tilescope::test {

/// The value as the type holds it.
float rounded(Dtype dtype, std::floating_point auto value, Overflow overflow = Overflow::to_infinity) {
    return decode(dtype, encode(dtype, value, overflow));
}

/// Inputs of one attention call. q, k and v: contiguous [batch][heads or heads_kv][seqlen][head_dim], each
/// value exact in the problem's dtypes.
struct Inputs {
    std::vector<float> q;
    std::vector<float> k;
    std::vector<float> v;
    SideInputs side;
    Bias bias;
    // What a backward call is given besides.
    std::vector<float> dout;  ///< [batch][heads][seqlen_q][head_dim_v]
    std::vector<float> o;     ///< the same
    std::vector<float> lse;   ///< [batch][heads][seqlen_q]

    float& q_at(const Problem& p, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t d) {
        return q[std::size_t(((batch * p.heads + head) * p.seqlen_q + row) * p.head_dim + d)];
    }
    float& k_at(const Problem& p, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t d) {
        return k[std::size_t(((batch * p.heads_kv + head) * p.seqlen_kv + row) * p.head_dim + d)];
    }
    float& v_at(const Problem& p, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t d) {
        return v[std::size_t(((batch * p.heads_kv + head) * p.seqlen_kv + row) * p.head_dim_v + d)];
    }
};

/// Distributions that expose faults. V has a mean that is not zero everywhere but in `normal`.
enum class InputKind : std::uint8_t {
    normal,
    ramped_k,      ///< the row maximum rises in every KV tile
    large,         ///< scores in the hundreds
    negative,      ///< every score below -5e4
    ties,          ///< q, k and v from a few integers: equal scores at the row maximum
    tiny,          ///< scores near zero
    falling_k,     ///< the row maximum is in the first KV tile, and later tiles are far below it
    huge,          ///< every score above 3e4
    repeated_keys  ///< every key and its v come three times in a row
};
inline constexpr int input_kinds = 9;
std::string_view to_string(InputKind kind);

Inputs make_inputs(const Problem& problem, InputKind kind, std::uint64_t seed);

/// Distributions of dout.
enum class DoutKind : std::uint8_t { normal, large, small, with_mean, huge_row, constant, zero, sparse };
inline constexpr int dout_kinds = 8;

std::vector<float> make_dout(const Problem& problem, DoutKind kind, std::uint64_t seed);

/// Slopes and sinks where the problem has them: one a head.
void add_slopes_and_sinks(const Problem& problem, std::uint64_t seed, Inputs& inputs);

/// Random values between 0.5 and 2 of `blocks` blocks of `rows` rows a head; heads 0: one for the tensor.
Descale make_descale(const Problem& problem, std::int64_t heads, std::int64_t blocks, std::int64_t rows,
                     std::uint64_t seed);

/// Fills the bias, whose sizes are set: normal numbers, and -inf with probability `hidden`.
void fill_bias(double hidden, std::uint64_t seed, Bias& bias);

/// Shapes with tails in every direction, GQA, causal masks of both alignments and windows.
Problem random_problem(std::uint64_t seed);

/// A problem in which every row sees several KV tiles and every tile is partly visible: 2 batches, 4 heads on
/// 2, seqlen_q 40, seqlen_kv 72 in tiles of 16 x 16.
Problem small_problem(Mask mask = Mask::none, Direction direction = Direction::forward);
/// The same with o in float32.
Problem small_problem_of_floats(Mask mask = Mask::none);

/// For failure messages.
std::string describe(const Problem& problem);

}  // namespace tilescope::test
