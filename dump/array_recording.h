#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "dump/recording/recorded_call.h"
#include "dump/recording/sampled_rows.h"
#include "dump/schema.h"
#include "dump/schema/selection.h"
#include "dump/schema/span.h"

namespace tilescope {

/// An array [batch][heads][rows][columns] in host memory, wherever its elements lie.
struct HostArray {
    const void* data = nullptr;  ///< the first element; null: there is no such array
    Dtype dtype = Dtype::f32;
    /// From one batch entry, head, row and column to the next, in elements; 0 where all share one.
    std::array<std::int64_t, 4> strides = {};
    /// Where each batch entry begins, in elements, where they are not strides[0] apart: packed one after the other.
    std::vector<std::int64_t> batch_starts = {};
};

/// One without gaps, [batch][heads][rows][columns]. A row of lse is one column.
HostArray heads_first(const void* data, Dtype dtype, std::int64_t heads, std::int64_t rows,
                      std::int64_t columns);
/// One without gaps, [batch][rows][heads][columns].
HostArray rows_first(const void* data, Dtype dtype, std::int64_t heads, std::int64_t rows,
                     std::int64_t columns);

/// Tiles of a stage next to each other, from one to another: [batch][head][q_block][kv_tile][row][column] in host memory.
struct TileArray {
    TileId first;
    TileId last;                  ///< inclusive
    const float* data = nullptr;  ///< whole tiles, padding included; unwritten_bits where nobody wrote
};

/// The smallest box of tiles with every one that is selected of the stage, without data. Errors: Error for none.
TileArray selected_box(const Problem& problem, Stage stage, const Selection& selection);

/// A call as its arrays in host memory, which are not copied and must outlive it: inputs and outputs, without a hook.
/// Tiles are those of the problem's block_m and block_n; they say how far the outputs are judged at a time, and what
/// lengths of sums are expected.
class ArrayRecording final : public RecordedCall {
 public:
    /// Errors: Error for a problem or units that are not valid.
    explicit ArrayRecording(const Problem& problem, const Units& units = {});

    /// What the kernel read. Errors: Error for an input that the direction does not have, and for another dtype than
    /// the problem's.
    void set_input(Input input, const HostArray& array);
    /// What it wrote: o and lse, in the backward pass dq, dk and dv; of a shard what is_merged(). Fill the array with 0xff bytes
    /// before the run, and elements that nobody stored count as unwritten, but in fp8. Errors: the same, and for another
    /// stage.
    void set_output(Stage stage, const HostArray& array);
    /// What hooks of the kernel's own have stored of a stage that is no output. Errors: Error for an output, for a stage
    /// that the pass does not have, and for tiles that the problem does not have.
    void set_tiles(Stage stage, const TileArray& tiles);
    /// Which tiles were recorded, or which query blocks are judged; at first all of them.
    void select(Selection selection);

    const std::string& name() const override;
    bool has_stage(Stage stage) const override;
    bool has_tile(Stage stage, const TileId& tile) const override;
    bool may_hold(const TileId& q_block) const override;
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override;
    bool has_input(Input input) const override;
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override;

 private:
    const HostArray& output(Stage stage) const { return outputs_[static_cast<std::size_t>(stage)]; }

    std::array<HostArray, input_count> inputs_;
    std::array<HostArray, stage_count> outputs_;
    std::array<TileArray, stage_count> tiles_;
};

}  // namespace tilescope
