#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "oracle/causes/phantoms.h"
#include "oracle/causes/rescaling.h"
#include "oracle/causes/signature.h"
#include "oracle/formula/softmax.h"

namespace tilescope {

namespace {

std::vector<Candidate> l_not_carried(const Evidence&) {
    return always({.inputs = [](SearchedTile& site) {
        site.before.l.value.setZero();
        site.before.l.error.setZero();
        // A maximum that fell to -inf leaves no factor.
        site.factor.value.setZero();
        site.factor.error.setZero();
    }});
}

/// The P that is added up.
Estimate& summed(SearchedTile& site) {
    return site.call->units.l_sums_cast_p ? site.operand_p : site.p;
}

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

std::vector<Candidate> l_of_part_of_row(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const Places& part : parts_of(evidence.problem().block_n)) {
        candidates.push_back({{{"columns", to_string(part)}},
                              {.inputs =
                                   [=](SearchedTile& site) {
                                       Estimate& p = summed(site);
                                       for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
                                           if (part.contains(j)) continue;
                                           p.value.col(j).setZero();
                                           p.error.col(j).setZero();
                                       }
                                   }},
                              2});
    }
    return candidates;
}

std::vector<Candidate> l_counted_n_times(const Evidence&) {
    std::vector<Candidate> candidates;
    for (const double n : {2.0, 4.0, 8.0, 16.0, 32.0, 0.5, 0.25, 0.125, 0.0625, 0.03125}) {
        candidates.push_back({{{"n", digits(n)}},
                              {.inputs =
                                   [=](SearchedTile& site) {
                                       Estimate& p = summed(site);
                                       p.value *= n;
                                       p.error *= n;
                                   }},
                              1});
    }
    return candidates;
}

std::vector<Candidate> l_of_cast_p(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (evidence.units().l_sums_cast_p) return {};
    std::vector<Dtype> types = {evidence.problem().dtype_p};
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::e4m3})
        if (dtype != types[0]) types.push_back(dtype);
    for (const Dtype dtype : types) {
        if (dtype == Dtype::f32) continue;
        const bool declared = dtype == types[0];
        const auto change = [=](SearchedTile& site) {
            if (declared) {
                site.own_call().units.l_sums_cast_p = true;
            } else {
                round_to(dtype, site.call->units.p_scale, site.p);
            }
        };
        candidates.push_back(
            {{{"dtype", std::string(dtype_info(dtype).name)}}, {.inputs = change}, declared ? 0 : 1});
    }
    return candidates;
}

/// Only where the dump holds P before its cast.
std::vector<Candidate> l_of_uncast_p(const Evidence& evidence) {
    if (!evidence.units().l_sums_cast_p) return {};
    return always({.inputs = [](SearchedTile& site) { site.own_call().units.l_sums_cast_p = false; }});
}

/// Adds the probabilities of scores behind the keys, which are not in the maximum.
void count_scores(const Estimate& scores, SearchedTile& site) {
    Estimate m = site.m;
    for (Eigen::Index i = 0; i < m.value.rows(); ++i)
        if (std::isinf(m.value(i, 0))) m.value(i, 0) = 0;
    site.own_call().units.m_stale_threshold = std::numeric_limits<double>::infinity();
    const Estimate p = probabilities(*site.call, scores, m);
    const bool cast = site.call->units.l_sums_cast_p;
    append_columns(cast ? cast_probabilities(*site.call, p, site.call->problem.dtype_p) : p, summed(site));
}

/// The score that all columns behind the keys would have, by the dump: m + log((got - expected) / columns), in the
/// units that scores are kept in.
std::optional<double> score_of_tail(const Evidence& evidence) {
    std::vector<double> scores;
    for (const Observation& seen : evidence.seen) {
        const std::int64_t behind = seen.site.call->problem.block_n - seen.site.keys();
        for (Eigen::Index i = 0; i < seen.got.rows() && behind > 0 && evidence.direct(); ++i) {
            if (!seen.bad_rows[std::size_t(i)]) continue;
            double more = 0;
            for (Eigen::Index lane = 0; lane < seen.got.cols(); ++lane)
                more += seen.natural(i, lane) - seen.expected.value(i, lane) / seen.factor.at(i, lane);
            const double unit = dump_factor(*seen.site.call, Stage::m, seen.site.first_row, 0, 1, 1).at(0, 0);
            const double score = (seen.site.m.value(i, 0) + std::log(more / double(behind))) * unit;
            if (std::isfinite(score)) scores.push_back(score);
        }
    }
    const double middle = median_of(std::move(scores));
    if (!std::isfinite(middle)) return std::nullopt;
    const double simple = std::round(2 * middle) / 2;
    return std::abs(simple - middle) <= 1e-3 ? simple : middle;
}

void add_tail_of_one_score(const Evidence& evidence, std::int64_t keys, std::vector<Candidate>& candidates) {
    const std::optional<double> score = score_of_tail(evidence);
    if (!score) return;
    const auto change = [score = *score](SearchedTile& site) {
        const std::int64_t behind = site.call->problem.block_n - site.keys();
        if (behind <= 0) return;
        const double unit = dump_factor(*site.call, Stage::m, site.first_row, 0, 1, 1).at(0, 0);
        const Matrix scores = Matrix::Constant(site.rows(), behind, score / unit);
        count_scores({scores, 8 * u_f32 * scores.cwiseAbs(), {}}, site);
    };
    candidates.push_back(
        {{{"keys", digits(keys)}, {"they are", "masked with " + digits(*score)}}, {.inputs = change}, 1});
}

