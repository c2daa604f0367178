// Where a sum, a maximum or a minimum begins and ends: of fewer terms, of which the first and the last ones tell how many they are.

#include <algorithm>
#include <cmath>
#include <optional>

#include "oracle/program/solved.h"
#include "oracle/program/votes.h"

namespace tilescope {

namespace {

constexpr double bits_of_bound = 4;
/// Of the row beside it, whose terms a sum goes on to.
constexpr double bits_of_beyond = 4;
constexpr std::int64_t most_beyond = 4;
/// A sum that is the same with more of its ends tells nothing.
constexpr double telling_share_of_ends = 0.25;
/// Of those that a sum may begin or end with, the shortest.
constexpr std::size_t most_bounds = 3;

class SumBounds {
 public:
    SumBounds(RewriteOffers& offers, const SumSamples& of)
        : offers_(offers),
          of_(of),
          axis_(of.axis),
          is_cut_(offers.program().axes[std::size_t(axis_)].block >= 0),
          block_(offers.samples().call().blocks[std::size_t(axis_)]) {
        for (const std::vector<SumSample>* const some : {&of.samples, &of.empty})
            for (const SumSample& sample : *some) samples_.push_back(&sample);
    }

    /// The one term that is taken in the place of all.
    void offer_one() {
        std::vector<Vote> votes;
        for (const SumSample& sample : of_.samples) {
            Vote vote{sample.at, {}};
            for (std::size_t k = 0; k < sample.terms.size(); ++k)
                if (is_needed(sample, sample.terms[k]))
                    vote.indices.push_back(first_of(sample) + std::int64_t(k));
            votes.push_back(std::move(vote));
        }
        for (const PlaceNumber& by : place_numbers(offers_.program(), of_.axes)) {
            const std::optional<VotedIndices> table = voted(offers_.samples().call(), votes, by);
            if (!table) continue;
            for (const Expr& expr : expressions_of(*table)) take_one(expr, by);
        }
        add_shortest();
    }

    void offer(bool is_begin) {
        const ProgramCall& call = offers_.samples().call();
        const std::vector<Vote> votes = votes_of(is_begin);
        const std::int64_t end = is_cut_ ? block_ : call.extents[std::size_t(axis_)];
        const std::vector<PlaceNumber> numbers = place_numbers(offers_.program(), of_.axes);
        for (const PlaceNumber& by : numbers) {
            try_usual(is_begin, end, by);
            std::optional<VotedIndices> table;
            if (std::ssize(votes) >= fewest_places) table = voted(call, votes, by);
            if (!table) continue;
            for (const Expr& expr : expressions_of(*table)) take(is_begin, expr, by);
            if (is_begin) continue;
            for (auto& [x, bound] : *table) bound = end - bound;
            for (const Expr& expr : expressions_of(*table)) take(is_begin, Expr(end) - expr, by);
        }
        if (of_.row_axis >= 0) offer_beyond(is_begin, numbers);
        add_shortest();
    }

 private:
    void add_shortest() {
        std::ranges::stable_sort(bounds_, {}, &Bound::bits);
        if (bounds_.size() > most_bounds) bounds_.resize(most_bounds);
        for (const Bound& bound : bounds_) offers_.add(of_.stage, of_.node, bound.sum, bound.bits, "range");
        bounds_.clear();
    }

    /// Of the axis, or counted within the block that the sum goes along.
    std::int64_t first_of(const SumSample& sample) const {
        return is_cut_ ? sample.first % block_ : sample.first;
    }

    std::vector<Vote> votes_of(bool is_begin) const {
        std::vector<Vote> votes;
        for (const SumSample* const sample : samples_) {
            Vote vote{sample->at, {}};
            for (std::size_t k = 0; k <= sample->terms.size(); ++k) {
                if (agrees(*sample, is_begin, std::int64_t(k)))
                    vote.indices.push_back(first_of(*sample) + std::int64_t(k));
            }
            if (double(vote.indices.size()) <=
                std::max(1.0, telling_share_of_ends * double(sample->terms.size())))
                votes.push_back(std::move(vote));
        }
        return votes;
    }

