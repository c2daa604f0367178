// A small attention kernel with hooks, and a mistake in it: what README.md beside it walks through.
// Build it with -DDEBUG_DUMP to record my_attention.h5; without, the hooks and the capture are nothing.

#include "dump/capture.h"
#include "dump/hook.h"
#include "dump/schema.h"

#include <cstdio>
#include <exception>
#include <vector>

constexpr int block_m = 32;  // one thread a row
constexpr int block_n = 32;
constexpr int head_dim = 64;

__global__ void my_attention(const float* q, const float* k, const float* v, float* o, int seqlen,
                             float sm_scale TILESCOPE_SINK_PARAM(sink)) {
    const int head = blockIdx.y, q_block = blockIdx.x, row = threadIdx.x;
    const size_t base = size_t(head) * seqlen * head_dim;
    const float* my_q = q + base + size_t(q_block * block_m + row) * head_dim;
    float m = -INFINITY, l = 0, acc[head_dim] = {};
    TILESCOPE_BLOCK(sink, 0, head, q_block);

    for (int tile = 0; tile < seqlen / block_n; ++tile) {
        float s[block_n], m_new = m;
        for (int j = 0; j < block_n; ++j) {
            const float* key = k + base + size_t(tile * block_n + j) * head_dim;
            s[j] = 0;
            for (int d = 0; d < head_dim; ++d) s[j] = fmaf(my_q[d], key[d], s[j]);
            s[j] *= sm_scale;
            m_new = fmaxf(m_new, s[j]);
            TILESCOPE_VALUE(s, tile, row, j, s[j]);
        }
        const float rescale = expf(m - m_new);
        m = m_new;
        l *= rescale;  // and acc? That is the mistake.
        for (int j = 0; j < block_n; ++j) {
            const float p = expf(s[j] - m);
            const float* value = v + base + size_t(tile * block_n + j) * head_dim;
            for (int d = 0; d < head_dim; ++d) acc[d] = fmaf(p, value[d], acc[d]);
            l += p;
            TILESCOPE_VALUE(p, tile, row, j, p);
        }
        TILESCOPE_VALUE(m, tile, row, 0, m);
        TILESCOPE_VALUE(l, tile, row, 0, l);
        for (int d = 0; d < head_dim; ++d) TILESCOPE_VALUE(acc, tile, row, d, acc[d]);
    }
    for (int d = 0; d < head_dim; ++d) o[base + size_t(q_block * block_m + row) * head_dim + d] = acc[d] / l;
}

namespace {

/// The same numbers on every machine, between -1 and 1; the keys grow, so that the row maximum rises.
std::vector<float> numbers(size_t count, unsigned seed, float growth) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float(seed >> 8) / 8388608.0f - 1.0f) * (1.0f + growth * float(i) / float(count));
    }
    return values;
}

float* on_device(const std::vector<float>& values) {
    float* copy = nullptr;
    cudaMalloc(&copy, values.size() * sizeof(float));
    cudaMemcpy(copy, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
    return copy;
}

void run() {
    const int heads = 2, seqlen = 128;
    const size_t elements = size_t(heads) * seqlen * head_dim;
    float* q = on_device(numbers(elements, 1, 0));
    float* k = on_device(numbers(elements, 2, 4));
    float* v = on_device(numbers(elements, 3, 0));
    float* o = on_device(std::vector<float>(elements));

    tilescope::Problem problem;
    problem.heads = problem.heads_kv = heads;
    problem.seqlen_q = problem.seqlen_kv = seqlen;
    problem.head_dim = problem.head_dim_v = head_dim;
    problem.block_m = block_m;
    problem.block_n = block_n;
    problem.sm_scale = 0.125f;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = tilescope::Dtype::f32;

    tilescope::Capture capture(problem);
    my_attention<<<dim3(seqlen / block_m, heads), block_m>>>(q, k, v, o, seqlen,
                                                             0.125f TILESCOPE_SINK_ARG(capture.sink()));
    capture.inputs(q, k, v);
    capture.outputs(o, nullptr);
    capture.save("my_attention.h5");
    for (float* array : {q, k, v, o}) cudaFree(array);
}

}  // namespace

int main() {
    try {
        run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "my_attention: %s\n", error.what());
        return 2;
    }
}
