#include "dump/file_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "dump/error.h"
#include "dump/file_attributes.h"
#include "dump/file_capture.h"
#include "dump/file_check.h"
#include "dump/file_layout.h"
#include "dump/file_metadata.h"

namespace tilescope {

namespace {

using hdf5::damaged_advice;
using hdf5::Id;
using hdf5::StoredDataset;

/// Where a tile lies in its dataset, and how much of it is stored.
struct StoredTile {
    std::vector<hsize_t> offset;
    std::vector<hsize_t> count;
    TileShape shape;
};

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

class FileRecording final : public Recording {
 public:
    explicit FileRecording(const std::string& path);
    ~FileRecording() override;

    const std::string& name() const override { return name_; }
    const Problem& problem() const override { return problem_; }
    const Units& units() const override { return units_; }
    const Provenance& provenance() const override { return provenance_; }
    const CaptureSummary& capture() const override { return capture_; }
    bool has_stage(Stage stage) const override;
    bool has_tile(Stage stage, const TileId& tile) const override;
    bool read_tile(Stage stage, const TileId& tile, std::span<float> out) const override;
    bool has_inputs() const override { return stored_.inputs[0].has_value(); }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    std::span<float> out) const override;

 private:
    struct Stored {
        hdf5::InputFile file;
        std::array<std::optional<StoredDataset>, stage_count> stages;
        std::array<std::optional<StoredDataset>, 3> inputs;
    };

    void open_stage(const StageInfo& info, std::array<std::int64_t, stage_count>& tiles_stored);
    void open_inputs();
    const StoredDataset* recorded(Stage stage, const TileId& tile) const;
    StoredTile locate(const StoredDataset& dataset, Stage stage, const TileId& tile) const;

