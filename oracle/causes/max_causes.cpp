#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "oracle/causes/phantoms.h"
#include "oracle/causes/rewrites.h"
#include "oracle/causes/sinks.h"
#include "oracle/causes/tile_sums.h"

namespace tilescope {

namespace {

/// Values that several wrong rows of first tiles hold, and those that kernels begin with.
std::vector<double> first_values(const Evidence& evidence) {
    std::map<double, int> count;
    if (evidence.direct()) {
        for (const Observation& seen : evidence.seen) {
            if (!seen.site.begins) continue;
            for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
                if (seen.bad_rows[std::size_t(i)] && std::isfinite(seen.got(i, 0)))
                    ++count[seen.natural(i, 0)];
        }
    }
    std::vector<double> values = {0, -1, -1e4, -5e4, -65504, -1e5, -1e9, -1e30, -3.4028234663852886e38};
    for (const auto& [value, rows] : count)
        if (rows >= 2 && std::ranges::find(values, value) == values.end() && values.size() < 16)
            values.push_back(value);
    return values;
}

std::vector<NamedConstant> constants_of_start(const Evidence& evidence) {
    std::vector<NamedConstant> constants;
    for (const double value : first_values(evidence))
        constants.push_back({digits(value), value, value == 0 ? 0 : 1});
    return constants;
}

/// Rows whose lanes are reduced together.
struct RowGroup {
    std::int64_t rows;
    std::int64_t step;  ///< between them

    std::int64_t first_of(std::int64_t row) const {
        const std::int64_t all = rows * step;
        return row / all * all + row % step;
    }
};

/// Maxima that may stay behind are those of a kernel that leaves them by its threshold.
void settle_maxima(const SearchedTile& site, Estimate& m) {
    const double threshold = site.call->units.m_stale_threshold;
    if (threshold == 0) return;
    const Estimate s = finished_scores(site);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        const double before = site.before.m.value(i, 0);
        const double most = s.value.cols() > 0 ? s.value.row(i).maxCoeff() : -infinity;
        const double settled = risen(before, most, threshold);
        if (!std::isfinite(settled)) continue;
        m.value(i, 0) = settled;
        m.error(i, 0) = 8 * u_f32 * std::abs(settled);
    }
}

std::vector<Candidate> m_includes_tail(const Evidence&) {
    std::vector<Candidate> candidates;
    for (const NamedPhantoms& phantoms : all_phantoms) {
        const auto change = [which = phantoms.keys](SearchedTile& site) {
            const auto scores = phantom_scores(site, which);
            if (!scores) return;
            take_finished_scores(site);
            append_columns(*scores, site.dumped_s);
        };
        candidates.push_back({{{"keys", phantoms.name}}, {.inputs = change, .result = settle_maxima}});
    }
    return candidates;
}

/// Bits of a float as a signed integer: negative numbers are in the other order, and below all others.
std::int32_t integer_of(double value) {
    return std::bit_cast<std::int32_t>(float(value));
}

/// The maximum by atomicMax on the bits. Where it starts is read from rows that no score raised.
std::vector<Candidate> max_of_bits(const Evidence& evidence) {
    std::vector<double> starts = {-infinity};
    if (!evidence.direct()) return {};
    for (const double value : first_values(evidence))
        if (value < -1e4) starts.push_back(value);
    std::vector<Candidate> candidates;
    for (const double start : starts) {
        const auto by_bits = [=](const SearchedTile& site, Estimate& m) {
            const Estimate s = finished_scores(site);
            for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
                double most = site.begins ? start : site.before.m.value(i, 0);
                for (const double score : s.value.row(i))
                    if (integer_of(score) > integer_of(most)) most = score;
                m.value(i, 0) = most;
                // A score, whatever the threshold of a stale maximum leaves open.
                m.error(i, 0) = std::isinf(most) ? 0 : 8 * u_f32 * std::abs(most);
            }
        };
        candidates.push_back({{{"start", digits(start)}}, {.result = by_bits}, std::isinf(start) ? 0 : 1});
    }
    return candidates;
}

/// How far rows stay behind that keep the maximum before the tile; nullopt where one does otherwise.
std::optional<double> left_behind(const Evidence& evidence) {
    double most = 0;
    if (!evidence.direct()) return std::nullopt;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            if (!seen.bad_rows[std::size_t(i)]) continue;
            const double before = seen.site.before.m.value(i, 0);
            const double expected = seen.expected.value(i, 0) / seen.factor.at(i, 0);
            if (seen.natural(i, 0) != before || !(expected > before)) return std::nullopt;
            most = std::max(most, expected - before);
        }
    }
    return most > 0 && most < 20 ? std::optional(most) : std::nullopt;
}

std::vector<Candidate> m_left_behind(const Evidence& evidence) {
    const auto threshold = left_behind(evidence);
    if (!threshold) return {};
    return {
        {{{"threshold", digits(*threshold)}},
         {.inputs =
              [=](SearchedTile& site) { site.own_call().units.m_stale_threshold = *threshold * (1 + 1e-6); }},
         1}};
}

/// Columns that the lanes of a row may hold, all of them first.
std::vector<Places> lane_columns(std::int64_t length) {
    std::vector<Places> parts = {{0, 0, length}};
    for (const std::int64_t period : {2, 4, 8, 16, 32}) {
        for (const std::int64_t count : {1, 2}) {
            for (std::int64_t first = 0; first < period && count < period; first += count)
                parts.push_back({period, first, count});
        }
    }
    return parts;
}

