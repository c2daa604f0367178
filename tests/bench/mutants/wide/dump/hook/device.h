#pragma once

// In place of dump/hook/device.h, for kernels that say which thread they play.

namespace tilescope {
inline int hook_cpu_thread = 0;
}  // namespace tilescope
