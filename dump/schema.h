#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/hook/stage.h"
#include "dump/schema/comparison.h"
#include "dump/schema/dtype.h"
#include "dump/schema/shard.h"
#include "dump/schema/span.h"

namespace tilescope {

inline constexpr int format_version = 1;

/// Whether `value` carries unwritten_bits.
inline bool is_unwritten(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits == unwritten_bits;
}

enum class Mask : std::uint8_t { none, causal };
enum class CausalAlignment : std::uint8_t { top_left, bottom_right };
enum class WindowBounds : std::uint8_t { inclusive, exclusive };

/// Bias that grows with the distance to the diagonal, times the head's slope; see diagonal_of().
enum class Alibi : std::uint8_t {
    none,
    linear,   ///< + slope (key - diagonal)
    distance  ///< - slope |key - diagonal|
};

/// A score per head that takes part in the softmax and has no value.
enum class AttentionSink : std::uint8_t {
    none,
    first,  ///< the running state starts with it: m = sink, l = 1
    last    ///< it joins l when o and lse are computed; m and l as dumped are without it
};

/// The query heads that read one KV head.
enum class HeadGrouping : std::uint8_t {
    consecutive,  ///< head h reads KV head h / (heads / heads_kv)
    interleaved   ///< head h reads KV head h % heads_kv
};

/// Which of the two kernels of a training step was recorded.
enum class Direction : std::uint8_t { forward, backward };

/// A tile that is none of the stages of attention: recorded, shown and compared between runs, never judged.
struct NamedTile {
    std::string name;  ///< [a-z][a-z0-9_]*, at most 32 characters, not the name of a stage
    Axis rows = Axis::query;
    Axis cols = Axis::unit;
    std::int64_t row_size = 1;  ///< where `rows` is feature or unit; 1 otherwise
    std::int64_t col_size = 1;  ///< where `cols` is feature or unit; 1 otherwise
    bool per_q_block = true;    ///< one tile for each query block; without them `head` counts dkv_heads()
    bool per_kv_tile = true;    ///< one tile for each KV tile

    TILESCOPE_EQUALITY(NamedTile);
};

/// One attention call: shapes, mask and dtypes. Sizes are in elements.
struct Problem {
    Direction direction = Direction::forward;
    std::int64_t batch = 1;
    std::int64_t heads = 1;
    std::int64_t heads_kv = 1;
    HeadGrouping head_grouping = HeadGrouping::consecutive;
    std::int64_t seqlen_q = 1;
    std::int64_t seqlen_kv = 1;
    std::int64_t head_dim = 1;
    std::int64_t head_dim_v = 1;
    std::int64_t block_m = 1;
    std::int64_t block_n = 1;
    double sm_scale = 1.0;  ///< exactly the number the kernel multiplied with
    Mask mask = Mask::none;
    CausalAlignment causal_alignment = CausalAlignment::bottom_right;
    std::int64_t diagonal_offset = 0;  ///< columns to the right that the diagonal is of where it is aligned
    std::int64_t window_left = -1;     ///< keys visible to the left of the diagonal, -1 for no limit
    std::int64_t window_right = -1;    ///< keys visible to the right, -1 for no limit
    WindowBounds window_bounds = WindowBounds::inclusive;  ///< exclusive: a window of n shows n - 1 keys
    double logits_soft_cap = 0.0;                          ///< c of c tanh(s / c); 0 for none
    Alibi alibi = Alibi::none;
    AttentionSink sink = AttentionSink::none;
    std::int64_t kv_tiles_per_split = 0;  ///< m, l and acc start anew after so many KV tiles; 0: never
    /// KV tiles at which they start anew, ascending and without 0, where that is uneven; kv_tiles_per_split is 0 then.
    std::vector<std::int64_t> split_starts;
    std::int64_t l_lanes = 1;  ///< partial sums of a row in l: one for each lane that shares the row
    /// Columns next to each other that a lane adds up, before the next lane's begin: see l_lane().
    std::int64_t l_lane_columns = 1;
    Dtype dtype_q = Dtype::f16;
    Dtype dtype_k = Dtype::f16;
    Dtype dtype_v = Dtype::f16;
    Dtype dtype_p = Dtype::f32;    ///< operand type of P in the PV product
    Dtype dtype_acc = Dtype::f32;  ///< in which acc is kept from tile to tile: f32, f16 or bf16
    Dtype dtype_o = Dtype::f16;
    /// In which a split's o is stored before splits are merged: f32, f16 or bf16.
    Dtype dtype_partial_o = Dtype::f32;
    Dtype dtype_dout = Dtype::f16;
    Dtype dtype_ds = Dtype::f32;  ///< operand type of ds in the products for dq and dk
    Dtype dtype_dq = Dtype::f16;
    Dtype dtype_dk = Dtype::f16;
    Dtype dtype_dv = Dtype::f16;
    /// Each query head has its own dk and dv; otherwise they are summed over the query heads of a KV head.
    bool dkv_per_head = false;
    std::vector<NamedTile> named_tiles;  ///< Stage::named0 and so on; at most max_named_tiles
    /// Where the rows and keys lie in a call of several ranks: mask, windows and ALiBi are those of the whole call.
    Shard shard;

