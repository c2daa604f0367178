// Kernels that keep other numbers than most, written here in float32 as their authors have them: FlashAttention-1 in
// three versions, a clamped exponential, an accumulator in bfloat16, splits of uneven length.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "dump/recording/recording_view.h"
#include "dump/schema/declarations.h"
#include "dump/schema/families.h"
#include "dump/watch.h"
#include "oracle/causes/suggest.h"
#include "oracle/judge.h"
#include "oracle/program/attention.h"
#include "oracle/program/judge_program.h"
#include "tests/oracle/attention_inputs.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/explain_checks.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"
#include "tests/oracle/watched_run.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 77;

/// One head whose rows see several KV tiles, with tails on both sides.
Problem problem_of_one_head() {
    Problem problem;
    problem.seqlen_q = 21;
    problem.seqlen_kv = 58;
    problem.head_dim = problem.head_dim_v = 16;
    problem.block_m = 8;
    problem.block_n = 12;
    problem.sm_scale = 0.75f;
    problem.mask = Mask::causal;
    return problem;
}

/// One row on its way through the KV tiles.
struct Row {
    float m = -infinity;
    float l = 0;
    std::vector<float> acc;
};

/// One KV tile of a row: what of it is visible.
struct TileOfRow {
    std::vector<float> s;  ///< -inf where hidden
    std::vector<float> p;  ///< as dumped
    const std::function<float(std::size_t key, std::size_t d)>& v;

    float maximum() const { return *std::ranges::max_element(s); }
    float sum() const {
        float sum = 0;
        for (const float value : p) sum += value;
        return sum;
    }
    /// acc += weight * p V, P rounded to the type that multiplies V.
    float product(std::size_t d, Dtype operand) const {
        float sum = 0;
        for (std::size_t j = 0; j < p.size(); ++j)
            if (p[j] != 0) sum = std::fma(rounded(operand, p[j]), v(j, d), sum);
        return sum;
    }
};

float exp_of(float x) {
    return std::isnan(x) ? 0 : std::exp(x);
}

using Step = std::function<void(Row&, TileOfRow&)>;

/// FlashAttention-1, algorithm 1: P relative to the maximum of the tile, O divided by l after each.
void paper(Row& row, TileOfRow& tile) {
    const float own = tile.maximum();
    for (std::size_t j = 0; j < tile.s.size(); ++j) tile.p[j] = exp_of(tile.s[j] - own);
    const float m = std::max(row.m, own);
    const float before = exp_of(row.m - m), now = exp_of(own - m);
    const float l = before * row.l + now * tile.sum();
    for (std::size_t d = 0; d < row.acc.size(); ++d)
        row.acc[d] = (row.l * before * row.acc[d] + now * tile.product(d, Dtype::f16)) / l;
    row.m = m;
    row.l = l;
}

/// A factor that the step of algorithm 1 forgets.
enum class Forgotten { tile_in_sum, tile_in_output, output_so_far, sum_so_far };

template <Forgotten forgotten>
void forgetful_paper(Row& row, TileOfRow& tile) {
    const auto unless = [](Forgotten one, float factor) { return forgotten == one ? 1 : factor; };
    const float own = tile.maximum();
    for (std::size_t j = 0; j < tile.s.size(); ++j) tile.p[j] = exp_of(tile.s[j] - own);
    const float m = std::max(row.m, own);
    const float before = exp_of(row.m - m), now = exp_of(own - m);
    const float l = before * row.l + unless(Forgotten::tile_in_sum, now) * tile.sum();
    for (std::size_t d = 0; d < row.acc.size(); ++d) {
        const float so_far = row.acc[d] * unless(Forgotten::sum_so_far, row.l);
        row.acc[d] = (unless(Forgotten::output_so_far, before) * so_far +
                      unless(Forgotten::tile_in_output, now) * tile.product(d, Dtype::f16)) /
                     l;
    }
    row.m = m;
    row.l = l;
}

