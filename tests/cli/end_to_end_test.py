"""tile-run on the CPU, and tile-diff on what it recorded: healthy runs match, planted faults are blamed on the
stage they were planted in.

usage: end_to_end_test.py TILE_RUN TILE_DIFF
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TILE_RUN, TILE_DIFF = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
LISTED = json.loads(subprocess.run([TILE_RUN, "list", "--json"], capture_output=True, check=True).stdout)
SCALAR = next(kernel for kernel in LISTED["kernels"] if kernel["name"] == "scalar")
FAULTS = [fault for fault in LISTED["faults"] if "scalar" in fault["kernels"] and not fault["gpu_only"]]
# {D} is the head_dim of the configuration.
HEALTHY = [
    "--shape 1,2,70,130,{D} --input random",
    "--shape 2,4,49,100,{D} --heads-kv 2 --causal --input ramped",
    "--shape 1,5,40,65,{D} --heads-kv 1 --causal --causal-alignment top_left --input ties",
    "--shape 1,1,90,33,{D} --causal --input distinct_v",
    "--shape 1,2,33,7,{D} --input negative",
    "--shape 1,2,20,64,{D} --causal --input large",
]


class EndToEnd(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.file = pathlib.Path(scratch.name) / "run.h5"

    def record(self, *arguments):
        run = subprocess.run([TILE_RUN, "record", "--kernel", "scalar", "--engine", "cpu", *arguments, "-o", self.file],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)

    def judge(self):
        run = subprocess.run([TILE_DIFF, self.file, "--no-causes", "--json", "-"], capture_output=True, text=True)
        return run.returncode, json.loads(run.stdout)

    def test_healthy_runs_match(self):
        self.assertGreaterEqual(len(SCALAR["configs"]), 8)
        for number, config in enumerate(SCALAR["configs"]):
            # Each configuration with two of them, where not all are asked for.
            apart = 1 if os.environ.get("TILESCOPE_ALL_SEEDS") == "1" else len(HEALTHY) // 2
            for seed, options in list(enumerate(HEALTHY))[number % apart::apart]:
                arguments = ["--config", config["config"], "--seed", str(100 * number + seed),
                             *options.replace("{D}", str(config["head_dim"])).split()]
                with self.subTest(" ".join(arguments)):
                    self.record(*arguments)
                    code, report = self.judge()
                    self.assertEqual((code, report["verdict"]), (0, "match"), report.get("summary"))
                    for stage in report["stages"]:
                        self.assertTrue(stage["captured"], stage["name"])
                        self.assertGreater(stage["compared"], 0, stage["name"])
                        self.assertEqual((stage["outside"], stage["inherited"]), (0, 0), stage["name"])

    def test_faults_are_blamed_on_their_stage(self):
        self.assertGreaterEqual(len(FAULTS), 10)
        for fault in FAULTS:
            with self.subTest(fault["name"]):
                self.record("--fault", fault["name"], *fault["shown_by"].split())
                code, report = self.judge()
                self.assertEqual((code, report["verdict"]), (1, "diverged"))
                self.assertEqual(report["first_divergence"]["stage"], fault["stage"], report["summary"])

    def test_faults_are_found_with_their_stage_alone(self):
        for fault in FAULTS:
            with self.subTest(fault["name"]):
                self.record("--fault", fault["name"], "--select", f"stage={fault['stage']}",
                            *fault["shown_by"].split())
                code, report = self.judge()
                self.assertEqual((code, report["first_divergence"] and report["first_divergence"]["stage"]),
                                 (1, fault["stage"]))
                self.assertEqual([stage["name"] for stage in report["stages"] if stage["captured"]],
                                 [fault["stage"]])

    def test_healthy_runs_match_with_any_stage_alone(self):
        for stage in ("q", "k", "v", "s", "m", "p", "l", "acc", "o", "lse"):
            with self.subTest(stage):
                self.record("--shape", "1,2,70,130,64", "--causal", "--select", f"stage={stage}:kv_tile=1-")
                code, report = self.judge()
                self.assertEqual((code, report["verdict"]), (0, "match"), report.get("summary"))

    def test_dropped_tiles_cannot_be_judged(self):
        self.record("--shape", "1,2,70,130,64", "--sink-bytes", "64K")
        self.assertEqual(self.judge()[0], 2)


if __name__ == "__main__":
    unittest.main()
