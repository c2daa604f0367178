#pragma once

// A memory of any size that is nowhere: what is read of it is made up.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dump/recording/captured_run.h"
#include "dump/recording/sink_pieces.h"

namespace tilescope::test {

/// The memory of a plan whose kernel wrote the words at multiples of `stride` bytes, all with 1; with a
/// stride of 0 every word, with any number.
class GeneratedPieces final : public PieceCopier {
 public:
    GeneratedPieces(const CapturePlan& plan, std::size_t piece_bytes, std::size_t stride)
        : head_(plan.head()), stride_(stride) {
        for (std::vector<std::byte>& buffer : buffers_) {
            buffer.assign(piece_buffer_bytes(plan, piece_bytes), std::byte(0x3f));
        }
    }
    std::span<std::byte> buffer(int index) override { return buffers_[std::size_t(index)]; }
    void start(int index, std::size_t offset, std::size_t bytes) override {
        const std::span<std::byte> out = buffer(index).first(bytes);
        if (stride_ > 0) write_some(offset, out);
        if (offset >= head_.size()) return;
        std::memcpy(out.data(), head_.data() + offset, std::min(bytes, head_.size() - offset));
    }
    void wait(int) override {}

 private:
    void write_some(std::size_t offset, std::span<std::byte> out) const {
        auto* const words = reinterpret_cast<std::uint32_t*>(out.data());
        std::fill_n(words, out.size() / sizeof(std::uint32_t), unwritten_bits);
        for (std::size_t at = (offset + stride_ - 1) / stride_ * stride_; at < offset + out.size();
             at += stride_) {
            words[(at - offset) / sizeof(std::uint32_t)] = 0x3f800000u;
        }
    }

    std::vector<std::byte> head_;
    std::size_t stride_;
    std::array<std::vector<std::byte>, 2> buffers_;
};

/// Errors: those of CapturedRun.
inline CapturedRun generated_run(const CapturePlan& plan, std::size_t stride) {
    constexpr std::size_t piece_bytes = std::size_t(32) << 20;
    auto pieces = std::make_unique<GeneratedPieces>(plan, piece_bytes, stride);
    return CapturedRun(plan, piece_contents(plan, std::move(pieces), piece_bytes),
                       RecordedCall(plan.problem(), {}, {}, {}));
}

/// Tiles of 64 x 64 of every stage, 81 MiB a head.
inline Problem large_problem(std::int64_t heads) {
    Problem problem;
    problem.heads = problem.heads_kv = heads;
    problem.seqlen_q = problem.seqlen_kv = 2048;
    problem.head_dim = problem.head_dim_v = 64;
    problem.block_m = problem.block_n = 64;
    problem.sm_scale = 0.125;
    return problem;
}

}  // namespace tilescope::test
