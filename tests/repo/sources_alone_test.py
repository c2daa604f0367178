#!/usr/bin/env python3
"""Every source compiles alone, without what is precompiled and without the sources that it is compiled together with: each
includes what it uses.

usage: sources_alone_test.py ROOT SCRATCH CMAKE

Only reads them (-fsyntax-only). Exit codes: 0 all do, 1 some do not.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT, SCRATCH = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
CMAKE = sys.argv[3]


def is_checked(source):
    """Benchmarks are, since ./dev bench alone builds them; tests are not, since they are built every day."""
    return source.is_relative_to(ROOT) and (source.parent == ROOT / "tests/bench" or
                                            not source.is_relative_to(ROOT / "tests"))


def read(entry):
    command = entry["command"].replace(" -c ", " -fsyntax-only -c ", 1)
    done = subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True, text=True, check=False)
    return entry["file"], done.returncode, done.stderr


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    subprocess.run([CMAKE, "--preset", "release", "-B", SCRATCH, "-DTILESCOPE_TOGETHER=OFF", "-DTILESCOPE_CUDA=OFF",
                    "-DTILESCOPE_TESTS=ON", "-DTILESCOPE_BENCH=ON"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    entries = json.loads((SCRATCH / "compile_commands.json").read_text())
    entries = [entry for entry in entries if is_checked(pathlib.Path(entry["file"]))]
    broken = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, code, said in pool.map(read, entries):
            if code:
                broken += 1
                print(f"{source}:\n{said}")
    print(f"{len(entries)} sources, {broken} do not compile alone")
    return 1 if broken or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
