#include "oracle/causes/sum_ranges.h"

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

namespace tilescope {

namespace {

constexpr std::size_t most_moved_sums = 1024;
constexpr std::size_t most_unmoved_sums = 512;

// ---- terms beyond those of a sum

/// Rows lie one behind the other: a sum that leaves its row goes on in the next one.
constexpr std::int64_t most_beyond = 8;

/// The terms of each element with those around them.
class TermsAround {
 public:
    TermsAround(Stage stage, const SearchedTile& site) : stage_(stage), site_(site) {
        if (stage == Stage::m) scores_ = finished_scores(site).value;
        const bool in_rows = stage == Stage::m || stage == Stage::l || is_over_head(stage);
        if (in_rows) beyond_ = std::min(most_beyond, terms_of_sum(site.call->problem, stage));
    }

    /// So many on each side; NaN where it is not known what lies there.
    std::int64_t beyond() const { return beyond_; }

    std::vector<double> of(Eigen::Index row, Eigen::Index col) const {
        std::vector<double> around(std::size_t(beyond_), quiet_nan);
        const std::vector<double> own = terms(row, col);
        if (const auto before = terms_of_row_before(row, col))
            std::copy(before->end() - beyond_, before->end(), around.begin());
        around.insert(around.end(), own.begin(), own.end());
        const auto after = terms_of_row_after(row, col);
        for (std::int64_t i = 0; i < beyond_; ++i)
            around.push_back(after ? (*after)[std::size_t(i)] : quiet_nan);
        return around;
    }

 private:
    std::optional<std::vector<double>> terms_of_row_before(Eigen::Index row, Eigen::Index col) const {
        // Which lane adds up what is before the first column is left to the kernel.
        if (beyond_ == 0 || (stage_ == Stage::l && site_.call->problem.l_lanes > 1)) return std::nullopt;
        const Eigen::Index col_before = is_of_two_rows() ? col - 1 : col;
        if (row == 0 || col_before < 0) return std::nullopt;
        return terms(row - 1, col_before);
    }

    std::optional<std::vector<double>> terms_of_row_after(Eigen::Index row, Eigen::Index col) const {
        const Eigen::Index col_after = is_of_two_rows() ? col + 1 : col;
        if (beyond_ == 0 || row + 1 >= site_.rows()) return std::nullopt;
        if (is_of_two_rows() && col_after >= site_.keys()) return std::nullopt;
        if (stage_ != Stage::l) return terms(row + 1, col_after);
        const Problem& problem = site_.call->problem;
        const Matrix& p = p_added_up(site_).value;
        std::vector<double> result(std::size_t(beyond_), 0);
        for (Eigen::Index i = 0; i < std::min<Eigen::Index>(beyond_, p.cols()); ++i)
            if (problem.l_lane(problem.block_n + i) == col) result[std::size_t(i)] = p(row + 1, i);
        return result;
    }

