"""--print-program: attention as the text of a declared kernel, by which its tiles are judged as the recording is.

usage: print_program_test.py TILE_DIFF
"""

import ast
import pathlib
import re

import h5py
import numpy as np

import small_program
from tile_diff_case import DIVERGED, MATCH, TileDiffCase, main

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "samples"
INPUTS = {"q": "Q", "k": "K", "v": "V"}
STATES = ("m", "l", "acc")


class PrintProgram(TileDiffCase):
    def printed(self, path):
        run = self.run_it(path, "--print-program")
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        return run.stdout

    def declared(self, path, text):
        """The same call in a file of a declared kernel: states have their blocks first."""
        sizes = ast.literal_eval(text.splitlines()[0].removeprefix("# sizes="))
        with h5py.File(path) as f:
            inputs = {of: np.asarray(f["inputs"][name]) for name, of in INPUTS.items()}
            stages = {name: np.asarray(tile) for group in ("tiles", "outputs") for name, tile in f[group].items()}
        stages.update({name: np.moveaxis(stages[name], 2, 0) for name in STATES if name in stages})
        small_program.write(self.file, inputs, stages, text, sizes)

    def test_tiles_are_judged_by_the_text_as_the_recording_is(self):
        for sample in ("healthy_scalar", "acc_not_rescaled", "tail_counted", "head_modulo", "exp_clamped"):
            with self.subTest(sample):
                path = SAMPLES / f"{sample}.h5"
                self.declared(path, self.printed(path))
                runs = [self.run_it(of, "--no-causes") for of in (path, self.file)]
                self.assertEqual(runs[0].returncode, MATCH if sample == "healthy_scalar" else DIVERGED)
                self.assertEqual(runs[1].returncode, runs[0].returncode, runs[1].stdout + runs[1].stderr)
                self.assertEqual(*(re.findall(r"^diverged: (\w+) is the first wrong stage", run.stdout, re.M) for run in runs))

    def test_a_declared_kernel_has_its_own_text(self):
        small_program.write(self.file, *small_program.computed())
        with h5py.File(self.file) as f:
            self.assertEqual(self.printed(self.file), f["program"].attrs["text"])

    def test_a_question_stands_alone(self):
        run = self.run_it(SAMPLES / "healthy_scalar.h5", "--print-program", "--suggest")
        self.assertEqual(run.returncode, 2)


if __name__ == "__main__":
    main()
