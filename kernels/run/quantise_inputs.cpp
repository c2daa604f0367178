#include "kernels/run/quantise_inputs.h"

#include <utility>

namespace tilescope {

namespace {

std::vector<float> floats_of(const std::vector<std::byte>& halves) {
    std::vector<float> values(halves.size() / sizeof(std::uint16_t));
    decode_array(Dtype::f16, halves, values);
    return values;
}

}  // namespace

ScaleGroups QuantisedOperand::groups(const Problem& problem) const {
    return per_head(problem.batch * problem.*heads, problem.*seqlen, problem.head_dim);
}

const std::array<QuantisedOperand, 3>& quantised_operands() {
    static constexpr std::array<QuantisedOperand, 3> operands = {{
        {"q", &InputArrays::q, &SideInputs::descale_q, &Problem::heads, &Problem::seqlen_q},
        {"k", &InputArrays::k, &SideInputs::descale_k, &Problem::heads_kv, &Problem::seqlen_kv},
        {"v", &InputArrays::v, &SideInputs::descale_v, &Problem::heads_kv, &Problem::seqlen_kv},
    }};
    return operands;
}

RunInputs quantise_inputs(const Problem& problem, InputArrays halves) {
    RunInputs inputs;
    for (const QuantisedOperand& operand : quantised_operands()) {
        Quantised quantised = quantise(floats_of(halves.*operand.array), operand.groups(problem));
        inputs.*operand.array = std::move(quantised.codes);
        inputs.side.*operand.descale = {problem.*operand.heads, 1, problem.*operand.seqlen,
                                        std::move(quantised.scales)};
    }
    inputs.originals = std::move(halves);
    return inputs;
}

std::array<QuantisationError, 3> quantisation_errors(const Problem& problem, const RunInputs& inputs) {
    std::array<QuantisationError, 3> errors;
    for (std::size_t i = 0; i < errors.size(); ++i) {
        const QuantisedOperand& operand = quantised_operands()[i];
        const Quantised quantised = {inputs.*operand.array, (inputs.side.*operand.descale).values};
        errors[i] = quantisation_error(floats_of(inputs.originals.*operand.array), quantised,
                                       operand.groups(problem));
    }
    return errors;
}

}  // namespace tilescope
