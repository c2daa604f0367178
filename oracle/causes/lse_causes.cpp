#include <cmath>
#include <numbers>

#include "oracle/causes/signature.h"
#include "oracle/causes/sinks.h"

namespace tilescope {

namespace {

/// `value` of maximum and logarithm of the sum, in place of their sum.
Change holds(std::function<double(double m, double log_l)> value) {
    return {.result = [value = std::move(value)](const SearchedTile& site, Estimate& lse) {
        const RunningState whole = whole_state(site);
        for (Eigen::Index i = 0; i < lse.value.rows(); ++i) {
            const double m = whole.m.value(i, 0);
            if (!std::isfinite(lse.value(i, 0)) || !std::isfinite(m)) continue;
            // A sink that joins in the end is in the logarithm.
            const double log_l = lse.value(i, 0) - m;
            lse.value(i, 0) = value(m, log_l);
            lse.error(i, 0) = 2 * lse.error(i, 0) + 4 * u_f32 * (std::abs(lse.value(i, 0)) + std::abs(m));
        }
    }};
}

std::vector<Candidate> lse_in_other_base(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const bool two = evidence.units().lse_log_base == LogBase::two;
    for (const double factor : {std::numbers::log2e, std::numbers::ln2}) {
        const char* base = factor > 1 ? "2 where e is declared" : "e where 2 is declared";
        const int free = (factor > 1) == two ? 1 : 0;
        candidates.push_back(
            {{{"base", base}}, holds([=](double m, double log_l) { return factor * (m + log_l); }), free});
        candidates.push_back({{{"base", base}, {"of", "m alone"}},
                              holds([=](double m, double log_l) { return factor * m + log_l; }),
                              free + 1});
        candidates.push_back({{{"base", base}, {"of", "log l alone"}},
                              holds([=](double m, double log_l) { return m + factor * log_l; }),
                              free + 1});
    }
    return candidates;
}

std::vector<Candidate> lse_without_max(const Evidence&) {
    return always(holds([](double, double log_l) { return log_l; }));
}

std::vector<Candidate> lse_without_log(const Evidence&) {
    return always({.result = [](const SearchedTile& site, Estimate& lse) {
        const RunningState whole = whole_state(site);
        for (Eigen::Index i = 0; i < lse.value.rows(); ++i) {
            if (!std::isfinite(lse.value(i, 0))) continue;
            const double l = std::exp(lse.value(i, 0) - whole.m.value(i, 0));
            lse.error(i, 0) = lse.error(i, 0) * (1 + l) + 4 * u_f32 * (std::abs(whole.m.value(i, 0)) + l);
            lse.value(i, 0) = whole.m.value(i, 0) + l;
        }
    }});
}

std::vector<Candidate> lse_without_sum(const Evidence&) {
    return always(holds([](double m, double) { return m; }));
}

std::vector<Candidate> lse_sign(const Evidence&) {
    std::vector<Candidate> candidates = always(holds([](double m, double log_l) { return -(m + log_l); }));
    candidates.push_back({{{"of", "rows that see no key as well"}},
                          {.result = [](const SearchedTile&, Estimate& lse) { lse.value *= -1; }}});
    return candidates;
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
         lse_in_other_base,
         {},
         true},
        {"lse_without_max", "constants", lse, "the log-sum-exp lacks the row maximum", "lse = m + log(l)",
         lse_without_max},
        {"lse_without_sum", "constants", lse, "the log-sum-exp is the row maximum alone", "lse = m + log(l)",
         lse_without_sum},
        {"lse_without_log", "constants", lse, "the row sum is added without its logarithm",
         "lse = m + log(l)", lse_without_log},
        {"lse_sign", "constants", lse, "the log-sum-exp has the wrong sign", "lse = m + log(l)", lse_sign},
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
