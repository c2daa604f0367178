// What stands in for run_cuda.cpp in a build without CUDA.

#include "dump/schema/error.h"
#include "kernels/run/flight_runs.h"
#include "kernels/run/run_kernel.h"
#include "kernels/run/watch_runs.h"

namespace tilescope {

namespace {

constexpr const char* reason = "this build has no CUDA";

[[noreturn]] void refuse() {
    throw Error(reason, "--engine cuda", "build where nvcc is found, on a machine with an NVIDIA GPU");
}

}  // namespace

std::string why_no_gpu() {
    return reason;
}

bool gpu_has_wgmma() {
    return false;
}

KernelRun run_on_cuda(const RunRequest&, RunInputs, const MemoryFill&, TilesLie) {
    refuse();
}

StatisticsRun keep_statistics_on_cuda(const RunRequest&, const RunInputs&) {
    refuse();
}

FlightResult record_flight_on_cuda(const RunRequest&, const FlightRequest&) {
    refuse();
}

InertProof prove_inert(const RunRequest&) {
    throw Error("the hooks can be proved inert on a GPU only, and this build has no CUDA", "prove-inert",
                "build where nvcc is found, on a machine with an NVIDIA GPU");
}

}  // namespace tilescope
