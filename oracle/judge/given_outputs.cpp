#include "oracle/judge/given_outputs.h"

#include <fmt/format.h>

#include <array>

#include "dump/recording/recording_view.h"
#include "oracle/judge/references.h"
#include "oracle/judge/report.h"

namespace tilescope {

namespace {

/// A recording of a backward pass as one of the forward pass before it, whose outputs are a reference.
class ForwardPass final : public RecordingView {
 public:
    explicit ForwardPass(const Recording& backward) : RecordingView(backward), problem_(backward.problem()) {
        problem_.direction = Direction::forward;
        given_.front().has_o = backward.has_input(Input::o);
        given_.front().has_lse = true;
        given_.front().dtype_o = problem_.dtype_o;
        given_.front().lse_log_base = backward.units().lse_log_base;
    }

    const Problem& problem() const override { return problem_; }
    const CaptureSummary& capture() const override { return capture_; }
    bool has_stage(Stage) const override { return false; }
    bool has_tile(Stage, const TileId&) const override { return false; }
    bool read_tile(Stage, const TileId&, Span<float>) const override { return false; }
    bool has_writers(Stage) const override { return false; }
    Span<const ReferenceInfo> references() const override { return given_; }
    void read_reference(std::size_t, Stage stage, std::int64_t batch, std::int64_t head, std::int64_t row,
                        std::int64_t count, Span<float> out) const override {
        of().read_input(stage == Stage::o ? Input::o : Input::lse, batch, head, row, count, out);
    }

 private:
    Problem problem_;
    CaptureSummary capture_;
    std::array<ReferenceInfo, 1> given_;
};

}  // namespace

std::int64_t given_output_steps(const Recording& recording) {
    const bool backward = recording.problem().direction == Direction::backward;
    return backward ? reference_steps(ForwardPass(recording)) : 0;
}

std::vector<std::string> warnings_of_given_outputs(const Recording& recording, double confidence, int threads,
                                                   const std::function<void()>& step, WorkSharing& sharing) {
    std::vector<std::string> warnings;
    if (recording.problem().direction == Direction::forward) return warnings;
    const ForwardPass forward(recording);
    const ReferenceReport given = judge_references(forward, confidence, threads, step, sharing).front();
    for (const Stage stage : {Stage::o, Stage::lse}) {
        const ReferenceOutput& output = given.output(stage);
        if (!given.info.has(stage) || !output.wrong()) continue;
        warnings.push_back(
            fmt::format("the {} that the kernel was given is not that of its q, k and v: {} of {} elements, "
                        "first at {}: {}",
                        stage_info(stage).name, output.tally.outside, output.tally.compared,
                        tensor_place_of(recording.problem(), stage, *output.tally.first),
                        values_of(*output.tally.first)));
    }
    return warnings;
}

}  // namespace tilescope
