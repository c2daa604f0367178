#pragma once

#include <nanobind/nanobind.h>

namespace tilescope {

/// Programs as Python has them: declared, and held against arrays.
void bind_programs(nanobind::module_& module);

}  // namespace tilescope
