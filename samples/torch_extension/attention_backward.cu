// The backward pass of attention.cu with hooks: delta, then dq, dk and dv by a block for each KV tile, then
// the conversion of dq. P and dS stay in float32.

#include <array>
#include <stdexcept>
#include <string_view>

#include "dump/capture.h"
#include "dump/hook.h"
#include "samples/torch_extension/tile.cuh"

namespace {

// Tiles of q, k, v and dout with head_dim 128, and those of P and dS, fit into 48 KiB of shared memory.
constexpr int block_m = 32;
constexpr int block_n = 32;

enum class Fault {
    none,
    delta_missing,      ///< ds = p dp
    delta_next_row,     ///< ds takes delta of the row below
    mask_missing,       ///< the recomputed scores are not masked
    scale_missing,      ///< dq is not multiplied with sm_scale
    group_overwritten,  ///< dk holds the last query head of its group only
    dv_uses_ds          ///< dv multiplies ds, not p
};

struct NamedFault {
    std::string_view name;
    Fault fault;
};
constexpr std::array<NamedFault, 7> faults = {{{"", Fault::none},
                                               {"delta_missing", Fault::delta_missing},
                                               {"delta_next_row", Fault::delta_next_row},
                                               {"mask_missing", Fault::mask_missing},
                                               {"scale_missing", Fault::scale_missing},
                                               {"group_overwritten", Fault::group_overwritten},
                                               {"dv_uses_ds", Fault::dv_uses_ds}}};

Fault fault_of(std::string_view name) {
    for (const NamedFault& named : faults) {
        if (named.name == name) return named.fault;
    }
    throw std::invalid_argument("there is no fault " + std::string(name));
}

template <class T>
struct Arguments {
    const T* q;
    const T* k;
    const T* v;
    const T* o;
    const T* dout;
    const float* lse;
    float* delta;
    float* dq_sum;
    T* dq;
    T* dk;
    T* dv;
    int heads;
    int heads_kv;
    int seqlen_q;
    int seqlen_kv;
    bool causal;
    float sm_scale;
    Fault fault;
};

/// A thread a row: delta = rowsum(dout o).
template <class T, int head_dim>
__global__ void compute_delta(Arguments<T> a TILESCOPE_SINK_PARAM(sink)) {
    const int q_block = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
    const int row = threadIdx.x, q_row = q_block * block_m + row;
    if (q_row >= a.seqlen_q) return;
    const size_t place = (size_t(batch) * a.heads + head) * a.seqlen_q + q_row;
    float sum = 0;
    for (int d = 0; d < head_dim; ++d) {
        sum = fmaf(to_float(a.dout[place * head_dim + d]), to_float(a.o[place * head_dim + d]), sum);
    }
    a.delta[place] = sum;
    TILESCOPE_BLOCK(sink, batch, head, q_block);
    TILESCOPE_VALUE(delta, 0, row, 0, sum);
}

template <int head_dim, class T>
__device__ float dot(const T* a, const T* b) {
    float sum = 0;
    for (int d = 0; d < head_dim; ++d) sum = fmaf(to_float(a[d]), to_float(b[d]), sum);
    return sum;
}

template <class T, int head_dim>
struct Tiles {
    T k[block_n * head_dim];
    T v[block_n * head_dim];
    T q[block_m * head_dim];
    T dout[block_m * head_dim];
    float p[block_m * block_n];
    float ds[block_m * block_n];
};

/// P and dS of one tile. `rows` is the place of the head's first row in lse and delta.
template <class T, int head_dim>
__device__ void compute_scores(const Arguments<T>& a, size_t rows, int batch, int head, int q_block,
                               int kv_tile, Tiles<T, head_dim>& tiles TILESCOPE_BLOCK_PARAM) {
    for (int i = threadIdx.x; i < block_m * block_n; i += blockDim.x) {
        const int row = i / block_n, col = i % block_n;
        const int q_row = q_block * block_m + row, key = kv_tile * block_n + col;
        const bool inside = q_row < a.seqlen_q && key < a.seqlen_kv;
        const bool masked = a.causal && key > q_row && a.fault != Fault::mask_missing;
        const size_t place = rows + (inside ? q_row : 0);
        size_t delta_place = place;
        if (a.fault == Fault::delta_next_row && inside && q_row + 1 < a.seqlen_q) ++delta_place;

        const float product = dot<head_dim>(&tiles.q[row * head_dim], &tiles.k[col * head_dim]);
        const float s = inside && !masked ? product * a.sm_scale : -INFINITY;
        const float p = expf(s - a.lse[place]);
        const float dp = dot<head_dim>(&tiles.dout[row * head_dim], &tiles.v[col * head_dim]);
        const float delta = a.fault == Fault::delta_missing ? 0 : a.delta[delta_place];
        const float ds = p * (dp - delta);
        tiles.p[i] = p;
        tiles.ds[i] = ds;
        TILESCOPE_VALUE(s, kv_tile, row, col, s);
        TILESCOPE_VALUE(p, kv_tile, row, col, p);
        TILESCOPE_VALUE(dp, kv_tile, row, col, dp);
        TILESCOPE_VALUE(ds, kv_tile, row, col, ds);
    }
}

/// A block a KV tile of a KV head, which walks the query blocks of the query heads of its group. Thread d
/// owns column d of dq, dk and dv.
template <class T, int head_dim>
__global__ void attention_backward(Arguments<T> a TILESCOPE_SINK_PARAM(sink)) {
    __shared__ Tiles<T, head_dim> tiles;
    const int kv_tile = blockIdx.x, head_kv = blockIdx.y, batch = blockIdx.z;
    const int group = a.heads / a.heads_kv, d = threadIdx.x;
    const size_t kv_rows = (size_t(batch) * a.heads_kv + head_kv) * a.seqlen_kv;
    load_tile<T, block_n, head_dim>(a.k + kv_rows * head_dim, kv_tile * block_n, a.seqlen_kv, tiles.k);
    load_tile<T, block_n, head_dim>(a.v + kv_rows * head_dim, kv_tile * block_n, a.seqlen_kv, tiles.v);

    float dk[block_n] = {}, dv[block_n] = {};
    // Rows above the tile's first key do not see it.
    const int first_block = a.causal ? kv_tile * block_n / block_m : 0;
    for (int head = head_kv * group; head < (head_kv + 1) * group; ++head) {
        const size_t rows = (size_t(batch) * a.heads + head) * a.seqlen_q;
        for (int q_block = first_block; q_block * block_m < a.seqlen_q; ++q_block) {
            TILESCOPE_BLOCK(sink, batch, head, q_block);
            __syncthreads();
            load_tile<T, block_m, head_dim>(a.q + rows * head_dim, q_block * block_m, a.seqlen_q, tiles.q);
            load_tile<T, block_m, head_dim>(a.dout + rows * head_dim, q_block * block_m, a.seqlen_q,
                                            tiles.dout);
            __syncthreads();
            TILESCOPE_TILE(q, kv_tile, tiles.q, head_dim, d, head_dim);
            TILESCOPE_TILE(dout, kv_tile, tiles.dout, head_dim, d, head_dim);
            TILESCOPE_TILE(k, kv_tile, tiles.k, head_dim, d, head_dim);
            TILESCOPE_TILE(v, kv_tile, tiles.v, head_dim, d, head_dim);
            compute_scores(a, rows, batch, head, q_block, kv_tile, tiles TILESCOPE_BLOCK_ARG);
            __syncthreads();

            const bool starts_anew = a.fault == Fault::group_overwritten && q_block == first_block;
            const float* dv_operand = a.fault == Fault::dv_uses_ds ? tiles.ds : tiles.p;
#pragma unroll
            for (int j = 0; j < block_n; ++j) dk[j] = starts_anew ? 0 : dk[j];
            for (int i = 0; i < block_m && q_block * block_m + i < a.seqlen_q; ++i) {
                const float q = to_float(tiles.q[i * head_dim + d]);
                const float dout = to_float(tiles.dout[i * head_dim + d]);
                float dq = 0;
#pragma unroll
                for (int j = 0; j < block_n; ++j) {
                    const float ds = tiles.ds[i * block_n + j];
                    dv[j] = fmaf(dv_operand[i * block_n + j], dout, dv[j]);
                    dk[j] = fmaf(ds, q, dk[j]);
                    dq = fmaf(ds, to_float(tiles.k[j * head_dim + d]), dq);
                }
                atomicAdd(&a.dq_sum[(rows + q_block * block_m + i) * head_dim + d], dq);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < block_n; ++j) {
        const int key = kv_tile * block_n + j;
        if (key >= a.seqlen_kv) break;
        store(dk[j] * a.sm_scale, a.dk + (kv_rows + key) * head_dim + d);
        store(dv[j], a.dv + (kv_rows + key) * head_dim + d);
    }
}

template <class T>
__global__ void convert_dq(Arguments<T> a, size_t elements) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= elements) return;
    const float scale = a.fault == Fault::scale_missing ? 1 : a.sm_scale;
    store(a.dq_sum[i] * scale, a.dq + i);
}

template <class T>
Arguments<T> arguments_of(const BackwardCall& call, Fault fault) {
    const AttentionCall& forward = call.forward;
    Arguments<T> a = {};
    a.q = static_cast<const T*>(forward.q);
    a.k = static_cast<const T*>(forward.k);
    a.v = static_cast<const T*>(forward.v);
    a.o = static_cast<const T*>(forward.o);
    a.dout = static_cast<const T*>(call.dout);
    a.lse = forward.lse;
    a.delta = call.delta;
    a.dq_sum = call.dq_sum;
    a.dq = static_cast<T*>(call.dq);
    a.dk = static_cast<T*>(call.dk);
    a.dv = static_cast<T*>(call.dv);
    a.heads = int(forward.heads);
    a.heads_kv = int(forward.heads_kv);
    a.seqlen_q = int(forward.seqlen_q);
    a.seqlen_kv = int(forward.seqlen_kv);
    a.causal = forward.causal;
    a.sm_scale = forward.sm_scale;
    a.fault = fault;
    return a;
}

template <class T, int head_dim>
void launch(const BackwardCall& call, Fault fault, const std::string& dump_path, cudaStream_t stream) {
    const AttentionCall& forward = call.forward;
    tilescope::Problem problem = problem_of(forward, block_m, block_n);
    problem.direction = tilescope::Direction::backward;
    problem.dtype_dout = problem.dtype_dq = problem.dtype_dk = problem.dtype_dv = forward.dtype;
    tilescope::CaptureOptions options;
    options.provenance.producer = "samples/torch_extension";
    options.provenance.kernel = "attention_backward";

    const Arguments<T> arguments = arguments_of<T>(call, fault);
    const unsigned heads = unsigned(forward.heads), batch = unsigned(forward.batch);
    const dim3 q_blocks(unsigned(problem.q_blocks()), heads, batch);
    const dim3 kv_tiles(unsigned(problem.kv_tiles()), unsigned(forward.heads_kv), batch);
    const size_t elements = size_t(forward.batch) * forward.heads * forward.seqlen_q * head_dim;
    constexpr int threads = 256;
    wait_for(stream);
    tilescope::Capture capture(problem, options);
    compute_delta<T, head_dim>
        <<<q_blocks, block_m, 0, stream>>>(arguments TILESCOPE_SINK_ARG(capture.sink()));
    attention_backward<T, head_dim>
        <<<kv_tiles, head_dim, 0, stream>>>(arguments TILESCOPE_SINK_ARG(capture.sink()));
    convert_dq<T><<<unsigned((elements + threads - 1) / threads), threads, 0, stream>>>(arguments, elements);
    wait_for(stream);
    if (dump_path.empty()) return;
    capture.inputs(forward.q, forward.k, forward.v);
    capture.backward_inputs(call.dout, forward.o, forward.lse);
    capture.gradients(call.dq, call.dk, call.dv);
    capture.save(dump_path);
}

template <class T>
void launch(const BackwardCall& call, Fault fault, const std::string& dump_path, cudaStream_t stream) {
    if (call.forward.head_dim == 64) return launch<T, 64>(call, fault, dump_path, stream);
    if (call.forward.head_dim == 128) return launch<T, 128>(call, fault, dump_path, stream);
    throw std::invalid_argument("head_dim is not 64 or 128");
}

}  // namespace

void run_attention_backward(const BackwardCall& call, const std::string& fault, const std::string& dump_path,
                            cudaStream_t stream) {
    const Fault planted = fault_of(fault);
    if (call.forward.dtype == tilescope::Dtype::f16) return launch<__half>(call, planted, dump_path, stream);
    if (call.forward.dtype == tilescope::Dtype::bf16)
        return launch<__nv_bfloat16>(call, planted, dump_path, stream);
    throw std::invalid_argument("the dtype is not float16 or bfloat16");
}
