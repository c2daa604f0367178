"""Kernels with drawn mistakes (tests/bench/strangers): the same draw is the same files, a kernel without a mistake matches,
one mistake is given one name, and what a mistake may be written as compiles.

usage: strangers_test.py TILE_DIFF
"""

import hashlib
import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))

from strangers import call, grammar, problem, record, sites, text  # noqa: E402
from tile_diff_case import MATCH, TileDiffCase, main  # noqa: E402

SIZES = dict(seed=1, batch=1, heads_kv=2, group=1, seqlen_q=61, seqlen_kv=54, head_dim=16, head_dim_v=16, block_m=16, block_n=16,
             pads=(3, 0, 7, 3), dtype="f16", dtype_o="f16", mask="none", window=(-1, -1), scores="natural", sm_scale=0.25)
NARROW = dict(dtype="e4m3", dtype_p="e4m3", p_is_cast=True, sums_cast_p=True)

# One mistake each: its site, what is written there, and of what call.
ALONE = {
    "a tail by the other comparison": ("mask_tail", "(col > NK)", dict(mask="top_left", alibi=True, lanes=8, lane_columns=2)),
    "the same in the last query block": ("mask_tail", "((row >= NQ / BM * BM) ? (col > NK) : (col < NK))", {}),
    "no window in the last KV tile": ("mask_value", "((t == (NK - 1) / BN) ? (x) : (-INFINITY))", dict(window=(20, 15), alibi=True)),
    "a maximum that never rises": ("max_stays", "(1)", NARROW | dict(p_scale=256.0, mask="bottom_right", reverse=True)),
    "other bits of the exponent": ("exponent", "(with_bits(bits_of((s - (m == -INFINITY ? 0 : m)) * STRETCH) ^ 0x00600000u))",
                                   dict(seed=178211305, seqlen_q=36, seqlen_kv=38, block_m=32, block_n=32, scores="raw", ramped=False,
                                        window=(35, 23), dtype_p="f16", p_is_cast=True, sums_cast_p=True, dtype_acc="f16", around="nan")),
    "scores that hold a number of f16 where they are hidden": ("mask_value", "((r >= 8) ? (-8.0f) : (-INFINITY))",
                                                               NARROW | dict(window=(40, 11), seqlen_q=79, seqlen_kv=32, head_dim=32,
                                                                             scores="raw", dtype_p="f32", p_is_cast=False)),
    "P that grows where no key is seen": ("p_value", "((EXP(x)) + 0.25f)",
                                          dict(seqlen_q=75, seqlen_kv=50, block_m=32, mask="bottom_right", reverse=True)),
    "a cast of P in every other row": ("p_value", "((r % 2 == 1) ? (narrow(EXP(x), E4M3)) : (EXP(x)))", {}),
    "scores that are hidden by less": ("mask_value", "(x - 4.0f)", dict(window=(46, 10), scores="raw", seqlen_q=44, seqlen_kv=60, batch=2)),
    "a factor that is squared, in l and acc": ("rescale", "(old == -INFINITY ? 0 : EXP((old - m) * STRETCH * 2))", {}),
    "query block and row exchanged": ("q_row", "(r * BM + qb)", dict(head_dim=32)),
    "the maximum of another row, which the factor takes as well": (
        "max_old", "((t == (NK - 1) / BN) ? (ON(MAX, z * BM)) : (ON(MAX, z * BM + r)))", {}),
    "P rounded before its sum, in the last batch entry": ("p_value", "((b == B - 1) ? (narrow(EXP(x), INT8)) : (EXP(x)))", dict(batch=2)),
    "a clamp that leaves 1 behind the last key, which l counts": ("exponent", "(fmaxf((s - (m == -INFINITY ? 0 : m)) * STRETCH, 0))", {}),
    "a sum that o and lse take": ("merge_sum", "((ON(WEIGHT, z) * ON(SUM, (z * BM + r) * LANES + lane)) * (float)D)", {}),
}

