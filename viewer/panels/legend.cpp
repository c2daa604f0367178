#include <array>
#include <cmath>

#include "viewer/panels/pane_frame.h"

namespace tilescope::viewer {

namespace {

constexpr int ticks = 5;
constexpr float swatch = 16;

/// The pattern of a kind, pixel by pixel as the picture has it.
void draw_swatch(ImDrawList& draw, ImVec2 at, Kind kind, int size) {
    for (int y = 0; y < size; ++y) {
        // Runs of one colour: most patterns have few.
        for (int x = 0; x < size;) {
            const Colour colour = colour_of(kind, x, y);
            int end = x + 1;
            while (end < size && colour_of(kind, end, y) == colour) ++end;
            draw.AddRectFilled(at + ImVec2(float(x), float(y)), at + ImVec2(float(end), float(y + 1)),
                               packed(colour));
            x = end;
        }
    }
}

void draw_scale(App& app, ImDrawList& draw, const Box& box, const ImageStyle& style) {
    const float em = ImGui::GetFontSize();
    const float bar = 0.9F * em;
    const Palette& palette_of_map = palette(style.colours);
    const float step = box.width / float(palette_of_map.size());
    for (std::size_t i = 0; i < palette_of_map.size(); ++i) {
        const float left = std::floor(box.x + step * float(i));
        const float right = std::floor(box.x + step * float(i + 1));
        draw.AddRectFilled({left, box.y}, {right, box.y + bar}, packed(palette_of_map[i]));
    }
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

void draw_legend(App& app, ImDrawList& draw, const Box& box, Quantity quantity, const ImageStyle& style) {
    const float em = ImGui::GetFontSize();
    const std::string name = fmt::format("{}, {}", quantity_info(quantity).name, to_string(style.scale.kind));
    text_at(app, draw, {box.x, box.y}, name, colours::text);
    const float scale_x = box.x + 22 * em * 0.62F;
    draw_scale(app, draw, {scale_x, box.y, box.x + box.width - scale_x, 0}, style);
    float x = box.x;
    const float y = box.y + 2.6F * em;
    for (const KindStyle& kind : all_kinds()) {
        if (kind.kind == Kind::finite) continue;
        const std::string label(kind.name);
        draw_swatch(draw, {std::round(x), std::round(y)}, kind.kind, int(swatch));
        text_at(app, draw, {x + swatch + 0.4F * em, y + (swatch - em) / 2}, label, colours::dim);
        x += swatch + 1.6F * em + ImGui::CalcTextSize(label.c_str()).x;
    }
}

}  // namespace tilescope::viewer
