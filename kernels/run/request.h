#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "dump/hook/sink.h"
#include "dump/schema.h"
#include "dump/schema/selection.h"
#include "kernels/attention/registry.h"
#include "kernels/run/inputs.h"
#include "kernels/run/options.h"

namespace tilescope {

enum class Engine { cpu, cuda };

/// A run that can be done: every name is resolved and every size is one that the kernel supports.
struct RunRequest {
    const KernelInfo* kernel = nullptr;
    KernelConfig config;
    Fault fault = Fault::none;
    Problem problem;
    const InputKind* input = nullptr;
    std::uint64_t seed = 0;
    Selection selection;
    std::size_t sink_bytes = 0;
    SinkMemory sink_memory = SinkMemory::device;  ///< of a run on the GPU, but for a file
    SinkMode sink_mode = SinkMode::tiles;
    std::optional<std::uint32_t> jitter;      ///< as CaptureOptions has it, of a run on the GPU
    std::chrono::milliseconds time_limit{0};  ///< of a run on the GPU; zero: none
    std::string sink_file;                    ///< of SinkMemory::file, and otherwise empty
    Engine engine = Engine::cpu;
    std::string notice;   ///< why the engine is not the usual one; empty when it is
    std::string command;  ///< command line that records it again
};

/// Errors: Error naming the option that is missing, unknown or out of range, or the engine that is not here.
RunRequest make_request(const RunOptions& options);

/// AttentionArgs::products_pitch: a multiple of 64, so that each row begins where tensor cores may store it.
constexpr std::int64_t products_pitch(std::int64_t seqlen_kv) {
    return (seqlen_kv + 63) / 64 * 64;
}

/// The arguments of the kernel but for its arrays.
AttentionArgs sizes_of(const Problem& problem);

std::string to_string(const Launch& launch);

}  // namespace tilescope
