#!/usr/bin/env python3
"""Drives tile-view by events in a window on a display in memory.

usage: tile_view_test.py TILE_VIEW TILE_DIFF SAMPLES

What the window should show comes from tile-diff and from the files themselves, read with h5py. Exit code 77: there is no
xvfb-run.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

TILE_VIEW, TILE_DIFF, SAMPLES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
FAILED = 2


def first_divergence(path):
    """The guilty stage and its element, as tile-diff has them; None for a match."""
    run = subprocess.run([TILE_DIFF, path, "--json", "-"], capture_output=True, text=True, timeout=120)
    return json.loads(run.stdout)["first_divergence"]


def coordinates(first):
    text = "{stage},{batch},{head},{row},{col}".format(**first)
    if first["stage"] in ("m", "l", "acc"):
        text += f",{first['kv_tile']}"
    if first["stage"] in ("k", "v"):
        text += f",{first['q_block']}"
    return text


def verdict(path):
    run = subprocess.run([TILE_DIFF, path], capture_output=True, text=True, timeout=120)
    return run.stdout.splitlines()[-1]


class TileViewCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def start(self, *arguments, display=True, **options):
        environment = {**os.environ, "LIBGL_ALWAYS_SOFTWARE": "1", "HOME": str(self.folder)}
        environment.pop("WAYLAND_DISPLAY", None)
        if not display:
            environment.pop("DISPLAY", None)
        prefix = ["xvfb-run", "-a", "-s", "-screen 0 1920x1200x24"] if display else []
        return subprocess.run([*prefix, TILE_VIEW, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              env=environment, cwd=self.folder, **options)

    def script(self, lines):
        path = self.folder / "script.txt"
        path.write_text("\n".join(lines) + "\n")
        return path

    def play(self, recordings, *lines, options=()):
        """The script must come to its end: every expectation in it holds."""
        run = self.start(*recordings, "--script", self.script(lines), *options)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def assert_fails(self, run, *words):
        self.assertEqual(run.returncode, FAILED, (run.stdout, run.stderr))
        self.assertTrue(run.stderr.startswith("tile-view: "), run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)


class Opening(TileViewCase):
    def test_every_diverging_sample_opens_at_its_first_divergence(self):
        judged = 0
        for path in sorted(SAMPLES.glob("*.h5")):
            first = first_divergence(path)
            if first is None:
                continue
            judged += 1
            with self.subTest(sample=path.name):
                self.play([path], "wait", f"expect {verdict(path)}", f"expect {coordinates(first)} of batch",
                          f"expect Bad rows of {first['stage']}:")
        self.assertGreater(judged, 5)

    def test_healthy_sample_says_so(self):
        path = SAMPLES / "healthy_scalar.h5"
        self.play([path], "wait", f"expect {verdict(path)}", "key Home", "expect nothing diverges")

    def test_goto(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.play([path], "wait", "expect s,0,0,17,70 of batch", options=["--goto", "s:0,0,17,70"])

    def test_pair(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.play([path, path], "wait", "expect acc_not_rescaled.h5 against acc_not_rescaled.h5", "expect match:")


class Looking(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def test_element_holds_what_the_file_holds(self):
        with h5py.File(self.PATH) as file:
            value = np.float32(file["tiles/s"][0, 0, 17, 70])
        bits = f"0x{value.view(np.uint32):08x}"
        self.play([self.PATH], "wait", f"expect {bits}", options=["--goto", "s:0,0,17,70"])

    def test_keys_move_the_element(self):
        self.play([self.PATH], "wait", "key Right", "key Down", "wait", "expect s,0,0,18,71 of batch", "key Shift+Left",
                  "wait", "expect s,0,0,18,7 of batch", "key ]", "wait", "expect s,0,0,18,7 of batch",
                  options=["--goto", "s:0,0,17,70"])

    def test_next_and_previous_bad_row(self):
        rows = json.loads(subprocess.run([TILE_DIFF, self.PATH, "--json", "-"], capture_output=True, text=True).stdout)
        self.assertEqual(rows["first_divergence"]["row"], 0)
        self.play([self.PATH], "wait", "key N", "wait", "expect acc,0,0,1,0,1 of batch", "key Shift+N", "wait",
                  "expect acc,0,0,0,0,1 of batch", "key Shift+N", "wait", "expect acc,0,0,63,0,1 of batch")

    def test_click_selects_and_wheel_and_drag_move_the_view(self):
        self.play([self.PATH], "wait", "key F", "wait", "click heatmap:0.999 0.999", "wait", "move 5 5", "frames 2",
                  "expect s,0,0,63,191 of batch", "click heatmap:0.001 0.001", "wait", "move 5 5", "frames 2",
                  "expect s,0,0,0,0 of batch", "scroll heatmap:0.001 0.001 12", "wait",
                  "click heatmap:0.999 0.999", "wait", "move 5 5", "frames 2", "expect_not s,0,0,63,191 of batch",
                  options=["--goto", "s:0,0,5,5"])

    def test_click_on_the_map_goes_there(self):
        self.play([self.PATH], "wait", "click map_picture:0.97 0.2", "move 5 5", "wait", "expect acc,0,0,0,0,2 of batch")

    def test_held_key_shows_what_is_expected(self):
        self.play([self.PATH], "wait", "key 1", "wait", "expect KV tile 1   dumped", "key_down Space", "wait",
                  "expect KV tile 1   expected", "key_up Space", "wait", "expect KV tile 1   dumped")

    def test_text_typed_into_a_field_runs_no_command(self):
        self.play([self.PATH], "wait", "key J", "frames 4", "type s:0,0,3,9", "key N", "key Enter", "wait",
                  "expect s,0,0,3,9 of batch")

    def test_help_lists_the_keys(self):
        self.play([self.PATH], "wait", "expect_not next bad row", "key ?", "expect next bad row", "key Escape",
                  "expect_not next bad row")

    def test_tabs_show_what_was_counted(self):
        self.play([self.PATH], "wait", "key Tab", "wait", "expect acc, relative to the row's largest", "key Tab", "wait",
                  "expect 4096 elements", "key Tab", "wait", "expect tolerance")


class Files(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def test_dropped_file_that_is_refused_leaves_the_view(self):
        bad = self.folder / "bad.h5"
        bad.write_bytes(b"no recording")
        refused = subprocess.run([TILE_DIFF, bad], capture_output=True, text=True)
        line = refused.stderr.removeprefix("tile-diff: ").strip()
        self.play([self.PATH], "wait", f"drop {bad}", "wait", f"expect {line}", f"expect {verdict(self.PATH)}",
                  "expect acc,0,0,0,0,1 of batch", "key Escape", "wait", f"expect_not {line}")

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

    def test_heatmap_is_written_as_png(self):
        self.play([self.PATH], "wait", "key E", "frames 3", "expect wrote tile-view.png")
        self.assertTrue((self.folder / "tile-view.png").is_file())

    def test_file_that_is_replaced_is_read_again(self):
        path = self.folder / "run.h5"
        shutil.copy(self.PATH, path)
        marker = self.folder / "first.png"
        environment = {**os.environ, "LIBGL_ALWAYS_SOFTWARE": "1"}
        other = SAMPLES / "causal_top_left.h5"
        script = self.script(["wait", f"screenshot {marker}", *["frames 200"] * 12, "wait", f"expect {verdict(other)}"])
        process = subprocess.Popen(["xvfb-run", "-a", TILE_VIEW, path, "--script", script], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not marker.exists() and process.poll() is None:
            pass
        shutil.copy(other, self.folder / "new.h5")
        os.replace(self.folder / "new.h5", path)
        _, complaint = process.communicate(timeout=300)
        self.assertEqual((process.returncode, complaint), (0, ""))


class Refusals(TileViewCase):
    def test_no_display(self):
        run = self.start(SAMPLES / "acc_not_rescaled.h5", display=False)
        self.assert_fails(run, "no display", "xvfb-run", "--screenshot")
        self.assertEqual(run.stderr.count("\n"), 1)

    def test_script_with_an_unknown_event(self):
        self.assert_fails(self.start("--script", self.script(["wait", "dance"])), "script.txt:2", "dance")

    def test_expectation_that_fails(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.assert_fails(self.start(path, "--script", self.script(["wait", "expect purple"])), "purple", "script.txt:2")

    def test_wrong_options(self):
        for arguments in (["--size", "big"], ["--scale", "9"], ["--what"], ["a.h5", "b.h5", "c.h5"]):
            self.assert_fails(self.start(*arguments))


if __name__ == "__main__":
    if shutil.which("xvfb-run") is None:
        print("xvfb-run is not installed; ./dev setup installs it")
        sys.exit(77)
    del sys.argv[1:4]
    unittest.main()
