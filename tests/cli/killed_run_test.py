"""A run that is killed at any moment leaves no sink file, or one that holds every tile that was written.

usage: killed_run_test.py TILE_RUN TILE_DIFF
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import numpy as np

TILE_RUN, TILE_DIFF = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
UNWRITTEN = np.uint32(0x7FD17E5C)
MATCH, UNJUDGED = 0, 2
KILLS = 200 if os.environ.get("TILESCOPE_ALL_SEEDS") == "1" else 60

HEADS, SEQLEN_Q, SEQLEN_KV, HEAD_DIM = 2, 80, 208, 64
BLOCK_M, BLOCK_N = 32, 64
Q_BLOCKS, KV_TILES = -(-SEQLEN_Q // BLOCK_M), -(-SEQLEN_KV // BLOCK_N)
OUTPUTS = ["outputs/o", "outputs/lse"]

# Where KV tile t of query block b of a head lies in a dataset of that head.
def rows(b):
    return slice(b * BLOCK_M, (b + 1) * BLOCK_M)


def keys(t):
    return slice(t * BLOCK_N, (t + 1) * BLOCK_N)


TILES = {
    "k": lambda b, t: (b, keys(t)),
    "v": lambda b, t: (b, keys(t)),
    "s": lambda b, t: (rows(b), keys(t)),
    "m": lambda b, t: (t, rows(b)),
    "p": lambda b, t: (rows(b), keys(t)),
    "l": lambda b, t: (t, rows(b)),
    "acc": lambda b, t: (t, rows(b)),
}
STAGES = ["tiles/q", *(f"tiles/{name}" for name in TILES), *OUTPUTS]


def read_bits(path):
    with h5py.File(path) as file:
        return {name: file[name][0].view(np.uint32) for name in STAGES}


class KilledRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.sink = cls.folder / "run.sink"
        cls.output = cls.folder / "run.h5"
        cls.run_whole()
        cls.whole = read_bits(cls.output)
        begin = time.monotonic()
        cls.run_whole()
        cls.seconds = time.monotonic() - begin

    @classmethod
    def start(cls):
        return subprocess.Popen(
            [TILE_RUN, "record", "--kernel", "scalar", "--engine", "cpu", "--seed", "3", "--shape",
             f"1,{HEADS},{SEQLEN_Q},{SEQLEN_KV},{HEAD_DIM}", "--sink-memory", "file", "--sink-file", cls.sink,
             "--sink-bytes", "16M", "-o", cls.output], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    @classmethod
    def run_whole(cls):
        run = cls.start()
        _, message = run.communicate()
        if run.returncode != 0 or cls.sink.exists():
            raise AssertionError(message.decode())

    def clear(self):
        for path in self.folder.iterdir():
            path.unlink()

    def recover(self, sink):
        recovered = self.folder / "recovered.h5"
        run = subprocess.run([TILE_RUN, "recover", sink, "-o", recovered], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return read_bits(recovered)

    def assert_is_part_of_the_whole(self, left):
        """Every element is unwritten, or the one of the whole run. Returns which are written."""
        written = {}
        for name in STAGES:
            written[name] = left[name] != UNWRITTEN
            self.assertTrue((left[name] == self.whole[name])[written[name]].all(), name)
        return written

    def assert_is_in_order(self, written):
        """No KV tile of a stage begins before the one before it is whole, no output before the last is."""
        for head in range(HEADS):
            for b in range(Q_BLOCKS):
                for name, place in TILES.items():
                    tiles = [written[f"tiles/{name}"][head][place(b, t)] for t in range(KV_TILES)]
                    if any(written[output][head][rows(b)].any() for output in OUTPUTS):
                        self.assertTrue(tiles[-1].all(), (head, b, name))
                    for before, tile in zip(tiles, tiles[1:]):
                        self.assertTrue(before.all() or not tile.any(), (head, b, name))

    def judge(self):
        """The report of tile-diff, which has no verdict unless the kernel was done."""
        run = subprocess.run([TILE_DIFF, self.sink, "--json", "-"], capture_output=True, text=True)
        report = json.loads(run.stdout)
        if report.get("ended") == "completed":
            self.assertEqual((run.returncode, report["verdict"]), (MATCH, "match"))
            return report
        self.assertEqual((run.returncode, report["verdict"]), (UNJUDGED, "unjudged"), run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn("the run did not end: killed, or still running", run.stderr)
        return report

    def assert_reached(self, report, written):
        o = written["outputs/o"]
        if report.get("ended") == "completed":
            self.assertTrue(o.all())
        elif o.any():
            finished = sum(o[head][rows(b)].all() for head in range(HEADS) for b in range(Q_BLOCKS))
            self.assertEqual(report["reached"]["finished"], finished)
            self.assertEqual(len(report["reached"]["blocks"]), HEADS * Q_BLOCKS)
        elif not any(stage.any() for stage in written.values()):
            self.assertIn("no tile was captured", report["reason"])

    def test_what_is_left_is_whole_or_part_and_never_unreadable(self):
        seed = random.randrange(1 << 32)
        generator = random.Random(seed)
        absent = empty = partial = ended = 0
        with self.subTest(seed=seed):
            for kill in range(KILLS):
                self.clear()
                run = self.start()
                time.sleep(generator.uniform(0, self.seconds))
                before = self.folder / "before.sink"
                if kill % 5 == 0:
                    # It may not be there yet, or not any more.
                    with contextlib.suppress(FileNotFoundError):
                        shutil.copyfile(self.sink, before)
                run.kill()
                run.communicate()
                if not self.sink.exists():
                    absent += 1
                    ended += self.output.exists()
                    continue
                written = self.assert_is_part_of_the_whole(self.recover(self.sink))
                self.assert_is_in_order(written)
                count = sum(stage.sum() for stage in written.values())
                empty += count == 0
                partial += 0 < count < sum(stage.size for stage in written.values())
                if before.exists():
                    there = self.assert_is_part_of_the_whole(self.recover(before))
                    for name in STAGES:
                        self.assertFalse((there[name] & ~written[name]).any(), name)
                if kill % 4 == 0:
                    self.assert_reached(self.judge(), written)
        print(f"seed {seed}: {KILLS} kills within {self.seconds:.3f} s: no sink file {absent} (of these "
              f"{ended} after the recording was written), nothing in it {empty}, a part {partial}")
        self.assertGreater(partial, KILLS // 20)

    def test_recording_is_there_or_whole(self):
        """The recording itself appears whole or not at all, and the sink file goes after it has come."""
        self.clear()
        self.run_whole()
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.h5"])
        for name, stage in read_bits(self.output).items():
            self.assertTrue((stage == self.whole[name]).all(), name)


if __name__ == "__main__":
    unittest.main()
