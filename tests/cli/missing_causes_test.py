#!/usr/bin/env python3
"""Mistakes of public bug reports whose cause tile-diff does not name yet, each with the reason: a table of what is expected to fail.

The verdict and the first wrong stage are right all the same, and no other cause is named. Once a cause of a row is named, the row
fails and says where it belongs: into the table of those that are found.

usage: missing_causes_test.py TILE_DIFF
"""

import dataclasses
import re
from collections.abc import Callable

import numpy as np

import played
from played import F32, Call
from tile_diff_case import TileDiffCase, main

SEED = 11


def small(**changes):
    return Call(**dict(heads=2, heads_kv=1, seqlen_q=16, seqlen_kv=48, head_dim=16, seed=SEED) | changes)


def planted(call, outputs_alone=False, **mistake):
    """What writes the call as a kernel with the mistake records it."""
    return lambda path: played.write(path, call, played.play(call, **mistake), outputs_alone)


def changed(change, leave_out=(), **sizes):
    """The stages of a right kernel after `change(call, stages)`, without some of them."""
    def write(path):
        call = small(**sizes)
        stages = {name: np.array(values) for name, values in played.play(call).items() if name not in leave_out}
        change(call, stages)
        return played.write(path, call, stages)
    return write


def one_further(call, stages):
    """Scores over head_dim + 1 elements: each row goes on with the one behind it in memory, and the last one with zeros."""
    q, k = (np.concatenate([x.astype(F32).ravel(), np.zeros(1, F32)])[call.head_dim :: call.head_dim] for x in (call.q, call.k))
    term = q.reshape(call.q.shape[:3])[..., None] * call.of_heads(k.reshape(call.k.shape[:3]))[:, :, None]
    stages["tiles/s"] = np.where(call.visible(), stages["tiles/s"] + term * call.scale, -np.inf).astype(F32)


def sum_of(values):
    """A row sum that adds up `values(m, p)` of a tile, [row, key]."""
    def change(call, stages):
        m, p, l = (stages[f"tiles/{stage}"] for stage in "mpl")
        before, row_sum = np.full_like(m[:, :, 0], -np.inf), np.zeros_like(l[:, :, 0])
        for t, keys in enumerate(call.tiles()):
            row_sum = values(row_sum * np.exp(before - m[:, :, t]), m[:, :, t], p[..., keys])
            l[:, :, t], before = row_sum, m[:, :, t]
    return change


def before_the_diagonal(call, stages):
    """P V without the last key that each row sees."""
    p = np.where(np.arange(48) == np.arange(16)[:, None] + 32, 0, stages["tiles/p"]).astype(np.float16).astype(F32)
    base = np.exp(np.repeat(stages["tiles/m"], 16, axis=2).swapaxes(2, 3) - stages["tiles/m"][:, :, -1][..., None])
    o = (p * base) @ call.of_heads(call.v.astype(F32))
    stages["outputs/o"] = (o / stages["tiles/l"][:, :, -1][..., None]).astype(np.float16)


def first_rows_not_divided(call, stages):
    """What is merged of the splits, in the first row of each tile without the division by the sum of the weights."""
    ends = [*range(call.tiles_per_split - 1, len(call.tiles()), call.tiles_per_split), len(call.tiles()) - 1]
    m = stages["tiles/m"][:, :, ends]
    merged = (stages["tiles/acc"][:, :, ends] * np.exp(m - m.max(axis=2, keepdims=True))[..., None]).sum(axis=2)
    first = np.arange(call.seqlen_q) % call.block_m == 0
    stages["outputs/o"] = np.where(first[:, None], merged, stages["outputs/o"]).astype(np.float16)


def max_with_sum(call, stages):
    """The running sum where the running maximum belongs: m = max(l, rowmax(s))."""
    m, l = stages["tiles/m"], stages["tiles/l"]
    for t, keys in enumerate(call.tiles()):
        highest = stages["tiles/s"][..., keys].max(axis=-1)
        m[:, :, t] = np.maximum(l[:, :, t - 1], highest) if t else np.maximum(0, highest)


def planted_backward(call, **mistake):
    return lambda path: played.write(path, call, played.play_backward(call, **mistake))


def numbers(*shape):
    """Of a size that tells one from the other."""
    return np.random.default_rng(SEED).uniform(0.4, 1.6, shape).astype(F32)


def hidden(*shape):
    """A mask that is data: -inf where a key is hidden, every row seeing the first one."""
    bias = np.where(np.random.default_rng(SEED).random(shape) < 0.6, 0, -np.inf).astype(F32)
    bias[..., 0] = 0
    return bias


