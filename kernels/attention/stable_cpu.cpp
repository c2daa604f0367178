#include "kernels/attention/scalar_cpu.h"

#include "kernels/attention/entry.h"
#include "kernels/attention/stable.h"

namespace tilescope::KERNEL_BUILD {

Launch stable_cpu(const AttentionArgs& args, const KernelConfig& config, Fault fault,
                  std::uint32_t shared_word, const Sink& sink) {
    return launch_build<ScalarOnCpu<StableConfig>, stable_configs, stable_faults>(config, fault, args,
                                                                                  shared_word, sink);
}

}  // namespace tilescope::KERNEL_BUILD
