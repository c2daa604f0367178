// Side inputs and the bias, from memory to a file and back.

#include <gtest/gtest.h>
#include <hdf5.h>

#include <numeric>
#include <vector>

#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"
#include "tests/dump/plain_dump.h"

namespace tilescope::test {
namespace {

class FileInputs : public testing::Test {
 protected:
    std::unique_ptr<Recording> written_and_opened(const Recording& recording) const {
        write_recording(path, recording);
        return open_recording(path);
    }
    std::vector<hsize_t> stored_dims(const char* dataset) const {
        const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
        const Handle opened(H5Dopen2(file, dataset, H5P_DEFAULT));
        const Handle space(H5Dget_space(opened));
        std::vector<hsize_t> dims(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
        H5Sget_simple_extent_dims(space, dims.data(), nullptr);
        return dims;
    }

    TemporaryFolder folder;
    std::string path = folder.file("run.h5");
};

TEST_F(FileInputs, KeepsEachOfThem) {
    const SideInputs all = sample_side_inputs();
    const std::pair<const char*, void (*)(SideInputs&, const SideInputs&)> parts[] = {
        {"none", [](SideInputs&, const SideInputs&) {}},
        {"seqlens_q", [](SideInputs& to, const SideInputs& from) { to.seqlens_q = from.seqlens_q; }},
        {"seqlens_kv", [](SideInputs& to, const SideInputs& from) { to.seqlens_kv = from.seqlens_kv; }},
        {"alibi_slopes", [](SideInputs& to, const SideInputs& from) { to.alibi_slopes = from.alibi_slopes; }},
        {"slopes of heads",
         [](SideInputs& to, const SideInputs&) {
             to.alibi_slopes = {1, 2, 3, 4};
         }},
        {"sink", [](SideInputs& to, const SideInputs& from) { to.sink = from.sink; }},
        {"blocks", [](SideInputs& to, const SideInputs& from) { to.descale_q = from.descale_q; }},
        {"heads", [](SideInputs& to, const SideInputs& from) { to.descale_k = from.descale_k; }},
        {"tensor", [](SideInputs& to, const SideInputs& from) { to.descale_v = from.descale_v; }},
        {"one long block",
         [](SideInputs& to, const SideInputs&) {
             to.descale_v = {2, 1, 64, {1, 2, 3, 4}};
         }},
        {"channels",
         [](SideInputs& to, const SideInputs&) {
             to.descale_k = {2, 1, 50, std::vector<float>(2 * 2 * 8), 8};
             std::iota(to.descale_k.values.begin(), to.descale_k.values.end(), 1.0f);
         }},
        {"all", [](SideInputs& to, const SideInputs& from) { to = from; }},
    };
    for (const auto& [name, take] : parts) {
        MemoryRecording recording(sample_problem());
        SideInputs inputs;
        take(inputs, all);
        recording.set_side_inputs(inputs);
        EXPECT_EQ(written_and_opened(recording)->side_inputs(), inputs) << name;
    }
}

TEST_F(FileInputs, KeepsWhatTheProblemDeclares) {
    for (const Alibi alibi : {Alibi::linear, Alibi::distance}) {
        for (const AttentionSink sink : {AttentionSink::first, AttentionSink::last}) {
            Problem problem = sample_problem();
            problem.alibi = alibi;
            problem.sink = sink;
            MemoryRecording recording(problem);
            recording.set_side_inputs(sample_side_inputs());
            EXPECT_EQ(written_and_opened(recording)->problem(), problem);
        }
    }
    Problem problem = sample_problem();
    problem.alibi = Alibi::linear;
    EXPECT_THROW(write_recording(path, MemoryRecording(problem)), Error) << "slopes are missing";
}

TEST_F(FileInputs, KeepsEverythingAtOnce) {
    MemoryRecording recording(sample_problem());
    fill(recording);
    recording.set_side_inputs(sample_side_inputs());
    recording.set_bias(sample_bias(2, 4, 37, 50));
    const auto opened = written_and_opened(recording);
    EXPECT_EQ(expect_same_contents(*opened, recording), 8 * (3 * 3 + 7 * 6));
    EXPECT_EQ(expect_same_bias(*opened, recording), 2 * 4 * 37 * 50);
    const std::string copy = folder.file("copy.h5");
    write_recording(copy, *opened);
    EXPECT_EQ(expect_same_contents(*open_recording(copy), recording), 8 * (3 * 3 + 7 * 6));
}

TEST_F(FileInputs, WritesZerosBeyondAnEntrysLength) {
    MemoryRecording recording(sample_problem());
    fill(recording);
    recording.set_side_inputs(sample_side_inputs());
    const auto opened = written_and_opened(recording);
    std::vector<float> rows(17 * 8, 5.0f);
    opened->read_input(Input::q, 1, 3, 20, 17, rows);
    EXPECT_EQ(rows, std::vector<float>(17 * 8, 0.0f));
    std::vector<float> last(8);
    std::vector<float> expected(8);
    opened->read_input(Input::q, 1, 3, 19, 1, last);
    recording.read_input(Input::q, 1, 3, 19, 1, expected);
    EXPECT_EQ(last, expected);
    EXPECT_EQ(std::ranges::count(expected, 0.0f), 0) << "so that a zero is not by chance";
    EXPECT_THROW(opened->read_input(Input::q, 1, 3, 37, 1, last), Error);
}

TEST_F(FileInputs, TakesEntriesWithoutRows) {
    MemoryRecording recording(sample_problem());
    fill(recording);
    SideInputs inputs;
    inputs.seqlens_q = {0, 37};
    inputs.seqlens_kv = {50, 0};
    recording.set_side_inputs(inputs);
    EXPECT_GT(expect_same_contents(*written_and_opened(recording), recording), 0);
}

TEST_F(FileInputs, StoresABiasOnceWhereItIsTheSame) {
    const std::int64_t full[4] = {2, 4, 37, 50};
    for (unsigned same = 0; same < 16; ++same) {
        std::int64_t sizes[4];
        for (unsigned axis = 0; axis < 4; ++axis) sizes[axis] = same >> axis & 1 ? 1 : full[axis];
        MemoryRecording recording(sample_problem());
        recording.set_bias(sample_bias(sizes[0], sizes[1], sizes[2], sizes[3]));
        const auto opened = written_and_opened(recording);
        ASSERT_TRUE(opened->has_bias());
        EXPECT_EQ(expect_same_bias(*opened, recording), 2 * 4 * 37 * 50);
        EXPECT_EQ(stored_dims("/inputs/bias"), std::vector<hsize_t>(sizes, sizes + 4));
    }
}

TEST_F(FileInputs, KeepsABiasThatDiffersInOneElement) {
    for (const TileId& at : {TileId{1, 0, 0, 0}, TileId{0, 1, 0, 0}, TileId{0, 0, 1, 0}, TileId{0, 0, 0, 1},
                             TileId{0, 0, 0, 0}, TileId{1, 3, 36, 49}}) {
        Bias bias = {2, 4, 37, 50, std::vector<float>(2 * 4 * 37 * 50, 0.0f)};
        const std::int64_t row = (at.batch * 4 + at.head) * 37 + at.q_block;
        bias.values[static_cast<std::size_t>(row * 50 + at.kv_tile)] = 1;
        MemoryRecording recording(sample_problem());
        recording.set_bias(bias);
        EXPECT_EQ(expect_same_bias(*written_and_opened(recording), recording), 2 * 4 * 37 * 50);
    }
}

TEST_F(FileInputs, ReadsPartsOfABias) {
    MemoryRecording recording(sample_problem());
    recording.set_bias(sample_bias(1, 4, 37, 50));
    const auto opened = written_and_opened(recording);
    std::vector<float> part(3);
    opened->read_bias(1, 2, 36, 47, part);
    const float first = ((2 * 37 + 36) * 50 + 47) / 8.0f;
    EXPECT_EQ(part, (std::vector<float>{first, first + 0.125f, first + 0.25f}));
    for (const TileId& at : {TileId{2, 0, 0, 0}, TileId{0, 4, 0, 0}, TileId{0, 0, 37, 0}, TileId{0, 0, 0, 48},
                             TileId{-1, 0, 0, 0}, TileId{0, 0, 0, -1}}) {
        EXPECT_THROW(opened->read_bias(at.batch, at.head, at.q_block, at.kv_tile, part), Error);
    }
    EXPECT_FALSE(written_and_opened(MemoryRecording(sample_problem()))->has_bias());
    EXPECT_THROW(open_recording(path)->read_bias(0, 0, 0, 0, part), Error);
}

TEST_F(FileInputs, ABiasMayHideKeysButNotBeNan) {
    MemoryRecording recording(sample_problem());
    Bias bias = sample_bias(1, 1, 1, 50);
    bias.values[7] = -std::numeric_limits<float>::infinity();
    recording.set_bias(bias);
    EXPECT_EQ(expect_same_bias(*written_and_opened(recording), recording), 2 * 4 * 37 * 50);
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        bias.values[7] = value;
        recording.set_bias(bias);
        EXPECT_THROW(write_recording(folder.file("other.h5"), recording), Error);
    }
    EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5"});
}

TEST_F(FileInputs, CountsOnlyElementsOfAnEntryAsUnwritten) {
    MemoryRecording recording(sample_problem());
    SideInputs inputs;
    inputs.seqlens_q = {20, 37};
    inputs.seqlens_kv = {40, 50};
    recording.set_side_inputs(inputs);
    const std::vector<float> nothing(16 * 32, std::bit_cast<float>(unwritten_bits));
    // Of entry 0, query block 1 has rows 16 to 19, KV tile 1 keys 32 to 39; query block 2 has no row.
    recording.set_tile(Stage::s, {0, 0, 1, 1}, nothing);
    recording.set_tile(Stage::s, {0, 0, 2, 1}, nothing);
    write_recording(path, recording);
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Handle group(H5Gopen2(file, "/capture/s", H5P_DEFAULT));
    const Handle attribute(H5Aopen(group, "elements_unwritten", H5P_DEFAULT));
    std::int64_t count = -1;
    require(H5Aread(attribute, H5T_NATIVE_INT64, &count));
    EXPECT_EQ(count, 4 * 8);
}

}  // namespace
}  // namespace tilescope::test
