#!/usr/bin/env python3
"""The table of bad rows and the keys that walk through it, on dumps whose mistakes are known.

usage: table_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import numpy as np
from tile_view_case import SAMPLES, TileViewCase, main

import small_dump


class Table(TileViewCase):
    def dump(self, places):
        """`places`: stage and element to value."""
        values = small_dump.stages(small_dump.inputs())
        for (stage, place), value in places.items():
            values[stage][place] = value
        path = self.folder / "run.h5"
        small_dump.write(path, values)
        return path

    def test_kind_is_that_of_the_row_itself(self):
        # One tile: rows 3 (finite), 5 (NaN), 6 (infinite), 7 (unwritten).
        path = self.dump({("s", (0, 1, 3, 4)): 99, ("s", (0, 1, 5, 4)): np.nan, ("s", (0, 1, 6, 4)): np.inf,
                          ("s", (0, 1, 7, 4)): small_dump.UNWRITTEN})
        rows = {"NaN": 5, "infinite": 6, "unwritten": 7}
        lines = ["wait", *[f"expect bad 0 1 {row} 1" for row in (3, 5, 6, 7)]]
        for kind, row in rows.items():
            lines += ["key Y", "wait", "expect Bad rows of s: 1\n", f"expect bad 0 1 {row} 1"]
            lines += ["key N", "wait", f"expect s,0,1,{row},4 of batch"]
        self.play([path], *lines, "key Y", "wait", "expect Bad rows of s: 0, of conflicting tiles", "key Y", "wait",
                  "expect Bad rows of s: 4\n")

    def test_kind_in_one_of_many_planes(self):
        # acc has a plane for each KV tile.
        path = self.dump({("acc", (0, 2, 1, 17, 3)): np.nan, ("acc", (0, 2, 1, 18, 3)): 99})
        self.play([path], "wait", "key Y", "wait", "expect Bad rows of acc: 1\n", "expect bad 0 2 17 1",
                  "expect_not bad 0 2 18", options=["--goto", "acc:0,2,17,3,1"])

    def test_next_bad_goes_to_the_element(self):
        path = self.dump({("s", (0, 1, 2, 39)): 99, ("s", (0, 1, 20, 17)): 99, ("acc", (0, 3, 2, 5, 11)): 99})
        self.play([path], "wait", "expect s,0,1,20,17 of batch", "key N", "wait", "expect s,0,1,2,39 of batch", "key N",
                  "wait", "expect s,0,1,20,17 of batch", "key Shift+T", "wait",
                  "expect s,0,1,2,39 of batch", "key T", "wait", "expect s,0,1,20,17 of batch", *["key PageDown"] * 4,
                  "wait", "expect Map of acc", "key T", "wait", "expect acc,0,3,5,11,2 of batch", "key Right", "wait",
                  "key N", "wait",
                  "expect acc,0,3,5,11,2 of batch")
        path = self.dump({("k", (0, 2, 1, 33, 6)): 99})
        self.play([path], "wait", "key ]", "key Up", "key Left", "wait", "key N", "wait", "expect k,0,2,33,6,1 of batch")

    def test_headings_name_keys_and_heads(self):
        self.play([SAMPLES / "head_modulo.h5"], "wait", "expect headings batch head key outside", "expect Bad keys of k:",
                  "key B", "wait", "expect headings batch head key tile block outside worst", "key B", "key U", "key U",
                  "wait", "expect headings batch head row outside", "expect Bad rows of s: 0")
        self.play([SAMPLES / "torch_backward_group_overwritten.h5"], "wait", "expect headings batch kv head key outside",
                  "expect Bad keys of dk: 64")

    def test_order_is_that_of_the_keys(self):
        path = self.dump({("s", (0, head, row, 0)): 99 for head, row in ((0, 7), (1, 2), (1, 20), (3, 5))})
        order = "bad 0 0 7 1 \nbad 0 1 2 1 \nbad 0 1 20 1 \nbad 0 3 5 1 \n"
        self.play([path], "wait", f"expect {order}", "key N", "wait", "expect s,0,1,2,0 of batch", "expect bad row 2 of 4",
                  "key N", "wait", "expect s,0,1,20,0 of batch", "key N", "wait", "expect s,0,3,5,0 of batch", "key N",
                  "wait", "expect s,0,0,7,0 of batch", "key H", "wait", "expect s,0,1,2,0 of batch", "key H", "wait",
                  "expect s,0,3,5,0 of batch", "key Shift+H", "wait", "expect s,0,1,2,0 of batch", "key T", "wait",
                  "expect bad tile 3 of 4", "expect s,0,1,20,0 of batch", "key Shift+T", "wait", "expect bad tile 2 of 4")

    def test_sorting_by_mouse_and_key(self):
        path = self.dump({("s", (0, 1, 2, 0)): 99, ("s", (0, 1, 2, 1)): 99, ("s", (0, 3, 1, 0)): 99})
        by_row = "bad 0 3 1 1 \nbad 0 1 2 2 \n"
        self.play([path], "wait", "expect bad 0 1 2 2 \nbad 0 3 1 1 \n", "key R", "key R", "wait", f"expect {by_row}",
                  *["key R"] * 2, "wait", "expect bad 0 1 2 2 \nbad 0 3 1 1 \n", "click heading_row:0.3 0.5", "wait",
                  f"expect {by_row}",
                  "click heading_row:0.3 0.5", "wait", "expect bad 0 1 2 2 \nbad 0 3 1 1 \n")


if __name__ == "__main__":
    main()
