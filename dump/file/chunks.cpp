#include "dump/file/chunks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "dump/file/attributes.h"
#include "dump/file/driver.h"
#include "dump/schema/error.h"

namespace tilescope::hdf5 {

namespace {

constexpr std::int64_t nowhere = -1;
constexpr std::int64_t not_readable = -2;

/// KV tiles that are asked for at once.
constexpr std::int64_t stretch_tiles = 64;

/// What a thread was told of one dataset last.
struct Stretch {
    std::uint64_t chunks = 0;  ///< whose; 0: nobody's
    const StoredDataset* dataset = nullptr;
    TileId first;
    std::array<std::int64_t, stretch_tiles> addresses = {};

    bool holds(std::uint64_t number, const StoredDataset& of, const TileId& tile) const {
        return chunks == number && dataset == &of && tile.batch == first.batch && tile.head == first.head &&
               tile.q_block == first.q_block && tile.kv_tile >= first.kv_tile &&
               tile.kv_tile < first.kv_tile + stretch_tiles;
    }
};

std::vector<hsize_t> offset_of(const Problem& problem, Stage stage, const TileId& tile) {
    const std::vector<std::int64_t> index = chunk_index(problem, stage, tile);
    const std::vector<std::int64_t> chunk = dataset_shape(problem, stage).chunk;
    std::vector<hsize_t> offset;
    for (std::size_t i = 0; i < index.size(); ++i) offset.push_back(hsize_t(index[i] * chunk[i]));
    return offset;
}

// HDF5 1.10 reports a chunk that does not exist as an error; damage was found when the file was opened, by
// H5Dget_storage_size, which walks the whole index.
bool chunk_exists(const StoredDataset& dataset, const hsize_t* offset) {
    hsize_t bytes = 0;
    return H5Dget_chunk_storage_size(dataset.id.get(), offset, &bytes) >= 0 && bytes > 0;
}

/// HDF5 looks the chunk up, our driver tells where it would have read.
bool look_up(const InputFile& file, const StoredDataset& dataset, const hsize_t* offset) {
    DriverTarget& target = *file.target;
    std::uint32_t filters = 0;
    std::byte untouched = {};
    target.located_at = -1;
    target.locate_elements = true;
    const herr_t result = H5Dread_chunk(dataset.id.get(), H5P_DEFAULT, offset, &filters, &untouched);
    target.locate_elements = false;
    return result >= 0;
}

bool is_in_file(const InputFile& file, const StoredDataset& dataset) {
    const DriverTarget& target = *file.target;
    return target.located_bytes == dataset.chunk_bytes && target.located_at >= 0 &&
           target.located_at <= file.bytes - dataset.chunk_bytes;
}

/// Within a Session.
std::int64_t found_at(const InputFile& file, const StoredDataset& dataset, const hsize_t* offset) {
    if (look_up(file, dataset, offset))
        return is_in_file(file, dataset) ? file.target->located_at : not_readable;
    return chunk_exists(dataset, offset) ? not_readable : nowhere;
}

/// Says why: putting the reason into words costs more than looking up, and is rarely needed.
[[noreturn]] void refuse(const InputFile& file, const StoredDataset& dataset, const hsize_t* offset) {
    const Session session;
    if (!look_up(file, dataset, offset))
        throw Error("a tile cannot be read (" + last_error() + ")", dataset.where, damaged_advice);
    throw Error("has a chunk of " + std::to_string(file.target->located_bytes) + " bytes at " +
                    std::to_string(file.target->located_at) + ", not of " +
                    std::to_string(dataset.chunk_bytes) + " in the file",
                dataset.where, damaged_advice);
}

void ask(const Contents& contents, Stage stage, const TileId& tile, Stretch& stretch) {
    const bool per_kv_tile = stage_info(contents.problem, stage).per_kv_tile;
    const std::int64_t tiles = per_kv_tile ? contents.problem.kv_tiles() : 1;
    stretch.first = tile;
    stretch.first.kv_tile = per_kv_tile ? tile.kv_tile / stretch_tiles * stretch_tiles : 0;
    const std::int64_t count = std::min(stretch_tiles, tiles - stretch.first.kv_tile);
    TileId next = stretch.first;
    const Session session;
    for (std::int64_t i = 0; i < count; ++i, ++next.kv_tile) {
        const std::vector<hsize_t> offset = offset_of(contents.problem, stage, next);
        stretch.addresses[std::size_t(i)] = found_at(contents.file, *stretch.dataset, offset.data());
    }
}

/// Of this thread. Tiles and who wrote them are datasets of their own.
Stretch& stretch_of(const StoredDataset& dataset, Stage stage, std::int64_t q_block,
                    const Contents& contents) {
    constexpr std::size_t side_by_side = q_blocks_side_by_side;
    thread_local std::array<std::array<std::array<Stretch, side_by_side>, stage_count>, 2> stretches;
    const auto& of_tiles = contents.stages[static_cast<std::size_t>(stage)];
    const std::size_t kind = of_tiles && &*of_tiles == &dataset ? 0 : 1;
    return stretches[kind][static_cast<std::size_t>(stage)][static_cast<std::size_t>(q_block) % side_by_side];
}

}  // namespace

Chunks::Chunks(const Contents& contents) : contents_(contents) {
    static std::atomic<std::uint64_t> numbers = 0;
    number_ = ++numbers;
}

std::optional<std::int64_t> Chunks::address_of(const StoredDataset& dataset, Stage stage,
                                               const TileId& tile) const {
    Stretch& stretch = stretch_of(dataset, stage, tile.q_block, contents_);
    TileId of_stretch = tile;
    if (!stage_info(contents_.problem, stage).per_kv_tile) of_stretch.kv_tile = 0;
    if (!stretch.holds(number_, dataset, of_stretch)) {
        stretch.chunks = 0;
        stretch.dataset = &dataset;
        ask(contents_, stage, of_stretch, stretch);
        stretch.chunks = number_;
    }
    const std::int64_t address = stretch.addresses[std::size_t(of_stretch.kv_tile - stretch.first.kv_tile)];
    if (address == nowhere) return std::nullopt;
    if (address == not_readable)
        refuse(contents_.file, dataset, offset_of(contents_.problem, stage, tile).data());
    return address;
}

}  // namespace tilescope::hdf5
