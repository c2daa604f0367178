#include "viewer/window/heatmap_pane.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace tilescope::viewer {

bool HeatmapPane::Contents::operator==(const Contents& other) const {
    return pyramid == other.pyramid && details.tiles == other.details.tiles &&
           details.quantity == other.details.quantity && details.first_down == other.details.first_down &&
           details.first_across == other.details.first_across && view == other.view && style == other.style &&
           tint == other.tint && width == other.width && height == other.height;
}

HeatmapPane::Made HeatmapPane::make(Contents contents, Image image, int niceness) {
    ::setpriority(PRIO_PROCESS, 0, niceness);
    Made made{std::move(contents), 0, false, std::move(image)};
    const Contents& of = made.contents;
    made.version = of.pyramid->version();
    made.has_values = of.pyramid->filled() > 0;
    if (made.image.width != of.width || made.image.height != of.height)
        made.image = Image(of.width, of.height);
    const auto fill = [&](int first, int last) {
        render_rows(*of.pyramid, of.details, of.view, of.style, first, last, made.image);
    };
    // The thread that is begun has the priority of this one.
    const int half = made.image.height / 2;
    std::future<void> lower = std::async(std::launch::async, fill, half, made.image.height);
    fill(0, half);
    lower.get();
    if (of.tint != nullptr) apply(*of.tint, of.view, made.image);
    wake_window();
    return made;
}

/// Tiles come in all the time while they are judged: pictures of them alone leave most of the time to that.
std::optional<HeatmapPane::Clock::time_point> HeatmapPane::due(const Contents& wanted) const {
    if (!(shown_.contents == wanted)) return Clock::time_point();
    if (shown_.version == wanted.pyramid->version()) return std::nullopt;
    constexpr std::chrono::milliseconds between(200);
    if (wanted.pyramid->is_complete()) return Clock::time_point();
    return asked_ + std::max<Clock::duration>(between, 5 * took_);
}

void HeatmapPane::start(const Contents& contents) {
    // What somebody moved to goes with the frames, what came in behind them, and what reads and judges comes last.
    moved_ = !(shown_.contents == contents);
    const int niceness = moved_ ? 0 : 5;
    announced_ = false;
    due_.reset();
    asked_ = Clock::now();
    pending_ = std::async(std::launch::async, make, contents, std::move(shown_.image), niceness);
}

void HeatmapPane::take() {
    shown_ = pending_.get();
    texture_.upload(shown_.image);
    took_ = Clock::now() - asked_;
    came_ = asked_;
}

bool HeatmapPane::is_ready() const {
    return pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

bool HeatmapPane::gets_ready() {
    return (is_ready() && !std::exchange(announced_, true)) || (due_ && *due_ <= Clock::now());
}

TextureName HeatmapPane::texture(const Contents& wanted, bool at_once) {
    if (wanted.pyramid == nullptr || wanted.width <= 0 || wanted.height <= 0) return 0;
    if (is_ready() || (at_once && pending_.valid())) take();
    if (!pending_.valid()) due_ = due(wanted);
    if (due_ && (at_once || *due_ <= Clock::now())) start(wanted);
    if (at_once && pending_.valid()) take();
    return texture_.name();
}

const Scale& HeatmapPane::fitted(const std::shared_ptr<const Pyramid>& pyramid, Quantity quantity,
                                 ScaleKind kind, double clip) {
    const bool same = fitted_to_ == pyramid && fitted_version_ == pyramid->version() &&
                      fitted_quantity_ == quantity && fitted_kind_ == kind && fitted_clip_ == clip;
    if (!same) {
        fitted_to_ = pyramid;
        fitted_version_ = pyramid->version();
        fitted_quantity_ = quantity;
        fitted_kind_ = kind;
        fitted_clip_ = clip;
        fitted_ = fitting_scale(*pyramid, quantity, kind, clip);
    }
    return fitted_;
}

}  // namespace tilescope::viewer
