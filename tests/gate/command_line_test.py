#!/usr/bin/env python3
"""Tests the command line of tile-gate: what it reads, prints and returns.

usage: command_line_test.py TILE_GATE
"""

import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

TILE_GATE = pathlib.Path(sys.argv.pop(1)).resolve()
MET, NOT_MET, UNJUDGED = 0, 1, 2
SEED = 20


class TileGate(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.random = random.Random(SEED)

    def run_it(self, *arguments, **environment):
        return subprocess.run([TILE_GATE, *arguments], capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, **environment}, timeout=60)

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return name

    def samples(self, centre, count=40):
        return [centre * self.random.lognormvariate(0, 0.01) for _ in range(count)]

    def csv(self, name, samples_of, unit="us", device="NVIDIA H200", implementation="fast", clock=1980):
        """A file of {seqlen: samples}."""
        rows = [f"{implementation},{seqlen},64,{i},{clock},{sample!r}"
                for seqlen, samples in samples_of.items() for i, sample in enumerate(samples)]
        return self.write(name, "\n".join([f"# device: {device}", "implementation,seqlen_q,head_dim,sample,"
                                           f"sm_clock_mhz,latency_{unit}", *rows]) + "\n")

    def two_files(self, ratio=1.0):
        """The second configuration of the candidate takes `ratio` times the baseline's time."""
        return (self.csv("ours.csv", {512: self.samples(10), 2048: self.samples(100 * ratio)}),
                self.csv("sdpa.csv", {2048: self.samples(100), 512: self.samples(10)}, implementation="flash"))

    def assert_refused(self, arguments, *words):
        run = self.run_it(*arguments)
        self.assertEqual(run.returncode, UNJUDGED, (arguments, run.stdout, run.stderr))
        self.assertEqual(run.stdout, "", arguments)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertTrue(run.stderr.startswith("tile-gate: "), run.stderr)
        self.assertRegex(run.stderr, r"; \w+")
        for word in words:
            self.assertIn(word, run.stderr)
        if arguments[:1] == ["latency"]:
            as_json = self.run_it(*arguments, "--json", "-")
            if as_json.stdout:  # bad usage leaves nothing to report to
                report = json.loads(as_json.stdout)
                self.assertEqual(report["verdict"], "unjudged")
                self.assertEqual(f"tile-gate: {report['reason']}\n", run.stderr)

    def report(self, *arguments):
        run = self.run_it("latency", *arguments, "--json", "-")
        report = json.loads(run.stdout)
        self.assertEqual(run.returncode, {"measured": 0, "met": 0, "not met": 1}[report["verdict"]], run.stderr)
        return report

    # ---- configurations that differ in a column

    def with_dtype(self, name, dtype, seqlens=(512, 2048)):
        rows = [f"{dtype},{seqlen},{sample!r}" for seqlen in seqlens for sample in self.samples(seqlen)]
        return self.write(name, "\n".join(["dtype,seqlen_q,latency_us", *rows]) + "\n")

    def test_an_ignored_column_may_differ(self):
        files = self.with_dtype("fp8.csv", "e4m3"), self.with_dtype("sdpa.csv", "f16")
        self.assert_refused(["latency", *files], "it has no samples of dtype=e4m3 seqlen_q=512")
        report = self.report(*files, "--ignore", "dtype")
        self.assertEqual([compared["configuration"] for compared in report["configurations"]],
                         [{"seqlen_q": "512"}, {"seqlen_q": "2048"}])
        self.assertIn("dtype: e4m3 for the candidate, f16 for the baseline", report["notes"])

    def test_what_cannot_be_ignored(self):
        files = self.with_dtype("fp8.csv", "e4m3"), self.with_dtype("sdpa.csv", "f16")
        self.assert_refused(["latency", *files, "--ignore", "mask"], "fp8.csv: it has no column mask", "dtype, seqlen_q")
        self.assert_refused(["latency", *files, "--ignore", "seqlen_q"],
                            "without seqlen_q two of its configurations are the same: dtype=e4m3")

    # ---- verdicts

    def test_without_requirements_it_measures(self):
        run = self.run_it("latency", *self.two_files(ratio=2))
        self.assertEqual((run.returncode, run.stderr), (MET, ""))
        self.assertIn("all have head_dim=64", run.stdout)
        self.assertIn("fast on NVIDIA H200", run.stdout)
        self.assertIn("nothing is required", run.stdout.splitlines()[-1])

    def test_requirements_that_are_met(self):
        run = self.run_it("latency", *self.two_files(ratio=0.9), "--require-ratio", "1.02")
        self.assertEqual((run.returncode, run.stderr), (MET, ""))
        self.assertTrue(run.stdout.splitlines()[-1].startswith("met: ratio at most 1.02 in all 2"), run.stdout)

    def test_names_the_first_configuration_that_fails(self):
        run = self.run_it("latency", *self.two_files(ratio=1.2), "--require-ratio", "1.05")
        self.assertEqual((run.returncode, run.stderr), (NOT_MET, ""))
        last = run.stdout.splitlines()[-1]
        self.assertIn("in 1 of 2 configurations; first seqlen_q=2048 head_dim=64: ratio 1.2", last)
        self.assertEqual(run.stdout.count("NOT MET"), 1)

    def test_the_upper_end_of_the_interval_is_what_counts(self):
        files = self.two_files(ratio=1.0)
        row = self.report(*files)["configurations"][1]
        low, high = row["ratio_interval"]
        self.assertTrue(low <= row["ratio"] < high)
        between = (row["ratio"] + high) / 2
        self.assertEqual(self.report(*files, "--require-ratio", repr(between))["configurations"][1]["unmet"][0][:5], "ratio")
        self.assertEqual(self.report(*files, "--require-ratio", repr(high))["configurations"][1]["unmet"], [])

    def test_the_effect_is_positive_when_the_candidate_is_faster(self):
        fast, slow = self.csv("a.csv", {512: self.samples(9)}), self.csv("b.csv", {512: self.samples(10)})
        self.assertGreater(self.report(fast, slow, "--require-effect", "0.8")["configurations"][0]["hedges_g"], 0.8)
        run = self.run_it("latency", slow, fast, "--require-effect", "0.8")
        self.assertEqual(run.returncode, NOT_MET)
        self.assertIn("Hedges' g -", run.stdout.splitlines()[-1])

    def test_both_requirements_count(self):
        files = self.two_files()
        for ratio, effect, code in [("1.05", "-5", MET), ("1.05", "5", NOT_MET), ("0.5", "-5", NOT_MET)]:
            run = self.run_it("latency", *files, "--require-ratio", ratio, "--require-effect", effect)
            self.assertEqual(run.returncode, code, (ratio, effect, run.stdout))

    def test_intervals_that_must_be_apart(self):
        for ratio, code, word in [(0.9, MET, "met: faster, with intervals apart in all 1"),
                                  (1.0, NOT_MET, "the intervals of the medians overlap"), (1.2, NOT_MET, "the candidate is slower")]:
            base = self.samples(10)
            files = self.csv("a.csv", {512: [ratio * sample for sample in base]}), self.csv("b.csv", {512: base})
            run = self.run_it("latency", *files, "--require-non-overlap")
            self.assertEqual(run.returncode, code, run.stdout)
            self.assertIn(word, run.stdout.splitlines()[-1])

    def test_a_latency_that_must_not_be_exceeded(self):
        file = self.csv("a.csv", {512: self.samples(250)})
        _, high = self.report(file, file)["configurations"][0]["candidate"]["interval"]
        for limit, code in [(f"{high!r}us", MET), (f"{high * 0.999!r}us", NOT_MET), ("1ms", MET), ("0.0001s", NOT_MET),
                            ("255000ns", MET)]:
            report = self.run_it("latency", file, file, "--require-at-most", limit)
            self.assertEqual(report.returncode, code, report.stdout)
        run = self.run_it("latency", file, file, "--require-at-most", "100us", "--json", "report.json")
        self.assertRegex(run.stdout.splitlines()[-1], r"not met: at most 100 us .* the median's interval ends at 2\d\d\.?\d* us")
        self.assertEqual(json.loads((self.folder / "report.json").read_text())["require_at_most"], "100us")

    # ---- properties of the figures

    def test_percentiles_are_shown(self):
        samples = self.samples(9, count=150)
        of_100 = statistics.quantiles(samples, n=100, method="inclusive")
        file = self.csv("a.csv", {512: samples})
        shown = self.report(file, file)["configurations"][0]["candidate"]
        for name, level in (("median", 50), ("p90", 90), ("p99", 99)):
            self.assertAlmostEqual(shown[name], of_100[level - 1], places=9)
        self.assertIn(f"p90 {of_100[89]:.5g} p99 {of_100[98]:.5g} n=150", self.run_it("latency", file, file).stdout)

    def test_says_what_each_side_was_measured_with(self):
        files = self.two_files()
        origin = "# driver: 580.95\n# cuda_runtime: 13000\n# pytorch: 2.11.0\n# cudnn: 91900\n"
        self.write("sdpa.csv", origin + (self.folder / "sdpa.csv").read_text())
        self.assertIn("sdpa.csv: flash on NVIDIA H200, driver 580.95, CUDA runtime 13000, PyTorch 2.11.0, cuDNN 91900\n",
                      self.run_it("latency", *files).stdout)

    def test_equal_files_have_ratio_one(self):
        file = self.csv("a.csv", {512: self.samples(9)})
        row = self.report(file, file)["configurations"][0]
        self.assertEqual((row["ratio"], row["hedges_g"], row["medians_overlap"]), (1, 0, True))
        self.assertTrue(row["ratio_interval"][0] < 1 < row["ratio_interval"][1])

    def test_the_order_of_rows_and_columns_and_other_configurations_change_no_figure(self):
        samples = {512: self.samples(9), 2048: self.samples(100)}
        base = self.csv("base.csv", {512: self.samples(10), 2048: self.samples(90)})
        first = self.report(self.csv("a.csv", samples), base)["configurations"]
        header, *rows = (self.folder / "a.csv").read_text().splitlines()[1:]
        self.random.shuffle(rows)
        turned = [",".join(reversed(line.split(","))) for line in [header, *rows]]
        self.write("a.csv", "\n".join(turned))
        again = self.report("a.csv", base)["configurations"]
        by_seqlen = [sorted(rows, key=lambda row: row["configuration"]["seqlen_q"]) for rows in (first, again)]
        self.assertEqual(*by_seqlen)
        alone = self.report(self.csv("b.csv", {2048: samples[2048]}),
                            self.csv("c.csv", {2048: [float(line.split(",")[-1]) for line in
                                                      (self.folder / "base.csv").read_text().splitlines()
                                                      if line.startswith("fast,2048")]}))["configurations"]
        self.assertEqual(alone, [row for row in first if row["configuration"]["seqlen_q"] == "2048"])

    def test_the_same_seed_gives_the_same_bytes(self):
        arguments = ["latency", *self.two_files(), "--json", "-", "--seed"]
        self.assertEqual(self.run_it(*arguments, "7").stdout, self.run_it(*arguments, "7").stdout)
        self.assertNotEqual(self.run_it(*arguments, "7").stdout.replace('"seed": 7', ""),
                            self.run_it(*arguments, "8").stdout.replace('"seed": 8', ""))

    def test_writes_json_beside_the_text(self):
        run = self.run_it("latency", *self.two_files(), "--json", "report.json")
        self.assertIn("Hedges' g", run.stdout)
        report = json.loads((self.folder / "report.json").read_text())
        self.assertEqual((report["resamples"], report["confidence"], report["unit"]), (10000, 0.95, "us"))
        self.assertEqual(report["baseline"]["implementation"], "flash")
        self.assertEqual([row["candidate"]["samples"] for row in report["configurations"]], [40, 40])

    # ---- what is read

    def test_one_column_is_enough(self):
        rows = "".join(f"{sample}\n" for sample in self.samples(3))
        file = self.write("a.csv", "\ufefflatency_ms\r\n\n" + rows.replace("\n", "\r\n"))
        self.assertIn("all samples", self.run_it("latency", file, file).stdout)

    def test_chooses_one_of_several_implementations(self):
        ours = self.csv("ours.csv", {512: self.samples(9)})
        flash = self.csv("flash.csv", {512: self.samples(10)}, implementation="flash")
        both = self.write("both.csv", (self.folder / ours).read_text() +
                          "".join((self.folder / flash).read_text().splitlines(True)[2:]))
        self.assert_refused(["latency", ours, both], "both.csv", "--baseline", "fast, flash")
        self.assert_refused(["latency", ours, both, "--baseline", "math"], "both.csv", "math", "fast, flash")
        chosen = self.report(both, both, "--candidate", "fast", "--baseline", "flash")
        self.assertEqual(chosen["configurations"], self.report(ours, flash)["configurations"])

    def test_notes_clocks_and_metadata_that_differ(self):
        ours = self.csv("a.csv", {512: self.samples(9)}, clock=1980)
        theirs = self.csv("b.csv", {512: self.samples(9)}, clock=1500)
        self.write("b.csv", "# driver: 2\n" + (self.folder / theirs).read_text())
        self.write("a.csv", "# driver: 1\n" + (self.folder / ours).read_text())
        notes = [line for line in self.run_it("latency", ours, theirs).stdout.splitlines() if line.startswith("note: ")]
        self.assertEqual(len(notes), 2, notes)
        self.assertIn("driver: 1 for the candidate, 2 for the baseline", notes[0])
        self.assertIn("1980 to 1980 MHz for the candidate, 1500 to 1500", notes[1])

    def test_constant_samples(self):
        a, b = self.csv("a.csv", {512: [2.0] * 20}), self.csv("b.csv", {512: [4.0] * 20})
        row = self.report(a, b, "--require-ratio", "0.5")["configurations"][0]
        self.assertEqual((row["ratio"], row["ratio_interval"], row["hedges_g"]), (0.5, [0.5, 0.5], None))
        run = self.run_it("latency", a, b)
        self.assertIn("undefined", run.stdout)
        self.assertIn("note: seqlen_q=512 head_dim=64: all samples are constant", run.stdout)
        self.assert_refused(["latency", a, b, "--require-effect", "0.8"], "constant", "--require-effect")

    # ---- refusals

    def test_files_that_cannot_be_compared(self):
        samples = self.samples(9)
        a = self.csv("a.csv", {512: samples})
        for other, *words in [
            (self.csv("ms.csv", {512: samples}, unit="ms"), "in ms", "in us", "unit"),
            (self.csv("device.csv", {512: samples}, device="NVIDIA A100"), "A100", "H200", "device"),
            (self.csv("more.csv", {512: samples, 1024: samples}), "seqlen_q=1024", "a.csv"),
            (self.csv("other.csv", {1024: samples}), "seqlen_q=512"),
            (self.csv("few.csv", {512: samples[:5]}), "few.csv", "5 samples", "fewer than 6"),
            (self.write("columns.csv", "batch,latency_us\n1,2\n"), "columns"),
        ]:
            with self.subTest(other=other):
                self.assert_refused(["latency", a, other], *words)
        six = self.csv("six.csv", {512: samples[:6]})
        self.assertEqual(self.run_it("latency", a, six).returncode, MET)
        self.assert_refused(["latency", a, six, "--confidence", "0.99"], "fewer than 8")

    def test_files_that_are_broken(self):
        good = self.csv("good.csv", {512: self.samples(9)})
        for text, *words in [
            ("", "no header"),
            ("# device: x\n", "no header"),
            ("latency_us\n", "no samples"),
            ("seqlen_q,latency\n512,2\n", ":1", "latency_us"),
            ("seqlen_q,latency_min\n512,2\n", ":1", "latency_us"),
            ("latency_us,latency_ms\n1,2\n", ":1", "two columns"),
            ("a,a,latency_us\n1,1,2\n", ":1", "two columns a"),
            ("a,,latency_us\n1,1,2\n", ":1", "column 2"),
            ("a,latency_us\n1\n", ":2", "1 fields", "2"),
            ("a,latency_us\n1,2,3\n", ":2", "3 fields"),
            ('a,latency_us\n"1",2\n', ":2", "quote"),
            ("latency_us\n1\nnan\n", ":3", "nan"),
            ("latency_us\n1\ninf\n", ":3", "inf"),
            ("latency_us\n1\n-1\n", ":3", "-1"),
            ("latency_us\n1\n0\n", ":3", "positive"),
            ("latency_us\n1\n1e999\n", ":3", "1e999"),
            ("latency_us\n1\nfast\n", ":3", "fast"),
            ("a,latency_us\n1,\n", ":2", "''"),
            ("latency_us\n1\n2 us\n", ":3", "2 us"),
            ("sm_clock_mhz,latency_us\n0,1\n", ":2", "sm_clock_mhz"),
        ]:
            with self.subTest(text=text):
                bad = self.write("bad.csv", text)
                self.assert_refused(["latency", bad, good], "bad.csv", *words)
        self.assert_refused(["latency", good, "missing.csv"], "missing.csv")
        self.assert_refused(["latency", good, "."], "cannot be read")

    def test_files_without_an_end(self):
        good = self.csv("good.csv", {512: self.samples(10)})
        self.assert_refused(["latency", "/dev/zero", good], "/dev/zero:1: ", "64 KiB")
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        yes = subprocess.Popen(["sh", "-c", f"(echo latency_us; yes '{12.5:<1000}') >'{pipe}'"],
                               stderr=subprocess.DEVNULL)
        run = self.run_it("latency", pipe, good)
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (UNJUDGED, "", 1))
        self.assertIn("64 MiB", run.stderr)
        yes.wait(timeout=60)

    def test_numbers_that_are_none(self):
        files = self.two_files()
        for value in ("nan", "-nan", "inf", "-inf", "1e999"):
            for option in ("--require-ratio", "--require-effect", "--confidence"):
                self.assert_refused(["latency", *files, f"{option}={value}"], option)
            for option in ("--warmup-ms", "--most-seconds"):
                self.assert_refused(["tile", "-o", "tile.csv", f"{option}={value}"], option)

    def test_bad_usage(self):
        files = self.two_files()
        for arguments, *words in [
            (["latency", *files, "--require-at-most", "255"], "--require-at-most", "255us"),
            (["latency", *files, "--require-at-most", "-1us"], "--require-at-most"),
            (["latency", *files, "--require-at-most", "infus"], "--require-at-most"),
            (["latency", *files, "--require-at-most", "2 us"], "--require-at-most"),
            ([], "--help"),
            (["compare"], "--help"),
            (["latency"], "candidate.csv"),
            (["latency", files[0]], "baseline.csv"),
            (["latency", *files, "--require-ratio", "fast"], "--require-ratio"),
            (["latency", *files, "--require-ratio", "0"], "--require-ratio"),
            (["latency", *files, "--confidence", "1"], "--confidence"),
            (["latency", *files, "--resamples", "0"], "--resamples"),
            (["latency", *files, "--resamples", "399"], "--resamples", "at least 400"),
            (["latency", *files, "--seed", "-1"], "--seed"),
            (["latency", *files, "--json", "no/such/folder.json"], "folder.json"),
            (["measure", "--kernel", "scalar"], "--shape"),
            (["tile"], "--output"),
            (["tile", "-o", "out.csv", "--samples", "5"], "--samples"),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, *words)

    def test_measuring_needs_a_gpu_and_tile_cublas(self):
        for arguments, words in [(["measure", "--kernel", "scalar", "--shape", "1,2,64,64,64"], "GPU"),
                                 (["tile"], "GPU|cuBLAS")]:
            run = self.run_it(*arguments, "-o", "out.csv", CUDA_VISIBLE_DEVICES="")
            self.assertEqual((run.returncode, run.stderr.count("\n")), (UNJUDGED, 1))
            self.assertRegex(run.stderr, words)
            self.assertFalse((self.folder / "out.csv").exists())

    def test_a_library_that_is_not_cublas_is_refused(self):
        if "built without CUDA" in self.run_it("tile", "-o", "out.csv", CUDA_VISIBLE_DEVICES="").stderr:
            self.skipTest("tile-gate was built without CUDA")
        libraries = subprocess.run(["ldd", TILE_GATE], capture_output=True, text=True, check=True).stdout
        shutil.copy(re.search(r"libm\.so\.6 => (\S+)", libraries)[1], self.folder / "libcublas.so.13")
        run = self.run_it("tile", "-o", "out.csv", LD_LIBRARY_PATH=str(self.folder))
        self.assertEqual((run.returncode, run.stderr.count("\n")), (UNJUDGED, 1))
        self.assertIn("tile-gate: cuBLAS: the library has no function cublasCreate_v2", run.stderr)
        self.assertIn("LD_LIBRARY_PATH", run.stderr)

    def test_help_is_a_success(self):
        for arguments, word in [(["--help"], "measure"), (["latency", "--help"], "tile-gate latency"),
                                (["measure", "--help"], "--warmup-ms"), (["tile", "--help"], "--samples")]:
            run = self.run_it(*arguments)
            self.assertEqual((run.returncode, run.stderr), (MET, ""))
            self.assertIn(word, run.stdout)


if __name__ == "__main__":
    unittest.main()
