#include "oracle/program/explain_element.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "oracle/formula/budget_terms.h"
#include "oracle/program/build.h"
#include "oracle/program/tile_run.h"

namespace tilescope {

namespace {

/// The index of each axis that an element stands at; -1: any of them.
using Fixed = std::array<std::int64_t, ProgramLimits::axes>;

/// What an operation came to, and for which indices.
struct Seen {
    Numbers numbers;
    AxisRanges ranges{};
};

/// Of those of its elements that stand at the fixed indices.
struct Picked {
    std::int64_t count = 0;
    double value = 0;
    double error = 0;
};

bool stands_at(const Seen& seen, std::int64_t element, const Fixed& fixed) {
    const Numbers& numbers = seen.numbers;
    for (std::size_t k = numbers.axes.size(); k > 0; --k) {
        const auto axis = std::size_t(numbers.axes[k - 1]);
        const std::int64_t at = element % numbers.extents[k - 1] + seen.ranges[axis].first;
        element /= numbers.extents[k - 1];
        if (fixed[axis] >= 0 && at != fixed[axis]) return false;
    }
    return true;
}

Picked picked(const Seen& seen, const Fixed& fixed) {
    Picked result;
    for (std::int64_t i = 0; i < seen.numbers.size(); ++i) {
        if (!stands_at(seen, i, fixed)) continue;
        const Uncertain number = seen.numbers.at(i);
        ++result.count;
        result.value = number.value;
        result.error = std::max(result.error, number.error);
    }
    return result;
}

/// Keeps what operations came to, until the element is stored.
class Roundings final : public OperationWatch {
 public:
    Roundings(const StageElement& element, const Fixed& fixed) : element_(element), fixed_(fixed) {}

    bool rounds(int operation) const override { return !left_out_.contains(operation); }

    void pass(int operation, const AxisRanges& ranges, std::int64_t block, Numbers& numbers) override {
        // Zeros, and not none: which rule a formula follows does not change by them.
        if (exact_.contains(operation)) std::ranges::fill(numbers.error, 0);
        if (is_over_) return;
        Seen& seen = seen_[operation];
        seen = {numbers, ranges};
        is_over_ = operation == store_of(element_.stage) && block == element_.block &&
                   picked(seen, fixed_).count > 0;
    }

    void begin() { is_over_ = false; }
    void leave_out_cast(int operation) { left_out_.insert(operation); }
    void make_exact(int operation) { exact_.insert(operation); }

    bool has_seen(int operation) const { return seen_.contains(operation); }
    Picked of(int operation, const Fixed& fixed) const {
        const auto found = seen_.find(operation);
        return found == seen_.end() ? Picked{} : picked(found->second, fixed);
    }
    Picked element() const { return of(store_of(element_.stage), fixed_); }

 private:
    const StageElement& element_;
    const Fixed& fixed_;
    std::set<int> left_out_;
    std::set<int> exact_;
    std::map<int, Seen> seen_;
    bool is_over_ = false;
};

/// A line, and where its element stands.
struct PlacedLine {
    ExplainedOperation line;
    Fixed fixed{};
};

/// Lists operations from the last one to what it reads.
class Listing {
 public:
    Listing(const ProgramCall& call, std::span<const int> computed, const Roundings& seen)
        : call_(call), program_(call.program), computed_(computed), seen_(seen) {}

    std::vector<PlacedLine> of(int stage, const Fixed& fixed) {
        const ProgramArray& array = program_.array(stage);
        followed_.insert(stage);
        if (array.dtype != Dtype::f32) add_store(stage, fixed, 0, array.name);
        add_formula(stage, fixed, array.dtype != Dtype::f32 ? 1 : 0);
        return std::move(lines_);
    }

 private:
    void add(ExplainedOperation line, const Fixed& fixed) {
        const Picked there = seen_.of(line.operation, fixed);
        line.count = there.count;
        line.value = there.value;
        line.error = there.error;
        lines_.push_back({std::move(line), fixed});
    }

    void add_store(int stage, const Fixed& fixed, int depth, const std::string& name) {
        const ProgramArray& array = program_.array(stage);
        const bool is_cast = array.dtype != Dtype::f32;
        const std::string type = is_cast ? ": " + std::string(dtype_info(array.dtype).name) : "";
        add({.operation = store_of(stage), .depth = depth, .text = name + type, .is_cast = is_cast}, fixed);
    }

