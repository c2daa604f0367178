#include "dump/recording/run_difference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/dump/small_problem.h"
#include "tests/support/copied_recording.h"

namespace tilescope::test {
namespace {

float from_bits(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}

/// Every tile of every stage, with bits of all kinds in the padding as well.
MemoryRecording random_recording(const Problem& problem) {
    std::mt19937 random(20260);
    MemoryRecording recording(problem);
    for (const StageInfo& info : stages_of(problem.direction)) {
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            std::vector<float> values(std::size_t(tile_shape(problem, info.stage).elements()));
            for (float& value : values) value = from_bits(std::uint32_t(random()) & 0x7f7fffffu);
            recording.set_tile(info.stage, tile_at(problem, info.stage, i), std::move(values));
        }
    }
    return recording;
}

std::vector<float> tile_of(const Recording& recording, Stage stage, const TileId& tile) {
    std::vector<float> values(std::size_t(tile_shape(recording.problem(), stage).elements()));
    EXPECT_TRUE(recording.read_tile(stage, tile, values));
    return values;
}

/// Replaces element (row, col) of a tile.
void set_element(MemoryRecording& recording, Stage stage, const TileId& tile, std::int64_t row,
                 std::int64_t col, float value) {
    std::vector<float> values = tile_of(recording, stage, tile);
    values[std::size_t(row * tile_shape(recording.problem(), stage).cols + col)] = value;
    recording.set_tile(stage, tile, std::move(values));
}

float element(const Recording& recording, Stage stage, const TileId& tile, std::int64_t row,
              std::int64_t col) {
    return tile_of(recording, stage,
                   tile)[std::size_t(row * tile_shape(recording.problem(), stage).cols + col)];
}

void flip_lowest_bit(MemoryRecording& recording, Stage stage, const TileId& tile, std::int64_t row,
                     std::int64_t col) {
    const float value = element(recording, stage, tile, row, col);
    set_element(recording, stage, tile, row, col, from_bits(std::bit_cast<std::uint32_t>(value) ^ 1u));
}

const StageDifference& row_of(const std::vector<StageDifference>& stages, Stage stage) {
    return *std::ranges::find(stages, stage, &StageDifference::stage);
}

TEST(RunDifference, SameBitsAreComparedWholeAndDoNotDiffer) {
    const MemoryRecording run = random_recording(small_problem());
    const std::vector<StageDifference> stages = compare_runs(run, copy_of(run));
    EXPECT_EQ(count_changed(stages), 0);
    EXPECT_EQ(first_changed(stages), nullptr);
    // Sizes of the datasets in FORMAT.md: B 2, H 6, Sq 10, Skv 13, D 8, Dv 7, Tq 3, Tkv 3.
    const std::pair<Stage, std::int64_t> expected[] = {
        {Stage::q, 2 * 6 * 10 * 8},  {Stage::k, 2 * 6 * 3 * 13 * 8},   {Stage::v, 2 * 6 * 3 * 13 * 7},
        {Stage::s, 2 * 6 * 10 * 13}, {Stage::m, 2 * 6 * 3 * 10},       {Stage::p, 2 * 6 * 10 * 13},
        {Stage::l, 2 * 6 * 3 * 10},  {Stage::acc, 2 * 6 * 3 * 10 * 7}, {Stage::o, 2 * 6 * 10 * 7},
        {Stage::lse, 2 * 6 * 10},
    };
    ASSERT_EQ(stages.size(), std::size(expected));
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        EXPECT_EQ(stages[i].stage, expected[i].first);
        EXPECT_EQ(stages[i].compared, expected[i].second) << stage_info(stages[i].stage).name;
        EXPECT_FALSE(stages[i].first);
        sum += expected[i].second;
    }
    EXPECT_EQ(count_compared(stages), sum);
}

struct Flip {
    Stage stage;
    TileId tile;
    std::int64_t row;  ///< in the tile
    std::int64_t col;
    std::int64_t tensor_row;  ///< by hand: blocks of 4 query rows, tiles of 5 keys
    std::int64_t tensor_col;
};

