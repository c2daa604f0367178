#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/describe/changed_slot.h"
#include "oracle/program/observe_program.h"
#include "oracle/program/stored_at.h"

namespace tilescope {

/// Arrays by the names of stages: along the axes of the stage. Of a state along the blocks first, or without these the state
/// after the last block. Of what hooks recorded a part may be there.
class StoredArrays final : public StoredTiles {
 public:
    /// Errors: Error for a stage that the program does not have, and for another shape.
    StoredArrays(const ProgramCall& call, const std::map<std::string, ProgramInput>& stored);

    bool has(int stage) const override { return arrays_[std::size_t(stage)].bits.data() != nullptr; }
    void read(const ProgramTile& tile, std::span<double> out, std::span<char> known) const override;
    std::int64_t conflicts(int stage) const override { return arrays_[std::size_t(stage)].conflicts; }
    std::vector<SourceLine> hooks(int stage) const override { return arrays_[std::size_t(stage)].hooks; }

 private:
    const ProgramCall& call_;
    std::vector<ProgramInput> arrays_;  ///< as Program::arrays
};

struct ProgramElement {
    std::vector<std::int64_t> index;  ///< of each axis of the stage
    std::int64_t block = -1;          ///< of the axis that it goes over; -1: none
    double got = 0;
    double expected = 0;
    double tolerance = 0;

    /// How many times its tolerance it is off; infinity where one of both is no number.
    double times() const;
};

/// What was found in the stored elements of a stage, each against the stored stages before it.
struct StageVerdict {
    int stage = -1;
    std::int64_t compared = 0;
    std::int64_t outside = 0;
    /// Outside of what the inputs alone give; and of these, those that agree with the stored stages before them. Both are counted where
    /// something is wrong and ProgramOptions ask for it.
    std::int64_t outside_end_to_end = 0;
    std::int64_t inherited = 0;
    /// Nobody wrote it, among those outside unless the kernel may leave it out: where a condition does in the formula, and where a
    /// block changes nothing in a state.
    std::int64_t unwritten = 0;
    std::int64_t conflicts = 0;       ///< writes that changed an element already written
    std::vector<SourceLine> hooks{};  ///< that recorded it, where that is known
    /// Nothing can be told: it is computed from NaN, or the tolerance is infinite, or as large as everything that is expected around the element.
    std::int64_t not_judged = 0;
    double largest_difference = 0;
    double budget_used = 0;               ///< largest difference over tolerance of those that match
    std::vector<ProgramElement> worst;    ///< most times its tolerance first; at most 5
    std::vector<ProgramElement> samples;  ///< of those outside, spread over all of them; at most 8
};

/// The formula of a stage, as nodes of its program.
struct StageFormula {
    int stage = -1;
    int value = -1;

    bool operator==(const StageFormula&) const = default;
};

/// What a kernel computed in place of a formula, so that what it stored is as expected.
struct ProgramMistake {
    int stage = -1;             ///< array: whose formula it is
    std::string slot{};         ///< what stands otherwise in it: "index", "factor", "term", "guard", ...
    std::string becomes{};      ///< the formula that explains it
    std::string where{};        ///< condition that the elements meet in which it is so; empty: in all
    std::int64_t elements = 0;  ///< looked at
    double explained = 0;       ///< share of the elements looked at that are as expected by it
    std::int64_t open =
        0;               ///< of these elements, that it reads beyond an array, where nobody knows what stands
    double healthy = 0;  ///< share that is as expected by the program
    double bits = 0;     ///< length of the description
    bool is_none = false;          ///< what is stored is no number by it
    bool is_known = false;         ///< kernels are known to do it
    bool is_part = false;          ///< it explains a part of what is wrong
    bool explains_others = false;  ///< and what other stages stored wrongly
    bool is_narrower = false;  ///< what it leaves are numbers of a narrower type: its tolerance may be wider

