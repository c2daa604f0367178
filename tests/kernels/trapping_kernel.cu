#include "tests/kernels/trapping_kernel.h"

#include "dump/hook.h"

namespace tilescope::hooked {

__global__ void trapping_kernel(const Sink sink) {
    TILESCOPE_BLOCK(sink, blockIdx.z, blockIdx.y, blockIdx.x);
    TILESCOPE_VALUE(q, 0, 0, 0, 1.0f);
    __threadfence_system();
    __trap();
}

namespace {

Launch launch_trapping(const AttentionArgs& args, const KernelConfig& config, Fault, const Sink& sink) {
    const unsigned q_blocks = unsigned((args.seqlen_q + config.block_m - 1) / config.block_m);
    const dim3 grid(q_blocks, unsigned(args.heads), unsigned(args.batch));
    trapping_kernel<<<grid, 1>>>(sink);
    return {grid.x, grid.y, grid.z, 1, 0};
}

}  // namespace

const CudaBuild trapping = {launch_trapping};

}  // namespace tilescope::hooked
