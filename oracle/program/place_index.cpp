#include "oracle/program/place_index.h"

namespace tilescope {

std::int64_t PlaceIndex::at(const AxisIndices& place) const {
    const std::int64_t index = place[std::size_t(x)];
    switch (form) {
        case Form::axis:
            return index;
        case Form::rest:
            return index % size;
        case Form::quotient:
            return index / size;
        case Form::in_part:
            return index / size * size + place[std::size_t(y)];
    }
    return index;
}

int PlaceIndex::node(ProgramBuilder& build) const {
    const int index = build.axis(x);
    if (form == Form::axis) return index;
    if (form == Form::rest) return build.of_two(ProgramOp::rest, index, size_node);
    const int part = build.of_two(ProgramOp::quotient, index, size_node);
    if (form == Form::quotient) return part;
    return build.of_two(ProgramOp::plus, build.of_two(ProgramOp::times, part, size_node), build.axis(y));
}

double PlaceIndex::bits() const {
    constexpr double of_forms[] = {2, 4, 4, 6};
    return of_forms[std::size_t(form)];
}

std::map<std::int64_t, int> named_sizes(const ProgramCall& call, ProgramBuilder& build) {
    std::map<std::int64_t, int> sizes;
    for (std::size_t i = 0; i < call.sizes.size(); ++i) {
        if (!sizes.contains(call.sizes[i]))
            sizes[call.sizes[i]] = build.add({.op = ProgramOp::size, .what = int(i), .is_whole = true});
    }
    for (std::size_t axis = 0; axis < call.blocks.size(); ++axis) {
        if (call.program.axes[axis].block >= 0)
            sizes.try_emplace(call.blocks[axis], call.program.axes[axis].block);
    }
    return sizes;
}

std::vector<PlaceIndex> place_indices(const ProgramCall& call, ProgramBuilder& build,
                                      const std::vector<int>& axes) {
    using Form = PlaceIndex::Form;
    std::vector<PlaceIndex> indices;
    for (const int x : axes) indices.push_back({.form = Form::axis, .x = x});
    const std::map<std::int64_t, int> sizes = named_sizes(call, build);
    for (const bool takes_two : {false, true}) {
        for (const auto& [size, node] : sizes) {
            for (const int x : axes) {
                if (size < 2 || size >= call.extents[std::size_t(x)]) continue;
                for (const Form form : {Form::rest, Form::quotient})
                    if (!takes_two) indices.push_back({form, x, -1, size, node});
                for (const int y : axes)
                    if (takes_two && y != x && call.extents[std::size_t(y)] <= size)
                        indices.push_back({Form::in_part, x, y, size, node});
            }
        }
    }
    return indices;
}

}  // namespace tilescope
