#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "viewer/panels/plot.h"
#include "viewer/panels/words.h"
#include "viewer/state/causes_state.h"
#include "viewer/state/declared_words.h"
#include "viewer/state/selection.h"

namespace tilescope::viewer {

namespace {

struct TabDrawing {
    Tab tab;
    void (*draw)(App& app);
};
constexpr std::array<TabDrawing, tab_count> drawings = {{
    {Tab::row, draw_row},
    {Tab::drift, draw_drift},
    {Tab::histogram, draw_histogram},
    {Tab::budget, draw_budget},
    {Tab::causes, draw_causes},
    {Tab::source, draw_source},
    {Tab::history, draw_history_tab},
    {Tab::map, map_contents},
    {Tab::bad_rows, bad_rows_contents},
}};

enum class Drawn { band, line, magnitude };

/// What the row's points hold, as a plot.
Plot plot_of(const std::vector<TracePoint>& points, std::string label, Drawn drawn, bool pair) {
    Plot plot;
    plot.label = std::move(label);
    Curve expected{{}, {}, colours::dim, 1, pair ? "other" : "expected"};
    Curve dumped{{}, {}, colours::accent, 1.5F, "dumped"};
    const auto magnitude_of = [](double low, double high) { return std::max(std::abs(low), std::abs(high)); };
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    constexpr TracePoint nothing{
        .dumped_low = none, .dumped_high = none, .expected_low = none, .expected_high = none};
    for (const TracePoint& traced : points) {
        const TracePoint& point = traced.captured ? traced : nothing;
        if (drawn == Drawn::magnitude) {
            expected.low.push_back(magnitude_of(point.expected_low, point.expected_high));
            dumped.low.push_back(magnitude_of(point.dumped_low, point.dumped_high));
        } else if (drawn == Drawn::line) {
            expected.low.push_back(point.expected_high);
            dumped.low.push_back(point.dumped_high);
        } else {
            expected.low.push_back(point.expected_low);
            expected.high.push_back(point.expected_high);
            dumped.low.push_back(point.dumped_low);
            dumped.high.push_back(point.dumped_high);
        }
        constexpr KindFlags ordinary = flag_of(Kind::finite) | flag_of(Kind::masked) |
                                       flag_of(Kind::not_captured) | flag_of(Kind::indifferent);
        plot.marks.push_back((point.kinds & ~ordinary) != 0);
    }
    plot.curves = {std::move(expected), std::move(dumped)};
    return plot;
}

Plot over_budget_plot(const RowTrace& trace, const App& app, Stage stage) {
    Plot plot;
    plot.label = fmt::format("{}: difference / budget", stage_info(app.problem(), stage).name);
    if (is_named(stage) && !app.document->pair())
        plot.label = fmt::format("{}: no reference", stage_info(app.problem(), stage).name);
    plot.logarithmic = true;
    plot.reference = 1;
    plot.reference_name = "budget";
    Curve curve{{}, {}, colours::accent, 1.5F, "largest"};
    for (const TracePoint& point : trace.stage(stage)) {
        // Quotients by a budget of 0 are the largest float32: they have no place among the others.
        const bool placed = point.captured && point.over_budget < std::numeric_limits<float>::max();
        curve.low.push_back(placed ? point.over_budget : std::nan(""));
        plot.marks.push_back(point.captured && !placed);
    }
    plot.curves.push_back(std::move(curve));
    return plot;
}

void go_to_tile(App& app, std::int64_t tile) {
    if (tile < 0) return;
    Cursor cursor = app.view.cursor;
    cursor.key = tile * app.problem().block_n;
    go_to(app, app.view.stage, cursor, true);
}

/// A plot of a stage.
struct PlotLine {
    Stage stage;
    std::string label;
    Drawn drawn;
};

/// Those that were recorded, in order of computation.
std::vector<PlotLine> lines_of(const App& app, const RowTrace& trace) {
    std::vector<PlotLine> lines = {{Stage::s, "s, smallest to largest", Drawn::band},
                                   {Stage::m, "m", Drawn::line},
                                   {Stage::p, "p, smallest to largest", Drawn::band},
                                   {Stage::l, "l", Drawn::line},
                                   {Stage::acc, "|acc|, largest", Drawn::magnitude},
                                   {Stage::dp, "dp, smallest to largest", Drawn::band},
                                   {Stage::ds, "ds, smallest to largest", Drawn::band}};
    std::erase_if(lines, [&](const PlotLine& line) { return !app.has(line.stage); });
    for (const StageInfo& info : stages_of(app.problem())) {
        if (!is_named(info.stage) || trace.stage(info.stage).empty()) continue;
        const bool one = tile_shape(app.problem(), info.stage).cols == 1;
        lines.push_back({info.stage, std::string(info.name) + (one ? "" : ", smallest to largest"),
                         one ? Drawn::line : Drawn::band});
    }
    return lines;
}

/// The stage on screen and, nearest first, those that are computed before it; then the others.
void put_first_what_concerns(const App& app, std::vector<PlotLine>& lines) {
    const auto stages = stages_of(app.problem());
    const auto order = [&](Stage stage) {
        return std::ranges::find(stages, stage, &StageInfo::stage) - stages.begin();
    };
    const auto shown = order(app.view.stage);
    const auto others = std::ranges::stable_partition(
        lines, [&](const PlotLine& line) { return order(line.stage) <= shown; });
    std::ranges::sort(lines.begin(), others.begin(), std::ranges::greater(),
                      [&](const PlotLine& line) { return order(line.stage); });
}

/// Whether the tab of causes has any.
bool explains_something(const App& app) {
    return app.shows_declared() ? why_no_mistakes(app).empty() : chosen_cause(app) != nullptr;
}

}  // namespace

void draw_row(App& app) {
    const Cursor& cursor = app.view.cursor;
    const auto trace = app.session.request_row(cursor.batch, cursor.head, cursor.row);
    text(app, fmt::format("q row {} across the KV tiles", cursor.row), colours::dim);
    if (trace == nullptr) return text_waiting(app, "being judged");
    std::vector<PlotLine> lines = lines_of(app, *trace);
    if (lines.empty()) {
        const bool backward = app.problem().direction == Direction::backward;
        return text(app, fmt::format("none of {} was recorded", backward ? "s p dp ds" : "s m p l acc"),
                    colours::dim);
    }
    put_first_what_concerns(app, lines);
    // As many as can be read fill the panel, a low one with one that is lower; the wheel reaches the others.
    constexpr float most = 4;
    const float em = ImGui::GetFontSize();
    const float beside = plot_margin() + ImGui::GetStyle().ItemSpacing.y;
    const float room = ImGui::GetContentRegionAvail().y;
    const float shown =
        std::clamp(std::floor(room / (4 * em + beside)), 1.0F, std::min(most, float(lines.size() + 1)));
    const float height = std::max(2 * em, room / shown - beside);
    const std::int64_t tile = cursor.key / app.problem().block_n;
    std::int64_t clicked = -1;
    const auto draw = [&](Plot plot) {
        plot.cursor = tile;
        clicked = std::max(clicked, draw_plot(app, plot, height));
    };
    draw(over_budget_plot(*trace, app, lines.front().stage));
    for (const PlotLine& line : lines)
        draw(plot_of(trace->stage(line.stage), line.label, line.drawn, app.document->pair()));
    go_to_tile(app, clicked);
}

void draw_budget(App& app) {
    if (shown_document(app).pair())
        return text(app, "two recordings: the budget is the sum of what rounding may do to either",
                    colours::dim);
    const auto explanation = app.session.request_explanation(selected_element_text(app));
    if (explanation == nullptr) return text_waiting(app, "being explained");
    ImGui::BeginChild("explanation", {0, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
    text(app, *explanation);
    ImGui::EndChild();
}

void draw_tabs(App& app, const Box& box) {
    const PanelScope panel(app, "tabs", box);
    bool is_first = true;
    for (int i = 0; i < tab_count; ++i) {
        if (!is_shown(app, Tab(i))) continue;
        if (!is_first) ImGui::SameLine(0, 3);
        const std::string name(to_string(Tab(i)));
        const float width = ImGui::CalcTextSize(name.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x;
        if (!is_first && ImGui::GetCursorPosX() + width > box.width) ImGui::NewLine();
        is_first = false;
        const bool found = Tab(i) == Tab::causes && explains_something(app);
        if (choice(name.c_str(), app.view.tab == Tab(i), found ? colours::bad : colours::text))
            app.view.tab = Tab(i);
        explain(app, name);
    }
    ImGui::Spacing();
    // Each is scrolled by itself.
    ImGui::BeginChild(to_string(app.view.tab).data());
    drawings[std::size_t(app.view.tab)].draw(app);
    ImGui::EndChild();
}

}  // namespace tilescope::viewer
