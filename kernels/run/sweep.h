#pragma once

// Correctness over many problems: each is recorded, and judged by tile-diff.

#include <functional>
#include <string>
#include <vector>

#include "kernels/run/judge_process.h"
#include "kernels/run/request.h"

namespace tilescope {

/// One case and what came of it.
struct SweepCase {
    RunRequest request;
    Judgement judgement;
    double seconds = 0;  ///< to run and record it

    bool passed() const { return judgement.judged && judgement.match; }
};

struct SweepReport {
    std::vector<SweepCase> cases;       ///< those that were run, in order
    std::size_t planned = 0;            ///< with those that the budget left no time for
    std::vector<std::string> left_out;  ///< kernels that do not run here, and why

    std::size_t passed() const;
    std::size_t unjudged() const;
    const SweepCase* first_failure() const;  ///< null when there is none
};

struct SweepOptions {
    RunOptions run;          ///< what a case is asked for; what it leaves open is varied
    int jobs = 0;            ///< judges at a time; 0: one for two cores
    double time_budget = 0;  ///< seconds after which no case begins; 0: none
};

/// Every case that `options` ask for: of one kernel, or of all that run here; of one shape, or of all.
/// Errors: Error when there is none, and those of make_request for what was asked for by name.
std::vector<RunRequest> sweep_cases(const RunOptions& options, std::vector<std::string>& left_out);

/// Runs the cases one after the other, each judged by a process of its own. `done` sees each case when its
/// verdict is there, in order.
SweepReport run_sweep(const SweepOptions& options,
                      const std::function<void(const SweepReport& report)>& done);

/// The command that records and judges the case anew.
std::string command_of(const SweepCase& one);

std::string line_of(const SweepCase& one);
std::string to_text(const SweepReport& report);
std::string to_json(const SweepReport& report);
std::string to_csv(const SweepReport& report);

}  // namespace tilescope