std::vector<Candidate> tail_counted(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const auto has_tail = [](const Observation& seen) {
        return seen.is_bad() && seen.site.keys() < seen.site.call->problem.block_n;
    };
    const auto tail = std::ranges::find_if(evidence.seen, has_tail);
    if (tail == evidence.seen.end()) return {};
    const std::int64_t keys = evidence.problem().block_n - tail->site.keys();
    for (const NamedPhantoms& phantoms : all_phantoms) {
        const auto change = [which = phantoms.keys](SearchedTile& site) {
            const auto scores = phantom_scores(site, which);
            if (scores) count_scores(*scores, site);
        };
        candidates.push_back({{{"keys", digits(keys)}, {"they are", phantoms.name}}, {.inputs = change}});
    }
    add_tail_of_one_score(evidence, keys, candidates);
    return candidates;
}

std::vector<Candidate> l_of_several_rows(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t most = evidence.problem().block_m;
    for (std::int64_t rows = 2; rows <= most; rows *= 2) {
        for (std::int64_t step = 1; rows * step <= most; step *= 2) {
            candidates.push_back({{{"group", digits(rows)}, {"step", digits(step)}},
                                  {.inputs =
                                       [=](SearchedTile& site) {
                                           Estimate& p = summed(site);
                                           const Estimate old = p;
                                           for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
                                               const Eigen::Index first =
                                                   i / (rows * step) * (rows * step) + i % step;
                                               p.value.row(i).setZero();
                                               p.error.row(i).setZero();
                                               for (std::int64_t n = 0; n < rows; ++n) {
                                                   const Eigen::Index other = first + n * step;
                                                   if (other >= old.value.rows()) break;
                                                   p.value.row(i) += old.value.row(other);
                                                   p.error.row(i) += old.error.row(other);
                                               }
                                           }
                                       }},
                                  step > 1 ? 2 : 1});
        }
    }
    return candidates;
}

/// The value that rows share whose sum should be less.
std::vector<Candidate> l_floored(const Evidence& evidence) {
    std::map<double, int> count;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.rows() && evidence.direct(); ++i) {
            const double got = seen.natural(i, 0);
            const double expected = seen.expected.value(i, 0) / seen.factor.at(i, 0);
            if (seen.bad_rows[std::size_t(i)] && (got > expected || std::isnan(expected))) ++count[got];
        }
    }
    std::vector<Candidate> candidates;
    for (const auto& [value, rows] : count) {
        if (rows < 2 || !std::isfinite(value) || candidates.size() >= 4) continue;
        candidates.push_back({{{"at", digits(value)}},
                              {.result =
                                   [=, at = value](const SearchedTile&, Estimate& l) {
                                       for (Eigen::Index i = 0; i < l.value.size(); ++i) {
                                           if (l.value.data()[i] >= at) continue;
                                           l.value.data()[i] = at;
                                           l.error.data()[i] = u_f32 * at;
                                       }
                                   }},
                              1});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> sum_causes() {
    const std::vector<Stage> l = {Stage::l};
    return {
        {"l_not_rescaled", "recurrence", l, "the row sum is not rescaled when the running maximum rises",
         "l *= exp(m_old - m_new)", not_rescaled, "--input ramped"},
        {"l_rescaled_inversely", "recurrence", l, "the row sum is rescaled by exp(m_new - m_old)",
         "the order of the two maxima in the rescaling factor", rescaled_inversely, "--input ramped"},
        {"l_rescaled_twice", "recurrence", l, "the row sum is rescaled twice", "l *= exp(m_old - m_new)",
         rescaled_twice, "--input ramped"},
        {"l_not_carried", "recurrence", l, "the row sum starts anew in every KV tile",
         "the sum with the one before the tile", l_not_carried},
        {"l_starts_at", "recurrence", l, "the row sum starts at a number instead of 0",
         "the initial value of the row sum", l_starts_at},
        {"tail_counted", "tail", l, "keys past seqlen_kv are counted in the row sum",
         "the mask of the last KV tile", tail_counted, "seqlen_kv that no tile divides"},
        {"l_of_cast_p",
         "precision",
         l,
         "the row sum adds P after its cast",
         "declare sums_cast_p of /tiles/l where it is meant",
         l_of_cast_p,
         {},
         true},
        {"l_of_uncast_p",
         "precision",
         l,
         "the row sum adds P before its cast",
         "declare sums_cast_p of /tiles/l where it is meant",
         l_of_uncast_p,
         {},
         true},
        {"l_counted_n_times", "reduction", l, "the sum of a tile is added several times, or a part of it",
         "the lanes that hold the same sum when it is reduced", l_counted_n_times},
        {"l_of_part_of_row", "reduction", l, "the row sum covers part of the row's columns",
         "the lanes that the sum is reduced over", l_of_part_of_row},
        {"l_of_several_rows", "reduction", l, "several rows share one sum",
         "the lanes that the sum is reduced over", l_of_several_rows},
        {"l_floored", "guards", l, "the row sum has a least value", "the guard of the row sum", l_floored},
    };
}

}  // namespace tilescope
