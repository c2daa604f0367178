#pragma once

#include "dump/hook.h"

/// An attention call in float32: q and o are [heads][seqlen][head_dim], k and v [heads_kv][seqlen][head_dim].
struct Call {
    int heads;
    int heads_kv;
    int seqlen;
    int head_dim;
    float scale;
    const float* q;
    const float* k;
    const float* v;
    float* o;
};

constexpr int block_m = 32;      // rows of a query block
constexpr int block_n = 32;      // keys of a KV tile
constexpr int window_left = 24;  // keys to the left of its own that a row of the kernel window sees
constexpr float soft_cap = 5;    // of the kernel soft_cap

struct Kernel {
    const char* name;
    void (*run)(const Call& call TILESCOPE_HOST_SINK_PARAM(sink));
};

/// Null where there is no kernel of that name.
const Kernel* find_kernel(const char* name);