    // As nodes of FoundMistakes::program.
    int seen_in = -1;    ///< array: the stage that is wrong
    int value = -1;      ///< the formula, or what the state starts from
    int condition = -1;  ///< of the elements that have it; -1: all
    bool is_start = false;
    std::vector<StageFormula>
        also{};                ///< of other stages, in which the same number of the kernel stands otherwise
    Dtype dtype = Dtype::f32;  ///< that the result is stored in
    /// Where it is stored, the formula being as it should be; nullopt: at its own place.
    std::optional<StoredAt> store{};

    bool operator==(const ProgramMistake&) const = default;
};

/// Whether it stands behind the name of its stage as it is, and not behind a sign of equality.
bool is_said_of_stage(const ProgramMistake& mistake);

struct FoundMistakes {
    std::vector<ProgramMistake> mistakes{};
    /// Some of what is wrong is no number, and some is: the mistakes explain the numbers alone.
    bool sets_none_apart = false;
    /// Where there is no number then; nullopt: no condition tells it.
    std::optional<ProgramMistake> besides{};
    /// Where no formula is found the condition that the wrong elements meet, and no others; empty: none tells it.
    std::string wrong_where{};
    bool wrong_is_none = false;                ///< and are infinite, or no number
    bool is_cut_off = false;                   ///< the search took too long, and was not made to its end
    std::shared_ptr<const Program> program{};  ///< null: nothing was searched
    /// Of other wrong stages, to which these mistakes do not lead.
    std::vector<FoundMistakes> then{};
    int seen_in = -1;  ///< array: the wrong stage
};

/// What the elements are that meet `wrong_where`.
std::string_view word_of_wrong(const FoundMistakes& found);

/// "explains 50 % of the elements looked at, the program 0 %", and of how many nobody knows.
std::string evidence_text(const ProgramMistake& mistake);
/// So many that what explains the others is no more than likely.
bool is_mostly_open(const ProgramMistake& mistake);

/// What of its formula is otherwise; none where nothing but its places are known.
std::vector<ChangedSlot> slots_of(const Program& found_in, const ProgramMistake& mistake);
std::vector<ChangedSlot> slots_of(const FoundMistakes& found, const ProgramMistake& mistake);

/// How a stage came out, from the best to the worst.
enum class ProgramStageState : std::uint8_t { ok, not_judged, inherited, wrong, first_wrong };
std::string_view to_string(ProgramStageState state);

struct ProgramReport {
    std::vector<StageVerdict> stages;  ///< that were stored, in the order of the program
    int first_wrong = -1;              ///< array; -1: it matches
    int first_wrong_end_to_end = -1;   ///< the same, where ProgramOptions ask for it

    const StageVerdict& verdict_of(int stage) const;
};

ProgramStageState state_of(const ProgramReport& report, const StageVerdict& verdict);

/// Judges what a kernel stored. `options.stored` is not asked.
/// Errors: Error where nothing was stored, or nothing can be told of what was.
ProgramReport judge_program(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options = {});

/// Errors: Error where nothing is wrong, and most of an output that was stored cannot be judged: that is no match.
void require_judged_outputs(const Program& program, const ProgramReport& report);

/// "[1, 17, 3] after block 2 of k"
std::string place_text(const Program& program, int stage, const ProgramElement& element);

/// "3.25 +- 1.5e-06"; of what is stored in a narrower type the numbers of it that are right: "3.25 (bf16)", "3.234375 to 3.25 (bf16)".
std::string expected_text(Dtype dtype, double expected, double tolerance);

/// One sentence: which stage is the first wrong one, or that nothing diverges. The last line of every report. Of a longer formula it has
/// the beginning.
std::string verdict_line(const Program& program, const ProgramReport& report,
                         std::size_t most_of_formula = 100);

/// Which stage is the first wrong one end to end, where something is wrong.
std::string end_to_end_line(const Program& program, const ProgramReport& report);

/// A table of the stages, the worst elements of the first wrong one, what explains them, and the verdict.
std::string report_text(const ProgramCall& call, const ProgramReport& report,
                        const FoundMistakes& found = {});

}  // namespace tilescope
