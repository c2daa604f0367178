#include "oracle/causes/table.h"

#include "oracle/causes/formulas.h"

#include <algorithm>
#include <array>
#include <span>

namespace tilescope {

namespace {

/// What is read holds what was there before or after, or a part of what others are about to add: so it does where a
/// barrier is missing.
constexpr std::array<std::string_view, 15> race_alike = {
    "other_kv_tile",    "rows_not_loaded",        "elements_not_written", "buffer_aliased",
    "v_of_other_tile",  "p_of_other_tile",        "scores_of_other_tile", "starts_with_what_was_left",
    "p_of_old_max",     "p_of_partial_max",       "m_of_part_of_row",     "l_of_part_of_row",
    "group_not_summed", "accumulator_not_zeroed", "operand_stored_as_o"};

bool is_among(std::span<const std::string_view> names, const Cause& cause) {
    return std::ranges::find(names, cause.name) != names.end();
}

}  // namespace

const std::vector<Cause>& all_causes() {
    static const std::vector<Cause> causes = [] {
        std::vector<Cause> all;
        for (const auto part : {named_score_causes, named_state_causes, tail_causes, softmax_causes,
                                precision_causes, overwritten_causes, coverage_causes, fragment_causes,
                                tile_read_causes, past_end_causes, store_causes, place_causes}) {
            for (Cause& cause : part()) all.push_back(std::move(cause));
        }
        for (const auto part :
             {identified_start_causes, identified_coverage_causes, formula_causes, stale_causes}) {
            for (Cause& cause : part()) {
                cause.form = true;
                all.push_back(std::move(cause));
            }
        }
        for (Cause& cause : all) {
            cause.race_alike = is_among(race_alike, cause);
        }
        return all;
    }();
    return causes;
}

const Cause& cause_named(std::string_view name) {
    return *std::ranges::find(all_causes(), name, &Cause::name);
}

void tell(FoundCause& cause) {
    const Cause& row = cause_named(cause.name);
    cause.family = row.family;
    cause.says = row.says;
    cause.look_at = row.look_at;
}

FoundCause told_of(const Cause& row, Stage observed) {
    FoundCause cause;
    cause.name = row.name;
    cause.stage = cause.observed = observed;
    tell(cause);
    return cause;
}

}  // namespace tilescope
