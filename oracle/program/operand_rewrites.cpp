// What stands in the place of an operand, another array; what a sum adds up beyond its terms, or not.

#include <algorithm>
#include <cmath>

#include "oracle/program/evaluate.h"
#include "oracle/program/node_rewrites.h"

namespace tilescope {

namespace {

void collect_guards(const Program& program, int number, bool is_guard, std::vector<int>& found) {
    const ProgramNode& node = program.node(number);
    const bool is_comparison = node.op >= ProgramOp::less && node.op <= ProgramOp::at_least;
    if (is_guard && is_comparison && program.node(node.of[0]).is_whole && program.node(node.of[1]).is_whole) {
        const auto is_it = [&](int other) { return are_alike(program, number, other); };
        if (std::ranges::none_of(found, is_it)) found.push_back(number);
        return;
    }
    if (node.op == ProgramOp::read) return;
    for (std::size_t i = 0; i < node.of.size(); ++i) {
        const bool is_condition = is_guard || (node.op == ProgramOp::chosen && i == 1);
        if (node.of[i] >= 0) collect_guards(program, node.of[i], is_condition, found);
    }
}

}  // namespace

ProgramState NodeRewrites::state_in_place(int array) const {
    const ProgramArray& other = program_.array(array);
    if (other.over < 0) return ProgramState::unsaid;
    if (program_.loop_of(array) != program_.loop_of(stage_)) return ProgramState::last;
    return array >= stage_ ? ProgramState::before : ProgramState::after;
}

bool NodeRewrites::may_be_read(int array, const Axes& fixed) const {
    const ProgramArray& other = program_.array(array);
    const bool is_of_loop = other.over >= 0 && program_.loop_of(array) == program_.loop_of(stage_);
    // Of this stage and later ones there is the state before the block; before the first block of a loop there is none.
    const bool is_later = array >= stage_ && !is_of_loop;
    return there_[std::size_t(array)] && !is_later && !(is_of_loop && !fixed[std::size_t(other.over)]);
}

void NodeRewrites::add_inverted(int read, const ProgramNode& node, std::vector<Tried>& all) {
    if (program_.array(node.what).is_stage || std::size_t(node.what) >= call_.inputs.size()) return;
    const ProgramInput& array = call_.inputs[std::size_t(node.what)];
    if (array.bits.data() == nullptr) return;
    constexpr std::int64_t looked_at = 4096;
    bool hides = false;
    for (std::int64_t i = 0; i < std::min(size_of(array), looked_at) && !hides; ++i)
        hides = element_of(array, i) == -HUGE_VAL;
    if (!hides) return;
    const int is_hidden = of_two(ProgramOp::equal, read, real(-HUGE_VAL));
    all.push_back({build_.chosen(real(0), is_hidden, real(-HUGE_VAL)), "operand", 2});
}

void NodeRewrites::add_other_arrays(const ProgramNode& node, const Axes& fixed, std::vector<Tried>& all) {
    if (node.is_flat) return;
    const ProgramArray array = program_.array(node.what);
    for (int i = 0; i < int(program_.arrays.size()); ++i) {
        if (i == node.what || !may_be_read(i, fixed)) continue;
        const ProgramArray other = program_.array(i);
        ProgramNode instead = node;
        instead.what = i;
        const bool has_fewer = other.indices.size() < array.indices.size();
        if (has_fewer) {
            // The variable of a row in the place of that of a column.
            const auto is_there = [&](int index) {
                const int own = program_.axis_of(index);
                return own >= 0 && fixed[std::size_t(own)];
            };
            if (other.indices.empty() || !std::ranges::all_of(other.indices, is_there)) continue;
            instead.list = other.indices;
        } else if (other.indices.size() != array.indices.size()) {
            continue;
        } else if (node.of[0] >= 0 && other.over == array.over) {
            all.push_back({add(instead), "operand"});
            continue;
        }
        instead.of[0] = -1;
        instead.says_state = false;
        instead.state = state_in_place(i);
        all.push_back({add(instead), "operand", has_fewer ? 6.0 : 0.0});
    }
}

std::vector<NodeRewrites::Tried> NodeRewrites::last_terms(const ProgramNode& sum) {
    std::vector<Tried> all;
    for (const int along : sum.list) {
        const ProgramAxis& of = program_.axes[std::size_t(along)];
        int is_last = of_two(ProgramOp::equal, axis(along), moved(of.extent, -1));
        if (of.block >= 0)
            is_last =
                of_two(ProgramOp::either,
                       of_two(ProgramOp::equal, build_.within_block(along), moved(of.block, -1)), is_last);
        ProgramNode part = sum;
        part.of[0] = build_.chosen(sum.of[0], is_last, real(0));
        all.push_back({add(part), "range", 1});
    }
    return all;
}

void NodeRewrites::add_term_behind(int sum, std::vector<Tried>& all) {
    const ProgramNode node = copy_of(sum);
    if (node.list.size() != 1) return;
    const int along = node.list.front();
    const int extent = program_.axes[std::size_t(along)].extent;
    std::vector<int> reads;
    collect_reads_of(node.of[0], along, reads);
    int term = node.of[0];
    int is_inside = -1;
    for (const int read : reads) {
        // Memory goes on behind its last dimension alone.
        const ProgramNode own = copy_of(read);
        const bool is_input = !program_.array(own.what).is_stage && !own.is_flat;
        if (!is_input || own.list.empty() || program_.axis_of(own.list.back()) != along) return;
        ProgramNode flat = own;
        flat.is_flat = true;
        int number = -1;
        int elements = -1;
        for (std::size_t i = 0; i < own.list.size(); ++i) {
            const int length = build_.extent_of(own.what, i, own.list[i]);
            if (length < 0) return;
            const int index = i + 1 == own.list.size() ? extent : own.list[i];
            number =
                number < 0 ? index : of_two(ProgramOp::plus, of_two(ProgramOp::times, number, length), index);
            elements = elements < 0 ? length : of_two(ProgramOp::times, elements, length);
        }
        flat.list = {number};
        term = build_.with_node(term, read, add(std::move(flat)));
        is_inside = build_.both(is_inside, of_two(ProgramOp::less, number, elements));
    }
    if (reads.empty()) return;
    term = build_.at_index(term, along, extent);
    all.push_back({of_two(ProgramOp::plus, sum, build_.chosen(term, is_inside, real(0))), "range", 6});
}

void NodeRewrites::collect_reads_of(int number, int axis, std::vector<int>& reads) const {
    const ProgramNode& node = program_.node(number);
    if (node.op == ProgramOp::read) {
        const bool is_it =
            std::ranges::any_of(node.list, [&](int index) { return program_.axis_of(index) == axis; });
        if (is_it) reads.push_back(number);
        return;
    }
    for (const int operand : node.of)
        if (operand >= 0) collect_reads_of(operand, axis, reads);
}

void NodeRewrites::add_guards_of_others(const ProgramNode& range, const Axes& fixed, int neutral,
                                        std::vector<Tried>& all) {
    std::vector<int> guards;
    for (int i = 0; i < int(program_.arrays.size()); ++i) {
        if (i != stage_ && program_.array(i).value >= 0)
            collect_guards(program_, program_.array(i).value, false, guards);
    }
    for (const int guard : guards) {
        const ProgramNode node = copy_of(guard);
        std::vector<int> nodes;
        std::vector<int> comparisons;
        collect_axes(guard, nodes, comparisons);
        const auto is_along = [&](int of) {
            return std::ranges::count(range.list, program_.axis_of(of)) > 0;
        };
        const auto is_there = [&](int of) {
            return is_along(of) || fixed[std::size_t(program_.axis_of(of))];
        };
        if (std::ranges::none_of(nodes, is_along) || std::ranges::all_of(nodes, is_along) ||
            !std::ranges::all_of(nodes, is_there))
            continue;
        const bool may_equal = node.op == ProgramOp::at_most || node.op == ProgramOp::at_least;
        const bool is_upper = node.op == ProgramOp::at_most || node.op == ProgramOp::less;
        const int stricter =
            may_equal ? of_two(is_upper ? ProgramOp::less : ProgramOp::more, node.of[0], node.of[1])
                      : of_two(node.op, node.of[0], moved(node.of[1], is_upper ? -1 : 1));
        for (const int condition : {guard, stricter}) {
            ProgramNode part = range;
            part.of[0] = build_.chosen(range.of[0], condition, neutral);
            all.push_back({add(part), "range", 4});
        }
    }
}

}  // namespace tilescope
