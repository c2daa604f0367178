// Mistakes of backward passes, made in the honest kernel or in its tiles as the mistake would have them, and what is
// named.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "oracle/report/text.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 3;

/// The best cause with its parameters, "" where none replays the values.
std::string named_gradient(const Recording& recording) {
    const Report report = diagnosed(recording);
    if (report.diagnosis.causes.empty() || report.diagnosis.causes[0].structural) return "";
    return title_of(report.diagnosis.causes[0]);
}

/// What the report may say first of a mistake that the kernel makes everywhere.
struct MadeByKernel {
    Mistake mistake;
    std::vector<std::string> names;
};

TEST(GradientCauses, MistakesOfTheKernel) {
    using enum Mistake;
    const std::vector<MadeByKernel> cases = {
        {mask_off_by_one, {"diagonal_shifted"}},
        {scaled_twice, {"scale_twice"}},
        {dout_of_next_block, {"operand_addresses", "rows_shifted"}},
        {delta_of_next_o, {"o_of_other_row"}},
        {lse_base_confused, {"lse_of_other_base"}},
        {p_not_masked, {"masked_p_not_zero", "causal_ignored", "non_finite_replaced"}},
        {ds_without_delta, {"delta_missing"}},
        {ds_delta_of_next_row, {"formula"}},
        {ds_without_p, {"formula"}},
        {ds_without_cap, {"cap_derivative_missing"}},
        {dq_not_scaled, {"output_constant"}},
        {dq_tile_lost, {"formula"}},
        {dk_scaled_twice, {"output_constant"}},
        {dk_of_wrong_heads, {"group_of_other_heads"}},
        {dk_without_last_block, {"formula"}},
        {dv_untransposed, {"not_transposed"}},
    };
    for (const MadeByKernel& made : cases) {
        SCOPED_TRACE(to_string(made.mistake));
        Call call = call_that_shows(made.mistake, Direction::backward, seed);
        if (made.mistake == dv_untransposed) {
            // Tiles that are whole, as a transpose needs them.
            Problem whole = call.problem;
            whole.seqlen_q = 48;
            whole.seqlen_kv = 64;
            call = make_call(whole, seed, call.arithmetic);
        }
        const std::string named = named_gradient(recorded(call, {made.mistake}));
        const std::string name = named.substr(0, named.find(' '));
        EXPECT_TRUE(std::ranges::find(made.names, name) != made.names.end()) << named;
    }
}

/// A run of a backward call, and its gradients again from its own tiles of p, ds and delta.
struct GradientRun {
    Call call = make_call(whole_tiles(), seed);
    MemoryRecording recording = recorded(call);

    std::map<Stage, std::map<TileId, std::vector<float>>> tiles;

    GradientRun() {
        for (const Stage stage : {Stage::p, Stage::dp, Stage::ds, Stage::delta}) {
            const auto elements = std::size_t(tile_shape(call.problem, stage).elements());
            for (std::int64_t i = 0; i < tile_count(call.problem, stage); ++i) {
                const TileId tile = tile_at(call.problem, stage, i);
                recording.read_tile(stage, tile, tiles[stage].emplace(tile, elements).first->second);
            }
        }
    }
    static Problem whole_tiles() {
        Problem problem = one_entry(Mask::none, Direction::backward);
        problem.seqlen_q = 48;
        problem.seqlen_kv = 64;
        problem.heads = 2;
        problem.heads_kv = 1;
        return problem;
    }
    double at(Stage stage, const TileId& tile, std::int64_t row, std::int64_t col = 0) const {
        return double(
            tiles.at(stage).at(tile)[std::size_t(row * tile_shape(call.problem, stage).cols + col)]);
    }
    /// An input's element by query row, or key, of a query head.
    double q(std::int64_t head, std::int64_t row, std::int64_t d) const {
        return double(
            call.inputs.q[std::size_t((head * call.problem.seqlen_q + row) * call.problem.head_dim + d)]);
    }
    double k(std::int64_t head, std::int64_t key, std::int64_t d) const {
        const std::int64_t head_kv = call.problem.head_kv(head);
        return double(
            call.inputs.k[std::size_t((head_kv * call.problem.seqlen_kv + key) * call.problem.head_dim + d)]);
    }
    /// One product of dq, by KV tile and column of it, before sm_scale.
    using OfDq = std::function<double(double ds, double k, std::int64_t kv_tile, std::int64_t col)>;
    /// Puts in dq what its products are with the mistake.
    void recompute_dq(const OfDq& product, double first = 0) {
        const Problem& p = call.problem;
        change_stage(recording, Stage::dq, [&](float, const TileId& tile, std::int64_t row, std::int64_t d) {
            double sum = first;
            for (std::int64_t kv = 0; kv < p.kv_tiles(); ++kv)
                for (std::int64_t c = 0; c < p.block_n; ++c)
                    sum += product(at(Stage::ds, {0, tile.head, tile.q_block, kv}, row, c),
                                   k(tile.head, kv * p.block_n + c, d), kv, c);
            return float(sum * p.sm_scale);
        });
    }
    /// The same of dk, by query head and row of the sequence.
    using OfDk = std::function<double(double ds, double q, std::int64_t head, std::int64_t row)>;
    void recompute_dk(const OfDk& product) {
        const Problem& p = call.problem;
        change_stage(recording, Stage::dk, [&](float, const TileId& tile, std::int64_t key, std::int64_t d) {
            double sum = 0;
            for (std::int64_t head = tile.head * 2; head < tile.head * 2 + 2; ++head)
                for (std::int64_t row = 0; row < p.seqlen_q; ++row)
                    sum +=
                        product(at(Stage::ds, {0, head, row / p.block_m, tile.kv_tile}, row % p.block_m, key),
                                q(head, row, d), head, row);
            return float(sum * p.sm_scale);
        });
    }
};

