#include <algorithm>
#include <bit>
#include <cmath>

#include "dump/schema/dtype.h"
#include "dump/schema/semantics.h"
#include "dump/schema/side_inputs.h"
#include "viewer/panels/pane_frame.h"

namespace tilescope::viewer {

namespace {

/// Lines closer than this would hide the picture.
constexpr float closest_lines = 7;
/// A light line beside a dark one is seen on every colour.
constexpr ImU32 grid_colour = IM_COL32(255, 255, 255, 110);
constexpr ImU32 grid_shadow = IM_COL32(0, 0, 0, 110);
constexpr ImU32 mask_colour = IM_COL32(255, 255, 255, 220);
/// Numbers are read on every colour and pattern.
constexpr ImU32 behind_numbers = IM_COL32(10, 12, 15, 200);
constexpr ImU32 warp_colour = IM_COL32(0, 210, 255, 200);

void draw_row_lines(ImDrawList& draw, const PaneFrame& pane, std::int64_t step, ImU32 colour,
                    float below = 0) {
    const Rect seen = pane.visible();
    if (float(step) * pane.row_height() < closest_lines || step <= 0) return;
    const float right = std::min(pane.x_of(double(pane.shape.cols)), pane.end().x);
    const float left = std::max(pane.x_of(0), pane.at.x);
    for (std::int64_t row = (seen.first_row + step - 1) / step * step; row <= seen.last_row; row += step) {
        const float y = std::round(pane.y_of(double(row))) + below;
        draw.AddRectFilled({left, y}, {right, y + 1}, colour);
    }
}

void draw_col_lines(ImDrawList& draw, const PaneFrame& pane, std::int64_t step, ImU32 colour,
                    float beside = 0) {
    const Rect seen = pane.visible();
    if (float(step) * pane.col_width() < closest_lines || step <= 0) return;
    const float bottom = std::min(pane.y_of(double(pane.shape.rows)), pane.end().y);
    const float top = std::max(pane.y_of(0), pane.at.y);
    for (std::int64_t col = (seen.first_col + step - 1) / step * step; col <= seen.last_col; col += step) {
        const float x = std::round(pane.x_of(double(col))) + beside;
        draw.AddRectFilled({x, top}, {x + 1, bottom}, colour);
    }
}

/// Elements whose owners are looked up for a frame.
constexpr std::int64_t most_owners = 300'000;

/// Whether neighbours belong to other warps, or to other lanes of one.
enum class Border : std::uint8_t { none, lanes, warps };
Border border_between(const Owner& a, const Owner& b) {
    if (a.warp != b.warp) return Border::warps;
    return a.lane != b.lane ? Border::lanes : Border::none;
}

/// Along the border before row or column `at`, from one element of it to another.
struct ThreadLine {
    std::int64_t at;
    std::int64_t from;
    std::int64_t to;
    float thickness;
};

/// Adds the borders before a row or column, each as long as it goes on.
template <class BorderAt>
void add_borders(std::int64_t at, std::int64_t first, std::int64_t last, bool lanes, BorderAt border_at,
                 std::vector<ThreadLine>& lines) {
    Border before = Border::none;
    std::int64_t from = first;
    for (std::int64_t i = first; i <= last; ++i) {
        Border border = i < last ? border_at(i) : Border::none;
        if (border == Border::lanes && !lanes) border = Border::none;
        if (border == before) continue;
        if (before != Border::none) lines.push_back({at, from, i, before == Border::warps ? 3.0F : 1.0F});
        before = border;
        from = i;
    }
}

/// Lines closer than others may be would hide the picture.
bool have_room(const std::vector<ThreadLine>& lines, float pixels) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) count += i == 0 || lines[i].at != lines[i - 1].at;
    return float(count) * closest_lines <= pixels;
}

