"""tilescope.check() on outputs that NumPy computed in float64, healthy and spoilt.

usage: check_test.py FOLDER   FOLDER holds the package tilescope
"""

import importlib.util
import pathlib
import subprocess
import sys
import unittest

if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv.pop(1))
if importlib.util.find_spec("tilescope") is None:
    print("tilescope: the Python package was not built (it needs nanobind)")
    sys.exit(77)

import numpy as np  # noqa: E402
import tilescope  # noqa: E402
from reference import attention, gradients, visible  # noqa: E402

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "samples"


def draw(shape, seed, dtype=np.float16):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class Calls(unittest.TestCase):
    batch, heads, heads_kv, rows, keys, head_dim = 2, 4, 2, 70, 90, 16

    def setUp(self):
        self.q = draw((self.batch, self.heads, self.rows, self.head_dim), 1)
        self.k = draw((self.batch, self.heads_kv, self.keys, self.head_dim), 2)
        self.v = draw((self.batch, self.heads_kv, self.keys, self.head_dim), 3)

    def outputs(self, **options):
        o, lse, _ = attention(self.q, self.k, self.v, **options)
        return o.astype(self.q.dtype), lse.astype(np.float32)

    def matches(self, *arrays, **options):
        report = tilescope.check(*arrays, **options)
        self.assertEqual(report.verdict, "match")
        return report

    def diverges(self, *arrays, **options):
        with self.assertRaises(tilescope.Diverged) as caught:
            tilescope.check(*arrays, causes=False, **options)
        self.assertIsInstance(caught.exception, AssertionError)
        return caught.exception.report


class Healthy(Calls):
    def test_every_output_is_compared(self):
        o, lse = self.outputs()
        report = self.matches(self.q, self.k, self.v, o, lse)
        self.assertEqual(report.compared, {"o": o.size, "lse": lse.size})
        self.assertIsNone(report.stage)
        self.assertEqual(report.arrays(), {})
        self.assertIn("match: ", str(report))

    def test_in_float32(self):
        self.q, self.k, self.v = (array.astype(np.float32) for array in (self.q, self.k, self.v))
        self.matches(self.q, self.k, self.v, *self.outputs())

    def test_wherever_elements_lie(self):
        o, lse = self.outputs()
        rows_first = [np.ascontiguousarray(np.moveaxis(array, 1, 2)) for array in (self.q, self.k, self.v, o)]
        self.matches(*rows_first, lse, layout="bshd")
        packed = np.stack([self.q[:, :2, :70], self.k[:, :, :70], self.v[:, :, :70]], 3)
        q, k, v = (packed[:, :, :, i] for i in range(3))
        self.assertFalse(q.flags.c_contiguous)
        self.matches(q, k, v, attention(q, k, v)[0].astype(np.float16))
        self.matches(q[0], k[0], v[0], attention(q[:1], k[:1], v[:1])[0][0].astype(np.float16))

    def test_one_after_the_other(self):
        lengths, starts = [30, 1, 39], [0, 30, 31, 70]
        q, k, v = (np.moveaxis(array[0], 0, 1) for array in (self.q, self.k, self.v))
        o, lse = np.zeros((70, 4, 16), np.float16), np.zeros((4, 70), np.float32)
        for begin, length in zip(starts, lengths):
            own = slice(begin, begin + length)
            entry, entry_lse, _ = attention(*(np.moveaxis(array[own], 1, 0)[None] for array in (q, k, v)))
            o[own], lse[:, own] = np.moveaxis(entry[0], 0, 1), entry_lse[0]
        report = self.matches(q, k[:70], v[:70], o, lse, layout="packed", cu_seqlens=np.array(starts))
        self.assertEqual(report.compared["o"], o.size)
        o[30] = 0
        report = self.diverges(q, k[:70], v[:70], o, lse, layout="packed", cu_seqlens=(starts, starts))
        self.assertEqual((report.first_divergence.batch, report.first_divergence.row), (1, 0))


