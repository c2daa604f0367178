#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "dump/schema/dtype.h"
#include "kernels/gate/measure.h"
#include "kernels/gate/sampling.h"
#include "kernels/gate/timing.cuh"

namespace tilescope {

namespace {

// The arrays of all copies together are this many times the L2: a copy is gone from it when its turn comes.
constexpr double times_l2 = 2;
constexpr std::size_t least_copies = 2;

std::vector<std::int64_t> parse_shape(const std::string& text) {
    std::vector<std::int64_t> shape;
    const char* at = text.data();
    const char* end = at + text.size();
    for (;;) {
        std::int64_t size = 0;
        const auto [rest, status] = std::from_chars(at, end, size);
        if (status != std::errc()) break;
        shape.push_back(size);
        at = rest;
        if (at == end || *at != ',') break;
        ++at;
    }
    if (shape.size() != 5 || at != end) {
        throw Error("'" + text + "' is not five sizes", "--shape",
                    "give batch,heads,seqlen_q,seqlen_kv,head_dim");
    }
    return shape;
}

RunRequest request_of(const MeasureOptions& options, const std::string& shape, const std::string& mask) {
    RunOptions run;
    run.kernel = options.kernel;
    run.config = options.config;
    run.shape = parse_shape(shape);
    run.dtype = options.dtype;
    run.heads_kv = options.heads_kv;
    run.causal = mask == "causal";
    run.seed = options.seed;
    run.engine = "cuda";
    const RunRequest request = make_request(run);
    if (request.kernel->cuda.plain == nullptr) {
        throw Error("it has no build without hooks", "--kernel " + options.kernel, "choose another kernel");
    }
    return request;
}

/// Inputs and outputs, as many times as it takes to keep the L2 from holding a copy until it is read again.
std::vector<std::unique_ptr<DeviceArrays>> make_copies(const RunRequest& request) {
    const RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
    const std::size_t bytes = inputs.q.size() + inputs.k.size() + inputs.v.size();
    const double l2 = device_attribute(cudaDevAttrL2CacheSize);
    const auto wanted = std::size_t(times_l2 * l2 / double(bytes)) + 1;
    std::vector<std::unique_ptr<DeviceArrays>> copies(std::max(least_copies, wanted));
    for (auto& copy : copies) copy = std::make_unique<DeviceArrays>(request, inputs, std::byte(0xff));
    return copies;
}

/// Errors: Error when a copy's output was left as it was.
void require_outputs(const RunRequest& request, const std::vector<std::unique_ptr<DeviceArrays>>& copies) {
    for (const auto& copy : copies) {
        const std::vector<std::byte> o = copy->o.to_host();
        if (o != std::vector<std::byte>(o.size(), std::byte(0xff))) continue;
        throw Error("a launch of the graph wrote no output", "--kernel " + std::string(request.kernel->name),
                    "run it with tile-run and judge it with tile-diff");
    }
}

Samples measure(const RunRequest& request, const MeasureOptions& options) {
    const auto copies = make_copies(request);
    const auto launch = [&](const DeviceArrays& arrays) {
        request.kernel->cuda.plain->launch(arrays.args, request.config, Fault::none, Sink());
    };
    // What a kernel sets up at its first launch is not part of a graph.
    launch(*copies.front());
    check_cuda(cudaDeviceSynchronize(), "running the kernel");
    const Graph graph([&] {
        for (const auto& copy : copies) launch(*copy);
    });
    if (graph.nodes() < copies.size()) {
        throw Error("its launches are not in the graph", "--kernel " + options.kernel,
                    "launch it in the default stream of the thread");
    }
    Samples samples = time_graph(graph, copies.size(), options);
    require_outputs(request, copies);
    return samples;
}

std::string mask_name(const Problem& problem) {
    if (problem.mask == Mask::none) return "none";
    return problem.seqlen_q == problem.seqlen_kv ? "causal" : "causal_bottom_right";
}

/// The kernel, and its configuration where one was asked for: otherwise it chooses one for each shape.
std::string implementation_of(const RunRequest& request, const MeasureOptions& options) {
    const std::string kernel(request.kernel->name);
    return options.config.empty() ? kernel : kernel + "_" + config_name(request.config);
}

std::string rows_of(const RunRequest& request, const MeasureOptions& options, const Samples& samples) {
    const Problem& problem = request.problem;
    const std::string key =
        fmt::format("{},{},{},{},{},{},{},{},{}", implementation_of(request, options),
                    dtype_info(problem.dtype_q).name, problem.batch, problem.heads, problem.heads_kv,
                    problem.seqlen_q, problem.seqlen_kv, problem.head_dim, mask_name(problem));
    return sample_rows(key, samples);
}

std::string head() {
    return metadata_lines(
               fmt::format("events around replays of a CUDA graph, inputs rotated, {:g} x L2", times_l2)) +
           "implementation,dtype,batch,heads,heads_kv,seqlen_q,seqlen_kv,head_dim,mask,sample,launches,"
           "sm_clock_mhz,latency_us\n";
}

}  // namespace

std::string measure_latencies(const MeasureOptions& options) {
    const std::string no_gpu = why_no_gpu();
    if (!no_gpu.empty()) {
        throw Error("it needs a GPU and there is none here (" + no_gpu + ")", "measure",
                    "run it on a machine with an NVIDIA GPU");
    }
    // Everything that can be refused is refused before anything runs.
    std::vector<RunRequest> requests;
    for (const std::string& shape : options.shapes) {
        for (const std::string& mask : options.masks) requests.push_back(request_of(options, shape, mask));
    }
    std::string text = head();
    for (const RunRequest& request : requests) text += rows_of(request, options, measure(request, options));
    return text;
}

}  // namespace tilescope
