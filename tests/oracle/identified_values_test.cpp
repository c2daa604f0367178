// Functions and sums that are read out of the numbers: an honest run of which one stage is changed the way a
// mistake would change it.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "oracle/causes/replayed.h"
#include "oracle/report/text.h"
#include "oracle/solve/curve.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 61;

const MemoryRecording& honest_run() {
    static const MemoryRecording run = recorded(make_call(small_problem_of_floats(), seed));
    return run;
}

std::string first_title(const Recording& recording) {
    const Report report = diagnosed(recording);
    if (report.diagnosis.causes.empty()) return "nothing";
    const FoundCause& cause = report.diagnosis.causes[0];
    return (cause.structural ? "structural " : "") + title_of(cause);
}

float with_bits(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}
std::uint32_t bits(float x) {
    return std::bit_cast<std::uint32_t>(x);
}

struct OfOneValue {
    const char* name;
    Stage stage;
    float (*function)(float);
    const char* title;
};
void PrintTo(const OfOneValue& one, std::ostream* stream) {
    *stream << one.name;
}

constexpr OfOneValue functions[] = {
    {"offset", Stage::s, [](float x) { return x - 0.5f; },
     "formula (s (sum(d: q * k[b, h, i / block_m, j, d]) - 2.0) * 0.25)"},
    {"both", Stage::s, [](float x) { return 2 * x + 0.25f; },
     "formula (s (sum(d: q * k[b, h, i / block_m, j, d]) * 2.0 + 1.0) * 0.25)"},
    {"constant", Stage::v, [](float) { return 0.75f; }, "formula (v 0.75)"},
    {"magnitude", Stage::q, [](float x) { return std::abs(x); }, "formula (q abs(Q))"},
    {"least", Stage::s, [](float x) { return std::max(x, -0.25f); },
     "formula (s max(sum(d: q * k[b, h, i / block_m, j, d]), -1.0) * 0.25)"},
    {"most", Stage::k, [](float x) { return std::min(x, 0.5f); }, "formula (k min(K, 0.5))"},
    {"leaky", Stage::s, [](float x) { return x < 0 ? 0.125f * x : x; },
     "formula (s (sum(d: q * k[b, h, i / block_m, j, d]) * 0.125 where sum(d: q * k[b, h, i / block_m, j, "
     "d]) < 0.0 else sum(d: q * k[b, h, i / block_m, j, d])) * 0.25)"},
    {"reflected", Stage::o, [](float x) { return x > 0.25f ? 0.5f - x : x; },
     "formula (o (-(acc / l_row) + 0.5 where acc / l_row > 0.25 else acc / l_row) where l_row > 0.0 else "
     "0.0)"},
    {"bits_cleared", Stage::s, [](float x) { return with_bits(bits(x) & 0xffc00000u); },
     "formula (s (sum(d: q * k[b, h, i / block_m, j, d]) & 0xffc00000) * 0.25)"},
    {"bit_inverted", Stage::v, [](float x) { return with_bits(bits(x) ^ 0x00200000u); },
     "formula (v V ^ 0x00200000)"},
    {"by_bit", Stage::s, [](float x) { return (bits(x) >> 22 & 1) ? -x : x; },
     "formula (s (-sum(d: q * k[b, h, i / block_m, j, d]) where sum(d: q * k[b, h, i / block_m, j, d]) & "
     "0x00400000 != 0.0 else sum(d: q * k[b, h, i / block_m, j, d])) * 0.25)"},
    {"int8", Stage::v, [](float x) { return std::nearbyint(std::clamp(x * 127, -127.0f, 127.0f)) / 127; },
     "formula (v f32: max(min(round(V * 127.0), 127.0), -127.0) / 127.0)"},
    {"int4", Stage::v, [](float x) { return std::nearbyint(std::clamp(x * 4, -8.0f, 7.0f)) / 4; },
     "formula (v max(min(round(V * 4.0), 7.0), -8.0) / 4.0)"},
    {"digits_cut_off", Stage::v,
     [](float x) { return std::trunc(std::clamp(x * 127, -127.0f, 127.0f)) / 127; },
     "formula (v f32: max(min(trunc(V * 127.0), 127.0), -127.0) / 127.0)"},
    {"int8_argument", Stage::p,
     [](float p) { return std::exp(std::nearbyint(std::max(std::log(p) * 127, -127.0f)) / 127); },
     "formula (p exp(max(round((s - m) * 127.0), -127.0) / 127.0) where s > -inf else 0.0)"},
    {"narrow_argument", Stage::p,
     [](float p) { return std::exp(decode(Dtype::e4m3, encode(Dtype::e4m3, std::log(p)))); },
     "exponent_rounded (p exp(e4m3(s - m)) where s > -inf else 0.0)"},
    {"argument", Stage::p, [](float p) { return std::exp(std::max(std::log(p), -0.5f)); },
     "exp_clamped (p exp(max(s - m, -0.5)) where s > -inf else 0.0)"},
};

