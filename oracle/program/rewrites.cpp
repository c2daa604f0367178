#include "oracle/program/rewrites.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "oracle/program/node_rewrites.h"

namespace tilescope {

namespace {

/// Operands of a formula of which two are exchanged.
constexpr std::size_t most_exchanged = 8;
/// Of which two are multiplied in the place of one.
constexpr std::size_t most_multiplied = 4;
constexpr double bits_of_compared_cast = 4;

/// The same of whole formulas.
class Rewriter : NodeRewrites {
 public:
    using NodeRewrites::NodeRewrites;

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
        of_repeated_indices(array.value, reads, fixed, found);
        of_repeated_axes(array.value, fixed, found);
        if (array.dtype != Dtype::f32) {
            ++places_;
            found.push_back({stage_, array.value, Dtype::f32, 4, "type"});
        }
        // Which of the places it is costs as much for all of them.
        for (ProgramRewrite& rewrite : found) rewrite.bits += bits_among(places_);
        return found;
    }

    std::vector<ProgramRewrite> of_start_alone() {
        std::vector<ProgramRewrite> found;
        of_start(program_.array(stage_), found);
        for (ProgramRewrite& rewrite : found) rewrite.bits += bits_among(places_);
        return found;
    }

 private:
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
        if (is_reduction(node.op))
            for (const int along : node.list) inner.set(std::size_t(along));
        // Bounds of numbers are solved for, and what is compared is rarely cast.
        const bool compares = is_comparison(node.op);
        const auto is_bound = [&](int operand) {
            const ProgramNode& of = program_.node(operand);
            return compares && of.op == ProgramOp::number && !of.is_whole;
        };
        for (std::size_t i = 0; i < node.of.size(); ++i) {
            if (node.of[i] < 0 || is_bound(node.of[i])) continue;
            for (ProgramRewrite& rewrite : at(node.of[i], inner)) {
                ProgramNode around = node;
                around.of[i] = rewrite.value;
                rewrite.value = add(std::move(around));
                if (compares && rewrite.slot == "type") rewrite.bits += bits_of_compared_cast;
                found.push_back(std::move(rewrite));
            }
        }
        return found;
    }

