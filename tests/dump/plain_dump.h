#pragma once

// The smallest conforming dump, written with plain HDF5 calls in the format that h5py writes by default, and
// the means to spoil it.

#include <hdf5.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "dump/recording.h"

namespace tilescope::test {

/// An HDF5 id; fails the test when a call failed.
class Handle {
 public:
    Handle(hid_t id) : id_(id) {
        if (id < 0) throw std::runtime_error("an HDF5 call of the test failed");
    }
    ~Handle() { H5Idec_ref(id_); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    operator hid_t() const { return id_; }

 private:
    hid_t id_;
};

inline void require(herr_t result) {
    if (result < 0) throw std::runtime_error("an HDF5 call of the test failed");
}

inline void set_attribute(hid_t file, const char* object, const char* name, hid_t type, const void* value) {
    const Handle owner(H5Oopen(file, object, H5P_DEFAULT));
    if (H5Aexists(owner, name) > 0) require(H5Adelete(owner, name));
    const Handle space(H5Screate(H5S_SCALAR));
    const Handle attribute(H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    require(H5Awrite(attribute, type, value));
}
inline void set_integer(hid_t file, const char* object, const char* name, std::int64_t value) {
    set_attribute(file, object, name, H5T_STD_I64LE, &value);
}
inline void set_number(hid_t file, const char* object, const char* name, double value) {
    set_attribute(file, object, name, H5T_IEEE_F64LE, &value);
}
inline void set_text(hid_t file, const char* object, const char* name, const std::string& value) {
    const Handle type(H5Tcopy(H5T_C_S1));
    require(H5Tset_size(type, H5T_VARIABLE));
    const char* text = value.c_str();
    set_attribute(file, object, name, type, &text);
}
/// A list of text; of fixed length where `bytes` is not 0.
inline void set_texts(hid_t file, const char* object, const char* name,
                      const std::vector<std::string>& values, std::size_t bytes = 0) {
    const Handle type(H5Tcopy(H5T_C_S1));
    require(H5Tset_size(type, bytes == 0 ? H5T_VARIABLE : bytes));
    const Handle owner(H5Oopen(file, object, H5P_DEFAULT));
    const hsize_t size = values.size();
    const Handle space(H5Screate_simple(1, &size, nullptr));
    const Handle attribute(H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    if (values.empty()) return;
    std::vector<const char*> pointers;
    std::string fixed;
    for (const std::string& value : values) {
        pointers.push_back(value.c_str());
        fixed += value;
        fixed.resize(pointers.size() * bytes, '\0');
    }
    require(bytes == 0 ? H5Awrite(attribute, type, pointers.data())
                       : H5Awrite(attribute, type, fixed.data()));
}
inline void delete_attribute(hid_t file, const char* object, const char* name) {
    require(H5Adelete_by_name(file, object, name, H5P_DEFAULT));
}
inline void unlink_object(hid_t file, const char* path) {
    require(H5Ldelete(file, path, H5P_DEFAULT));
}

inline hid_t half_type() {
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    require(H5Tset_fields(type, 15, 10, 5, 0, 10));
    require(H5Tset_size(type, 2));
    require(H5Tset_ebias(type, 15));
    return type;
}

/// Creates a dataset and fills it with zeros, unless `data` is null or says otherwise. `properties` may be
/// H5P_DEFAULT.
inline void create_dataset(hid_t file, const char* path, hid_t type, const std::vector<hsize_t>& dims,
                           hid_t properties, const void* data) {
    const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    const Handle dataset(H5Dcreate2(file, path, type, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    if (data != nullptr) require(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
}

inline void create_chunked(hid_t file, const char* path, hid_t type, const std::vector<hsize_t>& dims,
                           const std::vector<hsize_t>& chunk, const void* data) {
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data()));
    create_dataset(file, path, type, dims, properties, data);
}

/// Sizes of the plain dump: one batch, two heads, s of 8 x 12 in tiles of 4 x 4, head_dim 2.
inline constexpr std::int64_t plain_s_elements = 2 * 8 * 12;

/// Element i of a tensor is i; /inputs and /outputs/o are f16 zeros to save arithmetic.
inline void write_plain_dump(const std::string& path) {
    const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    set_text(file, "/", "format", "tilescope");
    set_integer(file, "/", "format_version", 1);
    for (const char* group : {"/problem", "/inputs", "/tiles", "/outputs", "/capture"}) {
        const Handle created(H5Gcreate2(file, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
    const std::pair<const char*, std::int64_t> sizes[] = {{"batch", 1},      {"heads", 2},    {"seqlen_q", 8},
                                                          {"seqlen_kv", 12}, {"head_dim", 2}, {"block_m", 4},
                                                          {"block_n", 4}};
    for (const auto& [name, size] : sizes) set_integer(file, "/problem", name, size);
    set_number(file, "/problem", "sm_scale", 0.5);

    const Handle half(half_type());
    const std::vector<std::uint16_t> zeros(4096, 0);
    create_dataset(file, "/inputs/q", half, {1, 2, 8, 2}, H5P_DEFAULT, zeros.data());
    create_dataset(file, "/inputs/k", half, {1, 2, 12, 2}, H5P_DEFAULT, zeros.data());
    create_dataset(file, "/inputs/v", half, {1, 2, 12, 2}, H5P_DEFAULT, zeros.data());
    create_dataset(file, "/outputs/o", half, {1, 2, 8, 2}, H5P_DEFAULT, zeros.data());
    std::vector<float> numbers(plain_s_elements);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    create_chunked(file, "/tiles/s", H5T_IEEE_F32LE, {1, 2, 8, 12}, {1, 1, 4, 4}, numbers.data());
    create_chunked(file, "/tiles/m", H5T_IEEE_F32LE, {1, 2, 3, 8}, {1, 1, 1, 4}, numbers.data());
    set_integer(file, "/", "complete", 1);
}

/// Writes a plain dump and lets `change` spoil it.
inline void write_spoiled_dump(const std::string& path, const std::function<void(hid_t)>& change) {
    write_plain_dump(path);
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    change(file);
}

}  // namespace tilescope::test
