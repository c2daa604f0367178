#include "dump/schema/error.h"
#include "kernels/gate/measure.h"

namespace tilescope {

namespace {

[[noreturn]] void refuse(const char* command) {
    throw Error("tile-gate was built without CUDA", command,
                "build where nvcc is found, on a machine with an NVIDIA GPU");
}

}  // namespace

std::string measure_latencies(const MeasureOptions&) {
    refuse("measure");
}

std::string measure_tiles(const Sampling&) {
    refuse("tile");
}

}  // namespace tilescope
