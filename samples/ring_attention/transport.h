#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ring {

/// A buffer that goes from one rank to another one's buffer.
struct Transfer {
    int from = 0;
    int to = 0;
    const void* source = nullptr;
    void* target = nullptr;
    std::size_t bytes = 0;
};

/// Sends buffers between ranks of one process. Rank r is on device r modulo the number of GPUs.
class Transport {
 public:
    virtual ~Transport() = default;
    virtual std::string name() const = 0;
    /// All of them at once; returns when all have arrived. Errors: std::runtime_error.
    virtual void send(const std::vector<Transfer>& transfers) = 0;
};

/// NCCL where it is installed and each rank has a GPU of its own, otherwise copies between GPUs.
std::unique_ptr<Transport> make_transport(int ranks, int gpus);

}  // namespace ring
