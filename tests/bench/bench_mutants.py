#!/usr/bin/env python3
"""Judges mutants of kernels (mutants/mutate.py) with tile-diff, and counts how often it finds the stage and a cause.

usage: bench_mutants.py [--build DIR] [--every N] [--mutants N,...] [--keep DIR] [--verbose] [--suite FILE]

Each mutant is compiled and run in processes of their own, with its hooks and, for the truth, in float64 with other ones
(mutants/wide), which share nothing with Tilescope. Classes, all of which are shown:

  not compiled     by the compiler that compiles the kernel as it is
  crashed or hung  or refused to save what it recorded
  identical        every tile and output, to the bit, in every call of the kernel
  within rounding  what the hooks see in float64 is as it was, to 1e-10
  wrong            the rest; the table has a line for each operator of these

A wrong mutant is detected where tile-diff says so, and its stage is right where it is the first, in the order of the data, that
differs in float64. Its cause is the first that is a fault and whose replay has 99 % of the wrong elements within budgets; it is
false where it acts neither in that stage nor in an operand of it. Mutants in lines that are hooks have a table of their own.
Exit codes: 0 counted, 2 nothing could be compiled.

--suite writes forty mutants whose stage is found, of all operators, for the test of every day (tests/cli/mutants_test.py).

There is no goal here: the figures are for who reads them.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE / "mutants"))
import mutate  # noqa: E402

SECONDS = 20
MEMORY = 4 << 30
AGREES = 1e-10
# What is computed from what: a mistake is of the first that differs.
ORDER = ("s", "m", "p", "l", "acc", "o")
# A kernel that reads an operand wrongly is wrong in what it computes of it, where the operand is not recorded.
COMPUTED_FROM = {"q": "s", "k": "s", "v": "acc"}
CLASSES = ("not compiled", "crashed or hung", "identical", "within rounding", "wrong")


@dataclasses.dataclass(frozen=True)
class Subject:
    """A kernel whose source is mutated, and how it is run."""
    name: str
    folder: pathlib.Path
    source: str
    headers: tuple
    functions: tuple
    record: pathlib.Path  # a program's source: record CALL writes CALL.h5
    wide: pathlib.Path    # wide CALL FILE writes what the hooks see
    calls: tuple          # in this order; a mutant is judged in the first that it changes
    mended: tuple = ()    # (before, after): what is wrong in the source as it is


SUBJECTS = [
    Subject(name="samples/pipeline", folder=ROOT / "samples/pipeline", source="kernels.cpp", headers=("kernels.h",),
            functions=("dot", "attend_row", "attend", "keys_before", "window", "soft_capped"),
            record=ROOT / "samples/pipeline/record.cpp", wide=HERE / "mutants/pipeline_wide.cpp",
            calls=("causal", "grouped", "window", "soft_cap"),
            mended=(("query - key < window_left", "query - key <= window_left"),)),
]


@dataclasses.dataclass
class Result:
    mutant: dict      # as mutate.py describes it
    kind: str         # one of CLASSES
    call: str = ""    # in which it is wrong
    truth: str = ""   # the stage that is
    blamed: str = ""  # by tile-diff; empty: it matches
    cause: str = ""
    cause_stage: str = ""
    seconds: float = 0

    def counts(self):
        acts_there = self.truth in (self.cause_stage, COMPUTED_FROM.get(self.cause_stage))
        return {"detected": self.blamed != "", "stage": self.blamed == self.truth, "cause": self.cause != "" and acts_there,
                "false cause": self.cause != "" and not acts_there}


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ran(command, folder):
    """Whether it ended well, in time and within its memory."""
    try:
        run = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, timeout=SECONDS,
                             preexec_fn=limited)
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def compiled(command, folder):
    return subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True)


def contents(path):
    """Every tile and output, as bytes."""
    with h5py.File(path) as file:
        found = {}
        for group in ("tiles", "outputs"):
            for name, data in file.get(group, {}).items():
                found[f"{group}/{name}"] = data[()].tobytes()
        return found


def trace(path):
    """What the hooks saw in float64: for each stage its places and values."""
    stages = collections.defaultdict(dict)
    for line in path.read_text().splitlines():
        stage, *place, value = line.split()
        stages[stage][tuple(place)] = float(value)
    return stages


def differs(before, after):
    if before.keys() != after.keys():
        return True
    a, b = (np.array(list(values[key] for key in before)) for values in (before, after))
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return True
    a, b = a[finite], b[finite]
    return bool((np.abs(a - b) > AGREES * np.maximum(1, np.abs(a))).any())


def first_that_differs(before, after):
    return next((stage for stage in ORDER if differs(before.get(stage, {}), after.get(stage, {}))), "")


class Bench:
    """What is compiled once for a subject, and its mutants."""

    def __init__(self, subject, tile_diff, build, scratch):
        self.subject, self.tile_diff, self.build, self.scratch = subject, tile_diff, build, scratch / subject.name.replace("/", "_")
        self.scratch.mkdir(parents=True)
        self.text = (subject.folder / subject.source).read_text()
        for before, after in subject.mended:
            assert self.text.count(before) == 1, before
            self.text = self.text.replace(before, after)
        self.source = mutate.Source(self.text)
        self.edits = mutate.edits_of(self.source, set(subject.functions))
        self.flags = ["c++", "-std=c++20", "-O1", "-w", "-fno-strict-aliasing"]
        base = self.scratch / "base"
        self.put(base, self.text)
        self.objects = {}
        for name, source, hooked in (("record", subject.record, True), ("wide", subject.wide, False)):
            self.objects[name] = base / f"{name}.o"
            said = compiled([*self.flags, *self.includes(base, hooked), "-c", source, "-o", self.objects[name]], base)
            if said.returncode:
                raise RuntimeError(f"{source}: it does not compile: {said.stderr.splitlines()[0]}")
        said = self.compile(base)
        if said:
            raise RuntimeError(f"{subject.name}: it does not compile as it is: {said}")
        self.recorded, self.seen = {}, {}
        for call in subject.calls:
            if not self.record(base, call) or not self.run_wide(base, call):
                raise RuntimeError(f"{subject.name}: {call} does not run as it is")
            self.recorded[call] = contents(base / f"{call}.h5")
            self.seen[call] = trace(base / f"{call}.txt")
            self.hold_together(base, call)

    def hold_together(self, base, call):
        """The truth is of the call that is recorded."""
        with h5py.File(base / f"{call}.h5") as file:
            o = file["outputs/o"][()].astype(float).ravel()
        seen = self.seen[call]["o"]
        wide = np.array([seen[place] for place in sorted(seen, key=lambda place: tuple(map(int, place)))])
        if o.shape != wide.shape or np.abs(o - wide).max() > 1e-4:
            raise RuntimeError(f"{self.subject.wide}: of {call} it does not compute what {self.subject.record.name} records")

    def includes(self, folder, hooked):
        if hooked:
            return ["-DDEBUG_DUMP", "-I", ROOT]
        return ["-I", folder / "wide", "-I", HERE / "mutants/wide"]

    def inside(self, folder, name):
        """Where the copy is, under the name of the original: its headers are found before that's."""
        return folder / name / self.subject.name

    def put(self, folder, text):
        """The source as it is, and with double in place of float."""
        for name in ("hooked", "wide"):
            self.inside(folder, name).mkdir(parents=True)
            files = {self.subject.source: text, **{h: (self.subject.folder / h).read_text() for h in self.subject.headers}}
            for file, content in files.items():
                if name == "wide":
                    content = re.sub(r"\bfloat\b", "double", content)
                (self.inside(folder, name) / file).write_text(content)

    def compile(self, folder):
        """Empty, or the first line of what the compiler says."""
        library = self.build / "dump"
        links = {"record": [f"-L{library}", f"-Wl,-rpath,{library}", "-ltilescope"], "wide": []}
        for name, inside in (("record", "hooked"), ("wide", "wide")):
            said = compiled([*self.flags, *self.includes(folder, inside == "hooked"), self.inside(folder, inside) / self.subject.source,
                             self.objects[name], "-o", folder / f"{name}.out", *links[name]], folder)
            if said.returncode:
                return (said.stderr.splitlines() or ["it says nothing"])[0]
        return ""

    def record(self, folder, call):
        return ran([folder / "record.out", call], folder) and (folder / f"{call}.h5").is_file()

    def run_wide(self, folder, call):
        return ran([folder / "wide.out", call, folder / f"{call}.txt"], folder)

    def judge(self, number, keep=False):
        edit = self.edits[number]
        mutant = mutate.described(self.text, number, edit)
        result = Result({**mutant, "text": self.text.splitlines()[mutant["line"] - 1].strip()}, "identical")
        folder = self.scratch / str(number)
        self.put(folder, mutate.mutated(self.text, edit))
        if self.compile(folder):
            result.kind = "not compiled"
        else:
            self.run(folder, result)
        if not keep:
            shutil.rmtree(folder)
        return result

    def run(self, folder, result):
        """In each call until one is wrong."""
        for call in self.subject.calls:
            if not self.record(folder, call):
                result.kind = "crashed or hung"
                return
            if contents(folder / f"{call}.h5") == self.recorded[call]:
                continue
            if not self.run_wide(folder, call):
                result.kind = "crashed or hung"
                return
            result.truth = first_that_differs(self.seen[call], trace(folder / f"{call}.txt"))
            result.kind, result.call = ("wrong", call) if result.truth else ("within rounding", "")
            if result.truth:
                return self.diagnose(folder / f"{call}.h5", result)

    def diagnose(self, path, result):
        start = time.monotonic()
        run = subprocess.run([self.tile_diff, path, "--json", "-"], capture_output=True, text=True)
        result.seconds = time.monotonic() - start
        report = json.loads(run.stdout)
        if report["first_divergence"]:
            result.blamed = report["first_divergence"]["stage"]
        cause = next((c for c in report["causes"] or [] if not c["legal"] and not c["structural"] and c["explained_after"] >= 0.99), None)
        if cause:
            result.cause, result.cause_stage = cause["name"], cause["stage"]


