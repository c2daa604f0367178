#!/usr/bin/env python3
"""Outputs of declared kernels that are stored at other addresses: where, is said, and is where NumPy put them.

usage: stored_elsewhere_test.py FOLDER-OF-THE-PACKAGE
"""

import re
import sys
import unittest

import numpy as np

sys.path.insert(0, sys.argv.pop(1))
import tilescope  # noqa: E402

BATCH, ROWS, COLS, DEPTH, BLOCK = 3, 96, 80, 32, 16
SIZES = {"batch": BATCH, "rows": ROWS, "cols": COLS}
b, n, m = np.broadcast_arrays(*np.ogrid[:BATCH, :ROWS, :COLS])
OWN = (b * ROWS + n) * COLS + m

#: Addresses that leave holes, or at which several elements meet: no other read of an input says these.
STORES = {
    "rows are longer": (b * ROWS + n) * (COLS + 8) + m,
    "rows are much longer": (b * ROWS + n) * (COLS + 40) + m,
    "rows are as long as columns": (b * ROWS + n) * ROWS + m,
    "more rows in each entry": (b * (ROWS + 4) + n) * COLS + m,
    "columns by four": (b * ROWS + n) * COLS + m // 4 * 4,
    "rows round and round": (b * ROWS + n % 12) * COLS + m,
    "all blocks of rows at the first": (b * ROWS + n % BLOCK) * COLS + m,
    "three further": OWN + 3,
    "all entries at the first": n * COLS + m,
    "two indices exchanged": (n * ROWS + b) * COLS + m,
    "one column": (b * ROWS + n) * COLS,
}

