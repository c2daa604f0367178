// Names of formulas, and what of them is otherwise: each row is a kernel's formula in place of the declared one, and what a kernel author
// would call it.

#include "oracle/causes/formula_names.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "dump/schema/program.h"
#include "oracle/program/formula_changes.h"

namespace tilescope::test {
namespace {

/// Attention with an ALiBi slope, a bias and a soft cap, of which every stage is there.
constexpr std::string_view attention = R"(
axes   b: batch; h: heads; i: seqlen_q by block_m; j: seqlen_kv by block_n; d: head_dim; e: head_dim_v
sizes  group
input  Q[b, h, i, d]; K[b, h / group, j, d]; V[b, h / group, j, e]; slope[b, h]; bias[b, h, i, j]; descale_k[b, h / group]
stage  q[b, h, i, d] = Q
stage  k[b, h, j, d] = K * descale_k
stage  s[b, h, i, j] = sum(d: q * k) * 0.25 + slope * j - slope * (i + seqlen_kv - seqlen_q) + bias where j <= i + seqlen_kv - seqlen_q else -inf
stage  x[b, h, i, j] = tanh(s / 5.0) * 5.0
stage  m[b, h, i] over j = max(m, max(j: s)) from -inf
stage  rescale[b, h, i] over j = exp(m.before - m) where m.before > -inf else 0.0
stage  p[b, h, i, j] = exp(s - m) where s > -inf else 0.0
stage  l[b, h, i] over j = l * rescale + sum(j: p) from 0.0
stage  acc[b, h, i, e] over j = acc * rescale + sum(j: bf16(p) * V) from 0.0
stage  l_row[b, h, i] = l
stage  o[b, h, i, e] = acc / l_row where l_row > 0.0 else 0.0
stage  lse[b, h, i] = m + log(l_row) where l_row > 0.0 else -inf
)";

/// A formula that stands beside that of a stage.
struct Beside {
    Program program;
    int declared = -1;
    int becomes = -1;
};

Beside beside(std::string_view stage, std::string_view formula) {
    std::string text(attention);
    const std::size_t begin = text.find(fmt::format("stage  {}[", stage));
    const std::size_t end = text.find('\n', begin);
    const std::string declared = text.substr(begin, end - begin);
    const std::size_t after_name = declared.find('[');
    const bool goes_on = declared.find(" over j") != std::string::npos;
    text.insert(end, fmt::format("\nstage  other{} = {}{}",
                                 declared.substr(after_name, declared.find(" = ") - after_name), formula,
                                 goes_on ? " from 0.0" : ""));
    Program program = parse_program(text + "output o\n");
    const int declared_value = program.array(program.array_named(stage)).value;
    const int becomes = program.array(program.array_named("other")).value;
    return {std::move(program), declared_value, becomes};
}

/// What is named by a formula that stands beside that of `stage`.
std::string named(std::string_view stage, std::string_view formula) {
    const Beside both = beside(stage, formula);
    Problem problem;
    problem.sm_scale = 0.25F;
    problem.head_dim = 16;
    problem.block_n = 16;
    problem.mask = Mask::causal;
    problem.logits_soft_cap = 5;
    const OtherFormula other{stage, both.declared, both.becomes};
    return std::string(name_of_formula(both.program, problem, 1, other));
}

struct NamedFormula {
    const char* stage;
    const char* formula;
    const char* name;  ///< empty: it has none
};

constexpr const char* causal = " where j <= i + seqlen_kv - seqlen_q else -inf";
constexpr const char* alibi = " + slope * j - slope * (i + seqlen_kv - seqlen_q)";

TEST(FormulaNames, OfStatesAndOutputs) {
    const NamedFormula rows[] = {
        {"k", "K", "descale_missing"},
        {"k", "K * descale_k * descale_k", "descale_twice"},
        {"k", "K[b, h % group, j, d] * descale_k", "kv_head_modulo"},
        {"k", "(0.0 where j == seqlen_kv - 1 else K) * descale_k", "rows_zeroed"},
        {"k", "(0.0 where not (j < seqlen_kv - 1 and j % block_n < block_n - 1) else K) * descale_k",
         "rows_zeroed"},
        {"k", "(0.0 where j == 1 else K) * descale_k", "rows_not_loaded"},
        {"k", "K[b, h / group, j - block_n, d] * descale_k", "other_kv_tile"},
        {"k", "K[b, h / group, j % block_n, d] * descale_k", "other_kv_tile"},
        {"k", "K[b, h / group, j % 3, d] * descale_k", "operand_addresses"},
        {"k", "K[b, h / group, j ^ 5, d] * descale_k", "operand_addresses"},
        {"m", "max(m.before, max(j: s) * 1.4426950408889634)", "m_in_other_base"},
        {"m", "max(j: s)", "m_not_carried"},
        {"m", "max(m.before, max(j: s where j % 4 < 2 else -inf))", "m_of_part_of_row"},
        {"m", "max(m.before, max(j: s where j % 4 < 2 else 7.0))", ""},
        {"p", "exp2(s - m) where s > -inf else 0.0", "exp_base"},
        {"p", "exp(bf16(s) - m) where s > -inf else 0.0", "exponent_rounded"},
        {"p", "bf16(exp(s - m)) where s > -inf else 0.0", "undeclared_cast"},
        {"p", "(bf16(exp(s - m)) where i % 2 == 1 else exp(s - m)) where s > -inf else 0.0", ""},
        {"p", "exp(s - m) & 0xffff0000 where s > -inf else 0.0", "cast_truncated"},
        {"p", "exp(s - m) & 0x7fffffff where s > -inf else 0.0", ""},
        {"p", "exp(s - m.before) where s > -inf else 0.0", "p_of_old_max"},
        {"p", "exp(s - m[b, h, i / 4 * 4]) where s > -inf else 0.0", ""},
        {"p", "exp(s - m)", "inf_minus_inf"},
        {"l", "l.before + sum(j: p)", "l_not_rescaled"},
        {"l", "l.before * rescale * rescale + sum(j: p)", "l_rescaled_twice"},
        {"l", "l.before * rescale + sum(j: p * 4.0)", "l_counted_n_times"},
        {"l", "l.before * rescale + sum(j: bf16(p))", "l_of_cast_p"},
        {"l", "l.before * rescale + sum(j: max(p, 0.125))", ""},
        {"acc", "acc.before + sum(j: bf16(p) * V)", "acc_not_rescaled"},
        {"acc", "acc.before * rescale + sum(j: p * V)", "uncast_p_multiplied"},
        {"acc", "acc.before * rescale + f16(sum(j: bf16(p) * V))", "half_accumulator"},
        {"acc", "acc.before * rescale + sum(j: bf16(p) * f16(V))", "operand_precision"},
        {"l_row", "l + 0.001", "epsilon_in_denominator"},
        {"l_row", "l * 4.0", "l_counted_n_times"},
        {"o", "acc where l_row > 0.0 else 0.0", "not_normalised"},
        {"o", "acc / l_row / l_row where l_row > 0.0 else 0.0", "double_normalised"},
        {"o", "acc / (l_row + 0.001) where l_row > 0.0 else 0.0", "epsilon_in_denominator"},
        {"o", "acc / l_row + 0.001 where l_row > 0.0 else 0.0", ""},
        {"o", "acc / max(l_row, 12.0) where l_row > 0.0 else 0.0", ""},
        {"p", "max(exp(s - m) where s > -inf else 0.0, 0.0067)", "exp_clamped"},
        {"p", "exp(max(s - m, -5.0))", "exp_clamped"},
        {"p", "exp(max(s - m, -5.0)) where s > -inf else 0.0", "exp_clamped"},
        {"p",
         "0.0067 where (exp(s - m) where s > -inf else 0.0) < 0.0068 else exp(s - m) where s > -inf else 0.0",
         "exp_clamped"},
        {"o", "bf16(acc / l_row) where l_row > 0.0 else 0.0", "o_precision"},
        {"o", "bf16(acc) / l_row where l_row > 0.0 else 0.0", ""},
        {"l", "l.before * rescale + sum(j: p) + sum(j: p) + sum(j: p)", "l_counted_n_times"},
        {"l", "l.before * rescale + sum(j: p) + sum(j: s)", ""},
        {"o", "acc / l_row", "zero_row_convention"},
        {"lse", "(m + log(l_row)) * 1.4426950408889634 where l_row > 0.0 else -inf", "lse_in_other_base"},
        {"lse", "m * 1.4426950408889634 + log(l_row) where l_row > 0.0 else -inf", ""},
        {"lse", "m + log(l_row) * 1.4426950408889634 where l_row > 0.0 else -inf", ""},
        {"lse", "-(m + log(l_row)) where l_row > 0.0 else -inf", "lse_sign"},
        {"lse", "m where l_row > 0.0 else -inf", "lse_without_sum"},
        {"x", "s", "cap_missing"},
        {"x", "silu(s / 5.0) * 5.0", ""},
    };
    for (const NamedFormula& row : rows)
        EXPECT_EQ(named(row.stage, row.formula), row.name) << row.stage << " = " << row.formula;
}

TEST(FormulaNames, OfScores) {
    const auto of = [](const std::string& product,
                       const std::string& rest = std::string(alibi) + " + bias" + causal) {
        return named("s", product + rest);
    };
    EXPECT_EQ(of("sum(d: q * k)"), "scale_missing");
    EXPECT_EQ(of("sum(d: q * k) * 0.25 * 0.25"), "scale_twice");
    EXPECT_EQ(of("sum(d: q * k) / 0.25"), "scale_inverted");
    EXPECT_EQ(of("sum(d: q * k) * 0.5"), "score_constant");
    EXPECT_EQ(of("f16(sum(d: q * k)) * 0.25"), "half_scores");
    EXPECT_EQ(of("sum(d: bf16(q) * k) * 0.25"), "");
    EXPECT_EQ(of("sum(d: q * k where d < 8 else 0.0) * 0.25"), "head_dim_truncated");
    EXPECT_EQ(of("sum(d: q * k where d >= 8 else 0.0) * 0.25"), "k_slice_missing");
    EXPECT_EQ(of("sum(d: q * k where d % 8 >= 1 else 0.0) * 0.25"), "one_lane_only");
    EXPECT_EQ(of("sum(d: q * k where not (d % 8 >= 1 and j % 2 == 0) else 0.0) * 0.25"), "");
    const std::string product = "sum(d: q * k) * 0.25";
    EXPECT_EQ(of(product, std::string(alibi) + causal), "bias_missing");
    EXPECT_EQ(of(product, std::string(alibi) + " + bias * 0.25" + causal), "bias_before_scale");
    EXPECT_EQ(of(product, std::string(alibi) + " + bias * 3.0" + causal), "");
    EXPECT_EQ(of(product, std::string(" + bias") + causal), "alibi_missing");
    EXPECT_EQ(of(product, std::string(" - slope * j + slope * (i + seqlen_kv - seqlen_q) + bias") + causal),
              "alibi_sign");
    EXPECT_EQ(
        of(product, std::string(" + slope * j - slope * (i + seqlen_kv - 1 - seqlen_q) + bias") + causal),
        "alibi_offset");
    EXPECT_EQ(
        of(product, std::string(" + slope * j * j - slope * (i + seqlen_kv - seqlen_q) + bias") + causal),
        "");
}

TEST(FormulaNames, OfMasks) {
    const auto of = [](const std::string& where) {
        return named("s", std::string("sum(d: q * k) * 0.25") + alibi + " + bias" + where);
    };
    EXPECT_EQ(of(""), "causal_ignored");
    EXPECT_EQ(of(" where j <= i else -inf"), "causal_top_left");
    EXPECT_EQ(of(" where j < i + seqlen_kv - seqlen_q else -inf"), "diagonal_shifted");
    EXPECT_EQ(of(" where j <= i + seqlen_kv - seqlen_q + 2 else -inf"), "diagonal_shifted");
    EXPECT_EQ(of(" where j <= i + seqlen_kv - seqlen_q else -8.0"), "non_finite_replaced");
    EXPECT_EQ(of(" where j <= i + seqlen_kv - seqlen_q else -5.0"), "cap_after_mask");
    EXPECT_EQ(of(" where j >= i + seqlen_kv - seqlen_q else -inf"), "");
    EXPECT_EQ(of(" where j % block_n <= i + seqlen_kv - seqlen_q else -inf"), "mask_tile_local");
    EXPECT_EQ(of(" where j % 3 <= i + seqlen_kv - seqlen_q else -inf"), "");
    EXPECT_EQ(of(" where j <= i / 4 * 4 + seqlen_kv - seqlen_q else -inf"), "mask_row_of_group");
    EXPECT_EQ(of(" where j <= i * 2 + seqlen_kv - seqlen_q else -inf"), "");
}

/// Of a causal mask with a window, the comparison that is left out tells which of both.
TEST(FormulaNames, OfWindows) {
    constexpr std::string_view scores = R"(
axes   b: batch; i: n by block; j: n by block
input  x[b, i, j]; length[b]
stage  s[b, i, j] = x where j <= i and j <= i + 4 and j >= i - 8 and j < length else -inf
stage  other[b, i, j] = x where {} else -inf
output s
)";
    Problem problem;
    problem.mask = Mask::causal;
    problem.window_left = 8;
    problem.window_right = 4;
    const auto of = [&](const std::string& where) {
        const Program program = parse_program(fmt::format(scores, where));
        const OtherFormula other{"s", program.array(program.array_named("s")).value,
                                 program.array(program.array_named("other")).value};
        return std::string(name_of_formula(program, problem, 1, other));
    };
    EXPECT_EQ(of("j <= i + 4 and j >= i - 8 and j < length"), "causal_ignored");
    EXPECT_EQ(of("j <= i + 4 and j >= i - 8"), "causal_ignored");
    EXPECT_EQ(of("j <= i and j <= i + 4 and j < length"), "window_ignored");
    EXPECT_EQ(of("j <= i and j >= i - 8 and j < length"), "window_ignored");
    EXPECT_EQ(of("j <= i"), "window_ignored");
    EXPECT_EQ(of("j < length"), "causal_ignored");
    EXPECT_EQ(of("j <= i and j <= i + 4 and j >= i - 9 and j < length"), "window_shifted");
    EXPECT_EQ(of("j <= i and j <= i + 4 and j >= i - 8"), "");
}

