#pragma once

// In place of dump/hook/stage.h, for kernels that name a stage.

namespace tilescope {
enum class Stage { q, k, v, s, m, p, l, acc, o, lse };
}  // namespace tilescope
