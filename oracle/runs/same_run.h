#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "dump/recording/run_difference.h"

namespace tilescope {

/// Elements of a stage that no thread wrote in either run.
struct NeverWritten {
    Stage stage = Stage::q;
    std::string where;  ///< a rule, "col % 16 >= 8", or "everywhere"; "" where no short one tells
};

/// An input in which the runs differ.
struct InputDifference {
    Input input = Input::q;
    std::int64_t compared = 0;
    std::int64_t changed = 0;
    // The first element.
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;
    std::int64_t col = 0;
    float first_run = 0;
    float second_run = 0;
    std::string rows;  ///< of that head that differ, where they are regular; otherwise ""
};

/// Two recordings of the same run: what differs is a race, or memory read before it was written.
struct SameRun {
    std::string first;
    std::string second;
    Problem problem;
    std::vector<StageDifference> stages;
    /// Of a step of several ranks, what it read of another one and came otherwise: before any stage.
    std::optional<InputDifference> arrived;
    bool is_poisoned = false;  ///< memory was filled otherwise before one of them, as its command says
    // Of the first stage that differs.
    std::int64_t tiles = 0;          ///< tiles that either run holds
    std::int64_t tiles_changed = 0;  ///< tiles with an element that differs
    std::int64_t tiles_filled = 0;   ///< tiles in which every element differs
    std::string rows;                ///< of their tiles that differ, where they are regular; otherwise ""
    std::string columns;
    std::string where;  ///< what differs, as a rule over all tiles; "everywhere"; "" where no short one tells
    /// Of the stages that it is computed from: what it read before it was written.
    std::vector<NeverWritten> never_written;
    std::string threads;  ///< that own what differs, where it is declared and they are a regular part

    const StageDifference* changed() const { return first_changed(stages); }
    bool diverges() const { return arrived || changed() != nullptr; }
    /// Of several ranks what a rank received, or has at the end: steps say what differs first.
    bool inherits() const {
        const Shard& shard = problem.shard;
        return shard.is_part() && (shard.kind == ShardKind::final || shard.kind == ShardKind::received);
    }
};

/// Bit by bit. Errors: as compare_runs(), and for other inputs, where they cannot have come otherwise.
SameRun compare_same_run(const Recording& first, const Recording& second);

/// One sentence: what differs and where, or that nothing does. The last line of the text.
std::string summary_of(const SameRun& runs);
std::string to_text(const SameRun& runs);
/// verdict, recording, other, what arrived otherwise, stages with what changed, and causes: transfer_incomplete, or racing and
/// read_before_written, of which only the latter has rank 1 where memory was filled otherwise, or none, as where it inherits().
std::string to_json(const SameRun& runs);

}  // namespace tilescope
