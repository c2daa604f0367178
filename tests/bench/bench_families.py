#!/usr/bin/env python3
"""Draws mistakes of eight families that public bug reports have, plays them in NumPy, and counts how often tile-diff names them.

usage: bench_families.py [--tile-diff PROGRAM] [--count N] [--seed S] [--families NAME,...]

Sizes, inputs and the mistake are drawn; a draw counts if tile-diff says that it diverges. The stage is right where it is the first
one that the mistake changes, and is recorded. The cause is right where the first one that is a fault, or its formula, matches the
pattern of the family; it is another where it does not. Each row is printed, right or not.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import played  # noqa: E402
from played import F32, Call  # noqa: E402


def sizes(random, **fixed):
    kv = int(random.choice([1, 2]))
    drawn = dict(batch=int(random.integers(1, 3)), heads_kv=kv, heads=kv * int(random.choice([1, 2, 3])), seqlen_q=int(random.integers(9, 40)),
                 seqlen_kv=int(random.integers(33, 97)), head_dim=int(random.choice([16, 32, 48])), causal=bool(random.integers(2)),
                 seed=int(random.integers(1 << 30)))
    drawn |= fixed
    drawn["seqlen_kv"] = max(drawn["seqlen_kv"], drawn["seqlen_q"])
    return drawn


def numbers(random, *shape):
    return random.uniform(0.4, 1.6, shape).astype(F32)


def hidden(random, *shape):
    bias = np.where(random.random(shape) < 0.6, 0, -np.inf).astype(F32)
    bias[..., 0] = 0
    return bias


def descale(random):
    """Read at the index of another block, token, head or batch entry."""
    kind = random.choice(["block", "token", "head", "batch"])
    drawn = sizes(random, batch=2, heads_kv=2, heads=4)
    if kind in ("block", "token"):
        rows = 16 if kind == "block" else 1
        of_blocks = numbers(random, 2, 2, -(-drawn["seqlen_kv"] // rows))
        call = Call(**drawn, descale_k=of_blocks, descale_rows=rows)
        by = int(random.choice([1, -1, 2]))
        descales = Call(**drawn, descale_k=np.roll(of_blocks, by, axis=2), descale_rows=rows).key_descales()
    else:
        call = Call(**drawn, descale_k=numbers(random, 2, 2))
        descales = call.key_descales()
        descales = descales[:, ::-1] if kind == "head" else descales[[0, 0]]
    return call, played.play(call, key_descales=descales), False, "s", r"descale", kind


def scale(random):
    """sm_scale wrong by a factor that no list has, from outputs alone."""
    call = Call(**sizes(random))
    factor = round(float(random.uniform(0.5, 2)), 2)
    return call, played.play(call, scale=call.scale * F32(factor)), True, "o", r"score_constant|scale|sum\(d: Q \* K\) \* 0\.\d+ \* ", f"{factor}"


def no_number(random):
    """exp(-inf - -inf) in tiles that no row or that some do not see, from outputs alone."""
    drawn = sizes(random, causal=False)
    some = bool(random.integers(2))
    rows = np.arange(drawn["seqlen_q"]) < (int(random.integers(2, drawn["seqlen_q"])) if some else drawn["seqlen_q"])
    keys = np.arange(drawn["seqlen_kv"]) < 16 * int(random.integers(1, 3))
    call = Call(**drawn, bias=np.where(rows[:, None] & keys, -np.inf, 0).astype(F32)[None, None])
    return call, played.play(call, guard=False), True, "o", r"inf_minus_inf", "some rows" if some else "all rows"


def mask(random):
    """A mask that is data: of another key, row, head or batch entry, or none."""
    kind = random.choice(["key", "row", "batch", "head", "none", "inverted"])
    drawn = sizes(random, batch=2, heads_kv=2, heads=2, causal=False)
    bias = hidden(random, 2, 2, drawn["seqlen_q"], drawn["seqlen_kv"])
    call = Call(**drawn, bias=bias)
    other = {"key": np.roll(bias, 1, axis=3), "row": np.roll(bias, 1, axis=2), "batch": bias[[0, 0]], "head": bias[:, ::-1],
             "none": np.zeros_like(bias), "inverted": np.where(np.isinf(bias), 0, -np.inf).astype(F32)}[kind]
    return call, played.play(call, bias=other), False, "s", r"bias", kind


def soft_cap(random):
    """In units of log2, or before sm_scale."""
    kind = random.choice(["log2", "before the scale", "missing"])
    call = Call(**sizes(random), soft_cap=float(random.choice([2, 5, 10])), size=2)
    cap = {"log2": lambda c, s: F32(c.soft_cap) * np.tanh(s * played.LOG2E / F32(c.soft_cap)) / played.LOG2E,
           "before the scale": lambda c, s: F32(c.soft_cap) * np.tanh(s / c.scale / F32(c.soft_cap)) * c.scale, "missing": lambda c, s: s}[kind]
    return call, played.play(call, cap=cap), False, "s", r"cap|tanh", kind


def sink(random):
    """Counted once a split, with all stages or outputs alone."""
    drawn = sizes(random, seqlen_kv=int(random.integers(49, 97)))
    call = Call(**drawn, tiles_per_split=int(random.choice([1, 2])), sink=numbers(random, drawn["heads"]))
    splits = tuple(range(-(-len(call.tiles()) // call.tiles_per_split)))
    alone = bool(random.integers(2))
    return call, played.play(call, sink_splits=splits), alone, "o" if alone else "m l", r"sink", "outputs" if alone else "all stages"


def gradient(random):
    """The wrong set of query heads in dk and dv."""
    drawn = sizes(random, heads_kv=2, heads=6)
    call = Call(**drawn)
    heads = [list(random.permutation(6)[:3]) for _ in range(2)]
    every = bool(random.integers(2))
    chosen = (lambda j: (j, j + 2, j + 4)) if every else heads.__getitem__
    return call, played.play_backward(call, heads_of=chosen), False, "dk", r"group_of_other_heads|head", "every second" if every else str(heads)


def all_stages(random):
    """What is found from outputs alone is found with all stages, too."""
    kind = random.choice(["length", "merge", "scale"])
    drawn = sizes(random, batch=2)
    if kind == "length":
        lengths = random.integers(17, drawn["seqlen_kv"], 2)
        call = Call(**(drawn | dict(causal=False)), lengths=lengths)
        by = int(random.choice([1, -1]))  # scores behind a length are nobody's business
        other = Call(**(drawn | dict(causal=False)), lengths=np.minimum(lengths + by, drawn["seqlen_kv"]))
        return call, played.play(call, visible=other.visible()), False, "s" if by < 0 else "m l acc", r"length|tail", f"{by:+}"
    if kind == "scale":
        call = Call(**drawn)
        return call, played.play(call, scale=call.scale * F32(1.5)), False, "s", r"score_constant|scale", "1.5"
    call = Call(**(drawn | dict(causal=False, size=9, seqlen_q=int(random.integers(1, 9)))), tiles_per_split=2)

    def without_maximum(lse, o):
        total = np.log(np.exp(lse.astype(F32)).sum(axis=0))
        return total, (np.exp(lse.astype(F32) - total)[..., None] * o).sum(axis=0)

    with np.errstate(all="ignore"):
        return call, played.play(call, merge=without_maximum), False, "o", r"merge_without_max", "no maximum"


FAMILIES = {"descale": descale, "sm_scale": scale, "NaN": no_number, "mask": mask, "soft cap": soft_cap, "sink": sink, "gradient": gradient,
            "all stages": all_stages}


def judged(tile_diff, family, seed, folder):
    random = np.random.default_rng(seed)
    call, stages, alone, stage, pattern, kind = FAMILIES[family](random)
    path = folder / f"{family.replace(' ', '_')}_{seed}.h5"
    played.write(path, call, stages, alone)
    run = subprocess.run([tile_diff, path, "--json", "-"], capture_output=True, text=True)
    report = json.loads(run.stdout)
    first = report["first_divergence"]
    if not first:
        return family, kind, seed, "match", ""
    faults = [cause for cause in report["causes"] or [] if not cause["legal"] and not cause["structural"]]
    said = " ".join([faults[0]["name"], *(rewrite["becomes"] for rewrite in faults[0].get("rewrites") or [])]) if faults else ""
    right = "stage" if first["stage"] in stage.split() else f"stage {first['stage']}"
    return family, kind, seed, right, "cause" if said and re.search(pattern, said) else said


def main():
    parser = argparse.ArgumentParser(prog="bench_families", description=__doc__.splitlines()[0])
    parser.add_argument("--tile-diff", type=pathlib.Path, default=ROOT / "build/bin/tile-diff")
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--families", type=lambda text: text.split(","), default=list(FAMILIES))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        draws = [(family, options.seed * 1000 + i) for family in options.families for i in range(options.count)]
        rows = list(pool.map(lambda draw: judged(options.tile_diff.resolve(), *draw, pathlib.Path(scratch)), draws))
    counts = collections.defaultdict(collections.Counter)
    for family, kind, seed, stage, cause in rows:
        of = counts[family]
        of["drawn"] += 1
        of["diverged"] += stage != "match"
        of["stage"] += stage == "stage"
        of["cause"] += cause == "cause"
        of["another"] += cause not in ("", "cause")
        if stage != "stage" or cause != "cause":
            print(f"{family}, {kind}, seed {seed}: {stage}; {cause or 'no cause'}")
    columns = ("drawn", "diverged", "stage", "cause", "another")
    print(f"{'family':12}" + "".join(f"{column:>10}" for column in columns))
    for family, of in [*counts.items(), ("all", sum(counts.values(), collections.Counter()))]:
        print(f"{family:12}" + "".join(f"{of[column]:10}" for column in columns))


if __name__ == "__main__":
    main()
