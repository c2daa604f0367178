#include "oracle/program/needed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <span>
#include <utility>

#include "oracle/program/equations.h"
#include "oracle/program/functions.h"

namespace tilescope {

namespace {

constexpr double open_error = std::numeric_limits<double>::infinity();
/// Terms of all sums of a part, and unknowns of one of its factors.
constexpr std::int64_t most_terms = 4'000'000;
constexpr std::int64_t most_unknowns = 512;

bool has_known(const Numbers& numbers) {
    for (std::int64_t i = 0; i < numbers.size(); ++i) {
        if (std::isfinite(numbers.at(i).error)) return true;
    }
    return false;
}

std::vector<std::int64_t> extents_of(const AxisRanges& ranges, const std::vector<int>& axes) {
    std::vector<std::int64_t> extents;
    for (const int axis : axes) extents.push_back(ranges[std::size_t(axis)].count);
    return extents;
}

std::int64_t product_along(const AxisRanges& ranges, const std::vector<int>& axes) {
    std::int64_t product = 1;
    for (const int axis : axes) product *= ranges[std::size_t(axis)].count;
    return product;
}

std::vector<int> without(const std::vector<int>& axes, const std::vector<int>& others) {
    std::vector<int> left;
    for (const int axis : axes) {
        if (std::ranges::find(others, axis) == others.end()) left.push_back(axis);
    }
    return left;
}

std::vector<int> joined(std::vector<int> axes, const std::vector<int>& others) {
    axes.insert(axes.end(), others.begin(), others.end());
    return axes;
}

/// Where x is not what it should be for both to differ by it.
Uncertain difference(Uncertain needed, Uncertain known) {
    if (!std::isfinite(known.value)) return {0, open_error};
    return {needed.value - known.value, needed.error + known.error};
}

Uncertain ratio(Uncertain needed, Uncertain known) {
    if (!(std::abs(known.value) > known.error) || !std::isfinite(known.value)) return {0, open_error};
    return quotient_of(needed, known);
}

class Inversion {
 public:
    Inversion(const FormulaInputs& inputs, int stage, std::int64_t block, const NeededObserver& observer)
        : inputs_(inputs),
          program_(inputs.call.program),
          formulas_(inputs.call, inputs.stages, stage, inputs.model),
          stage_(stage),
          block_(block),
          observer_(observer) {}

    void go(int number, const AxisRanges& ranges, const Numbers& needed) {
        const ProgramNode& node = program_.node(number);
        if (node.is_whole || !has_known(needed)) return;
        const Numbers right = formulas_.at(number, ranges, block_);
        if (const std::optional<Numbers> together = gathered(needed, right))
            return invert(number, ranges, *together, right);
        invert(number, ranges, needed, right);
    }

 private:
    void invert(int number, const AxisRanges& ranges, const Numbers& needed, const Numbers& right) {
        const ProgramNode& node = program_.node(number);
        observer_.values(
            {stage_, number, ranges, block_, laid_out(right, needed.axes, needed.extents), needed});
        switch (node.op) {
            case ProgramOp::plus:
            case ProgramOp::minus:
            case ProgramOp::times:
            case ProgramOp::quotient:
            case ProgramOp::larger:
            case ProgramOp::smaller:
                return of_two(node, ranges, needed);
            case ProgramOp::between:
                return upper_end(node, ranges, needed);
            case ProgramOp::negative:
                return go(node.of[0], ranges,
                          combined<1>({&needed}, false, [](const auto& of) { return negative(of[0]); }));
            case ProgramOp::chosen:
                return choice(node, ranges, needed);
            case ProgramOp::cast:
                return go(node.of[0], ranges, combined<1>({&needed}, false, [&](const auto& of) {
                              return Uncertain{
                                  of[0].value,
                                  of[0].error + 2 * cast_bound(Dtype(node.what), std::abs(of[0].value))};
                          }));
            case ProgramOp::call: {
                const Numbers argument = formulas_.at(node.of[0], ranges, block_);
                return go(node.of[0], ranges, combined<2>({&needed, &argument}, false, [&](const auto& of) {
                              return inverse_of(ProgramFunction(node.what), of[0], of[1].value);
                          }));
            }
            case ProgramOp::sum:
                return sum(number, ranges, needed);
            case ProgramOp::most:
            case ProgramOp::least:
                return extreme(number, ranges, needed);
            case ProgramOp::read:
                return of_stage(node, ranges, needed);
            default:
                return;
        }
    }

