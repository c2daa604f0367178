// Flash attention in plain CUDA for torch's load_inline, a thread a query row, with hooks and mistakes to plant.
// The lines with TILESCOPE are all that Tilescope adds; compiled without -DTILESCOPE_DUMP=1 they are nothing.

#include <torch/types.h>

#include <string>

#include "dump/hook.h"

constexpr int block_m = 64;
constexpr int block_n = 32;
constexpr int head_dim = 64;

enum Mistake { none, acc_not_rescaled, diagonal_one_right, tail_in_sum, v_of_next_key };

struct Call {
    int heads, group, seqlen_q, seqlen_kv;
    bool causal;
    float sm_scale;
    int mistake;
};

__global__ void attention_kernel(const float* q, const float* k, const float* v, float* o, float* lse,
                                 Call call TILESCOPE_SINK_PARAM(sink)) {
    const int q_block = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, row = threadIdx.x;
    const int query = q_block * block_m + row;
    const bool is_row = query < call.seqlen_q;
    const long long q_row = ((long long)batch * call.heads + head) * call.seqlen_q + query;
    const long long kv = ((long long)batch * (call.heads / call.group) + head / call.group) * call.seqlen_kv;
    TILESCOPE_BLOCK(sink, batch, head, q_block);

    float m = -INFINITY, l = 0, acc[head_dim] = {};
    const int end = call.causal ? min(call.seqlen_kv, (q_block + 1) * block_m) : call.seqlen_kv;
    for (int tile = 0; tile * block_n < end; ++tile) {
        float s[block_n], m_new = m;
        for (int j = 0; j < block_n; ++j) {
            const int key = tile * block_n + j;
            const bool inside = key < call.seqlen_kv;
            const int last = call.causal ? query + (call.mistake == diagonal_one_right) : call.seqlen_kv - 1;
            float sum = 0;
            for (int d = 0; d < head_dim; ++d)
                sum += is_row && inside ? q[q_row * head_dim + d] * k[(kv + key) * head_dim + d] : 0.0f;
            s[j] = inside && key <= last ? sum * call.sm_scale : -INFINITY;
            m_new = fmaxf(m_new, s[j]);
            TILESCOPE_VALUE(s, tile, row, j, s[j]);
        }
        const float rescale = expf(m - m_new);
        m = m_new;
        l *= rescale;
        for (float& value : acc) value *= call.mistake == acc_not_rescaled ? 1.0f : rescale;
        for (int j = 0; j < block_n; ++j) {
            const float p = expf(s[j] - m);
            const int key = tile * block_n + j, other = key + (call.mistake == v_of_next_key);
            TILESCOPE_VALUE(p, tile, row, j, p);
            l += call.mistake == tail_in_sum && key >= call.seqlen_kv ? expf(-m) : p;
            for (int d = 0; d < head_dim; ++d)
                acc[d] += other < call.seqlen_kv ? p * v[(kv + other) * head_dim + d] : 0.0f;
        }
        TILESCOPE_VALUE(m, tile, row, 0, m);
        TILESCOPE_VALUE(l, tile, row, 0, l);
        TILESCOPE_FRAGMENT(acc, tile, acc, Columns{row, 0, 1});
    }
    if (!is_row) return;
    for (int d = 0; d < head_dim; ++d) o[q_row * head_dim + d] = acc[d] / l;
    lse[q_row] = m + logf(l);
}

/// o and lse of q [batch][heads][seqlen_q][head_dim] and k, v [batch][heads_kv][seqlen_kv][head_dim], all float32; `sink` is
/// what a Recorder gives, or empty.
std::vector<at::Tensor> attention(at::Tensor q, at::Tensor k, at::Tensor v, bool causal, int64_t mistake,
                                  const std::string& sink) {
    const auto size = [](const at::Tensor& array, int i) { return int(array.size(i)); };
    at::Tensor o = at::empty_like(q);
    at::Tensor lse = at::empty({q.size(0), q.size(1), q.size(2)}, q.options());
    const Call call = {size(q, 1), size(q, 1) / size(k, 1),           size(q, 2),  size(k, 2),
                       causal,     1.0f / std::sqrt(float(head_dim)), int(mistake)};
    const dim3 grid((size(q, 2) + block_m - 1) / block_m, size(q, 1), size(q, 0));
    attention_kernel<<<grid, block_m>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
                                        o.data_ptr<float>(), lse.data_ptr<float>(),
                                        call TILESCOPE_SINK_ARG(TILESCOPE_SINK_OF(sink)));
    return {o, lse};
}
