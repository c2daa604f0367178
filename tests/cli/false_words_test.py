#!/usr/bin/env python3
"""Words that tile-diff must not say of mistakes that public bug reports tell of, as NumPy plays them, and of their relatives.

usage: false_words_test.py TILE_DIFF
"""

import pathlib

import h5py
import numpy as np

import played
from played import F32, Call
from tile_diff_case import TileDiffCase, main

SEED = 23
DATA = pathlib.Path(__file__).parents[1] / "data"


def small(**changes):
    return Call(**dict(heads=2, heads_kv=1, seqlen_q=16, seqlen_kv=48, head_dim=16, seed=SEED) | changes)


def raw(call, stages, descales):
    """The stages as a kernel records them that multiplies scores with sm_scale and `descales` in the exponential's argument."""
    factor = (call.scale * call.of_heads(descales[..., :1])).astype(float)  # [B, H, 1]
    return stages | {"tiles/s": (stages["tiles/s"] / factor[..., None]).astype(F32),
                     "tiles/m": (stages["tiles/m"] / factor[..., None]).astype(F32)}


class FalseWords(TileDiffCase):
    def report(self, call, outputs_alone=False, units=None, change=None, **mistake):
        stages = played.play(call, **mistake)
        played.write(self.file, call, (change or (lambda stages: stages))(stages), outputs_alone, **(units or {}))
        return self.judge(self.file)

    def named(self, *arguments, **options):
        return self.named_in(self.report(*arguments, **options))

    def named_in(self, report):
        """Causes that are no places, of whichever stage; what they would have to declare is none either."""
        self.assertEqual(report["verdict"], "diverged")
        self.assertNotIn("declare", report)
        causes = report["causes"] + report["further_causes"]
        return [cause["name"] for cause in causes if not cause["structural"]]

    def test_zeros_of_a_v_that_was_not_loaded_are_no_rows_left_out(self):
        self.assertEqual(self.named(small(), True, stored=np.zeros_like), [])

    def test_a_kernel_that_came_to_no_hook_is_told_from_one_without_tiles(self):
        call = small()
        for wanted, warned in ((None, False), ("", True), ("stage=o,lse", False)):
            with self.subTest(selection=wanted):
                played.write(self.file, call, played.play(call, stored=np.zeros_like), True)
                if wanted is not None:
                    with h5py.File(self.file, "a") as file:
                        file.create_group("capture").attrs["selection"] = wanted
                warnings = self.judge(self.file)["warnings"]
                self.assertEqual(any("no hook" in warning for warning in warnings), warned, warnings)

    def test_rows_that_nobody_stored_are(self):
        def without_last_rows(o):
            o[:, :, 8:] = 0
            return o

        def nor_their_lse(stages):
            stages["outputs/lse"][:, :, 8:] = 0
            return stages

        for change in (None, nor_their_lse):
            for outputs_alone in (False, True):
                with self.subTest(change=change, outputs_alone=outputs_alone, seed=SEED):
                    self.assertIn("rows_uncovered", self.named(small(), outputs_alone, change=change, stored=without_last_rows))

    def test_nan_of_a_split_without_keys_is_no_tail(self):
        report = self.judge(DATA / "empty_split_nan_outputs.h5")
        self.assertEqual((report["first_divergence"]["stage"], self.named_in(report)), ("o", ["inf_minus_inf"]))

    def test_nan_is_not_declared_away(self):
        """Rows of 16 keys that are hidden are empty under a mask that ends with them."""
        bias = np.where(np.arange(48) < 16, -np.inf, 0).astype(F32).reshape(1, 1, 1, 48)
        self.assertEqual(self.named(small(bias=bias), True, guard=False), [])

    def test_a_descale_of_another_batch_entry_is_no_constant(self):
        for heads in (1, 2):
            descales = np.random.default_rng(SEED).uniform(0.4, 1.6, (2, heads)).astype(F32)
            call = small(batch=2, heads=heads, heads_kv=heads, descale_k=descales)
            of_first = call.key_descales()[[0, 0]]
            for units in ({}, {"s": {"scaled": False}, "m": {"scaled": False}, "k": {"dequantised": False}}):
                change = (lambda stages, call=call, of=of_first: raw(call, stages, of)) if units else None
                with self.subTest(heads=heads, units=units, seed=SEED):
                    report = self.report(call, units=units, change=change, key_descales=of_first)
                    self.assertLessEqual(set(self.named_in(report)), {"formula"})
                    formulas = [cause["rewrites"][0]["becomes"] for cause in report["causes"] if cause["name"] == "formula"]
                    if formulas:
                        self.assertIn("descale_k[0, ", formulas[0])

    def test_maxima_that_are_raced_over_are_no_constant(self):
        """Some rows subtract what one lane of 16 had found: each key's own score."""
        rng = np.random.default_rng(SEED)

        def raced(base, s):
            own = np.where(np.isneginf(s), 0, s)
            return np.where(rng.random((*base.shape, 1)) < 0.3, own, base[..., None])

        self.assertEqual(self.named(small(), subtracted=raced), [])

    def test_what_no_replay_determines_is_not_explained(self):
        rng = np.random.default_rng(SEED)

        def moved(o):
            """o[row][d + 4]; of what lies behind a row nothing is known."""
            return np.concatenate([o[..., 4:], rng.standard_normal((*o.shape[:-1], 4))], axis=-1)

        report = self.report(small(), True, stored=moved)
        # It was stored elsewhere, or read.
        self.assertEqual([cause["name"] for cause in report["causes"]], ["output_stored_elsewhere", "elements_moved"])
        for cause in report["causes"]:
            self.assertEqual(cause["elements"], 2 * 16 * 16)
            self.assertEqual(cause["not_determined"], 2 * 16 * 4)
            self.assertEqual(cause["explained_after"], 0.75)
        self.assertIn("  explained 75 % of 512 elements, 128 not determined, healthy", self.run_it(self.file).stdout)


if __name__ == "__main__":
    main()