    void add_formula(int stage, const Fixed& fixed, int depth) {
        const ProgramArray& array = program_.array(stage);
        const int reader = std::exchange(stage_, stage);
        add_node(array.value, fixed, depth);
        // Where the block is not the first, what it starts from was carried on through those before.
        if (array.start >= 0) add_node(array.start, fixed, depth);
        stage_ = reader;
    }

    void add_node(int number, const Fixed& fixed, int depth) {
        const ProgramNode& node = program_.node(number);
        if (node.is_whole || node.op == ProgramOp::axis || node.op == ProgramOp::size) return;
        if (!seen_.has_seen(number)) return add_operands(node, fixed, depth);
        const Picked there = seen_.of(number, fixed);
        const bool is_condition = (node.op >= ProgramOp::less && node.op <= ProgramOp::unequal) ||
                                  node.op == ProgramOp::both || node.op == ProgramOp::either ||
                                  node.op == ProgramOp::opposite;
        const bool says_nothing =
            node.op == ProgramOp::number || node.op == ProgramOp::negative || is_condition || is_within_sum_;
        if (says_nothing && there.error == 0 && there.count > 0) return;
        if (node.op == ProgramOp::read) return add_read(number, fixed, depth);
        add({.operation = number,
             .depth = depth,
             .text = program_text(program_, number),
             .is_cast = node.op == ProgramOp::cast},
            fixed);
        add_operands(node, fixed, depth + 1);
    }

    void add_operands(const ProgramNode& node, Fixed fixed, int depth) {
        const bool was_within = is_within_sum_;
        if (is_reduction(node.op)) {
            for (const int axis : node.list) fixed[std::size_t(axis)] = -1;
            is_within_sum_ = true;
        }
        std::array<bool, 3> is_taken{true, true, true};
        // What a state had from other blocks is of the other branch.
        if (node.op == ProgramOp::chosen && program_.array(stage_).over < 0) {
            const Picked condition = seen_.of(node.of[1], fixed);
            if (condition.count == 1 && condition.error == 0) is_taken[condition.value != 0 ? 2 : 0] = false;
        }
        for (std::size_t i = 0; i < 3; ++i)
            if (node.of[i] >= 0 && is_taken[i]) add_node(node.of[i], fixed, depth);
        is_within_sum_ = was_within;
    }

    void add_read(int number, const Fixed& fixed, int depth) {
        const ProgramNode& node = program_.node(number);
        const int array = node.what;
        const std::string text = program_text(program_, number);
        const bool is_computed = std::ranges::find(computed_, array) != computed_.end();
        if (followed_.contains(array) || !is_computed) {
            add({.operation = number,
                 .depth = depth,
                 .text = text + how_it_is_known(array, is_computed),
                 .is_step = !is_computed},
                fixed);
            return;
        }
        followed_.insert(array);
        const Fixed there = fixed_at(node, fixed);
        add_store(array, there, depth, text + ", not stored");
        const bool was_within = std::exchange(is_within_sum_, is_within_sum_ || lines_.back().line.count > 1);
        add_formula(array, there, depth + 1);
        is_within_sum_ = was_within;
    }

    const char* how_it_is_known(int array, bool is_computed) const {
        if (array == stage_) return ", carried on";
        if (is_computed) return ", as above";
        return program_.array(array).is_stage ? ", as stored" : "";
    }

    /// Of the array that is read there.
    Fixed fixed_at(const ProgramNode& read, const Fixed& fixed) const {
        Fixed there;
        there.fill(-1);
        for (std::size_t i = 0; i < read.list.size(); ++i) {
            const int axis = program_.axis_of(program_.array(read.what).indices[i]);
            if (!is_fixed(read.list[i], fixed)) continue;
            there[std::size_t(axis)] =
                whole_at(call_, read.list[i],
                         {fixed.begin(), fixed.begin() + std::ptrdiff_t(call_.extents.size())})
                    .value_or(-1);
        }
        return there;
    }

    bool is_fixed(int number, const Fixed& fixed) const {
        const ProgramNode& node = program_.node(number);
        if (node.op == ProgramOp::axis) return fixed[std::size_t(node.what)] >= 0;
        return std::ranges::all_of(node.of,
                                   [&](int operand) { return operand < 0 || is_fixed(operand, fixed); });
    }

