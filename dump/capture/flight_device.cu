#include "dump/capture/flight_device.cuh"

namespace tilescope {

namespace {

constexpr unsigned threads = 256;

unsigned blocks_for(std::size_t elements) {
    constexpr std::size_t most_blocks = 4096;
    const std::size_t blocks = (elements + threads - 1) / threads;
    return unsigned(blocks < 1 ? 1 : blocks < most_blocks ? blocks : most_blocks);
}

__device__ std::size_t first_of_thread() {
    return std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::size_t step_of_threads() {
    return std::size_t(gridDim.x) * blockDim.x;
}

__global__ void begin(FlightMemory memory, std::uint32_t entry) {
    if (memory.state->frozen != 0) return;
    std::uint32_t* const words = memory.ring + std::size_t(entry) * memory.words;
    for (std::size_t i = first_of_thread(); i < memory.words; i += step_of_threads()) {
        words[i] = i < memory.head_words ? memory.head[i] : unwritten_bits;
    }
    if (first_of_thread() == 0) memory.entries[entry].launch = memory.state->launches++;
}

template <class Piece>
__global__ void copy(FlightMemory memory, std::uint32_t entry, Piece* to, const Piece* from,
                     std::size_t pieces, FlightCopied copied) {
    if (memory.state->frozen != 0) return;
    for (std::size_t i = first_of_thread(); i < pieces; i += step_of_threads()) to[i] = from[i];
    if (first_of_thread() != 0) return;
    FlightEntry& noted = memory.entries[entry];
    if (copied == FlightCopied::inputs) noted.inputs_launch = noted.launch;
    if (copied == FlightCopied::descales) noted.descales_launch = noted.launch;
}

/// The first element of the entry that stops the recording.
__global__ void look(FlightMemory memory, std::uint32_t entry, FlightStages stages) {
    if (memory.state->frozen != 0) return;
    const std::uint32_t* const words = memory.ring + std::size_t(entry) * memory.words + memory.head_words;
    unsigned long long first = ~0ull;
    for (const FlightStage& stage : stages.stages) {
        for (std::size_t i = stage.first + first_of_thread(); i < stage.last; i += step_of_threads()) {
            if (i < first && stops_flight(words[i], stage.limit_bits, stage.hides)) first = i;
        }
    }
    if (first != ~0ull) atomicMin(&memory.state->place, first);
}

/// What hooks of any later launch look up says that nothing is selected.
__global__ void close_tables(FlightMemory memory) {
    if (memory.state->frozen != 0 || memory.state->place == ~0ull) return;
    const std::size_t of_entry = memory.tables_last - memory.tables_first;
    for (std::size_t i = first_of_thread(); i < of_entry * memory.launches; i += step_of_threads()) {
        memory.ring[i / of_entry * memory.words + memory.tables_first + i % of_entry] = ~0u;
    }
}

__global__ void settle(FlightMemory memory, std::uint32_t entry) {
    FlightState& state = *memory.state;
    if (state.frozen != 0 || state.place == ~0ull) return;
    state.frozen_entry = entry;
    state.frozen_launch = memory.entries[entry].launch;
    state.value_bits = memory.ring[std::size_t(entry) * memory.words + memory.head_words + state.place];
    FlightState seen = state;
    *memory.seen = seen;
    __threadfence_system();
    volatile std::uint32_t* const frozen = &memory.seen->frozen;
    *frozen = 1;
    state.frozen = 1;
}

}  // namespace

cudaError_t flight_begin(const FlightMemory& memory, std::uint32_t entry, cudaStream_t stream) {
    begin<<<blocks_for(memory.words), threads, 0, stream>>>(memory, entry);
    return cudaPeekAtLastError();
}

cudaError_t flight_copy(const FlightMemory& memory, std::uint32_t entry, void* to, const void* from,
                        std::size_t bytes, FlightCopied copied, cudaStream_t stream) {
    const auto is_multiple = [&](std::size_t size) {
        return reinterpret_cast<std::uintptr_t>(to) % size == 0 &&
               reinterpret_cast<std::uintptr_t>(from) % size == 0 && bytes % size == 0;
    };
    if (is_multiple(sizeof(uint4))) {
        const std::size_t pieces = bytes / sizeof(uint4);
        copy<<<blocks_for(pieces), threads, 0, stream>>>(memory, entry, static_cast<uint4*>(to),
                                                         static_cast<const uint4*>(from), pieces, copied);
    } else {
        copy<<<blocks_for(bytes), threads, 0, stream>>>(memory, entry, static_cast<unsigned char*>(to),
                                                        static_cast<const unsigned char*>(from), bytes,
                                                        copied);
    }
    return cudaPeekAtLastError();
}

cudaError_t flight_check(const FlightMemory& memory, std::uint32_t entry, const FlightStages& stages,
                         cudaStream_t stream) {
    look<<<blocks_for(memory.words), threads, 0, stream>>>(memory, entry, stages);
    close_tables<<<blocks_for((memory.tables_last - memory.tables_first) * memory.launches), threads, 0,
                   stream>>>(memory);
    settle<<<1, 1, 0, stream>>>(memory, entry);
    return cudaPeekAtLastError();
}

}  // namespace tilescope
