#include "oracle/heatmap/tile_map.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

constexpr float largest_float = std::numeric_limits<float>::max();

/// What a cell of the picture shows.
KindFlags flags_of(const TileFinding& finding) {
    if (finding.state == TileFinding::State::missing) return flag_of(Kind::unwritten);
    return finding.kinds;
}

void show(const TileFinding& finding, std::int64_t row, std::int64_t col, Pyramid& picture) {
    const KindFlags flags = flags_of(finding);
    for (int i = 0; i < kind_count; ++i) {
        const auto kind = Kind(i);
        if ((flags & flag_of(kind)) == 0) continue;
        const std::array<Kind, 1> kinds = {kind};
        picture.set_tile(row, col, 1, 1, std::span(&finding.worst, 1), kinds);
    }
}

}  // namespace

TileFinding finding_of(const ObservedTile& tile, const QuantityValues& over_budget,
                       std::vector<BadRow>* bad_rows) {
    StageTally tally;
    CompareOptions options = compare_options(tile);
    options.top = 0;
    compare_tile(tile.context, tile.got, *tile.expected, tile.end_to_end, options, tally);
    if (bad_rows != nullptr) *bad_rows = std::move(tally.bad_rows);
    TileFinding finding;
    finding.state = TileFinding::State::captured;
    finding.outside = std::uint32_t(tally.outside);
    finding.nan = std::uint32_t(tally.nan);
    finding.infinite = std::uint32_t(tally.infinite);
    // Those that the mask hides are no divergence.
    finding.unwritten = std::uint32_t(std::ranges::count(over_budget.kinds, Kind::unwritten));
    finding.inherited = std::uint32_t(tally.inherited);
    for (std::size_t i = 0; i < over_budget.values.size(); ++i) {
        finding.worst = std::max(finding.worst, over_budget.values[i]);
        finding.kinds |= flag_of(over_budget.kinds[i]);
    }
    if (tally.nan + tally.infinite + finding.unwritten > 0) finding.worst = largest_float;
    return finding;
}

bool is_missing(const Recording& recording, const Recording* other, Stage stage, const TileId& tile) {
    const Problem entry = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
    const TileShape extent = tile_extent(entry, stage, tile);
    if (extent.rows <= 0 || extent.cols <= 0) return false;
    if (other != nullptr) return is_missing_in_pair(recording, *other, entry, stage, tile);
    return must_hold(recording, entry, stage, tile) && !recording.has_tile(stage, tile);
}

void set_missing_tiles(const Recording& recording, const Recording* other, const Plane& plane,
                       Pyramid& pyramid) {
    const Problem& problem = recording.problem();
    const PlaneShape shape = plane_shape(problem, plane.stage);
    const Problem entry = problem_of(problem, recording.side_inputs(), plane.batch);
    const Pyramid::Level& blocks = pyramid.level(0);
    const bool aligned = shape.tile_rows % blocks.block_rows == 0 && shape.tile_cols % blocks.block_cols == 0;
    for (const TileId& tile : tiles_of(problem, plane)) {
        const PlaceInPlane corner = corner_of(problem, plane.stage, tile);
        // Looking into the file takes longer.
        const Rect place{corner.row, corner.col, corner.row + shape.tile_rows, corner.col + shape.tile_cols};
        if (aligned && pyramid.worst_of(place).kinds != 0) continue;
        if (!is_missing(recording, other, plane.stage, tile)) continue;
        const TileShape extent = tile_extent(entry, plane.stage, tile);
        const std::vector<float> zeros(std::size_t(extent.elements()));
        const std::vector<Kind> kinds(zeros.size(), Kind::unwritten);
        pyramid.set_tile(corner.row, corner.col, extent.rows, extent.cols, zeros, kinds);
    }
}

void set_unjudged_tiles(const Recording& recording, const Plane& plane, Pyramid& pyramid) {
    if (!recording.has_stage(plane.stage)) return;
    const Problem& problem = recording.problem();
    const PlaneShape shape = plane_shape(problem, plane.stage);
    const Problem entry = problem_of(problem, recording.side_inputs(), plane.batch);
    const Pyramid::Level& blocks = pyramid.level(0);
    if (shape.tile_rows % blocks.block_rows != 0 || shape.tile_cols % blocks.block_cols != 0) return;
    for (const TileId& tile : tiles_of(problem, plane)) {
        const PlaceInPlane corner = corner_of(problem, plane.stage, tile);
        const TileShape extent = tile_extent(entry, plane.stage, tile);
        const Rect place{corner.row, corner.col, corner.row + extent.rows, corner.col + extent.cols};
        if (place.empty() || pyramid.worst_of(place).kinds != 0) continue;
        if (!recording.has_tile(plane.stage, tile)) continue;
        const std::vector<float> zeros(std::size_t(extent.elements()));
        const std::vector<Kind> kinds(zeros.size(), Kind::not_judged);
        pyramid.set_tile(corner.row, corner.col, extent.rows, extent.cols, zeros, kinds);
    }
}

std::int64_t TileMap::columns(Stage stage) const {
    return stage_info(problem_, stage).per_kv_tile ? problem_.kv_tiles() : 1;
}

std::size_t TileMap::index(Stage stage, const TileId& tile) const {
    return std::size_t(tile.q_block * columns(stage) +
                       (stage_info(problem_, stage).per_kv_tile ? tile.kv_tile : 0));
}

TileMap::Head& TileMap::head_of(Stage stage, const TileId& tile) {
    Head& head = heads_[{stage, tile.batch, tile.head}];
    if (head.tiles.empty()) {
        const std::int64_t rows = stage_info(problem_, stage).per_q_block ? problem_.q_blocks() : 1;
        head.tiles.resize(std::size_t(rows * columns(stage)));
        head.picture = std::make_shared<Pyramid>(rows, columns(stage), 1, sign_of(Quantity::over_budget));
    }
    return head;
}