/// Its first Triton kernel: P over l, too.
void triton(Row& row, TileOfRow& tile) {
    const float own = tile.maximum();
    for (std::size_t j = 0; j < tile.s.size(); ++j) tile.p[j] = exp_of(tile.s[j] - own);
    const float m = std::max(row.m, own);
    const float alpha = exp_of(row.m - m), beta = exp_of(own - m);
    const float l = alpha * row.l + beta * tile.sum();
    const float p_scale = beta / l, acc_scale = row.l / l * alpha;
    for (float& p : tile.p) p *= p_scale;
    for (std::size_t d = 0; d < row.acc.size(); ++d)
        row.acc[d] = row.acc[d] * acc_scale + tile.product(d, Dtype::f16);
    row.m = m;
    row.l = l;
}

/// Its CUDA kernel: the log-sum-exp before the tile is the maximum that it goes on from.
void from_lse(Row& row, TileOfRow& tile) {
    const float lse = row.m == -infinity ? -infinity : row.m + std::log(row.l);
    const float m = std::max(lse, tile.maximum());
    for (std::size_t j = 0; j < tile.s.size(); ++j) tile.p[j] = exp_of(tile.s[j] - m);
    const float before = exp_of(lse - m);
    const float l = tile.sum() + before;
    const float inverse = 1 / l;
    for (std::size_t d = 0; d < row.acc.size(); ++d)
        row.acc[d] = (row.acc[d] * before + tile.product(d, Dtype::f16)) * inverse;
    row.m = m;
    row.l = l;
}

/// The same as it stands in its source: raw scores, exp2 of their product with scale log2(e).
void from_lse_of_raw(Row& row, TileOfRow& tile) {
    constexpr float scale = 0.75f, scale_log2 = scale * float(std::numbers::log2e);
    const float lse = row.m == -infinity ? -infinity : row.m * scale + std::log(row.l);
    const float m = std::max(lse / scale, tile.maximum());
    for (std::size_t j = 0; j < tile.s.size(); ++j)
        tile.p[j] = std::exp2(std::fma(tile.s[j], scale_log2, -(m * scale_log2)));
    const float before = exp_of(lse - m * scale);
    const float l = tile.sum() + before;
    const float inverse = 1 / l;
    for (std::size_t d = 0; d < row.acc.size(); ++d)
        row.acc[d] = (row.acc[d] * before + tile.product(d, Dtype::f16)) * inverse;
    row.m = m;
    row.l = l;
}

/// A common kernel, but for a clamp of what the exponential takes, sums of P V in a type of their own, and tiles at which
/// its state begins anew.
template <int least, Dtype kept>
void common(Row& row, TileOfRow& tile) {
    const float m = std::max(row.m, tile.maximum());
    for (std::size_t j = 0; j < tile.s.size(); ++j)
        tile.p[j] = tile.s[j] == -infinity ? 0 : exp_of(std::max(tile.s[j] - m, float(least)));
    const float before = exp_of(row.m - m);
    row.l = row.l * before + tile.sum();
    for (std::size_t d = 0; d < row.acc.size(); ++d) {
        float acc = rounded(kept, row.acc[d] * before);
        for (std::size_t j = 0; j < tile.p.size(); ++j)
            if (tile.p[j] != 0)
                acc = rounded(kept, std::fma(rounded(Dtype::f16, tile.p[j]), tile.v(j, d), acc));
        row.acc[d] = acc;
    }
    row.m = m;
}

/// A common kernel with a clamp that raises hidden scores as well, to next to nothing.
void clamps_all(Row& row, TileOfRow& tile) {
    common<-80, Dtype::f32>(row, tile);
    for (std::size_t j = 0; j < tile.s.size(); ++j)
        if (tile.s[j] == -infinity) tile.p[j] = std::exp(-80.0f);
}

/// A maximum that stays behind while it would rise by 1 at most.
void stale(Row& row, TileOfRow& tile) {
    const float most = std::max(row.m, tile.maximum());
    const float m = most - row.m > 1 ? most : row.m;
    for (std::size_t j = 0; j < tile.s.size(); ++j) tile.p[j] = exp_of(tile.s[j] - m);
    const float before = exp_of(row.m - m);
    row.l = row.l * before + tile.sum();
    for (std::size_t d = 0; d < row.acc.size(); ++d)
        row.acc[d] = row.acc[d] * before + tile.product(d, Dtype::f16);
    row.m = m;
}

