#include "oracle/program/stored_at.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "dump/schema.h"
#include "dump/schema/error.h"
#include "oracle/program/build.h"
#include "oracle/program/numbers.h"
#include "oracle/program/observe_program.h"
#include "oracle/program/place_conditions.h"

namespace tilescope {

StoredAt own_place(const Program& program, int stage) {
    StoredAt store;
    store.indices = program.array(stage).indices;
    for (std::size_t k = 1; k < store.indices.size(); ++k)
        store.extents.push_back(program.axes[std::size_t(program.axis_of(store.indices[k]))].extent);
    return store;
}

std::string place_in_memory(const Program& program, int stage, const StoredAt& store) {
    const StoredAt own = own_place(program, stage);
    const auto is_same = [&](int one, int other) { return are_alike(program, one, other); };
    if (std::ranges::equal(own.extents, store.extents, is_same)) {
        std::string text;
        for (const int index : store.indices)
            text += (text.empty() ? "" : ", ") + program_text(program, index);
        return "[" + text + "]";
    }
    Program with_address = program;
    ProgramBuilder build(with_address);
    int address = store.indices.front();
    for (std::size_t k = 1; k < store.indices.size(); ++k)
        address = build.of_two(ProgramOp::plus, build.of_two(ProgramOp::times, address, store.extents[k - 1]),
                               store.indices[k]);
    return program.array(stage).name + ".flat[" + program_text(with_address, address) + "]";
}

ChangedSlot changed_store(const Program& program, int stage, const StoredAt& store) {
    return {.slot = FormulaSlot::store,
            .was = place_in_memory(program, stage, own_place(program, stage)),
            .becomes = place_in_memory(program, stage, store)};
}

AxisIndices WholeStage::at(std::int64_t element) const {
    AxisIndices place{};
    for (std::size_t k = axes.size(); k > 0; --k) {
        place[std::size_t(axes[k - 1])] = std::int32_t(element % shape[k - 1]);
        element /= shape[k - 1];
    }
    return place;
}

std::vector<std::int64_t> WholeStage::index_of(std::int64_t element) const {
    const AxisIndices place = at(element);
    std::vector<std::int64_t> index;
    for (const int axis : axes) index.push_back(place[std::size_t(axis)]);
    return index;
}

bool WholeStage::holds(std::int64_t address, std::int64_t element) const {
    return known[std::size_t(address)] != 0 &&
           is_as_expected(got[std::size_t(address)], expected[std::size_t(element)],
                          error[std::size_t(element)]);
}

namespace {

/// Elements by their blocks, and in each row-major; of an axis before those that are cut each index is a block.
std::vector<std::int32_t> block_by_block(const ProgramCall& call, const WholeStage& whole) {
    std::vector<std::int32_t> order(std::size_t(whole.size()));
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::int64_t> block_of(order.size(), 0);
    std::size_t last = whole.axes.size();
    const auto is_cut = [&](std::size_t k) {
        return call.program.axes[std::size_t(whole.axes[k])].block >= 0;
    };
    while (last > 0 && !is_cut(last - 1)) --last;
    for (std::size_t k = 0; k < last; ++k) {
        const auto axis = std::size_t(whole.axes[k]);
        const std::int64_t block = is_cut(k) ? call.blocks[axis] : 1;
        for (std::int64_t i = 0; i < whole.size(); ++i)
            block_of[std::size_t(i)] = block_of[std::size_t(i)] * whole.shape[k] + whole.at(i)[axis] / block;
    }
    std::ranges::stable_sort(order, {}, [&](std::int32_t i) { return block_of[std::size_t(i)]; });
    return order;
}

/// Row-major, along the whole stage.
std::int64_t element_at(const WholeStage& whole, const std::vector<std::int64_t>& index) {
    std::int64_t element = 0;
    for (std::size_t k = 0; k < index.size(); ++k) element = element * whole.shape[k] + index[k];
    return element;
}

void collect_axes(const Program& program, int number, std::set<int>& axes) {
    if (number < 0) return;
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::axis) axes.insert(node.what);
    for (const int operand : node.of) collect_axes(program, operand, axes);
}

std::optional<std::int64_t> whole_of(const ProgramCall& call, int node, const AxisIndices& at) {
    const std::vector<std::int64_t> axes(at.begin(), at.begin() + std::ptrdiff_t(call.extents.size()));
    return whole_at(call, node, axes);
}

/// No index leads there.
constexpr std::int64_t beyond_any = std::int64_t(1) << 40;

}  // namespace

