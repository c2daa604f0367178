#include "oracle/program/wrong_places.h"

#include <algorithm>

#include "oracle/program/build.h"
#include "oracle/program/place_conditions.h"

namespace tilescope {

namespace {

/// Elements of all tiles by whether they are so.
std::vector<LabelledIndices> labelled(const SearchedCall& searched, bool LookedElement::*what, bool is) {
    std::vector<LabelledIndices> places;
    for (const CallPart& tile : searched.tiles()) {
        for (const LookedElement& element : tile.elements)
            if (element.is_known || element.is_none) places.push_back({element.at, element.*what == is});
    }
    return places;
}

double count_inside(const std::vector<LabelledIndices>& places) {
    return double(std::ranges::count(places, true, &LabelledIndices::is_inside));
}

}  // namespace

std::optional<FoundCondition> condition_of_places(SearchedCall& searched,
                                                  const std::vector<LabelledIndices>& places) {
    Program& program = searched.program();
    const ProgramArray& array = program.array(searched.wrong());
    const std::vector<int> axes = axes_of(program, searched.wrong());
    std::vector<int> by_block;
    if (array.over >= 0) by_block.push_back(array.over);
    ProgramBuilder build(program);
    return find_condition(searched.call(), build, places, place_numbers(program, axes, by_block));
}

std::optional<ProgramMistake> without_number(SearchedCall& searched) {
    if (!searched.sets_none_apart()) return std::nullopt;
    const std::vector<LabelledIndices> places = labelled(searched, &LookedElement::is_none, true);
    const std::optional<FoundCondition> condition = condition_of_places(searched, places);
    if (!condition) return std::nullopt;
    return ProgramMistake{.stage = searched.wrong(),
                          .slot = "result",
                          .becomes = "nan",
                          .where = program_text(searched.program(), condition->node),
                          .explained = count_inside(places) / double(places.size()),
                          .bits = condition->bits};
}

std::string where_wrong(SearchedCall& searched) {
    const std::vector<LabelledIndices> places = labelled(searched, &LookedElement::is_right, false);
    const std::optional<FoundCondition> condition = condition_of_places(searched, places);
    const bool is_told = condition && condition->bits < count_inside(places);
    return is_told ? program_text(searched.program(), condition->node) : "";
}

}  // namespace tilescope
