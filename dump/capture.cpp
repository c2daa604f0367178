#include "dump/capture.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "dump/error.h"
#include "dump/file_writer.h"

namespace tilescope {

namespace {

struct FreeDevice {
    void operator()(std::byte* memory) const { cudaFree(memory); }
};
struct FreeMapped {
    void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};

void require(cudaError_t status, const std::string& doing) {
    if (status == cudaSuccess) return;
    throw Error(std::string(cudaGetErrorString(status)) + " while " + doing, "capture",
                "check that the GPU has room for it, select fewer tiles or lower max_bytes");
}

/// Fills device memory with unwritten_bits: a slab from the host, then copies of what is filled already.
cudaError_t fill_unwritten(std::byte* begin, std::size_t bytes) {
    constexpr std::size_t slab_words = std::size_t(1) << 18;
    const std::vector<std::uint32_t> slab(slab_words, unwritten_bits);
    std::size_t filled = std::min(bytes, slab_words * sizeof(std::uint32_t));
    cudaError_t status = cudaMemcpy(begin, slab.data(), filled, cudaMemcpyHostToDevice);
    while (status == cudaSuccess && filled < bytes) {
        const std::size_t count = std::min(filled, bytes - filled);
        status = cudaMemcpy(begin + filled, begin, count, cudaMemcpyDeviceToDevice);
        filled += count;
    }
    return status;
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts = {};
    gmtime_r(&now, &parts);
    char text[sizeof "2000-01-01T00:00:00Z"];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

void fill_if_empty(std::string& field, const std::string& value) {
    if (field.empty()) field = value;
}

void describe_device(Provenance& provenance) {
    int device = 0;
    cudaDeviceProp properties = {};
    require(cudaGetDevice(&device), "looking for a GPU");
    require(cudaGetDeviceProperties(&properties, device), "asking for the GPU's properties");
    int version = 0;
    require(cudaRuntimeGetVersion(&version), "asking for the CUDA version");
    fill_if_empty(provenance.device, properties.name);
    fill_if_empty(provenance.compute_capability,
                  std::to_string(properties.major) + "." + std::to_string(properties.minor));
    fill_if_empty(provenance.cuda_version,
                  std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10));
    fill_if_empty(provenance.time, utc_now());
}

Selection selection_of(const CaptureOptions& options) {
    return options.selection ? *options.selection : selection_from_environment();
}

}  // namespace

struct Capture::Impl {
    Impl(const Problem& problem, Options capture_options);
    void allocate_device();
    void allocate_mapped();
    void note(cudaError_t status, const std::string& doing);
    std::vector<std::byte> copy_to_host(const void* from, std::size_t bytes, const std::string& doing);
    std::vector<std::byte> copy_input(Input input, const void* from);
    /// Waits for the device; returns whether its outputs can be copied.
    bool wait_for_outputs();
    void copy_output(Stage stage, const void* from);
    std::vector<std::byte> drain();

