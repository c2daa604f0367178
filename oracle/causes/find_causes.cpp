#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "oracle/causes/causes.h"
#include "oracle/causes/places.h"
#include "oracle/causes/search.h"
#include "oracle/causes/wrong_threads.h"

namespace tilescope {

namespace {

/// Of what diverges, so much must be as the replay has it.
constexpr double enough = 0.99;
/// One of two mistakes explains at least so much.
constexpr double enough_of_two = 0.2;

/// Stages that a stage is computed from.
std::vector<Stage> before(Stage stage) {
    switch (stage) {
        case Stage::s:
            return {Stage::q, Stage::k};
        case Stage::m:
            return {Stage::s};
        case Stage::p:
            return {Stage::s, Stage::m};
        case Stage::l:
            return {Stage::m, Stage::p};
        case Stage::acc:
            return {Stage::v, Stage::m, Stage::p};
        case Stage::o:
            return {Stage::m, Stage::l, Stage::acc};
        case Stage::lse:
            return {Stage::m, Stage::l};
        default:
            return {};
    }
}

/// The stages in which a mistake may lie that shows first in `observed`: itself, and those before it that
/// were not dumped.
std::vector<Stage> acting_stages(const World& world, Stage observed) {
    std::vector<Stage> stages = {observed};
    for (std::size_t i = 0; i < stages.size(); ++i) {
        for (const Stage stage : before(stages[i])) {
            if (!world.has(stage) && std::ranges::find(stages, stage) == stages.end())
                stages.push_back(stage);
        }
    }
    std::ranges::sort(stages);
    return stages;
}

FoundCause report_of(const Found& found, const Evidence& evidence, const Report& report) {
    FoundCause cause;
    cause.name = found.cause->name;
    cause.family = found.cause->family;
    cause.says = found.cause->says;
    cause.look_at = found.cause->look_at;
    cause.legal = found.cause->legal;
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
    cause.where = found.scope == Scope::everywhere
                      ? "everywhere"
                      : where_of(evidence, report, found.scope == Scope::bad_rows);
    return cause;
}

void rank(const std::vector<Found>& found, const Evidence& evidence, std::vector<FoundCause>& causes) {
    for (std::size_t i = 0; i < causes.size(); ++i)
        causes[i].rank =
            i > 0 && are_tied(found[i], found[i - 1], evidence) ? causes[i - 1].rank : int(i) + 1;
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
    return all;
}

/// Two mistakes of the same stage: the second explains what the first leaves, where both are made or where
/// the first is not.
void find_pair(const Evidence& evidence, const Report& report, int threads, Diagnosis& diagnosis) {
    const std::vector<Found> firsts = single_causes(evidence, enough_of_two, threads);
    for (std::size_t i = 0; i < std::min<std::size_t>(firsts.size(), 3); ++i) {
        const Found& first = firsts[i];
        Evidence here = evidence;
        here.acts = first.acts;
        const Evidence rests[] = {with_known(here, first.acts, {first.candidate.change}),
                                  without_explained(here, first.candidate.change)};
        for (const Evidence& rest : rests) {
            if (rest.wrong_elements == 0 || rest.wrong_elements >= evidence.wrong_elements) continue;
            const std::vector<Found> seconds = search(rest, enough, threads);
            if (seconds.empty()) continue;
            diagnosis.causes.push_back(report_of(first, evidence, report));
            diagnosis.then.push_back(report_of(seconds[0], rest, report));
            return;
        }
    }
}

std::string what_separates(const std::vector<Found>& found, const Evidence& evidence) {
    if (found.size() < 2 || !are_tied(found[0], found[1], evidence)) return "";
    for (std::size_t i = 0; i < found.size() && are_tied(found[0], found[i], evidence); ++i)
        if (!found[i].cause->separate_with.empty()) return std::string(found[i].cause->separate_with);
    return "";
}

/// The causes of one stage that diverges.
void diagnose(const World& world, const Report& report, Stage observed, const CauseOptions& options,
              Diagnosis& diagnosis) {
    const Evidence evidence = collect_evidence(world, report, observed, options.threads);
    if (evidence.wrong_elements > 0) {
        std::vector<Found> found = single_causes(evidence, enough, options.threads);
        if (std::ssize(found) > options.most) found.resize(std::size_t(options.most));
        for (const Found& one : found) diagnosis.causes.push_back(report_of(one, evidence, report));
        rank(found, evidence, diagnosis.causes);
        diagnosis.separate_with = what_separates(found, evidence);
        if (found.empty()) find_pair(evidence, report, options.threads, diagnosis);
    }
    diagnosis.threads = wrong_threads(world, evidence);
    if (diagnosis.causes.empty()) diagnosis.causes = found_places(world, report, evidence, diagnosis.threads);
}

/// One mistake that explains two stages is likelier than two: of the causes that explain the first wrong
/// stage, the one that a later stage has as well comes first.
void prefer(std::string_view name, std::vector<FoundCause>& causes) {
    const auto found = std::ranges::find(causes, name, &FoundCause::name);
    if (found == causes.end() || found->rank == 1) return;
    std::rotate(causes.begin(), found, found + 1);
    for (std::size_t i = 0; i < causes.size(); ++i) causes[i].rank = int(i) + 1;
}

/// Stages that diverge by themselves, too: given the dumped stages before them.
void diagnose_further(const World& world, const Report& report, const CauseOptions& options,
                      Diagnosis& diagnosis) {
    for (const StageInfo& info : stages_of(report.problem)) {
        if (is_named(info.stage) || info.stage <= *report.guilty ||
            !report.stage(info.stage).tally.diverges())
            continue;
        Diagnosis further;
        diagnose(world, report, info.stage, options, further);
        if (further.causes.empty() || further.causes[0].structural) continue;
        const FoundCause& next = further.causes[0];
        prefer(next.name, diagnosis.causes);
        const bool known = !diagnosis.causes.empty() && diagnosis.causes[0].name == next.name;
        if (!known) diagnosis.then.push_back(next);
    }
}

}  // namespace

std::string title_of(const FoundCause& cause) {
    std::string text(cause.name);
    for (std::size_t i = 0; i < cause.parameters.size(); ++i)
        text +=
            fmt::format("{}{} {}", i == 0 ? " (" : ", ", cause.parameters[i].name, cause.parameters[i].value);
    return cause.parameters.empty() ? text : text + ")";
}

Diagnosis find_causes(const Recording& recording, const Report& report, const CauseOptions& options) {
    Diagnosis diagnosis;
    const bool forward = recording.problem().direction == Direction::forward;
    if (!forward || !report.guilty || !report.other.empty() || is_named(*report.guilty)) return diagnosis;
    diagnosis.searched = true;
    const World world(recording, options.compare, report.confidence, options.check);
    diagnose(world, report, *report.guilty, options, diagnosis);
    diagnose_further(world, report, options, diagnosis);
    return diagnosis;
}

}  // namespace tilescope
