#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "oracle/causes/element_places.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/identify/index_formula.h"
#include "oracle/identify/weights.h"

namespace tilescope {

namespace {

constexpr std::size_t most_summed = 2048;

// ---- weights of terms

Equations equations_of(const std::vector<WrongSum>& wrong) {
    const auto rows = Eigen::Index(wrong.size());
    const auto terms = Eigen::Index(wrong.front().sum.terms.size());
    Equations equations{Eigen::MatrixXd(rows, terms), Eigen::VectorXd(rows), Eigen::VectorXd(rows)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        const TileSum& sum = wrong[std::size_t(i)].sum;
        equations.terms.row(i) = Eigen::Map<const Eigen::RowVectorXd>(sum.terms.data(), terms);
        equations.sums(i) = sum.got - sum.carried;
        equations.errors(i) = sum.error;
    }
    return equations;
}

/// The period of numbers that repeat; 0: they do not.
std::size_t repeat_of(const std::vector<double>& values) {
    for (std::size_t period = 1; period <= values.size() / 2; ++period) {
        if (std::equal(values.begin() + std::ptrdiff_t(period), values.end(), values.begin())) return period;
    }
    return 0;
}

/// "0-3, 9", and how many ranges these are.
std::pair<std::string, int> ranges_of(const std::vector<bool>& set) {
    if (const auto places = places_of(set)) return {to_string(*places), 1};
    std::string text;
    int ranges = 0;
    for (std::size_t i = 0; i < set.size(); ++i) {
        if (!set[i]) continue;
        std::size_t last = i;
        while (last + 1 < set.size() && set[last + 1]) ++last;
        text += fmt::format("{}{}", ranges++ > 0 ? ", " : "",
                            to_string(Places{0, std::int64_t(i), std::int64_t(last - i + 1)}));
        i = last;
    }
    return {text, ranges};
}

/// "all 2 times", "0-3 0 times, 8-15 2 times", "d % 16 + 1 times".
struct WeightsTold {
    std::string text;
    int free = 0;
};

/// Whole numbers that are computed from the number of their term; nullopt of others.
std::optional<WeightsTold> weights_by_formula(std::string_view name, const std::vector<double>& weights) {
    std::vector<std::pair<std::int64_t, std::int64_t>> table;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] != std::round(weights[i])) return std::nullopt;
        table.emplace_back(std::int64_t(i), std::int64_t(weights[i]));
    }
    const std::optional<IndexFormula> formula = describe_indices(table, name);
    const auto is_of = [&](const auto& entry) { return formula->apply(entry.first) == entry.second; };
    if (!formula || !std::ranges::all_of(table, is_of)) return std::nullopt;
    return WeightsTold{formula->text + " times", std::max(1, formula->parameters)};
}

WeightsTold told_weights(const Evidence& evidence, TermIndex index, const std::vector<double>& weights) {
    const auto times = [&](double weight) {
        return std::round(4 * weight) == 4 * weight ? digits(weight) : named(evidence, weight, 1e-4).name;
    };
    std::set<double> values(weights.begin(), weights.end());
    if (values.size() == 1) return {"all " + times(weights[0]) + " times", 1};
    values.erase(1);
    const std::string_view name = is_over_head(evidence.acts)        ? "d"
                                  : is_of_all_queries(evidence.acts) ? "row"
                                                                     : "col";
    // A few numbers are told by where they are.
    if (values.size() > 2 && index == TermIndex::within_tile)
        if (auto told = weights_by_formula(name, weights)) return *told;
    const std::size_t period = repeat_of(weights);
    if (values.size() > 1 && period > 1 && period <= 16) {
        std::vector<std::string> in_turn;
        for (std::size_t i = 0; i < period; ++i) in_turn.push_back(times(weights[i]));
        return {fmt::format("{} times in turn", fmt::join(in_turn, ", ")), int(period)};
    }
    WeightsTold told;
    for (const double value : values) {
        std::vector<bool> set;
        for (const double weight : weights) set.push_back(weight == value);
        const auto [text, ranges] = ranges_of(set);
        told.text += fmt::format("{}{} {} times", told.free > 0 ? "; " : "", text, times(value));
        told.free += 1 + ranges;
    }
    return told;
}

