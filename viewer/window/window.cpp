#include "viewer/window/window.h"

#include <GL/gl.h>
#include <GL/glext.h>
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "dump/schema/error.h"
#include "viewer/window/imgui_input.h"
#include "viewer/window/theme.h"

namespace tilescope::viewer {

namespace {

std::string glfw_complaint() {
    const char* text = nullptr;
    return glfwGetError(&text) == GLFW_NO_ERROR || text == nullptr ? "no reason given" : text;
}

Window& window_of(GLFWwindow* window) {
    return *static_cast<Window*>(glfwGetWindowUserPointer(window));
}

/// What the user's layout types with the key alone, in UTF-8.
std::string_view typed_with(int key, int scancode) {
    const char* name = glfwGetKeyName(key, scancode);
    return name == nullptr ? std::string_view() : name;
}

bool types_latin_letters() {
    for (int key = GLFW_KEY_A; key <= GLFW_KEY_Z; ++key) {
        const std::string_view name = typed_with(key, glfwGetKeyScancode(key));
        if (name.size() == 1 && name[0] >= 'a' && name[0] <= 'z') return true;
    }
    return false;
}

}  // namespace

/// What GLFW calls.
struct WindowCallbacks {
    static void on_key(GLFWwindow* of, int place, int scancode, int action, int modifiers) {
        if (place < 0) return;
        Window& window = window_of(of);
        window.repeating_ = action == GLFW_REPEAT;
        if (action == GLFW_RELEASE) {
            const auto held = window.held_.find(place);
            if (held == window.held_.end()) return;
            window.feed({.type = InputEvent::Type::key, .code = held->second, .down = false, .path = {}});
            window.held_.erase(held);
            return;
        }
        const PhysicalKey key{place, typed_with(place, scancode), types_latin_letters(),
                              (modifiers & GLFW_MOD_NUM_LOCK) != 0};
        const auto character = character_of(key, (modifiers & GLFW_MOD_SHIFT) != 0);
        if (character && (modifiers & (GLFW_MOD_CONTROL | GLFW_MOD_ALT)) == 0)
            window.feed({.type = InputEvent::Type::character,
                         .code = *character,
                         .repeated = window.repeating_,
                         .is_text = false,
                         .path = {}});
        // ImGui repeats held keys itself.
        const std::optional<int> meant = key_of(key);
        if (action == GLFW_REPEAT || !meant) return;
        window.held_[place] = *meant;
        window.feed({.type = InputEvent::Type::key, .code = *meant, .down = true, .path = {}});
    }

    static void on_character(GLFWwindow* of, unsigned code_point) {
        Window& window = window_of(of);
        window.feed({.type = InputEvent::Type::character,
                     .code = int(code_point),
                     .repeated = window.repeating_,
                     .path = {}});
    }

    /// The first call says where the pointer rests when the window opens under it.
    static void on_cursor(GLFWwindow* of, double x, double y) {
        Window& window = window_of(of);
        if (std::exchange(window.placed_, true)) {
            window.feed({.type = InputEvent::Type::cursor, .x = x, .y = y, .path = {}});
        } else {
            window.cursor_x_ = x;
            window.cursor_y_ = y;
        }
    }
};

namespace {

void on_button(GLFWwindow* window, int button, int action, int) {
    window_of(window).feed(
        {.type = InputEvent::Type::button, .code = button, .down = action == GLFW_PRESS, .path = {}});
}

void on_scroll(GLFWwindow* window, double x, double y) {
    window_of(window).feed({.type = InputEvent::Type::scroll, .x = x, .y = y, .path = {}});
}

void on_drop(GLFWwindow* window, int count, const char** paths) {
    for (int i = 0; i < count; ++i)
        window_of(window).feed({.type = InputEvent::Type::drop, .path = paths[i]});
}

}  // namespace

Texture::~Texture() {
    if (name_ != 0 && glfwGetCurrentContext() != nullptr) glDeleteTextures(1, &name_);
}

void Texture::upload(const Image& image) {
    if (image.width <= 0 || image.height <= 0) return;
    if (name_ == 0) glGenTextures(1, &name_);
    glBindTexture(GL_TEXTURE_2D, name_);
    if (width_ != image.width || height_ != image.height) {
        width_ = image.width;
        height_ = image.height;
        // A pixel of the image is a pixel of the window: nothing is to be blended.
        glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
        glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
        glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width_, height_, 0, GL_RGBA, GL_UNSIGNED_BYTE,
                     image.pixels.data());
    } else {
        glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, width_, height_, GL_RGBA, GL_UNSIGNED_BYTE,
                        image.pixels.data());
    }
}

