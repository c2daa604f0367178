#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "oracle/describe/changed_slot.h"

namespace tilescope {

/// A number or a name that a cause was found with: "columns" and "-1".
struct CauseParameter {
    std::string name;
    std::string value;

    bool operator==(const CauseParameter&) const = default;
};

/// Numbers of warps, lanes or registers.
struct ThreadSet {
    std::vector<bool> all;    ///< that own anything
    std::vector<bool> wrong;  ///< that own what is wrong

    bool is_part() const { return wrong != all; }
};

/// The threads that own what is wrong: every combination of these. Source: the declared layout.
struct WrongThreads {
    ThreadSet warps;  ///< of the thread block
    ThreadSet lanes;
    ThreadSet registers;  ///< numbers of elements among those that a thread owns of a tile
    int warps_of_block = 0;
    int registers_of_thread = 0;
    std::int64_t elements = 0;      ///< wrong ones that were looked at
    bool among_right_ones = false;  ///< they own right elements as well; no other thread owns a wrong one
    std::string says;               ///< "warp 2 of 4, lanes 16-31, registers 0-1 of every 4"
};

struct Change;

/// Which part of a stage has the mistake: the smallest number that explains it. `ruled`: where Change::where says.
enum class Scope : std::uint8_t { everywhere, bad_tiles, bad_rows, ruled };

/// Of a stage whose formula is another one, in whatever it may be: what no other row describes.
inline constexpr std::string_view formula_name = "formula";

/// A mistake that explains why a stage diverges.
struct FoundCause {
    std::string_view name;
    std::string_view family;
    std::string_view says;      ///< what kernels with a cause of this name do wrong; says_of() is of this one
    std::string_view look_at;   ///< in the code; look_at_of() is of this one
    Stage stage = Stage::q;     ///< in which the mistake is made
    Stage observed = Stage::q;  ///< in which it shows first
    /// Share of the elements looked at that a replay reproduces within their budgets: without the mistake,
    /// and with it.
    double explained_before = 0;
    double explained_after = 0;
    std::int64_t elements = 0;  ///< looked at
    std::int64_t not_determined =
        0;  ///< of them: the replay says nothing of these, so it does not explain them
    std::vector<CauseParameter> parameters;
    /// What of the formula is otherwise, where that is an expression: "factor" and "factor * factor", "k" and "[batch][0][key][d]".
    std::vector<CauseParameter> rewrites;
    /// Of a formula: what of it is otherwise.
    std::vector<ChangedSlot> slots;
    /// Of a formula: "l -> l[b, h, 0]", where both are the same around it.
    std::vector<std::string> changed_parts;
    int free_parameters = 0;  ///< those of the parameters that were fitted to the dump
    double bits = 0;          ///< that it takes to write it down: name, parameters, where; 0 where structural
    double listed_bits = 0;   ///< that a list of the wrong elements would take
    std::string where;        ///< which tiles or rows have it; "everywhere"; where structural, which threads
    int rank = 1;             ///< causes that explain as much share one
    bool legal = false;       ///< no mistake: a variation that the dump does not declare
    bool structural = false;  ///< only the places are known: no replay knows the values
    bool race_alike =
        false;  ///< a missing barrier leaves the same numbers: one recording does not tell them apart
    bool leaves_rest = false;  ///< no known cause explains the wrong elements that it leaves
    /// What the replay does otherwise, for replayed_tiles(); null where structural. Refers to the recording.
    std::shared_ptr<const std::vector<Change>> changes;
    Scope scope = Scope::everywhere;
};

/// A value that something could be declared with: "s.cast" and "f16".
struct Assignment {
    std::string name;
    std::string value;

    bool operator==(const Assignment&) const = default;
};

/// How a search ended that did not come to its end.
struct SearchEnd {
    bool cut_off = false;  ///< it did all the work that it may do: more may be found without that bound
    std::vector<std::string> failed;  ///< its parts that failed, with why: "exp_base: not enough memory"

