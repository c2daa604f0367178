// Named tiles in files: written, read back, compared with what plain HDF5 reads, and refused where they lie.

#define DEBUG_DUMP
#include <gtest/gtest.h>

#include "dump/recording/capture_plan.h"
#include "dump/recording/captured_run.h"
#include "dump/writer.h"
#include "tests/dump/named_run.h"
#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

CapturedRun played(const char* text) {
    const CapturePlan plan(named_problem(), parse_selection(text, "test", named_problem().named_tiles),
                           std::size_t(1) << 30);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());
    for (std::int64_t i = 0; i < 2 * 6 * 3; ++i)
        play_named_block({i / 18, i / 3 % 6, i % 3, 0}, 0, 1 TILESCOPE_SINK_ARG(sink));
    for (std::int64_t i = 0; i < 2 * 3; ++i)
        play_named_head({i / 3, i % 3, 0, 0}, 0, 1 TILESCOPE_SINK_ARG(sink));
    return CapturedRun(plan, memory, Units(), Provenance(), {});
}

TEST(NamedFile, ComesBackAsItWasWritten) {
    const TemporaryFolder folder;
    for (const char* selection : {"", "head=4:stage=keep,mean_k"}) {
        SCOPED_TRACE(selection);
        const std::string path = folder.file("run.h5");
        const CapturedRun run = played(selection);
        write_recording(path, run);
        const auto opened = open_recording(path);
        EXPECT_EQ(opened->problem(), run.problem());
        ASSERT_TRUE(opened->capture().selection);
        EXPECT_EQ(opened->capture().selection, run.capture().selection);
        expect_named(*opened, *run.capture().selection);
        EXPECT_EQ(opened->has_stage(Stage::named0), run.has_stage(Stage::named0));
    }
}

