#include "oracle/ranks/part_rows.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dump/schema/semantics.h"
#include "oracle/formula/output.h"

namespace tilescope {

namespace {

bool read_whole(const Recording& recording, Stage stage, const TileId& tile, MatrixF& values) {
    const TileShape shape = tile_shape(recording.problem(), stage);
    values.resize(shape.rows, shape.cols);
    return recording.read_tile(stage, tile, Span<float>(values.data(), std::size_t(values.size())));
}

}  // namespace

std::optional<RowStages> merged_stages(const Recording& recording) {
    const Problem& problem = recording.problem();
    const std::optional<Stage> o = merged_stage(problem, merged_o_name, problem.head_dim_v);
    const std::optional<Stage> lse = merged_stage(problem, merged_lse_name, 1);
    if (!o || !lse || !recording.has_stage(*o) || !recording.has_stage(*lse)) return std::nullopt;
    return RowStages{*o, *lse};
}

std::optional<RowStages> output_stages(const Recording& recording) {
    if (!recording.has_stage(Stage::o) || !recording.has_stage(Stage::lse)) return std::nullopt;
    return RowStages{};
}

bool PartRows::read(std::int64_t batch, std::int64_t head, std::int64_t q_block) {
    const TileId tile{batch, head, q_block, 0};
    if (at_ != tile) {
        at_ = tile;
        is_there_ =
            read_whole(recording_, stages_.o, tile, o_) && read_whole(recording_, stages_.lse, tile, lse_);
    }
    return is_there_;
}

std::optional<PartialRow> PartRows::row(std::int64_t batch, std::int64_t head, std::int64_t row) {
    const Problem& problem = recording_.problem();
    if (!read(batch, head, row / problem.block_m)) return std::nullopt;
    const Eigen::Index i = row % problem.block_m;
    const auto is_unwritten_at = [&](Eigen::Index j) { return is_unwritten(o_(i, j)); };
    if (is_unwritten(lse_(i, 0))) return std::nullopt;
    for (Eigen::Index j = 0; j < o_.cols(); ++j)
        if (is_unwritten_at(j)) return std::nullopt;
    const bool is_partial = !is_named(stages_.o);
    if (is_partial && visible_keys(problem, row).empty()) return empty_row(o_.cols());
    // What was merged of no key yet may be marked with an infinity of either sign, as lse of such a row is.
    const double lse = double(lse_(i, 0));
    if (std::isinf(lse) && lse == empty_value(recording_.units().lse_empty_row)) return empty_row(o_.cols());
    const double unit = recording_.units().lse_log_base == LogBase::two ? std::numbers::ln2 : 1;
    return exact_row(o_.row(i).cast<double>(), lse * unit);
}

}  // namespace tilescope