/// What is left out of ds is the cap's derivative where there is a cap.
TEST(FormulaNames, OfGradients) {
    const Program program = parse_program(R"(
axes   i: n
input  p[i]; dp[i]; delta[i]; x[i]
stage  ds[i] = p * (dp - delta) * (1.0 - x * x)
stage  other[i] = p * (dp - delta)
output ds
)");
    const OtherFormula other{"ds", program.array(program.array_named("ds")).value,
                             program.array(program.array_named("other")).value};
    Problem problem;
    EXPECT_EQ(name_of_formula(program, problem, 1, other), "");
    problem.logits_soft_cap = 5;
    EXPECT_EQ(name_of_formula(program, problem, 1, other), "cap_derivative_missing");
}

/// A free number is no knowledge.
TEST(FormulaNames, OfWhichSomeAreKnown) {
    const Program program = parse_program(
        "axes i: n\ninput x[i]\nstage o[i] = x\nstage twice[i] = x * 2.5\nstage sign[i] = -x\noutput o");
    const auto is_known = [&](std::string_view stage, std::string_view as) {
        const OtherFormula other{as, program.array(program.array_named("o")).value,
                                 program.array(program.array_named(stage)).value};
        return is_known_formula(program, Problem(), 1, other);
    };
    EXPECT_FALSE(is_known("twice", "o"));
    EXPECT_TRUE(is_known("sign", "lse"));
}

