#include "viewer/window/heatmap_pane.h"

namespace tilescope::viewer {

bool HeatmapPane::is_shown(const Contents& contents) const {
    return texture_ != nullptr && pyramid_ == contents.pyramid && version_ == contents.pyramid->version() &&
           details_.tiles == contents.details.tiles && details_.quantity == contents.details.quantity &&
           details_.first_down == contents.details.first_down &&
           details_.first_across == contents.details.first_across && view_ == contents.view &&
           style_.scale == contents.style.scale && style_.colours == contents.style.colours &&
           tint_ == contents.tint && image_.width == contents.width && image_.height == contents.height;
}

void* HeatmapPane::texture(const Contents& contents) {
    if (contents.pyramid == nullptr || contents.width <= 0 || contents.height <= 0) return nullptr;
    if (is_shown(contents)) return texture_->id();
    pyramid_ = contents.pyramid;
    version_ = pyramid_->version();
    details_ = contents.details;
    view_ = contents.view;
    style_ = contents.style;
    tint_ = contents.tint;
    if (image_.width != contents.width || image_.height != contents.height)
        image_ = Image(contents.width, contents.height);
    render(*pyramid_, details_, view_, style_, image_);
    if (tint_ != nullptr) apply(*tint_, view_, image_);
    if (texture_ == nullptr) texture_ = std::make_unique<Texture>();
    texture_->upload(image_);
    return texture_->id();
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
