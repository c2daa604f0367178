#include "oracle/causes/where.h"

#include <array>
#include <string_view>

#include "oracle/causes/element_places.h"
#include "oracle/identify/place_rule.h"

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

std::vector<LabelledPlace> labelled_places(const Evidence& evidence, const Change& change) {
    const std::int64_t step = evidence.compared / most_places + 1;
    std::vector<LabelledPlace> places;
    std::int64_t next = 0;
    visit_sides(evidence, change, [&](const Observation& seen, Eigen::Index i, Side side) {
        // What is wrong is less than what is right, as a rule: none of it is left out.
        if (side != Side::changed && (side != Side::healthy || next++ % step != 0)) return;
        const Eigen::Index cols = seen.got.cols();
        LabelledPlace place = labelled_place(seen.site, evidence.observed, i / cols, i % cols);
        place.inside = side == Side::changed;
        places.push_back(place);
    });
    return places;
}

}  // namespace

std::optional<RuledChange> with_rule(const Evidence& evidence, const Change& change) {
    if (!evidence.direct()) return std::nullopt;
    const std::vector<LabelledPlace> places = labelled_places(evidence, change);
    const std::optional<PlaceRule> rule =
        find_place_rule(places, element_places, evidence.wrong_elements / 500);
    if (!rule) return std::nullopt;
    std::array<std::string_view, element_places> names;
    for (std::size_t at = 0; at < element_places; ++at)
        names[at] = place_name(ElementPlace(at), evidence.observed);
    RuledChange ruled{change, rule->text(names)};
    ruled.change.where = [rule = *rule, stage = evidence.observed](const SearchedTile& site, Eigen::Index i,
                                                                   Eigen::Index j) {
        return rule.holds(labelled_place(site, stage, i, j).at);
    };
    return ruled;
}

}  // namespace tilescope
