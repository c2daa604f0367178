#include "dump/file/blocks.h"

#include <algorithm>
#include <vector>

#include "dump/file/hdf5.h"

namespace tilescope::hdf5 {

namespace {

/// Chunks of a dataset that are asked where they are: asking walks the index up to the chunk.
constexpr std::int64_t most_asked = 64;
/// Chunks that a dataset may hold, since each is looked up.
constexpr std::int64_t most_chunks = 1 << 16;
/// A recording of more than a part of this many of its tiles is not one of few blocks.
constexpr std::int64_t sparse = 8;

/// The tile of the chunk with that number in the index; nullopt for what no healthy file has.
std::optional<TileId> tile_of(const Problem& problem, Stage stage, const StoredDataset& dataset,
                              std::int64_t number) {
    const DatasetShape shape = dataset_shape(problem, stage);
    std::vector<hsize_t> offset(shape.chunk.size());
    unsigned filters = 0;
    haddr_t address = 0;
    hsize_t bytes = 0;
    const Id space(H5Dget_space(dataset.id.get()));
    if (H5Dget_chunk_info(dataset.id.get(), space.get(), hsize_t(number), offset.data(), &filters, &address,
                          &bytes) < 0)
        return std::nullopt;
    std::vector<std::int64_t> index;
    for (std::size_t i = 0; i < offset.size(); ++i) {
        if (offset[i] >= hsize_t(shape.dims[i])) return std::nullopt;
        index.push_back(std::int64_t(offset[i]) / shape.chunk[i]);
    }
    return tile_of_chunk(problem, stage, index);
}

bool holds(const Problem& problem, Stage stage, const StoredDataset& dataset, const TileId& tile) {
    const DatasetShape shape = dataset_shape(problem, stage);
    const std::vector<std::int64_t> index = chunk_index(problem, stage, tile);
    std::vector<hsize_t> offset;
    for (std::size_t i = 0; i < index.size(); ++i) offset.push_back(hsize_t(index[i] * shape.chunk[i]));
    hsize_t bytes = 0;
    return H5Dget_chunk_storage_size(dataset.id.get(), offset.data(), &bytes) >= 0 && bytes > 0;
}

/// Whether all of the dataset's chunks are of these blocks.
bool is_covered(const Problem& problem, const StageInfo& info, const StoredDataset& dataset,
                std::int64_t chunks, const BlockNumbers& blocks) {
    const std::int64_t tiles = info.per_kv_tile ? problem.kv_tiles() : 1;
    if (std::ssize(blocks) * tiles > sparse * chunks + most_asked) return false;
    std::int64_t found = 0;
    for (const std::int64_t number : blocks) {
        TileId tile = tile_at(problem, Stage::q, number);
        for (; tile.kv_tile < tiles; ++tile.kv_tile) found += holds(problem, info.stage, dataset, tile);
    }
    return found == chunks;
}

}  // namespace

std::int64_t block_number(const Problem& problem, const TileId& q_block) {
    return (q_block.batch * problem.heads + q_block.head) * problem.q_blocks() + q_block.q_block;
}

std::optional<BlockNumbers> stored_blocks(
    const Problem& problem, const std::array<std::optional<StoredDataset>, stage_count>& datasets) {
    BlockNumbers blocks;
    std::vector<StageInfo> not_proven;
    const auto chunks_of = [&](Stage stage) {
        const StoredDataset& dataset = *datasets[static_cast<std::size_t>(stage)];
        return dataset.stored_bytes / dataset.chunk_bytes;
    };
    for (const StageInfo& info : stages_of(problem)) {
        const auto& dataset = datasets[static_cast<std::size_t>(info.stage)];
        if (!info.per_q_block || !dataset || dataset->stored_bytes == 0) continue;
        if (dataset->chunk.empty()) return std::nullopt;
        const std::int64_t chunks = chunks_of(info.stage);
        if (chunks > most_chunks || chunks * sparse > tile_count(problem, info.stage)) return std::nullopt;
        const std::int64_t asked = std::min(chunks, most_asked);
        for (std::int64_t i = 0; i < asked; ++i) {
            const auto tile = tile_of(problem, info.stage, *dataset, i * chunks / asked);
            if (!tile) return std::nullopt;
            blocks.insert(block_number(problem, *tile));
        }
        if (asked < chunks) not_proven.push_back(info);
    }
    for (const StageInfo& info : not_proven) {
        const StoredDataset& dataset = *datasets[static_cast<std::size_t>(info.stage)];
        if (!is_covered(problem, info, dataset, chunks_of(info.stage), blocks)) return std::nullopt;
    }
    return blocks;
}

}  // namespace tilescope::hdf5
