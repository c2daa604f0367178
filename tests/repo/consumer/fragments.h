#pragma once

#include "dump/hook/sink.h"

/// Fills tile s, 4 x 4 with 4 * row + col, through every kind of value and layout that hooks take.
void write_fragments(const tilescope::Sink& sink);
