// Which threads own a stage's elements, in a file.

#include <gtest/gtest.h>

#include <vector>

#include "dump/file/sink.h"
#include "dump/recording/capture_plan.h"
#include "dump/recording/recorded_call.h"
#include "dump/writer.h"
#include "tests/dump/spoiled_file.h"
#include "tests/support/error_of.h"

namespace tilescope::test {
namespace {

using FileThreads = SpoiledFile;

Problem declared_problem() {
    Problem problem;
    problem.heads = problem.heads_kv = 2;
    problem.seqlen_q = 50;
    problem.seqlen_kv = 70;
    problem.head_dim = problem.head_dim_v = 16;
    problem.block_m = 32;
    problem.block_n = 16;
    problem.kv_tiles_per_split = 3;
    problem.named_tiles = {{.name = "rescale"}};
    return problem;
}

ThreadLayouts declared_threads() {
    ThreadLayouts threads;
    threads[Stage::q] = {.fragment = "lanes", .lanes = 2, .lane_columns = 8, .groups = 1};
    threads[Stage::s] = {.fragment = "mma_m16n8", .group_rows = 32, .group_cols = 8, .split_groups = 2};
    threads[Stage::acc] = {.fragment = "mine"};
    threads[Stage::o] = {.fragment = "mma_m16n8"};
    threads[Stage::named0] = {.fragment = "lanes", .lanes = 4};
    threads.fragments = {{"mine", 2, 2, {{0, 0}, {33, 1}, {2, 7}, {3, 0}}}};
    return threads;
}

TEST_F(FileThreads, AreReadAsTheyWereWritten) {
    MemoryRecording recording(declared_problem());
    recording.set_tile(Stage::s, {}, std::vector<float>(32 * 16));
    recording.set_threads(declared_threads());
    write_recording(path, recording);
    EXPECT_EQ(open_recording(path)->threads(), declared_threads());
}

TEST_F(FileThreads, AreReadFromASinkFile) {
    const CapturePlan plan(declared_problem(), {}, std::size_t(1) << 26, SinkMode::tiles);
    RecordedCall call(declared_problem(), {}, {}, {});
    call.set_threads(declared_threads());
    const SinkFile file(path, plan, std::size_t(1) << 26, call);
    EXPECT_EQ(open_recording(path)->threads(), declared_threads());
}

TEST_F(FileThreads, AreNoneWhereNothingIsDeclared) {
    write_plain_dump(path);
    EXPECT_EQ(open_recording(path)->threads(), ThreadLayouts());
}

TEST_F(FileThreads, ThatCoverNothingAreNotWritten) {
    MemoryRecording recording(declared_problem());
    ThreadLayouts threads;
    threads[Stage::s] = {.fragment = "wgmma_m64"};
    recording.set_threads(threads);
    const std::string what =
        "threads of s: the 64 x 16 that a group owns do not cover the tile of s, 32 x 16";
    EXPECT_NE(error_of([&] { write_recording(path, recording); }).find(what), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(path));
    RecordedCall call(declared_problem(), {}, {}, {});
    EXPECT_NE(error_of([&] { call.set_threads(threads); }).find(what), std::string::npos);
}

// s of the plain dump has tiles of 4 x 4.
TEST_F(FileThreads, OfOtherTypesAndNamesAreRefused) {
    const char* const s = "/tiles/s";
    const auto lanes = [&](std::int64_t count) {
        return [=](hid_t file) {
            set_text(file, s, "fragment", "lanes");
            set_integer(file, s, "lanes", count);
        };
    };
    expect_spoiled(lanes(3), s, "has 3 lanes a row, not 1, 2, 4, 8, 16 or 32");
    expect_spoiled(lanes(4), s, "the 8 x 4 that a group owns do not cover the tile of s, 4 x 4");
    expect_spoiled([&](hid_t file) { set_integer(file, s, "fragment", 1); }, s,
                   "attribute fragment is not text");
    expect_spoiled([&](hid_t file) { set_text(file, s, "fragment", "mma_m16n8k16"); }, s,
                   "declares the fragment mma_m16n8k16, which is none of lanes, mma_m16n8, wgmma_m64");
    expect_spoiled([&](hid_t file) { set_text(file, s, "fragment", "../mine"); }, s,
                   "declares a fragment of another name");
    expect_spoiled(
        [&](hid_t file) {
            set_text(file, s, "fragment", "mma_m16n8");
            set_number(file, s, "groups", 1.5);
        },
        s, "attribute groups is not an integer");
    expect_spoiled(
        [&](hid_t file) {
            set_text(file, s, "fragment", "mma_m16n8");
            set_integer(file, s, "group_rows", std::numeric_limits<std::int64_t>::max());
        },
        s, "that a group owns");
}

TEST_F(FileThreads, GivenFragmentsAreChecked) {
    const auto with = [](const char* name, hid_t type, std::vector<hsize_t> dims, const void* numbers) {
        return [=](hid_t file) {
            set_text(file, "/tiles/s", "fragment", "mine");
            const Handle group(H5Gcreate2(file, "/fragments", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            create_dataset(file, (std::string("/fragments/") + name).c_str(), type, dims, H5P_DEFAULT,
                           numbers);
        };
    };
    const std::vector<std::int32_t> good = {0, 0, 1, 0, 2, 0, 3, 0};
    write_spoiled_dump(path, with("mine", H5T_STD_I32LE, {1, 4, 2}, good.data()));
    const auto opened = open_recording(path);
    ASSERT_EQ(opened->threads().fragments.size(), 1u);
    const ThreadMap map(opened->problem(), Stage::s, opened->threads(), "test");
    EXPECT_EQ(map.owner({}, 3, 2), (Owner{3, 2, 0})) << "a warp a row";

    const std::vector<std::int64_t> long_ones = {0, 0, std::int64_t(1) << 32, 0, 2, 0, 3, 0};
    const std::vector<std::int32_t> twice = {0, 0, 0, 0, 2, 0, 3, 0};
    const char* const mine = "/fragments/mine";
    expect_spoiled(with("other", H5T_STD_I32LE, {1, 4, 2}, good.data()), "/tiles/s",
                   "declares the fragment mine, which is none of");
    expect_spoiled(with("mine", H5T_STD_I32LE, {4, 2}, good.data()), mine, "is not of [rows, columns, 2]");
    expect_spoiled(with("mine", H5T_STD_I32LE, {1, 2, 4}, good.data()), mine, "is not of [rows, columns, 2]");
    expect_spoiled(with("mine", H5T_STD_I32LE, {1, 4, 2}, twice.data()), mine,
                   "gives two elements to thread 0, register 0");
    expect_spoiled(with("mine", H5T_STD_I64LE, {1, 4, 2}, long_ones.data()), mine, "names thread 1073741824");
    expect_spoiled(with("mine", H5T_IEEE_F32LE, {1, 4, 2}, nullptr), mine,
                   "not little-endian int32 or int64");
    expect_spoiled(with("mine", H5T_STD_I32LE, {2048, 2048, 2}, nullptr), mine, "bytes");
}

}  // namespace
}  // namespace tilescope::test
