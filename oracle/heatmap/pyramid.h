#pragma once

#include <atomic>
#include <cstdint>
#include <shared_mutex>
#include <span>
#include <vector>

#include "oracle/heatmap/colour.h"

namespace tilescope {

/// What a rectangle of elements holds.
struct Summary {
    float min = 0;  ///< of the finite ones; 0 where there is none
    float max = 0;
    KindFlags kinds = 0;  ///< flags of Kind; 0: nothing was set

    bool has(Kind kind) const { return (kinds & flag_of(kind)) != 0; }
    /// The one of min and max with the larger magnitude.
    float worst() const { return max >= -min ? max : min; }
    bool operator==(const Summary&) const = default;
};

/// Elements [first_row, last_row) x [first_col, last_col).
struct Rect {
    std::int64_t first_row = 0;
    std::int64_t first_col = 0;
    std::int64_t last_row = 0;
    std::int64_t last_col = 0;

    bool empty() const { return first_row >= last_row || first_col >= last_col; }
    bool operator==(const Rect&) const = default;
};

/// A matrix of values at every zoom. A cell keeps the minimum, the maximum and all kinds of its elements, so
/// that a single NaN is seen from afar. Level 0 has a cell for each element where there are few, otherwise
/// for each block of them; a cell of the next level covers 2 x 2 cells of the one below. It is filled tile by
/// tile, each element once. Thread-safe.
class Pyramid {
 public:
    /// At most so many cells in level 0.
    static constexpr std::int64_t max_cells = std::int64_t(1) << 22;

    enum class Sign { any, never_negative };

    /// Values that are never negative take half the memory; their minimum is not kept, and is 0.
    Pyramid(std::int64_t rows, std::int64_t cols, std::int64_t tiles = 1, Sign sign = Sign::any);

    /// Row-major values of a tile that begins at (first_row, first_col); `kinds` empty: all finite.
    void set_tile(std::int64_t first_row, std::int64_t first_col, std::int64_t rows, std::int64_t cols,
                  std::span<const float> values, std::span<const Kind> kinds);
    /// Of what the rectangle covers, and at most of the level's cells that it cuts.
    Summary worst_of(const Rect& rect) const;
    Summary whole() const { return worst_of({0, 0, rows_, cols_}); }

    /// The cells of level 0 that hold one of the kinds, where they are at most so many; otherwise none.
    std::vector<Rect> few_with(KindFlags kinds, std::size_t most) const;

    std::int64_t rows() const { return rows_; }
    std::int64_t cols() const { return cols_; }
    bool holds_elements() const { return block_rows_ == 1 && block_cols_ == 1; }
    double filled() const;  ///< share of the tiles that are there
    /// Nothing more will be set: what was not, was not captured.
    void complete() {
        complete_ = true;
        ++version_;
    }
    bool is_complete() const { return complete_; }
    std::uint64_t version() const { return version_; }  ///< changes with every change
    std::int64_t bytes() const;

    /// Cells of `block_rows` x `block_cols` elements. max is -inf where no value is finite.
    struct Level {
        std::int64_t block_rows = 1;
        std::int64_t block_cols = 1;
        std::int64_t rows = 0;
        std::int64_t cols = 0;
        std::vector<float> min;  ///< empty for Sign::never_negative
        std::vector<float> max;
        std::vector<KindFlags> kinds;
    };
    int level_count() const { return int(levels_.size()); }
    /// The coarsest level with blocks of at most so many elements, or level 0.
    int level_for(double element_rows, double element_cols) const;
    /// Who reads a level holds this while it does.
    std::shared_lock<std::shared_mutex> lock() const { return std::shared_lock(mutex_); }
    const Level& level(int index) const { return levels_[std::size_t(index)]; }

    /// Limits that leave out `clip` of the finite values at either end (0: none), by the cells of a coarse
    /// level: for scales that find their range. Nothing is finite: {0, 0}.
    struct Range {
        double low = 0;
        double high = 0;
    };
    Range range(double clip) const;
    /// Smallest magnitude that is not 0, of the cells' worst; 0 for none. For logarithmic scales.
    double smallest_magnitude() const;

 private:
    std::int64_t rows_;
    std::int64_t cols_;
    std::int64_t block_rows_ = 1;
    std::int64_t block_cols_ = 1;
    std::int64_t tiles_;
    std::atomic<std::int64_t> tiles_set_ = 0;
    std::atomic<bool> complete_ = false;
    std::atomic<std::uint64_t> version_ = 0;
    mutable std::shared_mutex mutex_;
    std::vector<Level> levels_;
};

}  // namespace tilescope
