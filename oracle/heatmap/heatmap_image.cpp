#include "oracle/heatmap/heatmap_image.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

namespace tilescope {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// log2 of a positive float32, within 3e-4: enough for 256 colours, and without branches or calls.
float rough_log2(float magnitude) {
    const auto bits = std::bit_cast<std::uint32_t>(magnitude);
    const auto significand = std::bit_cast<float>((bits & 0x7fffffu) | 0x3f800000u);
    // ln x = 2 (z + z^3 / 3 + z^5 / 5 + ...)
    const float z = (significand - 1) / (significand + 1);
    const float square = z * z;
    constexpr float two_over_ln_2 = 2.885390f;
    return float(int(bits >> 23) - 127) + two_over_ln_2 * z * (1 + square * (1 / 3.0f + square / 5));
}

/// Turns a line of worst values and kinds into pixels.
class Painter {
 public:
    Painter(const ImageStyle& style, bool complete) : scale_(style.scale), complete_(complete) {
        const Palette& colours = palette(style.colours);
        std::transform(colours.begin(), colours.end(), colours_.begin(), packed);
        for (unsigned flags = 0; flags < 256; ++flags) shown_[flags] = worst_of(std::uint8_t(flags));
        from_ = transformed(float(scale_.low));
        const float to = transformed(float(scale_.high));
        // Of an empty range everything that is not below is in the middle or above.
        factor_ = to > from_ ? 255 / (to - from_) : 0;
    }

    void paint_values(const std::vector<float>& worst, std::vector<std::uint32_t>& out) {
        const std::size_t width = worst.size();
        indices_.resize(width);
        switch (scale_.kind) {
            case ScaleKind::linear:
                index(worst, [](float value) { return value; });
                break;
            case ScaleKind::log:
                index(worst, [](float value) { return rough_log2(std::abs(value)); });
                break;
            case ScaleKind::symlog:
                index(worst, [by = 1 / threshold()](float value) { return symlog(value, by); });
                break;
        }
        for (std::size_t x = 0; x < width; ++x) out[x] = colours_[std::size_t(indices_[x])];
    }

    /// Patterns go with the image, not with what it shows.
    void paint_kinds(const std::vector<std::uint8_t>& flags, int y, std::uint32_t* out) const {
        for (std::size_t x = 0; x < flags.size(); ++x) {
            if (flags[x] == flag_of(Kind::finite)) continue;
            const Kind kind = shown_[flags[x]];
            if (kind == Kind::finite) continue;
            const bool waits = flags[x] == 0 && !complete_;
            out[x] = packed(waits ? kind_style(kind).second : colour_of(kind, int(x), y));
        }
    }

 private:
    static float symlog(float value, float by) {
        const float scaled = std::abs(value) * by;
        const float magnitude = scaled <= 1 ? scaled : 1 + log10_of_2 * rough_log2(scaled);
        return std::copysign(magnitude, value);
    }
    float threshold() const { return float(std::max(scale_.threshold, smallest)); }
    float transformed(float value) const {
        switch (scale_.kind) {
            case ScaleKind::log:
                return rough_log2(std::max(value, float(smallest)));
            case ScaleKind::symlog:
                return symlog(value, 1 / threshold());
            case ScaleKind::linear:
                break;
        }
        return value;
    }
    template <class Transform>
    void index(const std::vector<float>& worst, Transform transform) {
        const float* value = worst.data();
        std::int32_t* out = indices_.data();
        const float from = from_;
        const float factor = factor_;
        const float rounding = factor == 0 ? 128.0f : 0.5f;
        const std::size_t width = worst.size();
        for (std::size_t x = 0; x < width; ++x) {
            const float at = (transform(value[x]) - from) * factor + rounding;
            const float above = at > 0 ? at : 0;
            out[x] = std::int32_t(above < 255 ? above : 255);
        }
    }

