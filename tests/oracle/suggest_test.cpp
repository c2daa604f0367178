// What a healthy recording that declares something wrong would have to declare; and that a wrong kernel is not
// declared right.

#include "oracle/causes/suggest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/recording/recording_view.h"
#include "dump/schema/declarations.h"
#include "dump/schema/families.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/planted_calls.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 31;

struct Wrong {
    const char* assignment;
    void (*arithmetic)(Arithmetic&) = [](Arithmetic&) {};
    void (*problem)(Problem&) = [](Problem&) {};
};

std::string text_of(const Suggestion& suggestion) {
    std::string text;
    for (const auto& [name, value] : suggestion.assignments) text += name + "=" + value + " ";
    return text + (suggestion.then ? "then " + std::string(stage_info(*suggestion.then).name) : "");
}

/// The recording with what is suggested.
Report judged_as(const Recording& recording, const Suggestion& suggestion) {
    Problem problem = recording.problem();
    Units units = recording.units();
    for (const auto& [name, value] : suggestion.assignments)
        declarations::declare(*declarations::find_declaration(name), value, problem, units);
    return judged(DeclaredAs(recording, problem, units));
}

void expect_correction(const Wrong& wrong, Direction direction) {
    SCOPED_TRACE(wrong.assignment);
    Problem problem = one_entry(Mask::causal, direction);
    wrong.problem(problem);
    Arithmetic arithmetic;
    wrong.arithmetic(arithmetic);
    const Call call = make_call(problem, seed, arithmetic);
    const MemoryRecording honest = recorded(call);
    ASSERT_TRUE(matches(honest));
    Problem declared = honest.problem();
    Units units = honest.units();
    declarations::declare(wrong.assignment, declared, units);
    const MemoryRecording recording = declared_as(honest, declared, units, call.inputs);
    const Report report = report_of(recording, one_thread());
    ASSERT_TRUE(report.guilty) << verdict_line(report);
    const std::optional<Suggestion> suggestion = suggest_declarations(recording, report, 1);
    ASSERT_TRUE(suggestion) << verdict_line(report);
    EXPECT_FALSE(suggestion->then) << text_of(*suggestion);
    EXPECT_TRUE(all_match(judged_as(recording, *suggestion))) << text_of(*suggestion);
}

TEST(Suggest, CorrectsWhatAForwardPassDeclaresWrong) {
    const auto raw = [](Arithmetic& a) { a.softmax = Softmax::raw_exp2; };
    const auto cast = [](Arithmetic& a) {
        a.p_operand = Dtype::bf16;
        a.dumps_cast_p = true;
    };
    const auto operand = [](Arithmetic& a) { a.p_operand = Dtype::bf16; };
    const Wrong wrongs[] = {
        {"s.scaled=false"},
        {"s.scaled=true", raw},
        {"s.log_base=2"},
        {"s.masked=false"},
        {"m.scaled=true", raw},
        {"m.log_base=2"},
        {"p.cast=f32", cast},
        {"p.cast=bf16", operand},
        {"problem.dtype_p=f32", operand},
        {"l.sums_cast_p=false",
         [](Arithmetic& a) {
             a.p_operand = Dtype::bf16;
             a.l_sums_cast_p = true;
         }},
        {"lse.log_base=2"},
        {"problem.kv_order=forward", [](Arithmetic& a) { a.kv_order = KvOrder::reverse; }},
        {"problem.mask=none"},
        {"problem.causal_alignment=top_left"},
        {"problem.diagonal_offset=0", {}, [](Problem& p) { p.diagonal_offset = 5; }},
        {"problem.diagonal_offset=9", {}, [](Problem& p) { p.diagonal_offset = -3; }},
        {"problem.window_left=-1", {}, [](Problem& p) { p.window_left = 7; }},
        {"problem.logits_soft_cap=2"},
        {"problem.kv_tiles_per_split=2"},
        {"p.scale=1", [](Arithmetic& a) { a.p_scale = 448; }},
        {"o.empty_row=nan", {}, [](Problem& p) { p.seqlen_kv = 24; }},
    };
    for (Wrong wrong : wrongs) {
        if (wrong.arithmetic == nullptr) wrong.arithmetic = [](Arithmetic&) {};
        if (wrong.problem == nullptr) wrong.problem = [](Problem&) {};
        expect_correction(wrong, Direction::forward);
    }
}

TEST(Suggest, CorrectsWhatABackwardPassDeclaresWrong) {
    const Wrong wrongs[] = {{"s.scaled=false"}, {"p.scale=448"},       {"lse.log_base=2"},
                            {"ds.scale=448"},   {"problem.mask=none"}, {"problem.causal_alignment=top_left"}};
    for (const Wrong& wrong : wrongs) expect_correction(wrong, Direction::backward);
}

