#include "viewer/window/heatmap_pane.h"

#include <sys/resource.h>

#include <utility>

namespace tilescope::viewer {

bool HeatmapPane::Contents::operator==(const Contents& other) const {
    return pyramid == other.pyramid && details.tiles == other.details.tiles &&
           details.quantity == other.details.quantity && details.first_down == other.details.first_down &&
           details.first_across == other.details.first_across && view == other.view && style == other.style &&
           tint == other.tint && width == other.width && height == other.height;
}

HeatmapPane::Made HeatmapPane::make(Contents contents, Image image) {
    // Frames go first, and what reads and judges comes last.
    constexpr int niceness = 5;
    ::setpriority(PRIO_PROCESS, 0, niceness);
    Made made{std::move(contents), 0, false, std::move(image)};
    const Contents& of = made.contents;
    made.version = of.pyramid->version();
    made.has_values = of.pyramid->filled() > 0;
    if (made.image.width != of.width || made.image.height != of.height)
        made.image = Image(of.width, of.height);
    render(*of.pyramid, of.details, of.view, of.style, made.image);
    if (of.tint != nullptr) apply(*of.tint, of.view, made.image);
    wake_window();
    return made;
}

bool HeatmapPane::is_shown(const Contents& contents) const {
    return shown_.contents == contents && shown_.version == contents.pyramid->version();
}

void HeatmapPane::start(const Contents& contents) {
    announced_ = false;
    asked_ = Clock::now();
    pending_ = std::async(std::launch::async, make, contents, std::move(shown_.image));
}

void HeatmapPane::take() {
    shown_ = pending_.get();
    texture_.upload(shown_.image);
    came_ = asked_;
}

bool HeatmapPane::is_ready() const {
    return pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

bool HeatmapPane::gets_ready() {
    return is_ready() && !std::exchange(announced_, true);
}

void* HeatmapPane::texture(const Contents& wanted, bool at_once) {
    if (wanted.pyramid == nullptr || wanted.width <= 0 || wanted.height <= 0) return nullptr;
    if (is_ready() || (at_once && pending_.valid())) take();
    if (!pending_.valid() && !is_shown(wanted)) start(wanted);
    if (at_once && pending_.valid()) take();
    return texture_.id();
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
