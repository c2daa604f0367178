"""Mutants of a sample's kernels (tests/bench/mutants): each diverges, first in the stage that differs in float64.

usage: mutants_test.py TILE_DIFF RECORD MUTANTS

RECORD has all of them; MUTANTS lists them with their stages, which `bench_mutants.py --suite` took from runs in float64.
"""

import json
import os
import pathlib
import subprocess
import sys

RECORD, MUTANTS = (pathlib.Path(sys.argv.pop(2)).resolve() for _ in range(2))

from tile_diff_case import TileDiffCase, main  # noqa: E402


class Mutants(TileDiffCase):
    def judged(self, number, call):
        run = subprocess.run([RECORD, call], cwd=self.folder, env={**os.environ, "MUTANT": str(number)}, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.judge(self.folder / f"{call}.h5", "--no-causes")

    def test_each_is_blamed_on_its_stage(self):
        mutants = json.loads(MUTANTS.read_text())
        self.assertGreaterEqual(len(mutants), 40)
        for number, mutant in enumerate(mutants):
            with self.subTest(**mutant):
                report = self.judged(number, mutant["call"])
                self.assertEqual(report["verdict"], "diverged")
                self.assertEqual(report["first_divergence"]["stage"], mutant["stage"], report["summary"])

    def test_the_kernel_as_it_is_matches(self):
        for call in ("full", "causal", "grouped", "soft_cap"):
            with self.subTest(call):
                self.assertEqual(self.judged(-1, call)["verdict"], "match")


if __name__ == "__main__":
    main()
