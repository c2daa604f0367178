// What is answered of every stage that diverges by itself, which stage to record next, and mistakes beside what a
// dump does not hold: tails and tiles that were never computed.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "oracle/report/text.h"
#include "oracle/runs/same_run.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/planted_calls.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 29;

MemoryRecording run_with(const Plant& plant, InputKind kind = InputKind::ramped_k) {
    return recorded(make_call(small_problem_of_floats(), seed, {}, kind), plant);
}

const StageAnswer& answer_of(const Report& report, Stage stage) {
    const auto& answers = report.diagnosis.answers;
    const auto answer = std::ranges::find(answers, stage, &StageAnswer::stage);
    if (answer == answers.end()) throw std::runtime_error("no answer: " + causes_text(report));
    return *answer;
}

bool says(const Report& report, const std::string& line) {
    return causes_text(report).find(line) != std::string::npos;
}

TEST(Answers, AreGivenToEveryStageThatDivergesByItself) {
    MemoryRecording run = run_with({Mistake::l_not_rescaled});
    change_stage(run, Stage::lse, [](float value, auto...) { return -value; });
    std::mt19937 random(seed);
    change_stage(run, Stage::o, [&](float value, auto...) { return value + float(random() % 1000) / 500; });
    const Report report = diagnosed(run);
    std::vector<Stage> wrong;
    for (const StageInfo& info : stages_of(report.problem))
        if (report.stage(info.stage).tally.diverges()) wrong.push_back(info.stage);
    std::vector<Stage> answered;
    for (const StageAnswer& answer : report.diagnosis.answers) answered.push_back(answer.stage);
    EXPECT_EQ(answered, wrong);
    EXPECT_EQ(answered, (std::vector{Stage::l, Stage::o, Stage::lse}));
    EXPECT_EQ(answer_of(report, Stage::l).kind, AnswerKind::own_cause);
    EXPECT_EQ(answer_of(report, Stage::l).cause, "l_not_rescaled");
    EXPECT_EQ(answer_of(report, Stage::lse).kind, AnswerKind::own_cause);
    EXPECT_EQ(answer_of(report, Stage::lse).cause, "lse_sign");
    EXPECT_EQ(answer_of(report, Stage::o).kind, AnswerKind::unexplained);
    EXPECT_TRUE(says(report, "wrong too, o: unexplained\n")) << causes_text(report);
    EXPECT_TRUE(says(report, "wrong too, lse: a cause of its own, lse_sign\n")) << causes_text(report);
    EXPECT_TRUE(says(report, "then: lse_sign in lse")) << causes_text(report);
    EXPECT_FALSE(says(report, "wrong too, l:")) << causes_text(report);
}

/// The dump of the scores alone is wrong: what follows was computed from others.
TEST(Answers, SayThatAStageIsRightWithTheFirstComputed) {
    MemoryRecording run = run_with({});
    change_stage(run, Stage::s, [](float value, auto...) { return 1.5F * value; });
    const Report report = diagnosed(run);
    for (const Stage stage : {Stage::m, Stage::p}) {
        EXPECT_EQ(answer_of(report, stage).kind, AnswerKind::covered);
        EXPECT_EQ(answer_of(report, stage).computed, std::vector{Stage::s});
        EXPECT_EQ(answer_of(report, stage).made_in, Stage::s);
    }
    const std::string line = fmt::format("wrong too, m: covered by {} in s: right with s computed",
                                         report.diagnosis.causes.at(0).name);
    EXPECT_TRUE(says(report, line)) << causes_text(report);
}