class Identified : public ::testing::TestWithParam<OfOneValue> {};

TEST_P(Identified, FunctionOfOneValueIsNamed) {
    MemoryRecording recording = copy_of(honest_run());
    change_stage(recording, GetParam().stage,
                 [](float value, auto...) { return GetParam().function(value); });
    EXPECT_EQ(first_title(recording), GetParam().title);
}

INSTANTIATE_TEST_SUITE_P(Functions, Identified, ::testing::ValuesIn(functions),
                         [](const auto& test) { return std::string(test.param.name); });

struct OfSomePlaces {
    const char* name;
    Stage stage;
    std::function<bool(const TileId&, std::int64_t row, std::int64_t col)> is_made;
    const char* where;
};
void PrintTo(const OfSomePlaces& one, std::ostream* stream) {
    *stream << one.name;
}

const OfSomePlaces somewhere[] = {
    {"columns", Stage::s, [](const TileId&, std::int64_t, std::int64_t col) { return col % 8 == 2; },
     "where j % 8 == 2"},
    {"head_elements", Stage::o, [](const TileId&, std::int64_t, std::int64_t d) { return d % 8 >= 4; },
     "where e % 8 >= 4"},
    {"columns_of_a_kv_tile", Stage::p,
     [](const TileId& id, std::int64_t, std::int64_t col) { return id.kv_tile == 1 && col % 4 == 3; },
     "where j % 4 == 3 and j / block_n == 1"},
};

/// Of other heads the same KV tile is looked at, which is none at an end of the sequence.
const OfSomePlaces of_one_head = {"keys_of_a_head", Stage::s,
                                  [](const TileId& id, std::int64_t, std::int64_t col) {
                                      return id.head == 1 && id.kv_tile == 3 && col >= 2 && col < 12;
                                  },
                                  "where h == 1 and (j >= 50 and j < 60)"};

class IdentifiedWhere : public ::testing::TestWithParam<OfSomePlaces> {};