def share(count, of):
    return f"{count:4} {100 * count / of:5.1f} %" if of else "   -        "


def table(title, results):
    """A line for each operator, and one for all of them."""
    wrong = [result for result in results if result.kind == "wrong"]
    print(f"\n{title}: {len(results)} mutants")
    print("  " + ", ".join(f"{kind} {sum(r.kind == kind for r in results)}" for kind in CLASSES))
    columns = ("detected", "stage", "cause", "false cause")
    print(f"  {'operator':12} {'wrong':>6}  " + "  ".join(f"{column:>12}" for column in columns))
    for operator in [*mutate.OPERATORS, "all"]:
        of = [result for result in wrong if operator in ("all", result.mutant["operator"])]
        if not of and operator != "all":
            continue
        counts = [sum(result.counts()[column] for result in of) for column in columns]
        print(f"  {operator:12} {len(of):6}  " + "  ".join(share(count, len(of)) for count in counts))


def line_about(result):
    mutant = result.mutant
    said = f"{result.blamed or 'match'} ({result.cause or 'no cause'}{' in ' + result.cause_stage if result.cause else ''})"
    return (f"  {mutant['mutant']:4} line {mutant['line']:3} {mutant['operator']}: {mutant['before']!r} -> {mutant['after']!r} in "
            f"{mutant['text']!r}, {result.call}: {result.truth} is wrong, tile-diff says {said}")


