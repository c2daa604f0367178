#include "dump/flight_recorder.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "dump/capture/device.cuh"
#include "dump/capture/flight_device.cuh"
#include "dump/capture/memory.cuh"
#include "dump/schema/error.h"
#include "dump/writer.h"

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

constexpr std::array operands = {Input::q, Input::k, Input::v};
constexpr std::array<const char*, operands.size()> operand_names = {"q", "k", "v"};
constexpr std::array<std::vector<std::byte> InputArrays::*, operands.size()> operand_arrays = {
    &InputArrays::q, &InputArrays::k, &InputArrays::v};
constexpr std::array<Descale SideInputs::*, operands.size()> operand_descales = {
    &SideInputs::descale_q, &SideInputs::descale_k, &SideInputs::descale_v};

/// Where an array lies among those that an entry keeps.
struct KeptArray {
    std::size_t offset = 0;
    std::size_t bytes = 0;
};

}  // namespace

struct FlightRecorder::Impl {
    Impl(const Problem& problem, FlightOptions options);
    void lay_out_inputs();
    void copy(const std::array<KeptArray, operands.size()>& to,
              const std::array<const void*, operands.size()>& from, FlightCopied copied, void* stream) const;
    std::byte* inputs_of(std::size_t entry) const { return inputs.get() + entry * input_stride; }
    InputArrays copy_inputs(std::size_t entry) const;
    SideInputs copy_side_inputs(std::size_t entry) const;

    FlightPlan plan;
    int device = 0;
    std::array<KeptArray, operands.size()> kept_inputs;
    std::array<KeptArray, operands.size()> kept_descales;
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
        lay_out_inputs();
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

void FlightRecorder::Impl::lay_out_inputs() {
    const auto take = [&](std::size_t bytes) {
        const std::size_t offset = input_stride;
        input_stride += aligned(bytes);
        return KeptArray{offset, bytes};
    };
    for (std::size_t i = 0; i < operands.size(); ++i) {
        kept_inputs[i] = take(input_bytes(plan.plan().problem(), operands[i]));
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const Descale& descale = plan.options().side_inputs.*operand_descales[i];
        kept_descales[i] = take(descale.values.size() * sizeof(float));
    }
}

/// Copies arrays of the launch that next() was called for; the last of them says what is there then. Errors:
/// Error when one of them is null.
void FlightRecorder::Impl::copy(const std::array<KeptArray, operands.size()>& to,
                                const std::array<const void*, operands.size()>& from, FlightCopied copied,
                                void* stream) const {
    if (!inputs) return;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (to[i].bytes == 0 || from[i] != nullptr) continue;
        const bool is_input = copied == FlightCopied::inputs;
        throw Error(std::string(operand_names[i]) + " is a null pointer",
                    is_input ? "flight recorder, inputs()" : "flight recorder, descales()",
                    is_input
                        ? "give arrays in device memory, or set options.keep_inputs to false"
                        : "give an array in device memory for each descale that options.side_inputs has");
    }
    const OnDevice on(device);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        require_cuda(flight_copy(memory, std::uint32_t(current), inputs_of(current) + to[i].offset, from[i],
                                 to[i].bytes, i + 1 == operands.size() ? copied : FlightCopied::a_part,
                                 static_cast<cudaStream_t>(stream)),
                     "copying the inputs of a launch");
    }
}

InputArrays FlightRecorder::Impl::copy_inputs(std::size_t entry) const {
    InputArrays arrays;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        std::vector<std::byte>& array = arrays.*operand_arrays[i];
        array.resize(kept_inputs[i].bytes);
        copy_to_host(array.data(), inputs_of(entry) + kept_inputs[i].offset, array.size());
    }
    return arrays;
}

SideInputs FlightRecorder::Impl::copy_side_inputs(std::size_t entry) const {
    SideInputs side = plan.options().side_inputs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        std::vector<float>& values = (side.*operand_descales[i]).values;
        copy_to_host(values.data(), inputs_of(entry) + kept_descales[i].offset, values.size());
    }
    return side;
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
    impl_->copy(impl_->kept_inputs, {q, k, v}, FlightCopied::inputs, stream);
}

void FlightRecorder::descales(const float* q, const float* k, const float* v, void* stream) {
    impl_->copy(impl_->kept_descales, {q, k, v}, FlightCopied::descales, stream);
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
        const auto is_there = [&](unsigned long long launch) {
            return impl_->inputs && launch == entries[entry].launch;
        };
        runs.push_back(impl_->plan.recording(
            std::move(copy),
            is_there(entries[entry].inputs_launch) ? impl_->copy_inputs(entry) : InputArrays(),
            is_there(entries[entry].descales_launch) ? impl_->copy_side_inputs(entry)
                                                     : impl_->plan.options().side_inputs,
            std::int64_t(entries[entry].launch)));
    }
    return runs;
}

void FlightRecorder::save(const std::string& path) const {
    const std::vector<CapturedRun> runs = recordings();
    if (runs.empty()) throw Error("there was no launch", "flight recorder", "call next() for each");
    save_recording(path, runs.back());
}

int FlightRecorder::save_all(const std::string& path) const {
    const std::vector<CapturedRun> runs = recordings();
    for (std::size_t i = 0; i < runs.size(); ++i) save_recording(path + "." + std::to_string(i), runs[i]);
    return int(runs.size());
}

}  // namespace tilescope
