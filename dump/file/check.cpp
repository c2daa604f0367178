#include "dump/file/check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "dump/file/attributes.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope::hdf5 {

namespace {

[[noreturn]] void refuse_failed(const std::string& what, const std::string& where) {
    refuse(what + " (" + last_error() + ")", where);
}

std::uint64_t little_endian(std::span<const unsigned char> bytes) {
    std::uint64_t value = 0;
    for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) value = value << 8 | *byte;
    return value;
}

// Where a superblock keeps the size of offsets and the end of the file; source: HDF5 file format
// specification 3.0, section II.
struct SuperblockLayout {
    std::size_t offset_size_at;
    std::size_t end_of_file_at;
};
constexpr std::array<SuperblockLayout, 4> superblocks = {{{13, 40}, {13, 44}, {9, 28}, {9, 28}}};

// HDF5 finds a short file itself, but only after it has begun to follow addresses in it.
void check_superblock(const InputFile& file) {
    constexpr std::array<unsigned char, 8> signature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    std::array<unsigned char, 64> head = {};
    const std::string where = shortened(file.path);
    const std::int64_t present = std::min<std::int64_t>(file.bytes, head.size());
    if (!read_exactly(file.descriptor.get(), 0, present, head.data())) {
        throw Error(std::string("cannot be read: ") + std::strerror(errno), where, "check its disk");
    }
    if (!std::equal(signature.begin(), signature.end(), head.begin())) {
        throw Error("is not an HDF5 file", where, "give the file that tile-run or a capture wrote");
    }
    if (present < std::ssize(head)) refuse("is truncated within the HDF5 header", where);
    const unsigned version = head[8];
    if (version >= superblocks.size()) {
        throw Error("has HDF5 superblock version " + std::to_string(version) + ", which is not known", where,
                    "convert it with h5repack, or record it again");
    }
    const SuperblockLayout& layout = superblocks[version];
    if (head[layout.offset_size_at] != 8) refuse("has no 8-byte addresses", where);
    const std::uint64_t end = little_endian(std::span(head).subspan(layout.end_of_file_at, 8));
    if (end > static_cast<std::uint64_t>(file.bytes)) {
        throw Error(
            "is truncated: it has " + std::to_string(file.bytes) + " of " + std::to_string(end) + " bytes",
            where, "copy it again, or record it again");
    }
}

