// Who wrote an element, in a file.

#define DEBUG_DUMP
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dump/file/sink.h"
#include "dump/hook.h"
#include "dump/recording/captured_run.h"
#include "dump/writer.h"
#include "tests/dump/small_problem.h"
#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

using FileWriters = SpoiledFile;

/// Thread n + i writes element i of the n-th tile of s, i % 3 times; threads 3 and 900 write all of m.
CapturedRun play(const Problem& problem, const char* selection) {
    CapturePlan plan(problem, parse_selection(selection, "test"), std::size_t(1) << 26, SinkMode::writers);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());
    for (std::int64_t n = 0; n < tile_count(problem, Stage::s); ++n) {
        const TileId tile = tile_at(problem, Stage::s, n);
        TILESCOPE_BLOCK(sink, tile.batch, tile.head, tile.q_block);
        for (int i = 0; i < 20; ++i) {
            hook_cpu_thread = int(n) + i;
            for (int write = 0; write < i % 3; ++write) TILESCOPE_VALUE(s, tile.kv_tile, i / 5, i % 5, 1.0f);
        }
        for (const int thread : {3, 900}) {
            hook_cpu_thread = thread;
            for (int row = 0; row < 4; ++row) TILESCOPE_VALUE(m, tile.kv_tile, row, 0, float(row));
        }
    }
    return CapturedRun(std::move(plan), std::move(memory), RecordedCall(problem, {}, {}, {}));
}

TEST_F(FileWriters, AreReadAsTheyWereWritten) {
    const Problem problem = small_problem();
    const CapturedRun run = play(problem, "head=1-:stage=s,m,p");
    write_recording(path, run);
    const auto opened = open_recording(path);
    EXPECT_TRUE(opened->has_writers(Stage::s));
    EXPECT_TRUE(opened->has_writers(Stage::m));
    EXPECT_FALSE(opened->has_writers(Stage::p));
    int written = 0;
    for (std::int64_t n = 0; n < tile_count(problem, Stage::s); ++n) {
        const TileId tile = tile_at(problem, Stage::s, n);
        const TileShape extent = tile_extent(problem, Stage::s, tile);
        std::vector<ElementWriter> writers(20, ElementWriter{1, 1, true});
        const bool selected = tile.head > 0;
        ASSERT_EQ(opened->read_writers(Stage::s, tile, writers), selected) << n;
        for (int i = 0; selected && i < 20; ++i) {
            const bool wrote = i % 3 > 0 && i / 5 < extent.rows && i % 5 < extent.cols;
            written += wrote;
            EXPECT_EQ(
                writers[std::size_t(i)],
                wrote ? (ElementWriter{std::uint16_t(i % 3), std::uint16_t(n + i), false}) : ElementWriter())
                << n << " " << i;
        }
    }
    EXPECT_GT(written, 500);
    std::vector<ElementWriter> rows(4);
    ASSERT_TRUE(opened->read_writers(Stage::m, {1, 5, 1, 2}, rows));
    EXPECT_EQ(rows, std::vector(4, ElementWriter{2, 3, true}));
    EXPECT_FALSE(opened->read_writers(Stage::p, {}, rows));
    EXPECT_FALSE(opened->read_writers(Stage::s, {2, 0, 0, 0}, rows));
}

TEST_F(FileWriters, AreAbsentWhereNoneWereKept) {
    write_plain_dump(path);
    EXPECT_FALSE(open_recording(path)->has_writers(Stage::s));
}

TEST_F(FileWriters, MayBeContiguous) {
    std::vector<std::uint32_t> words(plain_s_elements, 2 << 16 | 1 << 15 | 7);
    words[0] = 0;
    write_spoiled_dump(path, [&](hid_t file) {
        const Handle group(H5Gcreate2(file, "/capture/writers", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        create_dataset(file, "/capture/writers/s", H5T_STD_U32LE, {1, 2, 8, 12}, H5P_DEFAULT, words.data());
    });
    std::vector<ElementWriter> tile(16);
    ASSERT_TRUE(open_recording(path)->read_writers(Stage::s, {0, 0, 0, 0}, tile));
    EXPECT_EQ(tile[0], ElementWriter());
    for (std::size_t i = 1; i < 16; ++i) EXPECT_EQ(tile[i], (ElementWriter{2, 7, true})) << i;
}

TEST_F(FileWriters, OtherShapesTypesAndSizesAreRefused) {
    const auto with = [](hid_t type, std::vector<hsize_t> dims, std::vector<hsize_t> chunk) {
        return [=](hid_t file) {
            const Handle group(H5Gcreate2(file, "/capture/writers", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            create_chunked(file, "/capture/writers/s", type, dims, chunk, nullptr);
        };
    };
    const char* const object = "/capture/writers/s";
    expect_spoiled(with(H5T_STD_U32LE, {1, 2, 8, 13}, {1, 1, 4, 4}), object,
                   "has shape [1, 2, 8, 13] where /problem asks for [1, 2, 8, 12]");
    expect_spoiled(with(H5T_STD_U32LE, {2, 8, 12}, {1, 4, 4}), object, "has shape [2, 8, 12]");
    expect_spoiled(with(H5T_STD_U32LE, {1, 2, 8, 12}, {1, 1, 8, 4}), object,
                   "has chunks of 1x1x8x4, not of one tile, 1x1x4x4");
    expect_spoiled(with(H5T_IEEE_F32LE, {1, 2, 8, 12}, {1, 1, 4, 4}), object,
                   "holds 4-byte floats, not little-endian uint32");
    expect_spoiled(with(H5T_STD_U64LE, {1, 2, 8, 12}, {1, 1, 4, 4}), object, "holds 8-byte integers");
    expect_spoiled(with(H5T_STD_I32LE, {1, 2, 8, 12}, {1, 1, 4, 4}), object, "holds 4-byte integers");
    expect_spoiled(with(H5T_STD_U32BE, {1, 2, 8, 12}, {1, 1, 4, 4}), object, "big-endian");
    expect_spoiled(
        [](hid_t file) {
            const Handle group(H5Gcreate2(file, "/capture/writers", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            const Handle s(H5Gcreate2(file, "/capture/writers/s", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        },
        object, "is not a dataset");
    write_spoiled_dump(path, with(H5T_STD_U32LE, {1, 2, 8, 12}, {1, 1, 4, 4}));
    EXPECT_EQ(refusal(path), "") << "an empty one is taken";
}

TEST_F(FileWriters, CutFilesAreRefused) {
    std::vector<std::uint32_t> words(plain_s_elements, 1 << 16);
    haddr_t offset = 0;
    write_spoiled_dump(path, [&](hid_t file) {
        const Handle group(H5Gcreate2(file, "/capture/writers", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        create_dataset(file, "/capture/writers/s", H5T_STD_U32LE, {1, 2, 8, 12}, H5P_DEFAULT, words.data());
        const Handle dataset(H5Dopen2(file, "/capture/writers/s", H5P_DEFAULT));
        offset = H5Dget_offset(dataset);
    });
    ASSERT_NE(offset, HADDR_UNDEF);
    EXPECT_EQ(refusal(path), "");
    cut_with_its_header(path, offset + words.size() * 4 - 1);
    EXPECT_NE(refusal(path), "");
}

TEST_F(FileWriters, SinkFilesHaveNone) {
    const CapturePlan plan(small_problem(), {}, std::size_t(1) << 26, SinkMode::writers);
    try {
        const SinkFile file(path, plan, std::size_t(1) << 26, RecordedCall(small_problem(), {}, {}, {}));
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("does not hold who wrote its elements"), std::string::npos);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tilescope::test
