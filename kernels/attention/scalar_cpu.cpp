// The scalar kernel on the CPU, and stable, which adds guards to it: thread blocks are spread over the cores,
// each played by one host thread.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "kernels/attention/cpu_block.h"
#include "kernels/attention/entry.h"
#include "kernels/attention/scalar.h"
#include "kernels/attention/scalar_body.h"
#include "kernels/attention/stable.h"

namespace tilescope::KERNEL_BUILD {

template <template <int, int, int, int> class ScalarConfig>
struct ScalarOnCpu {
    template <KernelConfig config>
    using ConfigOf = ScalarConfig<config.block_m, config.block_n, config.stages, config.head_dim>;

    /// Shared memory starts undefined: every word of it holds `shared_word` when a block begins.
    template <class Config>
    static Launch launch(const AttentionArgs& args, [[maybe_unused]] Fault fault,
                         std::uint32_t shared_word TILESCOPE_HOST_SINK_PARAM(sink)) {
        using Shared = ScalarShared<Config>;
        constexpr std::size_t words = sizeof(Shared) / sizeof(shared_word);
        static_assert(sizeof(Shared) % sizeof(shared_word) == 0);
        const int q_blocks = (args.seqlen_q + Config::block_m - 1) / Config::block_m;
        const std::int64_t blocks = std::int64_t(args.batch) * args.heads * q_blocks;
#pragma omp parallel
        {
#ifdef PLANTED_FAULTS
            host_fault = fault;
#endif
            const auto shared = std::make_unique_for_overwrite<Shared>();
#pragma omp for schedule(dynamic)
            for (std::int64_t i = 0; i < blocks; ++i) {
                for (std::size_t word = 0; word < words; ++word) {
                    std::memcpy(reinterpret_cast<std::byte*>(shared.get()) + word * sizeof(shared_word),
                                &shared_word, sizeof(shared_word));
                }
                CpuBlock<Config::threads> block(int(i % q_blocks), int(i / q_blocks % args.heads),
                                                int(i / q_blocks / args.heads));
                TILESCOPE_BLOCK(sink, block.batch(), block.head(), block.q_block());
                scalar_attention<Config>(block, *shared, args TILESCOPE_BLOCK_ARG);
            }
        }
        return {unsigned(q_blocks), unsigned(args.heads), unsigned(args.batch), unsigned(Config::threads),
                sizeof(Shared)};
    }
};

template <template <int, int, int, int> class ScalarConfig, const auto& configs, FaultyBuild faulty>
Launch scalar_on_cpu(const AttentionArgs& args, [[maybe_unused]] const KernelConfig& config, Fault fault,
                     std::uint32_t shared_word, const Sink& sink) {
    using Kernel = ScalarOnCpu<ScalarConfig>;
#ifdef PLANTED_FAULTS
    using Config = typename Kernel::template ConfigOf<faulty.config>;
    return Kernel::template launch<Config>(args, fault, shared_word, sink);
#else
    return launch_config<Kernel, configs>(config, args, fault, shared_word, sink);
#endif
}

extern const CpuBuild scalar_cpu = {scalar_on_cpu<ScalarConfig, scalar_configs, scalar_faults>};
extern const CpuBuild stable_cpu = {scalar_on_cpu<StableConfig, stable_configs, stable_faults>};

}  // namespace tilescope::KERNEL_BUILD
