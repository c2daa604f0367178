#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "oracle/program/alternatives.h"
#include "oracle/program/build.h"

namespace tilescope {

/// Of one thing that stands otherwise: its place among the nodes, and what it becomes among what is tried there.
inline double bits_among(std::size_t count) {
    return std::log2(double(count < 1 ? 1 : count));
}
/// The same where some are rarer than others by bits of their own: these take less room.
template <class All>
double bits_among_all(const All& all) {
    double sum = 0;
    for (const auto& one : all) sum += std::exp2(-one.bits);
    return sum > 0 ? std::log2(sum) : 0;
}

/// What may stand in the place of one node of a formula, each of one kind of node.
class NodeRewrites {
 public:
    using Axes = AxisSet;

    /// All of these must outlive it. `there`: arrays that may be read.
    NodeRewrites(Program& program, const ProgramCall& call, int stage, const std::vector<bool>& there)
        : program_(program), call_(call), stage_(stage), there_(there) {}

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
    /// What kernels multiply with: powers of two, the factors between logarithms, and behind these the numbers of this program.
    const std::vector<double>& factors();
    void collect_numbers(int number);
    std::vector<Tried> tried(int number, const ProgramNode& node, const Axes& fixed);
    /// What it is computed from by several operations, in its place.
    void add_parts(const ProgramNode& node, int depth, std::vector<Tried>& all) const;
    /// Digits that a narrower type has not are dropped, not rounded.
    int cut_off(Dtype dtype, int of);
    /// Rounded to a type; of one that ends early also after what is beyond its range was cut to that.
    void add_casts(Dtype dtype, int of, std::vector<Tried>& all);
    std::vector<Tried> of_product(const ProgramNode& node);
    /// The function that a product has as a factor; -1: it has none.
    int function_in(int number) const;
    /// A factor of what a function gives becomes one of what it is of.
    void add_inside_function(const ProgramNode& node, std::vector<Tried>& all);
    /// A factor of what it is of, in `product`, becomes one of what it gives.
    void add_outside_function(const ProgramNode& call, int product, std::vector<Tried>& all);
    std::vector<Tried> of_sum(const ProgramNode& node);
    std::vector<Tried> of_call(const ProgramNode& node);
    std::vector<Tried> of_comparison(const ProgramNode& node);
    /// Terms that are left out, and those of a sum that is none.
    std::vector<Tried> of_range(const ProgramNode& node, const Axes& fixed);
    /// Lanes that hold other rows take part in it: those whose index differs in some bits.
    void add_groups(int range, const Axes& fixed, double bits_of_range, std::vector<Tried>& all);
    /// The same of the columns of one lane, which then are those of its row.
    void add_groups_of_lane(const ProgramNode& node, const Axes& fixed, std::vector<Tried>& all);
    /// An accumulator that still holds what it held for the block before.
    void add_blocks_before(int sum, const Axes& fixed, std::vector<Tried>& all);
    /// A sum that is stored over with each term: the last one of a block, or of all.
    std::vector<Tried> last_terms(const ProgramNode& sum);
    /// A loop that goes one further: the next elements in memory are multiplied as well.
    void add_term_behind(int sum, std::vector<Tried>& all);
    void collect_reads_of(int number, int axis, std::vector<int>& reads) const;
    /// Its own loop ends by another comparison than the mask of another stage.
    void add_guards_of_others(const ProgramNode& range, const Axes& fixed, int neutral,
                              std::vector<Tried>& all);
    std::vector<Tried> of_number(const ProgramNode& node);
    /// A formula in which stages that are not there are written out; -1: one cannot be.
    int written_out(int formula);
    std::vector<Tried> of_read(int number, const ProgramNode& node, const Axes& fixed);
    /// Other arrays, of as many indices or of some of those that there are.
    void add_other_arrays(const ProgramNode& node, const Axes& fixed, std::vector<Tried>& all);
    /// Of a mask that is data, what hides where it should show.
    void add_inverted(int read, const ProgramNode& node, std::vector<Tried>& all);
    bool may_be_read(int array, const Axes& fixed) const;
    ProgramState state_in_place(int array) const;
    /// The state after another block: that of another index of what it is computed from.
    void of_state_index(const ProgramNode& node, const Axes& fixed, std::vector<Tried>& all);
    /// Of an input by the number of the element, where the kernel takes two dimensions to lie in the other order; -1: it is not known.
    int in_other_order(const ProgramNode& node, std::size_t one, std::size_t other);
    /// Axes of conditions and of whole numbers beside them, not those of indices; and the comparisons.
    void collect_axes(int number, std::vector<int>& axes, std::vector<int>& comparisons) const;
    /// Of a read with another index, or two of them exchanged, those of one of its dimensions.
    std::vector<Tried> of_index(const ProgramNode& node, std::size_t dimension, const Axes& fixed);

 protected:
    static constexpr std::array common_factors = {2.0, 0.5, -1.0, std::numbers::log2e, std::numbers::ln2};

    Program& program_;
    const ProgramCall& call_;
    ProgramBuilder build_{program_};
    OtherIndices other_indices_{program_, call_, build_};
    int stage_;
    const std::vector<bool>& there_;
    std::vector<double> factors_{};
};

}  // namespace tilescope
