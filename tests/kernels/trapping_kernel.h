#pragma once

#include "dump/hook/sink.h"
#include "kernels/attention/attention_args.h"

namespace tilescope::hooked {

/// Launches a kernel that records 1 in the first element of each Q tile and then traps.
Launch launch_trapping(const AttentionArgs& args, const KernelConfig& config, const Sink& sink);

}  // namespace tilescope::hooked
