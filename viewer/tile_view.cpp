#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dump/cli/command_line.h"
#include "dump/cli/program.h"
#include "dump/file/identity.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"
#include "oracle/heatmap/png.h"
#include "oracle/judge/report.h"
#include "oracle/report/output_file.h"
#include "viewer/panels/panel.h"
#include "viewer/state/app.h"
#include "viewer/state/commands.h"
#include "viewer/state/export.h"
#include "viewer/state/script.h"
#include "viewer/window/frame_times.h"
#include "viewer/window/window.h"

namespace tilescope::viewer {
namespace {

volatile std::sig_atomic_t asked_to_end = 0;

void on_signal(int) {
    asked_to_end = 1;
}

enum ExitCode { exit_fine = 0, exit_failed = 2 };

struct Arguments {
    std::vector<std::string> recordings;
    std::string go_to;
    std::string script;
    std::string screenshot;
    std::string settings;
    std::string timing;
    std::string watch;
    std::string source;
    std::optional<std::string> size;
    double scale = 0;
    int threads = 0;
    bool no_causes = false;

    /// Nobody watches: no settings of a person are read or written.
    bool scripted() const { return !script.empty() || !screenshot.empty(); }
};

/// CLI::Range lets NaN pass.
const CLI::Validator text_scale(
    [](std::string& text) {
        double value = 0;
        const bool fine = CLI::detail::lexical_cast(text, value) && value >= 0 && value <= 4;
        return fine ? std::string() : text + " is no number from 0 to 4";
    },
    "");

void declare(CLI::App& app, Arguments& arguments) {
    app.description(
        "Shows a recording of a kernel at the first element that diverges from the oracle.\n"
        "Two recordings are shown against each other, and a folder with those of a call on several ranks as "
        "a map of\n"
        "ranks and steps. Press ? in the window for the keys.\n"
        "Without a display: xvfb-run tile-view run.h5 --screenshot out.png\n"
        "Exit code: 0, or 2 with one line on stderr.");
    app.add_option("recordings", arguments.recordings,
                   "run.h5, a.h5 b.h5, or a folder with the recordings of several ranks")
        ->expected(0, 2);
    app.add_option(
           "--goto", arguments.go_to,
           "begin at this element, as --explain-tolerance of tile-diff has it; of a declared kernel at "
           "STAGE:INDEX,...[,BLOCK], of a folder at RANK,STEP or RANK,end")
        ->type_name("STAGE:BATCH,HEAD,ROW,COL[,KV_TILE]");
    app.add_option("--watch", arguments.watch,
                   "show each new recording in DIR as it appears; Ctrl+PageUp shows the ones before")
        ->type_name("DIR")
        ->excludes("recordings");
    app.add_option("--source", arguments.source,
                   "the project's folder, whose files the hooks name; without it those that hold the "
                   "recording or this one")
        ->type_name("DIR")
        ->check(CLI::ExistingDirectory);
    app.add_option("--script", arguments.script, "play the events in FILE, one a line, and end")
        ->type_name("FILE");
    app.add_option("--screenshot", arguments.screenshot, "write the window as PNG and end")
        ->type_name("FILE");
    app.add_option("--size", arguments.size, "size of the window")->type_name("WIDTHxHEIGHT");
    app.add_option("--scale", arguments.scale,
                   "size of text, 1 for that of an ordinary display; 0: as the display says")
        ->check(text_scale)
        ->capture_default_str();
    app.add_option("--threads", arguments.threads, "threads that judge, 0 for one a core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    app.add_flag("--no-causes", arguments.no_causes, "leave the search for causes out, which takes seconds");
    app.add_option("--settings", arguments.settings,
                   "file with the settings, in place of the one in ~/.config")
        ->type_name("FILE");
    app.add_option("--timing", arguments.timing, "write how long frames took to FILE, as JSON")
        ->type_name("FILE");
}

void read_size(const std::string& text, WindowOptions& options) {
    int width = 0;
    int height = 0;
    int used = 0;
    const bool fine = std::sscanf(text.c_str(), "%5dx%5d%n", &width, &height, &used) == 2 &&
                      std::size_t(used) == text.size() && width >= 640 && height >= 400;
    if (!fine)
        throw Error(text + " is no size of a window", "--size", "write it as 1600x1000, from 640x400 on");
    options.width = width;
    options.height = height;
}

WindowOptions window_options(const Arguments& arguments, const Settings& settings) {
    WindowOptions options;
    options.width = settings.width;
    options.height = settings.height;
    options.scale = arguments.scale;
    options.scripted = arguments.scripted();
    if (arguments.size) read_size(*arguments.size, options);
    return options;
}

/// Script of --screenshot without a script.
std::vector<ScriptStep> steps_of(const Arguments& arguments) {
    std::vector<ScriptStep> steps;
    if (!arguments.script.empty()) steps = read_script(arguments.script);
    if (arguments.screenshot.empty()) return steps;
    steps.push_back({.line = 0, .command = "wait", .arguments = {}, .rest = {}, .numbers = {}});
    steps.push_back({.line = 0,
                     .command = "screenshot",
                     .arguments = {arguments.screenshot},
                     .rest = arguments.screenshot,
                     .numbers = {}});
    return steps;
}

/// The window, what it shows, and what drives it.
class Program {
 public:
    Program(const Arguments& arguments, FrameTimes::Clock::time_point start)
        : arguments_(arguments),
          settings_file_(!arguments.settings.empty() ? arguments.settings
                         : arguments.scripted()      ? std::string()
                                                     : settings_path()),
          settings_(load_settings(settings_file_)),
          window_(window_options(arguments, settings_)),
          app_({.compare = {}, .search_causes = !arguments.no_causes, .threads = arguments.threads},
               settings_),
          times_(start) {
        std::vector<std::string> inputs = arguments.recordings;
        inputs.push_back(arguments.script);
        spare_inputs(inputs, std::vector{arguments.timing, arguments.screenshot, settings_file_});
        if (arguments.scripted()) player_.emplace(arguments.script, steps_of(arguments));
        if (!arguments.go_to.empty() && arguments.recordings.empty())
            throw Error("no recording to go to a place of", "--goto " + arguments.go_to, "name one as well");
        app_.goto_text = arguments.go_to;
        app_.watch.folder = arguments.watch;
        app_.source.folder = arguments.source;
        look_for_recordings(app_, 0);
        open_paths(app_, arguments.recordings);
    }

    ExitCode run() {
        std::signal(SIGINT, on_signal);
        std::signal(SIGTERM, on_signal);
        while (asked_to_end == 0 && !window_.closing() && !app_.quit && app_.goto_refused.empty() &&
               !(player_ && player_->done())) {
            wait();
            frame();
        }
        app_.settings.width = window_.width();
        app_.settings.height = window_.height();
        save_settings(settings_file_, app_.settings);
        if (!arguments_.timing.empty()) write_timing();
        return failed() ? exit_failed : exit_fine;
    }

 private:
    /// A picture of a recording that could not be shown is none, nor is one of another place.
    bool failed() const {
        if (!app_.goto_refused.empty()) {
            fmt::print(stderr, "tile-view: {}\n", app_.goto_refused);
            return true;
        }
        const bool shows = app_.ranks.shown ? app_.ranks.run->refused.empty() : app_.shows_anything();
        if (arguments_.screenshot.empty() || arguments_.recordings.empty() || shows) return false;
        fmt::print(stderr, "tile-view: {}\n",
                   one_line(app_.status.error.empty() ? app_.notice : app_.status.error));
        return true;
    }

    /// The session works, and there is a picture already. As the frame before found it.
    bool works() const { return !app_.status.idle && app_.panes[0].has_values(); }

    /// From the beginning of a frame to that of the next. While the session works frames leave it most of the time, as long as
    /// a key is answered at once.
    double between_frames() const {
        constexpr double frame = 1.0 / 60;
        constexpr double longest = 0.1;
        return works() ? std::clamp(4 * frame_took_, 2 * frame, longest) : frame;
    }

    /// Nothing new is drawn while nothing happens.
    void wait() {
        constexpr double short_while = 1.0 / 30;
        if (held_since_) return wait_for_pictures();
        // Between the events of a script nobody looks at the frames.
        const bool at_once = player_ && !player_->waits() && arguments_.timing.empty();
        if (player_) return window_.wait_for_input(0, at_once ? 0 : between_frames());
        do {
            window_.wait_for_input(frames_left_ > 0 ? 0 : short_while, between_frames());
            frames_left_ = std::max(frames_left_, frames_asked_for());
        } while (frames_left_ == 0 && !window_.closing() && asked_to_end == 0);
        --frames_left_;
    }

    /// A frame that takes long to draw is held back for a moment until it shows what somebody moved to: drawn without that, it would keep
    /// the processor from it. Faster ones follow each other soon enough.
    bool is_held_back() const {
        constexpr double fast = 1.0 / 30;
        return drew_ > fast && seconds() - held_since_.value_or(seconds()) < longest_held &&
               std::ranges::any_of(app_.panes, &HeatmapPane::follows);
    }

    void wait_for_pictures() {
        constexpr double look = 0.004;
        const auto waits = [](const HeatmapPane& pane) { return pane.follows() && !pane.is_ready(); };
        while (std::ranges::any_of(app_.panes, waits) && seconds() - *held_since_ < longest_held &&
               !window_.has_input())
            window_.wait_for_input(look, 0);
    }

    /// What happened since the last look, as the frames that it takes: panels follow each other by a frame. Of progress alone
    /// one is drawn, a few times a second, while the session works.
    int frames_asked_for() {
        constexpr int frames_to_settle = 3;
        constexpr double between_progress = 0.2;
        const bool resized = window_.width() != width_ || window_.height() != height_;
        const bool ended = worked_ && !works();
        const bool appeared = look_for_recordings(app_, seconds());
        const std::uint64_t version = app_.version();
        const bool progressed =
            version != version_ && (!works() || seconds() - progress_shown_ >= between_progress);
        width_ = window_.width();
        height_ = window_.height();
        worked_ = works();
        if (progressed) {
            version_ = version;
            progress_shown_ = seconds();
        }
        const bool draws_later = app_.drift.waits() || (!works() && app_.map_is_behind);
        if (window_.has_input() || resized || ended || appeared || draws_later) return frames_to_settle;
        if (!progressed) return std::ranges::any_of(app_.panes, &HeatmapPane::gets_ready) ? 1 : 0;
        return works() ? 1 : frames_to_settle;
    }

    static double seconds_of(FrameTimes::Clock::time_point time) {
        return std::chrono::duration<double>(time.time_since_epoch()).count();
    }
    static double seconds() { return seconds_of(FrameTimes::Clock::now()); }

    void frame() {
        if (player_ && !held_since_) play();
        const auto begin = FrameTimes::Clock::now();
        const auto computed_before = FrameTimes::computed_so_far();
        window_.begin_frame();
        if (window_.pointer_moved()) app_.pointer_leads = true;
        const std::vector<std::string> dropped = window_.take_dropped();
        if (!dropped.empty()) open_paths(app_, dropped);
        app_.readout.begin_frame();
        follow_document(app_);
        window_.set_title(window_title(app_));
        run_commands(app_, window_.typed());
        const PanelPicture picture = player_ ? player_->take_picture() : PanelPicture();
        app_.pictures_at_once = !picture.path.empty() || !app_.pictures.empty() || !app_.png.empty();
        draw_panels(app_);
        if (app_.shows_recording() || app_.shows_declared()) serve_exports(app_);
        const bool captured = !picture.path.empty() || !app_.pictures.empty();
        Image pixels;
        // A software renderer takes the processor from what a script waits for.
        if (player_ && player_->waits() && !captured && arguments_.timing.empty()) {
            held_since_.reset();
            return window_.drop_frame();
        }
        const bool held = !captured && is_held_back();
        if (held)
            window_.drop_frame();
        else
            window_.lay_out();
        const auto laid_out = FrameTimes::Clock::now();
        laid_out_ += laid_out - begin;
        computed_ += FrameTimes::computed_so_far() - computed_before;
        if (!held_since_) held_since_ = seconds_of(begin);
        if (held) return;
        window_.end_frame(captured ? &pixels : nullptr);
        const double scale = double(pixels.width) / std::max(1, window_.width());
        if (!picture.path.empty()) write_png(picture.path, part_of(pixels, picture.box, scale));
        if (!app_.pictures.empty()) write_panels(app_, pixels, scale);
        if (app_.shows_anything() && app_.panes[0].has_values()) times_.first_picture();
        if (app_.shows_declared() || (app_.document != nullptr && app_.document->report != nullptr))
            times_.judged();
        for (HeatmapPane& pane : app_.panes) {
            if (const auto asked = pane.take_asked()) times_.add_picture(FrameTimes::Clock::now() - *asked);
        }
        const double now = seconds();
        frame_took_ = now - seconds_of(begin);
        drew_ = now - seconds_of(laid_out);
        const std::chrono::duration<double> drawn(now - *std::exchange(held_since_, std::nullopt));
        times_.add({.laid_out = std::exchange(laid_out_, {}),
                    .computed = std::exchange(computed_, {}),
                    .drawn = std::chrono::duration_cast<FrameTimes::Clock::duration>(drawn)});
    }

    void play() {
        look_for_recordings(app_, seconds());
        player_->advance(app_, window_);
        if (player_->take_time()) times_.forget_frames();
    }

    void write_timing() {
        OutputFile file(arguments_.timing);
        file.write(times_.to_json());
        file.commit();
    }

    const Arguments& arguments_;
    std::string settings_file_;
    Settings settings_;
    Window window_;
    App app_;
    FrameTimes times_;
    std::optional<ScriptPlayer> player_;
    std::uint64_t version_ = 0;
    double progress_shown_ = 0;
    static constexpr double longest_held = 0.06;
    double frame_took_ = 0;
    double drew_ = 0;  ///< of that, its pixels
    /// Of a frame that is held back: since when, and what it took so far.
    std::optional<double> held_since_;
    FrameTimes::Clock::duration laid_out_{};
    FrameTimes::Clock::duration computed_{};
    bool worked_ = false;
    int width_ = 0;
    int height_ = 0;
    int frames_left_ = 3;
};

ExitCode run(const Arguments& arguments, FrameTimes::Clock::time_point start) {
    try {
        return Program(arguments, start).run();
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "tile-view: not enough memory; close other programs, or use a larger machine\n");
    } catch (const std::exception& error) {
        fmt::print(stderr, "tile-view: {}\n", one_line(error.what()));
    }
    return exit_failed;
}

ExitCode give_up(const Arguments& arguments, const std::string& how) {
    const std::string where = arguments.recordings.empty() ? "the window" : arguments.recordings.front();
    fmt::print(stderr, "tile-view: {}\n",
               one_line(where + ": showing it does not end (" + how +
                        "); allow more memory and threads, or record it again"));
    return exit_failed;
}

}  // namespace
}  // namespace tilescope::viewer

int main(int argc, char** argv) {
    const auto start = tilescope::viewer::FrameTimes::Clock::now();
    CLI::App app("", "tile-view");
    tilescope::viewer::Arguments arguments;
    tilescope::viewer::declare(app, arguments);
    try {
        const std::string help = tilescope::parse_command_line(app, {argv + 1, argv + argc});
        if (!help.empty()) {
            fmt::print("{}", help);
            return tilescope::viewer::exit_fine;
        }
    } catch (const tilescope::Error& error) {
        fmt::print(stderr, "tile-view: {}\n", error.what());
        return tilescope::viewer::exit_failed;
    }
    return tilescope::run_supervised(
        [&] { return tilescope::viewer::run(arguments, start); },
        [&](const std::string& how) { return tilescope::viewer::give_up(arguments, how); });
}
