#!/usr/bin/env python3
"""How the heads stand on the map of tile-view: in groups, with names, zoomed and moved.

usage: map_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

from unittest import mock

import h5py
import numpy as np
from tile_view_case import SAMPLES, TileViewCase, main

import small_dump


class Map(TileViewCase):
    def dump(self, batch, heads, heads_kv, gone=()):
        """Of the heads in `gone` no scores were recorded."""
        path = self.folder / "run.h5"
        with mock.patch.multiple(small_dump, B=batch, H=heads, HKV=heads_kv):
            values = small_dump.stages(small_dump.inputs())
            small_dump.write(path, values, only=[stage for stage in small_dump.STAGES if stage != "s"])
            with h5py.File(path, "r+") as file:
                stored = file.create_dataset("tiles/s", values["s"].shape, np.float32, chunks=small_dump.CHUNKS["s"],
                                             fillvalue=small_dump.UNWRITTEN)
                for head in set(range(heads)) - set(gone):
                    stored[:, head] = values["s"][:, head]
        return path

    def size_of(self, name):
        height, width = self.picture(f"{name}.png").shape[:2]
        return np.array((width, height))

    def test_heads_of_a_kv_head_stand_under_its_name(self):
        self.play([self.dump(1, 8, 2)], "wait", "expect \nkv head 0\n", "expect \nkv head 1\n", "expect_not \nkv head 2\n",
                  "expect_not \nbatch 0\n",
                  *(line for head in range(8) for line in (f"move map_head_{head}:0.5 0.5", "frames 3", f"expect batch 0 head {head} ")),
                  options=["--goto", "s:0,0,0,0"])

    def test_batch_entries_have_names(self):
        self.play([self.dump(2, 4, 2)], "wait", "expect \nbatch 0, kv head 0\n", "expect \nbatch 1, kv head 1\n",
                  "click map_head_7:0.5 0.5", "wait", "expect s,1,3,", options=["--goto", "s:0,0,0,0", "--size", "1920x1000"])
        self.play([self.dump(3, 2, 2)], "wait", "expect \nbatch 0\n", "expect \nbatch 2\n", "expect_not kv head",
                  options=["--goto", "s:0,0,0,0"])

    def test_narrow_groups_have_short_names(self):
        self.play([self.dump(2, 16, 8)], "wait", "expect \nb0 kv0\n", "expect \nb1 kv7\n",
                  options=["--goto", "s:0,0,0,0", "--size", "1000x1000"])

    def test_one_head_has_no_name(self):
        self.play([SAMPLES / "acc_not_rescaled.h5"], "wait", "expect Map of acc", "expect_not kv head", "expect_not \nbatch 0\n")

    def test_heads_that_were_not_captured_are_told(self):
        self.play([self.dump(1, 8, 2, gone=(6, 7))], "wait", "expect \n6 not captured\n", "expect \n7 not captured\n",
                  "expect_not \n5 not captured\n", "picture map_head_5 there.png", "picture map_head_6 gone.png",
                  "move map_head_6:0.5 0.5", "frames 3", "expect batch 0 head 6 ", "expect \nnot captured\n", "key PageDown", "wait",
                  "expect_not 6 not captured", options=["--goto", "s:0,0,0,0"])
        there, gone = ({tuple(pixel) for pixel in self.picture(name).reshape(-1, 3).tolist()} for name in ("there.png", "gone.png"))
        self.assertFalse(there & gone)

    def test_wheel_zooms_and_button_drags(self):
        self.play([self.dump(1, 8, 2)], "wait", "picture map_head_5 before.png", "scroll map_head_5:0.9 0.9 6", "wait",
                  "picture map_head_5 zoomed.png", "expect batch 0 head 5 q block 1 KV tile 2\n",
                  # What the button went down on stays under the pointer.
                  "move map_picture:0.4 0.4", "frames 3", "expect batch 0 head 5 q block 1 KV tile 1\n",
                  "drag map_picture:0.4 0.4 map_picture:0.6 0.7", "wait", "expect batch 0 head 5 q block 1 KV tile 1\n",
                  "move map_picture:0.4 0.4", "frames 3", "expect_not batch 0 head 5 q block 1 KV tile 1\n",
                  "move 5 5", "key F", "wait", "picture map_head_5 after.png",
                  options=["--goto", "s:0,5,0,0", "--size", "1600x1000"])
        before, zoomed, after = (self.size_of(name) for name in ("before", "zoomed", "after"))
        self.assertEqual(after.tolist(), before.tolist())
        self.assertGreater((zoomed / before).min(), 1.5)

    def test_cursor_is_seen_where_the_map_has_no_room_for_all(self):
        self.play([self.dump(1, 64, 8)], "wait", "picture map_head_0 first.png", "key [", "wait", "expect batch 0 head 63 ",
                  "picture map_head_63 last.png", "key ]", "wait", "picture map_head_0 first.png", options=["--goto", "s:0,0,0,0"])


if __name__ == "__main__":
    main()