/// Twice the value at some places: what the replay holds there is what the kernel holds.
TEST_P(IdentifiedWhere, MistakesAreMade) {
    const auto& [name, stage, is_made, where] = GetParam();
    const MemoryRecording& honest = honest_run();
    MemoryRecording wrong = copy_of(honest);
    change_stage(wrong, stage, [&](float value, const TileId& id, std::int64_t row, std::int64_t col) {
        return is_made(id, row, col) ? 2 * value : value;
    });
    const Report report = diagnosed(wrong);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    const FoundCause& cause = report.diagnosis.causes[0];
    EXPECT_FALSE(cause.structural) << title_of(cause);
    EXPECT_EQ(cause.where, where) << title_of(cause);
    const ReplayedRecording replay(wrong, cause, report.confidence);
    for (std::int64_t i = 0; i < tile_count(wrong.problem(), stage); ++i) {
        const TileId id = tile_at(wrong.problem(), stage, i);
        const TileShape extent = tile_extent(wrong.problem(), stage, id);
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            for (std::int64_t col = 0; col < extent.cols; ++col) {
                const float got = peek(wrong, stage, id, row, col);
                EXPECT_NEAR(peek(replay, stage, id, row, col), got, 1e-5 * (1 + std::abs(got)))
                    << row << ", " << col;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Places, IdentifiedWhere, ::testing::ValuesIn(somewhere),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(OneHead, IdentifiedWhere, ::testing::Values(of_one_head),
                         [](const auto& test) { return std::string(test.param.name); });

/// Neither o nor lse is computed from the other: the same kind of function in both is two mistakes.
TEST(IdentifiedPairs, FormsWithOtherNumbersAreTwo) {
    MemoryRecording wrong = copy_of(honest_run());
    change_stage(wrong, Stage::o, [](float value, auto...) { return value - 0.5f; });
    change_stage(wrong, Stage::lse, [](float value, auto...) { return value + 0.25f; });
    const Report report = diagnosed(wrong);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    ASSERT_EQ(report.diagnosis.then.size(), 1u) << to_text(report);
    EXPECT_EQ(title_of(report.diagnosis.causes[0]),
              "formula (o acc / l_row - 0.5 where l_row > 0.0 else 0.0)");
    EXPECT_EQ(title_of(report.diagnosis.then[0]),
              "formula (lse m + 0.25 + log(l_row) where l_row > 0.0 else -inf)");
}

/// A row sum that is half of what it should be, where the lanes come together: o is twice what it should be.
TEST(IdentifiedPairs, TheSumOfOutputAndLogarithmIsOne) {
    MemoryRecording wrong = copy_of(honest_run());
    change_stage(wrong, Stage::o, [](float value, auto...) { return 2 * value; });
    change_stage(wrong, Stage::lse, [](float value, auto...) { return value - std::log(2.0f); });
    const Report report = diagnosed(wrong);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(report.diagnosis.causes[0].stage, Stage::o);
    EXPECT_TRUE(report.diagnosis.then.empty()) << to_text(report);
}

/// Half of every tile of K is never loaded: it holds what was there when the kernel began.
TEST(IdentifiedMemory, KeepsWhatWasThere) {
    MemoryRecording wrong = copy_of(honest_run());
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> garbage(std::size_t(tile_shape(wrong.problem(), Stage::k).elements()));
    for (float& value : garbage) value = normal(random);
    const std::int64_t cols = wrong.problem().head_dim;
    change_stage(wrong, Stage::k, [&](float right, const TileId&, std::int64_t row, std::int64_t d) {
        return d >= 8 ? garbage[std::size_t(row * cols + d)] : right;
    });
    const Report report = diagnosed(wrong);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "elements_not_written (left by the tile before)");
    EXPECT_EQ(report.diagnosis.causes[0].where, "where d >= 8");
    // Nothing is known of the first tile: the replay keeps what is there.
    const ReplayedRecording replay(wrong, report.diagnosis.causes[0], report.confidence);
    for (const std::int64_t kv_tile : {0, 1})
        EXPECT_EQ(peek(replay, Stage::k, {0, 0, 0, kv_tile}, 3, 9),
                  peek(wrong, Stage::k, {0, 0, 0, kv_tile}, 3, 9));
}

/// The first query block of each head is never loaded: it holds the last one of the head before, and the zeros that fill that up.
TEST(IdentifiedMemory, IsFilledWhereItIsWritten) {
    const MemoryRecording& honest = honest_run();
    MemoryRecording wrong = copy_of(honest);
    const Problem& problem = honest.problem();
    const std::int64_t last = problem.q_blocks() - 1;
    change_stage(wrong, Stage::q, [&](float right, const TileId& id, std::int64_t row, std::int64_t d) {
        if (id.q_block > 0) return right;
        if (id.head == 0 && id.batch == 0) return 0.01f * float(row * 37 % 64) - 0.02f * float(d);
        const TileId before{id.head > 0 ? id.batch : id.batch - 1,
                            (id.head + problem.heads - 1) % problem.heads, last, 0};
        const bool is_there = row < tile_extent(problem, Stage::q, before).rows;
        return is_there ? peek(honest, Stage::q, before, row, d) : 0;
    });
    const Report report = diagnosed(wrong);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "elements_not_written (left by the tile before)");
    EXPECT_EQ(report.diagnosis.causes[0].where, "where q_block == 0");
}

/// A bound that some columns alone have.
TEST(IdentifiedMasks, HideKeysOfSomeColumns) {
    MemoryRecording wrong = copy_of(honest_run());
    change_stage(wrong, Stage::s, [&](float right, const TileId& id, std::int64_t, std::int64_t col) {
        const std::int64_t key = id.kv_tile * wrong.problem().block_n + col;
        return col % 2 == 1 && key >= 20 ? -INFINITY : right;
    });
    const Report report = diagnosed(wrong);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "mask_elsewhere (s -inf)");
    EXPECT_EQ(report.diagnosis.causes[0].where, "where j >= 21 and j % 2 == 1");
}

