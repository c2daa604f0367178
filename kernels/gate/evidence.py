#!/usr/bin/env python3
"""Runs every gate of the bundled kernels on a GPU and leaves what they found in one folder.

usage: evidence.py DIR [--bin build/bin] [--most-seconds 5] [--gate NAME]...

Without --gate every gate is run, with it those that are named; the machine is described in any case.

DIR gets summary.md (one page), evidence.json (the same for programs), logs/ (each command with its output), and the
files of the gates: machine.csv, correctness/, faults/, latency/, resources/, sanitizers/, profile/. A gate whose
tool is not here is a line of the summary. Exit codes: 0 no gate failed, 1 some did, 2 nothing could be run.
"""

import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import threading
import time

from beside_cudnn import beside_cudnn, turns_table
from programs import (FAILED, MEASURED, MISSING, PASSED, ROOT, SANITIZERS, Result, Unrunnable, check_folders, first_line, last_line,
                      tool, worst)

BACKENDS = ("flash", "cudnn", "math")
MASKS = ("none", "causal")
# The shapes that are timed: B,H,Sq,Skv,D.
SHAPES = {"short": ("1,8,512,512,64", "2,8,512,512,64", "4,16,2048,2048,64"), "long": ("4,16,4096,4096,128",)}
# What is asked of a kernel beside a backend: the ratio's interval ends at most here.
REQUIRED_RATIOS = {("fast", "flash", "short"): 1.0, ("fast", "flash", "long"): 1.25}
# PyTorch's attention takes no e4m3: fp8 is timed beside its float16.
BESIDE_PYTORCH = {"fp8": ("--ignore", "dtype")}
MACHINE = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit,temperature.gpu"
SANITIZED = (("--shape", "1,2,70,130,64", "--causal"),)
# Long enough for wgmma, and K and V of all heads more than stays in the L2.
ALSO_SANITIZED = {"fast": tuple(("--shape", shape, "--causal", "--select", "batch=0:head=3:q_block=0,7")
                                for shape in ("1,16,2048,8192,64", "1,16,2048,4096,128"))}
