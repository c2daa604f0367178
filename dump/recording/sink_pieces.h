#pragma once

// Memory that the host cannot read where it lies, such as a GPU's: it is copied piece by piece, one ahead of
// the other.

#include <cstddef>
#include <memory>
#include <span>

#include "dump/recording/capture_plan.h"
#include "dump/recording/sink_contents.h"

namespace tilescope {

/// How such memory is copied.
class PieceCopier {
 public:
    PieceCopier() = default;
    PieceCopier(const PieceCopier&) = delete;
    PieceCopier& operator=(const PieceCopier&) = delete;
    /// Waits for all copies.
    virtual ~PieceCopier() = default;

    /// Two buffers of the same size in host memory, aligned to 8 bytes.
    virtual std::span<std::byte> buffer(int index) = 0;
    /// Begins to copy from `offset` on to a buffer; copies are made in the order in which they began.
    virtual void start(int index, std::size_t offset, std::size_t bytes) = 0;
    /// Waits for the last copy to the buffer. Errors: Error when the memory cannot be read.
    virtual void wait(int index) = 0;
};

/// Bytes that buffers for pieces of `piece_bytes` have: a piece, and the rest of a tile that begins in it.
std::size_t piece_buffer_bytes(const CapturePlan& plan, std::size_t piece_bytes);

/// Copies what begins at `offset`, through the buffers. Errors: those of the copier.
void copy_pieces(PieceCopier& copier, std::size_t offset, std::span<std::byte> out);

/// Contents of the plan's memory behind `copier`. `piece_bytes` is a multiple of 4.
std::unique_ptr<SinkContents> piece_contents(const CapturePlan& plan, std::unique_ptr<PieceCopier> copier,
                                             std::size_t piece_bytes);

}  // namespace tilescope
