// References against the definition of attention: right ones, wrong ones, and which one the kernel is closest
// to.

#include "oracle/judge/references.h"
#include "oracle/judge/work_sharing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/definition_options.h"
#include "tests/oracle/definition_replay.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

/// o and lse as they lie in a reference.
struct Outputs {
    std::vector<float> o;
    std::vector<float> lse;
};

std::size_t row_index(const Problem& p, std::int64_t batch, std::int64_t head, std::int64_t row) {
    return std::size_t((batch * p.heads + head) * p.seqlen_q + row);
}

/// By the definition, o rounded to `dtype`. What lies beyond an entry's rows is NaN.
Outputs defined_outputs(const AttentionCall& call, Dtype dtype) {
    const Problem& p = call.problem;
    Outputs outputs;
    outputs.o.assign(std::size_t(p.batch * p.heads * p.seqlen_q * p.head_dim_v), nan);
    outputs.lse.assign(std::size_t(p.batch * p.heads * p.seqlen_q), nan);
    for (std::int64_t batch = 0; batch < p.batch; ++batch) {
        for (std::int64_t head = 0; head < p.heads; ++head) {
            for (std::int64_t row = 0; row < rows_of_entry(call, batch); ++row) {
                const DefinedRow defined = define_row(call, batch, head, row);
                const std::size_t at = row_index(p, batch, head, row);
                outputs.lse[at] = float(defined.lse.value);
                for (std::size_t d = 0; d < defined.o.size(); ++d)
                    outputs.o[at * std::size_t(p.head_dim_v) + d] =
                        rounded(dtype, double(defined.o[d].value));
            }
        }
    }
    return outputs;
}

/// What a kernel stored.
Outputs outputs_of(const Recording& run) {
    Outputs outputs;
    visit_stage(run, Stage::o, [&](float value, auto...) { outputs.o.push_back(value); });
    visit_stage(run, Stage::lse, [&](float value, auto...) { outputs.lse.push_back(value); });
    return outputs;
}

ReferenceInfo named(std::string name, Dtype dtype = Dtype::f16, LogBase base = LogBase::e) {
    return {std::move(name), false, false, dtype, base};
}

std::vector<ReferenceReport> judged_references(const Recording& recording) {
    OneProcess alone;
    return judge_references(recording, default_confidence, 1, {}, alone);
}

ReferenceReport judged_alone(MemoryRecording& recording, const ReferenceInfo& info, const Outputs& outputs) {
    recording.add_reference(info, outputs.o, outputs.lse);
    return judged_references(recording).back();
}

void expect_right(const ReferenceOutput& output, std::int64_t elements) {
    EXPECT_EQ(output.tally.compared + output.tally.not_judged, elements);
    EXPECT_EQ(output.tally.outside, 0) << (output.tally.first ? values_of(*output.tally.first) : "");
    EXPECT_EQ(output.nonfinite(), 0);
}

double rms_of(const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(double(a[i]) - double(b[i]), 2);
    return std::sqrt(squares / double(a.size()));
}

std::string references_in(const std::string& text) {
    std::istringstream stream(text);
    std::string found;
    for (std::string line; std::getline(stream, line);) {
        for (const char* begin : {"right references", "reference ", "wrong references", "rows without keys",
                                  "closest reference"}) {
            if (line.rfind(begin, 0) == 0) found += line + "\n";
        }
    }
    return found;
}

/// 40 rows that see up to 72 keys, and a kernel's run on them.
struct SmallRun {
    Problem problem;
    Inputs inputs;
    MemoryRecording run;

    explicit SmallRun(const Problem& p)
        : problem(p), inputs(make_inputs(p, InputKind::ramped_k, 3)), run(recorded({p, {}, inputs})) {}
    AttentionCall call() const { return {problem, {}, inputs}; }
    std::int64_t rows() const { return problem.batch * problem.heads * problem.seqlen_q; }
};

