#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dump/recording/captured_run.h"
#include "dump/schema/side_inputs.h"

namespace tilescope {

/// A family of inputs; the same seed gives the same bits on every machine.
struct InputKind {
    std::string_view name;
    std::string_view description;
    /// Element `feature` of row `row` of one head of q, k or v. `noise` is approximately standard normal and
    /// independent from element to element.
    double (*element)(const Problem& problem, Input input, std::int64_t head, std::int64_t row,
                      std::int64_t feature, double noise);
    std::int64_t key_period = 0;  ///< rows of k repeat after this many; 0: they do not
    bool extreme = false;         ///< scores far apart or not finite: guards of a softmax bite
};

std::span<const InputKind> all_input_kinds();
/// Null when there is no such kind.
const InputKind* find_input_kind(std::string_view name);

/// What a call reads. fp8 operands are made of float16 ones, with a scale for each head.
struct RunInputs : InputArrays {
    SideInputs side;        ///< the descales of fp8 operands
    InputArrays originals;  ///< float16; empty where nothing is quantised
};

/// q, k and v in the types of the problem, contiguous [batch][heads or heads_kv][seqlen][head_dim].
RunInputs make_inputs(const Problem& problem, const InputKind& kind, std::uint64_t seed);

}  // namespace tilescope
