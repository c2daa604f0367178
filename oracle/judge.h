#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "dump/recording.h"
#include "dump/schema/error.h"
#include "oracle/formula/budget.h"
#include "oracle/judge/report.h"
#include "oracle/judge/tally.h"

namespace tilescope {

class WorkSharing;
struct TilesFound;

struct JudgeOptions {
    CompareOptions compare;
    double confidence =
        default_confidence;  ///< that no budget fails a healthy kernel anywhere in the recording
    int threads = 0;         ///< 0: as many as there are cores
    /// Called from any thread with how many query blocks and KV tiles of how many are done.
    std::function<void(std::int64_t done, std::int64_t total)> progress;
    /// Called from any thread with each captured tile and what it should hold, in the dump's units.
    TileObserver observe;
    /// The same, after `observe`, of tiles that may have inherited an error: with what the inputs alone give.
    InheritedObserver observe_inherited;
    std::optional<std::pair<std::int64_t, std::int64_t>> only_head;  ///< batch and head; nullopt: all of them
    std::optional<std::int64_t> only_q_block;                        ///< nullopt: all of them
    /// With only_q_block or only_head: something diverges in the part that is not judged, so dk and dv, which
    /// sum over all query blocks, may have inherited an error from there.
    bool may_inherit = false;
    /// observe_inherited is shown every tile, also where nothing before it diverges.
    bool end_to_end_everywhere = false;
    /// A query block is judged no further than to the KV tile in which this stage or one before it diverges, and
    /// what inherited that is not counted; nullopt: all of it.
    std::optional<Stage> until;
    /// Those that judge it together, all with these options; null: this process alone. `progress` and the observers see what
    /// this process judges of it.
    WorkSharing* sharing = nullptr;
    /// What was found in the tiles already, by judge_tiles() with these options; null: nothing yet.
    const TilesFound* tiles = nullptr;
};

/// Thrown where tiles were looked at and a report was made, but neither "match" nor "diverged" would be true.
class NoVerdict : public Error {
 public:
    NoVerdict(const std::string& what, const std::string& where, const std::string& what_to_do, Report report)
        : Error(what, where, what_to_do) {
        report.unjudged = Error::what();
        report_ = std::make_shared<const Report>(std::move(report));
    }
    /// What was found all the same.
    const Report& report() const { return *report_; }

 private:
    std::shared_ptr<const Report> report_;
};

/// The run did not complete (a trap, a hang, a killed process). Everything that it did record matches; what
/// it would have computed next is not known.
class UnfinishedRun : public NoVerdict {
    using NoVerdict::NoVerdict;
};

/// Judges every captured tile against the float64 oracle, stage-local and end to end.
/// Memory does not grow with the recording: one query block a thread, and the K and V of its head.
/// Errors: Error when the recording cannot be judged: nothing captured, tiles dropped, no inputs, semantics
/// that the oracle does not know, or an unreadable tile. NoVerdict when nothing but named tiles was captured.
/// UnfinishedRun, see there.
Report judge(const Recording& recording, const JudgeOptions& options);

/// Compares the tiles that both recordings hold. The tolerance of an element is the sum of what rounding may
/// have done to it in either run, end to end. A named tile has none of that kind, since nobody knows how it
/// is computed: its values must be equal, unless tolerances are given. Errors: Error when the problems or the
/// inputs differ, or nothing was captured by both. UnfinishedRun, see there.
Report judge_pair(const Recording& recording, const Recording& other, const JudgeOptions& options);

}  // namespace tilescope