void TileMap::set(Stage stage, const TileId& tile, const TileFinding& finding) {
    const std::scoped_lock lock(mutex_);
    Head& head = head_of(stage, tile);
    head.tiles[index(stage, tile)] = finding;
    MarksSeen& seen = seen_[stage];
    seen.kinds |= finding.state == TileFinding::State::missing ? flag_of(Kind::unwritten) : finding.kinds;
    seen.conflicting |= finding.conflicting > 0;
    show(finding, tile.q_block, stage_info(problem_, stage).per_kv_tile ? tile.kv_tile : 0, *head.picture);
    ++version_;
}

MarksSeen TileMap::seen(Stage stage) const {
    const std::shared_lock lock(mutex_);
    const auto found = seen_.find(stage);
    MarksSeen seen = found == seen_.end() ? MarksSeen() : found->second;
    if (!finished_) seen.kinds |= flag_of(Kind::not_judged);
    return seen;
}

TileFinding TileMap::at(Stage stage, const TileId& tile) const {
    const std::shared_lock lock(mutex_);
    const auto found = heads_.find({stage, tile.batch, tile.head});
    TileFinding finding = found == heads_.end() ? TileFinding() : found->second.tiles[index(stage, tile)];
    if (finding.state == TileFinding::State::not_captured && !finished_)
        finding.state = TileFinding::State::not_judged;
    return finding;
}

std::vector<TileId> TileMap::bad_tiles(Stage stage) const {
    std::vector<TileId> tiles;
    const std::shared_lock lock(mutex_);
    for (const auto& [key, head] : heads_) {
        if (std::get<Stage>(key) != stage) continue;
        for (std::size_t i = 0; i < head.tiles.size(); ++i) {
            if (!head.tiles[i].bad()) continue;
            const auto at = std::int64_t(i);
            tiles.push_back({std::get<1>(key), std::get<2>(key), at / columns(stage), at % columns(stage)});
        }
    }
    std::ranges::sort(tiles, {}, [](const TileId& tile) {
        return std::tuple(tile.batch, tile.head, tile.kv_tile, tile.q_block);
    });
    return tiles;
}

std::shared_ptr<const Pyramid> TileMap::picture(Stage stage, std::int64_t batch, std::int64_t head) const {
    const std::shared_lock lock(mutex_);
    const auto found = heads_.find({stage, batch, head});
    return found == heads_.end() ? nullptr : found->second.picture;
}

std::shared_ptr<const Pyramid> TileMap::empty_picture(Stage stage) const {
    const std::int64_t rows = stage_info(problem_, stage).per_q_block ? problem_.q_blocks() : 1;
    auto picture = std::make_shared<Pyramid>(rows, columns(stage), 1, sign_of(Quantity::over_budget));
    const std::shared_lock lock(mutex_);
    if (finished_) picture->complete();
    return picture;
}

void TileMap::finish(const Recording& recording, const Recording* other) {
    for (const StageInfo& info : stages_of(problem_)) {
        const bool judged =
            recording.has_stage(info.stage) && (other == nullptr || other->has_stage(info.stage));
        for (std::int64_t i = 0; i < tile_count(problem_, info.stage); ++i) {
            const TileId tile = tile_at(problem_, info.stage, i);
            if (at(info.stage, tile).state != TileFinding::State::not_judged) continue;
            if (!judged || !is_missing(recording, other, info.stage, tile)) {
                if (recording.has_stage(info.stage) && recording.has_tile(info.stage, tile)) {
                    set(info.stage, tile,
                        {.state = TileFinding::State::not_judged, .kinds = flag_of(Kind::not_judged)});
                } else {
                    const std::scoped_lock lock(mutex_);
                    seen_[info.stage].kinds |= flag_of(Kind::not_captured);
                }
                continue;
            }
            const Problem entry = problem_of(problem_, recording.side_inputs(), tile.batch);
            TileFinding finding;
            finding.state = TileFinding::State::missing;
            finding.worst = largest_float;
            finding.unwritten = std::uint32_t(tile_extent(entry, info.stage, tile).elements());
            finding.outside = finding.unwritten;
            set(info.stage, tile, finding);
        }
        if (other != nullptr) continue;
        for (const StageCapture::Conflict& conflict :
             recording.capture().stages[static_cast<std::size_t>(info.stage)].conflicts) {
            TileFinding finding = at(info.stage, conflict.tile);
            finding.conflicting += std::uint32_t(conflict.elements);
            set(info.stage, conflict.tile, finding);
        }
    }
    end();
}

void TileMap::finish_from(const TileMap& other) {
    for (const StageInfo& info : stages_of(problem_)) {
        for (std::int64_t i = 0; i < tile_count(problem_, info.stage); ++i) {
            const TileId tile = tile_at(problem_, info.stage, i);
            const TileFinding finding = other.at(info.stage, tile);
            const bool here = at(info.stage, tile).state != TileFinding::State::not_judged;
            if (!here && finding.state != TileFinding::State::not_captured) set(info.stage, tile, finding);
        }
        const std::scoped_lock lock(mutex_);
        seen_[info.stage].kinds |= KindFlags(other.seen(info.stage).kinds & flag_of(Kind::not_captured));
    }
    end();
}

void TileMap::end() {
    const std::scoped_lock lock(mutex_);
    finished_ = true;
    for (auto& [key, head] : heads_) head.picture->complete();
    ++version_;
}

}  // namespace tilescope
