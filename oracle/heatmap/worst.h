#pragma once

#include <mutex>
#include <optional>

#include "oracle/heatmap/plane.h"
#include "oracle/heatmap/quantity.h"

namespace tilescope {

class WorkSharing;

/// The element that is furthest from what it should be, measured by its budget; what is not finite is further than all
/// else. Of equal ones the first, as in a report's table. Thread-safe.
class WorstElement {
 public:
    struct Found {
        Stage stage = Stage::q;
        Element element;
        double budget_used = 0;  ///< infinity where the budget is 0
    };

    /// `over_budget`: the tile's values_of() that quantity.
    void add(const ObservedTile& tile, const QuantityValues& over_budget);
    /// Collective: of what all processes have added.
    void fold(WorkSharing& sharing);
    /// Nullopt where nothing is off at all.
    const std::optional<Found>& found() const { return found_; }

 private:
    void add(const Found& candidate);

    std::mutex mutex_;
    std::optional<Found> found_;
};

/// The same of a part of a plane, by its pyramid of Quantity::over_budget: the cell that holds it. Nullopt where nothing of the
/// part is known.
std::optional<Rect> worst_cell(const Pyramid& over_budget, const Rect& part);

}  // namespace tilescope
