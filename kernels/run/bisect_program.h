#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilescope {

/// What git bisect is to look for.
struct BisectOptions {
    std::vector<std::string> command;  ///< builds the commit that is checked out, and runs what records
    std::string stage;                 ///< that has to diverge by itself; empty: any
    std::string cause;                 ///< that has to be named; empty: any
    std::string baseline;              ///< of tile-diff: what is known and counts as a match
};

enum class CommitState : std::uint8_t { good, bad, skipped };

/// What git bisect is told of a commit, and the line that says why.
struct CommitVerdict {
    CommitState state = CommitState::skipped;
    std::string why;
    int interrupted_by = 0;  ///< the signal that asked this process to end meanwhile; 0: none
};

/// Runs the command with a TILESCOPE_DIR of its own, which is removed afterwards, and has tile-diff judge what it recorded
/// there. What fails, and what records nothing or nothing that can be judged, is skipped.
/// Errors: Error for a command that cannot be started, a cause that there is not, and a baseline that cannot be read.
CommitVerdict judge_commit(const BisectOptions& options);

}  // namespace tilescope