def after_log2(call, s):
    """The soft cap of scores that were multiplied with log2(e) before it."""
    return F32(call.soft_cap) * np.tanh(s * played.LOG2E / F32(call.soft_cap)) / played.LOG2E


def without_maximum(lse, o):
    """Splits weighted with exp(lse - log(sum of exp(lse))) in float32: beyond 88 the sum is infinite."""
    total = np.log(np.exp(lse.astype(F32)).sum(axis=0))
    return total, (np.exp(lse.astype(F32) - total)[..., None] * o).sum(axis=0)


def low_rows():
    """Scores of three rows are far below those that kernels expect."""
    call = small()
    call.k[..., 0], call.q[..., 0], call.q[:, :, [2, 5, 11]] = 30, 0, 0
    call.q[:, :, [2, 5, 11], :2] = -2000, 1
    return call


def before_scale(call, s):
    return F32(call.soft_cap) * np.tanh(s / call.scale / F32(call.soft_cap)) * call.scale


def with_lengths(call, lengths, diagonal_of=None):
    """What is visible with other lengths; `diagonal_of`: lengths that the causal diagonal ends at."""
    seen = dataclasses.replace(call, lengths=np.array(lengths), causal=False).visible()
    if not call.causal:
        return seen
    ends = np.array(call.lengths if diagonal_of is None else diagonal_of)
    return seen & (np.arange(call.seqlen_kv) <= np.arange(call.seqlen_q)[:, None] + (ends - call.seqlen_q)[:, None, None, None])


LENGTHS = small(batch=2, heads=1, causal=False, seqlen_kv=64, lengths=np.array([51, 37]))
CAUSAL_LENGTHS = dataclasses.replace(LENGTHS, causal=True)
LARGE_SPLITS = small(seqlen_q=1, block_m=4, causal=False, tiles_per_split=2, size=9)
LOW_ROWS = low_rows()
PER_BLOCK = small(heads=1, descale_k=numbers(1, 1, 3), descale_rows=16)
PER_SHORT_BLOCK = small(heads=1, seqlen_kv=40, descale_k=numbers(1, 1, 3), descale_rows=16)
PER_TOKEN = small(heads=1, descale_k=numbers(1, 1, 48), descale_rows=1)
PER_HEAD = small(batch=2, heads_kv=2, descale_k=numbers(2, 2))
MASKED = small(batch=2, heads=1, causal=False, bias=hidden(2, 1, 16, 48))
GROUPS = small(heads=6, heads_kv=2, seqlen_kv=32)
SINKS = small(tiles_per_split=2, sink=numbers(2))
HIDDEN_TILE = small(heads=1, bias=np.where(np.arange(48) < 16, -np.inf, 0).astype(F32).reshape(1, 1, 1, 48))


@dataclasses.dataclass
class Row:
    family: str
    mistake: str
    write: Callable
    stage: str  # the first wrong one
    cause: str  # found: its name; missing: a pattern of names that would be right
    reason: str = ""  # why it is missing


MISSING = [
    Row("NaN", "exp(-inf - -inf) in a hidden tile, outputs alone", planted(HIDDEN_TILE, True, guard=False),
        "o", "inf_minus_inf", "NaN in every element is what many mistakes leave"),
]