class Masks(Calls):
    def assert_declared(self, outputs, **options):
        """With the options it matches, without them it does not."""
        self.matches(self.q, self.k, self.v, *outputs, **options)
        return self.diverges(self.q, self.k, self.v, *outputs)

    def test_true_is_what_pytorch_means(self):
        outputs = self.outputs(seen=visible(70, 90, causal=0))
        self.matches(self.q, self.k, self.v, *outputs, causal="top_left")
        report = self.assert_declared(outputs, causal=True)
        self.assertIn('with causal="top_left" it matches', report.text)

    def test_the_other_alignment_is_named(self):
        outputs = self.outputs(seen=visible(70, 90, causal=20))
        self.matches(self.q, self.k, self.v, *outputs, causal="bottom_right")
        report = self.diverges(self.q, self.k, self.v, *outputs, causal=True)
        self.assertIn('with causal="bottom_right" it matches', report.text)

    def test_windows(self):
        self.assert_declared(self.outputs(seen=visible(70, 90, causal=20, window=(8, 0))),
                             causal="bottom_right", window=(8, 0))

    def test_soft_cap(self):
        self.assert_declared(self.outputs(soft_cap=2.0), soft_cap=2.0)

    def test_scale(self):
        report = self.assert_declared(self.outputs(scale=1.0), scale=1.0)
        self.assertIn("with scale=1 it matches", report.text)

    def test_bias(self):
        bias = draw((1, 4, 70, 90), 5, np.float32)
        self.assert_declared(self.outputs(bias=bias), bias=bias)
        seen = np.random.default_rng(6).random((70, 90)) < 0.5
        self.assert_declared(self.outputs(seen=seen), bias=seen)

    def test_slopes(self):
        slopes = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
        distance = np.abs(np.arange(90)[None, :] - np.arange(70)[:, None] - 20)
        self.assert_declared(self.outputs(bias=-slopes.reshape(-1, 1, 1) * distance), alibi_slopes=slopes)

    def test_interleaved_heads(self):
        self.k, self.v = (np.tile(array, (1, 2, 1, 1)) for array in (self.k, self.v))
        outputs = self.outputs()
        self.k, self.v = self.k[:, :2], self.v[:, :2]
        report = self.assert_declared(outputs, declare={"problem.head_grouping": "interleaved"})
        self.assertIn("head_grouping", report.text)

    def test_sinks(self):
        sink = np.array([0.5, 1.0, -1.0, 2.0], np.float32)
        self.assert_declared(self.outputs(sink=sink), sink=sink)


class Wrong(Calls):
    def test_a_wrong_element_is_named(self):
        o, lse = self.outputs()
        o[1, 2, 33, 5] += 1
        report = self.diverges(self.q, self.k, self.v, o, lse)
        first = report.first_divergence
        self.assertEqual((first.stage, first.batch, first.head, first.row, first.col), ("o", 1, 2, 33, 5))
        self.assertEqual(first.got, float(o[1, 2, 33, 5]))
        arrays = report.arrays()
        self.assertEqual(float(np.asarray(arrays["got"]).reshape(-1, 16)[33, 5]), first.got)
        self.assertIn("data:image/png;base64", report._repr_html_())

    def test_what_closeness_lets_through(self):
        """Rows that are all wrong by less than 1e-2, which assert_close(atol=1e-2) takes for right."""
        o, lse = self.outputs()
        o[:, :, ::16] += np.float16(0.008)
        np.testing.assert_allclose(o, self.outputs()[0], atol=1e-2)
        self.diverges(self.q, self.k, self.v, o, lse)

    def test_zeros_and_nan(self):
        o, lse = self.outputs()
        self.diverges(self.q, self.k, self.v, np.zeros_like(o), lse)
        o[0, 0, 0, 0] = np.nan
        self.assertEqual(self.diverges(self.q, self.k, self.v, o, lse).first_divergence.finding, "nan")

    def test_lse_is_judged(self):
        o, lse = self.outputs()
        self.assertEqual(self.diverges(self.q, self.k, self.v, o, lse / np.float32(np.log(2))).stage, "lse")

    def test_the_cause_is_named(self):
        o, _ = self.outputs()
        with self.assertRaises(tilescope.Diverged) as caught:
            tilescope.check(self.q, self.k, self.v, o * np.float16(2))
        self.assertTrue(caught.exception.report.causes)

    def test_the_other_layout_is_named(self):
        q = draw((2, 8, 8, 16), 1)
        o = attention(q, q, q)[0].astype(np.float16)
        report = self.diverges(q, q, q, o, layout="bshd")
        self.assertIn('with layout="bhsd" it matches', report.text)
        with self.assertRaisesRegex(tilescope.Error, 'with layout="bhsd" it matches'):
            tilescope.check(self.q, self.k, self.v, self.outputs()[0], layout="bshd")


