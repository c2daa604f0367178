#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "oracle/heatmap/heatmap_image.h"
#include "viewer/window/tint.h"
#include "viewer/window/window.h"

namespace tilescope::viewer {

/// A heatmap's texture. Its image is made beside the frames, again only where something about it changed; the one before is
/// shown until it is there.
class HeatmapPane {
 public:
    using Clock = std::chrono::steady_clock;

    struct Contents {
        std::shared_ptr<const Pyramid> pyramid;
        DetailTiles details;
        PlaneView view;
        ImageStyle style;
        int width = 0;  ///< pixels
        int height = 0;
        std::shared_ptr<const Tint> tint = nullptr;

        bool operator==(const Contents& other) const;
    };
    /// Asks for what is to be seen, and returns the texture of what shown() says: of that or of what was asked for before. Null
    /// where there is none yet, or no size. Where only values came in, not with each of them. `at_once`: waits for what is asked for.
    TextureName texture(const Contents& wanted, bool at_once);
    /// What the texture shows; without a pyramid before there is one.
    const Contents& shown() const { return shown_.contents; }
    /// Whether the texture is of something else than what was asked for last.
    bool waits() const { return pending_.valid() || due_; }
    /// Whether what somebody moved to is being made, and the picture of this frame is not newer than the one before.
    bool follows() const { return pending_.valid() && moved_ && !came_; }
    bool is_ready() const;
    /// Whether a frame would bring on what was asked for last: it has got ready since the last call, or may be made now.
    bool gets_ready();
    /// When what is shown was asked for, where it came since the last call.
    std::optional<Clock::time_point> take_asked() { return std::exchange(came_, std::nullopt); }
    /// Whether some of the picture's values were there.
    bool has_values() const { return shown_.has_values; }

    /// fitting_scale() of the pyramid, found again where the pyramid or the choice changed.
    const Scale& fitted(const std::shared_ptr<const Pyramid>& pyramid, Quantity quantity, ScaleKind kind,
                        double clip);

 private:
    struct Made {
        Contents contents;
        std::uint64_t version = 0;  ///< of the pyramid, before it was looked at
        bool has_values = false;
        Image image;
    };
    static Made make(Contents contents, Image image, int niceness);
    /// When it may be made; null where it is shown.
    std::optional<Clock::time_point> due(const Contents& wanted) const;
    void start(const Contents& contents);
    void take();

    Made shown_;
    std::future<Made> pending_;
    bool announced_ = true;
    bool moved_ = false;  ///< what is being made is of something else than what is shown
    Clock::time_point asked_;
    std::optional<Clock::time_point> due_;  ///< where it waits for its time
    Clock::duration took_{};                ///< from when what is shown was asked for
    std::optional<Clock::time_point> came_;
    Texture texture_;

    std::shared_ptr<const Pyramid> fitted_to_;
    std::uint64_t fitted_version_ = 0;
    Quantity fitted_quantity_ = Quantity::dumped;
    ScaleKind fitted_kind_ = ScaleKind::linear;
    double fitted_clip_ = 0;
    Scale fitted_;
};

}  // namespace tilescope::viewer
