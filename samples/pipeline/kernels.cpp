#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace {

/// What the online softmax keeps of the rows of a query block.
struct RowStates {
    explicit RowStates(int head_dim) : acc(std::size_t(block_m) * std::size_t(head_dim)) {
        std::fill(m, m + block_m, -INFINITY);
    }
    float m[block_m];       ///< maximum of the scores so far
    float l[block_m] = {};  ///< sum of exp(score - m)
    std::vector<float> acc;
};

float dot(const float* a, const float* b, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum = std::fma(a[i], b[i], sum);
    return sum;
}

/// A row of a query block with the keys of a KV tile. `score` is that of a row and a key, -inf where it does not see it.
template <class Score>
void attend_row(const Call& call, int head_kv, int query, int tile, RowStates& states,
                Score score TILESCOPE_BLOCK_PARAM) {
    const int row = query % block_m, first_key = tile * block_n;
    const int keys = std::min(block_n, call.seqlen - first_key);
    float s[block_n];
    float m = states.m[row];
    for (int j = 0; j < keys; ++j) {
        s[j] = score(query, first_key + j);
        m = std::max(m, s[j]);
        TILESCOPE_VALUE(s, tile, row, j, s[j]);
    }
    const bool sees_any = m > -INFINITY;
    const float rescale = sees_any ? std::exp(states.m[row] - m) : 1;
    float* const acc = &states.acc[std::size_t(row) * std::size_t(call.head_dim)];
    for (int d = 0; d < call.head_dim; ++d) acc[d] *= rescale;
    states.l[row] *= rescale;
    states.m[row] = m;
    for (int j = 0; j < keys; ++j) {
        const float p = sees_any ? std::exp(s[j] - m) : 0;
        const float* const v =
            call.v + std::size_t(head_kv * call.seqlen + first_key + j) * std::size_t(call.head_dim);
        states.l[row] += p;
        for (int d = 0; d < call.head_dim; ++d) acc[d] = std::fma(p, v[d], acc[d]);
        TILESCOPE_VALUE(p, tile, row, j, p);
    }
    TILESCOPE_VALUE(m, tile, row, 0, states.m[row]);
    TILESCOPE_VALUE(l, tile, row, 0, states.l[row]);
    for (int d = 0; d < call.head_dim; ++d) TILESCOPE_VALUE(acc, tile, row, d, acc[d]);
}

/// Flash attention. `sees` says whether a row sees a key, `capped` is what becomes of its score.
template <class Sees, class Capped>
void attend(const Call& call, Sees sees, Capped capped TILESCOPE_HOST_SINK_PARAM(sink)) {
    const std::size_t head_size = std::size_t(call.seqlen) * std::size_t(call.head_dim);
    for (int head = 0; head < call.heads; ++head) {
        const int head_kv = head / (call.heads / call.heads_kv);
        const float* const q = call.q + std::size_t(head) * head_size;
        const float* const k = call.k + std::size_t(head_kv) * head_size;
        float* const o = call.o + std::size_t(head) * head_size;
        const auto score = [&](int query, int key) {
            const float product = dot(q + query * call.head_dim, k + key * call.head_dim, call.head_dim);
            return sees(query, key) ? capped(product * call.scale) : -INFINITY;
        };
        for (int first = 0; first < call.seqlen; first += block_m) {
            TILESCOPE_BLOCK(sink, 0, head, first / block_m);
            RowStates states(call.head_dim);
            const int end = std::min(first + block_m, call.seqlen);
            for (int tile = 0; tile * block_n < call.seqlen; ++tile)
                for (int query = first; query < end; ++query)
                    attend_row(call, head_kv, query, tile, states, score TILESCOPE_BLOCK_ARG);
            for (int query = first; query < end; ++query)
                for (int d = 0; d < call.head_dim; ++d)
                    o[query * call.head_dim + d] =
                        states.acc[std::size_t((query - first) * call.head_dim + d)] /
                        states.l[query - first];
        }
    }
}

bool every_key(int, int) {
    return true;
}
bool keys_before(int query, int key) {
    return key <= query;
}
float as_it_is(float score) {
    return score;
}

void full(const Call& call TILESCOPE_HOST_SINK_PARAM(sink)) {
    attend(call, every_key, as_it_is TILESCOPE_SINK_ARG(sink));
}

void causal(const Call& call TILESCOPE_HOST_SINK_PARAM(sink)) {
    attend(call, keys_before, as_it_is TILESCOPE_SINK_ARG(sink));
}

/// Several query heads read the same KV head.
void grouped(const Call& call TILESCOPE_HOST_SINK_PARAM(sink)) {
    attend(call, every_key, as_it_is TILESCOPE_SINK_ARG(sink));
}

void window(const Call& call TILESCOPE_HOST_SINK_PARAM(sink)) {
    // Known issue, see known.txt: <= is right.
    const auto sees = [](int query, int key) { return key <= query && query - key < window_left; };
    attend(call, sees, as_it_is TILESCOPE_SINK_ARG(sink));
}

void soft_capped(const Call& call TILESCOPE_HOST_SINK_PARAM(sink)) {
    const auto capped = [](float score) { return soft_cap * std::tanh(score / soft_cap); };
    attend(call, every_key, capped TILESCOPE_SINK_ARG(sink));
}

constexpr Kernel kernels[] = {
    {"full", full}, {"causal", causal}, {"grouped", grouped}, {"window", window}, {"soft_cap", soft_capped}};

}  // namespace

const Kernel* find_kernel(const char* name) {
    for (const Kernel& kernel : kernels)
        if (std::strcmp(kernel.name, name) == 0) return &kernel;
    return nullptr;
}
