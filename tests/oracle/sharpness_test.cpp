// How small a wrong value is found, for each type. A cast errs by half an ulp: 2^-11 of the value in float16,
// 2^-8 in bfloat16, 2^-4 in e4m3, 2^-3 in e5m2. Sums of 72 float32 terms err by less than 2^-17 each, times
// the lambda of a probable bound; a maximum rounds nothing.

#include "tests/oracle/sharpness.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr int bits_of_sums = 14;

/// One and a half bits more than the cast's error, rounded down.
const std::map<Dtype, int> bits_of_casts = {
    {Dtype::f32, bits_of_sums}, {Dtype::f16, 9}, {Dtype::bf16, 6}, {Dtype::e4m3, 2}, {Dtype::e5m2, 1}};

class Sharpness : public BothPasses {};

TEST_P(Sharpness, SmallChangesOfOneElementAreFound) {
    for (const auto& [dtype, of_cast] : bits_of_casts) {
        // Gradients of fp8 kernels are not stored in fp8.
        if (!is_forward() && dtype_info(dtype).bytes == 1) continue;
        const MemoryRecording recording = recorded(call_of_dtype(direction(), dtype, 3));
        EXPECT_TRUE(matches(recording));
        for (const Stage stage : stages_to_change(direction())) {
            const bool is_cast = stage == Stage::p || stage == Stage::ds || is_output(stage);
            int least = is_cast ? of_cast : bits_of_sums;
            if (stage == Stage::o) least = bits_of_casts.at(recording.problem().dtype_o);
            if (stage == Stage::lse) least = bits_of_sums;
            if (stage == Stage::m) least = 22;
            EXPECT_GE(sharpness(recording, stage), least)
                << dtype_info(dtype).name << " " << stage_info(stage).name;
        }
    }
}

TILESCOPE_TEST_BOTH_PASSES(Sharpness);

}  // namespace
}  // namespace tilescope::test
