#pragma once

// A file that is being written.

#include "dump/file_driver.h"
#include "dump/file_hdf5.h"

namespace tilescope::hdf5 {

struct OutputFile {
    Id id;
    DriverTarget target;

    /// HDF5 does not learn of failed writes; there is no point in going on after one. Errors: Failure.
    void check_written() const {
        if (target.error != 0) throw Failure();
    }
};

}  // namespace tilescope::hdf5
