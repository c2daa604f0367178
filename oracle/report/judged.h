#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "oracle/judge/report.h"
#include "oracle/program/judge_recording.h"
#include "oracle/ranks/rank_report.h"
#include "oracle/runs/same_run.h"

namespace tilescope {

/// A recording that could not be judged, and the one line that says why.
struct Unjudged {
    std::string recording;
    std::string reason;
};

/// How tile-diff came out.
using Outcome = std::variant<Report, SameRun, RankReport, JudgedProgram, Unjudged>;

/// How a recording came out, from the best to the worst. `known`: it diverges as a baseline says.
enum class Came : std::uint8_t { match, known, diverged, unjudged };

/// The words that reports have for them.
std::string_view to_string(Came came);

/// The exit code of a program that judges: 0, 0, 1, 2.
int exit_code_of(Came came);

/// A recording among others: what a line of a list says.
struct JudgedRecording {
    std::string recording;
    std::string other;  ///< that it is compared with; empty: the oracle
    Came came = Came::unjudged;
    std::string stage;       ///< first wrong one; empty: nothing diverges, or nothing was judged
    std::string place;       ///< of the first wrong element
    std::string cause;       ///< see cause_in()
    std::string wrong_too;   ///< further stages that diverge by themselves: "l o"
    std::string headline;    ///< one sentence, also where it could not be judged
    std::string reason;      ///< why it could not be judged, or why its divergence is accepted
    double wrong_share = 0;  ///< of the elements of the first wrong stage
    /// Of several ranks: later steps are computed from what it holds, and the outputs at the end from all of them.
    std::int64_t step = 0;
    double seconds = 0;
};

/// Whether `one` is told of rather than `other`: it is of an earlier step, or a larger part of its first wrong stage is wrong.
bool is_worse(const JudgedRecording& one, const JudgedRecording& other);

/// The cause by its name, "declare s.scaled=true", "unexplained", "search cut off", "search failed", or "not searched"; "" where nothing diverges.
std::string cause_in(const Report& report);

/// Everything but the time, and whether its divergence is known.
JudgedRecording judged_of(const Outcome& outcome);

/// How many of each.
struct JudgedCounts {
    std::size_t match = 0;
    std::size_t known = 0;
    std::size_t diverged = 0;
    std::size_t unjudged = 0;
    double seconds = 0;  ///< of all of them, as if one after the other
};
JudgedCounts count_judged(std::span<const JudgedRecording> all);

/// "3 recordings: 1 match, 1 diverged, 1 could not be judged"
std::string counts_text(const JudgedCounts& counts);

/// The largest exit code of them; that of what could not be judged where there is none.
int exit_code_of(std::span<const JudgedRecording> all);

/// The diverging one that is_worse() than all, the first of equals; null where none diverges.
const JudgedRecording* worst_of(std::span<const JudgedRecording> all);

}  // namespace tilescope