/// Between elements of other threads, as the recording declares them: thick between warps.
void draw_threads(const App& app, ImDrawList& draw, const PaneFrame& pane, const ThreadMap& threads) {
    const Rect seen = pane.visible();
    const std::int64_t rows = seen.last_row - seen.first_row;
    const std::int64_t cols = seen.last_col - seen.first_col;
    if (rows <= 0 || cols <= 0) return;
    std::vector<Owner> owners;
    owners.reserve(std::size_t(rows * cols));
    for (std::int64_t row = seen.first_row; row < seen.last_row; ++row) {
        for (std::int64_t col = seen.first_col; col < seen.last_col; ++col) {
            const PlaceInTile place = place_in_tile(app.problem(), pane.plane, row, col);
            owners.push_back(threads.owner(place.tile, place.row, place.col));
        }
    }
    const auto owner = [&](std::int64_t row, std::int64_t col) {
        return owners[std::size_t((row - seen.first_row) * cols + col - seen.first_col)];
    };
    std::vector<ThreadLine> lines;
    for (std::int64_t row = seen.first_row + 1; row < seen.last_row; ++row)
        add_borders(
            row, seen.first_col, seen.last_col, pane.row_height() >= closest_lines,
            [&](std::int64_t col) { return border_between(owner(row - 1, col), owner(row, col)); }, lines);
    if (have_room(lines, pane.size.y)) {
        for (const auto& [at, from, to, thickness] : lines) {
            const float y = std::round(pane.y_of(double(at)));
            draw.AddRectFilled({pane.x_of(double(from)), y - std::floor(thickness / 2)},
                               {pane.x_of(double(to)), y + std::ceil(thickness / 2)}, warp_colour);
        }
    }
    lines.clear();
    for (std::int64_t col = seen.first_col + 1; col < seen.last_col; ++col)
        add_borders(
            col, seen.first_row, seen.last_row, pane.col_width() >= closest_lines,
            [&](std::int64_t row) { return border_between(owner(row, col - 1), owner(row, col)); }, lines);
    if (!have_room(lines, pane.size.x)) return;
    for (const auto& [at, from, to, thickness] : lines) {
        const float x = std::round(pane.x_of(double(at)));
        draw.AddRectFilled({x - std::floor(thickness / 2), pane.y_of(double(from))},
                           {x + std::ceil(thickness / 2), pane.y_of(double(to))}, warp_colour);
    }
}

/// The threads that own the elements, or a grid where the recording does not declare them.
void draw_warps(const App& app, ImDrawList& draw, const PaneFrame& pane) {
    const ThreadLines lines = thread_lines(app, pane.plane.stage);
    if (lines == ThreadLines::grid) {
        draw_row_lines(draw, pane, app.settings.warp_rows, warp_colour);
        draw_col_lines(draw, pane, app.settings.lane_columns, warp_colour);
        return;
    }
    if (lines == ThreadLines::too_small) return;
    draw_threads(app, draw, pane, *threads_of(app, pane.plane.stage));
}

/// Where the keys that a row sees begin and end: steps of one row, or of a pixel where rows are smaller.
void draw_mask_edges(const App& app, ImDrawList& draw, const PaneFrame& pane) {
    const Problem problem =
        problem_of(app.problem(), app.document->recording->side_inputs(), pane.plane.batch);
    const bool masked = problem.mask != Mask::none || problem.window_left >= 0 || problem.window_right >= 0 ||
                        problem.seqlen_q != app.problem().seqlen_q ||
                        problem.seqlen_kv != app.problem().seqlen_kv;
    if (!masked) return;
    const Rect seen = pane.visible();
    const auto step = std::max<std::int64_t>(1, std::int64_t(1 / pane.row_height()));
    const auto edge = [&](std::int64_t key, float top, float bottom, float& before) {
        const float x = std::round(pane.x_of(double(key)));
        draw.AddRectFilled({x, top}, {x + 1, bottom}, mask_colour);
        if (before >= 0 && before != x)
            draw.AddRectFilled({std::min(before, x), top}, {std::max(before, x) + 1, top + 1}, mask_colour);
        before = x;
    };
    float last_before = -1;
    float first_before = -1;
    for (std::int64_t row = seen.first_row; row < std::min(seen.last_row, problem.seqlen_q); row += step) {
        const KeyRange keys = visible_keys(problem, row);
        const float top = std::round(pane.y_of(double(row)));
        const float bottom = std::max(top + 1, std::round(pane.y_of(double(row + step))));
        if (keys.empty()) {
            last_before = first_before = -1;
            continue;
        }
        if (keys.last < pane.shape.cols) edge(keys.last, top, bottom, last_before);
        if (keys.first > 0) edge(keys.first, top, bottom, first_before);
    }
}

