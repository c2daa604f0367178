#pragma once

// Explanations held against what judge() allows.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "oracle/explain/explain.h"
#include "oracle/formula/estimate.h"
#include "oracle/judge.h"
#include "tests/oracle/draws.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {

using TileKey = std::pair<Stage, TileId>;

struct Judged {
    MatrixF got;
    Estimate expected;
};

/// What judge() compared, tile by tile.
inline std::map<TileKey, Judged> judged_tiles(const Recording& recording) {
    std::map<TileKey, Judged> tiles;
    JudgeOptions options = one_thread();
    options.observe = [&](Stage stage, const TileId& tile, const MatrixF& got, const Estimate& expected) {
        tiles[{stage, tile}] = {got, expected};
    };
    report_of(recording, options);
    return tiles;
}

inline ElementPlace place_of(const Problem& problem, Stage stage, const TileId& tile, std::int64_t i,
                             std::int64_t j) {
    const StageInfo& info = stage_info(stage);
    const std::int64_t first_row =
        info.row_axis == Axis::key ? tile.kv_tile * problem.block_n : tile.q_block * problem.block_m;
    return {stage, tile, first_row + i,
            j + (info.col_axis == Axis::key ? tile.kv_tile * problem.block_n : 0)};
}

inline bool near(double a, double b) {
    return a == b || std::abs(a - b) <= 1e-9 * std::abs(b);
}

inline void expect_fits(const std::string& text) {
    std::istringstream stream(text);
    int lines = 0;
    for (std::string line; std::getline(stream, line); ++lines) EXPECT_LE(line.size(), 110u) << line;
    EXPECT_LE(lines, 30) << text;
}

/// Counts the elements that were explained, and the names of their terms.
struct Seen {
    std::array<int, stage_count> elements{};
    std::set<std::string> names;
};

inline void compare(const Recording& recording, const TileKey& key, const Judged& judged, std::int64_t i,
                    std::int64_t j, Seen& seen) {
    const auto& [stage, tile] = key;
    const double expected = judged.expected.value(i, j);
    const double tolerance = judged.expected.error(i, j);
    const ElementPlace place = place_of(recording.problem(), stage, tile, i, j);
    const Explanation explanation = explain_tolerance(recording, place);
    const std::string text = to_text(explanation);
    expect_fits(text);
    if (!std::isfinite(expected)) {
        EXPECT_EQ(std::isnan(explanation.element.expected), std::isnan(expected)) << text;
        EXPECT_TRUE(explanation.terms.rows().empty()) << text;
        return;
    }
    // A sum that cancels leaves what its order leaves.
    const double difference = std::abs(explanation.element.expected - expected);
    EXPECT_TRUE(near(explanation.element.expected, expected) || difference <= 1e-9 * tolerance)
        << expected << "\n"
        << text;
    EXPECT_TRUE(near(explanation.element.tolerance, tolerance)) << tolerance << "\n" << text;
    const bool parted = std::isfinite(tolerance) || !explanation.terms.rows().empty();
    EXPECT_TRUE(!parted || near(explanation.terms.total(), tolerance)) << tolerance << "\n" << text;
    for (const BudgetTerm& term : explanation.terms.rows()) {
        EXPECT_GT(term.value, 0) << term.name << "\n" << text;
        seen.names.insert(term.name);
    }
    ++seen.elements[static_cast<std::size_t>(stage)];
}

/// Some elements of some tiles of every stage.
inline void compare_some(const Recording& recording, Random& random, Seen& seen) {
    const std::map<TileKey, Judged> tiles = judged_tiles(recording);
    std::map<Stage, std::vector<TileKey>> by_stage;
    for (const auto& [key, judged] : tiles) {
        if (judged.got.size() > 0) by_stage[key.first].push_back(key);
    }
    for (const auto& [stage, keys] : by_stage) {
        for (int n = 0; n < 3; ++n) {
            const TileKey& key = keys[random() % keys.size()];
            const Judged& judged = tiles.at(key);
            compare(recording, key, judged, std::int64_t(random() % std::uint64_t(judged.got.rows())),
                    std::int64_t(random() % std::uint64_t(judged.got.cols())), seen);
        }
    }
}

/// Removes one of two stages and one of three tiles of the others; returns what is left.
inline std::string thin_out(MemoryRecording& recording, Random& random) {
    std::string left;
    for (const StageInfo& info : stages_of(recording.problem().direction)) {
        const bool removes_stage = random() % 2 == 0;
        for (std::int64_t i = 0; i < tile_count(recording.problem(), info.stage); ++i) {
            if (removes_stage || random() % 3 == 0)
                recording.remove_tile(info.stage, tile_at(recording.problem(), info.stage, i));
        }
        if (recording.has_stage(info.stage)) left += std::string(info.name) + " ";
    }
    return left;
}

/// Elements of every stage of the pass were explained, and terms of these names, "a; b; c", were seen.
inline void expect_seen(const Seen& seen, Direction direction, const std::string& names) {
    for (std::size_t end = 0, at = 0; end != std::string::npos; at = end + 2) {
        end = names.find("; ", at);
        const std::string name = names.substr(at, end - at);
        EXPECT_TRUE(seen.names.contains(name)) << name;
    }
    for (const StageInfo& info : stages_of(direction))
        EXPECT_GT(seen.elements[static_cast<std::size_t>(info.stage)], 20) << info.name;
}

inline double value_of(const Explanation& explanation, const std::string& name) {
    for (const BudgetTerm& term : explanation.terms.rows()) {
        if (term.name == name) return term.value;
    }
    return 0;
}

}  // namespace tilescope::test
