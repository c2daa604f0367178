#include "oracle/heatmap/exhibits.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "oracle/heatmap/png.h"
#include "oracle/heatmap/write_heatmaps.h"

namespace tilescope {

namespace {

constexpr std::array of_wrong = {Quantity::dumped, Quantity::expected, Quantity::difference,
                                 Quantity::over_budget};
constexpr std::array of_right = {Quantity::dumped, Quantity::over_budget};
/// Four of them make a page of a few megabytes at most.
constexpr FigureSize size_on_page{720, 720};

}  // namespace

TileObserver ExhibitFinder::observer() {
    observe_ = [this](const ObservedTile& tile) {
        QuantityValues values;
        values_of(tile, Quantity::over_budget, values);
        worst_.add(tile, values);
    };
    return observer_of(recording_, other_, options_, observe_);
}

std::vector<ReportPicture> ExhibitFinder::pictures(const Report& report, const JudgeOptions& options) const {
    const std::optional<WorstElement::Found>& closest = worst_.found();
    if (!report.guilty && !closest) return {};
    const Plane plane = report.guilty
                            ? guilty_plane(report)
                            : place_in_plane(report.problem, closest->stage, closest->element).plane;
    const std::span<const Quantity> quantities =
        report.guilty ? std::span<const Quantity>(of_wrong) : of_right;
    std::string before;
    if (!report.guilty)
        before = fmt::format("Closest to its budget: {}, {:.2g} of it, at {}. ",
                             stage_info(report.problem, plane.stage).name, closest->budget_used,
                             place_of(report.problem, report.threads, plane.stage, closest->element));
    std::vector<ReportPicture> pictures;
    for (const HeatmapFigure& figure :
         draw_heatmaps(report, recording_, other_, options, plane, quantities, size_on_page)) {
        const Image& image = figure.drawn.image;
        pictures.push_back({before + figure.caption, to_png(image), image.width, image.height});
    }
    return pictures;
}

}  // namespace tilescope
