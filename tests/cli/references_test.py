"""What tile-diff says about references that h5py appended to a dump.

usage: references_test.py TILE_DIFF
"""

import pathlib

import h5py
import numpy as np

import small_dump
from tile_diff_case import DIVERGED, MATCH, TileDiffCase, main


def attention(given, hidden=0):
    """o and lse in float64; the last `hidden` keys are left out."""
    q = given["q"].astype(np.float64)
    k, v = (np.repeat(given[name].astype(np.float64), small_dump.H // small_dump.HKV, axis=1) for name in "kv")
    keys = small_dump.SKV - hidden
    s = (q @ k[:, :, :keys].swapaxes(2, 3)) * np.float64(small_dump.SCALE)
    lse = np.logaddexp.reduce(s, axis=-1)
    return np.exp(s - lse[..., None]) @ v[:, :, :keys], lse


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


class References(TileDiffCase):
    def setUp(self):
        super().setUp()
        self.given = small_dump.inputs()
        self.o, self.lse = attention(self.given)
        small_dump.write(self.file, given=self.given)

    def append(self, name, o=None, lse=None, **attributes):
        with h5py.File(self.file, "r+") as f:
            for output, values in (("o", o), ("lse", lse)):
                if values is not None:
                    f[f"references/{name}/{output}"] = values
                    for key, value in attributes.items():
                        f[f"references/{name}/{output}"].attrs[key] = value

    def text(self, code):
        run = self.run_it(self.file, "--no-causes")
        self.assertEqual((run.returncode, run.stderr), (code, ""))
        # Where the tolerances come from stands between the references and the verdict.
        return [line for line in run.stdout.splitlines() if not line.startswith("tolerances ")]

    def test_there_are_none(self):
        before = self.text(MATCH)
        report = self.judge(self.file)
        self.assertEqual((report["references"], report["closest_reference"]), ([], None))
        self.append("math", self.o.astype(np.float16))
        after = self.text(MATCH)
        self.assertEqual([line for line in after if line not in before], after[-3:-1])
        self.assertEqual(after[-3], "right references: math")
        self.assertTrue(after[-2].startswith("closest reference: math (rms difference "), after[-2])

    def test_numbers(self):
        half = self.o.astype(np.float16)
        noisy = (self.o * (1 + 1e-4)).astype(np.float32)
        self.append("noisy", noisy, dtype="f16")
        self.append("rounded", half, self.lse.astype(np.float32))
        report = self.judge(self.file)
        self.assertEqual(report["verdict"], "match")
        with h5py.File(self.file) as f:
            kernel = f["outputs/o"][:].astype(np.float64)
        for reference, name, values in zip(report["references"], ("noisy", "rounded"), (noisy, half)):
            self.assertEqual(reference["name"], name)
            found = reference["o"]
            self.assertEqual((found["dtype"], found["compared"], found["outside"], found["nonfinite"]),
                             ("f16", self.o.size, 0, 0))
            self.assertIsNone(found["first"])
            values = values.astype(np.float64)
            np.testing.assert_allclose(found["rms"], rms(values - self.o), rtol=1e-5)
            np.testing.assert_allclose(found["max_abs"], np.abs(values - self.o).max(), rtol=1e-5)
            self.assertEqual(found["kernel"]["compared"], self.o.size)
            np.testing.assert_allclose(found["kernel"]["rms"], rms(values - kernel), rtol=1e-6)
            np.testing.assert_allclose(found["kernel"]["max_abs"], np.abs(values - kernel).max(), rtol=1e-6)
            np.testing.assert_allclose(found["kernel"]["kernel_to_oracle_rms"], rms(kernel - self.o), rtol=1e-5)
            np.testing.assert_allclose(found["kernel"]["reference_to_oracle_rms"], rms(values - self.o),
                                       rtol=1e-5)
        self.assertIsNone(report["references"][0]["lse"])
        lse = report["references"][1]["lse"]
        self.assertEqual((lse["log_base"], lse["compared"], lse["outside"]), ("e", self.lse.size, 0))
        distances = [rms(values.astype(np.float64) - kernel) for values in (noisy, half)]
        self.assertEqual(report["closest_reference"], ("noisy", "rounded")[int(np.argmin(distances))])

    def test_wrong_reference(self):
        wrong = self.o.astype(np.float16)
        wrong[0, 1, 3, 0] = np.nan
        wrong[0, 3, 2, 5] += 1
        wrong[0, 3, 23, 15] = np.inf
        self.append("math", wrong)
        report = self.judge(self.file)
        self.assertEqual(report["verdict"], "match")
        found = report["references"][0]["o"]
        self.assertEqual((found["outside"], found["nonfinite"]), (3, 2))
        first = found["first"]
        self.assertEqual([first[key] for key in ("batch", "head", "row", "col", "got")], [0, 1, 3, 0, "nan"])
        np.testing.assert_allclose(first["expected"], self.o[0, 1, 3, 0], rtol=1e-12)
        self.assertEqual(found["kernel"]["nonfinite"], 2)
        # It cannot be compared everywhere.
        self.assertIsNone(report["closest_reference"])
        line = self.text(MATCH)[-2]
        self.assertRegex(
            line, r"^reference math: wrong in 3 of 1536 elements of o, first at batch 0, head 1, row 3, column 0: "
            r"got nan, expected [-0-9.e]+ \+- [-0-9.e]+$")

    def test_lse_in_base_two(self):
        base_two = (self.lse / np.log(2)).astype(np.float32)
        self.append("right", lse=base_two, log_base="2")
        self.append("undeclared", lse=base_two)
        report = self.judge(self.file)
        self.assertEqual([reference["lse"]["outside"] for reference in report["references"]], [0, self.lse.size])
        self.assertEqual([reference["o"] for reference in report["references"]], [None, None])

    def test_wrong_kernel_that_agrees_with_a_wrong_reference(self):
        hidden, _ = attention(self.given, hidden=5)
        small_dump.write(self.file, {"o": hidden.astype(np.float16)}, self.given)
        self.append("careless", hidden.astype(np.float16))
        self.append("flash", self.o.astype(np.float16))
        report = self.judge(self.file)
        self.assertEqual(report["verdict"], "diverged")
        self.assertEqual(report["closest_reference"], "careless")
        lines = self.text(DIVERGED)
        self.assertIn("right references: flash", lines)
        self.assertTrue(lines[-2].startswith("closest reference: careless, which is wrong (rms difference 0; "),
                        lines[-2])

    def test_bad_reference(self):
        self.append("math", self.o[:, :, 1:].astype(np.float16))
        self.assert_refused("/references/math/o", "has shape [1, 4, 23, 16] where /problem asks for [1, 4, 24, 16]")

    def test_pairs_say_nothing_of_them(self):
        self.append("math", self.o.astype(np.float16) + 1)
        run = self.run_it("--against", self.file, self.file)
        self.assertEqual(run.returncode, MATCH)
        self.assertNotIn("reference", run.stdout)


class Recorded(TileDiffCase):
    def test_references_that_pytorch_computed_on_a_gpu(self):
        sample = pathlib.Path(__file__).resolve().parents[2] / "samples" / "torch_attention.h5"
        report = self.judge(sample)
        self.assertEqual(report["verdict"], "match")
        outside = {reference["name"]: reference["o"]["outside"] for reference in report["references"]}
        self.assertEqual((outside["flash"], outside["math"]), (0, 0))
        self.assertGreater(outside["broken"], 0)
        self.assertIn(report["closest_reference"], ("flash", "math"))


if __name__ == "__main__":
    main()
