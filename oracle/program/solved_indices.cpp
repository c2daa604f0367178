#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "oracle/program/place_sum.h"
#include "oracle/program/solved.h"
#include "oracle/program/votes.h"

namespace tilescope {

namespace {

constexpr std::int64_t most_votes = 1024;
constexpr std::int64_t most_extent = 4096;
/// An element that agrees with more of an array tells nothing.
constexpr double telling_share = 0.25;
/// Which index it is that is otherwise.
constexpr double bits_of_dimension = 2;

/// The node, or what stands at another index of it.
int with_index(RewriteOffers& offers, const NodeSamples& of, std::size_t dimension, int index) {
    if (!offers.samples().is_read(of)) return offers.build().at_index(of.node, of.axes[dimension], index);
    ProgramNode read = offers.program().node(of.node);
    read.list[dimension] = index;
    return offers.build().add(std::move(read));
}

std::vector<Vote> votes_of(const FormulaSamples& samples, const NodeSamples& of, std::size_t dimension) {
    std::vector<Vote> votes;
    SpreadChoice some(of.wrong, most_votes);
    for (const NodeSample& sample : of.samples) {
        if (!sample.is_wrong || !some.takes()) continue;
        const AxisRange range = samples.range_of(of, dimension, sample.part);
        if (range.count < 2 || range.count > most_extent) continue;
        Vote vote{sample.at, {}, sample.index[dimension]};
        ElementIndices index = sample.index;
        for (std::int64_t y = range.first; y < range.first + range.count; ++y) {
            index[dimension] = std::int32_t(y);
            if (sample.agrees(samples.value_at(of, sample, index))) vote.indices.push_back(y);
        }
        // Guarded loads leave 0 beyond the array, where no index tells.
        const bool is_beyond = vote.indices.empty() && sample.agrees(0);
        if (!is_beyond && double(vote.indices.size()) <= std::max(1.0, telling_share * double(range.count)))
            votes.push_back(std::move(vote));
    }
    return votes;
}

/// Whether 0 is needed at all places beyond the array, which is how guarded loads end; they are 0 then.
bool reads_zeros_beyond(const NodeSamples& of, std::vector<double>& values) {
    bool is_any = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!std::isnan(values[i]) || !of.samples[i].is_wrong) continue;
        if (!of.samples[i].agrees(0)) return false;
        is_any = true;
    }
    for (double& value : values) {
        if (is_any && std::isnan(value)) value = 0;
    }
    return is_any;
}

/// What stands at the index, and 0 on that side of the array, or those, where the index goes beyond it.
int or_zero_beyond(RewriteOffers& offers, const NodeSamples& of, std::size_t dimension, int index,
                   const AxisRange& reached) {
    ProgramBuilder& build = offers.build();
    const AxisRange range = offers.samples().range_of(of, dimension, 0);
    const int array = offers.samples().is_read(of) ? offers.program().node(of.node).what : -1;
    const int extent = array < 0 || range.first > 0 ? -1 : build.extent_of(array, dimension, index);
    const std::int64_t end = range.first + range.count;
    int is_inside = -1;
    if (reached.first < range.first)
        is_inside = build.of_two(ProgramOp::at_least, index, build.whole(range.first));
    if (reached.first + reached.count > end)
        is_inside = build.both(is_inside,
                               build.of_two(ProgramOp::less, index, extent < 0 ? build.whole(end) : extent));
    return build.chosen(with_index(offers, of, dimension, index), is_inside, build.real(0));
}

/// The axis that is the index of a dimension and has an index at each place; -1: there is none.
int axis_in(const RewriteOffers& offers, const NodeSamples& of, std::size_t dimension) {
    const ProgramNode& node = offers.program().node(of.node);
    const int axis =
        offers.samples().is_read(of) ? offers.program().axis_of(node.list[dimension]) : of.axes[dimension];
    return std::ranges::find(of.axes, axis) != of.axes.end() ? axis : -1;
}

/// The index of a dimension, where that is an axis that is cut into blocks.
Counted counted_in(const RewriteOffers& offers, const NodeSamples& of, std::size_t dimension) {
    const int axis = axis_in(offers, of, dimension);
    const bool is_cut = axis >= 0 && offers.program().axes[std::size_t(axis)].block >= 0;
    return is_cut ? Counted{axis, offers.samples().call().blocks[std::size_t(axis)]} : Counted{};
}

