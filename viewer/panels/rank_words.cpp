#include "viewer/panels/rank_words.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tilescope::viewer {

namespace {

constexpr float just_within = 0.999F;
constexpr float beyond = std::numeric_limits<float>::max();

constexpr std::array looks = {
    LookName{
        "right", "right by itself and end to end, the darker the closer to its budget", {Kind::finite, 0.3F}},
    LookName{"first wrong",
             "the first that is wrong by itself, by step, stage and rank",
             {Kind::finite, beyond},
             true},
    LookName{"wrong too", "wrong by itself as well, given what it was computed from", {Kind::finite, beyond}},
    LookName{"inherited",
             "wrong, and right for what the rank merged: an earlier one is to blame",
             {Kind::inherited}},
    LookName{"not recorded", "there is no recording of it", {Kind::not_captured}},
    LookName{"not judged", "recorded, and not judged, or not yet", {Kind::not_judged}},
};

struct StateWord {
    PartState state;
    std::string_view words;
    ImU32 colour;
};
constexpr std::array state_words = {
    StateWord{PartState::not_judged, "not judged", colours::unjudged},
    StateWord{PartState::right, "right", colours::good},
    StateWord{PartState::inherited, "inherited", colours::inherited},
    StateWord{PartState::wrong_too, "wrong too", colours::bad},
    StateWord{PartState::first_wrong, "first wrong", colours::bad},
};

const StateWord& word_of(PartState state) {
    return *std::ranges::find(state_words, state, &StateWord::state);
}

/// What is wrong in a part; null where nothing is, and before all are judged.
const RankFault* fault_at(const App& app, std::size_t part) {
    const RankReport* report = app.ranks.run->report.get();
    return report != nullptr ? fault_of(*report, part) : nullptr;
}

}  // namespace

std::span<const LookName> look_names() {
    return looks;
}

bool has_look(const App& app, const RankCell& cell) {
    const RankGrid& grid = app.ranks.run->grid;
    const bool is_end = cell.column >= std::int64_t(grid.steps().size());
    return part_at(app, cell) || is_end || !grid.ends_before(cell.rank, cell.column);
}

CellLook look_of(const App& app, const RankCell& cell) {
    const auto part = part_at(app, cell);
    if (!part) return {Kind::not_captured};
    const PartLook& look = app.ranks.run->looks[*part];
    switch (look.state) {
        case PartState::not_judged:
            return {Kind::not_judged};
        case PartState::inherited:
            return {Kind::inherited};
        case PartState::right:
            return {Kind::finite, std::min(look.worst, just_within)};
        default:
            // What no element shows is wrong as a whole.
            return {Kind::finite, look.worst > 1 ? look.worst : beyond};
    }
}

std::vector<CellLine> lines_of(const App& app, const RankCell& cell) {
    if (!has_look(app, cell)) return {};
    const auto part = part_at(app, cell);
    const RankFault* fault = part ? fault_at(app, *part) : nullptr;
    if (fault == nullptr) {
        std::vector<CellLine> lines = {{state_line(app, cell).words}};
        if (part && app.ranks.run->looks[*part].state == PartState::right)
            lines.push_back(
                {short_number(double(app.ranks.run->looks[*part].worst)) + " x budget", colours::dim});
        return lines;
    }
    return {{fault->stage + " " + state_line(app, cell).words, colours::text, fault->stage},
            {fault->cause.empty() ? "unexplained" : fault->cause, colours::dim}};
}

std::string name_of_cell(const RunDocument& run, const RankCell& cell) {
    std::string name = coordinates_of(run, cell);
    std::ranges::replace(name, ',', ' ');
    return name;
}

std::string title_of(const RunDocument& run, const RankCell& cell) {
    const auto steps = run.grid.steps();
    if (cell.column >= std::int64_t(steps.size())) return fmt::format("rank {}, at the end", cell.rank);
    return fmt::format("rank {}, step {}", cell.rank, steps[std::size_t(cell.column)]);
}

std::string_view why_unnamed(const RankFault& fault) {
    return fault.searched ? "no known cause explains it" : "its cause was not searched";
}

CellLine state_line(const App& app, const RankCell& cell) {
    const auto part = part_at(app, cell);
    if (!part && !has_look(app, cell)) return {"no such step was recorded", colours::dim};
    if (!part) return {"not recorded", colours::unjudged};
    const RunDocument& run = *app.ranks.run;
    const PartState state = run.looks[*part].state;
    const bool is_to_come =
        state == PartState::not_judged && run.report == nullptr && !app.run_session.status().idle;
    if (is_to_come) return {"not judged yet", colours::dim};
    const StateWord& word = word_of(state);
    return {std::string(word.words), word.colour};
}

}  // namespace tilescope::viewer
