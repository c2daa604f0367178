#include "tests/oracle/definition_replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "dump/schema/semantics.h"
#include "oracle/formula/budget.h"

namespace tilescope::test {

namespace {

constexpr Real most_deviation = 1e-12L;

/// Where the scores, or the maximum, are known less well than this, l may be 0 as far as its bound tells, and then anything
/// may be in o and lse.
constexpr double well_known = 0.01;

RoundingModel rounding() {
    std::array<double, stage_count> elements{};
    elements.fill(1e6);
    return rounding_model(default_confidence, elements, tensor_core("9.0"));
}

bool agrees(double got, const Defined& defined) {
    if (std::isnan(defined.value)) return std::isnan(got);
    if (std::isinf(defined.value)) return Real(got) == defined.value;
    const Real least_normal = std::numeric_limits<double>::min();
    return std::abs(Real(got) - defined.value) <= most_deviation * defined.magnitude + least_normal;
}

/// Holds one query block of the replay against the definition.
struct BlockComparison {
    const AttentionCall& call;
    std::int64_t batch;
    std::int64_t head;
    std::int64_t q_block;
    const ReplayManner& manner;
    Coverage& coverage;
    std::vector<DefinedRow> rows;  ///< of the query block
    std::vector<double> s_error;  ///< largest bound of a row's scores, and of a maximum that goes on from lse

    std::string place(Stage stage, std::int64_t kv_tile, Eigen::Index i, Eigen::Index j) const {
        return std::string(stage_info(stage).name) + " at batch " + std::to_string(batch) + ", head " +
               std::to_string(head) + ", row " + std::to_string(q_block * call.problem.block_m + i) +
               ", KV tile " + std::to_string(kv_tile) + ", column " + std::to_string(j);
    }

    /// What an m that may be stale is chosen from: an interval about as wide as the threshold.
    bool may_choose(double got, const Defined& m, double error, double factor, std::size_t row) const {
        if (std::isinf(m.value)) return agrees(got, m);
        // A cap and a bias that the dumped scores are without add their errors.
        const double most_error = 0.5001 * call.units.m_stale_threshold + s_error[row] + 0.01;
        return std::abs(Real(got) - m.value) <= Real(error * factor) && error <= most_error;
    }

    /// The m of a tile as the dump holds it.
    DumpedTile dumped_max(std::int64_t kv_tile) const {
        MatrixF m(Eigen::Index(rows.size()), 1);
        for (std::size_t i = 0; i < rows.size(); ++i)
            m(Eigen::Index(i), 0) = float(rows[i].m[std::size_t(kv_tile)].value);
        DumpedTile dumped;
        dumped[std::size_t(Stage::m)] = m;
        return dumped;
    }

    /// `natural` in the dump's units against `defined(row, column)`.
    template <class DefinedAt>
    void expect_stage(const HeadCall& head_call, Stage stage, std::int64_t kv_tile, const Estimate& natural,
                      DefinedAt defined) {
        const DumpFactor factor =
            dump_factor(head_call, stage, q_block * call.problem.block_m, kv_tile * call.problem.block_n,
                        natural.value.rows(), natural.value.cols());
        for (Eigen::Index i = 0; i < natural.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < natural.value.cols(); ++j) {
                const Defined& expected = defined(std::size_t(i), std::size_t(j));
                const double got = natural.value(i, j) * factor.at(i, j);
                const double error = natural.error(i, j);
                const bool is_choice = stage == Stage::m && call.units.m_stale_threshold > 0;
                ASSERT_TRUE(is_choice ? may_choose(got, expected, error, factor.at(i, j), std::size_t(i))
                                      : agrees(got, expected))
                    << place(stage, kv_tile, i, j) << ": " << got << ", by definition " << expected.value
                    << ", magnitude " << expected.magnitude;
                const bool may_be_infinite =
                    stage >= Stage::o && s_error[std::size_t(i)] > well_known && error > 0;
                ASSERT_TRUE(may_be_infinite || (error >= 0 && std::isfinite(error)))
                    << place(stage, kv_tile, i, j) << " has the bound " << error;
                ++coverage.elements;
            }
        }
    }

