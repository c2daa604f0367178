#include "dump/schema.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr std::array<StageInfo, built_in_stages> stages = {{
    {Stage::q, "q", "/tiles", true, true, true, false, Axis::query, Axis::feature},
    {Stage::k, "k", "/tiles", true, true, true, true, Axis::key, Axis::feature},
    {Stage::v, "v", "/tiles", true, true, true, true, Axis::key, Axis::feature},
    {Stage::s, "s", "/tiles", true, true, true, true, Axis::query, Axis::key},
    {Stage::m, "m", "/tiles", true, false, true, true, Axis::query, Axis::unit},
    {Stage::p, "p", "/tiles", true, true, true, true, Axis::query, Axis::key},
    {Stage::l, "l", "/tiles", true, false, true, true, Axis::query, Axis::unit},
    {Stage::acc, "acc", "/tiles", true, false, true, true, Axis::query, Axis::feature},
    {Stage::o, "o", "/outputs", true, false, true, false, Axis::query, Axis::feature},
    {Stage::lse, "lse", "/outputs", true, false, true, false, Axis::query, Axis::unit},
    {Stage::dout, "dout", "/tiles", false, true, true, false, Axis::query, Axis::feature},
    {Stage::delta, "delta", "/tiles", false, true, true, false, Axis::query, Axis::unit},
    {Stage::dp, "dp", "/tiles", false, true, true, true, Axis::query, Axis::key},
    {Stage::ds, "ds", "/tiles", false, true, true, true, Axis::query, Axis::key},
    {Stage::dq, "dq", "/outputs", false, true, true, false, Axis::query, Axis::feature},
    {Stage::dk, "dk", "/outputs", false, true, false, true, Axis::key, Axis::feature},
    {Stage::dv, "dv", "/outputs", false, true, false, true, Axis::key, Axis::feature},
}};

const NamedTile* named_tile_of(const Problem& problem, Stage stage) {
    const std::int64_t index = std::int64_t(stage) - built_in_stages;
    return index < 0 || index >= std::ssize(problem.named_tiles) ? nullptr
                                                                 : &problem.named_tiles[std::size_t(index)];
}

std::int64_t features(const Problem& problem, Stage stage) {
    const bool of_qk = stage == Stage::q || stage == Stage::k || stage == Stage::dq || stage == Stage::dk;
    return of_qk ? problem.head_dim : problem.head_dim_v;
}

/// Rows and columns where they are features or units.
TileShape free_shape(const Problem& problem, Stage stage) {
    if (const NamedTile* tile = named_tile_of(problem, stage)) return {tile->row_size, tile->col_size};
    if (is_named(stage)) return {0, 0};
    const bool of_features = stage_info(stage).col_axis == Axis::feature;
    return {1, of_features ? features(problem, stage) : stage == Stage::l ? problem.l_lanes : 1};
}

std::int64_t block_of(const Problem& problem, Axis axis, std::int64_t free_size) {
    if (axis == Axis::query) return problem.block_m;
    return axis == Axis::key ? problem.block_n : free_size;
}

std::int64_t extent_of(const Problem& problem, Axis axis, std::int64_t block, const TileId& tile) {
    if (axis == Axis::query) return std::min(block, problem.seqlen_q - tile.q_block * block);
    return axis == Axis::key ? std::min(block, problem.seqlen_kv - tile.kv_tile * block) : block;
}

/// A dimension of a stage's dataset.
struct Dimension {
    std::int64_t length = 0;
    std::int64_t chunk = 1;
    std::int64_t TileId::*index = nullptr;  ///< of the tile's chunk; null: it has only one
};

Dimension dimension_of(const Problem& problem, Axis axis, std::int64_t block) {
    if (axis == Axis::query) return {problem.seqlen_q, block, &TileId::q_block};
    if (axis == Axis::key) return {problem.seqlen_kv, block, &TileId::kv_tile};
    return {block, block, nullptr};
}