/// `made` of the last five keys, whose bound other lengths have elsewhere.
Report with_last_keys(const std::function<float(float)>& made) {
    MemoryRecording wrong = copy_of(honest_run());
    const Problem& problem = wrong.problem();
    change_stage(wrong, Stage::s, [&](float right, const TileId& id, std::int64_t, std::int64_t col) {
        return id.kv_tile * problem.block_n + col >= problem.seqlen_kv - 5 ? made(right) : right;
    });
    return diagnosed(wrong);
}

TEST(IdentifiedWhere, CountsFromTheEnd) {
    const Report report = with_last_keys([](float s) { return 2 * s; });
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(report.diagnosis.causes[0].where, "where j >= seqlen_kv - 5");
}

TEST(IdentifiedMasks, HideTheLastKeys) {
    const Report report = with_last_keys([](float) { return -INFINITY; });
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "mask_elsewhere (s -inf)");
    EXPECT_EQ(report.diagnosis.causes[0].where, "where j >= seqlen_kv - 5");
}

/// Any diagonal that lies before these keys would hide them as well.
TEST(IdentifiedMasks, AreNoOtherDiagonalWhereAllIsHidden) {
    MemoryRecording wrong = recorded(make_call(small_problem_of_floats(Mask::causal), seed));
    const Problem& problem = wrong.problem();
    change_stage(wrong, Stage::s, [&](float right, const TileId& id, std::int64_t row, std::int64_t col) {
        const std::int64_t key = id.kv_tile * problem.block_n + col;
        return row % 2 == 1 && key >= problem.seqlen_kv - 8 ? -INFINITY : right;
    });
    const Report report = diagnosed(wrong);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "mask_elsewhere (s -inf)");
    EXPECT_EQ(report.diagnosis.causes[0].where, "where i % 2 == 1 and j / block_n >= seqlen_kv / block_n");
}

/// What a mask leaves of the scores that it should hide is a line of them.
TEST(IdentifiedMasks, LeaveSomethingOfAScore) {
    const MemoryRecording open = recorded(make_call(small_problem_of_floats(Mask::none), seed));
    MemoryRecording wrong = recorded(make_call(small_problem_of_floats(Mask::causal), seed));
    change_stage(wrong, Stage::s, [&](float right, const TileId& id, std::int64_t row, std::int64_t col) {
        const TileShape extent = tile_extent(wrong.problem(), Stage::s, id);
        const bool is_hidden = row < extent.rows && col < extent.cols && std::isinf(right);
        return is_hidden ? peek(open, Stage::s, id, row, col) - 4 : right;
    });
    EXPECT_EQ(
        first_title(wrong),
        "formula (s sum(d: q * k[b, h, i / block_m, j, d]) * 0.25 where j <= i + seqlen_kv - seqlen_q else "
        "sum(d: q * k[b, h, i / block_m, j, d]) * 0.25 - 4.0)");
}

/// Some scores are hidden that should be seen, others are seen that should be hidden.
TEST(IdentifiedMasks, CompareWithAnotherSign) {
    const MemoryRecording open = recorded(make_call(small_problem_of_floats(Mask::none), seed));
    MemoryRecording wrong = recorded(make_call(small_problem_of_floats(Mask::causal), seed));
    const Problem& problem = wrong.problem();
    change_stage(wrong, Stage::s, [&](float right, const TileId& id, std::int64_t row, std::int64_t col) {
        const TileShape extent = tile_extent(problem, Stage::s, id);
        if (row >= extent.rows || col >= extent.cols) return right;
        const std::int64_t key = id.kv_tile * problem.block_n + col;
        const std::int64_t diagonal =
            id.q_block * problem.block_m + row + problem.seqlen_kv - problem.seqlen_q;
        return key >= diagonal ? peek(open, Stage::s, id, row, col) : -INFINITY;
    });
    EXPECT_EQ(first_title(wrong),
              "formula (s sum(d: q * k[b, h, i / block_m, j, d]) * 0.25 where j >= i + seqlen_kv - seqlen_q "
              "else -inf)");
}

