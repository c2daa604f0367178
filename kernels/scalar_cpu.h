#pragma once

// The scalar kernel on the CPU: thread blocks are spread over the cores, each played by one host thread.

#include <cstring>
#include <memory>

#include "kernels/cpu_block.h"
#include "kernels/scalar_body.h"

namespace tilescope::KERNEL_BUILD {

template <class Config, Fault fault>
Launch scalar_on_cpu(const AttentionArgs& args TILESCOPE_SINK_PARAM(sink)) {
    const int q_blocks = (args.seqlen_q + Config::block_m - 1) / Config::block_m;
    const std::int64_t blocks = std::int64_t(args.batch) * args.heads * q_blocks;
#pragma omp parallel
    {
        const auto shared = std::make_unique_for_overwrite<ScalarShared<Config>>();
#pragma omp for schedule(dynamic)
        for (std::int64_t i = 0; i < blocks; ++i) {
            // Shared memory starts undefined: what is read before it is written shows up as NaN.
            std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(ScalarShared<Config>));
            CpuBlock<Config::threads> block(int(i % q_blocks), int(i / q_blocks % args.heads),
                                            int(i / q_blocks / args.heads));
            scalar_attention<Config, fault>(block, *shared, args TILESCOPE_SINK_ARG(sink));
        }
    }
    return {unsigned(q_blocks), unsigned(args.heads), unsigned(args.batch), unsigned(Config::threads),
            sizeof(ScalarShared<Config>)};
}

}  // namespace tilescope::KERNEL_BUILD
