// Runs a call of a subject, always on the same numbers. With DEBUG_DUMP it saves CALL.h5; without, it writes to FILE
// what the hooks of wide/ see, and the output.
//
// usage: record CALL   or   wide CALL FILE

#include "tests/bench/mutants/run_call.h"

#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

#ifdef DEBUG_DUMP
#include "dump/recording/captured_run.h"
#include "dump/writer.h"
#endif

namespace {

/// Between -1 and 1.
std::vector<Real> numbers(std::int64_t count, unsigned seed, const Shape& shape, double growth) {
    std::vector<Real> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        seed = seed * 1664525u + 1013904223u;
        const float grown = float(1 + growth * double(i) / double(count));
        const float value = (float(seed >> 8) / 8388608.0f - 1.0f) * grown;
        values[i] = shape.half ? Real(_Float16(value)) : Real(value);
    }
    return values;
}

struct Values {
    std::vector<Real> q, k, v, o;
    explicit Values(const Shape& shape)
        : q(numbers(std::int64_t(shape.heads) * shape.seqlen_q * shape.head_dim, 1, shape, 0)),
          k(numbers(std::int64_t(shape.heads_kv) * shape.seqlen_kv * shape.head_dim, 2, shape, shape.growth)),
          v(numbers(std::int64_t(shape.heads_kv) * shape.seqlen_kv * shape.head_dim, 3, shape, 0)),
          o(q.size()) {}
    Arrays arrays() { return {q.data(), k.data(), v.data(), o.data()}; }
};

#ifdef DEBUG_DUMP

tilescope::Problem problem_of(const Shape& shape) {
    tilescope::Problem problem;
    problem.heads = shape.heads;
    problem.heads_kv = shape.heads_kv;
    problem.seqlen_q = shape.seqlen_q;
    problem.seqlen_kv = shape.seqlen_kv;
    problem.head_dim = problem.head_dim_v = shape.head_dim;
    problem.block_m = shape.block_m;
    problem.block_n = shape.block_n;
    problem.sm_scale = float(shape.sm_scale);
    problem.mask = shape.causal ? tilescope::Mask::causal : tilescope::Mask::none;
    if (shape.window_left >= 0) problem.window_left = shape.window_left;
    if (shape.soft_cap > 0) problem.logits_soft_cap = shape.soft_cap;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o =
        shape.half ? tilescope::Dtype::f16 : tilescope::Dtype::f32;
    return problem;
}

template <class Stored>
std::vector<std::byte> bytes_as(const std::vector<Real>& values) {
    std::vector<Stored> stored;
    for (const Real value : values) stored.push_back(Stored(value));
    const auto* const first = reinterpret_cast<const std::byte*>(stored.data());
    return {first, first + stored.size() * sizeof(Stored)};
}

std::vector<std::byte> bytes_of(const std::vector<Real>& values, const Shape& shape) {
    return shape.half ? bytes_as<_Float16>(values) : bytes_as<float>(values);
}

int save(const std::string& call, const Shape& shape) {
    Values values(shape);
    const tilescope::Problem problem = problem_of(shape);
    const tilescope::CapturePlan plan(problem, tilescope::Selection(), std::size_t(1) << 30);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    run(call, shape, values.arrays(), plan.sink(memory.data()));
    tilescope::Provenance provenance;
    provenance.kernel = call;
    tilescope::CapturedRun run(
        plan, std::move(memory), {}, provenance,
        {bytes_of(values.q, shape), bytes_of(values.k, shape), bytes_of(values.v, shape)});
    run.merge_output(tilescope::Stage::o, problem.dtype_o, bytes_of(values.o, shape));
    tilescope::save_recording(call + ".h5", run);
    return 0;
}

#else

int save(const std::string& call, const Shape& shape, const char* file) {
    Values values(shape);
    wide::trace.sees(shape.block_m, shape.block_n, shape.seqlen_q, shape.seqlen_kv, shape.head_dim);
    run(call, shape, values.arrays());
    for (std::size_t i = 0; i < values.o.size(); ++i) {
        const int row = int(i / std::size_t(shape.head_dim));
        wide::trace.stages["output"][{0, row / shape.seqlen_q, 0, 0, row % shape.seqlen_q,
                                      int(i % std::size_t(shape.head_dim))}] = double(values.o[i]);
    }
    return wide::trace.write(file) ? 0 : 2;
}

#endif

}  // namespace

int main(int argc, char** argv) try {
    const Shape shape = argc > 1 ? shape_of(argv[1]) : Shape{.heads = 0};
    if (shape.heads == 0) return 2;
#ifdef DEBUG_DUMP
    return save(argv[1], shape);
#else
    return argc == 3 ? save(argv[1], shape, argv[2]) : 2;
#endif
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
}