/// Of what is computed from the wrong scores, two stages were recorded that do not depend on each other.
TEST(Answers, SayThatTheReplayOfTheFirstCauseHasAnotherStageSo) {
    const MemoryRecording run = run_with({Mistake::scaled_twice}, InputKind::normal);
    const Report report = diagnosed(with_stages(run, {Stage::l, Stage::acc}));
    ASSERT_EQ(report.diagnosis.causes.at(0).name, "scale_twice");
    const StageAnswer& answer = answer_of(report, Stage::acc);
    EXPECT_EQ(answer.kind, AnswerKind::covered);
    EXPECT_EQ(answer.made_in, Stage::s);
    EXPECT_TRUE(answer.computed.empty());
    EXPECT_FALSE(answer.made_again);
    EXPECT_TRUE(says(report, "wrong too, acc: covered by scale_twice in s, whose replay has it so\n"))
        << causes_text(report);
    EXPECT_TRUE(report.diagnosis.then.empty());
}

/// The same as before, but acc is changed once more: the first cause alone does not cover it.
TEST(Answers, DoNotTakeACauseToCoverMoreThanItReplays) {
    MemoryRecording run = run_with({Mistake::scaled_twice}, InputKind::normal);
    std::mt19937 random(seed);
    change_stage(run, Stage::acc, [&](float value, auto...) { return value * (1 + float(random() % 5)); });
    const Report report = diagnosed(with_stages(run, {Stage::l, Stage::acc}));
    ASSERT_EQ(report.diagnosis.causes.at(0).name, "scale_twice");
    EXPECT_EQ(answer_of(report, Stage::acc).kind, AnswerKind::unexplained);
}

/// 3 too many in o and 5 in lse: causes of the same name, and two mistakes.
TEST(Answers, DoNotTakeAnotherNumberForTheSameMistake) {
    MemoryRecording run = run_with({}, InputKind::normal);
    change_stage(run, Stage::o, [](float value, auto...) { return value + 3; });
    change_stage(run, Stage::lse, [](float value, auto...) { return value + 5; });
    const Report report = diagnosed(run);
    ASSERT_EQ(report.diagnosis.causes.at(0).name, "formula") << causes_text(report);
    EXPECT_EQ(answer_of(report, Stage::lse).kind, AnswerKind::own_cause) << causes_text(report);
    ASSERT_EQ(report.diagnosis.then.size(), 1u) << causes_text(report);
    EXPECT_EQ(report.diagnosis.then[0].observed, Stage::lse);
}

/// `col > seqlen_kv` in place of `col < seqlen_kv`: all keys are hidden, and the zeros behind the last one but one are counted.
TEST(Answers, TakeWhatAMaskShowsBehindTheKeysForTheSameMistake) {
    Problem p = small_problem_of_floats();
    p.seqlen_q = 32;
    p.seqlen_kv = 53;
    p.block_n = 32;
    MemoryRecording run = recorded(make_call(p, seed, {}, InputKind::normal));
    const auto is_last = [](const TileId& tile) { return tile.kv_tile == 1; };
    change_stage(run, Stage::s, [](auto...) { return -INFINITY; });
    change_stage(run, Stage::m,
                 [&](float, const TileId& tile, auto...) { return is_last(tile) ? 0 : -INFINITY; });
    change_stage(run, Stage::p, [](auto...) { return 0.0F; });
    change_stage(run, Stage::l,
                 [&](float, const TileId& tile, auto...) { return is_last(tile) ? 10.0F : 0.0F; });
    change_stage(run, Stage::acc, [](auto...) { return 0.0F; });
    change_stage(run, Stage::o, [](auto...) { return 0.0F; });
    change_stage(run, Stage::lse, [](auto...) { return std::log(10.0F); });
    const Report report = diagnosed(run);
    ASSERT_EQ(report.guilty, Stage::s);
    EXPECT_EQ(report.diagnosis.causes.at(0).name, "mask_elsewhere") << causes_text(report);
    EXPECT_EQ(answer_of(report, Stage::m).kind, AnswerKind::covered) << causes_text(report);
    EXPECT_TRUE(report.diagnosis.then.empty()) << causes_text(report);
}

