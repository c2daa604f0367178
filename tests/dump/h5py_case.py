"""What the tests of dumps that h5py reads and writes share. The program's first argument is file_probe."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

PROBE = sys.argv.pop(1)
UNWRITTEN = np.uint32(0x7FD17E5C)


def probe(*arguments):
    return subprocess.run([PROBE, *map(str, arguments)], capture_output=True)


def ask_probe(command, path):
    done = probe(command, path)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return done.stdout.decode()


def bits(values):
    return np.asarray(values, np.float32).view(np.uint32)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "run.h5"


class DumpCase(Folder):
    """A dump that h5py writes."""

    B, H, Sq, Skv, D, block_m, block_n = 1, 2, 10, 13, 4, 4, 8

    def write(self, fill, **attributes):
        with h5py.File(self.path, "w") as f:
            f.attrs["format"] = "tilescope"
            f.attrs["format_version"] = 1
            problem = dict(batch=self.B, heads=self.H, seqlen_q=self.Sq, seqlen_kv=self.Skv, head_dim=self.D,
                           block_m=self.block_m, block_n=self.block_n, sm_scale=0.5)
            problem.update(attributes)
            f.create_group("problem").attrs.update(problem)
            fill(f)
            f.attrs["complete"] = 1

    def tile(self, stage, *coordinates):
        done = probe("tile", self.path, stage, *coordinates)
        self.assertIn(done.returncode, (0, 1), done.stderr.decode())
        return np.frombuffer(done.stdout, np.float32) if done.returncode == 0 else None

    def rows(self, name, batch, head, first, count):
        done = probe("rows", self.path, name, batch, head, first, count)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return np.frombuffer(done.stdout, np.float32)

    def head(self, name, batch, head):
        return self.rows(name, batch, head, 0, self.Sq if name == "q" else self.Skv)

    def numbers(self, *shape):
        return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
