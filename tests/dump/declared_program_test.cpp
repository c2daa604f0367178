// The text of a program: what it declares, and what is wrong where.

#include "dump/schema/program.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "dump/schema/error.h"
#include "dump/schema/program_scopes.h"

namespace tilescope::test {
namespace {

constexpr const char* gemm = R"(
axes   b: batch; n: rows by 128; m: cols by 128; k: depth by 64
input  a[b, n, k]: e4m3 scale sa[b, n, k / 128]; w[m, k]: e4m3 scale sw[m / 128, k / 128]
input  bias[m]   # one for each column
stage  acc[b, n, m] over k: f32 = acc + sum(k: a * w) in tensor_core_fp8 * sa * sw
stage  y[b, n, m]: bf16 = silu(acc + bias)
output y
)";

/// What is said of a text that is none, with where it is.
std::string said_of_text(const std::string& text) {
    try {
        parse_program(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Program, NamesMayBeWordsThatOnlyStandBehindSomething) {
    const Program program = parse_program(
        "axes i: n\ninput scale; in[i]: f16 scale of_in[i]\nstage y[i] = sum(i: in * of_in * scale) in "
        "fma_f32\noutput y");
    ASSERT_EQ(program.arrays.size(), 4);
    EXPECT_EQ(program.array(0).name, "scale");
    EXPECT_EQ(program_text(program, program.array(3).value), "sum(i: in * of_in * scale)");
}

TEST(Program, SaysWhatToDoInstead) {
    const std::string stage = "\nstage y over i = y + sum(i: x)\n";
    EXPECT_NE(said_of_text("axes i: n by 8\ninput x[i]" + stage + "stage z[i] = y.last[i]\noutput z")
                  .find("y[...].last"),
              std::string::npos);
}

TEST(Program, DeclaresAxesInputsAndStages) {
    const Program program = parse_program(gemm);
    ASSERT_EQ(program.axes.size(), 4);
    EXPECT_EQ(program.axes[3].name, "k");
    EXPECT_EQ(program.node(program.axes[3].block).number, 64);
    EXPECT_EQ(program.sizes, (std::vector<std::string>{"batch", "rows", "cols", "depth"}));
    ASSERT_EQ(program.arrays.size(), 7);
    EXPECT_EQ(program.array(0).dtype, Dtype::e4m3);
    EXPECT_EQ(program.array(1).name, "sa");
    EXPECT_EQ(program_text(program, program.array(1).indices[2]), "k / 128");
    const ProgramArray& acc = program.array(program.array_named("acc"));
    EXPECT_EQ(acc.over, 3);
    EXPECT_EQ(program_text(program, acc.value), "acc + sum(k: a * w) in tensor_core_fp8 * sa * sw");
    EXPECT_EQ(program.array(program.array_named("y")).dtype, Dtype::bf16);
    EXPECT_EQ(program.outputs, std::vector<int>{program.array_named("y")});
}

TEST(Program, StagesThatGoThroughAnAxisTogetherAreOneLoop) {
    const Program program = parse_program(R"(
        axes i: n; t: tokens by 16; c: tokens / 16
        input x[t]; w[c]
        stage y[t] = x * 2.0
        stage v[t] = y - h.before
        stage h over t = h + sum(t: v)
        stage z[c] = w * h
        output z)");
    const std::vector<ProgramLoop> loops = program.loops;
    ASSERT_EQ(loops.size(), 2);
    EXPECT_EQ(loops[0].axis, 1);
    EXPECT_EQ(program.array(loops[0].first).name, "y");
    EXPECT_EQ(program.array(loops[0].end - 1).name, "h");
    EXPECT_EQ(loops[1].axis, -1);
}

TEST(Program, AStateMayGoBackwards) {
    const Program program = parse_program(R"(
        axes t: tokens by 16
        input x[t]
        stage v[t] = x - h.before
        stage h over t backwards: f16 = h + sum(t: v)
        stage g over t = g + sum(t: x * h.last)
        output g)");
    ASSERT_EQ(program.loops.size(), 2);
    EXPECT_TRUE(program.loops[0].backwards);
    EXPECT_EQ(program.array(program.loops[0].first).name, "v");
    EXPECT_FALSE(program.loops[1].backwards);
    EXPECT_TRUE(program.array(program.array_named("h")).backwards);
    EXPECT_EQ(program.array(program.array_named("h")).dtype, Dtype::f16);
}

TEST(Program, AnInputIsReadByTheNumberOfAnElement) {
    const Program program =
        parse_program("axes i: n; j: m\ninput x[i, j]\nstage y[i, j] = x.flat[j * n + i] + x\noutput y");
    const ProgramArray& y = program.array(program.array_named("y"));
    EXPECT_EQ(program_text(program, y.value), "x.flat[j * n + i] + x");
    EXPECT_TRUE(program.node(program.node(y.value).of[0]).is_flat);
}

TEST(Program, AStateIsReadAtTheBlockOfAnIndex) {
    const std::string read = "h.after(min((z + 1) * 16, tokens) - 1) + h.before(0)";
    const Program program = parse_program(
        "axes t: tokens by 16; z: parts\ninput x[t]\nstage h over t = h + sum(t: x)\nstage y[z] = " + read +
        "\noutput y");
    EXPECT_EQ(program_text(program, program.array(program.array_named("y")).value), read);
}

/// A formula as it is read and written again.
std::string again(const std::string& formula) {
    const Program program = parse_program(
        "axes i: n; j: m\nsizes c\ninput x[i]; y[i, j]\nstage z[i] = " + formula + "\noutput z");
    return program_text(program, program.array(2).value);
}

TEST(Program, FormulasArePrintedAsTheyAreRead) {
    for (const char* const formula : {"x",
                                      "x[i + 1]",
                                      "x - (x - x)",
                                      "x - x - x",
                                      "x / (x * x)",
                                      "-x * x",
                                      "-(x + x)",
                                      "x * -x",
                                      "(x + 1.0) * 2.5",
                                      "sum(j: y * x)",
                                      "max(j: y)",
                                      "max(x, 0.0)",
                                      "min(x, max(j: y))",
                                      "between(x - 1.0, max(j: y))",
                                      "exp(x - max(j: y))",
                                      "bf16(x) * f16(x)",
                                      "x where i % 2 == 0 else 0.0",
                                      "x where i < c and (i > 1 or not i == 3) else -inf",
                                      "(x where i < 2 else 1.0) * 2.0",
                                      "sum(j: y where j <= i else 0.0) in tensor_core_f32",
                                      "sum(j: y) / c",
                                      "x[(i + 1) * 2 - c]",
                                      "x[i - (c - 1)]",
                                      "x ^ 0x00400000",
                                      "(x ^ 0x00400000) & 0xffff0000",
                                      "x & 0xffff0000 ^ 0x00400000",
                                      "x[i & 3 ^ c]",
                                      "x[(i ^ c) & 3]",
                                      "x[i ^ 4]",
                                      "x where x & 0x80000000 != 0.0 else (x & 0xffc00000) * 2.0",
                                      "1.0e-06 + x",
                                      "sum(j: y * (x where i < c else 0.0))"}) {
        const std::string text = again(formula);
        EXPECT_EQ(again(text), text) << formula;
        if (std::string(formula).find("e-06") == std::string::npos) {
            EXPECT_EQ(text, formula);
        }
    }
}

struct Wrong {
    const char* text;
    int line;
    int column;
};

TEST(Program, ErrorsSayWhereTheyAre) {
    const Wrong all[] = {
        {"axes i: n\ninput x[i]\nstage y[i] = x $ 2\noutput y", 3, 16},
        {"axes i: n\ninput x[i]\nstage y[i] = x + z\noutput y", 3, 18},
        {"axes i: n\ninput x[i]\nstage y[i] = x +\noutput y", 4, 1},
        {"axes i: n\ninput x[i]\nstage y[i] = 1 / n * x\noutput y", 3, 16},
        {"axes i: n; j: m\ninput x[i, j]\nstage y[i] = x\noutput y", 3, 14},
        {"axes i: n by 8\ninput x[i]\nstage w[i] = x / sum(i: x)\nstage y over i = y + sum(i: w)\noutput y",
         3, 18},
        {"axes i: n\ninput x[i]\nstage y[i] = x > 0.0\noutput y", 3, 16},
        {"axes i: n\ninput x[i]\nstage y[i] = x & x\noutput y", 3, 16},
        {"axes i: n\ninput x[i]\nstage y[i] = x ^ 0x100000000\noutput y", 3, 16},
        {"axes i: n\ninput x[i]\nstage y[i] = x ^ 0xg\noutput y", 3, 18},
        {"axes i: n\ninput x[i]\nstage y[i] = x where x else 0.0\noutput y", 3, 22},
        {"axes i: n\ninput x[i]\nstage y[i] = x where x > 0.0\noutput y", 4, 1},
        {"axes i: n\ninput x[i]\nstage y[i] = y + x\noutput y", 3, 14},
        {"axes i: n\ninput x[i]\nstage y[i] = x.before\noutput y", 3, 14},
        {"axes i: n\ninput x[i]\nstage y[i] = z\nstage z[i] = x\noutput y", 3, 14},
        {"axes i: n\ninput x[i]\nstage y[i] = x[i, i]\noutput y", 3, 14},
        {"axes i: n\ninput x[i]\nstage y[i] = x[x]\noutput y", 3, 16},
        {"axes i: n\ninput x[i]\nstage y[i]: f8 = x\noutput y", 3, 13},
        {"axes i: n\ninput x[i]\nstage x[i] = x\noutput x", 3, 7},
        {"axes i: n\ninput sum[i]\nstage y[i] = 1.0\noutput y", 2, 7},
        {"axes i: n\ninput x[i]\nstage y[i] = x\noutput x", 4, 8},
        {"axes i: n\ninput x[i]\nstage y[i] over i = x\noutput y", 3, 7},
        {"axes i: n\ninput x[i]\nstage y[i] = x from 1.0\noutput y", 3, 21},
        {"axes i: n\ninput x[i]\nstage y[i] = x x\noutput y", 3, 16},
        {"axes i: n\ninput x[i]\nstage y[i] = sum(i: x) in half\noutput y", 3, 27},
        {"axes i: n\ninput x[i]\nstage y[i] = 1e999\noutput y", 3, 14},
        {"axes i: n\ninput x[i]\nstage y[i] = 3x\noutput y", 3, 15},
        {"axes i: n\ninput x[i]\nstage y[i] = slu(x)\noutput y", 3, 14},
        {"axes i: n\ninput x[i]\nstage y[i] = x where 1 <= i < 3 else 0.0\noutput y", 3, 29},
        {"axes i: n by 8\ninput x[i]\nstage y over i = y + sum(i: x)\nstage z = y.before\noutput z", 4, 11},
        {"axes i: n; j: i\nstage y[i] = 1.0\noutput y", 1, 15},
        {"axes i: n\nstage y[i] = 1.0", 2, 17},
        {"axes i: n\nloop i", 2, 1},
        {"axes i: n by 8\ninput x[i]\nstage y over i = y + sum(i: x)\nstage z[i] = y[i]\noutput z", 4, 14},
        {"axes i: n by 8\ninput x[i]\nstage w[i] = x\nstage y over i = y + sum(i: w[i - 1])\noutput y", 4,
         29},
        {"axes i: n by 8\ninput x[i]\nstage y over i = y.before(0) + sum(i: x)\noutput y", 3, 18},
        {"axes i: n by 8\ninput x[i]\nstage y over i = y + sum(i: x)\nstage z = y.last(0)\noutput z", 4, 13},
        {"axes i: n by 8\ninput x[i]\nstage y over i = y + sum(i: x)\nstage z = y.after(0.5)\noutput z", 4,
         19},
        {"axes i: n by 8\ninput x[i]\nstage y over i = y + sum(i: x)\nstage z = y.after(i)\noutput z", 4, 19},
        {"axes i: n\ninput x[i]\nstage y[i] = x.flat[i, 0]\noutput y", 3, 14},
        {"axes i: n\ninput x[i]\nstage y[i] = x.flat[0.5]\noutput y", 3, 21},
        {"axes i: n\ninput x[i]\nstage z[i] = x\nstage y[i] = z.flat[i]\noutput y", 4, 16},
        {"axes i: n by 8\ninput x[i]\nstage y over i back = y + sum(i: x)\noutput y", 3, 16},
        {"axes i: n\ninput between[i]\nstage y[i] = 1.0\noutput y", 2, 7},
        {"axes i: n\nsizes i\ninput x[i]\nstage y[i] = x\noutput y", 2, 7},
        {"axes i: n; k: m\ninput x[i, k]\nstage y over i, k = y + sum(i, k: x)\noutput y", 3, 15},
    };
    for (const Wrong& wrong : all) {
        const std::string place =
            "line " + std::to_string(wrong.line) + ", column " + std::to_string(wrong.column) + ": ";
        try {
            parse_program(wrong.text);
            ADD_FAILURE() << "is read: " << wrong.text;
        } catch (const Error& error) {
            EXPECT_TRUE(std::string_view(error.what()).starts_with(place)) << wrong.text << "\n"
                                                                           << error.what();
        }
    }
}

struct OfOthers {
    const char* text;
    const char* said;
};

TEST(Program, ErrorsSayHowAProgramSaysWhatOthersWrite) {
    const std::string begin = "axes i: n; k: m\ninput x[i]; y[i]; a[k]; target[i]\nstage z[i] = ";
    for (const OfOthers& each :
         {OfOthers{"pow(x, 2.0)", "x * x"}, OfOthers{"x ** 2", "x * x"}, OfOthers{"x ^ 2", "x * x"},
          OfOthers{"floor(x)", "trunc(x) - (1.0 where x < trunc(x) else 0.0)"},
          OfOthers{"ceil(x)", "trunc(x) + (1.0 where x > trunc(x) else 0.0)"},
          OfOthers{"log1p(x)", "log(1.0 + x)"}, OfOthers{"rint(x)", "round(x)"}}) {
        try {
            parse_program(begin + each.text + "\noutput z");
            ADD_FAILURE() << "is read: " << each.text;
        } catch (const Error& error) {
            EXPECT_NE(std::string_view(error.what()).find(each.said), std::string_view::npos) << error.what();
        }
        EXPECT_NO_THROW(parse_program(begin + each.said + "\noutput z"));
    }
    for (const OfOthers& each :
         {OfOthers{"clamp(x, 0.0, 1.0)", "max(min("}, OfOthers{"x if x > 0.0 else y", "where"},
          OfOthers{"x > 0.0 ? x : y", "where"}, OfOthers{"x where x > 0.0 && y > 0.0 else y", "and"},
          OfOthers{"x[i // 2]", "write /"}, OfOthers{"a[target]", "sum("}, OfOthers{"sum(a)", "sum(k: "}}) {
        try {
            parse_program(begin + each.text + "\noutput z");
            ADD_FAILURE() << "is read: " << each.text;
        } catch (const Error& error) {
            EXPECT_NE(std::string_view(error.what()).find(each.said), std::string_view::npos) << error.what();
        }
    }
}

TEST(Program, SizesMayBeDeclaredWhereAnExtentNamesThem) {
    const Program program = parse_program("axes i: n\nsizes n, c\ninput x[i]\nstage y[i] = x * c\noutput y");
    EXPECT_EQ(program.sizes, (std::vector<std::string>{"n", "c"}));
}

TEST(Program, TextsThatWouldKeepAnyoneBusyAreRefused) {
    std::string deep = "axes i: n\ninput x[i]\nstage y[i] = ";
    for (int i = 0; i < 10000; ++i) deep += "(";
    EXPECT_THROW(parse_program(deep), Error);
    std::string minus = "axes i: n\ninput x[i]\nstage y[i] = ";
    for (int i = 0; i < 10000; ++i) minus += "- ";
    EXPECT_THROW(parse_program(minus + "x\noutput y"), Error);
    std::string sum = "axes i: n\ninput x[i]\nstage y[i] = x";
    for (int i = 0; i < 32000; ++i) sum += "+x";
    EXPECT_THROW(parse_program(sum + "\noutput y"), Error);
    EXPECT_THROW(parse_program(std::string(ProgramLimits::text_bytes + 1, ' ')), Error);
    std::string axes = "axes a0: n";
    for (int i = 1; i < 100; ++i) axes += "; a" + std::to_string(i) + ": n";
    EXPECT_THROW(parse_program(axes + "\nstage y = 1.0\noutput y"), Error);
    std::string stages = "axes i: n\n";
    for (int i = 0; i < 100; ++i) stages += "stage y" + std::to_string(i) + "[i] = 1.0\n";
    EXPECT_THROW(parse_program(stages + "output y0"), Error);
}

TEST(Program, NoTextCrashesTheReader) {
    const std::uint64_t seed = 20261128;
    std::mt19937_64 random(seed);
    const std::string words[] = {
        "axes ", "sizes ", "input ", "stage ",  "output ",    "where ",  " else ", "over ", "from ",
        "by ",   "sum(",   "max(",   "i",       "j",          "x",       "y",      "[",     "]",
        "(",     ")",      ":",      ";",       ",",          "=",       "+",      "-",     "*",
        "/",     "%",      "1",      "2.5",     ".before",    "\n",      "bf16",   "exp(",  "scale ",
        "<",     "and ",   "in ",    ".after(", "backwards ", "between("};
    for (int i = 0; i < 20000; ++i) {
        std::string text = i % 2 == 0 ? "axes i: n; j: m by 4\ninput x[i, j]\nstage y[i] over j = " : "";
        const int count = int(random() % 40);
        for (int k = 0; k < count; ++k) text += words[random() % std::size(words)];
        if (i % 2 == 0) text += "\noutput y";
        try {
            const Program program = parse_program(text);
            for (const ProgramArray& array : program.arrays) {
                const bool is_told = !array.is_stage || !program_text(program, array.value).empty();
                EXPECT_TRUE(is_told) << seed << ", " << i << ": " << text;
            }
        } catch (const Error&) {}
    }
}

}  // namespace
}  // namespace tilescope::test
