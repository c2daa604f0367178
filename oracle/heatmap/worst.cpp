#include "oracle/heatmap/worst.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/judge/tally_bytes.h"

namespace tilescope {

namespace {

constexpr double beyond_any = std::numeric_limits<double>::infinity();

/// How much of its budget an element uses; negative where nothing is known of it.
double used(Kind kind, double value) {
    switch (kind) {
        case Kind::finite:
        case Kind::inherited:
            // A quotient by 0, as values_of() has it.
            return value < double(std::numeric_limits<float>::max()) ? value : beyond_any;
        case Kind::nan:
        case Kind::plus_infinity:
        case Kind::minus_infinity:
        case Kind::unwritten:
        case Kind::should_be_infinite:
            return beyond_any;
        case Kind::masked:
        case Kind::not_captured:
        case Kind::indifferent:
        case Kind::not_judged:
            break;
    }
    return -1;
}

/// The same of a cell of several elements.
double used(KindFlags kinds, double highest) {
    double most = -1;
    for (const KindStyle& style : all_kinds()) {
        if ((kinds & flag_of(style.kind)) != 0)
            most = std::max(most, used(style.kind, std::max(highest, 0.0)));
    }
    return most;
}

}  // namespace

void WorstElement::add(const ObservedTile& tile, const QuantityValues& over_budget) {
    const Eigen::Index cols = tile.got.cols();
    Eigen::Index worst = -1;
    double most = 0;
    for (Eigen::Index i = 0; i < tile.got.size(); ++i) {
        const double here = used(over_budget.kinds[std::size_t(i)], over_budget.values[std::size_t(i)]);
        if (here <= most) continue;
        most = here;
        worst = i;
    }
    if (worst < 0) return;
    add({tile.context.stage, judged_element(tile, worst / cols, worst % cols), most});
}

void WorstElement::fold(WorkSharing& sharing) {
    tilescope::fold(sharing, found_, [this](const std::optional<Found>& part, std::optional<Found>&) {
        if (part) add(*part);
    });
}

void WorstElement::add(const Found& candidate) {
    const std::scoped_lock held(mutex_);
    const auto comes_first = [](const Found& a, const Found& b) {
        if (a.budget_used != b.budget_used) return a.budget_used > b.budget_used;
        return a.stage != b.stage ? a.stage < b.stage : comes_before(a.element, b.element);
    };
    if (!found_ || comes_first(candidate, *found_)) found_ = candidate;
}

std::optional<Rect> worst_cell(const Pyramid& over_budget, const Rect& part) {
    if (part.empty()) return std::nullopt;
    const auto held = over_budget.lock();
    const Pyramid::Level& level = over_budget.level(0);
    std::optional<Rect> worst;
    double most = 0;
    for (std::int64_t row = part.first_row / level.block_rows; row * level.block_rows < part.last_row;
         ++row) {
        for (std::int64_t col = part.first_col / level.block_cols; col * level.block_cols < part.last_col;
             ++col) {
            const auto cell = std::size_t(row * level.cols + col);
            const double here = used(level.kinds[cell], level.max[cell]);
            if (here <= most) continue;
            most = here;
            worst = Rect{row * level.block_rows, col * level.block_cols,
                         std::min((row + 1) * level.block_rows, over_budget.rows()),
                         std::min((col + 1) * level.block_cols, over_budget.cols())};
        }
    }
    return worst;
}

}  // namespace tilescope