/// What is counted from the first row of the tile; nobody knows what stands beyond that.
void offer_within_blocks(RewriteOffers& offers, const NodeSamples& of, std::size_t dimension,
                         const std::vector<Vote>& votes) {
    const FormulaSamples& samples = offers.samples();
    const Counted counted = counted_in(offers, of, dimension);
    if (counted.axis < 0 || counted.block < 2) return;
    ProgramBuilder& build = offers.build();
    std::vector<double> values(of.samples.size());
    std::vector<PlaceNumber> numbers{{counted.axis, PlaceNumber::Kind::within}};
    for (const PlaceNumber& by : offers.numbers_of(of)) {
        if (by.axis != counted.axis) numbers.push_back(by);
    }
    for (const PlaceNumber& by : numbers) {
        const std::optional<VotedIndices> table = voted(samples.call(), votes, by, counted);
        if (!table) continue;
        for (const Expr& expr : expressions_of(*table)) {
            const int within = build.index(expr, [&](Coordinate) { return by.node(build); });
            if (within < 0) continue;
            bool falls_below = false;
            bool goes_beyond = false;
            for (std::size_t i = 0; i < values.size(); ++i) {
                const NodeSample& sample = of.samples[i];
                const std::int64_t y = expr.at(voted_by, by.of(samples.call(), sample.at));
                ElementIndices index = sample.index;
                index[dimension] = std::int32_t(counted.origin(sample.at) + y);
                const bool is_there = y >= 0 && y < counted.block;
                values[i] = is_there ? samples.value_at(of, sample, index) : std::nan("");
                falls_below = falls_below || y < 0;
                goes_beyond = goes_beyond || y >= counted.block;
            }
            const int size = offers.program().axes[std::size_t(counted.axis)].block;
            const int first = build.of_two(ProgramOp::times, build.block_of(counted.axis), size);
            int y = build.of_two(ProgramOp::plus, first, within);
            const int is_there =
                build.both(falls_below ? build.of_two(ProgramOp::at_least, within, build.whole(0)) : -1,
                           goes_beyond ? build.of_two(ProgramOp::less, within, size) : -1);
            if (is_there >= 0) y = build.chosen(y, is_there, build.whole(-1));
            offers.offer(of, with_index(offers, of, dimension, y), values,
                         2 * bits_of_dimension + bits_of_expression(expr), "index");
        }
    }
}

/// Another index of a dimension everywhere; beyond the array it may be that 0 is read.
template <class IndexAt>
void offer_index(RewriteOffers& offers, const NodeSamples& of, std::size_t dimension, int node,
                 const IndexAt& index_at, double bits) {
    std::vector<double> values;
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    for (const NodeSample& sample : of.samples) {
        ElementIndices index = sample.index;
        const std::int64_t y = index_at(sample.at);
        first = std::min(first, y);
        last = std::max(last, y);
        index[dimension] = std::int32_t(y);
        values.push_back(offers.samples().value_at(of, sample, index));
    }
    if (reads_zeros_beyond(of, values))
        offers.offer(of, or_zero_beyond(offers, of, dimension, node, {first, last - first + 1}), values,
                     bits + bits_of_dimension, "index");
    else
        offers.offer(of, with_index(offers, of, dimension, node), values, bits, "index");
}