/// 1 is added to numbers of which some are -1: what is left of these is 0.
TEST(IdentifiedLines, CrossZero) {
    std::vector<CurvePoint> points;
    for (int i = -40; i <= 40; ++i) points.push_back({0.125 * i, 0, 0.125 * i + 1, true});
    const std::vector<Curve> curves = curves_through(points, {}, "k");
    ASSERT_FALSE(curves.empty());
    EXPECT_EQ(curves[0].formula, "k + 1");
}

/// What is small becomes 0 in one KV tile alone: others hold numbers beside the bound, which is as simple as it may be.
TEST(IdentifiedWhere, BoundsAreSimple) {
    MemoryRecording wrong = copy_of(honest_run());
    change_stage(wrong, Stage::s, [](float s, const TileId& id, std::int64_t, std::int64_t) {
        return id.kv_tile == 1 && std::abs(s) < 0.25f ? 0.0f : s;
    });
    EXPECT_EQ(
        first_title(wrong),
        "formula (s (0.0 where abs(sum(d: q * k[b, h, i / block_m, j, d])) < 1.0 else sum(d: q * k[b, h, i "
        "/ block_m, j, d])) * 0.25)");
    EXPECT_EQ(diagnosed(wrong).diagnosis.causes[0].where, "where j / block_n == 1");
}

/// What a soft cap takes is rounded, which the scores behind it do not show.
TEST(IdentifiedTypes, AreFoundBelowTheCap) {
    Problem problem = small_problem_of_floats();
    problem.logits_soft_cap = 2;
    MemoryRecording wrong = recorded(make_call(problem, seed));
    change_stage(wrong, Stage::s, [](float s, auto...) {
        const double scaled = 2 * std::atanh(double(s) / 2);
        return float(2 * std::tanh(std::nearbyint(std::clamp(scaled * 127, -127.0, 127.0)) / 127 / 2));
    });
    EXPECT_EQ(first_title(wrong),
              "formula (s tanh(max(min(round(sum(d: q * k[b, h, i / block_m, j, d]) * 0.25 * 127.0), 127.0), "
              "-127.0) / "
              "127.0 / 2.0) * 2.0)");
}

/// o of the honest m, l and acc, divided by what `divisor` makes of l.
MemoryRecording divided_by(const std::function<float(float)>& divisor) {
    MemoryRecording recording = copy_of(honest_run());
    const std::int64_t last = recording.problem().kv_tiles() - 1;
    change_stage(recording, Stage::o, [&](float o, const TileId& id, std::int64_t row, std::int64_t col) {
        if (row >= tile_extent(recording.problem(), Stage::o, id).rows) return o;
        const TileId tile{id.batch, id.head, id.q_block, last};
        return peek(recording, Stage::acc, tile, row, col) / divisor(peek(recording, Stage::l, tile, row, 0));
    });
    return recording;
}

TEST(IdentifiedMerges, NameWhatTheOutputIsDividedBy) {
    EXPECT_EQ(first_title(divided_by([](float l) { return 2 * l + 1; })),
              "formula (o acc / (l_row * 2.0 + 1.0) where l_row > 0.0 else 0.0)");
    EXPECT_EQ(first_title(divided_by([](float l) { return std::max(l, 12.0f); })),
              "formula (o acc / max(l_row, 12.0) where l_row > 0.0 else 0.0)");
    EXPECT_EQ(first_title(divided_by([](float l) { return 1 / l; })),
              "formula (o acc / (1.0 / l_row) where l_row > 0.0 else 0.0)");
}

TEST(IdentifiedMerges, NameWhatLseIsMadeOf) {
    MemoryRecording recording = copy_of(honest_run());
    const std::int64_t last = recording.problem().kv_tiles() - 1;
    change_stage(recording, Stage::lse, [&](float lse, const TileId& id, std::int64_t row, std::int64_t) {
        if (row >= tile_extent(recording.problem(), Stage::lse, id).rows) return lse;
        const TileId tile{id.batch, id.head, id.q_block, last};
        return peek(recording, Stage::m, tile, row, 0) - std::log(peek(recording, Stage::l, tile, row, 0)) +
               1;
    });
    EXPECT_EQ(first_title(recording), "formula (lse m + (-log(l_row) + 1.0) where l_row > 0.0 else -inf)");
}

