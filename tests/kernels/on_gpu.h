#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/run_kernel.h"

namespace tilescope::testing {

/// Skips where there is no GPU; fails instead with REQUIRE_GPU=1.
class OnGpu : public ::testing::Test {
 protected:
    void SetUp() override {
        const std::string reason = why_no_gpu();
        if (reason.empty()) return;
        const char* required = std::getenv("REQUIRE_GPU");
        if (required != nullptr && std::string(required) == "1") FAIL() << "no GPU: " << reason;
        GTEST_SKIP() << "no GPU: " << reason;
    }
};

}  // namespace tilescope::testing
