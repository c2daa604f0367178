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
    std::string_view look_at;
    std::string_view look_at_in_loop = {};     ///< over the terms of a sum or of a maximum; empty: as look_at
    std::string_view look_at_after_loop = {};  ///< the same
    bool tells_loop = true;                    ///< whether it is said that it is in the loop, or behind it
};

constexpr SlotWords words[] = {
    {.name = "start",
     .replaced = "begins with {0} in place of {1}",
     .added = "begins with {0}",
     .missing = "does not begin with {1}",
     .look_at = "what the state is set to before the loop",
     .tells_loop = false},
    {.name = "index",
     .replaced = "reads {0} in place of {1}",
     .added = "reads {0} as well",
     .missing = "does not read {1}",
     .look_at = "the index that is read at",
     .look_at_in_loop = "the index that the loop reads at"},
    {.name = "mask",
     .replaced = "keeps elements where {0}, not where {1}",
     .added = "keeps elements only where {0} as well",
     .missing = "keeps elements where {1} does not hold",
     .look_at = "the condition of the mask",
     .tells_loop = false},
    {.name = "masked",
     .replaced = "puts {0} in place of {1} where it masks",
     .added = "puts {0} where it masks",
     .missing = "does not put {1} where it masks",
     .look_at = "the value of what is masked",
     .tells_loop = false},
    {.name = "guard",
     .replaced = "asks whether {0} in place of {1}",
     .added = "asks whether {0} as well",
     .missing = "does not ask whether {1}",
     .look_at = "the condition under which it is computed",
     .look_at_in_loop = "the condition that the loop asks of each term"},
    {.name = "range",
     .replaced = "leaves out terms in its loop",
     .added = "adds up {0} as well",
     .missing = "leaves {1} out of its loop",
     .look_at = "where the loop begins, ends and skips",
     .tells_loop = false},
    {.name = "factor",
     .replaced = "multiplies with {0} in place of {1}",
     .added = "multiplies with {0}",
     .missing = "does not multiply with {1}",
     .look_at = "the factors of the value that is computed",
     .look_at_in_loop = "the factors of each term in the loop",
     .look_at_after_loop = "the factors of what the loop leaves, and its store"},
    {.name = "term",
     .replaced = "adds {0} in place of {1}",
     .added = "adds {0}",
     .missing = "does not add {1}",
     .look_at = "the terms of the value that is computed",
     .look_at_in_loop = "what the loop makes of each term",
     .look_at_after_loop = "what the loop begins with, and what is added to what it leaves"},
    {.name = "bound",
     .replaced = "takes the maximum with {0} in place of {1}",
     .added = "takes the maximum with {0}",
     .missing = "does not take the maximum with {1}",
     .look_at = "what the maximum is taken of"},
    {.name = "type",
     .replaced = "has {0} in place of {1}",
     .added = "has {0}",
     .missing = "does not have {1}",
     .look_at = "the type that the value is in",
     .look_at_in_loop = "the type that each term is in, and that of the accumulator",
     .look_at_after_loop = "the types of the accumulator and of the result"},
    {.name = "value",
     .replaced = "has {0} in place of {1}",
     .added = "has {0}",
     .missing = "does not have {1}",
     .look_at = "the line that computes the value",
     .look_at_in_loop = "what the loop makes of each term",
     .look_at_after_loop = "what is done with what the loop leaves, and its store"},
    {.name = "store",
     .replaced = "stores its elements at {0} in place of {1}",
     .added = "stores its elements at {0} as well",
     .missing = "does not store its elements at {1}",
     .look_at = "the address of the store",
     .tells_loop = false},
};

const SlotWords& words_of_slot(FormulaSlot slot) {
    return words[std::size_t(slot)];
}

std::string sentence_of(const ChangedSlot& change) {
    const SlotWords& how = words_of_slot(change.slot);
    const std::string_view form = change.was.empty()       ? how.added
                                  : change.becomes.empty() ? how.missing
                                                           : how.replaced;
    std::string becomes = change.becomes;
    std::string was = change.was;
    // A sum that something is made of need not be said twice.
    const std::size_t at = change.is_after_sum && !was.empty() ? becomes.find(was) : std::string::npos;
    if (at != std::string::npos) {
        becomes.replace(at, was.size(), "the value");
        was = "the value";
    }
    std::string text = fmt::format(fmt::runtime(form), becomes, was);
    if (how.tells_loop && change.is_in_sum) text += " in its loop";
    if (how.tells_loop && change.is_after_sum) text += " after its loop";
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
    const std::string_view where = changes.front().is_in_sum      ? how.look_at_in_loop
                                   : changes.front().is_after_sum ? how.look_at_after_loop
                                                                  : how.look_at;
    return where.empty() ? how.look_at : where;
}

}  // namespace tilescope
