"""Heatmaps of the first wrong stage.

usage: png_test.py TILE_DIFF
"""

import json
import os
import pathlib
import sys

import numpy as np
import small_dump
from PIL import Image
from tile_diff_case import DIVERGED, MATCH, TileDiffCase, main

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from figure_png import heatmap_of

FILES = ["1-dumped.png", "2-expected.png", "3-difference.png", "4-over_budget.png"]


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
        pixels = read_png(folder / FILES[3])
        # 24 x 40 elements of 16 x 16 pixels each: one is over budget, and orange or red.
        top, left, height, width = heatmap_of(pixels)
        self.assertEqual((height, width), (24 * 16, 40 * 16))
        heatmap = pixels[top:top + height, left:left + width]
        rows, cols = np.nonzero(heatmap[..., 0] > heatmap[..., 2] + 50)
        self.assertEqual((rows.min() // 16, rows.max() // 16, cols.min() // 16, cols.max() // 16), (17, 17, 3, 3))
        self.assertGreater(len(rows), 200)  # The ring may touch its corners.

    def test_ring_around_the_worst_element(self):
        values = small_dump.stages(small_dump.inputs())
        values["p"][0, 2, 17, 30] = 5
        small_dump.write(self.file, values)
        self.run_it(self.file, "--png", self.folder)
        for name in FILES:
            pixels = read_png(self.folder / name)
            top, left, _, _ = heatmap_of(pixels)
            ys, xs = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
            radius = np.hypot(ys + 0.5 - (top + 17.5 * 16), xs + 0.5 - (left + 30.5 * 16))
            dark = pixels[..., :3].max(axis=-1) < 60
            found = [r for r in range(8, 40) if dark[(radius >= r) & (radius < r + 1)].all()]
            self.assertTrue(found, name)
            # Neither is there one elsewhere: all around it is as it was.
            self.assertFalse(dark[(radius > found[-1] + 8) & (radius < found[-1] + 40)].any(), name)

    def test_words_around_a_heatmap(self):
        """Ink above it for the title, left of it for rows, below it for the colours and their numbers."""
        values = small_dump.stages(small_dump.inputs())
        values["p"][0, 2, 17, 3] = np.nan
        small_dump.write(self.file, values)
        self.run_it(self.file, "--png", self.folder)
        for name in FILES:
            pixels = read_png(self.folder / name)
            self.assertTrue((pixels[..., 3] == 255).all())
            top, left, height, width = heatmap_of(pixels)
            ink = pixels[..., :3].max(axis=-1) < 120
            self.assertGreater(ink[: top - 60].sum(), 1000, name)
            self.assertGreater(ink[top:top + height, : left - 10].sum(), 100, name)
            self.assertGreater(ink[top + height + 10:].sum(), 1000, name)
            # The NaN's own colour is in the legend where it is in the picture.
            nan = np.all(pixels[..., :3] == (0xFF, 0x2B, 0xD6), axis=-1)
            self.assertEqual(nan[top + height + 10:].any(), nan[top:top + height].any(), name)
            self.assertEqual(nan.any(), name != FILES[1], name)

    def test_one_scale_for_dumped_and_expected(self):
        small_dump.write(self.file, small_dump.stages(small_dump.inputs(), p_factor=3))
        self.run_it(self.file, "--png", self.folder)
        bars = []
        for name in FILES[:2]:
            pixels = read_png(self.folder / name)
            top, left, height, width = heatmap_of(pixels)
            bars.append(pixels[top + height + 60:top + height + 90, :])
        np.testing.assert_array_equal(*bars)

    def test_lone_columns_and_rows_are_wide_enough_to_be_seen(self):
        values = small_dump.stages(small_dump.inputs())
        values["lse"][0, 1, 5] += 1
        small_dump.write(self.file, values)
        self.run_it(self.file, "--png", self.folder)
        _, _, height, width = heatmap_of(read_png(self.folder / FILES[0]))
        self.assertEqual((height, width), (24 * 16, 48))

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
        run = self.run_it("--against", other, self.file, "--png", self.folder / "pictures")
        self.assertEqual(run.returncode, DIVERGED, run.stderr)
        self.assertTrue(run.stdout.startswith("heatmaps of s of batch 0 head 1: "), run.stdout)

    def test_places_that_cannot_be_written(self):
        small_dump.write(self.file, small_dump.stages(small_dump.inputs(), p_factor=1.1))
        self.assert_one_line(self.run_it(self.file, "--png", self.file / "under"), self.file / "under")
        self.assert_one_line(self.run_it(self.file, "--png", ""), "--png")
        folder = self.folder / "pictures"
        (folder / FILES[0]).mkdir(parents=True)
        self.assert_one_line(self.run_it(self.file, "--png", folder), FILES[0])


if __name__ == "__main__":
    main()
