#!/usr/bin/env python3
"""The tab of causes, and the layer that shows the replay of the chosen one.

usage: causes_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import h5py
import numpy as np
from tile_view_case import SAMPLES, TileViewCase, judged, main, middle

import small_dump

UNIT = 2.0**-24  # unit roundoff of float32


def percent(share):
    return f"{np.floor(share * 1e4) / 100:.4g} %"


class Replays(TileViewCase):
    searches_causes = True
    PATH = SAMPLES / "acc_not_rescaled.h5"
    PLACE = ["--goto", "acc:0,0,5,7,1", "--size", "1100x700"]

    def not_rescaled(self):
        """The second KV tile's acc of a kernel that adds to the acc before as it is; and what rounding may do to it."""
        with h5py.File(self.PATH) as file:
            p = file["tiles/p"][0, 0, :, 64:128].astype(np.float16).astype(float)
            v = file["tiles/v"][0, 0, 0, 64:128].astype(float)
            before, acc = (file["tiles/acc"][0, 0, tile].astype(float) for tile in (0, 1))
        # 64 products and a sum, each of them rounded.
        bound = 65 * UNIT * (np.abs(before) + np.abs(p) @ np.abs(v))
        return before + p @ v, bound, acc

    def test_first_row_of_the_table(self):
        (cause,) = judged(self.PATH)["causes"]
        shares = [percent(cause[f"explained_{when}"]) for when in ("before", "after")]
        # The first of three KV tiles has nothing to rescale.
        self.assertEqual(shares, ["33.33 %", "100 %"])
        self.play([self.PATH], "wait", "expect_not cause 1 ", "key D", "wait",
                  f"expect cause 1 acc_not_rescaled   acc   {cause['family']}   33.33 % -> 100 %   everywhere\n",
                  f"expect {cause['says']}\n", f"expect look at: {cause['look_at']}\n",
                  "expect Of 12288 elements a replay without the mistake explains 33.33 %, with it 100 %.\n",
                  "expect_not explain it alike")

    def test_what_to_declare(self):
        path = SAMPLES / "lse_base2.h5"
        ((name, value),) = judged(path)["declare"]["assignments"].items()
        declare = f"declare: {name} = {value}; then it matches\n"
        # The card has it in its sentence, the tab in a line of its own.
        self.play([path], "wait", f"expect : {declare}", f"expect_not \n{declare}", "key D", "wait", f"expect \n{declare}")

    def test_layer_holds_what_the_mistake_gives(self):
        self.play([self.PATH], "wait", "key 7", "wait", "expect KV tile 1   replayed", "key X", "wait", "key 2", "key X", "wait",
                  options=self.PLACE)
        replayed, healthy = (np.load(self.folder / name).astype(float) for name in ("tile-view.npy", "tile-view-2.npy"))
        wrong, bound, dumped = self.not_rescaled()
        np.testing.assert_array_less(np.abs(replayed - wrong), bound)
        np.testing.assert_array_less(np.abs(dumped - wrong), bound)
        self.assertGreater((np.abs(healthy - wrong) > 100 * bound).mean(), 0.9)

    def test_element_says_what_is_replayed_beside_what_is_expected(self):
        wrong, bound, dumped = self.not_rescaled()
        first = judged(self.PATH)["first_divergence"]
        # Whatever layer is shown; the 5 digits are those of both.
        replayed = f"replayed\n{wrong[0, 0]:.5g}"
        self.assertLess(bound[0, 0], 1e-4)
        for key in ("1", "7", "8"):
            self.play([self.PATH], "wait", f"key {key}", "wait", "expect acc,0,0,0,0,1 of batch", "expect finding\noutside\n",
                      f"expect expected\n{first['expected']:.5f}", f"expect {replayed}")

    def test_layers_are_flipped(self):
        self.play([self.PATH], "wait", "key 1", "wait", "picture heatmap dumped.png", "key_down Shift+Space", "wait",
                  "expect   replayed\n", "picture heatmap flipped.png", "key_up Shift+Space", "key 7", "wait",
                  "picture heatmap replayed.png", "key_down Space", "wait", "expect   dumped\n", "picture heatmap back.png",
                  "key_up Space", "key 2", "wait", "picture heatmap expected.png", options=self.PLACE)
        dumped, flipped, replayed, back, expected = (
            self.picture(f"{name}.png") for name in ("dumped", "flipped", "replayed", "back", "expected"))
        np.testing.assert_array_equal(flipped, replayed)
        np.testing.assert_array_equal(back, dumped)
        # What differs by rounding has the same colour but for a step of the scale.
        self.assertLessEqual(np.abs(replayed - dumped).max(), 8)
        self.assertGreater(np.abs(expected - dumped).max(), 50)

    def test_unexplained_is_within_the_budget(self):
        self.play([self.PATH], "wait", "key F", "key 4", "wait", "picture heatmap budget.png", "key 8", "wait",
                  "expect KV tile 1   unexplained", "picture heatmap unexplained.png", options=self.PLACE)
        budget, unexplained = self.picture("budget.png"), self.picture("unexplained.png")
        orange = {"budget": 0, "unexplained": 0}
        for row in range(2, 64):
            for col in range(64):
                for name, picture in (("budget", budget), ("unexplained", unexplained)):
                    red, _, blue = middle(picture, (64, 64), row, col)
                    orange[name] += red > blue
        self.assertGreater(orange["budget"], 0.9 * 62 * 64)
        # The cursor's row has a line of another colour, but not in the middle of its elements.
        self.assertEqual(orange["unexplained"], 0)

    def test_stages_that_the_replay_is_not_of(self):
        self.play([self.PATH], "wait", "key 7", "key PageUp", "key PageUp", "wait", "expect Map of p", "expect the replay is of acc",
                  "key X", "wait", "expect the replay is of acc", "key V", "key V", "wait",
                  "expect the replay is of acc", "expect acc  KV tile 1   replayed")


