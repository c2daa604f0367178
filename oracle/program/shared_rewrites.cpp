// One number of the kernel that stands in the formulas of several stages: an index of their loads, or a condition.

#include <algorithm>
#include <cmath>
#include <utility>

#include "oracle/program/alternatives.h"
#include "oracle/program/rewrites.h"

namespace tilescope {

namespace {

void rewrite_as_well(ProgramRewrite& rewrite, int stage, int formula) {
    if (rewrite.stage >= 0) {
        rewrite.also.push_back({stage, formula});
        return;
    }
    rewrite.stage = stage;
    rewrite.value = formula;
}

/// An index, and the dimension of an array that takes it.
struct IndexOfLoad {
    int index;
    int array;
    std::size_t dimension;
};

class LoadRewriter {
 public:
    LoadRewriter(Program& program, const ProgramCall& call, const std::vector<int>& stages)
        : program_(program), call_(call), stages_(stages) {
        for (const int stage : stages) {
            std::vector<int> reads;
            for_each_node(program, program.array(stage).value, [&](int number) {
                const ProgramNode& node = program.node(number);
                if (node.op == ProgramOp::read && !program.array(node.what).is_stage) reads.push_back(number);
            });
            for (const int read : reads) {
                const ProgramNode& node = program.node(read);
                for (std::size_t i = 0; i < node.list.size() && !node.is_flat; ++i)
                    indices_.push_back({node.list[i], node.what, i});
            }
            reads_.push_back(std::move(reads));
        }
    }

    std::vector<ProgramRewrite> all() {
        std::vector<ProgramRewrite> found;
        for (std::size_t i = 0; i < indices_.size(); ++i) {
            const IndexOfLoad& one = indices_[i];
            const auto is_it = [&](const IndexOfLoad& other) {
                return are_alike(program_, one.index, other.index);
            };
            const bool is_first =
                std::ranges::find_if(indices_, is_it) - indices_.begin() == std::ptrdiff_t(i);
            const bool is_shared = std::ranges::any_of(
                indices_, [&](const IndexOfLoad& other) { return other.array != one.array && is_it(other); });
            if (is_first && is_shared) with_others(one, reads_, most_bits, found);
            const bool is_first_of_array =
                std::ranges::find_if(
                    indices_,
                    [&](const IndexOfLoad& other) { return other.array == one.array && is_it(other); }) -
                    indices_.begin() ==
                std::ptrdiff_t(i);
            if (is_first_of_array) with_others(one, reads_of(one.array), most_bits_of_array, found);
        }
        return found;
    }

 private:
    static constexpr double most_bits = HUGE_VAL;
    /// Of one array several stages take the simplest ones alone.
    static constexpr double most_bits_of_array = 0;

    /// Of each stage those of one array.
    std::vector<std::vector<int>> reads_of(int array) const {
        std::vector<std::vector<int>> reads = reads_;
        for (std::vector<int>& of_stage : reads)
            std::erase_if(of_stage, [&](int read) { return program_.node(read).what != array; });
        return reads;
    }

    void with_others(const IndexOfLoad& one, const std::vector<std::vector<int>>& reads, double most,
                     std::vector<ProgramRewrite>& found) {
        AxisSet fixed;
        if (const int own = program_.axis_of(one.index); own >= 0) fixed.set(std::size_t(own));
        const int extent = build_.extent_of(one.array, one.dimension, one.index);
        for (const Alternative& other : others_.of(one.index, fixed, extent)) {
            if (other.bits > most) continue;
            ProgramRewrite rewrite{.bits = 9 + other.bits, .slot = "index"};
            for (std::size_t k = 0; k < stages_.size(); ++k) {
                const int formula =
                    build_.with_index(program_.array(stages_[k]).value, reads[k], one.index, other.node);
                if (formula == program_.array(stages_[k]).value) continue;
                rewrite_as_well(rewrite, stages_[k], formula);
            }
            if (!rewrite.also.empty()) found.push_back(std::move(rewrite));
        }
    }

    Program& program_;
    const ProgramCall& call_;
    const std::vector<int>& stages_;
    ProgramBuilder build_{program_};
    OtherIndices others_{program_, call_, build_};
    std::vector<std::vector<int>> reads_;  ///< of each stage
    std::vector<IndexOfLoad> indices_;
};

void collect_choices(const Program& program, int number, std::vector<int>& choices) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::chosen) choices.push_back(number);
    for (const int operand : node.of)
        if (operand >= 0 && node.op != ProgramOp::read) collect_choices(program, operand, choices);
}

}  // namespace