# The same, and what is told of it: in its parameters, or where it is made.
TOLD = {
    "bits of the head exchanged": ("lse_write", "((b * H + ((h & -7) | (h >> 1 & 1) << 2 | (h >> 2 & 1) << 1)) * NQ + row)",
                                   dict(batch=2, group=3), "stored at [b, h + (h / 2 % 2 - h / 4 % 2) * 2, i]"),
    "keys from the beginning again": ("v_read", "(((b * HKV + hv) * NK + (col % 32)) * DV + d)", {}, "V[b, h / group, j % 32, e]"),
    "some scores rounded before the maximum": (
        "max_term", "((c / 4 % 4 == 2) ? (narrow(ON(SCORE, r * BN + c), BF16)) : (ON(SCORE, r * BN + c)))",
        dict(group=3, seqlen_q=91, block_m=32, block_n=32, scores="raw"), "max(m, max(j: bf16(s) where j % 16 >= 8 and j % 16 < 12 else s))"),
    "an end in the middle": ("mask_tail", "(col < NK && col < 12)", {}, "j >= 12"),
    "some rows stored in another order": ("o_write", "((r % 8 == 0) ? (((b * H + h) * DV + d) * NQ + row) : "
                                                     "(((b * H + h) * NQ + row) * DV + d))",
                                          dict(seqlen_q=32, block_m=32, head_dim_v=32), "stored at [b, h, e, i]"),
    "a number taken from some rows, of which not all see a key": (
        "normalise", "((row % 16 == 3) ? ((x / total) + -2.0f) : (x / total))", dict(mask="bottom_right", block_m=32),
        "acc / l_row - 2.0 where l_row > 0.0 else 0.0"),
    "fewer lanes in some rows": ("lane_end", "(LANES - row % 4)",
                                  dict(seed=1483842189, group=4, seqlen_q=37, seqlen_kv=56, head_dim=32, head_dim_v=32, block_n=32,
                                       window=(26, 25), cap=5.0, alibi=True, lanes=4, lane_columns=2),
                                  "sum(w: l where w < 4 - i % 4 else 0.0)"),
    "rows with two bits exchanged": ("sum_read", "(((r & -11) | (r >> 1 & 1) << 3 | (r >> 3 & 1) << 1) * BN + c)", {},
                                     "l * rescale + sum(j: p[b, h, i + (i / 2 % 2 - i / 8 % 2) * 6, j])"),
    "P of 1 where the maximum rises": ("p_value", "((m > old) ? (1.0f) : (EXP(x)))", {},
                                       "exp(0.0 where m > m.before else s - m) where s > -inf else 0.0"),
    "the maximum before, in some rows": ("p_max", "((qb == 0) ? (old) : (ON(MAX, z * BM + r)))", {},
                                         "exp(s - (m.before where m.before > -inf else 0.0)) where s > -inf else 0.0"),
    "an exponent of base two that is rounded": (
        "exponent", "(narrow((s - (m == -INFINITY ? 0 : m)) * STRETCH, BF16))", dict(scores="raw2", sm_scale=0.25),
        "exp(bf16((s * 0.25 - m * 0.25) * 1.4426950408889634) * 0.6931471805599453) where s > -inf else 0.0"),
    "a number in place of some scores": ("max_term", "((c >= 12) ? (1.0f) : (ON(SCORE, r * BN + c)))", {},
                                         "max(m, max(j: 1.0 where j % block_n >= block_n - 4 else s))"),
    "a bit of lse that is set": ("lse_value", "total > 0 ? (with_bits(bits_of((top * TOP + logf(total / SUM_SCALE)) * LSE_UNIT) | "
                                              "0x00400000u)) : -INFINITY", {},
                                 "m + log(l_row) & 0xffbfffff ^ 0x00400000 where l_row > 0.0 else -inf"),
    "rows counted in the other order": ("q_row", "(r * BM + qb)", dict(head_dim=32, seqlen_q=64),
                                        "Q[b, h, i % block_m * block_m + i / block_m, d] where i % block_m * block_m + i / block_m "
                                        "< seqlen_q else 0.0"),
    "a smaller array of K, in groups of heads": (
        "k_read", "(((b * HKV + hk) * (NK - 3) + col) * (D - 2) + d)", dict(group=2, batch=2),
        "K.flat[((b * (heads / group) + h / group) * seqlen_kv + j) * head_dim + d - 300 * b - 2 * j - 150 * (h / group)]"),
    "other weights, where the first tile is short": (
        "pv_term", "((ON(SP, r * LDP + c)) * (1 + c % 8))",
        dict(seqlen_kv=36, reverse=True, mask="bottom_right"), "acc * rescale + sum(j: p * v[b, h, i / block_m, j, e] * (j % 8 + 1))"),
    "an exponent without its sign, under a mask": (
        "exponent", "(fabsf((s - (m == -INFINITY ? 0 : m)) * STRETCH))", dict(mask="bottom_right"), "exp(-(s - m))"),
    "some scores larger, before the maximum": (
        "max_term", "((c % 2 == 0) ? ((ON(SCORE, r * BN + c)) * 1.442695f) : (ON(SCORE, r * BN + c)))", {},
        "max(m, max(j: s * 1.4426950408889634 where j % 2 == 0 else s))"),
    "outputs of the last query block": (
        "o_value", "((row >= NQ / BM * BM) ? ((x) + 0.25f) : (x))", {}, "acc / l_row + 0.25 where l_row > 0.0 else 0.0"),
    "the diagonal hidden in some rows": (
        "mask_causal", "((r / 8 % 2 == 1) ? (col < row + DIAG) : (col <= row + DIAG))",
        dict(mask="top_left", seqlen_q=42, seqlen_kv=74, head_dim=40, block_m=32, block_n=32), "i % 16 >= 8"),
    "a KV tile too few, in every other head": ("tile_end", "(end - h % 2)", dict(group=2), "those that are not in the recording"),
    "P that is not written": ("p_value", "(ON(WIDE, r * BN + c) / PSCALE)", dict(NARROW, seqlen_q=24, batch=2), "the tile before"),
    "weights where the maximum rose": (
        "pv_term", "((m > old) ? ((ON(SP, r * LDP + c)) * (1 + c % 16)) : (ON(SP, r * LDP + c)))", {},
        "acc * rescale + (sum(j: p * v[b, h, i / block_m, j, e] * (j % block_n + 1)) where m > m.before else "
        "sum(j: p * v[b, h, i / block_m, j, e]))"),
    "weights of half a tile": ("sum_term", "((c / 8 % 2 == 1) ? ((x) * (1 + c % 4)) : (x))", {},
                               "l * rescale + sum(j: p * (j % block_n % 4 + 1) where j % block_n >= block_n - 7 else p)"),
    "weights of splits that are larger": (
        "merge_weight", "(m == -INFINITY ? 0 : EXP((m - top) * STRETCH)) + 0.0625f", dict(split=2),
        "exp(m_of - top) + 0.0625 where m_of > -inf else 0.0"),
    "merged terms with another sign": (
        "merge_acc", "((ON(WEIGHT, z) * ON(ACC, (z * BM + r) * DV + d)) > 0.5f ? 0.5f * 2 - (ON(WEIGHT, z) * ON(ACC, (z * BM + r) * DV + d)) : "
                     "(ON(WEIGHT, z) * ON(ACC, (z * BM + r) * DV + d)))", dict(split=1),
        "sum(z: -(weight * acc_of) + 1.0 where weight * acc_of > 0.5 else weight * acc_of) / total where total > 0.0 else 0.0"),
    "acc of another row, which may be the new one already": (
        "acc_rescale", "(ON(ACC, (z * BM + (r ^ 1)) * DV + d) * alpha)", {},
        "(acc[b, h, i ^ 1, e].after where i ^ 1 < i else acc[b, h, i ^ 1, e]) * rescale + sum(j: p * v[b, h, i / block_m, j, e])"),
    "the maximum of a row that was updated before, in splits": (
        "max_old", "(ON(MAX, z * BM + r / 4 * 4))", dict(split=2),
        "max(m[b, h, i / 4 * 4].after where i / 4 * 4 < i else m[b, h, i / 4 * 4] where j % (2 * block_n) > 0 else -inf, max(j: s))"),
    "splits merged of rows that lead out of the tile": (
        "acc_read", "((z * BM + (r * 2)) * DV + d)", dict(split=1),
        "acc[b, h, i / block_m * block_m + 2 * (i % block_m) where 2 * (i % block_m) < block_m else -1, e]"
        ".after(min((z + 1) * 1 * block_n, seqlen_kv) - 1) / l_of where l_of > 0.0 else 0.0"),
    "weights of half a tile, of which the first tiles tell": (
        "sum_term", "((x) * (c / 16 % 2 ? 2 : 1))", dict(seqlen_q=93, seqlen_kv=63, block_n=32, mask="bottom_right"),
        "l * rescale + sum(j: p where j % block_n < 16 else p * 2.0)"),
    "bits of some exponents, no number where they are masked": (
        "exponent", "((r % 4 == 2) ? (with_bits(bits_of((s - (m == -INFINITY ? 0 : m)) * STRETCH) | 0x00200000u)) : "
                    "((s - (m == -INFINITY ? 0 : m)) * STRETCH))", dict(mask="bottom_right"), "exp(s - m & 0xffdfffff ^ 0x00200000)"),
    "a swizzle by the KV tile": ("k_write", "(c * LDK + (d ^ (t & 7)))", {}, "K[b, h / group, j, d ^ j / block_n]"),
    "the extent of the queries in the place of that of the keys": (
        "v_read", "(((b * HKV + hv) * NQ + col) * DV + d)", dict(batch=2),
        "V.flat[((b * (heads / group) + h / group) * seqlen_q + j) * head_dim_v + e]"),
    "a maximum of no score in some query blocks, and of one in others": (
        "max_end", "((h == 0) ? (qb % 2) : (BN))", dict(group=2), "max(m, max(j: s where j % block_n < i / block_m % 2 else -inf))"),
    "one score in the place of the maximum": ("max_read", "(r * BN + h)", dict(group=2), "max(m, max(j: s where j % block_n == h else -inf))"),
    "an accumulator that ends at 448": (
        "acc_value", "((h == 0) ? (narrow(narrow(x, ATYPE), E4M3)) : (narrow(x, ATYPE)))", NARROW | dict(p_scale=256.0),
        "e4m3(max(min(acc * rescale + sum(j: p * v[b, h, i / block_m, j, e]), 448.0), -448.0))"),
    "lse of eight rows at one place": ("lse_write", "((b * H + h) * NQ + (row / 8 * 8))", {}, "stored at [b, h, i / 8 * 8]"),
    "a bias that ends at a number": (
        "bias", "(fminf(call->slopes[h] * (float)(col - row - DIAG), 0.125f))", dict(alibi=True),
        "sum(d: q * k[b, h, i / block_m, j, d]) * 0.25 + min(slope * j - slope * (i + seqlen_kv - seqlen_q), 0.125)"),
    "a key too few": ("v_bound", "(col < NK - 1)", dict(seqlen_kv=61), "0.0 where j == seqlen_kv - 1 else V"),
}