Candidate weighted(const Evidence& evidence, TermIndex index, const PartSet& set,
                   const std::vector<double>& weights) {
    const WeightsTold told = told_weights(evidence, index, weights);
    const Stage stage = evidence.acts;
    const auto change = [=](SearchedTile& site) { weigh_terms(stage, weights, site, index); };
    Candidate candidate{{{std::string(terms_name(stage, index)), told.text}},
                        only_in(set, stage, {.inputs = change}),
                        told.free + (set.is_all() ? 0 : 1),
                        told.free > 2 ? told.free : 0};
    if (!set.is_all()) candidate.parameters.push_back({"in", set.text(stage)});
    return candidate;
}

void add_weights(const Evidence& evidence, TermIndex index, const PartSet& set,
                 std::vector<Candidate>& candidates) {
    const std::size_t most = set.is_all() ? most_summed : most_summed / 4;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, most, index, set);
    if (wrong.empty()) return;
    const Equations equations = equations_of(wrong);
    const std::optional<Eigen::VectorXd> found = find_weights(equations);
    if (!found) return;
    std::vector<double> weights(found->begin(), found->end());
    const Candidate as_found = weighted(evidence, index, set, weights);
    // Terms that no wrong sum has may be those of lanes that are right.
    for (std::size_t i = 0; i < weights.size(); ++i)
        if (equations.terms.col(Eigen::Index(i)).isZero(0)) weights[i] = 1;
    if (!std::ranges::equal(weights, *found)) candidates.push_back(weighted(evidence, index, set, weights));
    candidates.push_back(as_found);
}

std::vector<Candidate> terms_weighted(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const TermIndex index : term_indices(evidence.acts)) {
        // One term alone is weighed as all of them.
        if (index == TermIndex::within_tile || terms_of_sum(evidence.problem(), evidence.acts, index) > 1)
            add_weights(evidence, index, {}, candidates);
    }
    if (!candidates.empty() || !is_gradient(evidence.acts)) return candidates;
    for (const PartSet& set : part_sets(evidence.problem(), evidence.acts))
        add_weights(evidence, TermIndex::within_tile, set, candidates);
    return candidates;
}

// ---- where a sum begins and ends

/// Rows of P lie one behind the other: a sum that leaves its row goes on in the next one.
constexpr std::int64_t beyond_row = 8;

/// The terms of each element with those around them.
class TermsAround {
 public:
    TermsAround(Stage stage, const SearchedTile& site) : stage_(stage), site_(site) {
        if (stage == Stage::m) scores_ = finished_scores(site).value;
        const bool in_rows = stage == Stage::m || (stage == Stage::l && site.call->problem.l_lanes == 1);
        beyond_ = in_rows ? beyond_row : 0;
    }

    /// So many on each side; NaN where there is no row.
    std::int64_t beyond() const { return beyond_; }

    std::vector<double> of(Eigen::Index row, Eigen::Index col) const {
        const std::vector<double> own = terms(row, col);
        if (beyond_ == 0) return own;
        const std::vector<double> missing(own.size(), quiet_nan);
        const std::vector<double> before = row > 0 ? terms(row - 1, col) : missing;
        const std::vector<double> after = row + 1 < site_.rows() ? terms(row + 1, col) : missing;
        std::vector<double> around(before.end() - beyond_, before.end());
        around.insert(around.end(), own.begin(), own.end());
        around.insert(around.end(), after.begin(), after.begin() + beyond_);
        return around;
    }

