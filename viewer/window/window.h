#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "oracle/heatmap/heatmap_image.h"
#include "viewer/window/input.h"

struct GLFWwindow;
struct ImDrawList;
struct ImVec2;

namespace tilescope::viewer {

/// As OpenGL has it; 0 for none.
using TextureName = unsigned;

/// Pixels on the graphics card. Lives no longer than the window.
class Texture {
 public:
    Texture() = default;
    ~Texture();
    Texture(const Texture&) = delete;
    Texture& operator=(const Texture&) = delete;
    void upload(const Image& image);
    TextureName name() const { return name_; }  ///< none before the first upload

 private:
    TextureName name_ = 0;
    int width_ = 0;
    int height_ = 0;
};

struct WindowOptions {
    int width = 1600;
    int height = 1000;
    std::string title = "tile-view";
    double scale = 0;       ///< size of text and spacing; 0: what the display asks for
    bool scripted = false;  ///< nobody watches: draw as fast as asked, and take input only from feed()
};

void add_image(ImDrawList& draw, TextureName texture, const ImVec2& at, const ImVec2& end);
/// Of a texture of which all pixels are opaque: a software renderer blends at several times the cost.
void add_opaque_image(ImDrawList& draw, TextureName texture, const ImVec2& at, const ImVec2& end);

/// From any thread: ends the window's wait for input.
void wake_window();

/// The one place that knows GLFW, OpenGL and ImGui's backends. One window a process.
class Window {
 public:
    /// Errors: Error when there is no display to open a window on, or no OpenGL 3.3.
    explicit Window(const WindowOptions& options);
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    bool closing() const;
    void close();
    /// Waits for input, at most so many seconds; 0 does not wait for it. In any case until `frame` seconds after the frame
    /// before: a display shows no more, and what is open is read and judged in the time between.
    void wait_for_input(double seconds, double frame);
    /// Takes what a person or script did and begins the frame. Of key and button transitions at most one goes
    /// into a frame, so that none is missed.
    void begin_frame();
    /// Makes the lists of what is to be drawn: all that a frame takes but its pixels.
    void lay_out();
    /// Draws them. `capture`, where given, receives the frame's pixels.
    void end_frame(Image* capture = nullptr);
    /// Ends a frame that nobody looks at.
    void drop_frame();

    /// The way of every event: the callbacks call it, and so do scripts.
    void feed(InputEvent event);
    /// Of a scripted window: takes what a person does from now on, too.
    void listen();
    /// Characters of this frame, for commands.
    const std::vector<TypedCharacter>& typed() const { return typed_; }
    /// Whether the pointer moved before this frame.
    bool pointer_moved() const { return pointer_moved_; }
    bool has_input() const { return !events_.empty(); }
    std::vector<std::string> take_dropped();
    /// Does nothing where it is called that already.
    void set_title(const std::string& title);
    void resize(int width, int height);
    int width() const;
    int height() const;
    double scale() const { return scale_; }
    bool has_font() const { return has_font_; }

 private:
    void open(const WindowOptions& options);
    void start_imgui();
    void sample_nearest();
    void apply(const InputEvent& event);
    void apply_character(const InputEvent& event);
    friend struct WindowCallbacks;

    GLFWwindow* window_ = nullptr;
    double scale_ = 1;
    bool scripted_ = false;
    bool has_font_ = false;
    std::deque<InputEvent> events_;
    std::vector<TypedCharacter> typed_;
    std::map<int, int> held_;  ///< what keys meant when they went down, by their place
    int letter_ = 0;           ///< that went down last, where no field took it
    bool repeating_ = false;   ///< the key that went down last is held
    bool placed_ = false;      ///< it is known where the pointer is
    bool pointer_moved_ = false;
    std::vector<std::string> dropped_;
    std::string title_;
    double begun_ = 0;  ///< when the last frame began
    double cursor_x_ = -1;
    double cursor_y_ = -1;
    bool buttons_[3] = {};
};

}  // namespace tilescope::viewer
