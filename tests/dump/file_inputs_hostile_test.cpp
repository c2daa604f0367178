// Side inputs, packed and paged tensors that lie.

#include <gtest/gtest.h>

#include <limits>

#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

using Dims = std::vector<hsize_t>;
using Spoil = std::function<void(hid_t)>;

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

Spoil integers(const char* path, const Dims& dims, const std::vector<std::int64_t>& values) {
    return [=](hid_t file) { create_dataset(file, path, H5T_STD_I64LE, dims, H5P_DEFAULT, values.data()); };
}
Spoil floats(const char* path, const Dims& dims, const std::vector<float>& values) {
    return [=](hid_t file) { create_dataset(file, path, H5T_IEEE_F32LE, dims, H5P_DEFAULT, values.data()); };
}
Spoil both(const Spoil& first, const Spoil& second) {
    return [=](hid_t file) {
        first(file);
        second(file);
    };
}

/// A dataset of /inputs and a shape that it can have in the plain dump: one batch, two heads, q of 8 rows, k
/// and v of 12.
struct SideDataset {
    const char* path;
    bool integers;
    Dims dims;
};
const std::vector<SideDataset>& side_datasets() {
    static const std::vector<SideDataset> datasets = {
        {"/inputs/seqlens_q", true, {1}},       {"/inputs/seqlens_kv", true, {1}},
        {"/inputs/cu_seqlens_q", true, {2}},    {"/inputs/cu_seqlens_kv", true, {2}},
        {"/inputs/page_table", true, {1, 3}},   {"/inputs/alibi_slopes", false, {2}},
        {"/inputs/sink", false, {2}},           {"/inputs/descale_q", false, {1}},
        {"/inputs/descale_k", false, {1, 2}},   {"/inputs/descale_v", false, {1, 2, 1}},
        {"/inputs/bias", false, {1, 1, 8, 12}},
    };
    return datasets;
}

class FileInputsHostile : public SpoiledFile {
 protected:
    /// Writes two batch entries instead of one, with inputs of zeros in the shapes given, and lets `change`
    /// spoil them.
    void write_two_entries(const Dims& q, const Dims& k, const Dims& v, const Spoil& change) {
        write_spoiled_dump(path, [&](hid_t file) {
            set_integer(file, "/problem", "batch", 2);
            for (const char* object :
                 {"/tiles/s", "/tiles/m", "/outputs/o", "/inputs/q", "/inputs/k", "/inputs/v"}) {
                unlink_object(file, object);
            }
            const Handle half(half_type());
            const std::vector<std::uint16_t> zeros(4096, 0);
            create_dataset(file, "/inputs/q", half, q, H5P_DEFAULT, zeros.data());
            create_dataset(file, "/inputs/k", half, k, H5P_DEFAULT, zeros.data());
            create_dataset(file, "/inputs/v", half, v, H5P_DEFAULT, zeros.data());
            change(file);
        });
    }
    void expect_packed(const std::vector<std::int64_t>& sums, const char* object, const std::string& words) {
        write_two_entries({1, 2, 10, 2}, {2, 2, 12, 2}, {2, 2, 12, 2},
                          integers("/inputs/cu_seqlens_q", {3}, sums));
        expect_refused(path, object, words);
    }
    /// Pages of 4 rows, three of them.
    void expect_paged(
        const Dims& table, const std::vector<std::int64_t>& pages, const std::string& words,
        const Spoil& change = [](hid_t) {}) {
        write_two_entries({2, 2, 8, 2}, {3, 2, 4, 2}, {3, 2, 4, 2},
                          both(integers("/inputs/page_table", table, pages), change));
        if (words.empty()) {
            EXPECT_EQ(refusal(path), "");
        } else {
            expect_refused(path, "/inputs/page_table", words);
        }
    }
};

