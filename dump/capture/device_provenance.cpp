#include "dump/capture/device_provenance.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <ctime>

#include "dump/capture/memory.cuh"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts = {};
    gmtime_r(&now, &parts);
    char text[sizeof "2000-01-01T00:00:00Z"];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

void fill_if_empty(std::string& field, const std::string& value) {
    if (field.empty()) field = value;
}

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Errors: Error when there is no driver, or one of an older major version than the program's CUDA.
void require_driver(int runtime) {
    int driver = 0;
    require_cuda(cudaDriverGetVersion(&driver), "asking for the driver's version");
    if (driver / 1000 >= runtime / 1000) return;
    throw Error(driver == 0 ? std::string("there is no CUDA driver")
                            : "the driver is for CUDA " + version_text(driver) + ", this program for CUDA " +
                                  version_text(runtime),
                "capture", "install a newer driver, or build with an older CUDA toolkit");
}

}  // namespace

void describe_device(Provenance& provenance) {
    int device = 0;
    cudaDeviceProp properties = {};
    int version = 0;
    require_cuda(cudaRuntimeGetVersion(&version), "asking for the CUDA version");
    require_driver(version);
    require_cuda(cudaGetDevice(&device), "looking for a GPU");
    require_cuda(cudaGetDeviceProperties(&properties, device), "asking for the GPU's properties");
    fill_if_empty(provenance.device, properties.name);
    fill_if_empty(provenance.compute_capability,
                  std::to_string(properties.major) + "." + std::to_string(properties.minor));
    fill_if_empty(provenance.cuda_version, version_text(version));
    fill_if_empty(provenance.time, utc_now());
    if (const char* const run = std::getenv("TILESCOPE_RUN")) fill_if_empty(provenance.run, run);
}

}  // namespace tilescope
