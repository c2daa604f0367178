#include <cmath>
#include <limits>
#include <map>

#include "oracle/causes/rewrites.h"

namespace tilescope {

namespace {

/// Differences that wrong rows of first tiles have in common.
std::vector<Candidate> l_starts_at(const Evidence& evidence) {
    std::vector<double> values = {1};
    std::vector<double> differences;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.rows() && evidence.direct() && seen.site.begins; ++i)
            if (seen.bad_rows[std::size_t(i)])
                differences.push_back(seen.natural(i, 0) - seen.expected.value(i, 0) / seen.factor.at(i, 0));
    }
    if (const double middle = median_of(differences); std::isfinite(middle) && std::abs(middle - 1) > 1e-4)
        values.push_back(middle);
    std::vector<Candidate> candidates;
    for (const double value : values) {
        const int free = value == 1 ? 0 : 1;
        const auto at_first = [=](const SearchedTile& site, Estimate& l) {
            if (!site.begins) return;
            l.value.array() += value;
            l.error += 4 * u_f32 * l.value.cwiseAbs();
        };
        candidates.push_back({{{"value", digits(value)}}, {.result = at_first}, free});
        // A row that saw nothing keeps it where its factor is 1, and not exp(-inf - m).
        const auto kept = [=](const SearchedTile& site, Estimate& l) {
            at_first(site, l);
            for (Eigen::Index i = 0; i < l.value.rows() && !site.begins; ++i) {
                if (site.before.m.value(i, 0) != -std::numeric_limits<double>::infinity()) continue;
                l.value(i, 0) += site.before.l.value(i, 0);
                l.error(i, 0) += site.before.l.error(i, 0) + 4 * u_f32 * l.value(i, 0);
            }
        };
        candidates.push_back(
            {{{"value", digits(value)}, {"kept by", "rows that saw nothing"}}, {.result = kept}, free});
    }
    return candidates;
}

bool has_p_of_tile_max(const Evidence& evidence) {
    return evidence.units().p_of_tile_max;
}

/// Only where the dump holds P before its cast.
std::vector<Candidate> l_of_uncast_p(const Evidence& evidence) {
    if (!evidence.units().l_sums_cast_p) return {};
    return always({.inputs = [](SearchedTile& site) { site.own_call().units.l_sums_cast_p = false; }});
}

/// The value that rows share whose sum should be less.
std::vector<NamedConstant> least_sums(const Evidence& evidence) {
    std::map<double, int> count;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.rows() && evidence.direct(); ++i) {
            const double got = seen.natural(i, 0);
            const double expected = seen.expected.value(i, 0) / seen.factor.at(i, 0);
            if (seen.bad_rows[std::size_t(i)] && (got > expected || std::isnan(expected))) ++count[got];
        }
    }
    std::vector<NamedConstant> least;
    for (const auto& [value, rows] : count)
        if (rows >= 2 && std::isfinite(value) && least.size() < 4) least.push_back({digits(value), value});
    return least;
}

}  // namespace

std::vector<Cause> sum_causes() {
    const std::vector<Stage> l = {Stage::l};
    return {
        {"tile_not_rescaled",
         "recurrence",
         {Stage::l, Stage::acc},
         "what a tile adds is not rescaled from its own maximum to the running one",
         "exp(m_tile - m_new)",
         where_declared(has_p_of_tile_max,
                        rewrites({{var::p, if_any(var::p, var::p * exp(var::m - var::m_tile))},
                                  {var::p_operand,
                                   if_any(var::p_operand, var::p_operand * exp(var::m - var::m_tile))}}))},
        {"l_starts_at", "recurrence", l, "the row sum starts at a number instead of 0",
         "the initial value of the row sum", l_starts_at},
        {"tail_counted",
         "tail",
         {Stage::l, Stage::acc},
         "keys past seqlen_kv are counted in the sum",
         "the mask of the last KV tile",
         tail_counted,
         "seqlen_kv that no tile divides"},
        {"l_of_uncast_p",
         "precision",
         l,
         "the row sum adds P before its cast",
         "declare sums_cast_p of /tiles/l where it is meant",
         l_of_uncast_p,
         {},
         true},
        {"l_floored", "guards", l, "the row sum has a least value", "the guard of the row sum",
         rewrites_with("at", least_sums, {{var::result, larger_of(var::result, var::constant)}})},
    };
}

}  // namespace tilescope
