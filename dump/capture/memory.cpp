#include "dump/capture/memory.cuh"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "dump/capture/device.cuh"
#include "dump/schema/error.h"
#include "dump/schema/wmma_fragments.h"

namespace tilescope {

namespace {

/// Large enough that a copy takes far longer than starting it.
constexpr std::size_t usual_piece_bytes = std::size_t(32) << 20;

/// Pinned host memory. Errors: Error when there is none.
MemoryBlock pinned(std::size_t bytes, unsigned flags, const std::string& what) {
    void* memory = nullptr;
    require_cuda(cudaHostAlloc(&memory, bytes, flags),
                 "allocating " + std::to_string(bytes) + " bytes of " + what);
    std::shared_ptr<void> owner(memory, [](void* pages) { cudaFreeHost(pages); });
    return {std::move(owner), {static_cast<std::byte*>(memory), bytes}};
}

class DevicePieces final : public PieceCopier {
 public:
    explicit DevicePieces(std::shared_ptr<const CaptureMemory> memory) : memory_(std::move(memory)) {}
    ~DevicePieces() override { cudaStreamSynchronize(memory_->copies()); }

    std::span<std::byte> buffer(int index) override { return memory_->piece_buffer(index); }
    void start(int index, std::size_t offset, std::size_t bytes) override {
        require_cuda(cudaMemcpyAsync(buffer(index).data(), memory_->device_address() + offset, bytes,
                                     cudaMemcpyDeviceToHost, memory_->copies()),
                     copying);
        copied_[std::size_t(index)] = mark(memory_->copies());
    }
    void wait(int index) override {
        require_cuda(cudaEventSynchronize(copied_[std::size_t(index)].get()), copying);
    }

 private:
    static constexpr const char* copying = "copying the sink from the GPU";

