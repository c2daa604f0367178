#include "dump/schema/shard.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "dump/schema.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

/// Takes a number from the front of the text. False where none stands there.
bool take_number(std::string_view& text, std::int64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    text.remove_prefix(std::size_t(end - text.data()));
    return true;
}

bool take(std::string_view& text, char what) {
    if (text.empty() || text.front() != what) return false;
    text.remove_prefix(1);
    return true;
}

constexpr std::int64_t largest_position = 2147483647;
constexpr std::size_t most_ranges = 4096;
constexpr const char* shard_advice = "record it again with a valid shard";

void validate_positions(const Positions& positions, const char* name, std::int64_t rows, std::int64_t whole,
                        const std::string& where) {
    const auto refuse = [&](const std::string& what) {
        throw Error(std::string(name) + " " + what, where, shard_advice);
    };
    if (positions.size() > most_ranges) refuse("are more than " + std::to_string(most_ranges) + " ranges");
    std::int64_t end = 0;
    for (const PositionRange& range : positions) {
        const bool is_small = range.first <= largest_position && range.count <= largest_position &&
                              range.stride <= largest_position;
        if (range.first < end || range.count < 1 || range.stride < 1 || !is_small || range.last() >= whole)
            refuse("do not ascend within the " + std::to_string(whole) + " of the whole call");
        end = range.last() + 1;
    }
    if (!positions.empty() && count_of(positions) != rows)
        refuse("are " + std::to_string(count_of(positions)) + " of the recording's " + std::to_string(rows));
    if (positions.empty() && rows > whole) refuse("are left out, and the whole call has fewer");
}

}  // namespace

std::int64_t position_of(const Positions& positions, std::int64_t row) {
    std::int64_t before = 0;
    for (const PositionRange& range : positions) {
        const bool is_last = &range == &positions.back();
        if (row < before + range.count || is_last) return range.first + (row - before) * range.stride;
        before += range.count;
    }
    return row;
}

std::int64_t rows_before(const Positions& positions, std::int64_t position) {
    if (positions.empty()) return position;
    std::int64_t before = 0;
    for (const PositionRange& range : positions) {
        if (position <= range.first) break;
        before += std::min((position - range.first + range.stride - 1) / range.stride, range.count);
    }
    return before;
}

std::int64_t row_at(const Positions& positions, std::int64_t position) {
    const std::int64_t row = rows_before(positions, position);
    const bool is_there =
        positions.empty() || (row < count_of(positions) && position_of(positions, row) == position);
    return is_there ? row : -1;
}

std::int64_t count_of(const Positions& positions) {
    std::int64_t count = 0;
    for (const PositionRange& range : positions) count += range.count;
    return count;
}

std::string text_of(const Positions& positions) {
    std::string text;
    for (const PositionRange& range : positions) {
        text += (text.empty() ? "" : ",") + std::to_string(range.first) + "+" + std::to_string(range.count);
        if (range.stride != 1) text += "*" + std::to_string(range.stride);
    }
    return text;
}

Positions positions_in(const std::string& text, const std::string& where) {
    Positions positions;
    std::string_view rest = text;
    while (!rest.empty()) {
        PositionRange range;
        const bool is_range = take_number(rest, range.first) && take(rest, '+') &&
                              take_number(rest, range.count) &&
                              (!take(rest, '*') || take_number(rest, range.stride));
        if (!is_range || (!rest.empty() && !(take(rest, ',') && !rest.empty())))
            throw Error("is " + readable(text) + ", no list of FIRST+COUNT or FIRST+COUNT*STRIDE", where,
                        "write it as dump/FORMAT.md has it");
        positions.push_back(range);
    }
    return positions;
}

Problem with_shard(Problem problem, const Shard& shard) {
    problem.shard = shard;
    if (!shard.is_merged()) return problem;
    const NamedTile merged = {merged_o_name, Axis::query, Axis::feature, 1, problem.head_dim_v, true, false};
    problem.named_tiles.push_back(merged);
    problem.named_tiles.push_back({merged_lse_name, Axis::query, Axis::unit, 1, 1, true, false});
    return problem;
}

std::optional<Stage> merged_stage(const Problem& problem, std::string_view name, std::int64_t cols) {
    for (int i = 0; i < int(problem.named_tiles.size()); ++i) {
        const NamedTile& tile = problem.named_tiles[std::size_t(i)];
        if (tile.name != name || tile.rows != Axis::query || tile.per_kv_tile) continue;
        if (tile_shape(problem, named_tile(i)).cols == cols) return named_tile(i);
    }
    return std::nullopt;
}

bool is_merged(const Problem& problem, Stage stage) {
    return stage == merged_stage(problem, merged_o_name, problem.head_dim_v) ||
           stage == merged_stage(problem, merged_lse_name, 1);
}

void validate_shard(const Problem& problem, const std::string& where) {
    const Shard& shard = problem.shard;
    if (shard == Shard()) return;
    for (const ShardSize& size : shard_sizes)
        if (shard.*size.member < 0 || shard.*size.member > largest_position)
            throw Error(std::string(size.name) + " is " + std::to_string(shard.*size.member) +
                            ", not between 0 and 2147483647",
                        where, shard_advice);
    if (shard.rank >= shard.ranks)
        throw Error("rank is " + std::to_string(shard.rank) + " of " + std::to_string(shard.ranks) + " ranks",
                    where, shard_advice);
    if (problem.direction == Direction::backward)
        throw Error("a backward pass is declared a shard", where, "record it as a call of its own");
    validate_positions(shard.q_positions, "q_positions", problem.seqlen_q, problem.whole_seqlen_q(), where);
    validate_positions(shard.kv_positions, "kv_positions", problem.seqlen_kv, problem.whole_seqlen_kv(),
                       where);
}

}  // namespace tilescope
