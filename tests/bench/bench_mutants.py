#!/usr/bin/env python3
"""Judges mutants of kernels (mutants/mutate.py) with tile-diff, and counts how often it finds the stage, the line and a cause.

usage: bench_mutants.py [--build DIR] [--subject DIR ...] [--every N] [--mutants N,...] [--keep DIR] [--verbose] [--suite FILE]

A subject is a folder with a subject.json and a call.cpp (mutants/run_call.h): without --subject all of mutants/subjects.
Each mutant is compiled and run in processes of their own, with its hooks and, for the truth, in float64 with other ones
(mutants/wide), which share nothing with Tilescope. Classes, all of which are shown:

  not compiled     by the compiler that compiles the kernel as it is
  crashed or hung  or refused to save what it recorded
  identical        every tile and output, to the bit, in every call of the kernel
  within rounding  what the hooks see in float64 is as it was, to 1e-10
  wrong            the rest; the table has a line for each operator of these

A wrong mutant is detected where tile-diff says so, and its stage is right where it is the first, in the order of the data, that
differs in float64. Its line is right where the stage that is named, or that of the cause, leads to what was mutated: the line
of the stage's hook, those between it and the hook before, and what these follow from, up to other hooks: a slice by names. How
many of all lines a stage has so is printed. Its cause is the first that is a fault and whose replay has 99 % of the wrong elements
within budgets; it is false where it acts neither in that stage nor in what that is computed from and no hook sees. Mutants in
lines that are hooks have a table of their own.
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
ORDER = ("q", "k", "s", "m", "p", "l", "v", "acc", "o", "lse", "output")
# A kernel that reads an operand wrongly is wrong in what it computes of it, where the operand is not recorded.
COMPUTED_FROM = {"q": "s", "k": "s", "v": "acc"}
FACE = pathlib.Path("tests/bench/mutants/run_call.h")
PROGRAMS = ("record", "wide")
CLASSES = ("not compiled", "crashed or hung", "identical", "within rounding", "wrong")


@dataclasses.dataclass(frozen=True)
class Subject:
    """A kernel whose sources are mutated, and how it is run."""
    name: str
    folder: str      # of its files, from that of the subject or else from the project's root
    files: list      # copied, and compiled in place of those of the folder
    mutated: dict    # of some files the functions whose bodies are mutated
    calls: list      # in this order; a mutant is judged in the first that it changes
    at: pathlib.Path
    outputs: list = ()       # names that hold o, where no hook sees it
    until: str = ""          # what follows in a mutated file is no part of it
    mended: list = ()        # [before, after]: what is otherwise in the sources as they are
    wide: list = ()          # [before, after]: what is otherwise in those in float64

    @staticmethod
    def of(at):
        return Subject(at=at, **json.loads((at / "subject.json").read_text()))

    def original(self, file):
        folder = next(f for f in (self.at / self.folder, ROOT / self.folder) if f.is_dir())
        return (folder / file).read_text()

    def hold_together(self):
        """What is mended stands once in the sources."""
        originals = "".join(map(self.original, self.files))
        for before, _ in self.mended:
            if originals.count(before) != 1:
                raise RuntimeError(f"{self.name}: what is mended, {before!r}, stands {originals.count(before)} times in its files")

    def text(self, file):
        text = self.original(file)
        if self.until and file in self.mutated:
            text = text[:text.index(self.until)]
        for before, after in self.mended:
            text = text.replace(before, after)
        return text


SINGLE = re.compile(r"\b(exp|exp2|log|log2|fma|fmax|fmin|fabs|sqrt|tanh|pow)f\b")


def in_float64(text, others):
    text = SINGLE.sub(r"\1", re.sub(r"\bfloat\b", "double", text))
    for before, after in others:
        text = text.replace(before, after)
    return text


HOOK = re.compile(r"\bTILESCOPE_(?:VALUE|REPLICATED|TILE|FRAGMENT)\(\s*(\w+)\s*,")
NAME = re.compile(r"(\.|->)?\b([A-Za-z_]\w*)")


class Lines:
    """Where the hook of a stage leads to: lines of each file. A slice of the source by names, as who debugs takes it: no types,
    no pointers."""

    def __init__(self, texts, functions, outputs):
        self.lines = {file: text.splitlines() for file, text in texts.items()}
        self.bodies = {}  # of a function: [(file, first line, last line)]
        self.sources = {file: (mutate.Source(text), text) for file, text in texts.items()}
        for file, (source, text) in self.sources.items():
            for name in functions[file]:
                for body in source.bodies({name}):
                    if body:
                        at = [text.count("\n", 0, source.tokens[i].at) + 1 for i in (body[0], body[-1])]
                        self.bodies.setdefault(name, []).append((file, *at))
        self.hooks = [(file, number, match.group(1)) for file, lines in self.lines.items() for number, line in enumerate(lines, 1)
                      for match in HOOK.finditer(line)]
        self.given = {hook: self.names_given(hook) for hook in self.hooks}
        self.of_stage = {stage: self.reached(stage) for stage in {stage for _, _, stage in self.hooks}}
        self.everything = {(b[0], line) for bodies in self.bodies.values() for b in bodies for line in range(b[1], b[2] + 1)}
        stores = set().union(*(self.assignments(b[0], b[1], set(outputs)) for bodies in self.bodies.values() for b in bodies), set())
        self.of_stage.setdefault("o", self.followed(stores, set().union(*self.given.values())))

    def body_at(self, file, line):
        return next((b for bodies in self.bodies.values() for b in bodies if b[0] == file and b[1] <= line <= b[2]), None)

    def hooks_in(self, body):
        return [line for file, line, _ in self.hooks if file == body[0] and body[1] <= line <= body[2]]

    def names_given(self, hook):
        """The names in the value that it is given."""
        said = self.lines[hook[0]][hook[1] - 1]
        return {name for _, name in NAME.findall(said[said.rindex(",") + 1:] if "," in said else said)}

    def before(self, hook):
        """Its line, and those between it and the hook before."""
        file, line, _ = hook
        body = self.body_at(file, line) or (file, line, line)
        last = max((at for at in self.hooks_in(body) if at < line), default=body[1] - 1)
        return {(file, at) for at in range(last + 1, line + 1)}

    def reached(self, stage):
        """From its hooks backwards: statements that assign what is read, functions that are called, and calls of the function that a
        line is in, up to other hooks."""
        mine = [hook for hook in self.hooks if hook[2] == stage]
        others = set().union(*(self.given[hook] for hook in self.hooks if hook[2] != stage), set())
        found = set().union(*map(self.before, mine))
        for hook in mine:
            found |= self.assignments(*hook[:2], self.given[hook])
        return self.followed(found, others)

    def followed(self, lines, others):
        """What the lines follow from, up to the names that other hooks are given."""
        found = set(lines)
        open_ones = list(found)
        while open_ones:
            file, line = open_ones.pop()
            read = {name for _, name in NAME.findall(self.lines[file][line - 1])}
            new = self.called(read) | self.assignments(file, line, read - others) | self.calls_of(file, line) | self.around(file, line)
            open_ones += new - found
            found |= new
        return found

    def around(self, file, line):
        """The heads of loops and conditions that the line is in."""
        source, text = self.sources[file]
        body = self.body_at(file, line)
        found = set()
        for i, closing in source.partner.items():
            if not body or closing < i or source.sign(i) != "{":
                continue
            first, last = (text.count("\n", 0, source.tokens[at].at) + 1 for at in (i, closing))
            if body[1] <= first <= line <= last <= body[2]:
                found |= {(file, at) for at in range(self.head_of(source, text, i), first + 1)}
        return found

    @staticmethod
    def head_of(source, text, brace):
        """The line in which what stands before the brace begins."""
        i = source.partner[brace - 1] if source.sign(brace - 1) == ")" and brace - 1 in source.partner else brace
        return text.count("\n", 0, source.tokens[i].at) + 1

    def statement(self, file, line):
        """The lines from this one to the semicolon that ends what begins there, the bodies of lambdas with them."""
        source, text = self.sources[file]
        first = next((i for i, token in enumerate(source.tokens) if text.count("\n", 0, token.at) + 1 >= line), None)
        i = first
        while i is not None and i < len(source.tokens) and source.sign(i) not in (";", "{", "}"):
            closing = source.partner.get(i, 0)
            i = closing + 1 if closing > i else i + 1
            if source.sign(i) == "{" and source.sign(i - 1) in (")", "]") and "= [" in self.lines[file][line - 1]:
                i = source.partner.get(i, i) + 1
        end = text.count("\n", 0, source.tokens[min(i, len(source.tokens) - 1)].at) + 1 if i is not None else line
        return {(file, at) for at in range(line, end + 1)}

    def assignments(self, file, line, names):
        """To the names in the function that the line is in; in others where they are members of structs, or arrays."""
        if not names:
            return set()
        found, body_here = set(), self.body_at(file, line)
        one = "|".join(map(re.escape, names))
        assigned = re.compile(r"\b(%s)\b(\[[^=;]*\])?\s*([-+*/]?=[^=]|\+\+|--)" % one)
        far = re.compile(r"((\.|->)(%s)\b(\[[^=;]*\])?|\b(%s)\[[^=;]*\])\s*([-+*/]?=[^=])" % (one, one))
        for bodies in self.bodies.values():
            for body in bodies:
                pattern = assigned if body == body_here else far
                for at in range(body[1], body[2] + 1):
                    if pattern.search(self.lines[body[0]][at - 1]):
                        found |= self.statement(body[0], at)
        return found

    def called(self, names):
        """What of the functions comes behind their last hook, which is all where they have none."""
        found = set()
        for body in (body for name in names & self.bodies.keys() for body in self.bodies[name]):
            found |= {(body[0], line) for line in range(max(self.hooks_in(body), default=body[1] - 1) + 1, body[2] + 1)}
        return found

    def calls_of(self, file, line):
        """Where the function is called that the line is in: what is handed to it is computed there."""
        here = self.body_at(file, line)
        name = next((name for name, bodies in self.bodies.items() if here in bodies), None)
        call = re.compile(r"\b%s\b\s*(<[^;()]*>)?\(" % re.escape(name)) if name else None
        return set().union(*(self.statement(of, at) for of, lines in self.lines.items() for at, text in enumerate(lines, 1)
                             if call and call.search(text) and (self.body_at(of, at) or text.endswith(";"))), set())

    def leads(self, stage, file, line):
        return (file, line) in self.of_stage.get(stage, ())

    def share(self):
        """Of the lines the share that a stage leads to, at the median."""
        sizes = sorted(len(lines & self.everything) for lines in self.of_stage.values())
        return sizes[len(sizes) // 2] / len(self.everything)


@dataclasses.dataclass
class Result:
    mutant: dict      # as mutate.py describes it
    kind: str         # one of CLASSES
    call: str = ""    # in which it is wrong
    truth: str = ""   # the stage that is
    blamed: str = ""  # by tile-diff; empty: it matches
    cause: str = ""
    cause_stage: str = ""
    acts_there: bool = False  # the cause, in the stage that is wrong or in what it is computed from and no hook sees
    line: bool = False  # whether the stage or the cause leads to the mutated one
    seconds: float = 0

    def counts(self):
        return {"detected": self.blamed != "", "stage": self.blamed == self.truth, "line": self.line, "cause": self.cause != "" and self.acts_there,
                "false cause": self.cause != "" and not self.acts_there}


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
    first = next((stage for stage in ORDER if differs(before.get(stage, {}), after.get(stage, {}))), "")
    return "o" if first == "output" else first


class Bench:
    """What is compiled once for a subject, and its mutants."""

    def __init__(self, subject, tile_diff, build, scratch):
        self.subject, self.tile_diff, self.build = subject, tile_diff, build
        self.scratch = scratch / re.sub(r"\W+", "_", subject.name)
        self.scratch.mkdir(parents=True)
        subject.hold_together()
        self.texts = {file: subject.text(file) for file in subject.files}
        self.edits = [(file, edit) for file, functions in subject.mutated.items()
                      for edit in mutate.edits_of(mutate.Source(self.texts[file]), set(functions))]
        self.leading = Lines({file: self.texts[file] for file in subject.mutated}, subject.mutated, subject.outputs)
        self.flags = ["c++", "-std=c++20", "-O1", "-w", "-fno-strict-aliasing"]
        base = self.scratch / "base"
        self.put(base, {})
        self.objects = {}
        for name in PROGRAMS:
            self.objects[name] = base / f"{name}.o"
            said = compiled([*self.flags, *self.includes(base, name), "-c", HERE / "mutants/run_call.cpp", "-o", self.objects[name]], base)
            if said.returncode:
                raise RuntimeError(f"run_call.cpp: it does not compile: {said.stderr.splitlines()[0]}")
        for name in PROGRAMS:
            said = self.compile(base, name)
            if said:
                raise RuntimeError(f"{subject.name}: it does not compile as it is: {said}")
        self.recorded, self.seen = {}, {}
        for call in subject.calls:
            if not self.record(base, call) or not self.run_wide(base, call):
                raise RuntimeError(f"{subject.name}: {call} does not run as it is")
            self.recorded[call] = contents(base / f"{call}.h5")
            self.seen[call] = trace(base / f"{call}.txt")
            self.hold_together(base, call)
            found = Result({}, "wrong")
            self.diagnose(base / f"{call}.h5", found)
            if found.blamed:
                raise RuntimeError(f"{subject.name}: {call} is wrong as it is: {found.blamed}")

    def hold_together(self, base, call):
        """The truth is of the call that is recorded."""
        with h5py.File(base / f"{call}.h5") as file:
            recorded = file["outputs/o"]
            o, agrees = recorded[()].astype(float).ravel(), 1e-4 if recorded.dtype == np.float32 else 1e-2
        seen = self.seen[call]["output"]
        wide = np.array([seen[place] for place in sorted(seen, key=lambda place: tuple(map(int, place)))])
        if o.shape != wide.shape or not np.abs(o - wide).max() <= agrees:
            raise RuntimeError(f"{self.subject.name}: of {call} float64 does not compute what is recorded")

    def includes(self, folder, name):
        """The copy is found before the original."""
        kind = ["-DDEBUG_DUMP", "-I", folder / name, "-I", ROOT] if name == "record" else ["-I", folder / name, "-I", HERE / "mutants/wide"]
        return kind

    def put(self, folder, changed):
        """The sources, and with double in place of float."""
        for name in PROGRAMS:
            inside = folder / name / self.subject.folder
            inside.mkdir(parents=True)
            # Beside the copies: what it includes is not found beside the original.
            shutil.copy(self.subject.at / "call.cpp", folder / name)
            (folder / name / FACE).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / FACE, folder / name / FACE)
            for file, text in {**self.texts, **changed}.items():
                (inside / file).write_text(text if name == "record" else in_float64(text, self.subject.wide))

    def compile(self, folder, name):
        """Empty, or the first line of what the compiler says."""
        library = self.build / "dump"
        links = [f"-L{library}", f"-Wl,-rpath,{library}", "-ltilescope"] if name == "record" else []
        said = compiled([*self.flags, *self.includes(folder, name), folder / name / "call.cpp", self.objects[name],
                         "-o", folder / f"{name}.out", *links], folder)
        if said.returncode:
            return next((line for line in said.stderr.splitlines() if "error" in line), "it says nothing")
        return ""

    def record(self, folder, call):
        return ran([folder / "record.out", call], folder) and (folder / f"{call}.h5").is_file()

    def run_wide(self, folder, call):
        return ran([folder / "wide.out", call, folder / f"{call}.txt"], folder)

    def judge(self, number, keep=False):
        file, edit = self.edits[number]
        text = self.texts[file]
        mutant = mutate.described(text, number, edit)
        result = Result({**mutant, "file": file, "text": text.splitlines()[mutant["line"] - 1].strip()}, "identical")
        folder = self.scratch / str(number)
        self.put(folder, {file: mutate.mutated(text, edit)})
        if self.compile(folder, "record"):
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
            if not (folder / "wide.out").is_file() and self.compile(folder, "wide"):
                result.kind = "not compiled"
                return
            if not self.run_wide(folder, call):
                result.kind = "crashed or hung"
                return
            result.truth = first_that_differs(self.seen[call], trace(folder / f"{call}.txt"))
            result.kind, result.call = ("wrong", call) if result.truth else ("within rounding", "")
            if result.truth:
                self.diagnose(folder / f"{call}.h5", result)
                self.lead(result)
                return

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


    def lead(self, result):
        where = result.mutant["file"], result.mutant["line"]
        hooked = self.leading.of_stage
        at = result.cause_stage
        hidden = at not in hooked and at in ORDER and ORDER.index(at) < ORDER.index(result.truth)
        result.acts_there = at == result.truth or COMPUTED_FROM.get(at) == result.truth or hidden
        stages = {result.blamed, at if at in hooked or not hidden else ""} - {""}
        result.line = result.blamed != "" and any(self.leading.leads(stage, *where) for stage in stages)


def share(count, of):
    return f"{count:4} {100 * count / of:5.1f} %" if of else "   -        "


def table(title, results):
    """A line for each operator, and one for all of them."""
    wrong = [result for result in results if result.kind == "wrong"]
    print(f"\n{title}: {len(results)} mutants")
    print("  " + ", ".join(f"{kind} {sum(r.kind == kind for r in results)}" for kind in CLASSES))
    columns = ("detected", "stage", "line", "cause", "false cause")
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
    return (f"  {mutant['mutant']:4} {mutant['file']}:{mutant['line']} {mutant['operator']}: {mutant['before']!r} -> {mutant['after']!r} in "
            f"{mutant['text']!r}, {result.call}: {result.truth} is wrong, tile-diff says {said}"
            f"{'' if result.line else ', which leads elsewhere'}")


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
    parser.add_argument("--subject", type=pathlib.Path, action="append", help="a folder with a subject.json and a call.cpp")
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
        everything = []
        for at in options.subject or sorted((HERE / "mutants/subjects").iterdir()):
            subject = Subject.of(at.resolve())
            bench = Bench(subject, build / "bin/tile-diff", build, folder)
            numbers = options.mutants or range(0, len(bench.edits), options.every)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                results = list(pool.map(lambda number: bench.judge(number, bool(options.keep)), numbers))
            everything += results
            table(f"{subject.name}, one of {options.every}", [r for r in results if not r.mutant["hook"]])
            table(f"{subject.name}, lines of hooks", [r for r in results if r.mutant["hook"]])
            print(f"  a stage leads to {100 * bench.leading.share():.0f} % of {len(bench.leading.everything)} lines, at the median")
            wrong = [r for r in results if r.kind == "wrong" and not r.mutant["hook"]]
            seconds = sorted(r.seconds for r in wrong)
            if seconds:
                print(f"  tile-diff: median {seconds[len(seconds) // 2]:.2f} s, worst {seconds[-1]:.2f} s")
            shown = [r for r in wrong if options.verbose or not all(r.counts()[column] for column in ("stage", "line", "cause"))]
            print(*map(line_about, shown), sep="\n")
            if options.suite and subject.name == "samples/pipeline":
                options.suite.write_text(suite(subject, results))
        table("all, lines of hooks left out", [r for r in everything if not r.mutant["hook"]])


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError) as error:
        print(f"bench_mutants: {error}", file=sys.stderr)
        sys.exit(2)
