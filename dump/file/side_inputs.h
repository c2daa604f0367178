#pragma once

// The small datasets of /inputs: lengths, places of rows, slopes, sinks and descales.

#include <cstdint>
#include <vector>

#include "dump/file/check.h"
#include "dump/schema/side_inputs.h"

namespace tilescope::hdf5 {

/// Where the rows of a batch entry lie in a tensor that is not padded. Both empty: it is.
struct RowPlaces {
    std::vector<std::int64_t> first_rows;  ///< packed: [batch + 1] an entry's first row, and the end of all
    std::vector<std::int64_t> pages;       ///< paged: [batch][pages_per_entry]
    std::int64_t pages_per_entry = 0;

    bool padded() const { return first_rows.empty() && pages_per_entry == 0; }
};

struct StoredSideInputs {
    SideInputs side;
    RowPlaces q;
    RowPlaces kv;
};

/// Errors: Error for a dataset of another shape or type, and for values that contradict the problem.
StoredSideInputs read_side_inputs(const InputFile& file, const Problem& problem);

/// Writes those that are there, with lengths of padded entries. Errors: Failure.
void write_side_inputs(hid_t file, const SideInputs& inputs, const Problem& problem);

}  // namespace tilescope::hdf5
