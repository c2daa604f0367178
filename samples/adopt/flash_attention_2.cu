// Launches FlashAttention-2's forward kernel of head_dim 64, float16, without PyTorch: flash-attention-2.md says how it is
// built, with and without hooks.
//
// usage: flash_attention_2 [BATCH HEADS HEADS_KV SEQLEN_Q SEQLEN_KV CAUSAL [FILE | tiles | statistics]]
//
// Without FILE it is timed; with `tiles` or `statistics` while hooks keep these of what TILESCOPE_SELECT names.
//
// The two macros below are all that the launch code of FlashAttention-2 takes from PyTorch.

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"

#define C10_CUDA_CHECK(expression) check(expression)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() check(cudaGetLastError())

inline void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

#include <flash_fwd_launch_template.h>

namespace {

constexpr int head_dim = 64;

struct Call {
    int batch = 1, heads = 4, heads_kv = 2, seqlen_q = 300, seqlen_kv = 430;
    bool causal = true;
};

/// [batch][seqlen][heads][head_dim], as FlashAttention has it.
struct Array {
    Array(int batch, int seqlen, int heads_, unsigned seed) : rows(seqlen), heads(heads_) {
        std::vector<__half> values(size_t(batch) * seqlen * heads * head_dim);
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        for (__half& value : values) value = __float2half_rn(normal(random));
        check(cudaMalloc(&data, values.size() * sizeof(__half)));
        check(cudaMemcpy(data, values.data(), values.size() * sizeof(__half), cudaMemcpyHostToDevice));
    }
    tilescope::StridedArray strided() const {
        return {data, std::int64_t(rows) * heads * head_dim, head_dim, std::int64_t(heads) * head_dim};
    }

    int rows;
    int heads;
    void* data = nullptr;
};

tilescope::Problem problem_of(const Call& call, double sm_scale) {
    tilescope::Problem problem;
    problem.batch = call.batch;
    problem.heads = call.heads;
    problem.heads_kv = call.heads_kv;
    problem.seqlen_q = call.seqlen_q;
    problem.seqlen_kv = call.seqlen_kv;
    problem.head_dim = problem.head_dim_v = head_dim;
    problem.block_m = problem.block_n = 128;  // kBlockM and kBlockN in run_mha_fwd_hdim64()
    problem.sm_scale = sm_scale;
    problem.mask = call.causal ? tilescope::Mask::causal : tilescope::Mask::none;
    problem.l_lanes = 4;  // row_sum is added up over the four lanes of a row at the end
    problem.l_lane_columns = 2;
    problem.dtype_p = tilescope::Dtype::f16;
    return problem;
}

/// Where the hooks stand: s after its mask and before the scale, p after exp2 and before its conversion.
tilescope::Units units() {
    tilescope::Units units;
    units.s_scaled = units.m_scaled = false;
    units.s_accumulation = units.acc_accumulation = tilescope::Accumulation::tensor_core_f32;
    units.p_exp = tilescope::ExpFunction::ex2_approx;  // exp2f() with -use_fast_math
    units.lse_empty_row = tilescope::EmptyRow::plus_infinity;
    units.kv_order = tilescope::KvOrder::reverse;
    return units;
}

flash::Flash_fwd_params params_of(const Call& call, const Array& q, const Array& k, const Array& v,
                                  const Array& o, float* lse) {
    flash::Flash_fwd_params params = {};
    params.q_ptr = q.data;
    params.k_ptr = k.data;
    params.v_ptr = v.data;
    params.o_ptr = o.data;
    params.softmax_lse_ptr = lse;
    params.q_row_stride = params.o_row_stride = q.heads * head_dim;
    params.k_row_stride = params.v_row_stride = k.heads * head_dim;
    params.q_head_stride = params.k_head_stride = params.v_head_stride = params.o_head_stride = head_dim;
    params.q_batch_stride = params.o_batch_stride = params.q_row_stride * q.rows;
    params.k_batch_stride = params.v_batch_stride = params.k_row_stride * k.rows;
    params.b = call.batch;
    params.h = call.heads;
    params.h_k = call.heads_kv;
    params.h_h_k_ratio = call.heads / call.heads_kv;
    params.seqlen_q = call.seqlen_q;
    params.seqlen_k = call.seqlen_kv;
    params.seqlen_q_rounded = (call.seqlen_q + 127) / 128 * 128;
    params.seqlen_k_rounded = (call.seqlen_kv + 127) / 128 * 128;
    params.d = params.d_rounded = head_dim;
    params.scale_softmax = 1 / std::sqrt(float(head_dim));
    params.scale_softmax_log2 = params.scale_softmax * float(M_LOG2E);
    params.p_dropout = params.rp_dropout = 1;
    params.p_dropout_in_uint8_t = 255;
    params.window_size_left = -1;
    params.window_size_right = call.causal ? 0 : -1;
    params.is_causal = call.causal;
    return params;
}

void launch(flash::Flash_fwd_params& params) {
    if (params.is_causal) {
        flash::run_mha_fwd_hdim64<cutlass::half_t, true>(params, nullptr);
    } else {
        flash::run_mha_fwd_hdim64<cutlass::half_t, false>(params, nullptr);
    }
}

/// Milliseconds of a launch: the median of 25 runs of 20.
double time_of(flash::Flash_fwd_params& params) {
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    std::vector<float> times;
    for (int run = 0; run < 25; ++run) {
        check(cudaEventRecord(begin));
        for (int i = 0; i < 20; ++i) launch(params);
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end));
        times.push_back(milliseconds / 20);
    }
    std::nth_element(times.begin(), times.begin() + 12, times.end());
    return times[12];
}

void run(const Call& call, const char* file) {
    const Array q(call.batch, call.seqlen_q, call.heads, 1), k(call.batch, call.seqlen_kv, call.heads_kv, 2),
        v(call.batch, call.seqlen_kv, call.heads_kv, 3), o(call.batch, call.seqlen_q, call.heads, 4);
    float* lse = nullptr;
    check(cudaMalloc(&lse, size_t(call.batch) * call.heads * call.seqlen_q * sizeof(float)));
    flash::Flash_fwd_params params = params_of(call, q, k, v, o, lse);
    if (file == nullptr) {
        std::printf("%.4f ms\n", time_of(params));
        return;
    }
    const bool statistics = std::strcmp(file, "statistics") == 0;
    tilescope::CaptureOptions options;
    options.units = units();
    if (statistics) options.mode = tilescope::SinkMode::statistics;
    tilescope::Capture capture(problem_of(call, params.scale_softmax), options);
    capture.inputs(q.strided(), k.strided(), v.strided());
    TILESCOPE_SINK_SET(params.sink, capture.sink());
    if (statistics || std::strcmp(file, "tiles") == 0) {
        std::printf("%.4f ms\n", time_of(params));
        return;
    }
    launch(params);
    capture.outputs(o.strided(), lse);
    capture.save(file);
}

}  // namespace

int main(int argc, char** argv) try {
    Call call;
    if (argc >= 7) {
        call.batch = std::atoi(argv[1]);
        call.heads = std::atoi(argv[2]);
        call.heads_kv = std::atoi(argv[3]);
        call.seqlen_q = std::atoi(argv[4]);
        call.seqlen_kv = std::atoi(argv[5]);
        call.causal = std::atoi(argv[6]) != 0;
    }
    run(call, argc == 8 ? argv[7] : nullptr);
} catch (const std::exception& error) {
    std::fprintf(stderr, "flash_attention_2: %s\n", error.what());
    return 2;
}
