// Attention as a program says it, beside the formulas that judge it: two readings of what attention is.

#include "oracle/program/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "dump/reader.h"
#include "oracle/formula/estimate.h"
#include "oracle/judge.h"
#include "oracle/judge/observe.h"
#include "oracle/program/judge_program.h"
#include "tests/oracle/draws.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

/// Where an element of a stage's array stands in the tiles of the recording.
struct Spot {
    TileId tile;
    std::int64_t row = 0;
    std::int64_t col = 0;
};

Spot spot_of(const Problem& p, Stage stage, const std::vector<std::int64_t>& at, std::int64_t block) {
    const StageInfo info = stage_info(p, stage);
    const bool is_copy = at.size() > 4;  // of keys, for each query block
    const bool is_of_rows = info.per_q_block && !is_copy;
    Spot spot{{at[0], at[1], is_copy ? at[2] : 0, std::max<std::int64_t>(block, 0)}, at[is_copy ? 3 : 2], 0};
    const std::int64_t rows = is_of_rows ? p.block_m : p.block_n;
    (is_of_rows ? spot.tile.q_block : spot.tile.kv_tile) = spot.row / rows;
    spot.row %= rows;
    if (at.size() < 4) return spot;
    spot.col = at.back();
    if (is_of_rows && info.per_kv_tile && block < 0) {
        spot.tile.kv_tile = spot.col / p.block_n;
        spot.col %= p.block_n;
    }
    return spot;
}

using Judged = std::map<std::pair<Stage, TileId>, Estimate>;

Judged judged_by_formulas(const Recording& recording) {
    Judged all;
    const Problem& p = recording.problem();
    const auto keep = [&](const ObservedTile& tile) {
        if (tile.expected != nullptr) all[{tile.context.stage, tile.context.tile}] = *tile.expected;
    };
    JudgeOptions options;
    options.threads = 1;
    for (std::int64_t i = 0; i < p.batch * p.heads; ++i)
        observe_tiles(recording, nullptr, options, i / p.heads, i % p.heads, std::nullopt, keep);
    return all;
}

/// What both say of the elements of a call.
struct Tally {
    std::int64_t elements = 0;
    std::int64_t outside = 0;                     ///< of the program's budget
    std::int64_t other_value = 0;                 ///< both expect another number
    std::map<Stage, std::vector<double>> ratios;  ///< program's budget over that of the formulas
    std::string first;
};

void compare(const Recording& recording, Stage stage, const ProgramTile& tile, const ExpectedTile& expected,
             const StoredTiles& stored, const Judged& judged, Tally& tally) {
    const Problem& p = recording.problem();
    std::vector<double> values(std::size_t(tile.size()));
    std::vector<char> known(values.size(), 0);
    stored.read(tile, values, known);
    for (std::int64_t i = 0; i < tile.size(); ++i) {
        const Spot spot = spot_of(p, stage, tile.index_of(i), tile.block);
        const double got = values[std::size_t(i)];
        if (known[std::size_t(i)] == 0) continue;
        ++tally.elements;
        const double value = expected.value[std::size_t(i)];
        const double error = expected.error[std::size_t(i)];
        const bool is_same = got == value || (std::isnan(got) && std::isnan(value));
        if (!is_same && !(std::abs(got - value) <= error)) {
            ++tally.outside;
            if (tally.first.empty())
                tally.first = std::string(stage_info(p, stage).name) + " row " + std::to_string(spot.row) +
                              " col " + std::to_string(spot.col) + " tile " +
                              std::to_string(spot.tile.kv_tile) + ": got " + std::to_string(got) +
                              " expected " + std::to_string(value) + " +- " + std::to_string(error);
        }
        const auto found = judged.find({stage, spot.tile});
        if (found == judged.end()) continue;
        const double other = found->second.value(spot.row, spot.col);
        const double tolerance = found->second.error(spot.row, spot.col);
        if (!std::isfinite(other) || !std::isfinite(value) || !std::isfinite(tolerance)) {
            tally.other_value +=
                std::isfinite(other) != std::isfinite(value) && std::isfinite(tolerance) ? 1 : 0;
            continue;
        }
        if (!(std::abs(other - value) <= std::max(tolerance, error))) {
            ++tally.other_value;
            if (tally.first.empty())
                tally.first = "other " + std::string(stage_info(p, stage).name) + ": " +
                              std::to_string(other) + " program " + std::to_string(value);
        }
        if (tolerance > 0 && error > 0) tally.ratios[stage].push_back(error / tolerance);
    }
}

