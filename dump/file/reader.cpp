#include "dump/reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "dump/file/attributes.h"
#include "dump/file/blocks.h"
#include "dump/file/chunks.h"
#include "dump/file/contents.h"
#include "dump/file/trial.h"
#include "dump/recording/array_shape.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

using hdf5::damaged_advice;
using hdf5::StoredDataset;

/// Where the stored part of a tile lies in the file: rows that begin `row_stride` bytes apart.
struct StoredTile {
    std::int64_t address = 0;
    std::int64_t row_stride = 0;
    TileShape shape;
};

class FileRecording final : public Recording {
 public:
    explicit FileRecording(hdf5::Contents contents) : contents_(std::move(contents)) {
        chunks_.emplace(*contents_);
    }
    ~FileRecording() override;

    const std::string& name() const override { return contents_->file.path; }
    const Problem& problem() const override { return contents_->problem; }
    const Units& units() const override { return contents_->units; }
    const Provenance& provenance() const override { return contents_->provenance; }
    const CaptureSummary& capture() const override { return contents_->capture; }
    const ThreadLayouts& threads() const override { return contents_->threads; }
    bool has_stage(Stage stage) const override;
    bool has_tile(Stage stage, const TileId& tile) const override;
    bool may_hold(const TileId& q_block) const override {
        return !blocks_ || blocks_->contains(hdf5::block_number(problem(), q_block));
    }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override;
    bool has_writers(Stage stage) const override;
    bool read_writers(Stage stage, const TileId& tile, Span<ElementWriter> out) const override;
    bool has_input(Input input) const override { return tensor_of(input).has_value(); }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override;
    const SideInputs& side_inputs() const override { return contents_->inputs.side; }
    bool has_bias() const override { return contents_->inputs.bias.has_value(); }
    void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                   Span<float> out) const override;
    Span<const ReferenceInfo> references() const override { return contents_->references.infos; }
    void read_reference(std::size_t index, Stage stage, std::int64_t batch, std::int64_t head,
                        std::int64_t row, std::int64_t count, Span<float> out) const override;
    void require_unchanged() const override {
        // A sink may be read at any moment.
        if (!contents_->sink) hdf5::require_unchanged(contents_->file);
    }
    /// Looks up a few tiles of each stage. Errors: Error for a damaged file.
    void try_some_tiles() const;
    /// Finds out which stages the image of a sink has anything of, and of which query blocks a file is that
    /// holds few. Errors: as read_tile().
    void look_around();

 private:
    const std::optional<StoredDataset>& tensor_of(Input input) const {
        return contents_->inputs.tensors[static_cast<std::size_t>(input)];
    }
    using Datasets = std::array<std::optional<StoredDataset>, stage_count>;
    const StoredDataset* recorded(const Datasets& datasets, Stage stage, const TileId& tile) const;
    std::optional<StoredTile> locate(const Datasets& datasets, Stage stage, const TileId& tile) const;
    std::vector<std::byte> bits_of(const StoredDataset& dataset, const StoredTile& stored) const;
    void read(const std::string& where, std::int64_t address, std::int64_t bytes, void* out) const;

    bool read_from_sink(Stage stage, const TileId& tile, Span<float> out) const {
        return contents_->sink->read_tile(contents_->file, stage, tile, out);
    }

    std::optional<hdf5::Contents> contents_;  // never empty before the destructor
    std::optional<hdf5::Chunks> chunks_;      // the same
    std::array<bool, stage_count> in_sink_ = {};
    std::optional<hdf5::BlockNumbers> blocks_;  ///< that something was recorded of; nullopt: not known
};

FileRecording::~FileRecording() {
    const hdf5::Session session;
    contents_.reset();
}

void FileRecording::try_some_tiles() const {
    hdf5::stored_blocks(problem(), contents_->stages);
    constexpr std::int64_t tries = 16;
    for (const StageInfo& info : stages_of(problem())) {
        const std::int64_t tiles = tile_count(problem(), info.stage);
        const std::int64_t step = std::max<std::int64_t>(tiles / tries, 1);
        for (std::int64_t i = 0; i < tiles; i += step) {
            const TileId tile = tile_at(problem(), info.stage, i);
            locate(contents_->stages, info.stage, tile);
            locate(contents_->writers, info.stage, tile);
        }
    }
}

