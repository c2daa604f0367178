#!/usr/bin/env python3
"""Tests tile-run watch and tile-run flight on the CPU: exit codes, text, JSON and what is recorded.

usage: test_watch.py TILE_RUN TILE_DIFF
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

TILE_RUN = pathlib.Path(sys.argv.pop(1)).resolve()
TILE_DIFF = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCALAR = ["--kernel", "scalar", "--engine", "cpu"]
SMALL = ["--shape", "1,2,40,70,64"]

# Faults that statistics show, the rule that is broken first, and its stage.
SHOWN = {
    "q_row_zeroed": ("operand", "q"),
    "stale_k_tile": ("operand", "k"),
    "head_modulo": ("operand", "k"),
    "v_next_tile": ("operand", "v"),
    "causal_top_left": ("infinity", "s"),
    "half_scores": ("nan", "p"),
    "m_starts_at_zero": ("m_above_scores", "m"),
    "max_own_lane": ("m_below_scores", "m"),
    "p_lane_stride": ("nan", "acc"),
    "tail_counted": ("l_sum", "l"),
    "nan_times_zero": ("nan", "acc"),
    "double_normalised": ("o_not_acc_over_l", "o"),
    "columns_uncovered": ("unwritten", "o"),
    "lse_base2": ("lse_outside", "lse"),
}


class CommandLine(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.file = self.folder / "run.h5"

    def run_it(self, subcommand, *arguments):
        return subprocess.run([TILE_RUN, subcommand, *SCALAR, *map(str, arguments)], capture_output=True, text=True,
                              cwd=self.folder)

    def check(self, exit_code, *arguments):
        run = self.run_it(*arguments)
        self.assertEqual((run.returncode, run.stderr), (exit_code, ""), run.stdout)
        return run.stdout

    def assert_refused(self, arguments, *words):
        run = self.run_it(*arguments)
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (2, "", 1), (arguments, run.stderr))
        for word in words:
            self.assertIn(word, run.stderr)
        self.assertEqual(list(self.folder.iterdir()), [], arguments)

    def stages_judged(self, path):
        judged = subprocess.run([TILE_DIFF, path, "--json", self.folder / "report.json"], capture_output=True, text=True)
        return judged.returncode, judged.stdout


class Watch(CommandLine):
    def test_nothing_of_a_healthy_kernel_looks_wrong(self):
        for kind in ("random", "ramped", "distinct_v", "negative", "large", "ties"):
            text = self.check(0, "watch", *SMALL, "--input", kind, "--causal", "-o", self.file)
            self.assertTrue(text.splitlines()[-1].startswith("nothing looks wrong: "), text)
        report = json.loads(self.check(0, "watch", *SMALL, "--json"))
        self.assertEqual((report["verdict"], report["findings"], report["file"]), ("nothing_looks_wrong", 0, None))
        # 2 heads, 2 query blocks and 2 KV tiles: q, o and lse once a block, the other seven in each KV tile.
        self.assertEqual(report["tiles"], 2 * 2 * (3 + 7 * 2))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_faults_are_found_recorded_and_judged(self):
        listed = json.loads(subprocess.run([TILE_RUN, "list", "--json"], capture_output=True, text=True).stdout)
        options = {fault["name"]: (fault["shown_by"].split(), fault["stage"]) for fault in listed["faults"]}
        for fault, (rule, stage) in SHOWN.items():
            with self.subTest(fault=fault):
                shown_by, guilty = options[fault]
                report = json.loads(self.check(1, "watch", "--fault", fault, *shown_by, "--json", "-o", self.file))
                first = report["rules"][0]
                self.assertEqual((report["verdict"], first["rule"], first["first"]["stage"]), ("looks_wrong", rule, stage))
                self.assertEqual(report["findings_left_out"], 0)
                code, text = self.stages_judged(self.file)
                self.assertEqual(code, 1)
                self.assertIn(f"diverged: {guilty} is the first wrong stage", text.splitlines()[-1])
                with h5py.File(self.file) as file:
                    self.assertEqual(file["capture"].attrs["selection"], report["selection"])

    def test_hooks_md_says_how_many_faults_are_seen(self):
        listed = json.loads(subprocess.run([TILE_RUN, "list", "--json"], capture_output=True, text=True).stdout)
        codes = [self.run_it("watch", "--fault", fault["name"], *fault["shown_by"].split()).returncode
                 for fault in listed["faults"] if "scalar" in fault["kernels"]]
        seen, not_seen = codes.count(1), codes.count(0)  # 2: a race, which needs a GPU
        page = " ".join((ROOT / "dump/HOOKS.md").read_text().split())
        self.assertIn(f"Of the {seen + not_seen} faults of `scalar` that the CPU engine plays {seen} are", page)

    def test_the_text_says_where_and_what_comes_next(self):
        text = self.check(1, "watch", *SMALL, "--fault", "lse_base2", "-o", self.file)
        self.assertIn(f"next: tile-diff {self.file}", text)
        self.assertRegex(text.splitlines()[-1], r"^looks wrong: lse of batch 0, head \d, q block \d: greatest .* is "
                                                r"(above|below) .*; lse is m \+ log\(l\)")
        self.assertNotIn("next:", self.check(1, "watch", *SMALL, "--fault", "lse_base2"))

    def test_the_budget_holds_what_fits(self):
        arguments = ["watch", "--shape", "1,4,64,128,64", "--fault", "lse_base2", "--json"]
        everything = json.loads(self.check(1, *arguments, "-o", self.file))
        self.assertEqual(everything["findings_left_out"], 0)
        half = everything["bytes"] // 2
        some = json.loads(self.check(1, *arguments, "--budget", half, "-o", self.file))
        self.assertGreater(some["findings_dumped"], 0)
        self.assertEqual(some["findings_dumped"] + some["findings_left_out"], everything["findings"])
        self.assertLessEqual(some["bytes"], half)
        with h5py.File(self.file) as file:
            written = numpy.isfinite(file["/outputs/lse"][:]).all(axis=2).sum()
            self.assertLess(written, 4)
            self.assertEqual(file["/capture/acc"].attrs["elements_dropped"], 0)
        self.file.unlink()
        text = self.check(1, *arguments[:-1], "--budget", 1000, "-o", self.file)
        self.assertIn("findings do not fit into 1000 bytes; the first of them takes", text)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_selection_is_watched_alone(self):
        report = json.loads(self.check(0, "watch", *SMALL, "--select", "block=0/1/0", "--json"))
        self.assertEqual(report["tiles"], 3 + 7 * 2)
        report = json.loads(self.check(0, "watch", *SMALL, "--fault", "lse_base2", "--select", "stage=m,lse", "--json"))
        self.assertEqual(report["verdict"], "nothing_looks_wrong", "without l nobody can tell")

    def test_bad_usage_is_one_line(self):
        for arguments, *words in [
            (["record", *SMALL, "--budget", "1M", "-o", "run.h5"], "--budget", "tile-run watch has"),
            (["watch", *SMALL, "--runs", "2"], "--runs", "tile-run watch has no such option"),
            (["watch", *SMALL, "--sink-memory", "file"], "--sink-memory: file"),
            (["watch", *SMALL, "--budget", "0"], "--budget"),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, *words)


class FlightRecorder(CommandLine):
    FLIGHT = ["flight", "--keep", 3, "--launches", 8]

    def test_the_launch_with_the_nan_is_recorded(self):
        report = json.loads(self.check(1, *self.FLIGHT, *SMALL, "--plant-nan", 5, "--json", "-o", self.file))
        self.assertEqual((report["verdict"], report["kept"], report["freeze"]["launch"]), ("stopped", 3, 5))
        # The last row of k: row 5 of KV tile 1, which has 6 of 64.
        place = {name: report["freeze"][name] for name in ("stage", "batch", "head", "q_block", "kv_tile", "row_in_tile",
                                                           "col_in_tile", "value")}
        self.assertEqual(place, {"stage": "k", "batch": 0, "head": 0, "q_block": 0, "kv_tile": 1, "row_in_tile": 5,
                                 "col_in_tile": 0, "value": "nan"})
        with h5py.File(self.file) as file:
            self.assertTrue(numpy.isnan(file["/inputs/k"][0, 0, 69, 0]))
            self.assertEqual(numpy.isnan(file["/inputs/k"][:]).sum(), 1)
            self.assertEqual(file.attrs["launch"], "launch 5")
            stopped = file["/inputs/q"][:]
        # Launch 5 has the inputs of seed 1 + 5.
        self.check(0, "record", *SMALL, "--seed", 6, "-o", self.folder / "plain.h5")
        with h5py.File(self.folder / "plain.h5") as file:
            self.assertTrue((file["/inputs/q"][:] == stopped).all())
        code, text = self.stages_judged(self.file)
        self.assertEqual(code, 0, text)

    def test_every_launch_that_is_kept_can_be_recorded(self):
        text = self.check(0, *self.FLIGHT, *SMALL, "--all-launches", "-o", self.file)
        self.assertIn("not stopped", text)
        launches = []
        for i in range(3):
            with h5py.File(f"{self.file}.{i}") as file:
                launches.append(file.attrs["launch"])
            code, _ = self.stages_judged(f"{self.file}.{i}")
            self.assertEqual(code, 0)
        self.assertEqual(launches, ["launch 5", "launch 6", "launch 7"])
        self.assertFalse(self.file.exists())

    def test_a_limit_stops_it(self):
        self.check(0, *self.FLIGHT, *SMALL, "--limit", "p=1", "--limit", "s=100")
        text = self.check(1, *self.FLIGHT, *SMALL, "--limit", "l=1.5", "-o", self.file)
        self.assertRegex(text.splitlines()[-1], r"^stopped by launch 0: [0-9.]+ in l of batch 0, head 0, q block 0, KV tile 0")
        with h5py.File(self.file) as file:
            self.assertGreater(numpy.nanmax(file["/tiles/l"][:]), 1.5)

    def test_bad_usage_is_one_line(self):
        for arguments, *words in [
            *((["record", *SMALL, *option, "-o", "run.h5"], option[0], "tile-run flight has")
              for option in (["--launches", 3], ["--plant-nan", 1], ["--limit", "acc=1"], ["--all-launches"])),
            (["flight", *SMALL, "--launches", 3], "--keep"),
            ([*self.FLIGHT, *SMALL, "--plant-nan", 8], "--plant-nan", "no launch 8"),
            ([*self.FLIGHT, *SMALL, "--limit", "acc"], "--limit", "acc=1000"),
            ([*self.FLIGHT, *SMALL, "--limit", "row=3"], "--limit"),
            ([*self.FLIGHT, *SMALL, "--limit", "acc=-1"], "--limit"),
            ([*self.FLIGHT, *SMALL, "--limit", "acc=nan"], "--limit"),
            ([*self.FLIGHT, *SMALL, "--limit", "acc=inf"], "--limit"),
            ([*self.FLIGHT, *SMALL, "--limit", "acc=1x"], "--limit"),
            ([*self.FLIGHT, *SMALL, "--all-launches"], "-o"),
            ([*self.FLIGHT, *SMALL, "--budget", "1M"], "--budget", "tile-run flight has no such option"),
            ([*self.FLIGHT, *SMALL, "--sink-bytes", "100k"], "no room for all tiles"),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(list(map(str, arguments)), *words)


if __name__ == "__main__":
    unittest.main()
