// Launches vLLM's fused QK-norm and rotary kernel for bfloat16, head_dim 128 and halves that are rotated against each other.
// vllm.md says how it is compiled: kernels.cuh is vLLM's file up to the function that takes tensors of PyTorch.

#include <cstdint>

#include <kernels.cuh>

extern "C" int qk_norm_rotary(void* qkv, const void* q_weight, const void* k_weight, const void* cos_sin,
                              const int64_t* positions, int tokens, int q_heads, int k_heads, int v_heads,
                              int rotary, int heads_per_warp) {
    tensorrt_llm::kernels::launchFusedQKNormRopeNTokenHeads<c10::BFloat16, c10::BFloat16>(
        qkv, tokens, q_heads, k_heads, v_heads, 128, rotary, 1e-6F, q_weight, k_weight, cos_sin, false,
        positions, heads_per_warp, nullptr);
    return static_cast<int>(cudaDeviceSynchronize());
}
