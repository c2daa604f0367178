"""Where the heatmap lies in a picture that tile-diff or tile-view wrote."""

import numpy as np

EDGE = (89, 99, 110)  # the line around it


def heatmap_of(pixels):
    """First row and column, height and width of the heatmap: what is inside the first lines that are longer than a letter."""
    edge = np.all(pixels[..., :3] == EDGE, axis=-1)
    long = np.lib.stride_tricks.sliding_window_view(edge, 45, axis=1).all(axis=-1)
    top = int(np.flatnonzero(long.any(axis=1))[0])
    left = int(np.flatnonzero(long[top])[0])
    right = left + int(np.argmin(edge[top, left:])) - 1
    bottom = next(y for y in range(top + 1, len(edge)) if edge[y, left:right + 1].all())
    return top + 1, left + 1, bottom - top - 1, right - left - 1
