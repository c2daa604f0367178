// How well the error budgets discriminate: random healthy problems of every bundled kernel, on the GPU where
// there is one and otherwise on the CPU, judged by the oracle. oracle/ERROR_BUDGET.md shows its tables.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "kernels/run/options.h"
#include "kernels/run/run_kernel.h"
#include "oracle/formula/estimate.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/support/copied_recording.h"

namespace tilescope {
namespace {

/// Ratios from 1e-7 to 10, a hundred bins a decade.
class RatioHistogram {
 public:
    void add(double ratio) {
        const double place = (std::log10(std::max(ratio, 1e-7)) + 7) * bins_per_decade;
        ++bins_[std::size_t(std::clamp(place, 0.0, double(bins_.size() - 1)))];
        ++count_;
        largest_ = std::max(largest_, ratio);
    }
    void merge(const RatioHistogram& other) {
        for (std::size_t i = 0; i < bins_.size(); ++i) bins_[i] += other.bins_[i];
        count_ += other.count_;
        largest_ = std::max(largest_, other.largest_);
    }
    /// Upper end of the bin that holds the quantile; 0 without elements.
    double quantile(double q) const {
        std::int64_t seen = 0;
        for (std::size_t i = 0; i < bins_.size(); ++i) {
            seen += bins_[i];
            if (seen > 0 && double(seen) >= q * double(count_))
                return std::pow(10, double(i + 1) / bins_per_decade - 7);
        }
        return 0;
    }
    double largest() const { return largest_; }
    std::int64_t count() const { return count_; }

 private:
    static constexpr int bins_per_decade = 100;
    std::array<std::int64_t, 8 * bins_per_decade> bins_{};
    std::int64_t count_ = 0;
    double largest_ = 0;
};

struct StageFigures {
    std::int64_t compared = 0;
    std::int64_t exact = 0;    ///< elements that equal the expected value
    RatioHistogram used;       ///< error / budget of the others
    RatioHistogram sharpness;  ///< smallest relative change of an element that is flagged