    void of_indices(const ProgramNode& node, const Axes& fixed, std::vector<ProgramRewrite>& found) {
        for (std::size_t i = 0; i < node.list.size(); ++i) {
            const std::vector<Tried> here = of_index(node, i, fixed);
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
        for (const int operand : node.of) {
            if (operand >= 0) collect_reads(operand, is_reduction(node.op) ? number : scope, reads);
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

    /// An array that a formula reads several times, or a sum within it, is read by one index of the kernel.
    void of_repeated_reads(int value, const std::vector<ScopedRead>& reads, const Axes& fixed,
                           std::vector<ProgramRewrite>& found) {
        for (std::size_t i = 0; i < reads.size(); ++i) {
            const ProgramNode node = copy_of(reads[i].node);
            const auto alike = [&](bool in_scope) {
                std::vector<std::size_t> same;
                for (std::size_t k = 0; k < reads.size(); ++k) {
                    const ProgramNode& other = program_.node(reads[k].node);
                    const bool is_alike =
                        other.what == node.what && other.list == node.list && other.state == node.state;
                    if (is_alike && (!in_scope || reads[k].scope == reads[i].scope)) same.push_back(k);
                }
                return same;
            };
            const std::vector<std::size_t> everywhere = alike(false);
            const std::vector<std::size_t> here = alike(true);
            const auto is_first = [&](const std::vector<std::size_t>& same) {
                return same.size() > 1 && same.front() == i;
            };
            if (is_first(everywhere)) of_reads_alike(value, reads, everywhere, fixed, found);
            if (is_first(here) && here != everywhere) of_reads_alike(value, reads, here, fixed, found);
        }
    }

    void of_reads_alike(int value, const std::vector<ScopedRead>& reads, const std::vector<std::size_t>& same,
                        const Axes& fixed, std::vector<ProgramRewrite>& found) {
        const int read = reads[same.front()].node;
        std::vector<ProgramRewrite> others;
        of_indices(copy_of(read), fixed, others);
        std::vector<int> changed{real(0), negative(read)};
        for (const double factor : factors()) changed.push_back(of_two(ProgramOp::times, read, real(factor)));
        for (const int one : changed)
            others.push_back({stage_, one, std::nullopt, 4 + bits_among(changed.size()), "factor"});
        for (ProgramRewrite& rewrite : others) {
            int formula = value;
            for (const std::size_t one : same)
                formula = build_.with_node(formula, reads[one].node, rewrite.value);
            rewrite.value = formula;
            found.push_back(std::move(rewrite));
        }
    }

    /// An index of several reads is one number of the kernel.
    void of_repeated_indices(int value, const std::vector<ScopedRead>& reads, const Axes& fixed,
                             std::vector<ProgramRewrite>& found) {
        std::vector<int> told;
        for (const ScopedRead& first : reads) {
            const ProgramNode node = copy_of(first.node);
            for (const int index : node.list) {
                const auto is_it = [&](int other) { return are_alike(program_, index, other); };
                if (program_.axis_of(index) >= 0 || std::ranges::any_of(told, is_it)) continue;
                told.push_back(index);
                std::vector<int> readers;
                for (const ScopedRead& read : reads)
                    if (std::ranges::any_of(program_.node(read.node).list, is_it))
                        readers.push_back(read.node);
                if (readers.size() < 2) continue;
                for (const Alternative& other : other_indices_.of(index, fixed, -1)) {
                    int formula = value;
                    for (const int reader : readers) {
                        ProgramNode read = copy_of(reader);
                        std::ranges::replace_if(read.list, is_it, other.node);
                        formula = build_.with_node(formula, reader, add(std::move(read)));
                    }
                    found.push_back({stage_, formula, std::nullopt, 7 + other.bits, "index"});
                }
            }
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

    /// Bounds that are compared for whole blocks: those of which a row of the block sees a key. All of them, or all but the first.
    void of_blocks(int value, const std::vector<int>& comparisons, std::vector<ProgramRewrite>& found) {
        for (std::size_t first : {std::size_t{0}, std::size_t{1}}) {
            int formula = value;
            bool is_changed = false;
            for (std::size_t k = first; k < comparisons.size(); ++k) {
                const ProgramNode node = copy_of(comparisons[k]);
                const bool is_upper = node.op == ProgramOp::less || node.op == ProgramOp::at_most;
                int left = node.of[0];
                int right = node.of[1];
                for (int of = 0; of < int(program_.axes.size()); ++of) {
                    const int block = program_.axes[std::size_t(of)].block;
                    if (block < 0) continue;
                    const int begin = of_two(ProgramOp::times, build_.block_of(of), block);
                    const int last = of_two(ProgramOp::plus, begin, moved(block, -1));
                    left = build_.at_index(left, of, is_upper ? begin : last);
                    right = build_.at_index(right, of, is_upper ? last : begin);
                }
                is_changed = is_changed || left != node.of[0] || right != node.of[1];
                formula = build_.with_node(formula, comparisons[k], of_two(node.op, left, right));
            }
            if (is_changed) found.push_back({stage_, formula, std::nullopt, 6, "guard"});
        }
    }

    /// Row and column of the tile are compared, in the place of those of the sequence.
    void within_blocks(int value, const std::vector<int>& comparisons, std::vector<ProgramRewrite>& found) {
        int formula = value;
        for (const int number : comparisons) {
            ProgramNode node = copy_of(number);
            for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
                for (int of = 0; of < int(program_.axes.size()); ++of) {
                    const bool is_it = program_.axes[std::size_t(of)].block >= 0 && takes(node.of[side], of);
                    if (is_it) node.of[side] = build_.within_block(of);
                }
            }
            formula = build_.with_node(formula, number, of_two(node.op, node.of[0], node.of[1]));
        }
        if (formula != value) found.push_back({stage_, formula, std::nullopt, 6, "guard"});
    }

    bool takes(int number, int axis) const {
        const ProgramNode& node = program_.node(number);
        return program_.axis_of(number) == axis ||
               std::ranges::any_of(node.of, [&](int of) { return of >= 0 && takes(of, axis); });
    }

    /// An index that a mask takes, however often, is one number of the kernel; its bounds are compared in one way.
    void of_repeated_axes(int value, const Axes& fixed, std::vector<ProgramRewrite>& found) {
        std::vector<int> nodes;
        std::vector<int> comparisons;
        collect_axes(value, nodes, comparisons);
        std::vector<ProgramRewrite> here;
        for (int of = 0; of < int(program_.axes.size()); ++of) {
            const auto is_it = [&](int node) { return program_.axis_of(node) == of; };
            if (std::ranges::none_of(nodes, is_it)) continue;
            std::vector<Alternative> instead =
                other_indices_.of(axis(of), fixed, program_.axes[std::size_t(of)].extent);
            for (const Alternative& index : indices_off_by_extents(build_, program_, axis(of)))
                instead.push_back(index);
            for (const Alternative& index : instead)
                here.push_back({stage_, with_all(value, nodes, is_it, index.node), std::nullopt,
                                4 + index.bits, "guard"});
        }
        of_repeated_sums(value, here);
        of_blocks(value, comparisons, here);
        within_blocks(value, comparisons, here);
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
        for (const double factor : factors()) {
            const ProgramNode& start = program_.node(array.start);
            if (start.op == ProgramOp::number || start.is_whole || is_infinite(program_, array.start)) break;
            for (const ProgramOp op : {ProgramOp::times, ProgramOp::quotient})
                here.push_back({stage_, of_two(op, array.start, real(factor)), std::nullopt, 7, "factor"});
        }
        // What a sink begins with may be missing.
        const bool is_declared =
            program_.node(array.start).op != ProgramOp::number && !is_infinite(program_, array.start);
        for (const double number : {0.0, 1.0, -1.0, -HUGE_VAL}) {
            if (!program_.node(array.start).is_whole || number != 0)
                here.push_back(
                    {stage_, real(number), std::nullopt, is_declared && number <= 0 ? 3.0 : 6.0, "start"});
        }
        if (is_infinite(program_, array.start)) {
            // What kernels take in the place of minus infinity, in units of theirs or before they are scaled.
            std::vector<double> units{1};
            units.insert(units.end(), factors().begin() + common_factors.size(), factors().end());
            for (const double number :
                 {-double(FLT_MAX), -1e30, -1e9, -1e5, -65504.0, -5e4, -1e4, -5e3, -1e3}) {
                for (const double unit : units)
                    here.push_back({stage_, real(number / unit), std::nullopt,
                                    5 + std::log2(double(units.size())), "start"});
            }
        }
        ++places_;
        for (ProgramRewrite& rewrite : here) {
            rewrite.is_start = true;
            rewrite.slot = "start";
            found.push_back(std::move(rewrite));
        }
    }

    /// The first or the last of an axis that is not cut, such as splits, takes no part.
    void add_without_ends(int of, int value, std::vector<Tried>& all) {
        const int last = moved(program_.axes[std::size_t(of)].extent, -1);
        for (const double number : {0.0, -HUGE_VAL}) {
            for (const int end : {last, whole(0)}) {
                const int is_end = of_two(ProgramOp::equal, axis(of), end);
                all.push_back({build_.chosen(real(number), is_end, value), "range", 2});
            }
        }
    }

    /// Of what is stored: another factor, another sign, rounded to a type before, or nothing.
    /// Half of each block, or the first or the last block, is hidden from a maximum.
    void add_hidden(const ProgramArray& array, std::vector<Tried>& all) {
        const auto takes_most = [&](const ProgramNode& node) {
            return node.op == ProgramOp::most && reads(program_, node.of[0], stage_);
        };
        const auto reader = std::ranges::find_if(program_.nodes, takes_most);
        if (reader == program_.nodes.end()) return;
        // Of its own, since nodes are added to the program.
        const std::vector<int> axes = reader->list;
        for (const int own : axes) {
            const int block = program_.axes[std::size_t(own)].block;
            const bool is_index =
                std::ranges::any_of(array.indices, [&](int index) { return program_.axis_of(index) == own; });
            if (block < 0 || !is_index) continue;
            const int half = of_two(ProgramOp::quotient, block, whole(2));
            const int last =
                of_two(ProgramOp::quotient, moved(program_.axes[std::size_t(own)].extent, -1), block);
            for (const int is_there : {of_two(ProgramOp::less, build_.within_block(own), half),
                                       of_two(ProgramOp::at_least, build_.within_block(own), half),
                                       of_two(ProgramOp::at_least, build_.block_of(own), whole(1)),
                                       of_two(ProgramOp::less, build_.block_of(own), last)})
                all.push_back({build_.chosen(array.value, is_there, real(-HUGE_VAL)), "result", 5});
        }
    }

    void of_result(const ProgramArray& array, std::vector<ProgramRewrite>& found) {
        const int value = array.value;
        std::vector<Tried> here;
        for (const double factor : factors()) {
            here.push_back({of_two(ProgramOp::times, value, real(factor)), "result"});
            const auto is_inverse = [&](double other) { return std::abs(factor * other - 1) < 1e-12; };
            if (std::ranges::none_of(factors(), is_inverse))
                here.push_back({of_two(ProgramOp::quotient, value, real(factor)), "result", 1});
        }
        for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::e4m3}) {
            if (dtype_info(dtype).significand_bits >= dtype_info(array.dtype).significand_bits) continue;
            add_casts(dtype, value, here);
        }
        if (array.dtype != Dtype::f32) here.push_back({cut_off(array.dtype, value), "type"});
        for (const double number : {0.0, -HUGE_VAL, std::nan("")}) here.push_back({real(number), "result"});
        add_hidden(array, here);
        for (std::size_t i = 0; i < array.indices.size(); ++i) {
            const int own = program_.axis_of(array.indices[i]);
            if (program_.axes[std::size_t(own)].block < 0) add_without_ends(own, value, here);
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

    std::size_t places_ = 0;
};

}  // namespace

std::vector<ProgramRewrite> rewrites_of(Program& program, const ProgramCall& call, int stage,
                                        const std::vector<bool>& there) {
    return Rewriter(program, call, stage, there).all();
}

std::vector<ProgramRewrite> rewrites_of_start(Program& program, const ProgramCall& call, int stage,
                                              const std::vector<bool>& there) {
    return Rewriter(program, call, stage, there).of_start_alone();
}

}  // namespace tilescope
