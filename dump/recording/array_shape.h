#pragma once

// Arrays in global memory, as the kernel reads its inputs and writes its outputs.

#include <cstddef>
#include <cstdint>

#include "dump/recording.h"

namespace tilescope {

/// A contiguous array [batch][heads][rows][cols]; a row of lse is one number.
struct ArrayShape {
    std::int64_t heads = 0;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    Dtype dtype = Dtype::f32;

    std::size_t element_bytes() const { return static_cast<std::size_t>(dtype_info(dtype).bytes); }
    std::size_t bytes(std::int64_t batch) const { return row_offset(batch, 0, 0); }
    /// Where row `row` begins, in bytes.
    std::size_t row_offset(std::int64_t batch, std::int64_t head, std::int64_t row) const {
        return static_cast<std::size_t>(((batch * heads + head) * rows + row) * cols) * element_bytes();
    }
};

/// "q", as its dataset is called.
const char* input_name(Input input);

ArrayShape input_shape(const Problem& problem, Input input);

/// Whether a kernel of that direction reads the input.
constexpr bool reads_input(Direction direction, Input input) {
    return input <= Input::v || direction == Direction::backward;
}

/// Whether the rows of the input are keys; otherwise they are query rows.
bool has_key_rows(Input input);

/// Of a stage that is_output() or is_merged(), in a buffer of `dtype`.
ArrayShape output_shape(const Problem& problem, Stage stage, Dtype dtype);

/// Elements that still hold the 0xff bytes with which their buffer was filled become unwritten. `elements` were decoded
/// from `dtype`. Of fp8 none does: a kernel can store that NaN.
void mark_unstored(Dtype dtype, Span<float> elements);

}  // namespace tilescope