    std::string name_;
    Problem problem_;
    Units units_;
    Provenance provenance_;
    CaptureSummary capture_;
    Stored stored_;
};

FileRecording::FileRecording(const std::string& path) : name_(path) {
    stored_.file = hdf5::open_file(path);
    hdf5::check_format(stored_.file);
    provenance_ = hdf5::read_provenance(stored_.file);
    problem_ = hdf5::read_problem(stored_.file);
    units_ = hdf5::read_common_units(stored_.file);
    std::array<std::int64_t, stage_count> tiles_stored = {};
    for (const StageInfo& info : all_stages()) open_stage(info, tiles_stored);
    open_inputs();
    capture_ = hdf5::read_capture(stored_.file, problem_, tiles_stored);
}

FileRecording::~FileRecording() {
    const hdf5::Session session;
    stored_ = Stored();
}

void FileRecording::open_stage(const StageInfo& info, std::array<std::int64_t, stage_count>& tiles_stored) {
    const bool is_output = layout::is_output(info.stage);
    const Dtype dtype = is_output ? layout::output_dtype(problem_, info.stage) : Dtype::f32;
    const DatasetShape shape = dataset_shape(problem_, info.stage);
    std::optional<StoredDataset> dataset =
        hdf5::open_dataset(stored_.file, std::string(info.dataset), dtype, shape.dims);
    if (!dataset) return;
    check_chunk(*dataset, shape);
    const auto index = static_cast<std::size_t>(info.stage);
    tiles_stored[index] = stored_tiles(*dataset, tile_count(problem_, info.stage));
    hdf5::read_stage_units(dataset->id.get(), dataset->where, info.stage, units_);
    if (is_output) hdf5::check_dtype(dataset->id.get(), dataset->where, dtype);
    stored_.stages[index] = std::move(dataset);
}

void FileRecording::open_inputs() {
    for (const layout::InputInfo& info : layout::all_inputs()) {
        const std::array<std::int64_t, 4> dims = {problem_.batch, problem_.*info.heads, problem_.*info.seqlen,
                                                  problem_.*info.head_dim};
        std::optional<StoredDataset> dataset =
            hdf5::open_dataset(stored_.file, info.dataset, problem_.*info.dtype, dims);
        const bool first = info.input == Input::q;
        if (!first && dataset.has_value() != stored_.inputs[0].has_value()) {
            throw Error("holds some of q, k and v, but not all", stored_.file.where(layout::path::inputs),
                        damaged_advice);
        }
        if (!dataset) continue;
        hdf5::check_dtype(dataset->id.get(), dataset->where, problem_.*info.dtype);
        const std::int64_t bytes = dims[0] * dims[1] * dims[2] * dims[3] * dtype_info(dataset->dtype).bytes;
        if (dataset->stored_bytes < bytes) {
            throw Error("declares " + std::to_string(bytes) + " bytes, but stores " +
                            std::to_string(dataset->stored_bytes),
                        dataset->where, damaged_advice);
        }
        stored_.inputs[static_cast<std::size_t>(info.input)] = std::move(dataset);
    }
}

// The dataset that can hold the tile; null when there is none, or the problem has no such tile.
const StoredDataset* FileRecording::recorded(Stage stage, const TileId& tile) const {
    const std::optional<StoredDataset>& dataset = stored_.stages[static_cast<std::size_t>(stage)];
    if (!dataset || dataset->stored_bytes == 0) return nullptr;
    const bool inside =
        tile.batch >= 0 && tile.batch < problem_.batch && tile.head >= 0 && tile.head < problem_.heads &&
        tile.q_block >= 0 && tile.q_block < problem_.q_blocks() &&
        (!stage_info(stage).per_kv_tile || (tile.kv_tile >= 0 && tile.kv_tile < problem_.kv_tiles()));
    return inside ? &*dataset : nullptr;
}

StoredTile FileRecording::locate(const StoredDataset& dataset, Stage stage, const TileId& tile) const {
    const DatasetShape shape = dataset_shape(problem_, stage);
    const std::vector<std::int64_t> index = chunk_index(stage, tile);
    StoredTile stored;
    for (std::size_t i = 0; i < index.size(); ++i) {
        const std::int64_t offset = index[i] * shape.chunk[i];
        const std::int64_t count =
            dataset.chunk.empty() ? std::min(shape.chunk[i], shape.dims[i] - offset) : dataset.chunk[i];
        stored.offset.push_back(static_cast<hsize_t>(offset));
        stored.count.push_back(static_cast<hsize_t>(count));
    }
    const auto last = static_cast<std::int64_t>(stored.count.back());
    const bool is_column = stage_info(stage).col_axis == Axis::unit;
    stored.shape =
        is_column ? TileShape{last, 1} : TileShape{static_cast<std::int64_t>(stored.count.end()[-2]), last};
    return stored;
}

// Whether the chunk exists; its size is checked, because H5Dread_chunk believes what the file says.
bool has_chunk(const StoredDataset& dataset, const StoredTile& tile) {
    hsize_t bytes = 0;
    // HDF5 1.10 reports a chunk that does not exist as an error. Damage was found by H5Dget_storage_size,
    // which walks the whole index when the file is opened.
    if (H5Dget_chunk_storage_size(dataset.id.get(), tile.offset.data(), &bytes) < 0 || bytes == 0) {
        return false;
    }
    if (bytes == static_cast<hsize_t>(dataset.chunk_bytes)) return true;
    throw Error(
        "has a chunk of " + std::to_string(bytes) + " bytes, not " + std::to_string(dataset.chunk_bytes),
        dataset.where, damaged_advice);
}

void read_chunk(const StoredDataset& dataset, const StoredTile& tile, void* out) {
    std::uint32_t filters = 0;
    if (H5Dread_chunk(dataset.id.get(), H5P_DEFAULT, tile.offset.data(), &filters, out) < 0) {
        throw Error("a tile cannot be read (" + hdf5::last_error() + ")", dataset.where, damaged_advice);
    }
}

void read_block(const StoredDataset& dataset, std::span<const hsize_t> offset, std::span<const hsize_t> count,
                void* out) {
    const Id type(H5Dget_type(dataset.id.get()));
    const Id space(H5Dget_space(dataset.id.get()));
    const Id memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, offset.data(), nullptr, count.data(), nullptr);
    if (H5Dread(dataset.id.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, out) < 0) {
        throw Error("cannot be read (" + hdf5::last_error() + ")", dataset.where, damaged_advice);
    }
}