/// Batch, head, the blocks that neither axis walks along, rows, columns; without columns where each row has
/// one value.
std::vector<Dimension> dimensions_of(const Problem& problem, Stage stage) {
    const StageInfo info = stage_info(problem, stage);
    const TileShape shape = tile_shape(problem, stage);
    const auto walks = [&](Axis axis) { return info.row_axis == axis || info.col_axis == axis; };
    std::vector<Dimension> dimensions = {{problem.batch, 1, &TileId::batch},
                                         {stage_heads(problem, stage), 1, &TileId::head}};
    if (info.per_q_block && !walks(Axis::query))
        dimensions.push_back({problem.q_blocks(), 1, &TileId::q_block});
    if (info.per_kv_tile && !walks(Axis::key))
        dimensions.push_back({problem.kv_tiles(), 1, &TileId::kv_tile});
    dimensions.push_back(dimension_of(problem, info.row_axis, shape.rows));
    if (info.col_axis != Axis::unit || shape.cols != 1)
        dimensions.push_back(dimension_of(problem, info.col_axis, shape.cols));
    return dimensions;
}

std::string text_of(double value) {
    char text[32];
    return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
}

}  // namespace

const std::array<StageInfo, built_in_stages>& all_stages() {
    return stages;
}

const std::vector<StageInfo>& stages_of(Direction direction) {
    const auto select = [](Direction of) {
        std::vector<StageInfo> selected;
        std::ranges::copy_if(stages, std::back_inserter(selected),
                             [&](const StageInfo& info) { return has_stage(of, info.stage); });
        return selected;
    };
    static const std::array<std::vector<StageInfo>, 2> of_direction = {select(Direction::forward),
                                                                       select(Direction::backward)};
    return of_direction[static_cast<std::size_t>(direction)];
}

std::vector<StageInfo> stages_of(const Problem& problem) {
    std::vector<StageInfo> selected = stages_of(problem.direction);
    for (int i = 0; i < std::ssize(problem.named_tiles); ++i)
        selected.push_back(stage_info(problem, named_tile(i)));
    return selected;
}

const StageInfo& stage_info(Stage stage) {
    return stages.at(static_cast<std::size_t>(stage));
}

StageInfo stage_info(const Problem& problem, Stage stage) {
    if (!is_named(stage)) return stage_info(stage);
    const NamedTile* const tile = named_tile_of(problem, stage);
    if (tile == nullptr) return {stage, "", "/tiles", false, false, true, true, Axis::unit, Axis::unit};
    return {stage,      tile->name, "/tiles", true, true, tile->per_q_block, tile->per_kv_tile,
            tile->rows, tile->cols};
}

std::optional<Stage> stage_from_name(std::string_view name, Span<const NamedTile> named) {
    for (const StageInfo& info : stages) {
        if (info.name == name) return info.stage;
    }
    for (std::size_t i = 0; i < named.size(); ++i) {
        if (named[i].name == name) return named_tile(int(i));
    }
    return std::nullopt;
}

std::string dataset_of(const StageInfo& info) {
    return std::string(info.group) + "/" + std::string(info.name);
}

bool has_stage(Direction direction, Stage stage) {
    return direction == Direction::forward ? stage_info(stage).forward : stage_info(stage).backward;
}

bool has_stage(const Problem& problem, Stage stage) {
    return is_named(stage) ? named_tile_of(problem, stage) != nullptr : has_stage(problem.direction, stage);
}

bool is_output(Stage stage) {
    return !is_named(stage) && stage_info(stage).group == "/outputs";
}

std::int64_t stage_heads(const Problem& problem, Stage stage) {
    return stage_info(problem, stage).per_q_block ? problem.heads : problem.dkv_heads();
}

HeadRange query_heads(const Problem& problem, Stage stage, std::int64_t head) {
    if (stage_heads(problem, stage) == problem.heads) return {head, head + 1};
    return heads_reading(problem, head);
}

HeadRange heads_reading(const Problem& problem, std::int64_t head_kv) {
    if (problem.is_interleaved()) return {head_kv, problem.heads, problem.heads_kv};
    const std::int64_t group = problem.heads / problem.heads_kv;
    return {head_kv * group, (head_kv + 1) * group};
}

std::int64_t stage_head(const Problem& problem, Stage stage, std::int64_t head) {
    return stage_heads(problem, stage) == problem.heads ? head : problem.head_kv(head);
}

