#!/usr/bin/env python3
"""Prints where the time of a build and of its tests goes: CPU seconds of each step of compiling and of each folder, and
seconds of each test, largest first.

usage: bench_suite.py [BUILD-DIR...]

Reads what cpu_seconds.sh and CTest wrote down when each was last run; nothing is compiled or run. Without arguments the two
builds of ./dev test; build-demo is that of ./dev demo. Seconds of tests are those of a clock on the wall. A step that
ccache served counts with the little that it took.
Exit codes: 0 printed, 2 a build folder holds nothing to print.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN = 25


def steps_of(build):
    """{output: CPU seconds} of the last run of each step whose output is there."""
    steps = {}
    for line in (build / "cpu_seconds.txt").read_text().splitlines():
        user, system, output = line.split(" ", 2)
        if (build / output).exists():
            steps[output] = float(user) + float(system)
    return steps


def tests_of(build):
    """{test: seconds} of CTest's last run; none where it never ran."""
    written = build / "Testing/Temporary/LastTest.log"
    log = written.read_text(errors="replace") if written.exists() else ""
    return {name: float(seconds)
            for name, seconds in re.findall(r"^\d+/\d+ Testing: (.+?)\n.*?^Test time = +([\d.]+) sec$", log,
                                            re.MULTILINE | re.DOTALL)}


def folder_of(output):
    """The folder of the sources of a step, which the name of those that are compiled together holds; what is linked into bin/
    has none."""
    together = re.match(r"(.+)/CMakeFiles/([^/]+)\.dir/together/\2_?(.*)_\d+\.cpp\.o$", output.replace("-", "_"))
    if together:
        return f"{together[1]}/{together[3]}"
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
        if tests:
            show(f"{build.name}, tests of the last run", tests)
        sums[build.name] = sum(steps.values()), sum(tests.values())
    print(f"\n{'seconds':<20}{'compiling':>10}{'tests':>10}   (of the CPU, and on the wall)")
    for name, (compiling, testing) in sums.items():
        print(f"{name:<20}{compiling:>10.0f}{testing:>10.0f}")
    return 0


if __name__ == "__main__":
    named = [pathlib.Path(folder).resolve() for folder in sys.argv[1:]]
    sys.exit(main(named or [ROOT / "build", ROOT / "build-sanitize"]))
