#include "dump/schema/selection.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "dump/schema/error.h"
#include "dump/schema/shared_selection.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

constexpr std::int64_t open_end = std::numeric_limits<std::int64_t>::max();
constexpr const char* grammar = "write for example batch=0:head=1,3:q_block=0-3:kv_tile=2-:stage=s,p";
constexpr const char* block_grammar = "write batch/head/q_block, for example block=0/1/3-5,1/0/2";

struct Coordinate {
    std::string_view name;
    Ranges Selection::*ranges;
};

constexpr std::array<Coordinate, 4> coordinates = {{
    {"batch", &Selection::batch},
    {"head", &Selection::head},
    {"q_block", &Selection::q_block},
    {"kv_tile", &Selection::kv_tile},
}};

/// The text in quotes, short and on one line whatever it holds.
std::string quoted(std::string_view text) {
    return "'" + shortened(text, 60) + "'";
}

void append(std::string& list, std::string_view separator, std::string_view item) {
    if (!list.empty()) list += separator;
    list += item;
}

std::int64_t parse_number(std::string_view text, std::string_view clause, const std::string& where) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_number) throw Error(quoted(text) + " in " + quoted(clause) + " is not a number", where, grammar);
    if (error != std::errc() || end != text.data() + text.size()) {
        throw Error(quoted(text) + " in " + quoted(clause) + " is too large", where,
                    "write numbers below 2^63, or 2- for everything from 2 on");
    }
    return value;
}

Ranges::Range parse_range(std::string_view text, std::string_view clause, const std::string& where) {
    const std::size_t dash = text.find('-');
    const std::int64_t first = parse_number(text.substr(0, dash), clause, where);
    if (dash == std::string_view::npos) return {first, first};
    const std::string_view end = text.substr(dash + 1);
    const std::int64_t last = end.empty() ? open_end : parse_number(end, clause, where);
    if (last < first) {
        throw Error("range " + quoted(text) + " in " + quoted(clause) + " descends", where,
                    "write the smaller number first");
    }
    return {first, last};
}

QBlocks parse_blocks(std::string_view text, std::string_view clause, const std::string& where) {
    const std::vector<std::string_view> parts = split(text, '/');
    if (parts.size() != 3) {
        throw Error(quoted(text) + " in " + quoted(clause) + " names no query block", where, block_grammar);
    }
    return {parse_number(parts[0], clause, where), parse_number(parts[1], clause, where),
            parse_range(parts[2], clause, where)};
}

Stage parse_stage(std::string_view name, const std::string& where, Span<const NamedTile> named) {
    const std::optional<Stage> stage = stage_from_name(name, named);
    if (stage) return *stage;
    std::string known;
    for (const StageInfo& info : all_stages()) append(known, ", ", info.name);
    for (const NamedTile& tile : named) append(known, ", ", tile.name);
    throw Error("there is no stage " + quoted(name), where, "choose from " + known);
}

void parse_clause(std::string_view clause, Selection& selection, const std::string& where,
                  Span<const NamedTile> named) {
    const std::size_t equals = clause.find('=');
    if (equals == std::string_view::npos) {
        throw Error("clause " + quoted(clause) + " has no '='", where, grammar);
    }
    const std::string_view key = clause.substr(0, equals);
    const std::string_view values = clause.substr(equals + 1);
    if (values.empty()) throw Error("clause " + quoted(clause) + " has no values", where, grammar);

    const auto require_first = [&](bool first) {
        if (!first) throw Error(quoted(key) + " is given twice", where, "join its values with commas");
    };
    if (key == "stage") {
        require_first(selection.stages.empty());
        for (const std::string_view name : split(values, ',')) {
            selection.stages.push_back(parse_stage(name, where, named));
        }
        return;
    }
    if (key == "block") {
        require_first(selection.blocks.empty());
        for (const std::string_view blocks : split(values, ',')) {
            selection.blocks.push_back(parse_blocks(blocks, clause, where));
        }
        return;
    }
    const auto coordinate = std::ranges::find(coordinates, key, &Coordinate::name);
    if (coordinate == coordinates.end()) {
        std::string known;
        for (const Coordinate& each : coordinates) append(known, ", ", each.name);
        throw Error("there is no coordinate " + quoted(key), where,
                    "choose from " + known + ", block, stage");
    }
    Ranges& ranges = selection.*coordinate->ranges;
    require_first(ranges.ranges.empty());
    for (const std::string_view range : split(values, ',')) {
        ranges.ranges.push_back(parse_range(range, clause, where));
    }
}

std::string to_string(const Ranges::Range& range) {
    std::string text = std::to_string(range.first);
    if (range.last == range.first) return text;
    text += '-';
    if (range.last != open_end) text += std::to_string(range.last);
    return text;
}

void append_clause(std::string& text, std::string_view key, std::string_view values) {
    if (values.empty()) return;
    append(text, ":", key);
    text += '=';
    text += values;
}

}  // namespace

