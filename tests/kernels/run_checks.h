#pragma once

#include <string>
#include <vector>

#include "kernels/run/run_kernel.h"

namespace tilescope::testing {

/// What tile-run record makes of these options, which are separated by single spaces.
RunOptions options_of(const std::string& command_line);
RunRequest request_of(const std::string& command_line);

/// Command lines for one configuration: tails of 0, 1 and block - 1, sequences shorter than a tile, more
/// queries than keys and fewer, rows and tiles without a key, groups of query heads, every input.
std::vector<std::string> healthy_runs(const KernelInfo& kernel, const KernelConfig& config);
/// Those of its configurations in turn, each with a fifth; each with all where ./dev test --all asks for every seed.
std::vector<std::string> tried_runs(const KernelInfo& kernel, const KernelConfig& config);

/// Runs it, and expects o and lse of textbook attention, every tile that holds a visible key and no other,
/// all of it written, and nothing lost.
void expect_healthy(const std::string& command_line);

/// Runs the options under which the fault shows, with it and without, and expects the stages before the one
/// it is planted in to have the same bits, and that one to differ.
void expect_planted(const FaultInfo& fault, const std::string& kernel, const std::string& engine);

/// "32x64x2_head_dim_64_f16", a name that GoogleTest accepts.
std::string test_name(const KernelConfig& config);

}  // namespace tilescope::testing
