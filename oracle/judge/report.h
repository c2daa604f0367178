#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/recording.h"
#include "dump/schema/text.h"
#include "oracle/judge/diagnosis.h"
#include "oracle/judge/reached.h"
#include "oracle/judge/references.h"
#include "oracle/judge/tally.h"
#include "oracle/judge/writers.h"

namespace tilescope {

enum class Verdict : std::uint8_t { match, diverged };

/// Deviation of the dumped running state from the exact one after a KV tile: the largest over all rows, end
/// to end. Infinity where a dumped value is not finite although the exact one is.
struct Drift {
    double m = 0;    ///< absolute, natural units
    double l = 0;    ///< relative to the exact l
    double acc = 0;  ///< relative to the largest exact |acc| of the row
};

/// An element of the first tile with conflicts that was written more than once.
struct WrittenAgain {
    Element element;
    ElementWriter writer;
};

struct StageReport {
    bool captured = false;
    StageTally tally;
    std::vector<SourceLine> hooks;               ///< that recorded it, where the recording says
    std::optional<WriterCounts> writers;         ///< nullopt where the recording does not say
    std::optional<WrittenAgain> first_repeated;  ///< the same, and where nothing conflicts
    /// What the stage does that healthy kernels do and no attribute declares; empty: nothing. Then it is not
    /// judged.
    std::string undeclared;
};

/// What tile-diff has to say about a recording, or about two.
struct Report {
    std::string recording;
    std::string other;  ///< the recording it is compared with; empty: the oracle
    Problem problem;
    Units units;
    std::vector<std::string> options;  ///< of options_of()
    Provenance provenance;
    ThreadLayouts threads;
    std::string ended;                ///< how the recorded run ended
    std::optional<RunReach> reached;  ///< how far it came, where it did not complete
    std::string unjudged;             ///< why it is no match although nothing diverges; empty where it is one
    Verdict verdict = Verdict::match;
    std::optional<Stage> guilty;              ///< first stage, in order of computation, that diverges
    std::optional<Element> first_divergence;  ///< of the guilty stage, first in order of KV tiles
    std::optional<Stage> narrowed_to;  ///< the stage that is shown, in place of all and of the guilty one
    std::optional<std::int64_t> narrowed_row;
    std::optional<std::int64_t> narrowed_kv_tile;
    std::array<StageReport, stage_count> stages;
    /// Names of the named tiles that were captured and that nothing was compared with.
    std::vector<std::string> without_reference;
    std::vector<Drift> drift;  ///< for each KV tile; empty where none of m, l, acc was captured
    /// Judged beside the kernel: they change no verdict. Empty where another recording is compared with.
    std::vector<ReferenceReport> references;
    double confidence = 0;  ///< that the derived tolerances fail no healthy kernel anywhere in the recording
    std::optional<double> atol;  ///< tolerances given by hand, in place of the derived ones
    std::optional<double> rtol;
    std::vector<std::string> warnings;
    Diagnosis diagnosis;  ///< of find_causes(), where it was asked

    const StageReport& stage(Stage which) const { return stages[static_cast<std::size_t>(which)]; }
    std::int64_t compared() const;
};

/// How a stage came out.
enum class StageState : std::uint8_t {
    not_captured,
    not_compared,
    not_judged,    ///< within tolerances that tell nothing
    not_declared,  ///< see StageReport::undeclared
    ok,
    inherited,
    wrong_too,
    first_wrong
};
StageState state_of(const Report& report, Stage stage);
/// As the report's table has it. Of two recordings neither is blamed.
std::string_view state_text(const Report& report, Stage stage);

/// The element's coordinates in the tensor as a kernel author says them.
std::string tensor_place_of(const Problem& problem, Stage stage, const Element& element);

/// Nullopt where the stage's threads are not declared.
std::optional<Owner> owner_of(const Problem& problem, const ThreadLayouts& threads, Stage stage,
                              const Element& element);

/// The same as tensor_place_of(), the row in its tile and, where it is declared, the thread that owns it.
std::string place_of(const Problem& problem, const ThreadLayouts& threads, Stage stage,
                     const Element& element);

/// The value with all its digits; NaN of either sign is "nan".
std::string digits_of(double value);

/// What the element holds and should hold.
std::string values_of(const Element& element);

/// What a row holds that sees no key.
std::string_view name_of(EmptyRow empty);

}  // namespace tilescope