#: The same elements in another order.
ORDERS = {
    "transposed": (b * COLS + m) * ROWS + n,
    "entries inside": (n * BATCH + b) * COLS + m,
    "from the other end": BATCH * ROWS * COLS - 1 - ((b * ROWS + n) * COLS + m),
    "tile after tile": b * ROWS * COLS + (n // BLOCK * (COLS // BLOCK) + m // BLOCK) * BLOCK**2 + n % BLOCK * BLOCK + m % BLOCK,
}


def stored(values, address, left):
    """By blocks of 16 by 16: the last one stays."""
    order = np.lexsort((m.ravel(), n.ravel(), m.ravel() // BLOCK, n.ravel() // BLOCK, b.ravel()))
    memory = np.full(values.size, left).astype(values.dtype)
    for place, value in zip(address.ravel()[order], values.ravel()[order], strict=True):
        if 0 <= place < memory.size:
            memory[place] = value
    return memory.reshape(values.shape)


def address_of(becomes):
    """What a description says, as numbers."""
    flat = re.match(r"stored at y\.flat\[(.*)\]", becomes)
    indices = re.match(r"stored at \[(.*), (.*), (.*)\]", becomes)
    text = flat[1] if flat else "(({}) * rows + {}) * cols + {}".format(*indices.groups())
    return eval(text.replace("/", "//"), {}, {**SIZES, "b": b, "n": n, "m": m})


class StoredElsewhereTest(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(3)
        self.inputs = {name: random.standard_normal(shape).astype(np.float32) for name, shape in [("a", (BATCH, ROWS, DEPTH)), ("w", (COLS, DEPTH))]}
        self.y = np.einsum("bnk,mk->bnm", self.inputs["a"], self.inputs["w"])

    def judged(self, y, dtype=""):
        return tilescope.Program(f"""
            axes   b: batch; n: rows by {BLOCK}; m: cols by {BLOCK}; k: depth
            input  a[b, n, k]; w[m, k]
            stage  y[b, n, m]{dtype} = sum(k: a * w)
            output y""").judge(self.inputs, {"y": y})

    def test_the_address_is_said(self):
        for dtype, declared in [(np.float32, ""), (np.float16, ": f16")]:
            for left in (np.nan, 0):
                for name, address in {**STORES, **ORDERS}.items():
                    with self.subTest(name=name, dtype=dtype, left=left):
                        report = self.judged(stored(self.y.astype(dtype), address, left), declared)
                        self.assertEqual([mistake.slot for mistake in report.mistakes], ["store"], report.text)
                        np.testing.assert_array_equal(address_of(report.mistakes[0].becomes) + 0 * b, address)
                        self.assertEqual(report.mistakes[0].where, "")
                        self.assertGreater(report.mistakes[0].explained, 0.98)

    def test_a_last_block_that_is_stored_whole_is_said(self):
        """What is behind the end of a row stands over the next one; inputs are 0 there, and y is the bias."""
        random = np.random.default_rng(7)
        rows, cols = 40, 84
        a, w, bias = (random.standard_normal(shape).astype(np.float32) for shape in [(rows, DEPTH), (cols, DEPTH), rows])
        y = a @ w.T + bias[:, None]
        for behind, is_last in [(-cols % BLOCK, False), (-cols % BLOCK, True), (3, False), (3, True)]:
            memory = np.zeros(rows * cols + cols, np.float32)
            if is_last:
                memory[: rows * cols] = y.ravel()
            for first in range(0, rows, BLOCK):
                for row in range(first, min(first + BLOCK, rows)):
                    if not is_last:
                        memory[row * cols : row * cols + cols - (cols % BLOCK)] = y[row, : cols - (cols % BLOCK)]
                for row in range(first, min(first + BLOCK, rows)):
                    memory[row * cols + cols - cols % BLOCK : row * cols + cols] = y[row, cols - cols % BLOCK :]
                    memory[(row + 1) * cols : (row + 1) * cols + behind] = bias[row]
            report = tilescope.Program(f"""
                axes   n: rows by {BLOCK}; m: cols by {BLOCK}; k: depth
                input  a[n, k]; w[m, k]; bias[n]
                stage  y[n, m] = sum(k: a * w) + bias
                output y""").judge({"a": a, "w": w, "bias": bias}, {"y": memory[: rows * cols].reshape(rows, cols)})
            self.assertEqual([mistake.slot for mistake in report.mistakes], ["store"], report.text)
            told = report.mistakes[0]
            self.assertGreater(told.explained, 0.99)
            end = re.match(r"stored at \[n, m\] where m < (.*?)(, what is behind the end last)?$", told.becomes)
            self.assertEqual(eval(end[1].replace("/", "//"), {}, {"cols": cols}), cols + behind)
            self.assertEqual(end[2] is not None, is_last)

    def test_where_some_are_stored_elsewhere_is_said(self):
        address = np.where(n >= 48, (b * ROWS + n // 8 * 8) * COLS + m, OWN)
        report = self.judged(stored(self.y, address, np.nan))
        self.assertEqual([mistake.slot for mistake in report.mistakes], ["store"], report.text)
        told = report.mistakes[0]
        is_there = eval(told.where.replace("/", "//"), {}, {**SIZES, "b": b, "n": n, "m": m})
        np.testing.assert_array_equal(np.where(is_there, address_of(told.becomes), OWN), address)

    def test_memory_that_held_anything_says_nothing_against_it(self):
        held = np.random.default_rng(5).standard_normal(self.y.shape).astype(np.float32)
        address = STORES["rows are longer"]
        written = stored(np.ones_like(self.y), address, np.nan)
        y = np.where(np.isnan(written), held, stored(self.y, address, 0))
        report = self.judged(y)
        self.assertEqual([mistake.slot for mistake in report.mistakes], ["store"], report.text)
        np.testing.assert_array_equal(address_of(report.mistakes[0].becomes), address)

    def test_what_is_read_otherwise_is_no_store(self):
        a, w = self.inputs["a"], self.inputs["w"]
        for y in (self.y[:, np.arange(ROWS) ^ 4], self.y[:, :, np.arange(COLS) ^ 5], np.einsum("bnk,mk->bnm", a[:, ::-1], w), self.y * 1.5, 0 * self.y):
            report = self.judged(y)
            self.assertEqual(report.first_wrong, "y")
            self.assertNotIn("store", [mistake.slot for mistake in report.mistakes], report.text)


if __name__ == "__main__":
    unittest.main()