    /// Of two operands: a row of each goes on.
    bool is_of_two_rows() const { return stage_ == Stage::s || stage_ == Stage::dp; }

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

// ---- moves that are possible

/// By how much the end of an element's sum may have moved.
struct PossibleMoves {
    const SearchedTile* site = nullptr;
    Eigen::Index row = 0;
    Eigen::Index col = 0;
    std::set<std::int64_t> by;
    bool is_open = false;  ///< or by another number, into memory that is not known
};

PossibleMoves possible_moves(const WrongSum& element, Stage stage, const TermsAround& terms, End end) {
    PossibleMoves moves{&element.seen->site, element.row, element.col, {}};
    const std::vector<double> around = terms.of(element.row, element.col);
    const std::int64_t beyond = terms.beyond();
    const std::int64_t count = std::ssize(around) - 2 * beyond;
    const double threshold = element.seen->site.call->units.m_stale_threshold;
    const std::int64_t least = end == End::first ? -beyond : -count;
    for (std::int64_t by = least; by <= least + count + beyond; ++by) {
        const double own = with_moved_end(stage, around, beyond, end, by);
        moves.is_open = moves.is_open || std::isnan(own);
        const double value =
            stage == Stage::m ? risen(element.sum.carried, own, threshold) : element.sum.carried + own;
        if (value == element.sum.got || std::abs(value - element.sum.got) <= 2 * element.sum.error)
            moves.by.insert(by);
    }
    return moves;
}

std::vector<PossibleMoves> moves_of(const std::vector<WrongSum>& elements, Stage stage, End end) {
    std::vector<PossibleMoves> moves;
    const Observation* seen = nullptr;
    std::optional<TermsAround> around;
    for (const WrongSum& one : elements) {
        if (one.seen != std::exchange(seen, one.seen)) around.emplace(stage, seen->site);
        moves.push_back(possible_moves(one, stage, *around, end));
    }
    return moves;
}

/// Whether nearly all elements of which that is known have moved.
bool may_all_have_moved(const std::vector<PossibleMoves>& moves) {
    const auto known = std::ranges::count_if(moves, [](const auto& one) { return !one.by.empty(); });
    const auto none =
        std::ranges::count_if(moves, [](const auto& one) { return one.by.empty() && !one.is_open; });
    return known * 2 > std::ssize(moves) && none * 20 <= known + none;
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

/// The moves that all elements of a rest have in common.
using MovesOfRests = std::map<std::int64_t, std::set<std::int64_t>>;

/// nullopt where a rest has none.
std::optional<MovesOfRests> common_moves(const std::vector<PossibleMoves>& moves, const MovedEnd& moved) {
    MovesOfRests common;
    for (const PossibleMoves& one : moves) {
        if (one.by.empty()) continue;
        const auto [at, is_new] = common.try_emplace(moved.rest_of(*one.site, one.row, one.col), one.by);
        if (!is_new) std::erase_if(at->second, [&](std::int64_t by) { return !one.by.contains(by); });
        if (at->second.empty()) return std::nullopt;
    }
    return common;
}

/// The simplest move of each rest.
MovedEnd by_table(const MovesOfRests& common, MovedEnd moved) {
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

/// Where each rest moves the end by as much as it is itself; then those that were not seen do so, too.
std::optional<MovedEnd> by_rest(const MovesOfRests& common, MovedEnd moved) {
    const auto fill = [&](auto of_rest) {
        const auto is_of = [&](const auto& one) { return one.second.contains(of_rest(one.first)); };
        if (!std::ranges::all_of(common, is_of)) return false;
        moved.by.clear();
        for (std::int64_t rest = 0; rest < moved.period; ++rest) moved.by.push_back(of_rest(rest));
        return true;
    };
    const bool is_found =
        fill([](std::int64_t rest) { return rest; }) || fill([](std::int64_t rest) { return -rest; }) ||
        (moved.end == End::last && fill([&](std::int64_t rest) { return rest - moved.terms; }));
    return is_found ? std::optional(moved) : std::nullopt;
}

/// The simplest description of these moves by a coordinate.
std::optional<MovedEnd> moved_by(const std::vector<PossibleMoves>& moves, MovedEnd moved) {
    std::int64_t most = 0;
    for (const PossibleMoves& one : moves)
        most = std::max(most, place_of(moved.place, *one.site, moved.stage, one.row, one.col));
    // The shortest that nothing contradicts, powers of two first.
    for (const std::int64_t period : {2, 4, 8, 16, 3}) {
        moved.period = period;
        moved.is_whole = period == 16 && most < period;
        const auto common = common_moves(moves, moved);
        if (!common) continue;
        if (auto found = by_rest(*common, moved)) return found;
    }
    moved.is_whole = false;
    // A long table is no description.
    for (const std::int64_t period : {2, 3, 4}) {
        moved.period = period;
        if (const auto common = common_moves(moves, moved)) return by_table(*common, moved);
    }
    return std::nullopt;
}

// ---- candidates

/// "8", "row % 4", "1, 0, 3, 2 by row % 4".
struct MovesTold {
    std::string text;
    int free = 0;
    bool is_negative = false;  ///< the first number
};

/// `offset` is added to each.
MovesTold told_moves(const MovedEnd& moved, std::int64_t offset, int sign) {
    if (moved.period == 1) {
        const std::int64_t number = offset + sign * moved.by[0];
        return {digits(number), 2, number < 0};
    }
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
    return {fmt::format("{} by {}", fmt::join(values, ", "), rest), 2 + int(moved.period),
            values.front() < 0};
}

/// Elements that depend on memory of which nothing is known are left open.
Change moves_sums(const MovedEnd& moved) {
    Change change = adds_to_sums(moved.stage, [=](const SearchedTile& site, Matrix& more) {
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
    change.result = [adds = change.result](const SearchedTile& site, Estimate& result) {
        const Matrix healthy = result.value;
        adds(site, result);
        for (Eigen::Index i = 0; i < healthy.size(); ++i) {
            if (!std::isnan(result.value.data()[i]) || std::isnan(healthy.data()[i])) continue;
            result.value.data()[i] = healthy.data()[i];
            result.error.data()[i] = infinity;
        }
    };
    return change;
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
            m.error(i, 0) = std::isnan(own)        ? infinity
                            : std::isfinite(value) ? 8 * u_f32 * std::abs(value)
                                                   : 0;
        }
    }};
}

Candidate candidate_of(const Evidence& evidence, const MovedEnd& moved) {
    const std::int64_t terms = moved.terms;
    std::vector<std::pair<std::string, MovesTold>> ways;
    const std::string of = fmt::format("of {} {}", terms, terms_name(evidence.acts));
    if (moved.end == End::first) {
        ways.emplace_back("begins after", told_moves(moved, 0, 1));
        ways.emplace_back("begins before the first by", told_moves(moved, 0, -1));
    } else {
        ways.emplace_back("ends before the last by", told_moves(moved, 0, -1));
        ways.emplace_back("ends beyond the last by", told_moves(moved, 0, 1));
        ways.emplace_back("ends after", told_moves(moved, terms, 1));
    }
    const auto is_odd = [](const auto& way) { return std::pair(way.second.free, way.second.is_negative); };
    const auto& [name, told] = *std::ranges::min_element(ways, {}, is_odd);
    return {{{"it", fmt::format("{} {}, {}", name, told.text, of)}},
            evidence.acts == Stage::m ? moves_maxima(moved) : moves_sums(moved),
            told.free,
            told.free > 3 ? told.free : 0};
}

}  // namespace

std::vector<Candidate> sum_of_other_range(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Stage stage = evidence.acts;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, most_moved_sums);
    if (wrong.empty()) return candidates;
    const std::vector<WrongSum> right = right_sums(evidence, most_unmoved_sums);
    for (const End end : {End::first, End::last}) {
        const std::vector<PossibleMoves> moves = moves_of(wrong, stage, end);
        if (!may_all_have_moved(moves)) continue;
        MovedEnd moved{stage, end, terms_of_sum(evidence.problem(), stage)};
        if (const auto common = common_moves(moves, moved))
            candidates.push_back(candidate_of(evidence, by_table(*common, moved)));
        // What is right tells the coordinate, too, unless the mistake is not made everywhere.
        std::vector<PossibleMoves> all = moves_of(right, stage, end);
        for (PossibleMoves& one : all) one.by.insert(0);
        all.insert(all.end(), moves.begin(), moves.end());
        for (const ElementPlace place : places_of_elements(stage)) {
            moved.place = place;
            auto found = moved_by(all, moved);
            if (!found) found = moved_by(moves, moved);
            if (found) candidates.push_back(candidate_of(evidence, *found));
        }
    }
    return candidates;
}

}  // namespace tilescope