    std::int64_t q_blocks() const { return (seqlen_q + block_m - 1) / block_m; }
    std::int64_t kv_tiles() const { return (seqlen_kv + block_n - 1) / block_n; }
    /// The split of a KV tile, and how many splits there are; without splits all tiles are in one.
    std::int64_t split_of(std::int64_t kv_tile) const {
        if (kv_tiles_per_split > 0) return kv_tile / kv_tiles_per_split;
        return std::upper_bound(split_starts.begin(), split_starts.end(), kv_tile) - split_starts.begin();
    }
    bool is_split() const { return kv_tiles_per_split > 0 || !split_starts.empty(); }
    std::int64_t splits() const { return kv_tiles() > 0 ? split_of(kv_tiles() - 1) + 1 : 1; }
    /// The KV head that query head `head` reads.
    std::int64_t head_kv(std::int64_t head) const {
        return is_interleaved() ? head % heads_kv : head / (heads / heads_kv);
    }
    bool is_interleaved() const { return head_grouping == HeadGrouping::interleaved; }
    /// Heads of dk and dv, and how many query heads add up to one of them.
    std::int64_t dkv_heads() const { return dkv_per_head ? heads : heads_kv; }
    std::int64_t dkv_group() const { return heads / dkv_heads(); }
    /// Of the whole call, of which the recording may be a shard.
    std::int64_t whole_seqlen_q() const { return shard.seqlen_q > 0 ? shard.seqlen_q : seqlen_q; }
    std::int64_t whole_seqlen_kv() const { return shard.seqlen_kv > 0 ? shard.seqlen_kv : seqlen_kv; }
    /// The lane whose partial sum takes column `key_in_tile` of P.
    std::int64_t l_lane(std::int64_t key_in_tile) const { return key_in_tile / l_lane_columns % l_lanes; }

