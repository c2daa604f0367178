#pragma once

#include <memory>
#include <string>

#include "dump/recording.h"
#include "oracle/judge/work_sharing.h"

namespace tilescope {

/// A recording on the disk of another process, read through that one, which answers with a RecordingServer. `is_tried`: as
/// open_tried_recording() opens it. `sharing` must outlive it. Errors: FailedElsewhere with what the other one throws.
std::unique_ptr<Recording> open_remote(WorkSharing& sharing, int process, const std::string& path,
                                       bool is_tried);

}  // namespace tilescope
