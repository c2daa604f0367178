#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/run/run_kernel.h"

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

/// Those that this machine's GPU can run.
inline std::vector<const KernelInfo*> kernels_here() {
    std::vector<const KernelInfo*> kernels;
    for (const KernelInfo& kernel : all_kernels()) {
        if (why_no_gpu(kernel).empty()) kernels.push_back(&kernel);
    }
    return kernels;
}

/// A test of one kernel: skips where the machine lacks what that one needs.
template <class Case>
class KernelCaseOnGpu : public OnGpu, public ::testing::WithParamInterface<Case> {
 protected:
    void SetUp() override {
        OnGpu::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        const std::string reason = why_no_gpu(*this->GetParam().kernel);
        if (!reason.empty()) GTEST_SKIP() << reason;
        if constexpr (requires(Case c) { c.config; }) {
            const bool runs = !this->GetParam().config.wgmma || gpu_has_wgmma();
            if (!runs) GTEST_SKIP() << "the GPU has no wgmma";
        }
    }
};

}  // namespace tilescope::testing
