#include "kernels/run/run_kernel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

KernelRun run_kernel(const RunRequest& request, RunInputs inputs, const MemoryFill& fill, TilesLie tiles) {
    return request.engine == Engine::cuda ? run_on_cuda(request, std::move(inputs), fill, tiles)
                                          : run_on_cpu(request, std::move(inputs), fill);
}

CapturedRun run_kernel(const RunRequest& request) {
    require_memory(request, 0, TilesLie::in_place);
    RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
    return run_kernel(request, std::move(inputs), MemoryFill(), TilesLie::in_place).recording;
}

std::string why_no_gpu(const KernelInfo& kernel) {
    const std::string reason = why_no_gpu();
    return reason.empty() && kernel.cuda.why_not_here != nullptr ? kernel.cuda.why_not_here() : reason;
}

void require_memory(const RunRequest& request, int kept, TilesLie tiles) {
    const Problem& problem = request.problem;
    const double mebibyte = double(1 << 20);
    const double captured =
        double(CapturePlan(problem, request.selection, request.sink_bytes, request.sink_mode).bytes());
    const double o = double(output_bytes(problem, Stage::o, problem.dtype_o));
    double inputs = 0;
    for (Input input : {Input::q, Input::k, Input::v}) inputs += double(input_bytes(problem, input));
    // Who runs again keeps the inputs, and compares outputs as float32.
    const bool on_gpu = request.engine == Engine::cuda && request.sink_memory == SinkMemory::device;
    const int held = tiles == TilesLie::in_place && on_gpu ? 0 : 1 + kept;
    const double needed = held * captured + (2 + 2 * kept) * inputs + (1 + 5 * kept) * o;
    const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
    if (needed > 0.9 * memory) {
        throw Error(fmt::format("the run needs {:.0f} MiB of memory and this machine has {:.0f}",
                                needed / mebibyte, memory / mebibyte),
                    "--shape", "choose a smaller shape, --select fewer tiles or lower --sink-bytes");
    }
}

std::string time_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts = {};
    gmtime_r(&now, &parts);
    char text[sizeof "2000-01-01T00:00:00Z"];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

Provenance provenance_of(const RunRequest& request) {
    Provenance provenance;
    provenance.producer = "tile-run " TILESCOPE_VERSION;
    provenance.kernel = request.kernel->name;
    if (request.fault != Fault::none) {
        provenance.kernel += " with fault " + std::string(fault_info(request.fault).name);
    }
    provenance.command = request.command;
    provenance.time = time_now();
    return provenance;
}

}  // namespace tilescope