std::int64_t number_in_group(const Problem& problem, Stage stage, std::int64_t head) {
    const HeadRange group = query_heads(problem, stage, stage_head(problem, stage, head));
    return (head - group.first) / group.step;
}

Dtype stage_dtype(const Problem& problem, Stage stage) {
    switch (stage) {
        case Stage::o:
            return problem.dtype_o;
        case Stage::dq:
            return problem.dtype_dq;
        case Stage::dk:
            return problem.dtype_dk;
        case Stage::dv:
            return problem.dtype_dv;
        default:
            return Dtype::f32;
    }
}

TileShape tile_shape(const Problem& problem, Stage stage) {
    const StageInfo info = stage_info(problem, stage);
    const TileShape free = free_shape(problem, stage);
    return {block_of(problem, info.row_axis, free.rows), block_of(problem, info.col_axis, free.cols)};
}

TileShape tile_extent(const Problem& problem, Stage stage, const TileId& tile) {
    const StageInfo info = stage_info(problem, stage);
    const TileShape shape = tile_shape(problem, stage);
    return {extent_of(problem, info.row_axis, shape.rows, tile),
            extent_of(problem, info.col_axis, shape.cols, tile)};
}

DatasetShape dataset_shape(const Problem& problem, Stage stage) {
    DatasetShape shape;
    for (const Dimension& dimension : dimensions_of(problem, stage)) {
        shape.dims.push_back(dimension.length);
        shape.chunk.push_back(dimension.chunk);
    }
    return shape;
}

std::vector<std::int64_t> chunk_index(const Problem& problem, Stage stage, const TileId& tile) {
    std::vector<std::int64_t> index;
    for (const Dimension& dimension : dimensions_of(problem, stage))
        index.push_back(dimension.index == nullptr ? 0 : tile.*dimension.index);
    return index;
}

TileId tile_of_chunk(const Problem& problem, Stage stage, Span<const std::int64_t> index) {
    TileId tile;
    std::size_t i = 0;
    for (const Dimension& dimension : dimensions_of(problem, stage)) {
        if (dimension.index != nullptr) tile.*dimension.index = index[i];
        ++i;
    }
    return tile;
}

std::int64_t tile_count(const Problem& problem, Stage stage) {
    const StageInfo info = stage_info(problem, stage);
    if (!has_stage(problem, stage)) return 0;
    return problem.batch * stage_heads(problem, stage) * (info.per_q_block ? problem.q_blocks() : 1) *
           (info.per_kv_tile ? problem.kv_tiles() : 1);
}

TileId tile_at(const Problem& problem, Stage stage, std::int64_t index) {
    const StageInfo info = stage_info(problem, stage);
    TileId tile;
    if (info.per_kv_tile) {
        tile.kv_tile = index % problem.kv_tiles();
        index /= problem.kv_tiles();
    }
    if (info.per_q_block) {
        tile.q_block = index % problem.q_blocks();
        index /= problem.q_blocks();
    }
    tile.head = index % stage_heads(problem, stage);
    tile.batch = index / stage_heads(problem, stage);
    return tile;
}

std::int64_t tile_index(const Problem& problem, Stage stage, const TileId& tile) {
    const StageInfo info = stage_info(problem, stage);
    const std::int64_t heads = stage_heads(problem, stage);
    const auto is_one_of = [](std::int64_t value, std::int64_t count) { return value >= 0 && value < count; };
    if (!has_stage(problem, stage) || !is_one_of(tile.batch, problem.batch) || !is_one_of(tile.head, heads))
        return -1;
    std::int64_t index = tile.batch * heads + tile.head;
    if (info.per_q_block) {
        if (!is_one_of(tile.q_block, problem.q_blocks())) return -1;
        index = index * problem.q_blocks() + tile.q_block;
    }
    if (info.per_kv_tile) {
        if (!is_one_of(tile.kv_tile, problem.kv_tiles())) return -1;
        index = index * problem.kv_tiles() + tile.kv_tile;
    }
    return index;
}

