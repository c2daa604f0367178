// The kernels of samples/pipeline.

#include "samples/pipeline/kernels.cpp"

#include "tests/bench/mutants/run_call.h"

Shape shape_of(const std::string& call) {
    if (find_kernel(call.c_str()) == nullptr) return {.heads = 0};
    Shape shape{.heads = 4,
                .heads_kv = call == "grouped" ? 2 : 4,
                .seqlen_q = 100,
                .seqlen_kv = 100,
                .head_dim = 32,
                .block_m = block_m,
                .block_n = block_n,
                .sm_scale = 0.25};
    shape.causal = call == "causal" || call == "window";
    if (call == "window") shape.window_left = window_left;
    if (call == "soft_cap") shape.soft_cap = soft_cap;
    return shape;
}

void run(const std::string& call, const Shape& shape, const Arrays& of TILESCOPE_HOST_SINK_PARAM(sink)) {
    find_kernel(call.c_str())
        ->run({shape.heads, shape.heads_kv, shape.seqlen_q, shape.head_dim, Real(shape.sm_scale), of.q, of.k,
               of.v, of.o} TILESCOPE_SINK_ARG(sink));
}