TEST(Suggest, SeveralAtOnce) {
    Arithmetic arithmetic;
    arithmetic.softmax = Softmax::raw_exp2;
    arithmetic.p_operand = Dtype::bf16;
    arithmetic.kv_order = KvOrder::reverse;
    const Call call = make_call(one_entry(Mask::causal, Direction::forward), seed, arithmetic);
    const MemoryRecording honest = recorded(call);
    Problem problem = honest.problem();
    Units units = honest.units();
    for (const char* wrong :
         {"s.scaled=true", "m.scaled=true", "problem.dtype_p=f32", "problem.kv_order=forward"})
        declarations::declare(wrong, problem, units);
    const MemoryRecording recording = declared_as(honest, problem, units, call.inputs);
    const std::optional<Suggestion> suggestion =
        suggest_declarations(recording, report_of(recording, one_thread()), 1);
    ASSERT_TRUE(suggestion);
    EXPECT_EQ(suggestion->assignments.size(), 4u) << text_of(*suggestion);
    EXPECT_TRUE(all_match(judged_as(recording, *suggestion))) << text_of(*suggestion);
}

/// A fault behind a wrong declaration is named, too.
TEST(Suggest, CauseOfWhatRemains) {
    for (const std::span<const MistakeInfo> stage : all_mistakes()) {
        for (const MistakeInfo& fault : stage) {
            if (fault.name != std::string_view("acc_not_rescaled")) continue;
            const Call call = planted_call(fault, planted_inputs()[0], planted_shapes()[0], seed);
            const MemoryRecording wrong = run_kernel(call, {fault.mistake}).recording;
            Problem problem = wrong.problem();
            Units units = wrong.units();
            declarations::declare("s.scaled=false", problem, units);
            const MemoryRecording recording = declared_as(wrong, problem, units, call.inputs);
            const std::optional<Suggestion> suggestion =
                suggest_declarations(recording, report_of(recording, one_thread()), 1);
            ASSERT_TRUE(suggestion);
            EXPECT_EQ(text_of(*suggestion), "s.scaled=true then acc");
            ASSERT_FALSE(suggestion->causes.empty());
            EXPECT_EQ(suggestion->causes[0].name, fault.name);
            return;
        }
    }
    FAIL() << "no such mistake";
}

/// A kernel that computes as a family does, recorded without a word about it.
struct OfFamily {
    const char* name;
    void (*arithmetic)(Arithmetic&);
    CausalAlignment alignment = CausalAlignment::bottom_right;
};

TEST(Families, DeclareWhatTheirKernelsDo) {
    const OfFamily families[] = {
        {"flash-attention-2",
         [](Arithmetic& a) {
             a.softmax = Softmax::raw_exp2;
             a.kv_order = KvOrder::reverse;
             a.lse_empty_row = EmptyRow::plus_infinity;
         }},
        {"flash-attention-3",
         [](Arithmetic& a) {
             a.softmax = Softmax::raw_exp2;
             a.kv_order = KvOrder::reverse;
         }},
        {"triton-tutorial",
         [](Arithmetic& a) {
             a.softmax = Softmax::raw_with_base_two_max;
             a.dumps_unmasked_s = true;
             a.lse_log_base = LogBase::two;
         },
         CausalAlignment::top_left},
        {"cutlass-fmha", [](Arithmetic& a) { a.softmax = Softmax::base_two; }},
    };
    for (const OfFamily& family : families) {
        SCOPED_TRACE(family.name);
        Problem problem = one_entry(Mask::causal, Direction::forward);
        problem.causal_alignment = family.alignment;
        Arithmetic arithmetic;
        arithmetic.p_operand = Dtype::f16;
        family.arithmetic(arithmetic);
        const Call call = make_call(problem, seed, arithmetic);
        const MemoryRecording honest = recorded(call);
        Problem declared = honest.problem();
        declared.dtype_p = Dtype::f32;
        Units units;
        const MemoryRecording silent = declared_as(honest, declared, units, call.inputs);
        EXPECT_FALSE(all_match(judged(silent)));
        declarations::declare_family(family.name, declared, units);
        EXPECT_TRUE(all_match(judged(DeclaredAs(silent, declared, units))));
    }
}

/// P of a backward pass that is 0 where its argument is below -3, and ds with it.
TEST(Suggest, FlushedProbabilitiesOfABackwardPass) {
    const Call call = make_call(one_entry(Mask::causal, Direction::backward), seed, {});
    MemoryRecording silent = with_stages(recorded(call), {Stage::s, Stage::p, Stage::ds});
    std::int64_t flushed = 0;
    for (std::int64_t i = 0; i < tile_count(silent.problem(), Stage::p); ++i) {
        const TileId tile = tile_at(silent.problem(), Stage::p, i);
        std::vector<float> p(std::size_t(tile_shape(silent.problem(), Stage::p).elements())), ds = p;
        if (!silent.read_tile(Stage::p, tile, p) || !silent.read_tile(Stage::ds, tile, ds)) continue;
        for (std::size_t e = 0; e < p.size(); ++e) {
            if (!(p[e] < std::exp(-3.0f))) continue;
            flushed += p[e] > 0;
            p[e] = ds[e] = 0;
        }
        silent.set_tile(Stage::p, tile, p);
        silent.set_tile(Stage::ds, tile, ds);
    }
    ASSERT_GT(flushed, 10);
    const Report wrong = judged(silent);
    EXPECT_EQ(wrong.guilty, Stage::p);
    const std::optional<Suggestion> suggestion = suggest_declarations(silent, wrong, 1);
    ASSERT_TRUE(suggestion);
    EXPECT_EQ(suggestion->assignments[0].name, "p.flush_below");
    EXPECT_EQ(suggestion->then, std::nullopt);
    Units units;
    units.p_flush_below = -3;
    const DeclaredAs declared(silent, silent.problem(), units);
    EXPECT_TRUE(matches(judged(declared)));
    // What is not below it may not be 0.
    const TileId diagonal{0, 0, 0, 0};
    std::vector<float> p(std::size_t(tile_shape(silent.problem(), Stage::p).elements()));
    ASSERT_TRUE(silent.read_tile(Stage::p, diagonal, p));
    const auto most = std::int64_t(std::ranges::max_element(p) - p.begin());
    const std::int64_t cols = tile_shape(silent.problem(), Stage::p).cols;
    const MemoryRecording zero = poked(silent, Stage::p, diagonal, most / cols, most % cols, 0);
    EXPECT_EQ(judged(DeclaredAs(zero, silent.problem(), units)).guilty, Stage::p);
}