# Compared with PyTorch's own outputs: B,H,Sq,Skv,D and the mask.
REFERENCE_CALLS = (("1,8,512,512,64", ()), ("1,8,512,512,64", ("--causal",)), ("1,4,200,333,128", ("--causal",)))
REFERENCES = {"flash", "math"}
PROFILED_SHAPE = "4,16,2048,2048,64"
# Where the first launch of all is not that of the kernel, but its quantiser; that of cublas is cuBLAS'.
PROFILED = {"fp8": ("--kernel-name", "regex:fp8_kernel|fast_hopper_kernel")}
# Cycles in which the tensor pipe works, not instructions: one of wgmma keeps it busy for many cycles.
COUNTERS = {"tensor pipe %": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
            "DRAM throughput %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "warps active %": "sm__warps_active.avg.pct_of_peak_sustained_active"}


class Evidence:
    """The folder, the programs, and what was found so far."""

    def __init__(self, folder, programs, most_seconds):
        self.folder, self.programs, self.results, self.commands = folder, programs, [], 0
        self.most_seconds, self.numbering = most_seconds, threading.Lock()
        for name in ("logs", "correctness", "latency", "references", "sanitizers", "profile"):
            (folder / name).mkdir(parents=True)
        bundled = programs / "lib"
        path = os.environ.get("LD_LIBRARY_PATH", "")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": f"{bundled}:{path}" if bundled.is_dir() else path}

    def run(self, name, *command):
        """Exit code, output and log of a command, which is logged as one would type it in the checkout."""
        command = ["python3" if word == sys.executable == shutil.which("python3") else
                   str(word).removeprefix(f"{ROOT}/") for word in command]
        with self.numbering:
            print(f"==> {shlex.join(command)}", flush=True)
            self.commands += 1
            log = self.folder / "logs" / f"{self.commands:03}_{name}.log"
        start = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, env=self.environment, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        log.write_text(f"$ {shlex.join(command)}\n{done.stdout}\nexit {done.returncode} after "
                       f"{time.monotonic() - start:.1f} s\n")
        return done.returncode, done.stdout, self.relative(log)

    def relative(self, path):
        return str(path.relative_to(self.folder))

    def program(self, name):
        return self.programs / name

    def map(self, function, items):
        """The function of each item, in order, several at a time: for what is not timed."""
        with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
            return list(pool.map(function, items))

    def run_gates(self, gates, kernels):
        """Side by side; their results are in the order of the gates."""
        def run_gate(gate):
            found = []
            for result in gate(self, kernels):
                # What breaks may leave a file unwritten.
                result.files = [file for file in result.files if (self.folder / file).exists()]
                found.append(result)
                print(f"    {result.gate}: {result.status}: {result.what}", flush=True)
            return found

        with concurrent.futures.ThreadPoolExecutor(len(gates)) as pool:
            for found in pool.map(run_gate, gates):
                self.results += found

    def kernels(self):
        code, output, log = self.run("list", self.program("tile-run"), "list", "--json")
        if code != 0:
            raise Unrunnable(f"tile-run list: exit {code}: {first_line(output)}; see {self.folder / log}")
        return [kernel["name"] for kernel in json.loads(output)["kernels"]]


def why_it_failed(output):
    """A kernel that needs a library which is not here says nothing about the kernel."""
    return MISSING if "cuBLAS: it cannot be loaded" in output else FAILED


# ---- the gates

def sources(evidence):
    if not tool("git"):
        return "sources unknown: git is not here"
    code, output, _ = evidence.run("git", "git", "describe", "--always", "--dirty")
    return "sources unknown: not a git checkout" if code else f"sources {first_line(output)}"


def describe_machine(evidence, _):
    # Not all that nvidia-smi knows: serial numbers are nobody's business.
    code, output, log = evidence.run("nvidia_smi", "nvidia-smi", f"--query-gpu={MACHINE}", "--format=csv")
    if code != 0:
        yield Result("machine", FAILED, last_line(output), [log])
        return
    (evidence.folder / "machine.csv").write_text(output)
    yield Result("machine", MEASURED, f"{last_line(output)} ({MACHINE}); {sources(evidence)}", ["machine.csv"])


def sweep(evidence, kernels):
    """Each kernel by itself: a sweep records one case after the other."""
    yield from evidence.map(lambda kernel: sweep_kernel(evidence, kernel), kernels)


def sweep_kernel(evidence, kernel):
    cases = evidence.folder / "correctness" / f"{kernel}.csv"
    code, output, log = evidence.run(f"sweep_{kernel}", evidence.program("tile-run"), "sweep", "--kernel", kernel,
                                     "--engine", "cuda", "--jobs", 2, "--csv", cases)
    return Result(f"correctness of {kernel}", PASSED if code == 0 else why_it_failed(output), last_line(output),
                  [evidence.relative(cases), log])


def compare_references(evidence, kernels):
    """Which of PyTorch's backends each kernel agrees with."""
    calls = list(enumerate(itertools.product(kernels, REFERENCE_CALLS)))
    compared = evidence.map(lambda numbered: compare_call(evidence, numbered[0], *numbered[1]), calls)
    for kernel, found in itertools.groupby(compared, lambda one: one[0]):
        found = list(found)
        yield Result(f"references of {kernel}", worst(status for _, status, _, _ in found),
                     ". ".join(what for _, _, what, _ in found), [log for *_, log in found])


def compare_call(evidence, number, kernel, call):
    """The kernel, a status, what was found, and the log."""
    shape, mask = call
    name = f"{shape}{' causal' if mask else ''}: "
    file = evidence.folder / "references" / f"{number}.h5"
    code, output, log = evidence.run(f"record_{kernel}", evidence.program("tile-run"), "record", "--kernel", kernel,
                                     "--engine", "cuda", "--shape", shape, *mask, "--select", "stage=o,lse", "-o", file)
    no_reference = False
    if code == 0:
        code, output, log = evidence.run(f"references_{kernel}", sys.executable, ROOT / "samples/references.py", file)
        no_reference = code != 0
    if code == 0:
        code, output, log = evidence.run(f"judge_{kernel}", evidence.program("tile-diff"), file)
    file.unlink(missing_ok=True)
    if no_reference:
        return kernel, MISSING, name + last_line(output), log
    said = [line for line in output.splitlines() if line.startswith(("right references: ", "closest reference: "))]
    right = set(said[0].partition(": ")[2].split(", ")) if code == 0 and said else set()
    status = PASSED if right == REFERENCES else why_it_failed(output)
    return kernel, status, name + ("; ".join(said) or last_line(output)), log


def plant_faults(evidence, _):
    folder = evidence.folder / "faults"
    code, output, log = evidence.run("faults", sys.executable, ROOT / "kernels/gate/faults.py", folder, "--bin",
                                     evidence.programs)
    files = [evidence.relative(path) for path in sorted(folder.glob("faults.*"))]
    yield Result("faults", FAILED if code else PASSED, last_line(output), [*files, log])


def shape_options(group, most_seconds):
    return [word for shape in SHAPES[group] for word in ("--shape", shape)] + [
        word for mask in MASKS for word in ("--mask", mask)] + ["--most-seconds", most_seconds]


def measure_latencies(evidence, kernels):
    """Returns {(group, name): file}: name is that of a kernel, or of a backend of PyTorch. Each is timed by itself."""
    commands = {**{kernel: [evidence.program("tile-gate"), "measure", "--kernel", kernel] for kernel in kernels},
                **{backend: [sys.executable, ROOT / "tests/bench/measure_sdpa.py", "--backend", backend]
                   for backend in BACKENDS}}
    files = {}
    for group, (name, command) in itertools.product(SHAPES, commands.items()):
        file = evidence.folder / "latency" / f"{group}_{name}.csv"
        code, output, log = evidence.run(f"measure_{group}_{name}", *command,
                                         *shape_options(group, evidence.most_seconds), "-o", file)
        if code == 0:
            files[group, name] = file
        else:
            status = MISSING if name in BACKENDS else why_it_failed(output)
            yield Result(f"latency of {name}, {group}", status, last_line(output), [log])
    return files


def compare_latencies(evidence, kernels):
    files = yield from measure_latencies(evidence, kernels)
    pairs = [((group, kernel), [backend for backend in BACKENDS if (group, backend) in files])
             for group, kernel in files if kernel in kernels]
    compared = iter(evidence.map(
        lambda pair: compare_latency(evidence, *pair[0], pair[1], files[pair[0]], files[pair[0][0], pair[1]]),
        [(measured, backend) for measured, backends in pairs for backend in backends]))
    for (group, kernel), backends in pairs:
        found = [next(compared) for _ in backends]
        if not found:
            continue
        statuses = [status for status, _, _ in found]
        status = next(status for status in (FAILED, PASSED, MEASURED, MISSING) if status in statuses)
        yield Result(f"latency of {kernel}, {group}", status, "; ".join(said for _, said, _ in found),
                     [path for *_, paths in found for path in paths])


def compare_latency(evidence, group, kernel, backend, file, baseline):
    """A status, what the gate said last, and its files."""
    ratio = REQUIRED_RATIOS.get((kernel, backend, group))
    report = evidence.folder / "latency" / f"{group}_{kernel}_{backend}.json"
    code, output, log = evidence.run(
        f"latency_{group}_{kernel}_{backend}", evidence.program("tile-gate"), "latency", file, baseline, "--baseline",
        f"sdpa_{backend}", "--json", report, *BESIDE_PYTORCH.get(kernel, ()),
        *(["--require-ratio", ratio] if ratio else []))
    status = (FAILED if code else PASSED) if ratio else (MISSING if code else MEASURED)
    return status, f"{backend}: {last_line(output)}", [evidence.relative(report), log]


def measure_tiles(evidence, _):
    """One tile of QK^T by wmma and scalar code, beside cuBLAS."""
    file = evidence.folder / "latency" / "tile.csv"
    code, output, log = evidence.run("measure_tile", evidence.program("tile-gate"), "tile", "-o", file)
    if code != 0:
        yield Result("latency of one tile of QK^T", why_it_failed(output), last_line(output), [log])
        return
    for candidate in ("wmma", "scalar"):
        report = evidence.folder / "latency" / f"tile_{candidate}.json"
        code, output, log = evidence.run(f"latency_tile_{candidate}", evidence.program("tile-gate"), "latency", file, file,
                                         "--candidate", candidate, "--baseline", "cublas", "--json", report)
        yield Result(f"latency of one tile of QK^T by {candidate}, beside cuBLAS", FAILED if code else MEASURED,
                     last_line(output), [evidence.relative(report), log])


def hold_resources(evidence, _):
    if not tool("nvcc"):
        yield Result("resources", MISSING, "nvcc is not here")
        return
    folder = evidence.folder / "resources"
    code, output, log = evidence.run("resources", sys.executable, ROOT / "kernels/gate/resources.py", "--nvcc",
                                     tool("nvcc"), "--output", folder)
    beyond = [line for line in output.splitlines() if line.startswith("BEYOND: ")]
    yield Result("resources", FAILED if code else PASSED, "; ".join([*beyond[:1], last_line(output)]), [log])


def sanitize(evidence, kernels):
    sanitizer = tool("compute-sanitizer")
    if not sanitizer:
        yield Result("sanitizers", MISSING, "compute-sanitizer is not here")
        return
    cases = [(kernel, call, check) for kernel in kernels for call in SANITIZED + ALSO_SANITIZED.get(kernel, ())
             for check in SANITIZERS]
    checked = evidence.map(lambda case: check_kernel(evidence, sanitizer, *case), cases)
    for kernel, found in itertools.groupby(zip(cases, checked), lambda one: one[0][0]):
        found = [checked for _, checked in found]
        yield Result(f"sanitizers of {kernel}", worst(status for status, _, _ in found),
                     "; ".join(said for _, said, _ in found), [log for *_, log in found])


def check_kernel(evidence, sanitizer, kernel, call, check):
    """A status, what the tool said last, and the log."""
    name = f"{check}_{kernel}" if call in SANITIZED else f"{check}_{kernel}_{call[1]}"
    report = evidence.folder / "sanitizers" / f"{name}.txt"
    run = report.with_suffix(".h5")
    code, output, log = evidence.run(
        name, sanitizer, "--tool", check, "--error-exitcode", 9, "--log-file", report, evidence.program("tile-run"), "record",
        "--kernel", kernel, "--engine", "cuda", *call, "-o", run)
    run.unlink(missing_ok=True)
    said = last_line(report.read_text(errors="replace")) if report.exists() else last_line(output)
    of = check if call in SANITIZED else f"{check} of {call[1]}"
    return PASSED if code == 0 else why_it_failed(output), f"{of}: {said.lstrip('= ')}", log


def counters_in(text):
    """{name: value} of ncu's CSV page of one kernel."""
    found = {}
    for line in text.splitlines():
        for name, counter in COUNTERS.items():
            if f'"{counter}"' in line:
                found[name] = line.rsplit('","', 1)[-1].strip('"')
    return found


def profile(evidence, kernels):
    profiler = tool("ncu")
    if not profiler:
        yield Result("profile", MISSING, "ncu is not here")
        return
    for kernel in kernels:
        # The first launch of that name, outside of the graph.
        code, output, log = evidence.run(
            f"ncu_{kernel}", profiler, "--csv", "--launch-count", 1, *PROFILED.get(kernel, ()), "--metrics",
            ",".join(COUNTERS.values()),
            evidence.program("tile-gate"), "measure", "--kernel", kernel, "--shape", PROFILED_SHAPE, "--warmup-ms", 0,
            "--samples", 20, "--most-seconds", 1, "-o", evidence.folder / "profile" / f"{kernel}.csv")
        counters = counters_in(output)
        (evidence.folder / "profile" / f"{kernel}.json").write_text(json.dumps(counters, indent=2) + "\n")
        # Timed under the profiler: of no use.
        (evidence.folder / "profile" / f"{kernel}.csv").unlink(missing_ok=True)
        if "ERR_NVGPUCTRPERM" in output:
            yield Result(f"profile of {kernel}", MISSING, "this user may not read the GPU's counters", [log])
        elif code != 0 or len(counters) < len(COUNTERS):
            yield Result(f"profile of {kernel}", why_it_failed(output), last_line(output), [log])
        else:
            figures = ", ".join(f"{name} {value}" for name, value in counters.items())
            yield Result(f"profile of {kernel}", MEASURED, figures, [f"profile/{kernel}.json"])


# Side by side; what is timed comes afterwards, each alone.
UNTIMED = {"machine": describe_machine, "correctness": sweep, "references": compare_references,
           "faults": plant_faults, "sanitizers": sanitize, "resources": hold_resources}
TIMED = {"latency": compare_latencies, "beside_cudnn": beside_cudnn, "tile": measure_tiles, "profile": profile}


# ---- the summary

def latency_rows(evidence):
    """A row for each kernel and configuration: its median and the ratio to each backend."""
    rows = {}
    for group, backend in itertools.product(SHAPES, BACKENDS):
        for path in sorted((evidence.folder / "latency").glob(f"{group}_*_{backend}.json")):
            report = json.loads(path.read_text())
            for compared in report.get("configurations", []):
                key = compared["configuration"]
                name = report["candidate"]["implementation"]
                shape = ",".join(key[part] for part in ("batch", "heads", "seqlen_q", "seqlen_kv", "head_dim"))
                row = rows.setdefault((name, shape, key["mask"]), {"median": compared["candidate"]["median"]})
                low, high = compared["ratio_interval"]
                row[backend] = f"{compared['ratio']:.3f} [{low:.3f}, {high:.3f}]"
    return rows


def summary(evidence):
    counts = {status: sum(result.status == status for result in evidence.results)
              for status in (PASSED, FAILED, MEASURED, MISSING)}
    lines = ["# Evidence", "", ", ".join(f"{count} {status}" for status, count in counts.items()) + ".", "",
             "| gate | verdict | what was found | files |", "|---|---|---|---|"]
    for result in evidence.results:
        what = result.what.replace("|", "\\|")
        lines.append(f"| {result.gate} | {result.status} | {what} | {' '.join(result.files)} |")
    rows = latency_rows(evidence)
    if rows:
        lines += ["", "Medians in us, and their ratio to PyTorch's backends (below 1: faster) with its interval of 95 %; "
                  "fp8 is beside PyTorch's float16.", "", f"| kernel | B,H,Sq,Skv,D | mask | median | {' | '.join(BACKENDS)} |",
                  "|---|---|---|---|" + "---|" * len(BACKENDS)]
        for (name, shape, mask), row in rows.items():
            ratios = " | ".join(row.get(backend, "") for backend in BACKENDS)
            lines.append(f"| {name} | {shape} | {mask} | {row['median']:.5g} | {ratios} |")
    return "\n".join(lines + turns_table(evidence.folder)) + "\n"


def write_summary(evidence):
    (evidence.folder / "summary.md").write_text(summary(evidence))
    results = [dataclasses.asdict(result) for result in evidence.results]
    (evidence.folder / "evidence.json").write_text(json.dumps(results, indent=2) + "\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR", help="a folder that is empty or not there yet")
    parser.add_argument("--most-seconds", type=float, default=5, metavar="SECONDS",
                        help="for the latency of a configuration; slow kernels are sampled less often (default %(default)s)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", metavar="DIR")
    parser.add_argument("--gate", action="append", choices=[*UNTIMED, *TIMED],
                        help="run this one, and others named in the same way; default: every gate")
    return parser.parse_args()


def main():
    options = parse_arguments()
    check_folders(options.folder, options.bin, ("tile-run", "tile-diff", "tile-gate"))
    if not tool("nvidia-smi"):
        raise Unrunnable("nvidia-smi: not found; run this on a machine with an NVIDIA GPU")
    evidence = Evidence(options.folder.resolve(), options.bin.resolve(), options.most_seconds)
    kernels = evidence.kernels()
    chosen = {"machine", *(options.gate or [*UNTIMED, *TIMED])}
    for names in (UNTIMED, *((name,) for name in TIMED)):
        gates = [(UNTIMED | TIMED)[name] for name in names if name in chosen]
        if not gates:
            continue
        evidence.run_gates(gates, kernels)
        write_summary(evidence)  # what was found so far stays when the next gate is interrupted
    print(f"{options.folder}/summary.md")
    return 1 if any(result.status == FAILED for result in evidence.results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unrunnable, OSError, ValueError) as error:
        print(f"evidence.py: {error}", file=sys.stderr)
        sys.exit(2)