    /// From that term on, or up to it.
    bool agrees(const SumSample& sample, bool is_begin, std::int64_t bound) const {
        const auto middle =
            sample.terms.begin() + std::clamp<std::int64_t>(bound, 0, std::ssize(sample.terms));
        return is_needed(sample, is_begin ? of_terms(middle, sample.terms.end(), none_)
                                          : of_terms(sample.terms.begin(), middle, none_));
    }

    template <class Terms>
    double of_terms(Terms term, Terms end, double all) const {
        for (; term != end; ++term)
            all = op_ == ProgramOp::sum    ? all + *term
                  : op_ == ProgramOp::most ? std::max(all, *term)
                                           : std::min(all, *term);
        return all;
    }
    static bool is_needed(const SumSample& sample, double all) {
        return all == sample.needed || std::abs(all - sample.needed) <= sample.error;
    }

    /// Where most sums are the same with more or fewer terms.
    void try_usual(bool is_begin, std::int64_t end, const PlaceNumber& by) {
        const Expr number(voted_by);
        std::vector<Expr> usual{number};
        for (std::int64_t n = 2; n < end; ++n) usual.push_back(number % Expr(n));
        // Each lane with a part of its own.
        for (const std::int64_t lanes : {2, 4, 8, 16, 32})
            if (end % lanes == 0 && end > lanes) usual.push_back(number % Expr(lanes) * Expr(end / lanes));
        for (const Expr& expr : usual) {
            take(is_begin, expr, by);
            if (!is_begin) take(is_begin, Expr(end) - expr, by);
        }
    }

    /// So many terms of the row before, its last ones, or of the row after, its first ones; nullopt: that row is in another tile.
    std::optional<double> with_beyond(const SumSample& sample, bool is_begin, std::int64_t count) const {
        const std::vector<double>& row = sample.beside[is_begin ? 0 : 1];
        if (row.empty()) return std::nullopt;
        double all = of_terms(sample.terms.begin(), sample.terms.end(), none_);
        // Behind the last key there is nothing.
        const std::int64_t first = std::min(is_begin ? block_ - count : 0, std::ssize(row));
        const std::int64_t end = std::min(is_begin ? block_ : count, std::ssize(row));
        return of_terms(row.begin() + first, row.begin() + std::max(first, end), all);
    }

    void offer_beyond(bool is_begin, const std::vector<PlaceNumber>& numbers) {
        if (!is_cut_) return;
        std::vector<Vote> votes;
        for (const SumSample* const sample : samples_) {
            Vote vote{sample->at, {}};
            for (std::int64_t count = 1; count <= most_beyond && count < block_; ++count) {
                const std::optional<double> all = with_beyond(*sample, is_begin, count);
                if (all && is_needed(*sample, *all)) vote.indices.push_back(count);
            }
            if (!vote.indices.empty()) votes.push_back(std::move(vote));
        }
        if (std::ssize(votes) < fewest_places) return;
        for (const PlaceNumber& by : numbers) {
            const auto table = voted(offers_.samples().call(), votes, by);
            if (!table) continue;
            for (const Expr& expr : expressions_of(*table)) take_beyond(is_begin, expr, by);
        }
    }