    Options options;
    CapturePlan plan;
    std::unique_ptr<std::byte, FreeDevice> device_memory;
    std::unique_ptr<std::byte, FreeMapped> mapped_memory;
    std::byte* base = nullptr;  ///< the sink's memory as the kernel sees it
    cudaError_t error_before = cudaSuccess;
    std::string error;  ///< the first device error since the construction
    InputArrays inputs;
    bool inputs_lost = false;  ///< one could not be copied
    std::array<std::vector<std::byte>, stage_count> outputs;
};

Capture::Impl::Impl(const Problem& problem, Options capture_options)
    : options(std::move(capture_options)), plan(problem, selection_of(options), options.max_bytes) {
    describe_device(options.provenance);
    if (options.memory == SinkMemory::device) {
        allocate_device();
    } else {
        allocate_mapped();
    }
    error_before = cudaPeekAtLastError();
}

void Capture::Impl::allocate_device() {
    void* memory = nullptr;
    require(cudaMalloc(&memory, plan.bytes()),
            "allocating " + std::to_string(plan.bytes()) + " bytes of device memory");
    base = static_cast<std::byte*>(memory);
    device_memory.reset(base);
    const std::string filling = "filling the sink's memory";
    require(cudaMemcpy(base, plan.head().data(), plan.head_bytes(), cudaMemcpyHostToDevice), filling);
    require(fill_unwritten(base + plan.head_bytes(), plan.bytes() - plan.head_bytes()), filling);
    require(cudaDeviceSynchronize(), filling);
}

void Capture::Impl::allocate_mapped() {
    void* memory = nullptr;
    require(cudaHostAlloc(&memory, plan.bytes(), cudaHostAllocMapped),
            "allocating " + std::to_string(plan.bytes()) + " bytes of mapped host memory");
    mapped_memory.reset(static_cast<std::byte*>(memory));
    plan.fill_unwritten(mapped_memory.get());
    void* mapped = nullptr;
    require(cudaHostGetDevicePointer(&mapped, memory, 0), "mapping host memory into the GPU");
    base = static_cast<std::byte*>(mapped);
}

void Capture::Impl::note(cudaError_t status, const std::string& doing) {
    if (status != cudaSuccess && error.empty()) error = cudaGetErrorString(status) + doing;
}

/// Empty, with the error noted, when the device cannot give it.
std::vector<std::byte> Capture::Impl::copy_to_host(const void* from, std::size_t bytes,
                                                   const std::string& doing) {
    std::vector<std::byte> copy(bytes);
    const cudaError_t status = cudaMemcpy(copy.data(), from, bytes, cudaMemcpyDefault);
    note(status, doing);
    if (status != cudaSuccess) copy.clear();
    return copy;
}

std::vector<std::byte> Capture::Impl::copy_input(Input input, const void* from) {
    std::vector<std::byte> copy =
        copy_to_host(from, input_bytes(plan.problem(), input), " while copying the inputs");
    inputs_lost = inputs_lost || copy.empty();
    return copy;
}

bool Capture::Impl::wait_for_outputs() {
    const cudaError_t status = cudaDeviceSynchronize();
    note(status, "");
    return status == cudaSuccess;
}

void Capture::Impl::copy_output(Stage stage, const void* from) {
    const Dtype dtype = stage_dtype(plan.problem(), stage);
    outputs[static_cast<std::size_t>(stage)] =
        copy_to_host(from, output_bytes(plan.problem(), stage, dtype), " while copying the outputs");
}

std::vector<std::byte> Capture::Impl::drain() {
    note(cudaDeviceSynchronize(), "");
    // A launch that never ran is reported here only; an older error is not this kernel's.
    const cudaError_t last = cudaPeekAtLastError();
    if (last != error_before) note(last, "");
    if (mapped_memory) {
        return std::vector<std::byte>(mapped_memory.get(), mapped_memory.get() + plan.bytes());
    }
    std::vector<std::byte> memory = copy_to_host(device_memory.get(), plan.bytes(), "");
    if (memory.empty()) {
        error += "; the sink in device memory is lost, capture into mapped memory to keep its tiles";
        memory.resize(plan.bytes());
        plan.fill_unwritten(memory.data());
    }
    return memory;
}

Capture::Capture(const Problem& problem, Options options)
    : impl_(std::make_unique<Impl>(problem, std::move(options))) {}
Capture::~Capture() = default;
Capture::Capture(Capture&&) noexcept = default;

Sink Capture::sink() const {
    return impl_->plan.sink(impl_->base);
}

void Capture::inputs(const void* q, const void* k, const void* v) {
    impl_->inputs.q = impl_->copy_input(Input::q, q);
    impl_->inputs.k = impl_->copy_input(Input::k, k);
    impl_->inputs.v = impl_->copy_input(Input::v, v);
}

void Capture::backward_inputs(const void* dout, const void* o, const float* lse) {
    impl_->inputs.dout = impl_->copy_input(Input::dout, dout);
    if (o != nullptr) impl_->inputs.o = impl_->copy_input(Input::o, o);
    impl_->inputs.lse = impl_->copy_input(Input::lse, lse);
}

void Capture::outputs(const void* o, const float* lse) {
    if (!impl_->wait_for_outputs()) return;
    impl_->copy_output(Stage::o, o);
    if (lse != nullptr) impl_->copy_output(Stage::lse, lse);
}

void Capture::gradients(const void* dq, const void* dk, const void* dv) {
    if (!impl_->wait_for_outputs()) return;
    if (dq != nullptr) impl_->copy_output(Stage::dq, dq);
    if (dk != nullptr) impl_->copy_output(Stage::dk, dk);
    if (dv != nullptr) impl_->copy_output(Stage::dv, dv);
}

CapturedRun Capture::finish() {
    std::vector<std::byte> memory = impl_->drain();
    CapturedRun run(impl_->plan, std::move(memory), impl_->options.units, impl_->options.provenance,
                    impl_->inputs_lost ? InputArrays() : impl_->inputs);
    run.set_side_inputs(impl_->options.side_inputs);
    run.set_bias(impl_->options.bias);
    for (const StageInfo& info : all_stages()) {
        const std::vector<std::byte>& output = impl_->outputs[static_cast<std::size_t>(info.stage)];
        if (!output.empty()) run.merge_output(info.stage, stage_dtype(run.problem(), info.stage), output);
    }
    if (!impl_->error.empty()) run.set_ended(impl_->error);
    return run;
}

void Capture::save(const std::string& path) {
    write_recording(path, finish());
}

}  // namespace tilescope
