#include "viewer/window/theme.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>

namespace tilescope::viewer {

namespace {

constexpr float font_size = 14;

/// Where distributions put fonts of equal widths.
constexpr std::array font_files = {
    "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf",
    "/usr/share/fonts/dejavu-sans-mono-fonts/DejaVuSansMono.ttf",
    "/usr/share/fonts/TTF/DejaVuSansMono.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationMono-Regular.ttf",
};

struct StyleColour {
    ImGuiCol which;
    ImU32 colour;
};

constexpr std::array style_colours = {
    StyleColour{ImGuiCol_Text, colours::text},
    StyleColour{ImGuiCol_TextDisabled, colours::dim},
    StyleColour{ImGuiCol_WindowBg, colours::panel},
    StyleColour{ImGuiCol_ChildBg, IM_COL32(0, 0, 0, 0)},
    StyleColour{ImGuiCol_PopupBg, IM_COL32(30, 33, 39, 255)},
    StyleColour{ImGuiCol_Border, colours::line},
    StyleColour{ImGuiCol_FrameBg, IM_COL32(38, 42, 50, 255)},
    StyleColour{ImGuiCol_FrameBgHovered, IM_COL32(50, 55, 65, 255)},
    StyleColour{ImGuiCol_FrameBgActive, IM_COL32(60, 66, 78, 255)},
    StyleColour{ImGuiCol_TitleBg, colours::panel},
    StyleColour{ImGuiCol_TitleBgActive, colours::panel},
    StyleColour{ImGuiCol_Button, IM_COL32(38, 42, 50, 255)},
    StyleColour{ImGuiCol_ButtonHovered, IM_COL32(54, 60, 71, 255)},
    StyleColour{ImGuiCol_ButtonActive, IM_COL32(66, 73, 86, 255)},
    StyleColour{ImGuiCol_Header, IM_COL32(92, 200, 190, 60)},
    StyleColour{ImGuiCol_HeaderHovered, IM_COL32(92, 200, 190, 40)},
    StyleColour{ImGuiCol_HeaderActive, IM_COL32(92, 200, 190, 80)},
    StyleColour{ImGuiCol_Separator, colours::line},
    StyleColour{ImGuiCol_CheckMark, colours::accent},
    StyleColour{ImGuiCol_SliderGrab, colours::accent},
    StyleColour{ImGuiCol_SliderGrabActive, colours::accent},
    StyleColour{ImGuiCol_Tab, colours::panel},
    StyleColour{ImGuiCol_TabHovered, IM_COL32(54, 60, 71, 255)},
    StyleColour{ImGuiCol_TabActive, IM_COL32(44, 49, 58, 255)},
    StyleColour{ImGuiCol_TabUnfocused, colours::panel},
    StyleColour{ImGuiCol_TabUnfocusedActive, IM_COL32(44, 49, 58, 255)},
    StyleColour{ImGuiCol_PlotHistogram, colours::accent},
    StyleColour{ImGuiCol_ScrollbarBg, IM_COL32(0, 0, 0, 0)},
    StyleColour{ImGuiCol_ScrollbarGrab, colours::line},
    StyleColour{ImGuiCol_TableHeaderBg, IM_COL32(33, 37, 44, 255)},
    StyleColour{ImGuiCol_TableBorderLight, IM_COL32(40, 44, 52, 255)},
    StyleColour{ImGuiCol_TableRowBgAlt, IM_COL32(255, 255, 255, 6)},
    StyleColour{ImGuiCol_ModalWindowDimBg, IM_COL32(0, 0, 0, 150)},
};

}  // namespace

void set_theme(double scale) {
    ImGuiStyle& style = ImGui::GetStyle();
    style = ImGuiStyle();
    ImGui::StyleColorsDark();
    for (const StyleColour& entry : style_colours)
        style.Colors[entry.which] = ImGui::ColorConvertU32ToFloat4(entry.colour);
    style.WindowPadding = {12, 10};
    style.FramePadding = {8, 4};
    style.ItemSpacing = {8, 6};
    style.CellPadding = {6, 3};
    style.WindowRounding = 0;
    style.WindowBorderSize = 0;
    style.FrameRounding = 3;
    style.PopupRounding = 4;
    style.GrabRounding = 3;
    style.ScrollbarSize = 12;
    style.TabRounding = 3;
    style.ScaleAllSizes(float(scale));
}

bool load_font(double scale) {
    ImFontAtlas& fonts = *ImGui::GetIO().Fonts;
    const float size = std::round(font_size * float(scale));
    for (const char* path : font_files) {
        std::error_code ignored;
        if (!std::filesystem::is_regular_file(path, ignored)) continue;
        if (fonts.AddFontFromFileTTF(path, size) != nullptr) return true;
    }
    fonts.AddFontDefault();
    ImGui::GetIO().FontGlobalScale = float(scale);
    return false;
}

}  // namespace tilescope::viewer
