#!/usr/bin/env python3
"""Named tiles in tile-view: every view that needs no reference shows them.

usage: named_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import h5py
import numpy as np
from tile_view_case import TileViewCase, main, middle, verdict

import small_dump
from small_dump import B, BLOCK_M, BLOCK_N, H, HKV, SKV, SQ

Q_BLOCKS, KV_TILES = 2, 3
# Name, attributes, shape, chunk.
TILES = [
    ("rescale", dict(rows="query", cols="unit"), (B, H, KV_TILES, SQ), (1, 1, 1, BLOCK_M)),
    ("keep", dict(rows="query", cols="key"), (B, H, SQ, SKV), (1, 1, BLOCK_M, BLOCK_N)),
    ("parts", dict(rows="unit", cols="unit", row_size=2, col_size=3), (B, H, Q_BLOCKS, KV_TILES, 2, 3),
     (1, 1, 1, 1, 2, 3)),
    ("mean_k", dict(rows="key", cols="feature", col_size=5, per_q_block=False), (B, HKV, SKV, 5), (1, 1, BLOCK_N, 5)),
]


def write(path, only=small_dump.STAGES, change=None):
    """Element i of a named tile's tensor is i."""
    small_dump.write(path, only=only)
    with h5py.File(path, "r+") as file:
        file["problem"].attrs["named_tiles"] = ",".join(name for name, *_ in TILES)
        for name, attributes, shape, chunk in TILES:
            values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            file.create_dataset(f"tiles/{name}", data=values, chunks=chunk,
                                maxshape=(None,) * len(shape)).attrs.update(attributes)
        if change is not None:
            change(file)
    return path


class NamedTiles(TileViewCase):
    # Every tab, layout and quantity.
    TOUR = [*["key Tab", "wait"] * 5, *["key V", "wait"] * 3, *[f"key {i}" for i in range(1, 9)], "wait", "key L", "key F",
            "key +", "key -", "key Right", "key Down", "key ]", "key .", "key Y", "key R", "key Space",
            "drag_right heatmap:0.2 0.2 heatmap:0.8 0.8", "wait", "scroll heatmap:0.5 0.5 -40", "wait"]

    def element_of(self, path, place, value, *lines):
        """The element at the place holds the value, and nothing is expected of it."""
        self.play([path], "wait", "expect match:", f"expect {place.replace(':', ',')}", f"expect {value}",
                  "expect no reference", *lines, options=["--goto", place])

    def test_elements(self):
        path = write(self.folder / "run.h5")
        # Places in the tensors above, counted by hand.
        rescale = ((2 * KV_TILES) + 1) * SQ + 17
        self.element_of(path, "rescale:0,2,17,0,1", rescale, "expect row 17, KV tile 1 (row 1 of its")
        self.element_of(path, "keep:0,2,17,33", (2 * SQ + 17) * SKV + 33)
        self.element_of(path, "parts:0,2,1,2,2,1", (((2 * Q_BLOCKS + 1) * KV_TILES + 2) * 2 + 1) * 3 + 2)
        self.element_of(path, "mean_k:0,1,33,4", (1 * SKV + 33) * 5 + 4)

    def test_every_view_comes_up(self):
        path = write(self.folder / "run.h5")
        for name, *_ in TILES:
            self.play([path], "wait", f"click stage_{name}:0.5 0.5", "wait", f"expect {name}  batch 0", *self.TOUR,
                      "key Escape", f"click stage_{name}:0.5 0.5", "wait", f"expect {name}")

    def test_row_and_histogram(self):
        path = write(self.folder / "run.h5")
        self.play([path], "wait", "expect rescale", "expect keep, smallest to largest", "key Tab", "key Tab", "wait",
                  "expect tile of rescale: rows 16-23, columns 1-1: 8 x 1", "expect 8 elements, 0 exact, 0 zeros",
                  options=["--goto", "rescale:0,2,17,0,1"])

    def test_budget_says_that_there_is_no_reference(self):
        path = write(self.folder / "run.h5")
        self.play([path], "wait", *["key Tab"] * 3, "wait", "expect rescale is a named tile and has no reference",
                  options=["--goto", "rescale:0,2,17,0,1"])

    def test_heatmap_of_a_tile_of_the_shape_of_s(self):
        def change(file):
            file["tiles/keep"][...] = 0
            file["tiles/keep"][0, 0, 3, 5] = 1

        path = write(self.folder / "run.h5", change=change)
        self.play([path], "wait", "click stage_keep:0.5 0.5", "key F", "key 1", "wait", "picture heatmap got.png")
        picture = self.picture("got.png")
        zero = middle(picture, (SQ, SKV), 12, 20)
        for row in (2, 3, 4):
            for col in (4, 5, 6):
                same = np.array_equal(middle(picture, (SQ, SKV), row, col), zero)
                self.assertEqual(same, (row, col) != (3, 5), (row, col))

    def test_nothing_but_named_tiles(self):
        path = write(self.folder / "run.h5", only=[])
        self.play([path], "wait", "expect unjudged:", "expect only named tiles were captured",
                  "expect rescale  batch 0", "click stage_keep:0.5 0.5", "wait",
                  "expect keep  batch 0", "expect no reference", *self.TOUR)

    def test_two_runs(self):
        def change(file):
            file["tiles/rescale"][0, 2, 1, 17] += 0.5
            file["tiles/parts"][0, 1, 1, 2, 1, 0] += 2

        path, other = write(self.folder / "run.h5"), write(self.folder / "other.h5", change=change)
        said = verdict(path, other)
        self.assertIn("rescale is the first stage that differs from", said)
        self.assertIn("at batch 0, head 2, row 17, KV tile 1", said)
        self.play([path, other], "wait", f"expect {said}", "expect rescale,0,2,17,0,1", "expect other file",
                  "expect_not no reference", "click stage_parts:0.5 0.5", "wait", "key T", "wait",
                  "expect parts,0,1,1,0,2,1", *self.TOUR)


if __name__ == "__main__":
    main()
