#pragma once

#include <nanobind/nanobind.h>

namespace tilescope {

/// What makes the buffers of a Recorder a sink of hooks.
void bind_hook_buffers(nanobind::module_& module);

}  // namespace tilescope