def suite(subject, results, count=40):
    """Operators in turn, each spread over the source; lines that are mended here stand otherwise in the sample."""
    mended = [after for _, after in subject.mended]
    fit = [r for r in results if r.kind == "wrong" and not r.mutant["hook"] and r.counts()["stage"] and r.call != "window" and
           not any(after in r.mutant["text"] for after in mended)]
    of_operator = {operator: [r for r in fit if r.mutant["operator"] == operator] for operator in mutate.OPERATORS}
    shares = collections.Counter()
    while sum(shares.values()) < min(count, len(fit)):
        for operator, some in of_operator.items():
            if shares[operator] < len(some) and sum(shares.values()) < count:
                shares[operator] += 1
    chosen = [some[i * len(some) // shares[operator]] for operator, some in of_operator.items() for i in range(shares[operator])]
    keys = ("operator", "line", "column", "before", "after")
    rows = [{**{key: r.mutant[key] for key in keys}, "call": r.call, "stage": r.truth} for r in sorted(chosen, key=lambda r: r.mutant["mutant"])]
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def main():
    parser = argparse.ArgumentParser(prog="bench_mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="where Tilescope was compiled")
    parser.add_argument("--every", type=int, default=1, help="of how many mutants one is judged")
    parser.add_argument("--mutants", type=lambda text: [int(word) for word in text.split(",")], help="these alone")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for what is compiled and recorded")
    parser.add_argument("--verbose", action="store_true", help="list every mutant that is wrong, not those alone that are missed")
    parser.add_argument("--suite", type=pathlib.Path, help="where to write those of the test of every day")
    options = parser.parse_args()
    build = options.build.resolve()
    if options.keep:
        options.keep.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep.resolve() if options.keep else pathlib.Path(scratch)
        for subject in SUBJECTS:
            bench = Bench(subject, build / "bin/tile-diff", build, folder)
            numbers = options.mutants or range(0, len(bench.edits), options.every)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                results = list(pool.map(lambda number: bench.judge(number, bool(options.keep)), numbers))
            table(f"{subject.name}, one of {options.every}", [r for r in results if not r.mutant["hook"]])
            table(f"{subject.name}, lines of hooks", [r for r in results if r.mutant["hook"]])
            wrong = [r for r in results if r.kind == "wrong" and not r.mutant["hook"]]
            seconds = sorted(r.seconds for r in wrong)
            if seconds:
                print(f"  tile-diff: median {seconds[len(seconds) // 2]:.2f} s, worst {seconds[-1]:.2f} s")
            shown = [r for r in wrong if options.verbose or not r.counts()["stage"] or not r.counts()["cause"]]
            print(*map(line_about, shown), sep="\n")
            if options.suite and subject is SUBJECTS[0]:
                options.suite.write_text(suite(subject, results))


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError) as error:
        print(f"bench_mutants: {error}", file=sys.stderr)
        sys.exit(2)
