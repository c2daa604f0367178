"""Side inputs, bias, packed and paged tensors: what is written is what h5py shows, and the other way round.

usage: file_inputs_h5py_test.py FILE_PROBE
"""

import json
import unittest

import h5py
import numpy as np

from h5py_case import DumpCase, Folder, ask_probe, probe


class ReadByH5py(Folder):
    def setUp(self):
        super().setUp()
        done = probe("write_inputs", self.path)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def expect(self, name, dtype, values):
        with h5py.File(self.path) as f:
            got = f["inputs"][name]
            self.assertEqual(got.dtype, dtype, name)
            self.assertIsNone(got.chunks, name)
            np.testing.assert_array_equal(got[:], np.array(values, dtype), name)

    def test_each_of_them(self):
        self.expect("seqlens_q", np.int64, [37, 20])
        self.expect("seqlens_kv", np.int64, [41, 50])
        self.expect("alibi_slopes", np.float32, [[0.5, 0.25, 0.125, 0.0625], [-0.5, -0.25, 1, 0]])
        self.expect("sink", np.float32, [1.5, -2, 0, 0.1])
        self.expect("descale_q", np.float32, (np.arange(24) + 100).reshape(2, 4, 3))
        self.expect("descale_k", np.float32, [[0.5, 2], [0.3, -1]])
        self.expect("descale_v", np.float32, [0.7])
        self.expect("bias", np.float32, (np.arange(200) / 8).reshape(1, 4, 1, 50))

    def test_attributes(self):
        with h5py.File(self.path) as f:
            self.assertEqual((f["problem"].attrs["alibi"], f["problem"].attrs["sink"]), ("distance", "last"))
            self.assertEqual(dict(f["inputs/descale_q"].attrs), dict(rows=16))
            self.assertEqual(dict(f["inputs/descale_k"].attrs), {})

    def test_rows_beyond_an_entry_are_zero(self):
        with h5py.File(self.path) as f:
            q, k = f["inputs/q"][:], f["inputs/k"][:]
        expected_q = (np.arange(q.size) % 17 - 8).reshape(q.shape)
        expected_q[1, :, 20:] = 0
        expected_k = (np.arange(k.size) % 17 - 8).reshape(k.shape)
        expected_k[0, :, 41:] = 0
        np.testing.assert_array_equal(q, expected_q)
        np.testing.assert_array_equal(k, expected_k)


