#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "oracle/program/conditions.h"
#include "oracle/program/judge_program.h"
#include "oracle/program/tile_run.h"

namespace tilescope {

/// An element of a part, with what is known of it.
struct LookedElement {
    AxisIndices at{};
    double got = 0;
    bool is_right = false;  ///< by the program as it is
    bool is_known = true;
    bool is_none = false;  ///< no number, where one is expected
    double off = 0;        ///< how far it is from what that expects
};

using LookAtElement = std::function<void(const LookedElement&, Uncertain expected)>;

/// A part of the call: some indices of its independent axes. Few of them, around an element, which a replay takes little time for;
/// or a tile.
struct CallPart {
    AxisRanges ranges{};
    std::vector<LookedElement> elements;  ///< of the stage that is wrong
    std::vector<StoredStage>
        results;  ///< of stages that were not stored, healthy; others are empty, and all where whole ones are known
    mutable RememberedNumbers remembered{};
};

/// What a rewrite makes of the elements of some parts.
struct RewriteOutcome {
    bool is_possible = false;  ///< it explains nearly all of what was wrong
    std::int64_t wrong = 0;    ///< by the program as it is
    std::int64_t right = 0;
    std::int64_t apart = 0;        ///< wrong, and set apart: what is none of the numbers
    std::int64_t apart_right = 0;  ///< of these, what is none by the rewritten program as well
    std::int64_t unexplained = 0;  ///< wrong before, and still
    std::int64_t open = 0;         ///< wrong before, and read beyond an array now
    std::int64_t swallowed =
        0;  ///< wrong before, and within a tolerance now that the right value passes as well
    /// Bits: how much nearer to what is explained it is than the program as it is. NaN and what overflows have none.
    double evidence = 0;
    std::vector<const LookedElement*> explained;
    std::vector<const LookedElement*> broken;      ///< right before, and wrong with it
    std::vector<const LookedElement*> right_open;  ///< right before, and read beyond an array now
};

/// Numbers are those of a narrower type: binary digits that they lack.
struct LostDigits {
    Dtype type = Dtype::f32;
    int digits = 0;
    int carried = 0;  ///< that sums of such numbers have beside those of the type

    bool lacks(double number) const;
};

/// What a search for mistakes looks at: the stage that is wrong, those before it that may be so unseen, and parts of the call.
class SearchedCall {
 public:
    /// All of these must outlive it, but for the program, of which it has its own. `kept_as`: the type that the wrong stage is taken to
    /// be stored in.
    SearchedCall(const ProgramCall& call, const StoredTiles& stored, const ProgramReport& report,
                 const ProgramOptions& options, std::optional<Dtype> kept_as = std::nullopt);
    SearchedCall(const SearchedCall&) = delete;
    SearchedCall& operator=(const SearchedCall&) = delete;

    Program& program() { return program_; }
    const ProgramCall& call() const { return call_; }
    const ProgramOptions& options() const { return options_; }
    const StoredTiles& stored() const { return stored_; }
    const StageVerdict& verdict() const { return verdict_; }
    int wrong() const { return wrong_; }
    /// The wrong stage, and those that it is computed from and that were not stored; they rise.
    const std::vector<int>& rewritten() const { return rewritten_; }
    /// Stages as they were stored, but for the wrong one.
    const std::map<int, StoredStage>& known() const { return known_; }

    const std::vector<CallPart>& tiles() const { return tiles_; }
    /// Some of what is wrong is none of the numbers of the stage's type.
    bool is_kept_wider() const;
    /// Some of what is wrong is no number, and some is: the search is for what explains the numbers.
    bool sets_none_apart() const { return sets_none_apart_; }

    /// Replays the parts, or the tiles, with the program as it is now, which differs from the declared one in `stage`.
    /// `share`: of what was wrong, that it has to explain to be possible.
    RewriteOutcome outcome_in_parts(int stage, double share) const {
        if (!explains_a_probe(stage, share)) return {};
        return outcome_in(parts_, stage, share);
    }
    RewriteOutcome outcome_in_tiles(int stage, double share) const {
        return outcome_in(tiles_, stage, share);
    }
    /// What the program as it is now expects of the elements of some rows, most of them wrong: of `most` of them at most.
    void look_at_rows(int stage, std::size_t most, const LookAtElement& look) const;
    /// The same of the elements of all parts.
    void look_at_parts(int stage, const LookAtElement& look) const;
    /// With all that is known.
    TileRun run_of(const AxisRanges& ranges, const ObserveTile& observe) const;

    /// Of the numbers that the wrong stage holds by the program as it is now; nullopt: they have as many as by the declared one.
    std::optional<LostDigits> lost_digits() const;
    /// Whether a stage is computed from another, directly or by way of what was not stored.
    bool takes_part_in(int stage, int reader) const;

 private:
    void choose_stages();
    void find_steady();
    /// A state as it was stored, with what the program begins it with now.
    bool starts_are_declared() const;
    const StoredStage& started(int stage, const StoredStage& stored) const;
    double elements_of(int stage) const;
    void read_own_states();
    void compute_healthy();
    void choose_parts();
    void set_none_apart();
    void look_at(CallPart& part) const;
    CallPart around(const std::vector<std::int64_t>& index, std::int64_t most) const;
    CallPart row_around(const std::vector<std::int64_t>& index) const;
    CallPart tile_around(const std::vector<std::int64_t>& index) const;
    void replay(const CallPart& part, int stage, const LookAtElement& look) const;
    bool explains_a_probe(int stage, double share) const;
    RewriteOutcome outcome_in(const std::vector<CallPart>& parts, int stage, double share) const;

    Program program_;
    ProgramCall call_;
    const StoredTiles& stored_;
    int wrong_;
    ProgramOptions options_;
    const StageVerdict& verdict_;
    std::vector<int> rewritten_;
    bool goes_round_ = false;  ///< a stage takes the state of a later one
    std::map<int, StoredStage> known_;
    /// Of the wrong stage, as stored, where these are few; it is what a formula takes of them, unless it begins otherwise.
    std::optional<StoredStage> own_states_;
    std::vector<int> declared_starts_;
    std::vector<char> steady_;  ///< nodes of the declared program that take no stage which is computed
    mutable std::map<int, StoredStage>
        started_;                          ///< states that were stored, which begin with something else
    Dtype declared_type_ = Dtype::f32;     ///< of its numbers
    Dtype declared_addends_ = Dtype::f32;  ///< of what each block adds to it
    std::map<int, StoredStage> healthy_;   ///< whole stages that were not stored, where these are small
    std::vector<CallPart> probes_;         ///< of one element each, for what explains nothing
    std::vector<CallPart> rows_;
    std::vector<CallPart> parts_;
    std::vector<CallPart> tiles_;
    bool sets_none_apart_ = false;
};

/// Of the elements that were wrong, and of those that were right, that a mistake has to explain.
inline constexpr double most_of_wrong = 0.98;
/// That one of two mistakes explains.
inline constexpr double enough_of_wrong = 0.2;
inline constexpr double most_of_right = 0.998;
/// Of what is wrong, as many right elements as one of two mistakes may leave so by chance.
inline constexpr double broken_by_chance = 0.01;
/// Of what was wrong, and of what was right, that may be read where nothing is known: an index twice as large leads half of a tile out of it.
inline constexpr double most_open = 0.7;
inline constexpr double most_open_of_right = 0.5;

}  // namespace tilescope
