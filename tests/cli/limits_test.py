"""Limits of the environment: what is healthy matches or cannot be judged; it never diverges, and nothing crashes.

usage: limits_test.py TILE_DIFF TILE_RUN
"""

import os
import pathlib
import resource
import subprocess
import sys
import unittest

import small_dump
from tile_diff_case import MATCH, TILE_DIFF, UNJUDGED, TileDiffCase, main

TILE_RUN = pathlib.Path(sys.argv.pop(1)).resolve()
NOBODY = 65534


def as_nobody_can(test):
    """Of root alone: others have processes already. Nobody must get to the programs."""
    folders = [folder for program in (TILE_DIFF, TILE_RUN) for folder in program.parents]
    can = os.geteuid() == 0 and all(folder.stat().st_mode & 1 for folder in folders)
    return unittest.skipUnless(can, "only root can become a user without processes")(test)


def limited(kind, most, as_nobody=False):
    """Before the program: root may start any number of processes."""
    def limit():
        resource.setrlimit(kind, (most, most))
        if as_nobody:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    return limit


class Limits(TileDiffCase):
    def setUp(self):
        super().setUp()
        small_dump.write(self.file)
        os.chmod(self.folder, 0o755)

    def run_limited(self, program, limit, *arguments):
        # More threads than this machine may have.
        environment = {**os.environ, "OMP_NUM_THREADS": "16"}
        return subprocess.run([program, *arguments], capture_output=True, text=True,
                              preexec_fn=limit, env=environment)

    def assert_matches_or_is_unjudged(self, limit):
        run = self.run_limited(TILE_DIFF, limit, self.file)
        self.assertIn(run.returncode, (MATCH, UNJUDGED), run.stderr)
        self.assertEqual(run.stderr.count("\n"), run.returncode == UNJUDGED, run.stderr)
        self.assertNotIn("malicious", run.stderr)
        return run.returncode

    @as_nobody_can
    def test_processes(self):
        codes = [self.assert_matches_or_is_unjudged(limited(resource.RLIMIT_NPROC, most, as_nobody=True))
                 for most in range(1, 12)]
        self.assertEqual(codes[-1], MATCH)

    def test_data(self):
        for mebibytes in (4, 8, 16, 24, 32, 48, 64, 128):
            with self.subTest(mebibytes):
                self.assert_matches_or_is_unjudged(limited(resource.RLIMIT_DATA, mebibytes << 20))

    def test_address_space(self):
        for mebibytes in (64, 80, 96, 128, 192, 256):
            with self.subTest(mebibytes):
                self.assert_matches_or_is_unjudged(limited(resource.RLIMIT_AS, mebibytes << 20))

    def test_stack(self):
        for kibibytes in (64, 128, 256):
            with self.subTest(kibibytes):
                code = self.assert_matches_or_is_unjudged(limited(resource.RLIMIT_STACK, kibibytes << 10))
                self.assertEqual(code, MATCH)

    def test_size_of_files(self):
        given = small_dump.inputs()
        small_dump.write(self.file, small_dump.stages(given, p_factor=1.5), given)
        for option, name in (("--json", "report.json"), ("--npy", "arrays"), ("--png", "pictures")):
            for most in (0, 100):
                with self.subTest(option=option, most=most):
                    run = self.run_limited(TILE_DIFF, limited(resource.RLIMIT_FSIZE, most), self.file, option,
                                           self.folder / name)
                    self.assert_one_line(run, self.folder / name, "cannot be written: File too large")
        self.assertFalse(list(self.folder.rglob("*.partial")))

    def test_size_of_stdout(self):
        with open(self.folder / "text", "w") as text:
            run = subprocess.run([TILE_DIFF, self.file], stdout=text, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=limited(resource.RLIMIT_FSIZE, 100))
        self.assert_one_line(run, "stdout", "File too large")

    def test_size_of_a_recording(self):
        recording = self.folder / "recorded.h5"
        for most in (0, 1000, 20000):
            run = self.run_limited(TILE_RUN, limited(resource.RLIMIT_FSIZE, most), "record", "--kernel", "scalar",
                                   "--engine", "cpu", "--shape", "1,1,64,64,64", "-o", recording)
            self.assertEqual((run.returncode, run.stdout), (UNJUDGED, ""), run.stderr)
            self.assertEqual(run.stderr, f"tile-run: {recording}: cannot be written: File too large; "
                             "free space on its disk or choose another file\n")

    @as_nobody_can
    def test_kernel_without_threads(self):
        for most in range(1, 8):
            run = self.run_limited(TILE_RUN, limited(resource.RLIMIT_NPROC, most, as_nobody=True), "repeat",
                                   "--runs", "2", "--kernel", "scalar", "--engine", "cpu", "--shape", "1,1,64,64,64")
            self.assertEqual((run.returncode, run.stderr), (0, ""), most)


if __name__ == "__main__":
    main()