/// Bits of the value in the type it was rounded to last.
std::string hex_of(Dtype dtype, float value) {
    const bool exact =
        dtype != Dtype::f32 && !std::isnan(value) && decode(dtype, encode(dtype, value)) == value;
    if (!exact) return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(value));
    return fmt::format("{:0{}x}", encode(dtype, value), 2 * dtype_info(dtype).bytes);
}

std::string number_of(const DetailTile& tile, Quantity quantity, std::int64_t row, std::int64_t col) {
    const ElementValue value = tile.value(quantity, row, col);
    if (value.kind == Kind::finite)
        return quantity_info(quantity).is_signed ? short_number(value.value) : quotient_text(value.value);
    if (quantity_info(quantity).computed_as == Quantity::expected)
        return short_number(tile.element(row, col).expected);
    return quantity == Quantity::dumped ? short_number(tile.dumped(row, col)) : std::string();
}

bool is_inside(const PlaneView& view, const PlaneShape& shape) {
    return view.first_row >= 0 && view.first_col >= 0 && view.first_row + view.rows <= double(shape.rows) &&
           view.first_col + view.cols <= double(shape.cols);
}

/// What of the pane is not in the box.
void draw_canvas_around(ImDrawList& draw, const PaneFrame& pane, ImVec2 at, ImVec2 end) {
    const auto fill = [&](ImVec2 from, ImVec2 to) {
        if (from.x < to.x && from.y < to.y) draw.AddRectFilled(from, to, colours::canvas);
    };
    fill(pane.at, {pane.end().x, at.y});
    fill({pane.at.x, end.y}, pane.end());
    fill({pane.at.x, at.y}, {at.x, end.y});
    fill({end.x, at.y}, {pane.end().x, end.y});
}

}  // namespace

Box PaneFrame::box_of(const PlaneView& elements) const {
    if (elements == view) return {at.x, at.y, size.x, size.y};
    return {x_of(elements.first_col), y_of(elements.first_row), float(elements.cols) * col_width(),
            float(elements.rows) * row_height()};
}

Rect PaneFrame::visible() const {
    const auto inside = [](double value, std::int64_t count) {
        return std::clamp<std::int64_t>(std::int64_t(value), 0, count);
    };
    return {inside(std::floor(view.first_row), shape.rows), inside(std::floor(view.first_col), shape.cols),
            inside(std::ceil(view.first_row + view.rows), shape.rows),
            inside(std::ceil(view.first_col + view.cols), shape.cols)};
}

ThreadLines thread_lines(const App& app, Stage stage) {
    if (!app.document->recording->threads()[stage].declared()) return ThreadLines::grid;
    const PlaneView view = app.view.ranges.view(app.problem(), stage);
    const PlaneShape shape = plane_shape(app.problem(), stage);
    const double elements = std::min(view.rows, double(shape.rows)) * std::min(view.cols, double(shape.cols));
    return elements > double(most_owners) ? ThreadLines::too_small : ThreadLines::declared;
}

