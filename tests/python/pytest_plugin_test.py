"""The pytest plugin, in pytest runs of its own.

usage: pytest_plugin_test.py FOLDER   FOLDER holds the package tilescope
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PACKAGES = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
if not (pathlib.Path(PACKAGES) / "tilescope").is_dir() or importlib.util.find_spec("pytest") is None:
    print("the Python package was not built, or there is no pytest")
    sys.exit(77)

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "samples"
TESTS = f"""
import os, pathlib, shutil
import numpy as np
import tilescope

SAMPLES = pathlib.Path({os.fspath(SAMPLES)!r})

def test_healthy(tilescope_recording):
    shutil.copy(SAMPLES / "healthy_scalar.h5", tilescope_recording.file())

def test_wrong(tilescope_recording):
    shutil.copy(SAMPLES / "acc_not_rescaled.h5", os.environ["TILESCOPE_DIR"])

def test_without(tilescope_recording):
    pass

def test_checked():
    q = np.ones((1, 1, 8, 16), np.float16)
    tilescope.check(q, q, q, np.zeros_like(q))

def test_of_something_else():
    assert 1 + 1 == 3
"""


class Plugin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        (cls.folder / "test_kernels.py").write_text(TESTS)
        command = [sys.executable, "-m", "pytest", "-p", "tilescope.pytest_plugin", "-p", "no:cacheprovider",
                   "--tilescope-keep", "kept", "--junitxml", "junit.xml", "--basetemp", "scratch"]
        run = subprocess.run(command, cwd=cls.folder, env={**os.environ, "PYTHONPATH": PACKAGES}, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        cls.said, cls.code = run.stdout, run.returncode
        cls.cases = {case.get("name"): case for case in
                     xml.etree.ElementTree.parse(cls.folder / "junit.xml").iter("testcase")}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def properties(self, name):
        return {each.get("name"): each.get("value") for each in self.cases[name].iter("property")}

    def test_tests_fail_that_record_what_is_wrong(self):
        self.assertEqual(self.code, 1, self.said)
        self.assertIn("4 failed, 1 passed", self.said)
        self.assertIn("acc_not_rescaled", self.said)
        self.assertIn("no recording; write one to", self.said)
        self.assertNotIn("pytest_runtest_call", self.said)

    def test_junit_is_told(self):
        wrong = self.properties("test_wrong")
        self.assertEqual((wrong["tilescope.verdict"], wrong["tilescope.stage"]), ("diverged", "acc"))
        self.assertEqual(wrong["tilescope.cause"], "acc_not_rescaled")
        self.assertEqual(self.properties("test_checked")["tilescope.stage"], "o")
        self.assertEqual(self.properties("test_of_something_else"), {})

    def test_the_verdict_stands_where_messages_are_short(self):
        failure = self.cases["test_wrong"].find("failure")
        self.assertTrue(failure.get("message").startswith("diverged: acc is the first wrong stage, at batch 0"), failure.get("message"))
        self.assertNotIn("\n", failure.get("message"))
        self.assertIn("FIRST WRONG", failure.text)
        # pytest cuts it where the terminal ends.
        self.assertIn("\nFAILED test_kernels.py::test_wrong - diverged: acc is the", self.said)

    def test_what_failed_is_kept(self):
        kept = self.folder / "kept" / "test_kernels.py_test_wrong"
        self.assertTrue((kept / "recordings/acc_not_rescaled.h5").is_file())
        self.assertIn("FIRST WRONG", (kept / "report.txt").read_text())
        self.assertEqual((kept / "difference.png").read_bytes()[1:4], b"PNG")
        self.assertEqual(len(list((self.folder / "kept").iterdir())), 2)


if __name__ == "__main__":
    unittest.main()
