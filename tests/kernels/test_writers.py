#!/usr/bin/env python3
"""tile-run record --writers on the CPU: h5py reads which thread of the scalar kernel wrote which element.

usage: test_writers.py TILE_RUN TILE_DIFF
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

TILE_RUN, TILE_DIFF = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
BATCH, HEADS, SEQ_Q, SEQ_KV, HEAD_DIM = 1, 2, 40, 70, 64
BLOCK_M, BLOCK_N, LANES = 32, 64, 8  # eight threads share a query row, each takes every eighth column
STAGES = ["q", "k", "v", "s", "m", "p", "l", "acc", "o", "lse"]


class Writers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "run.h5"

    def run_it(self, *arguments):
        shape = f"{BATCH},{HEADS},{SEQ_Q},{SEQ_KV},{HEAD_DIM}"
        return subprocess.run([TILE_RUN, "record", "--kernel", "scalar", "--config", f"{BLOCK_M}x{BLOCK_N}x2", "--engine", "cpu",
                               "--shape", shape, "-o", self.file, *arguments], capture_output=True, text=True)

    def record(self, *arguments):
        run = self.run_it(*arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return h5py.File(self.file, "r")

    def assert_writers(self, f, stage, threads):
        words = f["capture/writers"][stage]
        values = f["outputs" if stage in ("o", "lse") else "tiles"][stage]
        self.assertEqual((words.dtype, words.shape, words.chunks), (np.uint32, values.shape, values.chunks), stage)
        expected = np.broadcast_to(np.asarray(threads, np.uint32) | np.uint32(1 << 16), words.shape)
        np.testing.assert_array_equal(words[:], expected, stage)

    def test_each_element_is_written_once_by_the_thread_that_owns_it(self):
        with self.record("--writers") as f:
            self.assertEqual(sorted(f["capture/writers"]), sorted(STAGES))
            self.assertTrue("--writers" in f.attrs["command"], f.attrs["command"])
            row = np.arange(SEQ_Q)[:, None] % BLOCK_M
            key = np.arange(SEQ_KV)[None, :] % BLOCK_N
            feature = np.arange(HEAD_DIM)[None, :]
            owner_of_score = row * LANES + key % LANES
            owner_of_feature = row * LANES + feature % LANES
            for stage in ("s", "p"):
                self.assert_writers(f, stage, owner_of_score)
            for stage in ("acc", "o"):
                self.assert_writers(f, stage, owner_of_feature)
            for stage in ("m", "l", "lse"):
                self.assert_writers(f, stage, (row * LANES)[:, 0])
            # All threads of the block share the staged tiles, element after element.
            threads = BLOCK_M * LANES
            self.assert_writers(f, "q", (row * HEAD_DIM + feature) % threads)
            for stage in ("k", "v"):
                self.assert_writers(f, stage, (key.T * HEAD_DIM + feature) % threads)

    def test_only_what_is_selected(self):
        with self.record("--writers", "--select", "head=1:kv_tile=1:stage=s") as f:
            self.assertEqual(list(f["capture/writers"]), ["s"])
            writes = f["capture/writers/s"][0] >> 16
        expected = np.zeros((HEADS, SEQ_Q, SEQ_KV), int)
        expected[1, :, BLOCK_N:] = 1
        np.testing.assert_array_equal(writes, expected)

    def test_nothing_else_changes(self):
        with self.record("--writers") as f:
            with_writers = {name: f["tiles"][name][:].tobytes() for name in f["tiles"]}
        with self.record() as f:
            self.assertNotIn("writers", f["capture"])
            self.assertEqual({name: f["tiles"][name][:].tobytes() for name in f["tiles"]}, with_writers)

    def test_a_sink_file_is_refused(self):
        run = self.run_it("--writers", "--sink-memory", "file")
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn("does not hold who wrote its elements", run.stderr)
        self.assertFalse(self.file.exists())

    def judge(self):
        done = subprocess.run([TILE_DIFF, self.file, "--json", "-"], capture_output=True, text=True)
        return done, {stage["name"]: stage for stage in json.loads(done.stdout)["stages"]}

    def test_tile_diff_counts_them(self):
        self.record("--writers", "--select", "stage=s,m").close()
        done, stages = self.judge()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(stages["s"]["writers"], {"repeated": 0, "by_several": 0})
        self.assertIsNone(stages["p"]["writers"])

        with h5py.File(self.file, "r+") as f:  # a race in one tile of s
            f["capture/writers/s"][0, 1, 33:35, 65] = 3 << 16 | 1 << 15 | 11
            f["capture/writers/s"][0, 1, 35, 66] = 2 << 16 | 12
            f["capture/writers/m"][0, 0, 0, 0] = 2 << 16
            f["capture/s/conflicts"] = np.array([[0, 1, 1, 1, 4]])
            f["capture/s"].attrs["elements_conflicting"] = 4
        done, stages = self.judge()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(stages["s"]["writers"], {"repeated": 3, "by_several": 2})
        self.assertEqual(stages["m"]["writers"], {"repeated": 1, "by_several": 0})
        first = stages["s"]["first_repeated"]
        self.assertEqual({key: first[key] for key in ("batch", "head", "row", "col", "kv_tile")},
                         {"batch": 0, "head": 1, "row": 33, "col": 65, "kv_tile": 1})
        self.assertEqual((first["writes"], first["first_thread"], first["several_threads"]), (3, 11, True))
        self.assertIsNone(stages["m"]["first_repeated"], "no conflict is known there")
        text = subprocess.run([TILE_DIFF, self.file], capture_output=True, text=True).stdout
        self.assertIn("first written again: s at batch 0, head 1, row 33, key 65, KV tile 1: written 3 times, "
                      "first by thread 11 (warp 0, lane 11), by others, too\n", text)


if __name__ == "__main__":
    unittest.main()
