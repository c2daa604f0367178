#include "oracle/program/rewrites.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "oracle/program/alternatives.h"
#include "oracle/program/build.h"

namespace tilescope {

namespace {

using Axes = AxisSet;

/// Of one thing that stands otherwise: its place among the nodes, and what it becomes among what is tried there.
double bits_among(std::size_t count) {
    return std::log2(double(std::max<std::size_t>(count, 1)));
}
/// The same where some are rarer than others by bits of their own: these take less room.
template <class All>
double bits_among_all(const All& all) {
    double sum = 0;
    for (const auto& one : all) sum += std::exp2(-one.bits);
    return sum > 0 ? std::log2(sum) : 0;
}

/// Operands of a formula of which two are exchanged.
constexpr std::size_t most_exchanged = 8;
/// Of which two are multiplied in the place of one.
constexpr std::size_t most_multiplied = 4;
/// Operations that are left out at once.
constexpr int deepest_part = 4;
/// Numbers that may be a factor, those of the program among them.
constexpr std::size_t most_factors = 13;

class Rewriter {
 public:
    Rewriter(Program& program, const ProgramCall& call, int stage, const std::vector<bool>& there)
        : program_(program), call_(call), stage_(stage), there_(there) {}

    std::vector<ProgramRewrite> all() {
        const ProgramArray array = program_.array(stage_);
        Axes fixed;
        for (const int index : array.indices) fixed.set(std::size_t(program_.axis_of(index)));
        if (array.over >= 0) fixed.set(std::size_t(array.over));
        std::vector<ProgramRewrite> found = at(array.value, fixed);
        of_start(array, found);
        of_result(array, found);
        std::vector<ScopedRead> reads;
        collect_reads(array.value, -1, reads);
        of_exchanged_reads(array.value, reads, found);
        of_products_of_reads(array.value, reads, found);
        of_repeated_reads(array.value, reads, fixed, found);
        of_repeated_axes(array.value, fixed, found);
        if (array.dtype != Dtype::f32) {
            ++places_;
            found.push_back({stage_, array.value, Dtype::f32, 4, "type"});
        }
        // Which of the places it is costs as much for all of them.
        for (ProgramRewrite& rewrite : found) rewrite.bits += bits_among(places_);
        return found;
    }

 private:
    struct Tried {
        int node;
        const char* slot;
        double bits = 0;  ///< beside which of those that are tried
    };

    ProgramNode copy_of(int number) const { return program_.node(number); }

    int add(ProgramNode node) { return build_.add(std::move(node)); }
    int whole(std::int64_t number) { return build_.whole(number); }
    int real(double number) { return build_.real(number); }
    int of_two(ProgramOp op, int left, int right) { return build_.of_two(op, left, right); }
    int moved(int index, std::int64_t by) { return build_.moved(index, by); }
    int axis(int number) { return build_.axis(number); }
    int negative(int x) { return add({.op = ProgramOp::negative, .of = {x, -1, -1}}); }

    /// What kernels multiply with: powers of two, the factors between logarithms, and the numbers of this program.
    const std::vector<double>& factors() {
        if (!factors_.empty()) return factors_;
        factors_ = {2.0, 0.5, -1.0, std::numbers::log2e, std::numbers::ln2};
        for (const ProgramArray& array : program_.arrays) {
            if (array.value >= 0) collect_numbers(array.value);
        }
        return factors_;
    }
    void collect_numbers(int number) {
        const ProgramNode& node = program_.node(number);
        const bool is_factor = node.op == ProgramOp::number && !node.is_whole && std::isfinite(node.number) &&
                               node.number > 0 && node.number != 1;
        if (is_factor && factors_.size() < most_factors &&
            std::ranges::find(factors_, node.number) == factors_.end())
            factors_.push_back(node.number);
        for (const int operand : node.of) {
            if (operand >= 0) collect_numbers(operand);
        }
    }

