#!/usr/bin/env python3
"""Times tile-diff on a dump with S of 16384 x 16384 against h5diff and NumPy comparing two such files, shows how its
time and memory grow with the size of S and how threads share it, and where its time goes.

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


def make_dump(arguments, path, seqlen, *content):
    subprocess.run([arguments.bin / "make_large_dump", path, str(seqlen), *content], check=True)


def compare_with_others(arguments, directory):
    files = [f"{directory}/{name}.h5" for name in ("a", "b", "a_contiguous", "b_contiguous")]
    for chunked, contiguous in zip(files[:2], files[2:]):
        make_dump(arguments, chunked, arguments.seqlen)
        subprocess.run(["h5repack", "-l", "/tiles/s:CONTI", chunked, contiguous], check=True)
    commands = {
        "tile-diff": [arguments.bin / "tile-diff", files[0]],
        "h5diff": ["h5diff", *files[:2], "/tiles/s", "/tiles/s"],
        "h5diff, contiguous": ["h5diff", *files[2:], "/tiles/s", "/tiles/s"],
        "NumPy isclose": [sys.executable, "-c", NUMPY_COMPARISON, *files[:2]],
    }
    best = {name: (float("inf"), 0.0) for name in commands}
    for _ in range(arguments.rounds):
        for name, command in commands.items():
            best[name] = min(best[name], measure(command))
    gib = arguments.seqlen**2 * 4 / 2**30
    print(f"S of {arguments.seqlen} x {arguments.seqlen} float32, {gib:.2f} GiB, best of {arguments.rounds}")
    reference = best["tile-diff"][0]
    for name, (seconds, mib) in best.items():
        print(f"{name:<19}{seconds:8.2f} s {seconds / reference:7.2f} x tile-diff {mib:9.0f} MiB resident")
    for path in files:
        os.remove(path)


def show_growth(arguments, directory):
    print("\nS stored       tile-diff          resident")
    seqlen = 512
    while seqlen <= 2 * arguments.seqlen:
        path = f"{directory}/grown.h5"
        make_dump(arguments, path, seqlen)
        runs = [measure([arguments.bin / "tile-diff", path]) for _ in range(arguments.rounds)]
        seconds, mib = min(runs)
        size = seqlen**2 * 4 / 2**20
        print(f"{size:6.0f} MiB {seconds:10.3f} s {1000 * seconds / size:7.2f} ms/MiB {mib:6.0f} MiB")
        os.remove(path)
        seqlen *= 2


def show_threads(arguments, directory):
    dumps = {"S": (arguments.seqlen,), "6 stages of 32 heads": (arguments.seqlen // 8, "all", "32")}
    paths = [f"{directory}/{name.replace(' ', '_')}.h5" for name in dumps]
    for path, dump in zip(paths, dumps.values()):
        make_dump(arguments, path, *dump)
    print("\nthreads" + "".join(f"{name:>24}" for name in dumps))
    threads = 1
    while threads <= os.cpu_count():
        row = f"{threads:7}"
        for path in paths:
            command = [arguments.bin / "tile-diff", "--threads", str(threads), path]
            row += f"{min(measure(command)[0] for _ in range(arguments.rounds)):22.2f} s"
        print(row)
        threads *= 2
    print()
    sys.stdout.flush()
    subprocess.run([arguments.bin / "judge_shares", *paths], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--seqlen", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where the files go; 4.5 GiB are needed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        compare_with_others(arguments, directory)
        show_growth(arguments, directory)
        show_threads(arguments, directory)


if __name__ == "__main__":
    main()
