"""tilescope.Program.recorder(): stages of declared kernels that NumPy and hooks compiled by somebody else store, on the CPU.

usage: program_recorder_test.py FOLDER CXX TILE_DIFF   FOLDER holds the package tilescope
"""

import ctypes
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TILE_DIFF = sys.argv.pop(3)
CXX = sys.argv.pop(2)
sys.path.insert(0, sys.argv.pop(1))
if importlib.util.find_spec("tilescope") is None or importlib.util.find_spec("tilescope._core") is None:
    print("skipped: there is no tilescope")
    sys.exit(77)

import numpy as np  # noqa: E402
import tilescope  # noqa: E402

TEXT = """
    axes   n: rows by 16; m: cols by 8; k: depth by 32
    input  a[n, k]; w[m, k]
    stage  s[n, m] over k = s + sum(k: a * w)
    stage  x[n, m] = s where m <= n else -inf
    stage  top[n] over m = max(top, max(m: x)) from -inf
    output top
"""
ROWS, COLS, DEPTH, BLOCKS = 24, 20, 80, 3

SOURCE = """
#include <exception>
#include <string>
#include "dump/program_hook.h"

TILESCOPE_PROGRAM(scores, R"(%s)");

/// Hands each state [block][row][column] to the hook of s. Block `skipped` is left out, and an element of `twice` written twice.
static void hand_over(const float* s, int rows, int cols, int skipped, int twice TILESCOPE_PROGRAM_SINK_PARAM(sink)) {
    TILESCOPE_PROGRAM_HOOKS(sink, scores);
    for (int block = 0; block < 3; ++block) {
        if (block == skipped) continue;
        for (int n0 = 0; n0 < rows; n0 += 16)
            TILESCOPE_PROGRAM_TILE(s, (block, n0, 0), 16, 24, s + (block * rows + n0) * cols, cols, 0, 1);
        if (block == twice) TILESCOPE_PROGRAM_VALUE(s, (block, 1, 2), s[(block * rows + 1) * cols + 2] + 1);
        if (block == twice) TILESCOPE_PROGRAM_VALUE(s, (block, 1, 2), s[(block * rows + 1) * cols + 2]);
    }
}

extern "C" int play(const float* s, int rows, int cols, int skipped, int twice, const char* bytes, int size) try {
    [[maybe_unused]] const std::string text(bytes, size);
    hand_over(s, rows, cols, skipped, twice TILESCOPE_PROGRAM_SINK_ARG(TILESCOPE_PROGRAM_SINK_OF(text)));
    return 0;
} catch (const std::exception&) {
    return 1;
}
""" % TEXT


