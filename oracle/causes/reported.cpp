#include "oracle/causes/reported.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "oracle/causes/formula_change.h"
#include "oracle/causes/where.h"
#include "oracle/describe/bits.h"
#include "oracle/runs/found_places.h"

namespace tilescope {

namespace {

PlaceTold where_told(const Found& found, const Evidence& evidence, const Report& report) {
    if (found.scope == Scope::everywhere) return {"everywhere"};
    if (found.scope == Scope::ruled) return {"where " + found.rule};
    const PlaceTold where = where_of(seen_tiles_of(evidence), report, found.scope == Scope::bad_rows);
    if (!where.is_vague) return where;
    // What it changes may stand in an earlier stage than the one that shows it.
    Evidence acting = evidence;
    acting.acts = found.acts;
    const auto ruled = with_rule(acting, found.candidate.change);
    return ruled ? PlaceTold{"where " + ruled->rule} : where;
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

double bits_of_place(const FoundCause& cause, bool is_vague, const Evidence& evidence) {
    if (cause.scope == Scope::everywhere) return 0;
    return description_bits(cause.where) + (is_vague ? bits_of_parts(cause.scope, evidence) : 0);
}

/// What tells it from every other: its name and stage, which parameters follow and what they are, whether a place follows
/// and which, and what that leaves open. How the report writes it, keys and brackets, is known from the name.
double bits_of(const FoundCause& cause, bool is_vague, const Evidence& evidence) {
    constexpr double key = 2;
    constexpr double whether_a_place_follows = 1;
    double bits = description_bits(fmt::format("{} {}", cause.name, stage_info(cause.stage).name)) +
                  whether_a_place_follows;
    for (const CauseParameter& parameter : cause.parameters) bits += key + description_bits(parameter.value);
    return bits + bits_of_place(cause, is_vague, evidence);
}

/// What it explains of the elements looked at, and what a list of those that are wrong would take.
void take_shares(const Found& found, const Evidence& evidence, const Report& report, FoundCause& cause) {
    cause.elements = evidence.compared;
    cause.explained_before = 1 - double(evidence.wrong_elements) / double(evidence.compared);
    cause.not_determined = std::min(found.open, evidence.compared);
    const std::int64_t left = std::min(found.left + found.open - found.open_left, evidence.compared);
    cause.explained_after = 1 - double(left) / double(evidence.compared);
    const auto& all = report.stage(evidence.observed).tally;
    cause.listed_bits = listing_bits(all.outside, all.compared);
}

}  // namespace

FoundCause report_of(const Found& found, const Evidence& evidence, const Report& report) {
    FoundCause cause = told_of(*found.cause, evidence.observed);
    // A declaration holds of the whole kernel: what is done in some places by a rule, none allows.
    const bool is_in_places = found.cause->legal && found.scope == Scope::ruled;
    cause.legal = found.cause->legal && !is_in_places;
    if (is_in_places) cause.look_at = "the condition under which it is done: a declaration holds everywhere";
    cause.race_alike = found.cause->race_alike || found.candidate.race_alike;
    const auto& made = found.candidate.made;
    const bool is_made_before = made && found.scope == Scope::everywhere;
    cause.stage = is_made_before ? made->first : found.acts;
    cause.scope = found.scope;
    std::vector<Change> changes = evidence.beneath;
    changes.insert(changes.end(), evidence.known.begin(), evidence.known.end());
    changes.push_back(is_made_before ? made->second : found.candidate.change);
    cause.changes = std::make_shared<const std::vector<Change>>(std::move(changes));
    take_shares(found, evidence, report, cause);
    cause.parameters = found.candidate.parameters;
    cause.rewrites = found.candidate.change.indices;
    cause.free_parameters = found.candidate.free_parameters;
    const Candidate& candidate = found.candidate;
    cause.slots = candidate.slots;
    cause.changed_parts = candidate.parts;
    const PlaceTold where =
        candidate.where.empty() ? where_told(found, evidence, report) : PlaceTold{"where " + candidate.where};
    if (!candidate.where.empty()) cause.scope = Scope::ruled;
    cause.where = where.text;
    // A formula has its length, and its own places in it.
    const double of_place = candidate.where.empty() ? bits_of_place(cause, where.is_vague, evidence) : 0;
    cause.bits = candidate.bits > 0 ? candidate.bits + of_place : bits_of(cause, where.is_vague, evidence);
    return cause;
}

FoundCause as_seen_in(const Evidence& evidence, const Report& report, FoundCause cause) {
    Found found;
    found.scope = cause.scope;
    const Change change = change_in(cause.changes->back().formula, evidence.observed);
    take_misfit(misfit_of(evidence, change), found);
    take_shares(found, evidence, report, cause);
    cause.stage = cause.observed = evidence.observed;
    cause.changes = std::make_shared<const std::vector<Change>>(1, change);
    return cause;
}

}  // namespace tilescope
