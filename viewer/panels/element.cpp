#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "dump/schema/dtype.h"
#include "viewer/panels/pane_frame.h"
#include "viewer/panels/words.h"

namespace tilescope::viewer {

namespace {

/// The element that is described: the one under the pointer, otherwise that of the cursor.
struct Shown {
    Plane plane;
    PlanePoint point;
    bool pointed = false;
};

Shown shown_element(const App& app) {
    Shown shown;
    shown.pointed = app.hovered.has_value() && app.pointer_leads;
    const Stage stage = shown.pointed ? app.hovered_stage : app.view.stage;
    shown.plane = plane_at(app.problem(), app.view.cursor, stage);
    shown.point = shown.pointed ? PlanePoint{app.hovered->first, app.hovered->second}
                                : point_at(app.problem(), app.view.cursor, stage);
    return shown;
}

std::string bits_of(Dtype dtype, float value) {
    std::string bits = fmt::format("0x{:08x}", std::bit_cast<std::uint32_t>(value));
    if (dtype == Dtype::f32 || std::isnan(value)) return bits;
    const std::uint32_t narrow = encode(dtype, value);
    if (decode(dtype, narrow) == value)
        bits += fmt::format("   {} 0x{:0{}x}", dtype_info(dtype).name, narrow, 2 * dtype_info(dtype).bytes);
    return bits;
}

std::string value_text(const DetailTile& tile, Quantity quantity, std::int64_t row, std::int64_t col) {
    return text_of_value(tile.value(quantity, row, col), quantity);
}

/// The tile of the element. The newest request of a plane is the one that is worked on, so that what a
/// heatmap waits for comes first.
DetailTiles details_of(App& app, const Plane& plane, PlanePoint point, Quantity quantity) {
    const Reference against = quantity_info(quantity).against;
    for (const DetailTiles& shown : app.shown_details) {
        if (shown.plane != plane || shown.tiles.empty()) continue;
        if (quantity_info(shown.quantity).against != against) continue;
        if (shown.at(point.row, point.col) != nullptr || std::ranges::count(shown.tiles, nullptr) > 0)
            return shown;
    }
    return app.session.request_detail(plane, quantity, {point.row, point.col, point.row + 1, point.col + 1});
}

/// How an element fares, in the words of a report.
struct FindingStyle {
    Finding finding;
    std::string_view word;
    ImU32 colour;
};
constexpr std::array finding_styles = {
    FindingStyle{Finding::match, "match", colours::text},
    FindingStyle{Finding::indifferent, "nothing can be expected", colours::text},
    FindingStyle{Finding::not_judged, "not judged: the tolerance tells nothing", colours::dim},
    FindingStyle{Finding::outside, "outside", colours::bad},
    FindingStyle{Finding::nan, "nan", colours::bad},
    FindingStyle{Finding::infinite, "inf", colours::bad},
    FindingStyle{Finding::unwritten, "unwritten", colours::bad},
    FindingStyle{Finding::conflicting, "conflicting", colours::bad},
};
constexpr FindingStyle inherited_style = {Finding::match, "inherited", colours::inherited};

const FindingStyle& style_of(const DetailTile& tile, std::int64_t row, std::int64_t col) {
    if (tile.inherits(row, col)) return inherited_style;
    return *std::ranges::find(finding_styles, tile.element(row, col).finding, &FindingStyle::finding);
}

/// What should be there, and what it may differ by.
std::string expected_text(const Element& element) {
    if (is_unwritten(float(element.expected))) return "unwritten";
    return fmt::format("{} +- {:.3g}", digits_of(element.expected), element.tolerance);
}

void describe(App& app, const DetailTile& tile, std::int64_t row, std::int64_t col) {
    const Element element = tile.element(row, col);
    const float dumped = tile.dumped(row, col);
    const FindingStyle& style = style_of(tile, row, col);
    value_line(app, "finding", std::string(style.word), style.colour);
    value_line(
        app, "dumped",
        std::bit_cast<std::uint32_t>(dumped) == unwritten_bits ? "no thread wrote it" : digits_of(dumped));
    if (!tile.has_reference()) {
        value_line(app, "expected", "no reference", colours::dim);
        return value_line(app, "bits", bits_of(tile.dtype(), dumped));
    }
    const char* const expected = app.document->pair()                        ? "other file"
                                 : app.view.against == Reference::end_to_end ? "end to end"
                                                                             : "expected";
    value_line(app, expected, expected_text(element));
    if (tile.inherits(row, col)) {
        value_line(app, "end to end", expected_text(tile.end_to_end(row, col)), colours::inherited);
    }
    value_line(app, "difference", value_text(tile, Quantity::difference, row, col));
    value_line(app, "over budget", value_text(tile, Quantity::over_budget, row, col), style.colour);
    const bool counted = tile.value(Quantity::ulps, row, col).kind == Kind::finite;
    value_line(app, "ulps",
               value_text(tile, Quantity::ulps, row, col) +
                   (counted ? fmt::format(" of {}", dtype_info(tile.dtype()).name) : ""));
    value_line(app, quantity_info(Quantity::relative).name, value_text(tile, Quantity::relative, row, col));
    value_line(app, "bits", bits_of(tile.dtype(), dumped));
}

/// What a kernel with the chosen cause holds there.
void describe_replay(App& app, const Shown& shown) {
    const auto [plane, point, pointed] = shown;
    const DetailTiles tiles = details_of(app, plane, point, Quantity::replayed);
    if (tiles.tiles.empty()) return;
    const DetailTile* tile = tiles.at(point.row, point.col);
    if (tile == nullptr) {
        app.waits = true;
        return value_line(app, "replayed", "being replayed", colours::dim);
    }
    const Element element =
        tile->element(point.row % tiles.shape.tile_rows, point.col % tiles.shape.tile_cols);
    value_line(app, "replayed", expected_text(element),
               is_divergence(element.finding) ? colours::bad : colours::good);
}

void describe_writer(App& app, const Shown& shown) {
    const Problem& problem = app.problem();
    const PlaceInTile place = place_in_tile(problem, shown.plane, shown.point.row, shown.point.col);
    const auto writers = app.session.request_writers(shown.plane.stage, place.tile);
    if (writers == nullptr) return;
    const std::int64_t cols = tile_shape(problem, shown.plane.stage).cols;
    ImGui::PushTextWrapPos(0);
    text(app, to_string((*writers)[static_cast<std::size_t>(place.row * cols + place.col)]));
    ImGui::PopTextWrapPos();
}

/// "lane 5 of warp 0: 12 of 16 wrong in its tile", of the group that the heatmap shows, or else of the thread.
void describe_threads(App& app, const Shown& shown, const DetailTile& tile) {
    const Problem& problem = app.problem();
    const std::optional<ThreadMap> threads = threads_of(app, shown.plane.stage);
    if (!threads) return;
    const PlaceInTile place = place_in_tile(problem, shown.plane, shown.point.row, shown.point.col);
    const Owner owner = threads->owner(place.tile, place.row, place.col);
    const ThreadGroup group = app.view.alone != ThreadGroup::none         ? app.view.alone
                              : app.view.coloured_by != ThreadGroup::none ? app.view.coloured_by
                                                                          : ThreadGroup::thread;
    std::int64_t all = 0;
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < tile.rows(); ++row) {
        for (std::int64_t col = 0; col < tile.cols(); ++col) {
            if (!in_same_group(group, threads->owner(place.tile, row, col), owner)) continue;
            ++all;
            wrong += is_divergence(tile.element(row, col).finding);
        }
    }
    ImGui::PushTextWrapPos(0);
    text(app, fmt::format("{}: {} of {} wrong in its tile", name_of_group(group, owner), wrong, all),
         wrong > 0 ? colours::bad : colours::dim);
    ImGui::PopTextWrapPos();
}

}  // namespace