namespace {

constexpr const char* valid_problem = "record it again with a valid problem";

void validate_sizes(const Problem& problem, const std::string& where) {
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"batch", problem.batch},
        {"heads", problem.heads},
        {"heads_kv", problem.heads_kv},
        {"seqlen_q", problem.seqlen_q},
        {"seqlen_kv", problem.seqlen_kv},
        {"head_dim", problem.head_dim},
        {"head_dim_v", problem.head_dim_v},
        {"block_m", problem.block_m},
        {"block_n", problem.block_n},
        {"l_lanes", problem.l_lanes},
        {"l_lane_columns", problem.l_lane_columns},
    };
    for (const auto& [name, size] : sizes) {
        if (size < 1 || size > std::numeric_limits<std::int32_t>::max()) {
            throw Error(std::string(name) + " is " + std::to_string(size) + ", not between 1 and 2147483647",
                        where, valid_problem);
        }
    }
}

void validate_mask_and_splits(const Problem& problem, const std::string& where) {
    const std::pair<const char*, std::int64_t> windows[] = {{"window_left", problem.window_left},
                                                            {"window_right", problem.window_right}};
    for (const auto& [name, window] : windows) {
        if (window < -1) {
            throw Error(std::string(name) + " is " + std::to_string(window) + ", below -1 (no limit)", where,
                        valid_problem);
        }
    }
    if (std::abs(problem.diagonal_offset) > std::numeric_limits<std::int32_t>::max()) {
        throw Error("diagonal_offset is " + std::to_string(problem.diagonal_offset) +
                        ", not between -2147483647 and 2147483647",
                    where, valid_problem);
    }
    if (problem.kv_tiles_per_split < 0) {
        throw Error(
            "kv_tiles_per_split is " + std::to_string(problem.kv_tiles_per_split) + ", below 0 (no split)",
            where, valid_problem);
    }
    std::int64_t before = 0;
    for (const std::int64_t start : problem.split_starts) {
        if (start <= before || problem.kv_tiles_per_split > 0) {
            throw Error("split_starts do not ascend from 1, or stand beside kv_tiles_per_split", where,
                        valid_problem);
        }
        before = start;
    }
}

/// The product of the counts must stay countable: nothing below multiplies more than these.
void validate_tiles(const Problem& problem, const std::string& where) {
    const double tiles = double(problem.batch) * double(problem.heads) * double(problem.q_blocks()) *
                         double(problem.kv_tiles());
    double tile_elements = double(std::max(problem.block_m, problem.block_n)) *
                           double(std::max({problem.block_n, problem.head_dim, problem.head_dim_v}));
    for (int i = 0; i < std::ssize(problem.named_tiles); ++i) {
        const TileShape shape = tile_shape(problem, named_tile(i));
        tile_elements = std::max(tile_elements, double(shape.rows) * double(shape.cols));
    }
    if (tiles > 1e12 || tile_elements > 1e9 || tiles * tile_elements > 1e17) {
        throw Error(
            "the sizes ask for " + text_of(tiles) + " tiles of up to " + text_of(tile_elements) + " elements",
            where, valid_problem);
    }
}

/// A type of block-scaled formats has no name in a file of attention.
void expect_of_attention(const char* name, Dtype dtype, const std::string& where, const char* what_to_do) {
    for (const DtypeInfo& info : attention_dtypes())
        if (info.dtype == dtype) return;
    throw Error(std::string(name) + " is " + std::string(dtype_info(dtype).name) +
                    ", which no stage of attention has",
                where, what_to_do);
}

}  // namespace

