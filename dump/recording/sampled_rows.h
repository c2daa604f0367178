#pragma once

#include <cstdint>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/selection.h"
#include "dump/schema/side_inputs.h"

namespace tilescope {

/// A query row of a head of a batch entry.
struct QueryRow {
    std::int64_t batch;
    std::int64_t head;
    std::int64_t row;
};

/// About `rows` query rows of the call, by whole query blocks: the first and the last one, the one whose rows see the
/// most keys, those that are asked for by the rows in `also`, and others drawn evenly from all heads and batch entries.
/// Equal seeds draw equal blocks. Everything where the call has no more rows than that.
Selection sample_rows(const Problem& problem, const SideInputs& inputs, std::int64_t rows, std::uint64_t seed,
                      const std::vector<QueryRow>& also = {});

}  // namespace tilescope
