#include "oracle/causes/prediction.h"

#include <algorithm>

#include "oracle/causes/evidence.h"

namespace tilescope {

namespace {

/// Elements that are not as the replay has them, where the cause was found to apply.
std::int64_t left_by(Scope scope, const Misfit& misfit) {
    switch (scope) {
        case Scope::bad_tiles:
            return misfit.in_bad_tiles();
        case Scope::bad_rows:
            return misfit.in_bad_rows;
        default:
            return misfit.anywhere();
    }
}

}  // namespace

Prediction predict(const FoundCause& cause, const Recording& recording, const Report& report,
                   const CauseOptions& options) {
    Prediction prediction;
    prediction.cause = cause;
    const CauseSearch world(recording, options.compare, report.confidence, options.check);
    Evidence evidence = collect_evidence(world, report, cause.observed, options.threads);
    prediction.compared = evidence.compared;
    prediction.wrong = evidence.wrong_elements;
    prediction.left = evidence.wrong_elements;
    if (evidence.wrong_elements == 0) return prediction;
    evidence.acts = cause.stage;
    const std::vector<Change>& changes = *cause.changes;
    if (changes.size() > 1)
        evidence = with_known(evidence, cause.stage, {changes.begin(), changes.end() - 1});
    const Misfit misfit = misfit_of(evidence, changes.back());
    if (misfit.tells_values()) prediction.left = std::min(prediction.wrong, left_by(cause.scope, misfit));
    return prediction;
}

}  // namespace tilescope
