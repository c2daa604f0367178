"""References that h5py writes are read as they are.

usage: file_references_h5py_test.py FILE_PROBE
"""

import json
import unittest

import h5py
import numpy as np

from h5py_case import DumpCase, ask_probe, bits, probe


def bfloat16():
    """The HDF5 float type of bf16, which NumPy does not have."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


class References(DumpCase):
    B, H, Sq, Skv, D, Dv = 2, 2, 10, 13, 4, 6

    def write_references(self, fill, **attributes):
        self.write(fill, head_dim_v=self.Dv, **attributes)

    def infos(self):
        return json.loads(ask_probe("references", self.path))

    def rows_of(self, index, stage, batch, head, first, count):
        done = probe("reference", self.path, index, stage, batch, head, first, count)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return np.frombuffer(done.stdout, np.uint32)

    def expect(self, index, stage, values):
        """`values` are [B][H][Sq] or [B][H][Sq][Dv]: each head whole, and a stretch from its middle."""
        for batch in range(self.B):
            for head in range(self.H):
                rows = np.asarray(values[batch, head], np.float32)
                np.testing.assert_array_equal(self.rows_of(index, stage, batch, head, 0, self.Sq),
                                              bits(rows).ravel())
                np.testing.assert_array_equal(self.rows_of(index, stage, batch, head, 3, 4),
                                              bits(rows[3:7]).ravel())

    def o(self, dtype=np.float32):
        return (np.arange(self.B * self.H * self.Sq * self.Dv).reshape(self.B, self.H, self.Sq, self.Dv) / 4 -
                20).astype(dtype)

    def lse(self):
        return np.linspace(-3, 7, self.B * self.H * self.Sq, dtype=np.float32).reshape(self.B, self.H, self.Sq)

    def test_there_are_none(self):
        self.write_references(lambda f: None)
        self.assertEqual(self.infos(), [])
        self.write_references(lambda f: f.create_group("references"))
        self.assertEqual(self.infos(), [])

    def test_o_and_lse(self):
        lse = self.lse()
        lse[0, 1, 3], lse[1, 0, 9], lse[1, 1, 0] = -np.inf, np.inf, np.nan

        def fill(f):
            f["references/math/o"] = self.o(np.float16)
            f["references/flash 2.7/lse"] = lse
            f["references/flash 2.7/o"] = self.o()
            f["references/lse alone/lse"] = -lse
            f["references/lse alone/lse"].attrs["log_base"] = "2"

        self.write_references(fill)
        self.assertEqual(self.infos(), [
            dict(name="flash 2.7", o=True, lse=True, dtype="f16", log_base="e"),
            dict(name="lse alone", o=False, lse=True, dtype="f32", log_base="2"),
            dict(name="math", o=True, lse=False, dtype="f16", log_base="e"),
        ])
        self.expect(0, "o", self.o())
        self.expect(0, "lse", lse)
        self.expect(1, "lse", -lse)
        self.expect(2, "o", self.o(np.float16))

    def test_types_of_o(self):
        bf16_bits = (bits(self.o()) >> 16).astype(np.uint16)
        exact = (bf16_bits.astype(np.uint32) << 16).view(np.float32)

        def fill(f):
            f["references/a/o"] = self.o()
            f["references/b/o"] = self.o()
            f["references/b/o"].attrs["dtype"] = "f32"
            f["references/c/o"] = bf16_bits
            f["references/c/o"].attrs["dtype"] = "bf16"
            f["references/d/o"] = self.o(np.float16).view(np.uint16)
            space = h5py.h5s.create_simple(self.o().shape)
            group = f.create_group("references/e")
            h5py.h5d.create(group.id, b"o", bfloat16(), space).write(h5py.h5s.ALL, h5py.h5s.ALL, bf16_bits,
                                                                     mtype=bfloat16())
            f["references/f/o"] = exact
            f["references/f/o"].attrs["dtype"] = np.bytes_(b"bf16")

        self.write_references(fill)
        self.assertEqual([info["dtype"] for info in self.infos()], ["f16", "f32", "bf16", "f16", "bf16", "bf16"])
        self.expect(0, "o", self.o())
        self.expect(1, "o", self.o())
        self.expect(2, "o", exact)
        self.expect(3, "o", self.o(np.float16))
        self.expect(4, "o", exact)
        self.expect(5, "o", exact)

    def test_float32_is_of_the_kernels_type_where_nothing_is_said(self):
        def fill(f):
            f["references/a/o"] = self.o()
            f["references/b/o"] = self.o(np.float16)

        for dtype_o in ("f32", "f16", "bf16"):
            self.write_references(fill, dtype_o=dtype_o)
            self.assertEqual([info["dtype"] for info in self.infos()], [dtype_o, "f16"])

    def test_sixteen_with_names_of_64_characters(self):
        names = sorted(f"{i:x}" * 63 + "~" for i in range(16))

        def fill(f):
            for i, name in enumerate(names):
                f[f"references/{name}/lse"] = self.lse() + i

        self.write_references(fill)
        self.assertEqual([info["name"] for info in self.infos()], names)
        self.expect(15, "lse", self.lse() + 15)

    def test_appended_to_a_complete_dump(self):
        self.write_references(lambda f: None)
        with h5py.File(self.path, "r+") as f:
            f["references/math/o"] = self.o()
        self.assertEqual([info["name"] for info in self.infos()], ["math"])
        self.expect(0, "o", self.o())

    def test_rows_that_are_not_there(self):
        def fill(f):
            f["references/math/o"] = self.o()

        self.write_references(fill)
        for index, stage, batch, head, first, count in ((0, "o", 2, 0, 0, 1), (0, "o", 0, 2, 0, 1),
                                                        (0, "o", 0, 0, 10, 1), (0, "o", 0, 0, 0, 11),
                                                        (0, "o", -1, 0, 0, 1), (0, "o", 0, 0, -1, 1),
                                                        (0, "lse", 0, 0, 0, 1), (1, "o", 0, 0, 0, 1)):
            done = probe("reference", self.path, index, stage, batch, head, first, count)
            self.assertEqual(done.returncode, 2, (index, stage, batch, head, first, count))
            self.assertEqual(done.stdout, b"")


if __name__ == "__main__":
    unittest.main()
