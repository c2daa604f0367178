// Elements of an input by their number in memory.

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

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
constexpr double bits_of_layout = 5;
constexpr double bits_of_turn = 6;
/// Which number it is that is added.
constexpr double bits_of_summand = 2;

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
        while (order.size() <= most_permuted && std::ranges::next_permutation(order).found)
            offer(
                address_of(order), [&](const NodeSample& sample) { return address_at(order, sample.index); },
                bits_of_layout);
        std::ranges::sort(order);
        const std::vector<Vote> votes = shifts(order);
        if (std::ssize(votes) < fewest_places) return;
        ProgramBuilder& build = offers_.build();
        for (const PlaceNumber& by : offers_.numbers_of(of_)) {
            const std::optional<VotedIndices> table = voted(offers_.samples().call(), votes, by);
            if (!table) continue;
            for (const Expr& expr : expressions_of(*table)) {
                const int shift = build.index(expr, [&](Coordinate) { return by.node(build); });
                if (shift < 0) continue;
                offer(
                    build.of_two(ProgramOp::plus, right, shift),
                    [&](const NodeSample& sample) {
                        return address_at(order, sample.index) +
                               expr.at(voted_by, by.of(offers_.samples().call(), sample.at));
                    },
                    bits_of_layout + bits_of_expression(expr));
            }
        }
        offer_sums(order, right, votes);
        // Around the end of the array.
        for (const std::int64_t shift : {std::int64_t{1}, size_of(input_) - 1}) {
            const int all = build.whole(size_of(input_));
            offer(
                build.of_two(ProgramOp::rest, build.moved(right, shift), all),
                [&](const NodeSample& sample) {
                    return (address_at(order, sample.index) + shift) % size_of(input_);
                },
                bits_of_layout + bits_of_turn);
        }
    }

 private:
    /// The numbers that an index may be a sum of: of axes that are cut their blocks, and what is counted within them.
    std::vector<PlaceNumber> summands() const {
        std::vector<PlaceNumber> numbers;
        for (const int axis : of_.axes) {
            const bool is_cut = offers_.program().axes[std::size_t(axis)].block >= 0;
            numbers.push_back({axis, is_cut ? PlaceNumber::Kind::within : PlaceNumber::Kind::index});
            if (is_cut) numbers.push_back({axis, PlaceNumber::Kind::block});
        }
        for (const int axis : of_.by_block) numbers.push_back({axis, PlaceNumber::Kind::block});
        return numbers;
    }

    /// Numbers that are off by a sum of several of these, each times a whole number, as with another leading dimension.
    void offer_sums(const std::vector<std::size_t>& order, int right, const std::vector<Vote>& votes) {
        constexpr Eigen::Index most_equations = 256;
        constexpr double agreed_share = 0.95;
        const std::vector<PlaceNumber> numbers = summands();
        const ProgramCall& call = offers_.samples().call();
        const auto is_sure = [](const Vote& vote) { return vote.indices.size() == 1; };
        SpreadChoice some(std::ranges::count_if(votes, is_sure), most_equations);
        std::vector<const Vote*> sure;
        for (const Vote& vote : votes)
            if (is_sure(vote) && some.takes()) sure.push_back(&vote);
        const std::vector<int> own = indices_of_several();
        const Eigen::Index first_own = Eigen::Index(numbers.size());
        const Eigen::Index unknowns = first_own + std::ssize(own) + 1;
        const auto own_at = [&](std::size_t k, const AxisIndices& at) {
            std::vector<std::int64_t> axes(at.begin(), at.begin() + std::ptrdiff_t(call.extents.size()));
            return double(whole_at(call, own[k], axes).value_or(0));
        };
        if (std::ssize(sure) < 2 * unknowns) return;
        Eigen::MatrixXd terms = Eigen::MatrixXd::Ones(std::ssize(sure), unknowns);
        Eigen::VectorXd sums(std::ssize(sure));
        for (Eigen::Index i = 0; i < sums.size(); ++i) {
            sums(i) = double(sure[std::size_t(i)]->indices.front());
            for (std::size_t k = 0; k < numbers.size(); ++k)
                terms(i, Eigen::Index(k)) = double(numbers[k].of(call, sure[std::size_t(i)]->at));
            for (std::size_t k = 0; k < own.size(); ++k)
                terms(i, first_own + Eigen::Index(k)) = own_at(k, sure[std::size_t(i)]->at);
        }
        const Eigen::VectorXd factors = terms.colPivHouseholderQr().solve(sums).array().round();
        const auto shift_at = [&](const AxisIndices& at) {
            double shift = factors(unknowns - 1);
            for (std::size_t k = 0; k < numbers.size(); ++k)
                shift += factors(Eigen::Index(k)) * double(numbers[k].of(call, at));
            for (std::size_t k = 0; k < own.size(); ++k)
                shift += factors(first_own + Eigen::Index(k)) * own_at(k, at);
            return std::int64_t(shift);
        };
        const auto agreed = std::ranges::count_if(votes, [&](const Vote& vote) {
            return std::ranges::find(vote.indices, shift_at(vote.at)) != vote.indices.end();
        });
        if (double(agreed) < agreed_share * double(votes.size())) return;
        double bits = bits_of_layout;
        int address = right;
        for (Eigen::Index k = 0; k < unknowns; ++k) {
            const auto factor = std::int64_t(factors(k));
            if (factor == 0) continue;
            bits += bits_of_summand + bits_of_number(factor);
            if (k >= first_own) {
                address = added(address, factor, k + 1 < unknowns ? own[std::size_t(k - first_own)] : -1);
                continue;
            }
            PlaceNumber number = numbers[std::size_t(k)];
            // What is counted within blocks, and they as often as they are long, is the index.
            const bool is_within = number.kind == PlaceNumber::Kind::within;
            const std::int64_t block = is_within ? call.blocks[std::size_t(number.axis)] : 0;
            if (is_within && std::int64_t(factors(k + 1)) == factor * block) {
                number.kind = PlaceNumber::Kind::index;
                ++k;
            }
            address = added(address, factor, number.node(offers_.build()));
        }
        offer(
            address,
            [&](const NodeSample& sample) { return address_at(order, sample.index) + shift_at(sample.at); },
            bits);
    }

    /// Indices that are no axis themselves, as the head of a group.
    std::vector<int> indices_of_several() const {
        std::vector<int> indices;
        for (const int index : read_.list)
            if (offers_.program().axis_of(index) < 0) indices.push_back(index);
        return indices;
    }

    /// `number` times the factor; -1: the factor alone.
    int added(int address, std::int64_t factor, int number) {
        ProgramBuilder& build = offers_.build();
        if (number < 0) return build.moved(address, factor);
        const int many = std::abs(factor) == 1
                             ? number
                             : build.of_two(ProgramOp::times, build.whole(std::abs(factor)), number);
        return build.of_two(factor < 0 ? ProgramOp::minus : ProgramOp::plus, address, many);
    }

    std::int64_t address_at(const std::vector<std::size_t>& order, const ElementIndices& index) const {
        std::int64_t address = 0;
        for (const std::size_t k : order) address = address * input_.shape[k] + index[k];
        return address;
    }

    int address_of(const std::vector<std::size_t>& order) {
        ProgramBuilder& build = offers_.build();
        int address = -1;
        for (const std::size_t k : order) {
            const int said = build.extent_of(read_.what, k, read_.list[k]);
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
        SpreadChoice some(of_.wrong, most_asked);
        for (const NodeSample& sample : of_.samples) {
            if (!sample.is_wrong || !some.takes()) continue;
            Vote vote{sample.at, where.sources(sample.needed, sample.error, address_at(order, sample.index))};
            if (!vote.indices.empty() && std::ssize(vote.indices) <= most_sources)
                votes.push_back(std::move(vote));
        }
        return votes;
    }

    template <class AddressAt>
    void offer(int address, const AddressAt& address_at, double bits) {
        std::vector<double> values;
        for (const NodeSample& sample : of_.samples) {
            const std::int64_t at = address_at(sample);
            values.push_back(at >= 0 && at < size_of(input_) ? element_of(input_, at) : std::nan(""));
        }
        ProgramNode flat = read_;
        flat.is_flat = true;
        flat.list = {address};
        offers_.offer(of_, offers_.build().add(std::move(flat)), values, bits, "index");
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
