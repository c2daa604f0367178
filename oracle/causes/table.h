#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/judge/diagnosis.h"

namespace tilescope {

/// A cause with its parameters found: worth a replay.
struct Candidate {
    std::vector<CauseParameter> parameters;
    Change change;
    /// Of the parameters, those that were fitted to the dump.
    int free_parameters = 0;
    /// Further numbers that were each fitted to a few elements, such as the maximum of each lane of each row.
    std::int64_t fitted = 0;
    /// The cause that it is called by; empty: that of whose candidates it is one.
    std::string_view name = {};
    /// Of a formula: the condition of the elements that have it, empty: all; its length; and what stands otherwise in it.
    std::string where = {};
    double bits = 0;
    std::vector<ChangedSlot> slots = {};
    std::vector<std::string> parts = {};
    bool race_alike = false;       ///< as Cause has it
    bool lacks_guard = false;      ///< of values, and nothing else: where these are no numbers it is none
    bool is_made_before = false;   ///< in a stage before the one that it was found in
    bool explains_others = false;  ///< and what other stages stored wrongly
    /// The same in the stage that it is made in, if that is another one than it was found in.
    std::optional<std::pair<Stage, Change>> made = {};
};

/// A row of the table of causes.
struct Cause {
    std::string_view name;
    std::string_view family;  ///< of attention kernel faults
    std::vector<Stage> stages;
    std::string_view says;
    std::string_view look_at;
    /// What is worth a replay, given what diverges: the signature and the search for parameters. Null: a name for candidates
    /// of other rows.
    std::function<std::vector<Candidate>(const Evidence&)> candidates;
    std::string_view separate_with = {};  ///< options of tile-run: their input tells it from other causes
    bool legal = false;
    bool structural = false;  ///< found from the places of wrong elements alone, without a replay of values
    bool race_alike = false;  ///< a missing barrier can leave the same numbers
    bool form =
        false;  ///< no mistake by name, but numbers that are solved for: a name for the same costs less
};

/// Of tiles that are not in the dump although others are, the one mistake that is looked for.
inline constexpr std::string_view skipped_kv_tile_name = "kv_tile_skipped";

/// Of rows that hold what they held before.
inline constexpr std::string_view rows_uncovered_name = "rows_uncovered";

/// Of an output at other places of its array, of rows behind its end there, and of what the store of o does to lse.
inline constexpr std::string_view output_stored_elsewhere_name = "output_stored_elsewhere";
inline constexpr std::string_view rows_stored_past_end_name = "rows_stored_past_end";
inline constexpr std::string_view rows_stored_over_lse_name = "rows_stored_over_lse";

/// Of a load's index and of its bound, which one mistake may show as.
inline constexpr std::string_view operand_addresses_name = "operand_addresses";
inline constexpr std::string_view rows_zeroed_name = "rows_zeroed";

/// Every cause, by stage; among those that explain as much with as few parameters the first is shown first.
const std::vector<Cause>& all_causes();
/// The row with that name.
const Cause& cause_named(std::string_view name);
/// What is told of a cause wherever it is found: its names and words, in the stage that shows it.
FoundCause told_of(const Cause& row, Stage observed);
/// Adds the words of its name.
void tell(FoundCause& cause);

// The rows of all_causes(), a part of the kernel each.
std::vector<Cause> named_score_causes();
std::vector<Cause> named_state_causes();
std::vector<Cause> tail_causes();
std::vector<Cause> softmax_causes();
std::vector<Cause> precision_causes();
std::vector<Cause> overwritten_causes();
std::vector<Cause> coverage_causes();
std::vector<Cause> fragment_causes();
std::vector<Cause> store_causes();
std::vector<Cause> past_end_causes();
std::vector<Cause> identified_coverage_causes();
std::vector<Cause> identified_start_causes();
std::vector<Cause> stale_causes();
std::vector<Cause> tile_read_causes();
std::vector<Cause> place_causes();

/// What its parameter says of keys whose scores are one number.
inline std::string masked_with(const std::string& score) {
    return "masked with " + score;
}
/// Products of q and k over a padded head_dim, of rows that are not padded.
std::vector<Candidate> dot_runs_on(const Evidence& evidence);
/// Keys behind the last one that take part like any other.
std::vector<Candidate> tail_not_masked(const Evidence& evidence);

}  // namespace tilescope
