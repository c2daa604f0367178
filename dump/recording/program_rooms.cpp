#include "dump/recording/program_rooms.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "dump/recording/sink_contents.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

constexpr const char* selection_place = "selection";
constexpr const char* selection_grammar =
    "write for example n=0-3:k=2:stage=acc,y, of an axis the blocks that it is cut into";

/// Blocks, or indices of an axis that is not cut; both ends belong to it.
struct BlockRange {
    std::int64_t first = 0;
    std::int64_t last = 0;
};

/// A selection as it is written.
struct ProgramSelection {
    std::map<int, BlockRange> axes{};
    std::optional<std::vector<std::string>> stages{};
};

/// How many blocks an axis has, or indices where it is not cut.
std::int64_t blocks_or_indices(const ProgramCall& call, int axis) {
    const bool is_cut = call.program.axes[std::size_t(axis)].block >= 0;
    return is_cut ? call.blocks_of(axis) : call.extents[std::size_t(axis)];
}

std::int64_t number_of(std::string_view text, std::string_view clause) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0)
        throw Error("'" + shortened(text) + "' in '" + shortened(clause) + "' is no number", selection_place,
                    selection_grammar);
    return number;
}

BlockRange range_of(const ProgramCall& call, int axis, std::string_view text, std::string_view clause) {
    const std::size_t dash = text.find('-');
    BlockRange range;
    range.first = number_of(text.substr(0, dash), clause);
    const std::int64_t last = blocks_or_indices(call, axis) - 1;
    range.last = dash == std::string_view::npos ? range.first
                 : dash + 1 == text.size()      ? last
                                                : number_of(text.substr(dash + 1), clause);
    if (range.first > range.last || range.last > last)
        throw Error("'" + shortened(clause) + "' is no part of " + call.program.axes[std::size_t(axis)].name +
                        ", which goes from 0 to " + std::to_string(last),
                    selection_place, "choose a range within it, the smaller number first");
    return range;
}

int axis_named(const Program& program, std::string_view name) {
    const auto axis = std::ranges::find(program.axes, name, &ProgramAxis::name);
    if (axis != program.axes.end()) return int(axis - program.axes.begin());
    std::string known;
    for (const ProgramAxis& each : program.axes) known += each.name + ", ";
    throw Error("the program has no axis '" + shortened(name) + "'", selection_place,
                "choose from " + known + "stage");
}

ProgramSelection parse_selection(const ProgramCall& call, std::string_view text) {
    ProgramSelection selection;
    if (text.empty()) return selection;
    for (const std::string_view clause : split(text, ':')) {
        const std::size_t equals = clause.find('=');
        if (equals == std::string_view::npos)
            throw Error("'" + shortened(clause) + "' has no '='", selection_place, selection_grammar);
        const std::string_view key = clause.substr(0, equals);
        const std::string_view value = clause.substr(equals + 1);
        bool is_new = true;
        if (key == "stage") {
            is_new = !selection.stages;
            selection.stages.emplace();
            for (const std::string_view name : split(value, ',')) selection.stages->emplace_back(name);
        } else {
            const int axis = axis_named(call.program, key);
            is_new = selection.axes.emplace(axis, range_of(call, axis, value, clause)).second;
        }
        if (!is_new)
            throw Error("'" + shortened(key) + "' is given twice", selection_place, selection_grammar);
    }
    return selection;
}

void require_stages(const Program& program, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        const int array = program.array_named(name);
        if (array >= 0 && program.array(array).is_stage) continue;
        throw Error("the program has no such stage", shortened(name), "give those that it declares");
    }
}

/// Adds a dimension along an axis: all of it, or the part that is selected; `in_blocks`: the blocks, not the indices.
void add_dim(const ProgramCall& call, const ProgramSelection& selection, int axis, bool in_blocks,
             RecordedStage& stage) {
    const std::int64_t extent = in_blocks ? call.blocks_of(axis) : call.extents[std::size_t(axis)];
    std::int64_t first = 0;
    std::int64_t end = extent;
    const auto chosen = selection.axes.find(axis);
    if (chosen != selection.axes.end()) {
        const bool is_cut = call.program.axes[std::size_t(axis)].block >= 0;
        // A state over an axis that is not cut has one block.
        const std::int64_t step = in_blocks || !is_cut ? 1 : call.blocks[std::size_t(axis)];
        if (is_cut || !in_blocks) {
            first = chosen->second.first * step;
            end = std::min((chosen->second.last + 1) * step, extent);
        }
    }
    stage.first.push_back(first);
    stage.count.push_back(end - first);
}

