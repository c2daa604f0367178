#pragma once

// In place of dump/schema/dtype.h, for kernels that name a type.

namespace tilescope {
enum class Dtype { f16, bf16, f32 };
}  // namespace tilescope
