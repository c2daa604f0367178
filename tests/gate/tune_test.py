#!/usr/bin/env python3
"""Tests tile-gate profile and tune with programs that stand for ncu, tile-run, tile-diff and a GPU.

usage: tune_test.py TILE_GATE

data/ncu_page.csv is a page of `ncu --csv --metrics` that was written by hand, after the columns that Nsight Compute prints.
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

TILE_GATE = pathlib.Path(sys.argv.pop(1)).resolve()
PAGE = pathlib.Path(__file__).parent / "data/ncu_page.csv"
DONE, NONE_RIGHT, FAILED = 0, 1, 2

OPTION = """\
option() { local name=$1 before=; shift; for word; do [[ $before == "$name" ]] && echo "$word"; before=$word; done; }
"""
# The first words of a command are kept, so that a test sees what was asked.
TILE_RUN = OPTION + """\
echo "run $*" >> "$CALLS"
[[ $(option --config "$@") == "${UNRECORDED:-}" ]] && { echo "tile-run: no room" >&2; exit 2; }
option --config "$@" > "$(option -o "$@")"
"""
TILE_DIFF = OPTION + """\
code=0 verdict=match summary="match: 7 elements agree"
[[ " ${WRONG:-} " == *" $(cat "$1") "* || ${WRONG:-} == all ]] && code=1 verdict=diverged summary="diverged: s is the first wrong stage"
echo '{"verdict": "'$verdict'", "summary": "'$summary'", "stages": [{"compared": 7}]}' > "$(option --json "$@")"
exit $code
"""
# Wider tiles take less time.
STAND_IN_GATE = OPTION + """\
echo "gate $*" >> "$CALLS"
[[ -n ${NO_GPU:-} ]] && { echo "tile-gate: measure: it needs a GPU; run it elsewhere" >&2; exit 2; }
config=$(option --config "$@")
{ echo "implementation,sample,latency_us"
  for i in 0 1 2 3 4 5 6 7 8 9; do echo "x,$i,$((1000 / ${config%%x*})).$i"; done; } > "$(option -o "$@")"