/// From here on the scores are those that the softmax sees.
void keep_columns(const Places& kept, SearchedTile& site) {
    for (Eigen::Index j = 0; j < site.dumped_s.value.cols(); ++j) {
        if (kept.contains(j)) continue;
        site.dumped_s.value.col(j).setConstant(-infinity);
        site.dumped_s.error.col(j).setZero();
    }
}

/// Whether some bad rows of the first bad tile hold the largest score of their group in these columns.
bool may_share(const Evidence& evidence, const Estimate& s, const RowGroup& group, const Places& part) {
    const Observation& seen = evidence.seen.front();
    int tried = 0;
    for (Eigen::Index i = 0; i < seen.got.rows() && tried < 3; ++i) {
        if (!seen.bad_rows[std::size_t(i)]) continue;
        ++tried;
        double most = seen.site.before.m.value(i, 0);
        for (std::int64_t n = 0; n < group.rows; ++n) {
            const Eigen::Index other = group.first_of(i) + n * group.step;
            for (Eigen::Index j = 0; other < s.value.rows() && j < s.value.cols(); ++j)
                if (part.contains(j)) most = std::max(most, s.value(other, j));
        }
        const double got = seen.natural(i, 0);
        if (!(got == most || std::abs(got - most) <= 1e-4 * (1 + std::abs(most)))) return false;
    }
    return tried > 0;
}

void share_rows(const RowGroup& group, SearchedTile& site) {
    const Estimate old = site.dumped_s;
    for (Eigen::Index i = 0; i < old.value.rows(); ++i) {
        for (std::int64_t n = 0; n < group.rows; ++n) {
            const Eigen::Index other = group.first_of(i) + n * group.step;
            if (other >= old.value.rows()) break;
            site.dumped_s.value.row(i) = site.dumped_s.value.row(i).cwiseMax(old.value.row(other));
            site.dumped_s.error.row(i) = site.dumped_s.error.row(i).cwiseMax(old.error.row(other));
        }
    }
}

std::vector<Candidate> m_of_several_rows(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t most = evidence.problem().block_m;
    const Estimate s = evidence.direct() ? finished_scores(evidence.seen.front().site) : Estimate();
    for (std::int64_t rows = 2; rows <= most; rows *= 2) {
        for (std::int64_t step = 1; rows * step <= most; step *= 2) {
            for (const Places& part : lane_columns(evidence.problem().block_n)) {
                if (evidence.direct() ? !may_share(evidence, s, {rows, step}, part) : part.period > 0)
                    continue;
                std::vector<CauseParameter> parameters = {{"group", digits(rows)}};
                if (step > 1) parameters.push_back({"step", digits(step)});
                if (part.period > 0) parameters.push_back({"columns", to_string(part)});
                const int free = int(parameters.size());
                const auto change = [=](SearchedTile& site) {
                    take_finished_scores(site);
                    keep_columns(part, site);
                    share_rows({rows, step}, site);
                };
                candidates.push_back({std::move(parameters), {.inputs = change}, free});
            }
        }
    }
    return candidates;
}

}  // namespace

std::vector<Cause> max_causes() {
    const std::vector<Stage> m = {Stage::m};
    return {
        {"m_starts_at", "recurrence", m, "the running maximum starts at a number instead of -inf",
         "the initial value of the row maximum",
         rewrites_with("value", constants_of_start, {{var::m_start, var::constant}}), "--input negative"},
        {"m_includes_tail", "tail", m, "keys past seqlen_kv take part in the row maximum",
         "the mask of the last KV tile", m_includes_tail,
         "--input negative with seqlen_kv that no tile divides"},
        {"max_of_bits", "reduction", m, "the maximum is taken of the bits of scores as signed integers",
         "atomicMax on a float: negative scores are in the other order", max_of_bits, "--input negative"},
        {"sink_missing",
         "sink, ALiBi, bias",
         {Stage::m, Stage::l},
         "the running state starts without the sink",
         "the initial values of m and l",
         sink_missing_at_start},
        {"sink_twice",
         "sink, ALiBi, bias",
         {Stage::l, Stage::o, Stage::lse},
         "the sink is counted twice",
         "whether every split starts with the sink",
         sink_twice},
        {"sink_scaled",
         "sink, ALiBi, bias",
         {Stage::m, Stage::l, Stage::o, Stage::lse},
         "the sink is multiplied with a constant too many",
         "sm_scale and log2(e): a sink is a score that has both",
         sink_scaled},
        {"sink_of_other_head",
         "sink, ALiBi, bias",
         {Stage::m, Stage::l, Stage::o, Stage::lse},
         "the sink is that of another head",
         "the index into the sinks",
         sink_of_other_head,
         "--shape with several heads"},
        {"m_left_behind",
         "recurrence",
         m,
         "the maximum is left behind while it rises by little",
         "declare stale_threshold of /tiles/m where it is meant",
         m_left_behind,
         {},
         true},

        {"m_of_several_rows",
         "reduction",
         {Stage::m},
         "several rows share one maximum",
         "the lanes that the maximum is reduced over",
         m_of_several_rows},
    };
}

}  // namespace tilescope
