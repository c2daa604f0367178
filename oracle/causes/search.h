#pragma once

#include <vector>

#include "oracle/causes/cause.h"

namespace tilescope {

/// A cause with the replay that it was judged by.
struct Found {
    const Cause* cause = nullptr;
    Candidate candidate;
    Stage acts = Stage::q;
    Scope scope = Scope::everywhere;
    std::int64_t left = 0;  ///< elements of the scope that the replay does not reproduce
    bool by_value = false;  ///< it reproduces wrong elements that are not NaN

    /// Parameters that were free, a scope among them.
    int cost() const { return candidate.free_parameters + int(scope); }
};

/// The best candidate of each cause, best cause first. `enough`: share of what diverges that it must explain.
std::vector<Found> search(const Evidence& evidence, double enough, int threads);

/// Leaves out faults that too few wrong elements speak for: fewer than parameters; and where there are one or
/// two, all that has a parameter, is somewhere alone, is known from NaN, or has a rival. What is known only
/// from the NaN that it leaves in a later stage has no parameter and no rival of that kind either.
void leave_out_guesses(const Evidence& evidence, std::vector<Found>& found);

/// Whether the two explain as much with as many parameters.
bool are_tied(const Found& a, const Found& b, const Evidence& evidence);

}  // namespace tilescope
