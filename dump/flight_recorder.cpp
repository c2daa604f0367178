#include "dump/flight_recorder.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "dump/capture_device.cuh"
#include "dump/capture_memory.cuh"
#include "dump/error.h"
#include "dump/file_writer.h"
#include "dump/flight_device.cuh"

namespace tilescope {

namespace {

constexpr const char* setting_up = "setting up the flight recorder";

struct FreeDevice {
    void operator()(void* memory) const { cudaFree(memory); }
};
struct FreeHost {
    void operator()(void* memory) const { cudaFreeHost(memory); }
};
using DeviceBytes = std::unique_ptr<std::byte, FreeDevice>;

DeviceBytes allocate(std::size_t bytes) {
    void* memory = nullptr;
    require_cuda(cudaMalloc(&memory, bytes),
                 "allocating " + std::to_string(bytes) + " bytes of device memory");
    return DeviceBytes(static_cast<std::byte*>(memory));
}

/// Device memory that holds `elements`.
template <class Element>
DeviceBytes copy_of(const std::vector<Element>& elements) {
    DeviceBytes memory = allocate(elements.size() * sizeof(Element));
    require_cuda(
        cudaMemcpy(memory.get(), elements.data(), elements.size() * sizeof(Element), cudaMemcpyHostToDevice),
        setting_up);
    return memory;
}

template <class Element>
void copy_to_host(Element* to, const void* from, std::size_t elements) {
    require_cuda(cudaMemcpy(to, from, elements * sizeof(Element), cudaMemcpyDeviceToHost),
                 "reading the flight recorder");
}

std::size_t aligned(std::size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

}  // namespace

struct FlightRecorder::Impl {
    Impl(const Problem& problem, FlightOptions options);
    std::size_t input_offset(Input input) const;
    std::byte* inputs_of(std::size_t entry) const { return inputs.get() + entry * input_stride; }
    InputArrays copy_inputs(std::size_t entry) const;

