#pragma once

// The memory of a capture's sink, wherever it lies, and what frees it.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dump/capture.h"
#include "dump/capture_plan.h"
#include "dump/file_sink.h"
#include "dump/memory_block.h"
#include "dump/recorded_call.h"

namespace tilescope {

/// Errors: Error with what CUDA says, "while `doing`".
void require_cuda(cudaError_t status, const std::string& doing);

/// Makes a device current, and the one before again at its end.
class OnDevice {
 public:
    explicit OnDevice(int device);
    ~OnDevice();
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

 private:
    int before_ = 0;
};

/// A plan's memory on the current device.
class CaptureMemory {
 public:
    /// `call` is asked for what a sink file holds beside the sink. Errors: Error when there is no such
    /// memory.
    CaptureMemory(const CapturePlan& plan, const CaptureOptions& options,
                  const std::function<RecordedCall()>& call);

    std::byte* device_address() const { return device_; }
    /// Null when there is none.
    const std::uint16_t* wmma_places() const { return wmma_places_.get(); }
    /// What a host can read without the device: mapped memory, a file. Empty for device memory.
    const MemoryBlock& host() const { return host_; }
    const std::optional<SinkFile>& file() const { return file_; }

    /// Makes everything unwritten again when the stream comes to it.
    cudaError_t restart(cudaStream_t stream) const;
    /// Leaves all of it as it is: a kernel that never ends writes to it.
    void abandon();

 private:
    struct FreeDevice {
        void operator()(void* memory) const { cudaFree(memory); }
    };
    void allocate_device(const CapturePlan& plan);
    void map_host(std::byte* memory);

    std::size_t head_bytes_;
    std::size_t bytes_;
    std::byte* device_ = nullptr;
    std::unique_ptr<std::byte, FreeDevice> owned_;
    std::unique_ptr<std::byte, FreeDevice> head_;  ///< as it was before anything was written
    std::unique_ptr<std::uint16_t, FreeDevice> wmma_places_;
    std::optional<SinkFile> file_;
    std::shared_ptr<void> registered_;  ///< undoes the registration of the file's memory
    MemoryBlock host_;
};

}  // namespace tilescope
