#include "tests/oracle/sharpness.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "oracle/judge.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {

namespace {

constexpr TileId tile = {0, 1, 1, 1};

std::pair<std::int64_t, std::int64_t> largest_element(const Recording& recording, Stage stage) {
    const TileShape extent = tile_extent(recording.problem(), stage, tile);
    std::pair<std::int64_t, std::int64_t> largest;
    float most = 0;
    for (std::int64_t i = 0; i < extent.elements(); ++i) {
        const std::pair place{i / extent.cols, i % extent.cols};
        const float value = std::abs(peek(recording, stage, tile, place.first, place.second));
        if (!(value > most) || std::isinf(value)) continue;
        most = value;
        largest = place;
    }
    return largest;
}

int sharpness(const MemoryRecording& recording, Stage stage, double sign) {
    const auto [row, col] = largest_element(recording, stage);
    const float value = peek(recording, stage, tile, row, col);
    for (int bits = 24; bits > 0; --bits) {
        MemoryRecording changed = copy_of(recording);
        const auto by = float(double(value) * (1 + sign * std::ldexp(1, -bits)));
        poke(changed, stage, tile, row, col, by);
        if (judged(changed).stage(stage).tally.outside > 0) return bits;
    }
    return 0;
}

Problem one_batch() {
    Problem problem = small_problem(Mask::causal);
    problem.batch = 1;
    return problem;
}

}  // namespace

MemoryRecording forward_of_dtype(Dtype dtype, std::uint64_t seed) {
    Problem problem = one_batch();
    problem.dtype_q = problem.dtype_k = problem.dtype_v = dtype;
    problem.dtype_o = dtype_info(dtype).bytes == 1 ? Dtype::f16 : dtype;
    Arithmetic arithmetic;
    arithmetic.p_operand = dtype;
    arithmetic.dumps_cast_p = true;
    return recorded(make_call(problem, seed, arithmetic));
}

Call backward_call_of_dtype(Dtype dtype, std::uint64_t seed) {
    Problem problem = one_batch();
    for (Dtype Problem::*of : {&Problem::dtype_q, &Problem::dtype_k, &Problem::dtype_v, &Problem::dtype_dout,
                               &Problem::dtype_o, &Problem::dtype_dq, &Problem::dtype_dk, &Problem::dtype_dv})
        problem.*of = dtype;
    Arithmetic arithmetic;
    arithmetic.p_operand = arithmetic.ds_operand = dtype;
    arithmetic.dumps_cast_p = arithmetic.dumps_cast_ds = true;
    return gradient_call(problem, arithmetic, make_inputs(problem, InputKind::normal, seed),
                         make_dout(problem, DoutKind::normal, seed));
}

std::span<const Stage> forward_stages_to_change() {
    static constexpr std::array stages = {Stage::s,   Stage::m, Stage::p,  Stage::l,
                                          Stage::acc, Stage::o, Stage::lse};
    return stages;
}

std::span<const Stage> backward_stages_to_change() {
    static constexpr std::array stages = {Stage::s,  Stage::p,  Stage::delta, Stage::dp,
                                          Stage::ds, Stage::dq, Stage::dk,    Stage::dv};
    return stages;
}

int sharpness(const MemoryRecording& recording, Stage stage) {
    return std::min(sharpness(recording, stage, 1), sharpness(recording, stage, -1));
}

}  // namespace tilescope::test
