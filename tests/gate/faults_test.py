#!/usr/bin/env python3
"""Tests faults.py: on the CPU's own faults, and with programs that stand for a GPU and its sanitizers.

usage: faults_test.py ROOT TILE_RUN
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

ROOT, TILE_RUN = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
LISTED = {"kernels": [{"name": "a", "engines": ["cuda"]}, {"name": "b", "engines": ["cuda", "cpu"]}],
          "faults": [{"name": "early", "stage": "s", "kernels": ["a", "b"], "shown_by": "--shape 1", "gpu_only": False},
                     {"name": "late", "stage": "acc", "kernels": ["b"], "shown_by": "--shape 2", "gpu_only": True}]}
STAND_IN_RUN = f"""\
[[ $1 == list ]] && {{ echo '{json.dumps(LISTED)}'; exit; }}
[[ "$*" == *"${{UNRECORDED:-nothing}}"* ]] && {{ echo "tile-run: no room" >&2; exit 2; }}
echo "$*" > "${{*: -1}}"
"""
# Blames what the fault's name says, but for the one that is missed.
STAND_IN_DIFF = """\
stage=s
[[ $(cat "$1") == *late* ]] && stage=${LATE:-acc}
echo '{"first_divergence": {"stage": "'$stage'"}, "stages": [{"outside": 3}, {"outside": 4}]}'
exit 1
"""
SANITIZER = """\
for word; do case ${before:-} in --tool) check=$word ;; --log-file) log=$word ;; esac; before=$word; done
case $check in
    memcheck) echo "========= ERROR SUMMARY: 0 errors" ;;
    racecheck) echo "========= RACECHECK SUMMARY: 5 hazards displayed (5 errors, 0 warnings)" ;;
    initcheck) echo "========= ERROR SUMMARY: 12 errors" ;;
esac > "$log"
"""


class FaultsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.folder = self.scratch / "faults"
        for name, text in [("bin/tile-run", STAND_IN_RUN), ("bin/tile-diff", STAND_IN_DIFF),
                           ("tools/compute-sanitizer", SANITIZER)]:
            path = self.scratch / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("#!" + shutil.which("bash") + "\n" + text)
            path.chmod(0o755)

    def run_it(self, *arguments, programs=None, **environment):
        return subprocess.run(
            [sys.executable, ROOT / "kernels/gate/faults.py", self.folder, "--bin", programs or self.scratch / "bin",
             *arguments], capture_output=True, text=True,
            env={"PATH": f"{self.scratch / 'tools'}:{os.environ['PATH']}", **environment})

    def rows(self):
        with open(self.folder / "faults.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_the_faults_of_a_kernel_on_the_cpu(self):
        run = self.run_it("--engine", "cpu", "--kernel", "scalar", "--keep", "--jobs", "2", programs=TILE_RUN.parent)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        listed = json.loads(subprocess.run([TILE_RUN, "list", "--json"], capture_output=True, check=True).stdout)
        wanted = {fault["name"]: fault["stage"] for fault in listed["faults"]
                  if "scalar" in fault["kernels"] and not fault["gpu_only"]}
        self.assertGreater(len(wanted), 20)
        self.assertEqual({row["fault"]: row["blamed"] for row in self.rows()}, wanted)
        self.assertTrue(all(int(row["diverged"]) > 0 for row in self.rows()))
        kept = json.loads((self.folder / "recordings/faults.json").read_text())
        self.assertEqual({one["fault"]: one["stage"] for one in kept}, wanted)
        self.assertTrue(all((self.folder / "recordings" / one["file"]).is_file() for one in kept))
        self.assertEqual(run.stdout, f"{len(wanted)} of {len(wanted)} faults blamed on their stage\n")

    def test_sanitizers_run_one_kernel_of_a_fault(self):
        run = self.run_it()
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual((self.folder / "faults.csv").read_text(),
                         "kernel,fault,stage,blamed,diverged,memcheck,racecheck,initcheck,synccheck\n"
                         "a,early,s,s,7,0,5,12,no report\nb,early,s,s,7,,,,\nb,late,acc,acc,7,0,5,12,no report\n")
        self.assertEqual(run.stdout, "3 of 3 faults blamed on their stage; compute-sanitizer sees 2 of the 2 that it ran\n")
        table = (self.folder / "faults.md").read_text()
        self.assertIn("| `early` | `s` | 2 of 2 | 0 | 5 | 12 | no report |\n", table)
        self.assertFalse((self.folder / "recordings").exists())

    def test_every_kernel_is_sanitized_when_asked(self):
        self.run_it("--sanitize", "every")
        self.assertEqual([row["racecheck"] for row in self.rows()], ["5", "5", "5"])

    def test_a_fault_that_is_blamed_on_another_stage(self):
        run = self.run_it(LATE="l")
        self.assertEqual(run.returncode, 1)
        self.assertIn("2 of 3 faults blamed on their stage", run.stdout)
        self.assertIn("first: b late: l, not acc", run.stdout)
        self.assertIn("| `late` | `acc` | 0 of 1 (b: l) |", (self.folder / "faults.md").read_text())

    def test_a_fault_that_cannot_be_recorded(self):
        run = self.run_it("--sanitize", "none", UNRECORDED="late")
        self.assertEqual(run.returncode, 2)
        self.assertEqual([row["blamed"] for row in self.rows()], ["s", "s", "not recorded: tile-run: no room"])

    def test_refuses_what_it_cannot_use(self):
        for arguments, words in [(["--kernel", "a", "--engine", "cpu"], "no kernel of a has a fault that cpu runs"),
                                 (["--bin", "/nowhere"], "tile-run: not found")]:
            run = self.run_it(*arguments)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn(words, run.stderr)
            self.assertEqual(run.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
