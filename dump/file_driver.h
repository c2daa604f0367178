#pragma once

#include <hdf5.h>

namespace tilescope::hdf5 {

/// Where a driver writes, and the first error it met.
struct DriverTarget {
    int descriptor = -1;
    int error = 0;  ///< errno of the first read, write or resize that failed; 0 for none
};

/// Makes `fapl` write through a driver that keeps errors in `target` and tells HDF5 that all went well.
/// HDF5 1.10 cannot close a file whose last writes fail: it frees the file, keeps its id, and crashes when
/// the program ends. With this driver closing always succeeds, and the caller looks at `target` instead.
/// `target` must outlive the file. Returns whether the driver could be set.
bool set_driver(hid_t fapl, DriverTarget& target);

}  // namespace tilescope::hdf5
