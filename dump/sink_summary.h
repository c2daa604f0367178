#pragma once

#include "dump/capture_plan.h"
#include "dump/recording.h"

namespace tilescope {

/// What the stage's counters say that was lost or seen twice. `sink` is the plan's, at its counters.
StageCapture summarise_stage(const CapturePlan& plan, const Sink& sink, Stage stage);

}  // namespace tilescope