TEST(RunDifference, OneBitIsFoundAtItsPlaceInTheTensor) {
    const Flip flips[] = {
        {Stage::q, {1, 5, 2, 0}, 1, 7, 9, 7}, {Stage::k, {0, 3, 1, 2}, 2, 4, 12, 4},
        {Stage::v, {1, 0, 0, 0}, 4, 6, 4, 6}, {Stage::s, {0, 0, 1, 2}, 3, 2, 7, 12},
        {Stage::m, {1, 2, 2, 1}, 0, 0, 8, 0}, {Stage::p, {1, 5, 2, 1}, 1, 4, 9, 9},
        {Stage::l, {0, 0, 0, 0}, 3, 0, 3, 0}, {Stage::acc, {0, 1, 1, 2}, 2, 5, 6, 5},
        {Stage::o, {1, 4, 2, 0}, 0, 3, 8, 3}, {Stage::lse, {0, 5, 1, 0}, 3, 0, 7, 0},
    };
    const MemoryRecording run = random_recording(small_problem());
    for (const Flip& flip : flips) {
        SCOPED_TRACE(stage_info(flip.stage).name);
        MemoryRecording other = copy_of(run);
        flip_lowest_bit(other, flip.stage, flip.tile, flip.row, flip.col);
        const std::vector<StageDifference> stages = compare_runs(run, other);
        EXPECT_EQ(count_changed(stages), 1);
        const StageDifference* changed = first_changed(stages);
        ASSERT_NE(changed, nullptr);
        EXPECT_EQ(changed->stage, flip.stage);
        EXPECT_EQ(changed->first->tile, flip.tile);
        EXPECT_EQ(changed->first->row, flip.tensor_row);
        EXPECT_EQ(changed->first->col, flip.tensor_col);
        EXPECT_EQ(changed->first->first_run, element(run, flip.stage, flip.tile, flip.row, flip.col));
        EXPECT_EQ(changed->first->second_run, element(other, flip.stage, flip.tile, flip.row, flip.col));
    }
}

TEST(RunDifference, DkOfABackwardPassIsFoundByItsKey) {
    const MemoryRecording run = random_recording(small_backward_problem());
    MemoryRecording other = copy_of(run);
    flip_lowest_bit(other, Stage::dk, {1, 2, 0, 1}, 3, 6);
    const std::vector<StageDifference> stages = compare_runs(run, other);
    ASSERT_NE(first_changed(stages), nullptr);
    EXPECT_EQ(first_changed(stages)->stage, Stage::dk);
    EXPECT_EQ(first_changed(stages)->first->row, 8);
    EXPECT_EQ(first_changed(stages)->compared, 2 * 3 * 13 * 8);
    EXPECT_EQ(count_changed(stages), 1);
}

TEST(RunDifference, WhatLiesBeyondTheTensorIsLeftOut) {
    const MemoryRecording run = random_recording(small_problem());
    MemoryRecording other = copy_of(run);
    flip_lowest_bit(other, Stage::s, {0, 0, 2, 0}, 2, 0);    // q row 10
    flip_lowest_bit(other, Stage::s, {0, 0, 0, 2}, 0, 3);    // key 13
    flip_lowest_bit(other, Stage::k, {0, 0, 0, 2}, 4, 0);    // key 14
    flip_lowest_bit(other, Stage::lse, {1, 5, 2, 0}, 3, 0);  // q row 11
    EXPECT_EQ(count_changed(compare_runs(run, other)), 0);
}

TEST(RunDifference, WhatLiesBeyondTheLengthsOfABatchEntryIsLeftOut) {
    MemoryRecording run = random_recording(small_problem());
    SideInputs lengths;
    lengths.seqlens_q = {10, 5};
    lengths.seqlens_kv = {13, 0};
    run.set_side_inputs(lengths);
    MemoryRecording other = copy_of(run);
    flip_lowest_bit(other, Stage::s, {1, 0, 0, 0}, 0, 0);
    flip_lowest_bit(other, Stage::o, {1, 0, 1, 0}, 1, 0);  // q row 5
    flip_lowest_bit(other, Stage::k, {1, 0, 0, 0}, 0, 0);
    std::vector<StageDifference> stages = compare_runs(run, other);
    EXPECT_EQ(count_changed(stages), 0);
    EXPECT_EQ(row_of(stages, Stage::s).compared, 6 * 10 * 13);
    EXPECT_EQ(row_of(stages, Stage::o).compared, 6 * (10 + 5) * 7);

    flip_lowest_bit(other, Stage::o, {1, 0, 1, 0}, 0, 0);  // q row 4
    EXPECT_EQ(count_changed(compare_runs(run, other)), 1);
}

TEST(RunDifference, ComparesBitsNotValues) {
    const MemoryRecording base = random_recording(small_problem());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::pair<float, float> pairs[] = {
        {0.0f, -0.0f}, {nan, -nan}, {nan, from_bits(std::bit_cast<std::uint32_t>(nan) | 1u)}};
    for (const auto& [a, b] : pairs) {
        MemoryRecording first = copy_of(base);
        MemoryRecording second = copy_of(base);
        set_element(first, Stage::p, {0, 0, 0, 0}, 0, 0, a);
        set_element(second, Stage::p, {0, 0, 0, 0}, 0, 0, b);
        EXPECT_EQ(count_changed(compare_runs(first, second)), 1);
        EXPECT_EQ(count_changed(compare_runs(first, copy_of(first))), 0);
    }
}

