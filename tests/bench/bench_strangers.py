#!/usr/bin/env python3
"""Judges kernels with mistakes that nobody listed (strangers/) with tile-diff, and counts how often it is right.

usage: bench_strangers.py [--tile-diff PROGRAM] [--count N] [--seed S] [--rows NAME ...] [--keep DIR] [--switch-off]

A table for each kind of recordings, with a row for each family of mistakes: no row is an average of kinds. Every verdict that
is not the expected one is listed with the line of the kernel that is wrong. Exit codes: 0 counted, 2 nothing could be judged.

A description is the first cause that is a fault, whose replay has 99 % of the wrong elements within budgets. It is short if it
takes at most 256 bits, and at most a tenth of what a list of the wrong elements would. With rows `second` it is tried on
another recording of the same kernel, of another seed and shape, in which nothing is searched; a condition that always holds in
the first cannot be told from it ("condition shows"). --switch-off measures each kind of recordings again without each kind of
description.

Of two mistakes in a kernel a column counts where both are named, at least one, and (of one mistake, too) where a fault is
named that is not there: a fault is taken for a mistake if the stage that it acts in is the first that the mistake changes, each
for one; its name is not checked.

There is no goal here: the figures are for who reads them.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]

# What strangers/ is asked for.
ROWS = {
    "everything": [],
    "second": ["--second"],
    "random": ["--recorded", "random"],
    "no-operands": ["--recorded", "no-operands"],
    "outputs": ["--recorded", "outputs"],
    "backward": ["--backward"],
    "backward outputs": ["--backward", "--recorded", "outputs"],
    "pairs": ["--pairs"],
    "noise": ["--noise"],
    "misdeclared": ["--misdeclared"],
    "healthy": ["--healthy"],
    "healthy backward": ["--healthy", "--backward"],
}


# Causes that are solved for, not listed: each kind can be switched off.
KINDS = {
    "addresses": ["operand_addresses", "elements_moved", "elements_stored_elsewhere", "output_stored_elsewhere"],
    "starts": ["starts_at", "starts_with_what_was_left"],
    "formulas": ["formula"],
    "coverage": ["never_written", "elements_not_written"],
    "masks": ["mask_elsewhere"],
}

# Where in a kernel a cause says that the mistake is, in the words of sites.py: by its name, its family, else by its stage.
OPERANDS = ("q", "k", "v", "dout")
PLACE_OF_STAGE = {**dict.fromkeys(OPERANDS, "operand"), "o": "merge", "lse": "store"}
PLACE_OF_FAMILY = {"mask geometry": "mask", "tail": "mask", "split / combine": "merge"}
PLACE_IN_STAGE = {("non_finite_replaced", "s"): "mask", ("lse_in_other_base", "lse"): "store"}
LOOPS = ("head_dim_truncated", "k_slice_missing", "pv_slice_missing")  # over the terms of a sum, or the columns of a load
PLACE_INSIDE = {"address": "index", "layout": "index"}  # of stages between the operands and the output
PLACE_OF_OUTPUT = {"address": "store", "layout": "store", "coverage": "store", "precision": "store"}
# The sum, what is done with it and its store are one stage of a gradient.
PLACE_OF_GRADIENT = {**PLACE_OF_OUTPUT, "values": "merge", "constants": "merge"}
PLACE_OF_SLOT = {"index": "index", "mask": "mask", "masked": "mask"}


@dataclasses.dataclass
class Judged:
    """A recording's truth, and what tile-diff says of it and of the second recording of the same kernel."""

    truth: dict
    exit_code: int
    report: dict
    said: str  # on stderr, where there is no report
    second: "Judged | None" = None

    @property
    def stage(self):
        first = self.report.get("first_divergence")
        return first["stage"] if first else None

    @property
    def is_cut_off(self):
        return self.report.get("search", {}).get("cut_off", False)

    @property
    def causes(self):
        """Those of a search that came to its end."""
        return [] if self.is_cut_off else self.report.get("causes") or []

    @property
    def further_causes(self):
        return [] if self.is_cut_off else self.report.get("further_causes") or []

    @property
    def description(self):
        return self.causes[0] if describes(self) else None


def diverged(judged):
    return judged.exit_code == 1


def matched(judged):
    return judged.exit_code == 0


def unjudged(judged):
    return judged.exit_code == 2


def cut_off(judged):
    return judged.is_cut_off


def stage_is_right(judged):
    return judged.stage == judged.truth["stage"] if judged.truth["stage"] else None


def second_stage_is_right(judged):
    return judged.second.stage == judged.truth["stage"] if judged.second else None


def names_fault(judged):
    return bool(judged.causes) and not judged.causes[0]["legal"] and not judged.causes[0]["structural"]


def names_place(judged):
    return bool(judged.causes) and judged.causes[0]["structural"]


def names_declaration(judged):
    return bool(judged.causes) and judged.causes[0]["legal"]


