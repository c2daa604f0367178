#include "tests/oracle/torch_backward_recording.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace tilescope::test {

namespace {

using Json = nlohmann::json;

template <class Value>
struct Field {
    const char* name;
    Value Problem::*member;
    bool required;
};

constexpr Field<std::int64_t> integers[] = {
    {"batch", &Problem::batch, true},
    {"heads", &Problem::heads, true},
    {"heads_kv", &Problem::heads_kv, true},
    {"seqlen_q", &Problem::seqlen_q, true},
    {"seqlen_kv", &Problem::seqlen_kv, true},
    {"head_dim", &Problem::head_dim, true},
    {"head_dim_v", &Problem::head_dim_v, true},
    {"window_left", &Problem::window_left, false},
    {"window_right", &Problem::window_right, false},
};

constexpr Field<double> reals[] = {
    {"sm_scale", &Problem::sm_scale, true},
    {"logits_soft_cap", &Problem::logits_soft_cap, false},
};

/// What a text of the problem means.
constexpr struct {
    const char* name;
    const char* text;
    void (*set)(Problem&);
} choices[] = {
    {"mask", "causal", [](Problem& p) { p.mask = Mask::causal; }},
    {"causal_alignment", "top_left", [](Problem& p) { p.causal_alignment = CausalAlignment::top_left; }},
    {"causal_alignment", "bottom_right",
     [](Problem& p) { p.causal_alignment = CausalAlignment::bottom_right; }},
    {"window_bounds", "exclusive", [](Problem& p) { p.window_bounds = WindowBounds::exclusive; }},
    {"alibi", "linear", [](Problem& p) { p.alibi = Alibi::linear; }},
    {"alibi", "distance", [](Problem& p) { p.alibi = Alibi::distance; }},
    {"sink", "last", [](Problem& p) { p.sink = AttentionSink::last; }},
};

template <class Value>
void read_field(const Json& json, const Field<Value>& field, Problem& problem) {
    if (field.required || json.contains(field.name)) problem.*field.member = json.at(field.name);
}

void read_choice(const std::string& name, const std::string& text, Problem& problem) {
    for (const auto& choice : choices) {
        if (choice.name == name && choice.text == text) return choice.set(problem);
    }
    throw std::runtime_error("no meaning of " + name + " = " + text);
}

Problem read_problem(const Json& json) {
    Problem problem;
    problem.direction = Direction::backward;
    problem.block_m = 4;
    problem.block_n = 3;
    for (const auto& field : integers) read_field(json, field, problem);
    for (const auto& field : reals) read_field(json, field, problem);
    for (const auto& [name, value] : json.items()) {
        if (value.is_string()) read_choice(name, value, problem);
    }
    problem.dkv_per_head = json.value("dkv_per_head", false);
    return problem;
}

/// Infinities are text.
float read_float(const Json& json) {
    return json.is_string() ? std::strtof(json.get<std::string>().c_str(), nullptr) : json.get<float>();
}

std::vector<float> read_floats(const Json& json) {
    std::vector<float> values;
    for (const Json& value : json) values.push_back(read_float(value));
    return values;
}

std::vector<float> read_eighths(const Json& json) {
    std::vector<float> values;
    for (const Json& value : json) values.push_back(float(value.get<int>()) / 8);
    return values;
}

/// Its values and how many rows share one; a single one is that of the tensor.
Descale read_descale(const Json& json, std::int64_t batch, std::int64_t heads, std::int64_t seqlen) {
    Descale descale;
    descale.values = read_floats(json.at(0));
    if (descale.values.size() == 1) return descale;
    descale.heads = heads;
    descale.rows = json.at(1);
    descale.blocks = (seqlen + descale.rows - 1) / descale.rows;
    if (std::ssize(descale.values) != batch * heads * descale.blocks)
        throw std::runtime_error("descales of another size");
    return descale;
}

Inputs read_inputs(const Json& json, const Problem& p) {
    const Json& problem = json.at("problem");
    Inputs inputs;
    inputs.q = read_eighths(json.at("q_eighths"));
    inputs.k = read_eighths(json.at("k_eighths"));
    inputs.v = read_eighths(json.at("v_eighths"));
    inputs.side.seqlens_q = problem.value("seqlens_q", std::vector<std::int64_t>());
    inputs.side.seqlens_kv = problem.value("seqlens_kv", std::vector<std::int64_t>());
    inputs.side.alibi_slopes = read_floats(problem.value("alibi_slopes", Json::array()));
    inputs.side.sink = read_floats(problem.value("sinks", Json::array()));
    if (json.contains("descales")) {
        const Json& descales = json.at("descales");
        inputs.side.descale_q = read_descale(descales.at("q"), p.batch, p.heads, p.seqlen_q);
        inputs.side.descale_k = read_descale(descales.at("k"), p.batch, p.heads_kv, p.seqlen_kv);
        inputs.side.descale_v = read_descale(descales.at("v"), p.batch, p.heads_kv, p.seqlen_kv);
    }
    if (json.contains("bias")) {
        const std::vector<std::int64_t> sizes = json.at("bias").at("shape");
        inputs.bias = {sizes.at(0), sizes.at(1), sizes.at(2), sizes.at(3),
                       read_floats(json.at("bias").at("values"))};
    }
    return inputs;
}

TorchBackwardCase read_case(const Json& json) {
    const Problem problem = read_problem(json.at("problem"));
    TorchBackwardCase result{
        json.at("name"),
        backward_call({problem, {}, read_inputs(json, problem)}, read_eighths(json.at("dout_eighths"))),
        {}};
    for (const BackwardTensor& tensor : backward_tensors) {
        const std::string name(stage_info(tensor.stage).name);
        if (!json.contains(name)) continue;
        const std::vector<double> values = json.at(name);
        if (values.size() != shape_of(tensor, problem).index(problem.batch, 0, 0, 0))
            throw std::runtime_error(result.name + ": another size of " + name);
        (result.recorded.*tensor.elements).assign(values.begin(), values.end());
    }
    return result;
}

}  // namespace

std::vector<TorchBackwardCase> read_torch_backward(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("no " + path);
    const Json recorded = Json::parse(file);
    std::vector<TorchBackwardCase> cases;
    for (const Json& json : recorded.at("cases")) cases.push_back(read_case(json));
    return cases;
}

}  // namespace tilescope::test
