// What is added up along axes in a formula: products of matrices where they are, and terms.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "oracle/program/build.h"
#include "oracle/program/contraction.h"
#include "oracle/program/element_operations.h"
#include "oracle/program/formulas.h"
#include "oracle/program/functions.h"

namespace tilescope {

namespace {

Numbers ranged(Numbers numbers) {
    if (element_kernels().in_range({numbers.value.data(), numbers.error.data()}, numbers.size()))
        return numbers;
    for (std::size_t i = 0; i < numbers.value.size(); ++i) {
        const Uncertain number = in_range({numbers.value[i], numbers.error[i]});
        numbers.value[i] = number.value;
        numbers.error[i] = number.error;
    }
    return numbers;
}

/// The two of which the product has the fewest elements.
std::pair<std::size_t, std::size_t> smallest_product(const std::vector<Numbers>& factors) {
    std::pair<std::size_t, std::size_t> best{0, 1};
    double least = HUGE_VAL;
    for (std::size_t i = 0; i < factors.size(); ++i) {
        for (std::size_t k = i + 1; k < factors.size(); ++k) {
            double size = double(factors[i].size());
            for (std::size_t axis = 0; axis < factors[k].axes.size(); ++axis) {
                if (factors[i].position_of(factors[k].axes[axis]) < 0)
                    size *= double(factors[k].extents[axis]);
            }
            if (size < least) best = {i, k};
            least = std::min(least, size);
        }
    }
    return best;
}

/// A product is 0 where the condition does not hold if one of its factors is, and none of the others is no number there.
void hide_where_not(const Numbers& condition, std::vector<Numbers>& factors) {
    const auto is_known = [](double number) { return std::isfinite(number); };
    bool is_hidden = false;
    for (Numbers& factor : factors) {
        const bool is_finite =
            std::ranges::all_of(factor.value, is_known) && std::ranges::all_of(factor.error, is_known);
        if (is_hidden && is_finite) continue;
        is_hidden = true;
        factor = combined<2>({&factor, &condition}, factor.is_exact(), [](const auto& of) {
            return std::isnan(of[1].value) ? of[1] : of[1].value != 0 ? of[0] : Uncertain{};
        });
    }
}

}  // namespace

void Formulas::factors_of(int number, const AxisRanges& ranges, std::vector<Numbers>& factors) const {
    const Program& program = call_.program;
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::times && !node.is_whole) {
        factors_of(node.of[0], ranges, factors);
        factors_of(node.of[1], ranges, factors);
        return;
    }
    const bool is_zero_elsewhere = node.op == ProgramOp::chosen && is_number(program, node.of[2], 0);
    if (is_zero_elsewhere && program.node(node.of[0]).op == ProgramOp::times) {
        const Numbers condition = value(node.of[1], ranges);
        if (condition.is_exact()) {
            std::vector<Numbers> product;
            factors_of(node.of[0], ranges, product);
            hide_where_not(condition, product);
            std::ranges::move(product, std::back_inserter(factors));
            return;
        }
    }
    factors.push_back(value(number, ranges));
}

AxisRanges Formulas::ranges_within(const ProgramNode& reduction, AxisRanges ranges,
                                   std::int64_t block) const {
    for (const int axis : reduction.list) {
        const std::int64_t extent = call_.extents[std::size_t(axis)];
        const std::int64_t size = call_.blocks[std::size_t(axis)];
        const bool is_cut = axis == call_.program.array(stage_).over;
        const std::int64_t first = is_cut ? block * size : 0;
        ranges[std::size_t(axis)] = {first, is_cut ? std::min(size, extent - first) : extent};
    }
    return ranges;
}

Numbers Formulas::along(const ProgramNode& node, AxisRanges ranges, const Numbers* start) const {
    ranges = ranges_within(node, ranges, block_);
    std::vector<Numbers> factors;
    if (node.op == ProgramOp::sum)
        factors_of(node.of[0], ranges, factors);
    else
        factors.push_back(value(node.of[0], ranges));
    const auto goes_along = [&](const Numbers& factor) {
        return std::ranges::all_of(node.list, [&](int axis) { return factor.position_of(axis) >= 0; });
    };
    // Those whose product is the smallest are multiplied, until two are left that a product of matrices takes.
    while (factors.size() > 2) {
        const auto [i, k] = smallest_product(factors);
        factors[i] = product_of(factors[i], factors[k]);
        factors.erase(factors.begin() + std::ptrdiff_t(k));
    }
    if (factors.size() == 2 && goes_along(factors[0]) && goes_along(factors[1]))
        return ranged(sum_of_products(factors[0], factors[1], node.list, node.accumulation, model_, start));
    if (factors.size() == 2) factors = {product_of(factors[0], factors[1])};
    Numbers& terms = factors.front();
    for (const int axis : node.list) {
        if (terms.position_of(axis) >= 0) continue;
        Numbers ones = Numbers::along({axis}, {ranges[std::size_t(axis)].count});
        std::ranges::fill(ones.value, 1.0);
        terms = combined<2>({&terms, &ones}, terms.is_exact(), [](const auto& of) { return of[0]; });
    }
    if (node.op == ProgramOp::sum)
        return ranged(sum_of_terms(terms, node.list, node.accumulation, model_, start));
    return node.op == ProgramOp::most ? largest_of(terms, node.list) : smallest_of(terms, node.list);
}

}  // namespace tilescope