/// A function with noise on it, of the size of what it changes, is none.
TEST(Identified, NoFunctionIsNamedForNoise) {
    for (const Stage stage :
         {Stage::q, Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse}) {
        MemoryRecording recording = copy_of(honest_run());
        std::mt19937_64 random(seed);
        std::normal_distribution<double> normal(1, 0.03);
        change_stage(recording, stage, [&](float x, auto...) { return float(x * normal(random)); });
        const Report report = diagnosed(recording);
        ASSERT_EQ(report.guilty, stage);
        for (const FoundCause& cause : report.diagnosis.causes)
            EXPECT_TRUE(cause.structural) << title_of(cause);
    }
}

// ---- the algebra alone

std::vector<CurvePoint> points_of(const std::function<double(double)>& curve, int count, double error) {
    std::vector<CurvePoint> points;
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(-2, 2);
    for (int i = 0; i < count; ++i) {
        const double x = uniform(random);
        const double got = curve(x) + 0.3 * error * uniform(random);
        points.push_back({x, error, got, std::abs(got - x) > error});
    }
    return points;
}

TEST(Curves, TakeMoreValuesThanTheyHaveParameters) {
    const auto line = [](double x) { return 3 * x + 0.125; };
    EXPECT_TRUE(curves_through(points_of(line, 5, 1e-6), {}, "x").empty());
    const std::vector<Curve> found = curves_through(points_of(line, 50, 1e-6), {}, "x");
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].formula, "3 * x + 0.125");
    EXPECT_EQ(found[0].parameters, 2);
}

/// Of numbers that repeat, the bound is between two of them.
TEST(Curves, EndBetweenNumbersOfFewDigits) {
    std::vector<CurvePoint> points;
    for (int i = -32; i <= 32; ++i) {
        const double x = i / 32.0;
        for (int times = 0; times < 6; ++times) points.push_back({x, 0, x > 0.25 ? 2 * x : x, x > 0.25});
    }
    const std::vector<Curve> found = curves_through(points, {}, "x");
    EXPECT_TRUE(std::ranges::any_of(
        found, [](const Curve& curve) { return curve.formula == "2 * x where x > 0.25"; }));
}

TEST(Curves, RoundAsFarAsTheErrorAllows) {
    EXPECT_EQ(simplest_number(0.4999, 1e-3, {}).name, "0.5");
    EXPECT_EQ(simplest_number(0.4999, 1e-6, {}).name, "0.4999");
    EXPECT_EQ(simplest_number(0.693147, 1e-5, {{"ln2", std::log(2.0)}}).name, "ln2");
    EXPECT_NE(simplest_number(0.69, 0.01, {{"ln2", std::log(2.0)}}).name, "ln2");
    EXPECT_EQ(simplest_number(1e-9, 1e-6, {}).name, "0");
}

/// 1 is added to all but the value of which bit 21 is set already.
TEST(Curves, OfBitsAreHeldToValuesThatAreRight) {
    std::vector<CurvePoint> points;
    for (int i = 0; i < 64; ++i) points.push_back({4 + i / 64.0 + 1e-3, 1e-6, 5 + i / 64.0 + 1e-3, true});
    points.push_back({5.25, 1e-6, 5.25, false});
    const std::vector<Curve> curves = curves_through(points, {}, "x");
    EXPECT_TRUE(std::ranges::any_of(
        curves, [](const Curve& curve) { return curve.formula == "bits of x | 0x00200000"; }));
}

TEST(Curves, NoiseHasNone) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, 0.1);
    std::vector<CurvePoint> points = points_of([](double x) { return x; }, 400, 1e-6);
    for (CurvePoint& point : points) {
        point.got += normal(random);
        point.wrong = true;
    }
    EXPECT_TRUE(curves_through(points, {}, "x").empty());
}

}  // namespace
}  // namespace tilescope::test
