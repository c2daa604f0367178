// References that lie.

#include <gtest/gtest.h>

#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

using Dims = std::vector<hsize_t>;

const std::vector<float> any_outputs(4096, 0);
const Dims o_dims = {1, 2, 8, 2};
const Dims lse_dims = {1, 2, 8};

void add_group(hid_t file, const std::string& path) {
    const Handle links(H5Pcreate(H5P_LINK_CREATE));
    require(H5Pset_create_intermediate_group(links, 1));
    const Handle group(H5Gcreate2(file, path.c_str(), links, H5P_DEFAULT, H5P_DEFAULT));
}

/// A group with the two outputs, both of zeros.
void add_reference(hid_t file, const std::string& name) {
    const std::string path = "/references/" + name;
    add_group(file, path);
    create_dataset(file, (path + "/o").c_str(), H5T_IEEE_F32LE, o_dims, H5P_DEFAULT, any_outputs.data());
    create_dataset(file, (path + "/lse").c_str(), H5T_IEEE_F32LE, lse_dims, H5P_DEFAULT, any_outputs.data());
}

class FileReferencesHostile : public SpoiledFile {
 protected:
    /// In place of o of the one reference `r`.
    void expect_bad_o(const std::function<void(hid_t)>& create, const std::string& words) {
        expect_spoiled(
            [&](hid_t file) {
                add_reference(file, "r");
                unlink_object(file, "/references/r/o");
                create(file);
            },
            "/references/r/o", words);
    }
    void expect_bad_dataset(const char* dataset, hid_t type, const Dims& dims, const std::string& words) {
        expect_spoiled(
            [&](hid_t file) {
                add_reference(file, "r");
                unlink_object(file, dataset);
                create_dataset(file, dataset, type, dims, H5P_DEFAULT, nullptr);
            },
            dataset, words);
    }
};

TEST_F(FileReferencesHostile, AGoodOneIsRead) {
    write_spoiled_dump(path, [](hid_t file) { add_reference(file, "r"); });
    ASSERT_EQ(refusal(path), "");
    const auto recording = open_recording(path);
    ASSERT_EQ(recording->references().size(), 1u);
    EXPECT_EQ(recording->references()[0], (ReferenceInfo{"r", true, true, Dtype::f16, LogBase::e}));
}

TEST_F(FileReferencesHostile, ObjectsOfAnotherKind) {
    expect_spoiled(
        [](hid_t file) {
            create_dataset(file, "/references", H5T_IEEE_F32LE, {4}, H5P_DEFAULT, any_outputs.data());
        },
        "/references", "is not a group");
    expect_spoiled(
        [](hid_t file) {
            add_group(file, "/references");
            create_dataset(file, "/references/r", H5T_IEEE_F32LE, o_dims, H5P_DEFAULT, any_outputs.data());
        },
        "/references/r", "is not a group");
    expect_bad_o([](hid_t file) { add_group(file, "/references/r/o"); }, "is not a dataset");
    expect_spoiled([](hid_t file) { add_group(file, "/references/r"); }, "/references/r",
                   "holds neither o nor lse");
}

TEST_F(FileReferencesHostile, TooMany) {
    expect_spoiled(
        [](hid_t file) {
            for (int i = 0; i < 17; ++i) add_reference(file, std::to_string(i));
        },
        "/references", "holds 17 references, more than 16");
}

TEST_F(FileReferencesHostile, Names) {
    for (const std::string& name : {std::string("a\nb"), std::string("\x1b[2J"), std::string("a\xff"),
                                    std::string("\xc3\xa9"), std::string("a\x7f")}) {
        expect_spoiled([&](hid_t file) { add_reference(file, name); }, "/references",
                       "which is not printable ASCII");
    }
    expect_spoiled([](hid_t file) { add_reference(file, std::string(65, 'x')); }, "/references",
                   "has a name of 65 characters, not of 1 to 64");
    expect_spoiled([](hid_t file) { add_reference(file, std::string(5000, 'x')); }, "/references",
                   "has a name of 5000 characters");
}

TEST_F(FileReferencesHostile, LinksAreNotFollowed) {
    const std::string words = "is a soft or external link, which is never followed";
    expect_spoiled(
        [](hid_t file) {
            require(H5Lcreate_soft("/outputs", file, "/references", H5P_DEFAULT, H5P_DEFAULT));
        },
        "/references", words);
    expect_spoiled(
        [](hid_t file) {
            add_group(file, "/references");
            require(H5Lcreate_external("/etc/passwd", "/outputs", file, "/references/r", H5P_DEFAULT,
                                       H5P_DEFAULT));
        },
        "/references/r", words);
    expect_bad_o(
        [](hid_t file) {
            require(H5Lcreate_soft("/outputs/o", file, "/references/r/o", H5P_DEFAULT, H5P_DEFAULT));
        },
        words);
    expect_bad_o(
        [](hid_t file) {
            require(
                H5Lcreate_external("/etc/passwd", "/o", file, "/references/r/o", H5P_DEFAULT, H5P_DEFAULT));
        },
        words);
}

