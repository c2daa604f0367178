#include "dump/capture.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "dump/capture/device_provenance.h"
#include "dump/capture/memory.cuh"
#include "dump/poison.h"
#include "dump/recording/array_shape.h"
#include "dump/recording/sink_contents.h"
#include "dump/recording/sink_pieces.h"
#include "dump/schema/error.h"
#include "dump/writer.h"

namespace tilescope {

namespace {

/// Copies an array into contiguous bytes of host memory, and waits for that.
cudaError_t copy_array(std::vector<std::byte>& to, const ArrayShape& shape, std::int64_t batch,
                       const StridedArray& from, cudaStream_t stream) {
    cudaError_t status = cudaSuccess;
    if (!from.is_strided) {
        status = cudaMemcpyAsync(to.data(), from.data, to.size(), cudaMemcpyDefault, stream);
        return status == cudaSuccess ? cudaStreamSynchronize(stream) : status;
    }
    const std::size_t element = shape.element_bytes();
    const std::size_t row = std::size_t(shape.cols) * element;
    for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t h = 0; h < shape.heads && status == cudaSuccess; ++h) {
            const auto* const begin = static_cast<const std::byte*>(from.data) +
                                      (b * from.batch_stride + h * from.head_stride) * std::int64_t(element);
            status = cudaMemcpy2DAsync(to.data() + shape.row_offset(b, h, 0), row, begin,
                                       std::size_t(from.row_stride) * element, row, std::size_t(shape.rows),
                                       cudaMemcpyDefault, stream);
        }
    }
    const cudaError_t copied = cudaStreamSynchronize(stream);
    return status == cudaSuccess ? copied : status;
}

Selection selection_of(const Problem& problem, const CaptureOptions& options) {
    return options.selection ? *options.selection : selection_from_environment(problem.named_tiles);
}

std::uint32_t jitter_of(const CaptureOptions& options) {
    if (options.jitter) return *options.jitter;
    const char* const text = std::getenv("TILESCOPE_JITTER");
    if (text == nullptr) return 0;
    std::uint32_t seed = 0;
    const char* const end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, seed);
    if (error == std::errc() && stop == end) return seed;
    throw Error("\"" + std::string(text) + "\" is no seed", "TILESCOPE_JITTER",
                "give a whole number below 4294967296, or 0 so that hooks do not wait");
}

/// Hooks wait on the ways that take tiles element by element: those that store registers as they are have no test for it.
SinkMode mode_of(const CaptureOptions& options) {
    return jitter_of(options) != 0 && options.mode == SinkMode::tiles ? SinkMode::checked : options.mode;
}

/// The symbols that captures have armed: each has one sink on each device.
struct ArmedSymbols {
    std::mutex mutex;
    std::set<std::pair<int, const void*>> armed;  ///< device, symbol
};

ArmedSymbols& armed_symbols() {
    static ArmedSymbols symbols;
    return symbols;
}

/// What the current device has to do before a capture can be read: all of it, or what comes before events.
cudaError_t synchronize(const std::vector<Event>& events) {
    if (events.empty()) return cudaDeviceSynchronize();
    for (const Event& event : events) {
        if (const cudaError_t status = cudaEventSynchronize(event.get()); status != cudaSuccess)
            return status;
    }
    return cudaSuccess;
}

/// The same, at most as long as the limit says; nullopt: the device is still busy.
std::optional<cudaError_t> synchronize(const std::vector<Event>& events, std::chrono::milliseconds limit) {
    if (limit.count() == 0) return synchronize(events);
    struct Waiting {
        std::mutex mutex;
        std::condition_variable done;
        std::optional<cudaError_t> status;
    };
    const auto waiting = std::make_shared<Waiting>();
    int device = 0;
    cudaGetDevice(&device);
    // There is no way to ask a device whether all of its streams are idle, and none to stop waiting.
    std::thread([waiting, device, events] {
        cudaSetDevice(device);
        const cudaError_t status = synchronize(events);
        const std::lock_guard lock(waiting->mutex);
        waiting->status = status;
        waiting->done.notify_one();
    }).detach();
    std::unique_lock lock(waiting->mutex);
    waiting->done.wait_for(lock, limit, [&] { return waiting->status.has_value(); });
    return waiting->status;
}

}  // namespace

