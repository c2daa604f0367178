#pragma once

#include <string>
#include <utility>
#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// A cause with the replay that it was judged by.
struct Found {
    const Cause* cause = nullptr;
    Candidate candidate;
    Stage acts = Stage::q;
    Scope scope = Scope::everywhere;
    std::string rule;                ///< where it applies, with Scope::ruled
    int scope_cost = 0;              ///< of saying where it applies, in parameters
    std::int64_t left = 0;           ///< elements of the scope that the replay does not reproduce
    std::int64_t open = 0;           ///< elements of the scope that the replay leaves open
    std::int64_t open_left = 0;      ///< those of them that are among `left`
    std::int64_t open_anywhere = 0;  ///< elements of all tiles that it leaves open
    bool by_value = false;           ///< it reproduces wrong elements that are not NaN

    /// What it was free to choose: fitted parameters, numbers fitted besides, where it applies, and the form. Less is
    /// better.
    int cost() const {
        return candidate.free_parameters + int(candidate.fitted) + scope_cost + int(cause->form);
    }
};

/// What the replay leaves and leaves open in the scope of `found`.
void take_misfit(const Misfit& misfit, Found& found);

/// The best candidate of each cause, best cause first. `enough`: share of what diverges that it must explain.
std::vector<Found> search(const Evidence& evidence, double enough, int threads);

/// Leaves out faults that too few wrong elements speak for:
/// - those that explain fewer elements than they have parameters, or than twice their fitted numbers;
/// - those known from a later stage that holds one number wherever it is wrong: so do most mistakes that leave 0;
/// - those known only from NaN in a later stage, if they have a parameter or another such fault would do;
/// - those that leave zeros in o, if other mistakes would do;
/// - those that explain one or two elements, if they have a parameter or a scope, are known from NaN alone,
///   or another fault would do.
void leave_out_guesses(const Evidence& evidence, std::vector<Found>& found);

/// Whether the two explain as much with as many parameters.
bool are_tied(const Found& a, const Found& b, const Evidence& evidence);

/// A candidate, and how well its replay fits.
struct Trial {
    const Cause* cause;
    Candidate candidate;
    Misfit misfit;
};

/// The causes of any stage that may be to blame, each replayed once.
class SingleCauses {
 public:
    /// `is_first`: it shows in the first wrong stage.
    SingleCauses(const Evidence& evidence, bool is_first, int threads);
    /// All that explain so much of what diverges, best first.
    std::vector<Found> explaining(double share) const;

 private:
    bool is_explained(bool without_numbers) const;

    Evidence evidence_;
    std::vector<std::pair<Stage, std::vector<Trial>>> trials_;  ///< of each stage
};

}  // namespace tilescope
