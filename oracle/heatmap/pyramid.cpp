#include "oracle/heatmap/pyramid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

namespace tilescope {

namespace {

/// The least of no values.
constexpr float none_seen = std::numeric_limits<float>::infinity();

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

/// Cells of a part of a level.
struct Cells {
    std::int64_t first_row;
    std::int64_t first_col;
    std::int64_t rows;
    std::int64_t cols;
    std::vector<float> min;
    std::vector<float> max;
    std::vector<KindFlags> kinds;

    Cells(std::int64_t row, std::int64_t col, std::int64_t n_rows, std::int64_t n_cols)
        : first_row(row),
          first_col(col),
          rows(n_rows),
          cols(n_cols),
          min(std::size_t(n_rows * n_cols), none_seen),
          max(min.size(), -none_seen),
          kinds(min.size(), 0) {}

    void add(std::size_t cell, float low, float high, KindFlags flags) {
        min[cell] = std::min(min[cell], low);
        max[cell] = std::max(max[cell], high);
        kinds[cell] |= flags;
    }
};

/// Rows or columns of cells that [first, first + count) touches, in cells of `block`.
struct Span {
    std::int64_t first;
    std::int64_t count;
    Span(std::int64_t from, std::int64_t n, std::int64_t block)
        : first(from / block), count((from + n - 1) / block - from / block + 1) {}
};

Cells reduced(const Pyramid::Level& level, std::int64_t first_row, std::int64_t first_col, std::int64_t rows,
              std::int64_t cols, std::span<const float> values, std::span<const Kind> kinds) {
    const Span down(first_row, rows, level.block_rows);
    const Span across(first_col, cols, level.block_cols);
    Cells cells(down.first, across.first, down.count, across.count);
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t cell_row = ((first_row + row) / level.block_rows - down.first) * across.count;
        const float* value = values.data() + row * cols;
        const Kind* kind = kinds.empty() ? nullptr : kinds.data() + row * cols;
        for (std::int64_t col = 0; col < cols;) {
            const std::int64_t cell = (first_col + col) / level.block_cols;
            const std::int64_t last = std::min(cols, (cell + 1) * level.block_cols - first_col);
            float low = none_seen;
            float high = -none_seen;
            KindFlags flags = 0;
            for (; col < last; ++col) {
                const Kind what = kind != nullptr ? kind[col] : Kind::finite;
                flags |= flag_of(what);
                if (what != Kind::finite) continue;
                low = std::min(low, value[col]);
                high = std::max(high, value[col]);
            }
            cells.add(std::size_t(cell_row + cell - across.first), low, high, flags);
        }
    }
    return cells;
}

/// The same part of the level above.
Cells halved(const Cells& cells) {
    const Span down(cells.first_row, cells.rows, 2);
    const Span across(cells.first_col, cells.cols, 2);
    Cells above(down.first, across.first, down.count, across.count);
    for (std::int64_t row = 0; row < cells.rows; ++row) {
        for (std::int64_t col = 0; col < cells.cols; ++col) {
            const auto from = std::size_t(row * cells.cols + col);
            const std::int64_t to_row = (cells.first_row + row) / 2 - above.first_row;
            const std::int64_t to_col = (cells.first_col + col) / 2 - above.first_col;
            above.add(std::size_t(to_row * above.cols + to_col), cells.min[from], cells.max[from],
                      cells.kinds[from]);
        }
    }
    return above;
}

void merge(const Cells& cells, Pyramid::Level& level) {
    for (std::int64_t row = 0; row < cells.rows; ++row) {
        const auto to = std::size_t((cells.first_row + row) * level.cols + cells.first_col);
        const auto from = std::size_t(row * cells.cols);
        for (std::size_t i = 0; i < std::size_t(cells.cols); ++i) {
            if (!level.min.empty()) level.min[to + i] = std::min(level.min[to + i], cells.min[from + i]);
            level.max[to + i] = std::max(level.max[to + i], cells.max[from + i]);
            level.kinds[to + i] |= cells.kinds[from + i];
        }
    }
}

float low_of(const Pyramid::Level& level, std::size_t cell) {
    if (!level.min.empty()) return level.min[cell];
    return level.max[cell] == -none_seen ? none_seen : 0;
}

Summary summary_of(float low, float high, KindFlags kinds) {
    return low > high ? Summary{0, 0, kinds} : Summary{low, high, kinds};
}

/// Adds the cells [first_row, last_row) x [first_col, last_col) of a level.
void gather(const Pyramid::Level& level, const Rect& cells, float& low, float& high, KindFlags& kinds) {
    for (std::int64_t row = cells.first_row; row < cells.last_row; ++row) {
        for (std::int64_t col = cells.first_col; col < cells.last_col; ++col) {
            const auto i = std::size_t(row * level.cols + col);
            low = std::min(low, low_of(level, i));
            high = std::max(high, level.max[i]);
            kinds |= level.kinds[i];
        }
    }
}

}  // namespace

