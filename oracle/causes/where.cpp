#include "oracle/causes/where.h"

#include <algorithm>

#include "oracle/causes/element_places.h"

namespace tilescope {

namespace {

/// So many places tell a rule.
constexpr std::int64_t most_labels = 60'000;

static_assert(element_places <= most_coordinates);

bool has_own_lengths(const Recording& recording) {
    return !recording.side_inputs().seqlens_q.empty() || !recording.side_inputs().seqlens_kv.empty();
}

/// With the lengths of its batch entry. The call of a site may have been given more keys than there are.
const Problem& problem_of_site(const SearchedTile& site) {
    const Recording& recording = site.world->recording();
    return has_own_lengths(recording) ? site.call->problem : recording.problem();
}

LabelledPlace labelled_place(const SearchedTile& site, Stage stage, Eigen::Index i, Eigen::Index j) {
    LabelledPlace place;
    for (std::size_t at = 0; at < element_places; ++at)
        place.at[at] = std::int32_t(place_of(ElementPlace(at), site, stage, i, j));
    return place;
}

/// Of memory without rows, as where a copy ends within one: rows and columns say that in three conditions.
std::optional<PlaceRule> rule_of_flat_index(std::vector<LabelledPlace> places, std::int64_t most_wrong) {
    for (LabelledPlace& place : places) place.at[0] = place.at[std::size_t(ElementPlace::flat)];
    std::optional<PlaceRule> rule = find_place_rule(places, 1, most_wrong);
    if (!rule || rule->conditions.size() > 1 || rule->conditions[0].period > 0) return std::nullopt;
    rule->conditions[0].coordinate = std::size_t(ElementPlace::flat);
    return rule;
}

LabelledElements labelled_elements(const Evidence& evidence, const Change& change) {
    // Odd, to meet every column of a tile.
    const std::int64_t step = evidence.compared / most_labels | 1;
    LabelledElements elements(evidence, evidence.observed);
    std::int64_t next = 0;
    visit_sides(evidence, change, [&](const Observation& seen, Eigen::Index i, Side side) {
        // What is wrong is less than what is right, as a rule: none of it is left out.
        if (side != Side::changed && (side != Side::healthy || next++ % step != 0)) return;
        spend(4 * std::int64_t(element_places));
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
    PlaceEnds ends{};
    // Where batch entries have lengths of their own no end is the same for all.
    if (!has_own_lengths(evidence_.world->recording()))
        for (std::size_t at = 0; at < element_places; ++at)
            ends[at] = end_of(ElementPlace(at), evidence_.problem(), stage_);
    constexpr std::size_t without_flat = std::size_t(ElementPlace::flat);
    std::optional<PlaceRule> rule = find_place_rule(places_, without_flat, most_wrong, ends);
    if (!rule) rule = rule_of_flat_index(places_, most_wrong);
    if (!rule) return std::nullopt;
    std::string text;
    for (const PlaceCondition& condition : rule->conditions) {
        const auto place = ElementPlace(condition.coordinate);
        text += (text.empty() ? "" : " and ") + condition.text(place_name(place, stage_), end_name(place));
    }
    const auto holds = [conditions = rule->conditions, stage = stage_](const SearchedTile& site,
                                                                       Eigen::Index i, Eigen::Index j) {
        return std::ranges::all_of(conditions, [&](const PlaceCondition& condition) {
            const auto place = ElementPlace(condition.coordinate);
            return condition.holds(place_of(place, site, stage, i, j),
                                   end_of(place, problem_of_site(site), stage));
        });
    };
    return Rule{holds, text, int(rule->conditions.size())};
}

std::optional<RuledChange> with_rule(const Evidence& evidence, const Change& change) {
    if (!evidence.direct()) return std::nullopt;
    const auto rule = labelled_elements(evidence, change).rule(evidence.wrong_elements / 500);
    if (!rule) return std::nullopt;
    RuledChange ruled{change.made_where ? change.made_where(rule->holds) : change, rule->text,
                      rule->conditions};
    ruled.change.where = rule->holds;
    return ruled;
}

}  // namespace tilescope