TEST(Answers, SayThatAMistakeIsMadeTwice) {
    const MistakeInfo& mistake = mistake_info(Mistake::kv_head_modulo);
    const Call call = planted_call(mistake, planted_inputs()[0], planted_shapes()[0], seed);
    const Report report = diagnosed(recorded(call, {mistake.mistake}));
    ASSERT_EQ(report.guilty, Stage::k);
    EXPECT_EQ(answer_of(report, Stage::v).kind, AnswerKind::covered);
    EXPECT_TRUE(answer_of(report, Stage::v).made_again);
    EXPECT_TRUE(says(report, "wrong too, v: covered by kv_head_modulo in k, which is made here as well\n"));
}

TEST(Answers, AreGivenToBackwardPasses) {
    Call call = call_that_shows(Mistake::ds_without_delta, Direction::backward, seed);
    MemoryRecording run = recorded(call, {Mistake::ds_without_delta});
    change_stage(run, Stage::dp, [](float value, auto...) { return 1.5F * value; });
    change_stage(run, Stage::dk, [](float value, auto...) { return 2 * value; });
    const Report report = diagnosed(run);
    ASSERT_EQ(report.guilty, Stage::dp);
    const StageAnswer& of_dk = answer_of(report, Stage::dk);
    EXPECT_EQ(of_dk.kind, AnswerKind::own_cause);
    EXPECT_EQ(of_dk.cause, "output_constant");
    // dp was dumped otherwise than ds was computed with, and beside that delta is missing.
    EXPECT_EQ(answer_of(report, Stage::ds).kind, AnswerKind::own_cause) << causes_text(report);
    // The gradients that were computed from the dumped ds are right: nothing is to be answered of them.
    EXPECT_THROW(answer_of(report, Stage::dq), std::runtime_error);

    MemoryRecording other = recorded(call);
    change_stage(other, Stage::dp, [](float value, auto...) { return 1.5F * value; });
    const Report dump_alone = diagnosed(other);
    EXPECT_EQ(answer_of(dump_alone, Stage::ds).kind, AnswerKind::covered);
    EXPECT_EQ(answer_of(dump_alone, Stage::ds).computed, std::vector{Stage::dp});
}

TEST(Answers, AreInTheJson) {
    MemoryRecording run = run_with({});
    change_stage(run, Stage::s, [](float value, auto...) { return 1.5F * value; });
    const auto json = nlohmann::json::parse(to_json(diagnosed(run)));
    ASSERT_EQ(json["answers"].size(), 3u);
    EXPECT_EQ(json["answers"][0]["stage"], "s");
    EXPECT_EQ(json["answers"][0]["answer"], "own cause");
    EXPECT_EQ(json["answers"][1]["stage"], "m");
    EXPECT_EQ(json["answers"][1]["answer"], "covered");
    EXPECT_EQ(json["answers"][1]["right_with_computed"], nlohmann::json::array({"s"}));
    EXPECT_EQ(json["record_next"], nlohmann::json::array());
    EXPECT_TRUE(nlohmann::json::parse(to_json(judged(run_with({}))))["answers"].empty());
}

/// The last half of head_dim is missing in q, in k, or in their product: the scores do not tell.
TEST(Ties, SayWhichStagesToRecord) {
    for (const Mistake mistake : {Mistake::q_head_dim_truncated, Mistake::head_dim_truncated_in_s}) {
        const MistakeInfo& info = mistake_info(mistake);
        const Call call = planted_call(info, planted_inputs()[0], planted_shapes()[0], seed);
        const MemoryRecording run = recorded(call, {mistake});
        const Report blind = diagnosed(with_stages(run, {Stage::s, Stage::m, Stage::o}));
        EXPECT_EQ(blind.diagnosis.record_next, (std::vector{Stage::q, Stage::k})) << causes_text(blind);
        EXPECT_TRUE(says(blind, "record q and k, which they leave different\n")) << causes_text(blind);
        EXPECT_EQ(nlohmann::json::parse(to_json(blind))["record_next"], nlohmann::json::array({"q", "k"}));
        const Report telling =
            diagnosed(with_stages(run, {Stage::q, Stage::k, Stage::s, Stage::m, Stage::o}));
        EXPECT_TRUE(telling.diagnosis.record_next.empty()) << causes_text(telling);
        EXPECT_EQ(telling.guilty, info.stage);
    }
}

