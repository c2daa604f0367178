#include "tests/kernels/run_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <sstream>

#include "dump/cli/command_line.h"
#include "kernels/run/commands/option_groups.h"
#include "tests/kernels/textbook_attention.h"
#include "tests/support/seeds.h"

namespace tilescope::testing {

namespace {

/// Every tile that `stage` can have.
std::vector<TileId> tiles_of(const Problem& problem, Stage stage) {
    std::vector<TileId> tiles;
    for (std::int64_t i = 0; i < tile_count(problem, stage); ++i) tiles.push_back(tile_at(problem, stage, i));
    return tiles;
}

bool any_key_is_visible(const Problem& problem, const TileId& tile) {
    for (std::int64_t row = tile.q_block * problem.block_m;
         row < std::min(problem.seqlen_q, (tile.q_block + 1) * problem.block_m); ++row) {
        if (is_visible(problem, row, tile.kv_tile * problem.block_n)) return true;
    }
    return false;
}

std::vector<float> read(const CapturedRun& run, Stage stage, const TileId& tile) {
    std::vector<float> values(std::size_t(tile_shape(run.problem(), stage).elements()));
    EXPECT_TRUE(run.read_tile(stage, tile, values)) << stage_info(stage).name;
    return values;
}

void expect_whole(const CapturedRun& run, Stage stage) {
    const Problem& problem = run.problem();
    const StageCapture& capture = run.capture().stages[std::size_t(stage)];
    EXPECT_TRUE(capture.conflicts.empty()) << stage_info(stage).name;
    EXPECT_EQ(capture.elements_dropped, 0) << stage_info(stage).name;
    EXPECT_EQ(capture.elements_out_of_range, 0) << stage_info(stage).name;
    for (const TileId& tile : tiles_of(problem, stage)) {
        const bool expected = !stage_info(stage).per_kv_tile || any_key_is_visible(problem, tile);
        ASSERT_EQ(run.has_tile(stage, tile), expected)
            << stage_info(stage).name << " q block " << tile.q_block << " KV tile " << tile.kv_tile;
        if (!expected) continue;
        const std::vector<float> values = read(run, stage, tile);
        const TileShape extent = tile_extent(problem, stage, tile);
        const std::int64_t cols = tile_shape(problem, stage).cols;
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            for (std::int64_t col = 0; col < extent.cols; ++col) {
                ASSERT_FALSE(is_unwritten(values[std::size_t(row * cols + col)]))
                    << stage_info(stage).name << " row " << row << " column " << col;
            }
        }
    }
}

/// Compares an output with its expected values; a NaN is outside every tolerance.
void expect_output(const CapturedRun& run, Stage stage, const std::vector<double>& expected,
                   const std::vector<double>& tolerance) {
    const Problem& problem = run.problem();
    const std::int64_t cols = tile_shape(problem, stage).cols;
    std::int64_t compared = 0;
    for (const TileId& tile : tiles_of(problem, stage)) {
        const std::vector<float> values = read(run, stage, tile);
        const std::int64_t first =
            ((tile.batch * problem.heads + tile.head) * problem.seqlen_q + tile.q_block * problem.block_m) *
            cols;
        for (std::int64_t i = 0; i < tile_extent(problem, stage, tile).rows * cols; ++i, ++compared) {
            const double got = values[std::size_t(i)];
            const double want = expected[std::size_t(first + i)];
            const double allowed = tolerance[std::size_t(first + i)];
            ASSERT_TRUE(got == want || std::abs(got - want) <= allowed)
                << stage_info(stage).name << " element " << first + i << ": " << got << ", expected " << want
                << " +- " << allowed;
        }
    }
    EXPECT_EQ(compared, std::int64_t(expected.size()));
}

}  // namespace

RunOptions options_of(const std::string& command_line) {
    CLI::App app("", "record");
    RunOptions options;
    declare_recorded_run(app, options);
    declare_output(app, options, "not needed where nothing is written");
    std::istringstream words(command_line);
    parse_command_line(app, {std::istream_iterator<std::string>(words), {}});
    return options;
}

RunRequest request_of(const std::string& command_line) {
    return make_request(options_of(command_line));
}

