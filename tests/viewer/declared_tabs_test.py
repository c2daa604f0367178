#!/usr/bin/env python3
"""Recordings of declared kernels end to end, and what attention has as well: histogram, budget, source and exports.

usage: declared_tabs_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import subprocess

import h5py
import numpy as np
from declared_kernel import BATCH, COLS, FIRST, ROWS, STEP, computed, stages_of, with_first_wrong, write
from small_program import off_by_three_ulps
from tile_view_case import SAMPLES, TILE_DIFF, TileViewCase, judged, main, middle

#: From the tab of causes on.
TO_SOURCE, TO_HISTOGRAM, TO_BUDGET = (["key Tab", "frames 3"] * presses + ["wait"] for presses in (1, 2, 3))


def go_to(place):
    return ["key J", "frames 4", f"type {place}", "frames 3", "key Enter", "wait"]


def begin_of(number):
    """As many digits as float64 and the judge agree in."""
    return f"{number:.9g}"[:7]


def short(number):
    return f"{number:.4g}"


def in_float64():
    """acc after each block, and y where it is not left out, of the inputs alone."""
    inputs, _ = computed()
    x, w = inputs["x"].astype(np.float64), inputs["w"].astype(np.float64)
    acc = np.stack([x[:, :, : k + STEP] @ w[: k + STEP] for k in range(0, x.shape[2], STEP)])
    return acc, 0.5 * acc[-1]


class EndToEnd(TileViewCase):
    def wrong(self):
        return with_first_wrong(self.folder / "run.h5")

    def test_an_element_that_inherits(self):
        """Both references beside each other, and each alone."""
        path = self.wrong()
        _, y = in_float64()
        truth = begin_of(y[FIRST])
        dumped = f"{stages_of(self.acc())['y'][FIRST]:.9g}"
        self.play([path], "wait", "expect acc guilty\nr right\ny from acc\n", *go_to("y:1,7,3"), "expect finding\ninherited", f"expect dumped\n{dumped}",
                  f"expect expected\n{dumped} +- ", f"expect end to end\n{truth}", "expect nothing of it is outside its tolerance", "expect inherited\n",
                  "key I", "wait", "expect finding\noutside", f"expect end to end\n{truth}", "expect difference\n1\n",
                  "expect Worst elements of y, end to end", "expect worst y:1,7,3 ", "key I", "wait", "expect finding\ninherited")

    def acc(self):
        _, acc = computed()
        acc[(slice(1, None), *FIRST)] += np.float32(2)
        return acc

    def test_elements_are_those_that_tile_diff_counts(self):
        path = self.wrong()
        stages = {stage["name"]: stage for stage in judged(path, options=["--no-causes"])["stages"]}
        self.assertEqual([(stages[name]["outside_end_to_end"], stages[name]["inherited"]) for name in ("acc", "r", "y")], [(2, 1), (0, 0), (1, 1)])
        found = {}
        self.play([path], "wait", "key G", *go_to("y:1,0,0"), "key F", "wait", "move header:0.9 0.9", "wait", "picture heatmap local.png",
                  "key I", "wait", "picture heatmap whole.png", "expect over budget end to end", *go_to("acc:1,0,0,2"), "key F", "wait",
                  "expect Map of acc", "picture map_picture map.png")
        for name in ("local", "whole"):
            picture = self.picture(f"{name}.png")
            pixels = {(row, col): middle(picture, (ROWS, COLS), row - 0.3, col) for row in range(ROWS) for col in range(1, COLS)}
            found[name] = ([at for at, (r, g, b) in pixels.items() if r > 80 and b > r + 20], [at for at, (r, g, b) in pixels.items() if r > b + 60])
        self.assertEqual(found, dict(local=([FIRST[1:]], []), whole=([], [FIRST[1:]])))
        red = [(b, k) for b in range(BATCH) for k in range(3) if (pixel := middle(self.picture("map.png"), (BATCH, 3), b, k - 0.3))[0] > pixel[2] + 60]
        self.assertEqual(red, [(1, 1), (1, 2)])

    def test_history_has_both(self):
        path = self.wrong()
        acc, _ = in_float64()
        self.play([path], "wait", f"expect block 2: end to end {begin_of(acc[(2, *FIRST)])}", "expect_not block 1: end to end", "key I", "wait",
                  f"expect block 2: {self.acc()[(2, *FIRST)]:.9g} expected {begin_of(acc[(2, *FIRST)])}", "expect_not block 2: end to end")

    def test_what_was_not_stored_follows_from_the_inputs(self):
        """Of acc it has the last state alone, which is wrong; what is before it goes on from the inputs."""
        inputs, _ = computed()
        path = write(self.folder / "run.h5", dict(acc=self.acc()[-1]), inputs)
        _, y = in_float64()
        self.play([path], "wait", *go_to("y:1,7,3"), f"expect expected\n{begin_of(y[FIRST] + 1)}", "key I", "wait", f"expect end to end\n{begin_of(y[FIRST])}",
                  "expect expected end to end, linear")

    def test_within_what_rounding_may_do_from_the_inputs_on(self):
        """Three ulps off are wrong for a sum that is known, and nothing for one that may be off by more."""
        text, inputs, stages = off_by_three_ulps()
        path = write(self.folder / "run.h5", stages, inputs, text, step=None)
        self.play([path], "wait", "expect t right\ny guilty\n", "expect end to end nothing is wrong", "expect finding\noutside", "key I", "wait",
                  "expect finding\nmatch")

    def test_healthy(self):
        inputs, acc = computed()
        path = write(self.folder / "run.h5", stages_of(acc), inputs)
        self.play([path], "wait", "expect acc right\nr right\ny right\n", "key I", "wait", "expect acc right\nr right\ny right\n", "expect finding\nmatch",
                  "expect nothing of it is outside its tolerance")


class Tabs(TileViewCase):
    wrong = EndToEnd.wrong
    acc = EndToEnd.acc

    def test_histogram(self):
        """Of the tile, and of a region that the right button chooses."""
        path = self.wrong()
        acc = self.acc()[1, 1]
        tile = acc[4:8]
        region = acc[:ROWS, :COLS]
        self.play([path], "wait", *TO_HISTOGRAM, "expect tile of acc: rows 4-7, columns 0-9: 4 x 10", "expect 40 elements, ",
                  f"expect dumped: {short(tile.min())} to {short(tile.max())}\n", "expect budget", "expect 40 finite", "key F", "wait",
                  "drag_right heatmap:0.01 0.01 heatmap:0.99 0.99", "wait", "expect region of acc: rows 0-11, columns 0-9: 12 x 10",
                  "expect 120 elements, ", f"expect dumped: {short(region.min())} to {short(region.max())}\n", "key Escape", "wait",
                  "expect tile of acc: rows 4-7", "key I", "wait", "expect expected end to end: ", "key I", "key PageUp", "wait", "expect tile of y: rows 4-7",
                  "expect 1 inherited")

    def test_budget(self):
        """The text of tile-diff, line by line, for the element and block on screen."""
        path = self.wrong()
        texts = {place: subprocess.run([TILE_DIFF, path, "--explain-tolerance", place.replace(":", ",")], capture_output=True, text=True, check=True).stdout
                 for place in ("acc:1,7,3,1", "acc:0,2,4,0", "y:1,7,3")}
        self.assertEqual(len(set(texts.values())), 3)
        self.play([path], "wait", *TO_BUDGET, *[line for place, said in texts.items()
                                               for line in [*go_to(place), *[f"expect {each.strip()}" for each in said.splitlines() if each.strip()]]])

    def test_source(self):
        path = self.wrong()
        (self.folder / "gemm.cu").write_text("".join(f"line {i}\n" for i in range(1, 40)))
        with h5py.File(path, "r+") as file:
            file["program/stages/acc"].attrs["hooks"] = ["gemm.cu:31"]
        self.play([path], "wait", *TO_SOURCE, "expect gemm.cu:31", "expect >31  line 31", "key PageDown", "wait", "expect does not say which line recorded r")

    def test_export_of_values(self):
        """The tile or the region, as it was stored, and as the inputs alone give it."""
        path = self.wrong()
        y = stages_of(self.acc())["y"][1]
        self.play([path], "wait", *go_to("y:1,7,3"), "key 1", "key X", "wait", "expect wrote dumped of rows 4-7, columns 0-9 to tile-view.npy", "key 3", "key I", "wait",
                  "key X", "wait", "expect wrote difference end to end of rows 4-7, columns 0-9 to tile-view-2.npy", "key F", "key 2", "key I", "wait",
                  "drag_right heatmap:0.01 0.01 heatmap:0.99 0.99", "wait", "key X", "wait", "expect wrote expected of rows 0-11, columns 0-9 to tile-view-3.npy")
        dumped, difference, expected = (np.load(self.folder / name) for name in ("tile-view.npy", "tile-view-2.npy", "tile-view-3.npy"))
        np.testing.assert_array_equal(dumped, y[4:8])
        self.assertTrue(np.isneginf(dumped).any())
        kept = np.isfinite(y)
        np.testing.assert_allclose(difference[kept[4:8]], (y - in_float64()[1][1])[4:8][kept[4:8]], atol=1e-6)
        np.testing.assert_allclose(expected[kept], y[kept], atol=1e-6)

    def test_export_of_the_picture(self):
        path = self.wrong()
        self.play([path], "wait", "key E", "wait", "expect wrote tile-view.png", "key I", "wait", "key E", "wait", "expect wrote tile-view-2.png")
        self.assertTrue((self.picture("tile-view.png").shape != self.picture("tile-view-2.png").shape) or
                        (self.picture("tile-view.png") != self.picture("tile-view-2.png")).any())

    def test_tabs_from_attention_and_back(self):
        """Those that the other one lacks give way."""
        path, other = self.wrong(), SAMPLES / "acc_not_rescaled.h5"
        self.play([other], "wait", "expect q row", f"drop {path}", "wait", "expect mistakes are not looked for", *TO_HISTOGRAM, "expect tile of acc: rows 4-7",
                  f"drop {other}", "wait", "expect tile of acc: rows 0-63")


if __name__ == "__main__":
    main()
