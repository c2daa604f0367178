#pragma once

// A dump that was opened: everything that is read and checked before the first tile.

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "dump/file/check.h"
#include "dump/file/inputs.h"
#include "dump/file/references.h"
#include "dump/file/sink_image.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

struct Contents {
    InputFile file;
    Problem problem;
    Units units;
    Provenance provenance;
    CaptureSummary capture;
    ThreadLayouts threads;
    std::array<std::optional<StoredDataset>, stage_count> stages;
    std::array<std::optional<StoredDataset>, stage_count> writers;
    std::unique_ptr<SinkImage> sink;  ///< has the tiles, where there is one
    StoredInputs inputs;
    StoredReferences references;
};

/// Errors: Error for whatever is not a complete, valid recording.
Contents open_contents(InputFile file);

}  // namespace tilescope::hdf5