TEST_F(FileInputsHostile, TypesOfEach) {
    const std::vector<char> zeros(65536, 0);
    for (const SideDataset& side : side_datasets()) {
        SCOPED_TRACE(side.path);
        const std::string words =
            side.integers ? "s, not little-endian int32 or int64" : "s, not little-endian float32";
        const std::vector<hid_t> types = {side.integers ? H5T_STD_I32BE : H5T_IEEE_F32BE, H5T_IEEE_F64LE,
                                          H5T_STD_U64LE, H5T_STD_I16LE, H5T_STD_REF_OBJ};
        for (const hid_t type : types) {
            expect_spoiled(
                [&](hid_t file) {
                    create_dataset(file, side.path, type, side.dims, H5P_DEFAULT, zeros.data());
                },
                side.path, words);
        }
    }
}

TEST_F(FileInputsHostile, ShapesOfEach) {
    const std::vector<char> zeros(65536, 0);
    for (const SideDataset& side : side_datasets()) {
        SCOPED_TRACE(side.path);
        const hid_t type = side.integers ? H5T_STD_I32LE : H5T_IEEE_F32LE;
        Dims longer = side.dims;
        longer.front() += 4;
        const Dims deeper = {1, 1, 1, 1, 1};
        for (const Dims& dims : {longer, deeper}) {
            expect_spoiled(
                [&](hid_t file) { create_dataset(file, side.path, type, dims, H5P_DEFAULT, zeros.data()); },
                side.path, "where /problem asks for [");
        }
        expect_spoiled(
            [&](hid_t file) {
                const Handle space(H5Screate(H5S_SCALAR));
                const Handle dataset(
                    H5Dcreate2(file, side.path, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            },
            side.path, "is not an array");
    }
}

TEST_F(FileInputsHostile, LayoutsOfEach) {
    const std::vector<char> zeros(65536, 0);
    for (const SideDataset& side : side_datasets()) {
        SCOPED_TRACE(side.path);
        const hid_t type = side.integers ? H5T_STD_I32LE : H5T_IEEE_F32LE;
        const auto created_with = [&](const std::function<void(hid_t)>& set) {
            return [&, set](hid_t file) {
                const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
                set(properties);
                create_dataset(file, side.path, type, side.dims, properties, zeros.data());
            };
        };
        const auto chunked = [&](hid_t properties) {
            require(H5Pset_chunk(properties, static_cast<int>(side.dims.size()), side.dims.data()));
        };
        expect_spoiled(created_with(chunked), side.path, "has chunks; store it contiguous");
        expect_spoiled(created_with([&](hid_t properties) {
                           chunked(properties);
                           require(H5Pset_deflate(properties, 1));
                       }),
                       side.path, "is compressed or filtered");
        expect_spoiled(
            created_with([&](hid_t properties) { require(H5Pset_layout(properties, H5D_COMPACT)); }),
            side.path, "has compact layout");
    }
}

TEST_F(FileInputsHostile, KindsOfEach) {
    for (const SideDataset& side : side_datasets()) {
        expect_spoiled(
            [&](hid_t file) {
                const Handle group(H5Gcreate2(file, side.path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            },
            side.path, "is not a dataset");
        expect_spoiled(
            [&](hid_t file) {
                require(H5Lcreate_soft("/inputs/q", file, side.path, H5P_DEFAULT, H5P_DEFAULT));
            },
            side.path, "is a soft or external link");
    }
}

TEST_F(FileInputsHostile, DeclaredButNotStored) {
    const hsize_t huge = hsize_t(1) << 40;
    for (const SideDataset& side : side_datasets()) {
        SCOPED_TRACE(side.path);
        const hid_t type = side.integers ? H5T_STD_I64LE : H5T_IEEE_F32LE;
        Dims longer = side.dims;
        longer.back() = huge;
        for (const Dims& dims : {side.dims, longer, Dims{huge, huge, huge}}) {
            expect_spoiled(
                [&](hid_t file) { create_dataset(file, side.path, type, dims, H5P_DEFAULT, nullptr); },
                side.path, "bytes, but stores 0");
        }
    }
    expect_spoiled(
        [](hid_t file) {
            create_dataset(file, "/inputs/page_table", H5T_STD_I64LE, {hsize_t(1) << 62, hsize_t(1) << 62},
                           H5P_DEFAULT, nullptr);
        },
        "/inputs/page_table", "bytes, but stores 0");
}

TEST_F(FileInputsHostile, BeyondTheEnd) {
    constexpr hsize_t pages = hsize_t(1) << 25;
    write_spoiled_dump(path, [](hid_t file) {
        const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
        require(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY));
        require(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER));
        create_dataset(file, "/inputs/page_table", H5T_STD_I64LE, {1, pages}, properties, nullptr);
    });
    ASSERT_GT(std::filesystem::file_size(path), pages);
    cut_with_its_header(path, 65536);
    expect_refused(path, "/inputs/page_table", "declares 268435456 bytes, the whole file has 65536");
}

TEST_F(FileInputsHostile, NumbersThatAreNotFinite) {
    for (const SideDataset& side : side_datasets()) {
        if (side.integers || std::string(side.path) == "/inputs/bias") continue;
        SCOPED_TRACE(side.path);
        for (const float value : {nan_value, infinity, -infinity}) {
            std::vector<float> values(2, 1.0f);
            if (side.dims == Dims{1}) values.pop_back();
            values.back() = value;
            expect_spoiled(
                [&](hid_t file) {
                    floats(side.path, side.dims, values)(file);
                    if (side.dims.size() == 3) set_integer(file, side.path, "rows", 12);
                },
                "/inputs", std::string(side.path).substr(8) + " holds a number that is not finite");
        }
    }
}

TEST_F(FileInputsHostile, Lengths) {
    const std::pair<std::int64_t, const char*> lengths[] = {
        {9, "seqlens_q holds 9, not between 0 and 8"},
        {-1, "seqlens_q holds -1"},
        {std::numeric_limits<std::int64_t>::max(), "seqlens_q holds 9223372036854775807"},
        {std::numeric_limits<std::int64_t>::min(), "seqlens_q holds -9223372036854775808"},
    };
    for (const auto& [length, words] : lengths) {
        expect_spoiled(integers("/inputs/seqlens_q", {1}, {length}), "/inputs", words);
    }
    expect_spoiled(integers("/inputs/seqlens_kv", {1}, {13}), "/inputs", "seqlens_kv holds 13");
    write_spoiled_dump(path, integers("/inputs/seqlens_kv", {1}, {0}));
    EXPECT_EQ(refusal(path), "");
}

TEST_F(FileInputsHostile, SumsOfLengths) {
    const char* sums = "/inputs/cu_seqlens_q";
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
    expect_packed({1, 5, 10}, sums, "begins with 1, not with 0");
    expect_packed({least, 5, 10}, sums, "begins with -9223372036854775808");
    expect_packed({0, 8, 5}, sums, "decreases from 8 to 5");
    expect_packed({0, 0, least}, sums, "decreases from 0 to -9223372036854775808");
    expect_packed({0, 1, 10}, sums, "gives batch 1 9 rows, more than the 8 of /problem");
    expect_packed({0, 0, most}, sums, "gives batch 1 9223372036854775807 rows");
    expect_packed({0, 8, 16}, "/inputs/q", "has shape [1, 2, 10, 2] where /problem asks for [1, 2, 16, 2]");
    expect_packed({0, 4, 8}, "/inputs/q", "has shape [1, 2, 10, 2] where /problem asks for [1, 2, 8, 2]");
    write_two_entries({1, 2, 10, 2}, {2, 2, 12, 2}, {2, 2, 12, 2}, integers(sums, {3}, {0, 3, 10}));
    EXPECT_EQ(refusal(path), "");
}

TEST_F(FileInputsHostile, LengthsAndTheirSums) {
    write_two_entries(
        {1, 2, 10, 2}, {2, 2, 12, 2}, {2, 2, 12, 2},
        both(integers("/inputs/cu_seqlens_q", {3}, {0, 3, 10}), integers("/inputs/seqlens_q", {2}, {3, 7})));
    expect_refused(path, "/inputs/cu_seqlens_q", "is there together with /inputs/seqlens_q");
    write_two_entries({2, 2, 8, 2}, {3, 2, 4, 2}, {3, 2, 4, 2},
                      both(integers("/inputs/cu_seqlens_kv", {3}, {0, 4, 8}),
                           integers("/inputs/page_table", {2, 1}, {0, 1})));
    expect_refused(path, "/inputs/page_table", "is there together with /inputs/cu_seqlens_kv");
}

TEST_F(FileInputsHostile, PackedRowsOfTheirEntryOnly) {
    write_two_entries({1, 2, 10, 2}, {2, 2, 12, 2}, {2, 2, 12, 2},
                      integers("/inputs/cu_seqlens_q", {3}, {0, 3, 10}));
    const auto recording = open_recording(path);
    std::vector<float> rows(20);
    EXPECT_NO_THROW(recording->read_input(Input::q, 0, 1, 0, 3, rows));
    EXPECT_NO_THROW(recording->read_input(Input::q, 1, 1, 0, 7, rows));
    EXPECT_THROW(recording->read_input(Input::q, 0, 1, 0, 4, rows), Error) << "the rows of the next entry";
    EXPECT_THROW(recording->read_input(Input::q, 0, 1, 3, 1, rows), Error);
    EXPECT_THROW(recording->read_input(Input::q, 1, 1, -1, 1, rows), Error);
    EXPECT_THROW(recording->read_input(Input::q, 2, 1, 0, 1, rows), Error);
    EXPECT_THROW(recording->read_input(Input::q, 1, 2, 0, 1, rows), Error);
    EXPECT_THROW(recording->read_input(Input::q, 1, 1, 1, std::numeric_limits<std::int64_t>::max(), rows),
                 Error);
}

TEST_F(FileInputsHostile, Pages) {
    expect_paged({2, 3}, {0, 1, 2, 2, 2, 2}, "");
    expect_paged({2, 3}, {0, 1, 2, 2, 3, 2}, "sends batch 1 to page 3 of 3");
    expect_paged({2, 3}, {0, -1, 2, 2, 2, 2}, "sends batch 0 to page -1 of 3");
    expect_paged({2, 3}, {0, 1, 2, 2, 2, std::numeric_limits<std::int64_t>::max()},
                 "sends batch 1 to page 9223372036854775807 of 3");
    expect_paged({2, 2}, {0, 1, 2, 2}, "has 2 pages of 4 rows for the 12 rows of batch 0");
    expect_paged({2, 0}, {0}, "has no pages");
    // Entries of the table that no row needs may hold anything.
    expect_paged({2, 3}, {0, 1, -7, 99, 99, 99}, "", integers("/inputs/seqlens_kv", {2}, {8, 0}));
    expect_paged({2, 3}, {0, 1, -7, 99, 99, 99}, "sends batch 0 to page -7 of 3",
                 integers("/inputs/seqlens_kv", {2}, {9, 0}));
}

TEST_F(FileInputsHostile, PagesOfKAndV) {
    const Spoil table = integers("/inputs/page_table", {2, 3}, {0, 1, 2, 2, 2, 2});
    write_two_entries({2, 2, 8, 2}, {3, 2, 4, 2}, {4, 2, 4, 2}, table);
    expect_refused(path, "/inputs/v", "has shape [4, 2, 4, 2] where /problem asks for [3, 2, 4, 2]");
    write_two_entries({2, 2, 8, 2}, {3, 2, 4, 2}, {3, 2, 3, 2}, table);
    expect_refused(path, "/inputs/v", "has shape [3, 2, 3, 2] where /problem asks for [3, 2, 4, 2]");
    write_two_entries({2, 2, 8, 2}, {3, 1, 4, 2}, {3, 2, 4, 2}, table);
    expect_refused(path, "/inputs/k", "has shape [3, 1, 4, 2] where /problem asks for [any, 2, any, 2]");
    write_two_entries({2, 2, 8, 2}, {3, 2, 0, 2}, {3, 2, 0, 2}, table);
    expect_refused(path, "/inputs/k", "has pages without rows");
    write_two_entries({2, 2, 8, 2}, {0, 2, 4, 2}, {0, 2, 4, 2}, table);
    expect_refused(path, "/inputs/page_table", "sends batch 0 to page 0 of 0");
    for (const char* input : {"/inputs/q", "/inputs/k", "/inputs/v"}) {
        write_two_entries({2, 2, 8, 2}, {3, 2, 4, 2}, {3, 2, 4, 2},
                          both(table, [&](hid_t file) { unlink_object(file, input); }));
        expect_refused(path, "/inputs", "holds some inputs, but not all of q, k and v;");
    }
}

TEST_F(FileInputsHostile, WhatTheProblemDeclaresIsMissing) {
    for (const char* alibi : {"linear", "distance"}) {
        expect_spoiled([&](hid_t file) { set_text(file, "/problem", "alibi", alibi); }, "/inputs",
                       "alibi_slopes has 0 entries, not 2");
    }
    for (const char* sink : {"first", "last"}) {
        expect_spoiled([&](hid_t file) { set_text(file, "/problem", "sink", sink); }, "/inputs",
                       "sink has 0 entries, not 2");
    }
}

TEST_F(FileInputsHostile, Descales) {
    const char* blocks = "/inputs/descale_v";
    const auto of_rows = [&](std::int64_t rows) {
        return both(floats(blocks, {1, 2, 3}, std::vector<float>(6, 1.0f)),
                    [=](hid_t file) { set_integer(file, blocks, "rows", rows); });
    };
    write_spoiled_dump(path, of_rows(4));
    EXPECT_EQ(refusal(path), "");
    expect_spoiled(floats(blocks, {1, 2, 3}, std::vector<float>(6, 1.0f)), blocks, "has no attribute rows");
    for (const std::int64_t rows : {std::int64_t(3), std::int64_t(6), std::int64_t(0), std::int64_t(-4),
                                    std::numeric_limits<std::int64_t>::max()}) {
        expect_spoiled(
            of_rows(rows), "/inputs",
            "descale_v has 3 blocks of " + std::to_string(rows) + " rows for 2 heads, which do not cover");
    }
    expect_spoiled(both(of_rows(4), [&](hid_t file) { set_text(file, blocks, "rows", "4"); }), blocks,
                   "attribute rows is not an integer");
    expect_spoiled(
        both(floats(blocks, {1, 2, 0}, {0}), [&](hid_t file) { set_integer(file, blocks, "rows", 4); }),
        blocks, "is empty");
    expect_spoiled(floats("/inputs/descale_q", {2}, {1, 1}), "/inputs/descale_q",
                   "has shape [2] where /problem asks for [1]");
    expect_spoiled(floats("/inputs/descale_k", {1, 3}, {1, 1, 1}), "/inputs/descale_k",
                   "has shape [1, 3] where /problem asks for [1, 2]");
}

TEST_F(FileInputsHostile, Bias) {
    const char* bias = "/inputs/bias";
    const std::vector<float> zeros(4096, 0.0f);
    for (const Dims& dims : {Dims{1, 2, 8, 12}, Dims{1, 1, 8, 12}, Dims{1, 2, 1, 1}, Dims{1, 1, 1, 1}}) {
        write_spoiled_dump(path, floats(bias, dims, zeros));
        EXPECT_EQ(refusal(path), "");
    }
    for (const Dims& dims : {Dims{1, 2, 8, 11}, Dims{2, 2, 8, 12}, Dims{1, 2, 4, 12}, Dims{1, 3, 1, 12},
                             Dims{1, 0, 8, 12}, Dims{2, 8, 12}}) {
        expect_spoiled(floats(bias, dims, zeros), bias, "where /problem asks for [1, ");
    }
}

TEST_F(FileInputsHostile, BiasIsCheckedWhereItIsRead) {
    for (const float value : {nan_value, infinity}) {
        std::vector<float> values(12, 0.0f);
        values[5] = value;
        write_spoiled_dump(path, floats("/inputs/bias", {1, 1, 1, 12}, values));
        const auto recording = open_recording(path);
        std::vector<float> keys(5);
        EXPECT_NO_THROW(recording->read_bias(0, 1, 7, 0, keys));
        EXPECT_THROW(recording->read_bias(0, 1, 7, 1, keys), Error);
    }
}

}  // namespace
}  // namespace tilescope::test