    /// All rewrites of the formula that begins at a node.
    std::vector<ProgramRewrite> at(int number, Axes fixed) {
        const ProgramNode node = copy_of(number);
        std::vector<ProgramRewrite> found;
        std::vector<Tried> here = tried(number, node, fixed);
        add_parts(node, 1, here);
        if (!here.empty()) ++places_;
        for (const Tried& one : here)
            found.push_back({stage_, one.node, std::nullopt, 4 + bits_among_all(here) + one.bits, one.slot});
        if (node.op == ProgramOp::read) {
            of_indices(node, fixed, found);
            return found;
        }
        Axes inner = fixed;
        if (node.op == ProgramOp::sum || node.op == ProgramOp::most || node.op == ProgramOp::least)
            for (const int along : node.list) inner.set(std::size_t(along));
        for (std::size_t i = 0; i < node.of.size(); ++i) {
            if (node.of[i] < 0) continue;
            for (ProgramRewrite& rewrite : at(node.of[i], inner)) {
                ProgramNode around = node;
                around.of[i] = rewrite.value;
                rewrite.value = add(std::move(around));
                found.push_back(std::move(rewrite));
            }
        }
        return found;
    }

    std::vector<Tried> tried(int number, const ProgramNode& node, const Axes& fixed) {
        switch (node.op) {
            case ProgramOp::times:
            case ProgramOp::quotient:
                return node.is_whole ? std::vector<Tried>{} : of_product(node);
            case ProgramOp::plus:
            case ProgramOp::minus:
                return of_sum(node);
            case ProgramOp::negative:
                return node.is_whole ? std::vector<Tried>{} : std::vector<Tried>{{node.of[0], "sign"}};
            case ProgramOp::call:
                return of_call(node);
            case ProgramOp::cast:
                return {{node.of[0], "type"}};
            case ProgramOp::chosen:
                return {{node.of[0], "guard"}, {node.of[2], "guard"}};
            case ProgramOp::less:
            case ProgramOp::at_most:
            case ProgramOp::more:
            case ProgramOp::at_least:
            case ProgramOp::equal:
            case ProgramOp::unequal:
                return of_comparison(node);
            case ProgramOp::both:
            case ProgramOp::either:
                return {{node.of[0], "guard"}, {node.of[1], "guard"}};
            case ProgramOp::larger:
            case ProgramOp::smaller:
                return node.is_whole ? std::vector<Tried>{}
                                     : std::vector<Tried>{{node.of[0], "term"}, {node.of[1], "term"}};
            case ProgramOp::sum:
            case ProgramOp::most:
            case ProgramOp::least:
                return of_range(node, fixed);
            case ProgramOp::number:
                return of_number(node);
            case ProgramOp::read:
                return of_read(number, node, fixed);
            default:
                return {};
        }
    }

    /// What it is computed from by several operations, in its place.
    void add_parts(const ProgramNode& node, int depth, std::vector<Tried>& all) const {
        const bool is_scope =
            node.op == ProgramOp::sum || node.op == ProgramOp::most || node.op == ProgramOp::least;
        if (is_scope || node.op == ProgramOp::read) return;
        for (std::size_t i = 0; i < node.of.size(); ++i) {
            if (node.of[i] < 0 || (node.op == ProgramOp::chosen && i == 1)) continue;
            const ProgramNode& part = program_.node(node.of[i]);
            if (part.is_whole != node.is_whole || part.op == ProgramOp::number) continue;
            if (depth > 1) all.push_back({node.of[i], "factor", 2.0 * depth});
            if (depth < deepest_part) add_parts(part, depth + 1, all);
        }
    }

    std::vector<Tried> of_product(const ProgramNode& node) {
        const int x = node.of[0];
        const int y = node.of[1];
        const bool divides = node.op == ProgramOp::quotient;
        std::vector<Tried> all{{x, "factor"}};
        if (!divides) all.push_back({y, "factor"});
        all.push_back({of_two(divides ? ProgramOp::times : ProgramOp::quotient, x, y), "factor"});
        if (divides)
            all.push_back(
                {of_two(ProgramOp::quotient, x, of_two(ProgramOp::quotient, real(1), y)), "factor", 1});
        ProgramNode same = node;
        same.of[0] = add(same);
        all.push_back({add(same), "factor"});  // twice
        if (!divides) {
            all.push_back({of_two(ProgramOp::quotient, y, x), "factor"});
            all.push_back({of_two(ProgramOp::times, add(node), x), "factor"});
        }
        for (const ProgramOp op : {ProgramOp::plus, ProgramOp::minus})
            all.push_back({of_two(op, x, y), "operation", 3});
        return all;
    }

