#pragma once

// A recording whose every element says where it belongs, and a folder to keep files in.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {

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
    std::vector<std::int64_t> index = chunk_index(stage, tile);
    for (std::size_t i = 0; i < index.size(); ++i) index[i] *= shape.chunk[i];
    if (stage_info(stage).col_axis == Axis::unit) {
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

inline std::int64_t input_elements(const Problem& problem, Input input) {
    if (input == Input::q) return problem.batch * problem.heads * problem.seqlen_q * problem.head_dim;
    return problem.batch * problem.heads_kv * problem.seqlen_kv *
           (input == Input::k ? problem.head_dim : problem.head_dim_v);
}

/// Small integers, which every dtype holds exactly: -8 to 8, by the element's index.
inline std::vector<float> sample_input(const Problem& problem, Input input) {
    std::vector<float> values(static_cast<std::size_t>(input_elements(problem, input)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8;
    return values;
}

inline void fill(MemoryRecording& recording) {
    const Problem& problem = recording.problem();
    for (const StageInfo& info : all_stages()) {
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            recording.set_tile(info.stage, tile, sample_tile(problem, info.stage, tile));
        }
    }
    for (const Input input : {Input::q, Input::k, Input::v}) {
        recording.set_input(input, sample_input(problem, input));
    }
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return std::ranges::equal(a, b, [](float x, float y) {
        return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
    });
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
    EXPECT_EQ(got.has_inputs(), expected.has_inputs());
    if (!expected.has_inputs()) return compared;
    for (const Input input : {Input::q, Input::k, Input::v}) {
        const bool is_q = input == Input::q;
        const std::int64_t heads = is_q ? problem.heads : problem.heads_kv;
        const std::int64_t rows = is_q ? problem.seqlen_q : problem.seqlen_kv;
        const std::int64_t cols = input == Input::v ? problem.head_dim_v : problem.head_dim;
        for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
            for (std::int64_t head = 0; head < heads; ++head) {
                std::vector<float> a(static_cast<std::size_t>(rows * cols)), b(a.size());
                got.read_input(input, batch, head, 0, rows, a);
                expected.read_input(input, batch, head, 0, rows, b);
                EXPECT_TRUE(same_bits(a, b)) << "input " << static_cast<int>(input) << " head " << head;
            }
        }
    }
    return compared;
}

}  // namespace tilescope::test
