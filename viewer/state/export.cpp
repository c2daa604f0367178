#include "viewer/state/export.h"

#include <fmt/format.h>

#include <imgui.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "oracle/heatmap/png.h"
#include "oracle/judge/report.h"
#include "oracle/report/output_file.h"
#include "viewer/state/app.h"
#include "viewer/state/causes_state.h"
#include "viewer/state/selection.h"

namespace tilescope::viewer {

namespace {

/// 64 MiB of float32; more would have to be judged anew while it is written.
constexpr std::int64_t most_elements = std::int64_t(1) << 24;

/// Infinities as they are, NaN where there is no value.
float written_value(const ElementValue& value) {
    switch (value.kind) {
        case Kind::plus_infinity:
            return std::numeric_limits<float>::infinity();
        case Kind::minus_infinity:
            return -std::numeric_limits<float>::infinity();
        case Kind::masked:
            return 0;
        case Kind::finite:
        case Kind::inherited:
            return float(value.value);
        default:
            return std::numeric_limits<float>::quiet_NaN();
    }
}

float shown_value(const DetailTile& tile, Quantity quantity, std::int64_t row, std::int64_t col) {
    // Bits as they are in the dump, the pattern of unwritten elements too.
    if (quantity == Quantity::dumped) return tile.dumped(row, col);
    if (quantity_info(quantity).computed_as == Quantity::expected)
        return float(tile.element(row, col).expected);
    return written_value(tile.value(quantity, row, col));
}

float shown_value(const StageElement& element, Quantity quantity, Dtype dtype) {
    if (quantity == Quantity::dumped && element.finding != ProgramFinding::not_stored)
        return float(element.got);
    if (quantity_info(quantity).computed_as == Quantity::expected) return float(element.expected);
    return written_value(value_of(element, quantity, dtype));
}

/// NPY format 1.0: magic, version, length of the header, which ends with a newline at a multiple of 64.
std::string npy_header(std::int64_t rows, std::int64_t cols) {
    std::string dictionary =
        fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
    constexpr std::size_t prefix = 10;
    dictionary.append(63 - (prefix + dictionary.size()) % 64, ' ').append("\n");
    const auto length = std::uint16_t(dictionary.size());
    std::string header = "\x93NUMPY";
    header += {'\1', '\0', char(length & 0xff), char(length >> 8)};
    return header + dictionary;
}

std::string npy_of(const std::vector<float>& values, const Rect& rect) {
    static_assert(std::endian::native == std::endian::little);
    std::string text = npy_header(rect.last_row - rect.first_row, rect.last_col - rect.first_col);
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return text;
}

/// Whether every captured tile of the rectangle is there.
bool is_whole(const App& app, const DetailTiles& tiles) {
    for (std::int64_t down = 0; down < tiles.down; ++down) {
        for (std::int64_t across = 0; across < tiles.across; ++across) {
            if (tiles.tiles[std::size_t(down * tiles.across + across)] != nullptr) continue;
            const PlaceInTile place =
                place_in_tile(app.problem(), tiles.plane, (tiles.first_down + down) * tiles.shape.tile_rows,
                              (tiles.first_across + across) * tiles.shape.tile_cols);
            if (app.document->recording->has_tile(tiles.plane.stage, place.tile)) return false;
        }
    }
    return true;
}

/// What is to be written, row by row; nullopt until it is there.
std::optional<std::vector<float>> values_in(App& app, const Plane& plane, Quantity quantity,
                                            const Rect& rect) {
    const DetailTiles tiles = app.session.request_detail(plane, quantity, rect);
    if (!is_whole(app, tiles)) return std::nullopt;
    std::vector<float> values;
    for (std::int64_t row = rect.first_row; row < rect.last_row; ++row) {
        for (std::int64_t col = rect.first_col; col < rect.last_col; ++col) {
            const DetailTile* tile = tiles.at(row, col);
            const std::int64_t in_row = row % tiles.shape.tile_rows;
            const std::int64_t in_col = col % tiles.shape.tile_cols;
            const bool is_there = tile != nullptr && in_row < tile->rows() && in_col < tile->cols();
            values.push_back(is_there ? shown_value(*tile, quantity, in_row, in_col)
                                      : std::numeric_limits<float>::quiet_NaN());
        }
    }
    return values;
}

std::optional<std::vector<float>> values_in(App& app, const SheetPart& part, Quantity quantity, const Rect&) {
    const auto known = app.session.request_values(app.declared.generation, part.of);
    if (known == nullptr) return std::nullopt;
    std::vector<float> values;
    for (std::int64_t row = part.elements.first_row; row < part.elements.last_row; ++row)
        for (std::int64_t col = part.elements.first_col; col < part.elements.last_col; ++col)
            values.push_back(shown_value(known->at(part.sheet, row, col), quantity, known->dtype));
    return values;
}

/// Why the selection cannot be written; empty where it can.
std::string why_no_export(App& app) {
    if (app.shows_declared()) {
        const auto values =
            app.session.request_values(app.declared.generation, {app.declared.stage, app.view.against});
        return values == nullptr ? "" : values->refused;
    }
    const bool of_replay = quantity_info(app.view.quantity).against == Reference::replay;
    return of_replay ? why_no_replay(app, app.view.stage) : "";
}

void ask_for_panel(App& app, const std::string& panel) {
    std::string name = "tile-view-" + panel;
    std::ranges::replace(name, ' ', '-');
    app.pictures.push_back({*app.readout.find(panel), free_name("png", name)});
}

}  // namespace

std::string free_name(const std::string& extension, const std::string& name) {
    std::string file = fmt::format("{}.{}", name, extension);
    for (int i = 2; std::filesystem::exists(file); ++i) file = fmt::format("{}-{}.{}", name, i, extension);
    return file;
}

void export_panel(App& app) {
    const ImVec2 pointer = ImGui::GetIO().MousePos;
    const std::string panel = app.readout.panel_at(pointer.x, pointer.y);
    if (panel.empty()) {
        app.notice = "the pointer is over no panel; Shift+E writes all";
        return;
    }
    ask_for_panel(app, panel);
}

void export_panels(App& app) {
    for (const std::string& panel : app.readout.panels()) ask_for_panel(app, panel);
}

void write_panels(App& app, const Image& window, double scale) {
    std::string written;
    for (const PanelPicture& picture : std::exchange(app.pictures, {})) {
        try {
            write_png(picture.path, part_of(window, picture.box, scale));
            written += (written.empty() ? "wrote " : ", ") + picture.path;
        } catch (const std::exception& error) {
            app.notice = one_line(error.what());
            return;
        }
    }
    app.notice = written;
}

Image part_of(const Image& window, const Box& box, double scale) {
    const auto pixel = [&](double place, int count) {
        return std::clamp(int(std::lround(place * scale)), 0, count);
    };
    const int left = pixel(box.x, window.width);
    const int top = pixel(box.y, window.height);
    const int right = pixel(box.x + box.width, window.width);
    const int bottom = pixel(box.y + box.height, window.height);
    Image part(right - left, bottom - top);
    for (int y = top; y < bottom; ++y)
        std::copy_n(window.pixels.begin() + std::ptrdiff_t(y) * window.width + left, part.width,
                    part.pixels.begin() + std::ptrdiff_t(y - top) * part.width);
    return part;
}

void export_selection(App& app) {
    const Rect rect = selected_rect(app);
    const std::int64_t elements = (rect.last_row - rect.first_row) * (rect.last_col - rect.first_col);
    if (elements > most_elements) {
        app.notice = fmt::format("{} elements are selected; at most {} can be written, use tile-diff --npy",
                                 elements, most_elements);
        return;
    }
    const std::string why = why_no_export(app);
    if (!why.empty()) {
        app.notice = why;
        return;
    }
    app.npy = PendingExport{{}, shown_quantity(app), rect, free_name("npy")};
    if (app.shows_declared())
        app.npy->of = selected_part(app);
    else
        app.npy->of = plane_at(app.problem(), app.view.cursor, app.view.stage);
    app.notice = "waiting for the values of the selection";
}

void serve_exports(App& app) {
    if (!app.npy) return;
    const auto [of, quantity, rect, path] = *app.npy;
    const auto values =
        std::visit([&](const auto& place) { return values_in(app, place, quantity, rect); }, of);
    if (!values) return;
    try {
        OutputFile file(path);
        file.write(npy_of(*values, rect));
        file.commit();
        app.notice = fmt::format("wrote {} of rows {}-{}, columns {}-{} to {}", quantity_info(quantity).name,
                                 rect.first_row, rect.last_row - 1, rect.first_col, rect.last_col - 1, path);
    } catch (const std::exception& error) {
        app.notice = one_line(error.what());
    }
    app.npy.reset();
}

void toggle_fixed_range(App& app) {
    ScaleChoice& choice = app.settings.scales[std::size_t(app.view.quantity)];
    choice.automatic = !choice.automatic;
    if (choice.automatic) return;
    choice.low = app.shown_scale.low;
    choice.high = app.shown_scale.high;
}

}  // namespace tilescope::viewer