Tally compared(const Recording& recording) {
    const AttentionProgram declared = attention_program(recording);
    if (!declared.text) throw std::logic_error(declared.why);
    const Program program = parse_program(*declared.text);
    const AttentionInputs inputs = attention_inputs(recording);
    const ProgramCall call = bind_program(program, inputs.inputs, inputs.sizes);
    const Judged judged = judged_by_formulas(recording);
    const RecordedAttention stored(recording, program);
    Tally tally;
    ProgramOptions options;
    options.tensor_core = tensor_core(recording.provenance().compute_capability);
    options.stored = &stored;
    evaluate_program(call, options, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        if (!stored.has(tile.stage)) return;
        const Stage stage = *stage_from_name(program.array(tile.stage).name);
        compare(recording, stage, tile, expected, stored, judged, tally);
    });
    return tally;
}

/// A call that the language has words for.
Call drawn(std::uint64_t seed) {
    Random random(seed * 747796405u + 2891336453u);
    Problem p = random_problem(seed);
    if (one_in(random, 3)) p.logits_soft_cap = pick(random, {5.0, 30.0});
    if (one_in(random, 3)) p.alibi = pick(random, {Alibi::linear, Alibi::distance});
    if (one_in(random, 3)) p.sink = pick(random, {AttentionSink::first, AttentionSink::last});
    if (one_in(random, 2)) p.window_bounds = WindowBounds::exclusive;
    if (one_in(random, 3)) p.head_grouping = HeadGrouping::interleaved;
    if (p.sink != AttentionSink::first && one_in(random, 3)) {
        p.l_lanes = pick<std::int64_t>(random, {2, 4});
        p.l_lane_columns = pick<std::int64_t>(random, {1, 2});
    }
    if (one_in(random, 4)) p.dtype_o = pick(random, {Dtype::bf16, Dtype::f32});
    Arithmetic a;
    a.softmax = pick(random, {Softmax::natural, Softmax::natural_contracted, Softmax::natural_exp2});
    a.score_sum = Sum(random() % sums);
    a.pv_sum = Sum(random() % sums);
    a.separate_pv = one_in(random, 2);
    a.reciprocal = one_in(random, 2);
    a.worst_exp = one_in(random, 3);
    a.separate_alibi = one_in(random, 2);
    a.skips_hidden_tiles = false;
    a.p_operand = pick(random, {Dtype::f32, Dtype::f16, Dtype::bf16});
    a.dumps_cast_p = one_in(random, 2);
    a.l_sums_cast_p = one_in(random, 2);
    a.dumps_unmasked_s = one_in(random, 3);
    a.dumps_uncapped_s = one_in(random, 4);
    a.dumps_unbiased_s = a.dumps_uncapped_s || one_in(random, 4);
    a.lse_log_base = pick(random, {LogBase::e, LogBase::two});
    a.o_empty_row = pick(random, {EmptyRow::zero, EmptyRow::nan});
    a.lse_empty_row = pick(random, {EmptyRow::minus_infinity, EmptyRow::plus_infinity, EmptyRow::nan});
    a.lse_includes_sink = one_in(random, 2) || p.sink != AttentionSink::last;
    Call call{p, a, make_inputs(p, InputKind(seed % input_kinds), seed)};
    if (one_in(random, 4)) {
        call.inputs.bias = {pick(random, {std::int64_t(1), p.batch}),
                            pick(random, {std::int64_t(1), p.heads}),
                            pick(random, {std::int64_t(1), p.seqlen_q}),
                            p.seqlen_kv,
                            {}};
        fill_bias(pick(random, {0.0, 0.1}), seed, call.inputs.bias);
    }
    add_slopes_and_sinks(p, seed, call.inputs);
    return call;
}