Pyramid::Pyramid(std::int64_t rows, std::int64_t cols, std::int64_t tiles, Sign sign)
    : rows_(rows), cols_(cols), tiles_(std::max<std::int64_t>(tiles, 1)) {
    constexpr std::int64_t narrow = 1024;
    const auto cells = [&] { return divide_up(rows, block_rows_) * divide_up(cols, block_cols_); };
    if (cells() > max_cells) block_rows_ = block_cols_ = 8;
    // Columns of features stay apart.
    if (cols <= narrow) block_cols_ = 1;
    while (cells() > max_cells) {
        block_rows_ *= 2;
        if (cols > narrow) block_cols_ *= 2;
    }
    std::int64_t block_rows = block_rows_;
    std::int64_t block_cols = block_cols_;
    while (true) {
        Level level{block_rows, block_cols, divide_up(rows, block_rows), divide_up(cols, block_cols), {},
                    {},         {}};
        const auto size = std::size_t(level.rows * level.cols);
        if (sign == Sign::any) level.min.assign(size, none_seen);
        level.max.assign(size, -none_seen);
        level.kinds.assign(size, 0);
        levels_.push_back(std::move(level));
        if (size <= 1) break;
        block_rows *= 2;
        block_cols *= 2;
    }
}

void Pyramid::set_tile(std::int64_t first_row, std::int64_t first_col, std::int64_t rows, std::int64_t cols,
                       std::span<const float> values, std::span<const Kind> kinds) {
    if (rows <= 0 || cols <= 0) return;
    Cells cells = reduced(levels_.front(), first_row, first_col, rows, cols, values, kinds);
    std::vector<Cells> parts;
    for (std::size_t i = 1; i < levels_.size(); ++i) {
        parts.push_back(halved(i == 1 ? cells : parts.back()));
    }
    {
        const std::scoped_lock lock(mutex_);
        merge(cells, levels_.front());
        for (std::size_t i = 0; i < parts.size(); ++i) merge(parts[i], levels_[i + 1]);
    }
    ++tiles_set_;
    ++version_;
}

std::vector<Rect> Pyramid::few_with(KindFlags kinds, std::size_t most) const {
    using Cell = std::pair<std::int64_t, std::int64_t>;
    const std::shared_lock held(mutex_);
    std::vector<Cell> found = {{0, 0}};
    for (std::size_t i = levels_.size(); i-- > 0;) {
        const Level& level = levels_[i];
        const bool top = i + 1 == levels_.size();
        std::vector<Cell> below;
        for (const auto& [above_row, above_col] : found) {
            const std::int64_t first_row = top ? 0 : 2 * above_row;
            const std::int64_t first_col = top ? 0 : 2 * above_col;
            for (std::int64_t row = first_row; row < std::min(top ? level.rows : first_row + 2, level.rows);
                 ++row) {
                for (std::int64_t col = first_col;
                     col < std::min(top ? level.cols : first_col + 2, level.cols); ++col) {
                    if ((level.kinds[std::size_t(row * level.cols + col)] & kinds) != 0)
                        below.emplace_back(row, col);
                }
            }
            if (below.size() > most) return {};
        }
        found = std::move(below);
    }
    std::vector<Rect> cells;
    for (const auto& [row, col] : found)
        cells.push_back({row * block_rows_, col * block_cols_, std::min((row + 1) * block_rows_, rows_),
                         std::min((col + 1) * block_cols_, cols_)});
    return cells;
}

