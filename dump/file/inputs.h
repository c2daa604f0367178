#pragma once

// The datasets of /inputs: tensors as they lie in global memory, and what the call has beside them.

#include <array>
#include <optional>

#include "dump/file/check.h"
#include "dump/file/side_inputs.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

/// Rows of a tensor that lie one after the other, counted over the whole tensor.
struct RowRun {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

struct StoredInputs {
    /// By Input: all that the direction requires, or none.
    std::array<std::optional<StoredDataset>, input_count> tensors;
    RowPlaces q_rows;  ///< of dout, o and lse, too
    RowPlaces kv_rows;
    SideInputs side;
    std::optional<StoredArray> bias;

    /// Rows that can be read of a batch entry: all of them where it is padded, else as many as it has.
    std::int64_t rows(const Problem& problem, Input input, std::int64_t batch) const;
    /// Where the rows from `row` on lie: those of up to `count` that follow each other. All are rows().
    RowRun find_rows(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                     std::int64_t count) const;
};

/// Sizes of a bias that differs everywhere; each can also be 1.
std::array<std::int64_t, 4> bias_dims(const Problem& problem);

/// Errors: Error for inputs that are not whole, or contradict each other or the problem.
StoredInputs open_inputs(const InputFile& file, const Problem& problem);

struct OutputFile;

/// Writes what /inputs holds: the tensors padded, zeros where a batch entry has no rows; the side inputs; and
/// the bias. The group is there already. Errors: Failure, and Error for values that the declared dtype cannot
/// hold or that are no bias.
void write_inputs(const OutputFile& file, const Recording& recording);

}  // namespace tilescope::hdf5
