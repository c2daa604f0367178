#include "dump/program_capture.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "dump/capture/device.cuh"
#include "dump/capture/device_provenance.h"
#include "dump/capture/memory.cuh"
#include "dump/program_file.h"
#include "dump/recording/program_rooms.h"
#include "dump/schema/error.h"
#include "dump/schema/shared_selection.h"

namespace tilescope {

namespace {

struct FreeCuda {
    bool is_mapped = false;
    void operator()(std::byte* memory) const { is_mapped ? cudaFreeHost(memory) : cudaFree(memory); }
};

/// Memory that a kernel writes, of the device or mapped.
class WrittenMemory {
 public:
    WrittenMemory(std::size_t bytes, bool is_mapped) : bytes_(bytes) {
        void* memory = nullptr;
        require_cuda(
            is_mapped ? cudaHostAlloc(&memory, bytes, cudaHostAllocMapped) : cudaMalloc(&memory, bytes),
            "allocating what hooks write");
        owned_ = {static_cast<std::byte*>(memory), FreeCuda{is_mapped}};
        void* address = memory;
        if (is_mapped)
            require_cuda(cudaHostGetDevicePointer(&address, memory, 0), "mapping what hooks write");
        address_ = static_cast<std::byte*>(address);
    }

    /// For the device, what lies `offset` bytes behind the beginning.
    template <typename T>
    T* address(std::size_t offset = 0) const {
        return reinterpret_cast<T*>(address_ + offset);
    }
    /// Errors: Error when CUDA refuses; of mapped memory never.
    void read(std::size_t offset, std::span<std::byte> to) const {
        if (owned_.get_deleter().is_mapped) {
            std::memcpy(to.data(), owned_.get() + offset, to.size());
            return;
        }
        require_cuda(cudaMemcpy(to.data(), owned_.get() + offset, to.size(), cudaMemcpyDefault),
                     "copying what hooks wrote");
    }
    void write(std::size_t offset, std::span<const std::byte> from) {
        require_cuda(cudaMemcpy(owned_.get() + offset, from.data(), from.size(), cudaMemcpyDefault),
                     "preparing what hooks write");
    }
    void fill_unwritten(std::size_t offset) {
        auto* const words = reinterpret_cast<std::uint32_t*>(owned_.get() + offset);
        require_cuda(fill_unwritten_async(words, (bytes_ - offset) / sizeof *words, cudaStreamLegacy),
                     "preparing what hooks write");
        require_cuda(cudaStreamSynchronize(cudaStreamLegacy), "preparing what hooks write");
    }

 private:
    std::size_t bytes_;
    std::unique_ptr<std::byte, FreeCuda> owned_;
    std::byte* address_ = nullptr;
};

std::int64_t elements_of(const std::vector<std::int64_t>& shape, const std::string& name) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) {
        if (extent < 1 || __builtin_mul_overflow(elements, extent, &elements))
            throw Error("its shape is " + shape_text(shape), name, "give it elements");
    }
    return elements;
}

}  // namespace

struct ProgramCapture::Impl {
    Impl(const std::string& text, Options capture_options)
        : options(std::move(capture_options)), program(parse_program(text)) {
        share_names(program);
        recording.text = text;
        recording.sizes = options.sizes;
        recording.provenance = options.provenance;
        describe_device(recording.provenance);
    }

    const ProgramArray& array_of(const std::string& name, bool is_stage) const {
        const int array = program.array_named(name);
        if (array < 0 || program.array(array).is_stage != is_stage)
            throw Error(std::string("the program has no such ") + (is_stage ? "stage" : "input"), name,
                        "give those that it declares");
        return program.array(array);
    }

    /// Errors: Error when CUDA refuses.
    static ProgramTensor copied(const ProgramArray& array, const void* data,
                                const std::vector<std::int64_t>& shape) {
        ProgramTensor tensor{.dtype = array.dtype, .shape = shape};
        tensor.bits.resize(std::size_t(elements_of(shape, array.name)) *
                           std::size_t(dtype_info(array.dtype).bytes));
        require_cuda(cudaMemcpy(tensor.bits.data(), data, tensor.bits.size(), cudaMemcpyDefault),
                     "copying " + array.name);
        return tensor;
    }

    ProgramCall bind() const {
        std::map<std::string, ProgramInput> inputs;
        for (const auto& [name, tensor] : recording.inputs)
            inputs[name] = {tensor.dtype, tensor.shape, tensor.bits};
        return bind_program(program, inputs, recording.sizes);
    }

    void allocate();
    void take_hooks();

    Options options;
    Program program;
    ProgramRecording recording;
    std::vector<RecordedStage> stages;
    std::optional<WrittenMemory> memory;  ///< rooms, and the words of each stage behind them
    std::vector<std::size_t> offsets;     ///< of these words
    ProgramSink sink;
    bool failed = false;  ///< the kernel did, and mapped memory is what is left
};

