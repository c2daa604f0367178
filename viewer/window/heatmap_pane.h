#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "oracle/heatmap/heatmap_image.h"
#include "viewer/window/tint.h"
#include "viewer/window/window.h"

namespace tilescope::viewer {

/// A heatmap's image and its texture, made again only where something about it changed.
class HeatmapPane {
 public:
    struct Contents {
        std::shared_ptr<const Pyramid> pyramid;
        DetailTiles details;
        PlaneView view;
        ImageStyle style;
        int width = 0;  ///< pixels
        int height = 0;
        std::shared_ptr<const Tint> tint = nullptr;
    };
    /// The texture of what is to be seen; null where there is no size.
    void* texture(const Contents& contents);
    const Image& image() const { return image_; }
    /// What the texture shows: null without one.
    const std::shared_ptr<const Pyramid>& pyramid() const { return pyramid_; }
    const DetailTiles& details() const { return details_; }
    const ImageStyle& style() const { return style_; }
    /// Whether some of the picture's values were there.
    bool has_values() const { return pyramid_ != nullptr && pyramid_->filled() > 0; }

    /// fitting_scale() of the pyramid, found again where the pyramid or the choice changed.
    const Scale& fitted(const std::shared_ptr<const Pyramid>& pyramid, Quantity quantity, ScaleKind kind,
                        double clip);

 private:
    bool is_shown(const Contents& contents) const;

    std::shared_ptr<const Pyramid> pyramid_;
    std::uint64_t version_ = 0;
    DetailTiles details_;
    PlaneView view_;
    ImageStyle style_;
    std::shared_ptr<const Tint> tint_;
    Image image_;
    std::unique_ptr<Texture> texture_;

    std::shared_ptr<const Pyramid> fitted_to_;
    std::uint64_t fitted_version_ = 0;
    Quantity fitted_quantity_ = Quantity::dumped;
    ScaleKind fitted_kind_ = ScaleKind::linear;
    double fitted_clip_ = 0;
    Scale fitted_;
};

}  // namespace tilescope::viewer