def declaration_matches(judged):
    """Whether the report tells which declarations make a recording match that was declared wrongly, and diverges."""
    if judged.truth["kind"] != "misdeclared" or not diverged(judged):
        return None
    declare = judged.report.get("declare")
    return bool(declare) and declare["then"] is None


def describes(judged):
    """A fault, or a declaration under which a kernel with a mistake matches: one that rounds where others do not is legal."""
    return names_fault(judged) or (names_declaration(judged) and judged.truth["kind"] == "mistake")


def place_of_change(change, is_gradient):
    if change["slot"] in PLACE_OF_SLOT:
        return PLACE_OF_SLOT[change["slot"]]
    if not is_gradient or not change["after_sum"]:
        return "sum"
    return "store" if change["slot"] == "type" else "merge"


def place_of(cause):
    name, family, stage = cause["name"], cause["family"], cause["stage"]
    if (name, stage) in PLACE_IN_STAGE:
        return PLACE_IN_STAGE[name, stage]
    if name in LOOPS and stage not in OPERANDS:
        return "sum"
    if family in PLACE_OF_FAMILY:
        return PLACE_OF_FAMILY[family]
    if cause["changes"] and name == "formula" and stage not in (*OPERANDS, "o", "lse"):
        return place_of_change(cause["changes"][0], stage in ("dq", "dk", "dv"))
    if stage in ("dq", "dk", "dv"):
        return PLACE_OF_GRADIENT.get(family, "sum")
    if stage == "o":
        return PLACE_OF_OUTPUT.get(family, "merge")
    return PLACE_OF_STAGE.get(stage) or PLACE_INSIDE.get(family, "sum")


def place_is_right(judged):
    """Whether the first cause, of values or of places alone, is in the part of the kernel that is wrong."""
    if len(judged.truth["mistakes"]) != 1:
        return None
    return bool(judged.causes) and place_of(judged.causes[0]) == judged.truth["mistakes"][0]["place"]


def is_short(judged):
    found = judged.description
    return found is not None and found["bits"] <= 256 and found["bits"] <= found["listed_bits"] / 10


def predicts_second(judged):
    """Whether the description explains the second recording, where that is wrong in the same stage."""
    if not judged.second:
        return None
    return judged.description is not None and judged.second.report.get("predicted", {}).get("holds", False)


def condition_shows(judged):
    """Whether the first recording tells where the mistake applies: where the condition always holds in it, and not in the second,
    nothing in it does."""
    if not judged.second:
        return None
    first = [mistake["holds"] for mistake in judged.truth["mistakes"]]
    return all(here == "sometimes" or here == there for here, there in zip(first, judged.truth["second_holds"]))


def is_proved(judged):
    return is_short(judged) and predicts_second(judged) if judged.second else None


def is_fault(cause):
    return not cause["legal"] and not cause["structural"]


def stage_of_further(judged, cause):
    """A KV tile that is skipped is no stage's: it shows in the first whose dump lacks it."""
    shown_in = [answer["stage"] for answer in judged.report.get("answers") or []
                if answer["answer"] == "own cause" and answer["cause"] == cause["name"]]
    return shown_in[0] if cause["name"] == "kv_tile_skipped" and shown_in else cause["stage"]


def faults_named(judged):
    """Stages of the faults that the report gives: its first cause, of the first stage that is wrong, and those beside it."""
    first = [judged.stage] if judged.causes and is_fault(judged.causes[0]) else []
    further = [stage_of_further(judged, cause) for cause in judged.further_causes if is_fault(cause)]
    return collections.Counter([*first, *further])


def stages_wrong(judged):
    return collections.Counter(mistake["stage"] for mistake in judged.truth["mistakes"])


def mistakes_named(judged):
    """How many of a pair's mistakes have a fault named in the stage that they change first; a fault stands for one of them."""
    return (faults_named(judged) & stages_wrong(judged)).total() if judged.truth["kind"] == "pairs" else None


def names_both(judged):
    named = mistakes_named(judged)
    return None if named is None else named == 2


def names_one(judged):
    named = mistakes_named(judged)
    return None if named is None else named >= 1


def names_another(judged):
    """Whether more faults are named in a stage than mistakes change first. Of noise every fault is one too many."""
    if judged.truth["kind"] == "noise":
        return faults_named(judged).total() > 0
    return (faults_named(judged) - stages_wrong(judged)).total() > 0


# Columns of the tables: a heading, and whether a recording counts, or None where it is not asked. The first cause is taken at
# its word: whether it is the truth is not checked, since a name is not what the grammar drew.
CHECKS = [("diverged", diverged), ("match", matched), ("unjudged", unjudged), ("cut off", cut_off), ("stage right", stage_is_right),
          ("2nd stage right", second_stage_is_right), ("place right", place_is_right), ("described", describes),
          ("names a fault", names_fault), ("only a place", names_place),
          ("a declaration", names_declaration), ("makes it match", declaration_matches), ("short", is_short),
          ("condition shows", condition_shows), ("predicts 2nd", predicts_second),
          ("short, predicts", is_proved), ("both of a pair", names_both), ("one at least", names_one),
          ("one too many", names_another)]


