#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tilescope {

/// What of a formula stands otherwise.
enum class FormulaSlot : std::uint8_t {
    start,   ///< what a state begins with
    index,   ///< where an array is read
    mask,    ///< which elements are infinite
    masked,  ///< what these are
    guard,   ///< another condition
    range,   ///< which terms a sum has
    factor,  ///< what is multiplied with, or divided by
    term,    ///< what is added, or subtracted
    bound,   ///< what a maximum is taken with
    type,    ///< of a value, or in which a sum is taken
    value,   ///< anything else
    store,   ///< where the stage is stored
};

std::string_view to_string(FormulaSlot slot);

/// One thing that a kernel does otherwise than its formula says.
struct ChangedSlot {
    FormulaSlot slot = FormulaSlot::value;
    std::string was{};          ///< empty: nothing stood there
    std::string becomes{};      ///< empty: nothing stands there
    std::string where{};        ///< condition within the formula; empty: wherever it is computed
    bool is_in_sum = false;     ///< it is done to each term of a sum, or of a maximum
    bool is_after_sum = false;  ///< it is done to what a sum leaves

    bool operator==(const ChangedSlot&) const = default;
};

/// "reads p[b, h, i ^ 4, j] in place of p; adds 1.0 after its loop".
std::string said_of(std::span<const ChangedSlot> changes);

/// What to look at in the kernel; empty: of none.
std::string_view look_at_of(std::span<const ChangedSlot> changes);

}  // namespace tilescope
