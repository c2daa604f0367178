#include <benchmark/benchmark.h>

#include "oracle/formula/products.h"
#include "oracle/formula/vector_kernels.h"
#include "oracle/judge/tally.h"
#include "oracle/replay/replay.h"

namespace tilescope {
namespace {

HeadCall one_tile() {
    HeadCall call;
    Problem& problem = call.problem;
    problem.seqlen_q = problem.seqlen_kv = problem.block_m = problem.block_n = 64;
    problem.head_dim = problem.head_dim_v = 64;
    problem.sm_scale = 0.125;
    std::array<double, stage_count> elements;
    elements.fill(1e6);
    call.rounding = rounding_model(default_confidence, elements, {});
    return call;
}

Operand random_operand() {
    return {Matrix::Random(64, 64), 0};
}

void scores_of_a_tile(benchmark::State& state) {
    const HeadCall call = one_tile();
    const Operand q = random_operand();
    const Operand k = random_operand();
    for (auto _ : state) benchmark::DoNotOptimize(dumped_scores(call, 0, 0, q, k));
    state.SetItemsProcessed(state.iterations() * 64 * 64);
}
BENCHMARK(scores_of_a_tile);

void replay_of_a_tile(benchmark::State& state) {
    const HeadCall call = one_tile();
    const Operand q = random_operand();
    const Operand k = random_operand();
    const Operand v = random_operand();
    Replay replay(call, 0, Stage::acc, Replay::Source::inputs);
    for (auto _ : state) benchmark::DoNotOptimize(replay.step(0, {q, k, v}, {}));
    state.SetItemsProcessed(state.iterations() * 64 * 64);
}
BENCHMARK(replay_of_a_tile);

/// The float64 product alone, without bounds.
void product_of_a_tile(benchmark::State& state) {
    const std::int64_t head_dim = state.range(0);
    const Matrix q = Matrix::Random(64, head_dim);
    const Matrix k = Matrix::Random(64, head_dim);
    Matrix s = Matrix::Zero(64, 64);
    for (auto _ : state) add_product(q, k, true, s);
    state.counters["flop"] =
        benchmark::Counter(2.0 * 64 * 64 * double(head_dim), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(product_of_a_tile)->Arg(64)->Arg(128);

#ifdef TILESCOPE_HAS_BLAS
extern "C" void dgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k,
                       const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
                       const double* beta, double* c, const int* ldc);

/// The same by the BLAS that is installed.
void blas_product_of_a_tile(benchmark::State& state) {
    const int head_dim = int(state.range(0));
    const int tile = 64;
    const double one = 1;
    const Matrix q = Matrix::Random(tile, head_dim);
    const Matrix k = Matrix::Random(tile, head_dim);
    Matrix s = Matrix::Zero(tile, tile);
    // Column-major: the transposed product of transposed operands.
    for (auto _ : state) {
        dgemm_("T", "N", &tile, &tile, &head_dim, &one, k.data(), &head_dim, q.data(), &head_dim, &one,
               s.data(), &tile);
    }
    state.counters["flop"] =
        benchmark::Counter(2.0 * tile * tile * head_dim, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(blas_product_of_a_tile)->Arg(64)->Arg(128);
#endif

void exponentials_of_a_tile(benchmark::State& state) {
    const Matrix s = 20 * Matrix::Random(64, 64);
    const Matrix zero = Matrix::Zero(64, 64);
    const Matrix m = s.rowwise().maxCoeff();
    Matrix p(64, 64);
    const auto view = [](auto& x) { return View<double>{x.data(), x.rows(), x.cols(), x.cols()}; };
    const auto const_view = [](auto& x) {
        return View<const double>{x.data(), x.rows(), x.cols(), x.cols()};
    };
    for (auto _ : state) {
        vector_kernels().exponentials(const_view(s), const_view(zero), m.data(), zero.data(), {}, view(p),
                                      {});
        benchmark::DoNotOptimize(p.data());
    }
    state.SetItemsProcessed(state.iterations() * 64 * 64);
}
BENCHMARK(exponentials_of_a_tile);

void comparison_of_a_tile(benchmark::State& state) {
    const Estimate expected = dumped_scores(one_tile(), 0, 0, random_operand(), random_operand());
    const MatrixF got = expected.value.cast<float>();
    const TileContext context{.stage = Stage::s, .tile = {}};
    StageTally tally;
    for (auto _ : state) compare_tile(context, got, expected, nullptr, CompareOptions(), tally);
    if (tally.outside != 0) state.SkipWithError("the tile does not match");
    state.SetItemsProcessed(state.iterations() * 64 * 64);
}
BENCHMARK(comparison_of_a_tile);

}  // namespace
}  // namespace tilescope
