#include "oracle/tiles.h"

#include <vector>

namespace tilescope {

std::optional<MatrixF> load_tile(const Recording& recording, Stage stage, const TileId& tile) {
    const TileShape shape = tile_shape(recording.problem(), stage);
    const TileShape extent = tile_extent(recording.problem(), stage, tile);
    MatrixF whole(shape.rows, shape.cols);
    if (!recording.read_tile(stage, tile, {whole.data(), std::size_t(whole.size())})) return std::nullopt;
    if (extent == shape) return whole;
    return MatrixF(whole.topLeftCorner(extent.rows, extent.cols));
}

Matrix load_input(const Recording& recording, Input input, std::int64_t batch, std::int64_t head,
                  std::int64_t row, std::int64_t count) {
    const Problem& problem = recording.problem();
    MatrixF values(count, input == Input::v ? problem.head_dim_v : problem.head_dim);
    recording.read_input(input, batch, head, row, count, {values.data(), std::size_t(values.size())});
    return values.cast<double>();
}

std::shared_ptr<const HeadInputs> HeadInputCache::get(std::int64_t batch, std::int64_t head_kv) {
    const std::scoped_lock lock(mutex_);
    std::weak_ptr<const HeadInputs>& known = heads_[{batch, head_kv}];
    if (std::shared_ptr<const HeadInputs> inputs = known.lock()) return inputs;
    const std::int64_t keys = recording_.problem().seqlen_kv;
    auto inputs = std::make_shared<HeadInputs>();
    inputs->k = make_operand(load_input(recording_, Input::k, batch, head_kv, 0, keys));
    inputs->v = load_input(recording_, Input::v, batch, head_kv, 0, keys);
    known = inputs;
    return inputs;
}

TileContext tile_context(const Problem& problem, Stage stage, const TileId& tile) {
    const StageInfo& info = stage_info(stage);
    TileContext context;
    context.stage = stage;
    context.tile = tile;
    context.first_row =
        info.row_axis == Axis::query ? tile.q_block * problem.block_m : tile.kv_tile * problem.block_n;
    context.first_col = info.col_axis == Axis::key ? tile.kv_tile * problem.block_n : 0;
    context.dtype = stage == Stage::o ? problem.dtype_o : Dtype::f32;
    return context;
}

}  // namespace tilescope