/// Its gradients.
Call drawn_backward(std::uint64_t seed) {
    Call call = drawn(seed);
    Random random(seed * 2654435761u + 17);
    Problem& p = call.problem;
    Arithmetic& a = call.arithmetic;
    p.l_lanes = p.l_lane_columns = 1;
    p.dkv_per_head = one_in(random, 3);
    for (Dtype* dtype : {&p.dtype_dq, &p.dtype_dk, &p.dtype_dv})
        *dtype = pick(random, {Dtype::f16, Dtype::bf16, Dtype::f32});
    a.ds_operand = pick(random, {Dtype::f32, Dtype::f16, Dtype::bf16});
    a.ds_from_cast_p = one_in(random, 2);
    a.dumps_cast_ds = one_in(random, 2);
    a.dp_sum = Sum(random() % sums);
    a.dq_sum = Sum(random() % 4);
    a.dk_sum = Sum(random() % 4);
    a.dv_sum = Sum(random() % 4);
    a.nest = one_in(random, 2) ? LoopNest::keys_outside : LoopNest::two_passes;
    a.dkv_atomic = one_in(random, 3);
    a.group_in_parts = one_in(random, 2);
    a.order_seed = random();
    return gradient_call(p, a, std::move(call.inputs), make_dout(p, DoutKind(random() % dout_kinds), seed));
}

/// Any call of a pass, of what the language has words for.
Call drawn_of_all(Direction direction, std::uint64_t seed) {
    Call call = random_call(direction, seed);
    Random random(seed * 40503u + 77);
    Arithmetic& a = call.arithmetic;
    a.kv_order = one_in(random, 3) ? KvOrder::reverse : KvOrder::forward;
    return call;
}

Call drawn_of_all_forward(std::uint64_t seed) {
    Call call = drawn_of_all(Direction::forward, seed);
    Random random(seed * 69069u + 5);
    Arithmetic& a = call.arithmetic;
    // Scores that float16 holds, and that lie far above the number that stands for hidden ones.
    const auto kind = InputKind(seed % input_kinds);
    if (kind != InputKind::normal && kind != InputKind::tiny && kind != InputKind::ties) return call;
    if (a.p_scale == 1 && a.stale_threshold == 0 && one_in(random, 2)) call.problem.dtype_acc = Dtype::f16;
    // Others make something else of such a number than of a score.
    const bool takes_numbers = a.softmax == Softmax::natural || a.softmax == Softmax::natural_exp2 ||
                               a.softmax == Softmax::natural_fast || a.softmax == Softmax::base_two;
    if (takes_numbers && !one_in(random, 4)) a.masked_s = pick(random, {-1e9f, -1e30f});
    // One contracts a score before its cast.
    if (a.softmax == Softmax::natural_contracted || !one_in(random, 2)) return call;
    // What is rounded is recorded as the softmax takes it.
    a.kept_s = pick(random, {Dtype::f16, Dtype::bf16});
    a.dumps_unmasked_s = a.dumps_uncapped_s = a.dumps_unbiased_s = false;
    return call;
}

Call drawn_of_all_backward(std::uint64_t seed) {
    Call call = drawn_of_all(Direction::backward, seed);
    Arithmetic& a = call.arithmetic;
    a.dumps_uncapped_ds = !a.dumps_cast_ds && call.problem.logits_soft_cap != 0;
    return call;
}

