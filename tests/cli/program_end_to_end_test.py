"""Declared kernels end to end: what follows from an earlier mistake is told from what is wrong by itself.

usage: program_end_to_end_test.py TILE_DIFF
"""

import numpy as np

import small_dump
from small_program import COLS, ROWS, STEP, computed, off_by_three_ulps, write
from tile_diff_case import TileDiffCase, main

AT = (7, 3)


def from_inputs(inputs):
    """acc after each block, and y, in float64."""
    a = inputs["a"].astype(np.float64)
    w = (inputs["w"].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    acc = np.stack([a[:, : k + STEP] @ w[:, : k + STEP].T for k in range(0, a.shape[1], STEP)])
    return acc, acc[-1] * float(inputs["c"])


class EndToEnd(TileDiffCase):
    def stages(self, *arguments):
        report = self.judge(self.file, "--no-causes", *arguments)
        return report, {stage["name"]: stage for stage in report["stages"]}

    def found(self):
        return {name: (s["state"], s["outside"], s["outside_end_to_end"], s["inherited"]) for name, s in self.stages()[1].items()}

    def test_what_is_inherited(self):
        """One element of acc is off from block 1 on: by itself there, and by that in block 2 and in y."""
        inputs, stages = computed()
        stages["acc"][(slice(1, None), *AT)] += np.float32(8)
        stages["y"] = (stages["acc"][-1] * inputs["c"]).astype(np.float16)
        write(self.file, inputs, stages)
        acc, y = from_inputs(inputs)
        off = [int((np.abs(stages[name] - expected) > 0.5).sum()) for name, expected in (("acc", acc), ("y", y))]
        self.assertEqual(off, [2, 1])
        self.assertEqual(self.found(), dict(acc=("first wrong", 1, off[0], 1), y=("inherited", 0, off[1], 1)))
        report, _ = self.stages()
        self.assertEqual((report["first_wrong"], report["first_wrong_end_to_end"]), ("acc", "acc"))
        lines = self.run_it(self.file, "--no-causes").stdout.splitlines()
        at = lines[0].split().index("inherited")
        self.assertEqual([line.split()[at] for line in lines[1:3]], ["1", "1"])

    def test_none(self):
        """Of one that stays NaN nothing is expected of the stages before it, and a number of the inputs."""
        inputs, stages = computed()
        stages["acc"][(slice(1, None), *AT)] = np.nan
        stages["y"][AT] = np.nan
        write(self.file, inputs, stages)
        self.assertEqual(self.found(), dict(acc=("first wrong", 1, 2, 1), y=("inherited", 0, 1, 1)))

    def test_nothing_to_inherit(self):
        inputs, stages = computed(added=0.25)
        for stored in (stages, dict(y=stages["y"])):
            write(self.file, inputs, stored)
            self.assertEqual(self.found()["y"], ("first wrong", ROWS * COLS, ROWS * COLS, 0))
            self.assertEqual(self.stages()[0]["first_wrong_end_to_end"], "y")
            self.assertNotIn("inherited", self.run_it(self.file, "--no-causes").stdout)

    def test_healthy(self):
        write(self.file, *computed())
        self.assertEqual(self.found(), dict(acc=("ok", 0, 0, 0), y=("ok", 0, 0, 0)))
        self.assertIsNone(self.stages()[0]["first_wrong_end_to_end"])

    def test_wrong_too(self):
        inputs, stages = computed(added=0.25)
        stages["acc"][(0, *AT)] += np.float32(8)
        write(self.file, inputs, stages)
        # Block 1 was added to what it should have been.
        self.assertEqual(self.found(), dict(acc=("first wrong", 2, 1, 0), y=("wrong", ROWS * COLS, ROWS * COLS, 0)))

    def test_within_what_rounding_may_do_from_the_inputs_on(self):
        text, inputs, stages = off_by_three_ulps()
        write(self.file, inputs, stages, text, {})
        self.assertEqual(self.found(), dict(t=("ok", 0, 0, 0), y=("first wrong", 1, 0, 0)))
        report, _ = self.stages()
        self.assertEqual((report["first_wrong"], report["first_wrong_end_to_end"]), ("y", None))
        self.assertIn("end to end nothing is wrong", self.run_it(self.file, "--no-causes").stdout)

    def test_unwritten_inherits_nothing(self):
        inputs, stages = computed()
        stages["acc"][(slice(1, None), *AT)] += np.float32(8)
        stages["y"] = stages["y"].astype(np.float32)
        stages["y"][AT] = small_dump.UNWRITTEN
        write(self.file, inputs, stages)
        self.assertEqual(self.found()["y"][1:], (1, 1, 0))


if __name__ == "__main__":
    main()
