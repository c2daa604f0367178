#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle/report/text.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {

// What tests of indices that no table lists share.

inline constexpr std::uint64_t index_seed = 41;

/// Tiles of 32 x 32 with a head_dim that scores of one query block determine.
inline Call plain_call() {
    Problem problem = small_problem();
    problem.seqlen_q = 96;
    problem.seqlen_kv = 96;
    problem.block_m = problem.block_n = 32;
    problem.head_dim = problem.head_dim_v = 16;
    return make_call(problem, index_seed, {});
}

using IndexOf = std::function<std::int64_t(std::int64_t)>;

/// Every tile of the stage with the elements of other rows and columns of it.
inline MemoryRecording moved(const Recording& honest, Stage stage, const IndexOf& row_of,
                             const IndexOf& col_of) {
    MemoryRecording wrong = copy_of(honest);
    const TileShape shape = tile_shape(honest.problem(), stage);
    std::vector<float> right(std::size_t(shape.elements()));
    change_stage(wrong, stage, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
        if (row == 0 && col == 0) honest.read_tile(stage, tile, right);
        return right[std::size_t(row_of(row) * shape.cols + col_of(col))];
    });
    return wrong;
}

/// What the first cause is called, with its parameters; "" where it is none or a pattern of places.
inline std::string named(const Recording& recording) {
    const Report report = diagnosed(recording);
    if (report.diagnosis.causes.empty() || report.diagnosis.causes[0].structural) return "";
    return title_of(report.diagnosis.causes[0]);
}
/// The same, with the places that have it.
inline std::string named_where(const Recording& recording) {
    const Report report = diagnosed(recording);
    if (report.diagnosis.causes.empty()) return "";
    return title_of(report.diagnosis.causes[0]) + " " + report.diagnosis.causes[0].where;
}

}  // namespace tilescope::test
