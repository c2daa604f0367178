#include "oracle/causes/find_causes.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "oracle/causes/answers.h"
#include "oracle/causes/consequences.h"
#include "oracle/causes/reported.h"
#include "oracle/causes/search.h"
#include "oracle/causes/two_mistakes.h"
#include "oracle/formula/own_units.h"
#include "oracle/runs/found_places.h"

namespace tilescope {

namespace {

/// Of the work that is left.
constexpr double share_of_pairs = 0.9;

void rank(const std::vector<Found>& found, const Evidence& evidence, std::vector<FoundCause>& causes) {
    // Others may stand between two that are tied.
    for (std::size_t i = 0; i < causes.size(); ++i) {
        std::size_t first = 0;
        while (first < i && !are_tied(found[i], found[first], evidence)) ++first;
        causes[i].rank = first < i ? causes[first].rank : int(i) + 1;
    }
}

std::string what_separates(const std::vector<Found>& found, const Evidence& evidence) {
    const auto is_tied = [&](const Found& one) { return are_tied(found[0], one, evidence); };
    if (std::ranges::count_if(found, is_tied) < 2) return "";
    for (const Found& one : found)
        if (is_tied(one) && !one.cause->separate_with.empty()) return std::string(one.cause->separate_with);
    return "";
}

/// The causes of one stage that diverges.
void diagnose(const Evidence& evidence, const Report& report, const CauseOptions& options,
              Diagnosis& diagnosis) {
    Attempts& attempts = evidence.world->attempts();
    const bool is_first = evidence.observed == *report.guilty;
    if (evidence.wrong_elements > 0) {
        const SingleCauses singles(evidence, is_first, options.threads);
        std::vector<Found> found = singles.explaining(enough_of_one);
        // NaN goes on from what is wrong before: it tells of no other mistake.
        if (!is_first)
            std::erase_if(found, [](const Found& one) { return !one.by_value || one.candidate.lacks_guard; });
        if (std::ssize(found) > options.most) found.resize(std::size_t(options.most));
        for (const Found& one : found) diagnosis.causes.push_back(report_of(one, evidence, report));
        rank(found, evidence, diagnosis.causes);
        // Of those that share a rank the shortest is shown first; last those that list tiles, since that says nothing of
        // other tiles.
        std::ranges::stable_sort(diagnosis.causes, {}, [](const FoundCause& cause) {
            return std::tuple(cause.rank, cause.scope == Scope::bad_tiles, cause.bits);
        });
        diagnosis.separate_with = what_separates(found, evidence);
        if (diagnosis.causes.empty())
            attempts.one(SearchPart::pairs, share_of_pairs, [&] {
                Diagnosis with_two = diagnosis;
                find_two(evidence, singles, report, options.threads, with_two);
                diagnosis = std::move(with_two);
            });
    }
    attempts.uncounted(SearchPart::threads, [&] {
        diagnosis.threads = wrong_threads(evidence.world->recording(), seen_tiles_of(evidence));
    });
    attempts.uncounted(SearchPart::places, [&] {
        diagnosis.places = places_told(report, seen_tiles_of(evidence));
        if (diagnosis.causes.empty()) {
            diagnosis.causes =
                found_places(evidence.world->recording(), report, seen_tiles_of(evidence), diagnosis.threads);
            for (FoundCause& cause : diagnosis.causes) tell(cause);
        } else if (report.stage(evidence.observed).tally.conflicting > 0) {
            diagnosis.then.push_back(racing(report, seen_tiles_of(evidence)));
            tell(diagnosis.then.back());
        }
    });
    if (diagnosis.causes.empty() && is_first && evidence.world->leaves_formulas_open())
        attempts.one(formula_name, share_of_pairs, [] { throw EffortUsedUp(); });
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

/// The causes of a stage after the first wrong one, of which the best is in Diagnosis::then.
struct Further {
    std::vector<FoundCause> causes;
    std::size_t told;
};

/// Of causes of a stage before that explain it as well, the one that a later stage has, too, is told.
void prefer_in_stages_before(std::span<const FoundCause> later, std::vector<Further>& before,
                             Diagnosis& diagnosis) {
    for (Further& further : before) {
        if (!prefer_those_of(later, further.causes)) continue;
        const FoundCause& best = further.causes[0];
        diagnosis.then[further.told] = best;
        const auto answer = std::ranges::find(diagnosis.answers, best.observed, &StageAnswer::stage);
        answer->cause = best.name;
        answer->made_in = best.stage;
    }
}

/// The cause of a later stage, where it is none that is told already, and what was written again.
void add_further(const Diagnosis& further, const StageAnswer& answer, Diagnosis& diagnosis,
                 std::vector<Further>& all) {
    const bool is_known = !further.causes.empty() && !further.causes[0].structural;
    if (is_known && !prefer_those_of(further.causes, diagnosis.causes) &&
        answer.kind != AnswerKind::covered && !is_told(diagnosis, further.causes[0])) {
        all.push_back({further.causes, diagnosis.then.size()});
        diagnosis.then.push_back(further.causes[0]);
    }
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

bool is_proved_by_values(const Diagnosis& diagnosis) {
    return !diagnosis.causes.empty() && !diagnosis.causes[0].structural;
}

/// The causes of a later stage, alone or beside what may follow from mistakes that are known. First beside what makes clearly
/// less of it wrong, then beside what changes wrong elements alone, and last where nothing follows from those mistakes.
Diagnosis diagnose_beside(std::span<const Consequence> consequences, const Evidence& evidence,
                          const Report& report, const CauseOptions& options) {
    std::vector<Evidence> ways = {evidence};
    std::size_t before_alone = 0;
    for (const Consequence& consequence : consequences) {
        if (!consequence.change.inputs || !consequence.is_exact) continue;
        Evidence way = with_inputs(evidence, consequence.change);
        const bool is_less =
            double(way.wrong_elements) <= (1 - enough_of_two) * double(evidence.wrong_elements);
        if (!is_less && way.wrong_elements > evidence.wrong_elements) continue;
        ways.insert(is_less ? ways.begin() : ways.end(), std::move(way));
        before_alone += is_less;
    }
    for (const Consequence& consequence : consequences) {
        Evidence way = without_changed(evidence, consequence.change);
        // A few elements are no stage.
        const bool is_most = 2 * way.compared >= evidence.compared && way.compared < evidence.compared;
        if (way.wrong_elements > 0 && is_most) ways.push_back(std::move(way));
    }
    Diagnosis alone;
    for (std::size_t i = 0; i < ways.size(); ++i) {
        Diagnosis further;
        diagnose(ways[i], report, options, further);
        if (is_proved_by_values(further)) return further;
        if (i == before_alone) alone = std::move(further);
    }
    return alone;
}

/// Why a stage after the first wrong one diverges by itself, given the dumped stages before it.
StageAnswer answer_of(const Evidence& evidence, const Report& report, const CauseOptions& options,
                      Diagnosis& diagnosis, std::vector<Further>& before) {
    const Stage stage = evidence.observed;
    if (const auto answer = answer_from_dump(evidence, report, diagnosis)) return *answer;
    const std::vector<FoundCause> covering = causes_that_cover(evidence, diagnosis);
    if (!covering.empty()) {
        prefer_those_of(covering, diagnosis.causes);
        return covered_by(covering[0], stage);
    }
    const std::vector<FoundCause> known = known_mistakes(diagnosis);
    if (const FoundCause* cause = leaving_out(known, evidence)) return covered_by(*cause, stage);
    const std::vector<Consequence> consequences = consequences_of(known, evidence, report);
    if (const FoundCause* cause = explaining(evidence, consequences)) return covered_by(*cause, stage);
    Diagnosis further = diagnose_beside(consequences, evidence, report, options);
    // What wide budgets leave open is within those of a cast as well.
    const std::vector<Stage> open = leave_open(evidence, report, options.threads);
    if (!open.empty()) std::erase_if(further.causes, is_of_wide_budget);
    prefer_in_stages_before(further.causes, before, diagnosis);
    StageAnswer answer = answer_from_search(stage, further, diagnosis);
    if (answer.kind == AnswerKind::unexplained) answer.computed = open;
    add_further(further, answer, diagnosis, before);
    return answer;
}

/// The stage as one that was not searched, where no cause is known of it and some were not tried.
StageAnswer unless_cut_off(StageAnswer answer, bool tried_all) {
    if (answer.kind == AnswerKind::unexplained && !tried_all) answer.kind = AnswerKind::not_searched;
    return answer;
}

void answer_further(const CauseSearch& world, const Report& report, const CauseOptions& options,
                    Diagnosis& diagnosis) {
    std::vector<Further> before;
    for (const StageInfo& info : stages_of(report.problem)) {
        if (state_of(report, info.stage) != StageState::wrong_too || is_named(info.stage)) continue;
        const std::int64_t not_whole = world.attempts().not_whole();
        StageAnswer answer{info.stage, AnswerKind::unexplained, {}, {}, {}};
        world.attempts().uncounted(SearchPart::later_stages, [&] {
            const Evidence evidence = collect_evidence(world, report, info.stage, options.threads);
            answer = answer_of(evidence, report, options, diagnosis, before);
        });
        diagnosis.answers.push_back(
            unless_cut_off(std::move(answer), world.attempts().not_whole() == not_whole));
    }
}

/// What explains a later stage may explain the first one as well, where its own search found none: outputs of one state are rounded
/// otherwise.
void take_from_later(const Evidence& first, const Report& report, Diagnosis& diagnosis) {
    if (is_proved_by_values(diagnosis)) return;
    const auto has_formula = [](const FoundCause& one) {
        return one.changes && one.changes->size() == 1 && one.changes->back().formula;
    };
    Diagnosis later;
    std::ranges::copy_if(diagnosis.then, std::back_inserter(later.causes), has_formula);
    const std::vector<FoundCause> covering = causes_that_cover(first, later);
    if (covering.empty()) return;
    const FoundCause& cause = covering[0];
    std::erase_if(diagnosis.then, [&](const FoundCause& one) { return is_same_mistake(one, cause); });
    for (StageAnswer& answer : diagnosis.answers) {
        if (answer.kind != AnswerKind::own_cause || answer.cause != cause.name ||
            answer.made_in != cause.stage)
            continue;
        answer.kind = AnswerKind::covered;
        answer.made_in = first.observed;
        answer.made_again = true;
    }
    diagnosis.causes = {as_seen_in(first, report, cause)};
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

void find_causes(const Recording& recording, const Report& report, const CauseOptions& options,
                 Attempts& attempts, Diagnosis& diagnosis) {
    if (report.guilty && !can_be_replayed(recording.units(), *report.guilty)) return;
    if (!report.guilty || !report.other.empty() || is_named(*report.guilty)) return;
    diagnosis.searched = true;
    CauseSearch world(
        recording, options.compare, report.confidence, [&] { attempts.check(); }, &attempts);
    world.leave_out(options.without);
    Evidence evidence;
    const bool is_there = attempts.uncounted(SearchPart::evidence, [&] {
        evidence = collect_evidence(world, report, *report.guilty, options.threads);
        diagnose(evidence, report, options, diagnosis);
    });
    const bool tried_all = attempts.not_whole() == 0;
    answer_further(world, report, options, diagnosis);
    if (is_there)
        attempts.uncounted(SearchPart::later_stages, [&] { take_from_later(evidence, report, diagnosis); });
    // Later stages may prefer one of the causes.
    diagnosis.answers.insert(diagnosis.answers.begin(),
                             unless_cut_off(answer_from_search(*report.guilty, diagnosis, {}), tried_all));
    if (is_there) attempts.uncounted(SearchPart::ties, [&] { tell_ties_apart(evidence, diagnosis); });
}

Diagnosis find_causes(const Recording& recording, const Report& report, const CauseOptions& options) {
    Diagnosis diagnosis;
    Attempts attempts(options.effort, options.check, options.begins);
    attempts.run([&] { find_causes(recording, report, options, attempts, diagnosis); });
    diagnosis.end = attempts.end();
    return diagnosis;
}

}  // namespace tilescope
