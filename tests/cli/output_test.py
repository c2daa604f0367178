"""Reports that cannot be written, and dumps that change while they are read.

usage: output_test.py TILE_DIFF
"""

import json
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import time

import small_dump
from tile_diff_case import DIVERGED, MATCH, TILE_DIFF, UNJUDGED, TileDiffCase, main


class Unwritable(TileDiffCase):
    def setUp(self):
        super().setUp()
        given = small_dump.inputs()
        small_dump.write(self.file, small_dump.stages(given, p_factor=1.001), given)

    def assert_unwritable(self, option, target):
        before = sorted(self.folder.iterdir())
        run = self.run_it(self.file, option, target)
        self.assert_one_line(run, target)
        self.assertEqual(run.stdout, "")
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_no_such_folder(self):
        self.assert_unwritable("--json", self.folder / "missing" / "report.json")

    def test_path_under_a_file(self):
        self.assert_unwritable("--json", self.file / "report.json")
        self.assert_unwritable("--npy", self.file / "arrays")

    def test_folder(self):
        self.assert_unwritable("--json", self.folder)

    def test_name_that_is_too_long(self):
        self.assert_unwritable("--json", self.folder / ("x" * 300))

    def test_array_in_place_of_a_folder(self):
        (self.folder / "arrays").mkdir()
        (self.folder / "arrays" / "got.npy").mkdir()
        run = self.run_it(self.file, "--npy", self.folder / "arrays")
        self.assert_one_line(run, "got.npy")
        self.assertEqual(os.listdir(self.folder / "arrays"), ["got.npy"])

    def test_devices_and_pipes_are_not_replaced(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assert_unwritable("--json", pipe)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        full = self.folder / "full"
        full.symlink_to("/dev/full")
        self.assert_unwritable("--json", full)
        self.assertTrue(full.is_symlink())

    def test_full_disk_under_stdout(self):
        for arguments in ([], ["--json", "-"], ["--json", self.folder / "report.json"]):
            with open("/dev/full", "w") as full:
                run = subprocess.run([TILE_DIFF, self.file, *arguments], stdout=full, stderr=subprocess.PIPE,
                                     text=True)
            run.stdout = ""
            self.assert_one_line(run, "stdout")

    def test_closed_stdout(self):
        run = subprocess.run(["sh", "-c", '"$0" "$1" >&-', TILE_DIFF, self.file], stderr=subprocess.PIPE,
                             text=True)
        self.assert_one_line(run, "stdout")

    def test_pipe_that_nobody_reads(self):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            run = subprocess.run([TILE_DIFF, self.file], stdout=pipe, stderr=subprocess.PIPE, text=True)
        self.assert_one_line(run, "stdout")

    def test_help_that_is_read_to_its_first_line(self):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            run = subprocess.run([TILE_DIFF, "--help"], stdout=pipe, stderr=subprocess.PIPE, text=True)
        self.assertEqual(run.stderr, "")

    def test_what_stood_there_stays_until_the_report_is_whole(self):
        target = self.folder / "report.json"
        target.write_text("before")
        self.assert_one_line(self.run_it(self.folder / "missing.h5", "--json", target / "under"), target)
        self.assertEqual(target.read_text(), "before")
        self.assertEqual(self.run_it(self.file, "--json", target).returncode, DIVERGED)
        self.assertEqual(json.loads(target.read_text())["verdict"], "diverged")


class Interrupted(TileDiffCase):
    def test_killed_run_leaves_the_report_whole_or_not_at_all(self):
        small_dump.write(self.file)
        target = self.folder / "report.json"
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        longest = 0.01
        killed = 0
        for _ in range(40):
            target.unlink(missing_ok=True)
            process = subprocess.Popen([TILE_DIFF, self.file, "--json", target], stdout=subprocess.DEVNULL)
            time.sleep(draw.uniform(0, longest))
            process.kill()
            if process.wait() == -signal.SIGKILL:
                killed += 1
                longest *= 1.2
            else:
                longest *= 0.8
            if target.exists():
                with self.subTest(seed=seed):
                    self.assertEqual(json.loads(target.read_text())["verdict"], "match")
        self.assertGreater(killed, 0)

    def test_dump_that_is_swapped_while_it_is_read(self):
        """By a file that HDF5 1.10 crashes on (drawn by a fuzzer): renamed over it, or written into it."""
        other = pathlib.Path(__file__).parents[1] / "data" / "hdf5_crashes.h5"
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        judged = 0
        longest = 0.03  # Until about every other change comes too late, whatever this build takes.
        for change in ("renamed", "written") * 30:
            self.file.unlink(missing_ok=True)
            small_dump.write(self.file)
            replacement = shutil.copy(other, self.folder / "replacement.h5")
            process = subprocess.Popen([TILE_DIFF, self.file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       text=True)
            time.sleep(draw.uniform(0.002, longest))
            if change == "renamed":
                os.rename(replacement, self.file)
            else:
                with open(self.file, "r+b") as file:
                    file.write(other.read_bytes())
            _, complaint = process.communicate(timeout=60)
            judged += process.returncode == MATCH
            longest *= 0.8 if process.returncode == MATCH else 1.2
            with self.subTest(seed=seed, change=change):
                self.assertIn(process.returncode, (MATCH, UNJUDGED), complaint)
                # A sanitizer has its own words for a crash of HDF5, before ours.
                ours = complaint.splitlines()[-1:] if "Sanitizer" in complaint else complaint.splitlines()
                self.assertEqual(len(ours), process.returncode == UNJUDGED, complaint)
                self.assertTrue(all(line.startswith("tile-diff: ") for line in ours), complaint)
        self.assertGreater(judged, 0)

    def test_dump_that_disappears_or_shrinks_while_it_is_read(self):
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        for change in ("removed", "cut") * 15:
            small_dump.write(self.file)
            process = subprocess.Popen([TILE_DIFF, self.file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       text=True)
            time.sleep(draw.uniform(0, 0.03))
            if change == "removed":
                self.file.unlink()
            else:
                os.truncate(self.file, draw.randrange(self.file.stat().st_size))
            _, complaint = process.communicate(timeout=60)
            with self.subTest(seed=seed, change=change):
                self.assertIn(process.returncode, (MATCH, UNJUDGED), complaint)
                self.assertEqual(complaint.count("\n"), process.returncode == UNJUDGED, complaint)


if __name__ == "__main__":
    main()