TEST(References, DefinitionIsRightWithEveryOption) {
    for (const Option& option : value_options()) {
        SCOPED_TRACE(option.name);
        const Option* const options[] = {&option};
        AttentionCall call = call_with(options, 5);
        const std::unique_ptr<MemoryRecording> recording = recording_of(call);
        std::int64_t rows = 0;
        for (std::int64_t batch = 0; batch < call.problem.batch; ++batch)
            rows += call.problem.heads * rows_of_entry(call, batch);
        const ReferenceInfo info = named("definition", Dtype::f32, call.units.lse_log_base);
        const ReferenceReport report = judged_alone(*recording, info, defined_outputs(call, Dtype::f32));
        expect_right(report.o, rows * call.problem.head_dim_v);
        expect_right(report.lse, rows);
        EXPECT_LT(report.o.to_oracle.largest, 1e-5);
        EXPECT_LT(report.lse.to_oracle.largest, 1e-5);
        EXPECT_EQ(report.o.to_kernel.elements, 0);
    }
}

TEST(References, HonestImplementationsAreRight) {
    std::array<std::int64_t, input_kinds> elements{};
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Problem problem = random_problem(seed);
        const Dtype input = std::array{Dtype::f16, Dtype::bf16, Dtype::f32}[seed % 3];
        problem.dtype_q = problem.dtype_k = problem.dtype_v = input;
        problem.dtype_o = input;
        Arithmetic arithmetic;
        arithmetic.softmax = Softmax(seed % softmaxes);
        arithmetic.score_sum = arithmetic.pv_sum = seed % 2 == 0 ? Sum::truncating_4 : Sum::sequential;
        arithmetic.p_operand = input;
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(problem));
        const Inputs inputs = make_inputs(problem, InputKind(seed % input_kinds), seed);
        MemoryRecording kernel = recorded({problem, arithmetic, inputs});
        const ReferenceReport report =
            judged_alone(kernel, named("itself", input, kernel.units().lse_log_base), outputs_of(kernel));
        const std::int64_t rows = problem.batch * problem.heads * problem.seqlen_q;
        expect_right(report.o, rows * problem.head_dim_v);
        expect_right(report.lse, rows);
        EXPECT_EQ(report.o.to_kernel.largest, 0);
        elements[seed % input_kinds] += report.o.tally.compared;
    }
    // Scores of tens of thousands leave little to tell of outputs: float32 rounds them by more than their
    // softmax bears.
    for (int kind = 0; kind < input_kinds; ++kind) {
        const bool far = InputKind(kind) == InputKind::negative || InputKind(kind) == InputKind::huge;
        EXPECT_TRUE(far || elements[std::size_t(kind)] > 0) << to_string(InputKind(kind));
    }
}

TEST(References, DistancesAreThoseOfTheNumbers) {
    SmallRun small(small_problem());
    const Outputs exact = defined_outputs(small.call(), Dtype::f32);
    const Outputs kernel = outputs_of(small.run);
    Outputs reference = defined_outputs(small.call(), Dtype::f16);
    const ReferenceReport report = judged_alone(small.run, named("rounded"), reference);
    expect_right(report.o, small.rows() * 16);
    EXPECT_NEAR(report.o.to_oracle.rms(), rms_of(reference.o, exact.o), 1e-8);
    EXPECT_NEAR(report.o.to_kernel.rms(), rms_of(reference.o, kernel.o), 1e-8);
    EXPECT_NEAR(report.o.kernel_to_oracle.rms(), rms_of(kernel.o, exact.o), 1e-8);
    EXPECT_EQ(report.o.to_kernel.elements, small.rows() * 16);
    float largest = 0;
    for (std::size_t i = 0; i < kernel.o.size(); ++i)
        largest = std::max(largest, std::abs(kernel.o[i] - reference.o[i]));
    EXPECT_EQ(report.o.to_kernel.largest, double(largest));
    EXPECT_NEAR(report.lse.to_kernel.rms(), rms_of(reference.lse, kernel.lse), 1e-9);
}

