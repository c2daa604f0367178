#include "kernels/run/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "dump/schema/error.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

namespace {

/// What the hooks of every bundled kernel can record beside the stages, in the order of their
/// TILESCOPE_NAMED_TILE. A run declares them where its selection names one.
const std::vector<NamedTile>& bundled_tiles() {
    // What l and acc are multiplied with at a KV tile: exp(m before it - m).
    static const std::vector<NamedTile> tiles = {{.name = "rescale"}};
    return tiles;
}

// Thread blocks are numbered with 32-bit integers, heads and batches with 16 bits of a grid.
constexpr std::int64_t largest_seqlen = std::int64_t(1) << 30;
constexpr std::int64_t largest_grid = 65535;

/// What is run where no kernel is named: the build says whether tensor cores are wanted.
std::string default_kernel(const RunOptions& options) {
#ifdef TILESCOPE_TENSOR_CORES
    if (options.engine != "cpu" && why_no_gpu().empty()) return "wmma";
#endif
    return "scalar";
}

const KernelInfo& requested_kernel(const RunOptions& options) {
    const KernelInfo* kernel = find_kernel(options.kernel);
    if (kernel != nullptr) return *kernel;
    std::vector<std::string_view> names;
    for (const KernelInfo& known : all_kernels()) names.push_back(known.name);
    throw Error("there is no kernel " + options.kernel, "--kernel",
                fmt::format("choose one of {}", fmt::join(names, ", ")));
}

void require_dtype(const KernelInfo& kernel, Dtype dtype) {
    std::vector<std::string_view> kernels;
    for (const KernelInfo& known : all_kernels()) {
        if (std::ranges::find(known.configs, dtype, &KernelConfig::dtype) == known.configs.end()) continue;
        if (&known == &kernel) return;
        kernels.push_back(known.name);
    }
    const std::string_view name = dtype_info(dtype).name;
    throw Error(fmt::format("{} is not built for {}", kernel.name, name), "--dtype",
                fmt::format("kernels that are: {}", fmt::join(kernels, ", ")));
}

KernelConfig requested_config(const RunOptions& options, const KernelInfo& kernel, std::int64_t head_dim) {
    const Dtype dtype = dtype_from_name(options.dtype).value();
    require_dtype(kernel, dtype);
    const double query_rows = double(options.shape[0]) * double(options.shape[1]) * double(options.shape[2]);
    const FaultInfo* fault = options.config.empty() ? find_fault(options.fault) : nullptr;
    const KernelConfig* faulty = fault == nullptr ? nullptr : faulty_config(kernel, *fault);
    if (faulty != nullptr && faulty->head_dim == head_dim && faulty->dtype == dtype) return *faulty;
    const KernelConfig* config =
        find_config(kernel.configs, options.config, head_dim, dtype,
                    std::int64_t(std::min(query_rows, 0x1p62)), options.engine != "cpu" && gpu_has_wgmma());
    if (config != nullptr) return *config;
    std::vector<std::string> names;
    for (const KernelConfig& known : kernel.configs) {
        if (known.head_dim == head_dim && known.dtype == dtype) names.push_back(config_name(known));
    }
    if (names.empty()) {
        throw Error(fmt::format("{} has no head_dim {}", kernel.name, head_dim), "--shape",
                    "use head_dim 64 or 128");
    }
    throw Error(
        fmt::format("{} has no configuration {} with head_dim {}", kernel.name, options.config, head_dim),
        "--config", fmt::format("choose one of {}", fmt::join(names, ", ")));
}

Fault requested_fault(const RunOptions& options, const KernelInfo& kernel, const KernelConfig& config) {
    if (options.fault.empty()) return Fault::none;
    const FaultInfo* fault = find_fault(options.fault);
    const KernelConfig* built = fault == nullptr ? nullptr : faulty_config(kernel, *fault);
    if (built == nullptr) {
        throw Error(fmt::format("{} has no fault {}", kernel.name, options.fault), "--fault",
                    "choose one that tile-run list shows for this kernel");
    }
    if (config != *built) {
        throw Error(fmt::format("{} is not built for {} with head_dim {} and {}", fault->name,
                                config_name(config), config.head_dim, dtype_info(config.dtype).name),
                    "--fault",
                    fmt::format("use --config {} with head_dim {} and {}", config_name(*built),
                                built->head_dim, dtype_info(built->dtype).name));
    }
    return fault->fault;
}

Problem requested_problem(const RunOptions& options, const KernelInfo& kernel, const KernelConfig& config) {
    Problem problem;
    problem.batch = options.shape[0];
    problem.heads = options.shape[1];
    problem.heads_kv = options.heads_kv.value_or(problem.heads);
    problem.seqlen_q = options.shape[2];
    problem.seqlen_kv = options.shape[3];
    problem.head_dim = problem.head_dim_v = options.shape[4];
    problem.block_m = config.block_m;
    problem.block_n = config.block_n;
    problem.sm_scale = float(1.0 / std::sqrt(double(problem.head_dim)));
    problem.mask = options.causal ? Mask::causal : Mask::none;
    problem.causal_alignment =
        options.causal_alignment == "top_left" ? CausalAlignment::top_left : CausalAlignment::bottom_right;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = kernel.quantises ? Dtype::e4m3 : config.dtype;
    problem.dtype_o = config.dtype;
    problem.dtype_p = dtype_p_of(kernel, config);
    problem.l_lanes = recorded_of(kernel, config).l_lanes;
    problem.l_lane_columns = recorded_of(kernel, config).l_lane_columns;
    if (config.splits > 1)
        problem.kv_tiles_per_split = (problem.kv_tiles() + config.splits - 1) / config.splits;

    validate(problem, options.heads_kv ? "--shape, --heads-kv" : "--shape");
    if (problem.seqlen_q > largest_seqlen || problem.seqlen_kv > largest_seqlen ||
        problem.batch > largest_grid || problem.heads > largest_grid) {
        throw Error(
            "the sizes are larger than a launch can have", "--shape",
            fmt::format("use at most {} batches and heads and {} rows", largest_grid, largest_seqlen));
    }
    return problem;
}

const InputKind& requested_input(const RunOptions& options) {
    const InputKind* input = find_input_kind(options.input);
    if (input != nullptr) return *input;
    std::vector<std::string_view> names;
    for (const InputKind& known : all_input_kinds()) names.push_back(known.name);
    throw Error("there is no input " + options.input, "--input",
                fmt::format("choose one of {}", fmt::join(names, ", ")));
}

/// Sets engine and notice.
void choose_engine(const RunOptions& options, RunRequest& request) {
    const KernelInfo& kernel = *request.kernel;
    const bool runs_on_cpu = kernel.cpu.hooked != nullptr;
    if (options.engine == "cpu") {
        if (!runs_on_cpu) {
            throw Error(fmt::format("{} runs on a GPU only", kernel.name), "--engine cpu",
                        "use --kernel scalar, or --engine cuda on a machine with a GPU");
        }
        request.engine = Engine::cpu;
        return;
    }
    const std::string reason = why_no_gpu();
    if (reason.empty()) {
        const std::string lacking = why_no_gpu(kernel);
        if (!lacking.empty()) throw Error(lacking);
        request.engine = Engine::cuda;
    } else if (options.engine == "cuda" || !runs_on_cpu) {
        throw Error(
            "it needs a GPU and there is none here (" + reason + ")", fmt::format("--kernel {}", kernel.name),
            runs_on_cpu ? "use --engine cpu, or a machine with an NVIDIA GPU"
                        : "run it on a machine with an NVIDIA GPU, or use --kernel scalar --engine cpu");
    } else {
        request.engine = Engine::cpu;
        request.notice = "no GPU (" + reason + "), so it ran on the CPU";
    }
}

/// Errors: Error for a fault that the CPU engine would not show.
void require_playable(const RunRequest& request) {
    if (request.engine == Engine::cuda || request.fault == Fault::none) return;
    const FaultInfo& fault = fault_info(request.fault);
    if (!fault.gpu_only) return;
    throw Error(fmt::format("{} is a race, which the CPU engine does not play", fault.name), "--fault",
                "run it with --engine cuda on a machine with an NVIDIA GPU");
}

/// Empty where none is asked for.
std::string requested_sink_file(const RunOptions& options) {
    if (options.sink_memory != SinkMemory::file) {
        if (options.sink_file.empty()) return "";
        throw Error("it belongs to --sink-memory file", "--sink-file", "add that or leave it out");
    }
    if (options.sink_mode == SinkMode::writers) {
        throw Error("a sink's file does not hold who wrote its elements", "--writers",
                    "use --sink-memory device or mapped, or leave it out");
    }
    return options.sink_file.empty() ? fmt::format("/dev/shm/tilescope-{}.sink", getpid())
                                     : options.sink_file;
}

}  // namespace

