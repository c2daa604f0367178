#pragma once

// The groups of /references: outputs of other implementations on the same inputs.

#include <array>
#include <optional>
#include <vector>

#include "dump/file/check.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

struct StoredReferences {
    /// The outputs that the reference has: o, lse.
    using Outputs = std::array<std::optional<StoredDataset>, 2>;

    std::vector<ReferenceInfo> infos;  ///< in order of their names
    std::vector<Outputs> outputs;      ///< of each

    /// Null where there is no such reference, or it has no such output.
    const StoredDataset* find(std::size_t index, Stage stage) const;
};

/// Errors: Error for too many references, names that are too long or not printable, and for outputs that are
/// not whole or contradict the problem; and for any in a backward dump.
StoredReferences open_references(const InputFile& file, const Problem& problem);

}  // namespace tilescope::hdf5
