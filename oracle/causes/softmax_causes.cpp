// Maxima and probabilities that no formula says: of bits, beyond the range of a type, of lanes that are not reduced.

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>

#include "oracle/causes/signature.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/formula/softmax.h"

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

/// Beyond the range of its type P is NaN or infinite. It may have been scaled by too much.
std::vector<Candidate> p_not_saturated(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Dtype dtype = evidence.units().p_cast;
    if (dtype == Dtype::f32) return {};
    for (const double by : {1.0, 2.0, 4.0, 1.0009765625}) {
        candidates.push_back(
            {{{"times", digits(by)}},
             {.inputs = [=](SearchedTile& site) { site.own_call().units.p_cast = Dtype::f32; },
              .result =
                  [=](const SearchedTile& site, Estimate& p) {
                      p.value *= by;
                      p.error *= by;
                      round_to(dtype, site.call->units.p_scale, p);
                  }},
             by == 1 ? 0 : 1});
    }
    return candidates;
}

/// A scale that leaves no room in the type for what a maximum that stays behind makes larger than 1.
std::vector<Candidate> p_saturated(const Evidence& evidence) {
    if (evidence.units().p_cast == Dtype::f32) return {};
    return always({.result = cut_to_range});
}

/// A column's lane: each has `run` columns next to each other, and begins again after all lanes.
struct Lanes {
    std::int64_t count;
    std::int64_t run;

    std::int64_t of(Eigen::Index column) const { return column / run % count; }
};

using LaneMaxima = std::map<TileId, Matrix>;

/// What each lane of each row subtracts, by its columns: the median of s - log p. Never more than m.
std::shared_ptr<const LaneMaxima> lane_maxima(const Evidence& evidence, const Lanes& lanes) {
    auto maxima = std::make_shared<LaneMaxima>();
    for (const Observation& seen : evidence.seen) {
        const Estimate s = finished_scores(seen.site);
        Matrix& mine = (*maxima)[seen.site.id];
        mine = seen.site.m.value.col(0).replicate(1, lanes.count);
        for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
            std::vector<std::vector<double>> of_lane(std::size_t(lanes.count));
            for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                const double p = seen.natural(i, j);
                if (std::isfinite(s.value(i, j)) && p > 1e-30 && std::isfinite(p))
                    of_lane[std::size_t(lanes.of(j))].push_back(s.value(i, j) - std::log(p));
            }
            for (std::int64_t lane = 0; lane < lanes.count; ++lane) {
                const double fitted = median_of(of_lane[std::size_t(lane)]);
                if (fitted < mine(i, lane)) mine(i, lane) = fitted;
            }
        }
    }
    return maxima;
}

/// Whether in first tiles each maximum of a lane is a score of its row.
bool are_scores(const Evidence& evidence, const LaneMaxima& maxima) {
    for (const Observation& seen : evidence.seen) {
        if (!seen.site.begins || !seen.is_bad()) continue;
        const Matrix s = finished_scores(seen.site).value;
        const Matrix& mine = maxima.at(seen.site.id);
        for (Eigen::Index i = 0; i < mine.rows(); ++i) {
            for (Eigen::Index lane = 0; lane < mine.cols(); ++lane) {
                const double maximum = mine(i, lane);
                if (std::isfinite(maximum) &&
                    !((s.row(i).array() - maximum).abs() <= 1e-4 * (1 + std::abs(maximum))).any())
                    return false;
            }
        }
    }
    return true;
}

/// Lanes that subtract less than their row's maximum: each is a number that was fitted.
std::int64_t lanes_behind(const Evidence& evidence, const LaneMaxima& maxima) {
    std::int64_t count = 0;
    for (const Observation& seen : evidence.seen) {
        const Matrix& mine = maxima.at(seen.site.id);
        for (Eigen::Index i = 0; i < mine.rows(); ++i)
            count += (mine.row(i).array() < seen.site.m.value(i, 0)).count();
    }
    return count;
}

/// Whether the lanes of a row ever differ: what all of them subtract is no maximum of a lane.
bool do_lanes_differ(const LaneMaxima& maxima) {
    for (const auto& [tile, mine] : maxima) {
        for (Eigen::Index i = 0; i < mine.rows(); ++i) {
            const double apart = mine.row(i).maxCoeff() - mine.row(i).minCoeff();
            if (apart > 1e-4 * (1 + mine.row(i).array().abs().maxCoeff())) return true;
        }
    }
    return false;
}

/// Lanes subtract a maximum of their own, which the dump does not hold: it is fitted to the columns of each
/// lane, which must agree.
std::vector<Candidate> p_of_partial_max(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return {};
    for (const Lanes lanes :
         {Lanes{2, 1}, Lanes{4, 1}, Lanes{4, 2}, Lanes{8, 1}, Lanes{16, 1}, Lanes{32, 1}}) {
        // Fewer columns of a lane would fit anything.
        if (lanes.count * 4 > evidence.problem().block_n) continue;
        const auto maxima = lane_maxima(evidence, lanes);
        if (!are_scores(evidence, *maxima) || !do_lanes_differ(*maxima)) continue;
        std::vector<CauseParameter> parameters = {{"lanes", digits(lanes.count)}};
        if (lanes.run > 1) parameters.push_back({"columns next to each other", digits(lanes.run)});
        const auto change = [=](SearchedTile& site) {
            const auto mine = maxima->find(site.id);
            if (mine == maxima->end()) return;
            take_finished_scores(site);
            Matrix& s = site.dumped_s.value;
            for (Eigen::Index i = 0; i < s.rows(); ++i) {
                for (Eigen::Index j = 0; j < s.cols(); ++j) {
                    const double raised = site.m.value(i, 0) - mine->second(i, lanes.of(j));
                    if (std::isfinite(raised)) s(i, j) += raised;
                    site.dumped_s.error(i, j) += 4 * u_f32 * std::abs(s(i, j));
                }
            }
            site.own_call().units.m_stale_threshold = infinity;
        };
        candidates.push_back({std::move(parameters), {.inputs = change}, 3, lanes_behind(evidence, *maxima)});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> softmax_causes() {
    return {
        {"max_of_bits",
         "reduction",
         {Stage::m},
         "the maximum is taken of the bits of scores as signed integers",
         "atomicMax on a float: negative scores are in the other order",
         max_of_bits,
         "--input negative"},
        {"p_not_saturated",
         "precision",
         {Stage::p},
         "P beyond the range of its type is not saturated",
         "the scale of P and the saturation of its cast",
         p_not_saturated},
        {"p_saturated",
         "precision",
         {Stage::p},
         "P beyond the range of its type is cut to its largest number",
         "the scale of P, and how far its maximum may stay behind",
         p_saturated},
        {"p_of_partial_max",
         "reduction",
         {Stage::p},
         "lanes subtract a maximum of part of the row",
         "how the maximum gets back to all lanes of a row after its reduction",
         p_of_partial_max},
    };
}

}  // namespace tilescope