bool FileRecording::has_stage(Stage stage) const {
    const std::optional<StoredDataset>& dataset = stored_.stages[static_cast<std::size_t>(stage)];
    return dataset && dataset->stored_bytes > 0;
}

bool FileRecording::has_tile(Stage stage, const TileId& tile) const {
    const StoredDataset* dataset = recorded(stage, tile);
    if (dataset == nullptr) return false;
    if (dataset->chunk.empty()) return true;
    const hdf5::Session session;
    return has_chunk(*dataset, locate(*dataset, stage, tile));
}

bool FileRecording::read_tile(Stage stage, const TileId& tile, std::span<float> out) const {
    const StoredDataset* dataset = recorded(stage, tile);
    if (dataset == nullptr) return false;
    const StoredTile stored = locate(*dataset, stage, tile);
    const TileShape shape = tile_shape(problem_, stage);
    const auto element_bytes = static_cast<std::size_t>(dtype_info(dataset->dtype).bytes);
    const bool as_it_is = dataset->dtype == Dtype::f32 && stored.shape == shape;
    std::vector<std::byte> scratch;
    {
        const hdf5::Session session;
        const bool chunked = !dataset->chunk.empty();
        if (chunked && !has_chunk(*dataset, stored)) return false;
        if (!as_it_is) scratch.resize(static_cast<std::size_t>(stored.shape.elements()) * element_bytes);
        void* target = as_it_is ? static_cast<void*>(out.data()) : scratch.data();
        if (chunked) {
            read_chunk(*dataset, stored, target);
        } else {
            read_block(*dataset, stored.offset, stored.count, target);
        }
    }
    if (as_it_is) return true;
    std::ranges::fill(out, std::bit_cast<float>(unwritten_bits));
    const auto cols = static_cast<std::size_t>(stored.shape.cols);
    for (std::int64_t row = 0; row < stored.shape.rows; ++row) {
        const auto bits = std::span(scratch).subspan(static_cast<std::size_t>(row) * cols * element_bytes,
                                                     cols * element_bytes);
        decode_array(dataset->dtype, bits, out.subspan(static_cast<std::size_t>(row * shape.cols), cols));
    }
    return true;
}

void FileRecording::read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                               std::int64_t count, std::span<float> out) const {
    const std::optional<StoredDataset>& dataset = stored_.inputs[static_cast<std::size_t>(input)];
    if (!dataset) throw Error("holds no inputs", name_, "record them too");
    const std::vector<std::int64_t>& dims = dataset->dims;
    if (batch < 0 || batch >= dims[0] || head < 0 || head >= dims[1] || row < 0 || count < 0 ||
        row > dims[2] - count) {
        throw Error("has no rows " + std::to_string(row) + " to " + std::to_string(row + count) +
                        " of batch " + std::to_string(batch) + " head " + std::to_string(head),
                    dataset->where, "ask for rows inside the input");
    }
    if (count == 0) return;
    const std::array<hsize_t, 4> offset = {static_cast<hsize_t>(batch), static_cast<hsize_t>(head),
                                           static_cast<hsize_t>(row), 0};
    const std::array<hsize_t, 4> block = {1, 1, static_cast<hsize_t>(count), static_cast<hsize_t>(dims[3])};
    const auto elements = static_cast<std::size_t>(count * dims[3]);
    std::vector<std::byte> bits(elements * static_cast<std::size_t>(dtype_info(dataset->dtype).bytes));
    {
        const hdf5::Session session;
        read_block(*dataset, offset, block, bits.data());
    }
    decode_array(dataset->dtype, bits, out.first(elements));
}

}  // namespace

std::unique_ptr<Recording> open_recording(const std::string& path) {
    // Declared first: what a failed constructor has opened is closed while the library is still held.
    const hdf5::Session session;
    return std::make_unique<FileRecording>(path);
}

}  // namespace tilescope
