"""Backward dumps: what is written is what h5py shows, and what h5py writes is what the reader sees.

usage: backward_h5py_test.py FILE_PROBE
"""

import json
import unittest

import h5py
import numpy as np

from h5py_case import UNWRITTEN, DumpCase, Folder, ask_probe, bits, probe

SHAPES = {  # of the sample: B, H, Hkv, Sq, Skv, D, Dv, block_m, block_n = 2, 4, 2, 37, 50, 8, 12, 16, 32
    "tiles/q": (0, (2, 4, 37, 8), (1, 1, 16, 8)),
    "tiles/k": (1, (2, 4, 3, 50, 8), (1, 1, 1, 32, 8)),
    "tiles/v": (2, (2, 4, 3, 50, 12), (1, 1, 1, 32, 12)),
    "tiles/s": (3, (2, 4, 37, 50), (1, 1, 16, 32)),
    "tiles/p": (5, (2, 4, 37, 50), (1, 1, 16, 32)),
    "tiles/dout": (10, (2, 4, 37, 12), (1, 1, 16, 12)),
    "tiles/delta": (11, (2, 4, 37), (1, 1, 16)),
    "tiles/dp": (12, (2, 4, 37, 50), (1, 1, 16, 32)),
    "tiles/ds": (13, (2, 4, 37, 50), (1, 1, 16, 32)),
    "outputs/dq": (14, (2, 4, 37, 8), (1, 1, 16, 8)),
    "outputs/dk": (15, (2, 2, 50, 8), (1, 1, 32, 8)),
    "outputs/dv": (16, (2, 2, 50, 12), (1, 1, 32, 12)),
}


class ReadByH5py(Folder):
    def setUp(self):
        super().setUp()
        done = probe("write_backward", self.path)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_tiles_and_outputs(self):
        with h5py.File(self.path) as f:
            stored = {f"{group}/{name}" for group in ("tiles", "outputs") for name in f[group]}
            self.assertEqual(stored, set(SHAPES))
            for name, (stage, shape, chunk) in SHAPES.items():
                got = f[name][:]
                self.assertEqual((got.dtype, got.shape, f[name].chunks), (np.float32, shape, chunk), name)
                expected = (stage << 18) + np.arange(got.size, dtype=np.float32).reshape(shape)
                expected = bits(expected).copy()
                if name == "outputs/dk":
                    expected[1, 0, 32:] = UNWRITTEN  # the tile that was not recorded
                np.testing.assert_array_equal(bits(got), expected, name)

    def test_inputs(self):
        shapes = dict(q=(2, 4, 37, 8), k=(2, 2, 50, 8), v=(2, 2, 50, 12), dout=(2, 4, 37, 12), o=(2, 4, 37, 12),
                      lse=(2, 4, 37))
        with h5py.File(self.path) as f:
            self.assertEqual(set(f["inputs"]), set(shapes))
            for name, shape in shapes.items():
                got = f["inputs"][name]
                self.assertEqual((got.shape, got.chunks), (shape, None), name)
                self.assertEqual(got.dtype, np.float32 if name == "lse" else np.float16, name)
                np.testing.assert_array_equal(got[:], (np.arange(got.size) % 17 - 8).reshape(shape), name)

    def test_attributes(self):
        accumulation = dict(accumulation="fma_f32")
        units = {
            "tiles/dout": {}, "tiles/delta": {},
            "tiles/dp": accumulation,
            "tiles/ds": dict(from_cast_p=False, capped=True, cast="f32", scale=0.125),
            "outputs/dq": dict(accumulation, dtype="f16"),
            "outputs/dk": dict(accumulation, dtype="f16"),
            "outputs/dv": dict(accumulation, dtype="f16"),
            "inputs/lse": dict(dtype="f32", log_base="2", empty_row="-inf", includes_sink=True),
            "inputs/o": dict(dtype="f16"), "inputs/dout": dict(dtype="f16"),
        }
        with h5py.File(self.path) as f:
            for name, attributes in units.items():
                self.assertEqual(dict(f[name].attrs), attributes, name)
            self.assertEqual(f["problem"].attrs["direction"], "backward")
            self.assertIsInstance(f["problem"].attrs["dkv_per_head"], np.bool_)
            self.assertEqual(set(f["capture"]), {name.split("/")[1] for name in SHAPES})
            self.assertEqual(f["capture/dk"].attrs["tiles_written"], 7)