struct TailCase {
    Mistake mistake;
    std::int64_t seqlen_q;
    std::int64_t seqlen_kv;
    Mask mask;
};

class Tails : public ::testing::TestWithParam<TailCase> {};

TEST_P(Tails, HideNoTransposition) {
    const auto& [mistake, seqlen_q, seqlen_kv, mask] = GetParam();
    const MistakeInfo& info = mistake_info(mistake);
    Call call = planted_call(info, planted_inputs()[0], {"tails", seqlen_q, seqlen_kv, 32, 32, 32, 32}, seed);
    call.problem.mask = mask;
    const Report report = diagnosed(recorded(call, {mistake}));
    const auto first = first_causes(report);
    ASSERT_FALSE(first.empty()) << verdict_line(report);
    EXPECT_EQ(first[0].name, info.causes[0]) << causes_text(report);
}

std::vector<TailCase> tail_cases() {
    std::vector<TailCase> cases;
    for (const Mistake mistake : {Mistake::k_not_transposed, Mistake::v_not_transposed}) {
        for (const auto& [q, kv] : {std::pair{101, 128}, {101, 101}, {128, 101}})
            for (const Mask mask : {Mask::none, Mask::causal}) cases.push_back({mistake, q, kv, mask});
    }
    return cases;
}

std::string name_of(const ::testing::TestParamInfo<TailCase>& shape) {
    const auto& [mistake, q, kv, mask] = shape.param;
    return fmt::format("{}_{}x{}{}", to_string(mistake), q, kv, mask == Mask::causal ? "_causal" : "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, Tails, ::testing::ValuesIn(tail_cases()), name_of);

/// V of a tile as ldmatrix without .trans gives it: each 8 x 8 block transposed, zeros beyond the last key.
float of_transposed_block(const Inputs& inputs, const Problem& p, const TileId& tile, std::int64_t key,
                          std::int64_t d) {
    const std::int64_t row = key / 8 * 8 + d % 8;
    const std::int64_t first = tile.kv_tile * p.block_n;
    if (first + row >= p.seqlen_kv) return 0;
    const std::int64_t head_kv = tile.head / (p.heads / p.heads_kv);
    const std::int64_t rows = (tile.batch * p.heads_kv + head_kv) * p.seqlen_kv;
    return inputs.v[std::size_t((rows + first + row) * p.head_dim_v + d / 8 * 8 + key % 8)];
}

/// The run whose accumulators are those of transposed blocks of V, from the dumped maxima and P.
MemoryRecording with_transposed_blocks(const Call& call) {
    MemoryRecording run = recorded(call);
    const Problem& p = call.problem;
    for (std::int64_t i = 0; i < tile_count(p, Stage::q); ++i) {
        TileId tile = tile_at(p, Stage::q, i);
        std::vector<float> acc(std::size_t(p.block_m * p.head_dim_v), 0.0F);
        for (; tile.kv_tile < p.kv_tiles(); ++tile.kv_tile) {
            if (!run.has_tile(Stage::acc, tile)) continue;
            const TileShape rows = tile_extent(p, Stage::p, tile);
            for (std::int64_t row = 0; row < rows.rows; ++row) {
                const float m = peek(run, Stage::m, tile, row, 0);
                TileId before = tile;
                --before.kv_tile;
                const float old = tile.kv_tile > 0 ? peek(run, Stage::m, before, row, 0) : m;
                for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
                    double sum = double(acc[std::size_t(row * p.head_dim_v + d)]) * std::exp(double(old - m));
                    for (std::int64_t key = 0; key < rows.cols; ++key)
                        sum += double(peek(run, Stage::p, tile, row, key)) *
                               double(of_transposed_block(call.inputs, p, tile, key, d));
                    acc[std::size_t(row * p.head_dim_v + d)] = float(sum);
                }
            }
            run.set_tile(Stage::acc, tile, acc);
        }
    }
    return run;
}

TEST(TailsOfBlocks, AreTransposedWithZerosBehindThem) {
    for (const auto& [q, kv] : {std::pair{37, 53}, {64, 53}}) {
        Problem p = small_problem_of_floats();
        p.seqlen_q = q;
        p.seqlen_kv = kv;
        p.block_n = 32;
        p.head_dim = p.head_dim_v = 16;
        const Report report = diagnosed(with_transposed_blocks(make_call(p, seed, {}, InputKind::normal)));
        ASSERT_EQ(report.guilty, Stage::acc) << verdict_line(report);
        ASSERT_FALSE(report.diagnosis.causes.empty()) << q << " x " << kv;
        EXPECT_EQ(report.diagnosis.causes[0].name, "v_not_transposed") << q << " x " << kv;
        EXPECT_NE(title_of(report.diagnosis.causes[0]).find("j % block_n / 8 * 8 + e % 8"), std::string::npos)
            << title_of(report.diagnosis.causes[0]);
    }
}

/// A loop over KV tiles that leaves the last one out, in all heads or in one: nothing of it is there.
MemoryRecording without_last_tile(KvOrder order, std::int64_t head, const CaptureSummary& capture) {
    const MistakeInfo& info = mistake_info(Mistake::last_tile_skipped);
    Call call = planted_call(info, planted_inputs()[0], planted_shapes()[0], seed);
    call.arithmetic.kv_order = order;
    const MemoryRecording whole = recorded(call, {info.mistake, -1, head});
    const std::int64_t last = call.problem.kv_tiles() - 1;
    MemoryRecording run = copy_of(whole, [&](Stage stage, const TileId& tile) {
        const bool is_run = tile.kv_tile < last || (head >= 0 && tile.head != head);
        return !stage_info(stage).per_kv_tile || is_run;
    });
    run.set_capture(capture);
    return run;
}

TEST(SkippedTile, IsToldWithAndWithoutWhatWasAskedFor) {
    for (const KvOrder order : {KvOrder::forward, KvOrder::reverse}) {
        const Report asked = diagnosed(without_last_tile(order, -1, everything_selected()));
        EXPECT_EQ(asked.diagnosis.causes.at(0).name, "tile_skipped");
        const Report report = diagnosed(without_last_tile(order, -1, {}));
        ASSERT_FALSE(report.diagnosis.causes.empty()) << causes_text(report);
        EXPECT_EQ(title_of(report.diagnosis.causes[0]), "kv_tile_skipped (which the last)");
        for (const StageAnswer& answer : report.diagnosis.answers)
            EXPECT_EQ(answer.cause, "kv_tile_skipped") << causes_text(report);
        const Report of_head = diagnosed(without_last_tile(order, 1, {}));
        ASSERT_FALSE(of_head.diagnosis.causes.empty()) << causes_text(of_head);
        EXPECT_EQ(of_head.diagnosis.causes[0].name, "kv_tile_skipped");
    }
}

/// A causal loop that ends one tile early: each query block lacks another tile. Of the blocks but the first, which
/// would see nothing, each is that of a run without a mask on the keys before its diagonal.
TEST(SkippedTile, MayBeAnotherOneInEachQueryBlock) {
    Problem p = small_problem_of_floats(Mask::causal);
    p.batch = p.heads = p.heads_kv = 1;
    p.block_m = p.block_n = 16;
    p.seqlen_q = p.seqlen_kv = 64;
    const Call call = make_call(p, seed, {}, InputKind::normal);
    MemoryRecording run = recorded(call);
    for (std::int64_t block = 1; block < p.q_blocks(); ++block) {
        Call before = call;
        before.problem.mask = Mask::none;
        before.problem.seqlen_kv = block * p.block_n;
        before.inputs.k.resize(std::size_t(before.problem.seqlen_kv * p.head_dim));
        before.inputs.v.resize(std::size_t(before.problem.seqlen_kv * p.head_dim_v));
        const MemoryRecording part = recorded(before);
        for (const StageInfo& info : stages_of(p)) {
            if (info.per_kv_tile) run.remove_tile(info.stage, {0, 0, block, block});
            std::vector<float> values(std::size_t(tile_shape(p, info.stage).elements()));
            if (part.read_tile(info.stage, {0, 0, block, 0}, values) && !info.per_kv_tile)
                run.set_tile(info.stage, {0, 0, block, 0}, values);
        }
    }
    const Report report = diagnosed(run);
    ASSERT_EQ(report.guilty, Stage::o);
    // A mask that hides the whole tile leaves the same.
    std::vector<std::string> first;
    for (const FoundCause& cause : first_causes(report)) first.push_back(title_of(cause));
    EXPECT_NE(std::ranges::find(first, "kv_tile_skipped (which those that are not in the recording)"),
              first.end())
        << causes_text(report);
    EXPECT_EQ(answer_of(report, Stage::lse).kind, AnswerKind::covered) << causes_text(report);
}

/// Lanes leave columns of P unwritten, and acc is computed from what memory held there: zeros in one run, other
/// numbers in the other.
TEST(OtherPoison, ShowsWhatWasReadBeforeItWasWritten) {
    MemoryRecording run = run_with({});
    change_stage(run, Stage::p, [](float value, const TileId& tile, std::int64_t, std::int64_t col) {
        return tile.head == 1 && col % 8 >= 6 ? unwritten : value;
    });
    MemoryRecording other = copy_of(run);
    change_stage(other, Stage::acc, [](float value, const TileId& tile, std::int64_t, std::int64_t) {
        return tile.head == 1 && tile.kv_tile >= 2 ? value + 1 : value;
    });
    Provenance poisoned = other.provenance();
    poisoned.command = "tile-run poison --kernel scalar";
    other.set_provenance(poisoned);
    const SameRun runs = compare_same_run(run, other);
    const std::string text = to_text(runs);
    EXPECT_NE(text.find("cause: read_before_written in acc: "), std::string::npos) << text;
    EXPECT_NE(text.find("  where head == 1 and kv_tile >= 2\n"), std::string::npos) << text;
    EXPECT_NE(text.find("  read before it was written: p where head == 1 and col % 8 >= 6, which no thread "),
              std::string::npos)
        << text;
    const auto causes = nlohmann::json::parse(to_json(runs))["causes"];
    EXPECT_EQ(causes[0]["name"], "read_before_written");
    EXPECT_EQ(causes[1]["rank"], 2);
    EXPECT_EQ(causes[0]["never_written"][0]["stage"], "p");
    EXPECT_EQ(causes[0]["never_written"][0]["where"], "head == 1 and col % 8 >= 6");
}

/// A tile of K of which rows were not loaded: it is itself what differs.
TEST(OtherPoison, ShowsRowsThatWereNotLoaded) {
    const MemoryRecording run = run_with({});
    MemoryRecording other = copy_of(run);
    change_stage(other, Stage::k, [](float value, const TileId&, std::int64_t row, std::int64_t) {
        return row >= 12 ? value + 1 : value;
    });
    const SameRun runs = compare_same_run(run, other);
    EXPECT_EQ(runs.where, "row >= 12");
    EXPECT_TRUE(runs.never_written.empty());
    EXPECT_NE(to_text(runs).find("cause: racing in k, or read_before_written"), std::string::npos);
}

}  // namespace
}  // namespace tilescope::test
