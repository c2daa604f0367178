"""Kernels with drawn mistakes (tests/bench/strangers), singly and in pairs: tile-diff judges each, in time, and nothing that it
was compiled with, such as a sanitizer, has anything to say. What it names is not looked at.

usage: strangers_fuzz_test.py TILE_DIFF [--count N] [--seed S]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = (["--pairs"], [], ["--pairs", "--backward"], ["--recorded", "random"])
CODES = {"match": 0, "diverged": 1}
MOST_SECONDS = 240  # sanitized, beside other tests
# A sanitizer's own codes are those of verdicts.
SANITIZER_CODE = 99
ASKED_OF_SANITIZERS = {name: f"{os.environ.get(name, '')}:exitcode={SANITIZER_CODE}"
                       for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS")}
REPORTED = re.compile(r"Sanitizer|runtime error:")


def what_is_wrong(tile_diff, recording):
    """Of one run, or nothing; and the seconds that it took."""
    begin = time.monotonic()
    try:
        run = subprocess.run([tile_diff, recording, "--threads", "1", "--json", "-"], capture_output=True, text=True,
                             errors="replace", timeout=MOST_SECONDS, env=os.environ | ASKED_OF_SANITIZERS)
    except subprocess.TimeoutExpired:
        return f"longer than {MOST_SECONDS} s", MOST_SECONDS
    seconds = time.monotonic() - begin
    if run.returncode not in CODES.values() or REPORTED.search(run.stderr):
        return f"exit code {run.returncode}\n{run.stderr[:4000]}", seconds
    verdict = json.loads(run.stdout)["verdict"]
    return None if CODES.get(verdict) == run.returncode else f"exit code {run.returncode} of {verdict}", seconds


def judge_kind(options, kind, folder):
    """How many failed of the recordings that are drawn into the folder; prints how to get each of them again."""
    draw = ["tests/bench/strangers", "--count", str(options.count), "--seed", str(options.seed), *kind, "--out"]
    print(shlex.join(["python3", *draw]), "DIR", flush=True)
    subprocess.run([sys.executable, *draw, folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    recordings = sorted(folder.glob("*.h5"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda recording: what_is_wrong(options.tile_diff, recording), recordings))
    failed = 0
    for recording, (wrong, _) in zip(recordings, results):
        if wrong:
            failed += 1
            print(f"FAILED: tile-diff DIR/{recording.name}: {wrong}", flush=True)
    print(f"  {len(recordings)} judged, {failed} failed, longest {max(seconds for _, seconds in results):.1f} s", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tile_diff", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=12, metavar="N", help=f"kernels of each of {len(KINDS)} kinds")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), metavar="S", help="any other one for each run")
    options = parser.parse_args()
    options.tile_diff = options.tile_diff.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        failed = [judge_kind(options, kind, pathlib.Path(scratch) / str(i)) for i, kind in enumerate(KINDS)]
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
