#include <benchmark/benchmark.h>

#include "oracle/reference.h"
#include "oracle/replay.h"
#include "oracle/tally.h"

namespace tilescope {
namespace {

Problem one_tile() {
    Problem problem;
    problem.seqlen_q = problem.seqlen_kv = problem.block_m = problem.block_n = 64;
    problem.head_dim = problem.head_dim_v = 64;
    problem.sm_scale = 0.125;
    return problem;
}

void scores_of_a_tile(benchmark::State& state) {
    const Problem problem = one_tile();
    const Operand q = make_operand(Matrix::Random(64, 64));
    const Operand k = make_operand(Matrix::Random(64, 64));
    for (auto _ : state) benchmark::DoNotOptimize(scores(problem, Units(), q, k));
    state.SetItemsProcessed(state.iterations() * 64 * 64);
}
BENCHMARK(scores_of_a_tile);

void replay_of_a_tile(benchmark::State& state) {
    const Problem problem = one_tile();
    const Operand q = make_operand(Matrix::Random(64, 64));
    const Operand k = make_operand(Matrix::Random(64, 64));
    const Matrix v = Matrix::Random(64, 64);
    const Units units;
    Replay replay(problem, units, 0, Stage::acc);
    for (auto _ : state) benchmark::DoNotOptimize(replay.step(0, {q, k, v}, {}));
    state.SetItemsProcessed(state.iterations() * 64 * 64);
}
BENCHMARK(replay_of_a_tile);

void comparison_of_a_tile(benchmark::State& state) {
    const Problem problem = one_tile();
    const Estimate expected =
        scores(problem, Units(), make_operand(Matrix::Random(64, 64)), make_operand(Matrix::Random(64, 64)));
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
