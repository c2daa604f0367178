"""tilescope.Recorder on the CPU: tiles that PyTorch has computed.

usage: recorder_test.py FOLDER   FOLDER holds the package tilescope
"""

import importlib.util
import pathlib
import sys
import tempfile
import unittest

if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv.pop(1))
for module in ("tilescope", "torch"):
    if importlib.util.find_spec(module) is None:
        print(f"skipped: there is no {module}")
        sys.exit(77)

import tilescope  # noqa: E402
import torch  # noqa: E402

BLOCK_M, BLOCK_N = 64, 32


class Recorder(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.q = torch.randn(2, 4, 128, 64).half()
        self.k, self.v = (torch.randn(2, 2, 128, 64).half() for _ in "kv")

    def recorded(self, stages=("s", "m"), select="head=1-2", **options):
        """Scores and running maxima of the heads that are selected, and o."""
        recorder = tilescope.Recorder(self.q, self.k, self.v, stages=stages, select=select, causal=True,
                                      block_m=BLOCK_M, block_n=BLOCK_N, **options)
        seen = torch.ones(128, 128).tril().bool()
        for head in (1, 2):
            s = self.q[:, head].float() @ self.k[:, head // 2].float().transpose(1, 2) / 8
            s = s.masked_fill(~seen, float("-inf"))
            tiles = s.reshape(2, 2, BLOCK_M, 4, BLOCK_N).transpose(2, 3)
            recorder.buffer("s")[:, head - 1] = tiles
            recorder.buffer("m")[:, head - 1] = tiles.amax(-1, keepdim=True).cummax(2).values
        k, v = (array.repeat_interleave(2, 1) for array in (self.k, self.v))
        recorder.outputs(o=torch.nn.functional.scaled_dot_product_attention(self.q, k, v, is_causal=True))
        return recorder

    def test_what_was_stored_is_judged(self):
        recorder = self.recorded()
        self.assertEqual(recorder.origin("s"), (0, 1, 0, 0))
        report = tilescope.judge(recorder)
        self.assertTrue(report.matches, str(report))
        self.assertEqual(report.compared, {"s": 65536, "m": 2048, "o": 32768})
        recorder.buffer("s")[1, 0, 1, 0, 3, 5] += 0.01
        first = tilescope.judge(recorder, causes=False).first_divergence
        self.assertEqual((first.stage, first.batch, first.head, first.row, first.col), ("s", 1, 1, 67, 5))

    def test_what_nobody_stored_is_missed(self):
        recorder = self.recorded()
        recorder.buffer("s")[0, 0, 1, 0] = tilescope.Recorder(
            self.q, self.k, self.v, stages=("s",), block_m=BLOCK_M, block_n=BLOCK_N).buffer("s")[0, 0, 0, 0]
        self.assertEqual(tilescope.judge(recorder, causes=False).first_divergence.finding, "unwritten")

    def test_the_file_says_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.recorded().save(pathlib.Path(folder) / "run.h5")
            report = tilescope.judge(path)
            self.assertEqual(report.compared, {"s": 65536, "m": 2048, "o": 32768})
            self.assertTrue(report.matches)
            self.assertEqual(tilescope.open(path).declared["problem.causal_alignment"], "top_left")

    def test_the_environment_selects(self):
        import os

        os.environ["TILESCOPE_SELECT"] = "head=3:stage=m"
        try:
            recorder = tilescope.Recorder(self.q, self.k, self.v, stages=("s", "m"), block_m=64, block_n=32)
        finally:
            del os.environ["TILESCOPE_SELECT"]
        self.assertEqual(recorder.stages, ("m",))
        self.assertIsNone(recorder.buffer("s"))
        self.assertEqual(tuple(recorder.buffer("m").shape), (2, 1, 2, 4, 64, 1))

    def test_what_is_refused(self):
        with self.assertRaisesRegex(tilescope.Error, "dropout"):
            tilescope.Recorder(self.q, self.k, self.v, stages=("s",), block_m=64, block_n=64, dropout_p=0.1)
        with self.assertRaisesRegex(TypeError, "colour"):
            self.recorded(colour="red")
        with self.assertRaisesRegex(tilescope.Error, "dp"):
            self.recorded(stages=("dp",))
        with self.assertRaisesRegex(tilescope.Error, "nothing of s is selected"):
            self.recorded(select="head=9")
        with self.assertRaisesRegex(tilescope.Error, "dq is no output of a forward pass"):
            self.recorded().outputs(dq=self.q)


if __name__ == "__main__":
    unittest.main()
