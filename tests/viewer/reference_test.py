#!/usr/bin/env python3
"""Against what the stages before give, or against what the inputs alone give: heatmap, map, table and element.

usage: reference_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import h5py
import numpy as np
from tile_view_case import SAMPLES, TileViewCase, judged, main


def attention(path):
    """o of one head without a mask, in float64, from the inputs alone."""
    with h5py.File(path) as file:
        q, k, v = (file[f"inputs/{name}"][0, 0].astype(float) for name in "qkv")
        dumped = file["outputs/o"][0, 0].astype(float)
        scale = float(file["problem"].attrs["sm_scale"])
    scores = q @ k.T * scale
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)) @ v, dumped


class References(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"
    O = ["--goto", "o:0,0,5,7"]

    def test_end_to_end_is_what_the_inputs_give(self):
        expected, dumped = attention(self.PATH)
        inherited = next(stage["inherited"] for stage in judged(self.PATH)["stages"] if stage["name"] == "o")
        self.play([self.PATH], "wait", "expect Map of o\n", "expect_not Bad rows of o: 64", "key 2", "wait", "key X", "wait", "key I", "wait",
                  "expect Map of o end to end\n", f"expect , {inherited} outside\n", "expect Bad rows of o: 64", "expect outside\n",
                  "expect expected end to end, linear", "key X", "wait", "key 4", "wait", "expect over budget end to end, log",
                  "key I", "wait", "expect_not end to end,", "expect finding\ninherited\n", options=self.O)
        local, end_to_end = (np.load(self.folder / name).astype(float) for name in ("tile-view.npy", "tile-view-2.npy"))
        np.testing.assert_allclose(end_to_end, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        # o is right for the acc that was dumped, but for its rounding to float16.
        np.testing.assert_allclose(local, dumped, rtol=2**-10, atol=2**-24)
        self.assertGreater(np.abs(dumped - expected).max(), 0.1)

    def test_a_stage_that_inherits_nothing_is_the_same_either_way(self):
        lines = ["key 3", "wait", "picture heatmap local.png", "key I", "wait", "picture heatmap whole.png"]
        self.play([SAMPLES / "healthy_scalar.h5"], "wait", *lines, options=["--goto", "v:0,0,5,7"])
        np.testing.assert_array_equal(self.picture("local.png"), self.picture("whole.png"))

    def test_two_recordings_have_no_end_to_end(self):
        self.play([self.PATH, self.PATH], "wait", "key I", "expect two recordings: there is no end to end", "expect_not Map of o end",
                  options=self.O)


if __name__ == "__main__":
    main()
