#include "dump/recording/recorded_call.h"

#include <algorithm>

#include "dump/recording/array_shape.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr const char* call_place = "captured run";

struct NamedInput {
    Input input;
    std::vector<std::byte> InputArrays::*array;
};

constexpr NamedInput named_inputs[] = {
    {Input::q, &InputArrays::q},       {Input::k, &InputArrays::k}, {Input::v, &InputArrays::v},
    {Input::dout, &InputArrays::dout}, {Input::o, &InputArrays::o}, {Input::lse, &InputArrays::lse},
};

const std::vector<std::byte>& array_of(const InputArrays& inputs, Input input) {
    return inputs.*named_inputs[static_cast<std::size_t>(input)].array;
}

void require_inputs(const InputArrays& inputs, const Problem& problem) {
    const auto has = [&](const NamedInput& named) { return !(inputs.*named.array).empty(); };
    if (std::ranges::none_of(named_inputs, has)) return;
    for (const NamedInput& named : named_inputs) {
        const std::string what = std::string("input ") + input_name(named.input);
        if (has(named) && !reads_input(problem.direction, named.input)) {
            throw Error(what + " is none of the forward pass", call_place,
                        "declare direction = backward, or leave it out");
        }
        if (!has(named) && !requires_input(problem.direction, named.input)) continue;
        require_bytes(what, (inputs.*named.array).size(), input_bytes(problem, named.input));
    }
}

}  // namespace

void require_bytes(const std::string& what, std::size_t bytes, std::size_t expected) {
    if (bytes == expected) return;
    throw Error(
        what + " has " + std::to_string(bytes) + " bytes where the problem needs " + std::to_string(expected),
        call_place, "pass it contiguous, with the problem's shape and dtype");
}

std::size_t input_bytes(const Problem& problem, Input input) {
    return input_shape(problem, input).bytes(problem.batch);
}

RecordedCall::RecordedCall(const Problem& problem, const Units& units, Provenance provenance,
                           InputArrays inputs)
    : problem_(problem), units_(units), provenance_(std::move(provenance)), inputs_(std::move(inputs)) {
    require_inputs(inputs_, problem_);
}

void RecordedCall::set_side_inputs(SideInputs inputs) {
    validate(inputs, problem_, call_place);
    side_inputs_ = std::move(inputs);
}

void RecordedCall::set_bias(Bias bias) {
    validate(bias, problem_, call_place);
    bias_ = std::move(bias);
}

void RecordedCall::set_threads(ThreadLayouts threads) {
    validate(threads, problem_, call_place);
    threads_ = std::move(threads);
}

bool RecordedCall::has_input(Input input) const {
    return !array_of(inputs_, input).empty();
}

void RecordedCall::read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                              std::int64_t count, Span<float> out) const {
    const ArrayShape shape = input_shape(problem_, input);
    const Span<const std::byte> bits =
        std::span(array_of(inputs_, input))
            .subspan(shape.row_offset(batch, head, row),
                     std::size_t(count) * std::size_t(shape.cols) * shape.element_bytes());
    decode_array(shape.dtype, bits, out.first(std::size_t(count * shape.cols)));
}

void RecordedCall::read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                             Span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = bias_.at(batch, head, row, first_key + std::int64_t(i));
    }
}

}  // namespace tilescope