TEST(References, OtherCausalAlignmentIsWrong) {
    SmallRun small(small_problem(Mask::causal));
    AttentionCall other = small.call();
    other.problem.causal_alignment = CausalAlignment::top_left;
    const Outputs wrong = defined_outputs(other, Dtype::f16);
    const Outputs exact = defined_outputs(small.call(), Dtype::f32);
    const ReferenceReport report = judged_alone(small.run, named("top_left"), wrong);
    std::int64_t far = 0;
    std::int64_t different = 0;
    for (std::size_t i = 0; i < exact.o.size(); ++i) {
        const float difference = std::abs(exact.o[i] - wrong.o[i]);
        far += difference > 0.02f;
        different += difference > 1e-5f;
    }
    EXPECT_GT(far, 1000);
    EXPECT_GE(report.o.tally.outside, far);
    EXPECT_LE(report.o.tally.outside, different);
    // Row 0 sees 33 keys, or one.
    const Element& first = report.o.tally.first.value();
    EXPECT_EQ(first.tile.batch + first.tile.head + first.row + first.col, 0);
    EXPECT_EQ(first.got, double(wrong.o[0]));
    EXPECT_NEAR(first.expected, double(exact.o[0]), 1e-6);
    EXPECT_EQ(report.lse.tally.outside, small.rows());

    const Report whole = judged(small.run);
    EXPECT_TRUE(matches(whole));
    const std::string text = references_in(to_text(whole));
    const std::string said = "reference top_left: wrong in " + std::to_string(report.o.tally.outside) +
                             " of 5120 elements of o, first at batch 0, head 0, row 0, column 0: got " +
                             digits_of(double(wrong.o[0]));
    EXPECT_EQ(text.rfind(said, 0), 0u) << text;
    EXPECT_NE(text.find("wrong in 320 of 320 elements of lse"), std::string::npos) << text;
    EXPECT_NE(text.find("closest reference: top_left, which is wrong ("), std::string::npos) << text;
}

TEST(References, KernelWithAMistakeIsClosestToTheReferenceThatMadeIt) {
    SmallRun small(small_problem(Mask::causal));
    AttentionCall other = small.call();
    other.problem.causal_alignment = CausalAlignment::top_left;
    const MemoryRecording kernel = recorded({other.problem, {}, small.inputs});
    MemoryRecording recording = declared_as(kernel, small.problem, {}, small.inputs);
    const Outputs right = defined_outputs(small.call(), Dtype::f16);
    const Outputs wrong = defined_outputs(other, Dtype::f16);
    recording.add_reference(named("right"), right.o, {});
    recording.add_reference(named("broken"), wrong.o, {});
    const Report report = judged(recording);
    EXPECT_EQ(report.verdict, Verdict::diverged);
    EXPECT_EQ(closest_references(report.references), std::vector<std::size_t>{1});
    EXPECT_FALSE(report.references[0].wrong());
    EXPECT_TRUE(report.references[1].wrong());
    const std::string text = references_in(to_text(report));
    EXPECT_EQ(text.rfind("right references: right\n", 0), 0u) << text;
    EXPECT_NE(text.find("closest reference: broken, which is wrong ("), std::string::npos) << text;
}

TEST(References, RowsWithoutKeysMayHoldWhatTheyLike) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = 24;  // rows 0 to 15 see no key
    SmallRun small(problem);
    Outputs outputs = defined_outputs(small.call(), Dtype::f16);
    for (std::int64_t head = 0; head < problem.batch * problem.heads; ++head) {
        const std::size_t row = std::size_t(head * problem.seqlen_q);
        std::fill_n(outputs.o.begin() + std::ptrdiff_t(row * 16), 16 * 16, nan);
        std::fill_n(outputs.lse.begin() + std::ptrdiff_t(row), 8, infinity);
    }
    ReferenceReport report = judged_alone(small.run, named("math"), outputs);
    expect_right(report.o, small.rows() * 16);
    expect_right(report.lse, small.rows());
    EXPECT_EQ(other_empty_rows(report.o, EmptyRow::zero), std::vector{EmptyRow::nan});
    EXPECT_EQ(other_empty_rows(report.lse, EmptyRow::minus_infinity), std::vector{EmptyRow::plus_infinity});
    EXPECT_TRUE(report.o.comparable());
    EXPECT_EQ(report.o.to_kernel.elements, problem.batch * problem.heads * 24 * 16);
    const std::string text = references_in(to_text(judged(small.run)));
    EXPECT_NE(text.find("rows without keys: math has nan in o, where the dump declares zero, "
                        "math has inf in lse, where the dump declares -inf\n"),
              std::string::npos)
        << text;

    outputs.o[3 * 16 + 5] = 0.5f;  // no convention
    outputs.o[16 * 16 + 2] = nan;  // row 16 sees a key
    outputs.lse[17] = -infinity;   // so does row 17
    report = judged_alone(small.run, named("spoiled"), outputs);
    EXPECT_EQ(report.o.tally.outside, 2);
    EXPECT_EQ(report.o.nonfinite(), 1);
    EXPECT_EQ(report.o.tally.first.value().row, 3);
    EXPECT_EQ(report.o.tally.first.value().col, 5);
    EXPECT_EQ(report.lse.tally.outside, 1);
    EXPECT_EQ(report.lse.tally.first.value().row, 17);
    EXPECT_EQ(report.o.lost, 1);
    EXPECT_EQ(closest_references(judged_references(small.run)), std::vector<std::size_t>{0});
}