void FileRecording::look_around() {
    if (!contents_->sink) {
        blocks_ = hdf5::stored_blocks(problem(), contents_->stages);
        return;
    }
    for (const StageInfo& info : stages_of(problem())) {
        bool& found = in_sink_[static_cast<std::size_t>(info.stage)];
        const std::int64_t tiles = tile_count(problem(), info.stage);
        for (std::int64_t i = 0; !found && i < tiles; ++i) {
            found = has_tile(info.stage, tile_at(problem(), info.stage, i));
        }
    }
}

// The dataset that can hold the tile; null when there is none, or the problem has no such tile.
const StoredDataset* FileRecording::recorded(const Datasets& datasets, Stage stage,
                                             const TileId& tile) const {
    const std::optional<StoredDataset>& dataset = datasets[static_cast<std::size_t>(stage)];
    if (!dataset || dataset->stored_bytes == 0) return nullptr;
    const StageInfo info = stage_info(problem(), stage);
    const auto in = [](std::int64_t value, std::int64_t count) { return value >= 0 && value < count; };
    const bool inside = in(tile.batch, problem().batch) && in(tile.head, stage_heads(problem(), stage)) &&
                        (!info.per_q_block || in(tile.q_block, problem().q_blocks())) &&
                        (!info.per_kv_tile || in(tile.kv_tile, problem().kv_tiles()));
    return inside ? &*dataset : nullptr;
}

std::vector<std::int64_t> start_of(const Problem& problem, Stage stage, const TileId& tile) {
    std::vector<std::int64_t> start = chunk_index(problem, stage, tile);
    const std::vector<std::int64_t> chunk = dataset_shape(problem, stage).chunk;
    for (std::size_t i = 0; i < start.size(); ++i) start[i] *= chunk[i];
    return start;
}

// Nothing when the tile was not recorded.
std::optional<StoredTile> FileRecording::locate(const Datasets& datasets, Stage stage,
                                                const TileId& tile) const {
    const StoredDataset* dataset = recorded(datasets, stage, tile);
    if (dataset == nullptr) return std::nullopt;
    const std::int64_t element_bytes = dtype_info(dataset->dtype).bytes;
    const bool is_column =
        stage_info(problem(), stage).col_axis == Axis::unit && tile_shape(problem(), stage).cols == 1;
    StoredTile stored;
    if (dataset->chunk.empty()) {
        stored.shape = tile_extent(problem(), stage, tile);
        const std::vector<std::int64_t> start = start_of(problem(), stage, tile);
        std::int64_t element = 0;
        for (std::size_t i = 0; i < start.size(); ++i) element = element * dataset->dims[i] + start[i];
        stored.address = dataset->offset + element * element_bytes;
        stored.row_stride = element_bytes * (is_column ? 1 : dataset->dims.back());
        return stored;
    }
    const std::optional<std::int64_t> address = chunks_->address_of(*dataset, stage, tile);
    if (!address) return std::nullopt;
    stored.shape = is_column ? TileShape{dataset->chunk.back(), 1}
                             : TileShape{dataset->chunk.end()[-2], dataset->chunk.back()};
    stored.address = *address;
    stored.row_stride = element_bytes * stored.shape.cols;
    return stored;
}

void FileRecording::read(const std::string& where, std::int64_t address, std::int64_t bytes,
                         void* out) const {
    if (hdf5::read_exactly(contents_->file.descriptor.get(), address, bytes, out)) return;
    const std::string reason = errno == 0 ? "the file has become shorter" : std::strerror(errno);
    throw Error("cannot be read: " + reason, where, "check its disk");
}

bool FileRecording::has_stage(Stage stage) const {
    if (contents_->sink) return in_sink_[static_cast<std::size_t>(stage)];
    const std::optional<StoredDataset>& dataset = contents_->stages[static_cast<std::size_t>(stage)];
    return dataset && dataset->stored_bytes > 0;
}

