#include "oracle/heatmap/heatmap_image.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

namespace tilescope {

namespace {

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
    Painter(const ImageStyle& style, bool complete)
        : scale_(style.scale), complete_(complete), mark_pixels_(style.mark_pixels) {
        const Palette& colours = palette(style.colours);
        std::transform(colours.begin(), colours.end(), colours_.begin(), packed);
        from_ = transformed(float(scale_.low));
        const float to = transformed(float(scale_.high));
        // Of an empty range everything that is not below is in the middle or above.
        factor_ = to > from_ ? 255 / (to - from_) : 0;
    }

    void paint_values(const std::vector<float>& worst, std::uint32_t* out) {
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
    void paint_kinds(const std::vector<KindFlags>& flags, const std::vector<float>& worst, std::size_t first,
                     std::size_t last, int y, std::uint32_t* out) const {
        for (std::size_t x = first; x < last; ++x) {
            if (flags[x] == flag_of(Kind::finite)) continue;
            const bool waits = flags[x] == 0 && !complete_;
            // Only quotients by the budget know what is inherited.
            const Kind kind = waits ? Kind::not_judged : worst_of(flags[x], worst[x] > 1);
            if (kind == Kind::finite) continue;
            out[x] = packed(colour_of(kind, int(x) / mark_pixels_, y / mark_pixels_));
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
    int mark_pixels_ = 1;
    float from_ = 0;
    float factor_ = 0;
    std::array<std::uint32_t, 256> colours_;
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

/// The one of larger magnitude.
float worse(float a, float b) {
    return std::abs(a) >= std::abs(b) ? a : b;
}

/// Worst of a cell that holds finite values from `low` to `high`; 0 of one that holds none.
float worst_in(float low, float high) {
    const float worst = high >= -low ? high : low;
    return low <= high ? worst : 0;
}

/// The cells that a row of pixels covers: the worst of each column. Cells that hold nothing stand on either
/// side, for pixels that reach over the edge.
struct Line {
    std::int64_t first = 0;  ///< column of the first cell
    std::size_t cells;
    std::size_t margin;
    std::vector<float> worst;
    std::vector<KindFlags> kinds;

    Line(std::int64_t from, std::int64_t count, std::int64_t beside)
        : first(from),
          cells(std::size_t(count)),
          margin(std::size_t(beside)),
          worst(cells + 2 * margin),
          kinds(worst.size()) {}
    std::int64_t size() const { return std::int64_t(cells); }
    void clear() {
        std::ranges::fill(worst, 0.0f);
        std::ranges::fill(kinds, KindFlags(0));
    }
    /// Adds `count` cells at `to`.
    void add(std::int64_t to, std::int64_t count, const float* values, const KindFlags* flags) {
        float* __restrict value = worst.data() + margin + to;
        KindFlags* __restrict seen = kinds.data() + margin + to;
        for (std::int64_t i = 0; i < count; ++i) value[i] = worse(value[i], values[i]);
        for (std::int64_t i = 0; i < count; ++i) seen[i] |= flags[i];
    }
};

/// Rows [first, last) of a level. Three are taken at once: most pixels cover as many, and nothing is stored
/// in between.
void set_rows(const Pyramid::Level& level, const Cover& rows, Line& line) {
    const std::size_t count = line.cells;
    float* __restrict worst = line.worst.data() + line.margin;
    KindFlags* __restrict kinds = line.kinds.data() + line.margin;
    for (std::int64_t row = rows.first; row < rows.last; row += 3) {
        const auto from = [&](std::int64_t i) {
            return std::min(row + i, rows.last - 1) * level.cols + line.first;
        };
        const auto three = [&](const auto& cells) {
            return std::array{cells.data() + from(0), cells.data() + from(1), cells.data() + from(2)};
        };
        const bool begins = row == rows.first;
        const auto highs = three(level.max);
        const auto most = [](float x, float y) { return y > x ? y : x; };
        const auto high = [&](std::size_t i) { return most(most(highs[0][i], highs[1][i]), highs[2][i]); };
        const auto put = [&](auto value) {
            if (begins) {
                for (std::size_t i = 0; i < count; ++i) worst[i] = value(i);
            } else {
                for (std::size_t i = 0; i < count; ++i) worst[i] = worse(worst[i], value(i));
            }
        };
        if (level.min.empty()) {
            put([&](std::size_t i) { return most(0, high(i)); });
        } else {
            const auto lows = three(level.min);
            const auto least = [](float x, float y) { return y < x ? y : x; };
            put([&](std::size_t i) {
                return worst_in(least(least(lows[0][i], lows[1][i]), lows[2][i]), high(i));
            });
        }
        const auto flags = three(level.kinds);
        for (std::size_t i = 0; i < count; ++i) {
            const auto seen = KindFlags(flags[0][i] | flags[1][i] | flags[2][i]);
            kinds[i] = begins ? seen : KindFlags(kinds[i] | seen);
        }
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
        static const std::array<KindFlags, 256> finite = [] {
            std::array<KindFlags, 256> flags;
            flags.fill(flag_of(Kind::finite));
            return flags;
        }();
        const bool all_finite = any == unsigned(Kind::finite);
        if (all_finite && last - first <= std::ssize(finite)) {
            line.add(to, last - first, values + first, finite.data());
            return;
        }
        for (std::int64_t i = first; i < last; ++i, ++to) {
            const float value = kinds[i] == Kind::finite ? values[i] : 0;
            const KindFlags flag = flag_of(kinds[i]);
            line.add(to, 1, &value, &flag);
        }
    }

    void add_blocks(std::int64_t row, std::int64_t first, std::int64_t last, Line& line) const {
        for (std::int64_t col = first; col < last; ++col) {
            const auto from = std::size_t(row / blocks_.block_rows * blocks_.cols + col / blocks_.block_cols);
            const float high = blocks_.max[from];
            const float value =
                blocks_.min.empty() ? std::max(high, 0.0f) : worst_in(blocks_.min[from], high);
            line.add(col - line.first, 1, &value, &blocks_.kinds[from]);
        }
    }

    const Pyramid::Level& blocks_;
    const DetailTiles& details_;
    std::int64_t down_ = -1;
    std::vector<Known> known_;
};

/// Pixels along a line, each of which is two windows of as many cells, a power of two: one from its first
/// cell on, one up to its last. A loop over the cells of each pixel would stall on its irregular length.
class PixelLine {
 public:
    PixelLine(const std::vector<Cover>& columns, const Cover& cells)
        : worst(columns.size()), kinds(columns.size()) {
        const auto is_inside = [](const Cover& column) { return !column.empty(); };
        first_inside = std::size_t(std::ranges::find_if(columns, is_inside) - columns.begin());
        last_inside =
            std::size_t(std::find_if(columns.rbegin(), columns.rend(), is_inside).base() - columns.begin());
        window_ = window_of(columns);
        for (const Cover& column : columns) {
            // Those at the edges may cover less than a window: theirs reaches over the edge.
            const bool narrow = column.last - column.first < window_;
            const std::int64_t up_to_last = column.last - window_;
            const bool at_left = narrow && column.first == cells.first;
            const std::int64_t first = at_left ? up_to_last : column.first;
            const std::int64_t last = narrow && !at_left ? column.first : up_to_last;
            const std::int64_t shift = window_ - cells.first;
            slots_.push_back(column.empty()
                                 ? Slot{0, 0}
                                 : Slot{std::uint32_t(first + shift), std::uint32_t(last + shift)});
        }
    }

    /// Cells that a line needs on either side.
    std::int64_t margin() const { return window_; }

    void gather(const Line& line) {
        const float* values = line.worst.data();
        const KindFlags* flags = line.kinds.data();
        if (window_ > 1) {
            widen(line.worst, line.kinds, 1);
            for (std::int64_t n = 2; n < window_; n *= 2) widen(wide_worst_, wide_kinds_, std::size_t(n));
            values = wide_worst_.data();
            flags = wide_kinds_.data();
        }
        const Slot* slot = slots_.data();
        float* __restrict value = worst.data();
        KindFlags* __restrict seen = kinds.data();
        const std::size_t width = slots_.size();
        for (std::size_t x = 0; x < width; ++x) {
            const auto [first, last] = slot[x];
            value[x] = worse(values[first], values[last]);
            seen[x] = flags[first] | flags[last];
        }
        unsigned other = 0;
        for (std::size_t x = first_inside; x < last_inside; ++x)
            other |= unsigned(kinds[x]) ^ flag_of(Kind::finite);
        all_finite = other == 0;
    }

    std::vector<float> worst;
    std::vector<KindFlags> kinds;  ///< none where the pixel is outside
    /// Pixels of the plane: from first_inside on, before last_inside.
    std::size_t first_inside = 0;
    std::size_t last_inside = 0;
    bool all_finite = false;

 private:
    /// The widest that no pixel between the outermost is narrower than. Widths differ by one cell at most, so
    /// that two of them cover each pixel.
    std::int64_t window_of(const std::vector<Cover>& columns) const {
        std::int64_t narrowest = std::numeric_limits<std::int64_t>::max();
        std::int64_t widest = 1;
        for (std::size_t x = first_inside; x < last_inside; ++x) {
            const std::int64_t width = columns[x].last - columns[x].first;
            widest = std::max(widest, width);
            if (x > first_inside && x + 1 < last_inside) narrowest = std::min(narrowest, width);
        }
        return std::int64_t(std::bit_floor(std::uint64_t(std::min(narrowest, widest))));
    }

    /// From windows of `n` cells to those of twice as many.
    void widen(const std::vector<float>& narrow, const std::vector<KindFlags>& narrow_kinds, std::size_t n) {
        wide_worst_.resize(narrow.size());
        wide_kinds_.resize(narrow.size());
        const std::size_t count = narrow.size() - n;
        const float* value = narrow.data();
        float* wide = wide_worst_.data();
        for (std::size_t i = 0; i < count; ++i) wide[i] = worse(value[i], value[i + n]);
        const KindFlags* seen = narrow_kinds.data();
        KindFlags* wide_seen = wide_kinds_.data();
        for (std::size_t i = 0; i < count; ++i) wide_seen[i] = seen[i] | seen[i + n];
    }

    struct Slot {
        std::uint32_t first;
        std::uint32_t last;
    };
    std::int64_t window_ = 1;
    std::vector<float> wide_worst_;
    std::vector<KindFlags> wide_kinds_;
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
    render_rows(pyramid, details, view, style, 0, image.height, image);
}

void render_rows(const Pyramid& pyramid, const DetailTiles& details, const PlaneView& view,
                 const ImageStyle& style, int first, int last, Image& image) {
    const auto line_of = [&](int y) {
        return image.pixels.data() + std::size_t(y) * std::size_t(image.width);
    };
    const auto clear = [&] {
        if (image.width > 0 && first < last) std::fill(line_of(first), line_of(last), 0u);
    };
    if (image.width <= 0 || image.height <= 0 || !(view.rows > 0) || !(view.cols > 0)) return clear();
    const double element_rows = view.rows / image.height;
    const double element_cols = view.cols / image.width;
    const bool elements = element_rows <= 1 && element_cols <= 1 && !details.tiles.empty();
    const Pyramid::Level& level = pyramid.level(elements ? 0 : pyramid.level_for(element_rows, element_cols));
    const std::vector<Cover> rows =
        covers(view.first_row, view.rows, image.height, pyramid.rows(), elements ? 1 : level.block_rows);
    const std::vector<Cover> columns =
        covers(view.first_col, view.cols, image.width, pyramid.cols(), elements ? 1 : level.block_cols);
    const Cover across = inner(columns);
    if (across.empty()) return clear();

    Painter painter(style, pyramid.is_complete());
    PixelLine pixels(columns, across);
    Line line(across.first, across.last - across.first, pixels.margin());
    ElementRows tile_rows(level, details);
    std::optional<Cover> gathered;
    const std::uint32_t* painted = nullptr;
    for (int y = first; y < last; ++y) {
        const Cover& cells = rows[std::size_t(y)];
        std::uint32_t* out = line_of(y);
        if (cells.empty()) {
            std::fill_n(out, image.width, 0u);
            continue;
        }
        if (gathered != cells) {
            const std::shared_lock held = pyramid.lock();
            if (elements) {
                tile_rows.set(cells, line);
            } else {
                set_rows(level, cells, line);
            }
            pixels.gather(line);
            painter.paint_values(pixels.worst, out);
            std::fill(out, out + pixels.first_inside, 0u);
            std::fill(out + pixels.last_inside, out + image.width, 0u);
            gathered = cells;
        } else {
            std::copy_n(painted, image.width, out);
        }
        painted = out;
        if (!pixels.all_finite)
            painter.paint_kinds(pixels.kinds, pixels.worst, pixels.first_inside, pixels.last_inside, y, out);
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
    if (quantity_info(quantity).computed_as == Quantity::over_budget && kind == ScaleKind::log) {
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
