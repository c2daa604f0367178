// Terms of sums that are passed through a function each, before they are added up: the sum is computed here from the
// dumped stages before it, as the mistake would have it.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 307;

using OfTerm = std::function<float(float)>;

MemoryRecording honest(std::int64_t tiles_per_split) {
    Problem problem = small_problem_of_floats();
    problem.kv_tiles_per_split = tiles_per_split;
    return recorded(make_call(problem, seed));
}

std::string first_found(const Recording& recording) {
    const Report report = diagnosed(recording);
    if (report.diagnosis.causes.empty()) return "nothing";
    return title_of(report.diagnosis.causes[0]);
}

bool is_bit_set(float x, int bit) {
    return std::bit_cast<std::uint32_t>(x) >> bit & 1;
}

float with_bits_of(float x, std::uint32_t flip) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ flip);
}

/// l of the dumped m and p, of which each is passed through a function.
MemoryRecording with_terms_of_l(const OfTerm& of_term) {
    MemoryRecording recording = honest(0);
    const Problem problem = recording.problem();
    change_stage(recording, Stage::l, [&](float right, const TileId& id, std::int64_t row, std::int64_t) {
        if (row >= tile_extent(problem, Stage::l, id).rows) return right;
        float sum = 0;
        if (id.kv_tile > 0) {
            const TileId before{id.batch, id.head, id.q_block, id.kv_tile - 1};
            sum = peek(recording, Stage::l, before, row, 0) *
                  std::exp(peek(recording, Stage::m, before, row, 0) - peek(recording, Stage::m, id, row, 0));
        }
        for (std::int64_t c = 0; c < tile_extent(problem, Stage::k, id).rows; ++c)
            sum += of_term(peek(recording, Stage::p, id, row, c));
        return sum;
    });
    return recording;
}

/// o of splits of one KV tile each, whose accumulators are passed through a function as they are joined.
MemoryRecording with_joined_terms(const OfTerm& of_acc) {
    MemoryRecording recording = honest(1);
    const Problem problem = recording.problem();
    change_stage(recording, Stage::o, [&](float right, const TileId& id, std::int64_t row, std::int64_t col) {
        if (row >= tile_extent(problem, Stage::o, id).rows) return right;
        const auto at = [&](Stage stage, std::int64_t split, std::int64_t d) {
            return peek(recording, stage, {id.batch, id.head, id.q_block, split}, row, d);
        };
        float top = -INFINITY;
        for (std::int64_t z = 0; z < problem.kv_tiles(); ++z) top = std::max(top, at(Stage::m, z, 0));
        float sum = 0;
        float acc = 0;
        for (std::int64_t z = 0; z < problem.kv_tiles(); ++z) {
            const float weight = std::exp(at(Stage::m, z, 0) - top);
            sum += weight * at(Stage::l, z, 0);
            acc += of_acc(weight * at(Stage::acc, z, col));
        }
        return acc / sum;
    });
    return recording;
}

TEST(FunctionsOfTerms, OfTheRowSumAreNamed) {
    EXPECT_EQ(first_found(with_terms_of_l([](float p) { return is_bit_set(p, 22) ? -p : p; })),
              "formula (l l * rescale + sum(j: -p where p & 0x00400000 != 0.0 else p))");
    EXPECT_EQ(first_found(with_terms_of_l([](float p) { return with_bits_of(p, 0x00600000); })),
              "formula (l l * rescale + sum(j: p ^ 0x00600000))");
    EXPECT_EQ(first_found(with_terms_of_l([](float p) { return std::min(p, 0.25f); })),
              "formula (l l * rescale + sum(j: min(p, 0.25)))");
}

TEST(FunctionsOfTerms, OfJoinedAccumulatorsAreNamed) {
    EXPECT_EQ(first_found(with_joined_terms([](float acc) { return -std::abs(acc); })),
              "formula (o sum(z: (exp(lse_of - whole) where lse_of > -inf else 0.0) * -abs(o_of)) where "
              "whole > -inf else 0.0)");
}