# Two mistakes of a stage, of what call, and their names.
TOGETHER = [
    ({"v_bound": "(col < NK && col % 4 != 0)", "v_value": "((x) * 3.0f)"}, {}, ["formula", "rows_zeroed"]),
    ({"score": "((b == B - 1) ? ((x * UNIT) * 1.442695f) : (x * UNIT))", "dot_end": "(D - r % 4)"},
     dict(seed=681223567, batch=2, group=2, seqlen_q=60, seqlen_kv=52, head_dim_v=24, block_m=32, dtype="e4m3", dtype_p="e4m3", stale=4.0),
     ["formula", "formula"]),
    ({"mask_value": "(-8.0f)", "sum_term": "((x) * 2)"}, dict(mask="top_left", block_n=32), ["l_counted_n_times", "non_finite_replaced"]),
    ({"dot_q": "(r * LDQ + 0)", "dot_begin": "((r / 4 % 4 == 3 && c / 4 % 4 == 1) ? (4) : (0))"}, dict(block_n=32), ["formula", "k_slice_missing"]),
]


class Strangers(TileDiffCase):
    def draw(self, folder, *arguments):
        command = [sys.executable, BENCH / "strangers", "--out", self.folder / folder, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        files = sorted((self.folder / folder).iterdir())
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def judge_run(self, kernel, numbers):
        """The report of what the kernel computes in a call, everything recorded."""
        p = problem.Problem(**numbers)
        inputs = problem.draw_inputs(p)
        recorded = [*call.TILES["forward"], *call.OUTPUTS["forward"]]
        record.write(self.file, p, inputs, call.run(kernel, p, inputs, "forward"), recorded, "forward")
        return self.judge(self.file)

    def test_the_same_draw_is_the_same_files(self):
        for kind in ("--second", "--backward"):
            with self.subTest(kind):
                first, again, other = (self.draw(kind + run, "--count", "2", "--seed", seed, kind)
                                       for run, seed in ("15", "25", "36"))
                self.assertEqual(first, again)
                self.assertNotEqual(first, other)

    def test_a_mistake_has_its_truth(self):
        for name in self.draw("truth", "--count", "3"):
            if name.endswith(".json"):
                truth = json.loads((self.folder / "truth" / name).read_text())
                mistake, = truth["mistakes"]
                self.assertEqual(mistake["stage"], truth["stage"])
                self.assertIn(truth["stage"], truth["recorded"])
                self.assertEqual([line[0] for line in mistake["diff"]], ["-", "+"])

    def test_whether_a_condition_shows_on_a_shape(self):
        size = dict(B=1, H=2, NQ=40, NK=48, BM=16, BN=16, D=32, DV=32)
        for guard, holds in (("", "always"), ("b == B - 1", "always"), ("h >= 1", "sometimes"), ("t == (NK - 1) / BN", "sometimes"),
                             ("m > old", "sometimes"), ("row >= NQ / BM * BM && qb > 7", "never"), ("r / 8 % 4 == 3", "never")):
            self.assertEqual(grammar.holds(guard, size), holds, guard)

    def test_kernels_without_a_mistake_match(self):
        for direction in ([], ["--backward"]):
            folder = "healthy" + "".join(direction)
            for name in self.draw(folder, "--count", "6", "--healthy", *direction):
                if name.endswith(".h5"):
                    run = self.run_it(self.folder / folder / name)
                    self.assertEqual(run.returncode, MATCH, (name, run.stdout[-1000:], run.stderr))

    def test_one_mistake_is_named_once(self):
        kernels = text.compile_kernels("forward", [{site: written} for site, written, _ in ALONE.values()])
        for kernel, (name, (_, _, numbers)) in zip(kernels, ALONE.items()):
            with self.subTest(name):
                report = self.judge_run(kernel, SIZES | numbers)
                self.assertFalse(report["causes"][0]["structural"], report["causes"][0])
                self.assertFalse(report["causes"][0]["legal"], report["causes"][0])
                further = [cause["name"] for cause in report["further_causes"] or [] if not cause["structural"]]
                self.assertEqual(further, [], report["causes"][0])

    def test_a_mistake_is_told_as_it_was_written(self):
        kernels = text.compile_kernels("forward", [{site: written} for site, written, _, _ in TOLD.values()])
        for kernel, (name, (_, _, numbers, told)) in zip(kernels, TOLD.items()):
            with self.subTest(name):
                cause = self.judge_run(kernel, SIZES | numbers)["causes"][0]
                self.assertIn(told, [*cause["parameters"].values(), cause["where"].removeprefix("where ")])

    def test_two_mistakes_of_a_stage_are_named(self):
        kernels = text.compile_kernels("forward", [changes for changes, _, _ in TOGETHER])
        for kernel, (changes, numbers, names) in zip(kernels, TOGETHER):
            with self.subTest(" and ".join(changes)):
                report = self.judge_run(kernel, SIZES | numbers)
                named = [cause["name"] for cause in report["causes"][:1] + report["further_causes"]]
                self.assertEqual(sorted(named), names)

    def test_a_number_that_hides_the_tail_is_named_once(self):
        """As what the maximum starts at and as what the sum counts, where the mistake in s has no name."""
        kernel, = text.compile_kernels("forward", [{"mask_value": "((c / 4 % 4 == 3) ? (x - 4.0f) : (-INFINITY))",
                                                    "dot_end": "((col >= NK - 8) ? (col % 8) : (D))"}])
        report = self.judge_run(kernel, SIZES | dict(seed=177378039, heads_kv=1, group=4, seqlen_q=78, seqlen_kv=68, head_dim=40,
                                                     head_dim_v=40, block_m=32, mask="bottom_right", skips=False, split=2))
        names = [cause["name"] for cause in report["further_causes"] if not cause["structural"]]
        self.assertEqual(len({"m_starts_at", "tail_counted"} & set(names)), 1, names)

    def test_a_mistake_is_known_in_a_call_whose_places_are_others(self):
        """The last batch entry of one call is no entry of the other."""
        kernel, other = text.compile_kernels("forward", [
            {"max_term": f"((b == B - 1) ? (narrow(ON(SCORE, r * BN + c), {dtype})) : (ON(SCORE, r * BN + c)))"} for dtype in ("E4M3", "BF16")])
        first = self.folder / "first.h5"
        self.judge_run(kernel, SIZES | dict(batch=2))
        self.file.rename(first)
        for same, holds in ((kernel, True), (other, False)):
            self.judge_run(same, SIZES | dict(seed=5, batch=1))
            predicted = self.judge(self.file, "--no-causes", "--cause-of", first)["predicted"]
            self.assertEqual((predicted["holds"], predicted["elsewhere"] and holds), (holds, holds))

    def test_what_a_later_output_told_of_the_first_is_known_in_another_call(self):
        """Rows that add up no lane leave zeros in o, which tell less than what lse has."""
        kernel, = text.compile_kernels("forward", [{"lane_end": "(r % 2)"}])
        first = self.folder / "first.h5"
        sizes = SIZES | dict(lanes=4, mask="bottom_right", seqlen_q=84, seqlen_kv=77, head_dim=32, head_dim_v=32, block_m=16, block_n=32)
        cause = self.judge_run(kernel, sizes)["causes"][0]
        self.assertEqual((cause["stage"], cause["parameters"]), ("o", {"l_row": "sum(w: l where w < i % 2 else 0.0)"}))
        self.file.rename(first)
        self.judge_run(kernel, sizes | dict(seed=5, seqlen_q=96, seqlen_kv=55))
        self.assertTrue(self.judge(self.file, "--no-causes", "--cause-of", first)["predicted"]["holds"])

    def test_what_an_author_could_have_written_compiles(self):
        for direction in sites.TABLES:
            there = text.expressions(direction)
            self.assertEqual(set(there), {site.name for site in sites.TABLES[direction]})
            rewritten = {site: others for site, others in (sites.INSTEAD | sites.LEFT_OVER).items() if site in there}
            most = max(map(len, rewritten.values()))
            kernels = [{site: f"({others[i % len(others)]})" for site, others in rewritten.items()} for i in range(most)]
            self.assertEqual(len(text.compile_kernels(direction, kernels)), most)


if __name__ == "__main__":
    main()
