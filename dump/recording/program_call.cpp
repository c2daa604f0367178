#include "dump/recording/program_call.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "dump/hook/stage.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

/// No index, extent or size is larger: two of them can be added up.
constexpr std::int64_t most_whole = std::int64_t(1) << 53;

/// One more than the largest number that an index has.
std::optional<std::int64_t> extent_of(const ProgramCall& call, int index) {
    std::optional<std::int64_t> most;
    const std::size_t axes = call.extents.size();
    std::vector<int> taken;
    const auto collect = [&](int number, const auto& self) -> void {
        const ProgramNode& node = call.program.node(number);
        if (node.op == ProgramOp::axis && std::ranges::find(taken, node.what) == taken.end())
            taken.push_back(node.what);
        for (const int operand : node.of) {
            if (operand >= 0) self(operand, self);
        }
    };
    collect(index, collect);
    // An index rises or falls along each axis, so that its ends have the largest number.
    for (std::uint32_t ends = 0; ends < std::uint32_t(1) << taken.size(); ++ends) {
        std::vector<std::int64_t> at(axes, 0);
        for (std::size_t i = 0; i < taken.size(); ++i) {
            if ((ends >> i & 1) != 0) at[std::size_t(taken[i])] = call.extents[std::size_t(taken[i])] - 1;
        }
        const std::optional<std::int64_t> number = whole_at(call, index, at);
        if (!number) return std::nullopt;
        most = std::max(most.value_or(0), *number + 1);
    }
    return most;
}

class Binder {
 public:
    Binder(const Program& program, const std::map<std::string, ProgramInput>& inputs,
           const std::map<std::string, std::int64_t>& sizes)
        : call_{.program = program}, known_(program.sizes.size()), inputs_(inputs), sizes_(sizes) {}

    ProgramCall bind() {
        for (const auto& [name, size] : sizes_) take_size(name, size);
        for (const auto& [name, input] : inputs_) {
            const int array = call_.program.array_named(name);
            if (array < 0 || call_.program.array(array).is_stage)
                throw Error("the program has no such input", name, "give those that it declares");
        }
        for (const ProgramArray& array : call_.program.arrays) {
            if (!array.is_stage) take_input(array);
        }
        for (std::size_t i = 0; i < known_.size(); ++i) {
            if (!known_[i])
                throw Error("this size is not known", call_.program.sizes[i],
                            "give it in sizes: no input has an axis of just this extent");
            call_.sizes.push_back(*known_[i]);
        }
        for (const ProgramAxis& axis : call_.program.axes) take_axis(axis);
        for (std::size_t i = 0; i < call_.inputs.size(); ++i)
            check_shape(call_.program.arrays[i], call_.inputs[i]);
        return std::move(call_);
    }

 private:
    void know(std::size_t size, std::int64_t number, const std::string& from) {
        if (known_[size] && *known_[size] != number)
            throw Error(from + " makes it " + std::to_string(number) + ", and it is " +
                            std::to_string(*known_[size]) + " elsewhere",
                        call_.program.sizes[size], "give inputs of one call");
        known_[size] = number;
    }

    void take_size(const std::string& name, std::int64_t size) {
        const auto found = std::ranges::find(call_.program.sizes, name);
        if (found == call_.program.sizes.end())
            throw Error("the program has no such size", name, "give those that it declares");
        if (size > most_whole || size < -most_whole)
            throw Error("it is " + std::to_string(size) + ", beyond the indices of any array", name,
                        "give a size of the call");
        know(std::size_t(found - call_.program.sizes.begin()), size, "what is given");
    }

    void take_input(const ProgramArray& array) {
        const auto found = inputs_.find(array.name);
        if (found == inputs_.end()) throw Error("this input is missing", array.name, "give it");
        const ProgramInput& input = found->second;
        if (input.shape.size() != array.indices.size())
            throw Error("its shape is " + shape_text(input.shape) + ", and the program has " +
                            std::to_string(array.indices.size()) + " indices of it",
                        array.name, "give an array of as many dimensions");
        for (std::size_t i = 0; i < array.indices.size(); ++i) {
            const int axis = call_.program.axis_of(array.indices[i]);
            if (axis < 0) continue;
            const ProgramNode& extent = call_.program.node(call_.program.axes[std::size_t(axis)].extent);
            if (extent.op == ProgramOp::size)
                know(std::size_t(extent.what), input.shape[i],
                     array.name + " of shape " + shape_text(input.shape));
        }
        call_.inputs.push_back(input);
    }

    void take_axis(const ProgramAxis& axis) {
        const auto number = [&](int node, const std::string& what) {
            const std::optional<std::int64_t> found = whole_at(call_, node, {});
            if (!found || *found < 1)
                throw Error(
                    "the " + what + " of this axis is " + (found ? std::to_string(*found) : "no number"),
                    axis.name, "give sizes that make it 1 or more");
            return *found;
        };
        const std::int64_t extent = number(axis.extent, "extent");
        call_.extents.push_back(extent);
        call_.blocks.push_back(axis.block < 0 ? extent : number(axis.block, "block"));
    }

