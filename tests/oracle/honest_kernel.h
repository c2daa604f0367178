#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "tests/oracle/attention_inputs.h"
#include "tests/oracle/float_sums.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {

/// What a kernel keeps as its scores and maxima, and what it makes its exponential of. All of them are in
/// use.
enum class Softmax : std::uint8_t {
    natural,                   ///< s = raw * scale, expf(s - m)
    natural_contracted,        ///< the same source, contracted by the compiler: expf(fma(raw, scale, -m))
    natural_exp2,              ///< exp2f((s - m) * log2e)
    natural_fast,              ///< __expf(s - m)
    raw_exp,                   ///< s = raw, expf(fma(raw, scale, -m * scale))
    raw_exp2,                  ///< s = raw, exp2f(fma(raw, scale_log2, -m * scale_log2))
    raw_exp2_unfused,          ///< s = raw, exp2f(raw * scale_log2 - m * scale_log2)
    base_two,                  ///< s = raw * scale_log2, exp2f(s - m)
    raw_with_base_two_max,     ///< s = raw, m = max * scale_log2, exp2f(fma(raw, scale_log2, -m))
    natural_with_base_two_max  ///< s = raw * scale, m = max * log2e, exp2f(fma(s, log2e, -m))
};
inline constexpr int softmaxes = 10;

/// An operand as the kernel holds it, where it has a descale.
struct Loading {
    bool dequantises = true;  ///< multiplies with the descale when it loads the operand
    Dtype cast = Dtype::f32;  ///< and rounds the result to this

    /// What the recording declares: no cast where nothing is multiplied.
    Dtype cast_of(const Descale& descale) const {
        return dequantises && !descale.empty() ? cast : Dtype::f32;
    }
};

/// One honest way to compute attention in float32.
struct Arithmetic {
    Softmax softmax = Softmax::natural;
    Sum score_sum = Sum::sequential;
    Sum pv_sum = Sum::sequential;
    std::string compute_capability;  ///< of the device whose tensor cores the sums are like
    std::int64_t lanes = 4;          ///< threads that share a row's sum
    bool worst_exp = false;          ///< the exponential errs by most of the 2 ulp it may
    double exp_error = 0;      ///< of the polynomial of degree 3 in place of the exponential; 0: not in use
    bool separate_pv = false;  ///< acc = fma(acc, factor, p v) rather than a sum that starts at acc * factor
    bool reciprocal = false;   ///< o = acc * (1 / l), and other divisions alike
    bool approximate = false;  ///< division and logarithm of -use_fast_math, at their documented bounds
    bool skips_hidden_tiles = true;
    TanhFunction tanh = TanhFunction::tanhf;
    bool separate_alibi = false;  ///< slope * key - slope * diagonal rather than slope * distance
    double stale_threshold = 0;   ///< how far m may stay behind, in natural units
    Loading q;
    Loading k;
    Loading v;
    bool acc_dequantised = true;  ///< products with a V that is not dequantised are, as they join acc
    Dtype p_operand = Dtype::f32;
    double p_scale = 1;
    bool p_scale_in_exponent = false;  ///< exp(s - m + ln p_scale) rather than p_scale * exp(s - m)
    bool l_scaled = true;              ///< l adds scaled P
    bool acc_scaled = true;            ///< products of scaled P are not divided as they join acc
    bool sink_rescales = false;        ///< a sink that comes last may become the maximum
    bool dumps_unmasked_s = false;
    bool dumps_uncapped_s = false;
    bool dumps_unbiased_s = false;
    bool dumps_cast_p = false;
    bool l_sums_cast_p = false;
    EmptyRow o_empty_row = EmptyRow::zero;
    EmptyRow lse_empty_row = EmptyRow::minus_infinity;
    bool lse_includes_sink = true;
    LogBase lse_log_base = LogBase::e;
    KvOrder kv_order = KvOrder::forward;
};
Arithmetic random_arithmetic(std::uint64_t seed);
std::string describe(const Arithmetic& arithmetic);

/// What the recording must declare for this arithmetic and these descales.
Units units_of(const Arithmetic& arithmetic, const SideInputs& side = {});

/// One attention call and a way to compute it, of all that there is.
struct Call {
    Problem problem;
    Arithmetic arithmetic;
    Inputs inputs;
};
Call random_call(InputKind kind, std::uint64_t seed);
std::string describe(const Call& call);

/// One mistake, planted where Plant says.
enum class Mistake : std::uint8_t {
    none,
    q_row_zeroed,
    stale_k_tile,     ///< K of the tile before
    swapped_v_tile,   ///< V of the tile before
    mask_off_by_one,  ///< one key more to the right
    scaled_twice,
    max_of_half_tile,
    p_clamped,  ///< the exponent at -1
    l_not_rescaled,
    acc_not_rescaled,
    o_not_normalised,
    o_normalised_twice,
    lse_base_two,
    // These take a cap, splits or a scale of P.
    masked_before_cap,
    split_dropped,  ///< the last one
    splits_averaged,
    p_scale_left_in_o
};
/// Of those that every problem can show, and none.
inline constexpr int mistakes = 13;
std::string_view to_string(Mistake mistake);
Stage stage_of(Mistake mistake);

struct Plant {
    Mistake mistake = Mistake::none;
    std::int64_t batch = -1;     ///< -1: any
    std::int64_t head = -1;      ///< -1: any
    std::int64_t row = -1;       ///< q row, -1: any
    std::int64_t from_tile = 0;  ///< KV tiles from here on

    bool applies(std::int64_t in_batch, std::int64_t in_head, std::int64_t tile) const {
        return mistake != Mistake::none && (batch < 0 || batch == in_batch) &&
               (head < 0 || head == in_head) && tile >= from_tile;
    }
    bool applies_to_row(std::int64_t in_row) const { return row < 0 || row == in_row; }
};

/// An element whose value the mistake changed, against the same step done right.
struct Changed {
    TileId tile;
    std::int64_t row = 0;
    std::int64_t col = 0;
};

struct KernelRun {
    MemoryRecording recording;
    std::optional<Changed> first_changed;  ///< in order of KV tile, batch, head, row, column
};

/// Computes attention in float32 as a kernel does, KV tile by KV tile, and records every stage.
KernelRun run_kernel(Problem problem, const Arithmetic& arithmetic, const Inputs& inputs,
                     const Plant& plant = {});

/// The same tiles as of another call: what the kernel got wrong is what differs.
MemoryRecording declared_as(const Recording& run, const Problem& problem, const Units& units,
                            const Inputs& inputs);

}  // namespace tilescope::test