    void take_beyond(bool is_begin, const Expr& expr, const PlaceNumber& by) {
        ProgramBuilder& build = offers_.build();
        const auto unexplained = std::ranges::count_if(samples_, [&](const SumSample* sample) {
            const std::int64_t count = expr.at(voted_by, by.of(offers_.samples().call(), sample->at));
            if (count < 1 || count >= block_) return true;
            const std::optional<double> all = with_beyond(*sample, is_begin, count);
            return all && !is_needed(*sample, *all);
        });
        if (double(unexplained) > unexplained_share * double(samples_.size())) return;
        const int count = build.index(expr, [&](Coordinate) { return by.node(build); });
        if (count < 0) return;
        const Program& program = offers_.program();
        const int rows = program.axes[std::size_t(of_.row_axis)].block;
        const int within = build.within_block(of_.row_axis);
        const int is_there = is_begin ? build.of_two(ProgramOp::more, within, build.whole(0))
                                      : build.of_two(ProgramOp::less, within, build.moved(rows, -1));
        // Nobody knows what stands before and behind the tile.
        const int row =
            build.chosen(build.moved(build.axis(of_.row_axis), is_begin ? -1 : 1), is_there, build.whole(-1));
        ProgramNode other = program.node(build.at_index(of_.node, of_.row_axis, row));
        const int at = build.within_block(axis_);
        const int cols = program.axes[std::size_t(axis_)].block;
        const int is_taken =
            is_begin ? build.of_two(ProgramOp::at_least, at, build.of_two(ProgramOp::minus, cols, count))
                     : build.of_two(ProgramOp::less, at, count);
        other.of[0] = build.chosen(other.of[0], is_taken, build.real(none_));
        const ProgramOp joined = op_ == ProgramOp::sum    ? ProgramOp::plus
                                 : op_ == ProgramOp::most ? ProgramOp::larger
                                                          : ProgramOp::smaller;
        bounds_.push_back({build.of_two(joined, of_.node, build.add(std::move(other))),
                           bits_of_bound + bits_of_beyond + bits_of_expression(expr)});
    }

    void take_one(const Expr& expr, const PlaceNumber& by) {
        const auto unexplained = std::ranges::count_if(of_.samples, [&](const SumSample& sample) {
            const std::int64_t at =
                expr.at(voted_by, by.of(offers_.samples().call(), sample.at)) - first_of(sample);
            const bool is_there = at >= 0 && at < std::ssize(sample.terms);
            return !is_there || !is_needed(sample, sample.terms[std::size_t(at)]);
        });
        if (double(unexplained) > unexplained_share * double(of_.samples.size())) return;
        ProgramBuilder& build = offers_.build();
        const int index = build.index(expr, [&](Coordinate) { return by.node(build); });
        if (index >= 0)
            add_range(build.of_two(ProgramOp::equal, is_cut_ ? build.within_block(axis_) : build.axis(axis_),
                                   index),
                      expr);
    }

    /// Of the terms those of which it holds.
    void add_range(int condition, const Expr& expr) {
        ProgramBuilder& build = offers_.build();
        ProgramNode sum = offers_.program().node(of_.node);
        sum.of[0] = build.chosen(sum.of[0], condition, build.real(none_));
        bounds_.push_back({build.add(std::move(sum)), bits_of_bound + bits_of_expression(expr)});
    }

    struct Bound {
        int sum;
        double bits;
    };

    void take(bool is_begin, const Expr& expr, const PlaceNumber& by) {
        ProgramBuilder& build = offers_.build();
        bool has_terms = false;  // A sum of none is a number.
        const auto unexplained = std::ranges::count_if(samples_, [&](const SumSample* sample) {
            const std::int64_t bound =
                expr.at(voted_by, by.of(offers_.samples().call(), sample->at)) - first_of(*sample);
            has_terms = has_terms || (is_begin ? bound < std::ssize(sample->terms) : bound > 0);
            return !agrees(*sample, is_begin, bound);
        });
        if (!has_terms || double(unexplained) > unexplained_share * double(samples_.size())) return;
        const int bound = build.index(expr, [&](Coordinate) { return by.node(build); });
        if (bound < 0) return;
        const int at = is_cut_ ? build.within_block(axis_) : build.axis(axis_);
        add_range(build.of_two(is_begin ? ProgramOp::at_least : ProgramOp::less, at, bound), expr);
    }

    RewriteOffers& offers_;
    const SumSamples& of_;
    std::vector<const SumSample*> samples_{};
    ProgramOp op_ = offers_.program().node(of_.node).op;
    double none_ = op_ == ProgramOp::sum ? 0 : op_ == ProgramOp::most ? -HUGE_VAL : HUGE_VAL;
    int axis_;
    bool is_cut_;
    std::int64_t block_;
    std::vector<Bound> bounds_{};
};

}  // namespace

void offer_bounds(RewriteOffers& offers, const SumSamples& of) {
    if (std::ssize(of.samples) < fewest_places) return;
    SumBounds bounds(offers, of);
    for (const bool is_begin : {true, false}) bounds.offer(is_begin);
    bounds.offer_one();
}

}  // namespace tilescope
