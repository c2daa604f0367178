#include "oracle/heatmap/write_heatmaps.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>

#include "dump/schema/error.h"
#include "oracle/heatmap/png.h"
#include "oracle/heatmap/tile_map.h"
#include "oracle/heatmap/worst.h"
#include "oracle/judge/observe.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

/// What a person looks at, in that order; names are sorted so.
struct PictureFile {
    Quantity quantity;
    const char* name;
};
constexpr std::array<PictureFile, 4> picture_files = {{{Quantity::dumped, "1-dumped.png"},
                                                       {Quantity::expected, "2-expected.png"},
                                                       {Quantity::difference, "3-difference.png"},
                                                       {Quantity::over_budget, "4-over_budget.png"}}};

/// Every quantity that a figure needs, of one plane.
class PlaneValues {
 public:
    PlaneValues(const Plane& plane, const Recording& recording, const Recording* other, JudgeOptions options)
        : shape_(plane_shape(recording.problem(), plane.stage)) {
        for (std::size_t i = 0; i < pyramids_.size(); ++i)
            pyramids_[i] =
                std::make_unique<Pyramid>(shape_.rows, shape_.cols, 1, sign_of(picture_files[i].quantity));
        const Problem& problem = recording.problem();
        const auto observe = [&](const ObservedTile& tile) {
            const PlaceInPlane corner = corner_of(problem, tile.context.stage, tile.context.tile);
            if (corner.plane != plane) return;
            QuantityValues values;
            for (std::size_t i = 0; i < pyramids_.size(); ++i) {
                values_of(tile, picture_files[i].quantity, values);
                pyramids_[i]->set_tile(corner.row, corner.col, tile.got.rows(), tile.got.cols(),
                                       values.values, values.kinds);
                count(values.kinds, counts_[i]);
                if (picture_files[i].quantity == Quantity::over_budget) worst_.add(tile, values);
            }
        };
        options.progress = {};
        observe_tiles(recording, other, options, plane.batch,
                      query_heads(problem, plane.stage, plane.head).first, std::nullopt, observe);
        for (const auto& pyramid : pyramids_) {
            set_missing_tiles(recording, other, plane, *pyramid);
            pyramid->complete();
        }
        find_worst(problem);
    }

    const PlaneShape& shape() const { return shape_; }
    const Pyramid& of(Quantity quantity) const { return *pyramids_[index_of(quantity)]; }

    const std::array<std::int64_t, kind_count>& counts_of(Quantity quantity) const {
        return counts_[index_of(quantity)];
    }

    void ring_worst(const Report& report, Figure& figure) const {
        if (cell_) ring_around(*cell_, &report, element_ ? values_in(report, *element_) : "", figure);
    }

    /// Dumped and expected have one, so that a colour means the same in both.
    ImageStyle style_of(Quantity quantity) const {
        if (quantity == Quantity::dumped || quantity == Quantity::expected) return style_of_values();
        return {fitting_scale(of(quantity), quantity, quantity_info(quantity).scale, 0),
                fitting_colours(of(quantity), quantity)};
    }

 private:
    static std::size_t index_of(Quantity quantity) {
        return std::size_t(std::ranges::find(picture_files, quantity, &PictureFile::quantity) -
                           picture_files.begin());
    }

    /// Whole tiles may be missing beside those that are shown, so what no thread wrote is not counted.
    void count(const std::vector<Kind>& kinds, std::array<std::int64_t, kind_count>& counts) {
        std::array<std::int64_t, kind_count> here{};
        for (const Kind kind : kinds) ++here[std::size_t(kind)];
        here[std::size_t(Kind::unwritten)] = 0;
        const std::scoped_lock held(mutex_);
        for (std::size_t kind = 0; kind < here.size(); ++kind) counts[kind] += here[kind];
    }

    ImageStyle style_of_values() const {
        double low = std::numeric_limits<double>::infinity();
        double high = -low;
        for (const Quantity quantity : {Quantity::dumped, Quantity::expected}) {
            if (!of(quantity).whole().has(Kind::finite)) continue;
            const Pyramid::Range range = of(quantity).range(0);
            low = std::min(low, range.low);
            high = std::max(high, range.high);
        }
        if (low > high) return {};
        if (low < 0 && high > 0) {
            high = std::max(high, -low);
            return {{ScaleKind::linear, -high, high}, ColourMap::diverging};
        }
        const double room = low < high ? 0 : low == 0 ? 1 : std::abs(low) / 2;
        return {{ScaleKind::linear, low - room, high + room}, ColourMap::sequential};
    }

