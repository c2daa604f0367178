#pragma once

// A recording whose every element says where it belongs, and a folder to keep files in.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "dump/recording/array_shape.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {

/// All of a file.
inline std::string bytes_of(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

/// A folder of its own that goes away with the test.
class TemporaryFolder {
 public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "tilescope-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    std::string file(const std::string& name) const { return (path_ / name).string(); }
    std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(path_)) {
            names.push_back(entry.path().filename().string());
        }
        std::ranges::sort(names);
        return names;
    }

 private:
    std::filesystem::path path_;
};

/// Tails on both sides, grouped heads, head_dim_v of its own.
inline Problem sample_problem() {
    Problem problem;
    problem.batch = 2;
    problem.heads = 4;
    problem.heads_kv = 2;
    problem.seqlen_q = 37;
    problem.seqlen_kv = 50;
    problem.head_dim = 8;
    problem.head_dim_v = 12;
    problem.block_m = 16;
    problem.block_n = 32;
    problem.sm_scale = 0.35355339059327373;
    return problem;
}

/// The value of an element of a stage: 2^18 times the stage's number plus the element's row-major index in
/// its dataset. Padding is negative.
inline float sample_value(const Problem& problem, Stage stage, const TileId& tile, std::int64_t row,
                          std::int64_t col) {
    const TileShape extent = tile_extent(problem, stage, tile);
    if (row >= extent.rows || col >= extent.cols) return -static_cast<float>(row * 1000 + col + 1);
    const DatasetShape shape = dataset_shape(problem, stage);
    std::vector<std::int64_t> index = chunk_index(problem, stage, tile);
    for (std::size_t i = 0; i < index.size(); ++i) index[i] *= shape.chunk[i];
    if (stage_info(stage).col_axis == Axis::unit && extent.cols == 1) {
        index.back() += row;
    } else {
        index.end()[-2] += row;
        index.back() += col;
    }
    std::int64_t flat = 0;
    for (std::size_t i = 0; i < index.size(); ++i) flat = flat * shape.dims[i] + index[i];
    return static_cast<float>((static_cast<std::int64_t>(stage) << 18) + flat);
}

inline std::vector<float> sample_tile(const Problem& problem, Stage stage, const TileId& tile) {
    const TileShape shape = tile_shape(problem, stage);
    std::vector<float> values;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t col = 0; col < shape.cols; ++col) {
            values.push_back(sample_value(problem, stage, tile, row, col));
        }
    }
    return values;
}

/// The same call's backward pass.
inline Problem backward_problem() {
    Problem problem = sample_problem();
    problem.direction = Direction::backward;
    return problem;
}

inline constexpr Input all_inputs[] = {Input::q, Input::k, Input::v, Input::dout, Input::o, Input::lse};

inline std::int64_t input_elements(const Problem& problem, Input input) {
    const ArrayShape shape = input_shape(problem, input);
    return problem.batch * shape.heads * shape.rows * shape.cols;
}

