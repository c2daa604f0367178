#include "dump/schema/families.h"

#include <algorithm>
#include <numbers>
#include <string>

#include "dump/schema/declarations.h"
#include "dump/schema/dtype.h"
#include "dump/schema/error.h"

namespace tilescope::declarations {

namespace {

constexpr FamilyDeclaration flash_attention_1[] = {
    {"problem.kv_order", "forward"},
    {"problem.causal_alignment", "top_left"},
    {"problem.dtype_p", "dtype_v"},
    {"problem.dtype_acc", "f32"},
    {"q.scale", "1"},
    {"s.scaled", "false"},
    {"s.log_base", "e"},
    {"s.accumulation", "tensor_core_f32"},
    {"m.scaled", "false"},
    {"m.log_base", "e"},
    {"m.from_lse", "true"},
    {"p.exp", "ex2_approx"},
    {"p.scale", "1"},
    {"p.of_tile_max", "false"},
    {"p.normalised", "false"},
    {"l.sums_cast_p", "false"},
    {"acc.accumulation", "tensor_core_f32"},
    {"acc.normalised", "true"},
    {"o.empty_row", "zero"},
    {"lse.log_base", "e"},
    {"lse.empty_row", "-inf"},
};

constexpr FamilyDeclaration flash_attention_2[] = {
    {"problem.kv_order", "reverse"},
    {"problem.causal_alignment", "bottom_right"},
    {"problem.l_lane_columns", "2"},
    {"problem.dtype_p", "dtype_v"},
    {"problem.dtype_acc", "f32"},
    {"q.scale", "1"},
    {"s.scaled", "false"},
    {"s.log_base", "e"},
    {"s.accumulation", "tensor_core_f32"},
    {"m.scaled", "false"},
    {"m.log_base", "e"},
    {"p.exp", "ex2_approx"},
    {"p.scale", "1"},
    {"l.sums_cast_p", "false"},
    {"acc.accumulation", "tensor_core_f32"},
    {"o.empty_row", "zero"},
    {"lse.log_base", "e"},
    {"lse.empty_row", "inf"},
};

constexpr FamilyDeclaration flash_attention_3[] = {
    {"problem.kv_order", "reverse"},
    {"problem.causal_alignment", "bottom_right"},
    {"problem.l_lane_columns", "2"},
    {"problem.dtype_p", "dtype_v"},
    {"problem.dtype_acc", "f32"},
    {"q.scale", "1"},
    {"q.dequantised", "false", Operands::fp8},
    {"k.dequantised", "false", Operands::fp8},
    {"v.dequantised", "false", Operands::fp8},
    {"s.scaled", "false"},
    {"s.log_base", "e"},
    {"s.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"s.accumulation", "tensor_core_fp8", Operands::fp8},
    {"m.scaled", "false"},
    {"m.log_base", "e"},
    {"p.exp", "ex2_approx"},
    {"p.scale", "1", Operands::sixteen_bits},
    {"p.scale", "256", Operands::fp8},
    {"l.sums_cast_p", "false"},
    {"l.scale", "256", Operands::fp8},
    {"acc.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"acc.accumulation", "tensor_core_fp8", Operands::fp8},
    {"acc.scale", "256", Operands::fp8},
    {"acc.dequantised", "false", Operands::fp8},
    {"o.empty_row", "zero"},
    {"lse.log_base", "e"},
    {"lse.empty_row", "-inf"},
};

constexpr FamilyDeclaration triton_tutorial[] = {
    {"problem.kv_order", "forward"},
    {"problem.causal_alignment", "top_left"},
    {"problem.dtype_p", "f16", Operands::sixteen_bits},
    {"problem.dtype_p", "dtype_v", Operands::fp8},
    {"problem.dtype_acc", "f32"},
    {"q.scale", "1"},
    {"s.scaled", "false"},
    {"s.masked", "false"},
    {"s.log_base", "e"},
    {"s.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"m.scaled", "true"},
    {"m.log_base", "2"},
    {"p.exp", "exp2f"},
    {"p.scale", "1"},
    {"l.sums_cast_p", "false"},
    {"acc.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"lse.log_base", "2"},
};

constexpr FamilyDeclaration cutlass_fmha[] = {
    {"problem.kv_order", "forward"},
    {"problem.dtype_p", "dtype_v"},
    {"problem.dtype_acc", "f32"},
    {"q.scale", "1"},
    {"s.scaled", "true"},
    {"s.log_base", "2"},
    {"s.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"m.scaled", "true"},
    {"m.log_base", "2"},
    {"p.exp", "exp2f"},
    {"p.scale", "1"},
    {"l.sums_cast_p", "false"},
    {"acc.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"lse.log_base", "e"},
};

constexpr FamilyDeclaration triton_tutorial_backward[] = {
    {"problem.causal_alignment", "top_left"},
    {"problem.dtype_p", "f16", Operands::sixteen_bits},
    {"problem.dtype_ds", "f16", Operands::sixteen_bits},
    {"q.scale", "1"},
    {"k.scale", "sm_scale log2(e)"},
    {"k.cast", "dtype_k"},
    {"s.scaled", "true"},
    {"s.log_base", "2"},
    {"s.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"p.exp", "exp2f"},
    {"p.scale", "1"},
    {"lse.log_base", "2"},
    {"dp.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"ds.from_cast_p", "false"},
    {"ds.scale", "1"},
    {"dq.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"dk.accumulation", "tensor_core_f32", Operands::sixteen_bits},
    {"dv.accumulation", "tensor_core_f32", Operands::sixteen_bits},
};

constexpr FamilyDeclaration llama_cpp[] = {
    {"problem.kv_order", "forward"},
    {"problem.dtype_p", "f16"},
    {"problem.dtype_acc", "f16"},
    {"q.scale", "sm_scale"},
    {"q.cast", "f16"},
    {"s.scaled", "true"},
    {"s.log_base", "e"},
    {"s.accumulation", "tensor_core_f32"},
    {"m.scaled", "true"},
    {"m.log_base", "e"},
    {"m.offset", "2.0793"},
    {"m.start", "-1.7014117331926443e+38"},
    {"p.exp", "fast_expf"},
    {"p.scale", "1"},
    {"p.flush_below", "-20"},
    {"l.sums_cast_p", "false"},
    {"acc.accumulation", "tensor_core_f16"},
};

constexpr Family families[] = {
    {"flash-attention-1", flash_attention_1}, {"flash-attention-2", flash_attention_2},
    {"flash-attention-3", flash_attention_3}, {"triton-tutorial", triton_tutorial, triton_tutorial_backward},
    {"cutlass-fmha", cutlass_fmha},           {"llama.cpp", llama_cpp},
};

bool applies(Operands operands, Dtype dtype) {
    const int bytes = dtype_info(dtype).bytes;
    return operands == Operands::any || (operands == Operands::fp8 ? bytes == 1 : bytes == 2);
}

std::string value_in(std::string_view value, const Problem& problem) {
    if (value == "dtype_k") return std::string(dtype_info(problem.dtype_k).name);
    if (value == "dtype_v") return std::string(dtype_info(problem.dtype_v).name);
    const double scale = problem.sm_scale / (problem.logits_soft_cap > 0 ? problem.logits_soft_cap : 1);
    if (value == "sm_scale") return number_text(scale);
    if (value == "sm_scale log2(e)") return number_text(scale * std::numbers::log2e);
    return std::string(value);
}

}  // namespace

std::span<const Family> all_families() {
    return families;
}

void declare_family(std::string_view family, Problem& problem, Units& units) {
    const auto found = std::ranges::find(families, family, &Family::name);
    if (found == std::end(families)) {
        std::string known;
        for (const Family& one : families) known += (known.empty() ? "" : ", ") + std::string(one.name);
        throw Error("is none of " + known, std::string(family), "dump/FORMAT.md says what they declare");
    }
    const bool backward = problem.direction == Direction::backward;
    if (backward && found->backward.empty())
        throw Error("is known of forward passes alone, and this is a backward one", std::string(family),
                    "declare what the kernel does one by one");
    for (const auto& [name, value, operands] : backward ? found->backward : found->declarations)
        if (applies(operands, problem.dtype_q))
            declare(*find_declaration(name), value_in(value, problem), problem, units);
}

}  // namespace tilescope::declarations