TEST(RunDifference, TilesAndElementsOfOneRunOnlyCountAsChanged) {
    const MemoryRecording run = random_recording(small_problem());
    const TileId last = {1, 5, 2, 2};  // 2 rows and 3 keys of it lie inside the tensor
    MemoryRecording other = copy_of(run);
    other.remove_tile(Stage::s, last);
    for (const bool swapped : {false, true}) {
        const std::vector<StageDifference> stages =
            swapped ? compare_runs(other, run) : compare_runs(run, other);
        const StageDifference& s = row_of(stages, Stage::s);
        EXPECT_EQ(s.compared, 2 * 6 * 10 * 13);
        EXPECT_EQ(s.changed, 2 * 3);
        EXPECT_EQ(s.first->tile, last);
        EXPECT_TRUE(is_unwritten(swapped ? s.first->first_run : s.first->second_run));
        EXPECT_FALSE(is_unwritten(swapped ? s.first->second_run : s.first->first_run));
    }

    MemoryRecording nothing(small_problem());
    EXPECT_EQ(count_changed(compare_runs(run, nothing)), count_compared(compare_runs(run, run)));
    EXPECT_TRUE(compare_runs(nothing, nothing).empty());
}

TEST(RunDifference, ElementsThatNeitherRunWroteAreNotCompared) {
    MemoryRecording run = random_recording(small_problem());
    set_element(run, Stage::p, {0, 0, 0, 0}, 1, 1, from_bits(unwritten_bits));
    MemoryRecording other = copy_of(run);
    EXPECT_EQ(row_of(compare_runs(run, other), Stage::p).compared, 2 * 6 * 10 * 13 - 1);
    set_element(other, Stage::p, {0, 0, 0, 0}, 1, 1, 1.0f);
    EXPECT_EQ(row_of(compare_runs(run, other), Stage::p).compared, 2 * 6 * 10 * 13);
    EXPECT_EQ(row_of(compare_runs(run, other), Stage::p).changed, 1);
}

TEST(RunDifference, TheFirstChangeIsOfTheEarliestStageThenKvTileThenHeadThenRow) {
    const MemoryRecording run = random_recording(small_problem());
    MemoryRecording other = copy_of(run);
    // From last to first: each change comes before all that were made.
    const Flip flips[] = {
        {Stage::lse, {0, 0, 0, 0}, 0, 0, 0, 0}, {Stage::p, {0, 0, 0, 2}, 0, 0, 0, 10},
        {Stage::p, {1, 3, 0, 1}, 3, 4, 3, 9},   {Stage::p, {1, 2, 2, 1}, 1, 3, 9, 8},
        {Stage::p, {1, 2, 1, 1}, 2, 4, 6, 9},   {Stage::p, {1, 2, 1, 1}, 2, 2, 6, 7},
        {Stage::p, {1, 2, 1, 1}, 1, 4, 5, 9},   {Stage::p, {0, 5, 1, 1}, 3, 4, 7, 9},
        {Stage::s, {1, 5, 2, 2}, 1, 2, 9, 12},
    };
    std::int64_t made = 0;
    for (const Flip& flip : flips) {
        flip_lowest_bit(other, flip.stage, flip.tile, flip.row, flip.col);
        const std::vector<StageDifference> stages = compare_runs(run, other);
        EXPECT_EQ(count_changed(stages), ++made);
        EXPECT_EQ(first_changed(stages)->stage, flip.stage);
        EXPECT_EQ(first_changed(stages)->first->tile, flip.tile) << made;
        EXPECT_EQ(first_changed(stages)->first->row, flip.tensor_row) << made;
        EXPECT_EQ(first_changed(stages)->first->col, flip.tensor_col) << made;
    }
}

TEST(RunDifference, ElementsAreOrderedAsTheirTilesAre) {
    const auto at = [](TileId tile, std::int64_t row, std::int64_t col) {
        return ElementDifference{tile, row, col, 0, 0};
    };
    const ElementDifference ordered[] = {
        at({1, 1, 1, 0}, 9, 9), at({0, 0, 0, 1}, 9, 9), at({0, 0, 1, 1}, 0, 0), at({0, 0, 1, 1}, 0, 3),
        at({0, 0, 1, 1}, 2, 1), at({0, 1, 0, 1}, 0, 0), at({1, 0, 0, 1}, 0, 0)};
    for (std::size_t i = 0; i < std::size(ordered); ++i) {
        for (std::size_t j = 0; j < std::size(ordered); ++j) {
            EXPECT_EQ(comes_before(ordered[i], ordered[j]), i < j) << i << " " << j;
        }
    }
}

TEST(RunDifference, RunsOfOtherCallsAreRefused) {
    const MemoryRecording run(small_problem());
    Problem longer = small_problem();
    longer.seqlen_kv += 1;
    EXPECT_THROW(compare_runs(run, MemoryRecording(longer)), Error);
    MemoryRecording shorter(small_problem());
    SideInputs lengths;
    lengths.seqlens_q = {10, 5};
    shorter.set_side_inputs(lengths);
    EXPECT_THROW(compare_runs(run, shorter), Error);
}

}  // namespace
}  // namespace tilescope::test
