#pragma once

// The memory of a capture's sink, wherever it lies, and what frees it.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dump/capture.h"
#include "dump/file/sink.h"
#include "dump/recording/capture_plan.h"
#include "dump/recording/memory_block.h"
#include "dump/recording/recorded_call.h"
#include "dump/recording/sink_pieces.h"

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

struct DestroyStream {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;
using Event = std::shared_ptr<CUevent_st>;

/// An event that marks where `stream` is. Errors: Error when CUDA refuses.
Event mark(cudaStream_t stream);

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

    /// For copies from the device: it waits for no other stream, and none for it.
    cudaStream_t copies() const { return copies_.get(); }
    /// Two pinned buffers of piece_buffer_bytes() for the pieces of device memory; nothing for other memory.
    std::size_t piece_bytes() const { return piece_bytes_; }
    std::span<std::byte> piece_buffer(int index) const;

    /// Makes everything unwritten again when the stream comes to it.
    cudaError_t restart(cudaStream_t stream) const;

 private:
    struct FreeDevice {
        void operator()(void* memory) const { cudaFree(memory); }
    };
    void allocate_device(const CapturePlan& plan);
    void allocate_pieces(const CapturePlan& plan);
    void map_host(std::byte* memory);

    std::size_t head_bytes_;
    std::size_t bytes_;
    Stream copies_;
    std::size_t piece_bytes_ = 0;
    MemoryBlock piece_buffers_;
    std::byte* device_ = nullptr;
    std::unique_ptr<std::byte, FreeDevice> owned_;
    std::unique_ptr<std::byte, FreeDevice> head_;  ///< as it was before anything was written
    std::unique_ptr<std::uint16_t, FreeDevice> wmma_places_;
    std::optional<SinkFile> file_;
    std::shared_ptr<void> registered_;  ///< undoes the registration of the file's memory
    MemoryBlock host_;
};

/// Adds the WMMA fragments that stages name, as the current device has them. Errors: Error when CUDA refuses.
void ask_for_wmma_fragments(ThreadLayouts& layouts);

/// Copies pieces of device memory, which it keeps.
std::unique_ptr<PieceCopier> copier_of(std::shared_ptr<const CaptureMemory> memory);

}  // namespace tilescope
