#pragma once

// What is checked before anything of a stranger's file is read.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dump/file/driver.h"
#include "dump/file/hdf5.h"
#include "dump/schema/dtype.h"
#include "dump/schema/text.h"

namespace tilescope::hdf5 {

/// An open file descriptor.
class Descriptor {
 public:
    Descriptor() = default;
    explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
    Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~Descriptor();

    int get() const { return descriptor_; }

 private:
    int descriptor_ = -1;
};

/// A file opened for reading: once, so that it stays the same file whatever happens to its name.
struct InputFile {
    std::string path;
    std::int64_t bytes = 0;
    std::int64_t modified = 0;  ///< when it was opened; nanoseconds
    Descriptor descriptor;
    std::unique_ptr<DriverTarget> target;  ///< HDF5 holds its address
    Id id;

    std::string where(const std::string& object) const { return shortened(path) + ":" + object; }
};

/// Opens a file, without a look at what it holds. Errors: Error when it is no regular file, or empty.
InputFile open_file(const std::string& path);

/// Opens it as HDF5. Errors: Error when it is no HDF5 file, or shorter than its superblock says.
void open_hdf5(InputFile& file);

/// Errors: Error when somebody has written to the file since it was opened.
void require_unchanged(const InputFile& file);

/// A dataset whose declarations have been checked against the file.
struct StoredDataset {
    Id id;
    std::string where;
    Dtype dtype = Dtype::f32;         ///< how its elements are stored; f32, too, where they are words
    std::vector<std::int64_t> dims;   ///< as expected
    std::vector<std::int64_t> chunk;  ///< empty when contiguous
    std::int64_t chunk_bytes = 0;     ///< 0 when contiguous
    std::int64_t declared_bytes = 0;  ///< of all elements
    std::int64_t stored_bytes = 0;    ///< space that its elements take in the file; 0: nothing was stored
    std::int64_t offset = 0;          ///< address of its first element in the file, when contiguous
};

/// Opens the group at an absolute path; nullopt when there is none.
/// Errors: Error for an object of another kind, and for a link that is not a hard link.
std::optional<Id> open_group(const InputFile& file, const std::string& path);

/// Whether there is anything at an absolute path. Errors: as open_group.
bool has_object(const InputFile& file, const std::string& path);

/// Opens the dataset at an absolute path for its attributes alone; nullopt when there is none. Errors: as
/// open_group.
std::optional<Id> open_header(const InputFile& file, const std::string& path);

/// In the dimensions that a dataset must have: any size.
inline constexpr std::int64_t any_size = -1;

/// Opens the dataset at an absolute path; nullopt when there is none. Its elements may be stored as float32
/// or as `dtype`; its dimensions must be `dims`.
/// Errors: as open_group; and Error for a virtual or compact dataset, external storage, filters, another
/// element type, other dimensions, or when it declares more than the file holds.
std::optional<StoredDataset> open_dataset(const InputFile& file, const std::string& path, Dtype dtype,
                                          std::span<const std::int64_t> dims);

/// The same of any dimensions, none among them, where all elements are stored one after the other.
std::optional<StoredDataset> open_whole_dataset(const InputFile& file, const std::string& path, Dtype dtype);

/// The same of a dataset of uint32.
std::optional<StoredDataset> open_words(const InputFile& file, const std::string& path,
                                        std::span<const std::int64_t> dims);

/// Errors: Error unless the dataset is contiguous and everything it declares is stored.
void require_whole(const StoredDataset& dataset);

/// A contiguous array whose elements all lie in the file.
struct StoredArray {
    Id id;
    std::string where;
    std::vector<std::int64_t> dims;
    std::int64_t elements = 0;
    std::int64_t element_bytes = 0;
    std::int64_t offset = 0;  ///< address of its first element in the file
};
enum class Elements { integers, floats };  ///< int32 or int64; float32

/// Opens an array of any shape at an absolute path; nullopt when there is none. Checks as open_dataset.
std::optional<StoredArray> open_array(const InputFile& file, const std::string& path, Elements elements);

/// Errors: Error unless the array has the dimensions.
void require_dims(const StoredArray& array, std::span<const std::int64_t> dims);

/// All elements of an array of integers, or of floats. Errors: Error when they cannot be read.
std::vector<std::int64_t> read_integers(const InputFile& file, const StoredArray& array);
std::vector<float> read_floats(const InputFile& file, const StoredArray& array);

/// Opens a contiguous int64 table with `cols` columns and any number of rows; checks as above.
struct StoredTable {
    std::string where;
    std::int64_t rows = 0;
    std::int64_t offset = 0;  ///< address of its first element in the file
};
std::optional<StoredTable> open_table(const InputFile& file, const std::string& path, std::int64_t cols);

}  // namespace tilescope::hdf5
