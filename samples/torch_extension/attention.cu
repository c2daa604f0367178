// A small flash-attention kernel with hooks, for float16 and bfloat16: one thread a query row, K and V tiles
// in shared memory, softmax and accumulator in float32.

#include "samples/torch_extension/attention.h"

#include <stdexcept>

#include "dump/capture.h"
#include "dump/hook.h"
#include "samples/torch_extension/tile.cuh"

namespace {

constexpr int block_m = 64;
constexpr int block_n = 32;

struct Sizes {
    int heads;
    int heads_kv;
    int seqlen_q;
    int seqlen_kv;
    bool causal;
    float sm_scale;
};

template <class T, int head_dim>
__global__ void attention(const T* q, const T* k, const T* v, T* o, float* lse,
                          Sizes sizes TILESCOPE_SINK_PARAM(sink)) {
    __shared__ T k_tile[block_n * head_dim];
    __shared__ T v_tile[block_n * head_dim];
    const int q_block = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
    const int row = threadIdx.x, q_row = q_block * block_m + row;
    const int head_kv = head / (sizes.heads / sizes.heads_kv);
    const size_t q_rows = (size_t(batch) * sizes.heads + head) * sizes.seqlen_q;
    const size_t kv_rows = (size_t(batch) * sizes.heads_kv + head_kv) * sizes.seqlen_kv;
    const bool inside = q_row < sizes.seqlen_q;
    const T* my_q = q + (q_rows + (inside ? q_row : 0)) * head_dim;
    TILESCOPE_BLOCK(sink, batch, head, q_block);

    float m = -INFINITY, l = 0, acc[head_dim] = {};
    const int last_row = min((q_block + 1) * block_m, sizes.seqlen_q) - 1;
    const int keys = sizes.causal ? min(last_row + 1, sizes.seqlen_kv) : sizes.seqlen_kv;
    for (int tile = 0; tile * block_n < keys; ++tile) {
        __syncthreads();
        load_tile<T, block_n, head_dim>(k + kv_rows * head_dim, tile * block_n, sizes.seqlen_kv, k_tile);
        load_tile<T, block_n, head_dim>(v + kv_rows * head_dim, tile * block_n, sizes.seqlen_kv, v_tile);
        __syncthreads();
        TILESCOPE_TILE(k, tile, k_tile, head_dim, threadIdx.x, block_m);
        TILESCOPE_TILE(v, tile, v_tile, head_dim, threadIdx.x, block_m);

        float s[block_n], m_new = m;
        for (int j = 0; j < block_n; ++j) {
            const int key = tile * block_n + j;
            float sum = 0;
            for (int d = 0; d < head_dim; ++d) {
                sum = fmaf(to_float(my_q[d]), to_float(k_tile[j * head_dim + d]), sum);
            }
            const bool visible = key < sizes.seqlen_kv && (!sizes.causal || key <= q_row);
            s[j] = visible ? sum * sizes.sm_scale : -INFINITY;
            m_new = fmaxf(m_new, s[j]);
            TILESCOPE_VALUE(s, tile, row, j, s[j]);
        }
        // Key 0 is visible to every row, so the maximum is finite from the first tile on.
        const float rescale = expf(m - m_new);
        m = m_new;
        l *= rescale;
        for (int d = 0; d < head_dim; ++d) acc[d] *= rescale;
        for (int j = 0; j < block_n; ++j) {
            const float p = expf(s[j] - m);
            l += p;
            for (int d = 0; d < head_dim; ++d) acc[d] = fmaf(p, to_float(v_tile[j * head_dim + d]), acc[d]);
            TILESCOPE_VALUE(p, tile, row, j, p);
        }
        TILESCOPE_VALUE(m, tile, row, 0, m);
        TILESCOPE_VALUE(l, tile, row, 0, l);
        for (int d = 0; d < head_dim; ++d) TILESCOPE_VALUE(acc, tile, row, d, acc[d]);
    }
    if (!inside) return;
    for (int d = 0; d < head_dim; ++d) store(acc[d] / l, o + (q_rows + q_row) * head_dim + d);
    lse[q_rows + q_row] = m + logf(l);
}

template <class T, int head_dim>
void launch(const AttentionCall& call, const std::string& dump_path, cudaStream_t stream) {
    const Sizes sizes = {int(call.heads),     int(call.heads_kv), int(call.seqlen_q),
                         int(call.seqlen_kv), call.causal,        call.sm_scale};
    const dim3 grid(unsigned((call.seqlen_q + block_m - 1) / block_m), unsigned(call.heads),
                    unsigned(call.batch));
    tilescope::CaptureOptions options;
    options.provenance.producer = "samples/torch_extension";
    options.provenance.kernel = "attention";
    wait_for(stream);
    tilescope::Capture capture(problem_of(call, block_m, block_n), options);
    attention<T, head_dim><<<grid, block_m, 0, stream>>>(
        static_cast<const T*>(call.q), static_cast<const T*>(call.k), static_cast<const T*>(call.v),
        static_cast<T*>(call.o), call.lse, sizes TILESCOPE_SINK_ARG(capture.sink()));
    wait_for(stream);
    if (dump_path.empty()) return;
    capture.inputs(call.q, call.k, call.v);
    capture.outputs(call.o, call.lse);
    capture.save(dump_path);
}

template <class T>
void launch(const AttentionCall& call, const std::string& dump_path, cudaStream_t stream) {
    if (call.head_dim == 64) return launch<T, 64>(call, dump_path, stream);
    if (call.head_dim == 128) return launch<T, 128>(call, dump_path, stream);
    throw std::invalid_argument("head_dim is not 64 or 128");
}

}  // namespace

void run_attention(const AttentionCall& call, const std::string& dump_path, cudaStream_t stream) {
    if (call.dtype == tilescope::Dtype::f16) return launch<__half>(call, dump_path, stream);
    if (call.dtype == tilescope::Dtype::bf16) return launch<__nv_bfloat16>(call, dump_path, stream);
    throw std::invalid_argument("the dtype is not float16 or bfloat16");
}
