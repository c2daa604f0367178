#!/usr/bin/env python3
"""Files that tile-view opens, watches and writes, and its settings.

usage: files_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import json
import os
import pathlib
import shutil
import subprocess

import h5py
import numpy as np
from tile_view_case import SAMPLES, TILE_DIFF, TileViewCase, main, refusal, verdict
from figure_png import heatmap_of


class Files(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def test_dropped_file_that_is_refused_leaves_the_view(self):
        bad = self.folder / "bad.h5"
        bad.write_bytes(b"no recording")
        line = refusal(bad)
        self.play([self.PATH], "wait", f"drop {bad}", "wait", f"expect {line}", f"expect {verdict(self.PATH)}",
                  "expect acc,0,0,0,0,1 of batch", "key Escape", "wait", f"expect_not {line}")

    def test_declaration_of_a_newer_version_is_refused(self):
        newer = self.folder / "newer.h5"
        shutil.copy(self.PATH, newer)
        with h5py.File(newer, "r+") as file:
            file.attrs["requires"] = ["/tiles/s/kept_in_tf32"]
        line = refusal(newer)
        self.assertIn("/tiles/s/kept_in_tf32", line)
        self.play([self.PATH], "wait", f"drop {newer}", "wait", f"expect {line}", f"expect {verdict(self.PATH)}")
        self.assert_fails(self.start(newer, "--screenshot", self.folder / "out.png"), "/tiles/s/kept_in_tf32")

    def test_dropped_file_is_opened(self):
        other = SAMPLES / "causal_top_left.h5"
        self.play([self.PATH], "wait", f"drop {other}", "wait", f"expect {verdict(other)}")

    def test_refused_file_is_no_picture(self):
        bad = self.folder / "bad.h5"
        bad.write_bytes(b"no recording")
        self.assert_fails(self.start(bad, "--screenshot", self.folder / "out.png"), "bad.h5")

    def test_screenshot_is_a_png_of_the_window(self):
        target = self.folder / "out.png"
        run = self.start(self.PATH, "--screenshot", target, "--size", "900x600")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        header = target.read_bytes()[:24]
        self.assertEqual(header[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual((int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")), (900, 600))

    def test_selection_is_written_as_the_file_has_it(self):
        self.play([self.PATH], "wait", "key 1", "key X", "wait", "expect wrote dumped", options=["--goto", "s:0,0,17,70"])
        written = np.load(self.folder / "tile-view.npy")
        with h5py.File(self.PATH) as file:
            tile = file["tiles/s"][0, 0, 0:64, 64:128].astype(np.float32)
        np.testing.assert_array_equal(written.view(np.uint32), tile.view(np.uint32))

    def test_heatmap_is_written_with_its_title_axes_and_colours(self):
        """As large as on the screen, and around it what tile-diff draws around its own."""
        self.play([self.PATH], "wait", "key F", "wait", "picture heatmap seen.png", "key E", "frames 3", "expect wrote tile-view.png")
        written, seen = self.picture("tile-view.png"), self.picture("seen.png")
        top, left, height, width = heatmap_of(written)
        self.assertEqual((height, width), seen.shape[:2])
        ink = written[..., :3].max(axis=-1) < 120
        for words in (ink[: top - 30], ink[top:top + height, : left - 10], ink[top + height + 10:]):
            self.assertGreater(words.sum(), 300)
        run = subprocess.run([TILE_DIFF, self.PATH, "--png", self.folder], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 1, run.stderr)
        heatmaps = []
        for picture in (written, self.picture("4-over_budget.png")):
            top, left, height, width = heatmap_of(picture)
            step_down, step_across = height / 64, width / 64
            heatmaps.append([[tuple(picture[int(top + (row + 0.5) * step_down), int(left + (col + 0.5) * step_across), :3])
                              for col in range(0, 64, 9)] for row in range(0, 64, 9)])
        self.assertEqual(*heatmaps)

    def test_several_dropped_files(self):
        other = SAMPLES / "causal_top_left.h5"
        view = [f"expect {verdict(self.PATH)}", "expect acc,0,0,0,0,1 of batch"]
        self.play([self.PATH], "wait", f"drop {other} {other} {other}", "frames 5", "expect 3 files were given", *view,
                  f"drop {self.folder}", "wait", f"expect {self.folder}: holds no recording", *view, "key Escape",
                  f"drop {other} {other}", "wait", "expect causal_top_left.h5 against causal_top_left.h5",
                  "expect match: ", f"drop {self.PATH}", "wait", *view)

    def test_recent_files(self):
        other = SAMPLES / "causal_top_left.h5"
        settings = self.folder / "view.json"
        self.play([self.PATH], "wait", f"drop {other}", "wait", "key O", "frames 4", f"expect {other}\n{self.PATH}\n",
                  # The list's second line.
                  "picture recent recent.png", "click recent:0.2 0.8", "wait", f"expect {verdict(self.PATH)}",
                  "expect_not Recent files", options=["--settings", settings])
        self.assertEqual(json.loads(settings.read_text())["recent"], [str(self.PATH), str(other)])
        self.play([], "key O", "frames 4", f"expect {self.PATH}\n{other}\n", "key O", "frames 4", "expect Drop a recording",
                  f"expect {self.PATH}\n{other}\n", "drop none.h5", "wait", "expect Drop a recording",
                  f"drop {self.PATH}", "wait", f"expect {verdict(self.PATH)}", "expect_not Drop a recording",
                  options=["--settings", settings])

    def test_recent_files_are_found_from_any_folder(self):
        settings = self.folder / "view.json"
        shutil.copy(self.PATH, self.folder / "a.h5")
        self.play(["a.h5"], "wait", "drop a.h5 ./a.h5", "wait", options=["--settings", settings])
        path = self.folder.resolve() / "a.h5"
        one, two = json.loads(settings.read_text())["recent"][::-1]
        self.assertEqual(pathlib.Path(one), path)
        self.assertEqual([pathlib.Path(part).resolve() for part in two.split("\n")], [path, path])
        self.assertTrue(all(part.startswith("/") for part in two.split("\n")))

    def test_clipboard(self):
        path = self.folder / "it's a run.h5"
        shutil.copy(self.PATH, path)
        name = "'" + str(path).replace("'", "'\\''") + "'"
        place = "s,0,0,17,70"
        self.play([path], "wait", "key Ctrl+C", "frames 3", f"expect_clipboard {place}",
                  f"expect_clipboard tile-diff {name} --explain-tolerance {place}", "key Ctrl+Shift+C", "frames 3",
                  f"expect_clipboard tile-view {name} --goto s:0,0,17,70", options=["--goto", "s:0,0,17,70"])

    def test_every_panel_is_written_as_png(self):
        self.play([self.PATH], "wait", "picture element element.png", "key Shift+E", "frames 3",
                  "expect wrote tile-view-header.png", "move element:0.5 0.5", "frames 3", "key Ctrl+E", "frames 3",
                  "expect wrote tile-view-element-2.png", "move -5 -5", "frames 3", "key Ctrl+E", "frames 3",
                  "expect the pointer is over no panel", options=["--size", "1600x1000"])
        panels = ["header", "map", "bad-rows", "heatmaps", "element", "tabs", "history", "status"]
        shapes = {panel: self.picture(f"tile-view-{panel}.png").shape for panel in panels}
        self.assertEqual(shapes["header"][1], 1600)
        # Side by side they fill the window, but for lines of a pixel.
        self.assertLessEqual(abs(shapes["map"][1] + shapes["heatmaps"][1] + shapes["element"][1] - 1600), 3)
        self.assertEqual(shapes["history"][1], 1600)
        self.assertLessEqual(abs(sum(shapes[name][0] for name in ("header", "heatmaps", "history", "status")) - 1000), 4)
        element = self.picture("element.png")
        for name in ("tile-view-element.png", "tile-view-element-2.png"):
            np.testing.assert_array_equal(self.picture(name), element)

    def test_file_that_is_deleted(self):
        self.watched(self.PATH, os.remove, "await the file is gone", f"expect {verdict(self.PATH)}", "key N", "frames 5",
                     "expect acc,0,0,1,0,1 of batch")

    def test_file_that_shrinks(self):
        self.watched(self.PATH, lambda path: os.truncate(path, 5000), "await before the file changed: ", "key Right", "key PageUp",
                     "frames 40", f"expect {verdict(self.PATH)}")

    def test_file_that_is_replaced_by_none(self):
        def spoil(path):
            (self.folder / "new").write_bytes(b"no recording" * 100000)
            os.replace(self.folder / "new", path)
        self.watched(self.PATH, spoil, "await is not an HDF5 file", f"expect {verdict(self.PATH)}",
                     "expect acc,0,0,0,0,1 of batch")

    def test_file_that_is_replaced_is_read_again(self):
        other = SAMPLES / "causal_top_left.h5"

        def replace(path):
            shutil.copy(other, self.folder / "new.h5")
            os.replace(self.folder / "new.h5", path)
        self.watched(self.PATH, replace, f"await {verdict(other)}", "wait", "expect s,0,0,0,1 of batch")


class SettingsFile(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def test_they_persist(self):
        # Its threads are not declared.
        path = SAMPLES / "torch_attention.h5"
        settings = self.folder / "deep" / "view.json"
        self.play([path], "wait", "key 1", "key L", "key W", "key Shift+W", "key Ctrl+W", "key Ctrl+W", "wait",
                  "expect dumped, log", "expect a warp every 32 rows, a lane every 32 columns", "resize 1300 900", "wait",
                  options=["--settings", settings])
        self.play([path], "wait", "key 1", "wait", "expect dumped, log",
                  "expect a warp every 32 rows, a lane every 32 columns", "screenshot again.png",
                  options=["--settings", settings])
        self.assertEqual(self.picture("again.png").shape, (900, 1300, 3))

    def test_what_cannot_be_read_is_left_out(self):
        settings = self.folder / "view.json"
        for text in (b"\xff\xfe{", b"[" * 100000, b'{"width": -3, "height": 1e999, "scales": 7, "recent": {"a": 1}}',
                     b'{"width": "wide", "warp_rows": 0, "scales": {"dumped": {"low": "x"}}, "recent": [1, "x.h5"]}'):
            settings.write_bytes(text)
            self.play([self.PATH], "wait", f"expect {verdict(self.PATH)}", options=["--settings", settings])

    def test_what_cannot_be_written_is_left(self):
        settings = self.folder / "view.json"
        settings.mkdir()
        self.play([self.PATH], "wait", f"expect {verdict(self.PATH)}", options=["--settings", settings])
        self.play([self.PATH], "wait", f"expect {verdict(self.PATH)}", options=["--settings", "/proc/none/view.json"])


if __name__ == "__main__":
    main()