    void of_two(const ProgramNode& node, const AxisRanges& ranges, const Numbers& needed) {
        const std::array<Numbers, 2> right = {formulas_.at(node.of[0], ranges, block_),
                                              formulas_.at(node.of[1], ranges, block_)};
        for (std::size_t i = 0; i < 2; ++i) {
            const Numbers& other = right[1 - i];
            go(node.of[i], ranges, combined<2>({&needed, &other}, false, [&](const auto& of) -> Uncertain {
                   const auto& [result, known] = of;
                   switch (node.op) {
                       case ProgramOp::plus:
                           return difference(result, known);
                       case ProgramOp::minus:
                           return i == 0 ? difference(result, negative(known)) : difference(known, result);
                       case ProgramOp::times:
                           return ratio(result, known);
                       case ProgramOp::quotient:
                           return i == 0 ? product_of(result, known) : ratio(known, result);
                       case ProgramOp::larger:
                           return {result.value, result.value == -HUGE_VAL || result.value - result.error >
                                                                                  known.value + known.error
                                                     ? result.error
                                                     : open_error};
                       default:
                           return {result.value, result.value == HUGE_VAL || result.value + result.error <
                                                                                 known.value - known.error
                                                     ? result.error
                                                     : open_error};
                   }
               }));
        }
    }

    /// Of what lies outside both ends the second one, which is where the kernel has taken it over, as the maximum of a row.
    void upper_end(const ProgramNode& node, const AxisRanges& ranges, const Numbers& needed) {
        const Numbers one = formulas_.at(node.of[0], ranges, block_);
        const Numbers other = formulas_.at(node.of[1], ranges, block_);
        go(node.of[1], ranges, combined<3>({&needed, &one, &other}, false, [](const auto& of) -> Uncertain {
               const double half = std::abs(of[1].value - of[2].value) / 2;
               const double off = std::abs(of[0].value - (of[1].value + of[2].value) / 2);
               const bool is_outside = std::isfinite(half) && off > of[0].error;
               return {of[0].value, is_outside ? std::max(0.0, of[0].error - half) : open_error};
           }));
    }

    /// Either side where it was taken; and which side it must have been.
    void choice(const ProgramNode& node, const AxisRanges& ranges, const Numbers& needed) {
        const Numbers condition = formulas_.at(node.of[1], ranges, block_);
        const std::array<int, 2> sides = {node.of[0], node.of[2]};
        for (std::size_t i = 0; i < 2; ++i)
            go(sides[i], ranges, combined<2>({&needed, &condition}, false, [&](const auto& of) -> Uncertain {
                   const bool is_taken = of[1].error == 0 && (of[1].value != 0) == (i == 0);
                   return {of[0].value, is_taken ? of[0].error : open_error};
               }));
        const Numbers one = formulas_.at(sides[0], ranges, block_);
        const Numbers other = formulas_.at(sides[1], ranges, block_);
        const auto is_as = [](Uncertain x, Uncertain y) {
            return x.value == y.value || std::abs(x.value - y.value) <= x.error + y.error;
        };
        const Numbers side = combined<3>({&needed, &one, &other}, false, [&](const auto& of) -> Uncertain {
            const bool is_one = is_as(of[0], of[1]);
            const bool is_other = is_as(of[0], of[2]);
            const bool is_told =
                std::isfinite(of[0].error) && !std::isnan(of[1].value) && !std::isnan(of[2].value);
            return {is_one ? 1.0 : 0.0, is_told && is_one != is_other ? 0 : open_error};
        });
        decided(node.of[1], ranges, laid_out(side, needed.axes, needed.extents));
    }

    /// What a condition must have been, 1 or 0.
    void decided(int number, const AxisRanges& ranges, const Numbers& needed) {
        if (!has_known(needed)) return;
        const ProgramNode& node = program_.node(number);
        const Numbers right = formulas_.at(number, ranges, block_);
        observer_.values(
            {stage_, number, ranges, block_, laid_out(right, needed.axes, needed.extents), needed});
        if (node.op == ProgramOp::opposite)
            return decided(node.of[0], ranges, combined<1>({&needed}, false, [](const auto& of) {
                               return Uncertain{1 - of[0].value, of[0].error};
                           }));
        if (node.op != ProgramOp::both && node.op != ProgramOp::either) return;
        const double decides = node.op == ProgramOp::both ? 1 : 0;
        for (std::size_t i = 0; i < 2; ++i) {
            const Numbers other = formulas_.at(node.of[1 - i], ranges, block_);
            const Numbers side = combined<2>({&needed, &other}, false, [=](const auto& of) -> Uncertain {
                const bool is_told = of[0].value == decides || (of[1].value == decides && of[1].error == 0);
                return {of[0].value, is_told ? of[0].error : open_error};
            });
            decided(node.of[i], ranges, laid_out(side, needed.axes, needed.extents));
        }
    }

