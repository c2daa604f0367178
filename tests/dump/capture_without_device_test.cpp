#define DEBUG_DUMP
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "dump/capture.h"
#include "dump/schema/error.h"
#include "tests/dump/small_problem.h"

namespace tilescope {
namespace {

TEST(CaptureWithoutGpu, SaysSo) {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);  // hides the GPU of a machine that has one
    try {
        const Capture capture(test::small_problem());
        FAIL() << "there is no GPU to capture from";
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find("capture: "), 0u) << error.what();
        const std::string line = error.what();
        EXPECT_TRUE(line.find("looking for a GPU") != std::string::npos ||
                    line.find("there is no CUDA driver") != std::string::npos)
            << line;
    }
}

}  // namespace
}  // namespace tilescope
