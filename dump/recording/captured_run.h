#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "dump/recording/capture_plan.h"
#include "dump/recording/memory_block.h"
#include "dump/recording/recorded_call.h"
#include "dump/recording/sink_contents.h"
#include "dump/schema/span.h"

namespace tilescope {

/// Bytes of an output that the kernel writes, whole, in `dtype`.
std::size_t output_bytes(const Problem& problem, Stage stage, Dtype dtype);

/// A finished capture as a Recording: what file_writer stores.
class CapturedRun final : public RecordedCall {
 public:
    /// `memory` is the plan's block as the kernel left it. Errors: Error when it has another size than the
    /// plan needs.
    CapturedRun(const CapturePlan& plan, MemoryBlock memory, RecordedCall call);
    /// `contents` are of the plan's memory. Errors: those of SinkContents, here and wherever tiles are read.
    CapturedRun(CapturePlan plan, std::unique_ptr<SinkContents> contents, RecordedCall call);
    /// Errors: the same, and those of RecordedCall.
    CapturedRun(const CapturePlan& plan, MemoryBlock memory, const Units& units, Provenance provenance,
                InputArrays inputs);
    CapturedRun(CapturedRun&&) = default;

    /// Merges an output as it lies in the kernel's output buffer, the array that output_shape() of
    /// dump/recording/array_shape.h describes, with what the hooks wrote: elements that the hooks left unwritten take
    /// the buffer's value; where both exist and differ, the buffer's value stays and the element counts as
    /// conflicting. `stage` is o or lse, in the backward pass dq, dk or dv, or one that is_merged(); `bits` are of `dtype`.
    ///
    /// Fill the buffer with 0xff bytes before the run to learn which elements the kernel never stored: an
    /// element of f32, f16 or bf16 whose bits are still all ones counts as unwritten, and as conflicting if a
    /// hook recorded a value for it. Tiles that have no room count as dropped.
    /// Errors: Error for another stage, or when `bits` has another size.
    void merge_output(Stage stage, Dtype dtype, Span<const std::byte> bits);

    bool has_stage(Stage stage) const override;
    /// Whether the tile is selected, has room and holds at least one written element.
    bool has_tile(Stage stage, const TileId& tile) const override;
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override;
    bool has_writers(Stage stage) const override;
    bool read_writers(Stage stage, const TileId& tile, Span<ElementWriter> out) const override;

 private:
    SinkTile tile_at(Stage stage, std::int64_t slot) const;
    /// The words of its writers.
    SinkTile writers_at(Stage stage, std::int64_t slot) const;
    /// Nothing when the tile is not selected or has no room.
    std::optional<SinkTile> find_tile(Stage stage, const TileId& tile) const;
    void summarise(Stage stage);
    void merge_tile(Stage stage, std::int64_t slot, Dtype dtype, Span<const std::byte> bits,
                    std::uint32_t* words);

    CapturePlan plan_;
    std::unique_ptr<SinkContents> contents_;
    Sink sink_;  ///< of its counters and conflict counters
};

}  // namespace tilescope
