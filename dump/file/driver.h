#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>

#include "dump/file/hdf5.h"

namespace tilescope::hdf5 {

class WriteBehind;

/// What a file driver of ours works on, and what it tells.
struct DriverTarget {
    int descriptor = -1;

    /// As HDF5 knows it, from set_driver() on. HDF5 1.10 reads it after it let go of it, where the file that is closed
    /// is the last that holds it: so the target holds it, too.
    Id driver;

    /// Errors are kept in `error` (errno of the first) and HDF5 is told that all went well. HDF5 1.10 cannot
    /// close a file whose last writes fail: it frees the file, keeps its id, and crashes when the program
    /// ends.
    bool hide_errors = false;
    int error = 0;

    /// Takes the elements that it has the room of; null: everything is written at once.
    WriteBehind* behind = nullptr;

    /// Elements that HDF5 reads stay in the file; where they lie is put here. So they can be read without
    /// the library, on several threads, and never more of them than there is room for: H5Dread_chunk of HDF5
    /// 1.10 reads as many bytes as the file says.
    bool locate_elements = false;
    std::int64_t located_at = -1;
    std::int64_t located_bytes = 0;
};

/// Makes `fapl` use a driver on `target`, which must outlive the file; the name given to H5Fopen or H5Fcreate
/// is not used then. Returns whether the driver could be set.
bool set_driver(hid_t fapl, DriverTarget& target);

/// Reads exactly `bytes` at `address`. Returns whether it could; errno tells why not, 0 for the file's end.
bool read_exactly(int descriptor, std::int64_t address, std::int64_t bytes, void* buffer);

/// Writes all of `bytes` at `address`. Returns 0, or errno of the failure.
int write_exactly(int descriptor, std::int64_t address, std::size_t bytes, const void* buffer);

}  // namespace tilescope::hdf5