class Notes(Calls):
    """Of another call nothing is said where it is the same as this one in what is wrong."""

    batch, heads, heads_kv, rows, keys = 1, 1, 1, 384, 384

    def test_a_wrong_row_of_a_call_that_is_the_same(self):
        o = self.outputs(seen=visible(384, 384, causal=0))[0]
        for row in range(32, 384, 64):  # One of each query block, of which a trial draws some.
            wrong = o.copy()
            wrong[0, 0, row] *= np.float16(1.01)
            for causal in (True, "bottom_right"):
                report = self.diverges(self.q, self.k, self.v, wrong, causal=causal)
                self.assertEqual((report.first_divergence.row, report.notes), (row, ()))

    def test_rows_of_another_call_are_its_own(self):
        """What is turned is found where it lies, and a first row that is wrong there, too, is no match."""
        q = draw((1, 4, 384, 16), 1)
        o = attention(q, q, q)[0].astype(np.float16)
        turned = [np.ascontiguousarray(np.moveaxis(array, 1, 2)) for array in (q, q, q, o)]
        report = self.diverges(*turned, layout="bhsd", rows=64)
        self.assertIn('with layout="bshd" it matches', report.text)
        turned[3][0, 0] *= np.float16(1.5)
        self.assertEqual(self.diverges(*turned, layout="bhsd").notes, ())

    def test_a_wrong_gradient_of_a_call_that_is_the_same(self):
        q, k, v, dout = (draw((1, 8, 128, 16), number) for number in (1, 2, 3, 4))
        o, lse, _ = attention(q, k, v)
        dq, dk, dv = (array.astype(np.float16) for array in gradients(q, k, v, dout))
        for head in range(8):
            wrong = dk.copy()
            wrong[0, head, 7] *= np.float16(1.5)
            grads = {"dout": dout, "dq": dq, "dk": wrong, "dv": dv}
            outputs = (o.astype(np.float16), lse.astype(np.float32))
            report = self.diverges(q, k, v, *outputs, scale=0.25, grads=grads)
            self.assertEqual((report.stage, report.notes), ("dk", ()))


