// Kernels that are no attention, declared as programs: healthy ones match, and mistakes are found and described.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "dump/schema/error.h"
#include "oracle/program/find_mistakes.h"
#include "oracle/program/functions.h"
#include "oracle/program/judge_program.h"
#include "tests/oracle/attention_inputs.h"
#include "tests/oracle/draws.h"

namespace tilescope::test {
namespace {

/// Arrays of float32, by name.
struct Arrays {
    std::map<std::string, std::vector<float>> values;
    std::map<std::string, ProgramInput> inputs;

    std::vector<float>& add(const std::string& name, std::vector<std::int64_t> shape) {
        std::int64_t size = 1;
        for (const std::int64_t extent : shape) size *= extent;
        std::vector<float>& array = values[name];
        array.assign(std::size_t(size), 0);
        inputs[name] = {Dtype::f32, std::move(shape), std::as_bytes(std::span<const float>(array))};
        return array;
    }
};

void fill(std::vector<float>& array, Dtype dtype, Random& random, double mean = 0) {
    for (float& value : array) value = rounded(dtype, float(normal(random) + mean));
}

/// A GEMM of narrow operands with scales of blocks, a bias and an activation, as a kernel computes it.
struct Gemm {
    std::int64_t rows = 24;
    std::int64_t cols = 40;
    std::int64_t depth = 72;
    std::int64_t block = 16;  ///< of depth, which a number of a is scaled with, and of both of w
    // What a mistake changes.
    std::function<std::int64_t(std::int64_t n, std::int64_t k)> scale_row = [](std::int64_t n, std::int64_t) {
        return n;
    };
    std::function<std::int64_t(std::int64_t m)> scale_col = [this](std::int64_t m) { return m / block; };
    std::function<std::int64_t(std::int64_t k)> scale_depth = [this](std::int64_t k) { return k / block; };
    std::function<std::int64_t(std::int64_t n)> row_of_a = [](std::int64_t n) { return n; };
    std::function<std::int64_t(std::int64_t m, std::int64_t k)> col_of_w = [](std::int64_t, std::int64_t k) {
        return k;
    };
    std::function<float(std::int64_t n, std::int64_t k, float a)> staged_a = [](std::int64_t, std::int64_t,
                                                                                float a) { return a; };
    std::function<std::array<std::int64_t, 2>(std::int64_t n, std::int64_t m)> stored_at =
        [](std::int64_t n, std::int64_t m) {
            return std::array{n, m};
        };
    std::function<float(std::int64_t m, float bias)> bias_of = [](std::int64_t, float bias) { return bias; };
    std::function<float(float x)> activation = [](float x) { return x / (1 + std::exp(-x)); };
    std::function<float(float acc, std::int64_t block)> carried = [](float acc, std::int64_t) { return acc; };
    std::int64_t used_depth = 72;
    bool rounds_acc = false;

    static constexpr const char* text = R"(
        axes   n: rows by 8; m: cols by 8; k: depth by 16
        input  a[n, k]: e4m3 scale sa[n, k / 16]; w[m, k]: e4m3 scale sw[m / 16, k / 16]
        input  bias[m]
        stage  acc[n, m] over k = acc + sum(k: a * w) * sa * sw
        stage  y[n, m]: bf16 = silu(acc + bias)
        output y)";

    Arrays inputs(std::uint64_t seed) const {
        Random random(seed);
        Arrays arrays;
        fill(arrays.add("a", {rows, depth}), Dtype::e4m3, random);
        fill(arrays.add("w", {cols, depth}), Dtype::e4m3, random);
        const std::int64_t blocks = (depth + block - 1) / block;
        for (float& scale : arrays.add("sa", {rows, blocks}))
            scale = float(0.02 + 0.1 * std::abs(normal(random)));
        for (float& scale : arrays.add("sw", {(cols + block - 1) / block, blocks}))
            scale = float(0.5 + std::abs(normal(random)));
        fill(arrays.add("bias", {cols}), Dtype::f32, random);
        return arrays;
    }

