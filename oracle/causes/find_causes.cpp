#include "oracle/causes/find_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "oracle/causes/consequences.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/places.h"
#include "oracle/causes/search.h"
#include "oracle/causes/where.h"
#include "oracle/causes/wrong_threads.h"
#include "oracle/formula/own_units.h"

namespace tilescope {

namespace {

/// Of what diverges, so much must be as the replay has it.
constexpr double enough_of_one = 0.99;
/// One of two mistakes explains at least so much.
constexpr double enough_of_two = 0.2;
constexpr std::string_view unwritten_family = "unwritten / stale";

/// A stage, and those that it is computed from.
struct Ancestry {
    Stage stage;
    std::vector<Stage> before;
};

std::vector<Stage> before(Direction direction, Stage stage) {
    static const std::vector<Ancestry> forward = {
        {Stage::s, {Stage::q, Stage::k}},
        {Stage::m, {Stage::s}},
        {Stage::p, {Stage::s, Stage::m}},
        {Stage::l, {Stage::m, Stage::p}},
        {Stage::acc, {Stage::v, Stage::m, Stage::p}},
        {Stage::o, {Stage::m, Stage::l, Stage::acc}},
        {Stage::lse, {Stage::m, Stage::l}},
    };
    static const std::vector<Ancestry> backward = {
        {Stage::s, {Stage::q, Stage::k}},
        {Stage::p, {Stage::s}},
        {Stage::delta, {Stage::dout}},
        {Stage::dp, {Stage::v, Stage::dout}},
        {Stage::ds, {Stage::s, Stage::p, Stage::delta, Stage::dp}},
        {Stage::dq, {Stage::k, Stage::ds}},
        {Stage::dk, {Stage::q, Stage::ds}},
        {Stage::dv, {Stage::p, Stage::dout}},
    };
    const auto& table = direction == Direction::forward ? forward : backward;
    const auto row = std::ranges::find(table, stage, &Ancestry::stage);
    return row == table.end() ? std::vector<Stage>() : row->before;
}

/// The stages in which a mistake may lie that shows first in `observed`: itself, and those before it that
/// were not dumped.
std::vector<Stage> acting_stages(const CauseSearch& world, Stage observed) {
    const Direction direction = world.recording().problem().direction;
    std::vector<Stage> stages = {observed};
    for (std::size_t i = 0; i < stages.size(); ++i) {
        for (const Stage stage : before(direction, stages[i])) {
            if (!world.has(stage) && std::ranges::find(stages, stage) == stages.end())
                stages.push_back(stage);
        }
    }
    std::ranges::sort(stages);
    return stages;
}

std::string where_told(const Found& found, const Evidence& evidence, const Report& report) {
    if (found.scope == Scope::everywhere) return "everywhere";
    if (found.scope == Scope::ruled) return "where " + found.rule;
    const std::string where = where_of(evidence, report, found.scope == Scope::bad_rows);
    const bool is_vague = where.starts_with("some ") || where.ends_with("...");
    const auto ruled = is_vague ? with_rule(evidence, found.candidate.change) : std::nullopt;
    return ruled ? "where " + ruled->rule : where;
}

FoundCause report_of(const Found& found, const Evidence& evidence, const Report& report) {
    FoundCause cause;
    cause.name = found.cause->name;
    cause.family = found.cause->family;
    cause.says = found.cause->says;
    cause.look_at = found.cause->look_at;
    cause.legal = found.cause->legal;
    cause.race_alike = found.cause->race_alike;
    cause.stage = found.acts;
    cause.observed = evidence.observed;
    cause.scope = found.scope;
    std::vector<Change> changes = evidence.known;
    changes.push_back(found.candidate.change);
    cause.changes = std::make_shared<const std::vector<Change>>(std::move(changes));
    cause.elements = evidence.compared;
    cause.explained_before = 1 - double(evidence.wrong_elements) / double(evidence.compared);
    cause.explained_after = 1 - double(std::min(found.left, evidence.compared)) / double(evidence.compared);
    cause.parameters = found.candidate.parameters;
    cause.free_parameters = found.candidate.free_parameters;
    cause.where = where_told(found, evidence, report);
    return cause;
}

void rank(const std::vector<Found>& found, const Evidence& evidence, std::vector<FoundCause>& causes) {
    for (std::size_t i = 0; i < causes.size(); ++i)
        causes[i].rank =
            i > 0 && are_tied(found[i], found[i - 1], evidence) ? causes[i - 1].rank : int(i) + 1;
}

/// Of a cause that explains it in several stages the best alone.
void keep_one_of_each(std::vector<Found>& found) {
    std::set<std::string_view> names;
    std::erase_if(found, [&](const Found& one) { return !names.insert(one.cause->name).second; });
}

/// A form says no more than a mistake by name that explains as much, and leaves no more than it.
void leave_out_forms(const Evidence& evidence, std::vector<Found>& found) {
    const std::int64_t grain = evidence.wrong_elements / 1000 + 1;
    const auto named = std::ranges::find(found, false, [](const Found& one) { return one.cause->form; });
    if (named == found.end()) return;
    const std::int64_t left = named->left / grain;
    const int cost = named->cost();
    std::erase_if(found, [=](const Found& one) {
        return one.cause->form && one.left / grain >= left && one.cost() >= cost;
    });
}

/// All that explain it, in any stage that may be to blame.
std::vector<Found> single_causes(const Evidence& evidence, double share, int threads) {
    std::vector<Found> all;
    for (const Stage acts : acting_stages(*evidence.world, evidence.observed)) {
        Evidence here = evidence;
        here.acts = acts;
        for (Found& found : search(here, share, threads)) all.push_back(std::move(found));
    }
    std::ranges::stable_sort(all, [&](const Found& a, const Found& b) {
        const std::int64_t grain = evidence.wrong_elements / 1000 + 1;
        return std::pair(a.left / grain, a.cost()) < std::pair(b.left / grain, b.cost());
    });
    keep_one_of_each(all);
    leave_out_guesses(evidence, all);
    leave_out_forms(evidence, all);
    return all;
}

/// One mistake that is made with other parameters elsewhere: "which 0 and 1".
void add_parameters(const FoundCause& second, const Evidence& evidence, FoundCause& cause) {
    for (std::size_t i = 0; i < cause.parameters.size() && i < second.parameters.size(); ++i) {
        const CauseParameter& other = second.parameters[i];
        if (other.name == cause.parameters[i].name && other != cause.parameters[i])
            cause.parameters[i].value += " and " + other.value;
    }
    cause.free_parameters += second.free_parameters;
    const double left = (1 - second.explained_after) * double(second.elements);
    cause.explained_after = 1 - left / double(evidence.compared);
}

/// What a store moves elsewhere is missing where it should be: both are made by one index.
bool is_one_store(const Found& first, const Found& second) {
    const auto is_unwritten = [](const Found& one) { return one.cause->family == unwritten_family; };
    return is_operand(first.acts) && is_unwritten(first) != is_unwritten(second);
}

/// The second explains what the first leaves, where both are made or where the first is not.
bool add_pair(const Found& first, const Evidence& evidence, const Report& report, int threads,
              Diagnosis& diagnosis) {
    Evidence here = evidence;
    here.acts = first.acts;
    const Evidence rests[] = {with_known(here, first.acts, {first.candidate.change}),
                              without_explained(here, first.candidate.change)};
    for (const Evidence& rest : rests) {
        if (rest.wrong_elements == 0 || rest.wrong_elements >= evidence.wrong_elements) continue;
        const std::vector<Found> seconds = search(rest, enough_of_one, threads);
        if (seconds.empty()) continue;
        diagnosis.causes.push_back(report_of(first, evidence, report));
        FoundCause second = report_of(seconds[0], rest, report);
        if (seconds[0].cause == first.cause || is_one_store(first, seconds[0])) {
            add_parameters(second, evidence, diagnosis.causes.back());
        } else {
            diagnosis.then.push_back(std::move(second));
        }
        return true;
    }
    return false;
}

/// Places of which every other one may be without the second mistake: place / step % 2.
struct Halves {
    ElementPlace place;
    std::int64_t step;
};

constexpr Halves halves[] = {
    {ElementPlace::batch, 1},   {ElementPlace::head, 1}, {ElementPlace::q_block, 1}, {ElementPlace::row, 1},
    {ElementPlace::row, 8},     {ElementPlace::row, 16}, {ElementPlace::col, 1},     {ElementPlace::col, 4},
    {ElementPlace::kv_tile, 1}, {ElementPlace::rose, 1},
};

/// Where one mistake is made among the elements of the other, neither is seen alone but in a part of them.
bool find_pair_in_parts(const Evidence& evidence, const Report& report, int threads, Diagnosis& diagnosis) {
    constexpr std::size_t most_tiles = 3;
    constexpr std::int64_t least_wrong = 16;
    // Each part is a search of its own: of large tiles few are worth their time.
    constexpr std::int64_t most_elements = 24'000;
    std::int64_t elements = 0;
    for (const Halves& half : halves) {
        for (const std::int64_t side : {0, 1}) {
            const Evidence part = part_of(
                evidence, most_tiles, [&](const SearchedTile& site, Eigen::Index row, Eigen::Index col) {
                    return place_of(half.place, site, evidence.observed, row, col) / half.step % 2 == side;
                });
            if (part.wrong_elements < least_wrong) continue;
            for (const Observation& seen : part.seen) elements += seen.got.size();
            if (elements > most_elements) return false;
            std::vector<Found> firsts = search(part, enough_of_one, threads);
            if (firsts.empty()) continue;
            Found& first = firsts[0];
            first.left = misfit_of(evidence, first.candidate.change).anywhere();
            const bool is_enough =
                double(first.left) <= (1 - enough_of_two) * double(evidence.wrong_elements);
            if (is_enough && add_pair(first, evidence, report, threads, diagnosis)) return true;
        }
    }
    return false;
}

/// Two mistakes of the same stage.
void find_pair(const Evidence& evidence, const Report& report, int threads, Diagnosis& diagnosis) {
    const std::vector<Found> firsts = single_causes(evidence, enough_of_two, threads);
    for (std::size_t i = 0; i < std::min<std::size_t>(firsts.size(), 3); ++i)
        if (add_pair(firsts[i], evidence, report, threads, diagnosis)) return;
    const bool is_first = evidence.observed == *report.guilty;
    if (is_first && acting_stages(*evidence.world, evidence.observed).size() == 1)
        find_pair_in_parts(evidence, report, threads, diagnosis);
}

std::string what_separates(const std::vector<Found>& found, const Evidence& evidence) {
    if (found.size() < 2 || !are_tied(found[0], found[1], evidence)) return "";
    for (std::size_t i = 0; i < found.size() && are_tied(found[0], found[i], evidence); ++i)
        if (!found[i].cause->separate_with.empty()) return std::string(found[i].cause->separate_with);
    return "";
}

/// The causes of one stage that diverges.
void diagnose(const Evidence& evidence, const Report& report, const CauseOptions& options,
              Diagnosis& diagnosis) {
    const bool is_first = evidence.observed == *report.guilty;
    if (evidence.wrong_elements > 0) {
        std::vector<Found> found = single_causes(evidence, enough_of_one, options.threads);
        // NaN goes on from what is wrong before: it tells of no other mistake.
        if (!is_first) std::erase_if(found, [](const Found& one) { return !one.by_value; });
        if (std::ssize(found) > options.most) found.resize(std::size_t(options.most));
        for (const Found& one : found) diagnosis.causes.push_back(report_of(one, evidence, report));
        rank(found, evidence, diagnosis.causes);
        diagnosis.separate_with = what_separates(found, evidence);
        if (diagnosis.causes.empty()) find_pair(evidence, report, options.threads, diagnosis);
    }
    diagnosis.threads = wrong_threads(*evidence.world, evidence);
    diagnosis.places = places_told(report, evidence);
    if (diagnosis.causes.empty()) {
        diagnosis.causes = found_places(*evidence.world, report, evidence, diagnosis.threads);
    } else if (report.stage(evidence.observed).tally.conflicting > 0) {
        diagnosis.then.push_back(racing(report, evidence));
    }
}

/// What is done with the running state: "not_carried" of m_not_carried, l_not_carried and acc_not_carried.
std::string_view without_stage(std::string_view name) {
    for (const std::string_view state : {"m_", "l_", "acc_"})
        if (name.starts_with(state)) return name.substr(state.size());
    return name;
}

/// m, l and acc go through the same recurrence. A form has its name of how it was found: in two stages it is the same
/// mistake only with the same numbers.
bool is_same_mistake(const FoundCause& a, const FoundCause& b) {
    const bool is_same = a.stage == b.stage || a.parameters == b.parameters || a.name == racing_name;
    const bool is_of_recurrence = a.family == "recurrence" && b.family == "recurrence";
    return is_same &&
           (a.name == b.name || (is_of_recurrence && without_stage(a.name) == without_stage(b.name)));
}

bool is_told(const Diagnosis& diagnosis, const FoundCause& told) {
    const auto is = [&](const FoundCause& cause) { return is_same_mistake(cause, told); };
    return std::ranges::any_of(diagnosis.causes, is) || std::ranges::any_of(diagnosis.then, is);
}

/// One mistake that explains two stages is likelier than two: of the causes that explain the first wrong
/// stage, those come first that are best in a later stage as well. Whether there are any.
bool prefer_those_of(std::span<const FoundCause> later, std::vector<FoundCause>& causes) {
    const auto is_of_both = [&](const FoundCause& cause) {
        return std::ranges::any_of(
            later, [&](const FoundCause& other) { return other.rank == 1 && is_same_mistake(other, cause); });
    };
    const auto best = std::ranges::find_if(causes, is_of_both);
    if (best == causes.end()) return false;
    const auto is_preferred = [&, rank = best->rank](const FoundCause& cause) {
        return cause.rank == rank && is_of_both(cause);
    };
    const auto others = std::stable_partition(causes.begin(), causes.end(), is_preferred);
    for (auto cause = causes.begin(); cause != causes.end(); ++cause)
        cause->rank = cause < others ? 1 : int(cause - causes.begin()) + 1;
    return true;
}

/// The cause of a later stage, where it is not that of the first, and what was written again.
void add_further(const Diagnosis& further, Diagnosis& diagnosis) {
    const bool is_known = !further.causes.empty() && !further.causes[0].structural;
    if (is_known && !prefer_those_of(further.causes, diagnosis.causes) &&
        !is_told(diagnosis, further.causes[0]))
        diagnosis.then.push_back(further.causes[0]);
    for (const std::vector<FoundCause>* told : {&further.causes, &further.then}) {
        for (const FoundCause& cause : *told)
            if (cause.name == racing_name && !is_told(diagnosis, cause)) diagnosis.then.push_back(cause);
    }
}

/// The best cause of the first wrong stage, and those of later ones.
std::vector<FoundCause> known_mistakes(const Diagnosis& diagnosis) {
    std::vector<FoundCause> known = diagnosis.then;
    if (!diagnosis.causes.empty()) known.push_back(diagnosis.causes[0]);
    return known;
}

/// Whether the stage is as it should be if the first wrong one were right: then the kernel went on with other
/// values than it dumped.
bool is_right_without_the_first(const Evidence& evidence, const Report& report, const CauseOptions& options) {
    CauseSearch other(evidence.world->recording(), options.compare, report.confidence, options.check);
    other.hide(*report.guilty);
    Evidence hidden = evidence;
    hidden.world = &other;
    hidden.acts = *report.guilty;
    return misfit_of(hidden, {}).anywhere() == 0;
}

/// Stages that diverge by themselves, too: given the dumped stages before them.
void diagnose_further(const CauseSearch& world, const Report& report, const CauseOptions& options,
                      Diagnosis& diagnosis) {
    for (const StageInfo& info : stages_of(report.problem)) {
        if (is_named(info.stage) || info.stage <= *report.guilty ||
            !report.stage(info.stage).tally.diverges())
            continue;
        const Evidence evidence = collect_evidence(world, report, info.stage, options.threads);
        if (evidence.wrong_elements == 0 || is_right_without_the_first(evidence, report, options)) continue;
        if (follows_from(known_mistakes(diagnosis), evidence)) continue;
        Diagnosis further;
        diagnose(evidence, report, options, further);
        add_further(further, diagnosis);
    }
}

}  // namespace

Diagnosis find_causes(const Recording& recording, const Report& report, const CauseOptions& options) {
    Diagnosis diagnosis;
    // The table's mistakes are those of kernels that keep P relative to m, and acc without l.
    if (has_own_units(recording.units()) && report.guilty && *report.guilty >= Stage::m) return diagnosis;
    if (!report.guilty || !report.other.empty() || is_named(*report.guilty)) return diagnosis;
    diagnosis.searched = true;
    const CauseSearch world(recording, options.compare, report.confidence, options.check);
    diagnose(collect_evidence(world, report, *report.guilty, options.threads), report, options, diagnosis);
    diagnose_further(world, report, options, diagnosis);
    return diagnosis;
}

}  // namespace tilescope