void add_opaque_image(ImDrawList& draw, TextureName texture, const ImVec2& at, const ImVec2& end) {
    draw.AddCallback([](const ImDrawList*, const ImDrawCmd*) { glDisable(GL_BLEND); }, nullptr);
    add_image(draw, texture, at, end);
    draw.AddCallback([](const ImDrawList*, const ImDrawCmd*) { glEnable(GL_BLEND); }, nullptr);
}

void add_image(ImDrawList& draw, TextureName texture, const ImVec2& at, const ImVec2& end) {
    draw.AddImage(ImTextureID(std::uintptr_t(texture)), at, end);
}

void wake_window() {
    glfwPostEmptyEvent();
}

Window::Window(const WindowOptions& options) : scripted_(options.scripted) {
    glfwSetErrorCallback(nullptr);
#ifdef GLFW_PLATFORM
    // GLFW 3.4 would look for one of Wayland first, which complains on stderr where there is none.
    if (std::getenv("WAYLAND_DISPLAY") == nullptr) glfwInitHint(GLFW_PLATFORM, GLFW_PLATFORM_X11);
#endif
    if (glfwInit() == GLFW_FALSE) {
        throw Error("no display to open a window on: " + glfw_complaint(), "display",
                    "log in with a desktop or ssh -X, or render without one: xvfb-run tile-view run.h5 "
                    "--screenshot out.png");
    }
    open(options);
    start_imgui();
}

Window::~Window() {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
    glfwDestroyWindow(window_);
    glfwTerminate();
}

void Window::open(const WindowOptions& options) {
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    window_ = glfwCreateWindow(options.width, options.height, options.title.c_str(), nullptr, nullptr);
    if (window_ == nullptr) {
        const std::string why = glfw_complaint();
        glfwTerminate();
        throw Error("OpenGL 3.3 is not to be had: " + why, "display",
                    "install Mesa's software renderer, libgl1-mesa-dri");
    }
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(options.scripted ? 0 : 1);
    glfwSetWindowUserPointer(window_, this);
    glfwSetDropCallback(window_, on_drop);
    // A script must not depend on where the real pointer is.
    if (!options.scripted) listen();

    float x_scale = 1;
    float y_scale = 1;
    glfwGetWindowContentScale(window_, &x_scale, &y_scale);
    int framebuffer_width = 0;
    glfwGetFramebufferSize(window_, &framebuffer_width, nullptr);
    // Where the window's units are not pixels the system scales already.
    const double system = framebuffer_width > 0 ? double(framebuffer_width) / std::max(1, width()) : 1;
    const double asked = options.scale > 0 ? options.scale : x_scale / system;
    scale_ = std::clamp(asked, 0.5, 4.0);
}

void Window::listen() {
    glfwSetInputMode(window_, GLFW_LOCK_KEY_MODS, GLFW_TRUE);
    glfwSetKeyCallback(window_, WindowCallbacks::on_key);
    glfwSetCharCallback(window_, WindowCallbacks::on_character);
    glfwSetCursorPosCallback(window_, WindowCallbacks::on_cursor);
    glfwSetMouseButtonCallback(window_, on_button);
    glfwSetScrollCallback(window_, on_scroll);
}

void Window::start_imgui() {
    IMGUI_CHECKVERSION();
    ImGui::CreateContext();
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.ConfigWindowsMoveFromTitleBarOnly = true;
    take_input_as_told();
    has_font_ = load_font(scale_);
    set_theme(scale_);
    ImGui_ImplGlfw_InitForOpenGL(window_, false);
    ImGui_ImplOpenGL3_Init("#version 330 core");
    sample_nearest();
}

/// Everything is drawn from the font's texture, plain areas too: to blend its pixels would take a software
/// renderer most of a frame, and changes nothing where letters lie on whole pixels.
void Window::sample_nearest() {
    // The small font that is there without any file is enlarged.
    if (ImGui::GetIO().FontGlobalScale != 1) return;
    ImFontAtlas& fonts = *ImGui::GetIO().Fonts;
    for (ImFontConfig& font : fonts.ConfigData) {
        font.OversampleH = 1;
        font.PixelSnapH = true;
    }
    // Thick lines that are blended from the texture would be ragged.
    ImGui::GetStyle().AntiAliasedLinesUseTex = false;
    ImGui_ImplOpenGL3_CreateDeviceObjects();
    glBindTexture(GL_TEXTURE_2D, GLuint(std::uintptr_t(fonts.TexID)));
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
}

bool Window::closing() const {
    return glfwWindowShouldClose(window_) != 0;
}
void Window::close() {
    glfwSetWindowShouldClose(window_, GLFW_TRUE);
}

int Window::width() const {
    int width = 0;
    glfwGetWindowSize(window_, &width, nullptr);
    return width;
}

int Window::height() const {
    int height = 0;
    glfwGetWindowSize(window_, nullptr, &height);
    return height;
}