    /// acc after each block, and y.
    Arrays run(Arrays& in) const {
        const std::int64_t blocks = (depth + block - 1) / block;
        Arrays out;
        std::vector<float>& all = out.add("acc", {blocks, rows, cols});
        std::vector<float>& y = out.add("y", {rows, cols});
        for (std::int64_t n = 0; n < rows; ++n) {
            for (std::int64_t m = 0; m < cols; ++m) {
                float acc = 0;
                for (std::int64_t b = 0; b < blocks; ++b) {
                    float sum = 0;
                    for (std::int64_t k = b * block; k < std::min(depth, (b + 1) * block); ++k) {
                        if (k < used_depth)
                            sum =
                                std::fma(staged_a(n, k, in.values["a"][std::size_t(row_of_a(n) * depth + k)]),
                                         in.values["w"][std::size_t(m * depth + col_of_w(m, k))], sum);
                    }
                    const std::int64_t k = b * block;
                    const float scaled =
                        sum * in.values["sa"][std::size_t(scale_row(n, k) * blocks + scale_depth(k))] *
                        in.values["sw"][std::size_t(scale_col(m) * blocks + k / block)];
                    acc = carried(acc, b) + scaled;
                    if (rounds_acc) acc = rounded(Dtype::bf16, acc);
                    all[std::size_t((b * rows + n) * cols + m)] = acc;
                }
                const auto [row, col] = stored_at(n, m);
                y[std::size_t(row * cols + col)] =
                    rounded(Dtype::bf16, activation(acc + bias_of(m, in.values["bias"][std::size_t(m)])));
            }
        }
        return out;
    }
};

struct Found {
    ProgramReport report;
    std::vector<ProgramMistake> mistakes;
    std::optional<ProgramMistake> besides;
    std::string stage;
};

Found judged(const char* text, const Arrays& inputs, const Arrays& outputs,
             const std::vector<std::string>& stored) {
    const Program program = parse_program(text);
    const ProgramCall call = bind_program(program, inputs.inputs);
    std::map<std::string, ProgramInput> given;
    for (const std::string& name : stored) given[name] = outputs.inputs.at(name);
    const StoredArrays tiles(call, given);
    Found found;
    found.report = judge_program(call, tiles);
    if (found.report.first_wrong >= 0) found.stage = program.array(found.report.first_wrong).name;
    FoundMistakes mistakes = find_mistakes(call, tiles, found.report);
    found.mistakes = std::move(mistakes.mistakes);
    found.besides = std::move(mistakes.besides);
    return found;
}

TEST(DeclaredProgram, HealthyGemmMatches) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Gemm gemm;
        Arrays in = gemm.inputs(seed);
        const Arrays out = gemm.run(in);
        EXPECT_EQ(judged(Gemm::text, in, out, {"acc", "y"}).stage, "") << seed;
        EXPECT_EQ(judged(Gemm::text, in, out, {"y"}).stage, "") << seed;
    }
}

/// A formula of random parts, over axes i and j.
std::string random_formula(Random& random, int depth, const std::vector<std::string>& names) {
    const auto part = [&] { return random_formula(random, depth - 1, names); };
    if (depth == 0)
        return pick(random, {0, 1}) == 0 ? names[random() % names.size()]
                                         : pick<const char*>(random, {"1.5", "0.0", "n", "i", "j"});
    switch (random() % 14) {
        case 0:
            return "(" + part() + " + " + part() + ")";
        case 1:
            return "(" + part() + " - " + part() + ")";
        case 2:
            return part() + " * " + part();
        case 3:
            return part() + " / (1.0 + " + part() + ")";
        case 4:
            return "sum(j: " + part() + ")";
        case 5:
            return "max(j: " + part() + ")";
        case 6:
            return "exp(" + part() + " - " + part() + ")";
        case 7:
            return pick<const char*>(random, {"bf16(", "f16(", "e4m3(", "silu(", "log(", "rsqrt(", "abs("}) +
                   part() + ")";
        case 8:
            return "(" + part() + " where " + part() + pick<const char*>(random, {" < ", " >= ", " == "}) +
                   part() + " else " + part() + ")";
        case 9:
            return "max(" + part() + ", " + part() + ")";
        case 11:
            return "between(" + part() + ", " + part() + ")";
        case 12:
            return "(" + part() + pick<const char*>(random, {" ^ 0x00400000)", " & 0xffff0000)", " & 0x0)"});
        case 10:
            return "sum(i, j: " + part() + " * " + part() + ")";
        default:
            return "-" + part();
    }
}

