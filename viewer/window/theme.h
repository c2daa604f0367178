#pragma once

#include <imgui.h>

namespace tilescope::viewer {

/// Colours that panels draw with, beside those of ImGui's style.
namespace colours {
inline constexpr ImU32 accent = IM_COL32(92, 200, 190, 255);
inline constexpr ImU32 accent_dim = IM_COL32(92, 200, 190, 110);
inline constexpr ImU32 text = IM_COL32(222, 225, 230, 255);
inline constexpr ImU32 dim = IM_COL32(140, 147, 158, 255);
inline constexpr ImU32 line = IM_COL32(58, 63, 73, 255);
inline constexpr ImU32 panel = IM_COL32(24, 27, 32, 255);
inline constexpr ImU32 gap = IM_COL32(0, 0, 0, 255);
inline constexpr ImU32 canvas = IM_COL32(14, 16, 19, 255);
inline constexpr ImU32 bad = IM_COL32(240, 140, 90, 255);
inline constexpr ImU32 inherited = IM_COL32(176, 150, 228, 255);
inline constexpr ImU32 absent = IM_COL32(92, 98, 109, 255);
inline constexpr ImU32 unjudged = IM_COL32(214, 190, 110, 255);
inline constexpr ImU32 good = IM_COL32(130, 190, 130, 255);
}  // namespace colours

/// Dark and calm, with one accent colour.
void set_theme(double scale);

/// A font of equal widths, from the first place that has one; otherwise ImGui's own, and false.
bool load_font(double scale);

}  // namespace tilescope::viewer