/// A number is added to the maximum, 3 ln 2 as llama.cpp has it or -8 ln 2.
template <bool up>
void offset(Row& row, TileOfRow& tile) {
    constexpr float by = up ? 3.0f * 0.6931f : -8 * float(std::numbers::ln2);
    const float m = std::max(row.m, tile.maximum() + by);
    for (std::size_t j = 0; j < tile.s.size(); ++j) tile.p[j] = exp_of(tile.s[j] - m);
    const float before = exp_of(row.m - m);
    row.l = row.l * before + tile.sum();
    for (std::size_t d = 0; d < row.acc.size(); ++d)
        row.acc[d] = row.acc[d] * before + tile.product(d, Dtype::f16);
    row.m = m;
}

/// Exponentials of less than -6 are 0, that of the factor as well.
void flushes(Row& row, TileOfRow& tile) {
    const auto flushed_exp = [](float x) { return x < -6 ? 0 : exp_of(x); };
    const float m = std::max(row.m, tile.maximum());
    for (std::size_t j = 0; j < tile.s.size(); ++j) tile.p[j] = flushed_exp(tile.s[j] - m);
    const float before = flushed_exp(row.m - m);
    row.l = row.l * before + tile.sum();
    for (std::size_t d = 0; d < row.acc.size(); ++d)
        row.acc[d] = row.acc[d] * before + tile.product(d, Dtype::f16);
    row.m = m;
}

/// How the states of splits become o.
struct Ending {
    std::vector<std::int64_t> starts{};  ///< KV tiles at which a split begins, beside the first
    bool is_normalised = false;          ///< acc is o
    Dtype partial_o = Dtype::f32;        ///< that a split's o is stored in
    float m = -infinity;                 ///< before the first score
    bool is_raw = false;                 ///< m is of raw scores
};