    void expect_operand(const ReplayFromInputs& replay, Stage stage, std::int64_t kv_tile,
                        std::int64_t first_row) {
        const Estimate& staged = replay.staged(stage).expected;
        for (Eigen::Index i = 0; i < staged.value.rows(); ++i) {
            const std::vector<Real> expected = define_operand(call, stage, batch, head, first_row + i);
            for (Eigen::Index j = 0; j < staged.value.cols(); ++j) {
                const Real value = expected[std::size_t(j)];
                ASSERT_TRUE(agrees(staged.value(i, j), {value, std::abs(value)}))
                    << place(stage, kv_tile, i, j) << ": " << staged.value(i, j) << ", by definition "
                    << value;
                ASSERT_TRUE(staged.error(i, j) >= 0 && std::isfinite(staged.error(i, j)))
                    << place(stage, kv_tile, i, j) << " has the bound " << staged.error(i, j);
                ++coverage.elements;
            }
        }
    }

    void expect_tile(ReplayFromInputs& replay, std::int64_t kv_tile) {
        const bool is_stale = call.units.m_stale_threshold > 0;
        const TileEstimates tile = replay.step(kv_tile, is_stale ? dumped_max(kv_tile) : DumpedTile());
        for (Eigen::Index i = 0; i < tile.s.value.rows(); ++i) {
            double& largest = s_error[std::size_t(i)];
            largest = std::max(largest, tile.s.error.row(i).maxCoeff());
            // Which goes on from l, whose bound has its own in it: it doubles with every tile.
            if (call.units.m_from_lse) largest = std::max(largest, tile.m.error(i, 0));
        }
        const HeadCall& of = replay.call();
        const auto t = std::size_t(kv_tile);
        const std::size_t first_key = t * std::size_t(call.problem.block_n);
        expect_operand(replay, Stage::k, kv_tile, std::int64_t(first_key));
        expect_operand(replay, Stage::v, kv_tile, std::int64_t(first_key));
        expect_stage(of, Stage::s, kv_tile, tile.s, [&](auto i, auto j) { return rows[i].s[first_key + j]; });
        expect_stage(of, Stage::m, kv_tile, tile.m, [&](auto i, auto) { return rows[i].m[t]; });
        expect_stage(of, Stage::p, kv_tile, tile.p, [&](auto i, auto j) { return rows[i].p[first_key + j]; });
        expect_stage(of, Stage::l, kv_tile, tile.l, [&](auto i, auto j) { return rows[i].l[t][j]; });
        expect_stage(of, Stage::acc, kv_tile, tile.acc, [&](auto i, auto j) { return rows[i].acc[t][j]; });
        for (Eigen::Index i = 0; i < tile.s.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < tile.s.value.cols(); ++j) {
                const auto key = first_key + std::size_t(j);
                // A number in place of a hidden score may count in a row that sees nothing else.
                if (rows[std::size_t(i)].seen[key] || rows[std::size_t(i)].p[key].value != 0) continue;
                ASSERT_EQ(tile.p.value(i, j), 0) << place(Stage::p, kv_tile, i, j);
                const double flushed = masks_with_number(call.units) ? flush_to_zero : 0;
                ASSERT_LE(tile.p.error(i, j), flushed) << place(Stage::p, kv_tile, i, j);
            }
        }
    }