    std::vector<Tried> of_sum(const ProgramNode& node) {
        const int x = node.of[0];
        const int y = node.of[1];
        const bool subtracts = node.op == ProgramOp::minus;
        std::vector<Tried> all{{x, "term"}};
        all.push_back({subtracts ? negative(y) : y, "term"});
        all.push_back({of_two(subtracts ? ProgramOp::plus : ProgramOp::minus, x, y), "sign"});
        if (node.is_whole) {
            for (const std::int64_t by : {1, -1}) all.push_back({moved(add(node), by), "number"});
            return all;
        }
        all.push_back({negative(add(node)), "sign"});
        all.push_back({of_two(ProgramOp::times, x, y), "operation", 3});
        ProgramNode twice = node;
        twice.of[0] = add(node);
        all.push_back({add(twice), "term"});
        all.push_back({of_two(ProgramOp::plus, add(node), x), "term"});
        return all;
    }

    std::vector<Tried> of_call(const ProgramNode& node) {
        std::vector<Tried> all{{node.of[0], "function"}};
        for (const ProgramFunction function : functions_like(ProgramFunction(node.what))) {
            if (int(function) == node.what) continue;
            ProgramNode other = node;
            other.what = int(function);
            all.push_back({add(other), "function"});
        }
        for (const double factor : factors()) {
            ProgramNode other = node;
            other.of[0] = of_two(ProgramOp::times, node.of[0], real(factor));
            all.push_back({add(other), "factor", 3});
        }
        return all;
    }

    std::vector<Tried> of_comparison(const ProgramNode& node) {
        std::vector<Tried> all;
        for (const ProgramOp op : comparisons_like(node.op))
            all.push_back({of_two(op, node.of[0], node.of[1]), "guard"});
        const bool is_whole = program_.node(node.of[0]).is_whole && program_.node(node.of[1]).is_whole;
        if (!is_whole) {
            // Numbers that stand for an index.
            for (const double by : {1.0, -1.0})
                all.push_back(
                    {of_two(node.op, node.of[0], of_two(ProgramOp::plus, node.of[1], real(by))), "guard"});
            return all;
        }
        // One less is another comparison, where that is among them.
        const bool is_other = node.op == ProgramOp::at_most || node.op == ProgramOp::more;
        for (const std::int64_t by : {-1, 2, -2}) {
            if (by == -1 && is_other) continue;
            all.push_back({of_two(node.op, node.of[0], moved(node.of[1], by)), "guard"});
        }
        return all;
    }

    /// Terms that are left out, and those of a sum that is none.
    std::vector<Tried> of_range(const ProgramNode& node, const Axes& fixed) {
        std::vector<Tried> all;
        const int neutral =
            node.op == ProgramOp::sum ? real(0) : real(node.op == ProgramOp::most ? -HUGE_VAL : HUGE_VAL);
        const auto only = [&](int condition, double bits = 0) {
            ProgramNode part = node;
            part.of[0] = build_.chosen(node.of[0], condition, neutral);
            all.push_back({add(part), "range", bits});
        };
        for (const int along : node.list) {
            const ProgramAxis& of = program_.axes[std::size_t(along)];
            const int extent = of.extent;
            const int at = axis(along);
            only(of_two(ProgramOp::less, at, of_two(ProgramOp::minus, extent, whole(1))));
            only(of_two(ProgramOp::at_least, at, whole(1)));
            only(of_two(ProgramOp::less, at, of_two(ProgramOp::quotient, extent, whole(2))));
            only(of_two(ProgramOp::equal, of_two(ProgramOp::rest, at, whole(2)), whole(0)));
            for (const std::int64_t step : {8, 16, 32, 64, 128})
                only(of_two(ProgramOp::less, at,
                            of_two(ProgramOp::times, of_two(ProgramOp::quotient, extent, whole(step)),
                                   whole(step))),
                     std::log2(double(step)));
            if (of.block < 0) continue;
            const int block = of.block;
            only(of_two(ProgramOp::less, at,
                        of_two(ProgramOp::times, of_two(ProgramOp::quotient, extent, block), block)),
                 1);
            only(of_two(ProgramOp::at_least, at, block));
            only(of_two(ProgramOp::less, at, of_two(ProgramOp::minus, extent, block)));
            const int within = of_two(ProgramOp::rest, at, block);
            only(of_two(ProgramOp::less, within, of_two(ProgramOp::quotient, block, whole(2))));
            only(of_two(ProgramOp::less, within, of_two(ProgramOp::minus, block, whole(1))));
        }
        const int whole_range = add(node);
        for (const double factor : factors())
            all.push_back({of_two(ProgramOp::times, whole_range, real(factor)), "factor", 2});
        ProgramNode other = node;
        other.op = node.op == ProgramOp::most ? ProgramOp::least : ProgramOp::most;
        all.push_back({add(other), "function"});
        if (node.op == ProgramOp::sum) add_blocks_before(whole_range, fixed, all);
        return all;
    }