struct ChangedFormula {
    const char* stage;
    const char* formula;
    ChangedSlot change;
};

const ChangedFormula changed_formulas[] = {
    {"l_row", "l[b, h, i ^ 4]", {FormulaSlot::index, "l", "l[b, h, i ^ 4]", "", false, false}},
    {"acc",
     "acc.before * rescale + sum(j: bf16(p) * V[b, h / group, j, e + 1])",
     {FormulaSlot::index, "V", "V[b, h / group, j, e + 1]", "", true, false}},
    {"acc", "acc.before * rescale + sum(j: p * V)", {FormulaSlot::type, "bf16(p)", "p", "", true, false}},
    {"acc",
     "acc.before * rescale + sum(j: bf16(p) * V) in fma_f16",
     {FormulaSlot::type, "sum(j: bf16(p) * V)", "sum(j: bf16(p) * V) in fma_f16", "", false, true}},
    {"acc",
     "(acc.before * rescale + sum(j: bf16(p) * V)) * 2.0",
     {FormulaSlot::factor, "", "2", "", false, true}},
    {"acc", "acc.before + sum(j: bf16(p) * V)", {FormulaSlot::factor, "rescale", "", "", false, false}},
    {"acc",
     "acc.before * rescale + sum(j: bf16(p) * V * 3.0)",
     {FormulaSlot::factor, "", "3", "", true, false}},
    {"l", "l.before * rescale + sum(j: p) + 0.5", {FormulaSlot::term, "", "0.5", "", false, true}},
    {"lse", "log(l_row) where l_row > 0.0 else -inf", {FormulaSlot::term, "m", "", "", false, false}},
    {"l",
     "l.before * rescale + sum(j: p where j < 3 else 0.0)",
     {FormulaSlot::range, "p", "0.0", "except where j < 3", true, false}},
    {"p", "exp(s - m)", {FormulaSlot::guard, "s > -inf", "", "", false, false}},
    {"p",
     "exp(s - m) where s > -9.0 else 0.0",
     {FormulaSlot::guard, "s > -inf", "s > -9.0", "", false, false}},
    {"m", "max(max(m.before, max(j: s)), -1.0)", {FormulaSlot::bound, "", "-1.0", "", false, true}},
};