/// Small integers, which every dtype holds exactly: -8 to 8, by the element's index.
inline std::vector<float> sample_input(const Problem& problem, Input input) {
    std::vector<float> values(static_cast<std::size_t>(input_elements(problem, input)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8;
    return values;
}

/// Every side input, in each of the shapes that it can have across the three descales.
inline SideInputs sample_side_inputs() {
    SideInputs inputs;
    inputs.seqlens_q = {37, 20};
    inputs.seqlens_kv = {41, 50};
    inputs.alibi_slopes = {0.5f, 0.25f, 0.125f, 0.0625f, -0.5f, -0.25f, 1, 0};
    inputs.sink = {1.5f, -2, 0, 0.1f};
    inputs.descale_q = {4, 3, 16, std::vector<float>(2 * 4 * 3)};
    std::iota(inputs.descale_q.values.begin(), inputs.descale_q.values.end(), 100.0f);
    inputs.descale_k = {2, 1, 50, {0.5f, 2, 0.3f, -1}};
    inputs.descale_v = {0, 1, 0, {0.7f}};
    return inputs;
}

/// Sizes as given, each 1 or the problem's; element i is i / 8.
inline Bias sample_bias(std::int64_t batch, std::int64_t heads, std::int64_t seqlen_q,
                        std::int64_t seqlen_kv) {
    Bias bias = {batch, heads, seqlen_q, seqlen_kv, {}};
    bias.values.resize(static_cast<std::size_t>(batch * heads * seqlen_q * seqlen_kv));
    for (std::size_t i = 0; i < bias.values.size(); ++i) bias.values[i] = static_cast<float>(i) / 8;
    return bias;
}

inline void fill(MemoryRecording& recording) {
    const Problem& problem = recording.problem();
    for (const StageInfo& info : all_stages()) {
        if (!has_stage(problem.direction, info.stage)) continue;
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            recording.set_tile(info.stage, tile, sample_tile(problem, info.stage, tile));
        }
    }
    for (const Input input : all_inputs) {
        if (reads_input(problem.direction, input)) recording.set_input(input, sample_input(problem, input));
    }
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return std::ranges::equal(a, b, [](float x, float y) {
        return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
    });
}

inline void expect_same_inputs(const Recording& got, const Recording& expected) {
    const Problem& problem = expected.problem();
    for (const Input input : all_inputs) {
        EXPECT_EQ(got.has_input(input), expected.has_input(input)) << "input " << static_cast<int>(input);
        if (!expected.has_input(input)) continue;
        for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
            const Problem entry = problem_of(problem, expected.side_inputs(), batch);
            const auto [heads, rows, cols, dtype] = input_shape(entry, input);
            for (std::int64_t head = 0; head < heads; ++head) {
                std::vector<float> a(static_cast<std::size_t>(rows * cols)), b(a.size());
                got.read_input(input, batch, head, 0, rows, a);
                expected.read_input(input, batch, head, 0, rows, b);
                EXPECT_TRUE(same_bits(a, b)) << "input " << static_cast<int>(input) << " head " << head;
            }
        }
    }
}

/// Returns how many elements were compared.
inline std::int64_t expect_same_bias(const Recording& got, const Recording& expected) {
    const Problem& problem = expected.problem();
    std::int64_t compared = 0;
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        for (std::int64_t head = 0; head < problem.heads; ++head) {
            for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
                std::vector<float> a(static_cast<std::size_t>(problem.seqlen_kv), 7.0f), b(a.size());
                got.read_bias(batch, head, row, 0, a);
                expected.read_bias(batch, head, row, 0, b);
                EXPECT_TRUE(same_bits(a, b)) << batch << " " << head << " " << row;
                compared += std::ssize(a);
            }
        }
    }
    return compared;
}

/// Compares every tile and every input of two recordings of the same problem, bit by bit; returns how many
/// tiles both have.
inline std::int64_t expect_same_contents(const Recording& got, const Recording& expected) {
    const Problem& problem = expected.problem();
    std::int64_t compared = 0;
    for (const StageInfo& info : all_stages()) {
        EXPECT_EQ(got.has_stage(info.stage), expected.has_stage(info.stage)) << info.name;
        const auto elements = static_cast<std::size_t>(tile_shape(problem, info.stage).elements());
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            std::vector<float> a(elements, 1.0f), b(elements, 1.0f);
            const bool has = expected.read_tile(info.stage, tile, b);
            EXPECT_EQ(got.has_tile(info.stage, tile), has) << info.name << " " << i;
            EXPECT_EQ(got.read_tile(info.stage, tile, a), has) << info.name << " " << i;
            EXPECT_TRUE(same_bits(a, b)) << info.name << " tile " << i;
            compared += has;
        }
    }
    EXPECT_EQ(got.side_inputs(), expected.side_inputs());
    EXPECT_EQ(got.has_bias(), expected.has_bias());
    if (expected.has_bias()) expect_same_bias(got, expected);
    EXPECT_EQ(got.has_inputs(), expected.has_inputs());
    expect_same_inputs(got, expected);
    return compared;
}

}  // namespace tilescope::test