    /// An accumulator that still holds what it held for the block before.
    void add_blocks_before(int sum, const Axes& fixed, std::vector<Tried>& all) {
        for (std::size_t i = 0; i < program_.axes.size(); ++i) {
            if (!fixed[i] || program_.axes[i].block < 0) continue;
            const int before = of_two(ProgramOp::minus, axis(int(i)), program_.axes[i].block);
            const int both = of_two(ProgramOp::plus, sum, build_.at_index(sum, int(i), before));
            const int has_before = of_two(ProgramOp::at_least, axis(int(i)), program_.axes[i].block);
            all.push_back({build_.chosen(both, has_before, sum), "start", 4});
        }
    }

    std::vector<Tried> of_number(const ProgramNode& node) {
        std::vector<Tried> all;
        if (node.is_whole) {
            for (const std::int64_t by : {1, -1})
                all.push_back({whole(std::int64_t(node.number) + by), "number"});
            if (node.number > 1) {
                all.push_back({whole(std::int64_t(node.number) * 2), "number"});
                all.push_back({whole(std::int64_t(node.number) / 2), "number"});
            }
            return all;
        }
        for (const double by : {2.0, 0.5}) {
            if (std::isfinite(node.number) && node.number != 0)
                all.push_back({real(node.number * by), "number"});
        }
        for (const double other : {0.0, 1.0}) {
            if (node.number != other) all.push_back({real(other), "number"});
        }
        return all;
    }

    std::vector<Tried> of_read(int number, const ProgramNode& node, const Axes& fixed) {
        std::vector<Tried> all;
        const ProgramArray array = program_.array(node.what);
        if (array.over >= 0 && node.what != stage_) {
            const bool in_loop = program_.loop_of(node.what) == program_.loop_of(stage_);
            for (const ProgramState state : {ProgramState::before, ProgramState::after, ProgramState::last}) {
                const bool is_there = state == ProgramState::last
                                          ? !in_loop
                                          : node.of[0] >= 0 || fixed[std::size_t(array.over)];
                if (state == node.state || !is_there) continue;
                ProgramNode other = node;
                other.state = state;
                if (state == ProgramState::last) other.of[0] = -1;
                other.says_state = true;
                all.push_back({add(other), "state"});
            }
        }
        if (node.of[0] >= 0) of_state_index(node, fixed, all);
        for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::e4m3}) {
            if (dtype_info(dtype).significand_bits >= dtype_info(array.dtype).significand_bits) continue;
            all.push_back({build_.cast(dtype, number), "type"});
        }
        // Another array in its place.
        for (int i = 0; i < int(program_.arrays.size()) && i <= stage_; ++i) {
            const ProgramArray& other = program_.array(i);
            // Before the first block of a loop there is no state of it.
            const bool is_none_yet = other.over >= 0 && !fixed[std::size_t(other.over)] &&
                                     program_.loop_of(i) == program_.loop_of(stage_);
            if (!there_[std::size_t(i)] || i == node.what || node.is_flat ||
                (i == stage_ && other.over < 0) || is_none_yet ||
                other.indices.size() != array.indices.size())
                continue;
            ProgramNode instead = node;
            instead.what = i;
            if (node.of[0] >= 0 && other.over == array.over) {
                all.push_back({add(instead), "operand"});
                continue;
            }
            instead.of[0] = -1;
            instead.says_state = false;
            instead.state = other.over < 0                                    ? ProgramState::unsaid
                            : i == stage_                                     ? ProgramState::before
                            : program_.loop_of(i) == program_.loop_of(stage_) ? ProgramState::after
                                                                              : ProgramState::last;
            all.push_back({add(instead), "operand"});
        }
        return all;
    }

