#!/usr/bin/env python3
"""tilescope.Program: kernels that are no attention, judged and explained.

usage: program_test.py FOLDER-OF-THE-PACKAGE FOLDER-OF-SAMPLES
"""

import os
import pathlib
import re
import sys
import unittest

import numpy as np

sys.path.insert(0, sys.argv.pop(1))
SAMPLES = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SAMPLES))
import judge as sample_judge  # noqa: E402
import programs  # noqa: E402
import tilescope  # noqa: E402

#: Of kernels that ran on a GPU: the first wrong stage, and the formula that explains it.
SAMPLE_MISTAKES = {
    "triton_gemm_tail_left_out": ("acc", "acc + sum(k: a * w where k < depth / 64 * 64 else 0.0) in tensor_core_f32"),
    "triton_gemm_next_row_of_w": ("acc", "acc + sum(k: a * w[m + 1, k]) in tensor_core_f32"),
    "triton_gemm_not_carried": ("acc", "sum(k: a * w) in tensor_core_f32"),
    "triton_gemm_bias_missing": ("y", "silu(acc)"),
    "triton_linear_attention_diagonal_hidden": (
        "o", "sum(d: q * k[b, j, d]) * exp(g - g[b, j]) where j < i and j / 16 == i / 16 else 0.0"),
    "triton_linear_attention_state_not_decayed": (
        "h", "h + sum(i: k * exp(g[b, min(i / 16 * 16 + 15, tokens - 1)] - g) * v)"),
    "triton_block_scaled_gemm_scale_of_first_block": ("acc", "acc + sum(k: a * w) in tensor_core_fp8 * sa[n, 0] * sw"),
    "triton_mxfp8_gemm_scale_of_64": ("acc", "acc + sum(k: a * sa * (w * sw[m, k / 32 / 2 * 2])) in tensor_core_f32"),
    "triton_grouped_gemm_expert_of_first_row": (
        "y", "sum(g, k: a * w where expert[n / 16 * 16] == 1.0 * g else 0.0) in tensor_core_f32"),
    "triton_qk_norm_rotary_heads_but_the_first": ("y", "x * rsqrt(sum(d: x[t, 0, d] * x[t, 0, d]) / dim + 1e-06) * w"),
    "triton_quantised_layer_norm_tail_in_variance": ("r", None),  # 56 terms that no axis has
    "triton_gated_delta_rule_gate_missing_in_a": ("a", "beta * sum(d: k * k[b, c, u, d]) where u < r else 0.0"),
    "triton_gated_delta_rule_state_after_chunk": ("o", "sum(d: q * exp(g) * h.after) + sum(u: s * new)"),
    "triton_mamba2_decay_of_first_head": ("state", "sum(i: dt * decay[0] where i <= j and i / 16 == j / 16 else 0.0)"),
    "triton_mamba2_skip_missing": ("y", "sum(n: read * exp(g[b, i, h]) * state.before) + sum(j: s * x[b, j, h, p])"),
    # Of others, before they were mended.
    "fla_delta_rule_backward_chunks_of_64": ("dk", None),
    "fla_delta_rule_backward_stages": ("dkL", "sum(j: dL * k[b, n, j - 16 where j >= 16 else j, h, d]) in tensor_core_f32"),
    "fla_gated_inverse_tail": ("A", "nan"),
    "fla_short_convolution_backward_two_tokens": (
        "dx", "sum(w: weight * ds[b, t + width - 1 - w, d] where t + width - 1 - w < tokens else 0.0)"
              " + (dfinal[b, d, t + width - tokens - 1] where t + width > tokens else 0.0)"),
    "fla_wy_representation_gates_of_one": ("Au", "0.0 where p >= 32 and j < 32 else Y.last"),
    "fla_wy_representation_rounded_gates": ("Au", None),  # a condition of what is rounded, in an inverse
    "fla_gated_delta_rule_rounded_gates": ("L", None),
    "deep_gemm_k_grouped_a_of_next_group": ("y", "sum(k: a[q + 1, n, k] * w) in tensor_core_fp8 * sa * sw"),
    "deep_gemm_k_grouped_both_of_next_group": ("y", None),  # two changes
    "vllm_qk_norm_rotary_two_heads_a_warp": ("y", None),  # collectives of lanes that do not take part: undefined
    "vllm_mamba2_states_rising": (
        "states", "sum(i: x[c * chunk + i, h, p] * bf16(B[c * chunk + i, n] * (exp(left[h, c, i]) * dt[h, c, i]))) in tensor_core_f32"),
}  # fmt: skip


