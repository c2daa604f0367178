#include <algorithm>
#include <limits>

#include "oracle/program/attention.h"

namespace tilescope {

namespace {

/// The next index of a tile, row-major.
void advance(const std::vector<AxisRange>& ranges, std::vector<std::int64_t>& at) {
    for (std::size_t k = ranges.size(); k > 0; --k) {
        if (++at[k - 1] < ranges[k - 1].first + ranges[k - 1].count) return;
        at[k - 1] = ranges[k - 1].first;
    }
}

}  // namespace

RecordedAttention::RecordedAttention(const Recording& recording, const Program& program)
    : recording_(recording) {
    for (std::int64_t b = 0; b < recording.problem().batch; ++b)
        entries_.push_back(problem_of(recording.problem(), recording.side_inputs(), b));
    for (const ProgramArray& array : program.arrays) {
        const std::optional<Stage> stage = array.is_stage ? stage_from_name(array.name) : std::nullopt;
        stages_.push_back(stage && recording.has_stage(*stage) ? stage : std::nullopt);
    }
}

bool RecordedAttention::has(int stage) const {
    return stages_[std::size_t(stage)].has_value();
}

void RecordedAttention::read(const ProgramTile& tile, std::span<double> out, std::span<char> known) const {
    const Stage stage = *stages_[std::size_t(tile.stage)];
    const std::int64_t block_cols = tile_shape(recording_.problem(), stage).cols;
    std::vector<std::int64_t> at;
    for (const AxisRange& range : tile.indices) at.push_back(range.first);
    // Elements of one tile of the recording come one after the other.
    std::optional<TileId> read;
    const std::vector<float>* values = nullptr;
    TileShape of_entry{};
    for (std::int64_t i = 0; i < tile.size(); ++i, advance(tile.indices, at)) {
        const auto [id, row, col] = place_of(stage, at, tile.block);
        if (read != id) {
            read = id;
            values = &tile_of(stage, id);
            of_entry = tile_extent(entries_[std::size_t(id.batch)], stage, id);
        }
        if (values->empty() || row >= of_entry.rows || col >= of_entry.cols) continue;
        const float value = (*values)[std::size_t(row * block_cols + col)];
        // What m holds before its row has seen a score is no score.
        const bool is_start = stage == Stage::m && value == float(recording_.units().m_start);
        out[std::size_t(i)] = is_start ? -std::numeric_limits<double>::infinity() : double(value);
        known[std::size_t(i)] = 1;
    }
}

RecordedAttention::Place RecordedAttention::place_of(Stage stage, std::span<const std::int64_t> at,
                                                     std::int64_t block) const {
    const Problem& p = recording_.problem();
    const StageInfo info = stage_info(p, stage);
    const bool is_copy = at.size() > 4;  // of keys, for each query block
    const bool is_of_rows = info.per_q_block && !is_copy;
    const std::int64_t rows = is_of_rows ? p.block_m : p.block_n;
    Place place{{at[0], at[1], 0, std::max<std::int64_t>(block, 0)}, at[is_copy ? 3 : 2] % rows, 0};
    if (is_copy) place.id.q_block = at[2];
    (is_of_rows ? place.id.q_block : place.id.kv_tile) = at[is_copy ? 3 : 2] / rows;
    place.col = at.size() > 3 ? at.back() : 0;
    if (is_of_rows && info.per_kv_tile && block < 0) {
        place.id.kv_tile = place.col / p.block_n;
        place.col %= p.block_n;
    }
    return place;
}

const std::vector<float>& RecordedAttention::tile_of(Stage stage, const TileId& id) const {
    const std::scoped_lock lock(reading_);
    const auto [found, is_new] = tiles_.try_emplace({stage, id});
    if (is_new && recording_.has_tile(stage, id)) {
        found->second.resize(std::size_t(tile_shape(recording_.problem(), stage).elements()));
        if (!recording_.read_tile(stage, id, found->second)) found->second.clear();
    }
    return found->second;
}

}  // namespace tilescope