struct Capture::Impl {
    Impl(const Problem& problem, Options capture_options);
    ~Impl();
    RecordedCall call() const;
    const std::shared_ptr<CaptureMemory>& memory();
    void note(cudaError_t status, const std::string& doing);
    std::vector<std::byte> copy_input(Input input, const StridedArray& from);
    /// Waits for the device; returns whether its outputs can be copied.
    bool wait_for_outputs();
    void copy_output(Stage stage, const StridedArray& from);
    void disarm();
    /// Where the tiles of a finished run are.
    enum class Tiles {
        in_place,  ///< in the capture's memory
        in_host_memory
    };
    CapturedRun finish(Tiles tiles);
    std::unique_ptr<SinkContents> contents(Tiles tiles);
    void merge_outputs(CapturedRun& run) const;

    Options options;
    CapturePlan plan;
    int device = 0;
    std::shared_ptr<CaptureMemory> sink_memory;
    std::vector<Event> launched;  ///< what done() was told
    std::vector<std::pair<const void*, int (*)(const Sink&)>> armed;
    cudaError_t error_before = cudaSuccess;
    std::string error;  ///< the first device error since the construction
    bool hangs = false;
    InputArrays inputs;
    bool inputs_lost = false;  ///< one could not be copied
    std::array<std::vector<std::byte>, stage_count> outputs;
};

Capture::Impl::Impl(const Problem& problem, Options capture_options)
    : options(std::move(capture_options)),
      plan(problem, selection_of(problem, options), options.max_bytes, mode_of(options)) {
    describe_device(options.provenance);
    require_cuda(cudaGetDevice(&device), "looking for a GPU");
    ask_for_wmma_fragments(options.threads);
    validate(options.threads, problem, "capture");
    if (options.memory == SinkMemory::file && options.sink_file.empty()) {
        throw Error("no path is given for the sink's file", "capture",
                    "set sink_file to a path on tmpfs, such as /dev/shm");
    }
    if (options.memory == SinkMemory::file && options.mode == SinkMode::statistics) {
        throw Error("a sink's file holds tiles, no statistics", "capture",
                    "keep statistics in device memory or in mapped memory");
    }
    if (options.memory != SinkMemory::file) memory();
    error_before = cudaPeekAtLastError();
}

Capture::Impl::~Impl() {
    const OnDevice on(device);
    if (!hangs) disarm();
    // A kernel that never ends writes to it: it stays for ever.
    if (hangs) new std::shared_ptr<CaptureMemory>(sink_memory);
}

RecordedCall Capture::Impl::call() const {
    RecordedCall call(plan.problem(), options.units, options.provenance,
                      inputs_lost ? InputArrays() : inputs);
    call.set_side_inputs(options.side_inputs);
    call.set_bias(options.bias);
    call.set_threads(options.threads);
    return call;
}

const std::shared_ptr<CaptureMemory>& Capture::Impl::memory() {
    const OnDevice on(device);
    if (!sink_memory) sink_memory = std::make_shared<CaptureMemory>(plan, options, [this] { return call(); });
    return sink_memory;
}

void Capture::Impl::note(cudaError_t status, const std::string& doing) {
    if (status != cudaSuccess && error.empty()) error = cudaGetErrorString(status) + doing;
}

/// Empty, with the error noted, when the device cannot give it.
std::vector<std::byte> Capture::Impl::copy_input(Input input, const StridedArray& from) {
    std::vector<std::byte> copy(input_bytes(plan.problem(), input));
    const ArrayShape shape = input_shape(plan.problem(), input);
    const std::int64_t batch = plan.problem().batch;
    cudaError_t status = cudaSuccess;
    if (from.byte_codes) {
        ArrayShape lies = shape;
        lies.dtype = Dtype::e4m3;  // any of one byte
        std::vector<std::byte> codes(lies.bytes(batch));
        status = copy_array(codes, lies, batch, from, cudaStreamLegacy);
        dequantize_array(*from.byte_codes, codes, shape.dtype, copy);
    } else {
        status = copy_array(copy, shape, batch, from, cudaStreamLegacy);
    }
    note(status, " while copying the inputs");
    if (status != cudaSuccess) copy.clear();
    inputs_lost = inputs_lost || copy.empty();
    return copy;
}

bool Capture::Impl::wait_for_outputs() {
    if (hangs) return false;
    const std::optional<cudaError_t> status = synchronize(launched, options.time_limit);
    hangs = !status;
    if (hangs && error.empty()) {
        error = "the kernel did not end within " + std::to_string(options.time_limit.count()) + " ms";
    }
    if (hangs) return false;
    note(*status, "");
    return *status == cudaSuccess;
}

