#pragma once

#include <array>
#include <future>
#include <memory>

#include "oracle/formula/matrix.h"
#include "oracle/heatmap/pyramid.h"
#include "viewer/window/heatmap_pane.h"

namespace tilescope {
struct DriftRows;
}  // namespace tilescope

namespace tilescope::viewer {

/// Heatmaps of the drift of m, l and acc: q rows by KV tiles. They are prepared beside the frames.
class DriftPicture {
 public:
    static constexpr int quantities = 3;  ///< m, l, acc
    /// Null until it is there.
    std::shared_ptr<const Pyramid> pyramid(const std::shared_ptr<const DriftRows>& drift, int quantity);
    HeatmapPane& pane(int quantity) { return panes_[std::size_t(quantity)]; }
    bool waits() const { return pending_.valid(); }

 private:
    using Pyramids = std::array<std::shared_ptr<Pyramid>, quantities>;
    std::shared_ptr<const DriftRows> shown_;
    std::shared_ptr<const DriftRows> wanted_;
    std::future<Pyramids> pending_;
    Pyramids pyramids_;
    std::array<HeatmapPane, quantities> panes_;
};

/// m, l or acc.
const MatrixF& drift_of(const DriftRows& drift, int quantity);

}  // namespace tilescope::viewer
