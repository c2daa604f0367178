#include "kernels/run/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <future>
#include <thread>

#include "dump/schema/error.h"
#include "dump/writer.h"
#include "kernels/run/child_process.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

namespace {

struct SweepShape {
    std::int64_t sizes[5];  ///< batch, heads, seqlen_q, seqlen_kv, head_dim
    std::int64_t heads_kv;
};

// Tails of 0, 1 and block - 1, sequences shorter than a tile, more queries than keys and fewer, groups of
// query heads. The first one is the one that kernels are timed with.
constexpr SweepShape shapes[] = {
    {{2, 8, 512, 512, 64}, 8}, {{1, 4, 256, 256, 128}, 4}, {{2, 2, 128, 256, 64}, 2},
    {{1, 2, 65, 129, 64}, 2},  {{1, 3, 97, 191, 128}, 3},  {{1, 10, 40, 100, 64}, 2},
    {{1, 7, 130, 70, 64}, 1},  {{1, 5, 33, 7, 128}, 1},    {{1, 2, 1, 200, 64}, 2},
    {{1, 1, 1, 1, 128}, 1},    {{2, 4, 200, 333, 128}, 2}, {{3, 2, 63, 64, 64}, 1},
    {{1, 6, 192, 320, 64}, 3}, {{1, 2, 127, 255, 128}, 2},
};

struct SweepMask {
    bool causal;
    const char* alignment;
};
constexpr SweepMask masks[] = {{false, "bottom_right"}, {true, "bottom_right"}, {true, "top_left"}};

constexpr std::uint64_t seeds_of_a_problem = 3;
// A problem's first seed is random; the others take turns.
constexpr std::string_view other_inputs[] = {"ramped", "distinct_v", "negative", "large", "ties"};

/// Empty when the kernel's cases can be run as the options ask.
std::string why_not_here(const RunOptions& options, const KernelInfo& kernel) {
    const bool on_cpu = options.engine == "cpu" || (options.engine.empty() && !why_no_gpu().empty());
    if (!on_cpu) return why_no_gpu(kernel);
    return kernel.cpu.hooked == nullptr ? "it runs on a GPU only" : "";
}

std::string_view input_of(const KernelInfo& kernel, std::size_t problem, std::uint64_t seed) {
    if (seed == 0) return "random";
    const std::size_t turn = problem * (seeds_of_a_problem - 1) + std::size_t(seed - 1);
    const std::string_view name = other_inputs[turn % std::size(other_inputs)];
    return kernel.guarded && find_input_kind(name)->extreme ? "random" : name;
}

std::vector<KernelConfig> configs_for(const RunOptions& options, const KernelInfo& kernel,
                                      std::int64_t head_dim) {
    std::vector<KernelConfig> found;
    const FaultInfo* fault = find_fault(options.fault);
    const KernelConfig* faulty = fault == nullptr ? nullptr : faulty_config(kernel, *fault);
    for (const KernelConfig& config : kernel.configs) {
        const bool asked = options.config.empty() || options.config == config_name(config);
        const bool built = options.fault.empty() || (faulty != nullptr && config == *faulty);
        const bool runs = !config.wgmma || gpu_has_wgmma();
        if (config.head_dim == head_dim && asked && built && runs) found.push_back(config);
    }
    return found;
}

std::vector<SweepShape> shapes_for(const RunOptions& options) {
    if (options.shape.empty()) return {std::begin(shapes), std::end(shapes)};
    SweepShape shape{};
    std::ranges::copy(options.shape, shape.sizes);
    shape.heads_kv = options.heads_kv.value_or(shape.sizes[1]);
    return {shape};
}

void add_cases(const RunOptions& options, const KernelInfo& kernel, std::vector<RunRequest>& cases) {
    std::size_t problem = 0;
    for (const SweepShape& shape : shapes_for(options)) {
        const std::vector<KernelConfig> configs = configs_for(options, kernel, shape.sizes[4]);
        if (configs.empty()) continue;
        for (const SweepMask& mask : masks) {
            for (std::uint64_t seed = 0; seed < seeds_of_a_problem; ++seed) {
                RunOptions one = options;
                one.kernel = kernel.name;
                const KernelConfig& config = configs[(problem * seeds_of_a_problem + seed) % configs.size()];
                one.config = config_name(config);
                one.dtype = dtype_info(config.dtype).name;
                one.shape.assign(std::begin(shape.sizes), std::end(shape.sizes));
                one.heads_kv = shape.heads_kv;
                one.causal = mask.causal;
                one.causal_alignment = mask.alignment;
                one.input = input_of(kernel, problem, seed);
                one.seed = options.seed + problem * seeds_of_a_problem + seed;
                cases.push_back(make_request(one));
            }
            ++problem;
        }
    }
}

/// Runs and records a case; what goes wrong there is its judgement, and there is nothing to judge.
bool record(const std::string& file, SweepCase& one) {
    const auto start = std::chrono::steady_clock::now();
    try {
        const CapturedRun run = run_kernel(one.request);
        write_recording(file, run);
        one.judgement.summary = run.capture().ended;
    } catch (const Error& error) {
        one.judgement.summary = error.what();
    }
    one.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return one.judgement.summary == "completed";
}

}  // namespace

