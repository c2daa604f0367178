#!/usr/bin/env python3
"""Compares the pixels and numbers that tile-view shows with the values in the file, read with h5py.

usage: picture_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import json
import shutil

import h5py
import numpy as np
from tile_view_case import SAMPLES, TileViewCase, main, middle

import small_dump

# Ends of ColorBrewer's RdBu in 11 classes, and of Matplotlib's viridis.
DARK_BLUE, DARK_RED = (5, 48, 97), (103, 0, 31)
DARK_VIOLET, YELLOW = (68, 1, 84), (253, 231, 37)
CONFLICT = (240, 140, 90)


def cell(picture, shape, row, col):
    """The pixels of one element of a matrix that fills the picture, without those at its edges."""
    height, width = picture.shape[0] / shape[0], picture.shape[1] / shape[1]
    inside = picture[round(row * height) + 2:round((row + 1) * height) - 2,
                     round(col * width) + 2:round((col + 1) * width) - 2]
    return inside.reshape(-1, 3)


def colours(pixels):
    return {tuple(pixel) for pixel in pixels.tolist()}


class Colours(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def heatmap(self, path, *keys, goto="s:0,0,63,191", settings=None):
        """The pane with the whole plane; the cursor is in a corner."""
        self.play([path], "wait", "key F", *keys, "key G", "wait", "picture heatmap pane.png",
                  options=["--goto", goto, "--size", "1100x700", *(["--settings", settings] if settings else [])])
        return self.picture("pane.png")

    def scores(self):
        with h5py.File(self.PATH) as file:
            return file["tiles/s"][0, 0].astype(float)

    def test_signs_and_extremes_of_every_score(self):
        s = self.scores()
        self.assertTrue((s > 0).any() and (s < 0).any())
        picture = self.heatmap(self.PATH, "key 1")
        largest = np.abs(s).max()
        wrong = []
        # The cursor's rim covers what is next to the corner.
        for row in range(s.shape[0] - 3):
            for col in range(s.shape[1] - 3):
                red, _, blue = middle(picture, s.shape, row, col)
                if abs(s[row, col]) > 0.1 * largest and (red > blue) != (s[row, col] > 0):
                    wrong.append((row, col))
        self.assertEqual(wrong, [])
        row, col = np.unravel_index(np.abs(s).argmax(), s.shape)
        end = DARK_RED if s[row, col] > 0 else DARK_BLUE
        self.assertLessEqual(np.abs(middle(picture, s.shape, row, col) - end).max(), 3)

    def test_values_of_one_sign_run_from_dark_to_bright(self):
        with h5py.File(self.PATH) as file:
            p = file["tiles/p"][0, 0].astype(float)
        self.assertGreaterEqual(p.min(), 0)
        picture = self.heatmap(self.PATH, "key 1", goto="p:0,0,63,191")
        for place, end in ((p[:-3, :-3].argmax(), YELLOW), (p[:-3, :-3].argmin(), DARK_VIOLET)):
            row, col = np.unravel_index(place, (p.shape[0] - 3, p.shape[1] - 3))
            self.assertLessEqual(np.abs(middle(picture, p.shape, row, col) - end).max(), 3, (row, col))

    def test_fixed_range_has_the_ends_of_the_colour_map(self):
        s = self.scores()
        settings = self.folder / "view.json"
        low, high = np.percentile(s, [20, 80])
        settings.write_text(json.dumps({"scales": {"dumped": {"kind": 0, "colours": 0, "automatic": False,
                                                              "low": low, "high": high}}}))
        picture = self.heatmap(self.PATH, "key 1", f"expect {low:.4g}", f"expect {high:.4g}", settings=settings)
        for row, col in np.argwhere(s[:-1, :-1] < low)[::37]:
            self.assertLessEqual(np.abs(middle(picture, s.shape, row, col) - DARK_VIOLET).max(), 3, (row, col))
        for row, col in np.argwhere(s[:-1, :-1] > high)[::37]:
            self.assertLessEqual(np.abs(middle(picture, s.shape, row, col) - YELLOW).max(), 3, (row, col))

    def test_difference_over_budget_changes_colour_at_1(self):
        # acc is right in KV tile 0, and wrong in every element of tile 1.
        for tile, outside in ((0, False), (1, True)):
            picture = self.heatmap(self.PATH, "key 4", goto=f"acc:0,0,63,63,{tile}")
            for row in range(0, 63, 9):
                red, _, blue = middle(picture, (64, 64), row, row)
                self.assertEqual(red > blue, outside, (tile, row))

    def test_picture_that_is_kept_is_of_what_was_chosen_last(self):
        """Its values are known from the first time: only the picture is made anew."""
        for keys, back in ((["key F"], []), (["key 1"], ["key 4"]), (["key PageUp"], ["key PageDown"]),
                           (["key V"], ["key V", "key V"])):
            self.play([self.PATH], "wait", "move 5 5", *keys, "wait", *back, "wait", *keys, "picture heatmap soon.png", "wait", "picture heatmap later.png",
                      options=["--goto", "s:0,0,63,191"])
            np.testing.assert_array_equal(self.picture("soon.png"), self.picture("later.png"), str(keys))

    def test_scale_and_clip_are_in_the_legend_and_change_the_picture(self):
        s = self.scores()
        self.play([self.PATH], "wait", "key F", "key 1", "wait", "expect dumped, linear", f"expect {np.abs(s).max():.4g}",
                  "picture heatmap linear.png", "key L", "key L", "wait", "expect dumped, symlog",
                  "picture heatmap symlog.png", "key L", "wait", "expect dumped, linear", "key P", "key P", "wait",
                  f"expect_not \n{np.abs(s).max():.4g}\n", "picture heatmap clipped.png",
                  options=["--goto", "s:0,0,63,191", "--size", "1100x700"])
        linear, symlog, clipped = (self.picture(f"{name}.png") for name in ("linear", "symlog", "clipped"))
        row, col = np.unravel_index(np.abs(np.abs(s) / np.abs(s).max() - 0.3).argmin(), s.shape)
        paleness = [middle(picture, s.shape, row, col).sum() for picture in (linear, symlog, clipped)]
        self.assertGreater(paleness[0], paleness[1])
        self.assertGreater(paleness[0], paleness[2])


class Patterns(TileViewCase):
    """Elements that are no numbers have the pattern that the legend shows."""

    PLACES = {"NaN": (0, 20), "+Inf": (2, 4), "-Inf": (4, 30), "unwritten": (6, 2)}
    SHAPE = (small_dump.SQ, small_dump.SKV)

    def dump(self):
        values = small_dump.stages(small_dump.inputs())
        s = values["s"][0, 1]
        for value, place in zip((np.nan, np.inf, -np.inf), self.PLACES.values()):
            s[place] = value
        s.view(np.uint32)[self.PLACES["unwritten"]] = small_dump.UNWRITTEN.view(np.uint32)
        path = self.folder / "run.h5"
        small_dump.write(path, values, only=[stage for stage in small_dump.STAGES if stage != "s"])
        with h5py.File(path, "r+") as file:
            stored = file.create_dataset("tiles/s", values["s"].shape, np.float32, chunks=small_dump.CHUNKS["s"],
                                         fillvalue=small_dump.UNWRITTEN)
            captured = np.ones(values["s"].shape, bool)
            captured[0, 1, 16:, 32:] = False
            for head in range(small_dump.H):
                for row in range(0, small_dump.SQ, 16):
                    for keys in small_dump.KV_TILES:
                        if captured[0, head, row, keys.start]:
                            stored[0, head, row:row + 16, keys] = values["s"][0, head, row:row + 16, keys]
            file.create_group("capture").attrs["selection"] = "head=0,2-3"
            group = file.create_group("capture/p")
            group["conflicts"] = np.array([[0, 1, 1, 1, 3]], np.int64)
        return path

    def test_each_kind_has_its_own(self):
        path = self.dump()
        kinds = [*self.PLACES, "not captured"]
        self.play([path], "wait", "key F", "key 1", "key G", "wait", "picture heatmap pane.png",
                  *[f"picture swatch_{kind.replace(' ', '_')} {kind.replace(' ', '_')}.png" for kind in kinds],
                  options=["--goto", "s:0,1,15,0", "--size", "1600x1000"])
        picture = self.picture("pane.png")
        shown = {}
        for kind in kinds:
            row, col = self.PLACES.get(kind, (20, 36))
            swatch = colours(self.picture(kind.replace(" ", "_") + ".png")[1:-1, 1:-1].reshape(-1, 3))
            shown[kind] = colours(cell(picture, self.SHAPE, row, col))
            self.assertEqual(shown[kind], swatch, kind)
            self.assertEqual(len(swatch), 2, kind)
        self.assertEqual(len({frozenset(value) for value in shown.values()}), len(kinds))

    def test_map_has_the_worst_kind_of_each_tile_and_a_cross_for_conflicts(self):
        path = self.dump()
        self.play([path], "wait", "picture map_picture s.png", "picture swatch_NaN nan.png", "key PageDown", "key PageDown",
                  "wait", "expect Map of p", "picture map_picture p.png", options=["--goto", "s:0,1,0,20"])
        nan = colours(self.picture("nan.png")[1:-1, 1:-1].reshape(-1, 3))
        self.assertLessEqual(nan, colours(self.picture("s.png").reshape(-1, 3)))
        self.assertNotIn(CONFLICT, colours(self.picture("s.png").reshape(-1, 3)))
        self.assertIn(CONFLICT, colours(self.picture("p.png").reshape(-1, 3)))

    def ring(self, value=None):
        """Of the circle where a ring stands around one element of s: the brightest and the darkest of each place's neighbourhood."""
        path = self.folder / "run.h5"
        shutil.copy(SAMPLES / "healthy_scalar.h5", path)
        with h5py.File(path, "r+") as file:
            s = file["tiles/s"]
            rows, cols = s.shape[2:]
            if value is not None:
                s[0, 0, 40, 100] = value
        count = [] if value is None or not np.isnan(value) else ["expect \nNaN 1\n"]
        self.play([path], "wait", "key F", "key G", "key M", "wait", *count, "picture heatmap pane.png",
                  options=["--goto", "s:0,0,0,0", "--size", "1600x1000"])
        picture = self.picture("pane.png")
        middle = np.array([100.5 * picture.shape[1] / cols, 40.5 * picture.shape[0] / rows])
        around = np.array([[np.cos(angle), np.sin(angle)] for angle in np.linspace(0, 2 * np.pi, 24, endpoint=False)])
        # Of text of 14 pixels the circle has a radius of 1.1 times that and a half of its own breadth.
        places = [picture[y - 2:y + 3, x - 2:x + 3].mean(axis=-1) for x, y in np.rint(middle + 16.9 * around).astype(int)]
        return [place.max() for place in places], [place.min() for place in places]

    def test_a_lone_nan_is_counted_and_has_a_ring_that_leads_to_it(self):
        for value in (np.nan, np.inf):
            white, black = self.ring(value)
            self.assertGreater(min(white), 200)
            self.assertLess(max(black), 60)
        white, _ = self.ring()
        self.assertLess(max(white), 150)

    def test_the_cursor_is_seen_on_every_colour(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        with h5py.File(path) as file:
            s = file["tiles/s"][0, 0].astype(float)
        inside = np.s_[3:-3, 3:-3]
        places = [np.unravel_index(found, s[inside].shape) for found in
                  (s[inside].argmin(), s[inside].argmax(), np.abs(s[inside]).argmin())]
        for row, col in ((row + 3, col + 3) for row, col in places):
            maps = [line for i in range(3) for line in (f"picture heatmap {i}.png", "key K", "wait")]
            self.play([path], "wait", "key F", "key 1", "key G", "wait", *maps, options=["--goto", f"s:0,0,{row},{col}", "--size", "1600x1000"])
            for i in range(3):
                picture = self.picture(f"{i}.png")
                height, width = picture.shape[0] / s.shape[0], picture.shape[1] / s.shape[1]
                top, left = int(row * height), int(col * width)
                light = picture[top - 6:top + int(height) + 7, left - 6:left + int(width) + 7].mean(axis=-1)
                beside = np.median(np.concatenate([light[0], light[-1]]))
                self.assertGreater((abs(light[1:-1] - beside) > 100).sum(), 2 * (height + width), (i, row, col))


if __name__ == "__main__":
    main()