    void find_worst(const Problem& problem) {
        const std::optional<WorstElement::Found>& found = worst_.found();
        // Where whole tiles are missing nobody was shown the worst element.
        const std::optional<Rect> cell =
            worst_cell(of(Quantity::over_budget), {0, 0, shape_.rows, shape_.cols});
        const bool unseen = cell && of(Quantity::over_budget).worst_of(*cell).has(Kind::unwritten);
        if (!found || (unseen && !is_divergence(found->element.finding))) {
            cell_ = cell;
            return;
        }
        const PlaceInPlane place = place_in_plane(problem, found->stage, found->element);
        element_ = found->element;
        cell_ = Rect{place.row, place.col, place.row + 1, place.col + 1};
    }

    PlaneShape shape_;
    std::array<std::unique_ptr<Pyramid>, 4> pyramids_;
    WorstElement worst_;
    std::mutex mutex_;
    std::array<std::array<std::int64_t, kind_count>, 4> counts_{};
    std::optional<Rect> cell_;
    std::optional<Element> element_;
};

/// A few pixels an element where there are few, and several elements a pixel where there are many. What is narrow, such as
/// a stage with one value a row, is widened: it has to be seen.
void fit(const PlaneShape& shape, const FigureSize& size, Figure& figure) {
    constexpr std::int64_t largest_element = 48;
    constexpr std::int64_t narrowest = 160;
    const auto longest = double(std::max(shape.rows, shape.cols));
    const double zoom =
        std::min(std::clamp(std::floor(size.small / longest), 1.0, 16.0), size.most / longest);
    const auto pixels = [&](std::int64_t elements) {
        const std::int64_t widened = std::min(narrowest, elements * largest_element);
        return int(std::max<std::int64_t>(std::llround(double(elements) * zoom), widened));
    };
    figure.width = pixels(shape.cols);
    figure.height = pixels(shape.rows);
}

}  // namespace

std::array<std::string, 4> heatmap_files(const std::string& directory) {
    std::array<std::string, 4> files;
    for (std::size_t i = 0; i < files.size(); ++i) files[i] = directory + "/" + picture_files[i].name;
    return files;
}

Plane guilty_plane(const Report& report) {
    return place_in_plane(report.problem, *report.guilty, *report.first_divergence).plane;
}

std::vector<HeatmapFigure> draw_heatmaps(const Report& report, const Recording& recording,
                                         const Recording* other, JudgeOptions options, const Plane& plane,
                                         std::span<const Quantity> quantities, const FigureSize& size) {
    const PlaneValues values(plane, recording, other, std::move(options));
    const PlaneShape& shape = values.shape();
    std::vector<HeatmapFigure> figures;
    for (const Quantity quantity : quantities) {
        Figure figure;
        figure.plane = plane;
        figure.shape = shape;
        figure.quantity = quantity;
        figure.view = {0, 0, double(shape.rows), double(shape.cols)};
        figure.style = values.style_of(quantity);
        figure.counts = values.counts_of(quantity);
        fit(shape, size, figure);
        describe(recording, other, &report, figure);
        values.ring_worst(report, figure);
        std::string caption = fmt::format("{}. {}", figure.title[0], figure.unit);
        if (figure.ringed) caption += ". The ring is around the " + figure.ring_says;
        figures.push_back({quantity, std::move(caption), draw_figure(figure, values.of(quantity), {})});
    }
    return figures;
}

std::string write_heatmaps(const std::string& directory, const Report& report, const Recording& recording,
                           const Recording* other, const JudgeOptions& options) {
    if (!report.guilty) return "heatmaps: none, since no stage diverges";
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error)
        throw Error("cannot be created (" + error.message() + ")", directory,
                    "choose a place that can be written");
    std::array<Quantity, picture_files.size()> quantities;
    std::ranges::transform(picture_files, quantities.begin(), &PictureFile::quantity);
    const Plane plane = guilty_plane(report);
    const std::vector<HeatmapFigure> figures =
        draw_heatmaps(report, recording, other, options, plane, quantities, {});
    const std::array<std::string, 4> files = heatmap_files(directory);
    std::string names;
    for (std::size_t i = 0; i < files.size(); ++i) {
        write_png(files[i], figures[i].drawn.image);
        names += (names.empty() ? "" : ", ") + files[i];
    }
    return fmt::format("heatmaps of {}: {}", plane_name(recording.problem(), plane), names);
}

}  // namespace tilescope