TEST(GradientCauses, HonestSumsAreRight) {
    GradientRun run;
    run.recompute_dq([](double ds, double k, auto...) { return ds * k; });
    run.recompute_dk([](double ds, double q, auto...) { return ds * q; });
    EXPECT_EQ(judged(run.recording).verdict, Verdict::match);
}

struct WrongDq {
    const char* name;
    GradientRun::OfDq product;
    double first;
    std::string title;
};

TEST(GradientCauses, SumsOfDq) {
    const std::vector<WrongDq> cases = {
        {"columns",
         [](double ds, double k, std::int64_t, std::int64_t col) { return col % 4 == 1 ? 0 : ds * k; }, 0,
         "formula (dq sum(j: 0.0 where j % 4 == 1 else ds * k[b, h, i / block_m, j, d]) * 0.25)"},
        {"last tile twice",
         [](double ds, double k, std::int64_t kv, std::int64_t) { return (kv == 3 ? 2 : 1) * ds * k; }, 0,
         "formula (dq sum(j: ds * k[b, h, i / block_m, j, d] * 2.0 where j / block_n >= seqlen_kv / block_n "
         "- 1 else ds * k[b, h, "
         "i / block_m, j, d]) * 0.25)"},
        {"range", [](double ds, double k, std::int64_t, std::int64_t col) { return col < 12 ? ds * k : 0; },
         0,
         "formula (dq sum(j: ds * k[b, h, i / block_m, j, d] where j % block_n / 4 != 3 else 0.0) * 0.25)"},
        {"magnitude", [](double ds, double k, auto...) { return std::abs(ds) * k; }, 0,
         "formula (dq sum(j: abs(ds) * k[b, h, i / block_m, j, d]) * 0.25)"},
        {"clamp", [](double ds, double k, auto...) { return std::min(ds, 0.125) * k; }, 0,
         "formula (dq sum(j: min(ds, 0.125) * k[b, h, i / block_m, j, d]) * 0.25)"},
        {"first", [](double ds, double k, auto...) { return ds * k; }, 2,
         "formula (dq (sum(j: ds * k[b, h, i / block_m, j, d]) + 2.0) * 0.25)"},
    };
    for (const WrongDq& wrong : cases) {
        SCOPED_TRACE(wrong.name);
        GradientRun run;
        run.recompute_dq(wrong.product, wrong.first);
        EXPECT_EQ(named_gradient(run.recording), wrong.title);
    }
}

struct WrongDk {
    const char* name;
    GradientRun::OfDk product;
    std::string title;
};

TEST(GradientCauses, SumsOfDk) {
    const std::vector<WrongDk> cases = {
        {"rows",
         [](double ds, double q, std::int64_t, std::int64_t row) { return row % 16 < 8 ? 0 : ds * q; },
         "formula (dk sum(n, i: ds[b, g * heads_of_each + n, i, j] * q[b, g * heads_of_each + n, i, d] where "
         "i % block_m / 8 != 0 else 0.0) * 0.25)"},
        {"first block",
         [](double ds, double q, std::int64_t, std::int64_t row) { return row < 16 ? 0 : ds * q; },
         "formula (dk sum(n, i: ds[b, g * heads_of_each + n, i, j] * q[b, g * heads_of_each + n, i, d] where "
         "i >= block_m else 0.0) * 0.25)"},
        {"one head",
         [](double ds, double q, std::int64_t head, std::int64_t) { return head % 2 == 0 ? 0 : ds * q; },
         "group_not_summed (dk sum(n, i: ds[b, g * heads_of_each + n, i, j] * q[b, g * heads_of_each + n, i, "
         "d] "
         "where n >= 1 else 0.0) * 0.25)"},
        {"sign", [](double ds, double q, auto...) { return std::max(ds, 0.0) * q; },
         "formula (dk sum(n, i: max(ds[b, g * heads_of_each + n, i, j], 0.0) * q[b, g * heads_of_each + n, "
         "i, "
         "d]) * 0.25)"},
    };
    for (const WrongDk& wrong : cases) {
        SCOPED_TRACE(wrong.name);
        GradientRun run;
        run.recompute_dk(wrong.product);
        EXPECT_EQ(named_gradient(run.recording), wrong.title);
    }
}

struct WrongDs {
    const char* name;
    std::function<double(double p, double dp, double delta)> ds;
    std::string title;
};