void draw_picture(ImDrawList& draw, const PaneFrame& pane, const std::shared_ptr<const Pyramid>& pyramid,
                  TextureName texture, const HeatmapPane::Contents& shown) {
    const bool same_plane = texture != 0 && shown.pyramid == pyramid;
    const Box box = pane.box_of(same_plane ? shown.view : pane.view);
    const ImVec2 at{box.x, box.y};
    const ImVec2 end{box.x + box.width, box.y + box.height};
    if (same_plane && is_inside(shown.view, pane.shape)) {
        draw_canvas_around(draw, pane, at, end);
        return add_opaque_image(draw, texture, at, end);
    }
    draw.AddRectFilled(pane.at, pane.end(), colours::canvas);
    if (texture != 0) add_image(draw, texture, at, end);
}

void draw_tile_grid(ImDrawList& draw, const PaneFrame& pane) {
    draw_row_lines(draw, pane, pane.shape.tile_rows, grid_colour);
    draw_col_lines(draw, pane, pane.shape.tile_cols, grid_colour);
    draw_row_lines(draw, pane, pane.shape.tile_rows, grid_shadow, 1);
    draw_col_lines(draw, pane, pane.shape.tile_cols, grid_shadow, 1);
}

void draw_overlays(const App& app, ImDrawList& draw, const PaneFrame& pane) {
    const Stage stage = pane.plane.stage;
    if (app.settings.warp_lines) draw_warps(app, draw, pane);
    if (app.settings.tile_grid) draw_tile_grid(draw, pane);
    if (app.settings.mask_edges && (stage == Stage::s || stage == Stage::p)) draw_mask_edges(app, draw, pane);
}

void draw_rim(ImDrawList& draw, ImVec2 at, ImVec2 end, ImVec2 inside_at, ImVec2 inside_end) {
    // A lone pixel keeps some others around it, so that its colour is seen.
    const auto widen = [](float& low, float& high) {
        const float missing = std::max(9 - (high - low), 0.0F);
        low -= std::floor(missing / 2);
        high += std::ceil(missing / 2);
    };
    widen(at.x, end.x);
    widen(at.y, end.y);
    // Filled, so that a line of one pixel is as dark as it can be. At an edge of the picture the rim stands inside, so that it is seen whole.
    const auto rim = [&](float out, float in_from_edge, ImU32 colour, float thickness) {
        const auto low = [&](float x, float edge) {
            return std::clamp(x - out, edge + in_from_edge, std::max(x, edge + in_from_edge));
        };
        const auto high = [&](float x, float edge) {
            return std::clamp(x + out, std::min(x, edge - in_from_edge), edge - in_from_edge);
        };
        const ImVec2 from{low(at.x, inside_at.x), low(at.y, inside_at.y)};
        const ImVec2 to{high(end.x, inside_end.x), high(end.y, inside_end.y)};
        draw.AddRectFilled(from, {to.x, from.y + thickness}, colour);
        draw.AddRectFilled({from.x, to.y - thickness}, to, colour);
        draw.AddRectFilled(from, {from.x + thickness, to.y}, colour);
        draw.AddRectFilled({to.x - thickness, from.y}, to, colour);
    };
    rim(3, 0, IM_COL32(0, 0, 0, 255), 1);
    rim(2, 1, IM_COL32(255, 255, 255, 255), 2);
}

void draw_rings(ImDrawList& draw, const PaneFrame& pane, const Pyramid& pyramid) {
    constexpr std::size_t few = 8;
    constexpr KindFlags marks = flag_of(Kind::nan) | flag_of(Kind::plus_infinity) |
                                flag_of(Kind::minus_infinity) | flag_of(Kind::unwritten) |
                                flag_of(Kind::should_be_infinite);
    const float radius = 1.1F * ImGui::GetFontSize();
    for (const Rect& cell : pyramid.few_with(marks, few)) {
        const ImVec2 at{pane.x_of(double(cell.first_col)), pane.y_of(double(cell.first_row))};
        const ImVec2 end{pane.x_of(double(cell.last_col)), pane.y_of(double(cell.last_row))};
        if (end.x - at.x > radius || end.y - at.y > radius) continue;
        const ImVec2 middle{(at.x + end.x) / 2, (at.y + end.y) / 2};
        draw.AddCircle(middle, radius + 1.5F, IM_COL32(0, 0, 0, 255), 0, 4.5F);
        draw.AddCircle(middle, radius + 1.5F, IM_COL32(255, 255, 255, 255), 0, 2);
    }
}

