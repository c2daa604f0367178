#include "oracle/causes/staged_scales.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "dump/recording/recording_view.h"
#include "dump/schema/declarations.h"
#include "dump/schema/semantics.h"
#include "oracle/judge.h"

namespace tilescope {

namespace {

struct ScalableOperand {
    Stage stage;
    Input input;
    const char* scale;
    const char* cast;
    double Units::*declared;
    Descale SideInputs::*descale;
    Dtype Problem::*dtype;
};
constexpr ScalableOperand scalable_operands[] = {
    {Stage::q, Input::q, "q.scale", "q.cast", &Units::q_scale, &SideInputs::descale_q, &Problem::dtype_q},
    {Stage::k, Input::k, "k.scale", "k.cast", &Units::k_scale, &SideInputs::descale_k, &Problem::dtype_k}};

/// What a kernel does to some operands before their product.
struct ScalingWay {
    double scale;
    Dtype dtype;
    std::vector<const ScalableOperand*> of;
};

/// The operands as the kernel has them after it, without the scale.
class RoundedOperands final : public RecordingView {
 public:
    RoundedOperands(const Recording& of, const ScalingWay& way) : RecordingView(of), way_(way) {}

    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override {
        of().read_input(input, batch, head, row, count, out);
        if (std::ranges::find(way_.of, input, &ScalableOperand::input) == way_.of.end()) return;
        const auto scale = float(way_.scale);
        for (float& value : out)
            value = float(double(decode(way_.dtype, encode(way_.dtype, value * scale))) / double(scale));
    }

 private:
    const ScalingWay& way_;
};

bool may_scale(const Recording& recording, const Declared& as, const ScalableOperand& operand) {
    return !recording.has_stage(operand.stage) && as.units.*operand.declared == 1 &&
           (recording.side_inputs().*operand.descale).empty();
}

/// Types that it may be rounded to: its own, where that has 16 bits.
std::vector<Dtype> types_for_scaling(Dtype own) {
    if (dtype_info(own).bytes == 2) return {own};
    return {Dtype::f16, Dtype::bf16};
}

std::vector<ScalingWay> scaling_ways(const Recording& recording, const Declared& as) {
    const Problem& problem = as.problem;
    const auto [scale, in_base_two, root, root_in_base_two] = staged_scales(problem);
    std::vector<ScalingWay> ways;
    for (const ScalableOperand& operand : scalable_operands) {
        if (!may_scale(recording, as, operand)) continue;
        for (const Dtype dtype : types_for_scaling(problem.*operand.dtype))
            for (const double by : {scale, in_base_two}) ways.push_back({by, dtype, {&operand}});
    }
    if (!may_scale(recording, as, scalable_operands[0]) || !may_scale(recording, as, scalable_operands[1]))
        return ways;
    for (const Dtype dtype : types_for_scaling(problem.dtype_q))
        for (const double by : {root, root_in_base_two})
            ways.push_back({by, dtype, {&scalable_operands[0], &scalable_operands[1]}});
    return ways;
}

/// Share of the stage's elements in the block that are wrong; nullopt where none can be judged, or a stage before is.
std::optional<double> wrong_share(const Recording& recording, Stage wrong, const Block& block) {
    JudgeOptions options;
    options.only_head = {block.batch, block.head};
    if (stage_info(wrong).per_q_block) options.only_q_block = block.q_block;
    options.until = wrong;
    options.threads = 1;
    try {
        const Report report = judge(recording, options);
        const StageTally& tally = report.stage(wrong).tally;
        if (tally.compared == 0 || (report.guilty && *report.guilty < wrong)) return std::nullopt;
        return double(tally.outside) / double(tally.compared);
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

std::vector<Declared> ways_to_scale_operands(const Recording& recording, const Declared& as, Stage wrong,
                                             const Block& block) {
    // Where a product of the float32 scale lies between two numbers of the type, the kernel may have the other one.
    constexpr double least_explained = 0.8;
    std::vector<Declared> all;
    if (wrong < Stage::s || (wrong != Stage::s && recording.has_stage(Stage::s))) return all;
    const DeclaredAs declared(recording, as.problem, as.units);
    std::optional<double> before;
    for (const ScalingWay& way : scaling_ways(recording, as)) {
        if (way.scale == 1) continue;
        if (!before) before = wrong_share(declared, wrong, block);
        if (!before) return all;
        const std::optional<double> after = wrong_share(RoundedOperands(declared, way), wrong, block);
        if (!after || *after > (1 - least_explained) * *before) continue;
        Declared next = as;
        for (const ScalableOperand* operand : way.of) {
            const std::string scale = declarations::number_text(way.scale);
            const std::string cast(dtype_info(way.dtype).name);
            for (const auto& [name, value] :
                 {Assignment{operand->scale, scale}, Assignment{operand->cast, cast}}) {
                declarations::declare(*declarations::find_declaration(name), value, next.problem, next.units);
                next.assignments.push_back({name, value});
            }
        }
        all.push_back(std::move(next));
    }
    return all;
}

}  // namespace tilescope