void Capture::Impl::copy_output(Stage stage, const StridedArray& from) {
    if (from.byte_codes) {
        throw Error("an output in codes of one byte cannot be judged",
                    std::string(stage_info(plan.problem(), stage).name),
                    "give the kernel a wider output, or record acc and l and leave o out");
    }
    const Dtype dtype = stage_dtype(plan.problem(), stage);
    std::vector<std::byte>& copy = outputs[static_cast<std::size_t>(stage)];
    copy.resize(output_bytes(plan.problem(), stage, dtype));
    // In a stream that does not wait for what was launched after the kernel.
    const cudaError_t status = copy_array(copy, output_shape(plan.problem(), stage, dtype),
                                          plan.problem().batch, from, memory()->copies());
    note(status, " while copying the outputs");
    if (status != cudaSuccess) copy.clear();
}

void Capture::Impl::disarm() {
    ArmedSymbols& symbols = armed_symbols();
    const std::lock_guard lock(symbols.mutex);
    for (const auto& [symbol, set] : armed) {
        set(Sink());  // on a device in error there is nothing left to clear
        symbols.armed.erase({device, symbol});
    }
    armed.clear();
}

std::unique_ptr<SinkContents> Capture::Impl::contents(Tiles tiles) {
    wait_for_outputs();
    // A launch that never ran is reported here only; an older error is not this kernel's, and asking whether
    // a stream is idle leaves one that is none.
    const cudaError_t last = cudaPeekAtLastError();
    if (last != error_before && last != cudaErrorNotReady) note(last, "");
    if (memory()->host().size() > 0) return host_contents(memory()->host());
    const cudaError_t status = hangs ? cudaErrorNotReady : cudaStreamSynchronize(memory()->copies());
    note(status, "");
    if (status != cudaSuccess) {
        error += "; the sink in device memory is lost, capture into mapped memory to keep its tiles";
        return lost_contents(plan);
    }
    std::unique_ptr<PieceCopier> copier = copier_of(memory());
    if (tiles == Tiles::in_place) return piece_contents(plan, std::move(copier), memory()->piece_bytes());
    // Not a vector, which would fill it first.
    auto copy = std::make_shared_for_overwrite<std::byte[]>(plan.bytes());
    const std::span<std::byte> bytes(copy.get(), plan.bytes());
    copy_pieces(*copier, 0, bytes);
    return host_contents(MemoryBlock(std::move(copy), bytes));
}

void Capture::Impl::merge_outputs(CapturedRun& run) const {
    for (const StageInfo& info : stages_of(plan.problem())) {
        const std::vector<std::byte>& output = outputs[static_cast<std::size_t>(info.stage)];
        if (!output.empty()) run.merge_output(info.stage, stage_dtype(run.problem(), info.stage), output);
    }
}

CapturedRun Capture::Impl::finish(Tiles tiles) {
    const OnDevice on(device);
    std::unique_ptr<SinkContents> left = contents(tiles);
    if (!hangs) disarm();
    CapturedRun run(plan, std::move(left), call());
    merge_outputs(run);
    if (!error.empty()) run.set_ended(error);
    const bool recorded = std::ranges::any_of(stages_of(plan.problem()), [&](const StageInfo& info) {
        const StageCapture& capture = run.capture().stages[static_cast<std::size_t>(info.stage)];
        return capture.elements_dropped > 0 || capture.elements_out_of_range > 0 || run.has_stage(info.stage);
    });
    if (!recorded && error.empty()) {
        throw Error("no hook wrote anything", "capture",
                    "launch a kernel that is compiled with -DDEBUG_DUMP and gets capture.sink(), or whose "
                    "symbol is armed, and select a stage that it hooks");
    }
    if (memory()->file()) memory()->file()->set_ended(run.capture().ended);
    return run;
}

Capture::Capture(const Problem& problem, Options options)
    : impl_(std::make_unique<Impl>(problem, std::move(options))) {}
Capture::~Capture() = default;
Capture::Capture(Capture&&) noexcept = default;

Sink Capture::sink() const {
    const CaptureMemory& memory = *impl_->memory();
    Sink sink = impl_->plan.sink(memory.device_address());
    sink.wmma_places = memory.wmma_places();
    sink.jitter = jitter_of(impl_->options);
    return sink;
}