void draw_cursor(ImDrawList& draw, const PaneFrame& pane, const PlanePoint& point) {
    const float top = std::floor(pane.y_of(double(point.row)));
    const float bottom = std::max(top + 3, std::round(pane.y_of(double(point.row + 1))));
    const float left = std::floor(pane.x_of(double(point.col)));
    const float right = std::max(left + 3, std::round(pane.x_of(double(point.col + 1))));
    // The row from edge to edge, and the element with a dark rim, so that it is seen on every colour.
    draw.AddRectFilled({pane.at.x, top - 1}, {pane.end().x, top}, colours::accent_dim);
    draw.AddRectFilled({pane.at.x, bottom}, {pane.end().x, bottom + 1}, colours::accent_dim);
    draw_rim(draw, {left, top}, {right, bottom}, pane.at, pane.end());
}

std::optional<Rect> dragged_region(const PaneFrame& pane) {
    const ImGuiIO& io = ImGui::GetIO();
    const ImVec2 from = io.MouseClickedPos[1];
    const auto ordered = [](double a, double b, std::int64_t count) {
        const auto low = std::clamp<std::int64_t>(std::int64_t(std::floor(std::min(a, b))), 0, count);
        const auto high = std::clamp<std::int64_t>(std::int64_t(std::floor(std::max(a, b))) + 1, 0, count);
        return std::pair(low, high);
    };
    const auto [top, bottom] = ordered(pane.row_at(from.y), pane.row_at(io.MousePos.y), pane.shape.rows);
    const auto [left, right] = ordered(pane.col_at(from.x), pane.col_at(io.MousePos.x), pane.shape.cols);
    const Rect rect{top, left, bottom, right};
    return rect.empty() ? std::nullopt : std::optional(rect);
}

bool is_right_click() {
    const ImGuiIO& io = ImGui::GetIO();
    return ImGui::IsMouseReleased(ImGuiMouseButton_Right) &&
           io.MouseDragMaxDistanceSqr[1] < io.MouseDragThreshold * io.MouseDragThreshold;
}

void draw_selection(const App& app, ImDrawList& draw, const PaneFrame& pane) {
    draw_cursor(draw, pane, point_at(app.problem(), app.view.cursor, pane.plane.stage));
    if (app.view.region && pane.plane.stage == app.view.stage) draw_region(draw, pane, *app.view.region);
}

void draw_region(ImDrawList& draw, const PaneFrame& pane, const Rect& region) {
    const ImVec2 corner{pane.x_of(double(region.first_col)), pane.y_of(double(region.first_row))};
    draw.AddRect(corner, {pane.x_of(double(region.last_col)), pane.y_of(double(region.last_row))},
                 IM_COL32(255, 255, 255, 255), 0, 0, 2);
    const std::string size =
        fmt::format("{} x {}", region.last_row - region.first_row, region.last_col - region.first_col);
    const ImVec2 room = ImGui::CalcTextSize(size.c_str());
    const ImVec2 at{std::max(corner.x, pane.at.x) + 4, std::max(corner.y, pane.at.y) + 3};
    draw.AddRectFilled(at - ImVec2(2, 1), at + room + ImVec2(2, 1), behind_numbers);
    draw.AddText(at, IM_COL32(255, 255, 255, 255), size.c_str());
}

NumbersRoom room_for_numbers(const PaneFrame& pane) {
    const float em = ImGui::GetFontSize();
    const float letter = ImGui::CalcTextSize("0").x;
    if (pane.col_width() < 10.5F * letter || pane.row_height() < 1.2F * em) return NumbersRoom::none;
    return pane.row_height() > 3.6F * em && pane.col_width() > 12 * letter ? NumbersRoom::full
                                                                           : NumbersRoom::one;
}

