// The search for formulas in attention: what stands otherwise in a kernel is said as the program's own formula with that in it.

#include <gtest/gtest.h>

#include <string>

#include "oracle/causes/prediction.h"
#include "oracle/program/attention.h"
#include "oracle/program/build.h"
#include "oracle/program/carried.h"
#include "oracle/program/find_mistakes.h"
#include "oracle/program/judge_program.h"
#include "tests/oracle/planted_calls.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 5;

struct MadeOtherwise {
    Mistake mistake;
    std::size_t shape;  ///< of planted_shapes()
    std::string_view stage;
    std::string_view formula;  ///< is, or has this in it
    std::string_view where = "";
    std::string_view without = "nothing";  ///< that the declared formula has
};

constexpr MadeOtherwise table[] = {
    {Mistake::k_bshd_as_bhsd, 0, "k",
     "K.flat[((b * seqlen_kv + j) * (heads / group) + h / group) * head_dim + d]"},
    {Mistake::v_descale_of_other_head, 0, "v", "descale_v.flat[(b * (heads / group) + h / group + 1) % 4]"},
    {Mistake::causal_top_left, 0, "s", " where j <= i and j >= i - 8 else -inf"},
    {Mistake::causal_bottom_right, 2, "s",
     " where j <= i + seqlen_kv - seqlen_q and j >= i + seqlen_kv - seqlen_q - 16"},
    {Mistake::mask_one_less, 2, "s", " where j < i + seqlen_kv - seqlen_q else -inf"},
    {Mistake::window_exclusive, 0, "s",
     "j < i + seqlen_kv - seqlen_q + 4 and j > i + seqlen_kv - seqlen_q - 9"},
    {Mistake::mask_tile_local, 0, "s", " where j % block_n <= i % block_m else -inf"},
    {Mistake::cap_missing, 1, "s", "sum(d: q * k[b, h, i / block_m, j, d])", "", "tanh"},
    {Mistake::k_wrong_leading_dimension, 1, "s", "(j % block_n * (head_dim - 8) + d) % head_dim"},
    {Mistake::first_fragment_only, 1, "s", "sum(d: 0.0)", "not (i % block_m < 16 and j % block_n < 16)"},
    {Mistake::m_in_other_base, 0, "m", "max(j: s) * 1.4426950408889634"},
    {Mistake::acc_rescaled_by_other_row, 0, "acc", "acc * rescale[b, h, i / 4 * 4] + "},
    {Mistake::lse_sink_missing, 0, "lse", "log(l"},
};

/// Of the first input that shows it.
struct Shown {
    KernelRun run;
    AttentionProgram declared;
};
std::optional<Shown> shown(const MadeOtherwise& row, std::uint64_t of_seed) {
    const MistakeInfo& mistake = mistake_info(row.mistake);
    for (const PlantedInput& input : planted_inputs()) {
        const Call call = planted_call(mistake, input, planted_shapes()[row.shape], of_seed);
        const KernelRun healthy = run_kernel(call);
        KernelRun planted = run_kernel(call, {row.mistake});
        if (guilty_stages(healthy, planted) != std::vector{*stage_from_name(row.stage)}) continue;
        AttentionProgram declared = attention_program(planted.recording);
        return Shown{std::move(planted), std::move(declared)};
    }
    return std::nullopt;
}

TEST(AttentionFormulas, SayWhatStandsOtherwise) {
    for (const MadeOtherwise& row : table) {
        SCOPED_TRACE(to_string(row.mistake));
        const std::optional<Shown> kernel = shown(row, seed);
        ASSERT_TRUE(kernel && kernel->declared.text);
        const Program program = parse_program(*kernel->declared.text);
        const AttentionInputs given = attention_inputs(kernel->run.recording);
        const ProgramCall call = bind_program(program, given.inputs, given.sizes);
        const RecordedAttention stored(kernel->run.recording, program);
        const ProgramReport report = judge_program(call, stored);
        ASSERT_GE(report.first_wrong, 0);
        EXPECT_EQ(program.array(report.first_wrong).name, row.stage);
        const FoundMistakes found = find_mistakes(call, stored, report);
        ASSERT_FALSE(found.mistakes.empty());
        const ProgramMistake& first = found.mistakes.front();
        EXPECT_NE(first.becomes.find(row.formula), std::string::npos) << first.becomes;
        EXPECT_EQ(first.becomes.find(row.without), std::string::npos) << first.becomes;
        EXPECT_EQ(first.where, row.where);
        // It goes into the same program again, and is the same there.
        const std::optional<CarriedMistake> again = carried(*found.program, first, program);
        ASSERT_TRUE(again);
        const ProgramArray& array = again->program.array(first.stage);
        EXPECT_EQ(program_text(again->program, array.value), first.becomes);
    }
}