// When the file was written to, in nanoseconds; a new name of it does not count.
std::int64_t modified_of(const struct stat& status) {
    return std::int64_t(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// Opens the object at the end of hard links; anything else could lead out of the file or in circles.
Id open_object(const InputFile& file, const std::string& path) {
    Id object(H5Gopen2(file.id.get(), "/", H5P_DEFAULT));
    if (!object) refuse_failed("the root group cannot be opened", shortened(file.path));
    std::size_t begin = 1;
    while (begin < path.size()) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const std::string name = path.substr(begin, end - begin);
        const std::string where = file.where(path.substr(0, end));
        if (H5Iget_type(object.get()) != H5I_GROUP) refuse("lies in an object that is no group", where);
        const htri_t exists = H5Lexists(object.get(), name.c_str(), H5P_DEFAULT);
        if (exists < 0) refuse_failed("cannot be looked up", where);
        if (exists == 0) return Id();
        H5L_info_t link = {};
        if (H5Lget_info(object.get(), name.c_str(), &link, H5P_DEFAULT) < 0) {
            refuse_failed("cannot be looked up", where);
        }
        if (link.type != H5L_TYPE_HARD) refuse("is a soft or external link, which is never followed", where);
        Id next(H5Oopen(object.get(), name.c_str(), H5P_DEFAULT));
        if (!next) refuse_failed("cannot be opened", where);
        object = std::move(next);
        begin = end + 1;
    }
    return object;
}

std::string text_of(std::span<const std::int64_t> dims) {
    std::string text = "[";
    for (const std::int64_t dim : dims) {
        text += (text.size() > 1 ? ", " : "") + (dim == any_size ? "any" : std::to_string(dim));
    }
    return text + "]";
}

std::string describe_type(hid_t type) {
    const H5T_class_t kind = H5Tget_class(type);
    const std::string noun = kind == H5T_FLOAT ? "float" : kind == H5T_INTEGER ? "integer" : "element";
    const std::string order = H5Tget_order(type) == H5T_ORDER_BE ? "big-endian " : "";
    return order + std::to_string(H5Tget_size(type)) + "-byte " + noun;
}

bool equals(hid_t type, const Id& expected) {
    return H5Tequal(type, expected.get()) > 0;
}

// The dtype that elements of `type` are read as, where they may be float32 or `declared`.
std::optional<Dtype> stored_dtype(hid_t type, Dtype declared) {
    if (equals(type, element_type(Dtype::f32))) return Dtype::f32;
    if (equals(type, element_type(declared))) return declared;
    const bool two_bytes = dtype_info(declared).bytes == 2;
    if (two_bytes && H5Tequal(type, H5T_STD_U16LE) > 0) return declared;
    return std::nullopt;
}

bool fits(std::span<const std::int64_t> dims, std::span<const std::int64_t> wanted) {
    return std::ranges::equal(
        dims, wanted, [](std::int64_t dim, std::int64_t size) { return dim == size || size == any_size; });
}

// Everything about a dataset but its type and its dimensions. The order matters: what a virtual dataset or
// external storage refers to must not be touched before they are refused.
struct Declared {
    Id dataset;
    Id type;
    std::string where;
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> chunk;
};

/// Whether a dataset without dimensions, which is one number, is an array, too.
enum class Rank { one_or_more, any };

std::vector<std::int64_t> read_dims(hid_t dataset, Rank allowed, const std::string& where) {
    const Id space(H5Dget_space(dataset));
    if (!space) refuse_failed("its shape cannot be read", where);
    if (allowed == Rank::any && H5Sget_simple_extent_type(space.get()) == H5S_SCALAR) return {};
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if (rank < 1 || H5Sis_simple(space.get()) <= 0) refuse("is not an array", where);
    std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
    H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    if (*std::ranges::max_element(dims) > hsize_t(std::numeric_limits<std::int64_t>::max())) {
        refuse("declares a size that no file has", where);
    }
    return {dims.begin(), dims.end()};
}

std::optional<Declared> open_declared(const InputFile& file, const std::string& path,
                                      Rank allowed = Rank::one_or_more) {
    Declared declared;
    declared.where = file.where(path);
    declared.dataset = open_object(file, path);
    if (!declared.dataset) return std::nullopt;
    if (H5Iget_type(declared.dataset.get()) != H5I_DATASET) refuse("is not a dataset", declared.where);
    const Id properties(H5Dget_create_plist(declared.dataset.get()));
    if (!properties) refuse_failed("its layout cannot be read", declared.where);
    const H5D_layout_t layout = H5Pget_layout(properties.get());
    if (layout == H5D_VIRTUAL) refuse("is a virtual dataset, which is never followed", declared.where);
    if (layout == H5D_COMPACT) refuse("has compact layout", declared.where);
    if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED) refuse("has an unknown layout", declared.where);
    if (H5Pget_external_count(properties.get()) != 0) {
        refuse("has external storage, which is never followed", declared.where);
    }
    if (H5Pget_nfilters(properties.get()) != 0) {
        throw Error("is compressed or filtered, and filters are never run", declared.where,
                    "remove them with h5repack -f NONE");
    }
    declared.dims = read_dims(declared.dataset.get(), allowed, declared.where);
    if (layout == H5D_CHUNKED) {
        std::vector<hsize_t> chunk(declared.dims.size());
        if (H5Pget_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()) !=
            static_cast<int>(chunk.size())) {
            refuse("has chunks of another rank", declared.where);
        }
        declared.chunk.assign(chunk.begin(), chunk.end());
    }
    declared.type = Id(H5Dget_type(declared.dataset.get()));
    if (!declared.type) refuse_failed("its type cannot be read", declared.where);
    if (H5Tcommitted(declared.type.get()) != 0) refuse("has a named type", declared.where);
    return declared;
}

std::int64_t product(std::span<const std::int64_t> values, std::int64_t element_bytes) {
    std::int64_t result = element_bytes;
    for (const std::int64_t value : values) {
        if (__builtin_mul_overflow(result, value, &result)) return std::numeric_limits<std::int64_t>::max();
    }
    return result;
}

/// Where the elements lie.
struct Storage {
    std::int64_t bytes = 0;
    std::int64_t offset = 0;  ///< when contiguous
};

// Checks that the elements lie in the file.
Storage checked_storage(const InputFile& file, const Declared& declared, std::int64_t element_bytes) {
    // The function returns 0 for an error too.
    H5Eclear2(H5E_DEFAULT);
    const hsize_t stored = H5Dget_storage_size(declared.dataset.get());
    if (stored == 0 && H5Eget_num(H5E_DEFAULT) != 0) {
        refuse_failed("its storage cannot be read", declared.where);
    }
    const auto file_bytes = static_cast<hsize_t>(file.bytes);
    if (stored > file_bytes) {
        refuse(
            "declares " + std::to_string(stored) + " bytes, the whole file has " + std::to_string(file.bytes),
            declared.where);
    }
    if (!declared.chunk.empty() || stored == 0) return {static_cast<std::int64_t>(stored), 0};
    const hsize_t expected = static_cast<hsize_t>(product(declared.dims, element_bytes));
    const haddr_t offset = H5Dget_offset(declared.dataset.get());
    if (stored != expected || offset == HADDR_UNDEF || offset > file_bytes - stored) {
        refuse("declares " + std::to_string(expected) + " bytes, more than the file holds", declared.where);
    }
    return {static_cast<std::int64_t>(stored), static_cast<std::int64_t>(offset)};
}