void Window::resize(int width, int height) {
    glfwSetWindowSize(window_, width, height);
    glfwPollEvents();
}

void Window::wait_for_input(double seconds, double frame) {
    for (double left = begun_ + frame - glfwGetTime(); left > 0; left = begun_ + frame - glfwGetTime())
        glfwWaitEventsTimeout(left);
    if (seconds > 0 && events_.empty()) {
        glfwWaitEventsTimeout(seconds);
    } else {
        glfwPollEvents();
    }
}

void Window::feed(InputEvent event) {
    events_.push_back(std::move(event));
}

std::vector<std::string> Window::take_dropped() {
    return std::exchange(dropped_, {});
}

void Window::apply(const InputEvent& event) {
    ImGuiIO& io = ImGui::GetIO();
    switch (event.type) {
        case InputEvent::Type::key:
            tell_key(event.code, event.down);
            if (event.down) letter_ = io.WantTextInput ? 0 : event.code;
            break;
        case InputEvent::Type::character:
            apply_character(event);
            break;
        case InputEvent::Type::cursor:
            placed_ = true;
            pointer_moved_ = pointer_moved_ || event.x != cursor_x_ || event.y != cursor_y_;
            cursor_x_ = event.x;
            cursor_y_ = event.y;
            break;
        case InputEvent::Type::button:
            if (event.code >= 0 && event.code < 3) buttons_[event.code] = event.down;
            break;
        case InputEvent::Type::scroll:
            tell_wheel(event.x, event.y);
            break;
        case InputEvent::Type::drop:
            dropped_.push_back(event.path);
            break;
    }
}

void Window::apply_character(const InputEvent& event) {
    ImGuiIO& io = ImGui::GetIO();
    if (!io.WantTextInput && !io.KeyCtrl) typed_.push_back({event.code, event.repeated});
    // The letter of a command may come late, when that has opened a field.
    const bool of_command = letter_ != 0 && event.code < 128 && std::toupper(event.code) == letter_;
    letter_ = 0;
    if (event.is_text && !of_command) io.AddInputCharacter(unsigned(event.code));
}

void Window::begin_frame() {
    typed_.clear();
    pointer_moved_ = false;
    begun_ = glfwGetTime();
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
    bool moved = false;
    for (bool transition = false; !events_.empty();) {
        const InputEvent::Type type = events_.front().type;
        // What a key types goes with it.
        if (transition && (type != InputEvent::Type::character || !typed_.empty())) break;
        // A drag that ends where it is let go has to be seen there with the button held.
        if (type == InputEvent::Type::button && moved) break;
        apply(events_.front());
        events_.pop_front();
        moved = moved || type == InputEvent::Type::cursor;
        transition = transition || !typed_.empty() || type == InputEvent::Type::key ||
                     type == InputEvent::Type::button;
    }
    // The backend asks the display where the pointer is; scripts move it without the display.
    tell_pointer(cursor_x_, cursor_y_);
    for (int button = 0; button < int(std::size(buttons_)); ++button) tell_button(button, buttons_[button]);
    ImGui::NewFrame();
}

void Window::lay_out() {
    ImGui::Render();
}

void Window::end_frame(Image* capture) {
    int framebuffer_width = 0;
    int framebuffer_height = 0;
    glfwGetFramebufferSize(window_, &framebuffer_width, &framebuffer_height);
    glViewport(0, 0, framebuffer_width, framebuffer_height);
    const ImVec4& background = ImGui::GetStyle().Colors[ImGuiCol_WindowBg];
    glClearColor(background.x, background.y, background.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    if (capture != nullptr) {
        *capture = Image(framebuffer_width, framebuffer_height);
        glReadPixels(0, 0, framebuffer_width, framebuffer_height, GL_RGBA, GL_UNSIGNED_BYTE,
                     capture->pixels.data());
        // OpenGL begins at the bottom, and blending leaves the window's alpha below 1.
        for (int y = 0; y < framebuffer_height / 2; ++y) {
            const auto row = capture->pixels.begin() + std::ptrdiff_t(y) * framebuffer_width;
            const auto other =
                capture->pixels.begin() + std::ptrdiff_t(framebuffer_height - 1 - y) * framebuffer_width;
            std::swap_ranges(row, row + framebuffer_width, other);
        }
        for (std::uint32_t& pixel : capture->pixels) pixel |= 0xff000000u;
    }
    glfwSwapBuffers(window_);
    // The display answers when it has taken the pixels: the next frame does not wait for those of this one.
    width();
}

void Window::set_title(const std::string& title) {
    if (title == title_) return;
    title_ = title;
    glfwSetWindowTitle(window_, title.c_str());
}

void Window::drop_frame() {
    ImGui::EndFrame();
}

}  // namespace tilescope::viewer