 private:
    std::vector<double> terms(Eigen::Index row, Eigen::Index col) const {
        std::vector<double> result;
        if (stage_ != Stage::m) {
            fill_terms(stage_, site_, row, col, result);
            return result;
        }
        result.assign(std::size_t(site_.call->problem.block_n), -infinity);
        for (Eigen::Index c = 0; c < scores_.cols(); ++c) result[std::size_t(c)] = scores_(row, c);
        return result;
    }

    Stage stage_;
    const SearchedTile& site_;
    Matrix scores_;
    std::int64_t beyond_ = 0;
};

enum class End { first, last };

/// A maximum that may stay behind.
double risen(double before, double most, double threshold) {
    return most > before + threshold ? most : before;
}

/// The sum, or the maximum, that begins, or ends, so many terms further on than it should.
double with_moved_end(Stage stage, const std::vector<double>& around, std::int64_t beyond, End end,
                      std::int64_t by) {
    const std::int64_t first = beyond + (end == End::first ? by : 0);
    const std::int64_t last = std::ssize(around) - beyond + (end == End::last ? by : 0);
    double result = stage == Stage::m ? -infinity : 0;
    for (std::int64_t i = first; i < last; ++i) {
        const double term = around[std::size_t(i)];
        if (std::isnan(term)) return term;
        result = stage == Stage::m ? std::max(result, term) : result + term;
    }
    return result;
}

/// By how much the end of an element's sum may have moved.
std::set<std::int64_t> possible_moves(const WrongSum& wrong, Stage stage, const TermsAround& terms, End end) {
    const std::vector<double> around = terms.of(wrong.row, wrong.col);
    const std::int64_t beyond = terms.beyond();
    const std::int64_t count = std::ssize(around) - 2 * beyond;
    const double threshold = wrong.seen->site.call->units.m_stale_threshold;
    std::set<std::int64_t> moves;
    const std::int64_t least = end == End::first ? -beyond : -count;
    for (std::int64_t by = least; by <= least + count + beyond; ++by) {
        const double own = with_moved_end(stage, around, beyond, end, by);
        const double value =
            stage == Stage::m ? risen(wrong.sum.carried, own, threshold) : wrong.sum.carried + own;
        if (value == wrong.sum.got || std::abs(value - wrong.sum.got) <= 2 * wrong.sum.error)
            moves.insert(by);
    }
    return moves;
}

/// The move of a sum's end, by the rest of a coordinate of its element.
struct MovedEnd {
    Stage stage = Stage::s;
    End end = End::first;
    std::int64_t terms = 0;  ///< of a healthy sum
    ElementPlace place = ElementPlace::row;
    std::int64_t period = 1;
    std::vector<std::int64_t> by{};  ///< of each rest
    bool is_whole = false;  ///< nothing that was seen reaches the period: it is the coordinate itself

    /// Whether the sum leaves out so many terms as the rest is, or counts so many.
    bool is_rest(std::int64_t rest, std::int64_t moved) const {
        return std::abs(moved) == rest || (end == End::last && terms + moved == rest);
    }

    std::int64_t at(const SearchedTile& site, Eigen::Index row, Eigen::Index col) const {
        return by[std::size_t(rest_of(site, row, col))];
    }

    std::int64_t rest_of(const SearchedTile& site, Eigen::Index row, Eigen::Index col) const {
        return place_of(place, site, stage, row, col) % period;
    }
};

/// The moves that all elements of a rest have in common; nullopt where a rest has none.
std::optional<MovedEnd> common_moves(const std::vector<WrongSum>& wrong,
                                     const std::vector<std::set<std::int64_t>>& moves, MovedEnd moved) {
    std::map<std::int64_t, std::set<std::int64_t>> common;
    for (std::size_t i = 0; i < wrong.size(); ++i) {
        if (moves[i].empty()) continue;
        const std::int64_t rest = moved.rest_of(wrong[i].seen->site, wrong[i].row, wrong[i].col);
        const auto [at, is_new] = common.try_emplace(rest, moves[i]);
        if (!is_new) std::erase_if(at->second, [&](std::int64_t by) { return !moves[i].contains(by); });
        if (at->second.empty()) return std::nullopt;
    }
    moved.by.assign(std::size_t(moved.period), 0);
    for (const auto& [rest, possible] : common) {
        // The rest itself is the simplest of them, the smallest move the next.
        const auto simplest = [&, rest = rest](std::int64_t by) {
            return std::pair(!moved.is_rest(rest, by), std::abs(by));
        };
        moved.by[std::size_t(rest)] = *std::ranges::min_element(possible, {}, simplest);
    }
    return moved;
}