    /// The state after another block: that of another index of what it is computed from.
    void of_state_index(const ProgramNode& node, const Axes& fixed, std::vector<Tried>& all) {
        std::vector<int> nodes;
        std::vector<int> comparisons;
        collect_axes(node.of[0], nodes, comparisons);
        std::set<int> axes;
        for (const int one : nodes) axes.insert(program_.axis_of(one));
        for (const int of : axes) {
            for (const Alternative& other :
                 other_indices_.of(axis(of), fixed, program_.axes[std::size_t(of)].extent)) {
                ProgramNode read = node;
                read.of[0] = build_.at_index(node.of[0], of, other.node);
                all.push_back({add(read), "state", other.bits});
            }
        }
    }

    void of_indices(const ProgramNode& node, const Axes& fixed, std::vector<ProgramRewrite>& found) {
        for (std::size_t i = 0; i < node.list.size(); ++i) {
            std::vector<Tried> here;
            for (const Alternative& index : other_indices_.of(
                     node.list[i], fixed, node.is_flat ? -1 : build_.extent_of(node.what, i, node.list[i]))) {
                ProgramNode read = node;
                read.list[i] = index.node;
                here.push_back({add(read), "index", index.bits});
            }
            for (std::size_t k = i + 1; k < node.list.size(); ++k) {
                ProgramNode read = node;
                std::swap(read.list[i], read.list[k]);
                here.push_back({add(read), "index"});
            }
            // Maps of a tile have both of its indices.
            const bool is_of_rows = i + 2 == node.list.size();
            for (const Alternative& read :
                 is_of_rows ? tile_reads_like(build_, program_, node) : std::vector<Alternative>())
                here.push_back({read.node, "index", read.bits});
            ++places_;
            for (const Tried& one : here)
                found.push_back(
                    {stage_, one.node, std::nullopt, 4 + bits_among_all(here) + one.bits, one.slot});
        }
    }

    /// A read, and the sum or maximum that it stands in: its indices are those that are there.
    struct ScopedRead {
        int node;
        int scope;
    };
    void collect_reads(int number, int scope, std::vector<ScopedRead>& reads) const {
        const ProgramNode& node = program_.node(number);
        if (node.op == ProgramOp::read) {
            reads.push_back({number, scope});
            return;
        }
        const bool is_scope =
            node.op == ProgramOp::sum || node.op == ProgramOp::most || node.op == ProgramOp::least;
        for (const int operand : node.of) {
            if (operand >= 0) collect_reads(operand, is_scope ? number : scope, reads);
        }
    }

    /// Two operands, each in the place of the other.
    void of_exchanged_reads(int value, const std::vector<ScopedRead>& reads,
                            std::vector<ProgramRewrite>& found) {
        std::vector<int> here;
        for (std::size_t i = 0; i < reads.size() && reads.size() <= most_exchanged; ++i) {
            for (std::size_t k = i + 1; k < reads.size(); ++k) {
                const ProgramNode one = copy_of(reads[i].node);
                const ProgramNode other = copy_of(reads[k].node);
                const bool is_same = one.what == other.what && one.list == other.list;
                if (reads[i].scope != reads[k].scope || one.list.size() != other.list.size() || is_same)
                    continue;
                const int first = build_.with_node(value, reads[i].node, add(other));
                here.push_back(build_.with_node(first, reads[k].node, add(one)));
            }
        }
        ++places_;
        for (const int one : here)
            found.push_back({stage_, one, std::nullopt, 6 + bits_among(here.size()), "operand"});
    }

