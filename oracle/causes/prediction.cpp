#include "oracle/causes/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "dump/schema/error.h"
#include "oracle/causes/evidence.h"
#include "oracle/causes/formula_change.h"

namespace tilescope {

namespace {

/// Errors: Error where they differ: a mistake is known by the places of one kernel's tiles.
void require_same_tiles(const Problem& then, const Problem& now, const std::string& where) {
    const auto says = [](const Problem& of) {
        return fmt::format("{} x {} with head_dim {} and {}", of.block_m, of.block_n, of.head_dim,
                           of.head_dim_v);
    };
    if (says(then) == says(now) && then.direction == now.direction) return;
    throw Error(
        fmt::format("its tiles are {}, those that the mistake was found in {}", says(now), says(then)), where,
        "take a recording of the same kernel, with the same tiles and head_dim, in the same direction");
}

/// Without the elements that the cause leaves open, such as memory before the first tile: of these it predicts nothing.
Evidence without_open(const Evidence& evidence, const std::vector<Change>& changes) {
    if (!evidence.direct()) return evidence;
    std::map<TileId, Matrix> errors;
    for (const Observation& seen : evidence.seen)
        errors[seen.site.id] = expected_with(changes, evidence.observed, seen.site).error;
    return part_of(evidence, evidence.seen.size(),
                   [&](const SearchedTile& site, Eigen::Index row, Eigen::Index col) {
                       return !std::isinf(errors.at(site.id)(row, col));
                   });
}

}  // namespace

Prediction predict(const FoundCause& cause, const Problem& problem, const Recording& recording,
                   const Report& report, const CauseOptions& options) {
    require_same_tiles(problem, recording.problem(), recording.name());
    Prediction prediction;
    prediction.cause = cause;
    const CauseSearch world(recording, options.compare, report.confidence, options.check);
    Evidence evidence = collect_evidence(world, report, cause.observed, options.threads);
    evidence.acts = cause.stage;
    evidence = without_open(evidence, *cause.changes);
    prediction.compared = evidence.compared;
    prediction.wrong = evidence.wrong_elements;
    prediction.left = evidence.wrong_elements;
    if (evidence.wrong_elements == 0) return prediction;
    const std::vector<Change>& changes = *cause.changes;
    if (changes.size() > 1)
        evidence = with_known(evidence, cause.stage, {changes.begin(), changes.end() - 1});
    const Misfit misfit = misfit_of(evidence, changes.back());
    if (misfit.tells_values()) prediction.left = std::min(prediction.wrong, left_by(cause.scope, misfit));
    // A number that a condition takes from one call, as the last of its batch entries, is another one of the next.
    const std::optional<Change> anywhere =
        prediction.holds() ? std::nullopt : without_condition(changes.back(), cause.stage);
    if (!anywhere) return prediction;
    const Misfit of_rows = misfit_of(evidence, *anywhere);
    const std::int64_t left = std::min(prediction.wrong, left_by(Scope::bad_rows, of_rows));
    if (!of_rows.tells_values() || left >= prediction.left) return prediction;
    prediction.left = left;
    prediction.elsewhere = true;
    return prediction;
}

}  // namespace tilescope