TEST(GradientCauses, WhatDsIsMadeOf) {
    const std::vector<WrongDs> cases = {
        {"no delta", [](double p, double dp, double) { return p * dp; },
         "delta_missing (ds p * dp where s > -inf else 0.0)"},
        {"added", [](double p, double dp, double delta) { return p * (dp + delta); },
         "delta_added (ds p * (dp + delta) where s > -inf else 0.0)"},
        {"negated", [](double p, double dp, double delta) { return p * (delta - dp); },
         "formula (ds p * -(dp - delta) where s > -inf else 0.0)"},
        {"no p", [](double, double dp, double delta) { return dp - delta; },
         "formula (ds dp - delta where s > -inf else 0.0)"},
        {"derivative of p", [](double p, double dp, double) { return p * (1 - p) * dp; },
         "formula (ds p * (dp - p * dp) where s > -inf else 0.0)"},
        {"scaled", [](double p, double dp, double delta) { return 0.25 * p * (dp - delta); },
         "formula (ds (p * (dp - delta) where s > -inf else 0.0) * 0.25)"},
    };
    for (const WrongDs& wrong : cases) {
        SCOPED_TRACE(wrong.name);
        GradientRun run;
        change_stage(
            run.recording, Stage::ds, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
                return float(wrong.ds(run.at(Stage::p, tile, row, col), run.at(Stage::dp, tile, row, col),
                                      run.at(Stage::delta, {0, tile.head, tile.q_block, 0}, row)));
            });
        EXPECT_EQ(named_gradient(run.recording), wrong.title);
    }
}

/// The tile whose rows of lse or delta are taken.
struct OtherRow {
    const char* name;
    TileId (*of)(TileId tile);
    std::string takes;
};

TEST(GradientCauses, RowsOfOtherHeadsAndBlocks) {
    const std::vector<OtherRow> cases = {
        {"other head",
         [](TileId tile) {
             tile.head = 1 - tile.head;
             return tile;
         },
         "[b, (h + 1) % heads, i]"},
        {"block left out",
         [](TileId tile) {
             tile.q_block = 0;
             return tile;
         },
         "[b, h, i % block_m]"},
    };
    for (const OtherRow& other : cases) {
        SCOPED_TRACE(other.name);
        GradientRun run;
        const auto lse = [&](const TileId& tile, std::int64_t row) {
            std::vector<float> value(1);
            run.recording.read_input(Input::lse, tile.batch, tile.head,
                                     tile.q_block * run.call.problem.block_m + row, 1, value);
            return double(value[0]);
        };
        change_stage(run.recording, Stage::p,
                     [&](float p, const TileId& tile, std::int64_t row, std::int64_t) {
                         const double own = lse(tile, row);
                         const TileId from = other.of(tile);
                         return float(double(p) * std::exp(own - lse(from, row)));
                     });
        EXPECT_EQ(named_gradient(run.recording),
                  "formula (p exp(s - lse" + other.takes + ") where s > -inf else 0.0)");
        GradientRun of_ds;
        change_stage(of_ds.recording, Stage::ds,
                     [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
                         const TileId from = other.of(tile);
                         const double delta = of_ds.at(Stage::delta, {0, from.head, from.q_block, 0}, row);
                         return float(of_ds.at(Stage::p, tile, row, col) *
                                      (of_ds.at(Stage::dp, tile, row, col) - delta));
                     });
        EXPECT_EQ(named_gradient(of_ds.recording),
                  "formula (ds p * (dp - delta" + other.takes + ") where s > -inf else 0.0)");
    }
}

TEST(GradientCauses, TilesThatKeepWhatWasThere) {
    GradientRun run;
    change_stage(run.recording, Stage::dp, [&](float value, TileId tile, std::int64_t row, std::int64_t col) {
        return tile.kv_tile % 2 == 0 ? value : float(run.at(Stage::dp, (--tile.kv_tile, tile), row, col));
    });
    EXPECT_EQ(named_gradient(run.recording),
              "formula (dp sum(e: dout * v[b, h, i / block_m, j - block_n, e]))");
    EXPECT_TRUE(diagnosed(run.recording).diagnosis.causes[0].race_alike);
}

TEST(GradientCauses, ScoresThatAMaskHidesTooMuchOf) {
    GradientRun run;
    change_stage(run.recording, Stage::s, [](float value, const TileId&, std::int64_t row, std::int64_t col) {
        return row % 4 == 1 && col < 8 ? -std::numeric_limits<float>::infinity() : value;
    });
    const Report report = diagnosed(run.recording);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "mask_elsewhere (s -inf)");
    EXPECT_EQ(report.diagnosis.causes[0].where, "where i % 4 == 1 and j % block_n < 8");
}

TEST(GradientCauses, HealthyPassesHaveNone) {
    for (std::uint64_t draw = 1; draw <= 6; ++draw) {
        const Call call = call_that_shows(Mistake::none, Direction::backward, draw, draw);
        EXPECT_FALSE(diagnosed(recorded(call)).diagnosis.searched) << how_to_repeat(draw, call);
    }
}

}  // namespace
}  // namespace tilescope::test
