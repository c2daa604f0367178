#pragma once

namespace tilescope {

/// Marks an opened file as one that somebody works on, until the last descriptor of this opening is closed,
/// however its process ends. It may be read and written meanwhile. `descriptor` is open for writing.
/// Returns 0, EAGAIN where another opening holds it, or errno where files cannot be held.
int hold_file(int descriptor);

/// Ends that before the descriptors are closed.
void let_go_of_file(int descriptor);

/// Whether another opening holds the file.
bool is_held(int descriptor);

}  // namespace tilescope
