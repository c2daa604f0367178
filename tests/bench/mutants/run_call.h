#pragma once

// What a subject of bench_mutants.py says of itself in its call.cpp. It is compiled twice: with hooks and float, and, for
// the truth, with those of wide/ and every float of the subject turned into double.

#include <cstdint>
#include <string>

#include "dump/hook.h"

#ifdef DEBUG_DUMP
using Real = float;
#else
using Real = double;
#endif

/// A call of one batch entry. q and o are [heads][seqlen_q][head_dim], k and v [heads_kv][seqlen_kv][head_dim].
struct Shape {
    int heads = 1;
    int heads_kv = 1;
    int seqlen_q = 0;
    int seqlen_kv = 0;
    int head_dim = 0;
    int block_m = 0;
    int block_n = 0;
    double sm_scale = 1;
    bool causal = false;
    int window_left = -1;  ///< -1: none
    double soft_cap = 0;   ///< 0: none
    bool half = false;     ///< q, k, v and o are float16, whose numbers stand in the arrays
    double growth = 0;     ///< of the keys: the last are 1 + growth times as large as the first
};

struct Arrays {
    const Real* q;
    const Real* k;
    const Real* v;
    Real* o;
};

/// Shape::heads is 0 where there is no such call.
Shape shape_of(const std::string& call);

void run(const std::string& call, const Shape& shape, const Arrays& arrays TILESCOPE_HOST_SINK_PARAM(sink));