/// What a kernel of these steps leaves.
MemoryRecording run(const Problem& p, const Step& step, const Ending& ending) {
    const auto& [starts, is_normalised, partial_o, before, is_raw] = ending;
    Problem problem = p;
    problem.dtype_p = Dtype::f16;
    const Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    MemoryRecording recording(problem);
    recording.set_input(Input::q, inputs.q);
    recording.set_input(Input::k, inputs.k);
    recording.set_input(Input::v, inputs.v);
    const auto at = [&](const std::vector<float>& values, std::int64_t i, std::int64_t d) {
        return i < std::ssize(values) / problem.head_dim ? values[std::size_t(i * problem.head_dim + d)] : 0;
    };
    const auto dims = std::size_t(problem.head_dim_v);
    const std::int64_t offset =
        problem.causal_alignment == CausalAlignment::top_left ? 0 : problem.seqlen_kv - problem.seqlen_q;
    for (std::int64_t block = 0; block < problem.q_blocks(); ++block) {
        const auto size = [&](Stage stage) { return std::size_t(tile_shape(problem, stage).elements()); };
        std::vector<Row> rows(std::size_t(problem.block_m), Row{before, 0, std::vector<float>(dims, 0)});
        std::vector<Row> done;  // rows of all splits, one after the other
        const auto first_row = block * problem.block_m;
        for (std::int64_t t = 0; t < problem.kv_tiles(); ++t) {
            const bool visible = t * problem.block_n <= first_row + problem.block_m - 1 + offset;
            if (!visible) continue;
            if (std::ranges::find(starts, t) != starts.end()) {
                done.insert(done.end(), rows.begin(), rows.end());
                rows.assign(rows.size(), Row{before, 0, std::vector<float>(dims, 0)});
            }
            std::vector<float> s(size(Stage::s)), weights(size(Stage::p)), m, l, acc;
            for (std::int64_t i = 0; i < problem.block_m; ++i) {
                const std::function<float(std::size_t, std::size_t)> v = [&](std::size_t j, std::size_t d) {
                    return at(inputs.v, t * problem.block_n + std::int64_t(j), std::int64_t(d));
                };
                TileOfRow tile{{}, std::vector<float>(std::size_t(problem.block_n)), v};
                for (std::int64_t j = 0; j < problem.block_n; ++j) {
                    const std::int64_t row = first_row + i, key = t * problem.block_n + j;
                    float sum = 0;
                    for (std::int64_t d = 0; d < problem.head_dim; ++d)
                        sum = std::fma(at(inputs.q, row, d), at(inputs.k, key, d), sum);
                    const bool sees = key < problem.seqlen_kv && key <= row + offset;
                    tile.s.push_back(sees ? sum * (is_raw ? 1 : float(problem.sm_scale)) : -infinity);
                }
                Row& row = rows[std::size_t(i)];
                if (std::max(row.m, tile.maximum()) > -infinity) step(row, tile);
                std::ranges::copy(tile.s, s.begin() + i * problem.block_n);
                std::ranges::copy(tile.p, weights.begin() + i * problem.block_n);
                m.push_back(row.m);
                l.push_back(row.l);
                acc.insert(acc.end(), row.acc.begin(), row.acc.end());
            }
            const TileId id{0, 0, block, t};
            recording.set_tile(Stage::s, id, s);
            recording.set_tile(Stage::p, id, weights);
            recording.set_tile(Stage::m, id, m);
            recording.set_tile(Stage::l, id, l);
            recording.set_tile(Stage::acc, id, acc);
        }
        done.insert(done.end(), rows.begin(), rows.end());
        std::vector<float> o, lse;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            float m = -infinity, l = 0;
            for (std::size_t n = i; n < done.size(); n += rows.size()) m = std::max(m, done[n].m);
            for (std::size_t n = i; n < done.size(); n += rows.size()) l += done[n].l * exp_of(done[n].m - m);
            for (std::size_t d = 0; d < dims; ++d) {
                float acc = 0;
                for (std::size_t n = i; n < done.size(); n += rows.size()) {
                    const Row& split = done[n];
                    const float weight = split.l * exp_of(split.m - m);
                    const bool merges = partial_o != Dtype::f32 && split.l > 0;
                    acc += merges ? rounded(partial_o, split.acc[d] / split.l) * weight
                                  : split.acc[d] * exp_of(split.m - m);
                }
                o.push_back(rounded(Dtype::f16, is_normalised ? acc : acc / l));
            }
            lse.push_back(m * (is_raw ? float(problem.sm_scale) : 1) + std::log(l));
        }
        recording.set_tile(Stage::o, {0, 0, block, 0}, o);
        recording.set_tile(Stage::lse, {0, 0, block, 0}, lse);
    }
    return recording;
}

struct Kernel {
    const char* name;
    Stage first_wrong;  ///< undeclared
    std::vector<std::string> declares;
    Step step;
    Ending ending{};
};

std::vector<Kernel> kernels() {
    return {
        {"paper", Stage::p, {"p.of_tile_max=true", "acc.normalised=true"}, paper, {.is_normalised = true}},
        {"triton", Stage::p, {"p.normalised=true", "acc.normalised=true"}, triton, {.is_normalised = true}},
        {"from lse", Stage::m, {"m.from_lse=true", "acc.normalised=true"}, from_lse, {.is_normalised = true}},
        {"clamped", Stage::p, {"p.least_argument=-3"}, common<-3, Dtype::f32>},
        {"clamped everywhere", Stage::p, {"p.least_argument=-80"}, clamps_all},
        {"stale", Stage::m, {"m.stale_threshold=1"}, stale},
        {"bfloat16",
         Stage::acc,
         {"problem.dtype_acc=bf16", "acc.accumulation=fma_bf16"},
         common<-1000, Dtype::bf16>},
        {"uneven splits", Stage::m, {"problem.split_starts=1,4"}, common<-1000, Dtype::f32>, {{1, 4}}},
        {"maximum above", Stage::m, {"m.offset=2.0793"}, offset<true>},
        {"maximum below", Stage::m, {"m.offset=-5.545177444479562"}, offset<false>},
        {"maximum from a number",
         Stage::m,
         {"m.start=-1e+30"},
         common<-1000, Dtype::f32>,
         {.starts = {4}, .m = -1e30f}},
        {"flushed", Stage::p, {"p.flush_below=-6"}, flushes},
        {"partial o in float16",
         Stage::o,
         {"problem.dtype_partial_o=f16"},
         common<-1000, Dtype::f32>,
         {.starts = {2}, .partial_o = Dtype::f16}},
        {"partial o in bfloat16",
         Stage::o,
         {"problem.dtype_partial_o=bf16"},
         common<-1000, Dtype::f32>,
         {.starts = {1, 3}, .partial_o = Dtype::bf16}},
    };
}

