"""What tile-run writes is what h5py shows in one line, and what h5py writes is what the reader sees.

usage: file_h5py_test.py FILE_PROBE
"""

import unittest

import h5py
import numpy as np

from h5py_case import UNWRITTEN, DumpCase, Folder, ask_probe, bits, probe

STAGES = ["q", "k", "v", "s", "m", "p", "l", "acc", "o", "lse"]
SHAPES = {  # of the sample: B, H, Hkv, Sq, Skv, D, Dv, block_m, block_n = 2, 4, 2, 37, 50, 8, 12, 16, 32
    "tiles/q": ((2, 4, 37, 8), (1, 1, 16, 8)),
    "tiles/k": ((2, 4, 3, 50, 8), (1, 1, 1, 32, 8)),
    "tiles/v": ((2, 4, 3, 50, 12), (1, 1, 1, 32, 12)),
    "tiles/s": ((2, 4, 37, 50), (1, 1, 16, 32)),
    "tiles/m": ((2, 4, 2, 37), (1, 1, 1, 16)),
    "tiles/p": ((2, 4, 37, 50), (1, 1, 16, 32)),
    "tiles/l": ((2, 4, 2, 37), (1, 1, 1, 16)),
    "tiles/acc": ((2, 4, 2, 37, 12), (1, 1, 1, 16, 12)),
    "outputs/o": ((2, 4, 37, 12), (1, 1, 16, 12)),
    "outputs/lse": ((2, 4, 37), (1, 1, 16)),
}


