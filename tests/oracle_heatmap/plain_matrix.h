#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "oracle/heatmap/pyramid.h"

namespace tilescope::test {

/// Values and kinds of every element, for brute force: what a pyramid and its images are held against.
class PlainMatrix {
 public:
    PlainMatrix(std::int64_t rows, std::int64_t cols) : rows_(rows), cols_(cols) {
        values_.resize(std::size_t(rows * cols));
        kinds_.resize(values_.size(), Kind::finite);
    }
    /// Mostly finite values of both signs, and a few of every other kind.
    PlainMatrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) : PlainMatrix(rows, cols) {
        std::mt19937_64 random(seed);
        std::normal_distribution<float> normal;
        std::uniform_int_distribution<int> rare(0, 40 * kind_count);
        for (std::size_t i = 0; i < values_.size(); ++i) {
            const int drawn = rare(random);
            kinds_[i] = drawn < kind_count ? Kind(drawn) : Kind::finite;
            values_[i] = kinds_[i] == Kind::finite ? normal(random) : 0;
        }
    }

    std::int64_t rows() const { return rows_; }
    std::int64_t cols() const { return cols_; }
    float value(std::int64_t row, std::int64_t col) const { return values_[at(row, col)]; }
    Kind kind(std::int64_t row, std::int64_t col) const { return kinds_[at(row, col)]; }
    void set(std::int64_t row, std::int64_t col, float value, Kind kind = Kind::finite) {
        values_[at(row, col)] = value;
        kinds_[at(row, col)] = kind;
    }

    void fill(Pyramid& pyramid, std::int64_t tile_rows, std::int64_t tile_cols) const {
        fill_part(pyramid, tile_rows, tile_cols, 0, 1);
    }
    /// Every `parts`-th tile.
    void fill_part(Pyramid& pyramid, std::int64_t tile_rows, std::int64_t tile_cols, int part,
                   int parts) const {
        int tile = 0;
        for (std::int64_t row = 0; row < rows_; row += tile_rows) {
            for (std::int64_t col = 0; col < cols_; col += tile_cols) {
                if (tile++ % parts != part) continue;
                fill_tile(pyramid, row, col, std::min(tile_rows, rows_ - row),
                          std::min(tile_cols, cols_ - col));
            }
        }
    }

 private:
    std::size_t at(std::int64_t row, std::int64_t col) const { return std::size_t(row * cols_ + col); }
    void fill_tile(Pyramid& pyramid, std::int64_t row, std::int64_t col, std::int64_t rows,
                   std::int64_t cols) const {
        std::vector<float> values;
        std::vector<Kind> kinds;
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < cols; ++j) {
                values.push_back(value(row + i, col + j));
                kinds.push_back(kind(row + i, col + j));
            }
        }
        pyramid.set_tile(row, col, rows, cols, values, kinds);
    }

    std::int64_t rows_;
    std::int64_t cols_;
    std::vector<float> values_;
    std::vector<Kind> kinds_;
};

}  // namespace tilescope::test
