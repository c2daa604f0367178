#include "oracle/program/stored_strides.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "oracle/program/build.h"
#include "oracle/program/formula_samples.h"
#include "oracle/program/place_sum.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

constexpr std::int64_t most_store_votes = 4096;
constexpr std::size_t most_neighbours = 512;
constexpr std::int64_t fewest_pairs = 4;
/// Of the pairs of neighbours, that are as far from each other; others may have been overwritten.
constexpr double pairs_share = 0.1;
constexpr double bits_of_strides = 6;
constexpr double bits_of_stride = 2;
constexpr double bits_of_nested_extents = 4;

bool tells_place(double expected) {
    return std::isfinite(expected) && expected != 0;
}

ValueIndex index_of(const WholeStage& whole) {
    std::vector<double> values = whole.got;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (whole.known[i] == 0) values[i] = std::nan("");
    return ValueIndex(std::move(values));
}

class StoreStrides {
 public:
    StoreStrides(Program& program, const ProgramCall& call, const WholeStage& whole,
                 const std::vector<StoreVote>& votes)
        : program_(program), call_(call), whole_(whole), votes_(votes), memory_(index_of(whole)) {
        numbers_ = summands(program, whole.axes, {});
    }

    std::optional<OfferedStore> find() {
        bool is_other = false;
        for (const PlaceNumber& number : numbers_) {
            const std::int64_t own = own_stride(number);
            strides_.push_back(voted_stride(number).value_or(own));
            is_other = is_other || strides_.back() != own;
        }
        if (!is_other) return std::nullopt;
        const std::int64_t offset = voted_offset();
        std::optional<OfferedStore> extents = offset == 0 ? as_extents() : std::nullopt;
        return extents ? std::move(extents) : offer(offset);
    }

 private:
    /// From one number to the next one, counted in indices.
    std::int64_t step_of(const PlaceNumber& number) const {
        return number.kind == PlaceNumber::Kind::block ? call_.blocks[std::size_t(number.axis)] : 1;
    }

    std::int64_t distance_of(int axis) const {
        std::int64_t distance = 1;
        for (std::size_t k = whole_.axes.size(); k > 0 && whole_.axes[k - 1] != axis; --k)
            distance *= whole_.shape[k - 1];
        return distance;
    }
    std::int64_t own_stride(const PlaceNumber& number) const {
        return distance_of(number.axis) * step_of(number);
    }

    std::vector<std::int64_t> addresses_of(std::int64_t element) const {
        const double expected = whole_.expected[std::size_t(element)];
        if (!tells_place(expected)) return {};
        return memory_.sources(expected, whole_.error[std::size_t(element)], 0);
    }

    std::optional<std::int64_t> voted_stride(const PlaceNumber& number) const {
        const auto axis = std::size_t(number.axis);
        const std::int64_t step = step_of(number);
        std::map<std::int64_t, std::int64_t> counts;
        std::int64_t pairs = 0;
        const std::size_t apart = votes_.size() / most_neighbours + 1;
        for (std::size_t i = 0; i < votes_.size(); i += apart) {
            const StoreVote& vote = votes_[i];
            const std::int64_t next = vote.at[axis] + step;
            const bool stays = number.kind != PlaceNumber::Kind::within ||
                               next / call_.blocks[axis] == vote.at[axis] / call_.blocks[axis];
            if (next >= call_.extents[axis] || !stays) continue;
            ++pairs;
            for (const std::int64_t there : addresses_of(vote.element + step * distance_of(number.axis)))
                for (const std::int64_t here : vote.addresses) ++counts[there - here];
        }
        if (counts.empty()) return std::nullopt;
        const auto best = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
        const auto least = std::max(fewest_pairs, std::int64_t(pairs_share * double(pairs)));
        return best->second >= least ? std::optional(best->first) : std::nullopt;
    }

