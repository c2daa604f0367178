// Runs a kernel, always on the same numbers, and saves what its hooks recorded.
//
// usage: record KERNEL   with TILESCOPE_DIR in the environment, saved there

#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "dump/recording/captured_run.h"
#include "dump/writer.h"
#include "kernels.h"

namespace {

/// What the kernel is to compute: tile-diff holds its stages against that.
tilescope::Problem problem_of(const std::string& kernel) {
    tilescope::Problem problem;
    problem.heads = 4;
    problem.heads_kv = kernel == "grouped" ? 2 : 4;
    problem.seqlen_q = problem.seqlen_kv = 100;
    problem.head_dim = problem.head_dim_v = 32;
    problem.block_m = block_m;
    problem.block_n = block_n;
    problem.sm_scale = 0.25f;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = tilescope::Dtype::f32;
    if (kernel == "causal" || kernel == "window") problem.mask = tilescope::Mask::causal;
    if (kernel == "window") problem.window_left = window_left;
    if (kernel == "soft_cap") problem.logits_soft_cap = soft_cap;
    return problem;
}

/// Between -1 and 1.
std::vector<float> numbers(std::int64_t count, unsigned seed) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = float(seed >> 8) / 8388608.0f - 1.0f;
    }
    return values;
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
    const auto* const first = reinterpret_cast<const std::byte*>(values.data());
    return {first, first + values.size() * sizeof(float)};
}

void record(const Kernel& kernel) {
    const tilescope::Problem problem = problem_of(kernel.name);
    const std::int64_t head_size = problem.seqlen_q * problem.head_dim;
    const std::vector<float> q = numbers(problem.heads * head_size, 1);
    const std::vector<float> k = numbers(problem.heads_kv * head_size, 2);
    const std::vector<float> v = numbers(problem.heads_kv * head_size, 3);
    std::vector<float> o(q.size());

    const tilescope::CapturePlan plan(problem, tilescope::Selection(), std::size_t(1) << 30);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    kernel.run({int(problem.heads), int(problem.heads_kv), int(problem.seqlen_q), int(problem.head_dim),
                float(problem.sm_scale), q.data(), k.data(), v.data(), o.data()},
               plan.sink(memory.data()));

    tilescope::Provenance provenance;
    provenance.kernel = kernel.name;
    tilescope::CapturedRun run(plan, std::move(memory), {}, provenance,
                               {bytes_of(q), bytes_of(k), bytes_of(v)});
    run.merge_output(tilescope::Stage::o, problem.dtype_o, bytes_of(o));
    tilescope::save_recording(std::string(kernel.name) + ".h5", run);
}

}  // namespace

int main(int argc, char** argv) try {
    const Kernel* const kernel = argc == 2 ? find_kernel(argv[1]) : nullptr;
    if (kernel == nullptr) {
        std::fprintf(stderr, "usage: record KERNEL\n");
        return 2;
    }
    record(*kernel);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "record: %s\n", error.what());
    return 2;
}
