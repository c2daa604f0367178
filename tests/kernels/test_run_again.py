#!/usr/bin/env python3
"""Tests tile-run poison and tile-run repeat on the CPU: exit codes, text, JSON and what is recorded.

usage: test_run_again.py TILE_RUN
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

TILE_RUN = pathlib.Path(sys.argv.pop(1)).resolve()
SCALAR = ["--kernel", "scalar", "--engine", "cpu"]
SMALL = ["--shape", "1,2,40,70,64"]


class RunAgain(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_it(self, *arguments, **environment):
        return subprocess.run([TILE_RUN, *arguments], capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, **environment})

    def check(self, exit_code, subcommand, *arguments):
        run = self.run_it(subcommand, *SCALAR, *SMALL, *arguments)
        self.assertEqual((run.returncode, run.stderr), (exit_code, ""), run.stdout)
        return run.stdout

    def test_nothing_of_a_healthy_kernel_depends_on_poison(self):
        text = self.check(0, "poison")
        self.assertTrue(text.splitlines()[-1].startswith("independent: "), text)
        self.assertIn("o: all 5120 elements stored", text)
        self.assertIn("lse: all 80 elements stored", text)
        report = json.loads(self.check(0, "poison", "--json"))
        self.assertEqual(report["verdict"], "independent")
        self.assertIsNone(report["first_change"])
        self.assertEqual([run["shared_memory"] for run in report["runs"]], ["finite", "zeros again", "NaN"])
        for run in report["runs"]:
            self.assertEqual(run["changed"], 0)
            self.assertEqual([stage["name"] for stage in run["stages"]],
                             ["q", "k", "v", "s", "m", "p", "l", "acc", "o", "lse"])
            # s: 2 heads of 40 rows and 70 keys.
            self.assertEqual(run["stages"][3]["compared"], 2 * 40 * 70)
        self.assertEqual(list(self.folder.iterdir()), [])

    def record(self, name, *arguments):
        self.check(0, "record", "-o", name, *arguments)

    def repeat(self, script, *options):
        return self.run_it("repeat", "--runs", "3", *options, "--", "sh", "-c", script)

    def test_any_program_is_repeated(self):
        self.record("a.h5")
        self.record("b.h5", "--fault", "acc_not_rescaled")
        self.record("other_inputs.h5", "--seed", "9")
        leave = "cp {} $TILESCOPE_DIR/run.launch0.process$$.h5"
        run = self.repeat(leave.format("a.h5"))
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("run.launch0.h5: repeatable: ", run.stdout)
        later = "if [ -e {1} ]; then {0}; else touch {1}; " + leave.format("a.h5") + "; fi"
        run = self.repeat(later.format(leave.format("b.h5"), "once"), "--json")
        self.assertEqual(run.returncode, 1, run.stderr)
        recording, = json.loads(run.stdout)["recordings"]
        self.assertEqual((recording["changed_runs"], recording["first_change"]["stage"]), (2, "acc"))
        run = self.repeat(later.format(leave.format("other_inputs.h5"), "twice"))
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn("run 2 of run.launch0.h5 has another q than the first", run.stderr)

    def test_programs_that_cannot_be_repeated(self):
        for script, says in (("true", "left no recording"), ("exit 3", "run 1 ended with exit code 3"),
                             ("kill -9 $$", "run 1 ended by signal 9")):
            run = self.repeat(script)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn(says, run.stderr)
        for arguments, says in ((("repeat", "--runs", "2", "--", "./nowhere"), "./nowhere: cannot be started"),
                                (("repeat", "--runs", "2", "--seed", "3", "--", "true"), "--seed: it says nothing"),
                                (("repeat", "--runs", "2"), "--shape: it is required and not given"),
                                (("repeat", "--runs", "2", "--"), "before the program of repeat"),
                                (("record", "--", "true"), "before the program of repeat")):
            run = self.run_it(*arguments)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn(says, run.stderr)

    def test_what_reads_old_shared_memory_is_named(self):
        text = self.check(1, "poison", "--fault", "p_lane_stride")
        self.assertIn("dependent: acc is the first stage that changes with what memory held, at batch 0, head 0, "
                      "q block 0, row 0, column 0, KV tile 0", text.splitlines()[-1])
        report = json.loads(self.check(1, "poison", "--fault", "p_lane_stride", "--json"))
        self.assertEqual((report["verdict"], report["fault"]), ("dependent", "p_lane_stride"))
        self.assertEqual(report["first_change"]["stage"], "acc")
        changed = {run["shared_memory"]: run["changed"] for run in report["runs"]}
        self.assertEqual(changed["zeros again"], 0)
        self.assertGreater(changed["finite"], 0)
        self.assertGreater(changed["NaN"], 0)
        nan = report["runs"][2]["stages"][7]
        self.assertEqual((nan["name"], nan["first"]["this_run"]["value"]), ("acc", "nan"))

    def test_outputs_that_stay_are_counted(self):
        text = self.check(1, "poison", "--fault", "columns_uncovered")
        self.assertIn("o: 1280 of 5120 elements never stored, the first at batch 0, head 0, row 0, column 48", text)
        report = json.loads(self.check(1, "poison", "--fault", "columns_uncovered", "--json"))
        self.assertEqual(report["outputs"][0], {"stage": "o", "elements": 5120, "unwritten": 1280,
                                                "first": {"batch": 0, "head": 0, "row": 0, "col": 48}})

    def test_the_run_after_nan_is_recorded(self):
        self.check(1, "poison", "--fault", "p_lane_stride", "-o", "run.h5")
        with h5py.File(self.folder / "run.h5") as file:
            self.assertTrue(numpy.isnan(file["/tiles/acc"][:]).all())
            self.assertTrue(numpy.isfinite(file["/tiles/s"][:]).all())
            self.assertIn("tile-run poison ", file.attrs["command"])
            self.assertEqual(file["/inputs/q"].shape, (1, 2, 40, 64))

    def test_repeated_runs_are_the_same(self):
        text = self.check(0, "repeat", "--runs", "3")
        self.assertIn("3 runs", text)
        self.assertTrue(text.splitlines()[-1].startswith("repeatable: "), text)
        report = json.loads(self.check(0, "repeat", "--runs", "2", "--json"))
        self.assertEqual((report["verdict"], report["runs"], report["changed_runs"]), ("repeatable", 2, 0))

    def test_a_selection_is_compared_with_the_whole_outputs(self):
        report = json.loads(self.check(0, "repeat", "--runs", "2", "--json", "--select", "head=1:stage=s,o"))
        self.assertEqual([(stage["name"], stage["compared"]) for stage in report["stages"]],
                         [("s", 40 * 70), ("o", 2 * 40 * 64), ("lse", 2 * 40)])

    def test_without_a_gpu_it_says_so_once(self):
        run = self.run_it("repeat", "--kernel", "scalar", *SMALL, "--runs", "2", CUDA_VISIBLE_DEVICES="")
        self.assertEqual((run.returncode, run.stderr.count("\n")), (0, 1), run.stderr)
        self.assertIn("so it ran on the CPU", run.stderr)

    def test_what_cannot_be_done_is_one_line(self):
        for arguments, *words in [
            (["poison", "--runs", "2"], "--runs", "tile-run poison has no such option"),
            (["poison", "--prove-inert"], "tile-run prove-inert"),
            (["prove-inert", "--runs", "2"], "--runs", "tile-run prove-inert has no such option"),
            (["repeat", "--runs", "1"], "--runs"),
            (["repeat", "--runs", "x"], "--runs"),
            (["repeat", "--runs"], "--runs"),
            (["repeat"], "--runs"),
            (["repeat", "--runs", "2", "-o", "run.h5"], "-o", "tile-run repeat has no such option"),
            (["record", "--json", "-o", "run.h5"], "--json", "tile-run poison"),
            (["poison", "--sink-bytes", "100k"], "--sink-bytes", "no room"),
            (["repeat", "--runs", "2", "--sink-bytes", "100k"], "--sink-bytes", "no room"),
            (["poison", "-o", "missing/run.h5"], "missing/run.h5"),
            (["poison", "--fault", "none"], "--fault"),
        ]:
            with self.subTest(arguments=arguments):
                run = self.run_it(*arguments, *SCALAR, *SMALL)
                self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
                self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
                for word in words:
                    self.assertIn(word, run.stderr)
                self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
