#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dump/schema/error.h"
#include "dump/schema/semantics.h"
#include "oracle/explain/explain.h"

namespace tilescope {

namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& what_to_do) {
    throw Error(what, where, what_to_do);
}

std::vector<std::string_view> fields_of(std::string_view text) {
    std::vector<std::string_view> fields;
    while (true) {
        const std::size_t comma = text.find(',');
        fields.push_back(text.substr(0, comma));
        if (comma == std::string_view::npos) return fields;
        text.remove_prefix(comma + 1);
    }
}

/// Numbers from 0 on.
std::optional<std::int64_t> number_of(std::string_view field) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || value < 0) return std::nullopt;
    return value;
}

bool walks(const StageInfo& info, Axis axis) {
    return info.row_axis == axis || info.col_axis == axis;
}

/// What may follow COL.
std::vector<const char*> further_fields(const Problem& problem, Stage stage) {
    const StageInfo info = stage_info(problem, stage);
    std::vector<const char*> fields;
    if (info.per_kv_tile && !walks(info, Axis::key)) fields.push_back("KV_TILE");
    if (info.per_q_block && !walks(info, Axis::query)) fields.push_back("Q_BLOCK");
    return fields;
}

/// STAGE,BATCH,HEAD,ROW,COL and what may follow.
std::string form_of(std::string_view stage, std::span<const char* const> further) {
    std::string form = fmt::format("give {},BATCH,HEAD,ROW,COL", stage);
    for (const char* field : further) form += fmt::format("[,{}", field);
    return form + std::string(further.size(), ']');
}

/// What an axis counts, and how far.
struct Coordinate {
    const char* name;
    std::int64_t size;
};

Coordinate coordinate_of(const Problem& problem, Axis axis, const char* free_name, std::int64_t free_size) {
    if (axis == Axis::query) return {"row", problem.seqlen_q};
    if (axis == Axis::key) return {"key", problem.seqlen_kv};
    return {free_name, free_size};
}

std::optional<std::int64_t> last_visible_tile(const Problem& problem, KvOrder order, std::int64_t q_block) {
    for (std::int64_t i = 0; i < problem.kv_tiles(); ++i) {
        const std::int64_t kv_tile = order == KvOrder::reverse ? i : problem.kv_tiles() - 1 - i;
        if (tile_is_visible(problem, q_block, kv_tile)) return kv_tile;
    }
    return std::nullopt;
}

using Require = std::function<void(const char* what, std::int64_t value, std::int64_t size)>;

/// Sets the blocks of the tile that holds the place's row and column; `further` are those that the text
/// names.
void find_tile(const Problem& problem, KvOrder order, const StageInfo& info,
               std::span<const std::int64_t> further, const std::string& where, const Require& require,
               ElementPlace& place) {
    TileId& tile = place.tile;
    for (const auto& [axis, element] :
         {std::pair(info.row_axis, place.row), std::pair(info.col_axis, place.col)}) {
        if (axis == Axis::query) tile.q_block = element / problem.block_m;
        if (axis == Axis::key) tile.kv_tile = element / problem.block_n;
    }
    const auto take = [&] {
        if (further.empty()) return std::optional<std::int64_t>();
        const std::int64_t value = further.front();
        further = further.subspan(1);
        return std::optional(value);
    };
    if (info.per_kv_tile && !walks(info, Axis::key)) {
        std::optional<std::int64_t> kv_tile = take();
        if (!kv_tile) kv_tile = last_visible_tile(problem, order, tile.q_block);
        if (!kv_tile)
            refuse(where, "the block of this row sees no KV tile", "give a KV_TILE that was captured");
        require("KV tile", *kv_tile, problem.kv_tiles());
        tile.kv_tile = *kv_tile;
    }
    if (info.per_q_block && !walks(info, Axis::query)) {
        tile.q_block = take().value_or(0);
        require("q block", tile.q_block, problem.q_blocks());
    }
}

}  // namespace

ElementPlace element_place(const Recording& recording, const std::string& text, const std::string& where) {
    const std::vector<std::string_view> fields = fields_of(text);
    const std::vector<NamedTile>& named = recording.problem().named_tiles;
    const std::optional<Stage> stage = stage_from_name(fields.front(), named);
    if (!stage) {
        std::string names;
        for (const StageInfo& info : all_stages())
            names += (names.empty() ? "" : ", ") + std::string(info.name);
        for (const NamedTile& tile : named) names += ", " + tile.name;
        refuse(where, fmt::format("there is no stage \"{}\"", fields.front()), "name one of " + names);
    }
    const StageInfo info = stage_info(recording.problem(), *stage);
    if (!has_stage(recording.problem(), *stage))
        refuse(where, fmt::format("this recording's pass has no stage {}", info.name),
               "name one that it has");
    const std::vector<const char*> further = further_fields(recording.problem(), *stage);
    const std::string form = form_of(fields.front(), further);
    if (fields.size() < 5 || fields.size() > 5 + further.size())
        refuse(where, fmt::format("has {} fields", fields.size()), form);
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 1; i < fields.size(); ++i) {
        const std::optional<std::int64_t> number = number_of(fields[i]);
        if (!number) refuse(where, fmt::format("\"{}\" is not a number from 0 on", fields[i]), form);
        numbers.push_back(*number);
    }

    const auto require = [&](const char* what, std::int64_t value, std::int64_t size) {
        if (value < size) return;
        if (size == 0) refuse(where, fmt::format("this batch entry has no {}", what), "name another one");
        refuse(where, fmt::format("{} {} is outside the problem", what, value),
               fmt::format("give one from 0 to {}", size - 1));
    };
    require("batch", numbers[0], recording.problem().batch);
    require("head", numbers[1], stage_heads(recording.problem(), *stage));
    const Problem problem = problem_of(recording.problem(), recording.side_inputs(), numbers[0]);
    const TileShape shape = tile_shape(problem, *stage);
    const Coordinate row = coordinate_of(problem, info.row_axis, "row", shape.rows);
    const Coordinate col = coordinate_of(problem, info.col_axis, "column", shape.cols);
    require(row.name, numbers[2], row.size);
    require(col.name, numbers[3], col.size);

    ElementPlace place{*stage, {numbers[0], numbers[1], 0, 0}, numbers[2], numbers[3]};
    find_tile(problem, recording.units().kv_order, info, std::span(numbers).subspan(4), where, require,
              place);
    return place;
}

ElementPlace element_place(const Recording& recording, const std::string& text) {
    return element_place(recording, text, "--explain-tolerance " + text);
}

}  // namespace tilescope