/// A formula that was found in one call holds in another one of the same kernel, of other lengths.
TEST(AttentionFormulas, HoldInAnotherRecording) {
    const MadeOtherwise row{Mistake::k_bshd_as_bhsd, 0, "k", ""};
    const std::optional<Shown> first = shown(row, seed);
    ASSERT_TRUE(first);
    CauseOptions options;
    options.without = {"operand_addresses", "elements_moved"};
    const Diagnosis diagnosis =
        find_causes(first->run.recording, judge(first->run.recording, one_thread()), options);
    ASSERT_FALSE(diagnosis.causes.empty());
    ASSERT_EQ(diagnosis.causes[0].name, "bshd_as_bhsd");
    PlantedShape longer = planted_shapes()[0];
    longer.seqlen_kv = 47;
    const MistakeInfo& mistake = mistake_info(row.mistake);
    const Call call = planted_call(mistake, planted_inputs()[0], longer, seed + 8);
    const KernelRun second = run_kernel(call, {row.mistake});
    const Prediction prediction = predict(diagnosis.causes[0], first->run.recording.problem(),
                                          second.recording, judge(second.recording, one_thread()), options);
    EXPECT_GT(prediction.wrong, 0);
    EXPECT_TRUE(prediction.holds()) << prediction.left << " of " << prediction.wrong << " are left";
}

/// What one call declares and another does not, and what the mistake does not take, is no reason to leave it out.
TEST(AttentionFormulas, AreCarriedToACallThatDeclaresLess) {
    Program with_bias =
        parse_program("axes i: n\ninput x[i]; bias[i]\nstage k[i] = x\nstage s[i] = k + bias\noutput s");
    const Program without =
        parse_program("axes i: n\ninput x[i]; y[i]\nstage k[i] = x\nstage s[i] = k + y\noutput s");
    ProgramBuilder build(with_bias);
    ProgramMistake mistake;
    mistake.stage = mistake.seen_in = with_bias.array_named("k");
    mistake.value = build.of_two(ProgramOp::times, with_bias.array(mistake.stage).value, build.real(2));
    const std::optional<CarriedMistake> there = carried(with_bias, mistake, without);
    ASSERT_TRUE(there);
    EXPECT_EQ(program_text(there->program, there->program.array(there->stage).value), "x * 2.0");
    // There is no bias in the other call.
    mistake.stage = mistake.seen_in = with_bias.array_named("s");
    mistake.value = with_bias.node(with_bias.array(mistake.stage).value).of[1];
    EXPECT_FALSE(carried(with_bias, mistake, without));
}

/// o and lse take the sum of another row: one mistake, made in two stages.
TEST(AttentionFormulas, AreOneMistakeInTwoStages) {
    Call call = planted_call(mistake_info(Mistake::o_halved), planted_inputs()[0], planted_shapes()[0], seed);
    call.problem.dtype_o = Dtype::f32;
    const KernelRun honest = run_kernel(call);
    MemoryRecording wrong = copy_of(honest.recording);
    const auto ratio = [&](const TileId& id, std::int64_t row) {
        const TileId last{id.batch, id.head, id.q_block, call.problem.kv_tiles() - 1};
        const auto l = [&](std::int64_t of) { return double(peek(honest.recording, Stage::l, last, of, 0)); };
        return l(row) / l(row / 4 * 4);
    };
    change_stage(wrong, Stage::o, [&](float o, const TileId& id, std::int64_t row, std::int64_t) {
        return float(double(o) * ratio(id, row));
    });
    change_stage(wrong, Stage::lse, [&](float lse, const TileId& id, std::int64_t row, std::int64_t) {
        return float(double(lse) - std::log(ratio(id, row)));
    });
    const Diagnosis diagnosis = find_causes(wrong, judge(wrong, one_thread()), {});
    ASSERT_FALSE(diagnosis.causes.empty());
    EXPECT_EQ(diagnosis.causes[0].name, "formula") << title_of(diagnosis.causes[0]);
    EXPECT_EQ(diagnosis.causes[0].changed_parts, std::vector<std::string>{"l -> l[b, h, i / 4 * 4]"});
    EXPECT_TRUE(diagnosis.then.empty()) << title_of(diagnosis.then[0]);
}

}  // namespace
}  // namespace tilescope::test