/// Errors: Error for other dimensions than `dims`.
std::optional<Declared> open_shaped(const InputFile& file, const std::string& path,
                                    std::span<const std::int64_t> dims) {
    std::optional<Declared> declared = open_declared(file, path);
    if (declared && !fits(declared->dims, dims)) {
        refuse("has shape " + text_of(declared->dims) + " where /problem asks for " + text_of(dims),
               declared->where);
    }
    return declared;
}

/// How the elements are stored. Errors: Error for another type than float32 and `dtype`.
Dtype require_dtype(const Declared& declared, Dtype dtype) {
    const std::optional<Dtype> stored = stored_dtype(declared.type.get(), dtype);
    if (stored) return *stored;
    const std::string wanted(dtype_info(dtype).name);
    refuse("holds " + describe_type(declared.type.get()) + "s, not little-endian f32" +
               (dtype == Dtype::f32 ? "" : " or " + wanted),
           declared.where);
}

StoredDataset stored_dataset(const InputFile& file, Declared declared, Dtype stored) {
    StoredDataset dataset;
    const std::int64_t element_bytes = dtype_info(stored).bytes;
    const Storage storage = checked_storage(file, declared, element_bytes);
    dataset.declared_bytes = product(declared.dims, element_bytes);
    dataset.stored_bytes = storage.bytes;
    dataset.offset = storage.offset;
    if (!declared.chunk.empty()) dataset.chunk_bytes = product(declared.chunk, element_bytes);
    dataset.id = std::move(declared.dataset);
    dataset.where = std::move(declared.where);
    dataset.dtype = stored;
    dataset.dims = std::move(declared.dims);
    dataset.chunk = std::move(declared.chunk);
    return dataset;
}

template <class Element>
std::vector<Element> read_elements(const InputFile& file, const StoredArray& array) {
    std::vector<Element> values(static_cast<std::size_t>(array.elements));
    const std::int64_t bytes = array.elements * std::int64_t(sizeof(Element));
    if (!read_exactly(file.descriptor.get(), array.offset, bytes, values.data())) {
        refuse("cannot be read", array.where);
    }
    return values;
}

}  // namespace

Descriptor::~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
}

InputFile open_file(const std::string& path) {
    InputFile file;
    file.path = path;
    const std::string where = shortened(path);
    // Opening a pipe would wait for its other end.
    file.descriptor = Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status = {};
    if (file.descriptor.get() < 0 || fstat(file.descriptor.get(), &status) != 0) {
        throw Error(std::string("cannot be opened: ") + std::strerror(errno), where,
                    "check the path and its permissions");
    }
    if (S_ISDIR(status.st_mode)) throw Error("is a directory", where, "give a file in it");
    if (!S_ISREG(status.st_mode)) throw Error("is not a regular file", where, "give a file");
    if (status.st_size == 0) throw Error("is empty", where, "record it again");
    file.bytes = status.st_size;
    file.modified = modified_of(status);
    return file;
}

void require_unchanged(const InputFile& file) {
    struct stat status = {};
    const bool known = fstat(file.descriptor.get(), &status) == 0;
    if (known && status.st_size == file.bytes && modified_of(status) == file.modified) return;
    throw Error("was written to while it was read", shortened(file.path), "try again when it is whole");
}

void open_hdf5(InputFile& file) {
    check_superblock(file);
    file.target = std::make_unique<DriverTarget>();
    file.target->descriptor = file.descriptor.get();
    const Id access(H5Pcreate(H5P_FILE_ACCESS));
    if (!access || !set_driver(access.get(), *file.target)) {
        refuse_failed("HDF5 cannot be used", shortened(file.path));
    }
    file.id = Id(H5Fopen(file.path.c_str(), H5F_ACC_RDONLY, access.get()));
    if (!file.id) refuse_failed("cannot be opened as HDF5", shortened(file.path));
}

std::optional<Id> open_group(const InputFile& file, const std::string& path) {
    Id group = open_object(file, path);
    if (!group) return std::nullopt;
    if (H5Iget_type(group.get()) != H5I_GROUP) refuse("is not a group", file.where(path));
    return group;
}

bool has_object(const InputFile& file, const std::string& path) {
    return static_cast<bool>(open_object(file, path));
}

std::optional<Id> open_header(const InputFile& file, const std::string& path) {
    Id dataset = open_object(file, path);
    if (!dataset) return std::nullopt;
    if (H5Iget_type(dataset.get()) != H5I_DATASET) refuse("is not a dataset", file.where(path));
    return dataset;
}

