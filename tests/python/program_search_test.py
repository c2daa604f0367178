#!/usr/bin/env python3
"""Mistakes of declared kernels that the search reads out of their numbers: what is computed is NumPy's, with the mistake in it.

usage: program_search_test.py FOLDER-OF-THE-PACKAGE FOLDER-OF-SAMPLES
"""

import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, sys.argv.pop(1))
SAMPLES = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SAMPLES))
import programs  # noqa: E402
import tilescope  # noqa: E402


class SearchTest(unittest.TestCase):
    def test_another_number_at_hand_in_the_place_of_an_index_is_told(self):
        """Of a product of tiles, in a kernel that loops over them: rows alone tell too little to solve for an operand."""
        random = np.random.default_rng(5)
        p, v = programs.normal(random, 32, 48), programs.normal(random, 48, 8)
        i, j = np.arange(32), np.arange(48)
        block = 16 * (j // 16)
        cases = {
            "p[i ^ j % 8, j]": (p[i[:, None] ^ j % 8, j], v[j][None]),
            "p[i, cols - 1 - j]": (p[:, 47 - j], v[j][None]),
            "p[i, j / 16 * 16 + (15 - j % 16)]": (p[:, block + 15 - j % 16], v[j][None]),
            "v[j / 16 * 16 + j / 16, e]": (p, v[block + j // 16][None]),
            "v[j / 16 * 16 + i % 16, e] where i >= 8": (p, np.where((i < 8)[:, None, None], v[j], v[block[None] + i[:, None] % 16])),
        }  # fmt: skip
        program = tilescope.Program(
            "axes i: rows by 16; j: cols by 16; e: depth\ninput p[i, j]; v[j, e]\nstage acc[i, e] over j = acc + sum(j: p * v)\noutput acc")
        for said, (of_p, of_v) in cases.items():
            with self.subTest(said=said):
                terms = (of_p[:, :, None].astype(np.float64) * of_v).reshape(32, 3, 16, 8)
                acc = np.cumsum(terms.sum(axis=2), axis=1).transpose(1, 0, 2).astype(np.float32)
                report = program.judge({"p": p, "v": v}, {"acc": acc})
                read, _, where = said.partition(" where ")
                self.assertIn(read, report.mistakes[0].becomes, report.text)
                self.assertEqual(report.mistakes[0].where, where, report.text)

    def test_fp8_of_another_head_is_told(self):
        """Each of its numbers stands in many places."""
        random = np.random.default_rng(6)
        q = random.integers(0, 32, (2, 8, 24, 16)).astype(np.uint8)
        program = tilescope.Program(
            "axes b: batch; h: heads; i: rows; d: depth\ninput q[b, h, i, d]: e4m3\nstage x[b, h, i, d] = q * 2.0\noutput x")
        at = np.arange(q.size).reshape(q.shape) + np.arange(8)[:, None, None] * 24 * 16
        held = np.append(q, np.zeros(8 * 24 * 16, np.uint8))[at]
        exponent, digits = held.astype(np.int32) >> 3, held & 7
        x = np.where(exponent > 0, np.ldexp(1 + digits / 8, exponent - 7), np.ldexp(digits / 8, -6)).astype(np.float32) * 2
        report = program.judge({"q": q}, {"x": x}, dtypes={"q": "e4m3"})
        self.assertIn("h * (rows * depth)", report.text)

    def test_a_maximum_that_stays_behind_tells_its_terms(self):
        """It is taken over once it has grown by 4. What is left open is 4 wide, and the kernel is at the end of it."""
        random = np.random.default_rng(8)
        s = (3 * programs.normal(random, 40, 96) - 6).astype(np.float32)
        s[:, 70:][random.random((40, 26)) < 0.5] = -np.inf
        bits = (s.view(np.uint32) ^ np.uint32(0x00600000)).view(np.float32)
        cases = {"max(j: s) + 0.0625": s + np.float32(0.0625), "s * 0.5 where s < 0.0": np.where(s < 0, s / 2, s),
                 "s ^ 0x00600000": bits}  # fmt: skip
        program = tilescope.Program("axes i: rows; j: cols by 16\ninput s[i, j]\n"
                                    "stage m[i] over j = between(max(m, max(j: s) - 4.0), max(m, max(j: s))) from -inf\noutput m")
        for said, of in cases.items():
            with self.subTest(said=said):
                m, states = np.full(40, -np.inf, np.float32), []
                for block in np.split(of, 6, axis=1):
                    top = np.fmax.reduce(block, axis=1)
                    m = np.where(top > m + 4, top, m)
                    states.append(m)
                report = program.judge({"s": s}, {"m": np.array(states)})
                self.assertIn(said, report.mistakes[0].becomes, report.text)

    def test_terms_of_a_maximum_that_are_cut_in_some_columns(self):
        s = programs.normal(np.random.default_rng(9), 64, 32) + np.float32(1)
        cut = np.where(np.arange(32) >= 4, np.minimum(s, np.float32(1.5)), s)
        program = tilescope.Program("axes i: rows; j: cols\ninput s[i, j]\nstage m[i] = max(j: s)\noutput m")
        report = program.judge({"s": s}, {"m": cut.max(axis=1)})
        self.assertIn("min(s, 1.5) where j >= 4", report.text)


if __name__ == "__main__":
    unittest.main()
