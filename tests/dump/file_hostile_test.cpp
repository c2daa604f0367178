// Objects of a file that lie, lead elsewhere or are of another kind.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

using FileHostile = SpoiledFile;

TEST_F(FileHostile, TakesThePlainDump) {
    write_plain_dump(path);
    const auto recording = open_recording(path);
    EXPECT_TRUE(recording->has_inputs());
    EXPECT_TRUE(recording->has_stage(Stage::o));
    EXPECT_FALSE(recording->has_stage(Stage::p));
    std::vector<float> tile(16);
    ASSERT_TRUE(recording->read_tile(Stage::s, {0, 1, 1, 2}, tile));
    EXPECT_EQ(tile[0], (1 * 8 + 4) * 12 + 8);
    EXPECT_EQ(tile[15], (1 * 8 + 7) * 12 + 11);
}

TEST_F(FileHostile, NoFile) {
    expect_refused(path, "", "cannot be opened: No such file or directory");
}

TEST_F(FileHostile, Folder) {
    std::filesystem::create_directory(path);
    expect_refused(path, "", "is a directory");
}

TEST_F(FileHostile, Pipe) {
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    expect_refused(path, "", "is not a regular file");
}

TEST_F(FileHostile, EmptyFile) {
    std::ofstream stream(path);
    stream.close();
    expect_refused(path, "", "is empty");
}

TEST_F(FileHostile, Text) {
    std::ofstream(path) << std::string(5000, 'x');
    expect_refused(path, "", "is not an HDF5 file");
    std::ofstream(path) << "x";
    expect_refused(path, "", "is not an HDF5 file");
}

TEST_F(FileHostile, LineEndInThePath) {
    std::ofstream(folder.file("two\nlines")) << "x";
    EXPECT_NE(refusal(folder.file("two\nlines")).find("two?lines: is not an HDF5 file"), std::string::npos);
}

TEST_F(FileHostile, OtherLayout) {
    { const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)); }
    expect_refused(path, "", "not a Tilescope dump");
    expect_spoiled([](hid_t file) { set_text(file, "/", "format", "other"); }, "", "not a Tilescope dump");
}

