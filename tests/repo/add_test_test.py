#!/usr/bin/env python3
"""Installs a build, and holds the tests that a project declares with tilescope_add_test() to what each should end with.

usage: add_test_test.py ROOT BUILD SCRATCH CMAKE GENERATOR
"""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT, BUILD, SCRATCH = (pathlib.Path(argument) for argument in sys.argv[1:4])
CMAKE, GENERATOR = sys.argv[4:6]
COMPILED = SCRATCH / "build"


def recordings(test):
    """What the test left."""
    return sorted((COMPILED / "tilescope" / test).glob("*.h5"))


class AddTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        for component in ("capture", "tools"):
            subprocess.run([CMAKE, "--install", BUILD, "--prefix", SCRATCH / "prefix", "--component", component], check=True,
                           capture_output=True)
        subprocess.run([CMAKE, "-S", ROOT / "tests/repo/judged", "-B", COMPILED, "-G", GENERATOR,
                        f"-DCMAKE_PREFIX_PATH={SCRATCH / 'prefix'}", f"-DSAMPLES={ROOT / 'samples'}"], check=True,
                       capture_output=True)
        subprocess.run([CMAKE, "--build", COMPILED], check=True, capture_output=True)

    def log_of(self, test):
        """Whether the test passed, and what it printed."""
        ctest = pathlib.Path(CMAKE).with_name("ctest")
        done = subprocess.run([ctest, "--test-dir", COMPILED, "-R", f"^{test}$", "-V", "--no-tests=error"],
                              capture_output=True, text=True)
        return done.returncode == 0, " ".join(re.sub(r"^\d+: ", "", done.stdout, flags=re.MULTILINE).split())

    def test_what_matches_passes_and_goes(self):
        for test in ("healthy", "reported", "selected", "known"):
            with self.subTest(test):
                passed, log = self.log_of(test)
                self.assertTrue(passed, log)
                self.assertEqual(recordings(test), [])
        self.assertTrue((COMPILED / "report.json").exists())

    def test_what_matches_is_kept_where_that_is_asked(self):
        passed, log = self.log_of("kept")
        self.assertTrue(passed, log)
        self.assertEqual(len(recordings("kept")), 1)

    def test_a_program_may_ask_the_oracle_itself(self):
        passed, log = self.log_of("expectations")
        self.assertTrue(passed, log)

    def test_what_diverges_is_kept_with_its_report(self):
        passed, log = self.log_of("wrong")
        self.assertFalse(passed, log)
        self.assertIn("diverged: acc is the first wrong stage", log)
        kept = recordings("wrong")
        self.assertEqual(len(kept), 2)
        self.assertRegex(log, r"match \S+launch0\S+ \S+ s diverged \S+launch1\S+ acc acc_not_rescaled \S+ s ")
        self.assertIn(f"wrong: diverged: {kept[1].parent}", log)

    def test_what_cannot_be_judged_is_not_called_diverged(self):
        for test, why in (("unjudged", "unjudged: cannot be judged: "), ("silent", "silent: cannot be judged: nothing was recorded"),
                          ("failing", "failing: the program failed: 2")):
            with self.subTest(test):
                passed, log = self.log_of(test)
                self.assertFalse(passed, log)
                self.assertIn(why, log)
                self.assertNotIn("diverged", log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