MemoryRecording with_declared(const MemoryRecording& recording, const std::vector<std::string>& assignments) {
    Problem problem = recording.problem();
    Units units = recording.units();
    for (const std::string& assignment : assignments) declarations::declare(assignment, problem, units);
    const Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    MemoryRecording declared = copy_of(recording, [](Stage, const TileId&) { return true; });
    return declared_as(declared, problem, units, inputs);
}

/// Without a word of what is its own, which may be the splits.
MemoryRecording silent_run(const Kernel& kernel) {
    Problem problem = problem_of_one_head();
    MemoryRecording silent = run(problem, kernel.step, kernel.ending);
    if (kernel.ending.starts.empty() || kernel.declares[0].starts_with("problem.split_starts")) return silent;
    return with_declared(silent, {"problem.split_starts=" + declarations::list_text(kernel.ending.starts)});
}

TEST(OwnUnits, MatchAsDeclaredAndNotOtherwise) {
    for (const Kernel& kernel : kernels()) {
        SCOPED_TRACE(kernel.name);
        const MemoryRecording silent = silent_run(kernel);
        const Report wrong = judged(silent);
        EXPECT_EQ(wrong.guilty, kernel.first_wrong) << verdict_line(wrong);
        const MemoryRecording declared = with_declared(silent, kernel.declares);
        EXPECT_TRUE(matches(judged(declared)));
        // Each stage after the first wrong one, without those before it.
        for (const Stage stage : {Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse})
            EXPECT_TRUE(matches(judged(with_stages(declared, {stage})))) << stage_info(stage).name;
    }
}

/// What the program of a recording, its second reading, says is the first wrong stage.
std::optional<Stage> first_wrong_of_program(const Recording& recording) {
    const AttentionProgram declared = attention_program(recording);
    if (!declared.text) throw std::logic_error(declared.why);
    SCOPED_TRACE(*declared.text);
    const Program program = parse_program(*declared.text);
    const AttentionInputs inputs = attention_inputs(recording);
    const ProgramCall call = bind_program(program, inputs.inputs, inputs.sizes);
    const ProgramReport report = judge_program(call, RecordedAttention(recording, program));
    if (report.first_wrong < 0) return std::nullopt;
    return stage_from_name(program.array(report.first_wrong).name);
}

TEST(OwnUnits, AreSaidAsPrograms) {
    for (const Kernel& kernel : kernels()) {
        SCOPED_TRACE(kernel.name);
        const MemoryRecording silent = silent_run(kernel);
        EXPECT_EQ(first_wrong_of_program(silent), kernel.first_wrong);
        const MemoryRecording declared = with_declared(silent, kernel.declares);
        EXPECT_EQ(first_wrong_of_program(declared), std::nullopt) << *attention_program(declared).text;
        for (const Stage stage : {Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse})
            EXPECT_EQ(first_wrong_of_program(with_stages(declared, {stage})), std::nullopt)
                << stage_info(stage).name;
    }
}

/// What a family declares is what its kernel does, and a silent recording lacks.
void expect_family(const char* family, const MemoryRecording& silent) {
    SCOPED_TRACE(family);
    Problem declared = silent.problem();
    declared.dtype_p = Dtype::f32;
    declared.causal_alignment = CausalAlignment::bottom_right;
    Units units;
    const DeclaredAs nothing(silent, declared, units);
    EXPECT_NE(judged(nothing).guilty, std::nullopt);
    declarations::declare_family(family, declared, units);
    EXPECT_TRUE(matches(judged(DeclaredAs(silent, declared, units))));
}

