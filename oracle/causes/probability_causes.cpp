#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "dump/schema.h"
#include "oracle/causes/rewrites.h"

namespace tilescope {

namespace {

/// Where a key is hidden P is 0: what is added to it is what it is instead.
Generator hidden_cells_hold(const char* what, const Expr& held) {
    return told({"masked cells hold", what},
                rewrites({{var::result, var::result + if_any(var::hidden, held)}}));
}

bool is_dumped_itself(const Evidence& evidence) {
    return evidence.direct();
}
bool is_masked_after_dump(const Evidence& evidence) {
    return !evidence.units().s_masked;
}

std::vector<Candidate> mask_is_left_out(const Evidence&) {
    return always({.inputs = [](SearchedTile& site) {
        site.own_call().visible = [](std::int64_t, std::int64_t) {
            return KeyRange{0, std::numeric_limits<std::int64_t>::max()};
        };
    }});
}

Generator masked_p_not_zero() {
    return all_of({hidden_cells_hold("1", 1), hidden_cells_hold("exp(-m)", exp(-1 * larger_of(var::m, -80))),
                   where_declared(is_dumped_itself,
                                  hidden_cells_hold("nothing: they are not written",
                                                    number(double(std::bit_cast<float>(unwritten_bits))))),
                   hidden_cells_hold("P of the tile before", var::p_before),
                   where_declared(is_masked_after_dump,
                                  told({"masked cells hold", "exp of their score"}, mask_is_left_out))});
}

std::vector<Candidate> inf_minus_inf(const Evidence&) {
    return always({.result = [](const SearchedTile& site, Estimate& p) {
        for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
            if (site.m.value(i, 0) != -infinity) continue;
            p.value.row(i).setConstant(quiet_nan);
            p.error.row(i).setZero();
        }
    }});
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

/// The largest p that is 0 in the dump and the smallest that is not, of what should be more than 0.
std::vector<Candidate> p_flushed(const Evidence& evidence) {
    double most = 0;
    double least = infinity;
    if (!evidence.direct()) return {};
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const double expected = seen.expected.value(i, j) / seen.factor.at(i, j);
                if (!(expected > 0)) continue;
                if (seen.is_wrong(i, j) && seen.got(i, j) == 0) most = std::max(most, expected);
                if (seen.got(i, j) != 0) least = std::min(least, expected);
            }
        }
    }
    if (!(most > 0) || most > least * 1.01) return {};
    const double below = std::isfinite(least) ? std::sqrt(most * least) : most * 2;
    return {{{{"below", digits(below)}},
             {.result =
                  [=](const SearchedTile&, Estimate& p) {
                      for (Eigen::Index i = 0; i < p.value.size(); ++i) {
                          if (p.value.data()[i] < below) p.value.data()[i] = p.error.data()[i] = 0;
                      }
                  }},
             1}};
}

/// What is no number is `by` in the dump.
void replace_non_finite(Stage stage, double by, const SearchedTile& site, Estimate& e) {
    const DumpFactor factor =
        dump_factor(*site.call, stage, site.first_row, site.first_key, e.value.rows(), e.value.cols());
    for (Eigen::Index i = 0; i < e.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < e.value.cols(); ++j) {
            if (std::isfinite(e.value(i, j))) continue;
            e.value(i, j) = by / factor.at(i, j);
            e.error(i, j) = std::isfinite(by) ? 2 * u_f32 * std::abs(e.value(i, j)) : 0;
        }
    }
}

std::vector<Candidate> non_finite_replaced(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return {};
    std::vector<double> values = {0};
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            if (seen.wrong[std::size_t(i)] && !std::isfinite(seen.expected.value.data()[i]) &&
                std::ranges::find(values, double(seen.got.data()[i])) == values.end() && values.size() < 6)
                values.push_back(double(seen.got.data()[i]));
        }
    }
    for (const double by : values) {
        if (std::isnan(by)) continue;
        const auto change = [=, stage = evidence.acts](const SearchedTile& site, Estimate& e) {
            replace_non_finite(stage, by, site, e);
        };
        candidates.push_back({{{"by", digits(by)}}, {.result = change}, 1});
    }
    return candidates;
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

bool is_backward(const Evidence& evidence) {
    return evidence.problem().direction == Direction::backward;
}

}  // namespace

std::vector<Cause> probability_causes() {
    const std::vector<Stage> p = {Stage::p};
    return {
        {"inf_minus_inf", "guards", p, "rows that saw no key yet subtract -inf from -inf",
         "a guard for rows whose maximum is -inf", inf_minus_inf, "--causal with seqlen_q above seqlen_kv"},
        {"masked_p_not_zero", "mask geometry", p, "P of masked keys is not 0",
         "what is stored to P where the mask hides a key", masked_p_not_zero()},
        {"p_not_saturated", "precision", p, "P beyond the range of its type is not saturated",
         "the scale of P and the saturation of its cast", p_not_saturated},
        {"p_saturated", "precision", p, "P beyond the range of its type is cut to its largest number",
         "the scale of P, and how far its maximum may stay behind", p_saturated},
        {"p_flushed", "precision", p, "small P become 0", "denormals of the type of P, and guards",
         p_flushed},
        {"non_finite_replaced",
         "guards",
         {Stage::s, Stage::p},
         "what is not finite is replaced by a number",
         "guards against NaN and infinities",
         non_finite_replaced},
        {"p_of_partial_max", "reduction", p, "lanes subtract a maximum of part of the row",
         "how the maximum gets back to all lanes of a row after its reduction", p_of_partial_max},
        {"maximum_for_lse",
         "recurrence",
         {Stage::p},
         "P is computed with a maximum in place of lse",
         "what is subtracted from the scores in the backward pass",
         where_declared(is_backward, rewrites({{var::m, var::m_tile}}))},
    };
}

}  // namespace tilescope
