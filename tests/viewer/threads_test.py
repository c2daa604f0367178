#!/usr/bin/env python3
"""The threads of what is wrong: said at the top, counted at an element, and shown in the heatmap.

usage: threads_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import h5py
import numpy as np
from tile_view_case import TileViewCase, main, middle

import small_dump

# Accumulators of m16n8k16 as the PTX ISA draws them: (row, column) of c0 to c3 of three lanes.
MMA = {0: [(0, 0), (0, 1), (8, 0), (8, 1)], 5: [(1, 2), (1, 3), (9, 2), (9, 3)], 31: [(7, 6), (7, 7), (15, 6), (15, 7)]}
SHAPE = (small_dump.SQ, small_dump.SKV)


class Threads(TileViewCase):
    """The tiles of the small dump are 16 x 16: two accumulators side by side, eight elements a lane."""

    def dump(self, lane=5, fragment="mma_m16n8"):
        """Everything that the lane has of s is wrong."""
        s = small_dump.stages(small_dump.inputs())["s"]
        for row, col in MMA[lane]:
            for at in (col, col + 8):
                s[..., row::16, at::16] += 1 + 0.1 * np.arange(s[..., row::16, at::16].size).reshape(
                    s[..., row::16, at::16].shape).astype(np.float32)
        path = small_dump.write(self.folder / "run.h5", {"s": s}, only=["s"])
        if fragment:
            with h5py.File(path, "r+") as file:
                file["tiles/s"].attrs.update(fragment=fragment)
        return path

    def test_the_card_and_the_element(self):
        self.searches_causes = True
        # The lower tile has eight rows: a lane has half of its elements there.
        self.play([self.dump()], "wait", "expect \nevery wrong element belongs to lane 5\n",
                  "expect lane 5 of warp 0: 8 of 8 wrong in its tile\n", "key Left", "key Left", "wait",
                  "expect s,0,0,1,0 of batch", "expect lane 4 of warp 0: 0 of 8 wrong in its tile\n", "key Shift+Down",
                  "key Right", "key Right", "wait", "expect s,0,0,17,2 of batch",
                  "expect lane 5 of warp 0: 4 of 4 wrong in its tile\n", "key S", "wait",
                  "expect warp 0: 4 of 128 wrong in its tile\n",
                  "key S", "wait", "expect lane 5 of every warp: 4 of 4 wrong in its tile\n", "key S", "wait",
                  "expect register 0 of every thread: 1 of 32 wrong in its tile\n", options=["--goto", "s:0,0,1,2"])

    def test_colours_of_lanes(self):
        self.play([self.dump()], "wait", "key F", "key G", "key M", "wait", "expect_not coloured by", "picture heatmap off.png",
                  "key S", "wait", "expect coloured by the warps that own the elements of s\n", "key S", "wait",
                  "expect coloured by the lanes that own", "picture heatmap lanes.png", "key S", "wait",
                  "expect coloured by the registers that own", "key S", "wait", "expect_not coloured by",
                  "picture heatmap again.png", options=["--goto", "s:0,0,12,30"])
        off, lanes = self.picture("off.png"), self.picture("lanes.png")
        np.testing.assert_array_equal(off, self.picture("again.png"))
        # Half of each pixel is the colour of its lane.
        hues = {lane: np.array([2 * middle(lanes, SHAPE, row, col) - middle(off, SHAPE, row, col)
                                for row, col in places]) for lane, places in MMA.items()}
        for lane, found in hues.items():
            self.assertLess(np.ptp(found, axis=0).max(), 8, (lane, found))
        for one, other in ((0, 5), (0, 31), (5, 31)):
            self.assertGreater(abs(hues[one][0] - hues[other][0]).max(), 60, (one, other))

    def test_a_thread_alone(self):
        self.play([self.dump()], "wait", "key F", "key G", "key M", "wait", "picture heatmap off.png", "key Shift+S", "wait",
                  "expect lit: lane 5 of warp 0\n", "picture heatmap alone.png", "key Shift+S", "wait",
                  "expect lit: warp 0\n", "key Shift+S", "wait", "expect lit: lane 5 of every warp\n", "key Shift+S", "wait",
                  "expect lit: register 4 of every thread\n", "key Shift+S", "wait", "expect_not lit: ",
                  options=["--goto", "s:0,0,17,10"])
        off, alone = self.picture("off.png"), self.picture("alone.png")
        for row, col in MMA[5]:
            np.testing.assert_array_equal(middle(off, SHAPE, row, col), middle(alone, SHAPE, row, col))
        for row, col in MMA[0] + MMA[31]:
            np.testing.assert_array_less(middle(alone, SHAPE, row, col), 0.4 * middle(off, SHAPE, row, col) + 2)

    def test_nothing_is_coloured_where_nothing_is_declared(self):
        self.play([self.dump(fragment=None)], "wait", "expect_not every wrong element belongs", "expect_not of warp 0",
                  "key S", "wait", "expect no threads of s are declared: none are shown (S, Shift+S)\n")


if __name__ == "__main__":
    main()