TEST(DeclaredProgram, NoProgramCrashesWhoJudgesIt) {
    int judged_programs = 0;
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
        Random random(seed);
        std::vector<std::string> names{"a", "a[i, 0]", "a[i - 1, j]", "b", "b[j / 2]", "c", "a[j, i]"};
        std::string text = "axes i: n by 2; j: m by 3\ninput a[i, j]; b[j]; c[i / 2]: f16\n";
        const int stages = 1 + int(random() % 3);
        for (int i = 0; i < stages; ++i) {
            const std::string name = "s" + std::to_string(i);
            const std::string indices = pick<const char*>(
                random, {"[i, j]", "[i]", "[j, i]", "[i] over j", "[i] over j backwards", ""});
            std::vector<std::string> here = names;
            const bool is_state = indices.find("over") != std::string::npos;
            if (is_state) here.push_back(name);
            text += "stage " + name + indices + pick<const char*>(random, {": f32", ": bf16", ""}) + " = " +
                    random_formula(random, 3, here) + "\n";
            names.push_back(name);
            if (is_state) names.push_back(name + ".before");
            if (is_state) names.push_back(name + "[0].after(i * 2 - 1)");
        }
        text += "output s0";
        try {
            const Program program = parse_program(text);
            Arrays in;
            const std::int64_t n = between(random, 1, 5);
            const std::int64_t m = between(random, 1, 7);
            fill(in.add("a", {n, m}), Dtype::f32, random);
            fill(in.add("b", {m}), Dtype::f32, random);
            fill(in.add("c", {(n + 1) / 2}), Dtype::f16, random);
            const ProgramCall call = bind_program(program, in.inputs);
            Arrays out;
            for (const ProgramArray& array : program.arrays) {
                if (!array.is_stage || one_in(random, 3)) continue;
                std::vector<std::int64_t> shape = shape_of(call, array);
                if (array.over >= 0 && one_in(random, 2))
                    shape.insert(shape.begin(), call.blocks_of(array.over));
                fill(out.add(array.name, shape), Dtype::f32, random);
            }
            const StoredArrays stored(call, out.inputs);
            const ProgramReport report = judge_program(call, stored);
            find_mistakes(call, stored, report);
            EXPECT_FALSE(report_text(call, report).empty());
            ++judged_programs;
        } catch (const Error&) {
            // A formula that takes an index that it does not have, or nothing that can be judged.
        }
    }
    EXPECT_GT(judged_programs, 50);
}

struct GemmMistake {
    const char* what;
    std::function<void(Gemm&)> make;
    const char* stage;
    const char* becomes;
    const char* where = "";
    /// What is rounded to bfloat16 behind it hides some, and leaves too few sums for others.
    bool is_told_by_outputs = true;
};

