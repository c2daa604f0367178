#pragma once

#include "dump/hook.h"

/// Scores of a kernel that only scales: s[row][col] = scale * x[row][col] for one tile of rows x cols.
void scale_rows(const float* x, int rows, int cols, float scale, float* s TILESCOPE_HOST_SINK_PARAM(sink));