    std::shared_ptr<const CaptureMemory> memory_;
    std::array<Event, 2> copied_;
};

}  // namespace

void require_cuda(cudaError_t status, const std::string& doing) {
    if (status == cudaSuccess) return;
    throw Error(std::string(cudaGetErrorString(status)) + " while " + doing, "capture",
                "check that the GPU has room for it, select fewer tiles or lower max_bytes");
}

OnDevice::OnDevice(int device) {
    cudaGetDevice(&before_);
    if (before_ != device) cudaSetDevice(device);
}

OnDevice::~OnDevice() {
    cudaSetDevice(before_);
}

Event mark(cudaStream_t stream) {
    cudaEvent_t created = nullptr;
    const std::string marking = "marking a place in a stream";
    // Who waits for it leaves its core to others.
    require_cuda(cudaEventCreateWithFlags(&created, cudaEventDisableTiming | cudaEventBlockingSync), marking);
    Event event(created, [](cudaEvent_t unused) { cudaEventDestroy(unused); });
    require_cuda(cudaEventRecord(created, stream), marking);
    return event;
}

CaptureMemory::CaptureMemory(const CapturePlan& plan, const CaptureOptions& options,
                             const std::function<RecordedCall()>& call)
    : head_bytes_(plan.head_bytes()), bytes_(plan.bytes()) {
    cudaStream_t copies = nullptr;
    require_cuda(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "creating a stream");
    copies_.reset(copies);
    switch (options.memory) {
        case SinkMemory::device:
            allocate_device(plan);
            allocate_pieces(plan);
            break;
        case SinkMemory::mapped:
            host_ = pinned(bytes_, cudaHostAllocMapped, "mapped host memory");
            plan.fill_unwritten(host_.data());
            map_host(host_.data());
            break;
        case SinkMemory::file: {
            file_.emplace(options.sink_file, plan, options.max_bytes, call());
            host_ = file_->memory();
            const cudaError_t status = cudaHostRegister(host_.data(), bytes_, cudaHostRegisterMapped);
            if (status != cudaSuccess) {
                cudaGetLastError();
                throw Error(
                    std::string("the GPU cannot write to this file (") + cudaGetErrorString(status) + ")",
                    options.sink_file, "choose a file on tmpfs, such as /dev/shm");
            }
            registered_ =
                std::shared_ptr<void>(host_.data(), [](void* memory) { cudaHostUnregister(memory); });
            map_host(host_.data());
        }
    }
    void* head = nullptr;
    void* places = nullptr;
    const std::string tables = "setting up the sink's tables";
    require_cuda(cudaMalloc(&head, head_bytes_), tables);
    head_.reset(static_cast<std::byte*>(head));
    require_cuda(cudaMemcpy(head, plan.head().data(), head_bytes_, cudaMemcpyHostToDevice), tables);
    require_cuda(cudaMalloc(&places, wmma_tables * 32 * wmma_values * sizeof(std::uint16_t)), tables);
    wmma_places_.reset(static_cast<std::uint16_t*>(places));
    require_cuda(find_wmma_places(wmma_places_.get(), nullptr), tables);
    require_cuda(cudaDeviceSynchronize(), tables);
}

void CaptureMemory::allocate_device(const CapturePlan& plan) {
    void* memory = nullptr;
    require_cuda(cudaMalloc(&memory, bytes_),
                 "allocating " + std::to_string(bytes_) + " bytes of device memory");
    device_ = static_cast<std::byte*>(memory);
    owned_.reset(device_);
    const std::string filling = "filling the sink's memory";
    require_cuda(cudaMemcpy(device_, plan.head().data(), head_bytes_, cudaMemcpyHostToDevice), filling);
    require_cuda(fill_unwritten_async(reinterpret_cast<std::uint32_t*>(device_ + head_bytes_),
                                      (bytes_ - head_bytes_) / sizeof(std::uint32_t), nullptr),
                 filling);
}

// Here and not when they are needed: allocating pinned memory waits for the kernels that run.
void CaptureMemory::allocate_pieces(const CapturePlan& plan) {
    piece_bytes_ = std::min(bytes_, usual_piece_bytes);
    piece_buffers_ =
        pinned(2 * piece_buffer_bytes(plan, piece_bytes_), cudaHostAllocDefault, "pinned memory");
}

std::span<std::byte> CaptureMemory::piece_buffer(int index) const {
    const std::size_t bytes = piece_buffers_.size() / 2;
    return {piece_buffers_.data() + std::size_t(index) * bytes, bytes};
}

void CaptureMemory::map_host(std::byte* memory) {
    void* mapped = nullptr;
    require_cuda(cudaHostGetDevicePointer(&mapped, memory, 0), "mapping host memory into the GPU");
    device_ = static_cast<std::byte*>(mapped);
}

cudaError_t CaptureMemory::restart(cudaStream_t stream) const {
    const cudaError_t status = cudaMemcpyAsync(device_, head_.get(), head_bytes_, cudaMemcpyDefault, stream);
    if (status != cudaSuccess) return status;
    return fill_unwritten_async(reinterpret_cast<std::uint32_t*>(device_ + head_bytes_),
                                (bytes_ - head_bytes_) / sizeof(std::uint32_t), stream);
}

void ask_for_wmma_fragments(ThreadLayouts& layouts) {
    if (!needs_wmma_fragments(layouts)) return;
    std::vector<std::uint16_t> places(wmma_tables * 32 * wmma_values);
    const std::size_t bytes = places.size() * sizeof(std::uint16_t);
    const std::string asking = "asking where WMMA accumulators lie";
    void* memory = nullptr;
    require_cuda(cudaMalloc(&memory, bytes), asking);
    const std::unique_ptr<void, decltype(&cudaFree)> on_device(memory, cudaFree);
    require_cuda(find_wmma_places(static_cast<std::uint16_t*>(memory), nullptr), asking);
    require_cuda(cudaMemcpy(places.data(), memory, bytes, cudaMemcpyDeviceToHost), asking);
    add_wmma_fragments(places, layouts);
}

std::unique_ptr<PieceCopier> copier_of(std::shared_ptr<const CaptureMemory> memory) {
    return std::make_unique<DevicePieces>(std::move(memory));
}

}  // namespace tilescope