/// Of a shard: row after row, striped, in a zigzag, or none of these.
Positions drawn_positions(Random& random, std::int64_t rows) {
    Positions positions;
    std::int64_t next = 0;
    for (std::int64_t left = rows; left > 0;) {
        const bool is_last = positions.size() == 2 || one_in(random, 2);
        const std::int64_t count = is_last ? left : between(random, 1, left);
        positions.push_back({next + between(random, 0, 9), count, pick<std::int64_t>(random, {1, 1, 2, 4})});
        next = positions.back().last() + 1;
        left -= count;
    }
    return positions;
}

/// One rank's step, of calls with a mask more often than not.
Call drawn_shard(std::uint64_t seed) {
    Call call = drawn_of_all_forward(seed);
    Random random(seed * 22695477u + 3);
    Problem& p = call.problem;
    call.inputs.side.seqlens_q.clear();
    call.inputs.side.seqlens_kv.clear();
    if (one_in(random, 2)) p.mask = Mask::causal;
    p.shard.ranks = 2;
    if (!one_in(random, 4)) p.shard.q_positions = drawn_positions(random, p.seqlen_q);
    if (!one_in(random, 4)) p.shard.kv_positions = drawn_positions(random, p.seqlen_kv);
    p.shard.seqlen_q = position_of(p.shard.q_positions, p.seqlen_q - 1) + between(random, 1, 9);
    p.shard.seqlen_kv = position_of(p.shard.kv_positions, p.seqlen_kv - 1) + between(random, 1, 9);
    validate(p, "drawn shard");
    return call;
}

/// Something that a recording declares and the language has words for.
struct Word {
    const char* what;
    bool (*is_said)(const Problem& p, const Units& u, const SideInputs& side);
};

const std::vector<Word> words_of_both = {
    {"scores in base two",
     [](const Problem&, const Units& u, const SideInputs&) { return u.s_log_base == LogBase::two; }},
    {"unscaled scores", [](const Problem&, const Units& u, const SideInputs&) { return !u.s_scaled; }},
    {"lengths", [](const Problem&, const Units&, const SideInputs& s) { return !s.seqlens_q.empty(); }},
    {"descales of staged operands",
     [](const Problem&, const Units& u, const SideInputs& s) {
         return !s.descale_q.empty() && u.q_dequantised;
     }},
    {"descales of scores", [](const Problem&, const Units& u,
                              const SideInputs& s) { return !s.descale_k.empty() && !u.k_dequantised; }},
    {"descales of V", [](const Problem&, const Units&, const SideInputs& s) { return !s.descale_v.empty(); }},
    {"scaled operands",
     [](const Problem&, const Units& u, const SideInputs&) { return u.q_scale * u.k_scale != 1; }},
    {"scaled P", [](const Problem&, const Units& u, const SideInputs&) { return u.p_scale != 1; }},
    {"an exponential of the kernel's own",
     [](const Problem&, const Units& u, const SideInputs&) { return u.p_exp_error > 0; }},
    {"tanh.approx",
     [](const Problem& p, const Units& u, const SideInputs&) {
         return p.logits_soft_cap != 0 && u.s_tanh == TanhFunction::tanh_approx;
     }},
};

