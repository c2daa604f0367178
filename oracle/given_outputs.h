#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dump/recording.h"

namespace tilescope {

/// What is wrong with the o and lse that a backward kernel was given: it is judged by what it makes of them,
/// and its gradients are wrong all the same. One line for each that no forward pass of its q, k and v gives;
/// none for a forward pass. The other parameters are those of
/// judge_references(); there are given_output_steps().
std::vector<std::string> warnings_of_given_outputs(const Recording& recording, double confidence, int threads,
                                                   const std::function<void()>& step);
std::int64_t given_output_steps(const Recording& recording);

}  // namespace tilescope
