#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_backward.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {

inline std::vector<Stage> backward_stages() {
    std::vector<Stage> stages;
    for (const StageInfo& info : all_stages()) {
        if (info.backward) stages.push_back(info.stage);
    }
    return stages;
}

inline std::string names_of(const std::vector<Stage>& stages) {
    std::string text;
    for (const Stage stage : stages) text += std::string(stage_info(stage).name) + " ";
    return text;
}

/// What fails prints the call; its seed is all that it is made of.
inline std::string how_to_repeat(const char* filter, std::uint64_t seed, const GradientCall& call) {
    return "seed " + std::to_string(seed) + ", again with TILESCOPE_ALL_SEEDS=1 and --gtest_filter='" +
           filter + "': " + describe(call);
}

inline void expect_match(const Report& report) {
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    for (const StageInfo& info : all_stages()) {
        EXPECT_EQ(report.stage(info.stage).tally.outside, 0) << info.name;
        EXPECT_EQ(report.stage(info.stage).tally.inherited, 0) << info.name;
    }
}

/// A call of small_problem() with normal numbers.
inline GradientCall small_gradient_call(const Problem& problem, const GradientArithmetic& arithmetic,
                                        std::uint64_t seed) {
    return gradient_call(problem, arithmetic, make_inputs(problem, InputKind::normal, seed),
                         make_dout(problem, DoutKind::normal, seed));
}

/// Replaces every element of a stage; `value` takes the tile and the element's row and column in it.
template <class Value>
void replace_stage(MemoryRecording& recording, Stage stage, Value value) {
    const Problem& p = recording.problem();
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        const TileId tile = tile_at(p, stage, i);
        const TileShape shape = tile_shape(p, stage);
        std::vector<float> values(std::size_t(shape.elements()));
        if (!recording.read_tile(stage, tile, values)) continue;
        for (std::int64_t e = 0; e < shape.elements(); ++e)
            values[std::size_t(e)] = value(tile, e / shape.cols, e % shape.cols, values[std::size_t(e)]);
        recording.set_tile(stage, tile, std::move(values));
    }
}

}  // namespace tilescope::test
