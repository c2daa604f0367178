#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/support/copied_recording.h"

namespace tilescope::test {

/// Small recordings are judged faster without a team of threads, above all where several tests run at once.
inline JudgeOptions one_thread() {
    JudgeOptions options;
    options.threads = 1;
    return options;
}

inline Report judged(const Recording& recording) {
    return judge(recording, one_thread());
}
inline Report judged(const Recording& recording, const Recording& other) {
    return judge_pair(recording, other, one_thread());
}

/// The report, also where the judgement ends without a verdict.
inline Report report_of(const Recording& recording, const JudgeOptions& options) {
    try {
        return judge(recording, options);
    } catch (const NoVerdict& unjudged) {
        return unjudged.report();
    }
}

/// Whether the verdict is a match, and nothing was wrong or followed from something wrong.
inline ::testing::AssertionResult matches(const Report& report) {
    if (report.verdict != Verdict::match) return ::testing::AssertionFailure() << verdict_line(report);
    for (const StageInfo& info : stages_of(report.problem)) {
        const StageTally& tally = report.stage(info.stage).tally;
        if (tally.outside != 0 || tally.inherited != 0)
            return ::testing::AssertionFailure() << info.name << ": " << tally.outside
                                                 << " elements outside, " << tally.inherited << " inherited";
    }
    return ::testing::AssertionSuccess();
}
inline ::testing::AssertionResult matches(const Recording& recording) {
    return matches(judged(recording));
}
inline ::testing::AssertionResult matches(const Recording& recording, const Recording& other) {
    return matches(judged(recording, other));
}

/// Whether the report matches and compared every stage of its pass.
inline ::testing::AssertionResult all_match(const Report& report) {
    for (const StageInfo& info : stages_of(report.problem.direction)) {
        if (report.stage(info.stage).tally.compared == 0)
            return ::testing::AssertionFailure() << "nothing of " << info.name << " was compared";
    }
    return matches(report);
}

inline MemoryRecording with_stages(const Recording& from, const std::vector<Stage>& stages) {
    return copy_of(from, [&](Stage stage, const TileId&) {
        return std::find(stages.begin(), stages.end(), stage) != stages.end();
    });
}

inline std::string names_of(const std::vector<Stage>& stages) {
    std::string text;
    for (const Stage stage : stages) text += std::string(stage_info(stage).name) + " ";
    return text;
}

/// Of a run that was asked for every tile.
inline CaptureSummary everything_selected() {
    CaptureSummary capture;
    capture.selection = Selection();
    return capture;
}

/// Calls visit(value, tile, row, col) with each value that a stage holds, padding left out.
template <class Visit>
void visit_stage(const Recording& recording, Stage stage, const Visit& visit) {
    const Problem& p = recording.problem();
    const TileShape shape = tile_shape(p, stage);
    std::vector<float> values(std::size_t(shape.elements()));
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        const TileId tile = tile_at(p, stage, i);
        if (!recording.read_tile(stage, tile, values)) continue;
        const TileShape extent = tile_extent(p, stage, tile);
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            for (std::int64_t col = 0; col < extent.cols; ++col)
                visit(values[std::size_t(row * shape.cols + col)], tile, row, col);
        }
    }
}

/// Applies `change` to each value of a stage and of its padding, with its tile, row and column in it.
template <class Change>
void change_stage(MemoryRecording& recording, Stage stage, const Change& change) {
    const Problem& p = recording.problem();
    const TileShape shape = tile_shape(p, stage);
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        const TileId tile = tile_at(p, stage, i);
        std::vector<float> values(std::size_t(shape.elements()));
        if (!recording.read_tile(stage, tile, values)) continue;
        for (std::int64_t at = 0; at < shape.elements(); ++at)
            values[std::size_t(at)] = change(values[std::size_t(at)], tile, at / shape.cols, at % shape.cols);
        recording.set_tile(stage, tile, std::move(values));
    }
}

/// Changes one element, given by its place in the tile.
inline void poke(MemoryRecording& recording, Stage stage, const TileId& tile, std::int64_t row,
                 std::int64_t col, float value) {
    const TileShape shape = tile_shape(recording.problem(), stage);
    std::vector<float> values(std::size_t(shape.elements()));
    if (!recording.read_tile(stage, tile, values)) throw std::invalid_argument("poke: no such tile");
    values[std::size_t(row * shape.cols + col)] = value;
    recording.set_tile(stage, tile, std::move(values));
}

inline float peek(const Recording& recording, Stage stage, const TileId& tile, std::int64_t row,
                  std::int64_t col) {
    const TileShape shape = tile_shape(recording.problem(), stage);
    std::vector<float> values(std::size_t(shape.elements()));
    if (!recording.read_tile(stage, tile, values)) throw std::invalid_argument("peek: no such tile");
    return values[std::size_t(row * shape.cols + col)];
}

/// A copy of the recording in which one element is another.
inline MemoryRecording poked(const Recording& from, Stage stage, const TileId& tile, std::int64_t row,
                             std::int64_t col, float value) {
    MemoryRecording copy = copy_of(from);
    poke(copy, stage, tile, row, col, value);
    return copy;
}

/// Least and greatest value that a stage holds.
inline std::pair<float, float> range_of(const Recording& recording, Stage stage) {
    constexpr float most = std::numeric_limits<float>::infinity();
    std::pair range{most, -most};
    visit_stage(recording, stage, [&](float value, auto...) {
        range = {std::min(range.first, value), std::max(range.second, value)};
    });
    return range;
}

}  // namespace tilescope::test