"""
NCU = OPTION + """\
echo "ncu $*" >> "$CALLS"
[[ -n ${REFUSES:-} ]] && {
    echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0." > "$(option --log-file "$@")"
    exit 1
}
cat "$PAGE" > "$(option --log-file "$@")"
"""
SCALAR = ["48x64x1", "48x64x2", "32x32x1", "32x32x2", "32x64x1", "32x64x2", "16x64x1", "16x64x2"]


class Stand(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.calls = self.root / "calls"
        (self.root / "bin").mkdir()
        # tile-gate itself has another name here: what it times is timed by the program that stands for it.
        shutil.copy(TILE_GATE, self.root / "bin/gate")
        for name, text in (("bin/tile-run", TILE_RUN), ("bin/tile-diff", TILE_DIFF), ("bin/tile-gate", STAND_IN_GATE),
                           ("tools/ncu", NCU)):
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("#!" + shutil.which("bash") + "\n" + text)
            path.chmod(0o755)

    def run_it(self, *arguments, code=DONE, tools=True, **environment):
        path = os.environ["PATH"]
        run = subprocess.run([self.root / "bin/gate", *arguments], capture_output=True, text=True, cwd=self.root, timeout=60,
                             env={**os.environ, "CUDA_HOME": "/nowhere", "CALLS": str(self.calls), "PAGE": str(PAGE),
                                  "PATH": f"{self.root / 'tools'}:{path}" if tools else path, **environment})
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        if code == FAILED:
            self.assertEqual((run.stdout, run.stderr.count("\n")), ("", 1), run.stderr)
            self.assertRegex(run.stderr, r"^tile-gate: .*; \w+")
        return run

    def asked(self, program):
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line for line in lines if line.startswith(program + " ")]


class Profile(Stand):
    def test_says_what_ncu_counted(self):
        run = self.run_it("profile", "fast", "--shape", "1,2,64,64,64", "--mask", "causal", "--config", "64x64x2", "--json", "p.json")
        with open(PAGE, newline="") as file:
            rows = [row for row in csv.reader(file) if len(row) == 15][1:]
        self.assertEqual(len(rows), 6)
        report = json.loads((self.root / "p.json").read_text())
        self.assertEqual(report["function"], rows[0][4])
        self.assertEqual({name: (counter["value"], counter["unit"]) for name, counter in report["counters"].items()},
                         {row[12]: (float(row[14].replace(",", "")), row[13]) for row in rows if row[14] != "n/a"})
        for words, figure in (("tensor pipe", "78.2 %"), ("issue slots", "31.0 %"), ("warps (occupancy)", "18.8 %"), ("DRAM", "4.5 %"),
                              ("L2", "not here"), ("duration", "1155.3 us")):
            self.assertRegex(run.stdout, rf"(?m)^{words.replace('(', '.').replace(')', '.')} +{figure} ")
        command, = self.asked("ncu")
        self.assertIn("measure --kernel fast --shape 1,2,64,64,64 --mask causal --dtype f16 --config 64x64x2", command)
        self.assertIn("--print-units base", command)
        self.assertNotIn("--kernel-name", command)

    def test_which_launch_is_counted(self):
        self.run_it("profile", "fp8")
        self.run_it("profile", "cublas", "--function", "cublas_kernel")
        first, second = self.asked("ncu")
        self.assertIn("--kernel-name regex:fp8_kernel|fast_hopper_kernel", first)
        self.assertIn("--kernel-name cublas_kernel", second)

    def test_why_there_are_no_counters(self):
        self.assertIn("ERR_NVGPUCTRPERM", self.run_it("profile", "fast", code=FAILED, REFUSES="1").stderr)
        self.assertIn("NVreg_RestrictProfilingToAdminUsers=0", self.run_it("profile", "fast", code=FAILED, REFUSES="1").stderr)
        self.assertIn("no launch was counted", self.run_it("profile", "fast", code=FAILED, PAGE="/dev/null").stderr)
        if not shutil.which("ncu"):
            self.assertIn("Nsight Compute", self.run_it("profile", "fast", code=FAILED, tools=False).stderr)


class Tune(Stand):
    def tune(self, *arguments, **environment):
        run = self.run_it("tune", "scalar", "--shape", "1,2,96,96,64", "-o", "tuned", *arguments, **environment)
        return run, json.loads((self.root / "tuned/tune.json").read_text())

    def test_times_what_is_right_and_keeps_three(self):
        run, report = self.tune(UNRECORDED="48x64x2", WRONG="32x32x1 16x64x2")
        self.assertEqual({trial["config"] for trial in report["trials"]}, set(SCALAR))
        refused = {trial["config"]: trial["refused"] for trial in report["trials"] if trial["refused"]}
        self.assertEqual(refused, {"48x64x2": "not recorded: tile-run: no room", "32x32x1": "diverged: s is the first wrong stage",
                                   "16x64x2": "diverged: s is the first wrong stage"})
        for config in refused:
            self.assertFalse([call for call in self.asked("gate") if f"--config {config} " in call])
            self.assertRegex(run.stdout, rf"(?m)^{config} +REFUSED: ")
        self.assertEqual(report["kept"][0], "48x64x1")
        self.assertEqual(len(report["kept"]), 3)
        self.assertEqual({path.name for path in (self.root / "tuned").iterdir()},
                         {"tune.json", *(f"{config}.csv" for config in report["kept"])})
        times = [trial["p50_us"] for trial in report["trials"] if not trial["refused"]]
        self.assertEqual(times, sorted(times))
        # The samples of the first are 20.0 to 20.9.
        first = report["trials"][0]
        self.assertEqual((first["samples"], round(first["p50_us"], 6), round(first["p90_us"], 6)), (10, 20.45, 20.81))
        self.assertIn("5 of 8 configurations are right and timed; the fastest: 48x64x1", run.stdout)
        self.assertIn("tensor pipe", report["profile"])
        self.assertIn("--config 48x64x1", self.asked("ncu")[0])
        self.assertTrue(all("--select batch=0:head=0" in call for call in self.asked("run")))

    def test_without_counters_and_with_none_that_is_right(self):
        _, report = self.tune(REFUSES="1")
        self.assertIn("no counters: ncu: this user may not read", report["profile"])
        shutil.rmtree(self.root / "tuned")
        run, report = self.tune(code=NONE_RIGHT, WRONG="all")
        self.assertEqual((report["kept"], report["profile"]), ([], ""))
        self.assertIn("0 of 8 configurations are right", run.stdout)

    def test_what_is_refused(self):
        arguments = ["tune", "scalar", "--shape", "1,2,96,96,64", "-o", "tuned"]
        self.assertIn("it needs a GPU", self.run_it(*arguments, code=FAILED, NO_GPU="1").stderr)
        self.assertIn("empty folder", self.run_it(*arguments[:-1], "bin", code=FAILED).stderr)
        self.assertIn("no kernel slow", self.run_it("tune", "slow", "-o", "tuned", code=FAILED).stderr)
        self.assertIn("not built for bf16", self.run_it(*arguments, "--dtype", "bf16", code=FAILED).stderr)
        self.assertIn("head_dim", self.run_it("tune", "scalar", "--shape", "1,2,3,4,5", "-o", "tuned", code=FAILED).stderr)
        self.assertIn("--output", self.run_it("tune", "scalar", code=FAILED).stderr)


if __name__ == "__main__":
    unittest.main()