    bool is_whole() const { return !cut_off && failed.empty(); }
    /// Of another search for the same recording.
    void add(const SearchEnd& other);
};

/// Declarations that the recording lacks.
struct Suggestion {
    std::vector<Assignment> assignments;
    std::optional<Stage> then;  ///< first wrong stage with them; nullopt: it matches
    bool searched = false;      ///< for causes of what remains; false: nothing does, or none are known of it
    /// The best of them, as judged with the declarations, and those as good; their `changes` are null.
    std::vector<FoundCause> causes;
    SearchEnd end = {};  ///< of the search for them
};

/// How much of what is wrong the mistake of another recording explains.
struct Prediction {
    std::string of;                   ///< the other recording
    std::optional<FoundCause> cause;  ///< as found there; nullopt: none that a replay knows
    std::int64_t compared = 0;        ///< elements that were looked at
    std::int64_t wrong = 0;           ///< of them
    std::int64_t left = 0;            ///< not as the replay has them
    /// What it says of the values holds in the rows that are wrong here, and not its condition of places.
    bool elsewhere = false;

    /// As a cause has to do that is found here.
    bool holds() const { return wrong > 0 && left <= wrong / 100; }
};

/// Why a stage diverges by itself, given the dumped stages before it.
enum class AnswerKind : std::uint8_t {
    covered,      ///< by what was found in a stage before
    own_cause,    ///< another mistake than those of the stages before
    unexplained,  ///< no known cause explains it
    not_searched  ///< not all causes were tried: the search was cut off, or failed
};

/// What is known of a stage that diverges by itself.
struct StageAnswer {
    Stage stage = Stage::q;
    AnswerKind kind = AnswerKind::unexplained;
    std::string_view cause;        ///< of the stage, or that covers it; "": not known
    std::optional<Stage> made_in;  ///< the stage of that cause
    /// Earlier wrong stages: with these computed instead of read the stage is right.
    std::vector<Stage> computed;
    bool made_again = false;  ///< covered by a mistake that is made in this stage as well
};

/// Why a recording diverges.
struct Diagnosis {
    std::optional<Suggestion> suggestion;  ///< of suggest_declarations(), where it was asked
    bool searched = false;                 ///< false: no causes are known for what diverges
    std::vector<FoundCause> causes;        ///< of the first wrong stage, best first; empty: none explains it
    std::vector<FoundCause> then;          ///< found in the replay that contains the first
    std::vector<std::string> places;       ///< "one NaN at batch 0, head 1, row 3, column 5"; none of many
    std::optional<WrongThreads> threads;   ///< of the first wrong stage, where they tell right from wrong
    std::optional<Prediction> prediction;  ///< of predict(), where it was asked
    std::string separate_with;       ///< options of tile-run that would tell ties apart; "" without ties
    std::vector<Stage> record_next;  ///< not recorded, and would tell ties, or a load from its reader, apart
    std::vector<StageAnswer> answers;  ///< of each stage that diverges by itself, in order of computation
    SearchEnd end;  ///< how the search for all of this ended, where that was before its end

    /// Whether all causes of the first wrong stage were tried.
    bool tried_all() const;
};

/// "covered", "own cause", "unexplained" or "not searched".
std::string_view to_string(AnswerKind kind);

/// "covered by kv_head_modulo in k, which is made here as well".
std::string text_of(const StageAnswer& answer);

/// "record q and k, which they leave different": of Diagnosis::record_next.
std::string record_text(const std::vector<Stage>& stages);

/// "diagonal_shifted (columns 1)", "score_constant (s 2.0 * sum(d: q * k))".
std::string title_of(const FoundCause& cause);

/// As title_of(), but without the formula: "score_constant", "formula (adds 1.0 after its loop)".
std::string headline_of(const FoundCause& cause);

/// The same where says_of() stands beside it: "formula".
std::string label_of(const FoundCause& cause);

/// "s = 2.0 * sum(d: q * k)": what headline_of() leaves out, else "".
std::string formula_of(const FoundCause& cause);

/// What the kernel does wrong, one sentence.
std::string says_of(const FoundCause& cause);

/// What to look at in the kernel.
std::string look_at_of(const FoundCause& cause);

/// That the search was cut off, and what of it failed, a line each; none where it came to its end.
std::vector<std::string> lines_of(const SearchEnd& end);

/// "33.33 %"; never rounded up to all of them.
std::string percent_of(double share);

/// "87.5 % of 512 elements, 64 not determined": what the cause explains.
std::string explained_text(const FoundCause& cause);

}  // namespace tilescope