    void sum(int number, const AxisRanges& ranges, const Numbers& needed) {
        const ProgramNode& node = program_.node(number);
        // States are read along the axis that they go over, of which one block is looked at.
        const std::vector<int> outer = without(needed.axes, node.list);
        std::vector<int> factors;
        collect_factors(node.of[0], factors);
        products(number, factors, formulas_.ranges_within(node, ranges, block_),
                 laid_out(needed, outer, extents_of(ranges, outer)));
    }

    void extreme(int number, const AxisRanges& ranges, const Numbers& needed) {
        const ProgramNode& node = program_.node(number);
        const std::vector<int> outer = without(needed.axes, node.list);
        const AxisRanges inner = formulas_.ranges_within(node, ranges, block_);
        const std::vector<int> axes = joined(outer, node.list);
        if (product_along(inner, axes) > most_terms) return;
        NeededSums extremes{
            stage_, number, inner, node.list, {}, laid_out(needed, outer, extents_of(ranges, outer)), {}};
        extremes.factors.push_back(factor_in(node.of[0], inner, axes));
        extremes.terms = extremes.factors.front().value;
        observer_.sums(extremes);
    }

    SumFactor factor_in(int number, const AxisRanges& inner, const std::vector<int>& axes) {
        const ProgramNode& node = program_.node(number);
        const auto value_of = [&](int of) {
            return laid_out(formulas_.at(of, inner, block_), axes, extents_of(inner, axes));
        };
        return {number, value_of(number), node.op == ProgramOp::cast ? value_of(node.of[0]) : Numbers()};
    }

    /// A sum of products of factors.
    void products(int number, const std::vector<int>& factors, const AxisRanges& inner,
                  const Numbers& needed) {
        const std::vector<int>& along = program_.node(number).list;
        const std::vector<int> axes = joined(needed.axes, along);
        const bool has_room = product_along(inner, axes) <= most_terms;
        if (has_room) {
            NeededSums sums{stage_, number, inner, along, {}, needed, {}};
            sums.terms = laid_out(product_of_all(factors, -1, inner).value_or(Numbers::of(1)), axes,
                                  extents_of(inner, axes));
            for (const int factor : factors) sums.factors.push_back(factor_in(factor, inner, axes));
            observer_.sums(sums);
        }
        for (const int factor : factors) {
            if (program_.node(factor).is_whole) continue;
            const std::optional<Numbers> others = product_of_all(factors, factor, inner);
            if (!others) continue;
            const Numbers value = formulas_.at(factor, inner, block_);
            // As long as copies are alike, what was read in their place is taken to be so as well.
            for (const std::vector<int>& alike : {alike_along(value, along), std::vector<int>()}) {
                const std::optional<Numbers> solved =
                    factor_of(without(value.axes, alike), along, inner, *others, needed);
                if (!solved || !has_known(*solved)) continue;
                AxisRanges ranges = inner;
                for (const int axis : alike) ranges[std::size_t(axis)].count = 1;
                go(factor, ranges, *solved);
                break;
            }
        }
    }

    /// Without one of them; nullopt: there is no other.
    std::optional<Numbers> product_of_all(const std::vector<int>& factors, int without,
                                          const AxisRanges& inner) {
        std::optional<Numbers> product;
        for (const int factor : factors) {
            if (factor == without) continue;
            Numbers value = formulas_.at(factor, inner, block_);
            product = product ? combined<2>({&*product, &value}, true,
                                            [](const auto& of) {
                                                return Uncertain{of[0].value * of[1].value, 0};
                                            })
                              : std::move(value);
        }
        return product;
    }

