"""Reports for machines: JSON by its schema, JUnit by XSD and as readers take it, Markdown and SARIF, of one recording and of many.

usage: reports_test.py TILE_DIFF
"""

import html
import json
import pathlib
import subprocess
import tempfile
import xml.etree.ElementTree

import h5py
import jsonschema

import small_dump
from tile_diff_case import DIVERGED, MATCH, TILE_DIFF, UNJUDGED, TileDiffCase, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "oracle/report/report.schema.json").read_text())
FORMATS = ("text", "json", "html", "junit", "markdown", "sarif")
HOSTILE = "<b>|`@x`](y)\u202e\x07&quot;\ufffe.h5"


class Reports(TileDiffCase):
    """One recording of each verdict, and one of a name that markup would trip over."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.suite = pathlib.Path(scratch.name)
        cls.runs = cls.suite / "runs"
        cls.runs.mkdir()
        given = small_dump.inputs()
        right, wrong = small_dump.stages(given), small_dump.stages(given, p_factor=1.001)
        for name, values in (("known.h5", wrong), ("right.h5", right), ("wrong.h5", wrong), (HOSTILE, wrong)):
            small_dump.write(cls.runs / name, values)
        (cls.runs / "bad.h5").write_bytes(b"no recording")
        (cls.suite / "baseline").write_text("[known.h5]\nstage = p\nreason = issue <12>\n")
        reports = [word for name in FORMATS for word in ("--report", f"{name}={name}")]
        cls.run_of_all = subprocess.run([TILE_DIFF, "runs", "--baseline", "baseline", *reports], cwd=cls.suite,
                                        capture_output=True, text=True)
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        cls.validator = jsonschema.Draft202012Validator(SCHEMA)

    def report(self, name):
        """Of all of them."""
        self.assertEqual(self.run_of_all.returncode, UNJUDGED, self.run_of_all.stderr)
        return (self.suite / name).read_text()

    def names(self):
        return sorted(path.name for path in self.runs.iterdir())

    def test_json(self):
        report = json.loads(self.report("json"))
        self.validator.validate(report)
        self.assertEqual((report["report_version"], report["verdict"]), (1, "unjudged"))
        self.assertEqual(report["counts"], {"match": 1, "known": 1, "diverged": 2, "unjudged": 1})
        self.assertEqual([pathlib.Path(one["recording"]).name for one in report["recordings"]][1:], self.names()[1:])
        by_name = {pathlib.Path(one["recording"]).name: one for one in report["recordings"]}
        self.assertEqual({name: one["known"] for name, one in by_name.items() if one["known"]}, {"known.h5": "issue <12>"})
        alone = self.judge(self.runs / "wrong.h5")
        listed = {key: value for key, value in by_name["wrong.h5"].items() if key not in ("seconds", "known", "recording")}
        self.assertEqual(listed, {key: value for key, value in alone.items() if key != "recording"})

    def test_json_of_one(self):
        other = self.runs / "right.h5"
        for arguments in ([self.runs / "wrong.h5"], [other], [self.runs / "bad.h5"], ["--against", other, self.runs / "wrong.h5"],
                          ["--against", other, self.runs / "wrong.h5", "--same-run"], ["--no-causes", self.runs / "wrong.h5"],
                          ["--atol", "1000", other]):
            with self.subTest(arguments):
                self.validator.validate(self.judge(*arguments))

    def test_json_of_every_sample(self):
        slow = ("max_own_lane.h5", "exp_clamped.h5", "torch_backward_group_overwritten.h5")  # to say why
        samples = list((ROOT / "samples").glob("*.h5"))
        for options, paths in (([], [path for path in samples if path.name not in slow]),
                               (["--no-causes"], [path for path in samples if path.name in slow])):
            run = self.run_it(*paths, *options, "--json", "-")
            self.assertEqual(run.returncode, DIVERGED, run.stderr)
            report = json.loads(run.stdout)
            self.validator.validate(report)
            self.assertEqual(len(report["recordings"]), len(paths))

    def test_the_schema_tells_what_is_wrong(self):
        report = self.judge(self.runs / "wrong.h5")
        for spoil in (lambda r: r.pop("verdict"), lambda r: r.update(report_version=2), lambda r: r["stages"][0].update(compared="1"),
                      lambda r: r.pop("causes"), lambda r: r["first_divergence"].update(got="none")):
            spoiled = json.loads(json.dumps(report))
            spoil(spoiled)
            self.assertFalse(self.validator.is_valid(spoiled))

    def test_junit(self):
        text = self.report("junit")
        checked = subprocess.run(["xmllint", "--noout", "--schema", ROOT / "tests/data/junit.xsd", self.suite / "junit"],
                                 capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        # As Jenkins' JUnit plugin reads it: a case is what its children say, else it passed.
        suite = xml.etree.ElementTree.fromstring(text).find("testsuite")
        cases = {case.get("name"): case for case in suite.iter("testcase")}
        state = {name: next((child.tag for child in case if child.tag != "system-out"), "passed") for name, case in cases.items()}
        hostile = next(name for name in state if name.startswith("<b>"))
        self.assertEqual(state, {"bad.h5": "error", "known.h5": "skipped", "right.h5": "passed", "wrong.h5": "failure",
                                 hostile: "failure"})
        self.assertEqual({key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")},
                         {"tests": "5", "failures": "2", "errors": "1", "skipped": "1"})
        self.assertEqual({case.get("classname") for case in cases.values()}, {"runs"})
        failure, alone = cases["wrong.h5"].find("failure"), self.judge(self.runs / "wrong.h5")
        self.assertTrue(failure.get("message").startswith("p is wrong in every row, first in KV tile 0: "), failure.get("message"))
        self.assertEqual(failure.get("type"), alone["causes"][0]["name"])
        self.assertIn("diverged: p is the first wrong stage", failure.text)
        facts = dict(line.split(": ", 1) for line in cases["wrong.h5"].find("system-out").text.splitlines())
        self.assertEqual(facts, {"verdict": "diverged", "stage": "p", "place": "batch 0, head 0, row 0, key 0, KV tile 0",
                                 "cause": alone["causes"][0]["name"]})
        self.assertIn("is not an HDF5 file", cases["bad.h5"].find("error").get("message"))
        self.assertEqual(cases["known.h5"].find("skipped").get("message"), "known: issue <12>")

    def test_junit_of_one(self):
        for name, code, tag in (("right.h5", MATCH, None), ("wrong.h5", DIVERGED, "failure"), ("bad.h5", UNJUDGED, "error")):
            run = self.run_it(self.runs / name, "--no-causes", "--report", "junit=-")
            self.assertEqual(run.returncode, code)
            case, = xml.etree.ElementTree.fromstring(run.stdout).iter("testcase")
            self.assertEqual([child.tag for child in case], [tag] * (tag is not None) + ["system-out"])

    def test_junit_of_what_a_process_saved(self):
        """CI servers compare runs by names: the process is in none."""
        path = self.suite / "run.launch0.process4711.h5"
        path.symlink_to(self.runs / "right.h5")
        self.addCleanup(path.unlink)
        case, = xml.etree.ElementTree.fromstring(self.run_it(path, "--report", "junit=-").stdout).iter("testcase")
        self.assertEqual((case.get("classname"), case.get("name")), (str(self.suite), "run.launch0.h5"))
        self.assertEqual(case.find("system-out").text, f"verdict: match\nrecording: {path}\n")

    def test_markdown(self):
        text = self.report("markdown")
        head, _, details = text.partition("\n\n<details>")
        rows = [line for line in head.splitlines() if line.startswith("| ")]
        self.assertEqual(len(rows), 1 + 5)
        for row in rows:
            self.assertEqual(row.replace("\\|", "").count("|"), 6, row)
        self.assertIn("| runs/wrong.h5 | **diverged** | p | ", head)
        self.assertIn("| runs/known.h5 | known | p | ", head)
        self.assertIn(": issue \\<12\\>", head)
        self.assertNotIn("@", head)
        # Of what does not match alone, each folded, with what is printed inside of a fence.
        self.assertEqual(("<details>" + details).count("<details>"), 4)
        self.assertEqual(text.count("</details>"), 4)
        self.assertIn("\ndiverged: p is the first wrong stage", details)
        self.assertNotIn("<b>", text.replace("\n```", "\0").split("\0")[0])

    def test_sarif(self):
        report = json.loads(self.report("sarif"))
        run, = report["runs"]
        self.assertEqual((report["version"], run["tool"]["driver"]["name"]), ("2.1.0", "tile-diff"))
        rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
        self.assertEqual(len(run["results"]), 3)
        for result in run["results"]:
            self.assertIn(result["ruleId"], rules)
            self.assertNotIn("region", result["locations"][0]["physicalLocation"])
        uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
        self.assertEqual(uris[1:], ["runs/known.h5", "runs/wrong.h5"])
        self.assertRegex(uris[0], r"^runs/[\w.%-]+\.h5$")
        suppressed = [result["suppressions"][0]["justification"] for result in run["results"] if "suppressions" in result]
        self.assertEqual(suppressed, ["issue <12>"])
        invocation, = run["invocations"]
        self.assertEqual((invocation["executionSuccessful"], invocation["exitCode"]), (False, 2))
        self.assertEqual(len(invocation["toolExecutionNotifications"]), 1)

    def test_line_of_the_hook(self):
        path = small_dump.write(self.folder / "hooked.h5", small_dump.stages(small_dump.inputs(), p_factor=1.001))
        with h5py.File(path, "r+") as file:
            file["tiles/p"].attrs["hooks"] = ["csrc/attention.cu:61", "csrc/tail.cu:7"]
        run = self.run_it(path, "--report", f"sarif={self.folder / 'sarif'}", "--report", f"json={self.folder / 'json'}", "--no-causes")
        self.assertEqual(run.returncode, DIVERGED)
        result, = json.loads((self.folder / "sarif").read_text())["runs"][0]["results"]
        self.assertEqual(result["locations"][0]["physicalLocation"],
                         {"artifactLocation": {"uri": "csrc/attention.cu"}, "region": {"startLine": 61}})
        report = json.loads((self.folder / "json").read_text())
        self.validator.validate(report)
        hooks = {stage["name"]: stage["hooks"] for stage in report["stages"] if "hooks" in stage}
        self.assertEqual(hooks, {"p": ["csrc/attention.cu:61", "csrc/tail.cu:7"]})

    def test_text_and_page(self):
        text = self.report("text")
        self.assertEqual(text.count("FIRST WRONG"), 3)
        self.assertTrue(text.endswith("\n5 recordings: 1 match, 1 known, 2 diverged, 1 could not be judged\n"))
        page = self.report("html")
        self.assertEqual((page.count("<details"), page.count("<details open>"), page.count("</details>")), (5, 3, 5))
        self.assertNotIn("<b>|", page)
        for line in ("5 recordings: 1 match, 1 known, 2 diverged, 1 could not be judged", "diverged: p is the first wrong stage"):
            self.assertIn(html.escape(line), page)

    def test_instead_of_what_is_printed(self):
        run = self.run_it("runs", "--no-causes", "--report", "junit=-", cwd=self.suite)
        xml.etree.ElementTree.fromstring(run.stdout)


if __name__ == "__main__":
    main()