    /// One operand, in whose place the product of two of them stands.
    void of_products_of_reads(int value, const std::vector<ScopedRead>& reads,
                              std::vector<ProgramRewrite>& found) {
        std::vector<int> here;
        for (const ScopedRead& read : reads) {
            for (std::size_t i = 0; i < reads.size() && reads.size() <= most_multiplied; ++i) {
                for (std::size_t k = i; k < reads.size(); ++k) {
                    if (reads[i].scope != read.scope || reads[k].scope != read.scope) continue;
                    here.push_back(build_.with_node(value, read.node,
                                                    of_two(ProgramOp::times, reads[i].node, reads[k].node)));
                }
            }
        }
        ++places_;
        for (const int one : here)
            found.push_back({stage_, one, std::nullopt, 6 + bits_among(here.size()), "operand"});
    }

    /// An array that a formula reads several times is read by one index of the kernel.
    void of_repeated_reads(int value, const std::vector<ScopedRead>& reads, const Axes& fixed,
                           std::vector<ProgramRewrite>& found) {
        for (std::size_t i = 0; i < reads.size(); ++i) {
            const ProgramNode node = copy_of(reads[i].node);
            std::vector<int> same;
            bool is_first = true;
            for (std::size_t k = 0; k < reads.size(); ++k) {
                const ProgramNode& other = program_.node(reads[k].node);
                if (other.what != node.what || other.list != node.list || other.state != node.state) continue;
                is_first = is_first && k >= i;
                same.push_back(reads[k].node);
            }
            if (!is_first || same.size() < 2) continue;
            std::vector<ProgramRewrite> others;
            of_indices(node, fixed, others);
            const int read = reads[i].node;
            std::vector<int> changed{real(0), negative(read)};
            for (const double factor : factors())
                changed.push_back(of_two(ProgramOp::times, read, real(factor)));
            for (const int one : changed)
                others.push_back({stage_, one, std::nullopt, 4 + bits_among(changed.size()), "factor"});
            for (ProgramRewrite& rewrite : others) {
                int formula = value;
                for (const int one : same) formula = build_.with_node(formula, one, rewrite.value);
                rewrite.value = formula;
                found.push_back(std::move(rewrite));
            }
        }
    }

    /// Axes of conditions and of whole numbers beside them, not those of indices; and the comparisons.
    void collect_axes(int number, std::vector<int>& axes, std::vector<int>& comparisons) const {
        const ProgramNode& node = program_.node(number);
        if (node.op == ProgramOp::axis) axes.push_back(number);
        if (node.op >= ProgramOp::less && node.op <= ProgramOp::at_least) comparisons.push_back(number);
        for (const int operand : node.of) {
            if (operand >= 0 && node.op != ProgramOp::read) collect_axes(operand, axes, comparisons);
        }
    }

    template <class Is>
    int with_all(int formula, const std::vector<int>& nodes, const Is& is_it, int instead) {
        for (const int node : nodes) {
            if (is_it(node)) formula = build_.with_node(formula, node, instead);
        }
        return formula;
    }

    void collect_sums(int number, std::vector<int>& sums) const {
        const ProgramNode& node = program_.node(number);
        if (node.is_whole && (node.op == ProgramOp::plus || node.op == ProgramOp::minus))
            sums.push_back(number);
        for (const int operand : node.of) {
            if (operand >= 0 && node.op != ProgramOp::read) collect_sums(operand, sums);
        }
    }

    /// The same of a sum of whole numbers, as where the diagonal is.
    void of_repeated_sums(int value, std::vector<ProgramRewrite>& found) {
        std::vector<int> sums;
        collect_sums(value, sums);
        for (std::size_t i = 0; i < sums.size(); ++i) {
            const auto is_it = [&](int node) { return are_alike(program_, node, sums[i]); };
            const bool is_first = std::ranges::find_if(sums, is_it) - sums.begin() == std::ptrdiff_t(i);
            if (!is_first || std::ranges::count_if(sums, is_it) < 2) continue;
            std::vector<Tried> parts;
            add_parts(copy_of(sums[i]), 1, parts);
            for (const std::int64_t by : {1, -1}) parts.push_back({moved(sums[i], by), "guard"});
            for (const Tried& part : parts)
                found.push_back(
                    {stage_, with_all(value, sums, is_it, part.node), std::nullopt, 4 + part.bits, "guard"});
        }
    }

