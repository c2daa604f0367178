#!/usr/bin/env python3
"""Recordings that hold little: every view of them comes up.

usage: little_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import subprocess

import h5py
import numpy as np
from tile_view_case import FAILED, TILE_DIFF, TileViewCase, main, refusal, verdict

import small_dump


def smallest(path, value=None, stages=("q", "k", "v", "s", "m", "p", "l", "acc", "o", "lse")):
    """A dump of one row and one key, by hand: p and l are 1, and acc and o are v."""
    q, k, v = np.float32([0.5, -2, 3]).reshape(3, 1)
    score = q * k
    held = {"q": q, "k": k, "v": v, "s": score, "m": score, "p": np.float32([1]), "l": np.float32([1]), "acc": v, "o": v,
            "lse": score}
    rank = {"k": 5, "v": 5, "acc": 5, "lse": 3}
    with h5py.File(path, "w") as file:
        file.attrs.update(format="tilescope", format_version=1)
        file.create_group("problem").attrs.update(batch=1, heads=1, heads_kv=1, seqlen_q=1, seqlen_kv=1, head_dim=1,
                                                  block_m=1, block_n=1, sm_scale=np.float32(1))
        for name in "qkv":
            file[f"inputs/{name}"] = held[name].reshape(1, 1, 1, 1)
        for stage in stages:
            shape = (1,) * rank.get(stage, 4)
            data = np.full(shape, held[stage][0] if value is None else value, np.float32)
            file.create_dataset(small_dump.DATASETS[stage], data=data, chunks=shape)
        file.attrs["complete"] = 1
    return path


class LittleRecordings(TileViewCase):
    """Every tab, layout and quantity of what holds almost nothing."""

    TOUR = [*["key Tab", "frames 6"] * 4, *["key V", "frames 6"] * 3, *[f"key {i}" for i in range(1, 9)], "key L", "key L",
            "key P", "key A", "key K", "key Z", "key F", "key +", "key -", "key C", "key Right", "key Down", "key ]", "key .",
            *["key PageDown", "frames 4"] * 4, "key N", "key T", "key H", "key B", "key Y", "key R", "key U", "key Space",
            "drag_right heatmap:0.2 0.2 heatmap:0.8 0.8", "scroll heatmap:0.5 0.5 -40", "scroll heatmap:0.5 0.5 40", "wait"]

    def tour(self, path, *lines):
        self.play([path], "wait", f"expect {verdict(path)}", *self.TOUR, *lines)

    def test_one_row_and_one_key(self):
        self.tour(smallest(self.folder / "run.h5"), "expect match:")

    def test_nothing_but_nan(self):
        path = smallest(self.folder / "run.h5", np.nan)
        self.play([path], "wait", f"expect {verdict(path)}", *self.TOUR)

    def test_outputs_alone(self):
        path = self.folder / "run.h5"
        small_dump.write(path, only=["o", "lse"])
        self.play([path], "wait", "expect match:", "key PageUp", "frames 5", *["key Tab", "wait"] * 5, *["key V", "wait"] * 3,
                  "expect Map of")
        self.tour(path)

    def test_one_tile_alone(self):
        path = self.folder / "run.h5"
        values = small_dump.stages(small_dump.inputs())
        small_dump.write(path, values, only=[])
        with h5py.File(path, "r+") as file:
            s = file.create_dataset("tiles/s", values["s"].shape, np.float32, chunks=small_dump.CHUNKS["s"],
                                    fillvalue=small_dump.UNWRITTEN)
            s[0, 2, :16, 16:32] = values["s"][0, 2, :16, 16:32]
            file.create_group("capture").attrs["selection"] = "head=2:q_block=0:kv_tile=1:stage=s"
        self.tour(path, "expect match: 256 elements")

    def test_without_inputs(self):
        path = self.folder / "run.h5"
        small_dump.write(path)
        with h5py.File(path, "r+") as file:
            del file["inputs"]
        judged = subprocess.run([TILE_DIFF, path], capture_output=True, text=True)
        if judged.returncode == FAILED:
            self.assert_fails(self.start(path, "--screenshot", self.folder / "out.png"), refusal(path))
        else:
            self.tour(path)


if __name__ == "__main__":
    main()
