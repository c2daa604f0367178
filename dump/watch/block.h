#pragma once

// What the rules of the watch look at: a tile's statistics, and what was computed before it in its block.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dump/recording/tile_statistics.h"

namespace tilescope {

/// Which cells of a tile are hidden, and what the rows of its block have seen after it, in the kernel's order
/// of KV tiles, since its split began.
struct TileCells {
    bool visible = false;           ///< some row sees some key of the tile
    std::int64_t seeing_rows = 0;   ///< rows that do: a kernel may leave the others out of it
    std::int64_t hidden = 0;        ///< cells whose key their row does not see
    std::int64_t keyless_rows = 0;  ///< rows that have seen no key yet
    std::int64_t most_keys = 0;     ///< that any row has seen
};

/// The same for all KV tiles of a query block.
struct BlockCells {
    std::vector<TileCells> tiles;       ///< [kv_tile]
    std::vector<std::int64_t> order;    ///< KV tiles, in the kernel's order
    std::optional<std::int64_t> first;  ///< of those that are visible, in that order
    std::optional<std::int64_t> last;
    std::int64_t keyless_rows = 0;  ///< rows that see no key at all
    std::int64_t most_keys = 0;
};

/// Of the query block of a head; without a bias those of all heads are alike.
BlockCells cells_of(const Recording& run, const Problem& entry, const TileId& q_block);

/// Elements of a KV tile's stage that every kernel writes: of its rows, those that see something of the tile.
std::int64_t least_written(const Problem& entry, Stage stage, const TileId& tile, const TileCells& cells);

/// Whether the statistics are of every row: those that see nothing of the tile may have been left out, and elements may have
/// been written more than once. Where it cannot be told they are not.
bool has_all_rows(const Problem& entry, Stage stage, const TileId& tile, const TileCells& cells,
                  std::int64_t written);

/// A hull of finite values.
struct ValueRange {
    double least = 0;
    double greatest = 0;
    bool known = false;  ///< of everything that it should hold

    double magnitude() const;
};

/// What is known of a split of a query block, up to a KV tile and with it.
struct SplitState {
    std::int64_t tiles = 0;
    std::optional<TileSummary> m_before;  ///< m of the tile before
    std::optional<TileSummary> l_before;
    double m_rises_above = 0;  ///< its greatest; -inf in the first tile, inf where it is not known
    ValueRange s;              ///< scores, as dumped
    ValueRange v;
    std::array<std::optional<TileSummary>, stage_count> now;  ///< of this KV tile
    std::array<bool, stage_count> all_rows = {};              ///< see has_all_rows()

    const std::optional<TileSummary>& of(Stage stage) const { return now[std::size_t(stage)]; }
    /// Nullopt where rows may have been left out as well: what they hold is older.
    std::optional<TileSummary> of_all_rows(Stage stage) const {
        return all_rows[std::size_t(stage)] ? of(stage) : std::nullopt;
    }
    double m_magnitude = 0;  ///< largest |m|, as dumped
};

/// What an operand's tile should hold.
struct InputSummary {
    double least = 0;  ///< of the finite elements; inf where there are none
    double greatest = 0;
    std::int64_t zero = 0;
};

/// Looks at inputs once, however many query blocks load them.
class InputSummaries {
 public:
    explicit InputSummaries(const Recording& run) : run_(run) {}
    /// Of the rows that the tile of `stage` holds of `input`.
    const InputSummary& of(const Problem& entry, Input input, Stage stage, const TileId& tile);

 private:
    const Recording& run_;
    /// By batch entry, head and first row of each input.
    std::array<std::map<std::array<std::int64_t, 3>, InputSummary>, input_count> known_;
};

/// What all query blocks share.
struct WatchedCall {
    WatchedCall(const StatisticsRun& watched, InputSummaries& its_inputs)
        : run(watched), problem(watched.problem()), units(watched.units()), inputs(its_inputs) {}

    const StatisticsRun& run;
    const Problem& problem;
    const Units& units;
    InputSummaries& inputs;

    /// Whether the tile's statistics are of the batch entry's own elements alone.
    bool is_whole(const Problem& entry, Stage stage, const TileId& tile) const;
    /// Statistics of a tile that is_whole() and that some hook wrote.
    std::optional<TileSummary> tile(const Problem& entry, Stage stage, const TileId& id) const;
};

/// A tile as the rules see it.
struct WatchedTile {
    const WatchedCall& call;
    const Problem& entry;  ///< the problem with the batch entry's own lengths
    Stage stage = Stage::q;
    TileId id;
    TileSummary got = {};
    TileShape extent = {};
    const BlockCells* block = nullptr;  ///< null for dk and dv
    const SplitState* state = nullptr;  ///< null for stages without a KV tile, but for o and lse
    ValueRange all_v = {};              ///< of every KV tile that the block sees
    ValueRange all_m = {};              ///< the same, as dumped
    bool all_rows = true;               ///< see has_all_rows()

    const TileCells& cells() const { return block->tiles[std::size_t(id.kv_tile)]; }
    /// The sum over a tile's elements, each counted once; nullopt where they were not all written equally
    /// often, or not all finite.
    static std::optional<double> sum_of(const TileSummary& tile, std::int64_t elements);
    /// `elements` of the tile, each as often as the tile's elements were written; nullopt where they were not
    /// all written equally often.
    std::optional<std::int64_t> writes_of(std::int64_t elements) const;
};

}  // namespace tilescope