const std::vector<Word> words_of_forward = {
    {"maxima in base two",
     [](const Problem&, const Units& u, const SideInputs&) { return u.m_log_base == LogBase::two; }},
    {"maxima in another unit",
     [](const Problem&, const Units& u, const SideInputs&) { return u.m_log_base != u.s_log_base; }},
    {"unscaled maxima", [](const Problem&, const Units& u, const SideInputs&) { return !u.m_scaled; }},
    {"splits", [](const Problem& p, const Units&, const SideInputs&) { return p.splits() > 1; }},
    {"tiles in reverse order",
     [](const Problem&, const Units& u, const SideInputs&) { return u.kv_order == KvOrder::reverse; }},
    {"splits in reverse order",
     [](const Problem& p, const Units& u, const SideInputs&) {
         return p.splits() > 1 && u.kv_order == KvOrder::reverse;
     }},
    {"an accumulator in float16",
     [](const Problem& p, const Units&, const SideInputs&) { return p.dtype_acc == Dtype::f16; }},
    {"rounded scores",
     [](const Problem&, const Units& u, const SideInputs&) { return u.s_cast != Dtype::f32; }},
    {"stale maxima",
     [](const Problem&, const Units& u, const SideInputs&) { return u.m_stale_threshold > 0; }},
    {"a scale that l lacks",
     [](const Problem&, const Units& u, const SideInputs&) { return u.l_scale != u.p_scale; }},
    {"a scale that acc lacks",
     [](const Problem&, const Units& u, const SideInputs&) { return u.acc_scale != u.p_scale; }},
    {"numbers in place of hidden scores",
     [](const Problem& p, const Units& u, const SideInputs&) {
         return std::isfinite(u.s_masked_value) && p.mask == Mask::causal;
     }},
};

const std::vector<Word> words_of_backward = {
    {"scaled gradients", [](const Problem&, const Units& u, const SideInputs&) { return u.ds_scale != 1; }},
    {"a derivative outside ds",
     [](const Problem&, const Units& u, const SideInputs&) { return !u.ds_capped; }},
};

bool has_positions(const Problem& p) {
    return !p.shard.q_positions.empty() && !p.shard.kv_positions.empty();
}

bool has_window(const Problem& p) {
    return p.window_left >= 0 || p.window_right >= 0;
}

const std::vector<Word> words_of_shards = {
    {"masked positions", [](const Problem& p, const Units&,
                            const SideInputs&) { return has_positions(p) && p.mask == Mask::causal; }},
    {"positions in a window",
     [](const Problem& p, const Units&, const SideInputs&) { return has_positions(p) && has_window(p); }},
    {"positions with ALiBi", [](const Problem& p, const Units&,
                                const SideInputs&) { return has_positions(p) && p.alibi != Alibi::none; }},
    {"masked positions in several ranges",
     [](const Problem& p, const Units&, const SideInputs&) {
         return p.mask == Mask::causal && p.shard.q_positions.size() > 1 && p.shard.kv_positions.size() > 1;
     }},
    {"lengths of the whole call in a mask",
     [](const Problem& p, const Units&, const SideInputs&) {
         return p.mask == Mask::causal && p.causal_alignment == CausalAlignment::bottom_right &&
                p.whole_seqlen_kv() - p.whole_seqlen_q() != p.seqlen_kv - p.seqlen_q;
     }},
};

/// `words`: each is said by some of the calls, and by 20 where all of them are tried.
void judge_calls(Call (*draw)(std::uint64_t seed), std::uint64_t count, std::vector<Word> words = {}) {
    std::map<Stage, std::vector<double>> ratios;
    std::map<std::string, int> said;
    for (std::uint64_t seed = 0; seed < tried_seeds(count); ++seed) {
        const Call call = draw(seed);
        const MemoryRecording recording = recorded(call);
        Tally tally;
        ASSERT_NO_THROW(tally = compared(recording)) << describe(call);
        EXPECT_GT(tally.elements, 0);
        for (const Word& word : words)
            said[word.what] +=
                word.is_said(recording.problem(), recording.units(), recording.side_inputs()) ? 1 : 0;
        EXPECT_EQ(tally.outside, 0) << "seed " << seed << ", " << describe(call) << "\n"
                                    << tally.first << "\n"
                                    << *attention_program(recording).text;
        EXPECT_EQ(tally.other_value, 0) << "seed " << seed << ", " << describe(call) << "\n" << tally.first;
        for (auto& [stage, of] : tally.ratios)
            ratios[stage].insert(ratios[stage].end(), of.begin(), of.end());
    }
    for (const Word& word : words) {
        std::printf("%4d %s\n", said[word.what], word.what);
        EXPECT_GE(said[word.what], tried_seeds(count) == count ? 20 : 1) << word.what;
    }
    EXPECT_GE(ratios.size(), 7) << "stages that both readings have";
    for (auto& [stage, of] : ratios) {
        std::ranges::sort(of);
        const double median = of[of.size() / 2];
        const std::string name(stage_info(Problem(), stage).name);
        std::printf("%-6s %9zu  1%% %.3g  median %.3g  99%% %.3g\n", name.c_str(), of.size(),
                    of[of.size() / 100], median, of[of.size() * 99 / 100]);
        // Neither reading is so wide that it says nothing of the other. Of ds the formulas allow four roundings, and the program one
        // where float32 holds dp - delta.
        EXPECT_GT(median, 0.24) << name;
        EXPECT_LE(median, 4) << name;
    }
}

