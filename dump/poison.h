#pragma once

#include <cstdint>

struct CUstream_st;

namespace tilescope {

/// Fills all shared memory that thread blocks of the current device can be given with `word`, on every
/// multiprocessor, so that a kernel launched next in `stream`, on a GPU that runs nothing else, finds it
/// there where it reads shared memory that it has not written: all of it, or nearly (a kernel whose blocks
/// take another share of a multiprocessor's memory found up to 2.3 % of the words changed on an H200). Waits
/// for the stream. Returns the number of multiprocessors, each of which was seen to be filled. Part of
/// tilescope::capture, with hooks or without; Capture::poison() says so in the recording as well.
///
/// Registers cannot be poisoned: which ones a kernel reads before it writes them is the compiler's choice,
/// and no program can write to those of another. The 1 KiB that CUDA keeps for itself in each block is left
/// out. Errors: Error when the device refuses, or when a multiprocessor was not reached.
int poison_shared_memory(std::uint32_t word, CUstream_st* stream = nullptr);

}  // namespace tilescope
