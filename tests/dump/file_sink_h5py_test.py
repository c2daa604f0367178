"""h5py opens a sink file as any dump, shows the image, and may add to the file without harm to it.

usage: file_sink_h5py_test.py FILE_PROBE
"""

import json
import subprocess
import unittest

import h5py
import numpy as np

from h5py_case import UNWRITTEN, Folder, ask_probe, bits, probe

ENDING_WORDS = 64


class SinkFile(Folder):
    def setUp(self):
        super().setUp()
        done = probe("write_sink", self.path)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def tile(self, stage, *coordinates):
        done = probe("tile", self.path, stage, *coordinates)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return np.frombuffer(done.stdout, np.float32)

    def assert_holds_the_tiles(self):
        tiles = json.loads(ask_probe("open", self.path))["tiles"]
        # B, Tq, Tkv = 2, 3, 2; one head of four.
        self.assertEqual({name: tiles[name] for name in "qsmo"}, dict(q=6, s=12, m=12, o=6))
        s = (3 << 18) + np.arange(2 * 4 * 37 * 50, dtype=np.float32).reshape(2, 4, 37, 50)
        np.testing.assert_array_equal(self.tile("s", 1, 1, 1, 0).reshape(16, 32), s[1, 1, 16:32, :32])

    def test_is_a_dump_without_tiles(self):
        with h5py.File(self.path, "r") as f:
            self.assertEqual(f.attrs["format"], "tilescope")
            self.assertEqual(f.attrs["complete"], 1)
            self.assertEqual(f["capture"].attrs["ended"], "running")
            self.assertEqual(f["capture"].attrs["selection"], "head=1")
            self.assertEqual(f["tiles/s"].shape, (2, 4, 37, 50))
            self.assertEqual(f["tiles/s"].id.get_storage_size(), 0)
            self.assertTrue((bits(f["tiles/s"][:]) == UNWRITTEN).all())

    def test_shows_the_image(self):
        with h5py.File(self.path, "r") as f:
            image = f["capture/sink"]
            self.assertEqual((image.dtype, image.attrs["max_bytes"]), (np.int32, 1 << 24))
            self.assertEqual(image.id.get_offset() % 65536, 0)
            words = image[:]
        self.assertTrue((words[-ENDING_WORDS:] == 0).all())
        values = words[:-ENDING_WORDS].view(np.float32)
        lse = (9 << 18) + np.arange(2 * 4 * 37, dtype=np.float32).reshape(2, 4, 37)
        # The last tile of the last stage: rows 32 to 36 of 37, then padding.
        np.testing.assert_array_equal(values[-16:-11], lse[1, 1, 32:])

    def test_holds_its_tiles(self):
        self.assert_holds_the_tiles()

    def test_may_be_added_to(self):
        with h5py.File(self.path, "r+") as f:
            f["references/math/o"] = np.ones((2, 4, 37, 12), np.float32)
            f["references/math/o"].attrs["dtype"] = "f16"
            f["notes"] = np.arange(100000)
        self.assert_holds_the_tiles()
        self.assertEqual(json.loads(ask_probe("references", self.path))[0]["name"], "math")

    def test_may_be_repacked(self):
        packed = self.path.with_suffix(".packed")
        subprocess.run(["h5repack", self.path, packed], check=True, capture_output=True)
        packed.replace(self.path)
        self.assert_holds_the_tiles()


if __name__ == "__main__":
    unittest.main()