void Capture::arm(const void* symbol, int (*set)(const Sink& sink)) {
    const OnDevice on(impl_->device);
    const Sink sink = this->sink();
    ArmedSymbols& symbols = armed_symbols();
    const std::lock_guard lock(symbols.mutex);
    if (!symbols.armed.emplace(impl_->device, symbol).second) {
        throw Error("the sink symbol is armed already", "capture",
                    "finish the capture that armed it first, or give each kernel a symbol of its own");
    }
    impl_->armed.emplace_back(symbol, set);
    require_cuda(cudaError_t(set(sink)), "setting the sink symbol");
}

void Capture::poison(std::uint32_t word, void* stream) {
    const OnDevice on(impl_->device);
    poison_shared_memory(word, static_cast<cudaStream_t>(stream));
    char text[sizeof "0x00000000"];
    std::snprintf(text, sizeof text, "0x%08x", unsigned(word));
    impl_->options.provenance.poison = text;
}

void Capture::restart(void* stream) {
    const OnDevice on(impl_->device);
    require_cuda(impl_->memory()->restart(static_cast<cudaStream_t>(stream)), "restarting the capture");
    if (impl_->memory()->file()) impl_->memory()->file()->set_running();
    impl_->launched.clear();
    impl_->outputs = {};
}

void Capture::done(void* stream) {
    const OnDevice on(impl_->device);
    impl_->launched.push_back(mark(static_cast<cudaStream_t>(stream)));
}

void Capture::inputs(const StridedArray& q, const StridedArray& k, const StridedArray& v) {
    const OnDevice on(impl_->device);
    impl_->inputs.q = impl_->copy_input(Input::q, q);
    impl_->inputs.k = impl_->copy_input(Input::k, k);
    impl_->inputs.v = impl_->copy_input(Input::v, v);
}

void Capture::backward_inputs(const StridedArray& dout, const StridedArray& o, const StridedArray& lse) {
    const OnDevice on(impl_->device);
    impl_->inputs.dout = impl_->copy_input(Input::dout, dout);
    if (o.data != nullptr) impl_->inputs.o = impl_->copy_input(Input::o, o);
    impl_->inputs.lse = impl_->copy_input(Input::lse, lse);
}

void Capture::outputs(const StridedArray& o, const StridedArray& lse) {
    const OnDevice on(impl_->device);
    if (!impl_->wait_for_outputs()) return;
    impl_->copy_output(Stage::o, o);
    if (lse.data != nullptr) impl_->copy_output(Stage::lse, lse);
}

void Capture::merged(const StridedArray& o, const StridedArray& lse) {
    const OnDevice on(impl_->device);
    const Problem& problem = impl_->plan.problem();
    const std::optional<Stage> of_o = merged_stage(problem, merged_o_name, problem.head_dim_v);
    const std::optional<Stage> of_lse = merged_stage(problem, merged_lse_name, 1);
    if (!of_o || !of_lse)
        throw Error("the problem has no tiles for what is merged", "capture", "make it with with_shard()");
    if (!impl_->wait_for_outputs()) return;
    impl_->copy_output(*of_o, o);
    impl_->copy_output(*of_lse, lse);
}

void Capture::gradients(const StridedArray& dq, const StridedArray& dk, const StridedArray& dv) {
    const OnDevice on(impl_->device);
    if (!impl_->wait_for_outputs()) return;
    if (dq.data != nullptr) impl_->copy_output(Stage::dq, dq);
    if (dk.data != nullptr) impl_->copy_output(Stage::dk, dk);
    if (dv.data != nullptr) impl_->copy_output(Stage::dv, dv);
}

CapturedRun Capture::finish() {
    return impl_->finish(Impl::Tiles::in_host_memory);
}

CapturedRun Capture::finish_in_place() {
    return impl_->finish(Impl::Tiles::in_place);
}

StatisticsRun Capture::finish_statistics() {
    const OnDevice on(impl_->device);
    const std::shared_ptr<SinkContents> left = impl_->contents(Impl::Tiles::in_host_memory);
    if (!impl_->hangs) impl_->disarm();
    const std::span<std::byte> bytes(left->hold(0, impl_->plan.bytes()), impl_->plan.bytes());
    StatisticsRun run(impl_->plan, MemoryBlock(left, bytes), impl_->call());
    if (!impl_->error.empty()) run.set_ended(impl_->error);
    return run;
}

bool Capture::still_running() const {
    return impl_->hangs;
}

void Capture::save(const std::string& path) {
    const OnDevice on(impl_->device);
    save_recording(path, impl_->finish(Impl::Tiles::in_place));
    if (impl_->options.memory == SinkMemory::file) std::remove(impl_->options.sink_file.c_str());
}

}  // namespace tilescope
