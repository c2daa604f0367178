#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/dtype.h"
#include "dump/stage.h"

namespace tilescope {

inline constexpr int format_version = 1;

/// Whether `value` carries unwritten_bits.
bool is_unwritten(float value);

enum class Mask : std::uint8_t { none, causal };
enum class CausalAlignment : std::uint8_t { top_left, bottom_right };

/// One attention call: shapes, mask and dtypes. Sizes are in elements.
struct Problem {
    std::int64_t batch = 1;
    std::int64_t heads = 1;
    std::int64_t heads_kv = 1;
    std::int64_t seqlen_q = 1;
    std::int64_t seqlen_kv = 1;
    std::int64_t head_dim = 1;
    std::int64_t head_dim_v = 1;
    std::int64_t block_m = 1;
    std::int64_t block_n = 1;
    double sm_scale = 1.0;  ///< exactly the number the kernel multiplied with
    Mask mask = Mask::none;
    CausalAlignment causal_alignment = CausalAlignment::bottom_right;
    std::int64_t window_left = -1;   ///< keys visible to the left, -1 for no limit
    std::int64_t window_right = -1;  ///< keys visible to the right, -1 for no limit
    double logits_soft_cap = 0.0;    ///< 0 for none
    Dtype dtype_q = Dtype::f16;
    Dtype dtype_k = Dtype::f16;
    Dtype dtype_v = Dtype::f16;
    Dtype dtype_p = Dtype::f32;    ///< operand type of P in the PV product
    Dtype dtype_acc = Dtype::f32;  ///< accumulator of both products
    Dtype dtype_o = Dtype::f16;

    std::int64_t q_blocks() const { return (seqlen_q + block_m - 1) / block_m; }
    std::int64_t kv_tiles() const { return (seqlen_kv + block_n - 1) / block_n; }
    /// The KV head that query head `head` reads.
    std::int64_t head_kv(std::int64_t head) const { return head / (heads / heads_kv); }

    bool operator==(const Problem&) const = default;
};

enum class LogBase : std::uint8_t { e, two };
enum class KvOrder : std::uint8_t { forward, reverse };

/// How a product is accumulated; decides its error bound.
enum class Accumulation : std::uint8_t {
    fma_f32,         ///< one fused multiply-add a term, rounded to nearest
    tensor_core_f32  ///< tensor cores: exact products, aligned and truncated sums
};

/// The exponential the kernel calls; decides its error bound.
enum class ExpFunction : std::uint8_t { expf, fast_expf, exp2f, ex2_approx };

/// What the dumped stages contain: declared, never guessed. Defaults: a kernel that dumps textbook values.
struct Units {
    bool s_scaled = true;  ///< sm_scale is applied
    bool s_masked = true;  ///< masked cells hold -inf
    LogBase s_log_base = LogBase::e;
    Accumulation s_accumulation = Accumulation::fma_f32;
    bool m_scaled = true;
    LogBase m_log_base = LogBase::e;
    ExpFunction p_exp = ExpFunction::expf;
    Dtype p_cast = Dtype::f32;   ///< type the dumped P was rounded to; f32: dumped before any cast
    bool l_sums_cast_p = false;  ///< l adds P after its cast to dtype_p
    Accumulation acc_accumulation = Accumulation::fma_f32;
    LogBase lse_log_base = LogBase::e;
    KvOrder kv_order = KvOrder::forward;

    bool operator==(const Units&) const = default;
};

/// A tile of any stage. Stages without a KV tile (q, o, lse) ignore kv_tile; it is 0 there.
struct TileId {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t q_block = 0;
    std::int64_t kv_tile = 0;

    auto operator<=>(const TileId&) const = default;
};

/// Fixed facts of a stage.
struct StageInfo {
    Stage stage;
    std::string_view name;
    std::string_view dataset;  ///< path in the file
    bool per_kv_tile;          ///< one tile for each KV tile
    Axis row_axis;
    Axis col_axis;
};

const std::array<StageInfo, stage_count>& all_stages();
const StageInfo& stage_info(Stage stage);
std::optional<Stage> stage_from_name(std::string_view name);

struct TileShape {
    std::int64_t rows = 0;
    std::int64_t cols = 0;

    std::int64_t elements() const { return rows * cols; }
    bool operator==(const TileShape&) const = default;
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
std::vector<std::int64_t> chunk_index(Stage stage, const TileId& tile);

/// Every tile that the stage can have, in order (batch, head, q_block, kv_tile).
std::int64_t tile_count(const Problem& problem, Stage stage);
TileId tile_at(const Problem& problem, Stage stage, std::int64_t index);

/// Throws Error(where) unless every size is positive, heads is a multiple of heads_kv, sm_scale is finite and
/// positive, logits_soft_cap is finite and not negative, no window is below -1, and no size exceeds 2^31 - 1.
void validate(const Problem& problem, const std::string& where);

}  // namespace tilescope