const GemmMistake gemm_mistakes[] = {
    {"no bias", [](Gemm& g) { g.bias_of = [](std::int64_t, float) { return 0.0F; }; }, "y", "silu(acc)"},
    {"bias subtracted", [](Gemm& g) { g.bias_of = [](std::int64_t, float bias) { return -bias; }; }, "y",
     "silu(acc - bias)"},
    {"gelu",
     [](Gemm& g) { g.activation = [](float x) { return 0.5F * x * (1 + std::erf(x * 0.70710678F)); }; }, "y",
     "gelu(acc + bias)"},
    {"no activation", [](Gemm& g) { g.activation = [](float x) { return x; }; }, "y", "acc + bias"},
    {"not carried", [](Gemm& g) { g.carried = [](float, std::int64_t) { return 0.0F; }; }, "acc",
     "sum(k: a * w) * sa * sw"},
    {"too large by 2 %",
     [](Gemm& g) { g.activation = [](float x) { return 1.02F * x / (1 + std::exp(-x)); }; }, "y",
     "silu(acc + bias) * 1.02"},
    {"kept in bfloat16", [](Gemm& g) { g.rounds_acc = true; }, "acc", "bf16(acc + sum(k: a * w) * sa * sw)",
     "", false},
    {"scale of the block before",
     [](Gemm& g) { g.scale_depth = [](std::int64_t k) { return std::max<std::int64_t>(k / 16 - 1, 0); }; },
     "acc", "acc + sum(k: a * w) * sa[n, max(k / 16 - 1, 0)] * sw"},
    {"scale of the first row",
     [](Gemm& g) { g.scale_row = [](std::int64_t, std::int64_t) { return std::int64_t(0); }; }, "acc",
     "acc + sum(k: a * w) * sa[0, k / 16] * sw"},
    {"scales of columns not in blocks",
     [](Gemm& g) { g.scale_col = [](std::int64_t m) { return m % 16 % 3; }; }, "acc", ""},
    {"the tail of depth left out", [](Gemm& g) { g.used_depth = 64; }, "acc",
     "acc + sum(k: a * w where k < depth / 16 * 16 else 0.0) * sa * sw"},
    {"bias missing in some columns",
     [](Gemm& g) { g.bias_of = [](std::int64_t m, float bias) { return m >= 32 ? 0.0F : bias; }; }, "y",
     "silu(acc)", "m / 8 >= cols / 8 - 1"},
    {"rows in pairs", [](Gemm& g) { g.row_of_a = [](std::int64_t n) { return n / 2 * 2; }; }, "acc",
     "acc + sum(k: a[n / 2 * 2, k] * w) * sa * sw"},
    {"swizzled", [](Gemm& g) { g.col_of_w = [](std::int64_t, std::int64_t k) { return k ^ 4; }; }, "acc",
     "acc + sum(k: a * w[m, k ^ 4]) * sa * sw"},
    {"swizzled in one block of columns",
     [](Gemm& g) { g.col_of_w = [](std::int64_t m, std::int64_t k) { return m / 8 == 2 ? k ^ 4 : k; }; },
     "acc", "acc + sum(k: a * w[m, k ^ 4]) * sa * sw", "m / 8 == 2"},
    {"some terms twice",
     [](Gemm& g) {
         g.staged_a = [](std::int64_t, std::int64_t k, float a) { return k % 8 == 5 ? 2 * a : a; };
     },
     "acc", "acc + sum(k: a * w * 2.0 where k % 8 == 5 else a * w) * sa * sw"},
    {"flushed below a threshold",
     [](Gemm& g) {
         g.staged_a = [](std::int64_t, std::int64_t, float a) { return std::abs(a) < 0.5F ? 0.0F : a; };
     },
     "acc", "acc + sum(k: (0.0 where abs(a) < 0.5 else a) * w) * sa * sw", "", false},
    {"the first terms left out, by row",
     [](Gemm& g) {
         g.staged_a = [](std::int64_t n, std::int64_t k, float a) { return k % 16 < n % 8 ? 0.0F : a; };
     },
     "acc", "acc + sum(k: a * w where k % 16 >= n % 8 else 0.0) * sa * sw", "", false},
    {"a bit of one operand inverted",
     [](Gemm& g) {
         g.staged_a = [](std::int64_t, std::int64_t, float a) {
             return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) ^ 0x00400000);
         };
     },
     "acc", "acc + sum(k: (a ^ 0x00400000) * w) * sa * sw", "", false},
    {"negative where a bit is set",
     [](Gemm& g) {
         g.activation = [](float x) {
             const float y = x / (1 + std::exp(-x));
             return std::bit_cast<std::uint32_t>(y) & 0x00400000 ? -y : y;
         };
     },
     "y", "-silu(acc + bias) where silu(acc + bias) & 0x00400000 != 0.0 else silu(acc + bias)", "", false},
    {"rounded to sixteenths",
     [](Gemm& g) { g.activation = [](float x) { return std::nearbyint(16 * x / (1 + std::exp(-x))) / 16; }; },
     "y", "round(silu(acc + bias) * 16.0) / 16.0"},
    {"stored transposed in tiles",
     [](Gemm& g) {
         g.stored_at = [](std::int64_t n, std::int64_t m) {
             return std::array{n / 8 * 8 + m % 8, m / 8 * 8 + n % 8};
         };
     },
     "y", "silu(acc[n / 8 * 8 + m % 8, m / 8 * 8 + n % 8] + bias[m / 8 * 8 + n % 8])"},
};

TEST(DeclaredProgram, MistakesOfAGemmAreDescribed) {
    for (const GemmMistake& row : gemm_mistakes) {
        for (const bool outputs_alone : {false, true}) {
            Gemm gemm;
            row.make(gemm);
            Arrays in = gemm.inputs(7);
            const Arrays out = gemm.run(in);
            const Found found =
                judged(Gemm::text, in, out,
                       outputs_alone ? std::vector<std::string>{"y"} : std::vector<std::string>{"acc", "y"});
            EXPECT_EQ(found.stage, outputs_alone ? "y" : row.stage) << row.what;
            if (outputs_alone && !row.is_told_by_outputs) continue;
            if (*row.becomes == '\0') {
                EXPECT_TRUE(found.mistakes.empty()) << row.what << ": " << found.mistakes.front().becomes;
                continue;
            }
            ASSERT_FALSE(found.mistakes.empty()) << row.what;
            const bool is_told = std::ranges::any_of(found.mistakes, [&](const ProgramMistake& mistake) {
                return mistake.becomes == row.becomes && mistake.where == row.where;
            });
            EXPECT_TRUE(is_told) << row.what << ": " << found.mistakes.front().becomes << " where "
                                 << found.mistakes.front().where;
        }
    }
}