class ProgramRecorder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        source = pathlib.Path(cls.folder.name) / "kernel.cpp"
        source.write_text(SOURCE)
        cls.programs = {}
        for dump in (1, 0):
            library = source.with_name(f"kernel{dump}.so")
            subprocess.run([CXX, "-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", "-I" + tilescope.include(),
                            f"-DTILESCOPE_DUMP={dump}", source, "-o", library], check=True)
            cls.programs[dump] = ctypes.CDLL(str(library))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        os.environ.pop("TILESCOPE_SELECT", None)
        numbers = np.random.default_rng(3)
        self.a, self.w = (numbers.standard_normal((n, DEPTH)).astype(np.float32) for n in (ROWS, COLS))
        parts = [self.a[:, k : k + 32] @ self.w[:, k : k + 32].T for k in range(0, DEPTH, 32)]
        self.s = np.cumsum(np.array(parts), axis=0, dtype=np.float32)
        self.x = np.where(np.tri(ROWS, COLS, dtype=bool), self.s[-1], np.float32(-np.inf))
        self.program = tilescope.Program(TEXT)

    def recorder(self, **options):
        recorder = self.program.recorder(dict(a=self.a, w=self.w), **options)
        blocks = np.stack([self.x[:, : min(8 * (block + 1), COLS)].max(1) for block in range(3)])
        recorder.outputs(top=blocks.astype(np.float32))
        return recorder

    def play(self, recorder, skipped=-1, twice=-1, dump=1):
        bits = recorder.sink() if recorder else b""
        self.assertEqual(self.programs[dump].play(self.s.ctypes.data_as(ctypes.c_void_p), ROWS, COLS, skipped, twice, bits,
                                                  len(bits)), 0)  # fmt: skip

    def counts(self, report, name):
        return next((s.compared, s.outside, s.unwritten, s.conflicts) for s in report.stages if s.name == name)

    def test_hooks_store_into_the_buffers(self):
        recorder = self.recorder(stages=["s"])
        self.play(recorder)
        np.testing.assert_array_equal(recorder.buffer("s"), self.s)
        report = recorder.check()
        self.assertEqual(self.counts(report, "s"), (BLOCKS * ROWS * COLS, 0, 0, 0))
        self.assertIsNone(recorder.buffer("x"))

    def test_without_hooks_nothing_is_stored(self):
        recorder = self.recorder(stages=["s"])
        self.play(recorder, dump=0)
        self.play(None, dump=0)
        self.assertEqual(self.counts(recorder.judge(causes=False), "s")[2], BLOCKS * ROWS * COLS)

    def test_what_no_hook_wrote_is_outside_and_later_stages_are_judged(self):
        recorder = self.recorder(stages=["s"])
        self.play(recorder, skipped=1)
        report = recorder.judge()
        self.assertEqual(report.first_wrong, "s")
        self.assertEqual(self.counts(report, "s"), (BLOCKS * ROWS * COLS, ROWS * COLS, ROWS * COLS, 0))
        self.assertEqual(self.counts(report, "top")[1], 0)
        self.assertIn("unwritten", str(report))
        with self.assertRaises(tilescope.Diverged):
            recorder.check()

    def test_what_a_condition_leaves_out_may_stay_unwritten(self):
        recorder = self.recorder(stages=["x", "top"], select="stage=x")
        seen = np.tri(ROWS, COLS, dtype=bool)
        recorder.buffer("x")[seen] = self.x[seen]
        report = recorder.check()
        self.assertEqual(self.counts(report, "x"), (int(seen.sum()), 0, int((~seen).sum()), 0))
        recorder.buffer("x")[5, 5] = tilescope.Program(TEXT).recorder(dict(a=self.a, w=self.w)).buffer("x")[5, 5]
        self.assertEqual(self.counts(recorder.judge(), "x")[1], 1)

    def test_a_state_that_a_block_leaves_as_it_is_may_stay_unwritten(self):
        recorder = self.program.recorder(dict(a=self.a, w=self.w), stages=["x", "top"])
        recorder.buffer("x")[:] = self.x
        for block in range(3):
            rows = slice(8 * block, None)  # Rows before it see nothing of the block.
            recorder.buffer("top")[block, rows] = self.x[rows, : min(8 * (block + 1), COLS)].max(1)
        report = recorder.check()
        self.assertEqual(self.counts(report, "top")[1:3], (0, 8 + 16))

    def test_what_is_left_out_alone_is_no_match(self):
        """Nothing that was written is held against anything then."""
        below = np.tri(ROWS, COLS, dtype=bool)
        program = tilescope.Program("axes n: rows; m: cols\ninput a[n, m]\nstage x[n, m] = a where m < 0 else -inf\noutput x")
        recorder = program.recorder(dict(a=below.astype(np.float32)))
        with self.assertRaisesRegex(tilescope.Error, "no element can be judged"):
            recorder.judge()

    def test_conflicts_are_counted(self):
        recorder = self.recorder(stages=["s"])
        self.play(recorder, twice=1)
        report = recorder.check()
        self.assertEqual(self.counts(report, "s")[3], 2)
        self.assertIn("changed an element already written: 2 of s", str(report))

    def test_a_process_that_records_attention_as_well(self):
        """Each recorder takes the parts of the selection that it has, and refuses what neither has."""
        q = np.zeros((1, 64, 2, 32), np.float16)

        def attention():
            return tilescope.Recorder(q, q, q, stages=("s", "m"), block_m=32, block_n=32)

        try:
            os.environ["TILESCOPE_SELECT"] = "n=1:k=1-:stage=s"
            self.assertEqual((self.recorder().origin("s"), attention().stages), ((1, 16, 0), ("s",)))
            os.environ["TILESCOPE_SELECT"] = "head=1:stage=m"
            self.assertEqual(attention().buffer("m").shape[1], 1)
            self.assertEqual(self.recorder().stages, self.recorder(select="").stages)
            os.environ["TILESCOPE_SELECT"] = "haed=1"
            for record in (attention, self.recorder):
                with self.assertRaisesRegex(tilescope.Error, "haed"):
                    record()
        finally:
            del os.environ["TILESCOPE_SELECT"]

    def test_a_part_is_selected(self):
        os.environ["TILESCOPE_SELECT"] = "n=1:k=1-:stage=s"
        try:
            recorder = self.recorder()
        finally:
            del os.environ["TILESCOPE_SELECT"]
        self.assertEqual((recorder.origin("s"), recorder.buffer("s").shape), ((1, 16, 0), (2, 8, COLS)))
        self.play(recorder)
        np.testing.assert_array_equal(recorder.buffer("s"), self.s[1:, 16:])
        self.assertEqual(self.counts(recorder.check(), "s"), (2 * 8 * COLS, 0, 0, 0))
        recorder.buffer("s")[1, 3, 7] += 0.5
        self.assertIn("s[19, 7] after block 2 of k: got", str(recorder.judge(causes=False)))

    def test_a_part_is_kept_in_a_file(self):
        recorder = self.recorder(select="n=1:k=2:stage=s")
        self.play(recorder, skipped=2)
        path = pathlib.Path(self.folder.name) / "part.h5"
        recorder.save(path, kernel="played")
        found = subprocess.run([TILE_DIFF, path], capture_output=True, text=True)
        self.assertEqual(found.returncode, 1, found.stderr)
        self.assertIn(f"elements that no hook wrote: {8 * COLS} of s", found.stdout)

    def test_the_lines_of_hooks_are_said(self):
        lines = [f"kernel.cpp:{number}" for number, line in enumerate(SOURCE.splitlines(), 1) if "(s, (block" in line]
        folder = pathlib.Path(self.folder.name).name
        expected = tuple(f"{folder}/{line}" for line in lines)
        recorder = self.recorder(stages=["s"])
        self.play(recorder, twice=1)
        self.assertEqual(next(stage.hooks for stage in recorder.judge().stages if stage.name == "s"), expected)
        self.s[1:] += self.s[0]
        recorder = self.recorder(stages=["s"])
        self.play(recorder)
        report = recorder.judge()
        self.assertIn(f"s is hooked at {expected[0]}\n", report.text)
        path = pathlib.Path(self.folder.name) / "lines.h5"
        recorder.save(path)
        found = subprocess.run([TILE_DIFF, path, "--json", path.with_suffix(".json")], capture_output=True, text=True)
        self.assertIn(f"s is hooked at {expected[0]}\n", found.stdout)
        stages = json.loads(path.with_suffix(".json").read_text())["stages"]
        self.assertEqual([stage.get("hooks") for stage in stages], [[expected[0]], None])

    def test_what_cannot_be_meant_is_refused(self):
        for options, words in ((dict(stages=["t"]), "no such stage"), (dict(select="q=1"), "no axis 'q'"),
                               (dict(select="n=2"), "goes from 0 to 1"), (dict(stages=["s"], select="stage=x"), "no stage is")):
            with self.assertRaisesRegex(tilescope.Error, words):
                self.recorder(**options)
        with self.assertRaisesRegex(tilescope.Error, "no stage"):
            self.recorder().outputs(y=self.x)


if __name__ == "__main__":
    unittest.main()
