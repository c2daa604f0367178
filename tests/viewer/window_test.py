#!/usr/bin/env python3
"""Numbers, regions, pairs of recordings, and windows of every size and density.

usage: window_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import json
import shutil
import subprocess
import time

import h5py
import numpy as np
from tile_view_case import SAMPLES, TileViewCase, main, middle, verdict

import small_dump


class Numbers(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def test_cells_hold_value_and_bits_when_zoomed_in(self):
        with h5py.File(self.PATH) as file:
            s = file["tiles/s"][0, 0, 16:19, 69:72]
        lines = [f"expect {value:.4g}" for value in s.ravel()]
        lines += [f"expect {value.view(np.uint32):08x}" for value in s.ravel()]
        self.play([self.PATH], "wait", "key 1", "key Z", "wait", *lines, options=["--goto", "s:0,0,17,70"])

    def test_cells_hold_their_numbers_beside_a_wide_tab(self):
        with h5py.File(self.PATH) as file:
            beside = file["tiles/s"][0, 0, 17, 71]
        self.play([self.PATH], "wait", "key 1", *["key Tab"] * 3, "wait", "expect tolerance", "key Z", "wait",
                  f"expect {beside:.4g}", f"expect {beside.view(np.uint32):08x}", options=["--goto", "s:0,0,17,70"])

    def test_region_is_counted_and_has_its_own_extremes(self):
        with h5py.File(self.PATH) as file:
            s = file["tiles/s"][0, 0]
        # The pane shows 64 x 192; shares lie in the middle of elements.
        box = [(10.5 / 192, 20.5 / 64), (49.5 / 192, 31.5 / 64)]
        part = s[20:32, 10:50]
        exponents = np.floor(np.log2(np.abs(part[part != 0]).astype(float)))
        self.play([self.PATH], "wait", "key F", "key Tab", "key Tab", "wait",
                  f"drag_right heatmap:{box[0][0]} {box[0][1]} heatmap:{box[1][0]} {box[1][1]}", "move 5 5", "wait",
                  "expect region of s: rows 20-31, columns 10-49: 12 x 40", "expect 480 elements",
                  f"expect dumped: {part.min():.4g} to {part.max():.4g}",
                  f"expect 2^{int(exponents.min()) - 2}\n" if np.ptp(exponents) > 12 else "expect 2^", "key 1", "key X", "wait",
                  "expect wrote dumped of rows 20-31, columns 10-49", "key Escape", "wait", "expect tile of s: rows 0-63",
                  options=["--goto", "s:0,0,5,5"])
        written = np.load(self.folder / "tile-view.npy")
        np.testing.assert_array_equal(written.view(np.uint32), part.view(np.uint32))


class Pairs(TileViewCase):
    def test_two_different_recordings(self):
        mine, other = self.folder / "a.h5", self.folder / "b.h5"
        values = small_dump.stages(small_dump.inputs())
        small_dump.write(other, values)
        b = values["s"][0, 2, 9, 21]
        values["s"][0, 2, 9, 21] = a = np.float32(b + 3)
        small_dump.write(mine, values)
        self.play([mine, other], "wait", f"expect {verdict(mine, other)}", "expect a.h5 against b.h5",
                  "expect s,0,2,9,21 of batch", f"expect {a:.9g}", "expect other file", f"expect {b:.9g}",
                  f"expect difference\n{a - b:.4g}", "expect bad 0 2 9 1 1 ", "key F", "wait", "picture heatmap pane.png",
                  "key Ctrl+C",
                  f"expect_clipboard tile-diff --against {other} {mine}")
        picture = self.picture("pane.png")
        shape = (small_dump.SQ, small_dump.SKV)
        for row, col in ((9, 21), (9, 20), (3, 35)):
            red, _, blue = middle(picture, shape, row, col)
            self.assertEqual(red > blue, (row, col) == (9, 21), (row, col))


class HighDensity(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def test_everything_is_twice_as_large(self):
        for scale in (1, 2):
            self.play([self.PATH], "wait", f"picture header header{scale}.png", f"picture stage_s button{scale}.png",
                      f"picture heatmap heatmap{scale}.png", "click stage_s:0.5 0.5", "wait", "expect Map of s",
                      "click map_picture:0.72 0.1", "wait", "expect s,0,0,0,128",
                      options=["--scale", scale, "--size", "3400x1800"], screen="3400x1800")
        for name, slack in (("header", 2), ("button", 3)):
            small, large = (self.picture(f"{name}{scale}.png").shape for scale in (1, 2))
            self.assertLessEqual(abs(large[0] - 2 * small[0]), slack, name)

    def test_whole_range_of_window_sizes(self):
        for width, height in ((800, 600), (3840, 2160)):
            self.play([self.PATH], "wait", f"resize {width} {height}", "wait", "screenshot all.png",
                      "expect over budget, log", "expect lse right", "expect ? help", screen="3840x2160")
            header = (self.folder / "all.png").read_bytes()[16:24]
            self.assertEqual((int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")), (width, height))
        self.play([self.PATH], "wait", "resize 200 150", "wait", "resize 1 1", "frames 5", "resize 800 600", "wait",
                  *["key Tab"] * 6, "wait", "expect o[0,0,0,0]", "key Tab", "wait", "expect Map of acc", "click map_picture:0.1 0.1", "wait",
                  "expect Element\nacc,0,0,0,0,0\n", "key Tab", "wait", "expect bad 0 0 0-63 1 8192 ")



class LongLines(TileViewCase):
    """What there is no room for ends in an ellipsis, and the pointer shows the whole."""

    NAME = "a-recording-" + 12 * "of-a-kernel-" + "end.h5"
    KERNEL = "flash_attention_" + 8 * "persistent_" + "v3<128, 64>"

    def recording(self):
        path = self.folder / self.NAME
        shutil.copy(SAMPLES / "acc_not_rescaled.h5", path)
        with h5py.File(path, "r+") as file:
            file.attrs["kernel"] = self.KERNEL
        return path

    def test_names_of_file_and_kernel(self):
        self.play([self.recording()], "wait", f"expect {self.NAME[:40]}", "expect_not end.h5", f"expect_not {self.KERNEL}", "expect ...",
                  "move header:0.3 0.08", "frames 3", f"expect {self.NAME}", f"expect {self.KERNEL}", "move 5 700", "frames 3",
                  "expect_not end.h5", options=["--size", "1280x720", "--scale", "1.5"])

    def test_titles_of_narrow_panels(self):
        self.play([SAMPLES / "acc_not_rescaled.h5"], "wait", "drag splitter_left:0.5 0.5 10 500", "wait", "expect Map of acc, ",
                  "expect_not KV tiles across", "move map:0.4 0.06", "frames 3", "expect Map of acc, KV tiles across\n",
                  "move bad_rows:0.4 0.065", "frames 3", "expect Bad rows of acc: 64 in 1 range\n", options=["--size", "1600x1000"])

    def test_names_in_lists(self):
        self.play([self.recording()], "wait", "key Ctrl+O", "frames 3", f"move file_{self.NAME}:0.5 0.5", "frames 3",
                  f"expect \n{self.NAME}\n", options=["--size", "900x700", "--scale", "1.5"])


class LowWindows(TileViewCase):
    """At 1280 x 720 with text of one and a half times the size."""

    OPTIONS = ["--size", "1280x720", "--scale", "1.5"]

    def test_tabs_that_need_it_have_the_room_of_the_element(self):
        names = ["row", "drift", "histogram", "budget"]
        self.play([SAMPLES / "acc_not_rescaled.h5"], "wait", *[line for name in names for line in (f"picture tabs {name}.png", "key Tab", "wait")],
                  "expect finding\noutside\n", options=self.OPTIONS)
        height = {name: self.picture(f"{name}.png").shape[0] for name in names}
        self.assertEqual(height["row"], height["histogram"])
        self.assertGreater(height["drift"], height["row"] + 40)
        self.assertEqual(height["budget"], height["drift"])

    def test_history_begins_at_the_step_at_the_cursor(self):
        # The last of seven rows.
        self.play([SAMPLES / "acc_not_rescaled.h5"], "wait", "key Q", "wait", "move history_KV_tile_1:0.5 0.93", "frames 3",
                  "expect wrong: further from what the stages before it give", options=self.OPTIONS)


class Rest(TileViewCase):
    def frames_of(self, seconds):
        """Of a window that nobody touches and that is closed after so many seconds."""
        timing = self.folder / "timing.json"
        window = subprocess.Popen(self.command(SAMPLES / "lse_base2.h5", "--timing", timing), env=self.environment(), cwd=self.folder)
        time.sleep(seconds)
        window.terminate()
        self.assertEqual(window.wait(timeout=60), 0)
        return json.loads(timing.read_text())["frames"]

    def test_nothing_is_drawn_while_nothing_happens(self):
        short, long = self.frames_of(5), self.frames_of(11)
        self.assertGreater(short, 0)
        # Six seconds are 360 frames of a display.
        self.assertLess(long - short, 60)


class Splitters(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def width_of(self, name):
        return self.picture(f"{name}.png").shape[1]

    def test_edges_stay_where_they_were_left(self):
        settings = self.folder / "settings.json"
        options = ["--size", "1600x1000", "--settings", settings]
        self.play([self.PATH], "wait", "picture heatmaps before.png", "drag splitter_left:0.5 0.5 500 500", "wait", "picture heatmaps after.png",
                  "drag splitter_history:0.5 0.5 800 700", "wait", "picture history low.png", options=options)
        moved = self.width_of("before") - self.width_of("after")
        self.assertGreater(moved, 100)
        self.play([self.PATH], "wait", "picture heatmaps again.png", "click splitter_left:0.5 0.5", "click splitter_left:0.5 0.5", "wait",
                  "picture heatmaps back.png", "drag splitter_right:0.5 0.5 10 500", "wait", "picture heatmaps narrow.png", options=options)
        self.assertEqual(self.width_of("again"), self.width_of("after"))
        self.assertEqual(self.width_of("back"), self.width_of("before"))
        # Nothing is pushed out of the window.
        self.assertGreater(self.width_of("narrow"), 100)


if __name__ == "__main__":
    main()
