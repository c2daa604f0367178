#include "scale_rows.h"

void scale_rows(const float* x, int rows, int cols, float scale, float* s TILESCOPE_HOST_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col) {
            s[row * cols + col] = scale * x[row * cols + col];
            TILESCOPE_VALUE(s, 0, row, col, s[row * cols + col]);
        }
    }
}