    /// An index that a mask takes several times is one number of the kernel; its bounds are compared in one way.
    void of_repeated_axes(int value, const Axes& fixed, std::vector<ProgramRewrite>& found) {
        std::vector<int> nodes;
        std::vector<int> comparisons;
        collect_axes(value, nodes, comparisons);
        std::vector<ProgramRewrite> here;
        for (int of = 0; of < int(program_.axes.size()); ++of) {
            const auto is_it = [&](int node) { return program_.axis_of(node) == of; };
            if (std::ranges::count_if(nodes, is_it) < 2) continue;
            std::vector<Alternative> instead =
                other_indices_.of(axis(of), fixed, program_.axes[std::size_t(of)].extent);
            for (const Alternative& index : indices_off_by_extents(build_, program_, axis(of)))
                instead.push_back(index);
            for (const Alternative& index : instead)
                here.push_back({stage_, with_all(value, nodes, is_it, index.node), std::nullopt,
                                4 + index.bits, "guard"});
        }
        of_repeated_sums(value, here);
        if (comparisons.size() > 1) {
            int formula = value;
            for (const int number : comparisons) {
                const ProgramNode node = copy_of(number);
                const ProgramOp op = comparisons_like(node.op).front();
                formula = build_.with_node(formula, number, of_two(op, node.of[0], node.of[1]));
            }
            here.push_back({stage_, formula, std::nullopt, 4, "guard"});
        }
        ++places_;
        for (ProgramRewrite& rewrite : here) {
            rewrite.bits += bits_among(here.size());
            found.push_back(std::move(rewrite));
        }
    }

    /// What a state is before its first block.
    void of_start(const ProgramArray& array, std::vector<ProgramRewrite>& found) {
        if (array.over < 0) return;
        Axes fixed;
        for (const int index : array.indices) fixed.set(std::size_t(program_.axis_of(index)));
        std::vector<ProgramRewrite> here = at(array.start, fixed);
        for (const double number : {0.0, 1.0, -1.0, -HUGE_VAL}) {
            if (!program_.node(array.start).is_whole || number != 0)
                here.push_back({stage_, real(number), std::nullopt, 6, "start"});
        }
        ++places_;
        for (ProgramRewrite& rewrite : here) {
            rewrite.is_start = true;
            rewrite.slot = "start";
            found.push_back(std::move(rewrite));
        }
    }

    /// Of what is stored: another factor, another sign, rounded to a type before, or nothing.
    void of_result(const ProgramArray& array, std::vector<ProgramRewrite>& found) {
        const int value = array.value;
        std::vector<Tried> here;
        for (const double factor : factors()) {
            here.push_back({of_two(ProgramOp::times, value, real(factor)), "result"});
            here.push_back({of_two(ProgramOp::quotient, value, real(factor)), "result", 1});
        }
        for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::e4m3}) {
            if (dtype_info(dtype).significand_bits >= dtype_info(array.dtype).significand_bits) continue;
            here.push_back({build_.cast(dtype, value), "type"});
        }
        for (const double number : {0.0, -HUGE_VAL, std::nan("")}) here.push_back({real(number), "result"});
        for (std::size_t i = 0; i < array.indices.size(); ++i) {
            const int own = program_.axis_of(array.indices[i]);
            for (const Alternative& index :
                 other_indices_.of(array.indices[i], Axes(), program_.axes[std::size_t(own)].extent))
                here.push_back({build_.at_index(value, own, index.node), "store", index.bits});
            for (std::size_t k = i + 1; k < array.indices.size(); ++k) {
                const int other = program_.axis_of(array.indices[k]);
                here.push_back({build_.with_axes_exchanged(value, own, other), "store"});
            }
        }
        ++places_;
        for (const Tried& one : here)
            found.push_back({stage_, one.node, std::nullopt, 4 + bits_among_all(here) + one.bits, one.slot});
    }

    Program& program_;
    const ProgramCall& call_;
    ProgramBuilder build_{program_};
    OtherIndices other_indices_{program_, call_, build_};
    int stage_;
    const std::vector<bool>& there_;
    std::size_t places_ = 0;
    std::vector<double> factors_{};
};

}  // namespace

std::vector<ProgramRewrite> rewrites_of(Program& program, const ProgramCall& call, int stage,
                                        const std::vector<bool>& there) {
    return Rewriter(program, call, stage, there).all();
}

}  // namespace tilescope
