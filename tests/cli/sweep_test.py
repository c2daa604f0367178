"""tile-run sweep on the CPU: what it runs, how it counts, and how a failure is reproduced.

usage: sweep_test.py TILE_RUN
"""

import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TILE_RUN = pathlib.Path(sys.argv.pop(1)).resolve()
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
SMALL = ["--engine", "cpu", "--shape", "1,2,33,70,64"]


class Sweep(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()

    def sweep(self, *arguments, program=TILE_RUN):
        return subprocess.run([program, "sweep", *arguments], capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, **NO_GPU, "TMPDIR": str(self.temporary)})

    def assert_refused(self, arguments, *words, program=TILE_RUN):
        run = self.sweep(*arguments, program=program)
        self.assertEqual(run.returncode, 2, (arguments, run.stdout, run.stderr))
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)

    def test_healthy_kernels_pass_every_case(self):
        run = self.sweep(*SMALL, "--csv", "cases.csv", "--jobs", "2")
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        with open(self.folder / "cases.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        # Two kernels run on the CPU; three masks, three seeds.
        self.assertEqual(run.stdout.splitlines()[-1], "sweep: 18 passed of 18")
        self.assertIn("left out: wmma: it runs on a GPU only", run.stdout)
        self.assertEqual(len(rows), 18)
        self.assertEqual({row["kernel"] for row in rows}, {"scalar", "stable"})
        self.assertEqual({row["mask"] for row in rows}, {"none", "causal_top_left", "causal_bottom_right"})
        self.assertEqual(len({(row["kernel"], row["seed"]) for row in rows}), 18)
        for row in rows:
            self.assertEqual((row["verdict"], row["first_wrong_stage"], row["dtype"]), ("match", "", "f16"))
            # s alone has 2 x 33 x 70 cells where nothing is masked.
            self.assertGreater(int(row["compared"]), 4620 if row["mask"] == "none" else 1000)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_a_planted_fault_fails_and_its_command_reproduces_it(self):
        run = self.sweep(*SMALL, "--kernel", "scalar", "--fault", "lse_base2", "--json")
        self.assertEqual((run.returncode, run.stderr), (1, ""), run.stdout)
        report = json.loads(run.stdout)
        self.assertEqual((report["passed"], report["run"], report["unjudged"]), (0, 9, 0))
        for case in report["cases"]:
            self.assertEqual((case["verdict"], case["first_wrong_stage"]), ("diverged", "lse"))
        again = subprocess.run(report["first_failure"], shell=True, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertIn("diverged: lse is the first wrong stage", again.stdout)
        self.assertIn(report["cases"][0]["summary"], again.stdout)

    def test_the_text_ends_with_the_count_and_gives_the_first_failure(self):
        run = self.sweep(*SMALL, "--kernel", "scalar", "--fault", "causal_top_left")
        self.assertEqual(run.returncode, 1)
        lines = run.stdout.splitlines()
        # Unseen without a mask, and where the diagonal belongs at the top left.
        self.assertEqual(lines[-1], "sweep: 6 passed of 9")
        self.assertRegex(lines[-2], r"^first failure: \S+/tile-run record .* -o \S+\.h5 && \S+/tile-diff \S+\.h5$")
        self.assertIn("--causal-alignment bottom_right", lines[-2])

    def test_the_whole_sweep_of_a_kernel_has_a_hundred_cases(self):
        run = self.sweep("--engine", "cpu", "--kernel", "scalar", "--time-budget", "0.001", "--json")
        report = json.loads(run.stdout)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertGreaterEqual(report["planned"], 100)
        self.assertEqual(report["run"], report["passed"])
        self.assertLess(report["run"], 5)
        self.assertIn("--shape 2,8,512,512,64", report["cases"][0]["command"])
        text = self.sweep("--engine", "cpu", "--kernel", "scalar", "--time-budget", "0.001").stdout
        self.assertIn(f"the budget left no time for {report['planned'] - report['run']} more", text)

    def test_what_cannot_be_judged_is_no_pass(self):
        program, judge = self.folder / "tile-run", self.folder / "tile-diff"
        shutil.copy(TILE_RUN, program)
        # A tile-diff that says nothing: nothing was compared.
        for script in ("exit 0", "echo '{\"verdict\": \"match\"}' > $3", "kill -9 $$"):
            with self.subTest(script):
                judge.write_text(f"#!/bin/sh\n{script}\n")
                judge.chmod(0o755)
                run = self.sweep(*SMALL, "--kernel", "scalar", program=program)
                self.assertEqual(run.returncode, 2, run.stdout)
                self.assertEqual(run.stdout.splitlines()[-1], "sweep: 0 passed of 9, 9 could not be judged")

    def test_bad_usage_is_one_line(self):
        for arguments, *words in [
            (["--kernel", "flash"], "flash", "scalar"),
            (["--kernel", "wmma", "--engine", "cpu"], "wmma", "GPU"),
            (["--kernel", "wmma"], "wmma", "GPU"),
            (["--kernel", "scalar", "--fault", "wrong_ldm"], "wrong_ldm"),
            (["--kernel", "scalar", "--config", "1x1x1"], "1x1x1"),
            (["--engine", "cuda"], "GPU"),
            *(([*SMALL, *option], option[0], "tile-run sweep has no such option") for option in [
                ["-o", "run.h5"], ["--runs", "2"], ["--budget", "60"], ["--keep", "2"], ["--launches", "2"],
                ["--plant-nan", "1"], ["--limit", "acc=1"], ["--all-launches"], ["--dtype", "f16"], ["--causal"],
                ["--causal-alignment", "top_left"], ["--input", "random"], ["--select", "stage=s"],
                ["--sink-memory", "mapped"], ["--sink-file", "run.sink"]]),
            ([*SMALL, "--csv", "missing/cases.csv"], "missing/cases.csv"),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, *words)
        for option in ("--csv", "--jobs", "--time-budget"):
            run = subprocess.run([TILE_RUN, "record", *SMALL, option, "1", "-o", "run.h5"], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stderr.count("\n")), (2, 1), run.stderr)
            self.assertIn(f"{option}: tile-run record has no such option, but tile-run sweep has", run.stderr)

    def test_without_tile_diff_nothing_is_run(self):
        alone = self.folder / "tile-run"
        shutil.copy(TILE_RUN, alone)
        self.assert_refused([*SMALL], "tile-diff", program=alone)


if __name__ == "__main__":
    unittest.main()
