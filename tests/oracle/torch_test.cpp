// The oracle and the definition against what PyTorch computed in float64: tests/data/record_torch.py
// recorded it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/oracle/definition_replay.h"

namespace tilescope::test {
namespace {

using Json = nlohmann::json;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Infinities are text.
double number(const Json& json) {
    if (!json.is_string()) return json.get<double>();
    return json == "inf" ? infinity : json == "-inf" ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> numbers(const Json& json) {
    std::vector<double> values;
    for (const Json& value : json) values.push_back(number(value));
    return values;
}

std::vector<float> floats(const Json& json, double scale = 1) {
    std::vector<float> values;
    for (const double value : numbers(json)) values.push_back(float(value * scale));
    return values;
}

Problem problem_in(const Json& json) {
    Problem p;
    p.batch = json.at("batch");
    p.heads = json.at("heads");
    p.heads_kv = json.at("heads_kv");
    p.seqlen_q = json.at("seqlen_q");
    p.seqlen_kv = json.at("seqlen_kv");
    p.head_dim = json.at("head_dim");
    p.head_dim_v = json.at("head_dim_v");
    p.sm_scale = json.at("sm_scale");
    p.block_m = 4;
    p.block_n = 3;
    p.mask = json.value("mask", "") == "causal" ? Mask::causal : Mask::none;
    if (json.value("causal_alignment", "") == "top_left") p.causal_alignment = CausalAlignment::top_left;
    p.window_left = json.value("window_left", -1);
    p.window_right = json.value("window_right", -1);
    p.logits_soft_cap = json.value("logits_soft_cap", 0.0);
    const std::string alibi = json.value("alibi", "");
    p.alibi = alibi == "linear" ? Alibi::linear : alibi == "distance" ? Alibi::distance : Alibi::none;
    p.sink = json.contains("sink") ? AttentionSink::last : AttentionSink::none;
    return p;
}

AttentionCall call_in(const Json& json) {
    const Json& problem = json.at("problem");
    AttentionCall call;
    call.problem = problem_in(problem);
    call.inputs.q = floats(json.at("q_eighths"), 0.125);
    call.inputs.k = floats(json.at("k_eighths"), 0.125);
    call.inputs.v = floats(json.at("v_eighths"), 0.125);
    SideInputs& side = call.inputs.side;
    side.alibi_slopes = floats(problem.value("alibi_slopes", Json::array()));
    side.sink = floats(problem.value("sinks", Json::array()));
    side.seqlens_q = problem.value("seqlens_q", std::vector<std::int64_t>());
    side.seqlens_kv = problem.value("seqlens_kv", std::vector<std::int64_t>());
    if (json.contains("bias")) {
        const std::vector<std::int64_t> sizes = json.at("bias").at("shape");
        call.inputs.bias = {sizes.at(0), sizes.at(1), sizes.at(2), sizes.at(3),
                            floats(json.at("bias").at("values"))};
    }
    return call;
}

/// One of PyTorch's outputs, [batch][heads][seqlen_q][columns].
struct Output {
    std::vector<double> values;
    std::int64_t columns = 1;

    double at(const Problem& p, std::int64_t batch, std::int64_t head, std::int64_t row,
              std::int64_t column) const {
        return values.at(std::size_t(((batch * p.heads + head) * p.seqlen_q + row) * columns + column));
    }
};

bool equal(double got, double expected) {
    if (std::isinf(expected)) return got == expected;
    return std::abs(got - expected) <= 1e-12 * std::max(1.0, std::abs(expected));
}

/// Holds the oracle and the definition against PyTorch's o and lse of one head, and counts what it compared.
void compare_head(const AttentionCall& call, const Recording& recording, std::int64_t batch,
                  std::int64_t head, const Output& o, const Output& lse, std::int64_t& compared) {
    const Problem& p = call.problem;
    const std::int64_t rows = rows_of_entry(call, batch);
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t q_block = row / p.block_m;
        const Eigen::Index i = row % p.block_m;
        ReplayFromInputs replay(recording, batch, head, q_block);
        for (std::int64_t kv_tile = 0; kv_tile < replay.call().problem.kv_tiles(); ++kv_tile)
            replay.step(kv_tile);
        const DefinedRow defined = define_row(call, batch, head, row);
        const Estimate oracle_o = replay.output();
        for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
            const double expected = o.at(p, batch, head, row, d);
            EXPECT_TRUE(equal(oracle_o.value(i, d), expected))
                << "o " << oracle_o.value(i, d) << " in row " << row << ", PyTorch " << expected;
            EXPECT_TRUE(equal(double(defined.o[std::size_t(d)].value), expected)) << "o in row " << row;
            ++compared;
        }
        if (lse.values.empty()) continue;
        const double expected = lse.at(p, batch, head, row, 0);
        const double oracle_lse = replay.log_sum_exp().value(i, 0);
        EXPECT_TRUE(equal(oracle_lse, expected))
            << "lse " << oracle_lse << " in row " << row << ", PyTorch " << expected;
        EXPECT_TRUE(equal(double(defined.lse.value), expected)) << "lse in row " << row;
        ++compared;
    }
}

TEST(Torch, ComputesTheSame) {
    std::ifstream file(TILESCOPE_TORCH_RECORDING);
    ASSERT_TRUE(file) << "no " << TILESCOPE_TORCH_RECORDING;
    const Json recorded = Json::parse(file);
    ASSERT_FALSE(recorded.at("cases").empty());
    int cases_with_lse = 0;
    for (const Json& json : recorded.at("cases")) {
        SCOPED_TRACE(json.at("name").get<std::string>());
        const AttentionCall call = call_in(json);
        const Output o{numbers(json.at("o")), call.problem.head_dim_v};
        const Output lse{numbers(json.value("lse", Json::array()))};
        const Problem& p = call.problem;
        ASSERT_EQ(std::ssize(o.values), p.batch * p.heads * p.seqlen_q * p.head_dim_v);
        ASSERT_TRUE(lse.values.empty() || std::ssize(lse.values) == p.batch * p.heads * p.seqlen_q);
        cases_with_lse += !lse.values.empty();
        const auto recording = recording_of(call);
        std::int64_t compared = 0;
        for (std::int64_t batch = 0; batch < p.batch; ++batch) {
            for (std::int64_t head = 0; head < p.heads; ++head)
                compare_head(call, *recording, batch, head, o, lse, compared);
        }
        EXPECT_GT(compared, 0);
    }
    EXPECT_GT(cases_with_lse, 0);
}

}  // namespace
}  // namespace tilescope::test
