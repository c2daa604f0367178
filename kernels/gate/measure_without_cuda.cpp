#include "dump/error.h"
#include "kernels/gate/measure.h"

namespace tilescope {

std::string measure_latencies(const MeasureOptions&) {
    throw Error("tile-gate was built without CUDA", "measure",
                "build where nvcc is found, on a machine with an NVIDIA GPU");
}

}  // namespace tilescope