    void expect_block(const Recording& recording) {
        ReplayFromInputs replay(recording, batch, head, q_block, manner.bounds);
        const Problem& entry = replay.call().problem;
        const std::int64_t first_row = q_block * entry.block_m;
        const std::int64_t end = std::min(entry.seqlen_q, first_row + entry.block_m);
        for (std::int64_t row = first_row; row < end; ++row) {
            rows.push_back(define_row(call, batch, head, row));
            ++(rows.back().sees_any ? coverage.rows_that_see_something : coverage.rows_that_see_nothing);
        }
        s_error.assign(rows.size(), 0);
        expect_operand(replay, Stage::q, 0, first_row);
        const auto tiles = std::int64_t(rows.front().m.size());
        // The definition takes every tile, and numbers in hidden ones count.
        const bool skips = manner.skip_hidden && !masks_with_number(call.units);
        for (std::int64_t i = 0; i < tiles; ++i) {
            const std::int64_t kv_tile = call.units.kv_order == KvOrder::reverse ? tiles - 1 - i : i;
            if (skips && !tile_is_visible(entry, q_block, kv_tile)) continue;
            expect_tile(replay, kv_tile);
            if (::testing::Test::HasFatalFailure()) return;
        }
        const HeadCall& of = replay.call();
        expect_stage(of, Stage::o, 0, replay.output(), [&](auto i, auto j) { return rows[i].o[j]; });
        expect_stage(of, Stage::lse, 0, replay.log_sum_exp(), [&](auto i, auto) { return rows[i].lse; });
    }
};

}  // namespace

std::unique_ptr<MemoryRecording> recording_of(const AttentionCall& call) {
    auto recording = std::make_unique<MemoryRecording>(call.problem, call.units);
    recording->set_side_inputs(call.inputs.side);
    recording->set_bias(call.inputs.bias);
    recording->set_input(Input::q, call.inputs.q);
    recording->set_input(Input::k, call.inputs.k);
    recording->set_input(Input::v, call.inputs.v);
    return recording;
}

ReplayFromInputs::ReplayFromInputs(const Recording& recording, std::int64_t batch, std::int64_t head,
                                   std::int64_t q_block, bool bounds)
    : recording_(recording),
      batch_(batch),
      head_(head),
      q_block_(q_block),
      call_(make_head_call(recording, rounding(), batch, head)),
      replay_(call_, q_block, Stage::lse, Replay::Source::inputs) {
    call_.bounds = bounds;
    // m is handed over tile by tile.
    call_.units = recording.units();
    const std::int64_t first = q_block * call_.problem.block_m;
    const std::int64_t rows = tile_extent(call_.problem, Stage::q, {batch, head, q_block, 0}).rows;
    q_ = staged_operand(call_, Stage::q, first, load_input(recording, Input::q, batch, head, first, rows));
}

TileEstimates ReplayFromInputs::step(std::int64_t kv_tile, const DumpedTile& dumped) {
    const std::int64_t first = kv_tile * call_.problem.block_n;
    const std::int64_t keys = tile_extent(call_.problem, Stage::k, {batch_, head_, q_block_, kv_tile}).rows;
    const std::int64_t head_kv = call_.problem.head_kv(head_);
    k_ = staged_operand(call_, Stage::k, first,
                        load_input(recording_, Input::k, batch_, head_kv, first, keys));
    v_ = staged_operand(call_, Stage::v, first,
                        load_input(recording_, Input::v, batch_, head_kv, first, keys));
    return replay_.step(kv_tile, {q_.natural, k_.natural, v_.natural}, dumped);
}

void expect_replay_equals_definition(const AttentionCall& call, const ReplayManner& manner,
                                     Coverage& coverage) {
    const std::unique_ptr<MemoryRecording> recording = recording_of(call);
    for (std::int64_t batch = 0; batch < call.problem.batch; ++batch) {
        const std::int64_t rows = rows_of_entry(call, batch);
        for (std::int64_t head = 0; head < call.problem.heads; ++head) {
            for (std::int64_t q_block = 0; q_block * call.problem.block_m < rows; ++q_block) {
                BlockComparison block{call, batch, head, q_block, manner, coverage, {}, {}};
                block.expect_block(*recording);
                if (::testing::Test::HasFatalFailure()) return;
            }
        }
    }
}

}  // namespace tilescope::test
