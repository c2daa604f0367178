"""What the guards of the kernel `stable` do: nothing where they have nothing to do, and where they bite tile-diff blames
the stage they sit in, at the first row that an independent computation from the recorded inputs names.

usage: guards_test.py TILE_RUN TILE_DIFF
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

TILE_RUN, TILE_DIFF = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
LISTED = json.loads(subprocess.run([TILE_RUN, "list", "--json"], capture_output=True, check=True).stdout)
STABLE = next(kernel for kernel in LISTED["kernels"] if kernel["name"] == "stable")
LEAST_EXPONENT = -80
SHAPES = {"": "1,2,70,130,64", "--causal": "1,2,96,96,64"}


def scores_of(file, masked):
    """[head][query][key] from the inputs, -inf where a key is not visible."""
    q, k = (file[f"inputs/{name}"][0].astype("f8") for name in "qk")
    with numpy.errstate(invalid="ignore"):
        scores = q @ k.transpose(0, 2, 1) / 8
    if masked:
        queries, keys = scores.shape[1:]
        visible = numpy.arange(keys) <= numpy.arange(queries)[:, None] + keys - queries
        scores = numpy.where(visible, scores, -numpy.inf)
    return scores


def clamped_cells(scores, block_n):
    """Cells whose distance to the running maximum of their tile is beyond the clamp."""
    cells, running = [], numpy.full(scores.shape[:2], -numpy.inf)
    for first in range(0, scores.shape[2], block_n):
        tile = scores[:, :, first:first + block_n]
        running = numpy.maximum(running, tile.max(axis=2))
        cells.append(numpy.isfinite(tile) & (tile - running[:, :, None] < LEAST_EXPONENT))
    return numpy.concatenate(cells, axis=2)


class Guards(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.file = pathlib.Path(scratch.name) / "run.h5"

    def judge(self, *arguments, kernel="stable"):
        run = subprocess.run([TILE_RUN, "record", "--kernel", kernel, "--engine", "cpu", *arguments, "-o", self.file],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        run = subprocess.run([TILE_DIFF, self.file, "--json", "-"], capture_output=True, text=True)
        return json.loads(run.stdout)

    def assert_blamed(self, report, stage, row):
        found = report["first_divergence"]
        self.assertEqual((found["stage"], found["head"], found["row"]), (stage, 0, row), report["summary"])

    def outside(self, report):
        return {stage["name"]: stage["outside"] for stage in report["stages"] if stage["outside"]}

    def test_they_do_nothing_to_finite_scores_that_are_close(self):
        for config in STABLE["configs"]:
            for number, kind in enumerate(("random", "ramped", "distinct_v", "negative", "ties")):
                options = ["--config", config["config"], "--shape", f"1,4,49,100,{config['head_dim']}", "--heads-kv", "2",
                           "--causal", "--seed", str(number), "--input", kind]
                with self.subTest(" ".join(options)):
                    report = self.judge(*options)
                    self.assertEqual(report["verdict"], "match", report.get("summary"))
                    self.assertEqual(self.outside(report), {})

    def test_the_clamp_is_blamed_on_p(self):
        for mask, shape in SHAPES.items():
            for kind in ("needle", "large"):
                with self.subTest(mask=mask, kind=kind):
                    report = self.judge("--shape", shape, *mask.split(), "--input", kind)
                    with h5py.File(self.file) as file:
                        cells = clamped_cells(scores_of(file, bool(mask)), 64)
                    self.assertGreater(cells.sum(), 100)
                    self.assert_blamed(report, "p", int(numpy.nonzero(cells[0].any(axis=1))[0][0]))
                    # And on it alone: o is right, and hides it.
                    self.assertEqual(self.outside(report), {"p": int(cells.sum())})

    def test_masked_infinities_are_blamed_on_s(self):
        report = self.judge("--shape", "1,2,70,130,64", "--input", "non_finite")
        with h5py.File(self.file) as file:
            scores = scores_of(file, False)
        infinite = numpy.isposinf(scores)
        self.assert_blamed(report, "s", int(numpy.nonzero(infinite[0].any(axis=1))[0][0]))
        self.assertEqual(self.outside(report), {"s": int(infinite.sum())})

    def test_an_epsilon_that_is_too_large_is_blamed_on_o(self):
        report = self.judge("--shape", "1,2,96,96,64", "--causal", "--fault", "epsilon_too_large")
        with h5py.File(self.file) as file:
            acc, l = (file[f"tiles/{name}"][0, :, -1].astype("f8") for name in ("acc", "l"))
            first = file["tiles/acc"][0, :, 0, :64].astype("f8"), file["tiles/l"][0, :, 0, :64].astype("f8")
            o = file["outputs/o"][0].astype("f8")
        # Rows below 64 end with KV tile 0 in their first two query blocks.
        acc[:, :64], l[:, :64] = first
        exact = acc / l[:, :, None]
        wrong = (acc / (l[:, :, None] + 1e-3)).astype("f2")
        self.assertTrue((wrong == o).mean() > 0.99)
        beyond = numpy.abs(wrong.astype("f8") - exact) > 0.51 * numpy.spacing(numpy.abs(exact).astype("f2"))
        self.assert_blamed(report, "o", int(numpy.nonzero(beyond[0].any(axis=1))[0][0]))
        self.assertEqual(list(self.outside(report)), ["o"])

    def test_without_guards_the_same_inputs_match(self):
        for kind in ("needle", "large", "non_finite"):
            with self.subTest(kind):
                report = self.judge("--shape", "1,2,70,130,64", "--input", kind, kernel="scalar")
                self.assertEqual(report["verdict"], "match", report.get("summary"))


if __name__ == "__main__":
    unittest.main()
