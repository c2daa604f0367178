#include "kernels/run_kernel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "dump/error.h"

namespace tilescope {

CapturedRun run_kernel(const RunRequest& request) {
    return request.engine == Engine::cuda ? run_on_cuda(request) : run_on_cpu(request);
}

void require_memory(const RunRequest& request) {
    const Problem& problem = request.problem;
    const double mebibyte = double(1 << 20);
    double needed = double(CapturePlan(problem, request.selection, request.sink_bytes).bytes());
    for (Input input : {Input::q, Input::k, Input::v}) needed += 2.0 * double(input_bytes(problem, input));
    needed += double(output_bytes(problem, Stage::o, problem.dtype_o));
    const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
    if (needed > 0.9 * memory) {
        throw Error(fmt::format("the run needs {:.0f} MiB of memory and this machine has {:.0f}",
                                needed / mebibyte, memory / mebibyte),
                    "--shape", "choose a smaller shape, --select fewer tiles or lower --sink-bytes");
    }
}

Provenance provenance_of(const RunRequest& request) {
    Provenance provenance;
    provenance.producer = "tile-run " TILESCOPE_VERSION;
    provenance.kernel = request.kernel->name;
    if (request.fault != Fault::none) {
        provenance.kernel += " with fault " + std::string(fault_info(request.fault).name);
    }
    provenance.command = request.command;

    const std::time_t now = std::time(nullptr);
    std::tm parts = {};
    gmtime_r(&now, &parts);
    char text[sizeof "2000-01-01T00:00:00Z"];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    provenance.time = text;
    return provenance;
}

}  // namespace tilescope
