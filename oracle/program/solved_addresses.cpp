// Elements of an input by their number in memory.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "oracle/program/place_index.h"
#include "oracle/program/place_sum.h"
#include "oracle/program/solved.h"
#include "oracle/program/votes.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

/// Arrays whose elements are looked for all over; places that are asked; dimensions of which every order is tried; sources of a value that
/// tell something.
constexpr std::int64_t most_of_array = 1 << 20;
constexpr std::int64_t most_asked = 1024;
constexpr std::size_t most_permuted = 4;
constexpr std::ptrdiff_t most_sources = 16;
/// Rows that are asked, and elements of a row.
constexpr std::int64_t most_rows = 256;
constexpr std::size_t fewest_of_row = 4;
constexpr std::size_t most_of_row = 16;
constexpr std::int64_t most_of_number = 4096;
constexpr double bits_of_layout = 5;
constexpr double bits_of_turn = 6;
constexpr double bits_of_index = 2;
constexpr double bits_of_distance = 4;

/// Arrays of dimensions in another order, and numbers that are off by what an index
/// makes of them.
class FlatReads {
 public:
    FlatReads(RewriteOffers& offers, const NodeSamples& of)
        : offers_(offers),
          of_(of),
          read_(offers.program().node(of.node)),
          input_(offers.samples().call().inputs[std::size_t(read_.what)]) {}