FOUND = [
    Row("descale", "of the other head", planted(PER_HEAD, key_descales=PER_HEAD.key_descales()[:, ::-1]), "s", "descale_of_other_head"),
    Row("scale", "0.96 times sm_scale", planted(small(), scale=small().scale * F32(0.96)), "s", "score_constant"),
    Row("scale", "0.96 times sm_scale, outputs alone", planted(small(), True, scale=small().scale * F32(0.96)), "o", "score_constant"),
    Row("scale", "1.5 times sm_scale, outputs alone", planted(small(), True, scale=small().scale * F32(1.5)), "o", "score_constant"),
    Row("merge", "without its maximum", planted(LARGE_SPLITS, merge=without_maximum), "o", "merge_without_max"),
    Row("merge", "without its maximum, outputs alone", planted(LARGE_SPLITS, True, merge=without_maximum), "o", "merge_without_max"),
    Row("maximum", "starts at -5e3", planted(LOW_ROWS, first_max=-5e3), "m", "m_starts_at"),
    Row("maximum", "starts at -5e3, outputs alone", planted(LOW_ROWS, True, first_max=-5e3), "o", "m_starts_at"),
    Row("scale", "of a padded head_dim, outputs alone", planted(small(head_dim=40), True, scale=0.125), "o", "scale_of_padded_head_dim"),
    Row("lengths", "ignored, outputs alone", planted(LENGTHS, True, visible=with_lengths(LENGTHS, (64, 64))), "o", "length_ignored"),
    Row("lengths", "one too long, outputs alone", planted(LENGTHS, True, visible=with_lengths(LENGTHS, (52, 38))), "o", "length_shifted"),
    Row("lengths", "one too short", planted(LENGTHS, visible=with_lengths(LENGTHS, (50, 36))), "s", "length_shifted"),
    Row("mask as data", "of batch entry 0", planted(MASKED, bias=MASKED.bias[[0, 0]]), "s", "bias_of_other_head"),
    Row("mask as data", "ignored", planted(MASKED, bias=np.zeros_like(MASKED.bias)), "s", "bias_missing"),
    Row("gradient", "every heads_kv-th query head", planted_backward(GROUPS, heads_of=lambda j: (j, j + 2, j + 4)),
        "dk", "group_of_other_heads"),
    Row("gradient", "of one KV head those of the other, of that any", planted_backward(GROUPS, heads_of=[(5, 4, 3), (4, 2, 5)].__getitem__),
        "dk", "group_of_other_heads"),
    Row("gradient", "any three query heads, one of them twice", planted_backward(GROUPS, heads_of=[(0, 1, 5), (3, 3, 4)].__getitem__),
        "dk", "group_of_other_heads"),
    Row("loop", "of the scores goes one further", changed(one_further), "s", "dot_runs_on"),
]

# Found by the formula of the stage; in place of a cause's name a pattern of the formula.
FORMULAS = [
    Row("descale", "of the block before", planted(PER_BLOCK, key_descales=np.roll(PER_BLOCK.key_descales(), 16, axis=2)),
        "s", r"K \* descale_k\[b, h / group, .*j.*\]"),
    Row("descale", "of the block before, the last of which is short",
        planted(PER_SHORT_BLOCK, key_descales=np.repeat(np.roll(PER_SHORT_BLOCK.descale_k, 1, axis=2), 16, axis=2)[..., :40]),
        "s", r"K \* descale_k\[b, h / group, .*j.*\]"),
    Row("descale", "of the token before", planted(PER_TOKEN, key_descales=np.roll(PER_TOKEN.key_descales(), 1, axis=2)),
        "s", r"K \* descale_k\[b, h / group, \(j / rows_k \+ .* - 1\)\) % \(\(seqlen_kv \+ \(rows_k - 1\)\) / rows_k\)\]"),
    Row("descale", "of batch entry 0", planted(PER_HEAD, key_descales=PER_HEAD.key_descales()[[0, 0]]),
        "s", r"K \* descale_k\[0, h / group\]"),
    Row("mask as data", "inverted", planted(MASKED, bias=np.where(np.isinf(MASKED.bias), 0, -np.inf).astype(F32)),
        "s", r"\(0.0 where bias == -inf else -inf\)"),
    Row("mask as data", "of the key before", planted(MASKED, bias=np.roll(MASKED.bias, 1, axis=3)),
        "s", r"bias\[b, h, i, \(j \+ \(seqlen_kv - 1\)\) % seqlen_kv\]"),
    Row("mask as data", "of the row before", planted(MASKED, bias=np.roll(MASKED.bias, 1, axis=2)),
        "s", r"bias\[b, h, \(i \+ \(seqlen_q - 1\)\) % seqlen_q, j\]"),
    Row("soft cap", "after log2(e)", planted(small(soft_cap=5), cap=after_log2),
        "s", r"tanh\(sum\(d: Q \* K\) \* 0.25 / 5.0 \* 1.44269\d*\) / 1.44269\d* \* 5.0"),
    Row("soft cap", "before sm_scale", planted(small(soft_cap=5, size=2), cap=before_scale),
        "s", r"tanh\(sum\(d: Q \* K\) / 5.0\) \* 0.25 \* 5.0"),
    Row("lengths", "of batch entry 0, outputs alone", planted(LENGTHS, True, visible=with_lengths(LENGTHS, (51, 51))),
        "o", r"j < length_kv\[0\]"),
    Row("lengths", "not in the diagonal", planted(CAUSAL_LENGTHS, visible=with_lengths(CAUSAL_LENGTHS, (51, 37), (64, 64))),
        "s", r"j - i <= seqlen_kv - seqlen_q"),
    Row("merge", "not divided in the first row of each tile", changed(first_rows_not_divided, seqlen_q=80, seqlen_kv=80, tiles_per_split=2),
        "o", r"^sum\(z: weight \* acc_of\)"),
    Row("statement", "l = p in the place of l += p", changed(sum_of(lambda l, m, p: p[..., -1])),
        "l", r"sum\(j: p where j % block_n == block_n - 1 or j == seqlen_kv - 1 else 0.0\)"),
    Row("variable", "m in the place of p", changed(sum_of(lambda l, m, p: l + p.shape[-1] * m)), "l", r"l \* rescale \+ sum\(j: m\)"),
    Row("variable", "l in the place of the maximum before", changed(max_with_sum), "m", r"max\(l\[b, h, i\], max\(j: s\)\)"),
    Row("loop", "of P V ends before the diagonal", changed(before_the_diagonal, ["tiles/acc"]),
        "o", r"sum\(j: .*p.* \* V where j < i \+ seqlen_kv - seqlen_q else 0.0\)"),
    Row("sink", "in every split, all stages", planted(SINKS, sink_splits=(0, 1)), "m", r"else sink, max\(j: s\)"),
    Row("sink", "in every split, outputs alone", planted(SINKS, True, sink_splits=(0, 1)), "o", r"else sink, max\(j: s\)"),
    Row("gradient", "any two query heads", planted_backward(GROUPS, heads_of=[(0, 4), (2, 3)].__getitem__),
        "dk", r"\(0 where n == 0 else 4\) where g == 0 else 2 where n == 0 else 3.* where n < 2"),
]


