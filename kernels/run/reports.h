#pragma once

#include <array>
#include <string>

#include "kernels/run/poison_runs.h"
#include "kernels/run/quantise_inputs.h"
#include "kernels/run/repeat_program.h"
#include "kernels/run/repeat_runs.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

/// "scalar 32x64x2 head_dim 64, fault p_bf16 planted in p".
std::string describe(const RunRequest& request);

// What tile-run prints, as text and with --json. Each text ends with a line that is the verdict.
std::string to_text(const RunRequest& request, const InertProof& proof);
std::string to_json(const RunRequest& request, const InertProof& proof);
std::string to_text(const RunRequest& request, const RepeatReport& report);
std::string to_json(const RunRequest& request, const RepeatReport& report);
std::string to_text(const ProgramRepeat& repeat);
std::string to_json(const ProgramRepeat& repeat);
std::string to_text(const RunRequest& request, const PoisonReport& report);
std::string to_json(const RunRequest& request, const PoisonReport& report);

/// What quantisation took from each operand, which tile-diff leaves out of the kernel's error.
std::string to_text(const std::array<QuantisationError, 3>& errors);

}  // namespace tilescope
