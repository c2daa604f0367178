#include "oracle/program/stored_at.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
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
    if (store.behind >= 0) {
        StoredAt place = store;
        place.behind = -1;
        return fmt::format("{} where {} < {}{}", place_in_memory(program, stage, place),
                           program.axes[std::size_t(store.behind)].name, program_text(program, store.end),
                           store.behind_is_last ? ", what is behind the end last" : "");
    }
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

/// What is expected of it.
WholeStage computed_whole(const ProgramCall& call, const ProgramOptions& options, int stage,
                          std::int64_t most_computed) {
    WholeStage whole;
    whole.stage = stage;
    whole.axes = axes_of(call.program, stage);
    std::int64_t size = 1;
    for (const int axis : whole.axes) {
        whole.shape.push_back(call.extents[std::size_t(axis)]);
        size *= whole.shape.back();
    }
    whole.expected.resize(std::size_t(size));
    whole.error.resize(std::size_t(size));
    const std::int64_t begun = elements_computed();
    evaluate_stage(call, options, stage, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        if (elements_computed() - begun > most_computed)
            throw Error("a stage takes too long to compute as a whole", "program", "judge a part of it");
        for (std::size_t i = 0; i < expected.value.size(); ++i) {
            const auto element = std::size_t(element_at(whole, tile.index_of(std::int64_t(i))));
            whole.expected[element] = expected.value[i];
            whole.error[element] = expected.error[i];
        }
    });
    whole.order = block_by_block(call, whole);
    return whole;
}

/// An input as it is, and zeros behind the end of an axis.
ProgramInput widened(const Program& program, int number, const ProgramInput& input, int axis,
                     std::int64_t extent, std::vector<std::byte>& memory) {
    ProgramInput wide = input;
    for (std::size_t k = 0; k < wide.shape.size(); ++k)
        if (program.axis_of(program.array(number).indices[k]) == axis) wide.shape[k] = extent;
    if (wide.shape == input.shape) return wide;
    const auto bytes = std::size_t(dtype_info(input.dtype).bytes);
    memory.assign(std::size_t(size_of(wide)) * bytes, std::byte{0});
    for (std::int64_t i = 0; i < size_of(input); ++i) {
        std::int64_t rest = i;
        std::int64_t to = 0;
        std::int64_t distance = 1;
        for (std::size_t k = wide.shape.size(); k > 0; --k) {
            to += rest % input.shape[k - 1] * distance;
            rest /= input.shape[k - 1];
            distance *= wide.shape[k - 1];
        }
        std::copy_n(input.bits.begin() + i * std::ptrdiff_t(bytes), bytes,
                    memory.begin() + to * std::ptrdiff_t(bytes));
    }
    wide.bits = memory;
    return wide;
}

/// A call of which an axis ends with a whole block.
struct WideCall {
    std::vector<std::vector<std::byte>> memory;
    ProgramCall call;
};

WideCall wide_call(const ProgramCall& call, int axis) {
    WideCall wide{std::vector<std::vector<std::byte>>(call.inputs.size()), call};
    std::int64_t& extent = wide.call.extents[std::size_t(axis)];
    extent = call.blocks_of(axis) * call.blocks[std::size_t(axis)];
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
        wide.call.inputs[i] = widened(call.program, int(i), call.inputs[i], axis, extent, wide.memory[i]);
    return wide;
}

/// No index leads there.
constexpr std::int64_t beyond_any = std::int64_t(1) << 40;

/// A product that is beyond any place is no farther than that.
std::int64_t distance_times(std::int64_t distance, std::int64_t number) {
    const double product = double(distance) * double(number);
    return std::abs(product) < double(beyond_any) ? distance * number
           : product < 0                          ? -beyond_any
                                                  : beyond_any;
}

}  // namespace

WholeStage whole_stage(const ProgramCall& call, const ProgramOptions& options, int stage,
                       std::int64_t most_computed) {
    WholeStage whole = computed_whole(call, options, stage, most_computed);
    ProgramTile all{stage, {}, -1};
    for (const std::int64_t extent : whole.shape) all.indices.push_back({0, extent});
    whole.got.resize(whole.expected.size());
    whole.known.resize(whole.expected.size());
    options.stored->read(all, whole.got, whole.known);
    return whole;
}

