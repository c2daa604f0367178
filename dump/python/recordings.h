#pragma once

#include <nanobind/nanobind.h>

namespace tilescope {

/// Problems, calls in memory, files, and dtypes, as Python has them.
void bind_recordings(nanobind::module_& module);

}  // namespace tilescope