void ProgramCapture::Impl::allocate() {
    const ProgramCall call = bind();
    const char* const asked = std::getenv("TILESCOPE_SELECT");
    const std::string selection =
        options.selection.value_or(asked == nullptr ? "" : part_of_program(asked, program));
    std::optional<std::vector<std::string>> names;
    if (!options.stages.empty()) names = options.stages;
    stages = recorded_stages(call, selection, names);
    const auto all = std::size_t(std::ranges::count(program.arrays, true, &ProgramArray::is_stage));
    std::size_t bytes = all * sizeof(ProgramRoom);
    for (const RecordedStage& stage : stages) {
        offsets.push_back(bytes);
        const auto elements = std::uint64_t(stage.elements());
        if (elements > (options.max_bytes - std::min(options.max_bytes, bytes)) / sizeof(std::uint32_t))
            throw Error("what is selected needs more than " + std::to_string(options.max_bytes) + " bytes",
                        "capture", "select less with TILESCOPE_SELECT, or raise max_bytes");
        bytes += elements * sizeof(std::uint32_t);
    }
    memory.emplace(bytes, options.is_mapped);
    std::vector<std::uint32_t*> words;
    for (const std::size_t offset : offsets) words.push_back(memory->address<std::uint32_t>(offset));
    const std::vector<ProgramRoom> rooms = program_rooms(call, stages, words);
    memory->write(0, std::as_bytes(std::span(rooms)));
    memory->fill_unwritten(all * sizeof(ProgramRoom));
    sink = program_sink(stages, memory->address<ProgramRoom>());
}

void ProgramCapture::Impl::take_hooks() {
    const ProgramCall call = bind();
    std::vector<ProgramRoom> rooms(
        std::size_t(std::ranges::count(program.arrays, true, &ProgramArray::is_stage)));
    memory->read(0, std::as_writable_bytes(std::span(rooms)));
    require_inside(call, rooms);
    for (std::size_t i = 0; i < stages.size(); ++i) {
        const RecordedStage& stage = stages[i];
        ProgramTensor tensor{.shape = stage.count, .first = stage.first};
        tensor.bits.resize(std::size_t(stage.elements()) * sizeof(std::uint32_t));
        memory->read(offsets[i], tensor.bits);
        tensor.conflicts = std::int64_t(rooms[std::size_t(stage.number)].conflicts);
        tensor.hooks = hooks_of(rooms[std::size_t(stage.number)]);
        const std::string& name = program.array(stage.stage).name;
        const std::span words(reinterpret_cast<const std::uint32_t*>(tensor.bits.data()),
                              std::size_t(stage.elements()));
        const bool has_hook =
            std::ranges::any_of(words, [](std::uint32_t word) { return word != unwritten_bits; });
        // An output that the host gave is whole, and in its own type.
        if ((has_hook || !options.stages.empty()) && !recording.stages.contains(name))
            recording.stages[name] = std::move(tensor);
    }
}

ProgramCapture::ProgramCapture(const std::string& text, Options options)
    : impl_(std::make_unique<Impl>(text, std::move(options))) {}
ProgramCapture::~ProgramCapture() = default;
ProgramCapture::ProgramCapture(ProgramCapture&&) noexcept = default;

void ProgramCapture::input(const std::string& name, const void* data,
                           const std::vector<std::int64_t>& shape) {
    impl_->recording.inputs[name] = Impl::copied(impl_->array_of(name, false), data, shape);
}

void ProgramCapture::input(const std::string& name, float number) {
    impl_->array_of(name, false);
    ProgramTensor tensor;
    const auto bits = std::as_bytes(std::span(&number, 1));
    tensor.bits.assign(bits.begin(), bits.end());
    impl_->recording.inputs[name] = std::move(tensor);
}

ProgramSink ProgramCapture::sink() {
    if (!impl_->memory) impl_->allocate();
    return impl_->sink;
}

void ProgramCapture::output(const std::string& name, const void* data,
                            const std::vector<std::int64_t>& shape) {
    const ProgramArray& array = impl_->array_of(name, true);
    impl_->failed = impl_->failed || cudaDeviceSynchronize() != cudaSuccess;
    if (impl_->failed && impl_->options.is_mapped) return;
    impl_->recording.stages[name] = Impl::copied(array, data, shape);
}

ProgramRecording ProgramCapture::finish() {
    if (!impl_->options.is_mapped) require_cuda(cudaDeviceSynchronize(), "waiting for the kernel");
    if (impl_->options.is_mapped) cudaDeviceSynchronize();
    if (impl_->memory) impl_->take_hooks();
    if (impl_->recording.stages.empty())
        throw Error("no hook wrote anything, and no output was given", "capture",
                    "compile the kernel with -DDEBUG_DUMP, pass it sink(), and call output() after it");
    return impl_->recording;
}

void ProgramCapture::save(const std::string& path) {
    write_program_recording(path, finish());
}

}  // namespace tilescope
