"""Calls on several ranks, as tilescope.Recorder takes them: with NumPy, judged by tile-diff.

usage: shards_test.py FOLDER TILE_DIFF   FOLDER holds the package tilescope
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, sys.argv.pop(1))
TILE_DIFF = sys.argv.pop(1)
if importlib.util.find_spec("tilescope") is None:
    print("skipped: there is no tilescope")
    sys.exit(77)

import tilescope  # noqa: E402

ROWS = 64  # of a rank


class Shards(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(1)
        self.q = rng.standard_normal((1, 4, 2 * ROWS, 64)).astype(np.float16)
        self.k, self.v = rng.standard_normal((2, 1, 2, 2 * ROWS, 64)).astype(np.float16)

    def test_ranks_are_judged_as_one_call(self):
        for exponential, verdict in ((np.exp, "match"), (np.exp2, "diverged")):
            with self.subTest(verdict=verdict), tempfile.TemporaryDirectory() as folder:
                for rank in range(2):
                    self.record_rank(pathlib.Path(folder), rank, exponential)
                run = subprocess.run([TILE_DIFF, folder, "--json", "-"], capture_output=True, text=True)
                [report] = json.loads(run.stdout)["recordings"]
                self.assertEqual(report["verdict"], verdict, run.stdout)
                self.assertEqual(len(report["parts"]), 6)
                compared = {stage["name"]: stage["compared"] for stage in report["parts"][1]["stages"]}
                self.assertEqual((compared["k"], compared["merged_o"]), (2 * ROWS * 64, 4 * ROWS * 64))
                if verdict == "diverged":
                    first = report["faults"][0]
                    found = (first["rank"], first["step"], first["stage"], first["cause"])
                    self.assertEqual(found, (0, 1, "merged_o", "merge_in_base_two"))

    def test_what_is_merged_belongs_to_a_shard(self):
        recorder = tilescope.Recorder(self.q, self.k, self.v, stages=(), block_m=64, block_n=64)
        with self.assertRaisesRegex(tilescope.Error, "give Recorder one"):
            recorder.merged(o=None, lse=None)

    def record_rank(self, folder, rank, exponential):
        """Two steps of a rank that has half of the rows, merged with powers of what `exponential` takes, and its outputs."""
        rows = [slice(ROWS * i, ROWS * i + ROWS) for i in range(2)]
        q, o, lse = self.q[:, :, rows[rank]], None, None
        shard = dict(run="shards_test", ranks=2, rank=rank, q_positions=f"{ROWS * rank}+{ROWS}", whole_seqlen_q=2 * ROWS,
                     whole_seqlen_kv=2 * ROWS)  # fmt: skip
        for step, source in enumerate((rank, 1 - rank)):
            k, v = (array[:, :, rows[source]] for array in (self.k, self.v))
            part = shard | dict(kv_positions=f"{ROWS * source}+{ROWS}")
            recorder = tilescope.Recorder(q, k, v, stages=("s",), block_m=ROWS, block_n=ROWS, shard=part | dict(step=step))
            k32, v32 = (np.repeat(array, 2, axis=1).astype(np.float32) for array in (k, v))
            s = q.astype(np.float32) @ k32.swapaxes(2, 3) / np.float32(8)
            recorder.buffer("s")[:, :, 0, 0] = s
            m = s.max(-1, keepdims=True)
            total = np.exp(s - m).sum(-1, keepdims=True)
            o_step = (np.exp(s - m) @ v32 / total).astype(np.float16)
            lse_step = (m + np.log(total))[..., 0]
            if o is None:
                o, lse = o_step.astype(np.float32), lse_step
            else:
                most = np.maximum(lse, lse_step)
                a, b = exponential(lse - most), exponential(lse_step - most)
                o = (a[..., None] * o + b[..., None] * o_step.astype(np.float32)) / (a + b)[..., None]
                lse = most + (np.log(a + b) if exponential is np.exp else np.log2(a + b))
            recorder.outputs(o=o_step, lse=lse_step)
            recorder.merged(o=o, lse=lse)
            recorder.save(folder / f"rank{rank}_step{step}.h5")
        recorder = tilescope.Recorder(q, k, v, stages=(), block_m=ROWS, block_n=ROWS, shard=part | dict(shard="final"))
        recorder.outputs(o=o.astype(np.float16), lse=lse)
        recorder.save(folder / f"rank{rank}_final.h5")


if __name__ == "__main__":
    unittest.main()
