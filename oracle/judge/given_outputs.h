#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dump/recording.h"

namespace tilescope {

class WorkSharing;

/// A backward kernel is judged by what it makes of the o and lse that it was given. If those are wrong, its
/// gradients are wrong although it is right: one warning for each of the two that no forward pass of its q, k
/// and v gives, and none for a recording of a forward pass. The other parameters are those of
/// judge_references(); `step` is called given_output_steps() times.
std::vector<std::string> warnings_of_given_outputs(const Recording& recording, double confidence, int threads,
                                                   const std::function<void()>& step, WorkSharing& sharing);
std::int64_t given_output_steps(const Recording& recording);

}  // namespace tilescope