/// Elements by their coordinates in the tensor.
TEST(NamedFile, PlainHdf5ReadsTensors) {
    const TemporaryFolder folder;
    const std::string path = folder.file("run.h5");
    write_recording(path, played(""));
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const auto read = [&](const char* dataset, std::size_t elements) {
        std::vector<float> values(elements);
        const Handle id(H5Dopen2(file, dataset, H5P_DEFAULT));
        const Handle space(H5Dget_space(id));
        EXPECT_EQ(H5Sget_simple_extent_npoints(space), hssize_t(elements)) << dataset;
        require(H5Dread(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
        return values;
    };
    // [B, H, Tkv, Sq]: batch 1, head 4, KV tile 2, query row 9.
    EXPECT_EQ(read("/tiles/rescale", 2 * 6 * 3 * 10)[((1 * 6 + 4) * 3 + 2) * 10 + 9],
              value_of(Stage::named0, {1, 4, 2, 2}, 1, 0));
    // [B, H, Sq, Skv]: query row 5, key 11.
    EXPECT_EQ(read("/tiles/keep", 2 * 6 * 10 * 13)[((1 * 6 + 4) * 10 + 5) * 13 + 11],
              value_of(Stage::named1, {1, 4, 1, 2}, 1, 1));
    // [B, H, Tq, Tkv, 1]
    EXPECT_EQ(read("/tiles/block_max", 2 * 6 * 3 * 3)[((1 * 6 + 4) * 3 + 1) * 3 + 2],
              value_of(Stage::named2, {1, 4, 1, 2}, 0, 0));
    // [B, Hkv, Skv, 6]: KV head 2, key 12, feature 5.
    EXPECT_EQ(read("/tiles/mean_k", 2 * 3 * 13 * 6)[((1 * 3 + 2) * 13 + 12) * 6 + 5],
              value_of(Stage::named3, {1, 2, 0, 2}, 2, 5));
}

class NamedFileDamage : public SpoiledFile {
 protected:
    /// The plain dump: one batch, two heads, 8 query rows and 12 keys in tiles of 4 x 4.
    static void declare(hid_t file, const std::string& list) {
        set_text(file, "/problem", "named_tiles", list);
    }
    static void add(hid_t file, const char* path, const std::vector<hsize_t>& dims,
                    const std::vector<hsize_t>& chunk, const char* rows = "query",
                    const char* cols = "unit") {
        create_chunked(file, path, H5T_IEEE_F32LE, dims, chunk, nullptr);
        set_text(file, path, "rows", rows);
        set_text(file, path, "cols", cols);
    }
};

TEST_F(NamedFileDamage, TheLeastThatDeclaresOneIsEnough) {
    write_spoiled_dump(path, [](hid_t file) {
        declare(file, "phi");
        std::vector<float> values(2 * 3 * 8);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i);
        create_chunked(file, "/tiles/phi", H5T_IEEE_F32LE, {1, 2, 3, 8}, {1, 1, 1, 4}, values.data());
        set_text(file, "/tiles/phi", "rows", "query");
        set_text(file, "/tiles/phi", "cols", "unit");
    });
    const auto opened = open_recording(path);
    ASSERT_EQ(opened->problem().named_tiles, std::vector<NamedTile>{{.name = "phi"}});
    std::vector<float> values(4);
    ASSERT_TRUE(opened->read_tile(Stage::named0, {0, 1, 1, 2}, values));
    EXPECT_EQ(values, (std::vector<float>{44, 45, 46, 47}));
    EXPECT_EQ(stage_info(opened->problem(), Stage::named0).name, "phi");
}

TEST_F(NamedFileDamage, WhatIsNotDeclaredIsIgnored) {
    write_spoiled_dump(path, [](hid_t file) { add(file, "/tiles/phi", {3}, {3}); });
    EXPECT_TRUE(open_recording(path)->problem().named_tiles.empty());
}

TEST_F(NamedFileDamage, Names) {
    const auto with = [](const std::string& list) { return [list](hid_t file) { declare(file, list); }; };
    for (const char* list : {"Phi", "../q", "a/b", "phi,", ",phi", "phi, b", "\x01"})
        expect_spoiled(with(list), "/problem", "has no valid name");
    expect_spoiled(with(std::string(100000, 'a')), "/problem", "has no valid name");
    expect_spoiled(with("a,b,c,d,e"), "/problem", "at most 4");
    std::string many = "a";
    for (int i = 0; i < 100000; ++i) many += ",a";
    expect_spoiled(with(many), "/problem", "at most 4");
    expect_spoiled(with("s"), "/problem", "has the name of a stage");
    expect_spoiled(with("phi,phi"), "/problem", "is declared twice");
    expect_spoiled([](hid_t file) { set_integer(file, "/problem", "named_tiles", 1); }, "/problem",
                   "is not text");
}

TEST_F(NamedFileDamage, Datasets) {
    const auto with = [](const std::function<void(hid_t)>& change) {
        return [change](hid_t file) {
            declare(file, "phi");
            change(file);
        };
    };
    const char* const phi = "/tiles/phi";
    expect_spoiled(with([](hid_t) {}), phi, "is missing, and attribute named_tiles");
    expect_spoiled(with([=](hid_t file) {
                       const Handle group(H5Gcreate2(file, phi, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
                   }),
                   phi, "is not a dataset");
    expect_spoiled(
        with([=](hid_t file) { require(H5Lcreate_soft("/tiles/s", file, phi, H5P_DEFAULT, H5P_DEFAULT)); }),
        phi, "is a soft or external link");
    expect_spoiled(with([=](hid_t file) {
                       add(file, phi, {1, 2, 3, 9}, {1, 1, 1, 4});
                   }),
                   phi, "has shape [1, 2, 3, 9] where /problem asks for [1, 2, 3, 8]");
    expect_spoiled(with([=](hid_t file) {
                       add(file, phi, {1, 2, 8, 12}, {1, 1, 4, 4});
                   }),
                   phi, "where /problem asks for [1, 2, 3, 8]");
    expect_spoiled(with([=](hid_t file) {
                       add(file, phi, {1, 2, 3, 8}, {1, 1, 1, 8});
                   }),
                   phi, "not of one tile");
}

TEST_F(NamedFileDamage, Axes) {
    const auto with = [](const std::function<void(hid_t, const char*)>& change) {
        return [change](hid_t file) {
            declare(file, "phi");
            add(file, "/tiles/phi", {1, 2, 3, 8}, {1, 1, 1, 4});
            change(file, "/tiles/phi");
        };
    };
    for (const char* name : {"rows", "cols"}) {
        expect_spoiled(with([=](hid_t file, const char* phi) { delete_attribute(file, phi, name); }),
                       "/tiles/phi", std::string("has no attribute ") + name);
        expect_spoiled(with([=](hid_t file, const char* phi) { set_text(file, phi, name, "lane"); }),
                       "/tiles/phi", "not one of query, key, feature, unit");
    }
    const auto integer = [&](const char* name, std::int64_t value) {
        return with([=](hid_t file, const char* phi) { set_integer(file, phi, name, value); });
    };
    expect_spoiled(integer("row_size", 4), "/problem", "row_size of 4 for an axis that the problem sizes");
    expect_spoiled(integer("col_size", 0), "/problem", "col_size of 0");
    expect_spoiled(integer("col_size", std::int64_t(1) << 40), "/problem", "col_size of 1099511627776");
    expect_spoiled(integer("col_size", 2147483647), "/problem", "the sizes ask for");
    expect_spoiled(integer("per_q_block", 2), "/tiles/phi", "not 0 or 1");
    expect_spoiled(integer("per_q_block", 0), "/problem", "has no query block");
}

}  // namespace
}  // namespace tilescope::test
