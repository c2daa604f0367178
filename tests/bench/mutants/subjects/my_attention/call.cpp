// The CUDA kernel of samples/my_attention.cu, its threads one after another.

#include <cmath>

#include "tests/bench/mutants/run_call.h"

#define __global__
struct Index {
    int x = 0, y = 0;
};
static Index blockIdx, threadIdx;

#include "samples/my_attention.cu"

Shape shape_of(const std::string& call) {
    if (call != "full") return {.heads = 0};
    return {.heads = 2,
            .heads_kv = 2,
            .seqlen_q = 128,
            .seqlen_kv = 128,
            .head_dim = head_dim,
            .block_m = block_m,
            .block_n = block_n,
            .sm_scale = 0.125,
            .growth = 4};
}

void run(const std::string&, const Shape& shape, const Arrays& of TILESCOPE_HOST_SINK_PARAM(sink)) {
    for (blockIdx.y = 0; blockIdx.y < shape.heads; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < shape.seqlen_q / block_m; ++blockIdx.x)
            for (threadIdx.x = 0; threadIdx.x < block_m; ++threadIdx.x)
                my_attention(of.q, of.k, of.v, of.o, shape.seqlen_q,
                             Real(shape.sm_scale) TILESCOPE_SINK_ARG(sink));
}
