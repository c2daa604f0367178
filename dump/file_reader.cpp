#include "dump/file_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "dump/error.h"
#include "dump/file_attributes.h"
#include "dump/file_contents.h"
#include "dump/file_trial.h"

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

class FileRecording final : public Recording {
 public:
    explicit FileRecording(hdf5::Contents contents) : contents_(std::move(contents)) {}
    ~FileRecording() override;

    const std::string& name() const override { return contents_->file.path; }
    const Problem& problem() const override { return contents_->problem; }
    const Units& units() const override { return contents_->units; }
    const Provenance& provenance() const override { return contents_->provenance; }
    const CaptureSummary& capture() const override { return contents_->capture; }
    bool has_stage(Stage stage) const override;
    bool has_tile(Stage stage, const TileId& tile) const override;
    bool read_tile(Stage stage, const TileId& tile, std::span<float> out) const override;
    bool has_inputs() const override { return contents_->inputs[0].has_value(); }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    std::span<float> out) const override;

 private:
    const StoredDataset* recorded(Stage stage, const TileId& tile) const;
    StoredTile locate(const StoredDataset& dataset, Stage stage, const TileId& tile) const;

    std::optional<hdf5::Contents> contents_;  // never empty before the destructor
};

FileRecording::~FileRecording() {
    const hdf5::Session session;
    contents_.reset();
}

// The dataset that can hold the tile; null when there is none, or the problem has no such tile.
const StoredDataset* FileRecording::recorded(Stage stage, const TileId& tile) const {
    const std::optional<StoredDataset>& dataset = contents_->stages[static_cast<std::size_t>(stage)];
    if (!dataset || dataset->stored_bytes == 0) return nullptr;
    const bool inside =
        tile.batch >= 0 && tile.batch < problem().batch && tile.head >= 0 && tile.head < problem().heads &&
        tile.q_block >= 0 && tile.q_block < problem().q_blocks() &&
        (!stage_info(stage).per_kv_tile || (tile.kv_tile >= 0 && tile.kv_tile < problem().kv_tiles()));
    return inside ? &*dataset : nullptr;
}

StoredTile FileRecording::locate(const StoredDataset& dataset, Stage stage, const TileId& tile) const {
    const DatasetShape shape = dataset_shape(problem(), stage);
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
    const std::optional<StoredDataset>& dataset = contents_->stages[static_cast<std::size_t>(stage)];
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
    const TileShape shape = tile_shape(problem(), stage);
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
    const std::optional<StoredDataset>& dataset = contents_->inputs[static_cast<std::size_t>(input)];
    if (!dataset) throw Error("holds no inputs", name(), "record them too");
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
    // A damaged file can leave HDF5 1.10 with objects that it cannot close, and it complains of them when the
    // program ends. Everything of ours is closed by then. The call only works before any other.
    static const herr_t no_exit_handler = H5dont_atexit();
    static_cast<void>(no_exit_handler);
    // Declared first: what a failed constructor has opened is closed while the library is still held.
    const hdf5::Session session;
    try_in_child([&] { hdf5::open_contents(path); }, hdf5::printable(path));
    return std::make_unique<FileRecording>(hdf5::open_contents(path));
}

}  // namespace tilescope
