#include "oracle/judge/writers.h"

#include <vector>

namespace tilescope {

namespace {

/// Calls visit(row, col, writer) for each element of the tile until it returns false.
template <class Visit>
void visit_writers(const Recording& recording, Stage stage, const TileId& tile, Visit visit) {
    const Problem entry = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
    const TileShape shape = tile_shape(recording.problem(), stage);
    std::vector<ElementWriter> writers(std::size_t(shape.elements()));
    if (!recording.read_writers(stage, tile, writers)) return;
    const TileShape extent = tile_extent(entry, stage, tile);
    for (std::int64_t row = 0; row < extent.rows; ++row) {
        for (std::int64_t col = 0; col < extent.cols; ++col) {
            if (!visit(row, col, writers[std::size_t(row * shape.cols + col)])) return;
        }
    }
}

}  // namespace

std::optional<WriterCounts> count_writers(const Recording& recording, Stage stage) {
    if (!recording.has_writers(stage)) return std::nullopt;
    WriterCounts counts;
    const std::int64_t tiles = tile_count(recording.problem(), stage);
    for (std::int64_t i = 0; i < tiles; ++i) {
        visit_writers(recording, stage, tile_at(recording.problem(), stage, i),
                      [&](std::int64_t, std::int64_t, const ElementWriter& writer) {
                          counts.repeated += writer.writes > 1;
                          counts.by_several += writer.several_threads;
                          return true;
                      });
    }
    return counts;
}

std::optional<RepeatedElement> first_repeated(const Recording& recording, Stage stage, const TileId& tile) {
    std::optional<RepeatedElement> first;
    visit_writers(recording, stage, tile,
                  [&](std::int64_t row, std::int64_t col, const ElementWriter& writer) {
                      if (writer.writes > 1) first = RepeatedElement{row, col, writer};
                      return !first;
                  });
    return first;
}

}  // namespace tilescope
