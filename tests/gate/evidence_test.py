#!/usr/bin/env python3
"""Tests what evidence.py leaves: with no tools, with tools that pass, and with some that fail.

usage: evidence_test.py ROOT

The programs and tools are stand-ins; nothing runs on a GPU.
"""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
SCRIPT = ROOT / "kernels/gate/evidence.py"

TILE_RUN = """\
case "$*" in
    "list --json") echo '{"kernels": [{"name": "scalar"}, {"name": "fast"}, {"name": "fp8"}]}' ;;
    "sweep --kernel "*) echo verdict > "${*: -1}"; echo "sweep: $((120 - ${LOST:-0})) passed of 120"; exit $((${LOST:-0} > 0)) ;;
    *) [[ -n ${UNRECORDED:-} ]] && { echo "tile-run: no room"; exit 2; }; echo run > "${*: -1}" ;;
esac
"""
TILE_DIFF = """\
printf 'right references: %s\\nclosest reference: math\\nmatch\\n' "${RIGHT:-flash, math}"
"""
# Writes what measure and latency write; fails where FAIL matches the command line.
TILE_GATE = """\
if [[ -n ${FAIL:-} && "$*" == *$FAIL* ]]; then echo "tile-gate: it broke; mend it"; exit 1; fi
if [[ $1 == tile && -n ${NO_CUBLAS:-} ]]; then
    echo "tile-gate: cuBLAS: it cannot be loaded (libcublas.so.13: not there); install it"
    exit 2
fi
command=$1 report=''
while (($#)); do
    [[ $1 == -o || $1 == --json ]] && report=$2
    shift
done
case $command in
    measure | tile) printf 'implementation,latency_us\\nours,1\\n' > "$report" ;;
    latency)
        cat > "$report" <<'JSON'
{"candidate": {"implementation": "ours_64x64x1"}, "configurations": [
 {"configuration": {"batch": "2", "heads": "8", "seqlen_q": "512", "seqlen_kv": "512", "head_dim": "64", "mask": "causal"},
  "candidate": {"median": 12.5}, "ratio": 1.25, "ratio_interval": [1.2, 1.3]}]}
JSON
        echo "met: everything" ;;
esac
"""
NCU = """\
echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","k","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active","%","12.50"'
echo '"0","k","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","%","54.00"'
echo '"0","k","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","3.25"'
[[ -n ${SHORT:-} ]] || echo '"0","k","sm__warps_active.avg.pct_of_peak_sustained_active","%","50.00"'
"""
SANITIZER = """\
while (($#)); do
    [[ $1 == --tool ]] && check=$2
    [[ $1 == --log-file ]] && log=$2
    shift
done
echo "========= ERROR SUMMARY: 0 errors" > "$log"
[[ $check != "${BROKEN:-}" ]] || exit 9
"""
FAULTS = """\
import os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
(folder / "faults.csv").write_text("kernel\\n")
print("161 of 162 faults blamed" if os.environ.get("MISSED") else "162 of 162 faults blamed")
sys.exit(bool(os.environ.get("MISSED")))
"""
# Stands for PyTorch: a GPU, and two of the three backends.
SDPA = """\
import pathlib, sys
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text(
    "# device: x\\nimplementation,latency_us\\nsdpa_flash,1\\nsdpa_math,2\\n")
"""


class EvidenceTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.folder = self.scratch / "evidence"
        self.programs = self.scratch / "bin"
        self.tools = self.scratch / "tools"
        # A copy, so that what stands for PyTorch can take the place of the script that needs it.
        self.root = self.scratch / "root"
        (self.root / "kernels/gate").mkdir(parents=True)
        (self.root / "tests/bench").mkdir(parents=True)
        (self.root / "samples").mkdir()
        for path in ("kernels/gate/evidence.py", "tests/bench/measure_sdpa.py", "samples/references.py"):
            shutil.copy(ROOT / path, self.root / path)
        self.script(self.programs / "tile-run", TILE_RUN)
        self.script(self.programs / "tile-gate", TILE_GATE)
        self.script(self.programs / "tile-diff", TILE_DIFF)
        (self.root / "kernels/gate/faults.py").write_text(FAULTS)
        self.tools.mkdir()
        for name in ("bash", "cat"):
            (self.tools / name).symlink_to(shutil.which(name))
        # Wherever it is run, this Python has no PyTorch.
        (self.scratch / "python/torch").mkdir(parents=True)
        (self.scratch / "python/torch/__init__.py").write_text("raise ImportError\n")

    def script(self, path, text):
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!" + shutil.which("bash") + "\n" + text)
        path.chmod(0o755)

    def add_gpu(self):
        self.script(self.tools / "nvidia-smi", 'echo "name, driver_version"\necho "NVIDIA X, 1"\n')

    def add_tools(self):
        self.add_gpu()
        (self.root / "samples/references.py").write_text("")
        self.script(self.tools / "ncu", NCU)
        self.script(self.tools / "compute-sanitizer", SANITIZER)
        self.script(self.tools / "nvcc", "")
        (self.root / "tests/bench/measure_sdpa.py").write_text(SDPA)
        (self.root / "kernels/gate/resources.py").write_text(
            'import os, sys\nprint("all within" if not os.environ.get("SPILLS") else "BEYOND: k: spills 4, limit 0\\n1 finding")\n'
            'sys.exit(bool(os.environ.get("SPILLS")))\n')

    def run_it(self, *arguments, **environment):
        return subprocess.run([sys.executable, self.root / "kernels/gate/evidence.py", self.folder, "--bin", self.programs,
                               *arguments], capture_output=True, text=True, timeout=120,
                              env={"PATH": str(self.tools), "CUDA_HOME": str(self.scratch / "nothing"),
                                   "PYTHONPATH": str(self.scratch / "python"), **environment})

    def results(self):
        """{gate: (status, what)}; the summary must have a line for each."""
        results = {result["gate"]: (result["status"], result["what"])
                   for result in json.loads((self.folder / "evidence.json").read_text())}
        text = (self.folder / "summary.md").read_text()
        for gate, (status, what) in results.items():
            self.assertIn(f"| {gate} | {status} | {what} |", text)
        return results

    def test_every_missing_tool_is_a_line(self):
        self.add_gpu()
        run = self.run_it(NO_CUBLAS="1")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        missing = {gate: what for gate, (status, what) in self.results().items() if status == "missing"}
        self.assertEqual(set(missing), {*self.gates_of_references(), "latency of SDPA, short", "latency of SDPA, long",
                                        "latency of one tile of QK^T", "resources", "sanitizers", "profile"})
        self.assertEqual(list((self.folder / "references").iterdir()), [])
        for gate, word in [(self.gates_of_references()[0], "PyTorch"), ("latency of SDPA, short", "PyTorch"),
                           ("latency of one tile of QK^T", "cuBLAS"),
                           ("resources", "nvcc"), ("sanitizers", "compute-sanitizer"), ("profile", "ncu")]:
            self.assertIn(word, missing[gate])

    def gates_of_references(self):
        return [f"references of {kernel}" for kernel in ("scalar", "fast", "fp8")]

    def test_with_every_tool(self):
        self.add_tools()
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        results = self.results()
        for kernel in ("scalar", "fast"):
            self.assertEqual(results[f"correctness of {kernel}"], ("passed", "sweep: 120 passed of 120"))
            self.assertEqual((self.folder / f"correctness/{kernel}.csv").read_text(), "verdict\n")
        for gate in self.gates_of_references():
            self.assertEqual(results[gate], ("passed", ". ".join(
                call + ": right references: flash, math; closest reference: math"
                for call in ("1,8,512,512,64", "1,8,512,512,64 causal", "1,4,200,333,128 causal"))))
        self.assertEqual(results["faults"], ("passed", "162 of 162 faults blamed"))
        self.assertEqual(results["resources"], ("passed", "all within"))
        for kernel in ("scalar", "fast"):
            self.assertEqual(results[f"sanitizers of {kernel}"], ("passed", "; ".join(
                f"{tool}: ERROR SUMMARY: 0 errors" for tool in ("memcheck", "racecheck", "initcheck", "synccheck"))))
        self.assertEqual(results["profile of fast"],
                         ("measured", "tensor pipe % 54.00, DRAM throughput % 3.25, warps active % 50.00"))
        self.assertIn("NVIDIA X", results["machine"][1])
        self.assertEqual(results["latency of one tile of QK^T by wmma, beside cuBLAS"], ("measured", "met: everything"))
        # Something is asked of fast beside flash only; PyTorch has no cudnn here.
        without = "cudnn: PyTorch has no such kernel for these shapes"
        self.assertEqual(results["latency of fast, short"],
                         ("passed", f"flash: met: everything; {without}; math: met: everything"))
        self.assertEqual(results["latency of scalar, short"][0], "measured")
        self.assertIn("| ours_64x64x1 | 2,8,512,512,64 | causal | 12.5 | 1.250 [1.200, 1.300] |  | 1.250 [1.200, 1.300] |",
                      (self.folder / "summary.md").read_text())
        for result in json.loads((self.folder / "evidence.json").read_text()):
            for file in result["files"]:
                self.assertTrue((self.folder / file).is_file(), file)

    def test_a_gate_is_run_alone(self):
        self.add_tools()
        run = self.run_it("--gate", "profile")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(list(self.results()), ["machine", *(f"profile of {name}" for name in ("scalar", "fast", "fp8"))])

    def test_fp8_is_beside_the_float16_of_pytorch_and_its_own_kernel_is_profiled(self):
        self.add_tools()
        self.run_it()
        self.assertEqual(self.results()["latency of fp8, short"][0], "measured")
        for name, words in [("latency_short_fp8_flash", "--ignore dtype"), ("ncu_fp8", "--kernel-name fp8_kernel")]:
            [log] = (self.folder / "logs").glob(f"*_{name}.log")
            self.assertIn(words, log.read_text().splitlines()[0])

    def test_commands_are_those_of_the_checkout(self):
        self.add_tools()
        self.programs.rename(self.root / "bin")
        self.programs, self.folder = self.root / "bin", self.root / "evidence"
        self.run_it()
        for log in (self.folder / "logs").iterdir():
            self.assertNotIn(str(self.root), log.read_text().splitlines()[0])

    def test_logs_hold_command_output_and_exit_code(self):
        self.add_tools()
        self.run_it()
        [log] = (self.folder / "logs").glob("*_latency_short_fast_flash.log")
        lines = log.read_text().splitlines()
        self.assertTrue(lines[0].startswith("$ ") and lines[0].endswith("--require-ratio 1.0"), lines[0])
        self.assertIn("met: everything", lines)
        self.assertTrue(lines[-1].startswith("exit 0 after"), lines[-1])

    def test_each_failure_is_one(self):
        self.add_tools()
        for environment, gate, word in [
            ({"LOST": "1"}, "correctness of fast", "119 passed of 120"),
            ({"RIGHT": "math"}, "references of fast", "1,8,512,512,64 causal: right references: math;"),
            ({"UNRECORDED": "1"}, "references of scalar", "no room"),
            ({"MISSED": "1"}, "faults", "161 of 162"),
            ({"FAIL": "--require-ratio 1.25"}, "latency of fast, long", "flash: tile-gate: it broke"),
            ({"FAIL": "measure --kernel scalar"}, "latency of scalar, short", "it broke"),
            ({"FAIL": "tile -o"}, "latency of one tile of QK^T", "it broke"),
            ({"SPILLS": "1"}, "resources", "BEYOND: k: spills 4, limit 0; 1 finding"),
            ({"BROKEN": "racecheck"}, "sanitizers of fast", "racecheck: ERROR SUMMARY"),
            ({"SHORT": "1"}, "profile of scalar", ""),
        ]:
            with self.subTest(environment=environment):
                run = self.run_it(**environment)
                self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
                status, what = self.results()[gate]
                self.assertEqual(status, "FAILED")
                self.assertIn(word, what)
                shutil.rmtree(self.folder)

    def test_both_measurements_write_the_same_columns_in_the_same_way(self):
        specification = importlib.util.spec_from_file_location("measure_sdpa", ROOT / "tests/bench/measure_sdpa.py")
        sdpa = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sdpa)
        source = (ROOT / "kernels/gate/measure_on_gpu.cpp").read_text()
        ours = re.sub(r'"\s*"', "", source)  # literals that stand beside each other are one
        self.assertIn(sdpa.COLUMNS + "\\n", ours)
        self.assertIn(sdpa.METHOD.replace(f"{sdpa.TIMES_L2} x", "{:g} x"), ours)
        self.assertIn(f"times_l2 = {sdpa.TIMES_L2};", ours)
        self.assertIn(f"least_copies = {sdpa.LEAST_COPIES};", ours)

    def test_what_is_not_asked_for_cannot_fail(self):
        self.add_tools()
        run = self.run_it(FAIL="--baseline sdpa_math")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        status, what = self.results()["latency of fast, short"]
        self.assertEqual(status, "passed")
        self.assertIn("math: tile-gate: it broke; mend it", what)

    def test_refuses_what_it_cannot_use(self):
        self.assert_refused("nvidia-smi: not found")
        (self.folder / "old").mkdir(parents=True)
        self.assert_refused("is not an empty folder")
        shutil.rmtree(self.folder)
        (self.programs / "tile-gate").unlink()
        self.assert_refused("tile-gate: not found")

    def assert_refused(self, words):
        run = self.run_it()
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn(words, run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
