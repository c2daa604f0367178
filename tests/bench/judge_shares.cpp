// Where the time of tile-diff goes, on one thread: judge_shares RECORDING... judges each, then does again, alone, what
// judging it takes (reading, products, exponentials, comparisons), and shows how far that is from what this machine can.

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <utility>
#include <vector>

#include "dump/reader.h"
#include "oracle/formula/products.h"
#include "oracle/judge.h"
#include "oracle/replay/tiles.h"

#ifdef TILESCOPE_HAS_BLAS
extern "C" void openblas_set_num_threads(int threads);
extern "C" void dgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k,
                       const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
                       const double* beta, double* c, const int* ldc);
#endif

namespace tilescope {
namespace {

template <class Work>
double seconds_of(const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Calls visit(stage, tile) for everything that was captured.
template <class Visit>
void for_each_tile(const Recording& recording, const Visit& visit) {
    for (const StageInfo& info : stages_of(recording.problem())) {
        if (!recording.has_stage(info.stage)) continue;
        const std::int64_t tiles = tile_count(recording.problem(), info.stage);
        for (std::int64_t i = 0; i < tiles; ++i)
            visit(info.stage, tile_at(recording.problem(), info.stage, i));
    }
}

/// What is done of one kind.
struct Part {
    double seconds = 0;
    double amount = 0;  ///< bytes, floating-point operations, exponentials or elements
};

Part read_alone(const Recording& recording) {
    Part part;
    std::vector<float> values;
    part.seconds = seconds_of([&] {
        for_each_tile(recording, [&](Stage stage, const TileId& tile) {
            const TileShape shape = tile_shape(recording.problem(), stage);
            values.resize(std::size_t(shape.rows * shape.cols));
            if (recording.read_tile(stage, tile, values))
                part.amount += double(values.size() * sizeof(float));
        });
    });
    return part;
}

Part multiply_alone(const Recording& recording) {
    const Problem& problem = recording.problem();
    const bool sums = recording.has_stage(Stage::acc);
    const Matrix q = load_input(recording, Input::q, 0, 0, 0, problem.block_m);
    // Whole tiles alone.
    const std::int64_t whole = problem.kv_tiles() * problem.block_n;
    const Matrix keys = load_input(recording, Input::k, 0, 0, 0, whole);
    const Matrix values = load_input(recording, Input::v, 0, 0, 0, whole);
    std::vector<Packed> packed_keys;
    std::vector<Packed> packed_values;
    for (std::int64_t first = 0; first < whole; first += problem.block_n) {
        packed_keys.emplace_back().pack(keys.middleRows(first, problem.block_n), true);
        packed_values.emplace_back().pack(values.middleRows(first, problem.block_n), false);
    }
    RowNorms q_norms;
    q_norms.take(q);
    RowNorms s_norms;
    const SumBound bound{.per_partial_sum = 1e-7, .per_value = 1e-15};
    Matrix s(problem.block_m, problem.block_n);
    Matrix acc = Matrix::Zero(problem.block_m, problem.head_dim_v);
    Matrix s_error = s;
    Matrix acc_error = acc;
    Part part;
    part.seconds = seconds_of([&] {
        for (std::int64_t block = 0; block < problem.batch * problem.heads * problem.q_blocks(); ++block) {
            for (std::int64_t tile = 0; tile < problem.kv_tiles(); ++tile) {
                const PackedColumns k = packed_keys[std::size_t(tile)].columns();
                vector_kernels().sum_of_products(view(q), q_norms.chunks(), k, {}, bound, view(s),
                                                 view(s_error));
                part.amount += 2.0 * double(s.size() * q.cols());
                if (!sums) continue;
                // From the dumped stages, with bounds, and from the inputs, without.
                const PackedColumns v = packed_values[std::size_t(tile)].columns();
                s_norms.take(s);
                vector_kernels().sum_of_products(view(std::as_const(s)), s_norms.chunks(), v, {}, bound,
                                                 view(acc), view(acc_error));
                vector_kernels().add_product(view(std::as_const(s)), v, view(acc));
                part.amount += 4.0 * double(acc.size() * s.cols());
            }
        }
    });
    return part;
}

Part exponentials_alone(const Recording& recording) {
    Part part;
    if (!recording.has_stage(Stage::p)) return part;
    const Problem& problem = recording.problem();
    const Matrix s = 20 * Matrix::Random(problem.block_m, problem.block_n);
    const Matrix nothing = Matrix::Zero(s.rows(), s.cols());
    const Matrix m = s.rowwise().maxCoeff();
    Matrix p(s.rows(), s.cols());
    Matrix p_error(s.rows(), s.cols());
    part.seconds = seconds_of([&] {
        for (std::int64_t tile = 0; tile < tile_count(problem, Stage::p); ++tile) {
            vector_kernels().exponentials(view(s), view(nothing), m.data(), nothing.data(), {}, view(p),
                                          view(p_error));
            vector_kernels().exponentials(view(s), view(nothing), m.data(), nothing.data(), {}, view(p), {});
            part.amount += 2 * double(s.size());
        }
    });
    return part;
}

Part compare_alone(const Recording& recording) {
    Part part;
    std::array<MatrixF, stage_count> got;
    std::array<Matrix, stage_count> expected;
    std::array<Matrix, stage_count> tolerance;
    for (const StageInfo& info : stages_of(recording.problem())) {
        const TileShape shape = tile_shape(recording.problem(), info.stage);
        const auto i = static_cast<std::size_t>(info.stage);
        got[i] = MatrixF::Random(shape.rows, shape.cols);
        expected[i] = got[i].cast<double>() * (1 + 1e-7);
        tolerance[i] = Matrix::Constant(shape.rows, shape.cols, 1e-6);
    }
    double used = 0;
    part.seconds = seconds_of([&] {
        for_each_tile(recording, [&](Stage stage, const TileId&) {
            const auto i = static_cast<std::size_t>(stage);
            const std::size_t size = std::size_t(got[i].size());
            used = vector_kernels()
                       .match({got[i].data(), size}, expected[i].data(), tolerance[i].data(),
                              expected[i].data(), used)
                       .budget_used;
            part.amount += double(size);
        });
    });
    return part;
}

/// Of this machine, a second of one thread.
struct Limits {
    double bytes = 0;
    double operations = 0;
    double exponentials = 0;
};

double bytes_per_second(const std::string& path) {
    std::vector<char> room(1 << 20);
    double bytes = 0;
    const double seconds = seconds_of([&] {
        std::ifstream file(path, std::ios::binary);
        while (file.read(room.data(), std::streamsize(room.size())) || file.gcount() > 0)
            bytes += double(file.gcount());
    });
    return bytes / seconds;
}

/// 0 where no BLAS is installed.
double operations_per_second(int rounds) {
#ifdef TILESCOPE_HAS_BLAS
    openblas_set_num_threads(1);
    const int size = 512;
    const double one = 1;
    const Matrix a = Matrix::Random(size, size);
    Matrix product = Matrix::Zero(size, size);
    const double seconds = seconds_of([&] {
        for (int i = 0; i < rounds; ++i) {
            dgemm_("N", "N", &size, &size, &size, &one, a.data(), &size, a.data(), &size, &one,
                   product.data(), &size);
        }
    });
    return rounds * 2.0 * size * size * size / seconds;
#else
    return rounds * 0.0;
#endif
}

Limits limits_of(const std::string& path) {
    const int rounds = 20;
    const double operations = operations_per_second(rounds);
    const Matrix s = Matrix::Random(16, 64);
    const Matrix nothing = Matrix::Zero(16, 64);
    Matrix p(16, 64);
    const double exponentials = seconds_of([&] {
        for (int i = 0; i < 1000 * rounds; ++i)
            vector_kernels().exponentials(view(s), view(nothing), nothing.data(), nothing.data(), {}, view(p),
                                          {});
    });
    return {bytes_per_second(path), operations, 1000.0 * rounds * double(s.size()) / exponentials};
}

void show(const std::string& path) {
    const std::unique_ptr<Recording> recording = open_recording(path);
    JudgeOptions options;
    options.threads = 1;
    const double total = seconds_of([&] { judge(*recording, options); });
    const Limits limits = limits_of(path);
    struct Row {
        const char* name;
        Part part;
        double limit;
        double per;
        const char* unit;
    };
    const Row rows[] = {{"reading", read_alone(*recording), limits.bytes, 1e9, "GB/s"},
                        {"products", multiply_alone(*recording), limits.operations, 1e9, "GFLOP/s"},
                        {"exponentials", exponentials_alone(*recording), limits.exponentials, 1e6, "M/s"},
                        {"comparing", compare_alone(*recording), 0, 1e6, "M/s"}};
    fmt::print("{}: {:.2f} s on one thread, {}\n", path, total, vector_kernels().instruction_set);
    double known = 0;
    for (const Row& row : rows) {
        if (row.part.seconds == 0) continue;
        known += row.part.seconds;
        const double rate = row.part.amount / row.part.seconds;
        fmt::print("  {:<13}{:5.1f} %  {:8.1f} {}", row.name, 100 * row.part.seconds / total, rate / row.per,
                   row.unit);
        if (row.limit > 0)
            fmt::print(", {:.0f} % of this machine's {:.1f}", 100 * rate / row.limit, row.limit / row.per);
        fmt::print("\n");
    }
    fmt::print("  {:<13}{:5.1f} %\n", "the rest", 100 * (1 - known / total));
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fputs("usage: judge_shares RECORDING...\n", stderr);
        return 2;
    }
    try {
        for (int i = 1; i < argc; ++i) tilescope::show(argv[i]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "judge_shares: %s\n", error.what());
        return 2;
    }
    return 0;
}
