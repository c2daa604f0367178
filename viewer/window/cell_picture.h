#pragma once

#include <memory>
#include <vector>

#include "oracle/heatmap/heatmap_image.h"
#include "viewer/window/window.h"

namespace tilescope::viewer {

/// A cell of one colour or pattern, in pixels from the picture's corner.
struct PaintedCell {
    int x = 0;
    int y = 0;
    int width = 0;
    int height = 0;
    Kind kind = Kind::finite;
    float value = 0;  ///< of a finite one
    bool operator==(const PaintedCell&) const = default;
};

/// Cells in the colours and patterns of a style, as one texture. What no cell covers is transparent.
class CellPicture {
 public:
    /// Made again where something about it changed.
    TextureName texture(int width, int height, const std::vector<PaintedCell>& cells,
                        const ImageStyle& style);

 private:
    void paint(const PaintedCell& cell);

    std::vector<PaintedCell> cells_;
    ImageStyle style_;
    Image image_;
    std::unique_ptr<Texture> texture_;
};

}  // namespace tilescope::viewer
