#!/usr/bin/env python3
"""The element panel says who wrote an element, where the recording does.

usage: writers_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import h5py
import numpy as np
from tile_view_case import TileViewCase, main

import small_dump


class Writers(TileViewCase):
    def test_element_panel(self):
        path = self.folder / "run.h5"
        small_dump.write(path)
        with h5py.File(path, "r+") as file:
            s = file["tiles/s"]
            words = np.full(s.shape, 1 << 16 | 37, np.uint32)
            words[0, 2, 17, 33] = 3 << 16 | 1 << 15 | 5
            words[0, 2, 17, 34] = 0
            file.create_dataset("capture/writers/s", data=words, chunks=s.chunks, maxshape=(None,) * words.ndim)
        self.play([path], "wait", "expect s,0,2,17,32",
                  "expect written 1 time, first by thread 37 (warp 1, lane 5)\n", "key Right", "wait", "expect s,0,2,17,33",
                  "expect written 3 times, first by thread 5 (warp 0, lane 5), by others, too\n", "key Right", "wait",
                  "expect s,0,2,17,34", "expect written by no hook\n", options=["--goto", "s:0,2,17,32"])
        self.play([path], "wait", "expect p,0,2,17,32", "expect_not first by thread", options=["--goto", "p:0,2,17,32"])


if __name__ == "__main__":
    main()
