"""What the tests of tile-diff share: a scratch folder, a way to run it, and what a refusal looks like.

Scripts that import this take the path of tile-diff as their first argument.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TILE_DIFF = pathlib.Path(sys.argv.pop(1)).resolve()
MATCH, DIVERGED, UNJUDGED = 0, 1, 2


class TileDiffCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.file = self.folder / "run.h5"

    def run_it(self, *arguments, **options):
        return subprocess.run([TILE_DIFF, *arguments], capture_output=True, text=True, errors="replace", **options)

    def judge(self, *arguments):
        """The JSON report; the exit code must be the one of its verdict."""
        run = self.run_it(*arguments, "--json", "-")
        report = json.loads(run.stdout)
        codes = {"match": MATCH, "diverged": DIVERGED, "unjudged": UNJUDGED}
        self.assertEqual(run.returncode, codes[report["verdict"]], run.stderr)
        return report

    def assert_one_line(self, run, *words):
        self.assertEqual(run.returncode, UNJUDGED, (run.args, run.stdout, run.stderr))
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertTrue(run.stderr.startswith("tile-diff: ") and run.stderr.endswith("\n"), run.stderr)
        # What is wrong, and after the semicolon what to do.
        self.assertRegex(run.stderr, r"; \w+")
        for word in words:
            self.assertIn(str(word), run.stderr)

    def assert_refused(self, *words, path=None, arguments=()):
        """Exit 2 and one line that names the file; as JSON the verdict `unjudged` with the same reason."""
        path = path or self.file
        run = self.run_it(path, *arguments)
        self.assert_one_line(run, path, *words)
        self.assertEqual(run.stdout, "")

        run = self.run_it(path, *arguments, "--json", "-")
        self.assert_one_line(run, path, *words)
        report = json.loads(run.stdout)
        self.assertEqual(report["verdict"], "unjudged")
        self.assertEqual(f"tile-diff: {report['reason']}\n", run.stderr)


def main():
    unittest.main()
