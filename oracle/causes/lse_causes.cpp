#include "oracle/causes/rewrites.h"
#include "oracle/causes/sinks.h"

namespace tilescope {

namespace {

std::vector<NamedConstant> base_of_lse(const Evidence& evidence) {
    return bases_but(evidence.units().lse_log_base);
}

Generator in_other_base(const Expr& becomes) {
    return rewrites_with("base", base_of_lse, {{var::result, becomes}});
}

}  // namespace

std::vector<Cause> lse_causes() {
    const std::vector<Stage> lse = {Stage::lse};
    return {
        {"lse_in_other_base",
         "split / combine",
         lse,
         "the log-sum-exp is stored to another base than declared",
         "declare log_base of /outputs/lse where it is meant; otherwise look at log2(e) or ln 2 in the store",
         all_of({in_other_base(var::constant * (var::m + var::log_l)),
                 told({"of", "m alone"}, in_other_base(var::constant * var::m + var::log_l), 1),
                 told({"of", "log l alone"}, in_other_base(var::m + var::constant * var::log_l), 1)}),
         {},
         true},
        {"lse_without_max", "constants", lse, "the log-sum-exp lacks the row maximum", "lse = m + log(l)",
         rewrites({{var::result, var::log_l}})},
        {"lse_without_sum", "constants", lse, "the log-sum-exp is the row maximum alone", "lse = m + log(l)",
         rewrites({{var::result, var::m}})},
        {"lse_without_log", "constants", lse, "the row sum is added without its logarithm",
         "lse = m + log(l)", rewrites({{var::result, var::m + exp(var::log_l)}})},
        {"lse_sign", "constants", lse, "the log-sum-exp has the wrong sign", "lse = m + log(l)",
         all_of({rewrites({{var::result, -1 * (var::m + var::log_l)}}),
                 told({"of", "rows that see no key as well"}, rewrites({{var::result, -1 * var::result}}))})},
        {"lse_sink_missing",
         "sink, ALiBi, bias",
         lse,
         "the sink is not in the log-sum-exp, although it is declared to be",
         "declare includes_sink false of /outputs/lse where it is meant; otherwise look at where the sink "
         "joins",
         sink_missing_at_end,
         {},
         true},
    };
}

}  // namespace tilescope