std::size_t SweepReport::passed() const {
    return std::size_t(std::ranges::count_if(cases, &SweepCase::passed));
}

std::size_t SweepReport::unjudged() const {
    return std::size_t(
        std::ranges::count_if(cases, [](const SweepCase& one) { return !one.judgement.judged; }));
}

const SweepCase* SweepReport::first_failure() const {
    const auto found = std::ranges::find_if(cases, [](const SweepCase& one) { return !one.passed(); });
    return found == cases.end() ? nullptr : &*found;
}

std::vector<RunRequest> sweep_cases(const RunOptions& options, std::vector<std::string>& left_out) {
    std::vector<RunRequest> cases;
    for (const KernelInfo& kernel : all_kernels()) {
        if (!options.kernel.empty() && options.kernel != kernel.name) continue;
        // A kernel that was asked for is refused by its first case.
        const std::string reason = options.kernel.empty() ? why_not_here(options, kernel) : "";
        if (reason.empty()) {
            add_cases(options, kernel, cases);
        } else {
            left_out.push_back(fmt::format("{}: {}", kernel.name, reason));
        }
    }
    if (!cases.empty()) return cases;
    if (!options.kernel.empty()) {
        // Says which of the names there is not.
        RunOptions one = options;
        if (one.shape.empty()) one.shape.assign(std::begin(shapes[0].sizes), std::end(shapes[0].sizes));
        make_request(one);
    }
    throw Error("no kernel has a case here", "sweep", "use --engine cpu, or a machine with an NVIDIA GPU");
}

SweepReport run_sweep(const SweepOptions& options,
                      const std::function<void(const SweepReport& report)>& done) {
    const std::string tile_diff = program_beside("tile-diff");
    SweepReport report;
    const std::vector<RunRequest> requests = sweep_cases(options.run, report.left_out);
    report.planned = requests.size();
    const ScratchFolder scratch("sweep");
    const auto start = std::chrono::steady_clock::now();
    const std::size_t jobs =
        options.jobs > 0 ? std::size_t(options.jobs) : std::max(1u, std::thread::hardware_concurrency() / 2);

    struct Waiting {
        SweepCase one;
        std::future<Judgement> judgement;  ///< not there where nothing was recorded
    };
    std::deque<Waiting> waiting;
    const auto take_first = [&] {
        Waiting first = std::move(waiting.front());
        waiting.pop_front();
        if (first.judgement.valid()) first.one.judgement = first.judgement.get();
        report.cases.push_back(std::move(first.one));
        done(report);
    };
    for (std::size_t number = 0; number < requests.size(); ++number) {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        if (options.time_budget > 0 && passed.count() > options.time_budget) break;
        Waiting next;
        next.one.request = requests[number];
        const std::string file = (scratch.path() / fmt::format("{}.h5", number)).string();
        if (record(file, next.one)) {
            next.judgement = std::async(std::launch::async, [tile_diff, file] {
                Judgement judgement = judge_recording(tile_diff, file);
                std::filesystem::remove(file);
                return judgement;
            });
        }
        waiting.push_back(std::move(next));
        if (waiting.size() >= jobs) take_first();
    }
    while (!waiting.empty()) take_first();
    return report;
}

}  // namespace tilescope