    void add(const MatrixF& got, const Estimate& expected) {
        for (Eigen::Index i = 0; i < got.size(); ++i) {
            const double value = double(got.data()[i]);
            const double exact_value = expected.value.data()[i];
            const double budget = expected.error.data()[i];
            if (!std::isfinite(value) || !std::isfinite(exact_value)) continue;
            ++compared;
            const double error = std::abs(value - exact_value);
            if (error == 0) {
                ++exact;
            } else {
                used.add(error / budget);
            }
            // Away from the expected value; the other way takes twice the error more.
            if (value != 0) sharpness.add((budget - error) / std::abs(value));
        }
    }
    void merge(const StageFigures& other) {
        compared += other.compared;
        exact += other.exact;
        used.merge(other.used);
        sharpness.merge(other.sharpness);
    }
};

using Figures = std::array<StageFigures, stage_count>;

struct KernelFigures {
    int problems = 0;
    int diverged = 0;
    std::vector<std::string> failures;
    Figures stages;
    int replaced = 0;                                  ///< problems whose o was replaced
    std::map<std::string, std::pair<int, int>> nulls;  ///< what stands in place of o: flagged, and 1e-2 flags
};

RunOptions random_options(const KernelInfo& kernel, std::uint64_t seed) {
    std::mt19937_64 random(seed * 7919 + 13);
    const auto pick = [&](auto... choices) {
        const std::array<std::int64_t, sizeof...(choices)> all = {choices...};
        return all[random() % all.size()];
    };
    const auto between = [&](std::int64_t least, std::int64_t most) {
        return least + std::int64_t(random() % std::uint64_t(most - least + 1));
    };
    const std::int64_t head_dim = pick(64, 128);
    const std::int64_t heads_kv = pick(1, 1, 2);
    const std::int64_t heads = heads_kv * pick(1, 1, 2, 5, 7);
    std::vector<InputKind> kinds;
    for (const InputKind& kind : all_input_kinds()) {
        if (!kernel.guarded || !kind.extreme) kinds.push_back(kind);
    }
    std::vector<KernelConfig> configs;
    for (const KernelConfig& config : kernel.configs) {
        if (config.head_dim == head_dim) configs.push_back(config);
    }
    RunOptions options;
    options.kernel = kernel.name;
    const std::int64_t seqlen_kv = between(1, 400);
    const std::int64_t seqlen_q = between(1, 150);
    options.shape = {pick(1, 1, 2), heads, seqlen_q, seqlen_kv, head_dim};
    options.heads_kv = heads_kv;
    const KernelConfig& config = configs[random() % configs.size()];
    options.config = config_name(config);
    options.dtype = dtype_info(config.dtype).name;
    options.input = kinds[random() % kinds.size()].name;
    options.seed = seed;
    options.causal = pick(0, 1, 1) == 1;
    if (options.causal) options.causal_alignment = pick(0, 1) == 1 ? "top_left" : "bottom_right";
    return options;
}

/// Replaces every element of the output o.
template <class Value>
void replace_output(test::MemoryRecording& recording, Value value) {
    const Problem& p = recording.problem();
    for (std::int64_t i = 0; i < tile_count(p, Stage::o); ++i) {
        const TileId tile = tile_at(p, Stage::o, i);
        std::vector<float> o(std::size_t(tile_shape(p, Stage::o).elements()));
        if (!recording.read_tile(Stage::o, tile, o)) continue;
        const TileShape extent = tile_extent(p, Stage::o, tile);
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            for (std::int64_t d = 0; d < p.head_dim_v; ++d)
                o[std::size_t(row * p.head_dim_v + d)] = value(tile, d);
        }
        recording.set_tile(Stage::o, tile, o);
    }
}

float rounded(float value) {
    return decode(Dtype::f16, encode(Dtype::f16, value));
}

void null_tests(const Recording& run, KernelFigures& figures) {
    const Problem& p = run.problem();
    const auto column_mean = [&](const TileId& tile, std::int64_t d) {
        std::vector<float> v(std::size_t(p.seqlen_kv * p.head_dim_v));
        run.read_input(Input::v, tile.batch, p.head_kv(tile.head), 0, p.seqlen_kv, v);
        double sum = 0;
        for (std::int64_t key = 0; key < p.seqlen_kv; ++key)
            sum += double(v[std::size_t(key * p.head_dim_v + d)]);
        return rounded(float(sum / double(p.seqlen_kv)));
    };
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>> means;
    const auto cached_mean = [&](const TileId& tile, std::int64_t d) {
        std::vector<float>& row = means[{tile.batch, p.head_kv(tile.head)}];
        if (row.empty()) {
            for (std::int64_t i = 0; i < p.head_dim_v; ++i) row.push_back(column_mean(tile, i));
        }
        return row[std::size_t(d)];
    };
    const float middle = column_mean({}, 0);
    const auto count = [&](const char* what, auto value) {
        test::MemoryRecording changed = test::copy_of(run);
        replace_output(changed, value);
        JudgeOptions loose;
        loose.compare.atol = loose.compare.rtol = 1e-2;
        auto& [flagged, by_allclose] = figures.nulls[what];
        flagged += judge(changed, {}).verdict == Verdict::diverged;
        by_allclose += judge(changed, loose).verdict == Verdict::diverged;
    };
    count("zeros", [](const TileId&, std::int64_t) { return 0.0f; });
    count("a constant", [&](const TileId&, std::int64_t) { return middle; });
    count("V's column means", cached_mean);
}

void measure(const KernelInfo& kernel, std::uint64_t seed, bool nulls, KernelFigures& figures) {
    const RunOptions options = random_options(kernel, seed);
    const CapturedRun run = run_kernel(make_request(options));
    std::mutex mutex;
    JudgeOptions judging;
    judging.observe = [&](Stage stage, const TileId&, const MatrixF& got, const Estimate& expected) {
        StageFigures part;
        part.add(got, expected);
        const std::scoped_lock lock(mutex);
        figures.stages[std::size_t(stage)].merge(part);
    };
    const Report report = judge(run, judging);
    ++figures.problems;
    std::int64_t inherited = 0;
    for (const StageReport& stage : report.stages) inherited += stage.tally.inherited;
    if (report.verdict == Verdict::diverged || inherited > 0) {
        ++figures.diverged;
        figures.failures.push_back(run.provenance().command + ": " + verdict_line(report));
    }
    // Of a head whose k or v are zero, column means and a constant are what attention is.
    if (nulls && options.input != "zero_head") {
        null_tests(run, figures);
        ++figures.replaced;
    }
}

void print(const KernelInfo& kernel, const std::string& device, const KernelFigures& figures) {
    fmt::print("\n{} on {}: {} healthy problems, {} diverge\n", kernel.name, device, figures.problems,
               figures.diverged);
    for (const std::string& failure : figures.failures) fmt::print("  {}\n", failure);
    fmt::print(
        "stage   elements  exact  error/budget: median      99 %       max   flagged change: median    1 "
        "%\n");
    for (const StageInfo& info : stages_of(Direction::forward)) {
        const StageFigures& f = figures.stages[std::size_t(info.stage)];
        if (f.compared == 0) continue;
        fmt::print("{:<5} {:>10} {:>5.1f}% {:>21.3g} {:>9.3g} {:>9.3g} {:>24.3g} {:>8.3g}\n", info.name,
                   f.compared, 100 * double(f.exact) / double(f.compared), f.used.quantile(0.5),
                   f.used.quantile(0.99), f.used.largest(), f.sharpness.quantile(0.5),
                   f.sharpness.quantile(0.01));
    }
    for (const auto& [what, count] : figures.nulls) {
        fmt::print("o replaced by {} in {} problems: flagged {} times, by allclose(1e-2) {} times\n", what,
                   figures.replaced, count.first, count.second);
    }
}

int run(int problems, std::uint64_t first_seed, int nulls) {
    int diverged = 0;
    for (const KernelInfo& kernel : all_kernels()) {
        const bool gpu = why_no_gpu().empty();
        const std::string reason = why_no_gpu(kernel);
        if (gpu ? !reason.empty() : kernel.cpu.hooked == nullptr) {
            fmt::print("\n{}: not run ({})\n", kernel.name, reason);
            continue;
        }
        KernelFigures figures;
        std::string device;
        for (int i = 0; i < problems; ++i) measure(kernel, first_seed + std::uint64_t(i), i < nulls, figures);
        device = gpu ? "the GPU" : "the CPU";
        print(kernel, device, figures);
        diverged += figures.diverged;
    }
    return diverged == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    CLI::App app(
        "Runs random healthy problems of every kernel and prints how much of its budget each stage uses.");
    int problems = 120;
    int nulls = 40;
    std::uint64_t first_seed = 1000;
    app.add_option("--problems", problems, "problems of each kernel")->capture_default_str();
    app.add_option("--null-tests", nulls, "problems whose output is replaced as well")->capture_default_str();
    app.add_option("--first-seed", first_seed, "seed of the first problem")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        return tilescope::run(problems, first_seed, nulls);
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_budgets: {}\n", error.what());
        return 2;
    }
}