    TILESCOPE_EQUALITY(Problem);
};

enum class LogBase : std::uint8_t { e, two };
enum class KvOrder : std::uint8_t { forward, reverse };

/// How a product is accumulated; decides its error bound.
enum class Accumulation : std::uint8_t {
    fma_f32,           ///< one fused multiply-add a term, rounded to nearest
    fma_f16,           ///< the same in float16
    fma_bf16,          ///< the same in bfloat16
    tensor_core_f32,   ///< tensor cores: exact products of 16-bit operands, aligned and truncated sums
    tensor_core_f16,   ///< tensor cores that keep the sum in float16
    tensor_core_tf32,  ///< tensor cores that round float32 operands to 11 bits
    tensor_core_fp8    ///< tensor cores that keep 14 bits of a sum of fp8 products, as wgmma of sm_90 does
};

/// The exponential the kernel calls; decides its error bound.
enum class ExpFunction : std::uint8_t { expf, fast_expf, exp2f, ex2_approx };

/// The hyperbolic tangent of the soft cap.
enum class TanhFunction : std::uint8_t { tanhf, tanh_approx };

/// Whether P is multiplied with the descale of V of its key before its cast, in place of V or acc.
enum class DescaleInP : std::uint8_t {
    none,
    operand,  ///< what multiplies V holds it; the dumped P is without
    recorded  ///< the dumped P holds it, too
};

/// What o and lse hold in a row that sees no key.
enum class EmptyRow : std::uint8_t { zero, minus_infinity, plus_infinity, nan };

/// What the dumped stages contain: declared, never guessed. Defaults: a kernel that dumps textbook values.
/// In order of computation a score is the product of the dequantised operands, scaled, capped, biased,
/// masked.
struct Units {
    bool q_dequantised = true;  ///< descale_q is in the staged q
    bool k_dequantised = true;
    bool v_dequantised = true;
    double q_scale = 1;         ///< number that q is multiplied with before its cast, for example sm_scale
    double k_scale = 1;         ///< the same of k
    Dtype q_cast = Dtype::f32;  ///< type that the dequantised or scaled q was rounded to; f32: neither
    Dtype k_cast = Dtype::f32;
    Dtype v_cast = Dtype::f32;
    /// s was recorded after the last multiplication before the softmax: that by logits_soft_cap where s is
    /// capped, otherwise that by sm_scale / (q_scale k_scale) and by the descales that the staged q and k lack. False:
    /// before it, so s, its bias included, is the softmax's score divided by that number.
    bool s_scaled = true;
    bool s_capped = true;  ///< logits_soft_cap is applied
    TanhFunction s_tanh = TanhFunction::tanhf;
    bool s_biased = true;  ///< ALiBi and bias are added
    bool s_masked = true;  ///< masked cells hold s_masked_value
    /// What the kernel puts in place of a score that the mask hides, in the units of s.
    double s_masked_value = -std::numeric_limits<double>::infinity();
    Dtype s_cast = Dtype::f32;  ///< type that the dumped s was rounded to before its mask
    LogBase s_log_base = LogBase::e;
    Accumulation s_accumulation = Accumulation::fma_f32;
    bool m_scaled = true;  ///< as s_scaled, of the score after its cap and bias
    LogBase m_log_base = LogBase::e;
    bool m_from_lse =
        false;  ///< it goes on from m + ln(l) before the tile in place of m, as FlashAttention-1 does
    double m_stale_threshold = 0;  ///< how far m may stay behind the running maximum; natural units
    double m_offset = 0;           ///< what m is above the running maximum; natural units
    /// What m may hold in place of -inf before a row has seen a score, in the units of m.
    double m_start = -std::numeric_limits<double>::infinity();
    ExpFunction p_exp = ExpFunction::expf;
    double p_exp_error = 0;     ///< relative error of a hand-written exponential; 0: that of p_exp
    Dtype p_cast = Dtype::f32;  ///< type the dumped P was rounded to; f32: dumped before any cast
    double p_scale = 1;         ///< number that P is multiplied with before its cast
    DescaleInP p_descale_v = DescaleInP::none;
    bool p_of_tile_max = false;  ///< exp(s - the row's maximum in this KV tile alone) in place of exp(s - m)
    bool p_normalised = false;   ///< divided by l after the tile, before its cast
    /// Natural units: the arguments of the exponential of P that are less are replaced by it. Hidden scores give 0,
    /// or the exponential of it where that is nothing beside P.
    double p_least_argument = -std::numeric_limits<double>::infinity();
    /// Natural units: where the argument of an exponential is less, P may be 0 in place of it, and the factor that
    /// rescales l and acc.
    double p_flush_below = -std::numeric_limits<double>::infinity();
    bool l_sums_cast_p = false;  ///< l adds P after its cast to dtype_p
    double l_scale = 1;          ///< factor in l: p_scale where l adds up scaled P
    Accumulation acc_accumulation = Accumulation::fma_f32;
    bool acc_normalised = false;  ///< divided by l after every tile
    double acc_scale = 1;         ///< factor in acc: p_scale where acc adds up products of scaled P
    bool acc_dequantised = true;  ///< descale_v is already in acc; false: o is multiplied with it
    EmptyRow o_empty_row = EmptyRow::zero;
    LogBase lse_log_base = LogBase::e;
    EmptyRow lse_empty_row = EmptyRow::minus_infinity;
    bool lse_includes_sink = true;
    Accumulation dp_accumulation = Accumulation::fma_f32;
    bool ds_from_cast_p = false;  ///< ds multiplies P after its cast to dtype_p
    bool ds_capped = true;        ///< the derivative of the soft cap is in ds
    Dtype ds_cast = Dtype::f32;   ///< type the dumped ds was rounded to; f32: dumped before any cast
    double ds_scale = 1;          ///< number that ds is multiplied with before its cast, for example sm_scale
    Accumulation dq_accumulation = Accumulation::fma_f32;
    Accumulation dk_accumulation = Accumulation::fma_f32;
    Accumulation dv_accumulation = Accumulation::fma_f32;
    KvOrder kv_order = KvOrder::forward;

    TILESCOPE_EQUALITY(Units);
};

/// A tile of any stage. kv_tile is 0 for stages that have none (q, o, lse), q_block for those that have none
/// (dk, dv); of the latter `head` counts the dkv_heads().
struct TileId {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t q_block = 0;
    std::int64_t kv_tile = 0;

    TILESCOPE_ORDER(TileId);
};

/// Fixed facts of a stage.
struct StageInfo {
    Stage stage;
    std::string_view name;
    std::string_view group;  ///< of its dataset in the file
    bool forward;            ///< the forward pass has it
    bool backward;
    bool per_q_block;  ///< one tile for each query block
    bool per_kv_tile;  ///< one tile for each KV tile
    Axis row_axis;
    Axis col_axis;
};

/// The stages of attention, without named tiles.
const std::array<StageInfo, built_in_stages>& all_stages();
/// Those that the pass has, in order of computation.
const std::vector<StageInfo>& stages_of(Direction direction);
/// The same, and the problem's named tiles behind them. The names are the problem's.
std::vector<StageInfo> stages_of(const Problem& problem);
/// Errors: std::out_of_range for a named tile: only the problem knows it.
const StageInfo& stage_info(Stage stage);
/// Of any stage. The name of a named tile is the problem's; one that the problem does not have has no name
/// and no tiles.
StageInfo stage_info(const Problem& problem, Stage stage);
/// A stage of attention, or the one of `named` that has the name.
std::optional<Stage> stage_from_name(std::string_view name, Span<const NamedTile> named = {});
/// Path of the stage's dataset in the file.
std::string dataset_of(const StageInfo& info);
/// Whether the pass has the stage of attention.
bool has_stage(Direction direction, Stage stage);
/// Whether the problem has the stage: its pass does, or it names the tile.
bool has_stage(const Problem& problem, Stage stage);
/// Whether the kernel stores the stage in global memory.
bool is_output(Stage stage);
/// Heads that the stage has tiles of: dkv_heads() for stages without a query block.
std::int64_t stage_heads(const Problem& problem, Stage stage);
/// Every `step`-th head from `first` on, before `last`.
struct HeadRange {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t step = 1;

