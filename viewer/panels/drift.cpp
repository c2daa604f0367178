#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "oracle/heatmap/drift_rows.h"
#include "viewer/panels/plot.h"

namespace tilescope::viewer {

namespace {

struct Line {
    Stage stage;
    const char* name;
    const char* unit;
};
constexpr std::array<Line, DriftPicture::quantities> drift_lines = {{
    {Stage::m, "m", "absolute"},
    {Stage::l, "l", "relative"},
    {Stage::acc, "acc", "relative to the row's largest"},
}};

std::vector<double> of_row(const MatrixF& drift, std::int64_t row) {
    std::vector<double> values;
    if (row < drift.rows()) {
        for (Eigen::Index tile = 0; tile < drift.cols(); ++tile) values.push_back(drift(row, tile));
    }
    return values;
}

std::int64_t draw_line(App& app, const MatrixF& drift, const Line& line, float height) {
    Plot plot;
    plot.label = fmt::format("{}, {}", line.name, line.unit);
    plot.logarithmic = true;
    plot.cursor = app.view.cursor.key / app.problem().block_n;
    Curve curve{of_row(drift, app.view.cursor.row), {}, colours::accent, 1.5F, "from exact"};
    for (const double value : curve.low) plot.marks.push_back(std::isinf(value));
    plot.knee = knee_of(curve.low);
    plot.curves.push_back(std::move(curve));
    return draw_plot(app, plot, height);
}

/// The colours beside a heatmap, from the largest at the top to the smallest.
void draw_range_of(App& app, ImDrawList& draw, const ImageStyle& style, ImVec2 at, float height) {
    const float em = ImGui::GetFontSize();
    const float bar = 0.5F * em;
    const Palette& colours_of_map = palette(style.colours);
    const float step = height / float(colours_of_map.size());
    for (std::size_t i = 0; i < colours_of_map.size(); ++i) {
        const float bottom = at.y + height - step * float(i);
        draw.AddRectFilled({at.x - bar - 3, std::floor(bottom - step)}, {at.x - 3, std::ceil(bottom)},
                           packed(colours_of_map[i]));
    }
    const auto number = [&](double value, float y) {
        const std::string label = short_number(value);
        const float x = at.x - bar - 6 - ImGui::CalcTextSize(label.c_str()).x;
        text_at(app, draw, {x, y}, label, colours::dim);
    };
    number(style.scale.high, at.y);
    number(style.scale.low, at.y + height - em);
}

/// q rows by KV tiles, as a heatmap; a click goes there.
void draw_picture(App& app, const std::shared_ptr<const DriftRows>& drift, int quantity, float height) {
    const auto pyramid = app.drift.pyramid(drift, quantity);
    if (pyramid == nullptr) return;
    const float margin = 6.2F * ImGui::GetFontSize();
    const ImVec2 at = ImGui::GetCursorScreenPos() + ImVec2(margin, 0);
    const ImVec2 size{std::floor(ImGui::GetContentRegionAvail().x - margin), std::floor(height)};
    if (size.x < 8) return;
    ImGui::PushID(quantity);
    ImGui::InvisibleButton("drift", {ImGui::GetContentRegionAvail().x, size.y});
    ImGui::PopID();
    HeatmapPane& pane = app.drift.pane(quantity);
    const ImageStyle style{pane.fitted(pyramid, Quantity::relative, ScaleKind::log, 0),
                           ColourMap::sequential};
    const PlaneView view{0, 0, double(pyramid->rows()), double(pyramid->cols())};
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const TextureName texture = pane.texture({pyramid, {}, view, style, int(size.x), int(size.y)}, true);
    if (texture != 0) add_image(draw, texture, at, at + size);
    draw_range_of(app, draw, style, at, size.y);
    const float y = at.y + size.y * float((double(app.view.cursor.row) + 0.5) / view.rows);
    draw.AddRectFilled({at.x, y}, {at.x + size.x, y + 1}, colours::accent);
    const ImVec2 pointer = ImGui::GetIO().MousePos - at;
    if (!ImGui::IsItemHovered() || pointer.x < 0 || !ImGui::IsMouseClicked(0)) return;
    Cursor cursor = app.view.cursor;
    cursor.row = std::min<std::int64_t>(std::int64_t(pointer.y / size.y * view.rows), pyramid->rows() - 1);
    const auto tile =
        std::min<std::int64_t>(std::int64_t(pointer.x / size.x * view.cols), pyramid->cols() - 1);
    cursor.key = tile * app.problem().block_n;
    go_to(app, app.view.stage, cursor, true);
}

/// The stage on screen first: low windows have no room for all.
std::array<int, DriftPicture::quantities> drift_order(const App& app) {
    std::array<int, DriftPicture::quantities> order{};
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_partition(order,
                                  [&](int i) { return drift_lines[std::size_t(i)].stage == app.view.stage; });
    return order;
}

}  // namespace

void draw_drift(App& app) {
    if (app.document->pair())
        return text(app, "drift is measured against the oracle: open one recording", colours::dim);
    const Cursor& cursor = app.view.cursor;
    const auto drift = app.session.request_drift(cursor.batch, cursor.head);
    text(app, fmt::format("q row {} over the KV tiles; below all rows of the head", cursor.row),
         colours::dim);
    if (drift == nullptr) return text_waiting(app, "being judged");
    const float em = ImGui::GetFontSize();
    const float height =
        std::max(2.2F * em, (ImGui::GetContentRegionAvail().y - 2 * em) / float(2 * drift_lines.size()) -
                                (plot_margin() + ImGui::GetStyle().ItemSpacing.y) / 2);
    std::int64_t clicked = -1;
    for (const int i : drift_order(app)) {
        const MatrixF& values = drift_of(*drift, i);
        const bool any = values.size() > 0 && !values.array().isNaN().all();
        if (!any) {
            text(app, fmt::format("{} was not captured", drift_lines[std::size_t(i)].name), colours::dim);
            continue;
        }
        clicked =
            std::max(clicked, draw_line(app, values, drift_lines[std::size_t(i)], std::max(4 * em, height)));
        draw_picture(app, drift, i, height);
    }
    if (clicked < 0) return;
    Cursor moved = app.view.cursor;
    moved.key = clicked * app.problem().block_n;
    go_to(app, app.view.stage, moved, true);
}

}  // namespace tilescope::viewer