    void offer() {
        std::vector<std::size_t> order(read_.list.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        const int right = address_of(order);
        while (order.size() <= most_permuted && std::ranges::next_permutation(order).found) {
            const auto address = [&](const NodeSample& sample) { return address_at(order, sample.index); };
            if (has_shape_in(order))
                offer(permuted(order), address, bits_of_layout);
            else
                offer_flat(address_of(order), address, bits_of_layout);
        }
        std::ranges::sort(order);
        offer_other_extents(order);
        const std::vector<Vote> votes = shifts(order);
        if (std::ssize(votes) < fewest_places) return;
        ProgramBuilder& build = offers_.build();
        for (const PlaceNumber& by : offers_.numbers_of(of_)) offer_shifts(order, right, votes, by);
        offer_indices(votes);
        offer_sums(order, right, votes);
        // Around the end of the array.
        for (const std::int64_t shift : {std::int64_t{1}, size_of(input_) - 1}) {
            const int all = build.whole(size_of(input_));
            offer_flat(
                build.of_two(ProgramOp::rest, build.moved(right, shift), all),
                [&](const NodeSample& sample) {
                    return (address_at(order, sample.index) + shift) % size_of(input_);
                },
                bits_of_layout + bits_of_turn);
        }
    }

 private:
    /// A distance in elements, and the node of it.
    struct Distance {
        std::int64_t elements = 1;
        int node = -1;  ///< -1: it is 1
    };

    /// Of neighbours in each dimension, the farthest first.
    std::vector<Distance> distances() {
        ProgramBuilder& build = offers_.build();
        std::vector<Distance> all{{}};
        for (std::size_t k = input_.shape.size() - 1; k > 0; --k) {
            const int said = build.extent_of(read_.what, k, read_.list[k]);
            const int extent = said < 0 ? build.whole(input_.shape[k]) : said;
            Distance next{all.back().elements * input_.shape[k], extent};
            if (all.back().node >= 0) next.node = build.of_two(ProgramOp::times, extent, all.back().node);
            if (next.elements > all.back().elements) all.push_back(next);
        }
        std::ranges::reverse(all);
        return all;
    }

    /// All numbers of elements are off by what one number of the place makes of them.
    void offer_shifts(const std::vector<std::size_t>& order, int right, const std::vector<Vote>& votes,
                      const PlaceNumber& by) {
        ProgramBuilder& build = offers_.build();
        const ProgramCall& call = offers_.samples().call();
        for (const Distance& distance : distances()) {
            std::vector<Vote> in_distances;
            for (const Vote& vote : votes) {
                Vote& one = in_distances.emplace_back(Vote{vote.at, {}});
                for (const std::int64_t shift : vote.indices)
                    if (shift % distance.elements == 0) one.indices.push_back(shift / distance.elements);
                if (one.indices.empty()) in_distances.pop_back();
            }
            if (10 * in_distances.size() < 9 * votes.size()) continue;
            const std::optional<VotedIndices> table = voted(call, in_distances, by);
            if (!table) continue;
            for (const Expr& expr : expressions_of(*table)) {
                int shift = build.index(expr, [&](Coordinate) { return by.node(build); });
                if (shift < 0) continue;
                if (distance.node >= 0) shift = build.of_two(ProgramOp::times, shift, distance.node);
                offer_flat(
                    build.of_two(ProgramOp::plus, right, shift),
                    [&](const NodeSample& sample) {
                        return address_at(order, sample.index) +
                               distance.elements * expr.at(voted_by, by.of(call, sample.at));
                    },
                    bits_of_layout + bits_of_expression(expr) + (distance.node < 0 ? 0 : bits_of_distance));
            }
            return;
        }
    }

    /// The dimensions are as long in this order.
    bool has_shape_in(const std::vector<std::size_t>& order) const {
        for (std::size_t k = 0; k < order.size(); ++k)
            if (input_.shape[order[k]] != input_.shape[k]) return false;
        return true;
    }

    int permuted(const std::vector<std::size_t>& order) {
        ProgramNode read = read_;
        for (std::size_t k = 0; k < order.size(); ++k) read.list[k] = read_.list[order[k]];
        return offers_.build().add(std::move(read));
    }

    /// Each index by itself, where all of them are made of axes and a size: `L[t / chunk * chunk + c, t % chunk]`.
    void offer_indices(const std::vector<Vote>& votes) {
        const ProgramCall& call = offers_.samples().call();
        const std::vector<PlaceIndex> known = place_indices(call, offers_.build(), of_.axes);
        std::vector<PlaceIndex> indices;
        double bits = 0;
        for (std::size_t k = 0; k < read_.list.size(); ++k) {
            const auto found =
                std::ranges::find_if(known, [&](const PlaceIndex& one) { return is_voted(votes, k, one); });
            if (found == known.end()) return;
            indices.push_back(*found);
            bits += bits_of_index + found->bits();
        }
        ProgramNode read = read_;
        for (std::size_t k = 0; k < indices.size(); ++k) read.list[k] = indices[k].node(offers_.build());
        offer(
            offers_.build().add(std::move(read)),
            [&](const NodeSample& sample) {
                std::int64_t address = 0;
                for (std::size_t k = 0; k < indices.size(); ++k) {
                    const std::int64_t index = indices[k].at(sample.at);
                    if (index >= input_.shape[k]) return std::int64_t{-1};
                    address = address * input_.shape[k] + index;
                }
                return address;
            },
            bits);
    }

    /// Whether nearly all places that vote for one element alone have this index of it.
    bool is_voted(const std::vector<Vote>& votes, std::size_t dimension, const PlaceIndex& index) const {
        std::int64_t inner = 1;
        for (std::size_t k = dimension + 1; k < input_.shape.size(); ++k) inner *= input_.shape[k];
        std::int64_t asked = 0;
        std::int64_t others = 0;
        for (const Vote& vote : votes) {
            if (vote.indices.size() != 1) continue;
            ++asked;
            const std::int64_t element = vote.indices.front() + declared_address(vote.at);
            if (element / inner % input_.shape[dimension] != index.at(vote.at)) ++others;
            if (double(others) > unexplained_share * double(votes.size())) return false;
        }
        return asked >= 2 * fewest_places;
    }

    std::int64_t declared_address(const AxisIndices& at) const {
        const ProgramCall& call = offers_.samples().call();
        const std::vector<std::int64_t> axes(at.begin(), at.begin() + std::ptrdiff_t(call.extents.size()));
        std::int64_t address = 0;
        for (std::size_t k = 0; k < read_.list.size(); ++k)
            address = address * input_.shape[k] + whole_at(call, read_.list[k], axes).value_or(0);
        return address;
    }

    /// Numbers that are off by a sum of several, as with another leading dimension.
    void offer_sums(const std::vector<std::size_t>& order, int right, const std::vector<Vote>& votes) {
        const auto sum =
            PlaceSum::fitted(offers_.samples().call(), votes,
                             summands(offers_.program(), of_.axes, of_.by_block), indices_of_several());
        if (!sum) return;
        offer_flat(
            sum->node(offers_.build(), right),
            [&](const NodeSample& sample) { return address_at(order, sample.index) + sum->at(sample.at); },
            bits_of_layout + sum->bits());
    }

    /// Indices that are no axis themselves, as the head of a group.
    std::vector<int> indices_of_several() const {
        std::vector<int> indices;
        for (const int index : read_.list)
            if (offers_.program().axis_of(index) < 0) indices.push_back(index);
        return indices;
    }

    /// The extent of another axis in the place of one of the array's.
    void offer_other_extents(const std::vector<std::size_t>& order) {
        const ProgramCall& call = offers_.samples().call();
        std::map<std::int64_t, int> others;
        for (std::size_t axis = 0; axis < call.extents.size(); ++axis)
            others.try_emplace(call.extents[axis], offers_.program().axes[axis].extent);
        const double bits =
            bits_of_layout + std::log2(double(others.size()) * double(std::max(order.size(), 2UL) - 1));
        for (std::size_t k = 1; k < order.size(); ++k) {
            for (const auto& [size, extent] : others) {
                if (size == input_.shape[k]) continue;
                std::vector<std::int64_t> shape = input_.shape;
                shape[k] = size;
                offer_flat(
                    address_of(order, OtherExtent{k, extent}),
                    [&](const NodeSample& sample) { return address_at(order, sample.index, shape); }, bits);
            }
        }
    }

    std::int64_t address_at(const std::vector<std::size_t>& order, const ElementIndices& index) const {
        return address_at(order, index, input_.shape);
    }
    static std::int64_t address_at(const std::vector<std::size_t>& order, const ElementIndices& index,
                                   const std::vector<std::int64_t>& shape) {
        std::int64_t address = 0;
        for (const std::size_t k : order) address = address * shape[k] + index[k];
        return address;
    }

    /// A dimension, and the node of its extent.
    using OtherExtent = std::pair<std::size_t, int>;

    int address_of(const std::vector<std::size_t>& order, std::optional<OtherExtent> other = {}) {
        ProgramBuilder& build = offers_.build();
        int address = -1;
        for (const std::size_t k : order) {
            const int said =
                other && other->first == k ? other->second : build.extent_of(read_.what, k, read_.list[k]);
            const int extent = said < 0 ? build.whole(input_.shape[k]) : said;
            address = address < 0
                          ? read_.list[k]
                          : build.of_two(ProgramOp::plus, build.of_two(ProgramOp::times, address, extent),
                                         read_.list[k]);
        }
        return address;
    }

    std::vector<Vote> shifts(const std::vector<std::size_t>& order) const {
        std::vector<double> elements;
        for (std::int64_t i = 0; i < size_of(input_); ++i) elements.push_back(element_of(input_, i));
        const ValueIndex where(std::move(elements));
        std::vector<Vote> votes;
        std::int64_t asked = 0;
        SpreadChoice some(of_.wrong, most_asked);
        for (const NodeSample& sample : of_.samples) {
            if (!sample.is_wrong || !some.takes()) continue;
            ++asked;
            Vote vote{sample.at, where.sources(sample.needed, sample.error, address_at(order, sample.index))};
            if (!vote.indices.empty() && std::ssize(vote.indices) <= most_sources)
                votes.push_back(std::move(vote));
        }
        return 4 * std::ssize(votes) < asked ? shifts_of_rows(order, where) : votes;
    }

    /// Of narrow types each number stands in many places, and a row of them in few.
    std::vector<Vote> shifts_of_rows(const std::vector<std::size_t>& order, const ValueIndex& where) const {
        std::map<std::vector<std::int32_t>, std::vector<const NodeSample*>> rows;
        for (const NodeSample& sample : of_.samples) {
            if (!sample.is_wrong) continue;
            const auto first = sample.index.begin();
            std::vector<const NodeSample*>& row =
                rows[{first, first + std::ptrdiff_t(read_.list.size()) - 1}];
            if (row.size() < most_of_row) row.push_back(&sample);
        }
        std::vector<Vote> votes;
        SpreadChoice some(std::ssize(rows), most_rows);
        for (const auto& [key, row] : rows) {
            if (row.size() < fewest_of_row || !some.takes()) continue;
            Vote vote{row.front()->at, {}};
            for (const NodeSample* const sample : row) {
                std::vector<std::int64_t> own = where.sources(
                    sample->needed, sample->error, address_at(order, sample->index), most_of_number);
                std::vector<std::int64_t> both;
                std::ranges::set_intersection(vote.indices, own, std::back_inserter(both));
                vote.indices = sample == row.front() ? std::move(own) : std::move(both);
            }
            if (!vote.indices.empty() && std::ssize(vote.indices) <= most_sources)
                votes.push_back(std::move(vote));
        }
        return votes;
    }

    template <class AddressAt>
    void offer_flat(int address, const AddressAt& address_at, double bits) {
        ProgramNode flat = read_;
        flat.is_flat = true;
        flat.list = {address};
        offer(offers_.build().add(std::move(flat)), address_at, bits);
    }

    /// `instead`: what reads the elements of these numbers.
    template <class AddressAt>
    void offer(int instead, const AddressAt& address_at, double bits) {
        std::vector<double> values;
        for (const NodeSample& sample : of_.samples) {
            const std::int64_t at = address_at(sample);
            values.push_back(at >= 0 && at < size_of(input_) ? element_of(input_, at) : std::nan(""));
        }
        offers_.offer(of_, instead, values, bits, "index");
    }

    RewriteOffers& offers_;
    const NodeSamples& of_;
    ProgramNode read_;
    const ProgramInput& input_;
};

}  // namespace

void offer_flat_reads(RewriteOffers& offers, const NodeSamples& of) {
    const ProgramNode& node = offers.program().node(of.node);
    if (!offers.samples().is_read(of) || node.is_flat || offers.program().array(node.what).is_stage) return;
    const std::int64_t size = size_of(offers.samples().call().inputs[std::size_t(node.what)]);
    if (size > 1 && size <= most_of_array) FlatReads(offers, of).offer();
}

}  // namespace tilescope
