#include "dump/file/contents.h"

#include <algorithm>
#include <utility>

#include "dump/file/attributes.h"
#include "dump/file/capture.h"
#include "dump/file/dropout.h"
#include "dump/file/layout.h"
#include "dump/file/metadata.h"
#include "dump/file/named_tiles.h"
#include "dump/file/threads.h"
#include "dump/schema/error.h"

namespace tilescope::hdf5 {

namespace {

std::string text_of(const std::vector<std::int64_t>& sizes) {
    std::string text;
    for (const std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
    return text;
}

// A chunk holds one tile. h5py cannot write chunks that are longer than the dataset, so such a chunk may also
// be cut at the dataset's end.
void check_chunk(const StoredDataset& dataset, const DatasetShape& shape) {
    if (dataset.chunk.empty() || dataset.chunk == shape.chunk) return;
    std::vector<std::int64_t> cut = shape.chunk;
    for (std::size_t i = 0; i < cut.size(); ++i) cut[i] = std::min(cut[i], shape.dims[i]);
    if (dataset.chunk == cut) return;
    throw Error("has chunks of " + text_of(dataset.chunk) + ", not of one tile, " + text_of(shape.chunk),
                dataset.where, damaged_advice);
}

std::int64_t stored_tiles(const StoredDataset& dataset, std::int64_t tile_count) {
    if (dataset.chunk.empty()) return dataset.stored_bytes > 0 ? tile_count : 0;
    const std::int64_t tiles = dataset.stored_bytes / dataset.chunk_bytes;
    if (dataset.stored_bytes % dataset.chunk_bytes != 0 || tiles > tile_count) {
        throw Error("stores " + std::to_string(dataset.stored_bytes) + " bytes, not whole tiles of " +
                        std::to_string(dataset.chunk_bytes),
                    dataset.where, damaged_advice);
    }
    return tiles;
}

// What is stored there would be judged by nobody.
void require_absent(const Contents& contents, const StageInfo& info) {
    if (!has_object(contents.file, dataset_of(info))) return;
    const Direction direction = contents.problem.direction;
    throw Error("belongs to a stage that the " + std::string(declarations::name_of(direction)) +
                    " pass does not have, and attribute direction of /problem says " +
                    (direction == Direction::forward ? "forward, or nothing" : "backward"),
                contents.file.where(dataset_of(info)),
                "leave it out, or write the direction that it belongs to");
}

// Returns how many tiles the dataset holds.
std::int64_t open_stage(Contents& contents, const StageInfo& info) {
    if (!has_stage(contents.problem, info.stage)) {
        require_absent(contents, info);
        return 0;
    }
    const Dtype dtype = stage_dtype(contents.problem, info.stage);
    const DatasetShape shape = dataset_shape(contents.problem, info.stage);
    std::optional<StoredDataset> dataset = open_dataset(contents.file, dataset_of(info), dtype, shape.dims);
    if (!dataset) return 0;
    check_chunk(*dataset, shape);
    const std::int64_t tiles = stored_tiles(*dataset, tile_count(contents.problem, info.stage));
    read_stage_units(dataset->id.get(), dataset->where, info.stage, contents.units);
    read_stage_threads(contents.file, dataset->id.get(), dataset->where, contents.problem, info.stage,
                       contents.threads);
    if (is_output(info.stage)) check_dtype(dataset->id.get(), dataset->where, dtype);
    contents.stages[static_cast<std::size_t>(info.stage)] = std::move(dataset);
    return tiles;
}

void open_hooks(Contents& contents, Stage stage) {
    const auto index = static_cast<std::size_t>(stage);
    const std::optional<StoredDataset>& dataset = contents.stages[index];
    if (dataset) contents.capture.stages[index].hooks = read_stage_hooks(dataset->id.get(), dataset->where);
}

// Who wrote the elements of a stage that the direction has.
void open_writers(Contents& contents, const StageInfo& info) {
    const DatasetShape shape = dataset_shape(contents.problem, info.stage);
    std::optional<StoredDataset> dataset = open_words(contents.file, layout::writers_of(info), shape.dims);
    if (!dataset) return;
    check_chunk(*dataset, shape);
    stored_tiles(*dataset, tile_count(contents.problem, info.stage));
    contents.writers[static_cast<std::size_t>(info.stage)] = std::move(dataset);
}

void require_attention(const InputFile& file) {
    if (!is_of_program(file)) return;
    throw Error("is a declared kernel, and no recording of attention", file.where(layout::path::program),
                "judge it by itself with tile-diff, or look at it by itself with tile-view");
}

// The backward pass reads lse instead of computing it: its units stand at the input.
void read_lse_units(Contents& contents) {
    const std::optional<StoredDataset>& lse = contents.inputs.tensors[static_cast<std::size_t>(Input::lse)];
    if (lse) read_stage_units(lse->id.get(), lse->where, Stage::lse, contents.units);
}

}  // namespace

Contents open_contents(InputFile file) {
    const PluginsOff plugins_off;
    Contents contents;
    contents.file = std::move(file);
    open_hdf5(contents.file);
    check_format(contents.file);
    require_attention(contents.file);
    contents.provenance = read_provenance(contents.file);
    contents.problem = read_problem(contents.file);
    read_named_tiles(contents.file, contents.problem);
    contents.units = read_common_units(contents.file);
    std::array<std::int64_t, stage_count> tiles_stored = {};
    for (int i = 0; i < stage_count; ++i) {
        const StageInfo info = stage_info(contents.problem, Stage(i));
        if (!info.name.empty()) tiles_stored[static_cast<std::size_t>(i)] = open_stage(contents, info);
    }
    contents.inputs = open_inputs(contents.file, contents.problem);
    read_lse_units(contents);
    contents.references = open_references(contents.file, contents.problem);
    contents.capture = read_capture(contents.file, contents.problem, tiles_stored);
    for (const StageInfo& info : stages_of(contents.problem)) {
        open_hooks(contents, info.stage);
        open_writers(contents, info);
    }
    contents.sink = open_sink_image(contents.file, contents.problem, tiles_stored, contents.capture);
    check_dropout(contents.file);
    return contents;
}

}  // namespace tilescope::hdf5
