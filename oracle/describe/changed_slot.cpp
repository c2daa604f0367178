#include "oracle/describe/changed_slot.h"

#include <fmt/format.h>

namespace tilescope {

namespace {

/// How a slot is said: of something in place of another thing, of what is there as well, and of what is missing.
struct SlotWords {
    std::string_view name;
    std::string_view replaced;
    std::string_view added;
    std::string_view missing;
    std::string_view look_at;         ///< in a formula without a sum
    std::string_view look_at_in_sum;  ///< and in the loop of one
    std::string_view look_at_after;   ///< and behind it
};

constexpr SlotWords words[] = {
    {"start", "begins with {0} in place of {1}", "begins with {0}", "does not begin with {1}",
     "what the state is set to before the loop", "what the state is set to before the loop",
     "what the state is set to before the loop"},
    {"index", "reads {0} in place of {1}", "reads {0} as well", "does not read {1}",
     "the index that is read at", "the index that the loop of the sum reads at", "the index that is read at"},
    {"mask", "keeps elements where {0}, not where {1}", "keeps elements only where {0} as well",
     "keeps elements where {1} does not hold", "the condition of the mask", "the condition of the mask",
     "the condition of the mask"},
    {"masked", "puts {0} in place of {1} where it masks", "puts {0} where it masks", "does not put {1}",
     "the value of what is masked", "the value of what is masked", "the value of what is masked"},
    {"guard", "asks whether {0} in place of {1}", "asks whether {0} as well", "does not ask whether {1}",
     "the condition under which it is computed", "the condition that the loop of the sum asks of each term",
     "the condition under which it is computed"},
    {"range", "sums {0} in place of {1}", "sums {0} as well", "leaves out terms of the sum",
     "where the loop of the sum begins, ends and skips", "where the loop of the sum begins, ends and skips",
     "where the loop of the sum begins, ends and skips"},
    {"factor", "multiplies with {0} in place of {1}", "multiplies with {0}", "does not multiply with {1}",
     "the factors of the value that is computed", "the factors of each term in the loop of the sum",
     "the factors of what the loop of the sum leaves, and its store"},
    {"term", "adds {0} in place of {1}", "adds {0}", "does not add {1}",
     "the terms of the value that is computed", "what the loop of the sum makes of each term",
     "what the sum begins with, and what is added to what its loop leaves"},
    {"bound", "takes the maximum with {0} in place of {1}", "takes the maximum with {0}",
     "does not take the maximum with {1}", "what the maximum is taken of", "what the maximum is taken of",
     "what the maximum is taken of"},
    {"type", "has {0} in place of {1}", "has {0}", "does not have {1}", "the type that the value is in",
     "the type that each term is in, and that of the accumulator",
     "the types of the accumulator and of the result"},
    {"value", "has {0} in place of {1}", "has {0}", "does not have {1}", "the line that computes the value",
     "what the loop of the sum makes of each term",
     "what is done with what the loop of the sum leaves, and its store"},
};

const SlotWords& words_of_slot(FormulaSlot slot) {
    return words[std::size_t(slot)];
}

std::string sentence_of(const ChangedSlot& change) {
    const SlotWords& how = words_of_slot(change.slot);
    const std::string_view form = change.slot == FormulaSlot::range ? how.missing
                                  : change.was.empty()              ? how.added
                                  : change.becomes.empty()          ? how.missing
                                                                    : how.replaced;
    std::string becomes = change.becomes;
    std::string was = change.was;
    // A sum that something is made of need not be said twice.
    const std::size_t at = becomes.find(was);
    if (change.slot >= FormulaSlot::type && change.is_after_sum && at != std::string::npos) {
        becomes.replace(at, was.size(), "the value");
        was = "the value";
    }
    std::string text = fmt::format(fmt::runtime(form), becomes, was);
    const bool tells_sum = change.slot > FormulaSlot::range || change.slot == FormulaSlot::index ||
                           change.slot == FormulaSlot::guard;
    if (tells_sum && change.is_in_sum) text += " in its sum";
    if (tells_sum && change.is_after_sum) text += " after its sum";
    return change.where.empty() ? text : text + ", " + change.where;
}

}  // namespace

std::string_view to_string(FormulaSlot slot) {
    return words_of_slot(slot).name;
}

std::string said_of(std::span<const ChangedSlot> changes) {
    std::string text;
    for (const ChangedSlot& change : changes) text += (text.empty() ? "" : "; ") + sentence_of(change);
    return text;
}

std::string_view look_at_of(std::span<const ChangedSlot> changes) {
    if (changes.empty()) return "";
    const SlotWords& how = words_of_slot(changes.front().slot);
    return changes.front().is_in_sum      ? how.look_at_in_sum
           : changes.front().is_after_sum ? how.look_at_after
                                          : how.look_at;
}

}  // namespace tilescope
