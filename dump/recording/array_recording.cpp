#include "dump/array_recording.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <utility>

#include "dump/recording/array_shape.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr const char* arrays_place = "arrays in memory";

/// The coordinates of a tile, from the outermost.
constexpr std::array<std::int64_t (*)(const TileId&), 4> coordinates = {
    [](const TileId& tile) { return tile.batch; },
    [](const TileId& tile) { return tile.head; },
    [](const TileId& tile) { return tile.q_block; },
    [](const TileId& tile) { return tile.kv_tile; },
};

/// How many of them a stage has along each.
std::vector<std::int64_t> tiles_along(const Problem& problem, Stage stage) {
    const StageInfo info = stage_info(problem, stage);
    return {problem.batch, stage_heads(problem, stage), info.per_q_block ? problem.q_blocks() : 1,
            info.per_kv_tile ? problem.kv_tiles() : 1};
}

std::int64_t batch_start(const HostArray& array, std::int64_t batch) {
    return array.batch_starts.empty() ? batch * array.strides[0] : array.batch_starts[std::size_t(batch)];
}

/// Rows of one batch entry and head, row-major.
void read_rows(const HostArray& array, std::int64_t batch, std::int64_t head, std::int64_t first,
               std::int64_t columns, Span<float> out) {
    const std::int64_t bytes = dtype_info(array.dtype).bytes;
    const auto* const base = static_cast<const std::byte*>(array.data) +
                             (batch_start(array, batch) + head * array.strides[1]) * bytes;
    const std::int64_t rows = std::int64_t(out.size()) / columns;
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::byte* const begin = base + (first + row) * array.strides[2] * bytes;
        const Span<float> to = out.subspan(std::size_t(row * columns), std::size_t(columns));
        if (array.strides[3] == 1 || columns == 1) {
            decode_array(array.dtype, {begin, std::size_t(columns * bytes)}, to);
            continue;
        }
        for (std::int64_t col = 0; col < columns; ++col)
            decode_array(array.dtype, {begin + col * array.strides[3] * bytes, std::size_t(bytes)},
                         to.subspan(std::size_t(col), 1));
    }
}

void require_dtype(const std::string& what, Dtype dtype, Dtype expected) {
    if (dtype == expected) return;
    throw Error(what + " is " + std::string(dtype_info(dtype).name) + " where the problem says " +
                    std::string(dtype_info(expected).name),
                arrays_place, "declare its type in the problem, or pass another array");
}

void require_data(const std::string& what, const HostArray& array) {
    if (array.data == nullptr) throw Error(what + " is null", arrays_place, "pass its first element");
}

}  // namespace

HostArray heads_first(const void* data, Dtype dtype, std::int64_t heads, std::int64_t rows,
                      std::int64_t columns) {
    return {data, dtype, {heads * rows * columns, rows * columns, columns, 1}, {}};
}

HostArray rows_first(const void* data, Dtype dtype, std::int64_t heads, std::int64_t rows,
                     std::int64_t columns) {
    return {data, dtype, {rows * heads * columns, columns, heads * columns, 1}, {}};
}

TileArray selected_box(const Problem& problem, Stage stage, const Selection& selection) {
    TileArray box;
    bool any = false;
    for (std::int64_t i = 0; i < tile_count(problem, stage); ++i) {
        const TileId tile = tile_at(problem, stage, i);
        if (!selection.selects(problem, stage, tile)) continue;
        if (!any) box.first = box.last = tile;
        any = true;
        box.first = {std::min(box.first.batch, tile.batch), std::min(box.first.head, tile.head),
                     std::min(box.first.q_block, tile.q_block), std::min(box.first.kv_tile, tile.kv_tile)};
        box.last = {std::max(box.last.batch, tile.batch), std::max(box.last.head, tile.head),
                    std::max(box.last.q_block, tile.q_block), std::max(box.last.kv_tile, tile.kv_tile)};
    }
    if (any) return box;
    throw Error("nothing of " + std::string(stage_info(problem, stage).name) + " is selected", arrays_place,
                "select tiles that the problem has");
}

ArrayRecording::ArrayRecording(const Problem& problem, const Units& units)
    : RecordedCall(problem, units, {}, {}) {
    validate(problem, arrays_place);
    validate(units, arrays_place);
}

const std::string& ArrayRecording::name() const {
    static const std::string name = arrays_place;
    return name;
}

