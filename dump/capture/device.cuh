#pragma once

// The kernels of a capture.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tilescope {

/// Fills `words` words with unwritten_bits, when the stream comes to it.
cudaError_t fill_unwritten_async(std::uint32_t* memory, std::size_t words, cudaStream_t stream);

/// Asks the current device where the elements of its WMMA accumulators lie, for Sink::wmma_places: `places`
/// is device memory for wmma_tables * 32 * wmma_values numbers.
cudaError_t find_wmma_places(std::uint16_t* places, cudaStream_t stream);

}  // namespace tilescope