/// "8", "row % 4", "1, 0, 3, 2 by row % 4"; `offset` is added to each.
WeightsTold told_moves(const MovedEnd& moved, std::int64_t offset, int sign) {
    if (moved.period == 1) return {digits(offset + sign * moved.by[0]), 2};
    const std::string_view name = place_name(moved.place, moved.stage);
    const std::string rest = moved.is_whole ? std::string(name) : fmt::format("{} % {}", name, moved.period);
    std::vector<std::int64_t> values;
    bool is_rest = true;
    for (std::int64_t i = 0; i < moved.period; ++i) {
        const std::int64_t by = moved.by[std::size_t(i)];
        values.push_back(by == 0 ? 0 : offset + sign * by);
        // A right element says nothing of an end that is where it should be.
        is_rest = is_rest && (values.back() == i || by == 0);
    }
    if (is_rest) return {rest, 3};
    return {fmt::format("{} by {}", fmt::join(values, ", "), rest), 2 + int(moved.period)};
}

Change moves_sums(const MovedEnd& moved) {
    return adds_to_sums(moved.stage, [=](const SearchedTile& site, Matrix& more) {
        const TermsAround terms(moved.stage, site);
        for (Eigen::Index i = 0; i < more.rows(); ++i) {
            for (Eigen::Index j = 0; j < more.cols(); ++j) {
                const std::int64_t by = moved.at(site, i, j);
                if (by == 0) continue;
                const std::vector<double> around = terms.of(i, j);
                more(i, j) = with_moved_end(moved.stage, around, terms.beyond(), moved.end, by) -
                             with_moved_end(moved.stage, around, terms.beyond(), moved.end, 0);
            }
        }
    });
}

Change moves_maxima(const MovedEnd& moved) {
    return {.result = [=](const SearchedTile& site, Estimate& m) {
        const TermsAround terms(Stage::m, site);
        for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
            const std::int64_t by = moved.at(site, i, 0);
            if (by == 0) continue;
            const double own = with_moved_end(Stage::m, terms.of(i, 0), terms.beyond(), moved.end, by);
            double& value = m.value(i, 0);
            value = risen(site.before.m.value(i, 0), own, site.call->units.m_stale_threshold);
            m.error(i, 0) = std::isfinite(value) ? 8 * u_f32 * std::abs(value) : 0;
        }
    }};
}

Candidate candidate_of(const Evidence& evidence, const MovedEnd& moved) {
    const std::int64_t terms = terms_of_sum(evidence.problem(), evidence.acts);
    std::vector<std::pair<std::string, WeightsTold>> ways;
    const std::string of = fmt::format("of {} {}", terms, terms_name(evidence.acts));
    if (moved.end == End::first) {
        ways.emplace_back("begins after", told_moves(moved, 0, 1));
        ways.emplace_back("begins before the first by", told_moves(moved, 0, -1));
    } else {
        ways.emplace_back("ends before the last by", told_moves(moved, 0, -1));
        ways.emplace_back("ends beyond the last by", told_moves(moved, 0, 1));
        ways.emplace_back("ends after", told_moves(moved, terms, 1));
    }
    const auto is_odd = [](const auto& way) {
        return std::pair(way.second.free, way.second.text.starts_with("-"));
    };
    const auto& [name, told] = *std::ranges::min_element(ways, {}, is_odd);
    return {{{"it", fmt::format("{} {}, {}", name, told.text, of)}},
            evidence.acts == Stage::m ? moves_maxima(moved) : moves_sums(moved),
            told.free,
            told.free > 3 ? told.free : 0};
}

