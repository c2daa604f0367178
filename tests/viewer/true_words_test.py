#!/usr/bin/env python3
"""What the window says of a recording is so: states, colours, the place that is described, and a file that changes.

usage: true_words_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import os
import time

import h5py
import numpy as np
from tile_view_case import SAMPLES, TileViewCase, judged, main, middle, slow_outputs, verdict

import small_dump


def colours_of(picture):
    return {tuple(pixel) for pixel in picture.reshape(-1, 3)}


def inherited(path, stage):
    return next(found["inherited"] for found in judged(path)["stages"] if found["name"] == stage)

# The two colours of its pattern, as oracle/heatmap/colour.h shows them.
NOT_CAPTURED = {(0x2A, 0x20, 0x18), (0x15, 0x12, 0x0F)}


class States(TileViewCase):
    def test_inherited_errors_and_a_mouse_at_rest(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        count = inherited(path, "o")
        self.assertGreater(count, 4000)
        self.play([path], "wait", "expect o (inherited)  batch 0", f"expect 0 outside, {count} inherited",
                  "expect finding\ninherited", "expect end to end", "picture heatmap o.png", "picture map_picture map.png",
                  "picture swatch_inherited swatch.png",
                  # The pointer comes to rest over the heatmap: keys move what is described all the same.
                  "move heatmap:0.9 0.9", "wait", "expect Element under the pointer\no,0,0,57,57 of batch", "key Home", "wait",
                  "expect Element\nacc,0,0,0,0,1 of batch", "expect_not Element under", "key Right", "key Down", "wait",
                  "expect Element\nacc,0,0,1,1,1 of batch", "move heatmap:0.905 0.9", "wait", "expect Element under the pointer",
                  "move map_picture:0.1 0.1", "wait", "expect q block 0 KV tile 0\n", "key .", "wait",
                  "expect q block 0 KV tile 2\n", options=["--goto", "o:0,0,17,20"])
        swatch = colours_of(self.picture("swatch.png"))
        # All but 9 of 4096 elements inherit an error; none of them has a colour of the scale.
        for name, share in (("o.png", 0.95), ("map.png", 0.5)):
            pixels = self.picture(name).reshape(-1, 3)
            self.assertGreater(np.mean([tuple(pixel) in swatch for pixel in pixels]), share, name)

    def test_infinities_have_their_own_colour_and_threads_are_those_declared(self):
        path = self.folder / "run.h5"
        values = small_dump.stages(small_dump.inputs())
        values["s"][0, 0, 3, 5], values["s"][0, 0, 9, 20] = -np.inf, np.inf
        small_dump.write(path, values, only=["s"])
        with h5py.File(path, "r+") as file:
            # A lane owns two columns next to each other, and eight rows are a warp's.
            file["tiles/s"].attrs.update(fragment="lanes", lanes=4, lane_columns=2)
        shape = (small_dump.SQ, small_dump.SKV)
        kinds = ["-Inf", "+Inf"]
        self.play([path], "wait", "key F", "wait", *[f"picture swatch_{kind} {kind}.png" for kind in kinds],
                  *[line for key, name in (("4", "over"), ("5", "ulps"), ("6", "relative"))
                    for line in (f"key {key}", "wait", f"picture heatmap {name}.png")],
                  "picture map_picture map.png", "key M", "key G", "key W", "wait",
                  "expect as the recording declares the threads of s", "expect_not a grid",
                  "picture heatmap threads.png", options=["--goto", "s:0,0,12,30"])
        swatches = {kind: colours_of(self.picture(f"{kind}.png")) for kind in kinds}
        for name in ("over", "ulps", "relative"):
            picture = self.picture(f"{name}.png")
            self.assertIn(tuple(middle(picture, shape, 3, 5)), swatches["-Inf"], name)
            self.assertIn(tuple(middle(picture, shape, 9, 20)), swatches["+Inf"], name)
        # Heads lie side by side; the tiles of the first are 2 x 3.
        cells = colours_of(self.picture("map.png"))
        self.assertTrue(cells & swatches["-Inf"])
        blue = np.array([0, 210, 255])
        picture = self.picture("threads.png")
        height, width = picture.shape[0] / shape[0], picture.shape[1] / shape[1]

        def thickness(row, col):
            """Pixels of a line of threads at an edge between elements."""
            y, x = int(row * height), int(col * width)
            around = picture[y - 2:y + 4, x] if row % 1 == 0 else picture[y, x - 2:x + 4]
            return int((abs(around - blue).max(axis=1) < 90).sum())

        # A lane has two columns, each row has lanes of its own, and after eight rows or a tile another warp begins.
        self.assertEqual([thickness(1.5, col) for col in range(1, 12)], [col % 2 == 0 for col in range(1, 12)])
        self.assertEqual([thickness(row, 10.5) for row in range(1, 16)], [3 if row == 8 else 1 for row in range(1, 16)])

    def test_threads_that_are_not_declared_are_a_grid(self):
        path = small_dump.write(self.folder / "run.h5", only=["s"])
        self.play([path], "wait", "key W", "frames 3", "expect a grid, as no threads of s are declared")

    def test_no_verdict_has_a_colour_of_its_own(self):
        values = small_dump.stages(small_dump.inputs())
        right = small_dump.write(self.folder / "right.h5", values, only=["s"])
        values["s"] = values["s"].astype(np.float16).astype(np.float32)
        rounded = small_dump.write(self.folder / "rounded.h5", values, only=["s"])
        colours = []
        for path, words in ((right, "match: "), (rounded, "unjudged: ")):
            self.play([path], "wait", f"expect {words}", "screenshot whole.png")
            # The line of the verdict, at its most.
            line = self.picture("whole.png")[24:44, :600].reshape(-1, 3).astype(int)
            colours.append(tuple(line[np.argmax(line.sum(axis=1))]))
        self.assertGreater(colours[0][1], colours[0][0], "a match is green")
        self.assertGreater(colours[1][0], colours[1][1], "no verdict is not")

    def test_what_is_not_judged_yet(self):
        path = slow_outputs(self.folder / "run.h5")
        self.play([path], "await being judged", "expect batch 0 head 3 q block 31\nnot judged yet", "key Escape",
                  "await batch 0 head 3 q block 31\nnot judged\n", "frames 4", "expect_not was not captured",
                  "picture map_picture map.png", "picture swatch_not_judged judged.png", options=["--threads", "1", "--goto", "o:0,3,2047,0"])
        seen = colours_of(self.picture("map.png"))
        self.assertTrue(seen & colours_of(self.picture("judged.png")))
        self.assertFalse(seen & NOT_CAPTURED)


class WrittenOver(TileViewCase):
    PATH = SAMPLES / "healthy_scalar.h5"

    def written_over(self, change, *lines):
        self.watched(self.PATH, change, *lines, first=[f"expect {verdict(self.PATH)}"])

    @staticmethod
    def write_over(path, data):
        """In its place, as cp does."""
        with open(path, "r+b") as file:
            file.write(data)
            file.truncate()

    def test_by_a_shorter_recording(self):
        other = SAMPLES / "causal_top_left.h5"
        self.assertLess(os.path.getsize(other), os.path.getsize(self.PATH))
        data = other.read_bytes()

        def change(path):
            # Not at once: half of it is no recording.
            self.write_over(path, data[:len(data) // 2])
            time.sleep(1.5)
            self.write_over(path, data)
        self.written_over(change, f"await {verdict(other)}", "wait", "expect s,0,0,0,1 of batch", f"expect_not {verdict(self.PATH)}")

    def test_by_none(self):
        self.written_over(lambda path: self.write_over(path, b"no recording" * 200),
                          f"await before the file changed: {verdict(self.PATH)}", "await is not an HDF5 file", "frames 30",
                          f"expect before the file changed: {verdict(self.PATH)}")


class Places(TileViewCase):
    def test_a_place_that_is_not_there_is_refused(self):
        path = small_dump.write(self.folder / "run.h5", only=["s", "o"])
        for place, *words in (("s:0,0,24,0", "row 24 is outside the problem", "0 to 23"),
                              ("acc:0,0,0,0", "acc was not recorded", "s, o"),
                              ("zz:0,0,0,0", 'there is no stage "zz"', "name one of")):
            run = self.start(path, "--goto", place, "--screenshot", "out.png")
            self.assert_fails(run, f"--goto {place}: ", *words)
            self.assertEqual(run.stderr.count("\n"), 1)
            self.assertFalse((self.folder / "out.png").exists())


if __name__ == "__main__":
    main()