    FlightPlan plan;
    int device = 0;
    std::size_t input_stride = 0;
    std::size_t current = 0;  ///< entry of the launch that next() was called for last
    std::size_t begun = 0;
    FlightMemory memory;
    DeviceBytes state, entries, ring, head, places, inputs;
    std::unique_ptr<FlightState, FreeHost> seen;
};

FlightOptions with_wmma_fragments(FlightOptions options) {
    ask_for_wmma_fragments(options.threads);
    return options;
}

FlightRecorder::Impl::Impl(const Problem& problem, FlightOptions options)
    : plan(problem, with_wmma_fragments(std::move(options))) {
    require_cuda(cudaGetDevice(&device), "looking for a GPU");
    const CapturePlan& layout = plan.plan();
    const std::size_t launches = std::size_t(plan.options().launches);
    // An entry starts where a plan's memory may.
    const std::size_t stride = aligned(layout.bytes());
    state = copy_of(std::vector<FlightState>(1));
    entries = copy_of(std::vector<FlightEntry>(launches));
    head = copy_of(layout.head());
    ring = allocate(stride * launches);
    places = allocate(wmma_tables * 32 * wmma_values * sizeof(std::uint16_t));
    require_cuda(find_wmma_places(reinterpret_cast<std::uint16_t*>(places.get()), nullptr), setting_up);
    if (plan.options().keep_inputs) {
        input_stride = input_offset(Input::dout);
        inputs = allocate(input_stride * launches);
    }
    void* mapped = nullptr;
    require_cuda(cudaHostAlloc(&mapped, sizeof(FlightState), cudaHostAllocMapped), setting_up);
    seen.reset(new (mapped) FlightState());
    void* on_device = nullptr;
    require_cuda(cudaHostGetDevicePointer(&on_device, mapped, 0), setting_up);

    memory.state = reinterpret_cast<FlightState*>(state.get());
    memory.seen = static_cast<FlightState*>(on_device);
    memory.entries = reinterpret_cast<FlightEntry*>(entries.get());
    memory.ring = reinterpret_cast<std::uint32_t*>(ring.get());
    memory.head = reinterpret_cast<const std::uint32_t*>(head.get());
    memory.words = stride / sizeof(std::uint32_t);
    memory.head_words = layout.head_bytes() / sizeof(std::uint32_t);
    const std::int64_t dkv_heads =
        problem.direction == Direction::backward ? problem.batch * problem.dkv_heads() : 0;
    memory.tables_first = sizeof(SinkCounters) / sizeof(std::uint32_t);
    memory.tables_last =
        memory.tables_first +
        std::size_t(problem.batch * problem.heads * problem.q_blocks() + problem.kv_tiles() + dkv_heads);
    memory.launches = std::uint32_t(launches);
    require_cuda(cudaDeviceSynchronize(), setting_up);
}

/// Where an input lies among those of an entry.
std::size_t FlightRecorder::Impl::input_offset(Input input) const {
    std::size_t offset = 0;
    for (const Input before : {Input::q, Input::k, Input::v}) {
        if (before < input) offset += aligned(input_bytes(plan.plan().problem(), before));
    }
    return offset;
}

InputArrays FlightRecorder::Impl::copy_inputs(std::size_t entry) const {
    InputArrays arrays;
    const std::pair<Input, std::vector<std::byte>*> all[] = {
        {Input::q, &arrays.q}, {Input::k, &arrays.k}, {Input::v, &arrays.v}};
    for (const auto& [input, array] : all) {
        array->resize(input_bytes(plan.plan().problem(), input));
        copy_to_host(array->data(), inputs_of(entry) + input_offset(input), array->size());
    }
    return arrays;
}

FlightRecorder::FlightRecorder(const Problem& problem, FlightOptions options)
    : impl_(std::make_unique<Impl>(problem, std::move(options))) {}
FlightRecorder::~FlightRecorder() = default;
FlightRecorder::FlightRecorder(FlightRecorder&&) noexcept = default;

Sink FlightRecorder::next(void* stream) {
    const OnDevice on(impl_->device);
    const FlightMemory& memory = impl_->memory;
    impl_->current = impl_->begun++ % memory.launches;
    require_cuda(flight_begin(memory, std::uint32_t(impl_->current), static_cast<cudaStream_t>(stream)),
                 "beginning a launch of the flight recorder");
    Sink sink =
        impl_->plan.plan().sink(reinterpret_cast<std::byte*>(memory.ring + impl_->current * memory.words));
    sink.wmma_places = reinterpret_cast<const std::uint16_t*>(impl_->places.get());
    return sink;
}

void FlightRecorder::inputs(const void* q, const void* k, const void* v, void* stream) {
    if (!impl_->inputs) return;
    const OnDevice on(impl_->device);
    const std::pair<Input, const void*> all[] = {{Input::q, q}, {Input::k, k}, {Input::v, v}};
    for (const auto& [input, from] : all) {
        std::byte* const to = impl_->inputs_of(impl_->current) + impl_->input_offset(input);
        require_cuda(flight_copy(impl_->memory, std::uint32_t(impl_->current), to, from,
                                 input_bytes(impl_->plan.plan().problem(), input), input == Input::v,
                                 static_cast<cudaStream_t>(stream)),
                     "copying the inputs of a launch");
    }
}

void FlightRecorder::check(void* stream) {
    if (impl_->begun == 0) return;
    const OnDevice on(impl_->device);
    require_cuda(flight_check(impl_->memory, std::uint32_t(impl_->current), impl_->plan.stages(),
                              static_cast<cudaStream_t>(stream)),
                 "looking at a launch");
}

std::optional<FlightFreeze> FlightRecorder::frozen() const {
    if (std::atomic_ref(impl_->seen->frozen).load(std::memory_order_acquire) == 0) return std::nullopt;
    return impl_->plan.freeze_of(*impl_->seen);
}

std::vector<CapturedRun> FlightRecorder::recordings() const {
    const OnDevice on(impl_->device);
    require_cuda(cudaDeviceSynchronize(), "waiting for the launches of a flight recorder");
    const FlightMemory& memory = impl_->memory;
    std::vector<FlightEntry> entries(memory.launches);
    copy_to_host(entries.data(), memory.entries, entries.size());
    std::vector<std::size_t> kept;
    for (std::size_t entry = 0; entry < entries.size(); ++entry) {
        if (entries[entry].launch != ~0ull) kept.push_back(entry);
    }
    std::ranges::sort(kept, {}, [&](std::size_t entry) { return entries[entry].launch; });
    std::vector<CapturedRun> runs;
    for (const std::size_t entry : kept) {
        std::vector<std::byte> copy(impl_->plan.plan().bytes());
        copy_to_host(copy.data(), memory.ring + entry * memory.words, copy.size());
        const bool has_inputs = impl_->inputs && entries[entry].inputs_launch == entries[entry].launch;
        runs.push_back(impl_->plan.recording(std::move(copy),
                                             has_inputs ? impl_->copy_inputs(entry) : InputArrays(),
                                             std::int64_t(entries[entry].launch)));
    }
    return runs;
}

void FlightRecorder::save(const std::string& path) const {
    const std::vector<CapturedRun> runs = recordings();
    if (runs.empty()) throw Error("there was no launch", "flight recorder", "call next() for each");
    write_recording(path, runs.back());
}

int FlightRecorder::save_all(const std::string& path) const {
    const std::vector<CapturedRun> runs = recordings();
    for (std::size_t i = 0; i < runs.size(); ++i) write_recording(path + "." + std::to_string(i), runs[i]);
    return int(runs.size());
}

}  // namespace tilescope
