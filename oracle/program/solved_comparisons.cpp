// Comparisons of numbers that are no whole ones: another bound, another number that is compared.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "oracle/program/functions.h"
#include "oracle/program/solved.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

constexpr std::size_t most_numbers = 10;

/// A number that may be compared, at each place.
struct Compared {
    int node = -1;
    std::vector<Uncertain> at;
    double bits = 0;
};

bool is_upper(ProgramOp op) {
    return op == ProgramOp::less || op == ProgramOp::at_most;
}

bool is_order(ProgramOp op) {
    return is_upper(op) || op == ProgramOp::more || op == ProgramOp::at_least;
}

/// The same with both sides exchanged.
ProgramOp mirrored(ProgramOp op) {
    switch (op) {
        case ProgramOp::less:
            return ProgramOp::more;
        case ProgramOp::at_most:
            return ProgramOp::at_least;
        case ProgramOp::more:
            return ProgramOp::less;
        case ProgramOp::at_least:
            return ProgramOp::at_most;
        default:
            return op;
    }
}

/// Whether it holds at each place, as far as that is not open.
std::vector<double> truths(ProgramOp op, const std::vector<Uncertain>& x, const std::vector<Uncertain>& y,
                           const NodeSamples& of) {
    std::vector<double> values;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double off = x[i].error + y[i].error;
        const bool is_open = off > 0 && std::abs(x[i].value - y[i].value) <= off;
        const bool is_none = std::isnan(x[i].value) || std::isnan(y[i].value);
        const double truth = holds(op, x[i].value, y[i].value) ? 1 : 0;
        values.push_back(is_none ? std::nan("") : is_open ? of.samples[i].needed : truth);
    }
    return values;
}

/// Between which numbers the bound of x leaves the fewest places on the wrong side: the largest that must lie below it, and the
/// smallest that must lie above.
std::optional<std::pair<double, double>> ends_of_bound(ProgramOp op, const std::vector<Uncertain>& x,
                                                       const NodeSamples& of) {
    std::vector<std::pair<double, int>>
        ends;  // and what it adds to the misplaced places when the bound passes it
    std::int64_t misplaced = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i].value) || !std::isfinite(x[i].error)) continue;
        const bool is_above = (of.samples[i].needed != 0) != is_upper(op);
        ends.emplace_back(x[i].value + (is_above ? x[i].error : -x[i].error), is_above ? 1 : -1);
        if (!is_above) ++misplaced;
    }
    std::ranges::sort(ends);
    std::optional<std::pair<double, double>> best;
    std::int64_t fewest = misplaced;
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
        misplaced += ends[i].second;
        if (misplaced >= fewest) continue;
        fewest = misplaced;
        best = {ends[i].first, ends[i + 1].first};
    }
    const bool is_open_above = ends.empty() || !best || ends.back().second < 0;
    return is_open_above ? std::nullopt : best;
}

/// The simplest bound between both ends, as float32 has it, of which one counts; nullopt: there is none.
std::optional<KnownNumber> simplest_bound(ProgramOp op, std::pair<double, double> ends) {
    const auto [low, high] = ends;
    if (!(low <= high)) return std::nullopt;
    // What is equal to it is below it, or above.
    const bool counts_low = op == ProgramOp::more || op == ProgramOp::at_most;
    const auto is_bound = [&](double number) {
        return counts_low ? number >= low && (number < high || low == high)
                          : (number > low || low == high) && number <= high;
    };
    const double margin = (high - low) * 1e-9;
    for (const auto& [first, last] : {std::pair(low - margin, high + margin),
                                      std::pair(low + margin, high - margin), std::pair(low, high)}) {
        const KnownNumber number = simplest_number_between(first, last);
        if (is_bound(double(float(number.value)))) return number;
    }
    const float own = float(counts_low ? low : high);
    if (!is_bound(double(own))) return std::nullopt;
    return KnownNumber{{}, double(own), false};
}

double bits_of_number_bound(const KnownNumber& number) {
    if (number.value == 0) return bits_of_zero;
    return bits_of_real + (number.is_round ? 0 : bits_of_real_that_is_not_round);
}

