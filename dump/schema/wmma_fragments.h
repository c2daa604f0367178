#pragma once

#include <cstdint>
#include <span>

#include "dump/schema/thread_layout.h"

namespace tilescope {

/// Whether a stage names one of the fragments below that the layouts do not give.
bool needs_wmma_fragments(const ThreadLayouts& layouts);

/// Adds those that stages name, from what the GPU said: `places` are those of Sink::wmma_places. The
/// fragments are wmma_16x16_f32, wmma_16x16_f16, wmma_32x8_f32, wmma_32x8_f16, wmma_8x32_f32 and
/// wmma_8x32_f16.
void add_wmma_fragments(std::span<const std::uint16_t> places, ThreadLayouts& layouts);

}  // namespace tilescope