/// A softmax's row maximum and row sum, over the columns that it takes, so many times each.
struct RowSums {
    std::function<bool(std::int64_t r, std::int64_t c)> takes = [](std::int64_t, std::int64_t) {
        return true;
    };
    std::function<float(std::int64_t c)> times = [](std::int64_t) { return 1.0F; };
    std::function<bool(std::int64_t r)> writes_l = [](std::int64_t) { return true; };

    static constexpr std::int64_t rows = 224;
    static constexpr std::int64_t cols = 96;
    static constexpr const char* text = R"(
        axes   r: rows by 16; c: cols by 32
        input  x[r, c]
        stage  m[r] = max(c: x)
        stage  l[r] = sum(c: exp(x - m))
        output m, l)";

    Arrays run(const std::vector<float>& x) const {
        Arrays out;
        std::vector<float>& m = out.add("m", {rows});
        std::vector<float>& l = out.add("l", {rows});
        for (std::int64_t r = 0; r < rows; ++r) {
            float top = -INFINITY;
            for (std::int64_t c = 0; c < cols; ++c)
                if (takes(r, c)) top = std::max(top, x[std::size_t(r * cols + c)]);
            float sum = 0;
            for (std::int64_t c = 0; c < cols; ++c)
                sum += times(c) * std::exp(x[std::size_t(r * cols + c)] - top);
            m[std::size_t(r)] = top;
            l[std::size_t(r)] = writes_l(r) ? sum : NAN;
        }
        return out;
    }
};

struct RowMistake {
    const char* what;
    std::function<void(RowSums&)> make;
    const char* stage;
    const char* becomes;
    const char* none = "";  ///< where there is no number besides
};

const RowMistake row_mistakes[] = {
    {"the maximum of a lane's columns",
     [](RowSums& s) { s.takes = [](std::int64_t, std::int64_t c) { return c % 32 == 31; }; }, "m",
     "max(c: x where c % 32 == 31 else -inf)"},
    {"the maximum without a tile, in the last rows",
     [](RowSums& s) { s.takes = [](std::int64_t r, std::int64_t c) { return r < 192 || c < 64; }; }, "m",
     "max(c: x where c < cols - 32 else -inf) where r / 16 >= rows / 16 - 2"},
    {"a lane's columns, 32 times",
     [](RowSums& s) { s.times = [](std::int64_t c) { return c % 32 == 31 ? 32.0F : 0; }; }, "l",
     "sum(c: exp(x - m) * 32.0 where c % 32 == 31 else 0.0)"},
    {"a tile twice, and rows that nobody writes",
     [](RowSums& s) {
         s.times = [](std::int64_t c) { return c / 32 == 1 ? 2.0F : 1.0F; };
         s.writes_l = [](std::int64_t r) { return r % 16 < 12; };
     },
     "l", "sum(c: exp(x - m) * 2.0 where c / 32 == 1 else exp(x - m))", "r % 16 >= 12"},
};

/// Every number that a value may be has bits within the bound of those of the value.
TEST(DeclaredProgram, BitsAreBoundedByThoseOfEveryNumberInReach) {
    Random random(5);
    std::int64_t bounded = 0;
    std::int64_t cleared = 0;  ///< one bit, of numbers that are not exact
    for (int n = 0; n < 4000; ++n) {
        const bool is_masked = one_in(random, 2);
        const std::uint32_t bit = std::uint32_t(1) << (random() % 32);
        const bool is_cleared = is_masked && one_in(random, 2);
        const std::uint32_t mask = is_cleared                       ? ~bit
                                   : is_masked && one_in(random, 2) ? 0xffffffffU << (random() % 30)
                                                                    : bit;
        const double x = std::ldexp(double(random() % 4096) - 2048, int(random() % 12) - 6);
        const double error = std::ldexp(double(random() % 16), -int(random() % 24));
        const ProgramOp op = is_masked ? ProgramOp::masked : ProgramOp::exclusive;
        const Uncertain bits = with_other_bits(op, {x, error}, mask);
        bounded += std::isfinite(bits.error) ? 1 : 0;
        cleared += is_cleared && error > 0 && std::isfinite(bits.error) ? 1 : 0;
        for (int k = 0; k <= 32; ++k) {
            const float near = float(x + error * (k - 16) / 16);
            const std::uint32_t own = std::bit_cast<std::uint32_t>(near);
            const double got = double(std::bit_cast<float>(is_masked ? own & mask : own ^ mask));
            // Of what is open nothing is expected.
            const bool is_open = std::isinf(bits.error);
            ASSERT_TRUE(is_open || got == bits.value || std::isnan(got) ||
                        std::abs(got - bits.value) <= bits.error)
                << x << " +- " << error << (is_masked ? " & " : " ^ ") << mask;
        }
    }
    EXPECT_GT(bounded, 1000);
    EXPECT_GT(cleared, 100);
    const Uncertain same = with_other_bits(ProgramOp::exclusive, {1, 0.5}, 0);
    EXPECT_EQ(same.error, 0.5);
}

