#include "viewer/state/export.h"

#include <fmt/format.h>

#include <imgui.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "oracle/heatmap/png.h"
#include "oracle/judge/report.h"
#include "oracle/report/output_file.h"
#include "viewer/state/app.h"
#include "viewer/state/causes_state.h"

namespace tilescope::viewer {

namespace {

/// 64 MiB of float32; more would have to be judged anew while it is written.
constexpr std::int64_t most_elements = std::int64_t(1) << 24;

float shown_value(const DetailTile& tile, Quantity quantity, std::int64_t row, std::int64_t col) {
    // Bits as they are in the dump, the pattern of unwritten elements too.
    if (quantity == Quantity::dumped) return tile.dumped(row, col);
    if (quantity_info(quantity).computed_as == Quantity::expected)
        return float(tile.element(row, col).expected);
    const ElementValue value = tile.value(quantity, row, col);
    switch (value.kind) {
        case Kind::plus_infinity:
            return std::numeric_limits<float>::infinity();
        case Kind::minus_infinity:
            return -std::numeric_limits<float>::infinity();
        case Kind::masked:
            return 0;
        case Kind::finite:
            return float(value.value);
        default:
            return std::numeric_limits<float>::quiet_NaN();
    }
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

std::string npy_of(const DetailTiles& tiles, const PendingExport& what) {
    static_assert(std::endian::native == std::endian::little);
    const std::int64_t rows = what.rect.last_row - what.rect.first_row;
    const std::int64_t cols = what.rect.last_col - what.rect.first_col;
    std::vector<float> values(std::size_t(rows * cols), std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t row = what.rect.first_row; row < what.rect.last_row; ++row) {
        for (std::int64_t col = what.rect.first_col; col < what.rect.last_col; ++col) {
            const DetailTile* tile = tiles.at(row, col);
            const std::int64_t in_row = row % tiles.shape.tile_rows;
            const std::int64_t in_col = col % tiles.shape.tile_cols;
            if (tile == nullptr || in_row >= tile->rows() || in_col >= tile->cols()) continue;
            values[std::size_t((row - what.rect.first_row) * cols + col - what.rect.first_col)] =
                shown_value(*tile, what.quantity, in_row, in_col);
        }
    }
    std::string text = npy_header(rows, cols);
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return text;
}

/// Whether every captured tile of the rectangle is there.
bool is_whole(const App& app, const DetailTiles& tiles, const PendingExport& what) {
    for (std::int64_t down = 0; down < tiles.down; ++down) {
        for (std::int64_t across = 0; across < tiles.across; ++across) {
            if (tiles.tiles[std::size_t(down * tiles.across + across)] != nullptr) continue;
            const PlaceInTile place =
                place_in_tile(app.problem(), what.plane, (tiles.first_down + down) * tiles.shape.tile_rows,
                              (tiles.first_across + across) * tiles.shape.tile_cols);
            if (app.document->recording->has_tile(what.plane.stage, place.tile)) return false;
        }
    }
    return true;
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
    const Plane plane = plane_at(app.problem(), app.view.cursor, app.view.stage);
    const Rect rect = selected_rect(app);
    const std::int64_t elements = (rect.last_row - rect.first_row) * (rect.last_col - rect.first_col);
    if (elements > most_elements) {
        app.notice = fmt::format("{} elements are selected; at most {} can be written, use tile-diff --npy",
                                 elements, most_elements);
        return;
    }
    const std::string why =
        quantity_info(app.view.quantity).against == Reference::replay ? why_no_replay(app, plane.stage) : "";
    if (!why.empty()) {
        app.notice = why;
        return;
    }
    app.npy = PendingExport{plane, against(app.view.against, app.view.quantity), rect, free_name("npy")};
    app.notice = "waiting for the values of the selection";
}

void serve_exports(App& app) {
    if (!app.npy) return;
    const DetailTiles tiles = app.session.request_detail(app.npy->plane, app.npy->quantity, app.npy->rect);
    if (!is_whole(app, tiles, *app.npy)) return;
    try {
        OutputFile file(app.npy->path);
        file.write(npy_of(tiles, *app.npy));
        file.commit();
        app.notice =
            fmt::format("wrote {} of rows {}-{}, columns {}-{} to {}", quantity_info(app.npy->quantity).name,
                        app.npy->rect.first_row, app.npy->rect.last_row - 1, app.npy->rect.first_col,
                        app.npy->rect.last_col - 1, app.npy->path);
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
