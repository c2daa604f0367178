#!/usr/bin/env python3
"""Prints where the time of ./dev test goes: seconds of each step of compiling and of each test, largest first.

usage: bench_suite.py [BUILD-DIR...]

Reads what Ninja and CTest wrote down when each was last run; nothing is compiled or run. Without arguments the two
builds of ./dev test. Seconds are those of a clock on the wall, which are CPU seconds where no more ran at once than
there are cores and nothing else ran. A step that ccache served counts with the little that it took.
Exit codes: 0 printed, 2 a build folder holds nothing to print.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN = 25


def steps_of(build):
    """{output: seconds} of the steps whose output is there; one output of those that have several."""
    lines = (build / ".ninja_log").read_text().splitlines()
    steps = {}
    for line in lines[1:]:
        start, end, _, output, command = line.split("\t")
        output = output.removeprefix(f"{build}/")
        if (build / output).exists():
            steps[output] = (int(start), int(end), command)
    first_output = {step: output for output, step in reversed(steps.items())}
    return {output: (end - start) / 1000 for (start, end, _), output in first_output.items()}


def tests_of(build):
    """{test: seconds} of CTest's last run."""
    log = (build / "Testing/Temporary/LastTest.log").read_text(errors="replace")
    return {name: float(seconds)
            for name, seconds in re.findall(r"^\d+/\d+ Testing: (.+?)\n.*?^Test time = +([\d.]+) sec$", log,
                                            re.MULTILINE | re.DOTALL)}


def folder_of(output):
    """The folder of the sources of a step; what is linked into bin/ has none."""
    return re.sub(r"/?(CMakeFiles/.*|[^/]*)$", "", output) or "others"


def show(title, seconds):
    print(f"\n{title}: {len(seconds)}, {sum(seconds.values()):.0f} s")
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    for name, took in ordered[:SHOWN]:
        print(f"{took:9.1f}  {name}")
    if rest := ordered[SHOWN:]:
        print(f"{sum(took for _, took in rest):9.1f}  {len(rest)} others")


def by_folder(steps):
    sums = collections.Counter()
    for output, seconds in steps.items():
        sums[folder_of(output)] += seconds
    return sums


def main(builds):
    sums = {}
    for build in builds:
        try:
            steps, tests = steps_of(build), tests_of(build)
        except OSError as error:
            print(f"bench_suite.py: {error.filename}: not there; run ./dev test first", file=sys.stderr)
            return 2
        show(f"{build.name}, steps of compiling", steps)
        show(f"{build.name}, the same by folder", by_folder(steps))
        show(f"{build.name}, tests of the last run", tests)
        sums[build.name] = sum(steps.values()), sum(tests.values())
    print(f"\n{'seconds':<20}{'compiling':>10}{'tests':>10}")
    for name, (compiling, testing) in sums.items():
        print(f"{name:<20}{compiling:>10.0f}{testing:>10.0f}")
    return 0


if __name__ == "__main__":
    named = [pathlib.Path(folder).resolve() for folder in sys.argv[1:]]
    sys.exit(main(named or [ROOT / "build", ROOT / "build-sanitize"]))
