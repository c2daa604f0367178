#!/usr/bin/env python3
"""Times tile-diff on a dump with S of 16384 x 16384 against h5diff and NumPy comparing two such files.

tile-diff recomputes S; the others compare stored numbers. All of them run here, one after the other, the best of three
rounds each, after one reading that brings the files into the page cache.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

NUMPY_COMPARISON = """
import h5py, numpy, sys
with h5py.File(sys.argv[1]) as a, h5py.File(sys.argv[2]) as b:
    same = numpy.isclose(a['tiles/s'][...], b['tiles/s'][...], rtol=1e-5, atol=1e-6).all()
sys.exit(0 if same else 1)
"""


def measure(command):
    """Wall-clock seconds and peak resident MiB of one run, which must succeed."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"bench_tile_diff: {' '.join(map(str, command))}: exit {os.waitstatus_to_exitcode(status)}")
    return seconds, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--seqlen", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where the two files go; 2.2 GiB are needed")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        a, b = f"{directory}/a.h5", f"{directory}/b.h5"
        for path in (a, b):
            subprocess.run([arguments.bin / "make_large_dump", path, str(arguments.seqlen)], check=True)
        commands = {
            "tile-diff": [arguments.bin / "tile-diff", a],
            "h5diff": ["h5diff", a, b, "/tiles/s", "/tiles/s"],
            "NumPy isclose": [sys.executable, "-c", NUMPY_COMPARISON, a, b],
        }
        best = {name: (float("inf"), 0.0) for name in commands}
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                best[name] = min(best[name], measure(command))
        gib = arguments.seqlen**2 * 4 / 2**30
        print(f"S of {arguments.seqlen} x {arguments.seqlen} float32, {gib:.2f} GiB, best of {arguments.rounds}")
        reference = best["tile-diff"][0]
        for name, (seconds, mib) in best.items():
            print(f"{name:<14}{seconds:8.2f} s {seconds / reference:7.2f} x tile-diff {mib:9.0f} MiB resident")


if __name__ == "__main__":
    main()
