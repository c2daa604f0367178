#include "tests/oracle/sharpness.h"

#include <algorithm>
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

}  // namespace

Call call_of_dtype(Direction direction, Dtype dtype, std::uint64_t seed) {
    Problem problem = small_problem(Mask::causal, direction);
    problem.batch = 1;
    for (Dtype Problem::*of : {&Problem::dtype_q, &Problem::dtype_k, &Problem::dtype_v, &Problem::dtype_dout,
                               &Problem::dtype_dq, &Problem::dtype_dk, &Problem::dtype_dv})
        problem.*of = dtype;
    problem.dtype_o = dtype_info(dtype).bytes == 1 ? Dtype::f16 : dtype;
    Arithmetic arithmetic;
    arithmetic.p_operand = arithmetic.ds_operand = dtype;
    arithmetic.dumps_cast_p = arithmetic.dumps_cast_ds = true;
    return make_call(problem, seed, arithmetic);
}

std::vector<Stage> stages_to_change(Direction direction) {
    std::vector<Stage> stages;
    for (const StageInfo& info : stages_of(direction)) {
        const bool is_copy = info.stage == Stage::q || info.stage == Stage::k || info.stage == Stage::v ||
                             info.stage == Stage::dout;
        if (!is_copy) stages.push_back(info.stage);
    }
    return stages;
}

int sharpness(const MemoryRecording& recording, Stage stage) {
    return std::min(sharpness(recording, stage, 1), sharpness(recording, stage, -1));
}

}  // namespace tilescope::test
