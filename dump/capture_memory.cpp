#include "dump/capture_memory.cuh"

#include "dump/capture_device.cuh"
#include "dump/error.h"

namespace tilescope {

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

CaptureMemory::CaptureMemory(const CapturePlan& plan, const CaptureOptions& options,
                             const std::function<RecordedCall()>& call)
    : head_bytes_(plan.head_bytes()), bytes_(plan.bytes()) {
    switch (options.memory) {
        case SinkMemory::device:
            allocate_device(plan);
            break;
        case SinkMemory::mapped: {
            void* memory = nullptr;
            require_cuda(cudaHostAlloc(&memory, bytes_, cudaHostAllocMapped),
                         "allocating " + std::to_string(bytes_) + " bytes of mapped host memory");
            std::shared_ptr<void> owner(memory, [](void* mapped) { cudaFreeHost(mapped); });
            host_ = MemoryBlock(std::move(owner), {static_cast<std::byte*>(memory), bytes_});
            plan.fill_unwritten(host_.data());
            map_host(host_.data());
            break;
        }
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

void CaptureMemory::abandon() {
    static_cast<void>(owned_.release());
    static_cast<void>(head_.release());
    static_cast<void>(wmma_places_.release());
    // The blocks stay referenced for ever.
    new MemoryBlock(host_);
    new std::shared_ptr<void>(registered_);
}

}  // namespace tilescope