TEST_F(FileReferencesHostile, GroupThatHoldsItself) {
    write_spoiled_dump(path, [](hid_t file) {
        add_reference(file, "r");
        require(H5Lcreate_hard(file, "/references", file, "/references/loop", H5P_DEFAULT, H5P_DEFAULT));
    });
    expect_refused(path, "/references/loop", "holds neither o nor lse");
}

TEST_F(FileReferencesHostile, Shapes) {
    for (const Dims& dims :
         {Dims{1, 2, 8}, Dims{1, 2, 8, 3}, Dims{2, 2, 8, 2}, Dims{1, 2, 8, 2, 1}, Dims{32}})
        expect_bad_dataset("/references/r/o", H5T_IEEE_F32LE, dims, "where /problem asks for [1, 2, 8, 2]");
    for (const Dims& dims : {Dims{1, 2, 8, 1}, Dims{1, 2, 9}, Dims{16}})
        expect_bad_dataset("/references/r/lse", H5T_IEEE_F32LE, dims, "where /problem asks for [1, 2, 8]");
}

TEST_F(FileReferencesHostile, ElementTypes) {
    for (const hid_t type : {H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_STD_I32LE, H5T_STD_I16LE, H5T_STD_U8LE})
        expect_bad_dataset("/references/r/o", type, o_dims, "not little-endian f32 or f16");
    const Handle half(half_type());
    for (const hid_t type : {H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_STD_U16LE, hid_t(half)})
        expect_bad_dataset("/references/r/lse", type, lse_dims, "not little-endian f32");
}

TEST_F(FileReferencesHostile, NothingStored) {
    expect_bad_dataset("/references/r/o", H5T_IEEE_F32LE, o_dims, "declares 128 bytes, but stores 0");
    expect_bad_dataset("/references/r/lse", H5T_IEEE_F32LE, lse_dims, "declares 64 bytes, but stores 0");
}

TEST_F(FileReferencesHostile, Layouts) {
    expect_bad_o(
        [](hid_t file) {
            create_chunked(file, "/references/r/o", H5T_IEEE_F32LE, o_dims, {1, 1, 4, 2}, any_outputs.data());
        },
        "has chunks");
    const Handle compact(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_layout(compact, H5D_COMPACT));
    expect_bad_o(
        [&](hid_t file) {
            create_dataset(file, "/references/r/o", H5T_IEEE_F32LE, o_dims, compact, any_outputs.data());
        },
        "has compact layout");
    const Handle external(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_external(external, "/etc/passwd", 0, 128));
    expect_bad_o(
        [&](hid_t file) {
            create_dataset(file, "/references/r/o", H5T_IEEE_F32LE, o_dims, external, nullptr);
        },
        "has external storage, which is never followed");
    const Handle mapped(H5Pcreate(H5P_DATASET_CREATE));
    const Handle space(H5Screate_simple(4, o_dims.data(), nullptr));
    require(H5Pset_virtual(mapped, space, "/etc/passwd", "/o", space));
    expect_bad_o(
        [&](hid_t file) { create_dataset(file, "/references/r/o", H5T_IEEE_F32LE, o_dims, mapped, nullptr); },
        "is a virtual dataset, which is never followed");
}

TEST_F(FileReferencesHostile, Attributes) {
    const auto expect_bad = [&](const char* object, const std::function<void(hid_t)>& set,
                                const std::string& words) {
        expect_spoiled(
            [&](hid_t file) {
                add_reference(file, "r");
                set(file);
            },
            object, words);
    };
    const char* const o = "/references/r/o";
    const char* const lse = "/references/r/lse";
    expect_bad(
        o, [&](hid_t file) { set_text(file, o, "dtype", "f64"); }, "attribute dtype is \"f64\", not one of");
    expect_bad(
        o, [&](hid_t file) { set_integer(file, o, "dtype", 1); }, "attribute dtype is not text");
    expect_bad(
        lse, [&](hid_t file) { set_text(file, lse, "log_base", "10"); },
        "attribute log_base is \"10\", not one of e, 2");
    expect_bad(
        lse, [&](hid_t file) { set_integer(file, lse, "log_base", 2); }, "attribute log_base is not text");
    expect_bad(
        lse, [&](hid_t file) { set_text(file, lse, "dtype", "f16"); }, "attribute dtype is not f32");
    const Handle half(half_type());
    expect_bad_o(
        [&](hid_t file) {
            create_dataset(file, o, half, o_dims, H5P_DEFAULT, nullptr);
            set_text(file, o, "dtype", "bf16");
        },
        "holds 2-byte floats, not little-endian f32 or bf16");
}

TEST_F(FileReferencesHostile, FileCutInsideAReference) {
    write_spoiled_dump(path, [](hid_t file) { add_reference(file, "r"); });
    std::uint64_t end = 0;
    {
        const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
        const Handle lse(H5Dopen2(file, "/references/r/lse", H5P_DEFAULT));
        end = H5Dget_offset(lse) + 32;
    }
    cut_with_its_header(path, end);
    EXPECT_NE(refusal(path), "");
}

}  // namespace
}  // namespace tilescope::test