class ReadByH5py(Folder):
    def write(self, dtype="f16"):
        done = probe("write", self.path, dtype)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return h5py.File(self.path, "r")

    def test_tiles_and_outputs(self):
        with self.write() as f:
            for name, (shape, chunk) in SHAPES.items():
                got = f[name][:]
                self.assertEqual((got.dtype, got.shape, f[name].chunks), (np.float32, shape, chunk), name)
                stage = STAGES.index(name.split("/")[1])
                expected = (stage << 18) + np.arange(got.size, dtype=np.float32).reshape(shape)
                expected = bits(expected).copy()
                if name == "tiles/s":
                    expected[1, 2, 16:32, 32:] = UNWRITTEN  # the tile that was not recorded
                    expected[0, 3, 0, 5] = UNWRITTEN
                if name == "tiles/acc":
                    expected[1, 3, 1, 32:] = UNWRITTEN
                np.testing.assert_array_equal(bits(got), expected, name)

    def test_an_absent_tile_takes_no_space(self):
        with self.write() as f:
            self.assertEqual(f["tiles/p"].id.get_storage_size(), 2 * 4 * 3 * 2 * 16 * 32 * 4)
            self.assertEqual(f["tiles/s"].id.get_storage_size(), (2 * 4 * 3 * 2 - 1) * 16 * 32 * 4)

    def test_padding_is_kept_in_the_chunk(self):
        with self.write() as f:
            _, raw = f["tiles/s"].id.read_direct_chunk((0, 0, 32, 32))
        tile = np.frombuffer(raw, np.float32).reshape(16, 32)
        self.assertEqual(tile[5, 0], -5001)  # row 37 is the first beyond seqlen_q
        self.assertEqual(tile[0, 18], -19)  # column 50 is the first beyond seqlen_kv

    def test_attributes(self):
        with self.write() as f:
            self.assertEqual(f.attrs["format"], "tilescope")
            self.assertEqual(f.attrs["format_version"], 1)
            self.assertEqual(f.attrs["complete"], 1)
            self.assertEqual(f.attrs["kernel"], "sample")
            self.assertIsInstance(f.attrs["kernel"], str)
            self.assertEqual(f.attrs["device"], "no device \u00b5")
            self.assertEqual(f.attrs["command"], "")
            problem = dict(f["problem"].attrs)
            self.assertEqual(problem.pop("sm_scale"), 0.35355339059327373)
            self.assertEqual(problem.pop("logits_soft_cap"), 0)
            self.assertEqual(
                problem,
                dict(batch=2, heads=4, heads_kv=2, seqlen_q=37, seqlen_kv=50, head_dim=8, head_dim_v=12,
                     block_m=16, block_n=32, window_left=-1, window_right=-1, kv_tiles_per_split=0, l_lanes=1,
                     l_lane_columns=1, direction="forward", mask="causal", causal_alignment="bottom_right",
                     window_bounds="inclusive", alibi="none", sink="none", kv_order="forward", dtype_q="f16",
                     dtype_k="f16", dtype_v="f16", dtype_p="f32", dtype_acc="f32", dtype_o="f16",
                     dtype_dout="f16", dtype_ds="f32", dtype_dq="f16", dtype_dk="f16", dtype_dv="f16",
                     dkv_per_head=False))

    def test_units(self):
        expected = {
            "tiles/q": dict(dequantised=True, cast="f32"),
            "tiles/k": dict(dequantised=True, cast="f32"),
            "tiles/v": dict(dequantised=True, cast="f32"),
            "tiles/s": dict(scaled=False, capped=True, tanh="tanhf", biased=True, masked=True, log_base="2",
                            accumulation="fma_f32"),
            "tiles/m": dict(scaled=True, log_base="e", stale_threshold=0),
            "tiles/p": dict(exp="ex2_approx", exp_error=0, cast="bf16", scale=1),
            "tiles/l": dict(sums_cast_p=False, scale=1),
            "tiles/acc": dict(accumulation="tensor_core_f32", scale=1, dequantised=True),
            "outputs/lse": dict(log_base="e", empty_row="-inf", includes_sink=True, dtype="f32"),
            "outputs/o": dict(empty_row="zero", dtype="f16"),
        }
        with self.write() as f:
            for name, attributes in expected.items():
                self.assertEqual(dict(f[name].attrs), attributes, name)
            self.assertIsInstance(f["tiles/s"].attrs["scaled"], np.bool_)
            self.assertIsInstance(f["tiles/p"].attrs["scale"], np.float64)

    def test_capture(self):
        with self.write() as f:
            self.assertEqual(dict(f["capture"].attrs), dict(selection="", ended="completed"))
            self.assertEqual(
                dict(f["capture/s"].attrs),
                dict(tiles_selected=48, tiles_written=47, tiles_dropped=0, elements_unwritten=1,
                     elements_conflicting=9, elements_dropped=0, elements_out_of_range=0))
            self.assertEqual(f["capture/s/conflicts"][:].tolist(), [[0, 1, 2, 1, 9]])
            self.assertEqual(f["capture/acc/dropped"][:].tolist(), [[1, 3, 2, 1]])
            self.assertEqual(f["capture/acc"].attrs["elements_dropped"], 60)
            self.assertEqual(list(f["capture/p"]), [])

    def test_inputs(self):
        shapes = {"q": (2, 4, 37, 8), "k": (2, 2, 50, 8), "v": (2, 2, 50, 12)}
        # h5py has no bfloat16: it shows the float32 values.
        shown = {"f32": np.float32, "f16": np.float16, "bf16": np.float32, "e4m3": np.uint8, "e5m2": np.uint8}
        for dtype, type_shown in shown.items():
            with self.write(dtype) as f:
                for name, shape in shapes.items():
                    got = f["inputs"][name][:]
                    self.assertEqual((got.dtype, got.shape), (type_shown, shape), dtype)
                    self.assertEqual(f["inputs"][name].attrs["dtype"], dtype)
                    expected = (np.arange(got.size) % 17 - 8).reshape(shape)
                    if got.dtype == np.uint8:
                        got = decode_fp8(got, dtype)
                    np.testing.assert_array_equal(got, expected, dtype)
                size = np.dtype(type_shown).itemsize if dtype != "bf16" else 2
                self.assertEqual(f["inputs/q"].id.get_storage_size(), 2 * 4 * 37 * 8 * size)


def decode_fp8(codes, dtype):
    mantissa_bits, bias = {"e4m3": (3, 7), "e5m2": (2, 15)}[dtype]
    codes = codes.astype(np.int64)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent = (codes & 0x7F) >> mantissa_bits
    fraction = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    normal = (1 + fraction) * 2.0 ** (exponent - bias)
    return sign * np.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)


