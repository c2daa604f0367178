// How small a wrong value is found, for each type. A cast errs by half an ulp: 2^-11 of the value in float16,
// 2^-8 in bfloat16, 2^-4 in e4m3, 2^-3 in e5m2. Sums of 72 float32 terms err by less than 2^-17 each, times
// the lambda of a probable bound; a maximum rounds nothing.

#include "tests/oracle/sharpness.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/oracle/gradient_checks.h"

namespace tilescope::test {
namespace {

constexpr int bits_of_sums = 14;

/// One and a half bits more than the cast's error, rounded down.
const std::map<Dtype, int> bits_of_casts = {
    {Dtype::f32, bits_of_sums}, {Dtype::f16, 9}, {Dtype::bf16, 6}, {Dtype::e4m3, 2}, {Dtype::e5m2, 1}};

TEST(Sharpness, SmallChangesOfOneElementAreFound) {
    for (const auto& [dtype, of_cast] : bits_of_casts) {
        const MemoryRecording recording = forward_of_dtype(dtype, 3);
        EXPECT_TRUE(matches(recording));
        for (const Stage stage : forward_stages_to_change()) {
            const Dtype stored = recording.problem().dtype_o;
            const int least = stage == Stage::p   ? of_cast
                              : stage == Stage::o ? bits_of_casts.at(stored)
                              : stage == Stage::m ? 22
                                                  : bits_of_sums;
            EXPECT_GE(sharpness(recording, stage), least)
                << dtype_info(dtype).name << " " << stage_info(stage).name;
        }
    }
}

TEST(GradientSharpness, SmallChangesOfOneElementAreFound) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        const MemoryRecording recording = recorded(backward_call_of_dtype(dtype, 3));
        EXPECT_TRUE(matches(recording));
        for (const Stage stage : backward_stages_to_change()) {
            const bool sums = stage == Stage::s || stage == Stage::delta || stage == Stage::dp;
            EXPECT_GE(sharpness(recording, stage), sums ? bits_of_sums : bits_of_casts.at(dtype))
                << dtype_info(dtype).name << " " << stage_info(stage).name;
        }
    }
}

}  // namespace
}  // namespace tilescope::test
