#include <algorithm>
#include <array>
#include <cmath>

#include "viewer/panels/plot.h"
#include "viewer/state/selection.h"

namespace tilescope::viewer {

namespace {

/// The part of a histogram's bins that is drawn.
struct Bins {
    std::size_t first = 0;
    std::size_t count = 0;
};

/// Those that hold something, and `always`, with a few empty ones beside them.
Bins filled_bins(std::span<const std::int64_t> counts, std::span<const std::int64_t> behind,
                 std::optional<std::size_t> always) {
    constexpr std::size_t beside = 2;
    constexpr std::size_t least = 16;
    std::size_t first = counts.size();
    std::size_t last = 0;
    const auto take = [&](std::size_t bin) {
        first = std::min(first, bin);
        last = std::max(last, bin);
    };
    for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] > 0 || (i < behind.size() && behind[i] > 0)) take(i);
    }
    if (always) take(*always);
    if (first > last) return {0, counts.size()};
    first -= std::min(first, beside);
    last = std::min(last + beside, counts.size() - 1);
    if (last - first + 1 < least) {
        first -= std::min(first, (least - (last - first + 1)) / 2);
        last = std::min(first + least, counts.size()) - 1;
    }
    return {first, last - first + 1};
}

std::string share_of(const Histogram& histogram, Kind kind) {
    const std::int64_t count = histogram.kinds[std::size_t(kind)];
    return count == 0 ? "" : fmt::format("{} {}   ", count, kind_style(kind).name);
}

void draw_ratios(App& app, const Histogram& histogram, float height) {
    constexpr std::size_t one = -Histogram::lowest_ratio;
    const Bins bins = filled_bins(histogram.over_budget, {}, one);
    const auto name = [](std::size_t bin) {
        return fmt::format("{:.2g}", std::pow(10, (double(bin) + Histogram::lowest_ratio) / 4));
    };
    const std::span counts(histogram.over_budget);
    draw_bars(app,
              {.label = "difference / budget (heights: logarithm of the count)",
               .counts = counts.subspan(bins.first, bins.count),
               .behind = {},
               .left = name(bins.first),
               .right = name(bins.first + bins.count),
               .mark = double(one - bins.first),
               .mark_name = "budget"},
              height);
}

void draw_exponents(App& app, const Histogram& histogram, float height) {
    const Bins bins = filled_bins(histogram.dumped, histogram.expected, std::nullopt);
    const auto name = [](std::size_t bin) {
        return fmt::format("2^{}", int(bin) + Histogram::lowest_exponent);
    };
    const std::span dumped(histogram.dumped);
    const std::span expected(histogram.expected);
    draw_bars(app,
              {.label = "exponents of the dumped values; expected as lines",
               .counts = dumped.subspan(bins.first, bins.count),
               .behind = expected.subspan(bins.first, bins.count),
               .left = name(bins.first),
               .right = name(bins.first + bins.count - 1),
               .mark = -1,
               .mark_name = {}},
              height);
}

/// Smallest and largest of the selection, as the pictures of the quantities have them.
void draw_ranges(App& app, const Rect& rect) {
    constexpr std::array quantities = {Quantity::dumped, Quantity::expected, Quantity::difference,
                                       Quantity::over_budget};
    for (const Quantity of_stages : quantities) {
        const Quantity quantity = against(app.view.against, of_stages);
        const auto pyramid = ask_selected_picture(app, of_stages);
        if (pyramid == nullptr) continue;
        const std::string name(quantity_info(quantity).name);
        if (!pyramid->is_complete()) {
            text_waiting(app, name + ": being judged");
            continue;
        }
        const Summary range = pyramid->worst_of(rect);
        // Of what is never negative the smallest is not kept.
        std::string line =
            quantity_info(quantity).is_signed
                ? fmt::format("{}: {} to {}", name, short_number(range.min), short_number(range.max))
                : fmt::format("{}: {} at most", name, quotient_text(range.max));
        if (!range.has(Kind::finite)) line = name + ": nothing finite";
        if (!pyramid->holds_elements())
            line += fmt::format(" (in whole blocks of {} x {})", pyramid->level(0).block_rows,
                                pyramid->level(0).block_cols);
        text(app, line);
    }
}

}  // namespace

void draw_histogram(App& app) {
    const auto histogram = ask_histogram(app);
    text(app, selection_text(app), colours::dim);
    text(app,
         app.view.region ? "Escape: the cursor's tile again" : "right button: choose a region in the heatmap",
         colours::dim);
    if (histogram == nullptr) return text_waiting(app, "being counted");
    text(app, fmt::format("{} elements, {} exact, {} zeros", histogram->elements, histogram->exact,
                          histogram->zeros));
    std::string kinds;
    for (const KindStyle& kind : all_kinds()) kinds += share_of(*histogram, kind.kind);
    ImGui::PushTextWrapPos(0);
    if (!kinds.empty()) text(app, kinds);
    ImGui::PopTextWrapPos();
    draw_ranges(app, selected_rect(app));
    const float height = 9 * ImGui::GetFontSize();
    draw_ratios(app, *histogram, height);
    draw_exponents(app, *histogram, height);
}

}  // namespace tilescope::viewer