void value_line(App& app, std::string_view name, const std::string& value, ImU32 colour) {
    const float column = 9.5F * ImGui::GetFontSize();
    text(app, std::string(name), colours::dim);
    explain(app, name);
    ImGui::SameLine(column);
    text(app, value, colour);
}

void draw_element(App& app, const Box& box) {
    const PanelScope panel(app, "element", box);
    const Shown shown = shown_element(app);
    const Problem& problem = app.problem();
    const ElementPlace place = element_at(problem, shown.plane, shown.point.row, shown.point.col);
    title(app, shown.pointed ? "Element under the pointer" : "Element");
    const std::string coordinates = coordinates_of(problem, place);
    const std::string where = fmt::format("{} of {}", coordinates,
                                          place_of(problem, app.document->recording->threads(), place.stage,
                                                   {.tile = place.tile, .row = place.row, .col = place.col}));
    const bool low = box.height < 16 * ImGui::GetFontSize();
    if (low) ImGui::SameLine();
    ImGui::PushTextWrapPos(0);
    text(app, low ? coordinates : where);
    ImGui::PopTextWrapPos();
    if (low && ImGui::IsItemHovered()) tooltip(app, where);
    ImGui::Spacing();
    const Quantity quantity =
        app.document->pair() ? Quantity::expected : against(app.view.against, Quantity::expected);
    const DetailTiles tiles = details_of(app, shown.plane, shown.point, quantity);
    const DetailTile* tile = tiles.tiles.empty() ? nullptr : tiles.at(shown.point.row, shown.point.col);
    if (tile == nullptr) {
        const PlaceInTile in_tile = place_in_tile(problem, shown.plane, shown.point.row, shown.point.col);
        return text(app, why_not_judged(app, shown.plane.stage, in_tile.tile), colours::dim);
    }
    const std::int64_t row = shown.point.row % tiles.shape.tile_rows;
    const std::int64_t col = shown.point.col % tiles.shape.tile_cols;
    if (row >= tile->rows() || col >= tile->cols())
        return text(app, "beyond the lengths of this batch entry", colours::dim);
    describe(app, *tile, row, col);
    describe_replay(app, shown);
    describe_threads(app, shown, *tile);
    describe_writer(app, shown);
}

}  // namespace tilescope::viewer
