#include "oracle/program/node_rewrites.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

namespace tilescope {

namespace {

/// Of a range, slices of equal length that are left out.
constexpr std::int64_t most_slices = 4;
/// Operations that are left out at once.
constexpr int deepest_part = 4;
/// Numbers that may be a factor, those of the program among them.
constexpr std::size_t most_factors = 13;

}  // namespace

const std::vector<double>& NodeRewrites::factors() {
    if (!factors_.empty()) return factors_;
    factors_.assign(common_factors.begin(), common_factors.end());
    for (const ProgramArray& array : program_.arrays) {
        if (array.value >= 0) collect_numbers(array.value);
    }
    return factors_;
}

void NodeRewrites::collect_numbers(int number) {
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

std::vector<NodeRewrites::Tried> NodeRewrites::tried(int number, const ProgramNode& node, const Axes& fixed) {
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
            return {{node.of[0], "type"}, {cut_off(Dtype(node.what), node.of[0]), "type"}};
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

void NodeRewrites::add_parts(const ProgramNode& node, int depth, std::vector<Tried>& all) const {
    if (is_reduction(node.op) || node.op == ProgramOp::read) return;
    for (std::size_t i = 0; i < node.of.size(); ++i) {
        if (node.of[i] < 0 || (node.op == ProgramOp::chosen && i == 1)) continue;
        const ProgramNode& part = program_.node(node.of[i]);
        if (part.is_whole != node.is_whole || part.op == ProgramOp::number) continue;
        if (depth > 1) all.push_back({node.of[i], "factor", 2.0 * depth});
        if (depth < deepest_part) add_parts(part, depth + 1, all);
    }
}

int NodeRewrites::cut_off(Dtype dtype, int of) {
    const int dropped = dtype_info(Dtype::f32).significand_bits - dtype_info(dtype).significand_bits;
    return of_two(ProgramOp::masked, of, whole(std::int64_t(0xffffffffU >> dropped << dropped)));
}

void NodeRewrites::add_casts(Dtype dtype, int of, std::vector<Tried>& all) {
    all.push_back({build_.cast(dtype, of), "type"});
    if (dtype != Dtype::e4m3) return;
    const double most = double(dtype_info(dtype).max_finite);
    const int below = of_two(ProgramOp::smaller, of, real(most));
    all.push_back({build_.cast(dtype, of_two(ProgramOp::larger, below, real(-most))), "type", 1});
}

std::vector<NodeRewrites::Tried> NodeRewrites::of_product(const ProgramNode& node) {
    const int x = node.of[0];
    const int y = node.of[1];
    const bool divides = node.op == ProgramOp::quotient;
    std::vector<Tried> all{{x, "factor"}};
    if (!divides) all.push_back({y, "factor"});
    all.push_back({of_two(divides ? ProgramOp::times : ProgramOp::quotient, x, y), "factor"});
    if (divides)
        all.push_back({of_two(ProgramOp::quotient, x, of_two(ProgramOp::quotient, real(1), y)), "factor", 1});
    ProgramNode same = node;
    same.of[0] = add(same);
    all.push_back({add(same), "factor"});  // twice
    if (!divides) {
        // One pointer in the other's place.
        for (const int factor : {x, y})
            all.push_back({of_two(ProgramOp::times, factor, factor), "operand", 1});
        const int inverse = of_two(ProgramOp::quotient, x, y);
        all.push_back({build_.chosen(inverse, of_two(ProgramOp::unequal, y, real(0)), real(0)), "factor", 1});
        all.push_back({of_two(ProgramOp::quotient, y, x), "factor"});
        all.push_back({of_two(ProgramOp::times, add(node), x), "factor"});
    }
    for (const ProgramOp op : {ProgramOp::plus, ProgramOp::minus})
        all.push_back({of_two(op, x, y), "operation", 3});
    add_inside_function(node, all);
    return all;
}

std::vector<NodeRewrites::Tried> NodeRewrites::of_sum(const ProgramNode& node) {
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
    for (const double factor : factors())
        all.push_back({of_two(node.op, x, of_two(ProgramOp::times, y, real(factor))), "factor", 3});
    // `=` in the place of `+=`: of what is added up the last is left.
    if (program_.node(y).op == ProgramOp::sum)
        for (const Tried& last : last_terms(copy_of(y))) all.push_back(last);
    ProgramNode twice = node;
    twice.of[0] = add(node);
    all.push_back({add(twice), "term"});
    all.push_back({of_two(ProgramOp::plus, add(node), x), "term"});
    return all;
}

std::vector<NodeRewrites::Tried> NodeRewrites::of_comparison(const ProgramNode& node) {
    std::vector<Tried> all;
    for (const ProgramOp op : comparisons_like(node.op))
        all.push_back({of_two(op, node.of[0], node.of[1]), "guard"});
    const bool is_whole = program_.node(node.of[0]).is_whole && program_.node(node.of[1]).is_whole;
    if (!is_whole) {
        const auto is_of_call = [&](int number) {
            const ProgramNode& side = program_.node(number);
            return side.op == ProgramOp::read && !program_.array(side.what).is_stage;
        };
        if (!is_of_call(node.of[0]) && !is_of_call(node.of[1])) return all;
        // Numbers that stand for an index, as the length of an entry.
        for (const ProgramOp op : {ProgramOp::plus, ProgramOp::minus})
            all.push_back({of_two(node.op, node.of[0], of_two(op, node.of[1], real(1))), "guard"});
        for (const ProgramAxis& from : program_.axes) {
            for (const ProgramAxis& less : program_.axes) {
                if (from.block < 0 || less.block < 0 || from.extent == less.extent) continue;
                const int whole_ones = of_two(ProgramOp::minus, from.extent, less.extent);
                all.push_back({of_two(node.op, node.of[0], whole_ones), "guard", 2});
            }
        }
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

std::vector<NodeRewrites::Tried> NodeRewrites::of_range(const ProgramNode& node, const Axes& fixed) {
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
            only(of_two(
                     ProgramOp::less, at,
                     of_two(ProgramOp::times, of_two(ProgramOp::quotient, extent, whole(step)), whole(step))),
                 std::log2(double(step)));
        const auto without_slices = [&](int index, std::int64_t count) {
            for (const std::int64_t step : {4, 8, 16, 32, 64}) {
                for (std::int64_t slice = 0; slice < most_slices && step < count; ++slice) {
                    const int number = of_two(ProgramOp::quotient, index, whole(step));
                    only(of_two(ProgramOp::unequal, number, whole(slice)),
                         std::log2(double(step)) + double(slice) / 2);
                }
            }
        };
        if (of.block < 0)
            without_slices(at, call_.extents[std::size_t(along)]);
        else
            without_slices(of_two(ProgramOp::rest, at, of.block), call_.blocks[std::size_t(along)]);
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
    if (node.op == ProgramOp::sum)
        for (const Tried& last : last_terms(node)) all.push_back(last);
    const int whole_range = add(node);
    for (const double factor : factors())
        all.push_back({of_two(ProgramOp::times, whole_range, real(factor)), "factor", 2});
    ProgramNode other = node;
    other.op = node.op == ProgramOp::most ? ProgramOp::least : ProgramOp::most;
    all.push_back({add(other), "function"});
    for (const Accumulation how : {Accumulation::fma_f16, Accumulation::fma_bf16}) {
        if (node.op != ProgramOp::sum || node.accumulation == how) continue;
        ProgramNode narrow = node;
        narrow.accumulation = how;
        all.push_back({add(narrow), "type", 1});
    }
    if (node.op == ProgramOp::sum) add_blocks_before(whole_range, fixed, all);
    if (node.op == ProgramOp::sum) add_term_behind(whole_range, all);
    add_guards_of_others(node, fixed, neutral, all);
    add_groups(whole_range, fixed, 1, all);
    if (node.op == ProgramOp::most) add_groups_of_lane(node, fixed, all);
    return all;
}

void NodeRewrites::add_groups_of_lane(const ProgramNode& node, const Axes& fixed, std::vector<Tried>& all) {
    // Columns that a lane has, of as many as go round.
    struct Lane {
        std::int64_t count;
        std::int64_t of;
    };
    for (const int along : node.list) {
        for (const Lane lane : {Lane{1, 2}, {1, 4}, {1, 8}, {1, 16}, {1, 32}, {2, 8}, {2, 16}}) {
            const int column = of_two(ProgramOp::rest, axis(along), whole(lane.of));
            const int is_own = lane.count == 1 ? of_two(ProgramOp::equal, column, whole(0))
                                               : of_two(ProgramOp::less, column, whole(lane.count));
            ProgramNode own = node;
            own.of[0] = build_.chosen(node.of[0], is_own, real(-HUGE_VAL));
            add_groups(add(own), fixed, 3 + std::log2(double(lane.of)), all);
        }
    }
}

void NodeRewrites::add_groups(int range, const Axes& fixed, double bits_of_range, std::vector<Tried>& all) {
    const ProgramOp op = program_.node(range).op;
    const ProgramOp joins = op == ProgramOp::sum    ? ProgramOp::plus
                            : op == ProgramOp::most ? ProgramOp::larger
                                                    : ProgramOp::smaller;
    for (int of = 0; of < int(program_.axes.size()); ++of) {
        if (!fixed[std::size_t(of)] || program_.axes[std::size_t(of)].block < 0) continue;
        for (const unsigned bits : {1U, 2U, 3U, 4U, 7U, 8U, 12U, 15U, 16U, 24U}) {
            int joined = range;
            for (unsigned by = 1; by <= bits; ++by) {
                if ((by & ~bits) != 0) continue;
                const int other = of_two(ProgramOp::exclusive, axis(of), whole(by));
                joined = of_two(joins, joined, build_.at_index(range, of, other));
            }
            all.push_back({joined, "range", bits_of_range + std::log2(double(bits))});
        }
    }
}

void NodeRewrites::add_blocks_before(int sum, const Axes& fixed, std::vector<Tried>& all) {
    for (std::size_t i = 0; i < program_.axes.size(); ++i) {
        if (!fixed[i] || program_.axes[i].block < 0) continue;
        const int before = of_two(ProgramOp::minus, axis(int(i)), program_.axes[i].block);
        const int both = of_two(ProgramOp::plus, sum, build_.at_index(sum, int(i), before));
        const int has_before = of_two(ProgramOp::at_least, axis(int(i)), program_.axes[i].block);
        all.push_back({build_.chosen(both, has_before, sum), "start", 4});
    }
}

std::vector<NodeRewrites::Tried> NodeRewrites::of_number(const ProgramNode& node) {
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
        if (std::isfinite(node.number) && node.number != 0) all.push_back({real(node.number * by), "number"});
    }
    for (const double other : {0.0, 1.0}) {
        if (node.number != other) all.push_back({real(other), "number", 4});
    }
    return all;
}

int NodeRewrites::written_out(int formula) {
    const ProgramNode node = copy_of(formula);
    if (node.op == ProgramOp::read && !there_[std::size_t(node.what)]) {
        const ProgramArray& array = program_.array(node.what);
        const bool is_plain = array.is_stage && array.over < 0 && node.list == array.indices;
        return is_plain ? written_out(array.value) : -1;
    }
    ProgramNode out = node;
    for (int& part : out.of) {
        if (part < 0) continue;
        part = written_out(part);
        if (part < 0) return -1;
    }
    return out.of == node.of ? formula : add(std::move(out));
}

std::vector<NodeRewrites::Tried> NodeRewrites::of_read(int number, const ProgramNode& node,
                                                       const Axes& fixed) {
    std::vector<Tried> all;
    const ProgramArray array = program_.array(node.what);
    if (array.over >= 0 && node.what != stage_) {
        const bool in_loop = program_.loop_of(node.what) == program_.loop_of(stage_);
        for (const ProgramState state : {ProgramState::before, ProgramState::after, ProgramState::last}) {
            const bool is_there =
                state == ProgramState::last ? !in_loop : node.of[0] >= 0 || fixed[std::size_t(array.over)];
            if (state == node.state || !is_there) continue;
            ProgramNode other = node;
            other.state = state;
            if (state == ProgramState::last) other.of[0] = -1;
            other.says_state = true;
            const int instead = add(other);
            all.push_back({instead, "state"});
            // Where there is one; else the one after the block, or nothing is subtracted.
            if (state != ProgramState::before || !is_infinite(program_, array.start)) continue;
            const int is_any = of_two(ProgramOp::more, instead, array.start);
            all.push_back({build_.chosen(instead, is_any, number), "state", 2});
            all.push_back({build_.chosen(instead, is_any, real(0)), "state", 2});
        }
    }
    if (node.of[0] >= 0) of_state_index(node, fixed, all);
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::e4m3}) {
        if (dtype_info(dtype).significand_bits >= dtype_info(array.dtype).significand_bits) continue;
        add_casts(dtype, number, all);
    }
    // What it was before it was rounded.
    const bool is_own = array.is_stage && array.over < 0 && node.list == array.indices;
    const bool is_cast = is_own && program_.node(array.value).op == ProgramOp::cast;
    if (is_cast || (is_own && array.dtype != Dtype::f32)) {
        const int before = written_out(is_cast ? program_.node(array.value).of[0] : array.value);
        if (before >= 0) all.push_back({before, "type"});
    }
    add_other_arrays(node, fixed, all);
    add_inverted(number, node, all);
    return all;
}

void NodeRewrites::of_state_index(const ProgramNode& node, const Axes& fixed, std::vector<Tried>& all) {
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

int NodeRewrites::in_other_order(const ProgramNode& node, std::size_t one, std::size_t other) {
    if (program_.array(node.what).is_stage || node.is_flat || node.list.size() < 3) return -1;
    if (other + 1 == node.list.size()) return -1;
    std::vector<std::size_t> order(node.list.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::swap(order[one], order[other]);
    int number = -1;
    for (const std::size_t i : order) {
        const int extent = build_.extent_of(node.what, i, node.list[i]);
        if (extent < 0) return -1;
        number = number < 0 ? node.list[i]
                            : of_two(ProgramOp::plus, of_two(ProgramOp::times, number, extent), node.list[i]);
    }
    ProgramNode flat = node;
    flat.is_flat = true;
    flat.list = {number};
    return add(std::move(flat));
}

void NodeRewrites::collect_axes(int number, std::vector<int>& axes, std::vector<int>& comparisons) const {
    const ProgramNode& node = program_.node(number);
    if (node.op == ProgramOp::axis) axes.push_back(number);
    if (node.op >= ProgramOp::less && node.op <= ProgramOp::at_least) comparisons.push_back(number);
    for (const int operand : node.of) {
        if (operand >= 0 && node.op != ProgramOp::read) collect_axes(operand, axes, comparisons);
    }
}

std::vector<NodeRewrites::Tried> NodeRewrites::of_index(const ProgramNode& node, std::size_t i,
                                                        const Axes& fixed) {
    std::vector<Tried> here;
    for (const Alternative& index : other_indices_.of(
             node.list[i], fixed, node.is_flat ? -1 : build_.extent_of(node.what, i, node.list[i]))) {
        ProgramNode read = node;
        read.list[i] = index.node;
        here.push_back({add(read), "index", index.bits});
    }
    // Of one state in the middle of others nothing is solved for.
    for (const Alternative& index :
         node.of[0] >= 0 ? multiples_in_block(build_, program_, node.list[i]) : std::vector<Alternative>()) {
        ProgramNode read = node;
        read.list[i] = index.node;
        here.push_back({add(read), "index", index.bits});
    }
    for (std::size_t k = i + 1; k < node.list.size(); ++k) {
        ProgramNode read = node;
        std::swap(read.list[i], read.list[k]);
        here.push_back({add(read), "index"});
        const int flat = in_other_order(node, i, k);
        if (flat >= 0) here.push_back({flat, "index", 1});
    }
    // Maps of a tile have both of its indices.
    const bool is_of_rows = i + 2 == node.list.size();
    for (const Alternative& read :
         is_of_rows ? tile_reads_like(build_, program_, node) : std::vector<Alternative>())
        here.push_back({read.node, "index", read.bits});
    return here;
}

}  // namespace tilescope
