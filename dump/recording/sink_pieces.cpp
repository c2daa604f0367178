#include "dump/recording/sink_pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

namespace tilescope {

namespace {

class PieceContents final : public SinkContents {
 public:
    PieceContents(const CapturePlan& plan, std::unique_ptr<PieceCopier> copier, std::size_t piece_bytes)
        : copier_(std::move(copier)), bytes_(plan.bytes()), piece_bytes_(piece_bytes) {}

    std::byte* hold(std::size_t offset, std::size_t bytes) override {
        const std::span<std::byte> held = parts_.find(offset, bytes);
        if (!held.empty()) return held.data();
        return parts_.add(offset, bytes, [&](std::span<std::byte> part) { copy(offset, part); });
    }

 private:
    struct Buffer {
        std::optional<std::size_t> piece;
        bool pending = false;  ///< its copy was not waited for
    };

    void copy(std::size_t offset, std::span<std::byte> out) {
        buffers_ = {};
        piece_ = none;
        copy_pieces(*copier_, offset, out);
    }

    Span<const std::byte> look(std::size_t offset, std::size_t bytes) const override {
        const std::span<const std::byte> held = parts_.find(offset, bytes);
        if (!held.empty()) return held;
        turn_to(offset / piece_bytes_);
        Buffer& buffer = buffers_[std::size_t(index_)];
        if (buffer.pending) copier_->wait(index_);
        buffer.pending = false;
        return copier_->buffer(index_).subspan(offset - piece_ * piece_bytes_, bytes);
    }

    void turn_to(std::size_t piece) const {
        if (piece == piece_) return;
        const int other = 1 - index_;
        const int index = buffers_[std::size_t(index_)].piece == piece ? index_ : other;
        begin(index, piece);
        // Who reads on finds the next piece there, or on its way.
        if (piece == piece_ + 1) begin(1 - index, piece + 1);
        index_ = index;
        piece_ = piece;
    }

    void begin(int index, std::size_t piece) const {
        Buffer& buffer = buffers_[std::size_t(index)];
        const std::size_t offset = piece * piece_bytes_;
        if (buffer.piece == piece || offset >= bytes_) return;
        buffer = Buffer();
        copier_->start(index, offset, std::min(copier_->buffer(index).size(), bytes_ - offset));
        buffer = {piece, true};
    }

    static constexpr std::size_t none = std::size_t(-1);

    std::unique_ptr<PieceCopier> copier_;
    std::size_t bytes_;
    std::size_t piece_bytes_;
    HeldParts parts_;
    mutable std::array<Buffer, 2> buffers_;
    mutable std::size_t piece_ = none;  ///< what was looked at last
    mutable int index_ = 0;             ///< of its buffer
};

}  // namespace

std::size_t piece_buffer_bytes(const CapturePlan& plan, std::size_t piece_bytes) {
    std::size_t largest_tile = 0;
    for (const StageInfo& info : stages_of(plan.problem().direction)) {
        largest_tile = std::max(largest_tile, std::size_t(tile_shape(plan.problem(), info.stage).elements()));
    }
    return piece_bytes + largest_tile * sizeof(float);
}

void copy_pieces(PieceCopier& copier, std::size_t offset, std::span<std::byte> out) {
    const std::size_t most = copier.buffer(0).size();
    const auto index_at = [most](std::size_t done) { return int(done / most % 2); };
    const auto start = [&](std::size_t done) {
        if (done >= out.size()) return;
        copier.start(index_at(done), offset + done, std::min(most, out.size() - done));
    };
    start(0);
    for (std::size_t done = 0; done < out.size(); done += most) {
        start(done + most);
        copier.wait(index_at(done));
        const std::size_t count = std::min(most, out.size() - done);
        std::memcpy(out.data() + done, copier.buffer(index_at(done)).data(), count);
    }
}

std::unique_ptr<SinkContents> piece_contents(const CapturePlan& plan, std::unique_ptr<PieceCopier> copier,
                                             std::size_t piece_bytes) {
    return std::make_unique<PieceContents>(plan, std::move(copier), piece_bytes);
}

}  // namespace tilescope