std::optional<StoredDataset> open_dataset(const InputFile& file, const std::string& path, Dtype dtype,
                                          std::span<const std::int64_t> dims) {
    std::optional<Declared> declared = open_shaped(file, path, dims);
    if (!declared) return std::nullopt;
    const Dtype stored = require_dtype(*declared, dtype);
    return stored_dataset(file, std::move(*declared), stored);
}

std::optional<StoredDataset> open_whole_dataset(const InputFile& file, const std::string& path, Dtype dtype) {
    std::optional<Declared> declared = open_declared(file, path, Rank::any);
    if (!declared) return std::nullopt;
    const Dtype stored = require_dtype(*declared, dtype);
    StoredDataset dataset = stored_dataset(file, std::move(*declared), stored);
    require_whole(dataset);
    return dataset;
}

std::optional<StoredDataset> open_words(const InputFile& file, const std::string& path,
                                        std::span<const std::int64_t> dims) {
    std::optional<Declared> declared = open_shaped(file, path, dims);
    if (!declared) return std::nullopt;
    if (H5Tequal(declared->type.get(), H5T_STD_U32LE) <= 0) {
        refuse("holds " + describe_type(declared->type.get()) + "s, not little-endian uint32",
               declared->where);
    }
    return stored_dataset(file, std::move(*declared), Dtype::f32);
}

void require_whole(const StoredDataset& dataset) {
    if (!dataset.chunk.empty()) throw Error("has chunks", dataset.where, "store it contiguous");
    if (dataset.stored_bytes == dataset.declared_bytes) return;
    refuse("declares " + std::to_string(dataset.declared_bytes) + " bytes, but stores " +
               std::to_string(dataset.stored_bytes),
           dataset.where);
}

std::optional<StoredArray> open_array(const InputFile& file, const std::string& path, Elements elements) {
    std::optional<Declared> declared = open_declared(file, path);
    if (!declared) return std::nullopt;
    const hid_t type = declared->type.get();
    const bool integers = elements == Elements::integers;
    const bool known = integers ? H5Tequal(type, H5T_STD_I32LE) > 0 || H5Tequal(type, H5T_STD_I64LE) > 0
                                : equals(type, element_type(Dtype::f32));
    if (!known) {
        refuse("holds " + describe_type(type) + "s, not little-endian " +
                   (integers ? "int32 or int64" : "float32"),
               declared->where);
    }
    if (!declared->chunk.empty()) throw Error("has chunks", declared->where, "store it contiguous");
    StoredArray array;
    array.element_bytes = static_cast<std::int64_t>(H5Tget_size(type));
    const std::int64_t bytes = product(declared->dims, array.element_bytes);
    const Storage storage = checked_storage(file, *declared, array.element_bytes);
    if (storage.bytes != bytes) {
        refuse("declares " + std::to_string(bytes) + " bytes, but stores " + std::to_string(storage.bytes),
               declared->where);
    }
    array.elements = bytes / array.element_bytes;
    array.offset = storage.offset;
    array.id = std::move(declared->dataset);
    array.where = std::move(declared->where);
    array.dims = std::move(declared->dims);
    return array;
}

void require_dims(const StoredArray& array, std::span<const std::int64_t> dims) {
    if (fits(array.dims, dims)) return;
    refuse("has shape " + text_of(array.dims) + " where /problem asks for " + text_of(dims), array.where);
}

std::vector<std::int64_t> read_integers(const InputFile& file, const StoredArray& array) {
    if (array.element_bytes == sizeof(std::int64_t)) return read_elements<std::int64_t>(file, array);
    const std::vector<std::int32_t> narrow = read_elements<std::int32_t>(file, array);
    return {narrow.begin(), narrow.end()};
}

std::vector<float> read_floats(const InputFile& file, const StoredArray& array) {
    return read_elements<float>(file, array);
}

std::optional<StoredTable> open_table(const InputFile& file, const std::string& path, std::int64_t cols) {
    std::optional<Declared> declared = open_declared(file, path);
    if (!declared) return std::nullopt;
    const bool is_table = declared->dims.size() == 2 && declared->dims[1] == cols && declared->chunk.empty();
    if (!is_table || H5Tequal(declared->type.get(), H5T_STD_I64LE) <= 0) {
        refuse("is not a contiguous int64 table with " + std::to_string(cols) + " columns", declared->where);
    }
    if (declared->dims[0] < 0 || declared->dims[0] > file.bytes) {
        refuse("declares more rows than the file holds", declared->where);
    }
    const Storage storage = checked_storage(file, *declared, sizeof(std::int64_t));
    if (storage.bytes == 0 && declared->dims[0] > 0) {
        refuse("declares rows but holds none", declared->where);
    }
    return StoredTable{std::move(declared->where), declared->dims[0], storage.offset};
}

}  // namespace tilescope::hdf5