class WrittenByH5py(DumpCase):
    B, H, Hkv, Sq, Skv, D, Dv = 3, 4, 2, 10, 13, 4, 6

    def write_inputs(self, datasets, **attributes):
        def fill(f):
            for name, values in datasets.items():
                f["inputs/" + name] = values

        self.write(fill, heads_kv=self.Hkv, head_dim_v=self.Dv, **attributes)

    def inputs(self):
        return json.loads(ask_probe("inputs", self.path))

    def tensor(self, *shape):
        """Every element is another number, exact in float16 up to 2048."""
        self.assertLess(np.prod(shape), 2048)
        return np.arange(np.prod(shape), dtype=np.float16).reshape(shape)

    def padded(self):
        return dict(q=self.tensor(3, 4, 10, 4), k=self.tensor(3, 2, 13, 4), v=self.tensor(3, 2, 13, 6))

    def expect_rows(self, name, batch, expected):
        """`expected` is [head][row][feature]. Each row alone, then all, then a stretch from the middle."""
        count = expected.shape[1]
        for head, rows in enumerate(expected):
            if head == 0:
                for row in range(count):
                    np.testing.assert_array_equal(self.rows(name, batch, head, row, 1), rows[row])
            np.testing.assert_array_equal(self.rows(name, batch, head, 0, count), rows.ravel())
            first = count // 3
            np.testing.assert_array_equal(self.rows(name, batch, head, first, count - first),
                                          rows[first:].ravel())

    def expect_no_row(self, name, batch, row):
        done = probe("rows", self.path, name, batch, 0, row, 1)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"/inputs/{name}: has no 1 rows from row {row} on in batch {batch}", done.stderr.decode())

    def test_integers_of_both_sizes(self):
        for dtype in (np.int32, np.int64):
            self.write_inputs(dict(seqlens_q=np.array([10, 0, 3], dtype), seqlens_kv=np.array([0, 13, 5], dtype)))
            got = self.inputs()
            self.assertEqual((got["seqlens_q"], got["seqlens_kv"]), ([10, 0, 3], [0, 13, 5]))

    def test_nothing_is_there_by_default(self):
        self.write_inputs({})
        nothing = dict(heads=0, blocks=1, rows=0, values=[])
        self.assertEqual(
            self.inputs(),
            dict(seqlens_q=[], seqlens_kv=[], alibi_slopes=[], sink=[], descale_q=nothing, descale_k=nothing,
                 descale_v=nothing, bias=False))

    def test_slopes_and_sink(self):
        slopes = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
        self.write_inputs(dict(alibi_slopes=slopes, sink=-slopes), alibi="linear", sink="first")
        got = self.inputs()
        self.assertEqual((got["alibi_slopes"], got["sink"]), (slopes.tolist(), (-slopes).tolist()))
        of_entries = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.write_inputs(dict(alibi_slopes=of_entries), alibi="distance")
        self.assertEqual(self.inputs()["alibi_slopes"], of_entries.ravel().tolist())

    def test_descales(self):
        def fill(f):
            f["inputs/descale_q"] = np.array([0.5], np.float32)
            f["inputs/descale_k"] = np.arange(6, dtype=np.float32).reshape(3, 2)
            f["inputs/descale_v"] = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
            f["inputs/descale_v"].attrs["rows"] = 4

        self.write(fill, heads_kv=self.Hkv, head_dim_v=self.Dv)
        got = self.inputs()
        self.assertEqual(got["descale_q"], dict(heads=0, blocks=1, rows=0, values=[0.5]))
        self.assertEqual(got["descale_k"], dict(heads=2, blocks=1, rows=13, values=list(range(6))))
        self.assertEqual(got["descale_v"], dict(heads=2, blocks=4, rows=4, values=list(range(24))))

    def test_bias_of_every_shape(self):
        for shape in ((3, 4, 10, 13), (1, 4, 10, 13), (1, 1, 10, 13), (3, 1, 1, 13), (1, 1, 10, 1), (1, 4, 1, 1)):
            bias = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            self.write_inputs(dict(bias=bias))
            everywhere = np.broadcast_to(bias, (3, 4, 10, 13))
            for batch, head, row in ((0, 0, 0), (2, 3, 9), (1, 2, 5)):
                done = probe("bias", self.path, batch, head, row)
                self.assertEqual(done.returncode, 0, done.stderr.decode())
                np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32),
                                              everywhere[batch, head, row])

    def test_padded_rows_beyond_an_entry_can_be_read(self):
        padded = self.padded()
        self.write_inputs(dict(padded, seqlens_q=np.array([10, 0, 3]), seqlens_kv=np.array([0, 13, 5])))
        for name, values in padded.items():
            self.expect_rows(name, 2, values[2])
        self.expect_no_row("q", 2, 10)

    def test_packed(self):
        cu_q, cu_kv = np.array([0, 10, 10, 17], np.int32), np.array([0, 4, 17, 18], np.int64)
        packed = dict(q=self.tensor(1, 4, 17, 4), k=self.tensor(1, 2, 18, 4), v=self.tensor(1, 2, 18, 6))
        self.write_inputs(dict(packed, cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv))
        got = self.inputs()
        self.assertEqual((got["seqlens_q"], got["seqlens_kv"]), ([10, 0, 7], [4, 13, 1]))
        for name, cu in (("q", cu_q), ("k", cu_kv), ("v", cu_kv)):
            for batch in range(3):
                rows = packed[name][0, :, cu[batch] : cu[batch + 1]]
                self.expect_rows(name, batch, rows)
                self.expect_no_row(name, batch, rows.shape[1])

    def test_packed_without_rows(self):
        nothing = np.zeros(4, np.int64)
        self.write_inputs(dict(q=np.zeros((1, 4, 0, 4), np.float16), k=np.zeros((1, 2, 0, 4), np.float16),
                               v=np.zeros((1, 2, 0, 6), np.float16), cu_seqlens_q=nothing, cu_seqlens_kv=nothing))
        self.assertEqual(self.inputs()["seqlens_kv"], [0, 0, 0])
        self.expect_no_row("q", 0, 0)
        self.expect_no_row("v", 2, 0)

    def test_only_q_is_packed(self):
        cu = np.array([0, 1, 3, 13], np.int32)
        tensors = dict(self.padded(), q=self.tensor(1, 4, 13, 4))
        self.write_inputs(dict(tensors, cu_seqlens_q=cu))
        for batch in range(3):
            self.expect_rows("q", batch, tensors["q"][0, :, cu[batch] : cu[batch + 1]])
            self.expect_rows("k", batch, tensors["k"][batch])

    def expect_paged(self, page_size, lengths, table, pages, more):
        tensors = dict(more, k=self.tensor(pages, 2, page_size, 4), v=self.tensor(pages, 2, page_size, 6))
        self.write_inputs(dict(tensors, page_table=table))
        for name in "kv":
            for batch, length in enumerate(lengths):
                rows = np.array([[tensors[name][table[batch, row // page_size], head, row % page_size]
                                  for row in range(length)] for head in range(2)])
                if length > 0:
                    self.expect_rows(name, batch, rows)
                self.expect_no_row(name, batch, length)

    def test_paged(self):
        rng = np.random.default_rng(5)
        for page_size, per_entry, pages in ((4, 4, 9), (1, 13, 40), (16, 1, 3), (5, 7, 12)):
            lengths = [13, 0, 6]
            table = rng.integers(0, pages, (3, per_entry)).astype(np.int32)
            for batch, length in enumerate(lengths):
                table[batch, -(-length // page_size) :] = (-1, 1 << 30, pages)[batch]  # no row needs these
            more = dict(q=self.tensor(3, 4, 10, 4), seqlens_kv=np.array(lengths))
            self.expect_paged(page_size, lengths, table, pages, more)

    def test_paged_without_lengths_has_all_rows(self):
        table = np.array([[3, 1], [0, 2], [3, 3]], np.int64)
        self.expect_paged(8, [13, 13, 13], table, 4, dict(q=self.tensor(3, 4, 10, 4)))

    def test_packed_q_and_paged_kv(self):
        table = np.array([[2, 0, 9], [1, 3, 0], [2, 9, 9]], np.int32)
        cu = np.array([0, 1, 1, 2])
        q = self.tensor(1, 4, 2, 4)
        more = dict(q=q, cu_seqlens_q=cu, seqlens_kv=np.array([10, 13, 5], np.int32))
        self.expect_paged(5, [10, 13, 5], table, 4, more)
        self.expect_rows("q", 0, q[0, :, 0:1])
        self.expect_rows("q", 2, q[0, :, 1:2])
        self.expect_no_row("q", 1, 0)


if __name__ == "__main__":
    unittest.main()
