// Launches the forward kernel of CUTLASS's example 88_hopper_fmha for head_dim 64, float16: cutlass-hopper-fmha.md says how
// it is built, with and without hooks.
//
// usage: cutlass_hopper_fmha [BATCH HEADS SEQLEN_Q SEQLEN_KV CAUSAL [FILE]]   without FILE it is timed

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <collective/fmha_fusion.hpp>
#include <device/device_universal.hpp>
#include <kernel/fmha_kernel_builder.hpp>

#include "dump/capture.h"
#include "dump/hook.h"

namespace {

namespace fmha = cutlass::fmha;
using cute::_1;

constexpr int head_dim = 64, block_m = 128, block_n = 64;

struct Call {
    int batch = 1, heads = 4, seqlen_q = 304, seqlen_kv = 304;
    bool causal = true;
};

void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
void check(cutlass::Status status) {
    if (status != cutlass::Status::kSuccess) throw std::runtime_error(cutlassGetStatusString(status));
}

/// [batch][heads][seqlen][head_dim]
cutlass::half_t* random_array(int rows, unsigned seed) {
    std::vector<cutlass::half_t> values(size_t(rows) * head_dim);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (cutlass::half_t& value : values) value = cutlass::half_t(normal(random));
    cutlass::half_t* array = nullptr;
    check(cudaMalloc(&array, values.size() * sizeof(values[0])));
    check(cudaMemcpy(array, values.data(), values.size() * sizeof(values[0]), cudaMemcpyHostToDevice));
    return array;
}

tilescope::Problem problem_of(const Call& call) {
    tilescope::Problem problem;
    problem.batch = call.batch;
    problem.heads = problem.heads_kv = call.heads;
    problem.seqlen_q = call.seqlen_q;
    problem.seqlen_kv = call.seqlen_kv;
    problem.head_dim = problem.head_dim_v = head_dim;
    problem.block_m = block_m;
    problem.block_n = block_n;
    problem.sm_scale = 1 / std::sqrt(float(head_dim));
    problem.mask = call.causal ? tilescope::Mask::causal : tilescope::Mask::none;
    problem.causal_alignment = tilescope::CausalAlignment::top_left;
    problem.l_lanes = 4;  // a_sum is added up over the four lanes of a row in tail()
    problem.l_lane_columns = 2;
    problem.dtype_p = tilescope::Dtype::f16;
    return problem;
}

/// Where the hooks stand: s before the mask and the scale, p after exp2 and before its conversion.
tilescope::Units units() {
    tilescope::Units units;
    units.s_scaled = units.s_masked = units.m_scaled = false;
    units.s_accumulation = units.acc_accumulation = tilescope::Accumulation::tensor_core_f32;
    units.p_exp = tilescope::ExpFunction::ex2_approx;  // exp2f() with --use_fast_math
    units.lse_empty_row = tilescope::EmptyRow::plus_infinity;
    return units;
}

/// Milliseconds of a launch: the median of 25 runs of 20.
template <class Launch>
double time_of(const Launch& launch) {
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    std::vector<float> times;
    for (int run = 0; run < 25; ++run) {
        check(cudaEventRecord(begin));
        for (int i = 0; i < 20; ++i) launch();
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end));
        times.push_back(milliseconds / 20);
    }
    std::nth_element(times.begin(), times.begin() + 12, times.end());
    return times[12];
}

template <class Fusion>
void run(const Call& call, const char* file) {
    using Stride = cute::tuple<int, _1, cute::tuple<int, int>>;
    using Operation = cutlass::device::Universal<typename fmha::kernel::FmhaBuilder<
        cutlass::half_t, float, float, cute::Shape<cute::_128, cute::_64, cute::_64>, Stride, Stride, Stride,
        Fusion, cutlass::gemm::KernelTmaWarpSpecializedCooperative>::Kernel>;
    const int rows_q = call.batch * call.heads * call.seqlen_q,
              rows_kv = call.batch * call.heads * call.seqlen_kv;
    cutlass::half_t *q = random_array(rows_q, 1), *k = random_array(rows_kv, 2),
                    *v = random_array(rows_kv, 3), *o = random_array(rows_q, 4);
    float* lse = nullptr;
    check(cudaMalloc(&lse, rows_q * sizeof(float)));
    const auto stride = [&](int rows) {
        return cute::make_stride(head_dim, _1{},
                                 cute::make_stride(call.heads * rows * head_dim, rows * head_dim));
    };
    const Stride stride_q = stride(call.seqlen_q), stride_kv = stride(call.seqlen_kv);
    typename Operation::Arguments arguments{
        {call.batch, call.heads, call.seqlen_q, call.seqlen_kv, head_dim},
        {q, stride_q, k, stride_kv, v, stride_kv},
        {o, stride_q, lse,
         cute::make_stride(_1{}, cute::make_stride(call.heads * call.seqlen_q, call.seqlen_q))},
        cutlass::KernelHardwareInfo()};
    Operation operation;
    check(operation.can_implement(arguments));
    check(operation.initialize(arguments, nullptr));
    if (file == nullptr) {
        std::printf("%.4f ms\n", time_of([&] { check(operation.run()); }));
        return;
    }
    tilescope::CaptureOptions options;
    options.units = units();
    tilescope::Capture capture(problem_of(call), options);
    capture.inputs(q, k, v);
    TILESCOPE_ARM(capture, cutlass::fmha::collective::fmha_sink);
    check(operation.run());
    capture.outputs(o, lse);
    capture.save(file);
}

}  // namespace

int main(int argc, char** argv) try {
    Call call;
    if (argc >= 6) {
        call.batch = std::atoi(argv[1]);
        call.heads = std::atoi(argv[2]);
        call.seqlen_q = std::atoi(argv[3]);
        call.seqlen_kv = std::atoi(argv[4]);
        call.causal = std::atoi(argv[5]) != 0;
    }
    const char* const file = argc == 7 ? argv[6] : nullptr;
    if (call.causal) {
        run<fmha::collective::CausalFusion>(call, file);
    } else {
        run<fmha::collective::ResidualFusion>(call, file);
    }
} catch (const std::exception& error) {
    std::fprintf(stderr, "cutlass_hopper_fmha: %s\n", error.what());
    return 2;
}