std::vector<ProgramRewrite> rewrites_of_guards(Program& program, const std::vector<int>& stages) {
    std::vector<std::vector<int>> choices(stages.size());
    std::vector<int> conditions;
    for (std::size_t k = 0; k < stages.size(); ++k) {
        collect_choices(program, program.array(stages[k]).value, choices[k]);
        for (const int choice : choices[k]) {
            const int condition = program.node(choice).of[1];
            const auto is_it = [&](int other) { return are_alike(program, condition, other); };
            if (std::ranges::none_of(conditions, is_it)) conditions.push_back(condition);
        }
    }
    ProgramBuilder build(program);
    std::vector<ProgramRewrite> found;
    for (const int condition : conditions) {
        for (const std::size_t side : {std::size_t{0}, std::size_t{2}}) {
            ProgramRewrite rewrite{.bits = 8, .slot = "guard"};
            for (std::size_t k = 0; k < stages.size(); ++k) {
                const int declared = program.array(stages[k]).value;
                int formula = declared;
                for (const int choice : choices[k]) {
                    const ProgramNode node = program.node(choice);
                    if (are_alike(program, node.of[1], condition))
                        formula = build.with_node(formula, choice, node.of[side]);
                }
                if (formula == declared) continue;
                rewrite_as_well(rewrite, stages[k], formula);
            }
            if (!rewrite.also.empty()) found.push_back(std::move(rewrite));
        }
    }
    return found;
}

namespace {

/// Reads of the state before the block in its own formula; a state may begin anew in the middle, as a split does.
void collect_own_reads(const Program& program, int stage, int number, std::vector<int>& found) {
    const auto is_own = [&](const ProgramNode& node) {
        return node.op == ProgramOp::read && node.what == stage && node.of[0] < 0;
    };
    const ProgramNode& node = program.node(number);
    if (is_own(node) || (node.op == ProgramOp::chosen && is_own(program.node(node.of[0])))) {
        found.push_back(number);
        return;
    }
    for (const int operand : node.of)
        if (operand >= 0) collect_own_reads(program, stage, operand, found);
}

}  // namespace

std::vector<ProgramRewrite> rewrites_of_updated_rows(Program& program, int stage) {
    std::vector<int> reads;
    collect_own_reads(program, stage, program.array(stage).value, reads);
    ProgramBuilder build(program);
    std::vector<ProgramRewrite> found;
    for (const int before : reads) {
        const ProgramNode outer = program.node(before);
        const ProgramNode read = outer.op == ProgramOp::chosen ? program.node(outer.of[0]) : outer;
        for (std::size_t i = 0; i < read.list.size(); ++i) {
            const int along = program.axis_of(read.list[i]);
            if (along < 0 || program.axes[std::size_t(along)].block < 0) continue;
            const int index = read.list[i];
            const auto offer = [&](int other, double bits) {
                ProgramNode after = read;
                after.list[i] = other;
                after.state = ProgramState::after;
                after.says_state = true;
                const int is_done = build.of_two(ProgramOp::less, other, index);
                const int instead =
                    build.chosen(build.add(after), is_done, build.at_index(before, along, other));
                found.push_back({stage, build.with_node(program.array(stage).value, before, instead),
                                 std::nullopt, 10 + bits, "state"});
            };
            for (const std::int64_t by : {1, 2, 4, 8}) {
                const double bits = 2 + std::log2(double(by));
                const int twice = build.whole(2 * by);
                offer(build.of_two(ProgramOp::exclusive, index, build.whole(by)), bits);
                offer(build.of_two(ProgramOp::times, build.of_two(ProgramOp::quotient, index, twice), twice),
                      bits);
            }
            offer(build.moved(index, -1), 2);
            const int block = program.axes[std::size_t(along)].block;
            offer(build.of_two(ProgramOp::times, build.block_of(along), block), 2);
        }
    }
    return found;
}

std::vector<ProgramRewrite> rewrites_of_loads(Program& program, const ProgramCall& call,
                                              const std::vector<int>& stages) {
    return LoadRewriter(program, call, stages).all();
}

}  // namespace tilescope
