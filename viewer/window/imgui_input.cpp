#include "viewer/window/imgui_input.h"

#include <GLFW/glfw3.h>
#include <imgui.h>

#include <algorithm>
#include <array>

namespace tilescope::viewer {

#if IMGUI_VERSION_NUM < 18900

namespace {

bool is_down(int left, int right) {
    const ImGuiIO& io = ImGui::GetIO();
    return io.KeysDown[left] || io.KeysDown[right];
}

}  // namespace

void tell_key(int key, bool down) {
    ImGuiIO& io = ImGui::GetIO();
    if (key < 0 || key >= int(std::size(io.KeysDown))) return;
    io.KeysDown[key] = down;
    io.KeyCtrl = is_down(GLFW_KEY_LEFT_CONTROL, GLFW_KEY_RIGHT_CONTROL);
    io.KeyShift = is_down(GLFW_KEY_LEFT_SHIFT, GLFW_KEY_RIGHT_SHIFT);
    io.KeyAlt = is_down(GLFW_KEY_LEFT_ALT, GLFW_KEY_RIGHT_ALT);
    io.KeySuper = is_down(GLFW_KEY_LEFT_SUPER, GLFW_KEY_RIGHT_SUPER);
}

void tell_pointer(double x, double y) {
    ImGui::GetIO().MousePos = {float(x), float(y)};
}
void tell_button(int button, bool down) {
    ImGui::GetIO().MouseDown[button] = down;
}
void tell_wheel(double x, double y) {
    ImGui::GetIO().MouseWheelH += float(x);
    ImGui::GetIO().MouseWheel += float(y);
}
void take_input_as_told() {}

bool key_pressed(int key, bool repeats) {
    return ImGui::IsKeyPressed(key, repeats);
}
bool key_held(int key) {
    return ImGui::IsKeyDown(key);
}

#else

namespace {

struct KeyNumbers {
    int glfw;
    ImGuiKey imgui;
    ImGuiKey modifier = ImGuiKey_None;  ///< that it stands for
};
constexpr std::array keys = {
    KeyNumbers{GLFW_KEY_SPACE, ImGuiKey_Space},
    KeyNumbers{GLFW_KEY_TAB, ImGuiKey_Tab},
    KeyNumbers{GLFW_KEY_ENTER, ImGuiKey_Enter},
    KeyNumbers{GLFW_KEY_ESCAPE, ImGuiKey_Escape},
    KeyNumbers{GLFW_KEY_BACKSPACE, ImGuiKey_Backspace},
    KeyNumbers{GLFW_KEY_DELETE, ImGuiKey_Delete},
    KeyNumbers{GLFW_KEY_INSERT, ImGuiKey_Insert},
    KeyNumbers{GLFW_KEY_LEFT, ImGuiKey_LeftArrow},
    KeyNumbers{GLFW_KEY_RIGHT, ImGuiKey_RightArrow},
    KeyNumbers{GLFW_KEY_UP, ImGuiKey_UpArrow},
    KeyNumbers{GLFW_KEY_DOWN, ImGuiKey_DownArrow},
    KeyNumbers{GLFW_KEY_HOME, ImGuiKey_Home},
    KeyNumbers{GLFW_KEY_END, ImGuiKey_End},
    KeyNumbers{GLFW_KEY_PAGE_UP, ImGuiKey_PageUp},
    KeyNumbers{GLFW_KEY_PAGE_DOWN, ImGuiKey_PageDown},
    KeyNumbers{GLFW_KEY_LEFT_CONTROL, ImGuiKey_LeftCtrl, ImGuiMod_Ctrl},
    KeyNumbers{GLFW_KEY_RIGHT_CONTROL, ImGuiKey_RightCtrl, ImGuiMod_Ctrl},
    KeyNumbers{GLFW_KEY_LEFT_SHIFT, ImGuiKey_LeftShift, ImGuiMod_Shift},
    KeyNumbers{GLFW_KEY_RIGHT_SHIFT, ImGuiKey_RightShift, ImGuiMod_Shift},
    KeyNumbers{GLFW_KEY_LEFT_ALT, ImGuiKey_LeftAlt, ImGuiMod_Alt},
    KeyNumbers{GLFW_KEY_RIGHT_ALT, ImGuiKey_RightAlt, ImGuiMod_Alt},
    KeyNumbers{GLFW_KEY_LEFT_SUPER, ImGuiKey_LeftSuper, ImGuiMod_Super},
    KeyNumbers{GLFW_KEY_RIGHT_SUPER, ImGuiKey_RightSuper, ImGuiMod_Super},
};

struct KeyRun {
    int first;
    int last;
    ImGuiKey imgui;  ///< of the first
};
constexpr std::array runs = {
    KeyRun{GLFW_KEY_A, GLFW_KEY_Z, ImGuiKey_A},
    KeyRun{GLFW_KEY_0, GLFW_KEY_9, ImGuiKey_0},
    KeyRun{GLFW_KEY_F1, GLFW_KEY_F12, ImGuiKey_F1},
};

KeyNumbers numbers_of(int key) {
    for (const KeyRun& run : runs) {
        if (key >= run.first && key <= run.last) return {key, ImGuiKey(int(run.imgui) + key - run.first)};
    }
    const auto* found = std::ranges::find(keys, key, &KeyNumbers::glfw);
    return found == keys.end() ? KeyNumbers{key, ImGuiKey_None} : *found;
}

}  // namespace

void tell_key(int key, bool down) {
    const KeyNumbers numbers = numbers_of(key);
    if (numbers.imgui == ImGuiKey_None) return;
    ImGuiIO& io = ImGui::GetIO();
    if (numbers.modifier != ImGuiKey_None) io.AddKeyEvent(numbers.modifier, down);
    io.AddKeyEvent(numbers.imgui, down);
}

void tell_pointer(double x, double y) {
    ImGui::GetIO().AddMousePosEvent(float(x), float(y));
}
void tell_button(int button, bool down) {
    ImGui::GetIO().AddMouseButtonEvent(button, down);
}
void tell_wheel(double x, double y) {
    ImGui::GetIO().AddMouseWheelEvent(float(x), float(y));
}
void take_input_as_told() {
    ImGui::GetIO().ConfigInputTrickleEventQueue = false;
}

bool key_pressed(int key, bool repeats) {
    const ImGuiKey number = numbers_of(key).imgui;
    return number != ImGuiKey_None && ImGui::IsKeyPressed(number, repeats);
}
bool key_held(int key) {
    const ImGuiKey number = numbers_of(key).imgui;
    return number != ImGuiKey_None && ImGui::IsKeyDown(number);
}

#endif

}  // namespace tilescope::viewer