TEST(OwnUnits, AreThoseOfTheFamily) {
    Problem problem = problem_of_one_head();
    expect_family("llama.cpp", run(problem, offset<true>, {.m = -std::numeric_limits<float>::max() / 2}));
    problem.causal_alignment = CausalAlignment::top_left;
    expect_family("flash-attention-1",
                  run(problem, from_lse_of_raw, {.is_normalised = true, .is_raw = true}));
}

TEST(OwnUnits, AreSuggested) {
    for (const Kernel& kernel : kernels()) {
        SCOPED_TRACE(kernel.name);
        const MemoryRecording silent = silent_run(kernel);
        const std::optional<Suggestion> suggestion = suggest_declarations(silent, judged(silent), 1);
        ASSERT_TRUE(suggestion);
        std::vector<std::string> assignments;
        for (const auto& [name, value] : suggestion->assignments) assignments.push_back(name + "=" + value);
        EXPECT_EQ(suggestion->then, std::nullopt) << ::testing::PrintToString(assignments);
        EXPECT_TRUE(matches(judged(with_declared(silent, assignments))))
            << ::testing::PrintToString(assignments);
    }
}

/// A mistake in such a kernel is found as in any other.
TEST(OwnUnits, MistakesAreFound) {
    for (const Kernel& kernel : kernels()) {
        SCOPED_TRACE(kernel.name);
        const MemoryRecording honest = with_declared(silent_run(kernel), kernel.declares);
        for (const Stage stage : {Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o}) {
            std::vector<float> values(std::size_t(tile_shape(honest.problem(), stage).elements()));
            const TileId tile{0, 0, 1, is_output(stage) ? 0 : 4};  // the last one: others depend on it
            ASSERT_TRUE(honest.read_tile(stage, tile, values));
            const TileShape shape = tile_shape(honest.problem(), stage);
            const float wrong = values[std::size_t((shape.rows - 1) * shape.cols)] * 2 + 1;
            EXPECT_EQ(judged(poked(honest, stage, tile, shape.rows - 1, 0, wrong)).guilty, stage)
                << stage_info(stage).name;
        }
    }
}

TEST(OwnUnits, BreakNoRuleOfTheWatch) {
    for (const Kernel& kernel : kernels()) {
        const WatchReport report = watch(statistics_of(with_declared(silent_run(kernel), kernel.declares)));
        for (const WatchFinding& finding : report.findings)
            ADD_FAILURE() << kernel.name << ": " << to_string(finding);
        EXPECT_GT(report.tiles, 0);
    }
}

TEST(OwnUnits, ForgottenFactorsAreNamed) {
    const struct {
        Step step;
        const char* says;
    } mistakes[] = {{forgetful_paper<Forgotten::tile_in_sum>, "tile_not_rescaled in l"},
                    {forgetful_paper<Forgotten::tile_in_output>, "tile_not_rescaled in acc"},
                    {forgetful_paper<Forgotten::output_so_far>, "acc_not_rescaled in acc"},
                    {forgetful_paper<Forgotten::sum_so_far>, "not_multiplied_with_l in acc"}};
    for (const auto& mistake : mistakes) {
        const MemoryRecording recording = with_declared(
            run(problem_of_one_head(), mistake.step, {.is_normalised = true}), kernels()[0].declares);
        const std::vector<FoundCause> causes = first_causes(diagnosed(recording));
        ASSERT_EQ(causes.size(), 1U) << mistake.says;
        EXPECT_EQ(std::string(causes[0].name) + " in " + std::string(stage_info(causes[0].stage).name),
                  mistake.says);
    }
}

TEST(OwnUnits, TolerancesAreExplained) {
    for (const Kernel& kernel : kernels()) {
        SCOPED_TRACE(kernel.name);
        const MemoryRecording honest = with_declared(silent_run(kernel), kernel.declares);
        Random random(seed);
        Seen seen;
        compare_some(honest, random, seen);
        compare_some(with_stages(honest, {Stage::p, Stage::acc, Stage::o}), random, seen);
    }
}

}  // namespace
}  // namespace tilescope::test
