#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dump/recording.h"
#include "dump/schema/span.h"

namespace tilescope {

/// Inputs as the kernel read them from global memory: raw bits of the arrays that input_shape() of
/// dump/recording/array_shape.h describes. All that the problem's direction requires, or none; dout, o and lse in the
/// backward pass only, where o may be missing.
struct InputArrays {
    std::vector<std::byte> q;
    std::vector<std::byte> k;
    std::vector<std::byte> v;
    std::vector<std::byte> dout = {};
    std::vector<std::byte> o = {};
    std::vector<std::byte> lse = {};
};

/// Bytes of an input that the kernel reads, whole.
std::size_t input_bytes(const Problem& problem, Input input);

/// Errors: Error unless `bytes`, of what is named, are as many as the problem needs.
void require_bytes(const std::string& what, std::size_t bytes, std::size_t expected);

/// What is known of a call before its kernel runs, in host memory: a Recording without a tile.
class RecordedCall : public Recording {
 public:
    /// Errors: Error when an input has another size than the problem needs, when only some inputs are there,
    /// and for one that its direction does not have.
    RecordedCall(const Problem& problem, const Units& units, Provenance provenance, InputArrays inputs);
    RecordedCall(RecordedCall&&) = default;

    /// What the call has beside q, k and v. Errors: Error when it does not fit the problem.
    void set_side_inputs(SideInputs inputs);
    void set_bias(Bias bias);
    /// The threads of its stages. Errors: the same.
    void set_threads(ThreadLayouts threads);

    void set_ended(std::string how) { capture_.ended = std::move(how); }
    void set_run(std::string run) { provenance_.run = std::move(run); }
    void set_launch(std::string launch) { provenance_.launch = std::move(launch); }

    const std::string& name() const override { return name_; }
    const Problem& problem() const override { return problem_; }
    const Units& units() const override { return units_; }
    const Provenance& provenance() const override { return provenance_; }
    const CaptureSummary& capture() const override { return capture_; }
    const ThreadLayouts& threads() const override { return threads_; }
    bool has_stage(Stage) const override { return false; }
    bool has_tile(Stage, const TileId&) const override { return false; }
    bool read_tile(Stage, const TileId&, Span<float>) const override { return false; }
    bool has_input(Input input) const override;
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override;
    const SideInputs& side_inputs() const override { return side_inputs_; }
    bool has_bias() const override { return !bias_.empty(); }
    void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                   Span<float> out) const override;

 protected:
    CaptureSummary capture_;

 private:
    std::string name_ = "captured run";
    Problem problem_;
    Units units_;
    Provenance provenance_;
    InputArrays inputs_;
    SideInputs side_inputs_;
    Bias bias_;
    ThreadLayouts threads_;
};

}  // namespace tilescope
