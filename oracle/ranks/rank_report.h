#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/judge/report.h"

namespace tilescope {

/// A stage of a part of a run.
struct PartStage {
    std::string name;      ///< of a stage, "merged_o" or "merged_lse"
    StageTally tally;      ///< of its elements
    bool arrived = false;  ///< it is an operand, held against what its owner has
};

/// What is wrong by itself, given what it was computed from.
struct RankFault {
    std::size_t part = 0;  ///< of RankReport::parts
    std::string stage;
    std::string place;     ///< of the first wrong element; empty where it is of no element
    std::string values;    ///< what it holds and should hold
    std::string cause;     ///< its name; empty: not explained
    std::string says;      ///< one clause
    std::string look_at;   ///< in the code
    bool searched = true;  ///< false: nothing looked for its cause
    double wrong_share = 0;
    int order = 0;  ///< of computation, within its step
};

/// A recording of a run.
struct RankPart {
    std::string recording;
    Shard shard;
    std::vector<PartStage> stages;  ///< what was held against other parts
    std::optional<Report> report;   ///< of its own tiles
    std::string unjudged;           ///< why its own tiles are not judged, where it has some
    bool inherits = false;          ///< its outputs are wrong, and right from what the rank merged
};

/// What tile-diff has to say about the recordings of a call on several ranks.
struct RankReport {
    std::string recording;  ///< the folder, or what else names them all
    std::string run;
    Problem whole;
    std::int64_t ranks = 0;
    std::vector<RankPart> parts;
    std::vector<RankFault> faults;     ///< the first is the first wrong one: by step, stage and rank
    std::vector<std::string> missing;  ///< what was not recorded, and what of it is not judged
    std::string unjudged;              ///< why it is no match although nothing diverges

    bool diverges() const { return !faults.empty(); }
    std::int64_t compared() const;
};

/// "ok", the first wrong stage by itself, "from k" where it may have inherited, "-" where nothing was judged.
std::string word_of(const RankReport& report, std::size_t part);

/// One sentence: what diverges first and where, or that nothing does.
std::string verdict_line(const RankReport& report);

}  // namespace tilescope
