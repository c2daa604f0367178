// A kernel of samples/pipeline in float64, on the numbers that its record.cpp gives it; writes what the hooks see, and o.
// Compiled by bench_mutants.py with every float of kernels.h and kernels.cpp turned into double.
//
// usage: pipeline_wide KERNEL FILE

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "samples/pipeline/kernels.h"

namespace {

std::vector<double> numbers(std::int64_t count, unsigned seed) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = float(seed >> 8) / 8388608.0f - 1.0f;
    }
    return values;
}

}  // namespace

int main(int argc, char** argv) {
    const Kernel* const kernel = argc == 3 ? find_kernel(argv[1]) : nullptr;
    if (kernel == nullptr) return 2;
    constexpr int heads = 4, seqlen = 100, head_dim = 32;
    const int heads_kv = argv[1] == std::string("grouped") ? 2 : 4;
    const std::vector<double> q = numbers(std::int64_t(heads) * seqlen * head_dim, 1);
    const std::vector<double> k = numbers(std::int64_t(heads_kv) * seqlen * head_dim, 2);
    const std::vector<double> v = numbers(std::int64_t(heads_kv) * seqlen * head_dim, 3);
    std::vector<double> o(q.size());
    kernel->run({heads, heads_kv, seqlen, head_dim, 0.25, q.data(), k.data(), v.data(), o.data()});
    for (std::size_t i = 0; i < o.size(); ++i) {
        wide::trace.block = {0, int(i / (seqlen * head_dim)), 0};
        wide::trace.set("o", 0, int(i / head_dim % seqlen), int(i % head_dim), o[i]);
    }
    return wide::trace.write(argv[2]) ? 0 : 2;
}
