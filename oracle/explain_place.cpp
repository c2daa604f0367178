#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "dump/error.h"
#include "dump/semantics.h"
#include "oracle/explain.h"

namespace tilescope {

namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& what, const std::string& what_to_do) {
    throw Error(what, "--explain-tolerance " + text, what_to_do);
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

/// What may follow COL.
const char* sixth_field(Stage stage) {
    switch (stage) {
        case Stage::k:
        case Stage::v:
            return "Q_BLOCK";
        case Stage::m:
        case Stage::l:
        case Stage::acc:
            return "KV_TILE";
        default:
            return nullptr;
    }
}

std::int64_t columns_of(const Problem& problem, Stage stage) {
    switch (stage) {
        case Stage::q:
        case Stage::k:
        case Stage::dq:
        case Stage::dk:
            return problem.head_dim;
        case Stage::v:
        case Stage::acc:
        case Stage::o:
        case Stage::dout:
        case Stage::dv:
            return problem.head_dim_v;
        case Stage::s:
        case Stage::p:
        case Stage::dp:
        case Stage::ds:
            return problem.seqlen_kv;
        case Stage::l:
            return problem.l_lanes;
        case Stage::m:
        case Stage::lse:
        case Stage::delta:
            return 1;
    }
    return 0;
}

std::optional<std::int64_t> last_visible_tile(const Problem& problem, KvOrder order, std::int64_t q_block) {
    for (std::int64_t i = 0; i < problem.kv_tiles(); ++i) {
        const std::int64_t kv_tile = order == KvOrder::reverse ? i : problem.kv_tiles() - 1 - i;
        if (tile_is_visible(problem, q_block, kv_tile)) return kv_tile;
    }
    return std::nullopt;
}

}  // namespace

ElementPlace element_place(const Recording& recording, const std::string& text) {
    const std::vector<std::string_view> fields = fields_of(text);
    const std::optional<Stage> stage = stage_from_name(fields.front());
    if (!stage) {
        std::string names;
        for (const StageInfo& info : all_stages())
            names += (names.empty() ? "" : ", ") + std::string(info.name);
        refuse(text, fmt::format("there is no stage \"{}\"", fields.front()), "name one of " + names);
    }
    if (!has_stage(recording.problem().direction, *stage))
        refuse(text, fmt::format("this recording's pass has no stage {}", stage_info(*stage).name),
               "name one that it has");
    const char* sixth = sixth_field(*stage);
    const std::string form = fmt::format("give {},BATCH,HEAD,ROW,COL{}", fields.front(),
                                         sixth != nullptr ? fmt::format("[,{}]", sixth) : "");
    const std::size_t most = sixth != nullptr ? 6 : 5;
    if (fields.size() < 5 || fields.size() > most)
        refuse(text, fmt::format("has {} fields", fields.size()), form);
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 1; i < fields.size(); ++i) {
        const std::optional<std::int64_t> number = number_of(fields[i]);
        if (!number) refuse(text, fmt::format("\"{}\" is not a number from 0 on", fields[i]), form);
        numbers.push_back(*number);
    }

    const auto require = [&](const char* what, std::int64_t value, std::int64_t size) {
        if (value < size) return;
        if (size == 0) refuse(text, fmt::format("this batch entry has no {}", what), "name another one");
        refuse(text, fmt::format("{} {} is outside the problem", what, value),
               fmt::format("give one from 0 to {}", size - 1));
    };
    const bool of_keys = stage_info(*stage).row_axis == Axis::key;
    const bool by_key = stage_info(*stage).col_axis == Axis::key;
    require("batch", numbers[0], recording.problem().batch);
    require("head", numbers[1], stage_heads(recording.problem(), *stage));
    const Problem problem = problem_of(recording.problem(), recording.side_inputs(), numbers[0]);
    require(of_keys ? "key" : "row", numbers[2], of_keys ? problem.seqlen_kv : problem.seqlen_q);
    require(by_key ? "key" : "column", numbers[3], columns_of(problem, *stage));

    ElementPlace place{*stage, {numbers[0], numbers[1], 0, 0}, numbers[2], numbers[3]};
    const std::optional<std::int64_t> given = numbers.size() > 4 ? std::optional(numbers[4]) : std::nullopt;
    if (of_keys) {
        place.tile.q_block = given.value_or(0);
        require("q block", place.tile.q_block, problem.q_blocks());
        place.tile.kv_tile = place.row / problem.block_n;
        return place;
    }
    place.tile.q_block = place.row / problem.block_m;
    if (by_key) place.tile.kv_tile = place.col / problem.block_n;
    if (sixth == nullptr) return place;
    const std::optional<std::int64_t> kv_tile =
        given ? given : last_visible_tile(problem, recording.units().kv_order, place.tile.q_block);
    if (!kv_tile) refuse(text, "the block of this row sees no KV tile", "give a KV_TILE that was captured");
    require("KV tile", *kv_tile, problem.kv_tiles());
    place.tile.kv_tile = *kv_tile;
    return place;
}

}  // namespace tilescope
