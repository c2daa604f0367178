// Mistakes of backward passes, made in the honest kernel or in its tiles as the mistake would have them, and what is named.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "oracle/report/text.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 3;

/// The best cause with its parameters, "" where none replays the values.
std::string named_gradient(const Recording& recording) {
    const Report report = diagnosed(recording);
    if (report.diagnosis.causes.empty() || report.diagnosis.causes[0].structural) return "";
    return title_of(report.diagnosis.causes[0]);
}

/// What the report may say first of a mistake that the kernel makes everywhere.
struct MadeByKernel {
    Mistake mistake;
    std::vector<std::string> names;
};

TEST(GradientCauses, MistakesOfTheKernel) {
    using enum Mistake;
    const std::vector<MadeByKernel> cases = {
        {mask_off_by_one, {"diagonal_shifted"}},
        {scaled_twice, {"scale_twice"}},
        {dout_of_next_block, {"operand_addresses", "rows_shifted"}},
        {delta_of_next_o, {"o_of_other_row"}},
        {p_from_max, {"maximum_for_lse"}},
        {lse_base_confused, {"lse_of_other_base"}},
        {p_not_masked, {"masked_p_not_zero", "causal_ignored"}},
        {ds_without_delta, {"delta_missing"}},
        {ds_delta_of_next_row, {"delta_of_other_row"}},
        {ds_without_p, {"ds_combination"}},
        {ds_without_cap, {"cap_derivative_missing"}},
        {dq_not_scaled, {"output_constant"}},
        {dq_tile_lost, {"terms_weighted"}},
        {dk_scaled_twice, {"output_constant"}},
        {dk_of_wrong_heads, {"group_of_other_heads"}},
        {dk_without_last_block, {"terms_weighted"}},
        {dv_untransposed, {"not_transposed"}},
    };
    for (const MadeByKernel& made : cases) {
        SCOPED_TRACE(to_string(made.mistake));
        Call call = call_that_shows(made.mistake, Direction::backward, seed);
        if (made.mistake == dv_untransposed) {
            // Tiles that are whole, as a transpose needs them.
            Problem whole = call.problem;
            whole.seqlen_q = 48;
            whole.seqlen_kv = 64;
            call = make_call(whole, seed, call.arithmetic);
        }
        const std::string named = named_gradient(recorded(call, {made.mistake}));
        const std::string name = named.substr(0, named.find(' '));
        EXPECT_TRUE(std::ranges::find(made.names, name) != made.names.end()) << named;
    }
}

}  // namespace
}  // namespace tilescope::test