class Gradients(Calls):
    heads_kv = 4

    def test_gradients(self):
        o, lse = self.outputs()
        dout = draw(o.shape, 4)
        dq, dk, dv = (array.astype(np.float16) for array in gradients(self.q, self.k, self.v, dout))
        grads = {"dout": dout, "dq": dq, "dk": dk, "dv": dv}
        report = self.matches(self.q, self.k, self.v, o, lse, grads=grads)
        self.assertEqual(report.compared, {"dq": dq.size, "dk": dk.size, "dv": dv.size})
        report = self.diverges(self.q, self.k, self.v, o, lse, grads={**grads, "dk": -dk})
        self.assertEqual(report.stage, "dk")
        with self.assertRaisesRegex(tilescope.Error, "lse"):
            tilescope.check(self.q, self.k, self.v, o, grads=grads)
        with self.assertRaisesRegex(tilescope.Error, "dq is 2 x 4 x 69 x 16"):
            tilescope.check(self.q, self.k, self.v, o, lse, grads={**grads, "dq": dq[:, :, 1:]})

    def test_gradients_of_each_query_head(self):
        self.k, self.v = (np.repeat(array[:, :2], 2, 1) for array in (self.k, self.v))
        o, lse = self.outputs()
        dout = draw(o.shape, 4)
        dq, dk, dv = (array.astype(np.float16) for array in gradients(self.q, self.k, self.v, dout))
        grads = {"dout": dout, "dq": dq, "dk": dk, "dv": dv}
        self.matches(self.q, self.k[:, ::2], self.v[:, ::2], o, lse, grads=grads)


class Samples(Calls):
    rows = keys = 640

    def test_rows(self):
        o, lse = self.outputs()
        report = self.matches(self.q, self.k, self.v, o, lse, rows=320, seed=7)
        self.assertEqual(report.notes, ("judged 320 of 5120 query rows, drawn with seed 7",))
        self.assertEqual(report.compared["lse"], 320)
        o[-1, -1, -1, -1] = 9  # The last block is always among them.
        self.assertEqual(self.diverges(self.q, self.k, self.v, o, lse, rows=320).first_divergence.row, 639)
        for wrong in (0, -1, "few"):
            with self.assertRaisesRegex(tilescope.Error, "rows"):
                tilescope.check(self.q, self.k, self.v, o, rows=wrong)


class Refused(Calls):
    def refuses(self, error, pattern, *arrays, **options):
        with self.assertRaisesRegex(error, pattern):
            tilescope.check(*arrays, **options)

    def test_what_is_no_call(self):
        o, lse = self.outputs()
        good = (self.q, self.k, self.v, o)
        self.refuses(TypeError, "q is float64", self.q.astype(float), self.k, self.v, o)
        self.refuses(TypeError, "o is a list", self.q, self.k, self.v, [1.0])
        self.refuses(tilescope.Error, "v is 2 x 2 x 50 x 16", self.q, self.k, self.v[:, :, :50], o)
        self.refuses(tilescope.Error, "there is nothing to judge", self.q[:, :, :0], self.k, self.v, o[:, :, :0])
        self.refuses(tilescope.Error, "layout", *good, layout="sbhd")
        self.refuses(tilescope.Error, "cu_seqlens", *good, cu_seqlens=[0, 4])
        self.refuses(tilescope.Error, "causal", *good, causal="upper")
        self.refuses(tilescope.Error, "flash-attention-9", *good, like="flash-attention-9")
        self.refuses(tilescope.Error, "p.colour", *good, declare={"p.colour": "red"})
        self.refuses(tilescope.Error, "descales", *good, descales={"x": 1.0})
        self.refuses(tilescope.Error, "descales", *good, descales={"v": np.ones((2, 2, 3, 16), np.float32)})
        self.refuses(tilescope.Error, "alibi_slopes", *good, alibi_slopes=[1.0])
        self.refuses(tilescope.Error, "dropout_p = 0.1: dropout is not supported", *good, dropout_p=0.1)
        self.refuses(tilescope.Error, "dropout", *good, declare={"problem.dropout": 0.1})
        self.matches(*good, dropout_p=0.0)
        self.refuses(TypeError, "uint8", self.q.astype(np.uint8), self.k, self.v, o)

    def test_codes(self):
        """e4m3 of 1 is 0x38: every score is the same, and o the mean of v."""
        ones = np.full((1, 1, 32, 16), 0x38, np.uint8)
        dtypes = {name: "e4m3" for name in "qkv"}
        o = np.full(ones.shape, 3, np.float16)
        self.matches(ones, ones, ones, o, dtypes=dtypes, descales={"q": 0.5, "v": np.full((1, 1), 3.0)})
        self.diverges(ones, ones, ones, o, dtypes=dtypes)
        channels = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 1, 16)
        o = np.broadcast_to(channels, ones.shape).astype(np.float16)
        self.matches(ones, ones, ones, o, dtypes=dtypes, descales={"v": channels})

    def test_integer_codes(self):
        """k is u / 255 * 896 - 448: the same for every key, so that o is the mean of v."""
        codes = np.full((1, 1, 32, 16), 51, np.uint8)
        self.refuses(TypeError, "numbers that they stand for", codes.astype(np.float16), codes, codes, codes)
        k = (codes.astype(np.float32) / 255 * 896 - 448).astype(np.float16)
        self.assertEqual(k[0, 0, 0, 0], -268.75)
        q = np.full(k.shape, 0.001, np.float16)
        self.matches(q, k, np.ones_like(q), np.ones_like(q))

    def test_what_nobody_stored(self):
        """Ones in all bits, which the caller filled o with; another NaN is a number that the kernel computed."""
        o, _ = self.outputs()
        for fill, said in ((0xFFFF, "unwritten"), (0x7FFF, "nan")):
            spoiled = o.copy()
            spoiled.view(np.uint16)[0, 1, 3] = fill
            self.assertEqual(self.diverges(self.q, self.k, self.v, spoiled).first_divergence.finding, said)


