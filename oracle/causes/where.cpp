#include "oracle/causes/where.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "oracle/causes/element_places.h"

namespace tilescope {

namespace {

/// So many places tell a rule.
constexpr std::int64_t most_places = 60'000;

static_assert(element_places <= most_coordinates);

LabelledPlace labelled_place(const SearchedTile& site, Stage stage, Eigen::Index i, Eigen::Index j) {
    LabelledPlace place;
    for (std::size_t at = 0; at < element_places; ++at)
        place.at[at] = std::int32_t(place_of(ElementPlace(at), site, stage, i, j));
    return place;
}

LabelledElements labelled_elements(const Evidence& evidence, const Change& change) {
    const std::int64_t step = evidence.compared / most_places + 1;
    LabelledElements elements(evidence.observed);
    std::int64_t next = 0;
    visit_sides(evidence, change, [&](const Observation& seen, Eigen::Index i, Side side) {
        // What is wrong is less than what is right, as a rule: none of it is left out.
        if (side != Side::changed && (side != Side::healthy || next++ % step != 0)) return;
        const Eigen::Index cols = seen.got.cols();
        elements.add(seen.site, i / cols, i % cols, side == Side::changed);
    });
    return elements;
}

}  // namespace

void LabelledElements::add(const SearchedTile& site, Eigen::Index row, Eigen::Index col, bool inside) {
    places_.push_back(labelled_place(site, stage_, row, col));
    places_.back().inside = inside;
}

std::int64_t LabelledElements::inside() const {
    return std::ranges::count(places_, true, &LabelledPlace::inside);
}

std::optional<LabelledElements::Rule> LabelledElements::rule(std::int64_t most_wrong) const {
    const std::optional<PlaceRule> rule = find_place_rule(places_, element_places, most_wrong);
    if (!rule) return std::nullopt;
    std::array<std::string_view, element_places> names;
    for (std::size_t at = 0; at < element_places; ++at) names[at] = place_name(ElementPlace(at), stage_);
    const auto holds = [rule = *rule, stage = stage_](const SearchedTile& site, Eigen::Index i,
                                                      Eigen::Index j) {
        return rule.holds(labelled_place(site, stage, i, j).at);
    };
    return Rule{holds, rule->text(names), int(rule->conditions.size())};
}

std::optional<RuledChange> with_rule(const Evidence& evidence, const Change& change) {
    if (!evidence.direct()) return std::nullopt;
    const auto rule = labelled_elements(evidence, change).rule(evidence.wrong_elements / 500);
    if (!rule) return std::nullopt;
    RuledChange ruled{change, rule->text};
    ruled.change.where = rule->holds;
    return ruled;
}

}  // namespace tilescope
