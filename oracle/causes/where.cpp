#include "oracle/causes/where.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "oracle/causes/element_places.h"

namespace tilescope {

namespace {

/// So many places tell a rule.
constexpr std::int64_t most_places = 60'000;

static_assert(element_places <= most_coordinates);

bool has_own_lengths(const Recording& recording) {
    return !recording.side_inputs().seqlens_q.empty() || !recording.side_inputs().seqlens_kv.empty();
}

/// With the lengths of its batch entry. The call of a site may have been given more keys than there are.
const Problem& problem_of_site(const SearchedTile& site) {
    const Recording& recording = site.world->recording();
    return has_own_lengths(recording) ? site.call->problem : recording.problem();
}

/// A condition of one coordinate, or the same counted from its end.
struct CountedCondition {
    PlaceCondition condition;
    std::int64_t from_end = 0;  ///< 0: counted from the beginning

    ElementPlace place() const { return ElementPlace(condition.coordinate); }
    bool holds(const SearchedTile& site, Stage stage, Eigen::Index row, Eigen::Index col) const {
        const std::int64_t x = place_of(place(), site, stage, row, col);
        if (from_end == 0) return condition.holds(x);
        return x >= end_of(place(), problem_of_site(site), stage) - from_end;
    }
    std::string text(Stage stage) const {
        const std::string_view name = place_name(place(), stage);
        if (from_end == 0) return condition.text(name);
        return fmt::format("{} >= {} - {}", name, end_name(place()), from_end);
    }
};

LabelledPlace labelled_place(const SearchedTile& site, Stage stage, Eigen::Index i, Eigen::Index j) {
    LabelledPlace place;
    for (std::size_t at = 0; at < element_places; ++at)
        place.at[at] = std::int32_t(place_of(ElementPlace(at), site, stage, i, j));
    return place;
}

LabelledElements labelled_elements(const Evidence& evidence, const Change& change) {
    const std::int64_t step = evidence.compared / most_places + 1;
    LabelledElements elements(evidence, evidence.observed);
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
    std::vector<CountedCondition> conditions;
    std::string text;
    for (const PlaceCondition& condition : rule->conditions) {
        conditions.push_back({condition, from_end(condition)});
        text += (text.empty() ? "" : " and ") + conditions.back().text(stage_);
    }
    const auto holds = [conditions, stage = stage_](const SearchedTile& site, Eigen::Index i,
                                                    Eigen::Index j) {
        return std::ranges::all_of(conditions, [&](const CountedCondition& condition) {
            return condition.holds(site, stage, i, j);
        });
    };
    return Rule{holds, text, int(conditions.size())};
}

/// How far before the end it begins, where that says it in fewer bits; 0: it counts from the beginning. What was looked at
/// must reach the end, which must be the same for all.
std::int64_t LabelledElements::from_end(const PlaceCondition& condition) const {
    const bool is_uneven = has_own_lengths(evidence_.world->recording());
    const auto place = ElementPlace(condition.coordinate);
    const std::int64_t end = end_of(place, evidence_.problem(), stage_);
    if (!condition.is_to_end() || is_uneven || end - condition.first >= condition.first) return 0;
    const bool reaches_end = std::ranges::any_of(places_, [&](const LabelledPlace& at) {
        return at.inside && at.at[condition.coordinate] == end - 1;
    });
    return reaches_end ? end - condition.first : 0;
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
