"""Recordings that were changed where HDF5 lets them be changed: tile-diff ends with a verdict or in one line, in time, without much
memory and without many words, and nothing that it was compiled with, such as a sanitizer, has anything to say.

usage: mutated_test.py TILE_DIFF [--seconds N | --count N] [--seed S] [--first I] [--keep FOLDER]
"""

import argparse
import concurrent.futures
import itertools
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import h5py

import small_dump
from mutations import mutate

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "samples"
MOST_SECONDS = 60  # of the processor; a sanitized one beside others takes several
MOST_BYTES = 2 << 30  # resident
LONGEST_LINE, LONGEST_REPORT = 4 << 10, 256 << 10
# A sanitizer's own codes are those of verdicts.
SANITIZER_CODE = 99
ASKED_OF_SANITIZERS = {name: f"{os.environ.get(name, '')}:exitcode={SANITIZER_CODE}:allocator_may_return_null=1"
                       for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS")}
REPORTED = re.compile(r"Sanitizer|runtime error:")
# A terminal obeys some of these.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def bases(folder):
    """What is changed: recordings with few and with many stages, forward and backward."""
    small = small_dump.write(folder / "small.h5")
    outputs = small_dump.write(folder / "outputs.h5", only=["s", "o", "lse"])
    return [small, small, outputs, SAMPLES / "columns_uncovered.h5", SAMPLES / "torch_backward.h5"]


def make(path, base, draw):
    """What was changed, in words."""
    shutil.copyfile(base, path)
    with h5py.File(path, "r+") as file:
        return [f"{base.name}:"] + [mutate(file, draw) for _ in range(draw.choice([1, 1, 2, 4]))]


def what_is_wrong(run, used):
    seconds = used.ru_utime + used.ru_stime
    text = run.stdout + run.stderr
    if run.returncode not in (0, 1, 2) or REPORTED.search(text):
        return f"exit code {run.returncode}"
    # Also of what cannot be judged there may be a report: of a run that ended early.
    if len(run.stdout) > LONGEST_REPORT:
        return f"a report of {len(run.stdout)} characters"
    if run.stderr.count("\n") != (run.returncode == 2) or len(run.stderr) > LONGEST_LINE:
        return f"exit code {run.returncode} and {len(run.stderr)} characters on stderr"
    if CONTROL.search(text):
        return f"it prints {CONTROL.search(text).group()!r}"
    if seconds > MOST_SECONDS:
        return f"it takes {seconds:.0f} s of the processor"
    if used.ru_maxrss << 10 > MOST_BYTES:
        return f"it takes {used.ru_maxrss >> 10} MiB"
    return None


def judge(tile_diff, path):
    """The finished process, and what it used."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        process = subprocess.Popen([tile_diff, path, "--threads", "1"], stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                   env=os.environ | ASKED_OF_SANITIZERS,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS)))
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(process.args, process.returncode, out.read(), err.read()), used


def try_one(options, folder, number):
    """Prints what is wrong with the file of that number, and how to get it again. The exit code, or None where something is."""
    draw = random.Random(f"{options.seed} {number}")
    path = folder / f"{number}.h5"
    changes = make(path, draw.choice(options.bases), draw)
    run, used = judge(options.tile_diff, path)
    wrong = what_is_wrong(run, used)
    if wrong:
        again = ["python3", "tests/cli/mutated_test.py", os.fspath(options.tile_diff), "--seed", str(options.seed),
                 "--first", str(number), "--count", "1", "--keep", "DIR"]
        print(f"FAILED: {wrong}\n  {' | '.join(changes)}\n  {shlex.join(again)}\n{run.stderr[:3000]}", flush=True)
    if not options.keep:
        path.unlink()
    return None if wrong else run.returncode


def try_all(options, folder):
    options.bases = bases(folder)
    end = time.monotonic() + options.seconds
    numbers = range(options.first, options.first + options.count) if options.count else itertools.count(options.first)
    codes = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        in_time = itertools.takewhile(lambda _: options.count or time.monotonic() < end, numbers)
        while some := list(itertools.islice(in_time, 8 * os.cpu_count())):
            codes += pool.map(lambda number: try_one(options, folder, number), some)
    print(f"seed {options.seed}: {len(codes)} files: {codes.count(0)} match, {codes.count(1)} diverge, {codes.count(2)} are refused, "
          f"{codes.count(None)} failed")
    return codes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tile_diff", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=15, metavar="N", help="for which files are made, without --count")
    parser.add_argument("--count", type=int, metavar="N", help="files")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), metavar="S", help="any other one for each run")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first file")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="where the files stay")
    options = parser.parse_args()
    options.tile_diff = options.tile_diff.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or pathlib.Path(scratch)
        folder.mkdir(exist_ok=True)
        codes = try_all(options, folder)
    return 1 if None in codes or not codes else 0


if __name__ == "__main__":
    sys.exit(main())
