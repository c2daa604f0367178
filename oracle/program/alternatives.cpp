#include "oracle/program/alternatives.h"

namespace tilescope {

std::vector<ProgramFunction> functions_like(ProgramFunction function) {
    switch (function) {
        case ProgramFunction::exp:
            return {ProgramFunction::exp2};
        case ProgramFunction::exp2:
            return {ProgramFunction::exp};
        case ProgramFunction::log:
            return {ProgramFunction::log2};
        case ProgramFunction::log2:
            return {ProgramFunction::log};
        case ProgramFunction::sqrt:
            return {ProgramFunction::rsqrt};
        case ProgramFunction::rsqrt:
            return {ProgramFunction::sqrt};
        case ProgramFunction::silu:
        case ProgramFunction::gelu:
        case ProgramFunction::relu:
        case ProgramFunction::sigmoid:
        case ProgramFunction::tanh:
        case ProgramFunction::softplus:
            return {ProgramFunction::silu,    ProgramFunction::gelu, ProgramFunction::relu,
                    ProgramFunction::sigmoid, ProgramFunction::tanh, ProgramFunction::softplus};
        case ProgramFunction::abs:
            return {};
    }
    return {};
}

std::vector<ProgramOp> comparisons_like(ProgramOp op) {
    switch (op) {
        case ProgramOp::less:
            return {ProgramOp::at_most, ProgramOp::at_least, ProgramOp::more};
        case ProgramOp::at_most:
            return {ProgramOp::less, ProgramOp::more, ProgramOp::at_least};
        case ProgramOp::more:
            return {ProgramOp::at_least, ProgramOp::at_most, ProgramOp::less};
        case ProgramOp::at_least:
            return {ProgramOp::more, ProgramOp::less, ProgramOp::at_most};
        case ProgramOp::equal:
            return {ProgramOp::unequal, ProgramOp::at_most, ProgramOp::at_least};
        default:
            return {ProgramOp::equal};
    }
}

}  // namespace tilescope