    static constexpr double smallest = std::numeric_limits<float>::min();
    static constexpr float log10_of_2 = 0.30103f;
    Scale scale_;
    bool complete_;
    float from_ = 0;
    float factor_ = 0;
    std::array<std::uint32_t, 256> colours_;
    std::array<Kind, 256> shown_;
    std::vector<std::int32_t> indices_;
};

/// Cells [first, last) that a pixel covers.
struct Cover {
    std::int64_t first;
    std::int64_t last;
    bool empty() const { return first >= last; }
    bool operator==(const Cover&) const = default;
};

/// Of each pixel along one axis, in cells of `block` elements; empty where the pixel is outside.
std::vector<Cover> covers(double first, double extent, int pixels, std::int64_t size, std::int64_t block) {
    std::vector<Cover> all;
    all.reserve(std::size_t(pixels));
    const double step = extent / pixels;
    for (int i = 0; i < pixels; ++i) {
        const double from = std::clamp(std::floor(first + i * step), 0.0, double(size));
        const double to = std::clamp(std::ceil(first + (i + 1) * step), 0.0, double(size));
        const auto last = std::int64_t(to);
        all.push_back({std::int64_t(from) / block, from < to ? (last + block - 1) / block : 0});
    }
    return all;
}

/// The cells of a row that the image shows. max is -inf where nothing is finite; min is not kept of values
/// that are never negative.
struct Line {
    std::int64_t first = 0;
    std::vector<float> min;
    std::vector<float> max;
    std::vector<std::uint8_t> kinds;

    Line(std::int64_t from, std::int64_t count, bool with_min)
        : first(from), min(std::size_t(with_min ? count : 0)), max(std::size_t(count)), kinds(max.size()) {}
    std::int64_t size() const { return std::ssize(max); }
    void clear() {
        std::ranges::fill(min, infinity);
        std::ranges::fill(max, -infinity);
        std::ranges::fill(kinds, std::uint8_t(0));
    }
    /// Adds `count` cells at `to`.
    void add(std::int64_t to, std::int64_t count, const float* lows, const float* highs,
             const std::uint8_t* flags) {
        float* __restrict low = min.data() + to;
        float* __restrict high = max.data() + to;
        std::uint8_t* __restrict seen = kinds.data() + to;
        for (std::int64_t i = 0; i < (min.empty() ? 0 : count); ++i)
            low[i] = lows[i] < low[i] ? lows[i] : low[i];
        for (std::int64_t i = 0; i < count; ++i) high[i] = highs[i] > high[i] ? highs[i] : high[i];
        for (std::int64_t i = 0; i < count; ++i) seen[i] |= flags[i];
    }
};

/// Rows [first, last) of a level.
void set_rows(const Pyramid::Level& level, const Cover& rows, Line& line) {
    const std::int64_t size = line.size();
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
        const std::int64_t from = row * level.cols + line.first;
        const float* min = level.min.empty() ? nullptr : level.min.data() + from;
        const float* max = level.max.data() + from;
        const std::uint8_t* kinds = level.kinds.data() + from;
        if (row > rows.first) {
            line.add(0, size, min, max, kinds);
            continue;
        }
        if (min != nullptr) std::copy_n(min, size, line.min.data());
        std::copy_n(max, size, line.max.data());
        std::copy_n(kinds, size, line.kinds.data());
    }
}

/// Rows of elements: from the tiles that are there, elsewhere from the blocks that they lie in.
class ElementRows {
 public:
    ElementRows(const Pyramid::Level& blocks, const DetailTiles& details)
        : blocks_(blocks), details_(details) {}

    void set(const Cover& rows, Line& line) {
        line.clear();
        for (std::int64_t row = rows.first; row < rows.last; ++row) add(row, line);
    }

 private:
    struct Known {
        const QuantityValues* values = nullptr;
        std::int64_t rows = 0;
        std::int64_t cols = 0;
    };

