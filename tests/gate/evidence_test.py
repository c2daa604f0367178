#!/usr/bin/env python3
"""Tests what evidence.py leaves: with no tools, with tools that pass, and with some that fail.

usage: evidence_test.py ROOT

The programs and tools are stand-ins; nothing runs on a GPU.
"""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
KERNELS = ("scalar", "fast", "fp8")
TURNS = {f"fast beside cuDNN, {dtype}, at most {ratio}": f"turns_{dtype}_{ratio}"
         for dtype in ("f16", "bf16") for ratio in ("1.00", "0.95")}

# Every stand-in says SAYS and fails where FAIL is in its command line.
SHELL = f"""\
#!{shutil.which("bash")}
[[ -z ${{FAIL:-}} || "$0 $*" != *$FAIL* ]] || {{ echo "$SAYS"; exit 1; }}
"""
PYTHON = """\
import os, pathlib, sys
if os.environ.get("FAIL", "no such argument") in " ".join(sys.argv): sys.exit(os.environ["SAYS"])
"""
TILE_RUN = """\
case "$*" in
    "list --json") echo '{"kernels": [{"name": "scalar"}, {"name": "fast"}, {"name": "fp8"}]}' ;;
    "sweep --kernel "*) echo verdict > "${*: -1}"; echo "sweep: 120 passed of 120" ;;
    *) echo run > "${*: -1}" ;;
esac
"""
TILE_DIFF = """\
printf 'right references: %s\\nclosest reference: math\\nmatch\\n' "${RIGHT:-flash, math}"
"""
# Writes what measure and latency write.
TILE_GATE = """\
for word; do [[ ${before:-} == @(-o|--json) ]] && report=$word; before=$word; done
case $1 in
    measure | tile) printf 'implementation,latency_us\\nours,1\\n' > "$report" ;;
    latency) echo "$REPORT" > "$report"; echo "met: everything" ;;
esac
"""
CONFIGURATION = {"batch": "2", "heads": "8", "seqlen_q": "512", "seqlen_kv": "512", "head_dim": "64", "mask": "causal"}
REPORT = {"candidate": {"implementation": "ours_64x64x1"}, "configurations": [
    {"configuration": CONFIGURATION, "candidate": {"median": 12.5}, "baseline": {"median": 10}, "ratio": 1.25, "ratio_interval": [1.2, 1.3]}]}
NCU = """\
echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","k","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active","%","12.50"'
echo '"0","k","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","%","54.00"'
echo '"0","k","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","3.25"'
[[ -n ${SHORT:-} ]] || echo '"0","k","sm__warps_active.avg.pct_of_peak_sustained_active","%","50.00"'
"""
SANITIZER = """\
for word; do case ${before:-} in --tool) check=$word ;; --log-file) log=$word ;; esac; before=$word; done
echo "========= ERROR SUMMARY: 0 errors" > "$log"
[[ $check != "${BROKEN:-}" ]] || exit 9
"""
FAULTS = """\
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
(folder / "faults.csv").write_text("kernel\\n")
print("162 of 162 faults blamed")
"""
RESOURCES = 'print("all within")\n'
# Stands for PyTorch: a GPU, and of its backends all but cuDNN alone.
SDPA = """\
if "--kernel" not in sys.argv and "cudnn" in sys.argv: sys.exit("no kernel for these shapes")
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text("# device: x\\nimplementation,latency_us\\nsdpa_flash,1\\n")
"""


class EvidenceTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        # A copy, so that stand-ins can take the place of the scripts beside evidence.py.
        self.root = pathlib.Path(scratch.name)
        self.folder, self.programs, self.tools = (self.root / name for name in ("evidence", "bin", "tools"))
        for path in ("kernels/gate/evidence.py", "kernels/gate/beside_cudnn.py", "kernels/gate/programs.py", "tests/bench/measure_sdpa.py",
                     "samples/references.py"):
            self.write(path, (ROOT / path).read_text())
        for name, text in (("tile-run", TILE_RUN), ("tile-gate", TILE_GATE), ("tile-diff", TILE_DIFF)):
            self.write(f"bin/{name}", SHELL + text)
        self.write("kernels/gate/faults.py", PYTHON + FAULTS)
        # Wherever it is run, this Python has no PyTorch.
        self.write("python/torch/__init__.py", "raise ImportError\n")

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def add_gpu(self):
        self.write("tools/nvidia-smi", SHELL + 'echo "name, driver_version"\necho "NVIDIA X, 1"\n')

    def add_tools(self):
        self.add_gpu()
        for name, text in (("ncu", NCU), ("compute-sanitizer", SANITIZER), ("nvcc", "")):
            self.write(f"tools/{name}", SHELL + text)
        for path, text in (("samples/references.py", ""), ("tests/bench/measure_sdpa.py", SDPA),
                           ("kernels/gate/resources.py", RESOURCES)):
            self.write(path, PYTHON + text)

    def run_it(self, *arguments, code=0, **environment):
        """Runs evidence.py, which must return the code."""
        run = subprocess.run([sys.executable, self.root / "kernels/gate/evidence.py", self.folder, "--bin", self.programs,
                              *arguments], capture_output=True, text=True, timeout=120,
                             env={"PATH": str(self.tools), "CUDA_HOME": str(self.root / "nothing"),
                                  "PYTHONPATH": str(self.root / "python"), "REPORT": json.dumps(REPORT), **environment})
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def results(self):
        """{gate: (status, what)}; the summary must have a line for each, and its files must be there."""
        text = (self.folder / "summary.md").read_text()
        results = {}
        for result in json.loads((self.folder / "evidence.json").read_text()):
            results[result["gate"]] = status, what = result["status"], result["what"]
            self.assertIn(f"| {result['gate']} | {status} | {what} |", text)
            for file in result["files"]:
                self.assertTrue((self.folder / file).is_file(), file)
        return results

    def log(self, name):
        [log] = (self.folder / "logs").glob(f"*_{name}.log")
        return log.read_text().splitlines()

    def test_every_missing_tool_is_a_line(self):
        self.add_gpu()
        self.run_it(FAIL="tile -o", SAYS="tile-gate: cuBLAS: it cannot be loaded (libcublas.so.13: not there); install it")
        missing = {gate: what for gate, (status, what) in self.results().items() if status == "missing"}
        without_pytorch = [*(f"references of {kernel}" for kernel in KERNELS), *TURNS,
                           *(f"latency of {backend}, {group}" for backend in ("flash", "cudnn", "math") for group in ("short", "long"))]
        words = {**dict.fromkeys(without_pytorch, "PyTorch"), "latency of one tile of QK^T": "cuBLAS", "resources": "nvcc",
                 "sanitizers": "compute-sanitizer", "profile": "ncu"}
        self.assertEqual(set(missing), set(words))
        for gate, word in words.items():
            self.assertIn(word, missing[gate])
        self.assertEqual(list((self.folder / "references").iterdir()), [])

    def test_with_every_tool(self):
        self.add_tools()
        self.run_it()
        results = self.results()
        for kernel in KERNELS:
            self.assertEqual(results[f"correctness of {kernel}"], ("passed", "sweep: 120 passed of 120"))
            self.assertEqual((self.folder / f"correctness/{kernel}.csv").read_text(), "verdict\n")
            self.assertEqual(results[f"references of {kernel}"], ("passed", ". ".join(
                call + ": right references: flash, math; closest reference: math"
                for call in ("1,8,512,512,64", "1,8,512,512,64 causal", "1,4,200,333,128 causal"))))
            calls = ("", " of 1,16,2048,8192,64", " of 1,16,2048,4096,128") if kernel == "fast" else ("",)
            self.assertEqual(results[f"sanitizers of {kernel}"], ("passed", "; ".join(
                f"{tool}{call}: ERROR SUMMARY: 0 errors" for call in calls
                for tool in ("memcheck", "racecheck", "initcheck", "synccheck"))))
            self.assertEqual(results[f"profile of {kernel}"],
                             ("measured", "tensor pipe % 54.00, DRAM throughput % 3.25, warps active % 50.00"))
        self.assertEqual(results["faults"], ("passed", "162 of 162 faults blamed"))
        self.assertEqual(results["resources"], ("passed", "all within"))
        self.assertIn("NVIDIA X", results["machine"][1])
        self.assertEqual(results["latency of one tile of QK^T by wmma, beside cuBLAS"], ("measured", "met: everything"))
        # By themselves, something is asked of fast beside flash only; PyTorch has no cudnn here.
        self.assertEqual(results["latency of cudnn, short"], ("missing", "no kernel for these shapes"))
        self.assertEqual(results["latency of fast, short"], ("passed", "flash: met: everything; math: met: everything"))
        for gate, name in TURNS.items():
            self.assertEqual(results[gate], ("passed", "met: everything"))
            self.assertIn(f"--baseline sdpa_cudnn --json evidence/latency/{name}_cudnn.json --require-ratio {name[-4:]}",
                          self.log(f"{name}_cudnn")[0].replace(str(self.root) + "/", ""))
        self.assertIn("| bf16 | 2,8,512,512,64 | causal | 12.5 | 10 | 10 | 1.250 [1.200, 1.300] | 1.250 [1.200, 1.300] |",
                      (self.folder / "summary.md").read_text())
        for kernel in ("scalar", "fp8"):
            self.assertEqual(results[f"latency of {kernel}, short"][0], "measured")
        named = {file for result in json.loads((self.folder / "evidence.json").read_text()) for file in result["files"]}
        self.assertEqual({file for file in named if not file.startswith("logs/")}, {
            "machine.csv", "faults/faults.csv", "latency/tile_wmma.json", "latency/tile_scalar.json",
            *(f"correctness/{kernel}.csv" for kernel in KERNELS), *(f"profile/{kernel}.json" for kernel in KERNELS),
            *(f"latency/{group}_{kernel}_{backend}.json" for group in ("short", "long") for kernel in KERNELS
              for backend in ("flash", "math")),
            *(f"latency/{name}{end}" for name in TURNS.values() for end in (".csv", "_flash.json", "_cudnn.json"))})
        self.assertIn("| ours_64x64x1 | 2,8,512,512,64 | causal | 12.5 | 1.250 [1.200, 1.300] |  | 1.250 [1.200, 1.300] |",
                      (self.folder / "summary.md").read_text())

        # A log is a command, as one would type it in the checkout, its output and its exit code.
        for path in (self.folder / "logs").iterdir():
            self.assertNotIn(str(self.root), path.read_text().splitlines()[0])
        command, *output, end = self.log("latency_short_fast_flash")
        self.assertTrue(command.startswith("$ bin/tile-gate latency ") and command.endswith("--require-ratio 1.0"), command)
        self.assertIn("met: everything", output)
        self.assertTrue(end.startswith("exit 0 after"), end)
        # fp8 is beside the float16 of PyTorch, and not its quantiser is profiled.
        self.assertIn("--ignore dtype", self.log("latency_short_fp8_flash")[0])
        self.assertIn("--kernel-name 'regex:fp8_kernel|fast_hopper_kernel'", self.log("ncu_fp8")[0])

    def test_a_gate_is_run_alone(self):
        self.add_tools()
        self.run_it("--gate", "profile")
        self.assertEqual(list(self.results()), ["machine", *(f"profile of {kernel}" for kernel in KERNELS)])

    def test_what_breaks_is_said_of_its_gate(self):
        self.add_tools()
        for environment, gate, name, status, word in [
            ({"FAIL": "sweep --kernel fast"}, "correctness", "correctness of fast", "FAILED", "it broke"),
            ({"RIGHT": "math"}, "references", "references of fast", "FAILED",
             "1,8,512,512,64 causal: right references: math;"),
            ({"FAIL": "record --kernel scalar"}, "references", "references of scalar", "FAILED", "it broke"),
            ({"FAIL": "faults.py"}, "faults", "faults", "FAILED", "it broke"),
            ({"FAIL": "--require-ratio 1.25"}, "latency", "latency of fast, long", "FAILED", "flash: it broke"),
            ({"FAIL": "measure --kernel scalar"}, "latency", "latency of scalar, short", "FAILED", "it broke"),
            # Nothing is asked of fast beside math.
            ({"FAIL": "--baseline sdpa_math"}, "latency", "latency of fast, short", "passed", "math: it broke"),
            ({"FAIL": "--require-ratio 0.95"}, "beside_cudnn", "fast beside cuDNN, bf16, at most 0.95", "FAILED", "it broke"),
            ({"FAIL": "tile -o"}, "tile", "latency of one tile of QK^T", "FAILED", "it broke"),
            ({"FAIL": "resources.py", "SAYS": "BEYOND: k: spills 4, limit 0\n1 finding"}, "resources", "resources", "FAILED",
             "BEYOND: k: spills 4, limit 0; 1 finding"),
            ({"BROKEN": "racecheck"}, "sanitizers", "sanitizers of fast", "FAILED", "racecheck: ERROR SUMMARY"),
            ({"SHORT": "1"}, "profile", "profile of scalar", "FAILED", ""),
        ]:
            with self.subTest(environment=environment):
                shutil.rmtree(self.folder, ignore_errors=True)
                self.run_it("--gate", gate, code=int(status == "FAILED"), **{"SAYS": "it broke", **environment})
                found, what = self.results()[name]
                self.assertEqual(found, status)
                self.assertIn(word, what)

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

    def test_refuses_what_it_cannot_use(self):
        self.assert_refused("nvidia-smi: not found")
        (self.folder / "old").mkdir(parents=True)
        self.assert_refused("is not an empty folder")
        shutil.rmtree(self.folder)
        for name in ("tile-gate", "tile-diff"):
            (self.programs / name).unlink()
            self.assert_refused(f"{name}: not found")

    def assert_refused(self, words):
        run = self.run_it(code=2)
        self.assertEqual(run.stdout, "")
        self.assertIn(words, run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
