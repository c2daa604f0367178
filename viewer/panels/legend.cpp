#include <array>
#include <cmath>
#include <optional>

#include "viewer/panels/pane_frame.h"
#include "viewer/panels/words.h"

namespace tilescope::viewer {

namespace {

constexpr ImU32 conflict_ground = IM_COL32(60, 40, 20, 255);

/// What is named below the scale.
struct Entry {
    std::string name;
    std::string label;
    std::optional<Kind> kind;  ///< nullopt: the cross of conflicts
};

/// Where it stands, from the legend's corner.
struct Placed {
    Entry entry;
    ImVec2 at;
};

struct LegendPlan {
    ImVec2 scale;  ///< its left end
    float scale_width = 0;
    std::vector<Placed> entries;
    float lines_at = 0;           ///< height of the text about lines and threads
    std::vector<ImVec2> numbers;  ///< where the warps, lanes or registers are named
    float height = 0;
};

float swatch_size() {
    return std::round(1.15F * ImGui::GetFontSize());
}

std::string text_of_lines(const App& app) {
    if (!app.settings.warp_lines) return {};
    const std::string_view stage = stage_info(app.problem(), app.view.stage).name;
    switch (thread_lines(app, app.view.stage)) {
        case ThreadLines::declared:
            return fmt::format(
                "blue lines: thick between warps, thin between lanes, as the recording declares the "
                "threads of {}",
                stage);
        case ThreadLines::too_small:
            return fmt::format("zoom in to see the warps and lanes of {}", stage);
        default:
            break;
    }
    return fmt::format(
        "blue lines: a grid, as no threads of {} are declared: a warp every {} rows, a lane every {} "
        "columns (Shift+W, Ctrl+W)",
        stage, app.settings.warp_rows, app.settings.lane_columns);
}

/// What the tint says: "coloured by the lanes that own the elements of s; lit: lane 5 of warp 0".
std::string text_of_tint(const App& app) {
    if (!wants_tint(app)) return {};
    const Stage stage = app.view.stage;
    const std::string_view name = stage_info(app.problem(), stage).name;
    switch (thread_lines(app, stage)) {
        case ThreadLines::too_small:
            return fmt::format("zoom in to see the threads of {}", name);
        case ThreadLines::grid:
            return fmt::format("no threads of {} are declared: none are shown (S, Shift+S)", name);
        default:
            break;
    }
    std::string text;
    if (app.view.coloured_by != ThreadGroup::none)
        text = fmt::format("coloured by the {} that own the elements of {}", to_string(app.view.coloured_by),
                           name);
    if (app.view.alone == ThreadGroup::none) return text;
    const Owner owner = owner_at_cursor(app, *threads_of(app, stage), stage);
    return fmt::format("{}{}lit: {}", text, text.empty() ? "" : "; ", name_of_group(app.view.alone, owner));
}

/// Of the lines and of the tint, a line each.
std::string text_of_threads(const App& app) {
    if (app.shows_declared()) return "";
    const std::string lines = text_of_lines(app);
    const std::string tint = text_of_tint(app);
    return lines + (lines.empty() || tint.empty() ? "" : "\n") + tint;
}

/// Colours that are named; 0 where none are shown.
int named_numbers(const App& app) {
    constexpr int most = 64;
    const bool coloured = app.view.coloured_by != ThreadGroup::none &&
                          thread_lines(app, app.view.stage) == ThreadLines::declared;
    return coloured ? std::min(most, numbers_in(app.view.coloured_by, *threads_of(app, app.view.stage))) : 0;
}

/// A box with a number in it.
ImVec2 number_box() {
    return {std::round(1.7F * ImGui::GetFontSize()), std::round(1.25F * ImGui::GetFontSize())};
}

void draw_numbers_of_threads(ImDrawList& draw, ImVec2 corner, const std::vector<ImVec2>& places) {
    for (std::size_t i = 0; i < places.size(); ++i) {
        const ImVec2 at = corner + places[i];
        Colour colour = colour_of_number(int(i));
        colour.a = 255;
        draw.AddRectFilled(at, at + number_box(), packed(colour));
        const std::string number = fmt::format("{}", i);
        const ImVec2 room = ImGui::CalcTextSize(number.c_str());
        draw.AddText({std::round(at.x + (number_box().x - room.x) / 2),
                      std::round(at.y + (number_box().y - room.y) / 2)},
                     2 * colour.r + 3 * colour.g > 300 ? IM_COL32_BLACK : IM_COL32_WHITE, number.c_str());
    }
}

/// How many elements of the stage have the mark, where the report counts them.
struct Counted {
    Kind kind;
    std::int64_t StageTally::*count;
};
constexpr std::array counted = {
    Counted{Kind::nan, &StageTally::nan},
    Counted{Kind::unwritten, &StageTally::unwritten},
    Counted{Kind::inherited, &StageTally::inherited},
    Counted{Kind::not_judged, &StageTally::not_judged},
};

std::string label_of_kind(const App& app, const KindStyle& style) {
    const auto found = std::ranges::find(counted, style.kind, &Counted::kind);
    if (found == counted.end() || app.document->report == nullptr) return std::string(style.name);
    const std::int64_t count = app.document->report->stage(app.view.stage).tally.*found->count;
    return count > 0 ? fmt::format("{} {}", style.name, count) : std::string(style.name);
}

/// What has a mark in the picture of a declared stage.
std::vector<Entry> declared_entries(KindFlags shown) {
    std::vector<Entry> entries;
    for (const KindStyle& style : all_kinds()) {
        if (style.kind == Kind::finite || (shown & flag_of(style.kind)) == 0) continue;
        const std::string name(style.kind == Kind::masked         ? "left out"
                               : style.kind == Kind::not_captured ? "not stored"
                                                                  : style.name);
        entries.push_back({name, name, style.kind});
    }
    return entries;
}

std::vector<Entry> entries_of(const App& app, KindFlags shown) {
    if (app.shows_declared()) return declared_entries(shown);
    std::vector<Entry> entries;
    const MarksSeen seen = app.document->map_of(app.view.against).seen(app.view.stage);
    for (const KindStyle& style : all_kinds()) {
        const bool occurs = ((seen.kinds | shown) & flag_of(style.kind)) != 0;
        if (style.kind != Kind::finite && occurs)
            entries.push_back({std::string(style.name), label_of_kind(app, style), style.kind});
    }
    if (seen.conflicting) entries.push_back({"conflicting", "conflicting (map)", std::nullopt});
    return entries;
}

/// As many lines as the width asks for: nothing of it may be cut off.
LegendPlan plan_of(const App& app, float width, KindFlags shown, const std::string& name) {
    const float em = ImGui::GetFontSize();
    const float swatch = swatch_size();
    LegendPlan plan;
    const bool beside = width > 36 * em;
    const float named = std::max(13.6F * em, ImGui::CalcTextSize(name.c_str()).x + em);
    plan.scale = beside ? ImVec2(named, 0) : ImVec2(0, 1.4F * em);
    plan.scale_width = width - plan.scale.x;
    ImVec2 at{0, plan.scale.y + 2.6F * em};
    const auto place = [&](Entry entry) {
        const float needed = swatch + 0.4F * em + ImGui::CalcTextSize(entry.label.c_str()).x;
        if (at.x > 0 && at.x + needed > width) at = {0, at.y + swatch + 0.4F * em};
        plan.entries.push_back({std::move(entry), at});
        at.x += needed + 1.2F * em;
    };
    for (Entry& entry : entries_of(app, shown)) place(std::move(entry));
    plan.height = plan.entries.empty() ? plan.scale.y + 2.2F * em : at.y + swatch;
    plan.lines_at = plan.height + 0.4F * em;
    const std::string lines = text_of_threads(app);
    if (lines.empty()) return plan;
    plan.height = plan.lines_at + ImGui::CalcTextSize(lines.c_str(), nullptr, false, width).y;
    const ImVec2 box = number_box();
    const int in_line = std::max(1, int(width / box.x));
    for (int i = 0; i < named_numbers(app); ++i)
        plan.numbers.emplace_back(float(i % in_line) * box.x,
                                  plan.height + 0.3F * em + float(i / in_line) * box.y);
    if (!plan.numbers.empty()) plan.height = plan.numbers.back().y + box.y;
    return plan;
}

void draw_scale(App& app, ImDrawList& draw, const Box& box, const ImageStyle& style) {
    const float em = ImGui::GetFontSize();
    const float bar = 0.9F * em;
    draw_colours(draw, {box.x, box.y, box.width, bar}, style.colours);
    // Numbers of up to 10 letters, with room between them.
    const int ticks = box.width > 36 * em ? 5 : box.width > 20 * em ? 3 : 2;
    for (int i = 0; i < ticks; ++i) {
        const double share = double(i) / (ticks - 1);
        const std::string number = short_number(style.scale.value_at(share));
        const float width = ImGui::CalcTextSize(number.c_str()).x;
        const float x = box.x + float(share) * box.width;
        draw.AddRectFilled({x, box.y + bar}, {x + 1, box.y + bar + 4}, colours::dim);
        text_at(app, draw, {x - width * float(share), box.y + bar + 5}, number, colours::dim);
    }
}

}  // namespace

void draw_swatch(ImDrawList& draw, ImVec2 at, Kind kind, int size, int mark_pixels) {
    const auto colour_at = [&](int x, int y) { return colour_of(kind, x / mark_pixels, y / mark_pixels); };
    for (int y = 0; y < size; ++y) {
        // Runs of one colour: most patterns have few.
        for (int x = 0; x < size;) {
            const Colour colour = colour_at(x, y);
            int end = x + 1;
            while (end < size && colour_at(end, y) == colour) ++end;
            draw.AddRectFilled(at + ImVec2(float(x), float(y)), at + ImVec2(float(end), float(y + 1)),
                               packed(colour));
            x = end;
        }
    }
    draw.AddRect(at - ImVec2(1, 1), at + ImVec2(float(size + 1), float(size + 1)), colours::dim);
}

void draw_colours(ImDrawList& draw, const Box& box, ColourMap map) {
    const Palette& colours = palette(map);
    const float step = box.width / float(colours.size());
    for (std::size_t i = 0; i < colours.size(); ++i) {
        const float left = std::floor(box.x + step * float(i));
        const float right = std::floor(box.x + step * float(i + 1));
        draw.AddRectFilled({left, box.y}, {right, box.y + box.height}, packed(colours[i]));
    }
}

void draw_cross(ImDrawList& draw, const Box& box) {
    const ImVec2 at{box.x, box.y};
    const ImVec2 end{box.x + box.width, box.y + box.height};
    for (const auto& [colour, thickness] :
         {std::pair(conflict_ground, 5.0F), std::pair(colours::bad, 2.0F)}) {
        draw.AddLine(at, end, colour, thickness);
        draw.AddLine({at.x, end.y}, {end.x, at.y}, colour, thickness);
    }
}

float legend_height(const App& app, float width, KindFlags shown) {
    return plan_of(app, width, shown, "").height;
}

void draw_legend(App& app, ImDrawList& draw, const Box& box, KindFlags shown, Quantity quantity,
                 const ImageStyle& style) {
    const float em = ImGui::GetFontSize();
    const float swatch = swatch_size();
    const ScaleChoice& choice = app.settings.scales[std::size_t(quantity)];
    std::string name = fmt::format("{}, {}", quantity_info(quantity).name, to_string(style.scale.kind));
    if (!choice.automatic) name += ", fixed";
    const LegendPlan plan = plan_of(app, box.width, shown, name);
    text_at(app, draw, {box.x, box.y}, name, colours::text);
    draw_scale(app, draw, {box.x + plan.scale.x, box.y + plan.scale.y, plan.scale_width, 0}, style);
    for (const Placed& placed : plan.entries) {
        const ImVec2 at{std::round(box.x + placed.at.x), std::round(box.y + placed.at.y)};
        app.readout.place("swatch " + placed.entry.name, {at.x, at.y, swatch, swatch});
        if (placed.entry.kind) {
            draw_swatch(draw, at, *placed.entry.kind, int(swatch), style.mark_pixels);
        } else {
            draw_cross(draw, {at.x + 2, at.y + 2, swatch - 4, swatch - 4});
        }
        text_at(app, draw, {at.x + swatch + 0.4F * em, at.y + (swatch - em) / 2}, placed.entry.label,
                colours::dim);
        const float width = swatch + 0.4F * em + ImGui::CalcTextSize(placed.entry.label.c_str()).x;
        explain(app, placed.entry.name, {at.x, at.y, width, swatch});
    }
    const std::string lines = text_of_threads(app);
    if (lines.empty()) return;
    draw_numbers_of_threads(draw, {box.x, box.y}, plan.numbers);
    app.readout.add(lines);
    draw.AddText(nullptr, 0, {box.x, box.y + plan.lines_at}, colours::dim, lines.c_str(), nullptr, box.width);
}

}  // namespace tilescope::viewer