TEST(FormulaChange, TellsWhatIsOtherwise) {
    for (const ChangedFormula& row : changed_formulas) {
        SCOPED_TRACE(fmt::format("{} = {}", row.stage, row.formula));
        const Beside both = beside(row.stage, row.formula);
        const std::vector<ChangedSlot> changes =
            changed_slots(both.program, both.declared, both.becomes, false);
        ASSERT_EQ(changes.size(), 1U) << said_of(changes);
        EXPECT_EQ(to_string(changes[0].slot), to_string(row.change.slot));
        EXPECT_EQ(changes[0].was, row.change.was);
        EXPECT_EQ(changes[0].becomes, row.change.becomes);
        EXPECT_EQ(changes[0].where, row.change.where);
        EXPECT_EQ(changes[0].is_in_sum, row.change.is_in_sum);
        EXPECT_EQ(changes[0].is_after_sum, row.change.is_after_sum);
    }
}

/// Of scores, the mask is a slot of its own, and so is what it puts there.
TEST(FormulaChange, TellsTheMaskFromItsValue) {
    const std::string score = "sum(d: q * k) * 0.25 + slope * j - slope * (i + seqlen_kv - seqlen_q) + bias";
    const std::string mask = " where j <= i + seqlen_kv - seqlen_q else ";
    const auto changes_with = [&](const std::string& formula) {
        const Beside both = beside("s", formula);
        return changed_slots(both.program, both.declared, both.becomes, false);
    };
    const std::vector<ChangedSlot> bare = changes_with(score);
    ASSERT_EQ(bare.size(), 1U);
    EXPECT_EQ(bare[0].slot, FormulaSlot::mask);
    EXPECT_EQ(bare[0].was, "j <= i + seqlen_kv - seqlen_q");
    const std::vector<ChangedSlot> moved =
        changes_with(score + " where j <= i + seqlen_kv - seqlen_q + 1 else -inf");
    ASSERT_EQ(moved.size(), 1U);
    EXPECT_EQ(moved[0].slot, FormulaSlot::mask);
    EXPECT_EQ(moved[0].was, "j <= i + seqlen_kv - seqlen_q");
    EXPECT_EQ(moved[0].becomes, "j <= i + seqlen_kv - seqlen_q + 1");
    const std::vector<ChangedSlot> shown = changes_with(score + mask + "-10000.0");
    ASSERT_EQ(shown.size(), 1U);
    EXPECT_EQ(shown[0].slot, FormulaSlot::masked);
    EXPECT_EQ(shown[0].was, "-inf");
    EXPECT_EQ(shown[0].becomes, "-10000.0");
}

/// What changes from one formula of a, b, c and d to another.
std::vector<ChangedSlot> changed(const std::string& declared, const std::string& becomes) {
    const Program program =
        parse_program("axes i: n\ninput a[i]; b[i]; c[i]; d[i]\nstage x[i] = " + declared +
                      "\nstage y[i] = " + becomes + "\noutput y");
    return changed_slots(program, program.array(program.array_named("x")).value,
                         program.array(program.array_named("y")).value, false);
}

TEST(FormulaChange, TermOfAFactorIsATerm) {
    const std::vector<ChangedSlot> changes =
        changed("a - b * (c / (a + d) + b * d)", "a - b * (c / (a + d))");
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].slot, FormulaSlot::term);
    EXPECT_EQ(changes[0].was, "b * d");
    EXPECT_EQ(changes[0].becomes, "");
}

TEST(FormulaChange, SumsStandInParenthesesAmongFactors) {
    const std::vector<ChangedSlot> changes = changed("a * b", "a * (c / (b + d))");
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].slot, FormulaSlot::factor);
    EXPECT_EQ(changes[0].was, "b");
    EXPECT_EQ(changes[0].becomes, "c / (b + d)");
}

}  // namespace
}  // namespace tilescope::test