class WrittenByH5py(DumpCase):
    H, Hkv, Dv = 4, 2, 6

    def write_backward(self, fill, **attributes):
        self.write(fill, direction="backward", heads_kv=self.Hkv, head_dim_v=self.Dv, **attributes)

    def expect_dk(self, dk):
        for head in range(dk.shape[1]):
            for kv_tile in range(2):
                keys = slice(kv_tile * 8, min(kv_tile * 8 + 8, 13))
                tile = self.tile("dk", 0, head, 0, kv_tile).reshape(8, 4)
                np.testing.assert_array_equal(tile[: keys.stop - keys.start], dk[0, head, keys])
        self.assertIsNone(self.tile("dk", 0, dk.shape[1], 0, 0))

    def test_gradients_in_their_own_types(self):
        dk = self.numbers(1, 2, 13, 4) - 40
        bf16 = (bits(dk) >> 16).astype(np.uint16)  # integers below 256 are exact
        ways = {"f32": [dk], "f16": [dk, dk.astype(np.float16)], "bf16": [dk, bf16]}
        for dtype, arrays in ways.items():
            for array in arrays:
                for options in (dict(), dict(chunks=(1, 1, 8, 4))):
                    def fill(f):
                        f.create_dataset("outputs/dk", data=array, **options).attrs["dtype"] = dtype

                    self.write_backward(fill, dtype_dk=dtype)
                    self.expect_dk(dk)

    def test_gradients_of_query_heads(self):
        dk = self.numbers(1, 4, 13, 4)
        self.write_backward(lambda f: f.create_dataset("outputs/dk", data=dk), dkv_per_head=True, dtype_dk="f32")
        self.expect_dk(dk)

    def test_only_some_tiles_of_dk(self):
        def fill(f):
            dk = f.create_dataset("outputs/dk", (1, 2, 13, 4), "f4", chunks=(1, 1, 8, 4),
                                  fillvalue=UNWRITTEN.view(np.float32))
            dk[0, 1, 8:12] = 7  # key 12 is left out

        self.write_backward(fill)
        self.assertIsNone(self.tile("dk", 0, 0, 0, 1))
        self.assertIsNone(self.tile("dk", 0, 1, 0, 0))
        tile = self.tile("dk", 0, 1, 0, 1).reshape(8, 4)
        self.assertTrue((tile[:4] == 7).all() and (bits(tile[4]) == UNWRITTEN).all())

    def inputs(self, B, Sq):
        numbers = lambda *shape: np.arange(np.prod(shape), dtype=np.float16).reshape(shape)
        return dict(q=numbers(B, 4, Sq, 4), k=numbers(1, 2, 13, 4), v=numbers(1, 2, 13, 6),
                    dout=numbers(B, 4, Sq, 6), o=numbers(B, 4, Sq, 6), lse=numbers(B, 4, Sq).astype(np.float32))

    def test_inputs(self):
        inputs = self.inputs(1, 10)

        def fill(f):
            for name, values in inputs.items():
                f["inputs/" + name] = values

        self.write_backward(fill)
        self.assertTrue(json.loads(ask_probe("open", self.path))["inputs"])
        for name in ("q", "dout", "o", "lse"):
            np.testing.assert_array_equal(self.rows(name, 0, 3, 4, 6), inputs[name][0, 3, 4:].ravel(), name)

    def test_packed_inputs(self):
        """dout, o and lse have their rows where q has them."""
        inputs = self.inputs(1, 7)
        inputs["k"], inputs["v"] = (np.repeat(inputs[name], 3, axis=0) for name in "kv")
        cu = np.array([0, 4, 4, 7], np.int32)

        def fill(f):
            for name, values in dict(inputs, cu_seqlens_q=cu).items():
                f["inputs/" + name] = values

        self.write_backward(fill, batch=3)
        for name in ("q", "dout", "o", "lse"):
            for batch in (0, 2):
                rows = inputs[name][0, 2, cu[batch] : cu[batch + 1]]
                np.testing.assert_array_equal(self.rows(name, batch, 2, 0, len(rows)), rows.ravel(), name)
                self.assertEqual(probe("rows", self.path, name, batch, 2, len(rows), 1).returncode, 2)

    def test_defaults(self):
        self.write_backward(lambda f: f.create_dataset("tiles/ds", data=self.numbers(1, 4, 10, 13)))
        got = json.loads(ask_probe("open", self.path))
        self.assertEqual((got["direction"], got["inputs"], got["tiles"]["ds"]), ("backward", False, 4 * 3 * 2))
        self.write(lambda f: None)
        self.assertEqual(json.loads(ask_probe("open", self.path))["direction"], "forward")

    def test_stages_of_the_other_direction_are_refused(self):
        self.write_backward(lambda f: f.create_dataset("outputs/lse", data=self.numbers(1, 4, 10)))
        done = probe("open", self.path)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{self.path}:/outputs/lse: belongs to a stage that the backward pass does not have",
                      done.stderr.decode())
        self.assertEqual(done.stderr.count(b"\n"), 1)


if __name__ == "__main__":
    unittest.main()
