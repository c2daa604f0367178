#include "oracle/heatmap/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tilescope {

namespace {

constexpr Colour paper{255, 255, 255};
constexpr Colour ink{31, 35, 40};
constexpr Colour dim{89, 99, 110};

constexpr int margin = 20;
constexpr int tick_length = 6;
constexpr int swatch = 16;
constexpr int bar_height = 16;
/// Room for the words, however narrow the heatmap is.
constexpr int least_width = 640;

/// Words on as many lines as the width asks for; a word that is longer is broken.
std::vector<std::string> wrapped(const std::string& text, int width) {
    const auto room = std::size_t(std::max(width / letter_width, 8));
    std::vector<std::string> lines;
    std::string rest = text;
    while (std::size_t(text_width(rest) / letter_width) > room) {
        std::size_t end = rest.rfind(' ', room);
        if (end == std::string::npos || end == 0) end = room;
        lines.push_back(rest.substr(0, end));
        rest.erase(0, end + (rest[end] == ' ' ? 1 : 0));
    }
    lines.push_back(rest);
    return lines;
}

struct TextLine {
    std::string words;
    Colour colour = dim;
};

void add_lines(const std::string& text, Colour colour, int width, std::vector<TextLine>& lines) {
    for (std::string& words : wrapped(text, width)) lines.push_back({std::move(words), colour});
}

/// A kind that occurs, and how often where that is known.
struct Mark {
    Kind kind;
    std::string label;
};

/// What the part in view holds.
struct Marks {
    std::vector<Mark> marks;
    bool has_values = false;  ///< of which colours tell something
};

Rect part_of(const Figure& figure) {
    const auto inside = [](double value, std::int64_t count) {
        return std::clamp<std::int64_t>(std::int64_t(value), 0, count);
    };
    const PlaneView& view = figure.view;
    return {inside(std::floor(view.first_row), figure.shape.rows),
            inside(std::floor(view.first_col), figure.shape.cols),
            inside(std::ceil(view.first_row + view.rows), figure.shape.rows),
            inside(std::ceil(view.first_col + view.cols), figure.shape.cols)};
}

Marks marks_of(const Figure& figure, const Pyramid& pyramid) {
    const Rect part = part_of(figure);
    const Kind unset = pyramid.is_complete() ? Kind::not_captured : Kind::not_judged;
    std::array<std::int64_t, kind_count> cells{};
    {
        const auto held = pyramid.lock();
        const Pyramid::Level& level = pyramid.level(0);
        for (std::int64_t row = part.first_row / level.block_rows; row * level.block_rows < part.last_row;
             ++row) {
            for (std::int64_t col = part.first_col / level.block_cols; col * level.block_cols < part.last_col;
                 ++col) {
                const KindFlags seen = level.kinds[std::size_t(row * level.cols + col)];
                if (seen == 0) ++cells[std::size_t(unset)];
                for (unsigned kind = 0; seen >> kind != 0; ++kind) cells[kind] += seen >> kind & 1;
            }
        }
    }
    Marks found;
    found.has_values = cells[std::size_t(Kind::finite)] > 0 || cells[std::size_t(Kind::inherited)] > 0;
    for (const KindStyle& style : all_kinds()) {
        const std::int64_t count = cells[std::size_t(style.kind)];
        if (style.kind == Kind::finite || count == 0) continue;
        const std::int64_t often = pyramid.holds_elements() ? count : figure.counts[std::size_t(style.kind)];
        found.marks.push_back(
            {style.kind, often > 0 ? fmt::format("{} {}", style.name, often) : std::string(style.name)});
    }
    return found;
}

/// Rows of marks, each from the left: as many as the width holds.
std::vector<std::vector<Mark>> rows_of(const std::vector<Mark>& marks, int width) {
    std::vector<std::vector<Mark>> rows;
    int used = 0;
    for (const Mark& mark : marks) {
        const int needed = swatch + letter_width * 3 + text_width(mark.label);
        if (rows.empty() || used + needed > width) {
            rows.emplace_back();
            used = 0;
        }
        rows.back().push_back(mark);
        used += needed;
    }
    return rows;
}

/// Where everything stands.
struct FigureLayout {
    std::vector<TextLine> title;
    std::vector<TextLine> unit;
    std::vector<std::vector<Mark>> marks;
    std::vector<TextLine> ring;
    PixelBox heatmap;
    int bar_width = 0;
    bool has_bar = true;
    int width = 0;
    int height = 0;