void validate(const Problem& problem, const std::string& where) {
    const std::pair<const char*, Dtype> dtypes[] = {
        {"dtype_q", problem.dtype_q},   {"dtype_k", problem.dtype_k},   {"dtype_v", problem.dtype_v},
        {"dtype_p", problem.dtype_p},   {"dtype_o", problem.dtype_o},   {"dtype_dout", problem.dtype_dout},
        {"dtype_ds", problem.dtype_ds}, {"dtype_dq", problem.dtype_dq}, {"dtype_dk", problem.dtype_dk},
        {"dtype_dv", problem.dtype_dv}};
    for (const auto& [name, dtype] : dtypes) expect_of_attention(name, dtype, where, valid_problem);
    validate_sizes(problem, where);
    validate_mask_and_splits(problem, where);
    if (problem.l_lanes > problem.block_n) {
        throw Error("l_lanes (" + std::to_string(problem.l_lanes) + ") is larger than block_n (" +
                        std::to_string(problem.block_n) + ")",
                    where, valid_problem);
    }
    const std::pair<const char*, Dtype> kept[] = {{"dtype_acc", problem.dtype_acc},
                                                  {"dtype_partial_o", problem.dtype_partial_o}};
    for (const auto& [name, dtype] : kept) {
        if (dtype_info(dtype).bytes > 1) continue;
        throw Error(
            std::string(name) + " is " + std::string(dtype_info(dtype).name) + ", none of f32, f16 and bf16",
            where, valid_problem);
    }
    if (problem.heads % problem.heads_kv != 0) {
        throw Error("heads (" + std::to_string(problem.heads) + ") is not a multiple of heads_kv (" +
                        std::to_string(problem.heads_kv) + ")",
                    where, valid_problem);
    }
    if (!(problem.sm_scale > 0) || !std::isfinite(problem.sm_scale)) {
        throw Error("sm_scale is " + text_of(problem.sm_scale) + ", not a finite positive number", where,
                    valid_problem);
    }
    if (!(problem.logits_soft_cap >= 0) || !std::isfinite(problem.logits_soft_cap)) {
        throw Error("logits_soft_cap is " + text_of(problem.logits_soft_cap) +
                        ", neither 0 nor a finite positive number",
                    where, valid_problem);
    }
    validate(problem.named_tiles, where);
    validate_tiles(problem, where);
    validate_shard(problem, where);
}

void validate(const Units& units, const std::string& where) {
    const char* const what_to_do = "record it again with valid units";
    const std::pair<const char*, Dtype> casts[] = {
        {"cast of q", units.q_cast}, {"cast of k", units.k_cast}, {"cast of v", units.v_cast},
        {"cast of s", units.s_cast}, {"cast of p", units.p_cast}, {"cast of ds", units.ds_cast}};
    for (const auto& [name, dtype] : casts) expect_of_attention(name, dtype, where, what_to_do);
    const std::pair<const char*, double> bounds[] = {{"stale_threshold of m", units.m_stale_threshold},
                                                     {"exp_error of p", units.p_exp_error}};
    for (const auto& [name, bound] : bounds) {
        if (bound >= 0 && std::isfinite(bound)) continue;
        throw Error(std::string(name) + " is " + text_of(bound) + ", neither 0 nor a finite positive number",
                    where, what_to_do);
    }
    const std::pair<const char*, double> scales[] = {
        {"scale of q", units.q_scale}, {"scale of k", units.k_scale},     {"scale of p", units.p_scale},
        {"scale of l", units.l_scale}, {"scale of acc", units.acc_scale}, {"scale of ds", units.ds_scale}};
    for (const auto& [name, scale] : scales) {
        if (scale > 0 && std::isfinite(scale)) continue;
        throw Error(std::string(name) + " is " + text_of(scale) + ", not a finite positive number", where,
                    what_to_do);
    }
    const std::pair<const char*, double> arguments[] = {{"least_argument of p", units.p_least_argument},
                                                        {"flush_below of p", units.p_flush_below}};
    for (const auto& [name, argument] : arguments) {
        if (argument <= 0) continue;
        throw Error(std::string(name) + " is " + text_of(argument) + ", which is above 0", where, what_to_do);
    }
    if (!std::isfinite(units.m_offset)) {
        throw Error("offset of m is " + text_of(units.m_offset) + ", not a finite number", where, what_to_do);
    }
    const std::pair<const char*, double> stand_ins[] = {{"masked_value of s", units.s_masked_value},
                                                        {"start of m", units.m_start}};
    for (const auto& [name, number] : stand_ins) {
        const bool is_float = !(number < -double(std::numeric_limits<float>::max()));
        if (number <= 0 && (is_float || std::isinf(number))) continue;
        throw Error(std::string(name) + " is " + text_of(number) +
                        ", neither -inf nor a number of float32 that is not above 0",
                    where, what_to_do);
    }
}

}  // namespace tilescope
