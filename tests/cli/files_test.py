"""What the programs do to files: those that are read stay as they are, and nothing unfinished is left.

usage: files_test.py TILE_DIFF TILE_RUN TILE_GATE
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import small_dump
from tile_diff_case import DIVERGED, TileDiffCase, main

TILE_RUN, TILE_GATE = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
UNJUDGED = 2


class FilesCase(TileDiffCase):
    def run_program(self, program, *arguments, **options):
        return subprocess.run([program, *arguments], capture_output=True, text=True, **options)

    def assert_refused_by(self, program, arguments, *words):
        run = self.run_program(program, *arguments)
        self.assertEqual((run.returncode, run.stdout), (UNJUDGED, ""), (arguments, run.stderr))
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        for word in words:
            self.assertIn(str(word), run.stderr)


class Inputs(FilesCase):
    """No output replaces a file that is read, whatever name it is given."""

    def setUp(self):
        super().setUp()
        given = small_dump.inputs()
        small_dump.write(self.file, small_dump.stages(given, p_factor=1.5), given)
        self.content = self.file.read_bytes()

    def assert_spared(self, recording, *arguments):
        self.assert_one_line(self.run_it(recording, *arguments), "is a file that is read")
        self.assertEqual(pathlib.Path(recording).read_bytes(), self.content)
        self.assertFalse(list(self.folder.rglob("*.partial")))

    def names_in(self, folder, name):
        """The recording as a file of that name in a folder: itself, a link to it and another name of it."""
        for kind, make in (("itself", lambda path: shutil.copy(self.file, path)),
                           ("link", lambda path: path.symlink_to(self.file)),
                           ("hard link", lambda path: path.hardlink_to(self.file))):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder / name)
            yield folder / name if kind == "itself" else self.file

    def test_arrays(self):
        for name in ("got.npy", "expected.npy", "difference.npy"):
            for recording in self.names_in(self.folder / "arrays", name):
                self.assert_spared(recording, "--npy", self.folder / "arrays")

    def test_heatmaps(self):
        for name in ("1-dumped.png", "2-expected.png", "3-difference.png", "4-over_budget.png"):
            for recording in self.names_in(self.folder / "pictures", name):
                self.assert_spared(recording, "--png", self.folder / "pictures")

    def test_second_recording(self):
        other = self.folder / "other"
        other.mkdir()
        shutil.copy(self.file, other / "got.npy")
        self.assert_spared(self.file, "--against", other / "got.npy", "--npy", other)
        self.assertEqual((other / "got.npy").read_bytes(), self.content)
        self.assert_spared(self.file, "--against", other / "got.npy", "--json", other / "got.npy")
        self.assertEqual((other / "got.npy").read_bytes(), self.content)

    def test_report(self):
        for recording in self.names_in(self.folder / "reports", "report.json"):
            self.assert_spared(recording, "--json", self.folder / "reports" / "report.json")
            self.assert_spared(recording, "--replay-out", self.folder / "reports" / "report.json")

    def test_other_files_of_the_folder_are_replaced(self):
        (self.folder / "got.npy").write_text("an older array")
        self.assertEqual(self.run_it(self.file, "--npy", self.folder).returncode, DIVERGED)
        self.assertTrue((self.folder / "got.npy").read_bytes().startswith(b"\x93NUMPY"))

    def test_recovered_sink(self):
        for recording in self.names_in(self.folder / "sinks", "run.sink"):
            self.assert_refused_by(TILE_RUN, ["recover", recording, "-o", self.folder / "sinks" / "run.sink"],
                                   "is a file that is read")
            self.assertEqual(recording.read_bytes(), self.content)

    def test_sink_that_is_the_recording(self):
        self.file.unlink()
        (self.folder / "here").symlink_to(self.folder)
        for sink in (self.file, self.folder / "here" / "run.h5"):
            self.assert_refused_by(
                TILE_RUN, ["record", "--kernel", "scalar", "--engine", "cpu", "--shape", "1,1,32,32,64", "--sink-memory",
                           "file", "--sink-file", sink, "-o", self.file], "--sink-file")
            self.assertEqual(os.listdir(self.folder), ["here"])

    def test_latencies(self):
        rows = "seqlen_q,latency_us\n" + "".join(f"512,{10 + i / 100}\n" for i in range(40))
        files = [self.folder / name for name in ("ours.csv", "theirs.csv")]
        for file in files:
            file.write_text(rows)
        for file in files:
            self.assert_refused_by(TILE_GATE, ["latency", *files, "--json", file], "is a file that is read")
            self.assertEqual(file.read_text(), rows)


class Unfinished(FilesCase):
    def test_signals_leave_nothing(self):
        """Sent as soon as the file that is being written is there."""
        command = [TILE_RUN, "record", "--kernel", "scalar", "--engine", "cpu", "--shape", "1,2,128,256,64", "-o", self.file]
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            seen = 0
            for _ in range(3):
                run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while run.poll() is None and not list(self.folder.glob("*.partial")):
                    time.sleep(0.0005)
                run.send_signal(number)
                # It may have ended before.
                self.assertIn(run.wait(timeout=60), (-number, 0))
                seen += run.returncode == -number
                self.assertLessEqual(set(os.listdir(self.folder)), {"run.h5"})
            self.assertGreater(seen, 0, number)


if __name__ == "__main__":
    main()