def judge(options, folder, truth, without=(), recording="recording"):
    command = [options.tile_diff, "--threads", "1", "--json", "-", folder / truth[recording]]
    for cause in without:
        command += ["--without-cause", cause]
    if recording == "second":
        command += ["--no-causes", "--cause-of", folder / truth["recording"]]
    found = subprocess.run(command, capture_output=True, text=True)
    try:
        report = json.loads(found.stdout)
    except ValueError:
        report = {}
    has_second = recording == "recording" and truth["second"] and not without
    second = judge(options, folder, truth, recording="second") if has_second else None
    return Judged(truth, found.returncode, report, found.stderr.strip(), second)


def expected(judged):
    """Whether the verdict is that of the truth: the guilty stage of a mistake or of noise, none of a healthy kernel."""
    kind = judged.truth["kind"]
    if kind == "healthy":
        return matched(judged)
    return kind == "misdeclared" or (diverged(judged) and stage_is_right(judged))


def family_of(judged):
    families = [mistake["family"] for mistake in judged.truth["mistakes"]]
    if judged.truth["kind"] == "misdeclared":
        return ", ".join(judged.truth["misdeclared"])
    return " + ".join(sorted(families)) if len(families) == 1 else judged.truth["kind"]


def share(members, check):
    """How many count, of those that are asked."""
    asked = [bool(counts) for counts in map(check, members) if counts is not None]
    return f"{sum(asked):5} {100 * sum(asked) / len(asked):6.1f} %" if asked else "-"


def print_table(name, all_judged):
    rows = collections.defaultdict(list)
    for judged in all_judged:
        rows[family_of(judged)].append(judged)
    checks = [(heading, check) for heading, check in CHECKS if any(check(judged) is not None for judged in all_judged)]
    print(f"\n{name:18} {'drawn':>6} " + " ".join(f"{heading:>15}" for heading, _ in checks))
    for family, members in [*sorted(rows.items()), ("all", all_judged)]:
        print(f"{family:18} {len(members):6} " + " ".join(f"{share(members, check):>15}" for _, check in checks))
    for family, members in sorted(rows.items()):
        named = collections.Counter(judged.causes[0]["name"] for judged in members if judged.causes)
        names = ", ".join(f"{cause} {count}" for cause, count in named.most_common())
        print(f"  {family} is called: {names or 'nothing'}")


def print_unexpected(all_judged):
    for judged in all_judged:
        if expected(judged):
            continue
        truth = judged.truth
        causes = ", ".join(cause["name"] for cause in judged.causes) or "none"
        print(f"  {truth['recording']}: exit {judged.exit_code}, stage {judged.stage}, not {truth['stage']}; {causes}")
        for mistake in truth["mistakes"]:
            wrong = f"{mistake['elements']} of {mistake['compared']} of {mistake['stage']}"
            print(f"    {mistake['family']} at {mistake['site']}, {wrong}: {mistake['diff'][1]}")
        if unjudged(judged):
            print(f"    {judged.said[:300] or judged.report.get('summary', '')[:300]}")


def judge_all(options, folder, truths, without=()):
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(lambda truth: judge(options, folder, truth, without), truths))


def print_switched_off(name, options, folder, truths, all_judged):
    """How many are given a description without each kind of them."""
    families = sorted({family_of(judged) for judged in all_judged})
    print(f"\n{name:18} {'':16} " + " ".join(f"{family:>10}" for family in [*families, "all"]))
    for kind in ["", *KINDS]:
        judged_without = judge_all(options, folder, truths, KINDS[kind]) if kind else all_judged
        named = collections.Counter(family_of(judged) for judged in judged_without if judged.description)
        counts = [named[family] for family in families]
        print(f"{'':18} {'without ' + kind if kind else 'everything':16} "
              + " ".join(f"{count:10}" for count in [*counts, sum(counts)]))


def measure(name, options, folder):
    command = [sys.executable, HERE / "strangers", "--count", str(options.count), "--seed", str(options.seed)]
    subprocess.run([*command, "--out", folder, *ROWS[name]], check=True)
    truths = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    all_judged = judge_all(options, folder, truths)
    print_table(name, all_judged)
    print_unexpected(all_judged)
    if options.switch_off:
        print_switched_off(name, options, folder, truths, all_judged)


def main():
    parser = argparse.ArgumentParser(prog="bench_strangers", description=__doc__.splitlines()[0])
    parser.add_argument("--tile-diff", type=pathlib.Path, default=ROOT / "build/bin/tile-diff", metavar="PROGRAM")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="recordings of each kind")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="kinds of recordings")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="leave the recordings there")
    parser.add_argument("--switch-off", action="store_true", help="measure again without each kind of description")
    options = parser.parse_args()
    if not options.tile_diff.is_file():
        print(f"bench_strangers: {options.tile_diff}: not found; compile it, or name it with --tile-diff", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.rows:
            measure(name, options, (options.keep or pathlib.Path(scratch)) / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
