// Where a sum, a maximum or a minimum begins and ends: of fewer terms, of which the first and the last ones tell how many they are.

#include <algorithm>
#include <cmath>
#include <optional>

#include "oracle/program/solved.h"
#include "oracle/program/votes.h"

namespace tilescope {

namespace {

constexpr double bits_of_bound = 4;
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
          block_(offers.samples().call().blocks[std::size_t(axis_)]) {}

    void offer(bool is_begin) {
        const ProgramCall& call = offers_.samples().call();
        const std::vector<Vote> votes = votes_of(is_begin);
        std::vector<PlaceNumber> numbers = place_numbers(offers_.program(), of_.axes);
        for (const int axis : of_.axes) {
            if (offers_.program().axes[std::size_t(axis)].block >= 0)
                numbers.push_back({axis, PlaceNumber::Kind::within});
        }
        const std::int64_t end = is_cut_ ? block_ : call.extents[std::size_t(axis_)];
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
        std::ranges::stable_sort(bounds_, {}, &Bound::bits);
        if (bounds_.size() > most_bounds) bounds_.resize(most_bounds);
        for (const Bound& bound : bounds_) offers_.add(of_.stage, of_.node, bound.sum, bound.bits, "range");
        bounds_.clear();
    }

 private:
    /// Of the axis, or counted within the block that the sum goes along.
    std::int64_t first_of(const SumSample& sample) const {
        return is_cut_ ? sample.first % block_ : sample.first;
    }

    std::vector<Vote> votes_of(bool is_begin) const {
        std::vector<Vote> votes;
        for (const SumSample& sample : of_.samples) {
            Vote vote{sample.at, {}};
            for (std::size_t k = 0; k <= sample.terms.size(); ++k) {
                if (agrees(sample, is_begin, std::int64_t(k)))
                    vote.indices.push_back(first_of(sample) + std::int64_t(k));
            }
            if (double(vote.indices.size()) <=
                std::max(1.0, telling_share_of_ends * double(sample.terms.size())))
                votes.push_back(std::move(vote));
        }
        return votes;
    }

    /// From that term on, or up to it.
    bool agrees(const SumSample& sample, bool is_begin, std::int64_t bound) const {
        const auto middle =
            sample.terms.begin() + std::clamp<std::int64_t>(bound, 0, std::ssize(sample.terms));
        double all = none_;
        for (auto term = is_begin ? middle : sample.terms.begin();
             term != (is_begin ? sample.terms.end() : middle); ++term)
            all = op_ == ProgramOp::sum    ? all + *term
                  : op_ == ProgramOp::most ? std::max(all, *term)
                                           : std::min(all, *term);
        return all == sample.needed || std::abs(all - sample.needed) <= sample.error;
    }

    /// Where most sums are the same with more or fewer terms.
    void try_usual(bool is_begin, std::int64_t end, const PlaceNumber& by) {
        const Expr number(voted_by);
        std::vector<Expr> usual{number};
        for (std::int64_t n = 2; n < end; ++n) usual.push_back(number % Expr(n));
        for (const Expr& expr : usual) {
            take(is_begin, expr, by);
            if (!is_begin) take(is_begin, Expr(end) - expr, by);
        }
    }

    struct Bound {
        int sum;
        double bits;
    };

    void take(bool is_begin, const Expr& expr, const PlaceNumber& by) {
        ProgramBuilder& build = offers_.build();
        const auto unexplained = std::ranges::count_if(of_.samples, [&](const SumSample& sample) {
            const std::int64_t bound = expr.at(voted_by, by.of(offers_.samples().call(), sample.at));
            return !agrees(sample, is_begin, bound - first_of(sample));
        });
        if (double(unexplained) > unexplained_share * double(of_.samples.size())) return;
        const int bound = build.index(expr, [&](Coordinate) { return by.node(build); });
        if (bound < 0) return;
        const int at = is_cut_ ? build.within_block(axis_) : build.axis(axis_);
        ProgramNode sum = offers_.program().node(of_.node);
        sum.of[0] =
            build.chosen(sum.of[0], build.of_two(is_begin ? ProgramOp::at_least : ProgramOp::less, at, bound),
                         build.real(none_));
        bounds_.push_back({build.add(std::move(sum)), bits_of_bound + bits_of_expression(expr)});
    }

    RewriteOffers& offers_;
    const SumSamples& of_;
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
}

}  // namespace tilescope
