#pragma once

namespace tilescope {

class WorkSharing;

/// What tile-diff is: parses the command line and does what it says; the exit code. `sharing` as for judge_all().
int tile_diff_main(int argc, char** argv, WorkSharing* sharing);

}  // namespace tilescope