class Reported(TileDiffCase):
    def named(self, row):
        """Causes that a replay of the values proves, of whichever stage, once the verdict is what it should be."""
        report = self.judge(row.write(self.file))
        self.assertEqual(report["verdict"], "diverged")
        self.assertEqual(report["first_divergence"]["stage"], row.stage)
        self.assertNotIn("declare", report)
        causes = report["causes"] + report["further_causes"]
        return sorted({cause["name"] for cause in causes if not cause["structural"]})

    def test_what_is_missing_has_no_false_name(self):
        for row in MISSING:
            with self.subTest(family=row.family, mistake=row.mistake, seed=SEED):
                named = self.named(row)
                if any(re.search(row.cause, name) for name in named):
                    self.fail(f"now named: {named}. Move the row to the table of found causes.")
                self.assertEqual(named, [], f"a false name; expected is none, since {row.reason}")

    def test_the_right_kernel_matches(self):
        for call in (PER_BLOCK, PER_TOKEN, PER_HEAD, MASKED, SINKS, HIDDEN_TILE, LENGTHS, CAUSAL_LENGTHS, LOW_ROWS, LARGE_SPLITS,
                     small(soft_cap=5)):
            with self.subTest(call=call):
                self.assertEqual(self.judge(planted(call)(self.file))["verdict"], "match")
        self.assertEqual(self.judge(planted_backward(GROUPS)(self.file))["verdict"], "match")

    def test_what_is_found_is_named(self):
        for row in FOUND:
            with self.subTest(family=row.family, mistake=row.mistake, seed=SEED):
                self.assertEqual(self.named(row), [row.cause])

    def test_what_has_a_formula_has_the_right_one(self):
        for row in FORMULAS:
            with self.subTest(family=row.family, mistake=row.mistake, seed=SEED):
                report = self.judge(row.write(self.file))
                self.assertEqual(report["first_divergence"]["stage"], row.stage)
                first = report["causes"][0]
                self.assertEqual(first["name"], "formula")
                self.assertRegex(first["rewrites"][0]["becomes"], row.cause)

    def test_a_rewrite_that_nothing_can_be_said_of_ends_no_search(self):
        call = small(seqlen_q=33, seqlen_kv=97, head_dim=48)
        hidden = np.where(np.arange(97) < 45 + np.arange(33)[:, None], -np.inf, 0).astype(F32)
        call = dataclasses.replace(call, bias=hidden[None, None])
        report = self.judge(planted(call, True, guard=False)(self.file))
        self.assertEqual(report["first_divergence"]["stage"], "o")
        self.assertFalse(report["search"]["cut_off"])

    def test_what_follows_from_keys_behind_a_length_is_covered(self):
        report = self.judge(planted(LENGTHS, visible=with_lengths(LENGTHS, (64, 48)))(self.file))
        self.assertEqual(report["causes"][0]["name"], "m_includes_tail")
        self.assertLessEqual({"l", "acc"}, {answer["stage"] for answer in report["answers"]})
        self.assertNotIn("unexplained", {answer["answer"] for answer in report["answers"]}, report["answers"])

    def test_formulas_can_be_left_out(self):
        report = self.judge(FORMULAS[0].write(self.file), "--without-cause", "formula")
        self.assertNotIn("formula", {cause["name"] for cause in report["causes"]})


if __name__ == "__main__":
    main()