WholeStage whole_stage(const ProgramCall& call, const ProgramOptions& options, int stage,
                       std::int64_t most_computed) {
    WholeStage whole;
    whole.stage = stage;
    whole.axes = axes_of(call.program, stage);
    whole.shape = shape_of(call, call.program.array(stage));
    std::int64_t size = 1;
    for (const std::int64_t extent : whole.shape) size *= extent;
    for (std::vector<double>* const numbers : {&whole.expected, &whole.error, &whole.got})
        numbers->resize(std::size_t(size));
    whole.known.resize(std::size_t(size));
    const std::int64_t begun = elements_computed();
    evaluate_stage(call, options, stage, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        if (elements_computed() - begun > most_computed)
            throw Error("a stage takes too long to compute as a whole", "program", "judge a part of it");
        std::vector<double> got(std::size_t(tile.size()));
        std::vector<char> known(got.size(), 0);
        options.stored->read(tile, got, known);
        for (std::size_t i = 0; i < got.size(); ++i) {
            const auto element = std::size_t(element_at(whole, tile.index_of(std::int64_t(i))));
            whole.expected[element] = expected.value[i];
            whole.error[element] = expected.error[i];
            whole.got[element] = got[i];
            whole.known[element] = known[i];
        }
    });
    whole.order = block_by_block(call, whole);
    return whole;
}

StoreAddresses::StoreAddresses(const ProgramCall& call, const WholeStage& whole, const StoredAt& store)
    : call_(call), size_(whole.size()) {
    std::int64_t distance = 1;
    for (std::size_t k = store.indices.size(); k > 0; --k) {
        add(store.indices[k - 1], distance, whole);
        if (k > 1) distance *= whole_of(call, store.extents[k - 2], {}).value_or(beyond_any);
        distance = std::clamp(distance, -beyond_any, beyond_any);
    }
}

void StoreAddresses::add(int node, std::int64_t factor, const WholeStage& whole) {
    const ProgramNode& sum = call_.program.node(node);
    if (sum.op == ProgramOp::plus || sum.op == ProgramOp::minus) {
        add(sum.of[0], factor, whole);
        add(sum.of[1], sum.op == ProgramOp::plus ? factor : -factor, whole);
        return;
    }
    std::set<int> axes;
    collect_axes(call_.program, node, axes);
    Term term{node, factor};
    if (axes.size() <= 1) {
        term.axis = axes.empty() ? whole.axes.front() : *axes.begin();
        AxisIndices at{};
        for (std::int64_t i = 0; i < call_.extents[std::size_t(term.axis)]; ++i) {
            at[std::size_t(term.axis)] = std::int32_t(i);
            term.values.push_back(factor * whole_of(call_, node, at).value_or(beyond_any));
        }
    }
    terms_.push_back(std::move(term));
}

std::optional<std::int64_t> StoreAddresses::of(const AxisIndices& at) const {
    std::int64_t address = 0;
    for (const Term& term : terms_)
        address += term.axis >= 0 ? term.values[std::size_t(at[std::size_t(term.axis)])]
                                  : term.factor * whole_of(call_, term.node, at).value_or(beyond_any);
    return address >= 0 && address < size_ ? std::optional(address) : std::nullopt;
}

std::vector<std::int32_t> stored_elements(const ProgramCall& call, const WholeStage& whole,
                                          const StoredAt& store, int condition) {
    const StoreAddresses addresses(call, whole, store);
    std::vector<std::int32_t> stored(std::size_t(whole.size()), -1);
    for (const std::int32_t element : whole.order) {
        const AxisIndices at = whole.at(element);
        const bool is_moved = condition < 0 || whole_of(call, condition, at).value_or(0) != 0;
        const std::optional<std::int64_t> address =
            is_moved ? addresses.of(at) : std::optional<std::int64_t>(element);
        if (address) stored[std::size_t(*address)] = element;
    }
    return stored;
}

std::vector<Uncertain> memory_of(const ProgramCall& call, const WholeStage& whole, const StoredAt& store,
                                 int condition) {
    const double unwritten = double(std::bit_cast<float>(unwritten_bits));
    const double left = store.left && std::isnan(*store.left) ? unwritten : store.left.value_or(unwritten);
    std::vector<Uncertain> memory;
    for (const std::int32_t by : stored_elements(call, whole, store, condition)) {
        if (by >= 0)
            memory.push_back({whole.expected[std::size_t(by)], whole.error[std::size_t(by)]});
        else
            memory.push_back({store.left ? left : std::nan(""), store.left ? 0 : HUGE_VAL});
    }
    return memory;
}

}  // namespace tilescope