TEST(References, RowsThatSeeASinkAreNotEmpty) {
    AttentionCall call{small_problem(Mask::causal), {}, {}};
    call.problem.seqlen_kv = 24;
    call.problem.sink = AttentionSink::last;
    call.inputs = make_inputs(call.problem, InputKind::normal, 4);
    add_slopes_and_sinks(call.problem, 4, call.inputs);
    const std::unique_ptr<MemoryRecording> recording = recording_of(call);
    Outputs outputs = defined_outputs(call, Dtype::f16);
    EXPECT_EQ(outputs.lse[0], call.inputs.side.sink[0]);
    EXPECT_FALSE(judged_alone(*recording, named("right"), outputs).wrong());
    outputs.o[0] = nan;
    outputs.lse[1] = -infinity;
    const ReferenceReport report = judged_alone(*recording, named("wrong"), outputs);
    EXPECT_EQ(report.o.tally.outside, 1);
    EXPECT_EQ(report.lse.tally.outside, 1);
}

TEST(References, RoundToTheirOwnType) {
    SmallRun small(small_problem());
    const Outputs halves = defined_outputs(small.call(), Dtype::f16);
    const Outputs bfloats = defined_outputs(small.call(), Dtype::bf16);
    expect_right(judged_alone(small.run, named("f16", Dtype::f16), halves).o, small.rows() * 16);
    expect_right(judged_alone(small.run, named("bf16", Dtype::bf16), bfloats).o, small.rows() * 16);
    EXPECT_TRUE(judged_alone(small.run, named("coarse", Dtype::f16), bfloats).wrong());
}

TEST(References, LogBaseIsTheReferencesOwn) {
    SmallRun small(small_problem());
    Outputs outputs = defined_outputs(small.call(), Dtype::f16);
    const std::vector<float> natural = outputs.lse;
    for (float& value : outputs.lse) value = float(double(value) / std::log(2.0));
    const ReferenceReport right =
        judged_alone(small.run, named("base_two", Dtype::f16, LogBase::two), outputs);
    expect_right(right.lse, small.rows());
    // In its own units: the kernel's lse is natural.
    EXPECT_NEAR(right.lse.to_kernel.rms() * std::log(2.0), rms_of(outputs_of(small.run).lse, natural), 1e-6);
    EXPECT_EQ(judged_alone(small.run, named("undeclared"), outputs).lse.tally.outside, small.rows());
}

TEST(References, KernelIsClosestToTheOneThatRoundsAsItDoes) {
    SmallRun small(small_problem());
    const Outputs exact = defined_outputs(small.call(), Dtype::f16);
    const Outputs kernel = outputs_of(small.run);
    Arithmetic half;
    half.p_operand = Dtype::f16;
    const Outputs other = outputs_of(recorded({small.problem, half, small.inputs}));
    small.run.add_reference(named("casts_p"), other.o, other.lse);
    small.run.add_reference(named("same"), kernel.o, kernel.lse);
    const Report report = judged(small.run);
    for (const ReferenceReport& reference : report.references) EXPECT_FALSE(reference.wrong());
    EXPECT_EQ(closest_references(report.references), std::vector<std::size_t>{1});
    EXPECT_EQ(closer_to_oracle(report.references[1].o), Closer::neither);
    EXPECT_EQ(closer_to_oracle(report.references[0].o),
              rms_of(other.o, exact.o) > rms_of(kernel.o, exact.o) ? Closer::kernel : Closer::reference);
    const std::string text = references_in(to_text(report));
    EXPECT_NE(text.find("right references: casts_p, same\n"), std::string::npos) << text;
    EXPECT_NE(text.find("closest reference: same (rms difference 0; the oracle is "), std::string::npos)
        << text;
    EXPECT_NE(text.find("; both are as close to the oracle\n"), std::string::npos) << text;

    small.run.add_reference(named("twin"), kernel.o, {});
    const Report tied = judged(small.run);
    EXPECT_EQ(closest_references(tied.references), (std::vector<std::size_t>{1, 2}));
    EXPECT_NE(to_text(tied).find(", tied with twin;"), std::string::npos) << to_text(tied);
    const auto json = nlohmann::json::parse(to_json(tied));
    EXPECT_EQ(json["closest_reference"], "same");
    EXPECT_EQ(json["tied_references"], nlohmann::json::array({"twin"}));
}