void ArrayRecording::set_input(Input input, const HostArray& array) {
    const std::string what = std::string("input ") + input_name(input);
    require_data(what, array);
    if (!reads_input(problem().direction, input))
        throw Error(what + " is none of the forward pass", arrays_place, "leave it out");
    require_dtype(what, array.dtype, input_shape(problem(), input).dtype);
    inputs_[static_cast<std::size_t>(input)] = array;
}

void ArrayRecording::set_output(Stage stage, const HostArray& array) {
    const std::string what(stage_info(problem(), stage).name);
    require_data(what, array);
    const bool is_stored = is_output(stage) || is_merged(problem(), stage);
    if (!is_stored || !tilescope::has_stage(problem(), stage))
        throw Error(what + " is no output of this pass", arrays_place, "pass o and lse, or dq, dk and dv");
    require_dtype(what, array.dtype, stage_dtype(problem(), stage));
    outputs_[static_cast<std::size_t>(stage)] = array;
}

void ArrayRecording::set_tiles(Stage stage, const TileArray& tiles) {
    const std::string what(stage_info(problem(), stage).name);
    if (tiles.data == nullptr)
        throw Error("tiles of " + what + " are null", arrays_place, "pass the first element");
    if (is_output(stage) || !tilescope::has_stage(problem(), stage))
        throw Error(what + " is no stage with tiles of this pass", arrays_place,
                    "pass outputs as whole arrays");
    const std::vector<std::int64_t> counts = tiles_along(problem(), stage);
    for (std::size_t i = 0; i < counts.size(); ++i)
        if (coordinates[i](tiles.first) < 0 || coordinates[i](tiles.last) < coordinates[i](tiles.first) ||
            coordinates[i](tiles.last) >= counts[i])
            throw Error("tiles of " + what + " lie outside of the problem", arrays_place,
                        "see selected_box()");
    tiles_[static_cast<std::size_t>(stage)] = tiles;
}

void ArrayRecording::select(Selection selection) {
    capture_.selection = std::move(selection);
}

bool ArrayRecording::has_stage(Stage stage) const {
    return output(stage).data != nullptr || tiles_[static_cast<std::size_t>(stage)].data != nullptr;
}

bool ArrayRecording::has_tile(Stage stage, const TileId& tile) const {
    if (!has_stage(stage)) return false;
    const TileArray& tiles = tiles_[static_cast<std::size_t>(stage)];
    const bool is_stored = tiles.data == nullptr || std::ranges::all_of(coordinates, [&](const auto& of) {
                               return of(tiles.first) <= of(tile) && of(tile) <= of(tiles.last);
                           });
    return is_stored && (!capture().selection || capture().selection->selects(problem(), stage, tile));
}

bool ArrayRecording::may_hold(const TileId& q_block) const {
    return !capture().selection || capture().selection->selects(problem(), Stage::q, q_block);
}

bool ArrayRecording::read_tile(Stage stage, const TileId& tile, Span<float> out) const {
    if (!has_tile(stage, tile)) return false;
    if (const TileArray& tiles = tiles_[static_cast<std::size_t>(stage)]; tiles.data != nullptr) {
        std::int64_t number = 0;
        for (const auto& of : coordinates)
            number = number * (of(tiles.last) - of(tiles.first) + 1) + of(tile) - of(tiles.first);
        std::copy_n(tiles.data + number * std::int64_t(out.size()), out.size(), out.begin());
        return true;
    }
    const TileShape shape = tile_shape(problem(), stage);
    const TileShape extent = tile_extent(problem(), stage, tile);
    const bool of_keys = stage_info(problem(), stage).row_axis == Axis::key;
    const std::int64_t first = of_keys ? tile.kv_tile * problem().block_n : tile.q_block * problem().block_m;
    std::fill(out.begin(), out.end(), std::bit_cast<float>(unwritten_bits));
    // Outputs are as wide as their tiles: the padding is rows.
    const Span<float> inside = out.first(std::size_t(extent.rows * shape.cols));
    read_rows(output(stage), tile.batch, tile.head, first, shape.cols, inside);
    mark_unstored(output(stage).dtype, inside);
    return true;
}

bool ArrayRecording::has_input(Input input) const {
    return inputs_[static_cast<std::size_t>(input)].data != nullptr;
}

void ArrayRecording::read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                                std::int64_t count, Span<float> out) const {
    const std::int64_t columns = input_shape(problem(), input).cols;
    read_rows(inputs_[static_cast<std::size_t>(input)], batch, head, row, columns,
              out.first(std::size_t(count * columns)));
}

}  // namespace tilescope
