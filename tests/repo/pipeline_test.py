"""The sample of a pipeline, with what is installed: its `run:` steps, and the reports that they leave. Green with the known
issue, red with another fault, and what is said when the known one is mended.

usage: pipeline_test.py ROOT BUILD SCRATCH CMAKE
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import yaml

ROOT, BUILD, SCRATCH, CMAKE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
del sys.argv[1:]
KERNELS = ["full", "causal", "grouped", "window", "soft_cap"]
NEW_FAULT = ("head / (call.heads / call.heads_kv)", "head % call.heads_kv")
MENDED = ("query - key < window_left", "query - key <= window_left")


class Pipeline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        prefix = SCRATCH / "prefix"
        for component in ("capture", "tools", "python"):
            subprocess.run([CMAKE, "--install", BUILD, "--prefix", prefix, "--component", component], check=True, capture_output=True)
        cls.has_package = (prefix / "tilescope").is_dir()
        # What the wheel's entry point does, and no files beside the tests.
        plugin = "-p tilescope.pytest_plugin -p no:cacheprovider"
        cls.environment = {**os.environ, "CMAKE_PREFIX_PATH": str(prefix), "PYTHONPATH": str(prefix), "PYTEST_ADDOPTS": plugin,
                           "PYTHONDONTWRITEBYTECODE": "1",
                           "PATH": f"{prefix}/bin:{pathlib.Path(sys.executable).parent}:{CMAKE.parent}:{os.environ['PATH']}"}
        jobs = yaml.safe_load((ROOT / "samples/pipeline/pipeline.yml").read_text())["jobs"]
        # Packages are installed in the tests of packages.
        cls.steps = [step for step in jobs["kernels"]["steps"] if "run" in step and step["name"] != "Install"]
        if not cls.has_package:
            cls.steps = [step for step in cls.steps if step["name"] != "pytest"]

    def run_steps(self, name, *edits):
        """In a copy of the sample. Returns what each step ended with; one that has no condition needs those before it."""
        self.folder = SCRATCH / name
        shutil.copytree(ROOT / "samples/pipeline", self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        kernels = self.folder / "kernels.cpp"
        for before, after in edits:
            self.assertEqual(kernels.read_text().count(before), 1, before)
            kernels.write_text(kernels.read_text().replace(before, after))
        summary = self.folder / "summary.md"
        self.ended, self.said = {}, {}
        for step in self.steps:
            if "if" not in step and any(self.ended.values()):
                continue
            # As a runner has it where the job is in a container.
            run = subprocess.run(["sh", "-e", "-c", step["run"]], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, env={**self.environment, "GITHUB_STEP_SUMMARY": str(summary)})
            self.ended[step["name"]], self.said[step["name"]] = run.returncode, run.stdout
        self.assertEqual(summary.read_text(), self.report("tile-diff.md"))

    def assert_ended(self, **codes):
        expected = {step["name"]: 0 for step in self.steps} | {name.replace("_", "-"): code for name, code in codes.items()}
        if not self.has_package:
            expected.pop("pytest", None)
        self.assertEqual(self.ended, expected, self.said)

    def report(self, name):
        return (self.folder / "reports" / name).read_text()

    def cases(self, name):
        """Of JUnit: what each case is, and the text of that."""
        found = {}
        for case in xml.etree.ElementTree.fromstring(self.report(name)).iter("testcase"):
            child = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
            key = case.get("name").removesuffix(".launch0.h5")
            found[key] = ("passed", "") if child is None else (child.tag, f"{child.get('message')}\n{child.text}")
        return found

    def assert_cases(self, name, names, **others):
        states = {case: state for case, (state, _) in self.cases(name).items()}
        self.assertEqual(states, {case: others.get(case.strip("]").rpartition("[")[2], "passed") for case in names})

    def assert_pytest(self, **others):
        if not self.has_package:
            return
        names = [f"test_{what}[{kernel}]" for what in ("output", "stages") for kernel in KERNELS]
        self.assert_cases("pytest.xml", names, **others)

    def results(self):
        run, = json.loads(self.report("tile-diff.sarif"))["runs"]
        return {result["message"]["text"].partition(".launch0")[0].rpartition("/")[2]: result for result in run["results"]}

    def test_green_with_the_known_issue(self):
        self.run_steps("green")
        self.assert_ended()
        self.assert_cases("ctest.xml", KERNELS)
        self.assert_cases("tile-diff.xml", KERNELS, window="skipped")
        self.assertIn("known: issue 7: ", self.cases("tile-diff.xml")["window"][1])
        self.assert_pytest(window="skipped")
        window = self.results()
        self.assertEqual(list(window), ["window"])
        self.assertIn("issue 7", window["window"]["suppressions"][0]["justification"])
        for name in ("tile-diff.html", "tile-diff.md"):
            self.assertIn("issue 7", self.report(name))

    def test_red_with_another_fault(self):
        self.run_steps("red", NEW_FAULT)
        self.assert_ended(CTest=8, pytest=1, tile_diff=1)
        self.assertIn("grouped: diverged:", self.said["CTest"])
        self.assert_cases("ctest.xml", KERNELS, grouped="failure")
        self.assert_cases("tile-diff.xml", KERNELS, window="skipped", grouped="failure")
        self.assertIn("kv_head_modulo", self.cases("tile-diff.xml")["grouped"][1])
        self.assert_pytest(window="skipped", grouped="failure")
        grouped = self.results()["grouped"]
        self.assertNotIn("suppressions", grouped)
        place = grouped["locations"][0]["physicalLocation"]
        self.assertEqual(place["artifactLocation"]["uri"], "kernels.cpp")
        line = (self.folder / "kernels.cpp").read_text().splitlines()[place["region"]["startLine"] - 1]
        self.assertIn("TILESCOPE_VALUE(s, ", line)
        for name in ("tile-diff.html", "tile-diff.md"):
            self.assertIn("kv_head_modulo", self.report(name))

    @unittest.skipUnless(os.environ.get("TILESCOPE_ALL_SEEDS") == "1", "the third build of the sample, with --all")
    def test_a_known_issue_that_is_mended_is_said(self):
        self.run_steps("mended", MENDED)
        self.assert_ended(pytest=1)
        self.assert_pytest(window="failure")
        self.assertRegex(self.said["tile-diff"], r"known\.txt:\d+: window\.launch0\.h5 no longer diverges in s; delete lines \d+ to \d+")


if __name__ == "__main__":
    unittest.main()
