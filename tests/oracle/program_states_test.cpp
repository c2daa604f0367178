// States of programs: in which order and type they are carried, where they are read, and what is left to the kernel.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oracle/program/judge_program.h"
#include "tests/oracle/attention_inputs.h"
#include "tests/oracle/draws.h"

namespace tilescope::test {
namespace {

/// Arrays of float32 by their names.
struct Floats {
    std::map<std::string, std::vector<float>> values;
    std::map<std::string, ProgramInput> arrays;

    void set(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> elements) {
        values[name] = std::move(elements);
        arrays[name] = {Dtype::f32, std::move(shape), std::as_bytes(std::span<const float>(values[name]))};
    }
};

/// The name of the first wrong stage; empty: all is as expected.
std::string first_wrong(const char* text, const Floats& inputs, const Floats& stored,
                        const std::map<std::string, std::int64_t>& sizes = {}) {
    const Program program = parse_program(text);
    const ProgramCall call = bind_program(program, inputs.arrays, sizes);
    const ProgramReport report = judge_program(call, StoredArrays(call, stored.arrays));
    return report.first_wrong < 0 ? "" : program.array(report.first_wrong).name;
}

std::vector<float> drawn_floats(Random& random, std::int64_t count, double scale = 1) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(float(scale * normal(random)));
    return values;
}

constexpr std::int64_t tokens = 37;
constexpr std::int64_t block = 8;
constexpr std::int64_t blocks = 5;

/// h = h / 2 + what the block adds, after each block, in one order or the other.
std::vector<float> decayed(const std::vector<float>& x, bool backwards) {
    std::vector<float> states(static_cast<std::size_t>(blocks));
    float h = 0;
    for (std::int64_t i = 0; i < blocks; ++i) {
        const std::int64_t at = backwards ? blocks - 1 - i : i;
        float sum = 0;
        for (std::int64_t t = at * block; t < std::min(tokens, (at + 1) * block); ++t)
            sum += x[std::size_t(t)];
        h = h * 0.5F + sum;
        states[std::size_t(at)] = h;
    }
    return states;
}

constexpr const char* decay = R"(
    axes  t: tokens by 8
    input x[t]
    stage h over t = h * 0.5 + sum(t: x)
    stage y = h
    output y)";
constexpr const char* decay_backwards = R"(
    axes  t: tokens by 8
    input x[t]
    stage h over t backwards = h * 0.5 + sum(t: x)
    stage y = h
    output y)";

TEST(ProgramStates, GoBackwards) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Random random(seed);
        Floats in;
        in.set("x", {tokens}, drawn_floats(random, tokens));
        for (const bool backwards : {false, true}) {
            const std::vector<float> states = decayed(in.values["x"], backwards);
            const float last = backwards ? states.front() : states.back();
            Floats all;
            all.set("h", {blocks}, states);
            all.set("y", {}, {last});
            Floats last_alone;
            last_alone.set("h", {}, {last});
            for (const Floats& stored : {std::cref(all), std::cref(last_alone)}) {
                EXPECT_EQ(first_wrong(backwards ? decay_backwards : decay, in, stored), "") << seed;
                EXPECT_EQ(first_wrong(backwards ? decay : decay_backwards, in, stored), "h") << seed;
            }
        }
    }
}

TEST(ProgramStates, AreReadAfterTheBlockOfAnIndex) {
    constexpr const char* text = R"(
        axes  t: tokens by 8; z: parts
        input x[t]
        stage h over t backwards = h * 0.5 + sum(t: x)
        stage after[z] = h.after(z * 16)
        stage before[z] = h.before(min(z * 16 + 15, tokens - 1))
        stage beyond[z] = h.after(z * 16) where z * 16 < tokens - 20 else 7.0
        output after, before, beyond)";
    Random random(5);
    Floats in;
    in.set("x", {tokens}, drawn_floats(random, tokens));
    const std::vector<float> h = decayed(in.values["x"], true);
    Floats out;
    out.set("after", {3}, {h[0], h[2], h[4]});
    // Before a block in reverse order stands the state after the next one.
    out.set("before", {3}, {h[2], h[4], 0});
    out.set("beyond", {3}, {h[0], h[2], 7});
    EXPECT_EQ(first_wrong(text, in, out, {{"parts", 3}}), "");
    out.set("after", {3}, {h[0], h[1], h[4]});
    EXPECT_EQ(first_wrong(text, in, out, {{"parts", 3}}), "after");
}

TEST(ProgramStates, MayBeAnyNumberBetweenTwo) {
    constexpr const char* text = R"(
        axes  t: tokens by 8
        input x[t]
        stage m over t = between(max(m, max(t: x) - 4.0), max(m, max(t: x))) from -inf
        stage y[t] = x - m
        output y)";
    Random random(3);
    for (const float rise : {0.0F, 1.0F, 3.9F, 4.1F}) {
        Floats in;
        in.set("x", {tokens}, drawn_floats(random, tokens));
        // The maximum of the first block, which later ones do not pass by more than `rise`.
        std::vector<float>& x = in.values["x"];
        float first = x[0];
        for (std::int64_t t = 0; t < block; ++t) first = std::max(first, x[std::size_t(t)]);
        for (std::int64_t t = block; t < tokens; ++t) x[std::size_t(t)] = std::min(x[std::size_t(t)], first);
        x[20] = first + rise;
        Floats out;
        out.set("m", {blocks}, std::vector<float>(std::size_t(blocks), first));
        EXPECT_EQ(first_wrong(text, in, out), rise > 4 ? "m" : "") << rise;
    }
}

