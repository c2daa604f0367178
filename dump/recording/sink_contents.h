#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "dump/recording.h"
#include "dump/recording/capture_plan.h"
#include "dump/recording/memory_block.h"
#include "dump/schema/span.h"

namespace tilescope {

/// A tile in a plan's memory.
struct SinkTile {
    std::size_t offset = 0;
    TileShape shape;
    TileShape extent;  ///< the part that lies inside the tensor

    std::size_t bytes() const { return std::size_t(shape.elements()) * sizeof(std::uint32_t); }
};

/// What a kernel left in the memory of a plan, wherever that lies. Offsets are in bytes from its beginning,
/// and multiples of 4. The const functions may be called from several threads.
class SinkContents {
 public:
    SinkContents() = default;
    SinkContents(const SinkContents&) = delete;
    SinkContents& operator=(const SinkContents&) = delete;
    virtual ~SinkContents() = default;

    /// A part of the memory that the host can change; what it holds then is what the other functions see.
    /// Valid as long as the contents. Errors: Error when the memory cannot be read.
    virtual std::byte* hold(std::size_t offset, std::size_t bytes) = 0;

    /// Whether any element of the tile was written, padding aside. Errors: as hold().
    bool has_tile(const SinkTile& tile) const;
    /// Copies the tile, padding included; returns false, and leaves `out` alone, when has_tile() is false.
    /// Errors: as hold().
    bool read_tile(const SinkTile& tile, Span<float> out) const;

 private:
    /// The bytes of a tile, until the next call; none when nothing of it was written.
    virtual Span<const std::byte> look(std::size_t offset, std::size_t bytes) const = 0;

    mutable std::mutex looking_;
};

/// Of memory that the host reads where it lies.
std::unique_ptr<SinkContents> host_contents(MemoryBlock memory);

/// Of memory that is lost: the plan's tables, and nothing written.
std::unique_ptr<SinkContents> lost_contents(const CapturePlan& plan);

/// Copies of parts of a memory.
class HeldParts {
 public:
    /// The bytes that `fill` puts there; they stay where they are. Nothing is kept when it throws.
    std::byte* add(std::size_t offset, std::size_t bytes, const std::function<void(Span<std::byte>)>& fill);
    /// Empty where no part holds all of it.
    Span<std::byte> find(std::size_t offset, std::size_t bytes) const;

 private:
    struct Part {
        std::size_t offset;
        std::size_t bytes;
        std::unique_ptr<std::uint64_t[]> words;  ///< as wide as the counters in it
    };
    std::vector<Part> parts_;
};

/// Lines of the hooks that recorded a stage, in their order, as far as hooks came: a crash may have stopped them anywhere, and the bytes
/// may be a stranger's.
std::vector<SourceLine> hooks_of(Span<const SinkHook> entered, Stage stage);

/// What the stage's counters say that was lost or seen twice. `sink` is the plan's, at its counters.
StageCapture summarise_stage(const CapturePlan& plan, const Sink& sink, Stage stage);

}  // namespace tilescope
