#include "oracle/ranks/step_in_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "oracle/ranks/owned_rows.h"

namespace tilescope {

namespace {

struct OperandStage {
    Stage stage;
    Input input;
    Descale SideInputs::*descale;
};
constexpr std::array<OperandStage, 3> operands = {{
    {Stage::q, Input::q, &SideInputs::descale_q},
    {Stage::k, Input::k, &SideInputs::descale_k},
    {Stage::v, Input::v, &SideInputs::descale_v},
}};

std::optional<std::size_t> operand_of(Stage stage) {
    const auto found = std::ranges::find(operands, stage, &OperandStage::stage);
    return found == operands.end() ? std::nullopt : std::optional(std::size_t(found - operands.begin()));
}

}  // namespace

StepInRun::StepInRun(std::shared_ptr<const RunOfRanks> run, std::size_t part)
    : RecordingView(*run->parts()[part]), run_(std::move(run)) {
    // What a rank owns has not arrived from anywhere.
    if (!of().has_inputs() || run_->owned_by(problem().shard.rank) == &of()) return;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        // A stage holds operands multiplied with their scales, and inputs do not.
        const bool is_plain = (side_inputs().*operands[i].descale).empty();
        is_owned_[i] = is_plain && are_owned(*run_, problem(), operands[i].input);
        is_arrived_[i] = is_owned_[i] && !of().has_stage(operands[i].stage);
    }
}

bool StepInRun::arrived(Stage stage) const {
    const auto operand = operand_of(stage);
    return operand && is_arrived_[*operand];
}

bool StepInRun::has_tile(Stage stage, const TileId& tile) const {
    if (!arrived(stage)) return of().has_tile(stage, tile);
    const TileShape extent = tile_extent(problem(), stage, tile);
    return extent.rows > 0 && extent.cols > 0;
}

bool StepInRun::read_tile(Stage stage, const TileId& tile, Span<float> out) const {
    if (!arrived(stage)) return of().read_tile(stage, tile, out);
    const TileShape extent = tile_extent(problem(), stage, tile);
    if (extent.rows <= 0) return false;
    const bool is_q = stage == Stage::q;
    const std::int64_t first = is_q ? tile.q_block * problem().block_m : tile.kv_tile * problem().block_n;
    const std::int64_t head = is_q ? tile.head : problem().head_kv(tile.head);
    std::fill(out.begin(), out.end(), 0.0F);
    of().read_input(operands[*operand_of(stage)].input, tile.batch, head, first, extent.rows,
                    out.subspan(0, std::size_t(extent.rows * extent.cols)));
    return true;
}

void StepInRun::read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                           std::int64_t count, Span<float> out) const {
    const auto operand = std::ranges::find(operands, input, &OperandStage::input);
    if (operand != operands.end() && is_owned_[std::size_t(operand - operands.begin())])
        return read_owned_rows(*run_, problem(), input, batch, head, row, count, out);
    of().read_input(input, batch, head, row, count, out);
}

}  // namespace tilescope
