#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/comparison.h"
#include "dump/schema/span.h"

namespace tilescope {

/// Inclusive ranges of one coordinate; empty means every value.
struct Ranges {
    struct Range {
        std::int64_t first = 0;
        std::int64_t last = 0;  ///< INT64_MAX for an open end
        TILESCOPE_EQUALITY(Range);
    };
    std::vector<Range> ranges;

    bool contains(std::int64_t value) const { return overlaps(value, value); }
    /// Whether any value from `first` to `last` is among them.
    bool overlaps(std::int64_t first, std::int64_t last) const;
    TILESCOPE_EQUALITY(Ranges);
};

/// Query blocks next to each other, of one head.
struct QBlocks {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    Ranges::Range q_blocks;

    TILESCOPE_EQUALITY(QBlocks);
};

/// Which tiles are captured. Written as clauses joined by ':', each a coordinate and its values:
/// "batch=0:head=1,3:q_block=0-3:kv_tile=2-:stage=s,p". A coordinate that is not named is taken whole. Heads
/// are query heads, for every stage. "block=0/1/3-5,1/0/2" names query blocks one by one, as
/// batch/head/q_block.
struct Selection {
    Ranges batch;
    Ranges head;
    Ranges q_block;
    Ranges kv_tile;
    std::vector<QBlocks> blocks;  ///< empty means every query block that the ranges have
    std::vector<Stage> stages;    ///< empty means every stage

    /// Whether `stages` names the stage, or names none; whether a problem has the stage is not looked at.
    bool selects(Stage stage) const;
    /// Whether head `stage_head` of the stage is selected: for dk and dv of a KV head, whether any query head
    /// that reads it is.
    bool selects_head(const Problem& problem, Stage stage, std::int64_t stage_head) const;
    /// Whether `blocks` has any of the heads [first, last) of the batch entry, at any query block; true where
    /// it is empty.
    bool lists_head(std::int64_t in_batch, const HeadRange& heads) const;
    /// The same for one query block.
    bool lists_block(std::int64_t in_batch, std::int64_t in_head, std::int64_t in_q_block) const;
    /// False for a stage that the problem does not have.
    bool selects(const Problem& problem, Stage stage, const TileId& tile) const;
    TILESCOPE_EQUALITY(Selection);
};

/// Tiles of the stage that are selected; the problem has it.
std::int64_t count_selected(const Problem& problem, Stage stage, const Selection& selection);

/// `named` are the named tiles that it may name beside the stages.
/// Errors: Error naming `where` for an unknown coordinate or stage, a malformed or descending range.
Selection parse_selection(std::string_view text, const std::string& where, Span<const NamedTile> named = {});

/// The text parse_selection reads back; "" for everything.
std::string to_string(const Selection& selection, Span<const NamedTile> named = {});

/// What attention takes of the environment variable TILESCOPE_SELECT; everything when it is not set.
Selection selection_from_environment(Span<const NamedTile> named = {});

}  // namespace tilescope