/// A mistake is replayed at the places at which its condition holds.
TEST(DeclaredProgram, ConditionsOfPlacesHaveAValue) {
    const Program program = parse_program(
        "axes i: n\ninput x[i]\nstage y[i] = x where i % 4 >= 2 and not i == 3 or i == 0 else 0.0\noutput y");
    const std::vector<float> x(8, 1);
    const std::map<std::string, ProgramInput> inputs{
        {"x", {Dtype::f32, {8}, std::as_bytes(std::span<const float>(x))}}};
    const ProgramCall call = bind_program(program, inputs);
    const int condition = program.node(program.array(program.array_named("y")).value).of[1];
    std::vector<std::int64_t> holds;
    for (std::int64_t i = 0; i < 8; ++i) holds.push_back(whole_at(call, condition, {i}).value_or(-1));
    EXPECT_EQ(holds, (std::vector<std::int64_t>{1, 0, 1, 0, 0, 0, 1, 1}));
}

TEST(DeclaredProgram, MaximaAndSumsOfPartsAreDescribed) {
    for (const RowMistake& row : row_mistakes) {
        RowSums sums;
        row.make(sums);
        Random random(11);
        Arrays in;
        fill(in.add("x", {RowSums::rows, RowSums::cols}), Dtype::f32, random);
        const Arrays out = sums.run(in.values["x"]);
        const Found found = judged(RowSums::text, in, out, {"m", "l"});
        EXPECT_EQ(found.stage, row.stage) << row.what;
        std::string told;
        for (const ProgramMistake& mistake : found.mistakes)
            told += mistake.becomes + (mistake.where.empty() ? "" : " where " + mistake.where) + "\n";
        EXPECT_NE(told.find(row.becomes), std::string::npos) << row.what << ": " << told;
        const std::optional<ProgramMistake>& besides = found.besides;
        EXPECT_EQ(besides ? besides->where : "", row.none) << row.what;
        // Rows that are no numbers are not explained by what explains the others.
        ASSERT_FALSE(found.mistakes.empty()) << row.what;
        const double explained = found.mistakes.front().explained;
        EXPECT_EQ(explained < 0.8, besides.has_value()) << row.what << ": " << explained;
    }
}

TEST(DeclaredProgram, ExchangedOperandsAreDescribed) {
    constexpr std::int64_t rows = 20;
    constexpr std::int64_t cols = 24;
    Random random(3);
    Arrays in;
    Arrays out;
    const std::vector<float>& x = in.add("x", {rows, 2 * cols});
    fill(in.values["x"], Dtype::f16, random);
    std::vector<float>& y = out.add("y", {rows, cols});
    for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t j = 0; j < cols; ++j) {
            // The second half is the gate here.
            const float gate = x[std::size_t(t * 2 * cols + cols + j)];
            y[std::size_t(t * cols + j)] = gate / (1 + std::exp(-gate)) * x[std::size_t(t * 2 * cols + j)];
        }
    }
    const Found found = judged(R"(
        axes   t: tokens; j: cols / 2; c: cols
        input  x[t, c]: f16
        stage  y[t, j] = silu(x[t, j]) * x[t, j + cols / 2]
        output y)",
                               in, out, {"y"});
    EXPECT_EQ(found.stage, "y");
    ASSERT_FALSE(found.mistakes.empty());
    EXPECT_EQ(found.mistakes.front().becomes, "silu(x[t, j + cols / 2]) * x[t, j]");
}

}  // namespace
}  // namespace tilescope::test