RunRequest make_request(const RunOptions& given) {
    RunOptions options = given;
    if (options.kernel.empty()) options.kernel = default_kernel(options);
    RunRequest request;
    request.kernel = &requested_kernel(options);
    if (options.shape.empty()) {
        throw Error("no shape is given", "--shape", "give batch,heads,seqlen_q,seqlen_kv,head_dim");
    }
    request.config = requested_config(options, *request.kernel, options.shape[4]);
    request.fault = requested_fault(options, *request.kernel, request.config);
    request.problem = requested_problem(options, *request.kernel, request.config);
    request.input = &requested_input(options);
    request.seed = options.seed;
    request.selection = options.select ? parse_selection(*options.select, "--select", bundled_tiles())
                                       : selection_from_environment(bundled_tiles());
    if (std::ranges::any_of(request.selection.stages, is_named))
        request.problem.named_tiles = bundled_tiles();
    request.sink_bytes = options.sink_bytes;
    request.sink_memory = options.sink_memory;
    request.sink_mode = options.sink_mode;
    choose_engine(options, request);
    require_playable(request);
    request.time_limit = std::chrono::milliseconds(std::int64_t(options.time_limit * 1000.0));
    request.sink_file = requested_sink_file(options);

    RunOptions complete = options;
    complete.config = config_name(request.config);
    complete.select = to_string(request.selection, bundled_tiles());
    request.command = command_line(complete, request.engine == Engine::cuda ? "cuda" : "cpu");
    return request;
}

AttentionArgs sizes_of(const Problem& problem) {
    AttentionArgs args;
    args.batch = int(problem.batch);
    args.heads = int(problem.heads);
    args.heads_kv = int(problem.heads_kv);
    args.seqlen_q = int(problem.seqlen_q);
    args.seqlen_kv = int(problem.seqlen_kv);
    args.products_pitch = products_pitch(problem.seqlen_kv);
    args.sm_scale = float(problem.sm_scale);
    args.causal = problem.mask == Mask::causal;
    args.causal_offset = problem.causal_alignment == CausalAlignment::bottom_right
                             ? int(problem.seqlen_kv - problem.seqlen_q)
                             : 0;
    return args;
}

std::string to_string(const Launch& launch) {
    return fmt::format("grid {}x{}x{}, {} threads, {} bytes of shared memory", launch.grid_x, launch.grid_y,
                       launch.grid_z, launch.threads, launch.shared_bytes);
}

}  // namespace tilescope
