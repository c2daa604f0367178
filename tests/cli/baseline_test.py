"""Known divergences: what a baseline accepts, what it does not, and what is said of one that is no longer so.

usage: baseline_test.py TILE_DIFF
"""

import json

import small_dump
from tile_diff_case import DIVERGED, MATCH, UNJUDGED, TileDiffCase, main

KNOWN = """
# the P of this kernel is scaled
[wrong.h5]
stage = p
place = batch 0, head 0, row 0, key 0, KV tile 0
cause = {cause}
reason = issue 12
"""


class Baseline(TileDiffCase):
    @classmethod
    def setUpClass(cls):
        given = small_dump.inputs()
        cls.right = small_dump.stages(given)
        cls.wrong = small_dump.stages(given, p_factor=1.001)

    def setUp(self):
        super().setUp()
        self.runs = self.folder / "runs"
        self.runs.mkdir()
        self.known = self.folder / "known.txt"
        self.file = self.runs / "wrong.h5"
        small_dump.write(self.runs / "right.h5", self.right)
        small_dump.write(self.file, self.wrong)
        self.cause = self.judge(self.file)["causes"][0]["name"]

    def check(self, text, *paths):
        self.known.write_text(text)
        return self.run_it(*(paths or [self.runs]), "--baseline", self.known)

    def test_what_is_known_is_accepted(self):
        run = self.check(KNOWN.format(cause=self.cause))
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        self.assertIn("2 recordings: 1 match, 1 known; ", run.stdout)
        run = self.check(KNOWN.format(cause=self.cause), self.file)
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        self.assertTrue(run.stdout.endswith("\nknown: issue 12\n"), run.stdout[-200:])
        run = self.run_it(self.file, "--baseline", self.known, "--json", "-")
        report = json.loads(run.stdout)
        self.assertEqual((run.returncode, report["verdict"], report["known"]), (MATCH, "diverged", "issue 12"))

    def test_any_place_and_cause_where_none_is_said(self):
        for name in ("wrong.h5", "runs/wrong.h5", self.file):
            run = self.check(f"[{name}]\nstage=p\nreason=issue 12\n")
            self.assertEqual(run.returncode, MATCH, run.stderr)

    def test_what_is_not_known_is_red(self):
        known = KNOWN.format(cause=self.cause)
        other = {"stage = p": "stage = acc", "key 0": "key 1", f"cause = {self.cause}": "cause = exp_clamped",
                 "reason": "wrong_too = l\nreason"}
        for said, instead in other.items():
            with self.subTest(instead):
                run = self.check(known.replace(said, instead))
                self.assertEqual(run.returncode, DIVERGED)
                self.assertRegex(run.stderr, r"^tile-diff: \S+known\.txt:3: wrong\.h5 is known to diverge in .*; mend it, "
                                             r"or change lines 3 to [78]\n$")
        for name in ("rong.h5", "other/wrong.h5", "right.h5"):
            self.assertEqual(self.check(known.replace("wrong.h5", name)).returncode, DIVERGED, name)

    def test_one_that_moved_to_an_earlier_stage_is_red(self):
        values = {**self.wrong, "s": self.wrong["s"] + 1}
        small_dump.write(self.file, values)
        run = self.check(KNOWN.format(cause=self.cause))
        self.assertEqual(run.returncode, DIVERGED)
        self.assertIn("is known to diverge in p at batch 0, head 0, row 0, key 0, KV tile 0", run.stderr)
        self.assertIn("and does in s at ", run.stderr)

    def test_one_that_went_away_is_said(self):
        small_dump.write(self.file, self.right)
        for paths in ([self.runs], [self.file], [self.file, "--quiet"]):
            run = self.check(KNOWN.format(cause=self.cause), *paths)
            self.assertEqual((run.returncode, run.stderr), (
                MATCH, f"tile-diff: {self.known}:3: wrong.h5 no longer diverges in p; delete lines 3 to 7\n"))

    def test_sections_of_others_are_counted(self):
        run = self.check(KNOWN.format(cause=self.cause) + "[gone.h5]\nstage = s\nreason = issue 3\n")
        self.assertEqual(run.returncode, MATCH)
        self.assertIn("1 of its sections is of recordings that were not judged", run.stderr)

    def test_what_cannot_be_judged_is_never_accepted(self):
        self.file.write_bytes(b"no recording")
        self.assertEqual(self.check(KNOWN.format(cause=self.cause)).returncode, UNJUDGED)

    def test_written_completed_and_written_anew(self):
        run = self.run_it(self.runs, "--write-baseline", self.known)
        self.assertEqual(run.returncode, DIVERGED)
        written = self.known.read_text()
        self.assertIn(f"[wrong.h5]\nstage = p\nplace = batch 0, head 0, row 0, key 0, KV tile 0\ncause = {self.cause}\nreason =\n",
                      written)
        self.assert_one_line(self.run_it(self.runs, "--baseline", self.known), "wrong.h5 has no reason", "known.txt:5")
        self.known.write_text(written.replace("reason =", "reason = issue 12"))
        run = self.run_it(self.runs, "--baseline", self.known, "--write-baseline", self.known)
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        self.assertEqual(self.known.read_text(), written.replace("reason =", "reason = issue 12"))

    def test_names_are_as_long_as_they_need_be(self):
        for folder in ("one", "two"):
            (self.runs / folder).mkdir()
            small_dump.write(self.runs / folder / "same.h5", self.wrong)
        self.run_it(self.runs, "--write-baseline", self.known)
        names = [line for line in self.known.read_text().splitlines() if line.startswith("[")]
        self.assertEqual(names, ["[one/same.h5]", "[two/same.h5]", "[wrong.h5]"])

    def test_the_number_of_a_process_is_no_part_of_a_name(self):
        """Which TILESCOPE_DIR adds, another one in every run."""
        self.file.rename(self.runs / "run.launch0.rank1.process4711.h5")
        self.run_it(self.runs, "--write-baseline", self.known)
        written = self.known.read_text()
        self.assertIn("\n[run.launch0.rank1.h5]\n", written)
        (self.runs / "run.launch0.rank1.process4711.h5").rename(self.runs / "run.launch0.rank1.process12.h5")
        for name in ("run.launch0.rank1.h5", "runs/run.launch0.rank1.h5", "run.launch0.rank1.process4711.h5"):
            run = self.check(f"[{name}]\nstage = p\nreason = issue 12\n")
            self.assertEqual((run.returncode, run.stderr), (MATCH, ""), name)
        for name in ("run.launch0.rank2.h5", "run.launch0.h5", "launch0.rank1.h5"):
            self.assertEqual(self.check(f"[{name}]\nstage = p\nreason = issue 12\n").returncode, DIVERGED, name)

    def test_a_section_of_two_recordings_is_outdated_where_neither_diverges(self):
        for number in (1, 2):
            small_dump.write(self.runs / f"run.launch0.process{number}.h5", self.right if number == 1 else self.wrong)
        self.file.unlink()
        known = KNOWN.format(cause=self.cause).replace("wrong.h5", "run.launch0.h5")
        run = self.check(known)
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        small_dump.write(self.runs / "run.launch0.process2.h5", self.right)
        self.assertIn("run.launch0.h5 no longer diverges in p", self.check(known).stderr)

    def test_what_is_no_baseline(self):
        for text, line, words in (("stage = p\n", 1, "no [recording] stands above"), ("[a.h5]\nplace = x\nreason = y\n", 1, "has no stage"),
                                  ("[a.h5]\nstage = p\nwhy = y\n", 3, "why = y is no line of a baseline"),
                                  ("[]\n", 1, "names no recording"), ("[a.h5\n", 1, "names no recording")):
            with self.subTest(text):
                self.assert_one_line(self.check(text), f"known.txt:{line}: ", words)
        self.assert_one_line(self.run_it(self.file, "--baseline", self.folder / "none"), "No such file", "--write-baseline")
        self.assert_one_line(self.run_it(self.file, "--baseline", self.known, "--no-causes"), "excludes")


if __name__ == "__main__":
    main()
