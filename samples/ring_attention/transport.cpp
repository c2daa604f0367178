#include "samples/ring_attention/transport.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <stdexcept>

namespace ring {

namespace {

void require(cudaError_t status, const char* doing) {
    if (status == cudaSuccess) return;
    throw std::runtime_error(std::string(cudaGetErrorString(status)) + " while " + doing);
}

class Copies final : public Transport {
 public:
    explicit Copies(int gpus) : gpus_(gpus) {}
    std::string name() const override { return "copies"; }
    void send(const std::vector<Transfer>& transfers) override {
        for (const Transfer& each : transfers)
            require(cudaMemcpyPeer(each.target, each.to % gpus_, each.source, each.from % gpus_, each.bytes),
                    "copying between GPUs");
        for (int device = 0; device < gpus_; ++device) {
            require(cudaSetDevice(device), "choosing a GPU");
            require(cudaDeviceSynchronize(), "waiting for copies");
        }
    }

 private:
    int gpus_;
};

/// What is called of NCCL, as nccl.h of version 2 declares it: the sample compiles without its headers.
struct Nccl {
    using Comm = struct ncclComm*;
    static constexpr int int8 = 0;
    int (*init_all)(Comm*, int, const int*) = nullptr;
    int (*destroy)(Comm) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    int (*send)(const void*, std::size_t, int, int, Comm, cudaStream_t) = nullptr;
    int (*receive)(void*, std::size_t, int, int, Comm, cudaStream_t) = nullptr;

    /// False where there is none.
    bool load() {
        void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return false;
        const auto find = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
            return function != nullptr;
        };
        return find(init_all, "ncclCommInitAll") && find(destroy, "ncclCommDestroy") &&
               find(group_start, "ncclGroupStart") && find(group_end, "ncclGroupEnd") &&
               find(send, "ncclSend") && find(receive, "ncclRecv");
    }
};

void require_nccl(int status, const char* doing) {
    if (status != 0) throw std::runtime_error("NCCL error " + std::to_string(status) + " while " + doing);
}

class NcclTransport final : public Transport {
 public:
    NcclTransport(const Nccl& nccl, int ranks)
        : nccl_(nccl), comms_(std::size_t(ranks)), streams_(std::size_t(ranks)) {
        require_nccl(nccl_.init_all(comms_.data(), ranks, nullptr), "connecting the GPUs");
        for (int rank = 0; rank < ranks; ++rank) {
            require(cudaSetDevice(rank), "choosing a GPU");
            require(cudaStreamCreate(&streams_[std::size_t(rank)]), "creating a stream");
        }
    }
    ~NcclTransport() override {
        for (const Nccl::Comm comm : comms_) nccl_.destroy(comm);
        for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    }
    std::string name() const override { return "NCCL"; }
    void send(const std::vector<Transfer>& transfers) override {
        require_nccl(nccl_.group_start(), "beginning a step");
        for (const Transfer& each : transfers) {
            const auto from = std::size_t(each.from);
            const auto to = std::size_t(each.to);
            require_nccl(
                nccl_.send(each.source, each.bytes, Nccl::int8, each.to, comms_[from], streams_[from]),
                "sending");
            require_nccl(
                nccl_.receive(each.target, each.bytes, Nccl::int8, each.from, comms_[to], streams_[to]),
                "receiving");
        }
        require_nccl(nccl_.group_end(), "ending a step");
        for (const cudaStream_t stream : streams_)
            require(cudaStreamSynchronize(stream), "waiting for what was sent");
    }

 private:
    Nccl nccl_;
    std::vector<Nccl::Comm> comms_;
    std::vector<cudaStream_t> streams_;
};

}  // namespace

std::unique_ptr<Transport> make_transport(int ranks, int gpus) {
    Nccl nccl;
    if (ranks > 1 && ranks <= gpus && nccl.load()) return std::make_unique<NcclTransport>(nccl, ranks);
    return std::make_unique<Copies>(gpus);
}

}  // namespace ring