    /// Along these axes alone: what several places need of one element is needed of it where they agree.
    static Numbers agreed(const Numbers& needed, const std::vector<int>& axes) {
        std::vector<std::int64_t> extents;
        std::vector<int> order = axes;
        for (const int axis : axes) extents.push_back(needed.extents[std::size_t(needed.position_of(axis))]);
        std::vector<std::int64_t> all = extents;
        for (std::size_t i = 0; i < needed.axes.size(); ++i) {
            if (std::ranges::find(axes, needed.axes[i]) != axes.end()) continue;
            order.push_back(needed.axes[i]);
            all.push_back(needed.extents[i]);
        }
        const Numbers each = laid_out(needed, order, all);
        Numbers held = Numbers::along(axes, extents);
        held.error.assign(held.value.size(), open_error);
        const std::int64_t places = held.size() > 0 ? each.size() / held.size() : 0;
        for (std::int64_t i = 0; i < held.size(); ++i) {
            Uncertain best{0, open_error};
            for (std::int64_t k = 0; k < places; ++k) {
                const Uncertain here = each.at(i * places + k);
                if (here.error < best.error) best = here;
            }
            const auto contradicts = [&](Uncertain here) {
                return std::isfinite(here.error) &&
                       std::abs(here.value - best.value) > here.error + best.error;
            };
            bool is_told = std::isfinite(best.error);
            for (std::int64_t k = 0; k < places && is_told; ++k)
                is_told = !contradicts(each.at(i * places + k));
            if (!is_told) continue;
            held.value[std::size_t(i)] = best.value;
            held.error[std::size_t(i)] = best.error;
        }
        return held;
    }

    /// What a stage that nobody stored must have held, where it is read at its own indices.
    void of_stage(const ProgramNode& read, const AxisRanges& ranges, const Numbers& needed) {
        const ProgramArray& array = program_.array(read.what);
        if (std::ranges::find(inputs_.open, read.what) == inputs_.open.end() || read.what == stage_) return;
        std::vector<int> axes;
        for (std::size_t i = 0; i < read.list.size(); ++i) {
            if (program_.axis_of(read.list[i]) != program_.axis_of(array.indices[i])) return;
            axes.push_back(program_.axis_of(read.list[i]));
        }
        std::ranges::sort(axes);
        if (std::ranges::any_of(axes, [&](int axis) { return needed.position_of(axis) < 0; })) return;
        const Numbers held = agreed(needed, axes);
        AxisRanges own{};
        for (const int axis : axes) own[std::size_t(axis)] = ranges[std::size_t(axis)];
        const bool is_beside =
            read.state == ProgramState::after && read.of[0] < 0 && array.over == program_.array(stage_).over;
        Inversion inversion(inputs_, read.what, is_beside ? block_ : 0, observer_);
        if (is_beside) own[std::size_t(array.over)] = ranges[std::size_t(array.over)];
        if (array.over < 0 || is_beside) return inversion.go(array.value, own, held);
        const bool is_last = read.state == ProgramState::last || read.state == ProgramState::unsaid;
        if (is_last) inversion.of_added_state(own, held);
    }

    /// What each block adds to a state of which the last one is known: a sum of products along its axis, times factors.
    void of_added_state(const AxisRanges& ranges, const Numbers& last) {
        const ProgramArray& array = program_.array(stage_);
        const ProgramNode& value = program_.node(array.value);
        if (value.op != ProgramOp::plus) return;
        const bool is_first = is_own_state(value.of[0]);
        if (!is_first && !is_own_state(value.of[1])) return;
        std::vector<int> factors;
        collect_factors(value.of[is_first ? 1 : 0], factors);
        const auto found = std::ranges::find_if(factors, [&](int factor) {
            const ProgramNode& node = program_.node(factor);
            return node.op == ProgramOp::sum && node.list == std::vector<int>{array.over};
        });
        if (found == factors.end()) return;
        const int sum = *found;
        factors.erase(found);
        if (std::ranges::any_of(factors, [&](int factor) { return reads_states(factor); })) return;
        collect_factors(program_.node(sum).of[0], factors);
        const Numbers start = formulas_.at(array.start, ranges, 0);
        AxisRanges inner = ranges;
        inner[std::size_t(array.over)] = {0, inputs_.call.extents[std::size_t(array.over)]};
        products(sum, factors, inner, combined<2>({&last, &start}, false, [](const auto& of) {
                     return difference(of[0], of[1]);
                 }));
    }

    bool is_own_state(int number) const {
        const ProgramNode& node = program_.node(number);
        return node.op == ProgramOp::read && node.what == stage_;
    }

    bool reads_states(int number) const {
        const ProgramNode& node = program_.node(number);
        if (node.op == ProgramOp::read && program_.array(node.what).over >= 0) return true;
        return std::ranges::any_of(node.of,
                                   [&](int operand) { return operand >= 0 && reads_states(operand); });
    }