    void add(std::int64_t row, Line& line) {
        const PlaneShape& shape = details_.shape;
        look_up(row / shape.tile_rows);
        const std::int64_t last = line.first + line.size();
        for (std::int64_t col = line.first; col < last;) {
            const std::int64_t across = col / shape.tile_cols;
            const std::int64_t begin = across * shape.tile_cols;
            const std::int64_t end = std::min(last, begin + shape.tile_cols);
            const std::int64_t index = across - details_.first_across;
            const bool inside = index >= 0 && index < std::ssize(known_);
            const Known known = inside ? known_[std::size_t(index)] : Known();
            const std::int64_t covered = row % shape.tile_rows < known.rows ? begin + known.cols : col;
            if (col < covered)
                add_tile(known, row % shape.tile_rows, col - begin, std::min(covered, end) - begin,
                         col - line.first, line);
            add_blocks(row, std::max(col, std::min(covered, end)), end, line);
            col = end;
        }
    }

    void look_up(std::int64_t down) {
        if (down == down_) return;
        down_ = down;
        known_.assign(std::size_t(details_.across), {});
        for (std::int64_t i = 0; i < details_.across; ++i) {
            const DetailTile* tile = details_.tile(down, details_.first_across + i);
            if (tile != nullptr)
                known_[std::size_t(i)] = {&tile->values(details_.quantity), tile->rows(), tile->cols()};
        }
    }

    /// Columns [first, last) of a row of the tile.
    static void add_tile(const Known& known, std::int64_t row, std::int64_t first, std::int64_t last,
                         std::int64_t to, Line& line) {
        const float* values = known.values->values.data() + row * known.cols;
        const Kind* kinds = known.values->kinds.data() + row * known.cols;
        unsigned any = 0;
        for (std::int64_t i = first; i < last; ++i) any |= unsigned(kinds[i]);
        static const std::array<std::uint8_t, 256> finite = [] {
            std::array<std::uint8_t, 256> flags;
            flags.fill(flag_of(Kind::finite));
            return flags;
        }();
        const bool all_finite = any == unsigned(Kind::finite);
        if (all_finite && last - first <= std::ssize(finite)) {
            line.add(to, last - first, values + first, values + first, finite.data());
            return;
        }
        for (std::int64_t i = first; i < last; ++i, ++to) {
            const bool is_finite = kinds[i] == Kind::finite;
            const float low = is_finite ? values[i] : infinity;
            const float high = is_finite ? values[i] : -infinity;
            const std::uint8_t flag = flag_of(kinds[i]);
            line.add(to, 1, &low, &high, &flag);
        }
    }

    void add_blocks(std::int64_t row, std::int64_t first, std::int64_t last, Line& line) const {
        for (std::int64_t col = first; col < last; ++col) {
            const auto from = std::size_t(row / blocks_.block_rows * blocks_.cols + col / blocks_.block_cols);
            const float* low = blocks_.min.empty() ? nullptr : &blocks_.min[from];
            line.add(col - line.first, 1, low, &blocks_.max[from], &blocks_.kinds[from]);
        }
    }

    const Pyramid::Level& blocks_;
    const DetailTiles& details_;
    std::int64_t down_ = -1;
    std::vector<Known> known_;
};

/// The worst value and the kinds of each pixel of a line; those outside have no kinds.
class PixelLine {
 public:
    PixelLine(const std::vector<Cover>& columns, std::int64_t first_cell, std::int64_t cells)
        : worst(columns.size()), kinds(columns.size()), cells_(std::size_t(cells)) {
        std::int64_t widest = 1;
        for (const Cover& column : columns) widest = std::max(widest, column.last - column.first);
        windows_ = std::size_t(std::min(widest, most_windows));
        // The last slot is that of the pixels outside: it stays empty.
        worst_of_window_.resize(windows_ * cells_ + 1);
        kinds_of_window_.resize(worst_of_window_.size());
        for (const Cover& column : columns) {
            const auto count = std::size_t(column.empty() ? 0 : column.last - column.first);
            const std::size_t window = std::min(count, windows_);
            const std::size_t slot = window == 0
                                         ? worst_of_window_.size() - 1
                                         : (window - 1) * cells_ + std::size_t(column.first - first_cell);
            slots_.push_back({slot, count - window});
        }
        all_in_windows_ = widest <= most_windows;
    }