TEST_F(FileHostile, TextForPeopleIsCut) {
    write_spoiled_dump(path, [](hid_t file) {
        const Handle group(H5Gcreate2(file, "/capture/s", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        for (const char* name : {"kernel", "command"}) set_text(file, "/", name, std::string(60000, 'a'));
        set_text(file, "/capture", "ended", std::string(60000, 'a'));
    });
    const auto recording = open_recording(path);
    const std::string kept = std::string(4096, 'a') + "...";
    EXPECT_EQ(recording->provenance().kernel, kept);
    EXPECT_EQ(recording->provenance().command, kept);
    EXPECT_EQ(recording->capture().ended, kept);
}

TEST_F(FileHostile, SomeInputsAreMissing) {
    for (const char* input : {"/inputs/q", "/inputs/k", "/inputs/v"}) {
        expect_spoiled([&](hid_t file) { unlink_object(file, input); }, "/inputs",
                       "holds some inputs, but not all of q, k and v;");
    }
}

TEST_F(FileHostile, TilesAreMissing) {
    const auto says_six = [](hid_t file) {
        const Handle group(H5Gcreate2(file, "/capture/s", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        set_integer(file, "/capture/s", "tiles_written", 12);
    };
    write_spoiled_dump(path, says_six);
    EXPECT_EQ(refusal(path), "");
    expect_spoiled(
        [&](hid_t file) {
            says_six(file);
            unlink_object(file, "/tiles/s");
        },
        "/capture/s", "tiles_written is 12, the file holds 0");
}

TEST_F(FileHostile, Shapes) {
    const std::pair<std::vector<hsize_t>, const char*> shapes[] = {
        {{1, 2, 8, 13}, "has shape [1, 2, 8, 13] where /problem asks for [1, 2, 8, 12]"},
        {{1, 2, 12, 8}, "has shape [1, 2, 12, 8]"},
        {{2, 8, 12}, "has shape [2, 8, 12]"},
        {{1, 2, 8, 12, 1}, "has shape [1, 2, 8, 12, 1]"},
        {{1, 2, 8, hsize_t(1) << 40}, "has shape [1, 2, 8, 1099511627776]"},
    };
    for (const auto& [dims, words] : shapes) {
        expect_spoiled(
            [&dims = dims](hid_t file) {
                unlink_object(file, "/tiles/s");
                create_chunked(file, "/tiles/s", H5T_IEEE_F32LE, dims, std::vector<hsize_t>(dims.size(), 1),
                               nullptr);
            },
            "/tiles/s", words);
    }
    expect_spoiled(
        [](hid_t file) {
            unlink_object(file, "/tiles/s");
            const Handle space(H5Screate(H5S_SCALAR));
            const Handle dataset(
                H5Dcreate2(file, "/tiles/s", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        },
        "/tiles/s", "is not an array");
}

TEST_F(FileHostile, Chunks) {
    const std::pair<std::vector<hsize_t>, const char*> chunks[] = {
        {{1, 1, 4, 3}, "has chunks of 1x1x4x3, not of one tile, 1x1x4x4"},
        {{1, 2, 4, 4}, "has chunks of 1x2x4x4"},
        {{1, 2, 8, 12}, "has chunks of 1x2x8x12"},
    };
    for (const auto& [chunk, words] : chunks) {
        expect_spoiled(
            [&chunk = chunk](hid_t file) {
                unlink_object(file, "/tiles/s");
                create_chunked(file, "/tiles/s", H5T_IEEE_F32LE, {1, 2, 8, 12}, chunk, nullptr);
            },
            "/tiles/s", words);
    }
}

void expect_type_refused(const std::string& path, const char* object, hid_t type, const std::string& words) {
    const std::vector<char> zeros(65536, 0);
    write_spoiled_dump(path, [&](hid_t file) {
        unlink_object(file, object);
        const std::vector<hsize_t> dims = std::string(object) == "/tiles/s"
                                              ? std::vector<hsize_t>{1, 2, 8, 12}
                                              : std::vector<hsize_t>{1, 2, 12, 2};
        create_dataset(file, object, type, dims, H5P_DEFAULT, zeros.data());
    });
    expect_refused(path, object, words);
}

TEST_F(FileHostile, ElementTypes) {
    const Handle half(half_type());
    const Handle big_half(half_type());
    require(H5Tset_order(big_half, H5T_ORDER_BE));
    const Handle odd_half(half_type());
    require(H5Tset_ebias(odd_half, 16));
    expect_type_refused(path, "/tiles/s", H5T_IEEE_F32BE,
                        "holds big-endian 4-byte floats, not little-endian f32");
    expect_type_refused(path, "/tiles/s", H5T_IEEE_F64LE, "holds 8-byte floats");
    expect_type_refused(path, "/tiles/s", H5T_STD_I32LE, "holds 4-byte integers");
    expect_type_refused(path, "/tiles/s", half, "holds 2-byte floats");
    expect_type_refused(path, "/tiles/s", H5T_STD_REF_OBJ, "holds 8-byte elements");
    expect_type_refused(path, "/inputs/k", big_half,
                        "holds big-endian 2-byte floats, not little-endian f32 or f16");
    expect_type_refused(path, "/inputs/k", odd_half, "holds 2-byte floats");
    expect_type_refused(path, "/inputs/k", H5T_STD_I16LE, "holds 2-byte integers");
    expect_type_refused(path, "/inputs/k", H5T_STD_U8LE, "holds 1-byte integers");
}

TEST_F(FileHostile, NamedType) {
    expect_spoiled(
        [](hid_t file) {
            const Handle type(H5Tcopy(H5T_IEEE_F32LE));
            require(H5Tcommit2(file, "/type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
            unlink_object(file, "/tiles/s");
            create_chunked(file, "/tiles/s", type, {1, 2, 8, 12}, {1, 1, 4, 4}, nullptr);
        },
        "/tiles/s", "has a named type");
}

TEST_F(FileHostile, ObjectsOfAnotherKind) {
    const auto group_at = [](const char* place) {
        return [place](hid_t file) {
            unlink_object(file, place);
            const Handle group(H5Gcreate2(file, place, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        };
    };
    const auto dataset_at = [](const char* place) {
        return [place](hid_t file) {
            unlink_object(file, place);
            create_dataset(file, place, H5T_IEEE_F32LE, {4}, H5P_DEFAULT, nullptr);
        };
    };
    expect_spoiled(group_at("/tiles/s"), "/tiles/s", "is not a dataset");
    expect_spoiled(group_at("/inputs/q"), "/inputs/q", "is not a dataset");
    expect_spoiled(dataset_at("/problem"), "/problem", "is not a group");
    expect_spoiled(dataset_at("/tiles"), "/tiles/q", "lies in an object that is no group");
    expect_spoiled(dataset_at("/capture"), "/capture", "is not a group");
}

TEST_F(FileHostile, Links) {
    const std::string secret = folder.file("secret.h5");
    write_plain_dump(secret);
    for (const char* place : {"/tiles/s", "/tiles", "/problem", "/inputs/v", "/outputs/o", "/capture"}) {
        expect_spoiled(
            [&](hid_t file) {
                unlink_object(file, place);
                require(H5Lcreate_external(secret.c_str(), place, file, place, H5P_DEFAULT, H5P_DEFAULT));
            },
            place, "is a soft or external link, which is never followed");
    }
    expect_spoiled(
        [](hid_t file) {
            unlink_object(file, "/tiles/s");
            require(H5Lcreate_soft("/tiles/m", file, "/tiles/s", H5P_DEFAULT, H5P_DEFAULT));
        },
        "/tiles/s", "is a soft or external link");
    expect_spoiled(
        [](hid_t file) {
            unlink_object(file, "/tiles/s");
            require(H5Lcreate_soft("/tiles/s", file, "/tiles/s", H5P_DEFAULT, H5P_DEFAULT));
        },
        "/tiles/s", "is a soft or external link");
}

TEST_F(FileHostile, HardLinksInACircle) {
    expect_spoiled(
        [](hid_t file) {
            unlink_object(file, "/tiles/s");
            require(H5Lcreate_hard(file, "/tiles", file, "/tiles/s", H5P_DEFAULT, H5P_DEFAULT));
        },
        "/tiles/s", "is not a dataset");
    write_spoiled_dump(path, [](hid_t file) {
        unlink_object(file, "/tiles/s");
        unlink_object(file, "/tiles/m");
        unlink_object(file, "/tiles");
        require(H5Lcreate_hard(file, "/", file, "/tiles", H5P_DEFAULT, H5P_DEFAULT));
    });
    EXPECT_FALSE(open_recording(path)->has_stage(Stage::s)) << "a root without tiles has none";
}

TEST_F(FileHostile, ExternalStorage) {
    std::ofstream(folder.file("raw")) << std::string(4096, 'x');
    expect_spoiled(
        [&](hid_t file) {
            unlink_object(file, "/outputs/o");
            const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
            require(H5Pset_external(properties, folder.file("raw").c_str(), 0, 4096));
            const Handle half(half_type());
            create_dataset(file, "/outputs/o", half, {1, 2, 8, 2}, properties, nullptr);
        },
        "/outputs/o", "has external storage");
}

TEST_F(FileHostile, VirtualDataset) {
    const std::string source = folder.file("source.h5");
    write_plain_dump(source);
    expect_spoiled(
        [&](hid_t file) {
            unlink_object(file, "/tiles/s");
            const std::vector<hsize_t> dims = {1, 2, 8, 12};
            const Handle space(H5Screate_simple(4, dims.data(), nullptr));
            const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
            require(H5Pset_virtual(properties, space, source.c_str(), "/tiles/s", space));
            create_dataset(file, "/tiles/s", H5T_IEEE_F32LE, dims, properties, nullptr);
        },
        "/tiles/s", "is a virtual dataset");
}

TEST_F(FileHostile, CompactLayout) {
    expect_spoiled(
        [](hid_t file) {
            unlink_object(file, "/outputs/o");
            const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
            require(H5Pset_layout(properties, H5D_COMPACT));
            const Handle half(half_type());
            const std::vector<std::uint16_t> zeros(32, 0);
            create_dataset(file, "/outputs/o", half, {1, 2, 8, 2}, properties, zeros.data());
        },
        "/outputs/o", "has compact layout");
}

herr_t keep_size(hid_t, hid_t, hid_t) {
    return 0;
}
htri_t can_apply(hid_t, hid_t, hid_t) {
    return 1;
}
std::size_t pass_through(unsigned, std::size_t, const unsigned[], std::size_t bytes, std::size_t*, void**) {
    return bytes;
}

TEST_F(FileHostile, Filters) {
    // A filter that only a plugin would have: the number is one of those kept for testing.
    const H5Z_class2_t plugin = {H5Z_CLASS_T_VERS, 300, 1, 1, "plugin", can_apply, keep_size, pass_through};
    const std::pair<const char*, std::function<void(hid_t)>> filters[] = {
        {"deflate", [](hid_t properties) { require(H5Pset_deflate(properties, 4)); }},
        {"shuffle", [](hid_t properties) { require(H5Pset_shuffle(properties)); }},
        {"checksum", [](hid_t properties) { require(H5Pset_fletcher32(properties)); }},
        {"plugin",
         [](hid_t properties) { require(H5Pset_filter(properties, 300, H5Z_FLAG_MANDATORY, 0, nullptr)); }},
    };
    require(H5Zregister(&plugin));
    for (const auto& [name, set] : filters) {
        SCOPED_TRACE(name);
        write_spoiled_dump(path, [&set = set](hid_t file) {
            unlink_object(file, "/tiles/s");
            const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
            const hsize_t chunk[4] = {1, 1, 4, 4};
            require(H5Pset_chunk(properties, 4, chunk));
            set(properties);
            const std::vector<float> zeros(plain_s_elements, 0.0f);
            create_dataset(file, "/tiles/s", H5T_IEEE_F32LE, {1, 2, 8, 12}, properties, zeros.data());
        });
        if (std::string(name) == "plugin") require(H5Zunregister(300));
        expect_refused(path, "/tiles/s", "is compressed or filtered");
    }
}

TEST_F(FileHostile, DeclaresMoreThanTheFileHolds) {
    // Nothing was ever stored in k.
    expect_spoiled(
        [](hid_t file) {
            unlink_object(file, "/inputs/k");
            const Handle half(half_type());
            create_dataset(file, "/inputs/k", half, {1, 2, 12, 2}, H5P_DEFAULT, nullptr);
        },
        "/inputs/k", "declares 96 bytes, but stores 0");
    // All sizes agree, and are 2 x 10^12 elements.
    expect_spoiled(
        [](hid_t file) {
            const Handle half(half_type());
            set_integer(file, "/problem", "seqlen_kv", 1000000000);
            set_integer(file, "/problem", "block_n", 1000);
            set_integer(file, "/problem", "head_dim", 1000);
            set_integer(file, "/problem", "head_dim_v", 2);
            for (const char* object : {"/tiles/s", "/tiles/m", "/inputs/q", "/inputs/k", "/inputs/v"}) {
                unlink_object(file, object);
            }
            create_dataset(file, "/inputs/q", half, {1, 2, 8, 1000}, H5P_DEFAULT,
                           std::vector<std::uint16_t>(16000).data());
            create_dataset(file, "/inputs/k", half, {1, 2, 1000000000, 1000}, H5P_DEFAULT, nullptr);
        },
        "/inputs/k", "declares 4000000000000 bytes, but stores 0");
}

TEST_F(FileHostile, DatasetBeyondTheEnd) {
    constexpr hsize_t keys = hsize_t(1) << 25;
    write_spoiled_dump(path, [](hid_t file) {
        set_integer(file, "/problem", "seqlen_kv", keys);
        set_integer(file, "/problem", "block_n", 1024);
        for (const char* object : {"/tiles/s", "/tiles/m", "/inputs/k", "/inputs/v", "/outputs/o"}) {
            unlink_object(file, object);
        }
        const Handle half(half_type());
        const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
        require(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY));
        require(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER));
        create_dataset(file, "/inputs/k", half, {1, 2, keys, 2}, properties, nullptr);
    });
    ASSERT_GT(std::filesystem::file_size(path), keys);
    cut_with_its_header(path, 65536);
    expect_refused(path, "/inputs/k", "declares 268435456 bytes, the whole file has 65536");
}

// The chunk index of the first chunked dataset: a B-tree of version 1 is a header of 24 bytes, then a key
// (size of the chunk, filter mask, 5 offsets) and the chunk's address for each chunk.
constexpr std::size_t tree_level = 5;
constexpr std::size_t tree_key = 24;
constexpr std::size_t tree_child = 24 + 48;
constexpr std::size_t tree_entry = 48 + 8;

std::size_t find_chunk_tree(const std::string& bytes) {
    const std::size_t at = bytes.find(std::string("TREE\1", 5));
    if (at == std::string::npos) throw std::runtime_error("the plain dump has no chunk index");
    return at;
}

template <class Value>
void put(std::string& bytes, std::size_t at, Value value) {
    ASSERT_LE(at + sizeof value, bytes.size());
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

// HDF5 1.10 walks down this tree until the stack is full.

TEST_F(FileHostile, ChunkIndexInACircle) {
    write_plain_dump(path);
    std::string bytes = bytes_of(path);
    const std::size_t tree = find_chunk_tree(bytes);
    put(bytes, tree + tree_level, std::uint8_t(1));
    put(bytes, tree + tree_child, std::uint64_t(tree));
    std::ofstream(path, std::ios::binary) << bytes;
    expect_refused(path, refusal(path).find(":/tiles/") == std::string::npos ? "" : "/tiles/s", "");
}

// The sizes add up, but reading the second tile would write 96 bytes where there is room for 64.

TEST_F(FileHostile, ChunksOfDifferentSizes) {
    write_plain_dump(path);
    std::string bytes = bytes_of(path);
    const std::size_t tree = find_chunk_tree(bytes);
    put(bytes, tree + tree_key, std::uint32_t(32));
    put(bytes, tree + tree_key + tree_entry, std::uint32_t(96));
    std::ofstream(path, std::ios::binary) << bytes;
    expect_refused(path, "/tiles/s", "has a chunk of 32 bytes at");
}

TEST_F(FileHostile, IgnoresWhatItDoesNotKnow) {
    write_spoiled_dump(path, [](hid_t file) {
        set_text(file, "/", "colour", "green");
        set_text(file, "/problem", "colour", "green");
        set_text(file, "/tiles/s", "colour", "green");
        create_dataset(file, "/tiles/colour", H5T_IEEE_F64BE, {3}, H5P_DEFAULT, nullptr);
        require(H5Lcreate_external("elsewhere.h5", "/x", file, "/tiles/elsewhere", H5P_DEFAULT, H5P_DEFAULT));
    });
    EXPECT_EQ(refusal(path), "");
}

}  // namespace
}  // namespace tilescope::test