    int unit_top() const { return heatmap.bottom() + margin; }
    int bar_top() const { return unit_top() + int(unit.size()) * line_height; }
    int marks_top() const {
        return bar_top() + (has_bar ? bar_height + tick_length + line_height + margin / 2 : 0);
    }
    int ring_top() const { return marks_top() + int(marks.size()) * line_height; }
};

FigureLayout layout_of(const Figure& figure, const Pyramid& pyramid) {
    FigureLayout layout;
    const int left = margin + tick_length + text_width(std::to_string(figure.shape.rows)) + letter_width / 2;
    layout.bar_width = std::max(figure.width, least_width - left);
    layout.width = left + layout.bar_width + margin;
    const int room = layout.width - 2 * margin;
    for (std::size_t i = 0; i < figure.title.size(); ++i)
        add_lines(figure.title[i], i == 0 ? ink : dim, room, layout.title);
    add_lines(figure.axes, dim, room, layout.title);
    const Marks found = marks_of(figure, pyramid);
    layout.has_bar = found.has_values;
    add_lines(figure.unit + (found.has_values ? "" : "; no value is finite"), dim, layout.bar_width,
              layout.unit);
    layout.marks = rows_of(found.marks, layout.bar_width);
    if (figure.ringed)
        add_lines(figure.ring_says, ink, layout.bar_width - swatch - letter_width, layout.ring);
    layout.heatmap = {left, margin + (int(layout.title.size()) + 1) * line_height + tick_length, figure.width,
                      figure.height};
    layout.height = layout.ring_top() + int(layout.ring.size()) * line_height + margin / 2;
    return layout;
}

int draw_lines(Image& image, const std::vector<TextLine>& lines, int left, int top) {
    for (const TextLine& line : lines) {
        draw_text(image, left, top, line.words, line.colour);
        top += line_height;
    }
    return top;
}

/// One axis of the heatmap, from elements to pixels.
struct AxisInPixels {
    double first;   ///< element at the edge
    double pixels;  ///< of an element
    std::int64_t begin;
    std::int64_t end;