bool FileRecording::has_tile(Stage stage, const TileId& tile) const {
    if (contents_->sink) {
        std::vector<float> unused(static_cast<std::size_t>(tile_shape(problem(), stage).elements()));
        return read_from_sink(stage, tile, unused);
    }
    return locate(contents_->stages, stage, tile).has_value();
}

// The elements that are stored, row after row.
std::vector<std::byte> FileRecording::bits_of(const StoredDataset& dataset, const StoredTile& stored) const {
    const std::int64_t row_bytes = stored.shape.cols * dtype_info(dataset.dtype).bytes;
    std::vector<std::byte> bits(static_cast<std::size_t>(stored.shape.rows * row_bytes));
    if (stored.row_stride == row_bytes) {
        read(dataset.where, stored.address, std::ssize(bits), bits.data());
        return bits;
    }
    for (std::int64_t row = 0; row < stored.shape.rows; ++row) {
        read(dataset.where, stored.address + row * stored.row_stride, row_bytes, &bits[row * row_bytes]);
    }
    return bits;
}

bool FileRecording::read_tile(Stage stage, const TileId& tile, Span<float> out) const {
    if (contents_->sink) return read_from_sink(stage, tile, out);
    const std::optional<StoredTile> located = locate(contents_->stages, stage, tile);
    if (!located) return false;
    const StoredTile& stored = *located;
    const StoredDataset& dataset = *recorded(contents_->stages, stage, tile);
    const TileShape shape = tile_shape(problem(), stage);
    const std::int64_t row_bytes = stored.shape.cols * dtype_info(dataset.dtype).bytes;
    const bool gapless = stored.row_stride == row_bytes;
    if (gapless && stored.shape == shape && dataset.dtype == Dtype::f32) {
        read(dataset.where, stored.address, stored.shape.rows * row_bytes, out.data());
        return true;
    }
    const std::vector<std::byte> bits = bits_of(dataset, stored);
    std::ranges::fill(out, std::bit_cast<float>(unwritten_bits));
    for (std::int64_t row = 0; row < stored.shape.rows; ++row) {
        decode_array(dataset.dtype, std::span(bits).subspan(row * row_bytes, row_bytes),
                     out.subspan(row * shape.cols, stored.shape.cols));
    }
    return true;
}

bool FileRecording::has_writers(Stage stage) const {
    const std::optional<StoredDataset>& dataset = contents_->writers[static_cast<std::size_t>(stage)];
    return dataset && dataset->stored_bytes > 0;
}

bool FileRecording::read_writers(Stage stage, const TileId& tile, Span<ElementWriter> out) const {
    const std::optional<StoredTile> stored = locate(contents_->writers, stage, tile);
    if (!stored) return false;
    const std::vector<std::byte> bits = bits_of(*recorded(contents_->writers, stage, tile), *stored);
    std::vector<std::uint32_t> words(bits.size() / sizeof(std::uint32_t));
    std::memcpy(words.data(), bits.data(), bits.size());
    std::ranges::fill(out, ElementWriter());
    const TileShape& shape = stored->shape;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        std::ranges::transform(std::span(words).subspan(row * shape.cols, shape.cols),
                               out.begin() + row * tile_shape(problem(), stage).cols, element_writer);
    }
    return true;
}

void FileRecording::read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                               std::int64_t count, Span<float> out) const {
    const hdf5::StoredInputs& inputs = contents_->inputs;
    const std::optional<StoredDataset>& dataset = tensor_of(input);
    if (!dataset) throw Error("holds no such input", name(), "ask for it only where has_input()");
    const std::int64_t heads = input_shape(problem(), input).heads;
    if (batch < 0 || batch >= problem().batch || head < 0 || head >= heads || row < 0 || count < 0 ||
        row > inputs.rows(problem(), input, batch) - count) {
        throw Error("has no " + std::to_string(count) + " rows from row " + std::to_string(row) +
                        " on in batch " + std::to_string(batch) + " head " + std::to_string(head),
                    dataset->where, "ask for rows inside the input");
    }
    const std::int64_t row_elements = input_shape(problem(), input).cols;
    const std::int64_t element_bytes = dtype_info(dataset->dtype).bytes;
    std::vector<std::byte> bits;
    for (std::int64_t done = 0; done < count;) {
        const hdf5::RowRun run = inputs.find_rows(input, batch, head, row + done, count - done);
        bits.resize(static_cast<std::size_t>(run.count * row_elements * element_bytes));
        read(dataset->where, dataset->offset + run.first * row_elements * element_bytes, std::ssize(bits),
             bits.data());
        decode_array(dataset->dtype, bits, out.subspan(done * row_elements, run.count * row_elements));
        done += run.count;
    }
}