/// The declared index moved around the end of its dimension, whose first or last places tell nothing of what is moved.
void offer_turned(RewriteOffers& offers, const NodeSamples& of, std::size_t dimension,
                  const std::vector<Vote>& votes) {
    if (!offers.samples().is_read(of)) return;
    const AxisRange range = offers.samples().range_of(of, dimension, 0);
    const int index = offers.program().node(of.node).list[dimension];
    const int extent = offers.build().extent_of(offers.program().node(of.node).what, dimension, index);
    if (range.first != 0 || range.count < 3 || extent < 0) return;
    const auto moved = [&](const Vote& vote, std::int64_t y) {
        return (y - vote.declared + range.count) % range.count;
    };
    std::map<std::int64_t, std::int64_t> counts;
    std::int64_t voting = 0;
    for (const Vote& vote : votes) {
        for (const std::int64_t y : vote.indices) ++counts[moved(vote, y)];
        voting += vote.indices.empty() ? 0 : 1;
    }
    if (counts.empty()) return;
    const auto [by, agreeing] =
        *std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
    if (by == 0 || double(agreeing) < (1 - unexplained_share) * double(voting)) return;
    // Where none is around the end it is moved, and no more.
    const bool goes_on = 2 * by <= range.count;
    const auto is_around = [&, by = by](const Vote& vote) {
        return std::ranges::any_of(vote.indices, [&](std::int64_t y) {
            return moved(vote, y) == by && (goes_on ? y < vote.declared : y > vote.declared);
        });
    };
    if (std::ranges::none_of(votes, is_around)) return;
    ProgramBuilder& build = offers.build();
    // As much backwards.
    const int sum = !goes_on ? build.moved(build.of_two(ProgramOp::plus, index, extent), by - range.count)
                             : build.moved(index, by);
    const int turned = build.of_two(ProgramOp::rest, sum, extent);
    std::vector<double> values;
    for (const NodeSample& sample : of.samples) {
        ElementIndices at = sample.index;
        at[dimension] = std::int32_t((at[dimension] + by) % range.count);
        values.push_back(offers.samples().value_at(of, sample, at));
    }
    offers.offer(of, with_index(offers, of, dimension, turned), values,
                 2 * bits_of_dimension + bits_of_number(std::min(by, range.count - by)), "index");
}

/// The index with bits inverted that another number of the place gives, as swizzles have it.
void offer_swizzled(RewriteOffers& offers, const NodeSamples& of, std::size_t dimension,
                    std::vector<Vote> votes) {
    const int own = axis_in(offers, of, dimension);
    if (own < 0) return;
    for (Vote& vote : votes)
        for (std::int64_t& y : vote.indices) y ^= vote.at[std::size_t(own)];
    const ProgramCall& call = offers.samples().call();
    ProgramBuilder& build = offers.build();
    for (const PlaceNumber& by : offers.numbers_of(of)) {
        const std::optional<VotedIndices> table = by.axis == own ? std::nullopt : voted(call, votes, by);
        if (!table) continue;
        // The same bits everywhere move blocks, which is said shorter.
        const auto is_first = [&](const auto& entry) { return entry.second == table->front().second; };
        if (std::ranges::all_of(*table, is_first)) continue;
        for (const Expr& expr : expressions_of(*table)) {
            const int inverted = build.index(expr, [&](Coordinate) { return by.node(build); });
            if (inverted < 0) continue;
            offer_index(
                offers, of, dimension, build.of_two(ProgramOp::exclusive, build.axis(own), inverted),
                [&](const AxisIndices& at) {
                    return at[std::size_t(own)] ^ expr.at(voted_by, by.of(call, at));
                },
                2 * bits_of_dimension + bits_of_expression(expr));
        }
    }
}

}  // namespace

void offer_indices(RewriteOffers& offers, const NodeSamples& of) {
    const FormulaSamples& samples = offers.samples();
    const ProgramCall& call = samples.call();
    for (std::size_t dimension = 0; dimension < samples.dimensions(of); ++dimension) {
        const std::vector<Vote> votes = votes_of(samples, of, dimension);
        if (std::ssize(votes) < fewest_places) continue;
        offer_within_blocks(offers, of, dimension, votes);
        for (const PlaceNumber& by : offers.numbers_of(of)) {
            const std::optional<VotedIndices> table = voted(call, votes, by);
            if (!table) continue;
            for (const Expr& expr : expressions_of(*table)) {
                const int y = offers.build().index(expr, [&](Coordinate) { return by.node(offers.build()); });
                if (y < 0) continue;
                offer_index(
                    offers, of, dimension, y,
                    [&](const AxisIndices& at) { return expr.at(voted_by, by.of(call, at)); },
                    bits_of_dimension + bits_of_expression(expr));
            }
        }
        offer_turned(offers, of, dimension, votes);
        offer_swizzled(offers, of, dimension, votes);
        const auto sum = PlaceSum::fitted(call, votes, summands(offers.program(), of.axes, of.by_block), {});
        if (sum)
            offer_index(
                offers, of, dimension, sum->node(offers.build(), -1),
                [&](const AxisIndices& at) { return sum->at(at); }, bits_of_dimension + sum->bits());
    }
}

}  // namespace tilescope