    std::int64_t voted_offset() const {
        std::map<std::int64_t, std::int64_t> counts;
        for (const StoreVote& vote : votes_) {
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < numbers_.size(); ++k)
                sum += strides_[k] * numbers_[k].of(call_, vote.at);
            for (const std::int64_t address : vote.addresses) ++counts[address - sum];
        }
        if (counts.empty()) return 0;
        return std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })->first;
    }

    /// Products of the extents of the stage, the shorter ones first.
    std::map<std::int64_t, int> products() {
        ProgramBuilder build(program_);
        std::map<std::int64_t, int> all;
        const std::size_t count = whole_.axes.size();
        for (std::size_t factors = 1; factors <= count; ++factors) {
            for (unsigned bits = 1; bits < 1U << count; ++bits) {
                std::int64_t number = 1;
                int node = -1;
                std::size_t taken = 0;
                for (std::size_t k = 0; k < count; ++k) {
                    if ((bits >> k & 1) == 0) continue;
                    const int extent = program_.axes[std::size_t(whole_.axes[k])].extent;
                    node = node < 0 ? extent : build.of_two(ProgramOp::times, node, extent);
                    number *= whole_.shape[k];
                    ++taken;
                }
                if (taken == factors && number > 1) all.try_emplace(number, node);
            }
        }
        return all;
    }

    /// "i * (heads * dim)", whether it is added or subtracted.
    int term_of(const PlaceNumber& number, std::int64_t stride, const std::map<std::int64_t, int>& known) {
        ProgramBuilder build(program_);
        const int node = number.node(build);
        if (stride == 1) return node;
        const auto product = known.find(stride);
        return build.of_two(ProgramOp::times, node,
                            product != known.end() ? product->second : build.whole(stride));
    }

    /// Each is a multiple of the next one: extents of an array that has others than the stage, which is said shorter.
    std::optional<OfferedStore> as_extents() {
        ProgramBuilder build(program_);
        OfferedStore offered{own_place(program_, whole_.stage), bits_of_nested_extents};
        std::int64_t inner = 0;
        std::size_t dimension = whole_.axes.size();
        for (std::size_t k = numbers_.size(); k-- > 0; --dimension) {
            std::int64_t stride = strides_[k];
            if (numbers_[k].kind == PlaceNumber::Kind::block) {
                const std::int64_t block = call_.blocks[std::size_t(numbers_[k].axis)];
                stride = strides_[--k];
                if (strides_[k + 1] != stride * block) return std::nullopt;
            }
            if (dimension == whole_.axes.size()) {
                if (stride != 1) return std::nullopt;
            } else {
                if (stride <= 0 || stride % inner != 0) return std::nullopt;
                const std::int64_t by = stride / inner - whole_.shape[dimension];
                int& extent = offered.store.extents[dimension - 1];
                extent = build.moved(extent, by);
                offered.bits += by == 0 ? 0 : bits_of_stride + bits_of_number(by);
            }
            inner = stride;
        }
        return offered;
    }

    OfferedStore offer(std::int64_t offset) {
        ProgramBuilder build(program_);
        const std::map<std::int64_t, int> known = products();
        double bits = bits_of_strides + (offset == 0 ? 0 : bits_of_number(offset));
        int address = -1;
        for (std::size_t k = 0; k < numbers_.size(); ++k) {
            PlaceNumber number = numbers_[k];
            const std::int64_t stride = strides_[k];
            const bool is_own = stride == own_stride(number);
            // What is counted within blocks, and they as often as they are long, is the index.
            if (number.kind == PlaceNumber::Kind::within &&
                strides_[k + 1] == stride * call_.blocks[std::size_t(number.axis)]) {
                number.kind = PlaceNumber::Kind::index;
                ++k;
            }
            if (!is_own)
                bits += bits_of_stride +
                        (known.contains(std::abs(stride)) ? bits_of_stride : bits_of_number(stride));
            if (stride == 0) continue;
            const int term = term_of(number, std::abs(stride), known);
            // What is subtracted stands behind what it is subtracted from.
            if (address < 0 && stride < 0) address = build.whole(std::exchange(offset, 0));
            address = address < 0
                          ? term
                          : build.of_two(stride > 0 ? ProgramOp::plus : ProgramOp::minus, address, term);
        }
        address = address < 0 ? build.whole(offset) : build.moved(address, offset);
        return {{.indices = {address}}, bits};
    }

    Program& program_;
    const ProgramCall& call_;
    const WholeStage& whole_;
    std::span<const StoreVote> votes_;
    ValueIndex memory_;
    std::vector<PlaceNumber> numbers_;
    std::vector<std::int64_t> strides_;
};

}  // namespace

std::vector<StoreVote> store_votes(const WholeStage& whole) {
    const ValueIndex memory = index_of(whole);
    std::vector<StoreVote> votes;
    std::vector<std::int64_t> at_home;
    std::vector<std::int64_t> moved;
    for (std::int64_t i = 0; i < whole.size(); ++i) {
        if (!tells_place(whole.expected[std::size_t(i)])) continue;
        (whole.holds(i, i) ? at_home : moved).push_back(i);
    }
    for (const std::vector<std::int64_t>* const elements : {&moved, &at_home}) {
        SpreadChoice some(std::ssize(*elements), most_store_votes);
        for (const std::int64_t i : *elements) {
            if (!some.takes()) continue;
            StoreVote vote{whole.at(i), i};
            if (elements == &at_home)
                vote.addresses = {i};
            else
                vote.addresses =
                    memory.sources(whole.expected[std::size_t(i)], whole.error[std::size_t(i)], i);
            for (std::int64_t& address : vote.addresses)
                if (elements == &moved) address += i;
            votes.push_back(std::move(vote));
        }
    }
    return votes;
}

std::optional<OfferedStore> strided_store(Program& program, const ProgramCall& call, const WholeStage& whole,
                                          const std::vector<StoreVote>& votes) {
    return StoreStrides(program, call, whole, votes).find();
}

}  // namespace tilescope