def bfloat16(x):
    """Rounded to nearest, as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


EVERYTHING = os.environ.get("TILESCOPE_ALL_SEEDS") == "1"


class ProgramTest(unittest.TestCase):
    def test_healthy_kernels_match(self):
        for name, kernel in programs.ALL.items():
            program = tilescope.Program(kernel.text)
            for seed in range(200 if EVERYTHING else 20):
                with self.subTest(kernel=name, seed=seed):
                    inputs = kernel.draw(np.random.default_rng(seed))
                    report = program.judge(inputs, kernel.run(inputs), causes=False)
                    self.assertTrue(report.matches, report.text)
                    self.assertEqual([stage.outside for stage in report.stages], [0] * len(report.stages))
                    self.assertGreater(sum(stage.compared for stage in report.stages), 0)

    def test_mistakes_are_found_and_described(self):
        for name, kernel in programs.ALL.items():
            program = tilescope.Program(kernel.text)
            for mistake, (stage, becomes) in kernel.mistakes.items():
                with self.subTest(kernel=name, mistake=mistake):
                    inputs = kernel.mistaken(np.random.default_rng(5))
                    stored = kernel.run(inputs, mistake)
                    report = program.judge(inputs, stored)
                    self.assertEqual(report.first_wrong, stage, report.text)
                    self.assert_end_to_end(report, stored, kernel.run(inputs))
                    if becomes is not None:
                        self.assertIn(becomes, [found.becomes for found in report.mistakes], report.text)

    def assert_end_to_end(self, report, stored, healthy):
        """Nothing is wrong end to end that is as the healthy kernel has it."""
        for found in report.stages:
            same = np.equal(stored[found.name], healthy[found.name])
            self.assertLessEqual(found.outside_end_to_end, int((~same).sum()), report.text)
            self.assertLessEqual(found.inherited, found.outside_end_to_end, report.text)

    def test_a_fault_of_one_percent_in_one_element_is_found(self):
        for name, kernel in programs.ALL.items():
            program = tilescope.Program(kernel.text)
            inputs = kernel.mistaken(np.random.default_rng(6))
            stored = {each: array.copy() for each, array in kernel.run(inputs).items()}
            for each, array in stored.items():
                with self.subTest(kernel=name, stage=each):
                    at = np.unravel_index(np.argmax(np.abs(np.where(np.isfinite(array), array, 0))), array.shape)
                    kept = array[at]
                    array[at] = kept * array.dtype.type(1.01)
                    report = program.judge(inputs, stored, causes=False)
                    self.assertEqual(report.first_wrong, each, report.text)
                    array[at] = kept

    def test_kernels_of_the_gpu(self):
        samples = sorted(SAMPLES.glob("*.npz"))
        self.assertEqual(len(samples), 51)
        for sample in samples:
            with self.subTest(sample=sample.stem):
                report = sample_judge.judge(sample)
                stage, becomes = SAMPLE_MISTAKES.get(sample.stem, (None, None))
                self.assertEqual(report.first_wrong, stage, report.text)
                if becomes:
                    self.assertIn(becomes, [mistake.becomes for mistake in report.mistakes], report.text)

    def test_what_the_delta_rule_read_is_said(self):
        """Rows of k that a product read on sm_90, as ptxas 12.8 compiles it: told so, all that the kernel stored follows."""
        for name in ("fla_delta_rule_backward_chunks_of_64", "fla_delta_rule_backward_stages"):
            with self.subTest(sample=name):
                program, inputs, stored, dtypes = sample_judge.load(SAMPLES / f"{name}.npz")
                text = program.text.replace("dL * k[b, n, j, h, d]", "dL * k[b, n, (j - 16 where j >= 16 else j), h, d]")
                self.assertNotEqual(text, program.text)
                self.assertTrue(tilescope.Program(text).check(inputs, stored, dtypes=dtypes).matches)

    def judged_with(self, name, *changes):
        """All that the kernel of a sample stored, with parts of its program exchanged."""
        program, inputs, stored, dtypes = sample_judge.load(SAMPLES / f"{name}.npz")
        text = program.text
        for was, becomes in changes:
            self.assertIn(was, text)
            text = text.replace(was, becomes)
        return tilescope.Program(text).judge(inputs, stored, dtypes=dtypes, causes=False)

    def test_gates_that_rounding_made_larger_than_one_are_zero(self):
        """Said so, all that the kernels stored follows: exp(x) where x <= 0, of differences of sums that were rounded."""
        no_larger = "exp(g - g[b, n, j, z]) where j < i and g <= g[b, n, j, z] else 0.0"
        of_state = "exp(g[b, n, chunk - 1, z] - g[b, n, p, z])"
        report = self.judged_with(
            "fla_gated_delta_rule_rounded_gates",
            ("exp(g - g[b, n, j, z]) where j < i else 0.0", no_larger),
            ("where j <= p else 0.0", "where j <= p and g[b, n, p, z] <= g[b, n, j, z] else 0.0"),
            (of_state, f"({of_state} where g[b, n, chunk - 1, z] <= g[b, n, p, z] else 0.0)"))  # fmt: skip
        self.assertTrue(report.matches, report.text)
        report = self.judged_with(
            "fla_wy_representation_rounded_gates", ("exp(g - g[b, n, j, z]) where j < i else 0.0", no_larger))  # fmt: skip
        self.assertTrue(report.matches, report.text)

    def test_a_tile_of_the_next_group_is_said(self):
        other = "stage  other[q, n, m] = sum(k: a[q + 1, n, k] * w[q + 1, m, k]) in tensor_core_fp8 * sa * sw\n"
        report = self.judged_with(
            "deep_gemm_k_grouped_both_of_next_group",
            ("stage  y", other + "stage  y"), ("sum(q: part where", "sum(q: (other where g == 4 else part) where"))  # fmt: skip
        self.assertTrue(report.matches, report.text)

    def test_numerically_unstable_kernels_from_their_outputs_alone(self):
        """What is in between makes the tolerances wider: wrong ones diverge all the same, and none is accused for that."""
        for name, matches in dict(fla_wy_representation_gates_of_one=False, fla_wy_representation_rounded_gates=False,
                                  fla_wy_representation_fixed=True, fla_gated_delta_rule_rounded_gates=False,
                                  fla_gated_delta_rule_fixed=True).items():  # fmt: skip
            with self.subTest(sample=name):
                program, inputs, stored, dtypes = sample_judge.load(SAMPLES / f"{name}.npz")
                outputs = re.search("^output (.*)$", program.text, re.MULTILINE)[1].split(", ")
                report = program.judge(inputs, {each: stored[each] for each in outputs}, dtypes=dtypes, causes=False)
                self.assertEqual(report.matches, matches, report.text)
                self.assertEqual(sum(stage.not_judged for stage in report.stages), 0)

    def test_an_output_that_nothing_tells_of_is_no_match(self):
        """Of z terms of 1e8 are left that cancel out: rounding alone is as large as it is."""
        program = tilescope.Program(
            "axes n: rows; k: depth\ninput a[n, k]; b[n, k]\nstage p[n] = sum(k: a * b)\n"
            "stage z[n] = p where n < open else a[n, 2]\nstage y[n] = a[n, 2] * 2.0\nsizes open\noutput y, z")  # fmt: skip
        random = np.random.default_rng(7)
        a, b = (random.normal(0, 0.1, (64, 4)).astype(np.float32) for _ in range(2))
        a[:, :2], b[:, 0], b[:, 1] = 1e4, 1e4, -1e4
        y = a[:, 2] * np.float32(2)

        def judged(unknown, **others):
            z = np.where(np.arange(64) < unknown, np.float32(0.5), a[:, 2])
            return program.judge(dict(a=a, b=b), dict(z=z, **others), sizes=dict(open=unknown), causes=False)

        for stored in ({}, {"y": y}):
            with self.assertRaisesRegex(tilescope.Error, "z cannot be judged"):
                judged(60, **stored)
            report = judged(20, **stored)
            self.assertTrue(report.matches)
            self.assertEqual([stage.not_judged for stage in report.stages if stage.name == "z"], [20])
            self.assertTrue(str(report).rstrip().endswith("match of what can be judged"), report)
        wrong = y.copy()
        wrong[5] *= 1.5
        self.assertEqual(judged(60, y=wrong).first_wrong, "y")

    def test_a_product_under_a_condition_is_rounded_as_a_product(self):
        """Operands that tensor cores cut to TF32, in a triangle."""
        random = np.random.default_rng(2)
        a, w = (random.standard_normal((32, 16)).astype(np.float32) for _ in range(2))
        cut = lambda x: (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(float)  # noqa: E731
        is_there = np.arange(16) < np.arange(32)[:, None] % 16
        y = (np.where(is_there, cut(a), 0) @ cut(w).T).astype(np.float32)
        for terms in ("a * w where k < n % 16 else 0.0", "(a where k < n % 16 else 0.0) * w", "-(-a * w where k < n % 16 else 0.0)"):
            with self.subTest(terms=terms):
                program = tilescope.Program(f"""
                    axes   n: rows; m: cols; k: depth
                    input  a[n, k]; w[m, k]
                    stage  y[n, m] = sum(k: {terms}) in tensor_core_tf32
                    output y""")
                self.assertTrue(program.check({"a": a, "w": w}, {"y": y}).matches)
                self.assertEqual(program.judge({"a": a, "w": w}, {"y": y * np.float32(1.01)}).first_wrong, "y")

    def test_what_a_minimum_bounds_is_no_infinity(self):
        """Sums of large numbers are off by more than exp takes; no rounding makes exp(min(x, 0)) larger than 1."""
        random = np.random.default_rng(3)
        z = (-1e9 * (1 + 1e-7 * random.random((4, 64)))).astype(np.float32)
        b = random.standard_normal((4, 64)).astype(np.float32)
        program = tilescope.Program("""
            axes   i: n; j: m
            input  z[i, j]; b[i, j]
            stage  c[i, j] = z * 3.0 - z
            stage  y[i, j] = b * exp(min(c - c[i, m - 1], 0.0))
            output y""")
        c = (z * np.float32(3) - z).astype(np.float32)
        y = (b * np.exp(np.minimum(c - c[:, -1:], 0))).astype(np.float32)
        self.assertTrue(program.judge({"z": z, "b": b}, {"y": y}).matches)
        for value in (np.inf, np.nan):
            with self.subTest(value=value):
                wrong = y.copy()
                wrong[2, 5] = value
                report = program.judge({"z": z, "b": b}, {"y": wrong})
                self.assertEqual((report.first_wrong, report.stages[0].outside), ("y", 1))

    def test_numbers_of_a_narrow_type_that_are_right_are_named(self):
        """1.5 * 3.0009 has one neighbour in f16 that is right; about halfway between two both are."""
        x = np.array([3.0009, 4.00390625, 1.0], np.float32)
        program = tilescope.Program("axes i: n\ninput x[i]; w[i]\nstage y[i]: f16 = x * w\noutput y")
        report = program.judge({"x": x, "w": np.array([1.5, 3.0, 1.5], np.float32)}, {"y": np.array([4, 5, 1.5], np.float16)})
        text = report.text
        self.assertIn("y[0]: got 4, expected 4.5 (f16)", text)
        self.assertRegex(text, r"y\[1\]: got 5, expected 12.0078125 to 12.015625 \(f16\)")

    def test_where_it_is_wrong_is_said_where_no_formula_is_found(self):
        random = np.random.default_rng(4)
        x = random.standard_normal((4, 6, 32)).astype(np.float32)
        y = x.copy()
        y[:, 1::2] *= random.uniform(0.9, 0.95, y[:, 1::2].shape).astype(np.float32)
        report = tilescope.Program("axes t: tokens; h: heads; d: dim\ninput x[t, h, d]\nstage y[t, h, d] = x\noutput y").judge({"x": x}, {"y": y})
        self.assertEqual(report.mistakes, ())
        self.assertIn("y is wrong where h % 2 == 1, and right elsewhere", report.text)

    def test_what_overflows_is_told_by_what_was_left_out_or_not_at_all(self):
        """Many formulas are infinite, or no number, in the same places: none of them is told but the kernel's."""
        random = np.random.default_rng(6)
        x = random.standard_normal((32, 32)).astype(np.float32)
        left = (-5 * random.random((32, 32))).astype(np.float32)
        left[8:12] = 120 + 50 * random.random((4, 32))
        negative = np.where(random.random((32, 32)) < 0.1, -1, 1).astype(np.float32) * (random.random((32, 32)) + 0.1).astype(np.float32)
        infinite = x.copy()
        infinite[:, 3::4] = np.inf
        squares = np.where(np.arange(32)[:, None] == 6, 0, x)
        with np.errstate(all="ignore"):
            cases = [
                ("y[n, m] = x * exp(min(left, 0.0))", {"x": x, "left": left}, x * np.exp(left), {"x * exp(left)"}),
                ("y[n, m] = log(max(left, 1.0e-6))", {"left": negative}, np.log(negative), {"log(left)"}),
                ("y[n] = sum(m: x * log(max(left, 1.0e-6)))", {"x": x, "left": negative},
                 (x * np.log(negative)).sum(1), {"sum(m: x * log(left))", "nan"}),
                ("y[n] = sum(m: x * exp(min(left, 0.0)))", {"x": x, "left": left}, (x * np.exp(left)).sum(1), {"sum(m: x * exp(left))", "nan"}),
                ("y[n, m] = x * rsqrt(sum(m: x[n, m] * x[n, m]) / cols + 1.0e-12)", {"x": squares},
                 squares / np.sqrt((squares * squares).mean(1, keepdims=True)), {"x * rsqrt(sum(m: x * x) / cols)", "nan"}),
                ("t[n] = max(m: x)\nstage p[n, m] = exp(x - t)\nstage y[n, m] = p / sum(m: p)", {"x": left},
                 np.exp(left) / np.exp(left).sum(1, keepdims=True), {"exp(x)", "0.0"}),
                ("y[n, m] = softplus(x)", {"x": left}, np.log(1 + np.exp(left)), {"log(1.0 + exp(x))"}),
                ("y[n, m] = x", {"x": x}, infinite, set()),
            ]  # fmt: skip
        for stages, inputs, y, may_be_told in cases:
            with self.subTest(stages=stages):
                declared = "; ".join(f"{name}[n, m]" for name in inputs)
                program = tilescope.Program(f"axes n: rows; m: cols\ninput {declared}\nstage {stages}\noutput y")
                report = program.judge(inputs, {"y": y.astype(np.float32)})
                self.assertEqual(report.first_wrong, "y")
                self.assertLessEqual({mistake.becomes for mistake in report.mistakes}, may_be_told, report.text)
        self.assertIn("y is infinite, or no number, where m % 4 == 3, and right elsewhere", report.text)

    def test_tiles_that_are_transposed_are_told_by_their_indices(self):
        """Chunks that are no axis: rows of a matrix are counted through all of them."""
        random = np.random.default_rng(9)
        tiles, k = random.standard_normal((64, 16)).astype(np.float32), random.standard_normal((64, 24)).astype(np.float32)
        plain = np.concatenate([tiles[s : s + 16] @ k[s : s + 16] for s in range(0, 64, 16)])
        transposed = np.concatenate([tiles[s : s + 16].T @ k[s : s + 16] for s in range(0, 64, 16)])
        for text, y, said in [("L", transposed, "L[t / chunk * chunk + c, t % chunk]"), ("L[t / chunk * chunk + c, t % chunk]", plain, "L[t, c]")]:
            with self.subTest(text=text):
                program = tilescope.Program(f"""
                    axes   t: tokens; c: chunk; d: dim
                    input  L[t, c]; k[t, d]
                    stage  y[t, d] = sum(c: {text} * k[t / chunk * chunk + c, d])
                    output y""")
                report = program.judge({"L": tiles, "k": k}, {"y": y})
                self.assertEqual([mistake.becomes for mistake in report.mistakes], [f"sum(c: {said} * k[t / chunk * chunk + c, d])"], report.text)

    def test_what_goes_on_behind_the_end_of_a_row_is_told_by_its_address(self):
        """Addresses of a tile in shared memory: behind a row stands the next one, and behind the last one what nobody knows."""
        random = np.random.default_rng(11)
        a = random.standard_normal((48, 32)).astype(np.float32)
        tile = a.reshape(3, 16, 2, 16)
        r, c = np.arange(16)[:, None], np.arange(16)
        program = tilescope.Program("""
            axes   n: rows by 16; d: cols by 16
            input  x[n, d]
            stage  a[n, d] = x
            stage  y[n, d] = a * 2.0
            output y""")
        for address, col in [(r * 16 + 2 * c, "2 * (d % 16)"), (r * 16 + c + 5, "(d % 16 + 5)")]:
            beyond = random.standard_normal((3, 16, 2, 16)).astype(np.float32)
            memory = np.concatenate([tile, beyond], axis=1).transpose(0, 2, 1, 3).reshape(3, 2, -1)
            y = 2 * memory[:, :, address].transpose(0, 2, 1, 3).reshape(48, 32)
            report = program.judge({"x": a}, {"a": a, "y": y})
            row = f"n + {col} / 16 where n % 16 + {col} / 16 < 16 else -1"
            self.assertEqual([mistake.becomes for mistake in report.mistakes], [f"a[{row}, d / 16 * 16 + {col} % 16] * 2.0"], report.text)

    def told(self, text, inputs, stored):
        report = tilescope.Program(text).judge(inputs, stored)
        return [mistake.becomes for mistake in report.mistakes]

    def test_a_factor_that_is_cast_in_some_terms_is_told(self):
        random = np.random.default_rng(12)
        a, w = (random.standard_normal((n, 64)).astype(np.float32) for n in (48, 40))
        narrow = np.where(np.arange(64) < 24, a.astype(np.float16), a).astype(np.float32)
        text = "axes n: rows; m: cols; k: depth\ninput a[n, k]; w[m, k]\nstage y[n, m] = sum(k: a * w)\noutput y"
        self.assertEqual(self.told(text, {"a": a, "w": w}, {"y": narrow @ w.T}), ["sum(k: (f16(a) where k < 24 else a) * w)"])

    def test_a_number_in_place_of_its_function_is_told(self):
        random = np.random.default_rng(13)
        m, x = random.standard_normal(96).astype(np.float32), random.uniform(1, 40, 96).astype(np.float32)
        text = "axes n: rows\ninput m[n]; x[n]\nstage y[n] = (m + log2(x)) * 0.69314718\noutput y"
        y = (m * np.log(2) + x).astype(np.float32)
        self.assertEqual(self.told(text, {"m": m, "x": x}, {"y": y}), ["(m + x * 1.4426950408889634) * 0.69314718"])

    def test_a_state_of_the_first_row_of_a_tile_is_told(self):
        """The rows of a tile one after the other: the first one is updated before the others read it."""
        x = np.random.default_rng(14).standard_normal((48, 40)).astype(np.float32)
        text = "axes n: rows by 16; k: cols by 8\ninput x[n, k]\nstage m[n] over k = max(m, max(k: x)) from -inf\noutput m"
        m, states = np.full(48, -np.inf, np.float32), []
        for block in np.split(x, 5, axis=1):
            for n in range(48):
                m[n] = max(m[n // 16 * 16], block[n].max())
            states.append(m.copy())
        first = "n / 16 * 16"
        self.assertEqual(self.told(text, {"x": x}, {"m": np.array(states)}), [f"max(m[{first}].after where {first} < n else m[{first}], max(k: x))"])

    def test_what_is_half_beyond_an_array_is_no_more_than_likely(self):
        random = np.random.default_rng(10)
        x, beyond = (random.standard_normal((64, 8)).astype(np.float32) for _ in range(2))
        y = np.concatenate([x[::2], beyond[:32]])
        report = tilescope.Program("axes n: rows; d: dim\ninput x[n, d]\nstage y[n, d] = x\noutput y").judge({"x": x}, {"y": y})
        self.assertIn("perhaps: y = x[2 * n, d]", report.text)
        self.assertNotIn("instead:", report.text)

    def test_each_wrong_stage_that_none_leads_to_is_explained(self):
        x = np.random.default_rng(5).standard_normal((24, 16)).astype(np.float32)
        program = tilescope.Program("""
            axes   n: rows; k: depth
            input  x[n, k]
            stage  y[n] = sum(k: x)
            stage  z[n] = max(k: x)
            stage  r[n, k] = x - y
            output z, r""")
        y = x.sum(axis=1)
        wrong = {"y": y * 2, "z": x[:, :8].max(axis=1), "r": x - y[:, None] * 2}
        text = program.judge({"x": x}, wrong).text
        self.assertIn("instead: y = sum(k: x) * 2.0", text)
        self.assertIn("then: z = max(k: x where k < depth / 2 else -inf)", text)
        self.assertNotIn("then: r", text)

    def test_packed_codes_are_those_of_the_unpacked(self):
        program = tilescope.Program("""
            axes   n: rows; k: depth
            input  a[n, k]: e2m1; s[n, k / 4]: ue8m0
            stage  y[n] = sum(k: a * s)
            output y""")
        codes = np.random.default_rng(8).integers(0, 16, (6, 8), dtype=np.uint8)
        scales = np.random.default_rng(9).integers(120, 134, (6, 2), dtype=np.uint8)
        numbers = np.where(codes & 8, -1, 1) * programs.E2M1[codes & 7] * np.repeat(np.exp2(scales.astype(float) - 127), 4, axis=1)
        y = numbers.sum(axis=1).astype(np.float32)
        for a, dtype in ((codes, "e2m1"), (codes[:, ::2] | codes[:, 1::2] << 4, "e2m1x2")):
            self.assertTrue(program.check({"a": a, "s": scales}, {"y": y}, dtypes={"a": dtype, "s": "ue8m0"}).matches)

    def test_whole_numbers_are_numbers(self):
        program = tilescope.Program("""
            axes   n: rows; i: cols; v: vocab
            input  x[n, i]; keep[n, i]; target[n]; table[v]
            stage  absmax[n] = max(i: abs(x))
            stage  q[n, i] = max(min(round(x * 127.0 / absmax), 127.0), -127.0) where keep > 0.0 else 0.0
            stage  taken[n] = sum(v: table where v == target else 0.0)
            output q, taken""")
        rng = np.random.default_rng(3)
        x, keep = programs.normal(rng, 4, 32), rng.random((4, 32)) > 0.2
        target, table = rng.integers(0, 9, 4), programs.normal(rng, 9)
        inputs = {"x": x, "keep": keep, "target": target, "table": table}
        q = np.where(keep, np.rint(x * np.float32(127) / np.abs(x).max(axis=1, keepdims=True)), 0)
        self.assertTrue(program.check(inputs, {"q": q.astype(np.int8), "taken": table[target]}).matches)
        wrong = program.judge(inputs, {"q": (q + 1).astype(np.int16), "taken": table[target]})
        self.assertEqual(wrong.first_wrong, "q")
        self.assertEqual(program.judge(inputs, {"q": np.abs(q).astype(np.uint8)}, causes=False).first_wrong, "q")
        with self.assertRaisesRegex(TypeError, "^target is int64"):
            program.judge({**inputs, "target": target + 2**24 + 1}, {"q": q.astype(np.int8)})

    def test_bytes_of_a_narrow_type_need_to_say_what_they_are(self):
        program = tilescope.Program("axes i: n\ninput a[i]: e4m3\nstage y[i] = a * 2.0\noutput y")
        a, y = np.full(4, 0x38, np.uint8), np.full(4, 2, np.float32)
        with self.assertRaises(TypeError):
            program.judge({"a": a}, {"y": y})
        self.assertTrue(program.check({"a": a}, {"y": y}, dtypes={"a": "e4m3"}).matches)

    def test_outputs_alone_are_judged(self):
        kernel = programs.ALL["Gemm"]
        program = tilescope.Program(kernel.text)
        inputs = kernel.mistaken(np.random.default_rng(7))
        self.assertTrue(program.check(inputs, {"y": kernel.run(inputs)["y"]}).matches)
        with self.assertRaises(tilescope.Diverged) as raised:
            program.check(inputs, {"y": kernel.run(inputs, "block_skipped")["y"]})
        found = [mistake.becomes for mistake in raised.exception.report.mistakes]
        self.assertIn("acc + sum(k: a * w where k >= 32 else 0.0)", found)

    def test_a_last_state_stands_for_all(self):
        kernel = programs.ALL["LinearAttention"]
        program = tilescope.Program(kernel.text)
        inputs = kernel.mistaken(np.random.default_rng(8))
        stored = kernel.run(inputs)
        self.assertTrue(program.judge(inputs, {"h": stored["h"][-1], "o": stored["o"]}).matches)
        stored = kernel.run(inputs, "not_carried")
        self.assertEqual(program.judge(inputs, {"h": stored["h"][-1]}, causes=False).first_wrong, "h")

    def test_what_cannot_be_judged_says_why(self):
        with self.assertRaisesRegex(tilescope.Error, "line 2, column"):
            tilescope.Program("axes i: n\ninput x[i] y\nstage z[i] = x\noutput z")
        program = tilescope.Program("axes i: n; j: m\nsizes c\ninput x[i]\nstage z[i] = x * c\noutput z")
        x = np.ones(4, np.float32)
        for inputs, stored, sizes, word in [
            ({}, {"z": x}, {"c": 1, "m": 1}, "x"),
            ({"x": x}, {"z": x}, {"m": 1}, "c"),
            ({"x": x}, {}, {"c": 1, "m": 1}, "program"),
            ({"x": x}, {"z": x[:2]}, {"c": 1, "m": 1}, "z"),
            ({"x": x, "q": x}, {"z": x}, {"c": 1, "m": 1}, "q"),
            ({"x": x[None]}, {"z": x}, {"c": 1, "m": 1}, "x"),
            ({"x": x}, {"z": x}, {"c": 1, "m": 0}, "j"),
            ({"x": x}, {"z": x}, {"c": 1, "m": 1, "k": 1}, "k"),
            ({"x": x}, {"z": x}, {"c": 1, "m": 1, "n": 5}, "n"),
        ]:
            with self.subTest(word=word, sizes=sizes), self.assertRaisesRegex(tilescope.Error, f"^{word}:"):
                program.judge(inputs, stored, sizes=sizes)
        narrow = tilescope.Program("axes i: n\ninput x[i]: f16\nstage z[i] = x * 2.0\noutput z")
        with self.assertRaisesRegex(tilescope.Error, "^x: it holds 0.1"):
            narrow.judge({"x": x * np.float32(0.1)}, {"z": x})
        with self.assertRaises(TypeError):
            program.judge({"x": [1, 2]}, {"z": x}, sizes={"c": 1, "m": 1})

    def test_what_should_be_zero_is_judged(self):
        program = tilescope.Program("axes n: rows; m: cols; k: depth\ninput a[n, k]; w[m, k]\nstage y[n, m] = sum(k: a * w)\noutput y")
        a, w = np.zeros((4, 8), np.float32), np.ones((3, 8), np.float32)
        self.assertTrue(program.judge({"a": a, "w": w}, {"y": np.zeros((4, 3), np.float32)}).matches)
        for wrong in (5, np.nan):
            report = program.judge({"a": a, "w": w}, {"y": np.full((4, 3), wrong, np.float32)})
            self.assertEqual(report.first_wrong, "y", report.text)

    def test_float32_ends_where_it_ends(self):
        x = np.array([-200, -88.5, -60, 0, 60, 88, 89, 200], np.float32)
        with np.errstate(all="ignore"):
            exponential = np.exp(x)
            for formula, value in [
                ("exp(x)", exponential),
                ("x / (1.0 + exp(-x))", x / (1 + np.exp(-x))),
                ("silu(x)", x / (1 + np.exp(-x))),
                ("sigmoid(x)", 1 / (1 + np.exp(-x))),
                ("x * 3.0e38", x * np.float32(3e38)),
                ("round(x * 0.37)", np.rint(x * np.float32(0.37))),
                ("trunc(x * 0.37)", np.trunc(x * np.float32(0.37))),
                ("exp(x) / (1.0 + exp(x))", exponential / (1 + exponential)),
            ]:
                program = tilescope.Program(f"axes i: n\ninput x[i]\nstage y[i] = {formula}\noutput y")
                report = program.judge({"x": x}, {"y": value.astype(np.float32)})
                self.assertTrue(report.matches, f"{formula}\n{report.text}")

    def test_another_bound_of_a_comparison_is_told(self):
        random = np.random.default_rng(3)
        x, y = (programs.normal(random, 24, 64) for _ in range(2))
        quarters = np.round(x * 4) / 4
        s = (0.5 + random.random(24)).astype(np.float32)
        above = lambda condition: np.where(condition, 3, 2)  # noqa: E731
        cases = [
            # A formula, what the kernel computes of x, and what stands in its place.
            (x, "3.0 where x > 0.5 else 2.0", above(x > np.float32(0.5626)), "3.0 where x > 0.5625 else 2.0"),
            (x, "3.0 where 0.5 < x else 2.0", above(x > np.float32(0.5626)), "3.0 where 0.5625 < x else 2.0"),
            (x, "3.0 where x < -0.5 else 2.0", above(x < np.float32(-0.6)), "3.0 where x < -0.6 else 2.0"),
            (x, "x where x > 0.5 else -x", np.where(x > np.float32(0.5626), x, -x), "x where x > 0.5625 else -x"),
            (x, "(3.0 where x > 0.5 else 2.0) where x > 0.25 else 1.0",
             np.where(x > 0.25, above(x > np.float32(0.5626)), 1), "(3.0 where x > 0.5625 else 2.0) where x > 0.25 else 1.0"),
            (x, "x where x > 0.5 and y > 0.25 else 0.0",
             np.where((x > np.float32(0.6)) & (y > 0.25), x, 0), "x where x > 0.6 and y > 0.25 else 0.0"),
            (x, "x where abs(x) > 1.5 * s else 0.0",
             np.where(np.abs(x) > np.float32(1.2) * s[:, None], x, 0), "x where abs(x) > 1.2 * s else 0.0"),
            (x, "3.0 where x > y else 2.0", above(x > y + 0.25), "3.0 where x > y + 0.25 else 2.0"),
            (quarters, "3.0 where x > 0.5 else 2.0", above(quarters >= 0.5), "3.0 where x >= 0.5 else 2.0"),
            (quarters, "3.0 where x >= 0.5 else 2.0", above(quarters >= 0.75), "3.0 where x > 0.5 else 2.0"),
            (x, "3.0 where x > 0.5 else 2.0", above(y > 0.5), "3.0 where y[n, i] > 0.5 else 2.0"),
            (x, "3.0 where x > 0.5 else 2.0", above(x > y), "3.0 where x > y else 2.0"),
            (x, "x where x > 0.5 else 0.0", np.where(np.abs(x) > 0.5, x, 0), "x where abs(x) > 0.5 else 0.0"),
            (x, "x where abs(x) > 0.5 else 0.0", np.where(x > 0.5, x, 0), "x where x > 0.5 else 0.0"),
            (x, "max(min(x, 1.0), -1.0)", np.clip(x, -1, 0.9), "max(min(x, 0.9), -1.0)"),
            (x, "max(min(x, 1.0), -1.0)", np.clip(x, -1, 1.5), "max(min(x, 1.5), -1.0)"),
            (x, "max(min(x, 1.0), -1.0)", np.clip(x, -1.25, 1), "max(min(x, 1.0), -1.25)"),
        ]  # fmt: skip
        for x_is, formula, z, becomes in cases:
            with self.subTest(formula=formula, becomes=becomes):
                program = tilescope.Program(
                    f"axes n: rows; i: cols\ninput x[n, i]; y[n, i]; s[n]\nstage z[n, i] = {formula}\noutput z")
                report = program.judge({"x": x_is, "y": y, "s": s}, {"z": z.astype(np.float32)})
                self.assertIn(becomes, [mistake.becomes for mistake in report.mistakes], report.text)
                # Of two numbers the maximum is a number.
                self.assertNotRegex(report.text, r"(min|max)\(-?[0-9.]+, -?[0-9.]+\)")

    def test_one_threshold_of_a_quantiser_is_told(self):
        """NF4, as bitsandbytes has its thresholds."""
        thresholds = [
            0.8614784181118011, 0.6427869200706482, 0.5016634166240692, 0.3893125355243683, 0.2920137718319893,
            0.2035212516784668, 0.1202552504837513, 0.03979014977812767, -0.045525018125772476, -0.13791173323988914,
            -0.23460740596055984, -0.33967943489551544, -0.4599952697753906, -0.6106329262256622, -0.8480964004993439]  # fmt: skip

        def formula(t):
            return (
                f"(((15.0 where z > {t[0]} else 14.0) where z > {t[1]} else (13.0 where z > {t[2]} else 12.0))"
                f" where z > {t[3]} else ((11.0 where z > {t[4]} else 10.0) where z > {t[5]} else"
                f" (9.0 where z > {t[6]} else 8.0))) where z > {t[7]} else"
                f" (((7.0 where z > {t[8]} else 6.0) where z > {t[9]} else (5.0 where z > {t[10]} else 4.0))"
                f" where z > {t[11]} else ((3.0 where z > {t[12]} else 2.0) where z > {t[13]} else"
                f" (1.0 where z > {t[14]} else 0.0)))"
            )

        text = (
            "axes n: blocks; i: blocksize\ninput x[n, i]: f16\nstage absmax[n] = max(i: abs(x))\n"
            f"stage z[n, i] = max(min(x / absmax, 1.0), -1.0)\nstage code[n, i] = {formula(thresholds)}\noutput absmax, code"
        )
        x = np.random.default_rng(0).standard_normal((37, 64)).astype(np.float16)
        absmax = np.abs(x).max(1).astype(np.float32)
        z = x.astype(np.float32) / absmax[:, None]
        for threshold, instead in ((2, 0.5106634), (13, -0.6606329)):
            with self.subTest(threshold=threshold):
                own = np.array(thresholds, np.float32)
                own[threshold] = instead
                code = np.sum(z[..., None] > own, axis=-1).astype(np.float32)
                report = tilescope.Program(text).judge({"x": x}, {"absmax": absmax, "code": code})
                self.assertEqual(report.first_wrong, "code", report.text)
                self.assertEqual(len(report.mistakes), 1, report.text)
                # Any number will do between the largest z that is not above it and the smallest that is.
                said = re.findall("z > ([-.0-9]+)", report.mistakes[0].becomes)
                bound = float(said[threshold])
                others = [one for i, one in enumerate(said) if i != threshold]
                declared = [one for i, one in enumerate(thresholds) if i != threshold]
                self.assertEqual([float(one) for one in others], declared, report.text)
                self.assertLessEqual(np.max(z[z <= own[threshold]]), bound)
                self.assertGreater(np.min(z[z > own[threshold]]), bound)

    def test_what_float32_holds_is_exact(self):
        random = np.random.default_rng(3)
        x, m = (random.integers(-128, 128, 64).astype(np.float32) / 32 for _ in range(2))
        cases = {"x - m": x - m, "x + m": x + m, "x * 0.25": x * np.float32(0.25), "x * -4.0": x * -4, "x - m + x - m": x - m + x - m}
        for formula, y in cases.items():
            with self.subTest(formula=formula):
                program = tilescope.Program(f"axes i: n\ninput x[i]; m[i]\nstage y[i] = {formula}\noutput y")
                self.assertTrue(program.judge({"x": x, "m": m}, {"y": y}).matches)
                next_one = np.nextafter(y, np.float32(np.inf)).astype(np.float32)
                report = program.judge({"x": x, "m": m}, {"y": next_one}, causes=False)
                # Of three addends and more each partial sum may be rounded.
                self.assertEqual(report.matches, formula.count("m") > 1, report.text)
        # Neither these nor what overflows: both roundings, and either infinity or the largest number.
        program = tilescope.Program("axes i: n\ninput x[i]; m[i]\nstage y[i] = x + m\noutput y")
        big = np.finfo(np.float32).max
        x, m = np.array([1, 1, big, big], np.float32), np.array([2.0**-24, 2.0**-60, big / 2**25, big], np.float32)
        for y in ([1, 1, big, np.inf], [1 + 2.0**-23, 1 + 2.0**-24, big, np.inf]):
            self.assertTrue(program.judge({"x": x, "m": m}, {"y": np.array(y, np.float32)}).matches)

    def test_a_mistake_behind_an_exact_difference_is_found(self):
        random = np.random.default_rng(3)
        x, w = (bfloat16(random.standard_normal((12, 200))) for _ in range(2))
        m, s = bfloat16(random.standard_normal((12, 1))), bfloat16(0.5 + random.random((12, 1)))
        c, d = ((10 * random.standard_normal((12, 1))).astype(np.float32) for _ in range(2))
        h = bfloat16(x - m)
        y = bfloat16((w - (h * (c / np.float32(20)) + d / np.float32(20))) * s)
        program = tilescope.Program("""
            axes   n: rows; i: cols
            input  x[n, i]: bf16; w[n, i]: bf16; s[n]: bf16; m[n]: bf16; c[n]; d[n]
            stage  h[n, i]: bf16 = x - m
            stage  y[n, i]: bf16 = (w - (h * (c / 120.0) + d / 120.0)) * s
            output y""")
        inputs = {"x": x, "w": w, "s": s[:, 0], "m": m[:, 0], "c": c[:, 0], "d": d[:, 0]}
        report = program.judge(inputs, {"y": y})
        self.assertIn("(w - (h * (c / 120.0) + d / 120.0) * 6.0) * s", [each.becomes for each in report.mistakes], report.text)

    def test_a_number_that_one_of_two_loops_takes_otherwise_is_said_so(self):
        random = np.random.default_rng(3)
        x, dy = (random.standard_normal((3, 4, 6, 200)).astype(np.float32) for _ in range(2))
        w = random.standard_normal((4, 6)).astype(np.float32)
        rstd = (0.5 + random.random((3, 4, 1, 1))).astype(np.float32)
        mean_of = lambda terms: terms.mean((2, 3), keepdims=True)  # noqa: E731
        axes = "axes b: batch; g: groups; e: cpg; s: hidden\n"
        with self.subTest("in a second loop"):
            program = tilescope.Program(axes + """
                input  dy[b, g, e, s]; w[g, e]
                stage  wdy[b, g, e, s] = w * dy
                stage  c[b, g] = sum(e, s: wdy)
                stage  dx[b, g, e, s] = wdy - c / (cpg * hidden)
                output dx""")
            dx = dy * w[None, :1, :, None] - mean_of(dy * w[None, :, :, None])
            report = program.judge({"dy": dy, "w": w}, {"dx": dx})
            self.assertIn("w[0, e] * dy - c / (cpg * hidden)", [each.becomes for each in report.mistakes], report.text)
        with self.subTest("in both"):
            program = tilescope.Program(axes + """
                input  x[b, g, e, s]; dy[b, g, e, s]; rstd[b, g]
                stage  h[b, g, e, s] = x * rstd
                stage  c[b, g] = sum(e, s: h * dy)
                stage  dx[b, g, e, s] = (dy - h * (c / (cpg * hidden))) * rstd
                output dx""")
            first = rstd[:, :1]
            dx = (dy - x * first * mean_of(x * first * dy)) * first
            report = program.judge({"x": x, "dy": dy, "rstd": rstd[..., 0, 0]}, {"dx": dx})
            self.assertEqual(len(report.mistakes), 1, report.text)
            for formula in ("x * rstd[b, 0]", "(dy - h * (c / (cpg * hidden))) * rstd[b, 0]"):
                self.assertIn(formula, report.mistakes[0].becomes)

    def test_neighbours_and_halves_are_told_apart(self):
        random = np.random.default_rng(3)
        c = random.integers(0, 16, (24, 64)).astype(np.float32)
        neighbours, halves = 16 * c[:, ::2] + c[:, 1::2], 16 * c[:, :32] + c[:, 32:]
        said = {"neighbours": "16.0 * c[n, 2 * j] + c[n, 2 * j + 1]", "halves": "16.0 * c[n, j] + c[n, j + cols / 2]"}
        for declared, instead, y in (("neighbours", "halves", halves), ("halves", "neighbours", neighbours)):
            with self.subTest(declared=declared):
                program = tilescope.Program(
                    f"axes n: rows; i: cols; j: cols / 2\ninput c[n, i]\nstage y[n, j] = {said[declared]}\noutput y")
                report = program.judge({"c": c}, {"y": y})
                self.assertIn(said[instead], [each.becomes for each in report.mistakes], report.text)

    def test_a_sum_in_a_narrow_type_within_a_wide_state_is_told(self):
        x = bfloat16(np.random.default_rng(3).standard_normal((48, 256)))
        c, states = np.zeros(48, np.float32), []
        for block in np.split(x, 4, axis=1):
            while block.shape[1] > 1:
                block = bfloat16(block[:, : block.shape[1] // 2] + block[:, block.shape[1] // 2 :])
            c = c + block[:, 0]
            states.append(c)
        program = tilescope.Program("axes n: rows; i: cols by 64\ninput x[n, i]: bf16\nstage c[n] over i = c + sum(i: x)\noutput c")
        report = program.judge({"x": x}, {"c": np.array(states)})
        self.assertEqual([each.becomes for each in report.mistakes], ["c + sum(i: x) in fma_bf16"], report.text)

    def test_the_verdict_has_the_beginning_of_a_long_formula(self):
        formula = " + ".join(f"{i}.0 * x[{i}]" for i in range(40))
        program = tilescope.Program(f"axes i: n; k: 1\ninput x[i]\nstage y[k] = {formula}\noutput y")
        report = program.judge({"x": np.ones(40, np.float32)}, {"y": np.ones(1, np.float32)}, causes=False)
        last = report.text.splitlines()[-1]
        self.assertLess(len(last), 170)
        self.assertIn("declared as 0.0 * x[0] + ", last)

    def test_what_explains_one_stage_and_breaks_another_is_not_told(self):
        program = tilescope.Program(
            "axes t: n; v: m\ninput x[t, v]\nstage s[t] = sum(v: x * x)\nstage a[t] = s * 2.0\nstage b[t, v] = x / s\noutput a, b")
        x = programs.normal(np.random.default_rng(0), 6, 8)
        sums = np.sum(x * x, axis=1)
        wrong = x / np.max(x * x, axis=1)[:, None]
        alone = program.judge({"x": x}, {"b": wrong})
        self.assertIn("max(v: x * x)", [mistake.becomes for mistake in alone.mistakes], alone.text)
        both = program.judge({"x": x}, {"a": sums * 2, "b": wrong})
        self.assertEqual(both.first_wrong, "b")
        self.assertNotIn("max(v: x * x)", [mistake.becomes for mistake in both.mistakes], both.text)

    def test_a_search_that_needs_too_much_memory_costs_no_verdict(self):
        program = tilescope.Program(
            "axes i: n; j: m; k: d\ninput a[i, k]; b[j, k]\nstage c[i, j] = sum(k: a * b)\nstage z = max(i, j: c)\noutput z")
        a, b = (programs.normal(np.random.default_rng(seed), 600, 600) for seed in (1, 2))
        report = program.judge({"a": a, "b": b}, {"z": np.array(5, np.float32)})
        self.assertEqual(report.first_wrong, "z")
        self.assertTrue(report.search_cut_off, report.text)

    def test_bytes_in_the_other_order(self):
        program = tilescope.Program("axes i: n\ninput x[i]: f16; c\nstage y[i] = x * c\noutput y")
        x = np.arange(1, 9).astype(">f2")
        self.assertTrue(program.judge({"x": x, "c": 2.0}, {"y": (x.astype(np.float32) * 2).astype(">f4")}).matches)

    def test_an_axis_that_is_too_long_is_refused_before_memory_is_taken(self):
        program = tilescope.Program("axes i: n; j: m\ninput x[i]\nstage y[j] = sum(i: x)\nstage z = max(j: y)\noutput z")
        with self.assertRaisesRegex(tilescope.Error, "MiB"):
            program.judge({"x": np.ones(2, np.float32)}, {"z": np.ones((), np.float32)}, sizes={"m": 1 << 40})


if __name__ == "__main__":
    unittest.main()
