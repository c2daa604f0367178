#include "viewer/panels/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilescope::viewer {

namespace {

struct Extent {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();

    void add(double value) {
        if (!std::isfinite(value)) return;
        low = std::min(low, value);
        high = std::max(high, value);
    }
};

/// Where values of a plot stand.
struct PlotFrame {
    ImVec2 at;
    ImVec2 size;
    Extent extent;
    std::size_t count = 1;
    bool logarithmic = false;

    double place(double value) const { return logarithmic ? std::log10(std::max(value, 1e-300)) : value; }
    float y(double value) const {
        const double share = (place(value) - extent.low) / (extent.high - extent.low);
        return at.y + size.y * float(1 - std::clamp(share, 0.0, 1.0));
    }
    float x(double index) const { return at.x + size.x * float((index + 0.5) / double(count)); }
};

Extent extent_of(const Plot& plot) {
    Extent extent;
    for (const Curve& curve : plot.curves) {
        for (const auto* values : {&curve.low, &curve.high}) {
            for (const double value : *values) {
                if (!plot.logarithmic) extent.add(value);
                if (plot.logarithmic && value > 0) extent.add(std::log10(value));
            }
        }
    }
    if (plot.reference != 0) extent.add(plot.logarithmic ? std::log10(plot.reference) : plot.reference);
    if (!(extent.low <= extent.high)) return {0, 1};
    // Values that differ by rounding stand at one height.
    constexpr double share_of_magnitude = 5e-3;
    constexpr double decades = 0.25;
    const double magnitude = std::max(std::abs(extent.low), std::abs(extent.high));
    const double least = plot.logarithmic ? decades : magnitude > 0 ? share_of_magnitude * magnitude : 1.0;
    const double margin = std::max(0.06 * (extent.high - extent.low), least);
    return {extent.low - margin, extent.high + margin};
}

/// The lowest and highest of what falls into each pixel column, so that no spike is lost.
void draw_curve(ImDrawList& draw, const PlotFrame& frame, const Curve& curve) {
    const std::size_t count = curve.low.size();
    const auto columns = std::size_t(std::max(1.0F, frame.size.x));
    const bool dense = count > 2 * columns;
    ImVec2 before{};
    bool has_before = false;
    for (std::size_t i = 0; i < (dense ? columns : count); ++i) {
        const std::size_t first = dense ? i * count / columns : i;
        const std::size_t last = dense ? std::max(first + 1, (i + 1) * count / columns) : i + 1;
        Extent extent;
        for (std::size_t k = first; k < last; ++k) {
            extent.add(curve.low[k]);
            if (!curve.high.empty()) extent.add(curve.high[k]);
        }
        if (!(extent.low <= extent.high)) {
            has_before = false;
            continue;
        }
        const float x = frame.x(double(first + last - 1) / 2);
        const ImVec2 low{x, frame.y(extent.low)};
        const ImVec2 high{x, frame.y(extent.high)};
        const float half = std::clamp(0.35F * frame.size.x / float(count), 0.75F, 7.0F);
        if (low.y - high.y > 1)
            draw.AddRectFilled({x - half, high.y}, {x + half, low.y},
                               (curve.colour & 0x00ffffffU) | 0x70000000U);
        if (has_before && curve.high.empty()) draw.AddLine(before, high, curve.colour, curve.width);
        if (!dense) draw.AddRectFilled(high - ImVec2(half, 1), {high.x + half, high.y + 1}, curve.colour);
        if (!dense && !curve.high.empty())
            draw.AddRectFilled(low - ImVec2(half, 1), {low.x + half, low.y + 1}, curve.colour);
        before = low;
        has_before = true;
    }
}

void draw_frame_of(App& app, ImDrawList& draw, const Plot& plot, const PlotFrame& frame) {
    draw.AddRectFilled(frame.at, frame.at + frame.size, colours::canvas);
    const auto number = [&](double value) {
        return short_number(plot.logarithmic ? std::pow(10, value) : value);
    };
    const float em = ImGui::GetFontSize();
    const std::string high = number(frame.extent.high);
    const std::string low = number(frame.extent.low);
    const float right = frame.at.x - 0.5F * em;
    text_at(app, draw, {right - ImGui::CalcTextSize(high.c_str()).x, frame.at.y}, high, colours::dim);
    text_at(app, draw, {right - ImGui::CalcTextSize(low.c_str()).x, frame.at.y + frame.size.y - em}, low,
            colours::dim);
    if (plot.reference != 0) {
        const float y = std::round(frame.y(plot.reference));
        draw.AddRectFilled({frame.at.x, y}, {frame.at.x + frame.size.x, y + 1}, colours::bad);
    }
    const auto vertical = [&](std::int64_t index, ImU32 colour) {
        const float x = std::round(frame.x(double(index)));
        draw.AddRectFilled({x, frame.at.y}, {x + 1, frame.at.y + frame.size.y}, colour);
    };
    if (plot.cursor >= 0) vertical(plot.cursor, colours::accent_dim);
    if (plot.knee < 0) return;
    vertical(plot.knee, colours::bad);
}

/// Where there is room beside the line, on a ground of its own: the curve runs there as well.
void name_knee(App& app, ImDrawList& draw, const Plot& plot, const PlotFrame& frame) {
    const std::string name = fmt::format("knee at {}", plot.knee);
    const ImVec2 room = ImGui::CalcTextSize(name.c_str()) + ImVec2(8, 2);
    const float line = frame.x(double(plot.knee));
    const float left = line + room.x < frame.at.x + frame.size.x ? line + 2 : line - room.x - 1;
    const float top = frame.at.y + frame.size.y - room.y;
    draw.AddRectFilled({left, top}, {left + room.x, top + room.y}, colours::canvas);
    text_at(app, draw, {left + 4, top + 1}, name, colours::bad);
}

/// Each line by its colour, right of the label, or in the plot's corner where it leaves no room.
void name_curves(App& app, ImDrawList& draw, const Plot& plot, const PlotFrame& frame, ImVec2 label_end) {
    const float em = ImGui::GetFontSize();
    struct Name {
        std::string text;
        ImU32 colour;
        float width;
    };
    std::vector<Name> names;
    float width = 0;
    const auto add = [&](const std::string& name, ImU32 colour) {
        if (name.empty()) return;
        names.push_back({name, colour, ImGui::CalcTextSize(name.c_str()).x + 2.1F * em});
        width += names.back().width;
    };
    for (const Curve& curve : plot.curves) add(curve.name, curve.colour);
    if (plot.reference != 0) add(plot.reference_name, colours::bad);
    ImVec2 at{frame.at.x + frame.size.x - width, label_end.y};
    if (at.x < label_end.x + em) {
        at.y = frame.at.y + 2;
        draw.AddRectFilled(at - ImVec2(2, 1), at + ImVec2(width, em + 1), colours::canvas);
    }
    for (const Name& name : names) {
        const float middle = std::round(at.y + 0.5F * em);
        draw.AddRectFilled({at.x + 0.6F * em, middle - 1}, {at.x + 1.6F * em, middle + 1}, name.colour);
        text_at(app, draw, {at.x + 2 * em, at.y}, name.text, colours::dim);
        at.x += name.width;
    }
}

/// Numbers of the KV tiles below the plot, as many as have room.
void number_tiles(App& app, ImDrawList& draw, const PlotFrame& frame) {
    const float letter = ImGui::CalcTextSize("0").x;
    const float room = letter * (float(std::to_string(frame.count - 1).size()) + 2);
    std::size_t step = 1;
    while (float(step) * frame.size.x / float(frame.count) < room) step *= 2;
    std::string line = "KV tile";
    for (std::size_t tile = 0; tile < frame.count; tile += step) {
        const std::string number = std::to_string(tile);
        line += " " + number;
        const float x = frame.x(double(tile)) - letter * float(number.size()) / 2;
        draw.AddText({std::round(x), frame.at.y + frame.size.y + 1}, colours::dim, number.c_str());
    }
    const std::string_view name = "KV tile";
    draw.AddText({frame.at.x - letter * (float(name.size()) + 1), frame.at.y + frame.size.y + 1},
                 colours::dim, name.data(), name.data() + name.size());
    app.readout.add(line);
}

}  // namespace

