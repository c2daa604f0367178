#include "dump/recording/run_difference.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

/// Where the tile begins along one of its axes, which is `length` long.
std::int64_t origin(Axis axis, const TileId& tile, std::int64_t length) {
    if (axis == Axis::query) return tile.q_block * length;
    if (axis == Axis::key) return tile.kv_tile * length;
    return 0;
}

auto order_of(const TileId& tile) {
    return std::tuple(tile.kv_tile, tile.batch, tile.head, tile.q_block);
}

/// Reads a stage of both runs tile by tile.
class StageComparison {
 public:
    StageComparison(const Recording& first_run, const Recording& second_run, Stage stage)
        : first_run_(first_run),
          second_run_(second_run),
          info_(stage_info(first_run.problem(), stage)),
          shape_(tile_shape(first_run.problem(), stage)),
          first_tile_(std::size_t(shape_.elements())),
          second_tile_(std::size_t(shape_.elements())) {
        result_.stage = stage;
    }

    void compare(const TileId& tile) {
        const bool in_first = read(first_run_, tile, first_tile_);
        const bool in_second = read(second_run_, tile, second_tile_);
        if (!in_first && !in_second) return;
        const Problem entry = problem_of(first_run_.problem(), first_run_.side_inputs(), tile.batch);
        const TileShape extent = tile_extent(entry, result_.stage, tile);
        for (std::int64_t row = 0; row < extent.rows; ++row) compare_row(tile, row, extent.cols);
    }

    const StageDifference& result() const { return result_; }

 private:
    /// A tile that was not recorded becomes unwritten.
    bool read(const Recording& run, const TileId& tile, std::vector<float>& values) const {
        if (run.read_tile(result_.stage, tile, values)) return true;
        std::ranges::fill(values, std::bit_cast<float>(unwritten_bits));
        return false;
    }

    void compare_row(const TileId& tile, std::int64_t row, std::int64_t cols) {
        std::int64_t changed = 0;
        std::int64_t unwritten = 0;
        for (std::int64_t col = 0; col < cols; ++col) {
            const std::size_t i = std::size_t(row * shape_.cols + col);
            const auto a = std::bit_cast<std::uint32_t>(first_tile_[i]);
            const auto b = std::bit_cast<std::uint32_t>(second_tile_[i]);
            changed += a != b;
            unwritten += a == unwritten_bits && b == unwritten_bits;
        }
        result_.compared += std::max<std::int64_t>(cols, 0) - unwritten;
        result_.changed += changed;
        if (changed == 0) return;
        if (!result_.first || order_of(tile) < order_of(result_.first->tile)) keep_first(tile, row);
    }

    void keep_first(const TileId& tile, std::int64_t row) {
        std::size_t i = std::size_t(row * shape_.cols);
        while (std::bit_cast<std::uint32_t>(first_tile_[i]) == std::bit_cast<std::uint32_t>(second_tile_[i]))
            ++i;
        const std::int64_t col = std::int64_t(i) - row * shape_.cols;
        result_.first = ElementDifference{tile, origin(info_.row_axis, tile, shape_.rows) + row,
                                          origin(info_.col_axis, tile, shape_.cols) + col, first_tile_[i],
                                          second_tile_[i]};
    }

    const Recording& first_run_;
    const Recording& second_run_;
    StageInfo info_;
    TileShape shape_;
    std::vector<float> first_tile_;
    std::vector<float> second_tile_;
    StageDifference result_;
};

void require_same_call(const Recording& first_run, const Recording& second_run) {
    const SideInputs& a = first_run.side_inputs();
    const SideInputs& b = second_run.side_inputs();
    if (first_run.problem() == second_run.problem() && a.seqlens_q == b.seqlens_q &&
        a.seqlens_kv == b.seqlens_kv) {
        return;
    }
    throw Error("is not of the same problem as " + first_run.name(), second_run.name(),
                "compare two runs of the same call");
}

}  // namespace

bool comes_before(const ElementDifference& a, const ElementDifference& b) {
    if (a.tile != b.tile) return order_of(a.tile) < order_of(b.tile);
    return std::tuple(a.row, a.col) < std::tuple(b.row, b.col);
}

bool comes_before(Stage a, Stage b) {
    return std::pair(is_output(a), a) < std::pair(is_output(b), b);
}

std::vector<StageDifference> compare_runs(const Recording& first_run, const Recording& second_run) {
    require_same_call(first_run, second_run);
    const Problem& problem = first_run.problem();
    std::vector<StageDifference> stages;
    for (const StageInfo& info : stages_of(problem)) {
        if (!first_run.has_stage(info.stage) && !second_run.has_stage(info.stage)) continue;
        StageComparison comparison(first_run, second_run, info.stage);
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            comparison.compare(tile_at(problem, info.stage, i));
        }
        stages.push_back(comparison.result());
    }
    std::ranges::sort(stages, [](const StageDifference& a, const StageDifference& b) {
        return comes_before(a.stage, b.stage);
    });
    return stages;
}

const StageDifference* first_changed(std::span<const StageDifference> stages) {
    const auto row = std::ranges::find_if(stages, [](const StageDifference& s) { return s.changed > 0; });
    return row == stages.end() ? nullptr : &*row;
}

std::int64_t count_compared(std::span<const StageDifference> stages) {
    return std::accumulate(stages.begin(), stages.end(), std::int64_t(0),
                           [](std::int64_t sum, const StageDifference& s) { return sum + s.compared; });
}

std::int64_t count_changed(std::span<const StageDifference> stages) {
    return std::accumulate(stages.begin(), stages.end(), std::int64_t(0),
                           [](std::int64_t sum, const StageDifference& s) { return sum + s.changed; });
}

}  // namespace tilescope
