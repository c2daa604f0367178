#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "dump/schema/text.h"
#include "oracle/heatmap/figure.h"
#include "oracle/report/card.h"

namespace tilescope {

namespace {

/// What the numbers of a quantity are.
struct Unit {
    Quantity quantity;
    std::string_view alone;
    std::string_view of_pair;  ///< where another recording stands in for the oracle
};
constexpr std::array<Unit, quantity_count> units = {{
    {Quantity::dumped, "as dumped", "as dumped here"},
    {Quantity::expected, "as the oracle expects it", "as dumped there"},
    {Quantity::difference, "dumped - expected", "here - there"},
    {Quantity::over_budget, "|dumped - expected| / budget: rounding explains up to 1",
     "|here - there| / budget: rounding explains up to 1"},
    {Quantity::ulps, "distance from what is expected, in ulps", "distance from there, in ulps"},
    {Quantity::relative, "|dumped - expected| / |expected|", "|here - there| / |there|"},
    {Quantity::replayed, "as a kernel with the mistake computes it",
     "as a kernel with the mistake computes it"},
    {Quantity::unexplained, "|dumped - replayed| / budget: rounding explains up to 1",
     "|dumped - replayed| / budget: rounding explains up to 1"},
    {Quantity::expected_end_to_end, "as the inputs alone give it", "as dumped there"},
    {Quantity::difference_end_to_end, "dumped - expected from the inputs alone", "here - there"},
    {Quantity::over_budget_end_to_end,
     "|dumped - expected from the inputs alone| / budget: rounding explains up to 1",
     "|here - there| / budget: rounding explains up to 1"},
    {Quantity::ulps_end_to_end, "distance from what the inputs alone give, in ulps",
     "distance from there, in ulps"},
    {Quantity::relative_end_to_end, "|dumped - expected from the inputs alone| / |expected|",
     "|here - there| / |there|"},
}};

/// "q rows" and "features" for what the rows and columns of a plane count; "" for a single column.
std::string_view rows_of(const Problem& problem, Stage stage) {
    const Axis axis = stage_info(problem, stage).row_axis;
    return axis == Axis::query ? "q rows" : axis == Axis::key ? "keys" : "rows";
}
std::string_view columns_of(const Problem& problem, Stage stage) {
    const StageInfo info = stage_info(problem, stage);
    const PlaneShape shape = plane_shape(problem, stage);
    switch (info.col_axis) {
        case Axis::query:
            return "q rows";
        case Axis::key:
            return "keys";
        case Axis::feature:
            return "columns";
        case Axis::unit:
            break;
    }
    if (info.per_kv_tile && shape.cols == problem.kv_tiles()) return "KV tiles";
    return shape.cols == 1 ? "" : "columns";
}

}  // namespace

std::string part_text(const Figure& figure) {
    const PlaneView& view = figure.view;
    const auto first = [](double at) { return std::max<std::int64_t>(std::int64_t(std::floor(at)), 0); };
    const auto last = [](double end, std::int64_t count) {
        return std::min(std::int64_t(std::ceil(end)), count) - 1;
    };
    const std::int64_t top = first(view.first_row);
    const std::int64_t left = first(view.first_col);
    const std::int64_t bottom = last(view.first_row + view.rows, figure.shape.rows);
    const std::int64_t right = last(view.first_col + view.cols, figure.shape.cols);
    if (top == 0 && left == 0 && bottom == figure.shape.rows - 1 && right == figure.shape.cols - 1) return "";
    return fmt::format(", rows {}-{}, columns {}-{}", top, bottom, left, right);
}

std::string unit_text(std::string_view stage, const Figure& figure, bool of_pair) {
    const Unit& unit = *std::ranges::find(units, figure.quantity, &Unit::quantity);
    std::string text = fmt::format("{}: {}", stage, of_pair ? unit.of_pair : unit.alone);
    if (figure.style.scale.kind != ScaleKind::linear)
        text += fmt::format(" ({} scale)", to_string(figure.style.scale.kind));
    return text;
}

void describe(const Recording& recording, const Recording* other, const Report* report, Figure& figure) {
    const Problem& problem = recording.problem();
    const Stage stage = figure.plane.stage;
    const QuantityInfo& quantity = quantity_info(figure.quantity);
    figure.title = {
        fmt::format("{}: {}{}", plane_name(problem, figure.plane), quantity.name, part_text(figure))};
    if (report != nullptr) {
        const std::vector<ChainLink> chain = chain_of(*report);
        const auto link = std::ranges::find(chain, stage, &ChainLink::stage);
        if (link != chain.end()) figure.title.push_back(link->says);
    }
    std::string from = one_line(recording.name());
    if (other != nullptr) from += " against " + one_line(other->name());
    if (!recording.provenance().kernel.empty()) from += ", " + one_line(recording.provenance().kernel);
    figure.title.push_back(from);
    const std::string_view columns = columns_of(problem, stage);
    figure.axes = fmt::format("{} down{}{}", rows_of(problem, stage), columns.empty() ? "" : ", ",
                              columns.empty() ? "" : fmt::format("{} across", columns));
    figure.unit = unit_text(stage_info(problem, stage).name, figure, other != nullptr);
}

void ring_around(const Rect& cell, const Report* report, const std::string& holds, Figure& figure) {
    const auto places = [](std::string_view name, std::int64_t first, std::int64_t last) {
        return last - first == 1 ? fmt::format("{} {}", name, first)
                                 : fmt::format("{}s {}-{}", name, first, last - 1);
    };
    figure.ringed = cell;
    const bool local = quantity_info(figure.quantity).against == Reference::local;
    const bool fine = local && report != nullptr && !report->stage(figure.plane.stage).tally.diverges();
    // As the axes and the verdict name them.
    const auto name = [&](auto axis, std::string_view otherwise) {
        const bool of_keys =
            report != nullptr && stage_info(report->problem, figure.plane.stage).*axis == Axis::key;
        return of_keys ? "key" : otherwise;
    };
    figure.ring_says =
        fmt::format("{}: {}, {}", fine ? "closest to its budget" : "worst",
                    places(name(&StageInfo::row_axis, "row"), cell.first_row, cell.last_row),
                    places(name(&StageInfo::col_axis, "column"), cell.first_col, cell.last_col));
    if (!holds.empty()) figure.ring_says += ": " + holds;
}

std::int64_t tick_step(std::int64_t tile, double pixels, double room) {
    std::int64_t step = std::max<std::int64_t>(tile, 1);
    while (double(step) * pixels < room) step *= 2;
    while (step % 2 == 0 && double(step / 2) * pixels >= room) step /= 2;
    return step;
}

std::vector<double> scale_ticks(const Scale& scale, int most) {
    std::vector<double> ticks;
    most = std::max(most, 2);
    if (scale.kind == ScaleKind::log) {
        const double low = std::ceil(std::log10(scale.low) - 1e-9);
        const double high = std::floor(std::log10(scale.high) + 1e-9);
        const double step = std::max(1.0, std::ceil((high - low + 1) / most));
        // Counted from 1, where a budget ends.
        for (double decade = std::ceil(low / step) * step; decade <= high; decade += step)
            ticks.push_back(std::pow(10, decade));
    } else if (scale.kind == ScaleKind::linear && scale.high > scale.low) {
        const double rough = (scale.high - scale.low) / most;
        const double power = std::pow(10, std::floor(std::log10(rough)));
        double step = 10 * power;
        for (const double nice : {5.0, 2.0, 1.0}) {
            if (nice * power >= rough) step = nice * power;
        }
        for (double i = std::ceil(scale.low / step - 1e-9); i * step <= scale.high + 1e-9 * step; ++i)
            ticks.push_back(i * step);
    } else {
        for (int i = 0; i < 5; ++i) ticks.push_back(scale.value_at(i / 4.0));
    }
    if (ticks.size() < 2) ticks = {scale.low, scale.high};
    return ticks;
}

}  // namespace tilescope
