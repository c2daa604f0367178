#include "oracle/program/place_sum.h"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <map>

#include "oracle/program/formula_samples.h"
#include "oracle/program/place_index.h"

namespace tilescope {

namespace {

constexpr Eigen::Index most_equations = 256;
constexpr double agreed_share = 0.95;
/// Which number it is that is added.
constexpr double bits_of_summand = 2;

}  // namespace

std::optional<PlaceSum> PlaceSum::fitted(const ProgramCall& call, std::span<const Vote> votes,
                                         std::vector<PlaceNumber> numbers, std::vector<int> nodes) {
    PlaceSum sum(call, std::move(numbers), std::move(nodes));
    const auto is_sure = [](const Vote& vote) { return vote.indices.size() == 1; };
    SpreadChoice some(std::ranges::count_if(votes, is_sure), most_equations);
    std::vector<const Vote*> sure;
    for (const Vote& vote : votes)
        if (is_sure(vote) && some.takes()) sure.push_back(&vote);
    const Eigen::Index unknowns = Eigen::Index(sum.terms()) + 1;
    if (std::ssize(sure) < 2 * unknowns) return std::nullopt;
    Eigen::MatrixXd terms = Eigen::MatrixXd::Ones(std::ssize(sure), unknowns);
    Eigen::VectorXd sums(std::ssize(sure));
    for (Eigen::Index i = 0; i < sums.size(); ++i) {
        sums(i) = double(sure[std::size_t(i)]->indices.front());
        for (std::size_t k = 0; k < sum.terms(); ++k)
            terms(i, Eigen::Index(k)) = sum.term_at(k, sure[std::size_t(i)]->at);
    }
    const Eigen::VectorXd factors = terms.colPivHouseholderQr().solve(sums).array().round();
    for (const double factor : factors) sum.factors_.push_back(std::int64_t(factor));
    const auto agreed = std::ranges::count_if(votes, [&](const Vote& vote) {
        return std::ranges::find(vote.indices, sum.at(vote.at)) != vote.indices.end();
    });
    if (double(agreed) < agreed_share * double(votes.size())) return std::nullopt;
    return sum;
}

double PlaceSum::term_at(std::size_t k, const AxisIndices& place) const {
    if (k < numbers_.size()) return double(numbers_[k].of(call_, place));
    const std::vector<std::int64_t> axes(place.begin(), place.begin() + std::ptrdiff_t(call_.extents.size()));
    return double(whole_at(call_, nodes_[k - numbers_.size()], axes).value_or(0));
}

std::int64_t PlaceSum::at(const AxisIndices& place) const {
    double sum = double(factors_.back());
    for (std::size_t k = 0; k < terms(); ++k)
        if (factors_[k] != 0) sum += double(factors_[k]) * term_at(k, place);
    return std::int64_t(sum);
}

/// What is counted within blocks, and they as often as they are long, is the index.
bool PlaceSum::is_index(std::size_t k) const {
    return k < numbers_.size() && numbers_[k].kind == PlaceNumber::Kind::within &&
           factors_[k + 1] == factors_[k] * call_.blocks[std::size_t(numbers_[k].axis)];
}

/// As often as its block is long.
bool PlaceSum::is_block_long(std::size_t k) const {
    return k < numbers_.size() && numbers_[k].kind != PlaceNumber::Kind::index &&
           std::abs(factors_[k]) == call_.blocks[std::size_t(numbers_[k].axis)];
}

/// Transposed tiles leave a size less one.
int PlaceSum::factor_node(ProgramBuilder& build, std::int64_t factor) const {
    constexpr std::int64_t least_told = 4;
    const std::map<std::int64_t, int> sizes = named_sizes(call_, build);
    const auto size = factor < least_told ? sizes.end() : sizes.find(factor + 1);
    return size == sizes.end() ? build.whole(factor) : build.moved(size->second, -1);
}

int PlaceSum::node(ProgramBuilder& build, int to) const {
    for (std::size_t k = 0; k < terms(); ++k) {
        const std::int64_t factor = factors_[k];
        if (factor == 0) continue;
        int term = -1;
        const bool is_long = is_block_long(k);
        const bool is_whole_index = is_index(k);
        if (k >= numbers_.size()) {
            term = nodes_[k - numbers_.size()];
        } else {
            PlaceNumber number = numbers_[k];
            if (is_whole_index) number.kind = PlaceNumber::Kind::index;
            term = number.node(build);
        }
        if (is_long && !is_whole_index)
            term = build.of_two(ProgramOp::times, term,
                                build.program().axes[std::size_t(numbers_[k].axis)].block);
        else if (std::abs(factor) != 1)
            term = build.of_two(ProgramOp::times, factor_node(build, std::abs(factor)), term);
        if (to < 0)
            to = factor > 0 ? term : build.of_two(ProgramOp::minus, build.whole(0), term);
        else
            to = build.of_two(factor < 0 ? ProgramOp::minus : ProgramOp::plus, to, term);
        if (is_whole_index) ++k;
    }
    return to < 0 ? build.whole(factors_.back()) : build.moved(to, factors_.back());
}

double PlaceSum::bits() const {
    double bits = 0;
    for (std::size_t k = 0; k < terms(); ++k) {
        if (factors_[k] == 0) continue;
        const bool is_whole_index = is_index(k);
        bits += bits_of_summand + (is_block_long(k) && !is_whole_index ? 0 : bits_of_number(factors_[k]));
        if (is_whole_index) ++k;
    }
    return bits + (factors_.back() == 0 ? 0 : bits_of_number(factors_.back()));
}

std::vector<PlaceNumber> summands(const Program& program, const std::vector<int>& axes,
                                  const std::vector<int>& by_block) {
    std::vector<PlaceNumber> numbers;
    for (const int axis : axes) {
        const bool is_cut = program.axes[std::size_t(axis)].block >= 0;
        numbers.push_back({axis, is_cut ? PlaceNumber::Kind::within : PlaceNumber::Kind::index});
        if (is_cut) numbers.push_back({axis, PlaceNumber::Kind::block});
    }
    for (const int axis : by_block) numbers.push_back({axis, PlaceNumber::Kind::block});
    return numbers;
}

}  // namespace tilescope
