#include "dump/recording/array_shape.h"

#include <gtest/gtest.h>

#include "tests/dump/small_problem.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {
namespace {

void expect_shape(const ArrayShape& got, std::int64_t heads, std::int64_t rows, std::int64_t cols,
                  Dtype dtype) {
    EXPECT_EQ(got.heads, heads);
    EXPECT_EQ(got.rows, rows);
    EXPECT_EQ(got.cols, cols);
    EXPECT_EQ(got.dtype, dtype);
}

/// B=2 H=6 Hkv=3 Sq=10 Skv=13 D=8 Dv=7.
TEST(ArrayShape, OfInputs) {
    Problem problem = small_backward_problem();
    problem.dtype_q = Dtype::e4m3;
    problem.dtype_k = Dtype::e5m2;
    problem.dtype_v = Dtype::f32;
    problem.dtype_dout = Dtype::bf16;
    problem.dtype_o = Dtype::f16;
    expect_shape(input_shape(problem, Input::q), 6, 10, 8, Dtype::e4m3);
    expect_shape(input_shape(problem, Input::k), 3, 13, 8, Dtype::e5m2);
    expect_shape(input_shape(problem, Input::v), 3, 13, 7, Dtype::f32);
    expect_shape(input_shape(problem, Input::dout), 6, 10, 7, Dtype::bf16);
    expect_shape(input_shape(problem, Input::o), 6, 10, 7, Dtype::f16);
    expect_shape(input_shape(problem, Input::lse), 6, 10, 1, Dtype::f32);
    for (const Input input : {Input::q, Input::k, Input::v, Input::dout, Input::o, Input::lse}) {
        EXPECT_EQ(has_key_rows(input), input == Input::k || input == Input::v);
    }
}

TEST(ArrayShape, OfOutputs) {
    Problem problem = small_backward_problem();
    expect_shape(output_shape(problem, Stage::o, Dtype::bf16), 6, 10, 7, Dtype::bf16);
    expect_shape(output_shape(problem, Stage::lse, Dtype::f32), 6, 10, 1, Dtype::f32);
    expect_shape(output_shape(problem, Stage::dq, Dtype::f16), 6, 10, 8, Dtype::f16);
    expect_shape(output_shape(problem, Stage::dk, Dtype::f16), 3, 13, 8, Dtype::f16);
    expect_shape(output_shape(problem, Stage::dv, Dtype::f16), 3, 13, 7, Dtype::f16);
    problem.dkv_per_head = true;
    expect_shape(output_shape(problem, Stage::dk, Dtype::f32), 6, 13, 8, Dtype::f32);
    expect_shape(output_shape(problem, Stage::dv, Dtype::f32), 6, 13, 7, Dtype::f32);
}

TEST(ArrayShape, PlacesRows) {
    const ArrayShape v = input_shape(small_problem(), Input::v);
    EXPECT_EQ(v.bytes(2), 2u * 3 * 13 * 7 * 2);
    EXPECT_EQ(v.row_offset(1, 2, 11), ((1u * 3 + 2) * 13 + 11) * 7 * 2);
}

TEST(ArrayShape, OnlyTheBackwardPassReadsTheLastThree) {
    for (const Input input : {Input::q, Input::k, Input::v}) {
        EXPECT_TRUE(reads_input(Direction::forward, input) && reads_input(Direction::backward, input));
    }
    for (const Input input : {Input::dout, Input::o, Input::lse}) {
        EXPECT_FALSE(reads_input(Direction::forward, input));
        EXPECT_TRUE(reads_input(Direction::backward, input));
    }
}

// o is the one that a backward recording can do without.
TEST(Recording, HasInputsWhenItsDirectionMissesNone) {
    const auto with_all_but = [](const Problem& problem, std::optional<Input> missing) {
        MemoryRecording recording(problem);
        for (const Input input : {Input::q, Input::k, Input::v, Input::dout, Input::o, Input::lse}) {
            if (input == missing) continue;
            const ArrayShape shape = input_shape(problem, input);
            recording.set_input(input,
                                std::vector<float>(std::size_t(2 * shape.heads * shape.rows * shape.cols)));
        }
        return recording.has_inputs();
    };
    const Problem forward = small_problem();
    const Problem backward = small_backward_problem();
    EXPECT_TRUE(with_all_but(forward, std::nullopt) && with_all_but(backward, std::nullopt));
    for (const Input input : {Input::q, Input::k, Input::v}) {
        EXPECT_FALSE(with_all_but(forward, input) || with_all_but(backward, input));
    }
    for (const Input input : {Input::dout, Input::lse}) {
        EXPECT_TRUE(with_all_but(forward, input));
        EXPECT_FALSE(with_all_but(backward, input));
    }
    EXPECT_TRUE(with_all_but(backward, Input::o));
    EXPECT_FALSE(MemoryRecording(backward).has_inputs());
}

}  // namespace
}  // namespace tilescope::test
