#pragma once

// A file that is being written.

#include <cstdint>
#include <functional>
#include <string>

#include "dump/file/driver.h"
#include "dump/file/hdf5.h"
#include "dump/file/temporary.h"
#include "dump/file/write_behind.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

struct OutputFile {
    explicit OutputFile(int descriptor) : behind(descriptor) {
        target.descriptor = descriptor;
        target.hide_errors = true;
        target.behind = &behind;
    }

    WriteBehind behind;  ///< of tiles
    DriverTarget target;
    Id id;

    /// HDF5 does not learn of failed writes; there is no point in going on after one. Errors: Failure.
    void check_written() const {
        if (target.error != 0 || behind.error() != 0) throw Failure();
    }
};

/// Room for the image of a sink's memory in a file that is written.
struct SinkRoom {
    std::size_t bytes = 0;      ///< of the plan's memory
    std::size_t max_bytes = 0;  ///< what CapturePlan was given
    std::int64_t offset = 0;    ///< where in the file it begins
};

/// Creates an HDF5 file in a temporary file that is not committed, with room for an image unless `sink` is null, and lets
/// `write_contents` write what it holds. Errors: Error naming `path`.
void fill_file(const TemporaryFile& temporary, const std::string& path, const SinkRoom* sink,
               const std::function<void(OutputFile&)>& write_contents);

/// Writes a recording into a temporary file that is not committed: with `capture` in place of its own, and
/// with room for an image unless `sink` is null. Errors: Error naming `path`.
void write_file(const TemporaryFile& temporary, const std::string& path, const Recording& recording,
                const CaptureSummary& capture, SinkRoom* sink);

}  // namespace tilescope::hdf5
