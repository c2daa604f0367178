#!/usr/bin/env python3
"""The history of an element: what went into it, KV tile by KV tile, as the file and tile-diff have it.

usage: history_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import re
import subprocess

import h5py
import numpy as np
from tile_view_case import SAMPLES, TILE_DIFF, TileViewCase, main

import small_dump

WIDE = ("--size", "1900x1100")


def explained(path, place):
    """What tile-diff says that the element holds and should hold."""
    run = subprocess.run([TILE_DIFF, path, "--explain-tolerance", place], capture_output=True, text=True, timeout=120)
    return re.search(r"^got (\S+)  expected (\S+)  ", run.stdout, re.MULTILINE).groups()


def step(path, place, state):
    """A cell of the history as it must be."""
    got, expected = explained(path, place)
    return f"expect step {place.split(',')[0]} {got} {expected} {state}"


class History(TileViewCase):
    def test_the_first_wrong_step_is_marked(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        row, col = 57, 12
        with h5py.File(path) as file:
            acc = file["tiles/acc"][0, 0, :, row, col]
            heaviest = [64 * tile + int(np.argmax(file["tiles/p"][0, 0, row, 64 * tile:64 * tile + 64])) for tile in range(3)]
            keys = np.asarray(file["tiles/k"][0, 0, 0, :, col], np.float32)
        self.play([path], "wait", "expect History of o[0,0,57,12]", "expect first wrong: acc in KV tile 1",
                  *[f"expect step acc {acc[tile]:.9g} " for tile in range(3)],
                  step(path, "acc,0,0,57,12,0", "right"), step(path, "acc,0,0,57,12,1", "wrong, first"),
                  step(path, "acc,0,0,57,12,2", "wrong\n"), step(path, "m,0,0,57,0,2", "right"),
                  step(path, "l,0,0,57,0,1", "right"), step(path, "o,0,0,57,12", "inherited, end to end "), step(path, "lse,0,0,57,0", "right"),
                  *[step(path, f"{stage},0,0,57,{key}", "right") for key in heaviest for stage in "sp"],
                  *[f"expect step k {keys[key]:.9g} " for key in heaviest],
                  options=["--goto", "o:0,0,57,12", "--size", "2300x1100"], screen="2400x1200")

    def test_a_click_goes_there_and_arrows_walk(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.play([path], "wait", "click history_first:0.5 0.5", "wait", "expect Element\nacc,0,0,57,12,1 of batch",
                  "expect arrows walk here, Escape leaves",
                  "key Right", "wait", "expect Element\nacc,0,0,57,12,2 of batch", "key Right", "wait", "expect Element\no,0,0,57,12 of",
                  "key Right", "wait", "expect Element\no,0,0,57,12 of", "key Down", "wait", "expect Element\nlse,0,0,57,0 of",
                  "key Left", "wait", "expect Element\nacc,0,0,57,12,2 of", "key Up", "wait", "expect Element\nl,0,0,57,0,2 of",
                  "key Up", "wait", "expect Element\np,0,0,57,", "expect History of o[0,0,57,12]",
                  # Without them arrows are those of the heatmap.
                  "key Escape", "key Home", "wait", "expect Element\nacc,0,0,0,0,1 of", "key Right", "wait",
                  "expect Element\nacc,0,0,0,1,1 of", "expect History of o[0,0,0,1]",
                  # The third row of the first tile is s of the key that weighs most, whose column is not that of o.
                  "click history_KV_tile_0:0.5 0.36", "wait", "expect Element\ns,0,0,0,", "expect History of o[0,0,0,1]",
                  "click heatmap:0.5 0.5", "wait", "expect a click: arrows walk here",
                  "key Q", "wait", "expect_not History of o", "key Q", "wait", "expect arrows walk here, Escape leaves",
                  options=["--goto", "o:0,0,57,12", *WIDE])

    def test_space_flips_dumped_and_expected(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        area = "history_KV_tile_1"
        self.play([path], "wait", "expect dumped, expected in grey", f"picture {area} dumped.png", "key_down Space", "wait",
                  "expect expected in grey, then dumped", f"picture {area} expected.png", "key_up Space", "wait",
                  f"picture {area} again.png", options=WIDE)
        dumped, expected, again = (self.picture(f"{name}.png") for name in ("dumped", "expected", "again"))
        self.assertTrue((dumped == again).all())
        # Of acc, the last row: its dumped value, in orange, changes sides.
        orange = [(abs(picture[-14:-8, 30:] - (240, 140, 90)).max(axis=2) < 40).any(axis=0) for picture in (dumped, expected)]
        middle = len(orange[0]) // 2
        self.assertTrue(orange[0][:middle - 40].any())
        self.assertFalse(orange[1][20:middle - 20].any())
        self.assertTrue(orange[1][middle:-10].any())

    def test_of_a_key_that_is_looked_at(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        with h5py.File(path) as file:
            s = file["tiles/s"][0, 0, 17]
        # The key that weighs least: nobody would be shown it unasked.
        key = 64 + int(np.argmin(s[64:128]))
        self.play([path], "wait", "expect History of o[0,0,17,0]", f"expect step s {s[key]:.9g} ", step(path, f"s,0,0,17,{key}", "right"),
                  step(path, f"p,0,0,17,{key}", "right"), "key PageDown", "wait", f"expect_not step s {s[key]:.9g} ",
                  f"expect step s {s[64:128].max():.9g} ", options=["--goto", f"s:0,0,17,{key}", *WIDE])

    def test_nan(self):
        path = SAMPLES / "nan_times_zero.h5"
        self.play([path], "wait", "expect first wrong: acc in KV tile 1", step(path, "acc,0,0,5,7,1", "wrong, first"),
                  "expect step acc nan ", "expect step o nan nan inherited, end to end ", options=["--goto", "o:0,0,5,7", *WIDE])

    def test_healthy(self):
        path = SAMPLES / "healthy_scalar.h5"
        self.play([path], "wait", "expect History of o[0,1,40,3]", "expect nothing wrong in it", step(path, "acc,0,1,40,3,1", "right"),
                  step(path, "o,0,1,40,3", "right"), "expect_not wrong, first",
                  options=["--goto", "o:0,1,40,3", *WIDE])

    def test_of_two_recordings_nothing_is_called_right_or_wrong(self):
        self.play([SAMPLES / "torch_backward.h5", SAMPLES / "torch_backward_group_overwritten.h5"], "wait", "expect first to differ: dk",
                  "expect \nsame\n", "expect \ndiffers\n", "expect differs, first", "expect_not first wrong", "expect_not \nright\n",
                  "expect_not \nwrong\n", "move history_first:0.5 0.5", "frames 2",
                  "expect the first step in order of time in which the two recordings differ")

    def test_backward(self):
        path = SAMPLES / "torch_backward_group_overwritten.h5"
        with h5py.File(path) as file:
            p = file["tiles/p"][0, 1, 32:64, 40]
        # p of the key weighs most in this row of the second block.
        row = 32 + int(np.argmax(p))
        self.play([path], "wait", "expect History of dk, dv[0,0,40,3]", "expect first wrong: dk", step(path, "dk,0,0,40,3", "wrong, first"),
                  step(path, "dv,0,0,40,3", "right"), "expect head 0 q block 0\n", "expect head 1 q block 1\n",
                  *[step(path, f"{stage},0,1,{row},40", "right") for stage in ("s", "p", "dp", "ds")],
                  step(path, f"delta,0,1,{row},0", "right"), "expect step s hidden by the mask",
                  "key PageUp", "wait", "expect History of dq[0,", "expect nothing wrong in it",
                  options=["--goto", "dk:0,0,40,3", *WIDE])
        self.play([path], "wait", "expect History of dq[0,1,50,3]", "expect KV tile 1\n", step(path, "dq,0,1,50,3", "right"),
                  "expect step dout ", "expect step delta ", options=["--goto", "dq:0,1,50,3", *WIDE])
        self.play([path], "wait", "expect History of dq[0,1,50,0]", step(path, "dp,0,1,50,40", "right"), step(path, "ds,0,1,50,40", "right"),
                  options=["--goto", "ds:0,1,50,40", *WIDE])

    def test_what_was_not_recorded(self):
        path = small_dump.write(self.folder / "run.h5", only=["s", "l", "o"])
        self.play([path], "wait", "expect History of o[0,1,20,5]", "expect step m not recorded", "expect step acc not recorded",
                  "expect_not step k ", "expect_not step q not", "expect step lse not recorded", step(path, "l,0,1,20,0,2", "right"),
                  options=["--goto", "o:0,1,20,5", *WIDE])

    def test_many_tiles_are_scrolled_and_the_wrong_ones_marked(self):
        tiles, first_bad = 260, 200
        path = self.long_run(tiles, first_bad)
        self.play([path], "wait", "expect first wrong: acc in KV tile 200", "expect \nKV tile 200\n", "expect_not \nKV tile 10\n",
                  f"expect overview: {tiles - first_bad + 1} of {tiles + 2} wrong", "picture history_overview bar.png",
                  # The bar has all of them.
                  "click history_overview:0.04 0.5", "wait", "expect Element\nacc,0,1,5,3,9 of batch", "expect \nKV tile 10\n",
                  "expect_not \nKV tile 200\n", "key Right", "wait", "expect Element\nacc,0,1,5,3,10 of batch",
                  options=["--goto", "acc:0,1,5,3,200"])
        orange = (abs(self.picture("bar.png") - (240, 140, 90)).max(axis=2) < 30).any(axis=0)
        self.assertFalse(orange[:int(0.75 * len(orange))].any())
        self.assertGreater(orange[int(0.8 * len(orange)):].mean(), 0.5)

    def long_run(self, tiles, first_bad):
        length = tiles * small_dump.BLOCK_N
        kept = small_dump.SKV, small_dump.KV_TILES
        self.addCleanup(lambda: setattr(small_dump, "SKV", kept[0]) or setattr(small_dump, "KV_TILES", kept[1]))
        small_dump.SKV = length
        small_dump.KV_TILES = [slice(at, at + small_dump.BLOCK_N) for at in range(0, length, small_dump.BLOCK_N)]
        values = small_dump.stages(small_dump.inputs())
        values["acc"][0, 1, first_bad:, 5, 3] *= 1.01
        return small_dump.write(self.folder / "run.h5", values)

    def test_a_low_window_has_a_tab(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.play([path], "wait", "expect_not History of o", "key Q", "wait", "expect o[0,0,0,0]", "expect first wrong: acc in KV tile 1",
                  "expect step acc 4.51822 3.38605 wrong, first", "key Right", "wait",
                  "expect Element\nacc,0,0,0,0,2 of", "key Q", "wait", "expect_not step acc",
                  options=["--size", "1200x800"])


if __name__ == "__main__":
    main()
