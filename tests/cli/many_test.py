"""Many recordings in one call of tile-diff: which they are, what is printed, exit codes, and what two bare files get.

usage: many_test.py TILE_DIFF
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import small_dump
from tile_diff_case import DIVERGED, MATCH, TILE_DIFF, UNJUDGED, TileDiffCase, main

DATA = pathlib.Path(__file__).parents[1] / "data"
SAMPLES = pathlib.Path(__file__).parents[2] / "samples"
LINE = re.compile(r"(match|known|diverged|unjudged) +(\S.*?)(?: {2,}(\S+))?(?: {2,}(\S.*?))? +(\d+\.\d\d) s")


def all_of(terminal):
    """What is drawn until its other end has gone."""
    text = b""
    try:
        while chunk := os.read(terminal, 4096):
            text += chunk
    except OSError:
        pass  # how a terminal says so
    os.close(terminal)
    return text


class Many(TileDiffCase):
    """A folder with a right recording, a wrong one, and one in a folder below."""

    @classmethod
    def setUpClass(cls):
        given = small_dump.inputs()
        cls.right = small_dump.stages(given)
        cls.wrong = small_dump.stages(given, p_factor=1.001)

    def setUp(self):
        super().setUp()
        self.runs = self.folder / "runs"
        (self.runs / "below").mkdir(parents=True)
        self.b, self.a, self.c = self.runs / "b.h5", self.runs / "a.h5", self.runs / "below" / "c.h5"
        for path, values in ((self.b, self.right), (self.a, self.wrong), (self.c, self.right)):
            small_dump.write(path, values)

    def run_in(self, folder, *arguments, **options):
        return self.run_it(*arguments, "--no-causes", cwd=folder, **options)

    def lines(self, run):
        """Verdict and recording of each line before the first blank one."""
        lines = run.stdout.split("\n\n")[0].splitlines()
        for line in lines:
            self.assertRegex(line, f"^{LINE.pattern}$")
        return [tuple(LINE.fullmatch(line).groups()[:2]) for line in lines]


class Which(Many):
    def test_folder_is_sorted_and_goes_down(self):
        (self.runs / "notes.txt").write_text("no recording")
        run = self.run_in(self.folder, "runs")
        self.assertEqual(run.returncode, DIVERGED)
        self.assertEqual(self.lines(run), [("diverged", "runs/a.h5"), ("match", "runs/b.h5"), ("match", "runs/below/c.h5")])

    def test_folders_beside_one_that_cannot_be_read(self):
        for number in range(8):
            for name in ("locked", "open"):
                (self.runs / f"{name}{number}").mkdir()
                os.link(self.b, self.runs / f"{name}{number}" / "x.h5")
            (self.runs / f"locked{number}").chmod(0)
            self.addCleanup((self.runs / f"locked{number}").chmod, 0o700)
        # Root reads everything.
        self.folder.chmod(0o755)
        run = self.run_in(self.runs, ".", "--keep-going", **({"user": 65534} if os.geteuid() == 0 else {}))
        self.assertEqual(run.returncode, UNJUDGED)
        self.assertEqual([(verdict, path) for verdict, path in self.lines(run) if "open" in path or "locked" in path],
                         [("match", f"./open{number}/x.h5") for number in range(8)] + [("unjudged", f"./locked{number}") for number in range(8)])
        self.assertEqual(run.stderr.count(": cannot be searched for recordings: Permission denied; "), 8)

    def test_paths_keep_their_order_and_are_judged_once(self):
        (self.runs / "again.h5").symlink_to("b.h5")
        run = self.run_in(self.runs, "below", "b.h5", "./b.h5", "again.h5", "below/c.h5", "a.h5", "below", "--jobs", "3")
        self.assertEqual(self.lines(run), [("match", "below/c.h5"), ("match", "b.h5"), ("diverged", "a.h5")])

    def test_names_on_standard_input(self):
        for names in ("b.h5\na.h5\n", "b.h5\n\na.h5", "b.h5\0a.h5\0"):
            run = self.run_in(self.runs, "-", input=names)
            self.assertEqual((run.returncode, self.lines(run)), (DIVERGED, [("match", "b.h5"), ("diverged", "a.h5")]))

    def test_no_recording_is_no_match(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assert_one_line(self.run_it(empty), f"{empty}: holds no recording; ")
        self.assert_one_line(self.run_it("-", input=""), "standard input: names no recording; ")
        run = self.run_in(self.folder, "runs/b.h5", "empty")
        self.assert_one_line(run, "empty: holds no recording; ")
        self.assertEqual(self.lines(run), [("match", "runs/b.h5"), ("unjudged", "empty")])

    def test_two_files_are_refused_with_both_spellings(self):
        both = "compare them with tile-diff --against b.h5 a.h5, or judge each with tile-diff --each a.h5 b.h5\n"
        run = self.run_in(self.runs, "a.h5", "b.h5")
        self.assertEqual((run.returncode, run.stdout, run.stderr.partition("; ")[2]), (UNJUDGED, "", both))
        self.assertEqual(self.lines(self.run_in(self.runs, "--each", "a.h5", "b.h5")),
                         [("diverged", "a.h5"), ("match", "b.h5")])
        self.assertIn("match: ", self.run_in(self.runs, "--against", "b.h5", "below/c.h5").stdout)

    def test_many_are_compared_with_one(self):
        run = self.run_it("--against", "b.h5", "a.h5", "below", cwd=self.runs)
        self.assertEqual(self.lines(run), [("diverged", "a.h5"), ("match", "below/c.h5")])
        self.assertIn("p is the first stage that differs from b.h5", run.stdout)

    def test_those_of_a_folder_are_compared_by_name(self):
        other = self.folder / "other"
        shutil.copytree(self.runs, other)
        same = self.run_in(self.folder, "--against", "other", "runs", "--same-run")
        self.assertEqual(same.returncode, MATCH, same.stderr)
        self.assertEqual(self.lines(same), [("match", f"runs/{name}") for name in ("a.h5", "b.h5", "below/c.h5")])
        shutil.copy(self.a, other / "below" / "c.h5")
        for options in (["--same-run"], []):
            run = self.run_in(self.folder, "--against", "other/", "runs/", *options)
            self.assertEqual((run.returncode, dict(map(reversed, self.lines(run)))["runs/below/c.h5"]), (DIVERGED, "diverged"))
        # A file by its last name.
        self.assertEqual(self.run_in(self.folder, "--against", "other", "runs/b.h5").returncode, MATCH)

    def test_what_only_one_folder_has_is_no_match(self):
        other = self.folder / "other"
        shutil.copytree(self.runs, other)
        (other / "a.h5").rename(other / "d.h5")
        run = self.run_in(self.folder, "--against", "other", "runs", "--same-run")
        self.assertEqual(run.returncode, UNJUDGED)
        self.assertEqual([verdict for verdict, _ in self.lines(run)], ["unjudged", "match", "match", "unjudged"])
        self.assertIn("other/a.h5: cannot be opened", run.stderr)
        self.assertIn("other/d.h5: has nothing to be compared with; ", run.stderr)

    def test_what_is_of_one_recording(self):
        for arguments in (["--npy", "x"], ["--png", "x"], ["--replay-out", "x.h5"], ["--suggest"],
                          ["--explain-tolerance", "s,0,0,0,0"]):
            self.assert_one_line(self.run_it(self.runs, *arguments), arguments[0], "name one file")


class Printed(Many):
    def test_details_of_the_worst(self):
        values = {**self.right, "s": self.right["s"].copy()}
        values["s"][0, 0, 0, 0] += 1
        small_dump.write(self.runs / "d.h5", values)
        run = self.run_in(self.runs, ".")
        self.assertEqual(run.stdout.count("FIRST WRONG"), 1)
        self.assertEqual(run.stdout.splitlines()[-3].partition(" is the first")[0], "diverged: p")
        self.assertRegex(run.stdout, r"\n\n4 recordings: 2 match, 2 diverged; \d+\.\d\d s\n$")
        self.assertEqual(self.run_in(self.runs, ".", "-v").stdout.count("FIRST WRONG"), 2)

    def test_quiet(self):
        run = self.run_in(self.runs, ".", "-q")
        self.assertEqual((run.returncode, run.stdout.count("\n"), run.stderr), (DIVERGED, 1, ""))
        self.assertEqual(self.lines(run), [("diverged", "./a.h5")])
        run = self.run_in(self.runs, "b.h5", "--quiet")
        self.assertEqual((run.returncode, run.stdout, run.stderr), (MATCH, "", ""))
        self.assertEqual(self.lines(self.run_in(self.runs, "a.h5", "--quiet")), [("diverged", "a.h5")])

    def test_one_file_is_printed_as_ever(self):
        run = self.run_in(self.runs, "a.h5")
        self.assertTrue(run.stdout.startswith("a.h5"))
        self.assertTrue(run.stdout.splitlines()[-1].startswith("diverged: p is the first wrong stage"))

    def test_lines_fit_80_columns_in_a_pipe(self):
        long = self.runs / ("long_" * 20 + "\u00fc.h5")
        shutil.copy(self.b, long)
        run = self.run_in(self.runs, ".")
        lines = run.stdout.split("\n\n")[0].splitlines()
        self.assertEqual({len(line) for line in lines}, {80})
        self.assertIn("long_\u00fc.h5", run.stdout)
        self.assertIn("...", run.stdout)
        self.assertNotIn("\033", run.stdout)

    def test_names_that_are_cut_keep_what_tells_them_apart(self):
        """The number of a process, which TILESCOPE_DIR adds, tells nothing."""
        below = self.runs / "a_folder_with_a_name" / "of_some_length"
        below.mkdir(parents=True)
        for name in ("short.h5", "causal_attention.launch0.process1234567.h5"):
            shutil.copy(self.b, below / name)
        lines = self.run_in(self.runs, "a_folder_with_a_name").stdout.splitlines()[:2]
        self.assertIn(" ...causal_attention.launch0.h5 ", lines[0])
        self.assertIn(" ...ame/of_some_length/short.h5 ", lines[1])

    def test_colour_on_a_terminal_alone(self):
        for variables, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                                    ({"TERM": "xterm", "NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)):
            terminal, other = os.openpty()
            env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
            process = subprocess.Popen([TILE_DIFF, self.b, self.c, "--each"], stdout=other, env={**env, **variables})
            os.close(other)
            text = all_of(terminal)
            self.assertEqual(process.wait(), MATCH)
            self.assertEqual(b"\033[" in text, coloured, variables)

    def test_progress_on_a_terminal(self):
        terminal, other = os.openpty()
        slow = SAMPLES / "max_own_lane.h5"  # to say why
        process = subprocess.Popen([TILE_DIFF, self.b, slow, self.c, "--jobs", "1"], stdout=subprocess.PIPE, stderr=other, text=True)
        os.close(other)
        # So that it takes longer than a second.
        first = process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.1)
        process.send_signal(signal.SIGCONT)
        drawn = all_of(terminal).decode()
        rest = process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(), DIVERGED)
        self.assertRegex(drawn, r"^(\r\x1b\[Kjudging \d of 3 recordings, \d+\.\d/s, \d+ %, \d+ s left\r\x1b\[K)+$")
        self.assertIn("judging 2 of 3 recordings, ", drawn)
        self.assertIn(", 66 %, ", drawn)
        self.assertEqual(len(self.lines(subprocess.CompletedProcess([], 0, first + rest))), 3)


class Ends(Many):
    def test_the_worst_exit_code(self):
        self.assertEqual(self.run_in(self.runs, "b.h5", "below").returncode, MATCH)
        self.assertEqual(self.run_in(self.runs, "b.h5", "below", "a.h5").returncode, DIVERGED)
        run = self.run_in(self.runs, "missing.h5", "b.h5", "a.h5")
        self.assertEqual([verdict for verdict, _ in self.lines(run)], ["unjudged", "match", "diverged"])
        self.assert_one_line(run, "missing.h5")
        self.assertIn("3 recordings: 1 match, 1 diverged, 1 could not be judged; ", run.stdout)

    def test_one_that_hdf5_crashes_on_takes_no_other_with_it(self):
        shutil.copy(DATA / "hdf5_crashes.h5", self.runs / "b2.h5")
        run = self.run_in(self.runs, ".")
        self.assertEqual([verdict for verdict, _ in self.lines(run)], ["diverged", "match", "unjudged", "match"])
        self.assertEqual(run.returncode, UNJUDGED)

    def test_fail_fast(self):
        run = self.run_in(self.runs, ".", "--fail-fast", "--jobs", "1")
        self.assertEqual((run.returncode, self.lines(run)), (DIVERGED, [("diverged", "./a.h5")]))
        self.assertTrue(run.stdout.endswith("; stopped before 2 more\n"), run.stdout)
        self.assertEqual(len(self.lines(self.run_in(self.runs, ".", "--keep-going"))), 3)
        self.assert_one_line(self.run_it(self.runs, "--keep-going", "--fail-fast"), "--fail-fast")

    def test_jobs_change_nothing_but_the_time(self):
        for number in range(12):
            shutil.copy(self.b if number % 3 else self.a, self.runs / f"x{number}.h5")
        outputs = {re.sub(r"\d+\.\d\d s", "", self.run_in(self.runs, ".", "--jobs", jobs).stdout) for jobs in "1258"}
        self.assertEqual(len(outputs), 1)

    def test_memory_does_not_grow_with_their_number(self):
        def most(paths):
            script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
                      "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            # A sanitizer would keep what was freed.
            options = f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=0:thread_local_quarantine_size_kb=0"
            run = subprocess.run(["python3", "-c", script, TILE_DIFF, *paths, "--json", self.folder / "all.json", "--no-causes"],
                                 capture_output=True, text=True, check=True, env=os.environ | {"ASAN_OPTIONS": options})
            return int(run.stdout)
        for number in range(60):
            os.link(self.a, self.runs / f"x{number:02}.h5")
        few, many = most([self.runs / "x00.h5", self.a, self.b]), most([self.runs])
        self.assertLess(many, few + 4096)


if __name__ == "__main__":
    main()
