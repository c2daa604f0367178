#include "dump/recording/visible_tiles.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "dump/schema/semantics.h"

namespace tilescope {

namespace {

/// Of one tile, row by row.
class RowsOfTile {
 public:
    RowsOfTile(const Recording& recording, const Problem& entry, const TileId& tile)
        : recording_(recording),
          entry_(entry),
          tile_(tile),
          first_row_(tile.q_block * entry.block_m),
          rows_(std::min(entry.block_m, entry.seqlen_q - first_row_)),
          first_key_(tile.kv_tile * entry.block_n),
          last_key_(std::min(first_key_ + entry.block_n, entry.seqlen_kv)),
          has_bias_(recording.has_bias()) {}

    std::int64_t rows() const { return rows_; }
    bool has_bias() const { return has_bias_; }

    std::int64_t keys_seen(std::int64_t row) {
        const KeyRange visible = visible_keys(entry_, first_row_ + row);
        const KeyRange keys{std::max(visible.first, first_key_), std::min(visible.last, last_key_)};
        if (keys.empty()) return 0;
        if (!has_bias_) return keys.last - keys.first;
        bias_.resize(std::size_t(keys.last - keys.first));
        recording_.read_bias(tile_.batch, tile_.head, first_row_ + row, keys.first, bias_);
        constexpr float hidden = -std::numeric_limits<float>::infinity();
        return std::count_if(bias_.begin(), bias_.end(), [](float bias) { return bias != hidden; });
    }
    bool sees(std::int64_t row) { return keys_seen(row) > 0; }

 private:
    const Recording& recording_;
    const Problem& entry_;
    TileId tile_;
    std::int64_t first_row_;
    std::int64_t rows_;
    std::int64_t first_key_;
    std::int64_t last_key_;
    bool has_bias_;
    std::vector<float> bias_;
};

}  // namespace

bool tile_is_seen(const Recording& recording, const Problem& entry, const TileId& tile) {
    RowsOfTile rows(recording, entry, tile);
    for (std::int64_t row = 0; row < rows.rows(); ++row)
        if (rows.sees(row)) return true;
    return false;
}

std::int64_t keys_seen(const Recording& recording, const Problem& entry, const TileId& tile,
                       std::int64_t row) {
    return RowsOfTile(recording, entry, tile).keys_seen(row);
}

std::vector<bool> rows_that_see(const Recording& recording, const Problem& entry, const TileId& tile) {
    RowsOfTile rows(recording, entry, tile);
    // Of a mask both ends of what a row sees rise from row to row, so that two rows tell of those between.
    const bool all = rows.rows() <= 0 || (!rows.has_bias() && rows.sees(0) && rows.sees(rows.rows() - 1));
    if (all) return {};
    std::vector<bool> seeing;
    for (std::int64_t row = 0; row < rows.rows(); ++row) seeing.push_back(rows.sees(row));
    const bool none_hidden = std::find(seeing.begin(), seeing.end(), false) == seeing.end();
    return none_hidden ? std::vector<bool>() : seeing;
}

}  // namespace tilescope
