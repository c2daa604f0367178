#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "dump/schema/span.h"

namespace tilescope {

/// Bytes in host memory together with what keeps them: a vector, a mapped file, pinned memory.
class MemoryBlock {
 public:
    MemoryBlock() = default;
    MemoryBlock(std::vector<std::byte> bytes) {
        auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
        bytes_ = *owner;
        owner_ = std::move(owner);
    }
    /// `owner` frees the bytes when the last block of it is gone.
    MemoryBlock(std::shared_ptr<void> owner, Span<std::byte> bytes)
        : owner_(std::move(owner)), bytes_(bytes) {}

    std::byte* data() const { return bytes_.data(); }
    std::size_t size() const { return bytes_.size(); }

 private:
    std::shared_ptr<void> owner_;
    Span<std::byte> bytes_;
};

}  // namespace tilescope