    const ProgramCall& call_;
    const Program& program_;
    std::span<const int> computed_;
    const Roundings& seen_;
    std::set<int> followed_;
    std::vector<PlacedLine> lines_;
    int stage_ = -1;  ///< whose formula it is
    bool is_within_sum_ = false;
};

/// Computes one element again and again, each time with fewer roundings.
class Explaining {
 public:
    Explaining(const ProgramCall& call, const StoredTiles& stored, const StageElement& element)
        : call_(call), element_(element), computed_(computed_for(call.program, &stored, element.stage)) {
        options_.stored = &stored;
        known_ = stored_stages(call, options_, stored_beside(call.program, stored, element.stage));
        fixed_.fill(-1);
        const std::vector<int>& indices = call.program.array(element.stage).indices;
        for (std::size_t i = 0; i < indices.size(); ++i)
            fixed_[std::size_t(call.program.axis_of(indices[i]))] = element.index[i];
        for (std::size_t axis = 0; axis < call.extents.size(); ++axis)
            ranges_[axis] = {0, call.extents[axis]};
        for (const int axis : independent_axes(call.program, computed_))
            ranges_[std::size_t(axis)] = {fixed_[std::size_t(axis)], 1};
    }

    ElementExplanation explain() {
        run();
        const Picked element = roundings_.element();
        ElementExplanation explanation{
            .element = element_, .expected = element.value, .tolerance = element.error};
        lines_ = Listing(call_, computed_, roundings_).of(element_.stage, fixed_);
        if (std::isfinite(element.value) && std::isfinite(element.error)) {
            share_among_casts();
            share_among_others();
        }
        for (PlacedLine& placed : lines_) explanation.operations.push_back(std::move(placed.line));
        return explanation;
    }

 private:
    void run() {
        roundings_.begin();
        const ObserveTile ignore = [](const ProgramTile&, const ExpectedTile&) {};
        TileRun run(call_, options_, ranges_, ignore);
        for (const auto& [stage, stored] : known_) run.know(stage, stored);
        run.watch(roundings_);
        run.run(computed_);
    }

    /// What the tolerance loses where it is computed anew.
    double lost() {
        const double before = roundings_.element().error;
        run();
        return part_of(before, roundings_.element().error);
    }

    /// The number that it makes of an exact one is exact, and without it there would be another one.
    bool is_exact_cast(int operation, const Fixed& fixed) const {
        const int operand = operation < 0 ? call_.program.array(stage_of_store(operation)).value
                                          : call_.program.node(operation).of[0];
        return roundings_.of(operation, fixed).error == 0 && roundings_.of(operand, fixed).error == 0;
    }

    void share_among_casts() {
        for (auto& [line, fixed] : lines_) {
            if (!line.is_cast || is_exact_cast(line.operation, fixed)) continue;
            const double rounded = roundings_.of(line.operation, fixed).error;
            roundings_.leave_out_cast(line.operation);
            line.share = lost();
            line.own = part_of(rounded, roundings_.of(line.operation, fixed).error);
        }
    }

    void share_among_others() {
        for (auto placed = lines_.rbegin(); placed != lines_.rend(); ++placed) {
            ExplainedOperation& line = placed->line;
            const double own = roundings_.of(line.operation, placed->fixed).error;
            if (!line.is_step || own == 0) continue;
            if (!line.is_cast) line.own = own;
            roundings_.make_exact(line.operation);
            line.share += lost();
        }
    }

    const ProgramCall& call_;
    StageElement element_;
    std::vector<int> computed_;
    ProgramOptions options_;
    std::map<int, StoredStage> known_;
    Fixed fixed_{};
    AxisRanges ranges_{};
    Roundings roundings_{element_, fixed_};
    std::vector<PlacedLine> lines_;
};

/// What the kernel stored there; nullopt: nothing that is known.
std::optional<double> stored_at(const StoredTiles& stored, const StageElement& element) {
    if (!stored.has(element.stage)) return std::nullopt;
    ProgramTile tile{.stage = element.stage, .indices = {}, .block = element.block};
    for (const std::int64_t index : element.index) tile.indices.push_back({index, 1});
    double got = 0;
    char known = 0;
    stored.read(tile, {&got, 1}, {&known, 1});
    return known != 0 || nobody_wrote(got) ? std::optional(got) : std::nullopt;
}

}  // namespace

ElementExplanation explain_stage_element(const ProgramCall& call, const StoredTiles& stored,
                                         const StageElement& element) {
    ElementExplanation explanation = Explaining(call, stored, element).explain();
    explanation.got = stored_at(stored, element);
    return explanation;
}

}  // namespace tilescope
