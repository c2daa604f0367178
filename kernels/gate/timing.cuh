#pragma once

// Events and graphs of the stream that kernels without hooks are launched in.

#include <cuda_runtime.h>

#include <memory>
#include <type_traits>

#include "kernels/run/device_arrays.cuh"

namespace tilescope {

class Event {
 public:
    Event() {
        cudaEvent_t event = nullptr;
        check_cuda(cudaEventCreate(&event), "creating an event");
        event_.reset(event);
    }
    void record() const { check_cuda(cudaEventRecord(event_.get(), cudaStreamPerThread), "timing"); }
    cudaEvent_t get() const { return event_.get(); }

 private:
    struct Destroy {
        void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
    };
    std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

/// Waits for `end`, which was recorded after `begin`.
inline double microseconds_between(const Event& begin, const Event& end) {
    check_cuda(cudaEventSynchronize(end.get()), "running a kernel");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin.get(), end.get()), "timing");
    return 1000 * double(ms);
}

/// What `launches` enqueues in the calling thread's default stream, to be replayed.
class Graph {
 public:
    template <class Launches>
    explicit Graph(const Launches& launches) {
        check_cuda(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal),
                   "beginning a CUDA graph");
        cudaGraph_t graph = nullptr;
        try {
            launches();
        } catch (...) {
            // The stream stays in capture otherwise; what the launch said matters more than what this says.
            if (cudaStreamEndCapture(cudaStreamPerThread, &graph) == cudaSuccess) cudaGraphDestroy(graph);
            throw;
        }
        check_cuda(cudaStreamEndCapture(cudaStreamPerThread, &graph), "recording launches in a CUDA graph");
        check_cuda(cudaGraphGetNodes(graph, nullptr, &nodes_), "counting the nodes of a CUDA graph");
        cudaGraphExec_t executable = nullptr;
        const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
        cudaGraphDestroy(graph);
        check_cuda(status, "instantiating a CUDA graph");
        executable_.reset(executable);
    }
    std::size_t nodes() const { return nodes_; }
    void replay() const {
        check_cuda(cudaGraphLaunch(executable_.get(), cudaStreamPerThread), "replaying a CUDA graph");
    }

 private:
    struct Destroy {
        void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
    };
    std::size_t nodes_ = 0;
    std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> executable_;
};

}  // namespace tilescope