Summary Pyramid::worst_of(const Rect& rect) const {
    const Rect inside{std::max<std::int64_t>(rect.first_row, 0), std::max<std::int64_t>(rect.first_col, 0),
                      std::min(rect.last_row, rows_), std::min(rect.last_col, cols_)};
    if (inside.empty()) return {};
    float low = none_seen;
    float high = -none_seen;
    KindFlags kinds = 0;
    const std::shared_lock held(mutex_);
    Rect cells{inside.first_row / block_rows_, inside.first_col / block_cols_,
               divide_up(inside.last_row, block_rows_), divide_up(inside.last_col, block_cols_)};
    // Whole cells of the level above in the middle, those of this level around them.
    for (std::size_t i = 0; !cells.empty(); ++i) {
        const Level& level = levels_[i];
        if (i + 1 == levels_.size()) {
            gather(level, cells, low, high, kinds);
            break;
        }
        const auto even_up = [](std::int64_t x) { return x + x % 2; };
        // The last cell of a level may have no neighbour: it is all there is of the one above.
        const auto even_down = [](std::int64_t x, std::int64_t size) { return x == size ? x : x - x % 2; };
        const Rect core{even_up(cells.first_row), even_up(cells.first_col),
                        even_down(cells.last_row, level.rows), even_down(cells.last_col, level.cols)};
        if (core.empty()) {
            gather(level, cells, low, high, kinds);
            break;
        }
        gather(level, {cells.first_row, cells.first_col, core.first_row, cells.last_col}, low, high, kinds);
        gather(level, {core.last_row, cells.first_col, cells.last_row, cells.last_col}, low, high, kinds);
        gather(level, {core.first_row, cells.first_col, core.last_row, core.first_col}, low, high, kinds);
        gather(level, {core.first_row, core.last_col, core.last_row, cells.last_col}, low, high, kinds);
        cells = {core.first_row / 2, core.first_col / 2, divide_up(core.last_row, 2),
                 divide_up(core.last_col, 2)};
    }
    return summary_of(low, high, kinds);
}

double Pyramid::filled() const {
    return complete_ ? 1 : std::min(1.0, double(tiles_set_) / double(tiles_));
}

std::int64_t Pyramid::bytes() const {
    std::int64_t cells = 0;
    for (const Level& level : levels_) cells += level.rows * level.cols;
    const std::size_t of_cell = (levels_.front().min.empty() ? 1 : 2) * sizeof(float) + sizeof(KindFlags);
    return cells * std::int64_t(of_cell);
}

int Pyramid::level_for(double element_rows, double element_cols) const {
    int index = 0;
    while (index + 1 < level_count() && double(level(index + 1).block_rows) <= element_rows &&
           double(level(index + 1).block_cols) <= element_cols)
        ++index;
    return index;
}

Pyramid::Range Pyramid::range(double clip) const {
    constexpr std::size_t enough = std::size_t(1) << 16;
    std::vector<float> lows;
    std::vector<float> highs;
    {
        const std::shared_lock held(mutex_);
        const auto fits = [](const Level& level) { return level.max.size() <= enough; };
        const Level& level = *std::find_if(levels_.begin(), levels_.end(), fits);
        for (std::size_t i = 0; i < level.max.size(); ++i) {
            if (level.max[i] == -none_seen) continue;
            lows.push_back(low_of(level, i));
            highs.push_back(level.max[i]);
        }
    }
    if (lows.empty()) return {};
    const auto skipped = std::size_t(std::clamp(clip, 0.0, 0.49) * double(lows.size()));
    std::nth_element(lows.begin(), lows.begin() + std::ptrdiff_t(skipped), lows.end());
    std::nth_element(highs.begin(), highs.end() - 1 - std::ptrdiff_t(skipped), highs.end());
    const double low = lows[skipped];
    const double high = highs[highs.size() - 1 - skipped];
    return {std::min(low, high), std::max(low, high)};
}

double Pyramid::smallest_magnitude() const {
    constexpr std::size_t enough = std::size_t(1) << 16;
    const std::shared_lock held(mutex_);
    const auto fits = [](const Level& level) { return level.max.size() <= enough; };
    const Level& level = *std::find_if(levels_.begin(), levels_.end(), fits);
    double smallest = 0;
    for (std::size_t i = 0; i < level.max.size(); ++i) {
        if (level.max[i] == -none_seen) continue;
        const double magnitude = std::max(-double(low_of(level, i)), double(level.max[i]));
        if (magnitude > 0 && (smallest == 0 || magnitude < smallest)) smallest = magnitude;
    }
    return smallest;
}

}  // namespace tilescope