/// Whether each rest moves the end by as much as it is itself; then those that were not seen do so, too.
bool counts_rests(MovedEnd& moved) {
    const auto by_rest = [&](auto of_rest) {
        for (std::int64_t rest = 1; rest < moved.period; ++rest) {
            const std::int64_t by = moved.by[std::size_t(rest)];
            if (by != 0 && by != of_rest(rest)) return false;
        }
        for (std::int64_t rest = 1; rest < moved.period; ++rest) moved.by[std::size_t(rest)] = of_rest(rest);
        return true;
    };
    return by_rest([](std::int64_t rest) { return rest; }) ||
           by_rest([](std::int64_t rest) { return -rest; }) ||
           (moved.end == End::last && by_rest([&](std::int64_t rest) { return rest - moved.terms; }));
}

/// The simplest description of these moves by a coordinate.
std::optional<MovedEnd> moved_by(Stage stage, const std::vector<WrongSum>& wrong,
                                 const std::vector<std::set<std::int64_t>>& moves, End end,
                                 std::int64_t terms, ElementPlace place) {
    constexpr std::int64_t longest = 16;
    std::int64_t most = 0;
    for (const WrongSum& one : wrong)
        most = std::max(most, place_of(place, one.seen->site, stage, one.row, one.col));
    std::optional<MovedEnd> best;
    for (const std::int64_t period : {2, 3, 4, 8, 16}) {
        const bool is_whole = period > 2 && most < period;
        std::optional<MovedEnd> moved =
            common_moves(wrong, moves, {stage, end, terms, place, is_whole ? longest : period, {}, is_whole});
        if (!moved) continue;
        const bool counts = counts_rests(*moved);
        // A long table is no description.
        if (counts || (!best && period <= 4)) best = std::move(moved);
        if (counts) break;
    }
    return best;
}

std::vector<Candidate> sum_of_other_range(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, most_summed / 2);
    const std::int64_t terms = terms_of_sum(evidence.problem(), evidence.acts);
    for (const End end : {End::first, End::last}) {
        std::vector<std::set<std::int64_t>> moves;
        const Observation* seen = nullptr;
        std::optional<TermsAround> around;
        for (const WrongSum& one : wrong) {
            if (one.seen != std::exchange(seen, one.seen)) around.emplace(evidence.acts, seen->site);
            moves.push_back(possible_moves(one, evidence.acts, *around, end));
        }
        const auto unknown = std::ranges::count_if(moves, [](const auto& set) { return set.empty(); });
        if (wrong.empty() || unknown * 20 > std::ssize(moves)) continue;
        if (const auto moved = common_moves(wrong, moves, {evidence.acts, end, terms}))
            candidates.push_back(candidate_of(evidence, *moved));
        for (const ElementPlace place : places_of_elements(evidence.acts))
            if (const auto moved = moved_by(evidence.acts, wrong, moves, end, terms, place))
                candidates.push_back(candidate_of(evidence, *moved));
    }
    return candidates;
}

}  // namespace

std::vector<Cause> identified_sum_causes() {
    const std::vector<Stage> sums = {Stage::s,  Stage::l,  Stage::acc, Stage::delta,
                                     Stage::dp, Stage::dq, Stage::dk,  Stage::dv};
    return {
        {"terms_weighted", "reduction", sums, "terms of the sum are missing, or count more or less than once",
         "the bounds and the step of the loop that adds them up, and what they are multiplied with",
         terms_weighted},
        {"sum_of_other_range",
         "reduction",
         {Stage::s, Stage::m, Stage::l, Stage::acc, Stage::delta, Stage::dp, Stage::dq, Stage::dk, Stage::dv},
         "the sum, or the maximum, begins or ends at another term",
         "the bounds of the loop over its terms",
         sum_of_other_range},
    };
}

}  // namespace tilescope