    /// In the middle of elements that are seen one by one, otherwise where the element begins.
    int at(std::int64_t element) const {
        const double inside = pixels >= letter_height ? pixels / 2 : 0;
        return int(std::lround((double(element) - first) * pixels + inside));
    }
};

void draw_axes(Image& image, const Figure& figure, const PixelBox& box) {
    const Rect part = part_of(figure);
    const AxisInPixels down{figure.view.first_row, box.height / figure.view.rows, part.first_row,
                            part.last_row};
    const AxisInPixels across{figure.view.first_col, box.width / figure.view.cols, part.first_col,
                              part.last_col};
    const auto first_tick = [](std::int64_t begin, std::int64_t step) {
        return (begin + step - 1) / step * step;
    };
    const std::int64_t row_step = tick_step(figure.shape.tile_rows, down.pixels, 2 * line_height);
    for (std::int64_t row = first_tick(down.begin, row_step); row < down.end; row += row_step) {
        const std::string number = std::to_string(row);
        const int y = box.top + down.at(row);
        if (y >= box.bottom()) break;
        fill_box(image, {box.left - tick_length, y, tick_length, 1}, dim);
        draw_text(image, box.left - tick_length - letter_width / 2 - text_width(number) + 2,
                  y - letter_height / 2, number, dim);
    }
    const int digits = text_width(std::to_string(part.last_col));
    const std::int64_t col_step = tick_step(figure.shape.tile_cols, across.pixels, digits + 3 * letter_width);
    for (std::int64_t col = first_tick(across.begin, col_step); col < across.end; col += col_step) {
        const std::string number = std::to_string(col);
        const int x = box.left + across.at(col);
        if (x >= box.right()) break;
        fill_box(image, {x, box.top - tick_length, 1, tick_length}, dim);
        const int centred = x - (text_width(number) - 2) / 2;
        draw_text(image, std::max(box.left - tick_length, centred), box.top - tick_length - letter_height - 4,
                  number, dim);
    }
}

void draw_bar(Image& image, const Figure& figure, const FigureLayout& layout) {
    if (!layout.has_bar) return;
    const PixelBox bar{layout.heatmap.left, layout.bar_top(), layout.bar_width, bar_height};
    const Palette& colours = palette(figure.style.colours);
    for (int x = 0; x < bar.width; ++x) {
        const auto index = std::size_t(x) * (colours.size() - 1) / std::size_t(std::max(bar.width - 1, 1));
        fill_box(image, {bar.left + x, bar.top, 1, bar.height}, colours[index]);
    }
    outline_box(image, {bar.left - 1, bar.top - 1, bar.width + 2, bar.height + 2}, dim);
    int free_from = 0;
    for (const double value : scale_ticks(figure.style.scale, bar.width / (10 * letter_width))) {
        const std::string number = fmt::format("{:.4g}", value);
        const int width = text_width(number) - 2;
        const int x = bar.left + int(std::lround(figure.style.scale.position(value) * (bar.width - 1)));
        const int left =
            std::clamp(x - width / 2, margin, std::max(margin, image.width - margin / 2 - width));
        fill_box(image, {x, bar.bottom() + 1, 1, tick_length - 1}, dim);
        if (left < free_from) continue;
        draw_text(image, left, bar.bottom() + tick_length + 3, number, dim);
        free_from = left + width + letter_width;
    }
}

void draw_marks(Image& image, const FigureLayout& layout) {
    int top = layout.marks_top();
    for (const std::vector<Mark>& row : layout.marks) {
        int left = layout.heatmap.left;
        for (const Mark& mark : row) {
            for (int y = 0; y < swatch; ++y) {
                for (int x = 0; x < swatch; ++x)
                    fill_box(image, {left + x, top + y, 1, 1}, colour_of(mark.kind, x, y));
            }
            outline_box(image, {left - 1, top - 1, swatch + 2, swatch + 2}, dim);
            draw_text(image, left + swatch + letter_width, top + 1, mark.label, dim);
            left += swatch + letter_width * 3 + text_width(mark.label);
        }
        top += line_height;
    }
}

/// Dark between two light rings, to be seen on every colour.
void draw_ring_around(Image& image, double x, double y, double radius) {
    draw_ring(image, x, y, radius - 1.5, radius + 4.5, paper);
    draw_ring(image, x, y, radius, radius + 3, ink);
}

void draw_worst(Image& image, const Figure& figure, const FigureLayout& layout) {
    if (!figure.ringed) return;
    const Rect& cell = *figure.ringed;
    const double down = layout.heatmap.height / figure.view.rows;
    const double across = layout.heatmap.width / figure.view.cols;
    // Of a cell that the edge cuts, what is seen.
    const auto middle = [](std::int64_t begin, std::int64_t end, double first, double size) {
        return (std::max(double(begin), first) + std::min(double(end), first + size)) / 2 - first;
    };
    const PlaneView& view = figure.view;
    const double x =
        layout.heatmap.left + middle(cell.first_col, cell.last_col, view.first_col, view.cols) * across;
    const double y =
        layout.heatmap.top + middle(cell.first_row, cell.last_row, view.first_row, view.rows) * down;
    const double cell_width = double(cell.last_col - cell.first_col) * across;
    const double cell_height = double(cell.last_row - cell.first_row) * down;
    // Around a small cell, and inside of one that has room for it.
    const double narrow = std::min(cell_width, cell_height);
    const double radius = narrow >= 32 ? 0.35 * narrow : std::hypot(cell_width, cell_height) / 2 + 3;
    draw_ring_around(image, x, y, std::clamp(radius, 12.0, 40.0));
    draw_ring_around(image, layout.heatmap.left + swatch / 2.0, layout.ring_top() + letter_height / 2.0, 6);
    draw_lines(image, layout.ring, layout.heatmap.left + swatch + letter_width, layout.ring_top());
}

}  // namespace

DrawnFigure draw_figure(const Figure& figure, const Pyramid& pyramid, const DetailTiles& details) {
    const FigureLayout layout = layout_of(figure, pyramid);
    Image heatmap(figure.width, figure.height);
    render(pyramid, details, figure.view, figure.style, heatmap);
    Image image(layout.width, layout.height);
    fill_box(image, {0, 0, image.width, image.height}, paper);
    draw_lines(image, layout.title, margin, margin);
    const PixelBox& box = layout.heatmap;
    outline_box(image, {box.left - 1, box.top - 1, box.width + 2, box.height + 2}, dim);
    place_image(image, heatmap, box.left, box.top);
    draw_axes(image, figure, box);
    draw_lines(image, layout.unit, box.left, layout.unit_top());
    draw_bar(image, figure, layout);
    draw_marks(image, layout);
    draw_worst(image, figure, layout);
    return {std::move(image), box};
}

}  // namespace tilescope