    std::int64_t size() const { return (last - first + step - 1) / step; }
    std::int64_t at(std::int64_t i) const { return first + i * step; }
    bool contains(std::int64_t head) const {
        return head >= first && head < last && (head - first) % step == 0;
    }
};
/// The query heads that a tile of `stage` at `head` is computed from.
HeadRange query_heads(const Problem& problem, Stage stage, std::int64_t head);
/// Those that read a KV head.
HeadRange heads_reading(const Problem& problem, std::int64_t head_kv);
/// The other way round: the head of `stage` that query head `head` goes into, and its number among those that do.
std::int64_t stage_head(const Problem& problem, Stage stage, std::int64_t head);
std::int64_t number_in_group(const Problem& problem, Stage stage, std::int64_t head);
/// Type in which the kernel stores the stage: that of the output, or float32.
Dtype stage_dtype(const Problem& problem, Stage stage);

struct TileShape {
    std::int64_t rows = 0;
    std::int64_t cols = 0;

    std::int64_t elements() const { return rows * cols; }
    TILESCOPE_EQUALITY(TileShape);
};

/// Shape of a whole tile of `stage`, padding included: what a chunk holds, row-major.
TileShape tile_shape(const Problem& problem, Stage stage);

/// The part of the tile that lies inside the tensor (tails cut), from its first row and column.
TileShape tile_extent(const Problem& problem, Stage stage, const TileId& tile);

/// Dimensions and chunk of the stage's dataset in the file; the chunk holds exactly one tile.
struct DatasetShape {
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> chunk;
};
DatasetShape dataset_shape(const Problem& problem, Stage stage);

/// Index of the tile's chunk along each dimension of its dataset.
std::vector<std::int64_t> chunk_index(const Problem& problem, Stage stage, const TileId& tile);

/// The other way round: the tile whose chunk_index() this is.
TileId tile_of_chunk(const Problem& problem, Stage stage, Span<const std::int64_t> index);

/// Every tile that the stage can have, in order (batch, head, q_block, kv_tile); none where the direction
/// does not have the stage.
std::int64_t tile_count(const Problem& problem, Stage stage);
TileId tile_at(const Problem& problem, Stage stage, std::int64_t index);
/// The other way round; -1 for a tile that the problem does not have.
std::int64_t tile_index(const Problem& problem, Stage stage, const TileId& tile);

/// Throws Error(where) unless every size is positive, heads is a multiple of heads_kv, sm_scale is finite and
/// positive, logits_soft_cap is finite and not negative, no window is below -1, kv_tiles_per_split is not
/// negative, split_starts ascend from 1 and stand alone, diagonal_offset is within 2^31 - 1, no size exceeds
/// 2^31 - 1, and the named tiles and the shard are valid.
void validate(const Problem& problem, const std::string& where);

/// Throws Error(where) unless there are at most max_named_tiles, with different names; no tile has query
/// rows, or keys, on both axes; one with query rows is per query block and one with keys per KV tile; and
/// axes of features and units have a size from 1 on, the others none.
void validate(Span<const NamedTile> tiles, const std::string& where);

/// The problem as that of a shard: its part of the call, and named tiles for what its rank has merged after a step.
/// `problem` has the sizes of the shard. Of what a rank owns and of its outputs at the end nothing is merged.
Problem with_shard(Problem problem, const Shard& shard);

/// The stage of the problem's tiles that is named so, has rows of queries and `cols` columns, and one tile for all keys;
/// nullopt where there is none.
std::optional<Stage> merged_stage(const Problem& problem, std::string_view name, std::int64_t cols);
/// Whether the stage is one of the two that say what was merged: kernels store it as they store outputs.
bool is_merged(const Problem& problem, Stage stage);

/// Throws Error(where) unless every number is finite, no threshold or error is negative and every scale is
/// positive, and neither the least argument of P nor what is flushed above 0.
void validate(const Units& units, const std::string& where);

}  // namespace tilescope
