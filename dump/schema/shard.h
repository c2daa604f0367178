#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dump/schema/comparison.h"
#include "dump/schema/span.h"

namespace tilescope {

/// Rows of the whole call that a shard has next to each other: `count` of them from `first` on, every `stride`-th.
struct PositionRange {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t stride = 1;

    std::int64_t last() const { return first + (count - 1) * stride; }
    TILESCOPE_EQUALITY(PositionRange);
};

/// Where the rows of a shard lie in the whole call, ascending. Empty: row i is row i of it.
using Positions = std::vector<PositionRange>;

/// What a shard holds.
enum class ShardKind : std::uint8_t {
    step,      ///< one launch of a rank: what it read, and its partial o and lse
    owned,     ///< the q, k and v that the rank owns, before any of it is sent; nothing else
    final,     ///< o and lse of the rank's rows over all keys; nothing else
    received,  ///< partial o and lse that another rank has computed or merged
};

/// Which part of a call on several ranks a recording is. Provenance::run says of which run.
struct Shard {
    std::int64_t ranks = 0;  ///< of the run; 0: the recording is a call of its own
    std::int64_t rank = 0;
    std::int64_t step = 0;  ///< counts what the rank merges, in this order
    ShardKind kind = ShardKind::step;
    std::int64_t seqlen_q = 0;  ///< of the whole call; 0: that of the recording
    std::int64_t seqlen_kv = 0;
    Positions q_positions;
    Positions kv_positions;

    bool is_part() const { return ranks > 0; }
    /// Whether its o and lse are merged into what the rank has.
    bool is_merged() const { return kind == ShardKind::step || kind == ShardKind::received; }
    TILESCOPE_EQUALITY(Shard);
};

/// An integer of a shard, and what it is called in /problem.
struct ShardSize {
    const char* name;
    std::int64_t Shard::*member;
    bool is_required;  ///< without it another element would be expected
};
inline constexpr ShardSize shard_sizes[] = {
    {"ranks", &Shard::ranks, false},
    {"rank", &Shard::rank, false},
    {"step", &Shard::step, false},
    {"whole_seqlen_q", &Shard::seqlen_q, true},
    {"whole_seqlen_kv", &Shard::seqlen_kv, true},
};

/// The same of positions; all of them are required.
struct ShardPositions {
    const char* name;
    Positions Shard::*member;
};
inline constexpr ShardPositions shard_positions[] = {{"q_positions", &Shard::q_positions},
                                                     {"kv_positions", &Shard::kv_positions}};

/// Where row `row` lies; beyond the last one as if its range went on.
std::int64_t position_of(const Positions& positions, std::int64_t row);
/// How many rows lie before `position`.
std::int64_t rows_before(const Positions& positions, std::int64_t position);
/// The row at `position`; -1 where there is none.
std::int64_t row_at(const Positions& positions, std::int64_t position);
std::int64_t count_of(const Positions& positions);

/// "0+1024,7168+1024", "3+2048*4": FIRST+COUNT or FIRST+COUNT*STRIDE, joined by commas. "" for none.
std::string text_of(const Positions& positions);
/// Errors: Error(where) for a text that is no such list.
Positions positions_in(const std::string& text, const std::string& where);

struct Problem;

/// Throws Error(where) unless the problem's shard is valid: a rank below `ranks`, and positions that ascend within the whole
/// call, as many as there are rows and keys.
void validate_shard(const Problem& problem, const std::string& where);

/// Names of tiles that hold what a rank has merged so far: float32, rows of queries, of head_dim_v features and one unit.
inline constexpr const char* merged_o_name = "merged_o";
inline constexpr const char* merged_lse_name = "merged_lse";

}  // namespace tilescope
