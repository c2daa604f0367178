#include "oracle/causes/find_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "oracle/causes/ancestry.h"
#include "oracle/causes/answers.h"
#include "oracle/causes/consequences.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/places.h"
#include "oracle/causes/search.h"
#include "oracle/causes/where.h"
#include "oracle/causes/wrong_threads.h"
#include "oracle/formula/own_units.h"
#include "oracle/identify/description.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// One of two mistakes explains at least so much.
constexpr double enough_of_two = 0.2;
constexpr std::string_view unwritten_family = "unwritten / stale";

/// Tiles or rows that no words tell.
bool is_vague(std::string_view where) {
    return where.starts_with("some ") || where.ends_with("...");
}

std::string where_told(const Found& found, const Evidence& evidence, const Report& report) {
    if (found.scope == Scope::everywhere) return "everywhere";
    if (found.scope == Scope::ruled) return "where " + found.rule;
    const std::string where = where_of(evidence, report, found.scope == Scope::bad_rows);
    const auto ruled = is_vague(where) ? with_rule(evidence, found.candidate.change) : std::nullopt;
    return ruled ? "where " + ruled->rule : where;
}

/// Of the parts that have the mistake, where no rule tells them: the tiles, or the rows, that diverge.
double bits_of_parts(Scope scope, const Evidence& evidence) {
    std::int64_t bad = 0;
    std::int64_t all = 0;
    for (const Observation& seen : evidence.seen) {
        bad += scope == Scope::bad_rows ? std::ranges::count(seen.bad_rows, true) : int(seen.is_bad());
        all += scope == Scope::bad_rows ? std::ssize(seen.bad_rows) : 1;
    }
    return choice_bits(bad, all);
}

/// All that the report says of it, and what that leaves open of where it is.
double bits_of(const FoundCause& cause, const Evidence& evidence) {
    const std::string text =
        fmt::format("{} {} {}", title_of(cause), stage_info(cause.stage).name, cause.where);
    return description_bits(text) + (is_vague(cause.where) ? bits_of_parts(cause.scope, evidence) : 0);
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
    cause.bits = bits_of(cause, evidence);
    const auto& all = report.stage(evidence.observed).tally;
    cause.listed_bits = listing_bits(all.outside, all.compared);
    return cause;
}

void rank(const std::vector<Found>& found, const Evidence& evidence, std::vector<FoundCause>& causes) {
    for (std::size_t i = 0; i < causes.size(); ++i)
        causes[i].rank =
            i > 0 && are_tied(found[i], found[i - 1], evidence) ? causes[i - 1].rank : int(i) + 1;
}