TEST(Suggest, NothingWhereNothingDiverges) {
    const MemoryRecording honest = recorded(make_call(one_entry(Mask::causal, Direction::forward), seed, {}));
    EXPECT_FALSE(suggest_declarations(honest, judged(honest), 1));
}

/// What a mistake makes of the kernel is what these declare, to the last bit: both are said.
struct Declarable {
    std::string_view mistake;
    std::string_view declared;
};
constexpr Declarable declarable[] = {
    {"cap_missing", "problem.logits_soft_cap=0 "},
    {"kv_head_modulo", "problem.head_grouping=interleaved "},
    {"alibi_missing", "problem.alibi=none "},
    {"fp8_sum_of_scores", "s.accumulation=tensor_core_fp8 "},
    {"causal_ignored", "problem.mask=none "},
    {"causal_top_left", "problem.causal_alignment=top_left "},
    {"causal_bottom_right", "problem.causal_alignment=bottom_right "},
    {"window_exclusive", "problem.window_bounds=exclusive "},
    {"window_wider", "problem.window_left=10 "},
    {"p_rounded_to_bf16", "p.cast=bf16 "},
    {"p_rounded_to_e4m3", "p.cast=e4m3 "},
    {"p_scale_missing", "p.scale=1 acc.scale=1 "},
    {"p_clamped", "p.least_argument=-1 "},
    {"p_flushed", "p.flush_below=-10 "},
    {"l_of_cast_p", "l.sums_cast_p=true "},
    {"l_of_uncast_p", "l.sums_cast_p=false "},
    {"sink_missing_at_start", "problem.sink=none "},
    {"sink_missing_in_denominator", "problem.sink=none "},
    {"acc_kept_in_half", "problem.dtype_acc=f16 "},
    {"o_rounded_to_bf16", "problem.dtype_o=bf16 "},
    {"inf_minus_inf", "o.empty_row=nan lse.empty_row=nan "},
    {"empty_row_nan", "o.empty_row=nan "},
    {"lse_base_two", "lse.log_base=2 "},
    {"lse_sink_missing", "lse.includes_sink=false "},
};

void expect_no_other(const Recording& recording, const MistakeInfo& mistake) {
    const std::optional<Suggestion> suggestion =
        suggest_declarations(recording, report_of(recording, one_thread()), 1);
    if (!suggestion || suggestion->then) return;
    const auto known = std::ranges::find(declarable, mistake.name, &Declarable::mistake);
    EXPECT_EQ(text_of(*suggestion), known == std::end(declarable) ? "" : known->declared) << mistake.name;
}

/// From everything that was recorded, and from outputs alone, where wide budgets could explain much.
TEST(Suggest, NoOtherWrongKernelIsDeclaredRight) {
    const std::size_t step = 5 / tried_seeds(5);
    std::size_t number = 0;
    for (const std::span<const MistakeInfo> stage : all_mistakes()) {
        for (const MistakeInfo& mistake : stage) {
            if (++number % step != 0) continue;
            SCOPED_TRACE(mistake.name);
            const Call call = planted_call(mistake, planted_inputs()[0], planted_shapes()[0], seed);
            const MemoryRecording wrong = run_kernel(call, {mistake.mistake}).recording;
            expect_no_other(wrong, mistake);
            expect_no_other(with_stages(wrong, {Stage::o, Stage::lse}), mistake);
        }
    }
    EXPECT_GT(number, 100u);
}

/// Noise is no declaration.
TEST(Suggest, NothingForAPoke) {
    const MemoryRecording honest = recorded(make_call(one_entry(Mask::causal, Direction::forward), seed, {}));
    for (const Stage stage : {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o}) {
        const MemoryRecording wrong = poked(honest, stage, {0, 1, 1, 0}, 3, 0, 0.123f);
        const std::optional<Suggestion> suggestion = suggest_declarations(wrong, judged(wrong), 1);
        EXPECT_FALSE(suggestion) << stage_info(stage).name << ": " << text_of(*suggestion);
    }
}

}  // namespace
}  // namespace tilescope::test