float plot_margin() {
    return 2 * ImGui::GetTextLineHeightWithSpacing() + ImGui::GetStyle().ItemSpacing.y;
}

std::int64_t draw_plot(App& app, const Plot& plot, float height) {
    const float em = ImGui::GetFontSize();
    const float margin = 6.2F * em;
    text(app, plot.label, colours::dim);
    const ImVec2 label_end{ImGui::GetItemRectMax().x, ImGui::GetItemRectMin().y};
    PlotFrame frame;
    frame.at = ImGui::GetCursorScreenPos() + ImVec2(margin, 0);
    frame.size = {std::max(8.0F, ImGui::GetContentRegionAvail().x - margin), height};
    frame.extent = extent_of(plot);
    frame.logarithmic = plot.logarithmic;
    for (const Curve& curve : plot.curves) frame.count = std::max(frame.count, curve.low.size());
    ImGui::PushID(plot.label.c_str());
    ImGui::InvisibleButton("plot", {ImGui::GetContentRegionAvail().x, height});
    ImGui::PopID();
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    draw_frame_of(app, draw, plot, frame);
    draw.PushClipRect(frame.at, frame.at + frame.size, true);
    for (const Curve& curve : plot.curves) draw_curve(draw, frame, curve);
    for (std::size_t i = 0; i < plot.marks.size(); ++i) {
        if (plot.marks[i] == 0) continue;
        const float x = frame.x(double(i));
        draw.AddTriangleFilled({x - 4, frame.at.y}, {x + 4, frame.at.y}, {x, frame.at.y + 7}, colours::bad);
    }
    if (plot.knee >= 0) name_knee(app, draw, plot, frame);
    draw.PopClipRect();
    name_curves(app, draw, plot, frame, label_end);
    number_tiles(app, draw, frame);
    const bool over = ImGui::IsItemHovered();
    ImGui::Dummy({0, ImGui::GetTextLineHeight()});
    if (!over) return -1;
    const double share = (ImGui::GetIO().MousePos.x - frame.at.x) / double(frame.size.x);
    const auto index = std::int64_t(std::floor(share * double(frame.count)));
    return ImGui::IsMouseClicked(0) && index >= 0 && index < std::int64_t(frame.count) ? index : -1;
}

