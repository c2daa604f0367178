#!/usr/bin/env python3
"""Judges the recorded samples with tile-diff and compares its verdicts with samples.json.

samples.json lists the samples in the order of the table:
    file     the recording, a name in this folder, or a folder with those of a call on several ranks
    command  what recorded it, from the root of the repository; only tile-run records it again here
    expect   "match" or "diverged"
    stage    the first guilty stage, null for a match
    what     one line on what the kernel does
Exit codes: 0 every verdict is the expected one, 1 some are not, 2 they could not be compared.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
EXIT_CODES = {"match": 0, "diverged": 1}


class Unjudged(Exception):
    """What makes the comparison impossible, as one line."""


def load_samples():
    index = FOLDER / "samples.json"
    if not index.is_file():
        raise Unjudged(f"{index}: not found; get it from the repository")
    samples = json.loads(index.read_text())
    listed = {sample["file"] for sample in samples}
    stored = {path.relative_to(FOLDER).parts[0] for pattern in ("*.h5", "*/*.h5") for path in FOLDER.glob(pattern)}
    if not listed:
        raise Unjudged(f"{index}: lists no sample; add one")
    for name in sorted(listed ^ stored):
        raise Unjudged(f"{name}: is not both in {FOLDER.name}/ and in samples.json; add it or remove it")
    return samples


def is_of_tile_run(sample):
    return pathlib.Path(shlex.split(sample["command"])[0]).name == "tile-run"


def record(sample, tile_run, folder):
    """Runs the command that recorded the sample again, into `folder`."""
    words = shlex.split(sample["command"])
    if "-o" not in words:
        raise Unjudged(f"{sample['file']}: its command has no -o FILE; correct samples.json")
    recording = folder / sample["file"]
    words[0] = tile_run
    words[words.index("-o") + 1] = str(recording)
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode != 0:
        raise Unjudged(f"{shlex.join(words)}: exit {run.returncode}: {run.stdout.strip()}")
    return recording


def judge(recording, tile_diff):
    """The verdict on a recording and the first guilty stage, as tile-diff's JSON report has them."""
    run = subprocess.run([tile_diff, "--json", "-", str(recording)], capture_output=True, text=True)
    if run.returncode not in EXIT_CODES.values():
        return f"exit {run.returncode}: {run.stderr.strip()}", None
    report = json.loads(run.stdout)
    if "recordings" in report:
        [report] = report["recordings"]
    verdict = report["verdict"]
    if run.returncode != EXIT_CODES.get(verdict):
        return f"{verdict}, yet exit {run.returncode}", None
    divergence = report["faults"][0] if report.get("faults") else report.get("first_divergence")
    return verdict, divergence["stage"] if divergence else None


def show(verdict, stage):
    return verdict if stage is None else f"{verdict} in {stage}"


def judge_all(samples, tile_diff, tile_run):
    """Prints the table; returns how many verdicts are not the expected ones."""
    wrong = 0
    width = max(len(sample["file"]) for sample in samples)
    print(f"{'sample':{width}}  {'expected':15}  {'verdict':15}  seconds  what the kernel does")
    with tempfile.TemporaryDirectory() as scratch:
        for sample in samples:
            recording = FOLDER / sample["file"]
            if tile_run:
                recording = record(sample, tile_run, pathlib.Path(scratch))
            start = time.monotonic()
            verdict = judge(recording, tile_diff)
            seconds = time.monotonic() - start
            expected = (sample["expect"], sample["stage"])
            wrong += verdict != expected
            mark = "" if verdict == expected else "  <- NOT AS EXPECTED"
            print(f"{sample['file']:{width}}  {show(*expected):15}  {show(*verdict):15}  {seconds:7.2f}  "
                  f"{sample['what']}{mark}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tile-diff", help="path of tile-diff")
    parser.add_argument("--tile-run", help="path of tile-run: record every sample anew on this machine")
    parser.add_argument("--first-diverged", action="store_true", help="only name the first faulty sample")
    options = parser.parse_args()
    if not options.first_diverged and not options.tile_diff:
        parser.error("--tile-diff: missing; give the path of tile-diff")

    samples = load_samples()
    if options.tile_run:
        samples = [sample for sample in samples if is_of_tile_run(sample)]
    if options.first_diverged:
        print(next(sample["file"] for sample in samples if sample["expect"] == "diverged"))
        return 0
    wrong = judge_all(samples, options.tile_diff, options.tile_run)
    print(f"{len(samples) - wrong} of {len(samples)} verdicts are the expected ones")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unjudged, OSError, ValueError, KeyError) as error:
        print(f"judge.py: {error}", file=sys.stderr)
        sys.exit(2)
