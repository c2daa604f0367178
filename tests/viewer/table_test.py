#!/usr/bin/env python3
"""The table of bad rows and the keys that walk through it, on dumps whose mistakes are known.

usage: table_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

from unittest import mock

import numpy as np
from tile_view_case import SAMPLES, TileViewCase, judged, main, slow_outputs

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
        lines = ["wait", "key B", "wait", *[f"expect bad 0 1 {row} 1" for row in (3, 5, 6, 7)]]
        for kind, row in rows.items():
            lines += ["key Y", "wait", "expect Bad rows of s: 1\n", f"expect bad 0 1 {row} 1"]
            lines += ["key N", "wait", f"expect s,0,1,{row},4 of batch"]
        self.play([path], *lines, "key Y", "wait", "expect Bad rows of s: 0, of conflicting tiles", "key Y", "wait",
                  "expect Bad rows of s: 4\n")

    def test_escape_closes_the_drop_downs(self):
        path = self.dump({("s", (0, 1, 3, 4)): 99})
        lines = ["wait"]
        for name in ("stage", "kind"):
            lines += [f"expect_not choices of bad {name}", f"click bad_{name}:0.5 0.5", "frames 3", f"expect choices of bad {name}", "key Escape",
                      "frames 3", f"expect_not choices of bad {name}"]
        self.play([path], *lines, "expect Bad rows of s: 1 in 1 range", "expect s,0,1,3,4 of batch")

    def test_kind_in_one_of_many_planes(self):
        # acc has a plane for each KV tile.
        path = self.dump({("acc", (0, 2, 1, 17, 3)): np.nan, ("acc", (0, 2, 1, 18, 3)): 99})
        self.play([path], "wait", "key B", "key Y", "wait", "expect Bad rows of acc: 1\n", "expect bad 0 2 17 1",
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
        self.play([SAMPLES / "head_modulo.h5"], "wait", "expect headings batch head keys tile outside worst",
                  "expect Bad keys of k:", "key B", "wait", "expect headings batch head key outside", "key B", "wait",
                  "expect headings batch head key tile block outside worst", "key B", "key B", "key U", "key U",
                  "wait", "expect headings batch head row outside", "expect Bad rows of s: 0")
        self.play([SAMPLES / "torch_backward_group_overwritten.h5"], "wait", "expect headings batch kv head keys",
                  "expect Bad keys of dk: 64", "key B", "wait", "expect headings batch kv head key outside",
                  "expect Bad keys of dk: 64\n")

    def test_order_is_that_of_the_keys(self):
        path = self.dump({("s", (0, head, row, 0)): 99 for head, row in ((0, 7), (1, 2), (1, 20), (3, 5))})
        order = "bad 0 0 7 1 \nbad 0 1 2 1 \nbad 0 1 20 1 \nbad 0 3 5 1 \n"
        self.play([path], "wait", "key B", "wait", f"expect {order}", "key N", "wait", "expect s,0,1,2,0 of batch", "expect bad row 2 of 4",
                  "key N", "wait", "expect s,0,1,20,0 of batch", "key N", "wait", "expect s,0,3,5,0 of batch", "key N",
                  "wait", "expect s,0,0,7,0 of batch", "key H", "wait", "expect s,0,1,2,0 of batch", "key H", "wait",
                  "expect s,0,3,5,0 of batch", "key Shift+H", "wait", "expect s,0,1,2,0 of batch", "key T", "wait",
                  "expect bad tile 3 of 4", "expect s,0,1,20,0 of batch", "key Shift+T", "wait", "expect bad tile 2 of 4")

    def test_sorting_by_mouse_and_key(self):
        path = self.dump({("s", (0, 1, 2, 0)): 99, ("s", (0, 1, 2, 1)): 99, ("s", (0, 3, 1, 0)): 99})
        by_row = "bad 0 3 1 1 \nbad 0 1 2 2 \n"
        self.play([path], "wait", "key B", "wait", "expect bad 0 1 2 2 \nbad 0 3 1 1 \n", "key R", "key R", "wait", f"expect {by_row}",
                  *["key R"] * 2, "wait", "expect bad 0 1 2 2 \nbad 0 3 1 1 \n", "click heading_row:0.3 0.5", "wait",
                  f"expect {by_row}",
                  "click heading_row:0.3 0.5", "wait", "expect bad 0 1 2 2 \nbad 0 3 1 1 \n")

    def quotients(self, path, stage):
        """Difference / budget of the worst elements that tile-diff names, by head, row and column."""
        stages = judged(path, options=["--top", "20"])["stages"]
        worst = next(s["worst"] for s in stages if s["name"] == stage)
        return {(e["head"], e["row"], e["col"]): abs(e["got"] - e["expected"]) / e["tolerance"] for e in worst}

    def test_ranges_have_their_worst_and_first_tile(self):
        wrong = {(1, 2, 20): 99, (1, 3, 18): 77, (1, 3, 25): 9999, (1, 4, 33): 99, (3, 20, 39): 999}
        path = self.dump({("s", (0, *place)): value for place, value in wrong.items()})
        quotient = self.quotients(path, "s")
        lines = {2: f"bad 0 1 2-4 1 4 {quotient[1, 3, 25]:.4g} \n", 20: f"bad 0 3 20 2 1 {quotient[3, 20, 39]:.4g} \n"}
        # The worst first, and a click goes to its row's first wrong element.
        self.play([path], "wait", "expect Bad rows of s: 4 in 2 ranges\n", f"expect {lines[2]}{lines[20]}",
                  "click bad_0:0.5 0.5", "wait", "expect s,0,1,3,18 of batch", "click bad_1:0.5 0.5", "wait",
                  "expect s,0,3,20,39 of batch", "click heading_rows:0.3 0.5", "wait", f"expect {lines[2]}{lines[20]}",
                  "click heading_rows:0.3 0.5", "wait", f"expect {lines[20]}{lines[2]}",
                  options=["--goto", "s:0,0,0,0"])

    def test_ranges_of_one_tile_are_told_apart(self):
        path = self.dump({("s", (0, 1, 2, 30)): 99, ("s", (0, 1, 5, 20)): 9999, ("s", (0, 1, 5, 39)): 99})
        quotient = self.quotients(path, "s")
        self.play([path], "wait", f"expect bad 0 1 5 1 2 {quotient[1, 5, 20]:.4g} \nbad 0 1 2 1 1 {quotient[1, 2, 30]:.4g} \n")
        # acc has a picture for each KV tile.
        path = self.dump({("acc", (0, 2, 0, 3, 3)): 99, ("acc", (0, 2, 1, 5, 3)): 9999})
        self.play([path], "wait", "expect bad 0 2 5 1 ", "expect bad 0 2 3 0 ")

    def test_ranges_whose_tiles_are_too_many_say_so(self):
        # Ten KV tiles of four heads are more pictures than are looked into.
        tiles = 10
        keys = [slice(t * small_dump.BLOCK_N, (t + 1) * small_dump.BLOCK_N) for t in range(tiles)]
        with mock.patch.multiple(small_dump, SKV=tiles * small_dump.BLOCK_N, KV_TILES=keys):
            path = self.dump({("acc", (0, head, tile, row, 0)): 99 + tile for head in range(small_dump.H)
                              for tile in range(tiles) for row in (3, 5)})
        self.play([path], "wait", "expect Bad rows of acc: 8 in 8 ranges\n", f"expect bad 0 0 3 >= 0 {tiles} <= ",
                  f"expect bad 0 3 5 >= 0 {tiles} <= ")

    def test_the_table_follows_the_stage_on_screen(self):
        path = self.dump({("s", (0, 1, 2, 0)): 99})
        self.play([path], "wait", "expect Bad rows of s: 1", "key PageDown", "wait", "expect Bad rows of m: ", "key PageUp",
                  "key PageUp", "wait", "expect Bad keys of v: 0\n", "key N", "wait", "expect Bad rows of s: 1", "key U",
                  "wait", "expect Bad rows of m: ", "key Right", "wait", "expect Bad rows of m: ", "click stage_acc:0.5 0.5",
                  "wait", "expect Bad rows of acc: ")

    def test_an_empty_table_says_why(self):
        path = self.dump({("s", (0, 1, 2, 0)): 99})
        self.play([path], "wait", "expect_not no row of", "key Y", "wait",
                  "expect no row of s diverges in this way: key Y shows every kind\n")
        path = self.folder / "p.h5"
        small_dump.write(path, small_dump.stages(small_dump.inputs(), p_factor=1.5))
        self.play([path], "wait", "key PageUp", "key PageUp", "wait", "expect no row of s diverges\n",
                  *["key PageDown"] * 4, "wait",
                  "expect no row of acc diverges by itself, errors are inherited: key I shows end to end\n", "key I", "wait",
                  f"expect Bad rows of acc: {small_dump.H * small_dump.SQ} in ", "expect_not no row of", *["key PageUp"] * 4,
                  "wait", "expect no row of s diverges end to end\n", options=["--goto", "p:0,0,0,0"])
        path = small_dump.write(self.folder / "s.h5", only=["s"])
        self.play([path], "wait", "expect no row of s diverges\n", "key U", "wait", "expect m was not recorded\n")
        self.play([path, path], "wait", "expect no row of s differs\n")
        slow = slow_outputs(self.folder / "slow.h5")
        self.play([slow], "await being judged", "expect Bad rows of o\nnot judged yet\n", "key Escape",
                  "await cancelled: F5 judges again", "expect Bad rows of o\ncancelled: F5 judges again\n",
                  options=["--threads", "1"])


if __name__ == "__main__":
    main()
