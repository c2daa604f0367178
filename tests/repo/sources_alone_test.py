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


def read(entry):
    command = entry["command"].replace(" -c ", " -fsyntax-only -c ", 1)
    done = subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True, text=True, check=False)
    return entry["file"], done.returncode, done.stderr


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    subprocess.run([CMAKE, "--preset", "release", "-B", SCRATCH, "-DTILESCOPE_TOGETHER=OFF", "-DTILESCOPE_CUDA=OFF",
                    "-DTILESCOPE_TESTS=OFF"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    entries = json.loads((SCRATCH / "compile_commands.json").read_text())
    entries = [entry for entry in entries if pathlib.Path(entry["file"]).is_relative_to(ROOT)]
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
