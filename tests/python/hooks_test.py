"""Hooks that a kernel compiled by somebody else calls, on the buffers of tilescope.Recorder: on the CPU, with NumPy.

usage: hooks_test.py FOLDER CXX   FOLDER holds the package tilescope
"""

import ctypes
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

CXX = sys.argv.pop(2)
sys.path.insert(0, sys.argv.pop(1))
if importlib.util.find_spec("tilescope") is None or importlib.util.find_spec("tilescope._core") is None:
    print("skipped: there is no tilescope")
    sys.exit(77)

import numpy as np  # noqa: E402
import tilescope  # noqa: E402

SOURCE = """
#include <string>
#include "dump/hook.h"

/// Hands each number of an array [head][row][column] to the hook of s, and the largest before and in each tile to that of m.
static void hand_over(const float* s, int heads, int rows, int cols, int tile_rows TILESCOPE_HOST_SINK_PARAM(sink)) {
    for (int head = 0; head < heads; ++head) {
        for (int row = 0; row < rows; ++row) {
            float m = -__builtin_inff();
            TILESCOPE_BLOCK(sink, 0, head, row / tile_rows);
            for (int col = 0; col < cols; ++col) {
                const float value = s[(head * rows + row) * cols + col];
                m = value > m ? value : m;
                TILESCOPE_WAIT(col / 16);
                TILESCOPE_VALUE(s, col / 16, row % tile_rows, col % 16, value);
                if (col % 16 == 15) TILESCOPE_VALUE(m, col / 16, row % tile_rows, 0, m);
            }
        }
    }
}

extern "C" int play(const float* s, int heads, int rows, int cols, int tile_rows, const char* bytes, int size) try {
    [[maybe_unused]] const std::string text(bytes, size);
    hand_over(s, heads, rows, cols, tile_rows TILESCOPE_SINK_ARG(TILESCOPE_SINK_OF(text)));
    return 0;
} catch (const std::exception&) {
    return 1;
}
"""
HEADS, ROWS, COLS = 3, 64, 32


class Hooks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        source = pathlib.Path(cls.folder.name) / "kernel.cpp"
        source.write_text("#include <exception>\n" + SOURCE)
        cls.programs = {}
        for dump in (1, 0):
            library = source.with_name(f"kernel{dump}.so")
            subprocess.run([CXX, "-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", "-I" + tilescope.include(),
                            f"-DTILESCOPE_DUMP={dump}", source, "-o", library], check=True)  # fmt: skip
            cls.programs[dump] = ctypes.CDLL(str(library))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        numbers = np.random.default_rng(7)
        self.q, self.k, self.v = (numbers.standard_normal((1, HEADS, rows, 16)).astype(np.float32)
                                  for rows in (ROWS, COLS, COLS))  # fmt: skip
        scores = np.einsum("hmd,hnd->hmn", self.q[0].astype(float), self.k[0].astype(float)) / 4
        self.s = np.ascontiguousarray(scores, dtype=np.float32)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        self.o = (p / p.sum(-1, keepdims=True) @ self.v[0].astype(float))[None].astype(np.float32)

    def recorder(self, select=""):
        return tilescope.Recorder(self.q, self.k, self.v, stages=("s", "m"), block_m=32, block_n=16, select=select)

    def play(self, sink, dump=1, tile_rows=32):
        data = self.s.ctypes.data_as(ctypes.c_void_p)
        return self.programs[dump].play(data, HEADS, ROWS, COLS, tile_rows, sink, len(sink))

    def test_what_hooks_store_is_judged(self):
        recorder = self.recorder()
        self.assertEqual(self.play(recorder.sink()), 0)
        recorder.outputs(o=self.o)
        report = tilescope.judge(recorder)
        self.assertTrue(report.matches, str(report))
        self.assertEqual(report.compared, {"s": HEADS * ROWS * COLS, "m": HEADS * ROWS * 2, "o": HEADS * ROWS * 16})
        self.s[1, 40, 20] += 1
        self.play(recorder.sink())
        first = tilescope.judge(recorder, causes=False).first_divergence
        self.assertEqual((first.stage, first.head, first.row, first.col), ("s", 1, 40, 20))

    def test_a_selection_is_what_is_stored(self):
        recorder = self.recorder("head=1-2:q_block=1:kv_tile=1")
        self.play(recorder.sink())
        self.assertEqual(recorder.buffer("s").shape, (1, 2, 1, 1, 32, 16))
        np.testing.assert_array_equal(recorder.buffer("s")[0, :, 0, 0], self.s[1:, 32:, 16:])
        recorder.outputs(o=self.o)
        self.assertTrue(tilescope.judge(recorder).matches)

    def test_a_stage_that_is_not_recorded_is_left_out(self):
        recorder = self.recorder("stage=m")
        self.play(recorder.sink())
        self.assertEqual(recorder.stages, ("m",))
        np.testing.assert_array_equal(recorder.buffer("m")[0, :, 1, 1, :, 0], self.s[:, 32:].max(-1))

    def test_places_that_the_call_does_not_have(self):
        recorder = self.recorder()
        self.play(recorder.sink(), tile_rows=16)
        with self.assertRaisesRegex(tilescope.Error, r"elements of s are in no tile of the call, .* 0, 0, 2, 0, 0, 0"):
            recorder.recording()

    def test_without_hooks_or_bytes_nothing_is_stored(self):
        recorder = self.recorder()
        self.assertEqual((self.play(recorder.sink(), dump=0), self.play(b"")), (0, 0))
        self.assertTrue(np.isnan(recorder.buffer("s")).all())
        self.assertEqual(self.play(recorder.sink() + b"."), 1)


if __name__ == "__main__":
    unittest.main()