TEST(References, NoOutputOfTheKernel) {
    SmallRun small(small_problem());
    const Outputs outputs = defined_outputs(small.call(), Dtype::f16);
    MemoryRecording recording = with_stages(small.run, {Stage::s});
    recording.add_reference(named("math"), outputs.o, outputs.lse);
    const Report report = judged(recording);
    expect_right(report.references[0].o, small.rows() * 16);
    EXPECT_TRUE(closest_references(report.references).empty());
    EXPECT_EQ(references_in(to_text(report)), "right references: math\n");
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_TRUE(json["references"][0]["o"]["kernel"].is_null());
    EXPECT_TRUE(json["closest_reference"].is_null());
}

TEST(References, OnlyLse) {
    SmallRun small(small_problem());
    Outputs outputs = defined_outputs(small.call(), Dtype::f16);
    outputs.lse[row_index(small.problem, 1, 2, 7)] += 0.25f;
    const ReferenceReport report = judged_alone(small.run, named("lse_alone"), {{}, outputs.lse});
    EXPECT_EQ(report.lse.tally.outside, 1);
    const auto json = nlohmann::json::parse(to_json(judged(small.run)));
    const auto& reference = json["references"][0];
    EXPECT_EQ(reference["name"], "lse_alone");
    EXPECT_TRUE(reference["o"].is_null());
    EXPECT_EQ(reference["lse"]["compared"], 320);
    EXPECT_EQ(reference["lse"]["outside"], 1);
    EXPECT_EQ(reference["lse"]["first"]["batch"], 1);
    EXPECT_EQ(reference["lse"]["first"]["head"], 2);
    EXPECT_EQ(reference["lse"]["first"]["row"], 7);
    EXPECT_EQ(reference["lse"]["kernel"]["compared"], 320);
    EXPECT_NEAR(reference["lse"]["kernel"]["max_abs"].get<double>(), 0.25, 1e-4);
    EXPECT_TRUE(json["closest_reference"].is_null());
}

TEST(References, TextHasAtMostSixLinesHoweverManyThereAre) {
    SmallRun small(small_problem());
    const std::string without = to_text(judged(small.run));
    EXPECT_EQ(references_in(without), "");
    const Outputs right = defined_outputs(small.call(), Dtype::f16);
    Outputs wrong = right;
    for (float& value : wrong.o) value += 1;
    for (float& value : wrong.lse) value += 1;
    for (int i = 0; i < 8; ++i) {
        small.run.add_reference(named("right" + std::to_string(i)), right.o, right.lse);
        small.run.add_reference(named("wrong" + std::to_string(i)), wrong.o, wrong.lse);
    }
    const Report report = judged(small.run);
    const std::string text = references_in(to_text(report));
    EXPECT_LE(std::ranges::count(text, '\n'), 6) << text;
    EXPECT_NE(text.find("right references: right0, right1, right2, right3 and 4 more\n"), std::string::npos);
    EXPECT_NE(text.find("wrong references too: o of wrong2, o of wrong3, o of wrong4 and 11 more\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(std::ranges::count(to_text(report), '\n') - std::ranges::count(without, '\n'),
              std::ranges::count(text, '\n'));
    // The number of threads does not show.
    JudgeOptions four = one_thread();
    four.threads = 4;
    EXPECT_EQ(to_json(judge(small.run, four)), to_json(report));
}

}  // namespace
}  // namespace tilescope::test
