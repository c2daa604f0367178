#include "dump/writer.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "dump/file/capture.h"
#include "dump/file/hdf5.h"
#include "dump/file/inputs.h"
#include "dump/file/layout.h"
#include "dump/file/metadata.h"
#include "dump/file/named_tiles.h"
#include "dump/file/output.h"
#include "dump/file/requires.h"
#include "dump/file/sink_image.h"
#include "dump/file/temporary.h"
#include "dump/file/threads.h"

namespace tilescope {

namespace {

using hdf5::check;
using hdf5::checked;
using hdf5::Id;
using hdf5::OutputFile;

std::vector<hsize_t> sizes_of(std::span<const std::int64_t> values) {
    return {values.begin(), values.end()};
}

// How many of the selected tiles are there, as far as is known before they are read. What a run wrote that
// ended early is not known.
std::int64_t count_expected(const Problem& problem, Stage stage, const CaptureSummary& capture,
                            std::int64_t selected) {
    if (capture.ended != "completed") return 0;
    const std::int64_t dropped = capture.stages[std::size_t(stage)].elements_dropped;
    return selected - dropped / tile_shape(problem, stage).elements();
}

// How far the dimensions of a dataset may grow. HDF5 allows a chunk that is longer than its dataset only
// where the dataset could grow, and it picks the chunk index by this. To whole chunks: an array with an
// address of each chunk there could be, which takes about half of the tree's time. Without limits: a tree of
// the chunks that there are, for a few out of many; a record of it takes 4 addresses or more.
std::vector<hsize_t> growing_dims(const std::vector<hsize_t>& dims, const std::vector<hsize_t>& chunk,
                                  std::int64_t expected_tiles) {
    std::vector<hsize_t> whole(dims.size());
    double chunks = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        const hsize_t count = (dims[i] + chunk[i] - 1) / chunk[i];
        whole[i] = count * chunk[i];
        chunks *= double(count);
    }
    if (double(expected_tiles) * 4 < chunks) whole.assign(dims.size(), H5S_UNLIMITED);
    return whole;
}

// A dataset with a chunk for each tile.
struct TileDataset {
    Id id;
    std::vector<hsize_t> chunk;
};

// `fill` stands for elements of 4 bytes that are not stored.
TileDataset create_tiles(hid_t file, const std::string& path, const DatasetShape& shape,
                         std::int64_t expected_tiles, hid_t type, std::uint32_t fill) {
    const std::vector<hsize_t> dims = sizes_of(shape.dims);
    std::vector<hsize_t> chunk = sizes_of(shape.chunk);
    const int rank = static_cast<int>(dims.size());
    const Id space =
        checked(H5Screate_simple(rank, dims.data(), growing_dims(dims, chunk, expected_tiles).data()));
    const Id properties = hdf5::creation_properties(H5P_DATASET_CREATE);
    check(H5Pset_chunk(properties.get(), rank, chunk.data()));
    check(H5Pset_fill_value(properties.get(), type, &fill));
    Id dataset = checked(
        H5Dcreate2(file, path.c_str(), type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
    return {std::move(dataset), std::move(chunk)};
}

// Of the elements that the tile's batch entry has.
std::int64_t count_unwritten(std::span<const float> values, const Recording& recording, Stage stage,
                             const TileId& tile) {
    const Problem entry = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
    const TileShape shape = tile_shape(entry, stage);
    TileShape extent = tile_extent(entry, stage, tile);
    if (extent.cols == shape.cols) extent = {1, extent.rows * extent.cols};  // rows without gaps
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < extent.rows; ++row) {
        const float* const row_values = values.data() + row * shape.cols;
        // As wide as an element, so that the compiler takes several elements at once.
        std::uint32_t in_row = 0;
        for (std::int64_t col = 0; col < extent.cols; ++col) {
            in_row += std::bit_cast<std::uint32_t>(row_values[col]) == unwritten_bits;
        }
        count += in_row;
    }
    return count;
}

// Calls visit(tile) for each selected tile, in order (batch, head, q_block, kv_tile).
template <class Visit>
void for_each_selected(const Problem& problem, Stage stage, const Selection& selection, Visit visit) {
    if (!selection.selects(stage)) return;
    const StageInfo info = stage_info(problem, stage);
    const std::int64_t q_blocks = info.per_q_block ? problem.q_blocks() : 1;
    const std::int64_t kv_tiles = info.per_kv_tile ? problem.kv_tiles() : 1;
    TileId tile;
    for (tile.batch = 0; tile.batch < problem.batch; ++tile.batch) {
        if (!selection.batch.contains(tile.batch)) continue;
        for (tile.head = 0; tile.head < stage_heads(problem, stage); ++tile.head) {
            if (!selection.selects_head(problem, stage, tile.head)) continue;
            for (tile.q_block = 0; tile.q_block < q_blocks; ++tile.q_block) {
                if (info.per_q_block && !selection.q_block.contains(tile.q_block)) continue;
                for (tile.kv_tile = 0; tile.kv_tile < kv_tiles; ++tile.kv_tile) {
                    if (selection.selects(problem, stage, tile)) visit(tile);
                }
            }
        }
    }
}

void write_tile(OutputFile& file, const TileDataset& dataset, const Problem& problem, Stage stage,
                const TileId& tile, std::span<const std::byte> bytes) {
    std::vector<hsize_t> offset = sizes_of(chunk_index(problem, stage, tile));
    for (std::size_t i = 0; i < offset.size(); ++i) offset[i] *= dataset.chunk[i];
    check(H5Dwrite_chunk(dataset.id.get(), H5P_DEFAULT, 0, offset.data(), bytes.size(), bytes.data()));
    file.check_written();
}

void write_stored_tiles(OutputFile& file, const TileDataset& dataset, const Recording& recording, Stage stage,
                        const CaptureSummary& capture, hdf5::StageCounts& counts) {
    const Problem& problem = recording.problem();
    const TileShape shape = tile_shape(problem, stage);
    const Selection selection = capture.selection.value_or(Selection());
    const auto elements = static_cast<std::size_t>(shape.elements());
    for_each_selected(problem, stage, selection, [&](const TileId& tile) {
        void* const room = file.behind.room(elements * sizeof(float));
        const std::span<float> values(static_cast<float*>(room), elements);
        if (!recording.read_tile(stage, tile, values)) return;
        ++counts.tiles_written;
        counts.elements_unwritten += count_unwritten(values, recording, stage, tile);
        write_tile(file, dataset, problem, stage, tile, std::as_bytes(values));
    });
}

// Behind the tiles of all stages: they lie behind them in the memory that they are copied from, too.
void write_writers(OutputFile& file, const Recording& recording, const CaptureSummary& capture) {
    const Problem& problem = recording.problem();
    Id group;
    for (const StageInfo& info : stages_of(problem)) {
        if (!recording.has_writers(info.stage)) continue;
        if (!group) group = hdf5::create_group(file.id.get(), layout::path::writers);
        const Selection selection = capture.selection.value_or(Selection());
        const TileDataset dataset = create_tiles(
            file.id.get(), layout::writers_of(info), dataset_shape(problem, info.stage),
            count_expected(problem, info.stage, capture, count_selected(problem, info.stage, selection)),
            H5T_STD_U32LE, 0);
        std::vector<ElementWriter> writers(std::size_t(tile_shape(problem, info.stage).elements()));
        for_each_selected(problem, info.stage, selection, [&](const TileId& tile) {
            if (!recording.read_writers(info.stage, tile, writers)) return;
            void* const room = file.behind.room(writers.size() * sizeof(std::uint32_t));
            const std::span<std::uint32_t> words(static_cast<std::uint32_t*>(room), writers.size());
            std::ranges::transform(writers, words.begin(), writer_word);
            write_tile(file, dataset, problem, info.stage, tile, std::as_bytes(words));
        });
    }
}

hdf5::StageCounts write_stage(OutputFile& file, const Recording& recording, const StageInfo& info,
                              const CaptureSummary& capture) {
    const Problem& problem = recording.problem();
    const Stage stage = info.stage;
    const bool stored = recording.has_stage(stage);
    const std::optional<Selection>& selection = capture.selection;
    const std::int64_t selected =
        stored || selection ? count_selected(problem, stage, selection.value_or(Selection())) : 0;
    const Id type = hdf5::element_type(Dtype::f32);
    const TileDataset dataset = create_tiles(file.id.get(), dataset_of(info), dataset_shape(problem, stage),
                                             stored ? count_expected(problem, stage, capture, selected) : 0,
                                             type.get(), unwritten_bits);
    const hid_t id = dataset.id.get();
    hdf5::write_stage_units(id, stage, recording.units());
    hdf5::write_named_axes(id, problem, stage);
    hdf5::write_stage_threads(id, recording.threads()[stage]);
    hdf5::write_stage_hooks(id, capture.stages[static_cast<std::size_t>(stage)].hooks);
    if (is_output(stage)) hdf5::write_dtype(id, stage_dtype(problem, stage));
    hdf5::StageCounts counts;
    if (stored) write_stored_tiles(file, dataset, recording, stage, capture, counts);
    counts.tiles_selected = selection ? selected : counts.tiles_written;
    return counts;
}

void write_contents(OutputFile& file, const Recording& recording, const CaptureSummary& capture,
                    hdf5::SinkRoom* sink) {
    hdf5::write_format(file.id.get(), recording.provenance());
    {
        const Id group = hdf5::create_group(file.id.get(), layout::path::problem);
        hdf5::write_problem(group.get(), recording.problem(), recording.units());
    }
    hdf5::write_requires(file.id.get(), recording.problem(), recording.units());
    for (const char* path : {layout::path::inputs, layout::path::tiles, layout::path::outputs}) {
        hdf5::create_group(file.id.get(), path);
    }
    hdf5::write_fragments(file.id.get(), recording.threads().fragments);
    hdf5::write_inputs(file, recording);
    hdf5::CaptureCounts counts;
    for (const StageInfo& info : stages_of(recording.problem())) {
        counts[static_cast<std::size_t>(info.stage)] = write_stage(file, recording, info, capture);
    }
    hdf5::write_capture(file.id.get(), recording.problem(), capture, counts);
    write_writers(file, recording, capture);
    if (sink != nullptr) hdf5::create_sink_image(file.id.get(), *sink);
    check(H5Fflush(file.id.get(), H5F_SCOPE_LOCAL));
    hdf5::write_complete(file.id.get());
}

}  // namespace

void hdf5::write_file(const TemporaryFile& temporary, const std::string& path, const Recording& recording,
                      const CaptureSummary& capture, SinkRoom* sink) {
    validate(recording.problem(), recording.name());
    validate(recording.units(), recording.name());
    validate(recording.side_inputs(), recording.problem(), recording.name());
    validate(recording.threads(), recording.problem(), recording.name());
    fill_file(temporary, path, sink,
              [&](OutputFile& file) { write_contents(file, recording, capture, sink); });
}

void write_recording(const std::string& path, const Recording& recording) {
    TemporaryFile temporary(path);
    hdf5::write_file(temporary, path, recording, recording.capture(), nullptr);
    temporary.commit();
}

}  // namespace tilescope
