#!/usr/bin/env python3
"""Plants every fault of the bundled kernels, and says who sees it: tile-diff, and each tool of compute-sanitizer.

usage: faults.py DIR [--bin build/bin] [--engine cuda] [--kernel NAME]... [--sanitize once|every|none] [--jobs N] [--keep]

Each fault is recorded with the options under which it shows, and judged. compute-sanitizer runs the same command: of
one kernel a fault, or of every kernel. DIR gets faults.csv (a row a kernel and fault), faults.md (a row a fault) and
faults.json; with --keep also recordings/, with the list of them in recordings/faults.json. Exit codes: 0 every fault was
blamed on its stage, 1 some were not, 2 some could not be judged.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from programs import ROOT, SANITIZERS, Unrunnable, check_folders, first_line, tool

COLUMNS = ("kernel", "fault", "stage", "blamed", "diverged", *SANITIZERS)
# A tool that takes longer is said to have been stopped.
TOOL_SECONDS = 120


def run(command, seconds=None):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)


class Faults:
    """Which faults of which kernels are run, and how."""

    def __init__(self, options):
        self.options = options
        self.tile_run, self.tile_diff = (str(options.bin / name) for name in ("tile-run", "tile-diff"))
        self.sanitizer = tool("compute-sanitizer") if options.sanitize != "none" else None
        done = subprocess.run([self.tile_run, "list", "--json"], capture_output=True, check=True)
        listed = json.loads(done.stdout)
        wanted = options.kernel or [kernel["name"] for kernel in listed["kernels"]]
        engines = {kernel["name"]: kernel["engines"] for kernel in listed["kernels"]}
        self.cases = [(kernel, fault) for fault in listed["faults"] for kernel in fault["kernels"]
                      if kernel in wanted and options.engine in engines[kernel]
                      and not (fault["gpu_only"] and options.engine == "cpu")]
        if not self.cases:
            raise Unrunnable(f"no kernel of {', '.join(wanted)} has a fault that {options.engine} runs; see tile-run list")

    def command(self, kernel, fault, file):
        return [self.tile_run, "record", "--kernel", kernel, "--engine", self.options.engine, "--fault", fault["name"],
                *shlex.split(fault["shown_by"]), "-o", str(file)]

    def judge(self, kernel, fault):
        """The row of a fault, and the command that recorded it."""
        file = self.options.folder / "recordings" / f"{kernel}_{fault['name']}.h5"
        command = self.command(kernel, fault, file)
        row = {"kernel": kernel, "fault": fault["name"], "stage": fault["stage"], "blamed": "", "diverged": "",
               **dict.fromkeys(SANITIZERS, "")}
        recorded = run(command)
        if recorded.returncode != 0:
            row["blamed"] = f"not recorded: {first_line(recorded.stderr)}"
            return row, command
        report = run([self.tile_diff, str(file), "--no-causes", "--json", "-"])
        if report.returncode not in (0, 1):
            row["blamed"] = f"not judged: {first_line(report.stderr)}"
            return row, command
        report = json.loads(report.stdout)
        first = report["first_divergence"]
        row["blamed"] = first["stage"] if first else "nothing"
        row["diverged"] = sum(stage.get("outside", 0) for stage in report["stages"]) if first else 0
        if not self.options.keep:
            file.unlink()
        return row, command

    def sanitize(self, kernel, fault, check):
        """What one tool counts: a number of errors or hazards, or why there is none."""
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch) / "report"
            command = [self.sanitizer, "--tool", check, "--log-file", str(report),
                       *self.command(kernel, fault, f"{scratch}/run.h5")]
            try:
                run(command, TOOL_SECONDS)
            except subprocess.TimeoutExpired:
                return f"stopped after {TOOL_SECONDS} s"
            return counted(report.read_text(errors="replace") if report.exists() else "")


def counted(report):
    """Errors or hazards in a report of compute-sanitizer."""
    found = re.search(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", report)
    return int(found[1]) if found else "no report"


def sanitized(cases, how):
    """The cases that compute-sanitizer runs: all, or the first kernel of each fault."""
    if how == "every":
        return list(range(len(cases)))
    first = {}
    for number, (_, fault) in enumerate(cases):
        first.setdefault(fault["name"], number)
    return sorted(first.values())


def run_all(faults):
    """A row of each case, and the recorded ones with their commands."""
    with concurrent.futures.ThreadPoolExecutor(faults.options.jobs) as pool:
        judged = [pool.submit(faults.judge, *case) for case in faults.cases]
        numbers = sanitized(faults.cases, faults.options.sanitize) if faults.sanitizer else []
        tools = {(number, check): pool.submit(faults.sanitize, *faults.cases[number], check)
                 for number in numbers for check in SANITIZERS}
        rows, commands = zip(*(future.result() for future in judged))
        for (number, check), future in tools.items():
            rows[number][check] = future.result()
    return list(rows), list(commands)


def right(row):
    return row["blamed"] == row["stage"]


def unjudged(row):
    return row["blamed"].startswith("not ")


def write_table(path, rows):
    """A row a fault: on how many of its kernels its stage was blamed, and what the sanitizers counted."""
    lines = [f"| fault | stage | blamed on it | {' | '.join(SANITIZERS)} |", "|---|---|---|" + "---|" * len(SANITIZERS)]
    by_fault = {}
    for row in rows:
        by_fault.setdefault(row["fault"], []).append(row)
    for fault, its in by_fault.items():
        wrong = [f"{row['kernel']}: {row['blamed']}" for row in its if not right(row)]
        blamed = f"{sum(map(right, its))} of {len(its)}" + (f" ({'; '.join(wrong)})" if wrong else "")
        counts = [" ".join(str(row[check]) for row in its if row[check] != "") for check in SANITIZERS]
        lines.append(f"| `{fault}` | `{its[0]['stage']}` | {blamed} | {' | '.join(counts)} |")
    path.write_text("\n".join(lines) + "\n")


def summary(rows):
    seen = [row for row in rows if any(isinstance(row[check], int) for check in SANITIZERS)]
    some = [row for row in seen if any(isinstance(row[check], int) and row[check] > 0 for check in SANITIZERS)]
    text = f"{sum(map(right, rows))} of {len(rows)} faults blamed on their stage"
    if seen:
        text += f"; compute-sanitizer sees {len(some)} of the {len(seen)} that it ran"
    wrong = next((row for row in rows if not right(row)), None)
    return text + (f"; first: {wrong['kernel']} {wrong['fault']}: {wrong['blamed']}, not {wrong['stage']}" if wrong else "")


def write_all(folder, rows, commands, keep):
    with open(folder / "faults.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_table(folder / "faults.md", rows)
    report = [{**row, "command": shlex.join(word.removeprefix(f"{ROOT}/") for word in command)}
              for row, command in zip(rows, commands)]
    (folder / "faults.json").write_text(json.dumps(report, indent=1) + "\n")
    if keep:
        listed = [{"file": f"{row['kernel']}_{row['fault']}.h5", "kernel": row["kernel"], "fault": row["fault"],
                   "stage": row["stage"]} for row in rows if not unjudged(row)]
        (folder / "recordings" / "faults.json").write_text(json.dumps(listed, indent=1) + "\n")
    else:
        (folder / "recordings").rmdir()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR", help="a folder that is empty or not there yet")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", metavar="DIR")
    parser.add_argument("--engine", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--kernel", action="append", metavar="NAME", help="of this kernel; may be repeated")
    parser.add_argument("--sanitize", choices=("once", "every", "none"), default="once")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) * 3 // 4), metavar="N",
                        help="programs at a time (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the recordings")
    options = parser.parse_args()
    if options.engine == "cpu":
        options.sanitize = "none"
    options.bin = options.bin.resolve()
    return options


def main():
    options = parse_arguments()
    check_folders(options.folder, options.bin, ("tile-run", "tile-diff"))
    faults = Faults(options)
    (options.folder / "recordings").mkdir(parents=True)
    rows, commands = run_all(faults)
    for leftover in () if options.keep else (options.folder / "recordings").iterdir():
        leftover.unlink()
    write_all(options.folder, rows, commands, options.keep)
    print(summary(rows))
    return 2 if any(map(unjudged, rows)) else 0 if all(map(right, rows)) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unrunnable, OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"faults.py: {error}", file=sys.stderr)
        sys.exit(2)