TEST(AttentionProgram, JudgesHonestKernelsAsTheFormulasDo) {
    judge_calls(drawn, 200);
}

TEST(AttentionProgram, JudgesAllHonestKernelsAsTheFormulasDo) {
    std::vector<Word> words = words_of_both;
    words.insert(words.end(), words_of_forward.begin(), words_of_forward.end());
    judge_calls(drawn_of_all_forward, 400, std::move(words));
}

TEST(AttentionProgram, JudgesHonestShardsAsTheFormulasDo) {
    judge_calls(drawn_shard, 300, words_of_shards);
}

TEST(AttentionProgram, SaysOfShardsWhatALaunchComputes) {
    Call call = drawn_shard(0);
    Shard& shard = call.problem.shard;
    EXPECT_TRUE(attention_program(recorded(call)).text);
    for (const ShardKind kind : {ShardKind::owned, ShardKind::final, ShardKind::received}) {
        shard.kind = kind;
        EXPECT_EQ(attention_program(recorded(call)).why, "shards that are no step");
    }
    shard.kind = ShardKind::step;
    shard.kv_positions.clear();
    for (std::int64_t i = 0; i < 9; ++i) shard.kv_positions.push_back({2 * i, 1, 1});
    shard.kv_positions.back().count = call.problem.seqlen_kv - 8;
    EXPECT_EQ(attention_program(recorded(call)).why, "positions of a shard in more than 8 ranges");
}

TEST(AttentionProgram, JudgesAllHonestGradientsAsTheFormulasDo) {
    std::vector<Word> words = words_of_both;
    words.insert(words.end(), words_of_backward.begin(), words_of_backward.end());
    judge_calls(drawn_of_all_backward, 300, std::move(words));
}

TEST(AttentionProgram, JudgesHonestGradientsAsTheFormulasDo) {
    judge_calls(drawn_backward, 100);
}

TEST(AttentionProgram, FindsTheFirstWrongStageOfEverySample) {
    std::size_t judged_samples = 0;
    std::vector<std::filesystem::path> samples;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(TILESCOPE_SAMPLES)) {
        if (entry.path().extension() == ".h5") samples.push_back(entry.path());
    }
    std::ranges::sort(samples);
    for (const std::filesystem::path& sample : samples) {
        const std::unique_ptr<Recording> recording = open_recording(sample);
        const AttentionProgram declared = attention_program(*recording);
        if (!declared.text) continue;
        const Program program = parse_program(*declared.text);
        const AttentionInputs inputs = attention_inputs(*recording);
        const ProgramCall call = bind_program(program, inputs.inputs, inputs.sizes);
        ProgramOptions options;
        options.tensor_core = tensor_core(recording->provenance().compute_capability);
        const ProgramReport found = judge_program(call, RecordedAttention(*recording, program), options);
        const Report report = judge(*recording, {});
        std::optional<Stage> first;
        if (found.first_wrong >= 0) first = stage_from_name(program.array(found.first_wrong).name);
        EXPECT_EQ(first, report.guilty) << sample << "\n" << report_text(call, found);
        ++judged_samples;
    }
    EXPECT_GE(judged_samples, 24);
}

}  // namespace
}  // namespace tilescope::test
