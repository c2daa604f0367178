#include "oracle/heatmap/write_heatmaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "dump/schema/error.h"
#include "oracle/heatmap/png.h"
#include "oracle/heatmap/quantity.h"
#include "oracle/heatmap/tile_map.h"
#include "oracle/judge/observe.h"

namespace tilescope {

namespace {

struct PictureFile {
    Quantity quantity;
    const char* name;
};
constexpr std::array<PictureFile, 4> picture_files = {{{Quantity::dumped, "dumped.png"},
                                                       {Quantity::expected, "expected.png"},
                                                       {Quantity::difference, "difference.png"},
                                                       {Quantity::over_budget, "over_budget.png"}}};

struct Picture {
    Quantity quantity;
    std::unique_ptr<Pyramid> pyramid;
};

std::array<Picture, 4> fill_pictures(const Plane& plane, const Recording& recording, const Recording* other,
                                     const JudgeOptions& options) {
    const Problem& problem = recording.problem();
    const PlaneShape shape = plane_shape(problem, plane.stage);
    std::array<Picture, 4> pictures;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
        const Quantity quantity = picture_files[i].quantity;
        pictures[i] = {quantity, std::make_unique<Pyramid>(shape.rows, shape.cols, 1, sign_of(quantity))};
    }
    const auto observe = [&](const ObservedTile& tile) {
        const PlaceInPlane corner = corner_of(problem, tile.context.stage, tile.context.tile);
        if (corner.plane != plane) return;
        QuantityValues values;
        for (const Picture& picture : pictures) {
            values_of(tile, picture.quantity, values);
            picture.pyramid->set_tile(corner.row, corner.col, tile.got.rows(), tile.got.cols(), values.values,
                                      values.kinds);
        }
    };
    observe_tiles(recording, other, options, plane.batch,
                  query_heads(recording.problem(), plane.stage, plane.head).first, std::nullopt, observe);
    for (const Picture& picture : pictures) {
        set_missing_tiles(recording, other, plane, *picture.pyramid);
        picture.pyramid->complete();
    }
    return pictures;
}

/// A few pixels an element where there are few, and several elements a pixel where there are many.
Image image_for(const PlaneShape& shape) {
    constexpr std::int64_t most_pixels = 2048;
    constexpr std::int64_t comfortable = 1024;
    const std::int64_t zoom = std::clamp<std::int64_t>(comfortable / std::max(shape.rows, shape.cols), 1, 16);
    return {int(std::min(shape.cols * zoom, most_pixels)), int(std::min(shape.rows * zoom, most_pixels))};
}

std::string name_of(const Problem& problem, const Plane& plane) {
    const SliceKinds slices = slice_kinds(problem, plane.stage);
    const TileId first = place_in_tile(problem, plane, 0, 0).tile;
    std::string slice;
    if (slices.kv_tiles && problem.kv_tiles() > 1) slice += fmt::format(", KV tile {}", first.kv_tile);
    if (slices.q_blocks && problem.q_blocks() > 1) slice += fmt::format(", q block {}", first.q_block);
    return fmt::format("{} of batch {} head {}{}", stage_info(problem, plane.stage).name, plane.batch,
                       plane.head, slice);
}

}  // namespace

std::array<std::string, 4> heatmap_files(const std::string& directory) {
    std::array<std::string, 4> files;
    for (std::size_t i = 0; i < files.size(); ++i) files[i] = directory + "/" + picture_files[i].name;
    return files;
}

std::string write_heatmaps(const std::string& directory, const Report& report, const Recording& recording,
                           const Recording* other, JudgeOptions options) {
    if (!report.guilty) return "heatmaps: none, since no stage diverges";
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error)
        throw Error("cannot be created (" + error.message() + ")", directory,
                    "choose a place that can be written");
    const Problem& problem = recording.problem();
    const Plane plane = place_in_plane(problem, *report.guilty, *report.first_divergence).plane;
    options.progress = {};
    const std::array<Picture, 4> pictures = fill_pictures(plane, recording, other, options);
    const PlaneShape shape = plane_shape(problem, plane.stage);
    const PlaneView whole{0, 0, double(shape.rows), double(shape.cols)};
    Image image = image_for(shape);
    const std::array<std::string, 4> files = heatmap_files(directory);
    std::string names;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
        const Picture& picture = pictures[i];
        const ScaleKind scale = quantity_info(picture.quantity).scale;
        const ImageStyle style{fitting_scale(*picture.pyramid, picture.quantity, scale, 0),
                               fitting_colours(*picture.pyramid, picture.quantity)};
        render(*picture.pyramid, {}, whole, style, image);
        write_png(files[i], image);
        names += (names.empty() ? "" : ", ") + files[i];
    }
    return fmt::format("heatmaps of {}: {}", name_of(problem, plane), names);
}

}  // namespace tilescope