    void check_shape(const ProgramArray& array, const ProgramInput& input) const {
        // Numbers of a narrow type may come as float32, which holds all of them.
        if (input.dtype != array.dtype && input.dtype != Dtype::f32)
            throw Error("it is " + std::string(dtype_info(input.dtype).name) + ", and the program declares " +
                            std::string(dtype_info(array.dtype).name),
                        array.name, "give it in that type, or declare another");
        const std::vector<std::int64_t> shape = shape_of(call_, array);
        std::int64_t elements = 1;
        for (std::size_t i = 0; i < shape.size(); ++i) {
            // What an index that is computed never reaches may be there.
            const bool fits = call_.program.axis_of(array.indices[i]) >= 0 ? input.shape[i] == shape[i]
                                                                           : input.shape[i] >= shape[i];
            if (!fits || __builtin_mul_overflow(elements, input.shape[i], &elements))
                throw Error("its shape is " + shape_text(input.shape) + ", and the program reads " +
                                shape_text(shape),
                            array.name, "give an array of that shape");
        }
        if (std::size_t(elements) * std::size_t(dtype_info(input.dtype).bytes) != input.bits.size())
            throw Error(
                "it has " + std::to_string(input.bits.size()) + " bytes, which are not those of its shape",
                array.name, "give all of its elements");
        if (input.dtype == array.dtype) return;
        for (std::int64_t i = 0; i < elements; ++i) {
            const double value = element_of(input, i);
            if (std::isnan(value) || double(decode(array.dtype, encode(array.dtype, value))) == value)
                continue;
            throw Error("it holds " + std::to_string(value) + ", which is no number of " +
                            std::string(dtype_info(array.dtype).name),
                        array.name, "give what the kernel was given, or declare f32");
        }
    }

    ProgramCall call_;
    std::vector<std::optional<std::int64_t>> known_;
    const std::map<std::string, ProgramInput>& inputs_;
    const std::map<std::string, std::int64_t>& sizes_;
};

}  // namespace

std::optional<std::int64_t> whole_at(const ProgramCall& call, int number,
                                     const std::vector<std::int64_t>& axes) {
    const ProgramNode& node = call.program.node(number);
    if (node.op == ProgramOp::chosen) {
        const std::optional<std::int64_t> is_first = whole_at(call, node.of[1], axes);
        return is_first ? whole_at(call, node.of[*is_first != 0 ? 0 : 2], axes) : std::nullopt;
    }
    std::optional<std::int64_t> x;
    std::optional<std::int64_t> y;
    if (node.of[0] >= 0 && !(x = whole_at(call, node.of[0], axes))) return std::nullopt;
    if (node.of[1] >= 0 && !(y = whole_at(call, node.of[1], axes))) return std::nullopt;
    if (node.op >= ProgramOp::less && node.op <= ProgramOp::unequal)
        return holds(node.op, double(*x), double(*y)) ? 1 : 0;
    std::int64_t result = 0;
    switch (node.op) {
        case ProgramOp::number:
            return std::int64_t(node.number);
        case ProgramOp::size:
            return call.sizes[std::size_t(node.what)];
        case ProgramOp::axis:
            return axes[std::size_t(node.what)];
        case ProgramOp::plus:
            result = *x + *y;
            break;
        case ProgramOp::minus:
            result = *x - *y;
            break;
        case ProgramOp::times:
            if (__builtin_mul_overflow(*x, *y, &result)) return std::nullopt;
            break;
        case ProgramOp::quotient:
        case ProgramOp::rest:
            if (*y == 0) return std::nullopt;
            return node.op == ProgramOp::quotient ? *x / *y : *x % *y;
        case ProgramOp::exclusive:
            if (*x < 0 || *y < 0) return std::nullopt;
            return *x ^ *y;
        case ProgramOp::masked:
            if (*x < 0 || *y < 0) return std::nullopt;
            return *x & *y;
        case ProgramOp::smaller:
            return std::min(*x, *y);
        case ProgramOp::larger:
            return std::max(*x, *y);
        case ProgramOp::negative:
            return -*x;
        case ProgramOp::both:
            return *x != 0 && *y != 0 ? 1 : 0;
        case ProgramOp::either:
            return *x != 0 || *y != 0 ? 1 : 0;
        case ProgramOp::opposite:
            return *x != 0 ? 0 : 1;
        default:
            return std::nullopt;
    }
    if (result > most_whole || result < -most_whole) return std::nullopt;
    return result;
}

ProgramCall bind_program(const Program& program, const std::map<std::string, ProgramInput>& inputs,
                         const std::map<std::string, std::int64_t>& sizes) {
    return Binder(program, inputs, sizes).bind();
}

bool holds(ProgramOp op, double x, double y) {
    switch (op) {
        case ProgramOp::less:
            return x < y;
        case ProgramOp::at_most:
            return x <= y;
        case ProgramOp::more:
            return x > y;
        case ProgramOp::at_least:
            return x >= y;
        case ProgramOp::equal:
            return x == y;
        default:
            return x != y;
    }
}

std::int64_t size_of(const ProgramInput& array) {
    std::int64_t size = 1;
    for (const std::int64_t extent : array.shape) size *= extent;
    return size;
}

bool nobody_wrote(double element) {
    return std::bit_cast<std::uint64_t>(element) ==
           std::bit_cast<std::uint64_t>(double(std::bit_cast<float>(unwritten_bits)));
}

double element_of(const ProgramInput& array, std::int64_t i) {
    const int bytes = dtype_info(array.dtype).bytes;
    std::uint32_t bits = 0;
    std::memcpy(&bits, array.bits.data() + i * bytes, std::size_t(bytes));
    return double(decode(array.dtype, bits));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::string text = "[";
    for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + "]";
}

std::vector<std::int64_t> shape_of(const ProgramCall& call, const ProgramArray& array) {
    std::vector<std::int64_t> shape;
    for (const int index : array.indices) {
        const std::optional<std::int64_t> extent = extent_of(call, index);
        if (!extent) throw Error("an index of it is no number", array.name, "give other sizes");
        shape.push_back(*extent);
    }
    return shape;
}

}  // namespace tilescope