    void collect_factors(int number, std::vector<int>& factors) const {
        const ProgramNode& node = program_.node(number);
        if (node.op != ProgramOp::times || node.is_whole) {
            factors.push_back(number);
            return;
        }
        collect_factors(node.of[0], factors);
        collect_factors(node.of[1], factors);
    }

    /// Along which a factor does not change, of those that the sum does not go along.
    static std::vector<int> alike_along(const Numbers& value, const std::vector<int>& along) {
        std::vector<int> alike;
        std::int64_t step = value.size();
        for (std::size_t k = 0; k < value.axes.size(); ++k) {
            const std::int64_t extent = value.extents[k];
            const std::int64_t slice = step;
            step /= std::max<std::int64_t>(extent, 1);
            if (extent < 2 || std::ranges::find(along, value.axes[k]) != along.end()) continue;
            bool is_alike = true;
            for (std::int64_t i = 0; is_alike && i < value.size(); ++i)
                is_alike = value.value[std::size_t(i)] == value.value[std::size_t(i - i % slice + i % step)];
            if (is_alike) alike.push_back(value.axes[k]);
        }
        return alike;
    }

    /// `axes`: those of the factor.
    std::optional<Numbers> factor_of(const std::vector<int>& axes, const std::vector<int>& along,
                                     const AxisRanges& inner, const Numbers& others, const Numbers& sums) {
        if (std::ranges::any_of(along, [&](int axis) { return std::ranges::find(axes, axis) == axes.end(); }))
            return std::nullopt;
        const std::vector<int> own = without(axes, along);
        const std::vector<int> equations = without(sums.axes, own);
        std::vector<int> shared;
        for (const int axis : own) {
            if (others.position_of(axis) >= 0) shared.push_back(axis);
        }
        const std::vector<int> rest = without(own, shared);
        const std::int64_t unknowns = product_along(inner, along);
        const std::int64_t rows = product_along(inner, equations);
        if (rows < unknowns || unknowns > most_unknowns) return std::nullopt;
        const std::vector<int> of_matrix = joined(joined(shared, equations), along);
        const std::vector<int> of_sums = joined(joined(shared, rest), equations);
        if (product_along(inner, of_matrix) > most_terms) return std::nullopt;
        const Numbers matrix = laid_out(others, of_matrix, extents_of(inner, of_matrix));
        const Numbers results = laid_out(sums, of_sums, extents_of(inner, of_sums));
        Numbers solved = Numbers::along(joined(joined(shared, rest), along),
                                        extents_of(inner, joined(joined(shared, rest), along)));
        solved.error.assign(solved.value.size(), open_error);
        const std::int64_t right_sides = product_along(inner, rest);
        std::vector<Uncertain> side(std::size_t(rows), Uncertain{});
        std::vector<Uncertain> found;
        for (std::int64_t i = 0; i < product_along(inner, shared); ++i) {
            FactorSolver solver(std::span(matrix.value)
                                    .subspan(std::size_t(i * rows * unknowns), std::size_t(rows * unknowns)),
                                unknowns);
            for (std::int64_t r = 0; r < right_sides; ++r) {
                const std::int64_t at = i * right_sides + r;
                for (std::int64_t k = 0; k < rows; ++k) side[std::size_t(k)] = results.at(at * rows + k);
                if (!solver.solve(side, found)) continue;
                for (std::int64_t k = 0; k < unknowns; ++k) {
                    solved.value[std::size_t(at * unknowns + k)] = found[std::size_t(k)].value;
                    solved.error[std::size_t(at * unknowns + k)] = found[std::size_t(k)].error;
                }
            }
        }
        std::vector<int> rising = solved.axes;
        std::ranges::sort(rising);
        return laid_out(std::move(solved), rising, extents_of(inner, rising));
    }

    const FormulaInputs& inputs_;
    const Program& program_;
    Formulas formulas_;
    int stage_;
    std::int64_t block_;
    const NeededObserver& observer_;
};

}  // namespace

void for_each_needed(const FormulaInputs& inputs, int stage, const AxisRanges& ranges, std::int64_t block,
                     const Numbers& needed, const NeededObserver& observer) {
    Inversion(inputs, stage, block, observer).go(inputs.call.program.array(stage).value, ranges, needed);
}

}  // namespace tilescope