    /// Windows of 1, 2, ... cells from each cell on, so that a pixel is one of them: a loop over the cells of
    /// each pixel would stall on its irregular length.
    void gather(const Line& line) {
        find_worst(line);
        std::copy(line.kinds.begin(), line.kinds.end(), kinds_of_window_.begin());
        for (std::size_t n = 1; n < windows_; ++n) widen(n);
        const std::size_t width = slots_.size();
        for (std::size_t x = 0; x < width; ++x) {
            worst[x] = worst_of_window_[slots_[x].first];
            kinds[x] = kinds_of_window_[slots_[x].first];
        }
        if (!all_in_windows_) add_rest();
        unsigned other = 0;
        for (const std::uint8_t seen : kinds) other |= unsigned(seen) ^ flag_of(Kind::finite);
        all_finite = other == 0;
    }

    std::vector<float> worst;
    std::vector<std::uint8_t> kinds;
    bool all_finite = false;

 private:
    void find_worst(const Line& line) {
        const float* min = line.min.data();
        const float* max = line.max.data();
        float* __restrict out = worst_of_window_.data();
        if (line.min.empty()) {
            for (std::size_t i = 0; i < cells_; ++i) out[i] = max[i] > 0 ? max[i] : 0;
            return;
        }
        for (std::size_t i = 0; i < cells_; ++i) {
            const float worse = max[i] >= -min[i] ? max[i] : min[i];
            out[i] = min[i] <= max[i] ? worse : 0;
        }
    }

    /// From windows of `n` cells to those of one more.
    void widen(std::size_t n) {
        const float* one = worst_of_window_.data() + n;
        const float* narrow = worst_of_window_.data() + (n - 1) * cells_;
        float* __restrict wide = worst_of_window_.data() + n * cells_;
        const std::uint8_t* one_kind = kinds_of_window_.data() + n;
        const std::uint8_t* narrow_kinds = kinds_of_window_.data() + (n - 1) * cells_;
        std::uint8_t* __restrict wide_kinds = kinds_of_window_.data() + n * cells_;
        const std::size_t count = cells_ > n ? cells_ - n : 0;
        for (std::size_t i = 0; i < count; ++i)
            wide[i] = std::abs(narrow[i]) >= std::abs(one[i]) ? narrow[i] : one[i];
        for (std::size_t i = 0; i < count; ++i) wide_kinds[i] = narrow_kinds[i] | one_kind[i];
    }

    /// What is beyond the widest window.
    void add_rest() {
        for (std::size_t x = 0; x < slots_.size(); ++x) {
            if (slots_[x].rest == 0) continue;
            const std::size_t begin = slots_[x].first - (windows_ - 1) * cells_ + windows_;
            for (std::size_t i = begin; i < begin + slots_[x].rest; ++i) {
                kinds[x] |= kinds_of_window_[i];
                if (std::abs(worst_of_window_[i]) > std::abs(worst[x])) worst[x] = worst_of_window_[i];
            }
        }
    }

    static constexpr std::int64_t most_windows = 4;
    struct Slot {
        std::size_t first;
        std::size_t rest;  ///< cells after the window
    };
    std::size_t cells_;
    std::size_t windows_ = 1;
    bool all_in_windows_ = true;
    std::vector<float> worst_of_window_;
    std::vector<std::uint8_t> kinds_of_window_;
    std::vector<Slot> slots_;
};

Cover inner(const std::vector<Cover>& pixels) {
    Cover whole{std::numeric_limits<std::int64_t>::max(), 0};
    for (const Cover& pixel : pixels) {
        if (pixel.empty()) continue;
        whole.first = std::min(whole.first, pixel.first);
        whole.last = std::max(whole.last, pixel.last);
    }
    return whole;
}

}  // namespace