/// acc = acc * f + a w over blocks, of a kernel that rounds every step to `kept`, or the sums of blocks alone.
struct Carried {
    std::int64_t block = 16;
    Dtype kept = Dtype::f16;
    bool rounds_steps = true;
    bool rounds_factor = false;
    float start = 0;

    std::vector<float> run(const std::vector<float>& a, const std::vector<float>& w,
                           const std::vector<float>& f) const {
        std::vector<float> states;
        float acc = start;
        for (std::size_t b = 0; b * std::size_t(block) < a.size(); ++b) {
            const float factor = rounds_factor ? rounded(kept, f[b]) : f[b];
            float sum = rounds_steps ? rounded(kept, acc * factor) : acc * factor;
            for (std::size_t k = b * std::size_t(block); k < (b + 1) * std::size_t(block); ++k) {
                sum = std::fma(a[k], w[k], sum);
                if (rounds_steps) sum = rounded(kept, sum);
            }
            acc = rounded(kept, sum);
            states.push_back(acc);
        }
        return states;
    }
};

TEST(ProgramStates, OfANarrowTypeMayBeComputedInIt) {
    constexpr const char* text = R"(
        axes  k: depth by 16
        input a[k]: f16; w[k]: f16; f[k / 16]
        stage acc over k: f16 = acc * f + sum(k: a * w) in fma_f16
        output acc)";
    constexpr const char* text_in_f32 = R"(
        axes  k: depth by 16
        input a[k]: f16; w[k]: f16; f[k / 16]
        stage acc over k = acc * f + sum(k: a * w)
        output acc)";
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Random random(seed);
        Floats in;
        for (const char* const name : {"a", "w"}) {
            std::vector<float> values = drawn_floats(random, 128);
            for (float& value : values) value = rounded(Dtype::f16, value);
            in.set(name, {128}, values);
        }
        std::vector<float> factors = drawn_floats(random, 8);
        for (float& factor : factors) factor = std::exp(-std::abs(factor));
        in.set("f", {8}, factors);
        Carried kernel;
        kernel.rounds_steps = one_in(random, 2);
        kernel.rounds_factor = one_in(random, 2);
        Floats out;
        const auto run = [&](const std::vector<float>& with) {
            out.set("acc", {8}, kernel.run(in.values["a"], in.values["w"], with));
        };
        run(factors);
        EXPECT_EQ(first_wrong(text, in, out), "") << seed;
        if (kernel.rounds_steps) {
            EXPECT_EQ(first_wrong(text_in_f32, in, out), "acc") << seed;
        }
        run(std::vector<float>(8, 1.0F));
        EXPECT_EQ(first_wrong(text, in, out), "acc") << "not rescaled, seed " << seed;
    }
}

TEST(ProgramStates, AreWhatSumsMayBeginWith) {
    constexpr const char* text = R"(
        axes  k: depth by 64
        input a[k]; w[k]; start
        stage acc over k = acc + sum(k: a * w) from start
        output acc)";
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Random random(seed);
        Floats in;
        in.set("a", {1024}, drawn_floats(random, 1024, 0.01));
        in.set("w", {1024}, drawn_floats(random, 1024));
        in.set("start", {}, {1000.0F});
        Carried kernel{.block = 64, .kept = Dtype::f32, .start = 1000.0F};
        Floats out;
        out.set("acc", {16}, kernel.run(in.values["a"], in.values["w"], std::vector<float>(16, 1.0F)));
        EXPECT_EQ(first_wrong(text, in, out), "") << seed;
        out.values["acc"][15] += 0.05F;
        EXPECT_EQ(first_wrong(text, in, out), "acc") << seed;
    }
}

TEST(ProgramStates, ExponentialsOfBaseTwoAreThoseOfFusedDifferences) {
    constexpr const char* text = R"(
        axes  t: tokens
        input x[t]; m
        stage y[t] = exp2(x * 0.17677669 * 1.4426950408889634 - m * 0.17677669 * 1.4426950408889634)
        output y)";
    const float factor = 0.17677669F * float(std::numbers::log2e);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Random random(seed);
        Floats in;
        in.set("x", {tokens}, drawn_floats(random, tokens, 100));
        const float m = 300;
        in.set("m", {}, {m});
        std::vector<float> fused;
        std::vector<float> apart;
        std::vector<float> wrong;
        for (const float x : in.values["x"]) {
            fused.push_back(std::exp2(std::fma(x, factor, -(m * factor))));
            apart.push_back(std::exp((x - m) * 0.17677669F));
            wrong.push_back(std::exp((x - m) * 0.1767F));
        }
        for (const auto& [y, stage] : {std::pair(fused, ""), std::pair(apart, ""), std::pair(wrong, "y")}) {
            Floats out;
            out.set("y", {tokens}, y);
            EXPECT_EQ(first_wrong(text, in, out), stage) << seed;
        }
    }
}

}  // namespace
}  // namespace tilescope::test
