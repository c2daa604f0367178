#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dump/capture_plan.h"
#include "dump/recording.h"

namespace tilescope {

/// Inputs as the kernel read them from global memory: raw bits of the arrays that input_shape() of
/// dump/array_shape.h describes. All that the problem's direction requires, or none; dout, o and lse in the
/// backward pass only, where o may be missing.
struct InputArrays {
    std::vector<std::byte> q;
    std::vector<std::byte> k;
    std::vector<std::byte> v;
    std::vector<std::byte> dout = {};
    std::vector<std::byte> o = {};
    std::vector<std::byte> lse = {};
};

/// Bytes of an array that the kernel reads or writes: the whole input, or the whole output in `dtype`.
std::size_t input_bytes(const Problem& problem, Input input);
std::size_t output_bytes(const Problem& problem, Stage stage, Dtype dtype);

/// A finished capture in host memory, as a Recording: what file_writer stores.
class CapturedRun final : public Recording {
 public:
    /// `memory` is the plan's block as the kernel left it. Errors: Error when it or an input has another size
    /// than the plan's problem needs, when only some inputs are there, and for one that its direction does
    /// not have.
    CapturedRun(CapturePlan plan, std::vector<std::byte> memory, Units units, Provenance provenance,
                InputArrays inputs);
    CapturedRun(CapturedRun&&) = default;

    /// Merges an output as it lies in the kernel's output buffer, the array that output_shape() of
    /// dump/array_shape.h describes, with what the hooks wrote: elements that the hooks left unwritten take
    /// the buffer's value; where both exist and differ, the buffer's value stays and the element counts as
    /// conflicting. `stage` is o or lse, in the backward pass dq, dk or dv; `bits` are of `dtype`.
    ///
    /// A buffer that was filled with 0xff bytes before the run tells which elements the kernel never stored:
    /// elements of f32, f16 or bf16 whose bits are still all set are taken as unwritten, and count as
    /// conflicting where a hook claims a value. Tiles that have no room count as dropped.
    /// Errors: Error for another stage, or when `bits` has another size.
    void merge_output(Stage stage, Dtype dtype, std::span<const std::byte> bits);

    /// What the call has beside q, k and v. Errors: Error when it does not fit the problem.
    void set_side_inputs(SideInputs inputs);
    void set_bias(Bias bias);

    void set_ended(std::string how) { capture_.ended = std::move(how); }
    void set_launch(std::string launch) { provenance_.launch = std::move(launch); }

    const std::string& name() const override { return name_; }
    const Problem& problem() const override { return plan_.problem(); }
    const Units& units() const override { return units_; }
    const Provenance& provenance() const override { return provenance_; }
    const CaptureSummary& capture() const override { return capture_; }
    bool has_stage(Stage stage) const override;
    /// Whether the tile is selected, has room and holds at least one written element.
    bool has_tile(Stage stage, const TileId& tile) const override;
    bool read_tile(Stage stage, const TileId& tile, std::span<float> out) const override;
    bool has_input(Input input) const override;
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    std::span<float> out) const override;
    const SideInputs& side_inputs() const override { return side_inputs_; }
    bool has_bias() const override { return !bias_.empty(); }
    void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                   std::span<float> out) const override;

 private:
    std::uint32_t* tile_words(Stage stage, std::int64_t slot) const;
    bool holds_written_element(Stage stage, std::int64_t slot) const;
    void summarise(Stage stage);
    void merge_tile(Stage stage, std::int64_t slot, Dtype dtype, std::span<const std::byte> bits);

    std::string name_ = "captured run";
    CapturePlan plan_;
    std::vector<std::byte> memory_;
    Sink sink_;
    Units units_;
    Provenance provenance_;
    InputArrays inputs_;
    SideInputs side_inputs_;
    Bias bias_;
    CaptureSummary capture_;
    std::array<std::vector<bool>, stage_count> recorded_;  ///< [slot]: an element of the tile was written
};

}  // namespace tilescope
