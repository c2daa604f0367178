#include "dump/schema.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "dump/error.h"

namespace tilescope {

namespace {

constexpr std::array<StageInfo, stage_count> stages = {{
    {Stage::q, "q", "/tiles/q", true, true, true, false, Axis::query, Axis::feature},
    {Stage::k, "k", "/tiles/k", true, true, true, true, Axis::key, Axis::feature},
    {Stage::v, "v", "/tiles/v", true, true, true, true, Axis::key, Axis::feature},
    {Stage::s, "s", "/tiles/s", true, true, true, true, Axis::query, Axis::key},
    {Stage::m, "m", "/tiles/m", true, false, true, true, Axis::query, Axis::unit},
    {Stage::p, "p", "/tiles/p", true, true, true, true, Axis::query, Axis::key},
    {Stage::l, "l", "/tiles/l", true, false, true, true, Axis::query, Axis::unit},
    {Stage::acc, "acc", "/tiles/acc", true, false, true, true, Axis::query, Axis::feature},
    {Stage::o, "o", "/outputs/o", true, false, true, false, Axis::query, Axis::feature},
    {Stage::lse, "lse", "/outputs/lse", true, false, true, false, Axis::query, Axis::unit},
    {Stage::dout, "dout", "/tiles/dout", false, true, true, false, Axis::query, Axis::feature},
    {Stage::delta, "delta", "/tiles/delta", false, true, true, false, Axis::query, Axis::unit},
    {Stage::dp, "dp", "/tiles/dp", false, true, true, true, Axis::query, Axis::key},
    {Stage::ds, "ds", "/tiles/ds", false, true, true, true, Axis::query, Axis::key},
    {Stage::dq, "dq", "/outputs/dq", false, true, true, false, Axis::query, Axis::feature},
    {Stage::dk, "dk", "/outputs/dk", false, true, false, true, Axis::key, Axis::feature},
    {Stage::dv, "dv", "/outputs/dv", false, true, false, true, Axis::key, Axis::feature},
}};

std::int64_t features(const Problem& problem, Stage stage) {
    const bool of_qk = stage == Stage::q || stage == Stage::k || stage == Stage::dq || stage == Stage::dk;
    return of_qk ? problem.head_dim : problem.head_dim_v;
}

std::int64_t block_of(const Problem& problem, Stage stage, Axis axis) {
    switch (axis) {
        case Axis::query:
            return problem.block_m;
        case Axis::key:
            return problem.block_n;
        case Axis::feature:
            return features(problem, stage);
        case Axis::unit:
            return stage == Stage::l ? problem.l_lanes : 1;
    }
    return 0;
}

std::int64_t extent_of(const Problem& problem, Stage stage, Axis axis, const TileId& tile) {
    switch (axis) {
        case Axis::query:
            return std::min(problem.block_m, problem.seqlen_q - tile.q_block * problem.block_m);
        case Axis::key:
            return std::min(problem.block_n, problem.seqlen_kv - tile.kv_tile * problem.block_n);
        case Axis::feature:
        case Axis::unit:
            return block_of(problem, stage, axis);
    }
    return 0;
}

std::string text_of(double value) {
    char text[32];
    return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
}

}  // namespace

bool is_unwritten(float value) {
    return std::bit_cast<std::uint32_t>(value) == unwritten_bits;
}

const std::array<StageInfo, stage_count>& all_stages() {
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

const StageInfo& stage_info(Stage stage) {
    return stages[static_cast<std::size_t>(stage)];
}

std::optional<Stage> stage_from_name(std::string_view name) {
    for (const StageInfo& info : stages) {
        if (info.name == name) return info.stage;
    }
    return std::nullopt;
}

bool has_stage(Direction direction, Stage stage) {
    return direction == Direction::forward ? stage_info(stage).forward : stage_info(stage).backward;
}

bool is_output(Stage stage) {
    return stage_info(stage).dataset.starts_with("/outputs/");
}

std::int64_t stage_heads(const Problem& problem, Stage stage) {
    return stage_info(stage).per_q_block ? problem.heads : problem.dkv_heads();
}

HeadRange query_heads(const Problem& problem, Stage stage, std::int64_t head) {
    const std::int64_t group = problem.heads / stage_heads(problem, stage);
    return {head * group, (head + 1) * group};
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
    const StageInfo& info = stage_info(stage);
    return {block_of(problem, stage, info.row_axis), block_of(problem, stage, info.col_axis)};
}

TileShape tile_extent(const Problem& problem, Stage stage, const TileId& tile) {
    const StageInfo& info = stage_info(stage);
    return {extent_of(problem, stage, info.row_axis, tile), extent_of(problem, stage, info.col_axis, tile)};
}

DatasetShape dataset_shape(const Problem& problem, Stage stage) {
    const std::int64_t b = problem.batch;
    const std::int64_t h = problem.heads;
    const std::int64_t bm = problem.block_m;
    const std::int64_t bn = problem.block_n;
    const std::int64_t feature = features(problem, stage);
    switch (stage) {
        case Stage::q:
        case Stage::o:
        case Stage::dout:
        case Stage::dq:
            return {{b, h, problem.seqlen_q, feature}, {1, 1, bm, feature}};
        case Stage::k:
        case Stage::v:
            return {{b, h, problem.q_blocks(), problem.seqlen_kv, feature}, {1, 1, 1, bn, feature}};
        case Stage::s:
        case Stage::p:
        case Stage::dp:
        case Stage::ds:
            return {{b, h, problem.seqlen_q, problem.seqlen_kv}, {1, 1, bm, bn}};
        case Stage::l:
            if (problem.l_lanes > 1) {
                return {{b, h, problem.kv_tiles(), problem.seqlen_q, problem.l_lanes},
                        {1, 1, 1, bm, problem.l_lanes}};
            }
            [[fallthrough]];
        case Stage::m:
            return {{b, h, problem.kv_tiles(), problem.seqlen_q}, {1, 1, 1, bm}};
        case Stage::acc:
            return {{b, h, problem.kv_tiles(), problem.seqlen_q, feature}, {1, 1, 1, bm, feature}};
        case Stage::lse:
        case Stage::delta:
            return {{b, h, problem.seqlen_q}, {1, 1, bm}};
        case Stage::dk:
        case Stage::dv:
            return {{b, problem.dkv_heads(), problem.seqlen_kv, feature}, {1, 1, bn, feature}};
    }
    return {};
}

std::vector<std::int64_t> chunk_index(const Problem& problem, Stage stage, const TileId& tile) {
    switch (stage) {
        case Stage::q:
        case Stage::o:
        case Stage::dout:
        case Stage::dq:
            return {tile.batch, tile.head, tile.q_block, 0};
        case Stage::k:
        case Stage::v:
            return {tile.batch, tile.head, tile.q_block, tile.kv_tile, 0};
        case Stage::s:
        case Stage::p:
        case Stage::dp:
        case Stage::ds:
            return {tile.batch, tile.head, tile.q_block, tile.kv_tile};
        case Stage::l:
            if (problem.l_lanes > 1) return {tile.batch, tile.head, tile.kv_tile, tile.q_block, 0};
            [[fallthrough]];
        case Stage::m:
            return {tile.batch, tile.head, tile.kv_tile, tile.q_block};
        case Stage::acc:
            return {tile.batch, tile.head, tile.kv_tile, tile.q_block, 0};
        case Stage::lse:
        case Stage::delta:
            return {tile.batch, tile.head, tile.q_block};
        case Stage::dk:
        case Stage::dv:
            return {tile.batch, tile.head, tile.kv_tile, 0};
    }
    return {};
}

std::int64_t tile_count(const Problem& problem, Stage stage) {
    const StageInfo& info = stage_info(stage);
    if (!has_stage(problem.direction, stage)) return 0;
    return problem.batch * stage_heads(problem, stage) * (info.per_q_block ? problem.q_blocks() : 1) *
           (info.per_kv_tile ? problem.kv_tiles() : 1);
}

TileId tile_at(const Problem& problem, Stage stage, std::int64_t index) {
    const StageInfo& info = stage_info(stage);
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

void validate(const Problem& problem, const std::string& where) {
    const std::string what_to_do = "record it again with a valid problem";
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
                        where, what_to_do);
        }
    }
    const std::pair<const char*, std::int64_t> windows[] = {{"window_left", problem.window_left},
                                                            {"window_right", problem.window_right}};
    for (const auto& [name, window] : windows) {
        if (window < -1) {
            throw Error(std::string(name) + " is " + std::to_string(window) + ", below -1 (no limit)", where,
                        what_to_do);
        }
    }
    if (problem.kv_tiles_per_split < 0) {
        throw Error(
            "kv_tiles_per_split is " + std::to_string(problem.kv_tiles_per_split) + ", below 0 (no split)",
            where, what_to_do);
    }
    if (problem.l_lanes > problem.block_n) {
        throw Error("l_lanes (" + std::to_string(problem.l_lanes) + ") is larger than block_n (" +
                        std::to_string(problem.block_n) + ")",
                    where, what_to_do);
    }
    if (problem.dtype_acc != Dtype::f32 && problem.dtype_acc != Dtype::f16) {
        throw Error(
            "dtype_acc is " + std::string(dtype_info(problem.dtype_acc).name) + ", neither f32 nor f16",
            where, what_to_do);
    }
    if (problem.heads % problem.heads_kv != 0) {
        throw Error("heads (" + std::to_string(problem.heads) + ") is not a multiple of heads_kv (" +
                        std::to_string(problem.heads_kv) + ")",
                    where, what_to_do);
    }
    if (!(problem.sm_scale > 0) || !std::isfinite(problem.sm_scale)) {
        throw Error("sm_scale is " + text_of(problem.sm_scale) + ", not a finite positive number", where,
                    what_to_do);
    }
    if (!(problem.logits_soft_cap >= 0) || !std::isfinite(problem.logits_soft_cap)) {
        throw Error("logits_soft_cap is " + text_of(problem.logits_soft_cap) +
                        ", neither 0 nor a finite positive number",
                    where, what_to_do);
    }
    // The product of the counts must stay countable: nothing below multiplies more than these.
    const double tiles = double(problem.batch) * double(problem.heads) * double(problem.q_blocks()) *
                         double(problem.kv_tiles());
    const double tile_elements = double(std::max(problem.block_m, problem.block_n)) *
                                 double(std::max({problem.block_n, problem.head_dim, problem.head_dim_v}));
    if (tiles > 1e12 || tile_elements > 1e9 || tiles * tile_elements > 1e17) {
        throw Error(
            "the sizes ask for " + text_of(tiles) + " tiles of up to " + text_of(tile_elements) + " elements",
            where, what_to_do);
    }
}

void validate(const Units& units, const std::string& where) {
    const char* const what_to_do = "record it again with valid units";
    const std::pair<const char*, double> bounds[] = {{"stale_threshold of m", units.m_stale_threshold},
                                                     {"exp_error of p", units.p_exp_error}};
    for (const auto& [name, bound] : bounds) {
        if (bound >= 0 && std::isfinite(bound)) continue;
        throw Error(std::string(name) + " is " + text_of(bound) + ", neither 0 nor a finite positive number",
                    where, what_to_do);
    }
    const std::pair<const char*, double> scales[] = {{"scale of p", units.p_scale},
                                                     {"scale of l", units.l_scale},
                                                     {"scale of acc", units.acc_scale},
                                                     {"scale of ds", units.ds_scale}};
    for (const auto& [name, scale] : scales) {
        if (scale > 0 && std::isfinite(scale)) continue;
        throw Error(std::string(name) + " is " + text_of(scale) + ", not a finite positive number", where,
                    what_to_do);
    }
}

}  // namespace tilescope