void draw_numbers_at(App& app, ImDrawList& draw, const PaneFrame& pane, const PlanePoint& point,
                     const std::vector<std::string>& lines) {
    const float em = ImGui::GetFontSize();
    const float letter = ImGui::CalcTextSize("0").x;
    const ImVec2 middle = {pane.x_of(double(point.col) + 0.5), pane.y_of(double(point.row) + 0.5)};
    float y = middle.y - 0.5F * float(lines.size()) * 1.15F * em;
    for (const std::string& line : lines) {
        const float width = letter * float(line.size());
        draw.AddRectFilled({middle.x - width / 2 - 2, y - 1}, {middle.x + width / 2 + 2, y + em},
                           behind_numbers);
        text_at(app, draw, {middle.x - width / 2, y}, line, IM_COL32(255, 255, 255, 255));
        y += 1.15F * em;
    }
}

void draw_numbers(App& app, ImDrawList& draw, const PaneFrame& pane, const DetailTiles& details) {
    const NumbersRoom room = room_for_numbers(pane);
    if (room == NumbersRoom::none) return;
    const Rect seen = pane.visible();
    for (std::int64_t row = seen.first_row; row < seen.last_row; ++row) {
        for (std::int64_t col = seen.first_col; col < seen.last_col; ++col) {
            const DetailTile* tile = details.at(row, col);
            const std::int64_t in_row = row % pane.shape.tile_rows;
            const std::int64_t in_col = col % pane.shape.tile_cols;
            if (tile == nullptr || in_row >= tile->rows() || in_col >= tile->cols()) continue;
            std::vector<std::string> lines;
            if (room == NumbersRoom::full) {
                lines = {number_of(*tile, Quantity::dumped, in_row, in_col),
                         number_of(*tile, Quantity::expected, in_row, in_col),
                         hex_of(tile->dtype(), tile->dumped(in_row, in_col))};
            } else {
                lines = {number_of(*tile, pane.quantity, in_row, in_col)};
            }
            draw_numbers_at(app, draw, pane, {row, col}, lines);
        }
    }
}

void draw_axes(ImDrawList& draw, const PaneFrame& pane) {
    const float em = ImGui::GetFontSize();
    const float letter = ImGui::CalcTextSize("0").x;
    const auto step_for = [](double size_of_one, double room) {
        std::int64_t step = 1;
        while (double(step) * size_of_one < room) step *= 2;
        return step;
    };
    const Rect seen = pane.visible();
    const std::int64_t down = step_for(pane.row_height(), 2.0 * em);
    for (std::int64_t row = (seen.first_row + down - 1) / down * down; row < seen.last_row; row += down) {
        const std::string number = fmt::format("{}", row);
        const float y = pane.y_of(double(row) + std::min(0.5, 0.5 * em / pane.row_height()));
        if (y < pane.at.y || y > pane.end().y) continue;
        draw.AddText({pane.at.x - letter * (float(number.size()) + 0.7F), y - em / 2}, colours::dim,
                     number.c_str());
    }
    const std::int64_t across = step_for(pane.col_width(), 7.0 * letter);
    for (std::int64_t col = (seen.first_col + across - 1) / across * across; col < seen.last_col;
         col += across) {
        const std::string number = fmt::format("{}", col);
        const float half = letter * float(number.size()) / 2;
        const float centre = pane.x_of(double(col) + 0.5);
        const float x = pane.col_width() > 2 * half ? centre - half : pane.x_of(double(col));
        if (x < pane.at.x - half || x + 2 * half > pane.end().x) continue;
        draw.AddText({x, pane.at.y - 1.2F * em}, colours::dim, number.c_str());
    }
}

}  // namespace tilescope::viewer