void render(const Pyramid& pyramid, const DetailTiles& details, const PlaneView& view,
            const ImageStyle& style, Image& image) {
    std::ranges::fill(image.pixels, 0u);
    if (image.width <= 0 || image.height <= 0 || !(view.rows > 0) || !(view.cols > 0)) return;
    const double element_rows = view.rows / image.height;
    const double element_cols = view.cols / image.width;
    const bool elements = element_rows <= 1 && element_cols <= 1 && !details.tiles.empty();
    const Pyramid::Level& level = pyramid.level(elements ? 0 : pyramid.level_for(element_rows, element_cols));
    const std::vector<Cover> rows =
        covers(view.first_row, view.rows, image.height, pyramid.rows(), elements ? 1 : level.block_rows);
    const std::vector<Cover> columns =
        covers(view.first_col, view.cols, image.width, pyramid.cols(), elements ? 1 : level.block_cols);
    const Cover across = inner(columns);
    if (across.empty()) return;

    Painter painter(style, pyramid.is_complete());
    Line line(across.first, across.last - across.first, !level.min.empty());
    PixelLine pixels(columns, across.first, line.size());
    ElementRows tile_rows(level, details);
    std::vector<std::uint32_t> values(columns.size());
    std::optional<Cover> gathered;
    const auto first_inside =
        std::find_if(columns.begin(), columns.end(), [](Cover c) { return !c.empty(); });
    const auto last_inside =
        std::find_if(columns.rbegin(), columns.rend(), [](Cover c) { return !c.empty(); });
    for (int y = 0; y < image.height; ++y) {
        const Cover& cells = rows[std::size_t(y)];
        if (cells.empty()) continue;
        std::uint32_t* out = image.pixels.data() + std::size_t(y) * std::size_t(image.width);
        if (gathered != cells) {
            const std::shared_lock held = pyramid.lock();
            if (elements) {
                tile_rows.set(cells, line);
            } else {
                set_rows(level, cells, line);
            }
            pixels.gather(line);
            painter.paint_values(pixels.worst, values);
            gathered = cells;
        }
        std::ranges::copy(values, out);
        if (!pixels.all_finite) painter.paint_kinds(pixels.kinds, y, out);
        std::fill(out, out + (first_inside - columns.begin()), 0u);
        std::fill(out + (columns.rend() - last_inside), out + image.width, 0u);
    }
}

ColourMap fitting_colours(const Pyramid& pyramid, Quantity quantity) {
    const ColourMap preferred = quantity_info(quantity).colours;
    if (preferred != ColourMap::diverging) return preferred;
    const Pyramid::Range range = pyramid.range(0);
    return range.low < 0 && range.high > 0 ? preferred : ColourMap::sequential;
}

Scale fitting_scale(const Pyramid& pyramid, Quantity quantity, ScaleKind kind, double clip) {
    const Pyramid::Range range = pyramid.range(clip);
    const double magnitude = std::max(std::abs(range.low), std::abs(range.high));
    if (quantity == Quantity::over_budget && kind == ScaleKind::log) {
        const double reach = std::clamp(magnitude, 10.0, 1e6);
        return {kind, 1 / reach, reach, 1};
    }
    const double decades = 6;
    const double smallest = pyramid.smallest_magnitude();
    if (magnitude == 0) return {kind, kind == ScaleKind::log ? 0.1 : -1.0, 1, 1};
    if (kind == ScaleKind::log) {
        const double low = std::max(smallest, magnitude * std::pow(10, -decades));
        return {kind, low < magnitude ? low : magnitude / 10, magnitude, 1};
    }
    const bool both_signs = range.low < 0 && range.high > 0;
    const double low = both_signs ? -magnitude : range.low;
    const double high = both_signs ? magnitude : range.high;
    const double threshold = magnitude / 1000;
    if (low == high) return {kind, low - magnitude / 2, high + magnitude / 2, threshold};
    return {kind, low, high, threshold};
}

}  // namespace tilescope
