"""Heatmaps of the first wrong stage.

usage: png_test.py TILE_DIFF
"""

import json
import os

import numpy as np
import small_dump
from PIL import Image
from tile_diff_case import DIVERGED, MATCH, TileDiffCase, main

FILES = ["difference.png", "dumped.png", "expected.png", "over_budget.png"]


def read_png(path):
    """Rows of RGBA pixels."""
    with Image.open(path) as picture:
        assert (picture.format, picture.mode) == ("PNG", "RGBA")
        return np.asarray(picture).astype(int)


class Heatmaps(TileDiffCase):
    def test_match_writes_nothing_and_says_so(self):
        small_dump.write(self.file)
        run = self.run_it(self.file, "--png", self.folder / "pictures")
        self.assertEqual(run.returncode, MATCH)
        self.assertTrue(run.stdout.startswith("heatmaps: none, since no stage diverges\n"), run.stdout)
        self.assertFalse((self.folder / "pictures").exists())

    def test_four_pictures_of_the_guilty_stage(self):
        values = small_dump.stages(small_dump.inputs())
        values["p"][0, 2, 17, 3] = 5
        small_dump.write(self.file, values)
        folder = self.folder / "pictures"
        run = self.run_it(self.file, "--png", folder)
        self.assertEqual(run.returncode, DIVERGED, run.stderr)
        first = run.stdout.split("\n")[0]
        self.assertTrue(first.startswith("heatmaps of p of batch 0 head 2: "), first)
        self.assertEqual(sorted(os.listdir(folder)), FILES)
        for name in FILES:
            self.assertIn(str(folder / name), first)
        pixels = read_png(folder / "over_budget.png")
        # 24 x 40 elements of 16 x 16 pixels each: one is over budget, and orange or yellow.
        self.assertEqual(pixels.shape, (24 * 16, 40 * 16, 4))
        over = pixels[..., 0] > pixels[..., 2] + 50
        rows, cols = np.nonzero(over)
        self.assertEqual((rows.min() // 16, rows.max() // 16, cols.min() // 16, cols.max() // 16), (17, 17, 3, 3))
        self.assertEqual(over.sum(), 256)

    def test_json_stays_json(self):
        values = small_dump.stages(small_dump.inputs(), p_factor=1.1)
        small_dump.write(self.file, values)
        run = self.run_it(self.file, "--png", self.folder / "pictures", "--json", "-")
        self.assertEqual(json.loads(run.stdout)["verdict"], "diverged")
        self.assertEqual(sorted(os.listdir(self.folder / "pictures")), FILES)

    def test_against_another_recording(self):
        other = self.folder / "other.h5"
        small_dump.write(self.file)
        values = small_dump.stages(small_dump.inputs())
        values["s"][0, 1, 2, 3] += 1
        small_dump.write(other, values)
        run = self.run_it(self.file, other, "--png", self.folder / "pictures")
        self.assertEqual(run.returncode, DIVERGED, run.stderr)
        self.assertTrue(run.stdout.startswith("heatmaps of s of batch 0 head 1: "), run.stdout)

    def test_places_that_cannot_be_written(self):
        small_dump.write(self.file, small_dump.stages(small_dump.inputs(), p_factor=1.1))
        self.assert_one_line(self.run_it(self.file, "--png", self.file / "under"), self.file / "under")
        self.assert_one_line(self.run_it(self.file, "--png", ""), "--png")
        folder = self.folder / "pictures"
        (folder / "dumped.png").mkdir(parents=True)
        self.assert_one_line(self.run_it(self.file, "--png", folder), "dumped.png")


if __name__ == "__main__":
    main()