void FileRecording::read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                              Span<float> out) const {
    const std::optional<hdf5::StoredArray>& bias = contents_->inputs.bias;
    if (!bias) throw Error("holds no bias", name(), "ask for it only where has_bias()");
    const std::array<std::int64_t, 4> index = {batch, head, row, first_key};
    const std::array<std::int64_t, 4> full = hdf5::bias_dims(problem());
    std::int64_t element = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
        const std::int64_t count = i == 3 ? std::ssize(out) : 1;
        if (index[i] < 0 || index[i] > full[i] - count) {
            throw Error("has no such element", bias->where, "ask for elements inside the problem");
        }
        element = element * bias->dims[i] + (bias->dims[i] == 1 ? 0 : index[i]);
    }
    if (out.empty()) return;
    const Span<float> stored = bias->dims.back() == 1 ? out.first(1) : out;
    read(bias->where, bias->offset + element * std::int64_t(sizeof(float)),
         std::ssize(stored) * sizeof(float), stored.data());
    if (!std::ranges::all_of(stored, is_bias)) throw Error("holds NaN or +inf", bias->where, damaged_advice);
    std::ranges::fill(out.subspan(stored.size()), stored.front());
}

void FileRecording::read_reference(std::size_t index, Stage stage, std::int64_t batch, std::int64_t head,
                                   std::int64_t row, std::int64_t count, Span<float> out) const {
    const StoredDataset* dataset = contents_->references.find(index, stage);
    if (dataset == nullptr) {
        throw Error("holds no such reference", name(), "ask only for those of references()");
    }
    const Problem& p = problem();
    if (batch < 0 || batch >= p.batch || head < 0 || head >= p.heads || row < 0 || count < 0 ||
        row > p.seqlen_q - count) {
        throw Error("has no such rows", dataset->where, "ask for rows inside the problem");
    }
    const std::int64_t row_elements = stage == Stage::o ? p.head_dim_v : 1;
    const std::int64_t row_bytes = row_elements * dtype_info(dataset->dtype).bytes;
    const std::int64_t first = (batch * p.heads + head) * p.seqlen_q + row;
    std::vector<std::byte> bits(static_cast<std::size_t>(count * row_bytes));
    read(dataset->where, dataset->offset + first * row_bytes, std::ssize(bits), bits.data());
    decode_array(dataset->dtype, bits, out.first(static_cast<std::size_t>(count * row_elements)));
}

std::unique_ptr<Recording> open_tried(hdf5::InputFile file) {
    auto recording = std::make_unique<FileRecording>(hdf5::open_contents(std::move(file)));
    recording->look_around();
    recording->require_unchanged();
    return recording;
}

}  // namespace

std::unique_ptr<Recording> open_recording(const std::string& path) {
    // Declared first: what a failed constructor has opened is closed while the library is still held.
    const hdf5::Session session;
    // What the copy has tried is what is opened: another file may have the name by now.
    hdf5::InputFile file = hdf5::open_file(path);
    const auto try_it = [&] {
        FileRecording(hdf5::open_contents(std::move(file))).try_some_tiles();
        return std::string();
    };
    ask_in_child(try_it, shortened(path));
    return open_tried(std::move(file));
}

std::unique_ptr<Recording> open_tried_recording(const std::string& path) {
    const hdf5::Session session;
    return open_tried(hdf5::open_file(path));
}

std::optional<std::string> run_of(const std::string& path) {
    const hdf5::Session session;
    const auto read = [&] {
        const hdf5::PluginsOff plugins_off;
        hdf5::InputFile file = hdf5::open_file(path);
        hdf5::open_hdf5(file);
        return hdf5::read_text(file.id.get(), "run", shortened(path)).value_or("");
    };
    try {
        return ask_in_child(read, shortened(path));
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace tilescope