/// Of a cause that explains it in several stages the best, and those that are as good in another stage: which of
/// them it is one recording does not tell.
void keep_best_of_each(const Evidence& evidence, std::vector<Found>& found) {
    std::vector<Found> kept;
    for (Found& one : found) {
        const auto best =
            std::ranges::find(kept, one.cause->name, [](const Found& other) { return other.cause->name; });
        const bool is_in_same_stage = std::ranges::any_of(kept, [&](const Found& other) {
            return other.cause->name == one.cause->name && other.acts == one.acts;
        });
        if (best == kept.end() || (are_tied(*best, one, evidence) && !is_in_same_stage))
            kept.push_back(std::move(one));
    }
    found = std::move(kept);
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
    for (const Stage acts : acting_stages(evidence)) {
        Evidence here = evidence;
        here.acts = acts;
        // Tiles of a dumped stage that are not there were likelier skipped than computed otherwise.
        const bool is_of_missing_tiles = acts != evidence.observed && evidence.world->has(acts);
        for (Found& found : search(here, share, threads))
            if (!is_of_missing_tiles || found.cause->name == skipped_kv_tile_name)
                all.push_back(std::move(found));
    }
    std::ranges::stable_sort(all, [&](const Found& a, const Found& b) {
        const std::int64_t grain = evidence.wrong_elements / 1000 + 1;
        return std::pair(a.left / grain, a.cost()) < std::pair(b.left / grain, b.cost());
    });
    keep_best_of_each(evidence, all);
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
    if (is_first && acting_stages(evidence).size() == 1)
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
        // Of those that share a rank the shortest is shown first.
        std::ranges::stable_sort(diagnosis.causes, {},
                                 [](const FoundCause& cause) { return std::pair(cause.rank, cause.bits); });
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

StageAnswer covered_by(const FoundCause& cause, Stage stage) {
    return {stage, AnswerKind::covered, cause.name, cause.stage, {}};
}

bool is_of_wide_budget(const FoundCause& cause) {
    return cause.changes && cause.changes->back().widens;
}

/// Why a stage after the first wrong one diverges by itself, given the dumped stages before it.
StageAnswer answer_of(const Evidence& evidence, const Report& report, const CauseOptions& options,
                      Diagnosis& diagnosis) {
    const Stage stage = evidence.observed;
    if (const auto answer = answer_from_dump(evidence, report, diagnosis)) return *answer;
    const std::vector<FoundCause> covering = causes_that_cover(evidence, diagnosis);
    if (!covering.empty()) {
        prefer_those_of(covering, diagnosis.causes);
        return covered_by(covering[0], stage);
    }
    const std::vector<FoundCause> known = known_mistakes(diagnosis);
    if (!known.empty() && follows_from(known, evidence)) return covered_by(known.back(), stage);
    Diagnosis further;
    diagnose(evidence, report, options, further);
    // What wide budgets leave open is within those of a cast as well.
    const std::vector<Stage> open = leave_open(evidence, report, options.threads);
    if (!open.empty()) std::erase_if(further.causes, is_of_wide_budget);
    StageAnswer answer = answer_from_search(stage, further, diagnosis);
    if (answer.kind == AnswerKind::unexplained) answer.computed = open;
    add_further(further, diagnosis);
    return answer;
}

void answer_further(const CauseSearch& world, const Report& report, const CauseOptions& options,
                    Diagnosis& diagnosis) {
    for (const StageInfo& info : stages_of(report.problem)) {
        if (state_of(report, info.stage) != StageState::wrong_too || is_named(info.stage)) continue;
        const Evidence evidence = collect_evidence(world, report, info.stage, options.threads);
        diagnosis.answers.push_back(answer_of(evidence, report, options, diagnosis));
    }
}

/// What would tell causes apart that explain the first wrong stage as well as each other.
void tell_ties_apart(const Evidence& evidence, Diagnosis& diagnosis) {
    const bool is_tied = diagnosis.causes.size() > 1 && diagnosis.causes[1].rank == 1;
    if (!is_tied) diagnosis.separate_with.clear();
    diagnosis.record_next = stages_that_tell(*evidence.world, evidence.blocks, diagnosis.causes);
}

/// Of P in units of its own the table's mistakes are not: they keep it relative to the running maximum.
bool can_be_replayed(const Units& units, Stage guilty) {
    if (guilty < Stage::m || !has_own_units(units)) return true;
    return guilty != Stage::p && !units.m_from_lse && !units.p_normalised;
}

}  // namespace

Diagnosis find_causes(const Recording& recording, const Report& report, const CauseOptions& options) {
    Diagnosis diagnosis;
    if (report.guilty && !can_be_replayed(recording.units(), *report.guilty)) return diagnosis;
    if (!report.guilty || !report.other.empty() || is_named(*report.guilty)) return diagnosis;
    diagnosis.searched = true;
    CauseSearch world(recording, options.compare, report.confidence, options.check);
    world.leave_out(options.without);
    const Evidence evidence = collect_evidence(world, report, *report.guilty, options.threads);
    diagnose(evidence, report, options, diagnosis);
    answer_further(world, report, options, diagnosis);
    // Later stages may prefer one of the causes.
    diagnosis.answers.insert(diagnosis.answers.begin(), answer_from_search(*report.guilty, diagnosis, {}));
    tell_ties_apart(evidence, diagnosis);
    return diagnosis;
}

}  // namespace tilescope
