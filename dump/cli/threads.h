#pragma once

namespace tilescope {

/// How many threads, the calling one among them, a team of `wanted` can have here: fewer where the system
/// refuses to start them. OpenMP ends the process when it cannot start one.
int startable_threads(int wanted);

}  // namespace tilescope
