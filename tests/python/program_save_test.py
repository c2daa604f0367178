#!/usr/bin/env python3
"""tilescope.Program.save(): files as dump/FORMAT.md has them, which tile-diff judges as Python does.

usage: program_save_test.py FOLDER-OF-THE-PACKAGE FOLDER-OF-SAMPLES TILE_DIFF
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

sys.path.insert(0, sys.argv.pop(1))
SAMPLES = pathlib.Path(sys.argv.pop(1))
TILE_DIFF = sys.argv.pop(1)
sys.path.insert(0, str(SAMPLES))
import judge as sample_judge  # noqa: E402
import programs  # noqa: E402
import tilescope  # noqa: E402

TEXT = "axes i: n; k: m by step\ninput x[i, k]: f16; e[i]: e4m3; c\nstage s[i] over k = s + sum(k: x)\nstage y[i]: f16 = s * e * c\noutput y"


class ProgramSaveTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.path = self.folder / "run.h5"

    def judge(self, path):
        run = subprocess.run([TILE_DIFF, path, "--json", "-"], capture_output=True, text=True)
        report = json.loads(run.stdout)
        self.assertEqual(run.returncode, ["match", "diverged", "unjudged"].index(report["verdict"]), run.stderr)
        return report

    def test_samples_come_out_as_in_python(self):
        for sample in sorted(SAMPLES.glob("*.npz")):
            with self.subTest(sample=sample.stem):
                sample_judge.save(sample, self.folder)
                expected = sample_judge.judge(sample)
                report = self.judge(self.folder / (sample.stem + ".h5"))
                self.assertEqual((report["kernel"], report["first_wrong"]), (sample.stem, expected.first_wrong))
                self.assertEqual([(s["name"], s["compared"], s["outside"]) for s in report["stages"]],
                                 [(s.name, s.compared, s.outside) for s in expected.stages])
                self.assertEqual([cause["rewrites"][0]["becomes"] for cause in report["causes"]],
                                 [mistake.becomes for mistake in expected.mistakes])

    def test_every_program(self):
        for name, kernel in programs.ALL.items():
            with self.subTest(name):
                inputs = kernel.draw(np.random.default_rng(3))
                tilescope.Program(kernel.text).save(self.path, inputs, kernel.run(inputs))
                self.assertEqual(self.judge(self.path)["verdict"], "match")

    def test_what_h5py_reads(self):
        x = np.arange(12, dtype=np.float16).reshape(3, 4)
        e = np.array([0x38, 0x40, 0xC4], np.uint8)  # 1, 2 and -3
        s = np.stack([x[:, :3].sum(axis=1), x.sum(axis=1)]).astype(np.float32)
        y = (s[-1] * np.array([1, 2, -3]) * 0.5).astype(np.float16)
        # In memory that is not one piece, and another order of bytes.
        tilescope.Program(TEXT).save(str(self.path), {"x": np.asfortranarray(x), "e": e, "c": 0.5}, {"s": s.astype(">f4"), "y": y},
                                     sizes={"step": 3}, dtypes={"e": "e4m3"}, kernel="little")
        with h5py.File(self.path) as f:
            self.assertEqual((f.attrs["format"], f.attrs["complete"], f.attrs["kernel"]), ("tilescope", 1, "little"))
            self.assertEqual(f["program"].attrs["text"], TEXT)
            self.assertEqual(dict(f["program/sizes"].attrs), {"step": 3})
            for where, values in (("inputs/x", x), ("inputs/e", e), ("inputs/c", np.float32(0.5)), ("stages/s", s), ("stages/y", y)):
                stored = f["program/" + where]
                self.assertEqual((stored.shape, stored.dtype), (values.shape, values.dtype), where)
                np.testing.assert_array_equal(stored[()], values)
        self.assertEqual(self.judge(self.path)["verdict"], "match")

    def test_nothing_is_written_that_could_not_be_judged(self):
        program = tilescope.Program("axes i: n\ninput x[i]\nstage y[i] = x + x\noutput y")
        x = np.ones(4, np.float32)
        for inputs, stored, sizes, word in [
            ({}, {"y": x}, {}, "x"),
            ({"x": x, "z": x}, {"y": x}, {}, "z"),
            ({"x": x.astype(np.float16)}, {"y": x}, {}, "x"),
            ({"x": x}, {"y": x[:2]}, {}, "y"),
            ({"x": x}, {"z": x}, {}, "z"),
            ({"x": x}, {"y": x}, {"m": 4}, "m"),
            ({"x": x}, {"y": x}, {"n": 5}, "n"),
        ]:
            with self.subTest(word), self.assertRaisesRegex(tilescope.Error, f"^{word}:"):
                program.save(self.path, inputs, stored, sizes=sizes)
        with self.assertRaises(tilescope.Error):
            program.save(self.folder / "nowhere" / "run.h5", {"x": x}, {"y": x})
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_other_readers_say_what_it_is(self):
        x = np.ones(4, np.float32)
        tilescope.Program("axes i: n\ninput x[i]\nstage y[i] = x + x\noutput y").save(self.path, {"x": x}, {"y": x + x})
        with self.assertRaisesRegex(tilescope.Error, "declared kernel"):
            tilescope.open(self.path)


if __name__ == "__main__":
    unittest.main()