bool Ranges::overlaps(std::int64_t first, std::int64_t last) const {
    const auto meets = [=](const Range& range) { return range.first <= last && first <= range.last; };
    return ranges.empty() || std::ranges::any_of(ranges, meets);
}

bool Selection::selects(Stage stage) const {
    return stages.empty() || std::ranges::find(stages, stage) != stages.end();
}

bool Selection::selects_head(const Problem& problem, Stage stage, std::int64_t stage_head) const {
    const HeadRange heads = query_heads(problem, stage, stage_head);
    for (std::int64_t i = 0; i < heads.size(); ++i)
        if (head.contains(heads.at(i))) return true;
    return false;
}

bool Selection::lists_head(std::int64_t in_batch, const HeadRange& heads) const {
    const auto has = [&](const QBlocks& each) { return each.batch == in_batch && heads.contains(each.head); };
    return blocks.empty() || std::ranges::any_of(blocks, has);
}

bool Selection::lists_block(std::int64_t in_batch, std::int64_t in_head, std::int64_t in_q_block) const {
    const auto has = [&](const QBlocks& each) {
        return each.batch == in_batch && each.head == in_head && each.q_blocks.first <= in_q_block &&
               in_q_block <= each.q_blocks.last;
    };
    return blocks.empty() || std::ranges::any_of(blocks, has);
}

bool Selection::selects(const Problem& problem, Stage stage, const TileId& tile) const {
    const StageInfo info = stage_info(problem, stage);
    const bool listed = info.per_q_block ? lists_block(tile.batch, tile.head, tile.q_block)
                                         : lists_head(tile.batch, query_heads(problem, stage, tile.head));
    return has_stage(problem, stage) && selects(stage) && batch.contains(tile.batch) &&
           selects_head(problem, stage, tile.head) && (!info.per_q_block || q_block.contains(tile.q_block)) &&
           listed && (!info.per_kv_tile || kv_tile.contains(tile.kv_tile));
}

std::int64_t count_selected(const Problem& problem, Stage stage, const Selection& selection) {
    if (!has_stage(problem, stage) || !selection.selects(stage)) return 0;
    const StageInfo info = stage_info(problem, stage);
    const auto count = [](std::int64_t size, const auto& has) {
        std::int64_t values = 0;
        for (std::int64_t value = 0; value < size; ++value) values += has(value);
        return values;
    };
    const auto q_blocks_of = [&](std::int64_t batch, std::int64_t head) {
        return count(problem.q_blocks(), [&](std::int64_t q_block) {
            return selection.q_block.contains(q_block) && selection.lists_block(batch, head, q_block);
        });
    };
    const bool every_head_alike = selection.blocks.empty();
    const std::int64_t q_blocks = info.per_q_block && every_head_alike ? q_blocks_of(0, 0) : 1;
    std::int64_t outer = 0;
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        if (!selection.batch.contains(batch)) continue;
        for (std::int64_t head = 0; head < stage_heads(problem, stage); ++head) {
            if (!selection.selects_head(problem, stage, head)) continue;
            if (!selection.lists_head(batch, query_heads(problem, stage, head))) continue;
            outer += info.per_q_block && !every_head_alike ? q_blocks_of(batch, head) : q_blocks;
        }
    }
    if (!info.per_kv_tile) return outer;
    return outer *
           count(problem.kv_tiles(), [&](std::int64_t tile) { return selection.kv_tile.contains(tile); });
}

Selection parse_selection(std::string_view text, const std::string& where, Span<const NamedTile> named) {
    Selection selection;
    if (text.empty()) return selection;
    for (const std::string_view clause : split(text, ':')) parse_clause(clause, selection, where, named);
    return selection;
}

std::string to_string(const Selection& selection, Span<const NamedTile> named) {
    std::string text;
    for (const Coordinate& coordinate : coordinates) {
        std::string values;
        for (const Ranges::Range& range : (selection.*coordinate.ranges).ranges) {
            append(values, ",", to_string(range));
        }
        append_clause(text, coordinate.name, values);
    }
    std::string listed;
    for (const QBlocks& blocks : selection.blocks) {
        append(listed, ",", std::to_string(blocks.batch) + "/" + std::to_string(blocks.head) + "/");
        listed += to_string(blocks.q_blocks);
    }
    append_clause(text, "block", listed);
    std::string names;
    for (const Stage stage : selection.stages)
        append(
            names, ",",
            is_named(stage) ? named[std::size_t(int(stage) - built_in_stages)].name : stage_info(stage).name);
    append_clause(text, "stage", names);
    return text;
}

Selection selection_from_environment(Span<const NamedTile> named) {
    const char* text = std::getenv("TILESCOPE_SELECT");
    return text == nullptr ? Selection()
                           : parse_selection(part_of_attention(text, named),
                                             "environment variable TILESCOPE_SELECT", named);
}

}  // namespace tilescope
