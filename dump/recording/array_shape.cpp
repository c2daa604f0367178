#include "dump/recording/array_shape.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace tilescope {

namespace {

std::int64_t rows_along(const Problem& problem, Axis axis) {
    return axis == Axis::key ? problem.seqlen_kv : problem.seqlen_q;
}

}  // namespace

const char* input_name(Input input) {
    constexpr std::array<const char*, input_count> names = {"q", "k", "v", "dout", "o", "lse"};
    return names[static_cast<std::size_t>(input)];
}

ArrayShape input_shape(const Problem& problem, Input input) {
    switch (input) {
        case Input::q:
            return {problem.heads, problem.seqlen_q, problem.head_dim, problem.dtype_q};
        case Input::k:
            return {problem.heads_kv, problem.seqlen_kv, problem.head_dim, problem.dtype_k};
        case Input::v:
            return {problem.heads_kv, problem.seqlen_kv, problem.head_dim_v, problem.dtype_v};
        case Input::dout:
            return {problem.heads, problem.seqlen_q, problem.head_dim_v, problem.dtype_dout};
        case Input::o:
            return {problem.heads, problem.seqlen_q, problem.head_dim_v, problem.dtype_o};
        case Input::lse:
            return {problem.heads, problem.seqlen_q, 1, Dtype::f32};
    }
    return {};
}

bool has_key_rows(Input input) {
    return input == Input::k || input == Input::v;
}

ArrayShape output_shape(const Problem& problem, Stage stage, Dtype dtype) {
    return {stage_heads(problem, stage), rows_along(problem, stage_info(problem, stage).row_axis),
            tile_shape(problem, stage).cols, dtype};
}

void mark_unstored(Dtype dtype, Span<float> elements) {
    if (dtype_info(dtype).bytes == 1) return;
    const auto filled = std::bit_cast<std::uint32_t>(decode(dtype, 0xffffffffu));
    const auto is_filled = [&](float element) { return std::bit_cast<std::uint32_t>(element) == filled; };
    std::replace_if(elements.begin(), elements.end(), is_filled, std::bit_cast<float>(unwritten_bits));
}

}  // namespace tilescope