std::vector<std::string> healthy_runs(const KernelInfo& kernel, const KernelConfig& config) {
    std::vector<std::string> runs = {
        "--shape 2,2,64,128,{}",
        "--shape 1,2,65,129,{} --input ramped",
        "--shape 1,1,97,191,{} --causal",
        "--shape 1,5,33,7,{} --heads-kv 1 --input distinct_v",
        "--shape 1,10,40,100,{} --heads-kv 2 --causal --input ramped",
        "--shape 1,7,130,70,{} --heads-kv 1 --causal --input ties",
        "--shape 1,1,70,130,{} --causal --causal-alignment top_left --input negative",
        "--shape 1,1,130,70,{} --causal --causal-alignment top_left",
        "--shape 1,4,40,70,{} --heads-kv 2 --input zero_head",
        "--shape 1,1,1,1,{}",
    };
    if (!kernel.guarded) runs.push_back("--shape 1,2,1,200,{} --input large");
    for (std::string& run : runs) {
        run = fmt::format("--kernel {} --config {} --dtype {} {}", kernel.name, config_name(config),
                          dtype_info(config.dtype).name, fmt::format(fmt::runtime(run), config.head_dim));
    }
    return runs;
}

std::vector<std::string> tried_runs(const KernelInfo& kernel, const KernelConfig& config) {
    const std::vector<std::string> all = healthy_runs(kernel, config);
    const std::size_t apart = all.size() / test::tried_seeds(all.size());
    const auto same = [&](const KernelConfig& other) { return test_name(other) == test_name(config); };
    const auto number = std::ranges::find_if(kernel.configs, same) - kernel.configs.begin();
    std::vector<std::string> tried;
    for (std::size_t i = std::size_t(number) % apart; i < all.size(); i += apart) tried.push_back(all[i]);
    return tried;
}

void expect_healthy(const std::string& command_line) {
    SCOPED_TRACE("tile-run record " + command_line);
    const RunRequest request = request_of(command_line);
    const CapturedRun run = run_kernel(request);
    EXPECT_EQ(run.capture().ended, "completed");
    for (const StageInfo& stage : stages_of(Direction::forward)) {
        if (records(*request.kernel, stage.stage)) {
            expect_whole(run, stage.stage);
        } else {
            EXPECT_FALSE(run.has_stage(stage.stage)) << stage.name;
        }
    }

    const RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
    const TextbookAttention textbook = textbook_attention(request.problem, run.units(), inputs);
    expect_output(run, Stage::o, textbook.o, textbook.o_tolerance);
    expect_output(run, Stage::lse, textbook.lse, textbook.lse_tolerance);
}

constexpr MemoryFill poisoned = {.shared_word = 0x7fc00000u};

void expect_planted(const FaultInfo& fault, const std::string& kernel, const std::string& engine) {
    const std::string options =
        fmt::format("--kernel {} --config {} --engine {} {}", kernel,
                    config_name(*faulty_config(*find_kernel(kernel), fault)), engine, fault.shown_by);
    SCOPED_TRACE(fmt::format("tile-run record {} --fault {}", options, fault.name));
    const CapturedRun healthy = run_kernel(request_of(options));
    const RunRequest planted = request_of(fmt::format("{} --fault {}", options, fault.name));
    // Shared memory that the healthy run left could hold what the fault fails to load.
    const CapturedRun faulty = run_kernel(planted, make_inputs(planted.problem, *planted.input, planted.seed),
                                          poisoned, TilesLie::in_place)
                                   .recording;

    for (const StageInfo& stage : stages_of(Direction::forward)) {
        if (stage.stage > fault.stage) break;
        std::int64_t differing = 0;
        for (const TileId& tile : tiles_of(healthy.problem(), stage.stage)) {
            if (healthy.has_tile(stage.stage, tile) != faulty.has_tile(stage.stage, tile)) ++differing;
            if (!healthy.has_tile(stage.stage, tile) || !faulty.has_tile(stage.stage, tile)) continue;
            const std::vector<float> want = read(healthy, stage.stage, tile);
            const std::vector<float> got = read(faulty, stage.stage, tile);
            for (std::size_t i = 0; i < want.size(); ++i) {
                differing += std::bit_cast<std::uint32_t>(want[i]) != std::bit_cast<std::uint32_t>(got[i]);
            }
        }
        if (stage.stage == fault.stage) {
            EXPECT_GT(differing, 0) << stage.name;
        } else {
            EXPECT_EQ(differing, 0) << stage.name;
        }
    }
}

std::string test_name(const KernelConfig& config) {
    return fmt::format("{}_head_dim_{}_{}", config_name(config), config.head_dim,
                       dtype_info(config.dtype).name);
}

}  // namespace tilescope::testing
