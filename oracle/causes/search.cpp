#include "oracle/causes/search.h"

#include <algorithm>
#include <tuple>

#include "oracle/causes/in_parallel.h"

namespace tilescope {

namespace {

struct Trial {
    const Cause* cause;
    Candidate candidate;
    Misfit misfit;
};

std::vector<Trial> trials_of(const Evidence& evidence) {
    std::vector<Trial> trials;
    for (const Cause& cause : all_causes()) {
        if (std::ranges::find(cause.stages, evidence.acts) == cause.stages.end()) continue;
        for (Candidate& candidate : cause.candidates(evidence))
            trials.push_back({&cause, std::move(candidate), {}});
    }
    return trials;
}

/// Elements that one cause may leave more than another and still explain as much.
std::int64_t noise(const Evidence& evidence) {
    return evidence.wrong_elements / 1000;
}

/// The widest scope in which next to nothing is left.
void choose_scope(const Evidence& evidence, const Misfit& misfit, double enough, Found& found) {
    const auto most = std::int64_t(double(evidence.wrong_elements) * (1 - enough));
    const std::int64_t left[] = {misfit.anywhere(), misfit.in_bad_tiles(), misfit.in_bad_rows};
    for (int scope = 0; scope < 3; ++scope) {
        found.scope = Scope(scope);
        found.left = left[scope];
        if (found.left <= most) return;
    }
}

}  // namespace

bool are_tied(const Found& a, const Found& b, const Evidence& evidence) {
    return std::abs(a.left - b.left) <= noise(evidence) && a.cost() == b.cost();
}

std::vector<Found> search(const Evidence& evidence, double enough, int threads) {
    std::vector<Trial> trials = trials_of(evidence);
    in_parallel(trials.size(), threads, [&](std::size_t i) {
        evidence.world->check();
        trials[i].misfit = misfit_of(evidence, trials[i].candidate.change);
    });
    const std::int64_t grain = noise(evidence) + 1;
    const auto better = [&](const Found& a, const Found& b) {
        return std::tuple(a.left / grain, a.cost()) < std::tuple(b.left / grain, b.cost());
    };
    std::vector<Found> found;
    for (Trial& trial : trials) {
        Found next{trial.cause, std::move(trial.candidate), evidence.acts};
        choose_scope(evidence, trial.misfit, enough, next);
        if (double(next.left) > double(evidence.wrong_elements) * (1 - enough)) continue;
        if (!found.empty() && found.back().cause == next.cause) {
            if (better(next, found.back())) found.back() = std::move(next);
        } else {
            found.push_back(std::move(next));
        }
    }
    std::ranges::stable_sort(found, better);
    return found;
}

}  // namespace tilescope
