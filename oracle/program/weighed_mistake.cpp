#include "oracle/program/weighed_mistake.h"

#include <algorithm>
#include <functional>

namespace tilescope {

namespace {

constexpr std::size_t most_told = 4;

bool says_the_same(const ProgramMistake& one, const ProgramMistake& other) {
    return one.stage == other.stage && one.becomes == other.becomes && one.where == other.where;
}

}  // namespace

bool says_most(std::span<const WeighedMistake> found) {
    return std::ranges::any_of(found, [](const WeighedMistake& one) { return !is_mostly_open(one.mistake); });
}

std::vector<ProgramMistake> as_short_as_any(std::span<const WeighedMistake> found,
                                            std::vector<WeighedMistake> parts) {
    std::ranges::stable_sort(parts, {}, &WeighedMistake::bits);
    std::ranges::stable_sort(parts, std::greater(),
                             [](const WeighedMistake& part) { return part.mistake.explained; });
    std::vector<ProgramMistake> all;
    double shortest = 0;
    double open = 1;
    for (const WeighedMistake& one : found.empty() ? std::span<const WeighedMistake>(parts) : found) {
        const ProgramMistake& mistake = one.mistake;
        const bool is_as_short =
            all.empty() || mistake.is_part || one.bits() <= shortest + as_short(mistake.is_known);
        if (!is_as_short || all.size() == most_told) break;
        // What leaves much open says less than what explains it.
        if (is_mostly_open(mistake) && says_most(found)) continue;
        // Beside what explains more it is not as good.
        if (one.open > open) continue;
        if (all.empty()) {
            shortest = one.bits();
            open = one.open;
        }
        const auto is_told = [&](const ProgramMistake& other) { return says_the_same(mistake, other); };
        if (std::ranges::none_of(all, is_told)) all.push_back(mistake);
    }
    return all;
}

}  // namespace tilescope