class States(TileViewCase):
    searches_causes = True

    def dump(self, change):
        values = small_dump.stages(small_dump.inputs())
        change(values)
        path = self.folder / "run.h5"
        small_dump.write(path, values)
        return path

    def without_causes(self, recordings, why):
        self.play(recordings, "wait", "key D", "wait", f"expect {why}\n", "expect_not cause 1", "key D", "key Shift+D", "key 7",
                  "wait", f"expect nothing is replayed: {why}", "key X", "wait", "expect_not waiting for the values",
                  "expect_not wrote")

    def test_nothing_diverges(self):
        self.without_causes([SAMPLES / "healthy_scalar.h5"], "nothing diverges")

    def test_no_search(self):
        self.searches_causes = False
        self.without_causes([SAMPLES / "acc_not_rescaled.h5"], "no causes are searched (--no-causes)")

    def test_two_recordings(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.without_causes([path, path], "two recordings: nothing says which of them is wrong")

    def test_backward_pass(self):
        self.play([SAMPLES / "torch_backward_group_overwritten.h5"], "wait", "key D", "wait",
                  "expect cause 1 group_not_summed", "key D", "key 7", "wait",
                  "expect Map of dk", "expect_not nothing is replayed")

    def test_no_known_cause(self):
        rng = np.random.default_rng(11)

        def spoil(values):
            values["p"] += rng.standard_normal(values["p"].shape).astype(np.float32)
        self.without_causes([self.dump(spoil)], "no known cause explains this")

    def test_places_alone(self):
        rng = np.random.default_rng(11)

        def spoil(values):
            values["p"][0, 1] += rng.standard_normal(values["p"][0, 1].shape).astype(np.float32)
        self.play([self.dump(spoil)], "wait", "key D", "wait", "expect cause 1 one_head (head 1)   p", "expect of the places",
                  "expect one head alone is wrong", "expect known to no replay", "key 7", "wait",
                  "expect one_head (head 1): only its places are known, nothing can be replayed")

    def test_ties(self):
        path = SAMPLES / "nan_times_zero.h5"
        names = [cause["name"] for cause in judged(path)["causes"] if cause["rank"] == 1]
        self.assertEqual(len(names), 2)
        self.play([path], "wait", "key D", "wait", *[f"expect cause 1= {name} (" for name in names], "expect 1= explain it alike.")

    def test_further_faults(self):
        def spoil(values):
            values["s"] *= np.float32(2)
            values["lse"] *= np.float32(np.log2(np.e))
        path = self.dump(spoil)
        base = "cause then lse_in_other_base"
        then = len(judged(path)["causes"]) + 1  # its line, below those of the first
        self.play([path], "wait", "key D", "wait", "expect cause 1 score_constant   s", "expect Then, beside the first",
                  f"expect {base}", "expect legal if it is meant", "key 7", "wait", "expect s (FIRST WRONG)  batch 0  head 0   replayed",
                  f"click cause_{then}:0.5 0.5", "wait", "expect Map of lse", "expect lse (wrong too)  batch 0  head 0   replayed", "key X", "wait",
                  "key D", "wait", "expect Map of s", "expect s (FIRST WRONG)  batch 0  head 0   replayed",
                  options=["--goto", "s:0,0,0,0"])
        # The tile at the cursor, from m and l: the log-sum-exp to base 2.
        with h5py.File(path) as file:
            m, l = (file[f"tiles/{name}"][0, 0, 2, :16].astype(float) for name in "ml")
        lse = (m + np.log(l)) * np.log2(np.e)
        np.testing.assert_allclose(np.load(self.folder / "tile-view.npy").ravel(), lse, rtol=0, atol=8 * UNIT * np.abs(lse).max())


if __name__ == "__main__":
    main()