/// acc of the dumped P, of which each is passed through a function of it and its column.
MemoryRecording with_products_of(const std::function<float(float p, std::int64_t col)>& of_p) {
    MemoryRecording recording = honest(0);
    const Problem problem = recording.problem();
    change_stage(
        recording, Stage::acc, [&](float right, const TileId& id, std::int64_t row, std::int64_t col) {
            if (row >= tile_extent(problem, Stage::acc, id).rows) return right;
            float sum = 0;
            if (id.kv_tile > 0) {
                const TileId before{id.batch, id.head, id.q_block, id.kv_tile - 1};
                sum = peek(recording, Stage::acc, before, row, col) *
                      std::exp(peek(recording, Stage::m, before, row, 0) -
                               peek(recording, Stage::m, id, row, 0));
            }
            for (std::int64_t c = 0; c < tile_extent(problem, Stage::k, id).rows; ++c)
                sum += of_p(peek(recording, Stage::p, id, row, c), c) * peek(recording, Stage::v, id, c, col);
            return sum;
        });
    return recording;
}

float as_int8(float p) {
    return std::nearbyint(p * 127) / 127;
}

TEST(FunctionsOfTerms, OperandsOfInt8AreNamed) {
    EXPECT_EQ(first_found(with_products_of([](float p, std::int64_t) { return as_int8(p); })),
              "formula (acc acc * rescale + sum(j: round(p * 127.0) / 127.0 * v[b, h, i / "
              "block_m, j, e]))");
}

TEST(FunctionsOfTerms, OperandsOfInt8InSomeColumnsAreNamed) {
    EXPECT_EQ(first_found(
                  with_products_of([](float p, std::int64_t c) { return c / 4 % 2 == 1 ? as_int8(p) : p; })),
              "formula (acc acc * rescale + sum(j: (round(p * 127.0) / 127.0 where "
              "j % 8 >= "
              "4 else p) * v[b, h, i / block_m, j, e]))");
}

/// m of the dumped scores, of which each is passed through a function of it and its column.
MemoryRecording with_scores_of_m(const std::function<float(float s, std::int64_t col)>& of_score) {
    MemoryRecording recording = honest(0);
    const Problem problem = recording.problem();
    change_stage(recording, Stage::m, [&](float right, const TileId& id, std::int64_t row, std::int64_t) {
        if (row >= tile_extent(problem, Stage::m, id).rows) return right;
        float most = -INFINITY;
        if (id.kv_tile > 0)
            most = peek(recording, Stage::m, {id.batch, id.head, id.q_block, id.kv_tile - 1}, row, 0);
        for (std::int64_t c = 0; c < tile_extent(problem, Stage::k, id).rows; ++c)
            most = std::max(most, of_score(peek(recording, Stage::s, id, row, c), c));
        return most;
    });
    return recording;
}

TEST(FunctionsOfScores, OfTheMaximumAreNamed) {
    EXPECT_EQ(
        first_found(with_scores_of_m([](float s, std::int64_t) { return with_bits_of(s, 0x00600000); })),
        "formula (m max(m, max(j: s ^ 0x00600000)))");
    EXPECT_EQ(first_found(with_scores_of_m([](float s, std::int64_t) { return -std::abs(s); })),
              "formula (m max(m, max(j: -abs(s))))");
}

/// The maxima of a kernel that leaves them behind by up to 1, as `of` makes them of the scores before the comparison.
MemoryRecording with_stale_maxima(const std::function<float(float)>& of) {
    constexpr float threshold = 1;
    Arithmetic arithmetic;
    arithmetic.stale_threshold = threshold;
    MemoryRecording recording = recorded(make_call(small_problem_of_floats(), seed, arithmetic));
    const Problem problem = recording.problem();
    change_stage(recording, Stage::m, [&](float right, const TileId& id, std::int64_t row, std::int64_t) {
        if (row >= tile_extent(problem, Stage::m, id).rows) return right;
        float before = -INFINITY;
        if (id.kv_tile > 0)
            before = peek(recording, Stage::m, {id.batch, id.head, id.q_block, id.kv_tile - 1}, row, 0);
        float most = before;
        for (std::int64_t c = 0; c < tile_extent(problem, Stage::k, id).rows; ++c)
            most = std::max(most, of(peek(recording, Stage::s, id, row, c)));
        return most <= before + threshold ? before : most;
    });
    return recording;
}

TEST(FunctionsOfScores, OfAMaximumThatMayStayBehindAreNamed) {
    EXPECT_EQ(first_found(with_stale_maxima([](float s) { return 3 * s; })),
              "formula (m between(max(m, max(j: s) * 3.0 - 1.0), max(m, max(j: s) * 3.0)))");
}

}  // namespace
}  // namespace tilescope::test
