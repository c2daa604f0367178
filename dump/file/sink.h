#pragma once

#include <cstddef>
#include <string>

#include "dump/recording.h"
#include "dump/recording/capture_plan.h"
#include "dump/recording/memory_block.h"

namespace tilescope {

/// Memory for a sink that outlives its process: a file that open_recording() reads at any moment, however the
/// process ends. dump/FORMAT.md describes it. Memory that a GPU is to write must be of a file on tmpfs, such
/// as /dev/shm.
class SinkFile {
 public:
    /// Creates the file with room for the plan's memory, filled as CapturePlan::fill_unwritten() does. It
    /// appears under `path` once it is a readable recording, replaces what stood there, and only its owner
    /// may read it. While the memory exists and the run has not ended, no program of this project replaces
    /// it. `max_bytes` is what the plan was given; `call` is the recording without its tiles. Errors: Error
    /// when there is no room for it, those of write_recording(), and Error for a plan that keeps writers.
    SinkFile(const std::string& path, const CapturePlan& plan, std::size_t max_bytes, const Recording& call);

    /// The plan's memory; it lives on after the SinkFile, whose file is neither changed nor removed at its
    /// end.
    const MemoryBlock& memory() const { return memory_; }

    /// Says in the file how the run ended; of long text only the first 256 bytes are kept.
    void set_ended(const std::string& how) const;
    /// A kernel is to write to it again.
    void set_running() const;

 private:
    void set_text(const std::string& how) const;

    MemoryBlock memory_;
    int held_ = -1;  ///< descriptor of the file, as long as the memory is there
};

}  // namespace tilescope