class OfferComparisons {
 public:
    OfferComparisons(RewriteOffers& offers, const NodeSamples& of)
        : offers_(offers), of_(of), build_(offers.build()), op_(offers.program().node(of.node).op) {}

    void all() {
        const ProgramNode comparison = offers_.program().node(of_.node);
        for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
            sides_[side] = {comparison.of[side], offers_.samples().numbers_at(of_, comparison.of[side])};
            if (sides_[side].at.empty()) return;
        }
        const std::vector<Compared> others = other_numbers();
        of_other_operations();
        const bool is_number_first = is_constant(sides_[0].node);
        for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
            of_others(side, others);
            if (is_constant(sides_[side].node)) continue;
            if (is_constant(sides_[1 - side].node) || (side == 0 && !is_number_first))
                of_bounds(side, others);
        }
    }

 private:
    bool is_constant(int number) const {
        const ProgramNode& node = offers_.program().node(number);
        if (node.op == ProgramOp::negative) return is_constant(node.of[0]);
        return node.op == ProgramOp::number || node.op == ProgramOp::size;
    }

    int comparison_of(ProgramOp op, std::size_t side, int one, int other) {
        return side == 0 ? build_.of_two(op, one, other) : build_.of_two(op, other, one);
    }

    std::vector<double> truths_of(ProgramOp op, std::size_t side, const std::vector<Uncertain>& one,
                                  const std::vector<Uncertain>& other) const {
        return truths(side == 0 ? op : mirrored(op), one, other, of_);
    }

    void of_other_operations() {
        for (const ProgramOp op : all_comparisons) {
            if (op == op_) continue;
            offers_.offer_everywhere(of_, build_.of_two(op, sides_[0].node, sides_[1].node),
                                     truths(op, sides_[0].at, sides_[1].at, of_), bits_of_other_comparison,
                                     "guard");
        }
    }

    /// Numbers of inputs and stages at the same place, those of the formula first.
    std::vector<Compared> other_numbers() {
        const Program& program = offers_.program();
        std::vector<int> nodes;
        const auto add = [&](int node) {
            const auto is_it = [&](int other) { return are_alike(program, node, other); };
            const bool is_side = is_it(sides_[0].node) || is_it(sides_[1].node);
            if (!is_side && is_of_place(node) && std::ranges::none_of(nodes, is_it)) nodes.push_back(node);
        };
        for_each_node(program, program.array(of_.stage).value, [&](int node) {
            if (program.node(node).op == ProgramOp::read && !program.node(node).is_whole) add(node);
        });
        for (int array = 0; array < of_.stage; ++array) {
            if (program.array(array).over >= 0 || program.array(array).indices.empty()) continue;
            add(build_.add({.op = ProgramOp::read, .what = array, .list = program.array(array).indices}));
        }
        if (nodes.size() > most_numbers) nodes.resize(most_numbers);
        std::vector<Compared> numbers;
        for (const int node : nodes) {
            Compared number{node, offers_.samples().numbers_at(of_, node), bits_of_other_number};
            if (!number.at.empty()) numbers.push_back(std::move(number));
        }
        return numbers;
    }

    bool is_of_place(int number) const {
        const Program& program = offers_.program();
        bool is_it = true;
        for_each_node(program, number, [&](int node) {
            const bool is_axis = program.node(node).op == ProgramOp::axis;
            is_it =
                is_it && !(is_axis && std::ranges::find(of_.axes, program.node(node).what) == of_.axes.end());
        });
        return is_it;
    }

    /// Without its sign, or with it.
    Compared magnitude(const Compared& number) {
        const ProgramNode node = offers_.program().node(number.node);
        const bool is_magnitude =
            node.op == ProgramOp::call && ProgramFunction(node.what) == ProgramFunction::abs;
        if (is_magnitude)
            return {node.of[0], offers_.samples().numbers_at(of_, node.of[0]), bits_of_left_out};
        Compared without{
            build_.add(
                {.op = ProgramOp::call, .of = {number.node, -1, -1}, .what = int(ProgramFunction::abs)}),
            number.at, number.bits + bits_of_left_out};
        for (Uncertain& one : without.at) one.value = std::abs(one.value);
        return without;
    }

    void of_others(std::size_t side, const std::vector<Compared>& others) {
        std::vector<Compared> all = others;
        if (!is_constant(sides_[side].node)) all.push_back(magnitude(sides_[side]));
        for (const Compared& other : all) {
            if (other.at.empty()) continue;
            const Compared& than = sides_[1 - side];
            offers_.offer_everywhere(of_, comparison_of(op_, side, other.node, than.node),
                                     truths_of(op_, side, other.at, than.at), other.bits, "guard");
        }
    }

    void of_bounds(std::size_t side, const std::vector<Compared>& others) {
        std::vector<Compared> all{sides_[side], magnitude(sides_[side])};
        all.insert(all.end(), others.begin(), others.end());
        for (const Compared& number : all) {
            for (const ProgramOp op : all_comparisons) {
                const bool is_alike = is_upper(op) == is_upper(op_);
                if (is_order(op) && (is_alike || !is_order(op_))) of_bound(op, side, number);
            }
        }
    }

    /// A number in the place of the other side, or that is added to it.
    void of_bound(ProgramOp op, std::size_t side, const Compared& number) {
        if (number.at.empty()) return;
        const Compared& than = sides_[1 - side];
        const ProgramOp seen = side == 0 ? op : mirrored(op);
        const double bits = number.bits + (op == op_ ? 0 : bits_of_other_comparison);
        const auto offer = [&](const std::vector<Uncertain>& x, const auto& node_of, double more) {
            const auto ends = ends_of_bound(seen, x, of_);
            const std::optional<KnownNumber> bound = ends ? simplest_bound(seen, *ends) : std::nullopt;
            if (!bound) return;
            const std::vector<Uncertain> at(x.size(), Uncertain{double(float(bound->value)), 0});
            offers_.offer(of_, comparison_of(op, side, number.node, node_of(bound->value)),
                          truths(seen, x, at, of_), bits + more + bits_of_number_bound(*bound), "guard");
        };
        offer(
            number.at, [&](double x) { return build_.real(x); },
            is_constant(than.node) ? 0 : bits_of_left_out);
        if (is_constant(than.node)) return;
        std::vector<Uncertain> beyond;
        for (std::size_t i = 0; i < than.at.size(); ++i)
            beyond.push_back(added(number.at[i], negative(than.at[i])));
        offer(
            beyond,
            [&](double x) {
                return build_.of_two(x < 0 ? ProgramOp::minus : ProgramOp::plus, than.node,
                                     build_.real(std::abs(x)));
            },
            bits_of_left_out);
        of_factor(side, number, offer);
    }

    /// Of a number times another one the number.
    template <class Offer>
    void of_factor(std::size_t side, const Compared& number, const Offer& offer) {
        const ProgramNode than = offers_.program().node(sides_[1 - side].node);
        if (than.op != ProgramOp::times) return;
        const std::size_t constant = is_constant(than.of[0]) ? 0 : 1;
        if (!is_constant(than.of[constant])) return;
        const int factor = than.of[1 - constant];
        const std::vector<Uncertain> at = offers_.samples().numbers_at(of_, factor);
        if (at.empty() || !std::ranges::all_of(at, [](Uncertain x) { return x.value > 0; })) return;
        std::vector<Uncertain> ratios;
        for (std::size_t i = 0; i < at.size(); ++i) ratios.push_back(quotient_of(number.at[i], at[i]));
        offer(
            ratios,
            [&](double x) {
                const int other = build_.real(x);
                return constant == 0 ? build_.of_two(ProgramOp::times, other, factor)
                                     : build_.of_two(ProgramOp::times, factor, other);
            },
            0);
    }

    RewriteOffers& offers_;
    const NodeSamples& of_;
    ProgramBuilder& build_;
    ProgramOp op_;
    std::array<Compared, 2> sides_;
};

}  // namespace

void offer_comparisons_of_reals(RewriteOffers& offers, const NodeSamples& of) {
    OfferComparisons(offers, of).all();
}

}  // namespace tilescope