std::int32_t counted_by_hooks(std::int64_t number, const std::string& stage) {
    if (number <= std::numeric_limits<std::int32_t>::max()) return std::int32_t(number);
    throw Error("it has an axis of " + std::to_string(number) + " indices, and hooks count to 2^31 - 1",
                stage, "record another stage, or split the axis");
}

}  // namespace

std::int64_t RecordedStage::elements() const {
    std::int64_t elements = 1;
    for (const std::int64_t each : count) {
        if (__builtin_mul_overflow(elements, each, &elements))
            throw Error("what is selected has more elements than any memory", "selection", "select less");
    }
    return elements;
}

std::vector<RecordedStage> recorded_stages(const ProgramCall& call, std::string_view selection,
                                           const std::optional<std::vector<std::string>>& stages) {
    const Program& program = call.program;
    const ProgramSelection selected = parse_selection(call, selection);
    for (const auto& names : {stages, selected.stages})
        if (names) require_stages(program, *names);
    const auto is_among = [](const std::optional<std::vector<std::string>>& names, const std::string& name) {
        return !names || std::ranges::find(*names, name) != names->end();
    };
    std::vector<RecordedStage> recorded;
    int number = 0;
    for (std::size_t i = 0; i < program.arrays.size(); ++i) {
        const ProgramArray& array = program.arrays[i];
        if (!array.is_stage) continue;
        RecordedStage stage{.stage = int(i), .number = number++};
        if (!is_among(stages, array.name) || !is_among(selected.stages, array.name)) continue;
        if (array.over >= 0) add_dim(call, selected, array.over, true, stage);
        for (const int index : array.indices) add_dim(call, selected, program.axis_of(index), false, stage);
        recorded.push_back(std::move(stage));
    }
    if (recorded.empty())
        throw Error("no stage is selected", selection_place, "name one that the kernel has hooks for");
    return recorded;
}

std::vector<ProgramRoom> program_rooms(const ProgramCall& call, std::span<const RecordedStage> recorded,
                                       std::span<std::uint32_t* const> words) {
    const Program& program = call.program;
    std::vector<ProgramRoom> rooms(
        std::size_t(std::ranges::count(program.arrays, true, &ProgramArray::is_stage)));
    for (std::size_t i = 0; i < recorded.size(); ++i) {
        const RecordedStage& stage = recorded[i];
        const ProgramArray& array = program.array(stage.stage);
        ProgramRoom& room = rooms[std::size_t(stage.number)];
        room.words = words[i];
        std::vector<int> axes;
        for (const int index : array.indices) axes.push_back(program.axis_of(index));
        if (array.over >= 0) axes.insert(axes.begin(), array.over);
        for (std::size_t k = 0; k < axes.size(); ++k) {
            const bool in_blocks = array.over >= 0 && k == 0;
            const std::int64_t blocks = call.blocks_of(axes[k]);
            ProgramRoomDim& dim = room.dims[k];
            dim.padded =
                counted_by_hooks(in_blocks ? blocks : blocks * call.blocks[std::size_t(axes[k])], array.name);
            dim.extent =
                counted_by_hooks(in_blocks ? blocks : call.extents[std::size_t(axes[k])], array.name);
            dim.first = std::int32_t(stage.first[k]);
            dim.count = std::int32_t(stage.count[k]);
        }
    }
    return rooms;
}

ProgramSink program_sink(std::span<const RecordedStage> recorded, ProgramRoom* rooms) {
    ProgramSink sink;
    for (const RecordedStage& stage : recorded) sink.stages |= std::uint64_t(1) << unsigned(stage.number);
    sink.rooms = rooms;
    return sink;
}

std::vector<SourceLine> hooks_of(const ProgramRoom& room) {
    return hooks_of(room.hooks, Stage::q);
}

void require_inside(const ProgramCall& call, std::span<const ProgramRoom> rooms) {
    std::size_t number = 0;
    for (const ProgramArray& array : call.program.arrays) {
        if (!array.is_stage) continue;
        const ProgramRoom& room = rooms[number++];
        if (room.outside == 0) continue;
        const std::size_t dims = array.indices.size() + (array.over >= 0 ? 1 : 0);
        const std::vector<std::int64_t> first(room.first_outside, room.first_outside + dims);
        throw Error("hooks gave " + std::to_string(room.outside) +
                        " elements that it does not have, the first at " + shape_text(first),
                    array.name, "compare blocks and shapes with what the hooks are given");
    }
}

}  // namespace tilescope
