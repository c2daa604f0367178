#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "oracle/judge.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {

inline std::vector<Stage> backward_stages() {
    std::vector<Stage> stages;
    for (const StageInfo& info : all_stages()) {
        if (info.backward) stages.push_back(info.stage);
    }
    return stages;
}

/// What fails prints the call; its seed is all that it is made of.
inline std::string how_to_repeat(const char* filter, std::uint64_t seed, const Call& call) {
    return "seed " + std::to_string(seed) + ", again with TILESCOPE_ALL_SEEDS=1 and --gtest_filter='" +
           filter + "': " + describe(call);
}

}  // namespace tilescope::test
