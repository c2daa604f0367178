#pragma once

#include <cstdint>
#include <optional>

#include "dump/file/contents.h"

namespace tilescope::hdf5 {

/// The chunks of an open recording's datasets. HDF5 is asked under a lock that all threads of the program share, so each
/// thread asks for a stretch of KV tiles at once, and keeps what it was told. Thread-safe.
class Chunks {
 public:
    explicit Chunks(const Contents& contents);

    /// Where the chunk of the tile begins in the file; nullopt: there is none. `dataset` is one of the contents'.
    /// Errors: Error for a damaged file.
    std::optional<std::int64_t> address_of(const StoredDataset& dataset, Stage stage,
                                           const TileId& tile) const;

 private:
    const Contents& contents_;
    std::uint64_t number_;  ///< no other in this process has it
};

}  // namespace tilescope::hdf5