void draw_bars(App& app, const Bars& bars, float height) {
    const float em = ImGui::GetFontSize();
    text(app, bars.label, colours::dim);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 size{ImGui::GetContentRegionAvail().x, height};
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    draw.AddRectFilled(at, at + size, colours::canvas);
    std::int64_t largest = 1;
    for (const std::int64_t count : bars.counts) largest = std::max(largest, count);
    for (const std::int64_t count : bars.behind) largest = std::max(largest, count);
    const float width = size.x / float(std::max<std::size_t>(1, bars.counts.size()));
    const auto top_of = [&](std::int64_t count) {
        return at.y + size.y * float(1 - std::log2(1 + double(count)) / std::log2(1 + double(largest)));
    };
    for (std::size_t i = 0; i < bars.counts.size(); ++i) {
        const float left = at.x + width * float(i);
        const float right = left + std::max(1.0F, width - (width > 3 ? 1.0F : 0.0F));
        if (bars.counts[i] > 0)
            draw.AddRectFilled({left, std::min(top_of(bars.counts[i]), at.y + size.y - 2)},
                               {right, at.y + size.y}, colours::accent);
        if (i < bars.behind.size() && bars.behind[i] > 0) {
            const float top = std::min(top_of(bars.behind[i]), at.y + size.y - 2);
            draw.AddRectFilled({left, top}, {right, top + 2}, colours::text);
        }
    }
    if (bars.mark >= 0) {
        const float x = at.x + width * float(bars.mark);
        draw.AddRectFilled({x, at.y}, {x + 1, at.y + size.y}, colours::bad);
        text_at(app, draw, {x + 4, at.y + 1}, bars.mark_name, colours::bad);
    }
    ImGui::Dummy(size);
    const ImVec2 below = ImGui::GetCursorScreenPos();
    text_at(app, draw, below - ImVec2(0, 4), bars.left, colours::dim);
    text_at(app, draw, {below.x + size.x - ImGui::CalcTextSize(bars.right.c_str()).x, below.y - 4},
            bars.right, colours::dim);
    ImGui::Dummy({0, em});
}

}  // namespace tilescope::viewer