class WrittenByH5py(DumpCase):
    """Dumps that follow FORMAT.md in other ways than tile-run does."""

    def expect_s(self, s):
        for head in range(2):
            for q_block in range(3):
                for kv_tile in range(2):
                    rows = slice(q_block * 4, min(q_block * 4 + 4, 10))
                    cols = slice(kv_tile * 8, min(kv_tile * 8 + 8, 13))
                    expected = s[0, head, rows, cols]
                    got = self.tile("s", 0, head, q_block, kv_tile).reshape(4, 8)
                    got = got[: expected.shape[0], : expected.shape[1]]
                    np.testing.assert_array_equal(bits(got), bits(expected))

    def test_chunked_and_contiguous_tiles(self):
        s = self.numbers(1, 2, 10, 13)
        for libver in ("earliest", "latest"):
            for options in (dict(chunks=(1, 1, 4, 8)), dict(), dict(chunks=(1, 1, 4, 8), maxshape=(None,) * 4),
                            dict(chunks=(1, 1, 4, 8), maxshape=(1, 2, None, 13))):
                with h5py.File(self.path, "w", libver=libver) as f:
                    f.attrs.update(format="tilescope", format_version=1)
                    f.create_group("problem").attrs.update(
                        batch=1, heads=2, seqlen_q=10, seqlen_kv=13, head_dim=4, block_m=4, block_n=8,
                        sm_scale=0.5)
                    f.create_dataset("tiles/s", data=s, **options)
                    f.attrs["complete"] = 1
                self.expect_s(s)

    def test_a_contiguous_tile_is_padded_with_unwritten(self):
        self.write(lambda f: f.create_dataset("tiles/s", data=self.numbers(1, 2, 10, 13)))
        tile = bits(self.tile("s", 0, 0, 2, 1)).reshape(4, 8)
        self.assertTrue((tile[2:] == UNWRITTEN).all() and (tile[:, 5:] == UNWRITTEN).all())
        self.assertTrue((tile[:2, :5] != UNWRITTEN).all())

    def test_chunks_cut_at_the_dataset(self):
        s = self.numbers(1, 2, 10, 13)
        self.write(lambda f: f.create_dataset("tiles/s", data=s, chunks=(1, 1, 4, 13)), block_n=32)
        for q_block in range(3):
            rows = slice(q_block * 4, min(q_block * 4 + 4, 10))
            tile = self.tile("s", 0, 1, q_block, 0).reshape(4, 32)
            np.testing.assert_array_equal(tile[: rows.stop - rows.start, :13], s[0, 1, rows])
            self.assertTrue((bits(tile[:, 13:]) == UNWRITTEN).all())
        m = self.numbers(1, 2, 1, 10)
        self.write(lambda f: f.create_dataset("tiles/m", data=m, chunks=(1, 1, 1, 10)), block_n=32, block_m=16)
        np.testing.assert_array_equal(self.tile("m", 0, 1, 0, 0)[:10], m[0, 1, 0])

    def test_only_some_tiles(self):
        def fill(f):
            s = f.create_dataset("tiles/s", (1, 2, 10, 13), "f4", chunks=(1, 1, 4, 8),
                                 fillvalue=UNWRITTEN.view(np.float32))
            s[0, 1, 4:8, 8:12] = 7  # column 12 is left out

        self.write(fill)
        self.assertIsNone(self.tile("s", 0, 0, 0, 0))
        tile = self.tile("s", 0, 1, 1, 1).reshape(4, 8)
        self.assertTrue((tile[:, :4] == 7).all())
        self.assertTrue((bits(tile[:, 4]) == UNWRITTEN).all())

    def test_outputs_in_their_own_types(self):
        o = self.numbers(1, 2, 10, 4) - 40
        bf16 = (bits(o) >> 16).astype(np.uint16)  # integers below 256 are exact
        ways = {
            "f32": [o],
            "f16": [o, o.astype(np.float16), o.astype(np.float16).view(np.uint16)],
            "bf16": [o, bf16],
        }
        for dtype, arrays in ways.items():
            for array in arrays:
                for options in (dict(), dict(chunks=(1, 1, 4, 4))):
                    def fill(f):
                        f.create_dataset("outputs/o", data=array, **options).attrs["dtype"] = dtype

                    self.write(fill, dtype_o=dtype)
                    tile = self.tile("o", 0, 1, 2, 0).reshape(4, 4)
                    np.testing.assert_array_equal(tile[:2], o[0, 1, 8:10], dtype)

    def test_bfloat16_as_an_hdf5_float(self):
        k = self.numbers(1, 2, 13, 4) - 50

        def fill(f):
            bf16 = h5py.h5t.IEEE_F32LE.copy()
            bf16.set_fields(15, 7, 8, 0, 7)
            bf16.set_size(2)
            bf16.set_ebias(127)
            for name, array in (("q", k[:, :, :10]), ("k", k), ("v", k)):
                space = h5py.h5s.create_simple(array.shape)
                group = f.require_group("inputs").id
                dataset = h5py.h5d.create(group, name.encode(), bf16, space)
                raw = np.ascontiguousarray((bits(array) >> 16).astype(np.uint16))
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, raw, bf16)

        self.write(fill, dtype_q="bf16", dtype_k="bf16", dtype_v="bf16")
        np.testing.assert_array_equal(self.head("k", 0, 1), k[0, 1].ravel())

    def test_inputs_of_other_types(self):
        k = self.numbers(1, 2, 13, 4)
        codes = (np.arange(104) % 120).astype(np.uint8).reshape(1, 2, 13, 4)

        def fill(f):
            f["inputs/q"] = k[:, :, :10].astype(np.float16)
            f["inputs/k"] = k
            f["inputs/v"] = codes

        self.write(fill, dtype_v="e4m3")
        np.testing.assert_array_equal(self.head("q", 0, 1), k[0, 1, :10].ravel())
        np.testing.assert_array_equal(self.head("k", 0, 1), k[0, 1].ravel())
        np.testing.assert_array_equal(self.head("v", 0, 1), decode_fp8(codes, "e4m3")[0, 1].ravel())

    def test_attributes_of_other_types(self):
        self.write(lambda f: f["problem"].attrs.update(
            batch=np.uint8(1), heads=np.array([2], ">i4"), sm_scale=np.float32(0.25), mask=np.bytes_("causal"),
            logits_soft_cap=30, window_left=np.int16(-1)))
        self.assertIn('"sm_scale":0.25', ask_probe("open", self.path))
        self.write(lambda f: f.attrs.update(kernel=np.bytes_("fixed  ")), sm_scale=2)
        self.assertIn('"kernel":"fixed  "', ask_probe("open", self.path))

    def test_defaults(self):
        self.write(lambda f: None)
        text = ask_probe("open", self.path)
        for part in ('"heads_kv":2', '"head_dim_v":4', '"inputs":false', '"s_scaled":true', '"kernel":""'):
            self.assertIn(part, text)

    def test_empty_datasets_are_not_recorded(self):
        self.write(lambda f: (f.create_dataset("tiles/s", (1, 2, 10, 13), "f4", chunks=(1, 1, 4, 8)),
                              f.create_dataset("outputs/o", (1, 2, 10, 4), "f2")))
        self.assertIn('"s":0', ask_probe("open", self.path))
        self.assertIn('"o":0', ask_probe("open", self.path))

    def test_chunked_inputs_are_refused(self):
        q = self.numbers(1, 2, 10, 4)
        self.write(lambda f: f.create_dataset("inputs/q", data=q, chunks=True))
        done = probe("open", self.path)
        self.assertEqual(done.returncode, 2)
        self.assertIn(":/inputs/q: has chunks; store it contiguous", done.stderr.decode())

    def test_compression_is_refused(self):
        for options in (dict(compression="gzip"), dict(compression="lzf"), dict(shuffle=True),
                        dict(fletcher32=True), dict(scaleoffset=2)):
            self.write(lambda f: f.create_dataset("tiles/s", data=self.numbers(1, 2, 10, 13),
                                                  chunks=(1, 1, 4, 8), **options))
            done = probe("open", self.path)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn(f"{self.path}:/tiles/s: is compressed or filtered", done.stderr.decode())
            self.assertEqual(done.stderr.count(b"\n"), 1)


if __name__ == "__main__":
    unittest.main()
