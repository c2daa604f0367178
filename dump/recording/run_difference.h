#pragma once

// Two runs of the same call against each other, bit by bit: what differs comes from something else than the
// inputs, such as a race.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dump/recording.h"

namespace tilescope {

/// An element that two runs hold different bits of, in coordinates of the whole tensor: `row` is a q row, for
/// stages whose rows are keys a key, and `col` is a key for stages with a column for each key.
struct ElementDifference {
    TileId tile;
    std::int64_t row = 0;
    std::int64_t col = 0;
    float first_run = 0;  ///< unwritten_bits where the run has no such element
    float second_run = 0;
};

/// Order of KV tile, batch, head, q block, row, column.
bool comes_before(const ElementDifference& a, const ElementDifference& b);

/// Order of computation, named tiles between the others and the outputs.
bool comes_before(Stage a, Stage b);

/// How one stage of two runs compares.
struct StageDifference {
    Stage stage = Stage::q;
    std::int64_t compared = 0;               ///< elements that at least one of the runs holds
    std::int64_t changed = 0;                ///< of these, those of which the other holds other bits, or none
    std::optional<ElementDifference> first;  ///< by comes_before()
};

/// A row for each stage that either run holds elements of, in the order of comes_before(). Tiles and elements
/// that only one of them recorded count as changed; what lies beyond the tensor or a batch entry's lengths is
/// left out. Zeros of different sign and NaNs of different payload differ.
/// Errors: Error when the runs are not of the same problem and lengths.
std::vector<StageDifference> compare_runs(const Recording& first_run, const Recording& second_run);

/// The first row with a change; null when there is none.
const StageDifference* first_changed(std::span<const StageDifference> stages);

std::int64_t count_compared(std::span<const StageDifference> stages);
std::int64_t count_changed(std::span<const StageDifference> stages);

}  // namespace tilescope