std::optional<WholeStage> stage_behind(const ProgramCall& call, const ProgramOptions& options,
                                       const WholeStage& whole, const StoredAt& store) {
    // Nobody stored what earlier stages are behind the end.
    ProgramOptions of_inputs = options;
    of_inputs.stored = nullptr;
    const WideCall wide = wide_call(call, store.behind);
    WholeStage all =
        computed_whole(wide.call, of_inputs, whole.stage, std::numeric_limits<std::int64_t>::max());
    all.got = whole.got;
    all.known = whole.known;
    std::vector<char> is_behind(std::size_t(all.size()));
    for (std::int64_t i = 0; i < all.size(); ++i) {
        const auto element = std::size_t(i);
        is_behind[element] =
            all.at(i)[std::size_t(store.behind)] >= call.extents[std::size_t(store.behind)] ? 1 : 0;
        if (is_behind[element] != 0) {
            if (std::isnan(all.expected[element])) return std::nullopt;
            continue;
        }
        const auto own = std::size_t(element_at(whole, all.index_of(i)));
        all.expected[element] = whole.expected[own];
        all.error[element] = whole.error[own];
    }
    const std::int64_t end = whole_of(call, store.end, {}).value_or(0);
    std::erase_if(all.order, [&](std::int32_t i) { return all.at(i)[std::size_t(store.behind)] >= end; });
    if (store.behind_is_last)
        std::ranges::stable_partition(all.order,
                                      [&](std::int32_t i) { return is_behind[std::size_t(i)] == 0; });
    return all;
}

StoreAddresses::StoreAddresses(const ProgramCall& call, const WholeStage& whole, const StoredAt& store)
    : call_(call), size_(whole.size_of_memory()) {
    std::int64_t distance = 1;
    for (std::size_t k = store.indices.size(); k > 0; --k) {
        add(store.indices[k - 1], distance, whole);
        if (k > 1)
            distance =
                distance_times(distance, whole_of(call, store.extents[k - 2], {}).value_or(beyond_any));
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
        const auto along = std::ranges::find(whole.axes, term.axis) - whole.axes.begin();
        for (std::int64_t i = 0; i < whole.shape[std::size_t(along)]; ++i) {
            at[std::size_t(term.axis)] = std::int32_t(i);
            term.values.push_back(distance_times(factor, whole_of(call_, node, at).value_or(beyond_any)));
        }
    }
    terms_.push_back(std::move(term));
}

std::optional<std::int64_t> StoreAddresses::of(const AxisIndices& at) const {
    std::int64_t address = 0;
    for (const Term& term : terms_)
        address += term.axis >= 0
                       ? term.values[std::size_t(at[std::size_t(term.axis)])]
                       : distance_times(term.factor, whole_of(call_, term.node, at).value_or(beyond_any));
    return address >= 0 && address < size_ ? std::optional(address) : std::nullopt;
}

std::vector<std::int32_t> stored_elements(const ProgramCall& call, const WholeStage& whole,
                                          const StoredAt& store, int condition) {
    const StoreAddresses addresses(call, whole, store);
    std::vector<std::int32_t> stored(std::size_t(whole.size_of_memory()), -1);
    for (const std::int32_t element : whole.order) {
        const AxisIndices at = whole.at(element);
        const bool is_moved = condition < 0 || whole_of(call, condition, at).value_or(0) != 0;
        const std::optional<std::int64_t> address =
            is_moved ? addresses.of(at) : std::optional<std::int64_t>(element);
        if (address) stored[std::size_t(*address)] = element;
    }
    return stored;
}

std::vector<Uncertain> memory_of(const ProgramCall& call, const ProgramOptions& options,
                                 const WholeStage& whole, const StoredAt& store, int condition) {
    const std::optional<WholeStage> behind =
        store.behind < 0 ? std::nullopt : stage_behind(call, options, whole, store);
    const WholeStage& source = behind ? *behind : whole;
    const double unwritten = double(std::bit_cast<float>(unwritten_bits));
    const double left = store.left && std::isnan(*store.left) ? unwritten : store.left.value_or(unwritten);
    std::vector<Uncertain> memory;
    for (const std::int32_t by : stored_elements(call, source, store, condition)) {
        if (by >= 0)
            memory.push_back({source.expected[std::size_t(by)], source.error[std::size_t(by)]});
        else
            memory.push_back({store.left ? left : std::nan(""), store.left ? 0 : HUGE_VAL});
    }
    return memory;
}

}  // namespace tilescope