class Interrupted(unittest.TestCase):
    def test_an_interrupt_ends_it(self):
        code = f"""
import os, signal, sys, threading
sys.path[:0] = {sys.path[:1]!r}
import numpy as np, tilescope
q = np.zeros((1, 256, 4096, 64), np.float16)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    tilescope.check(q, q, q, q)
except KeyboardInterrupt:
    print("interrupted")
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "interrupted\n", ""))


class Files(unittest.TestCase):
    def test_recordings_are_judged_as_tile_diff_does(self):
        report = tilescope.judge(SAMPLES / "acc_not_rescaled.h5")
        self.assertEqual((report.verdict, report.stage), ("diverged", "acc"))
        self.assertIn("acc_not_rescaled", [cause.name for cause in report.causes])
        self.assertEqual(tilescope.judge(SAMPLES / "healthy_scalar.h5", causes=False).verdict, "match")

    def test_a_search_for_causes_says_how_it_ended(self):
        report = tilescope.judge(SAMPLES / "acc_not_rescaled.h5", causes="all")
        self.assertEqual((report.search_cut_off, report.search_failed), (False, []))
        report = tilescope.judge(SAMPLES / "acc_not_rescaled.h5", causes=False)
        self.assertEqual((report.causes, report.search_cut_off, report.search_failed), ([], False, []))

    def test_tiles_are_read_when_asked_for(self):
        recording = tilescope.open(SAMPLES / "healthy_scalar.h5")
        self.assertIn("s", recording.stages)
        declared = recording.declared
        tile = recording.tile("s", kv_tile=1)
        self.assertEqual(tile.shape, (int(declared["block_m"]), int(declared["block_n"])))
        import h5py

        with h5py.File(SAMPLES / "healthy_scalar.h5") as file:
            stored = file["tiles/s"]
            index = (0,) * (stored.ndim - 2)
            np.testing.assert_array_equal(tile, stored[index][: tile.shape[0], tile.shape[1] : 2 * tile.shape[1]])
        with self.assertRaises(IndexError):
            recording.tile("s", head=1000)
        with self.assertRaises(tilescope.Error):
            recording.tile("colour")

    def test_what_is_no_recording(self):
        with self.assertRaisesRegex(tilescope.Error, "check_test.py"):
            tilescope.open(__file__)
        with self.assertRaises(tilescope.Error):
            tilescope.judge("nowhere.h5")


if __name__ == "__main__":
    unittest.main()
