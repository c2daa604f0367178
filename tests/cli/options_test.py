"""What tile-diff says about dumps it can judge: exit codes, the two reports, arrays, tolerances, pairs.

usage: options_test.py TILE_DIFF
"""

import json
import re

import h5py
import numpy as np

import small_dump
from tile_diff_case import DIVERGED, MATCH, UNJUDGED, TileDiffCase, main


def spoiled(stage, index, value):
    """The stages with one value replaced."""
    values = small_dump.stages(small_dump.inputs())
    values[stage] = values[stage].copy()
    values[stage][index] = value
    return {stage: values[stage]}


class Verdicts(TileDiffCase):
    def test_healthy_dump(self):
        small_dump.write(self.file)
        run = self.run_it(self.file)
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        self.assertTrue(run.stdout.splitlines()[-1].startswith("match: "), run.stdout)
        report = self.judge(self.file)
        self.assertEqual(report["first_divergence"], None)
        self.assertEqual([stage["name"] for stage in report["stages"]], small_dump.STAGES)
        for stage in report["stages"]:
            self.assertGreater(stage["compared"], 0, stage["name"])
            self.assertEqual([stage[key] for key in ("outside", "nonfinite", "unwritten", "inherited")], [0] * 4)

    def test_mistake_that_everything_inherits(self):
        given = small_dump.inputs()
        small_dump.write(self.file, small_dump.stages(given, p_factor=1.001), given)
        run = self.run_it(self.file)
        self.assertEqual((run.returncode, run.stderr), (DIVERGED, ""))
        self.assertTrue(run.stdout.splitlines()[-1].startswith("diverged: p is the first wrong stage"))
        report = self.judge(self.file)
        outside = {stage["name"]: stage["outside"] for stage in report["stages"]}
        inherited = {stage["name"]: stage["inherited"] for stage in report["stages"]}
        self.assertEqual(outside, {**dict.fromkeys(small_dump.STAGES, 0), "p": small_dump.H * 24 * 40})
        for stage in ("l", "acc", "lse"):
            self.assertGreater(inherited[stage], 0, stage)

    def test_every_stage_and_its_coordinates(self):
        # batch, head, q block or row, KV tile and row or key, column
        places = {
            "q": ((0, 2, 17, 3), dict(head=2, row=17, col=3)),
            "k": ((0, 2, 1, 21, 3), dict(head=2, q_block=1, row=21, col=3, kv_tile=1)),
            "v": ((0, 2, 1, 33, 3), dict(head=2, q_block=1, row=33, col=3, kv_tile=2)),
            "s": ((0, 3, 5, 20), dict(head=3, row=5, col=20, kv_tile=1)),
            "m": ((0, 3, 2, 7), dict(head=3, row=7, kv_tile=2)),
            "p": ((0, 1, 23, 39), dict(head=1, row=23, col=39, kv_tile=2)),
            "l": ((0, 1, 1, 23), dict(head=1, row=23, kv_tile=1)),
            "acc": ((0, 1, 2, 22, 9), dict(head=1, row=22, col=9, kv_tile=2)),
            "o": ((0, 1, 22, 9), dict(head=1, row=22, col=9)),
            "lse": ((0, 1, 22), dict(head=1, row=22)),
        }
        for stage, (index, place) in places.items():
            with self.subTest(stage):
                small_dump.write(self.file, spoiled(stage, index, 50))
                first = self.judge(self.file)["first_divergence"]
                self.assertEqual(first["stage"], stage)
                self.assertEqual(first["got"], 50)
                for key, value in place.items():
                    self.assertEqual(first[key], value, key)

    def test_nonfinite_and_unwritten_elements(self):
        for value, counted in ((np.nan, "nan"), (np.inf, "inf"), (small_dump.UNWRITTEN, "unwritten")):
            small_dump.write(self.file, spoiled("acc", (0, 1, 2, 22, 9), value))
            report = self.judge(self.file)
            acc = report["stages"][small_dump.STAGES.index("acc")]
            self.assertEqual((report["first_divergence"]["stage"], acc[counted]), ("acc", 1))
            self.assertEqual(acc[f"first_{counted}"]["row"], 22)

    def test_help(self):
        run = self.run_it("--help")
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        for option in ("--json", "--npy", "--atol", "--rtol", "--top", "--threads", "Exit code"):
            self.assertIn(option, run.stdout)


class Options(TileDiffCase):
    def setUp(self):
        super().setUp()
        self.given = small_dump.inputs()
        small_dump.write(self.file, small_dump.stages(self.given, p_factor=1.001), self.given)

    def test_json_file_holds_what_json_on_stdout_does(self):
        target = self.folder / "report.json"
        run = self.run_it(self.file, "--json", target)
        self.assertEqual(run.returncode, DIVERGED)
        self.assertIn("diverged: p", run.stdout)
        self.assertEqual(target.read_text(), self.run_it(self.file, "--json", "-").stdout)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["report.json", "run.h5"])

    def test_each_report_holds_what_its_format_prints(self):
        text, as_json = self.folder / "report.txt", self.folder / "report.json"
        run = self.run_it(self.file, "--report", f"text={text}", "--report", f"json={as_json}")
        self.assertEqual(run.returncode, DIVERGED)
        self.assertEqual(text.read_text(), run.stdout)
        self.assertEqual(as_json.read_text(), self.run_it(self.file, "--json", "-").stdout)
        self.assertEqual(as_json.read_text(), self.run_it(self.file, "--report", "json=-").stdout)

    def test_reports_of_what_cannot_be_judged(self):
        text, as_json = self.folder / "report.txt", self.folder / "report.json"
        run = self.run_it(self.folder / "missing.h5", "--report", f"text={text}", "--report", f"json={as_json}")
        self.assert_one_line(run, "missing.h5")
        self.assertEqual("tile-diff: " + text.read_text(), run.stderr)
        self.assertEqual(json.loads(as_json.read_text())["verdict"], "unjudged")

    def test_reports_that_cannot_be_asked_for(self):
        for asked in ("junk=out", "json", "json=", "=out", ""):
            with self.subTest(asked):
                run = self.run_it(self.file, "--report", asked)
                self.assert_one_line(run, "--report", "text (what is printed), json (for programs)")
        run = self.run_it(self.file, "--report", "json=-", "--report", "text=-")
        self.assert_one_line(run, "two reports go to stdout")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.h5"])

    def test_json_file_of_what_cannot_be_judged(self):
        target = self.folder / "report.json"
        run = self.run_it(self.folder / "missing.h5", "--json", target)
        self.assert_one_line(run, "missing.h5")
        self.assertEqual(json.loads(target.read_text())["verdict"], "unjudged")

    def test_top(self):
        for top in (0, 1, 5, 30):
            report = self.judge(self.file, "--top", str(top))
            self.assertEqual(len(report["stages"][small_dump.STAGES.index("p")]["worst"]), top)
        self.assertEqual(len(self.judge(self.file)["stages"][small_dump.STAGES.index("p")]["worst"]), 5)

    def test_narrowed_to_a_place(self):
        values = spoiled("p", (0, 2, 17, 21), 3)["p"]
        values[0, 1, 5, 7] = 2
        small_dump.write(self.file, {"p": values}, self.given)
        table = re.compile(r"^worst of (\w+)\n(.*row in tile.*)\n((?: *\d.*\n)+)", re.MULTILINE)
        def worst(*arguments):
            run = self.run_it(self.file, "--no-causes", *arguments)
            self.assertEqual(run.returncode, DIVERGED, run.stderr)
            self.assertIn("\ndiverged: p is the first wrong stage", run.stdout)
            found = table.search(run.stdout)
            if found is None:
                return run.stdout
            # Coordinates that are 0 everywhere have no column.
            names = re.split(r" {2,}", found[2].strip())
            places = [dict(zip(names, line.split())) for line in found[3].splitlines()]
            return found[1], [tuple(int(place.get(name, 0)) for name in ("head", "q block", "row", "key")) for place in places]
        both = [(2, 1, 17, 21), (1, 0, 5, 7)]  # head, query block, row, key
        self.assertEqual(sorted(worst()[1]), sorted(both))
        self.assertEqual(worst("--row", "17"), ("p", both[:1]))
        self.assertEqual(worst("--tile", "0"), ("p", both[1:]))
        self.assertEqual(worst("--stage", "p", "--row", "5", "--tile", "0"), ("p", both[1:]))
        self.assertIn("\nnothing of p diverges by itself in row 5, KV tile 1\n", worst("--row", "5", "--tile", "1"))
        alone = worst("--stage", "s")
        self.assertIn("\nnothing of s diverges by itself\n", alone)
        self.assertRegex(alone, r"\nstage .*\ns +\d.*  ok\n\n")
        self.assert_one_line(self.run_it(self.file, "--stage", "x"), "it has no stage x", "q, k, v, s, m, p, l, acc, o, lse")
        for wrong in ("-1", "few"):
            self.assert_one_line(self.run_it(self.file, "--row", wrong), "--row", f"{wrong} is not a whole number from 0 on")

    def test_threads_change_nothing(self):
        outputs = {self.run_it(self.file, "--threads", str(threads)).stdout for threads in (0, 1, 2, 7, 1024)}
        self.assertEqual(len(outputs), 1)

    def test_tolerances(self):
        self.assertEqual(self.judge(self.file, "--rtol", "0.01", "--atol", "1e-5")["verdict"], "match")
        self.assertEqual(self.judge(self.file, "--rtol", "0.01")["first_divergence"]["stage"], "s")
        self.assertEqual(self.judge(self.file, "--atol", "0.5")["verdict"], "match")
        self.assertEqual(self.judge(self.file, "--rtol", "1e-5", "--atol", "1e-6")["verdict"], "diverged")
        self.assertEqual(self.judge(self.file, "--atol", "0")["first_divergence"]["stage"], "s")

    def test_tolerance_that_everything_passes_is_no_match(self):
        report = self.judge(self.file, "--atol", "1000")
        self.assertEqual(report["verdict"], "unjudged")
        self.assertIn("no element of o could be judged", report["reason"])
        self.assertIn("one constant would pass", " ".join(report["warnings"]))


class Declarations(TileDiffCase):
    """What a healthy dump declares wrong is suggested, and --declare judges as if it were mended."""

    def setUp(self):
        super().setUp()
        small_dump.write(self.file)
        with h5py.File(self.file, "r+") as f:
            f["/tiles/s"].attrs["scaled"] = False

    def test_suggested(self):
        run = self.run_it(self.file)
        self.assertEqual(run.returncode, DIVERGED)
        self.assertIn("\ndeclare: s.scaled = true; then it matches\n", run.stdout)
        self.assertEqual(self.judge(self.file)["declare"], {"assignments": {"s.scaled": "true"}, "then": None})
        self.assertNotIn("declare", self.judge(self.file, "--no-causes"))

    def test_declared(self):
        self.assertEqual(self.judge(self.file, "--declare", "s.scaled=true")["verdict"], "match")
        run = self.run_it(self.file, "--declare", "s.scaled=true", "--explain-tolerance", "s,0,0,1,1")
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        both = self.judge(self.file, "--declare", "s.scaled=true", "--declare", "problem.mask=causal")
        self.assertEqual(both["first_divergence"]["stage"], "s")

    def test_suggested_alone(self):
        run = self.run_it(self.file, "--suggest")
        self.assertEqual((run.returncode, run.stdout), (DIVERGED, "--declare s.scaled=true\n"))
        self.assertEqual(run.stderr.splitlines(), [
            "then it matches", "beside the Capture (dump/HOOKS.md):", "  options.units.s_scaled = true;",
            "in the file, with h5py (dump/FORMAT.md):", '  f["/tiles/s"].attrs["scaled"] = True'])
        self.assertEqual(self.judge(self.file, *run.stdout.split())["verdict"], "match")
        with h5py.File(self.file, "r+") as f:
            exec(run.stderr.splitlines()[-1].strip(), {"f": f})
        run = self.run_it(self.file, "--suggest")
        self.assertEqual((run.returncode, run.stdout), (MATCH, ""))
        self.assertTrue(run.stderr.startswith("nothing to declare: match: "), run.stderr)

    def test_what_is_not_declared_is_suggested(self):
        given = small_dump.inputs()
        rounded = small_dump.stages(given)["s"].astype(np.float16).astype(np.float32)
        small_dump.write(self.file, {"s": rounded}, given, only=["s"])
        run = self.run_it(self.file, "--suggest")
        self.assertEqual((run.returncode, run.stdout), (UNJUDGED, "--declare s.cast=f16\n"))
        lines = run.stderr.splitlines()
        self.assertEqual((lines[0], lines[2]), ("then it matches", "  options.units.s_cast = tilescope::Dtype::f16;"))
        with h5py.File(self.file, "r+") as f:
            for line in lines[-2:]:
                exec(line.strip(), {"f": f})
            self.assertEqual(list(f.attrs["requires"]), ["/tiles/s/cast"])
        self.assertEqual(self.run_it(self.file).returncode, MATCH)

    def test_nothing_is_suggested_for_a_fault(self):
        given = small_dump.inputs()
        small_dump.write(self.file, small_dump.stages(given, p_factor=1.001), given)
        run = self.run_it(self.file, "--suggest")
        self.assertEqual((run.returncode, run.stdout), (DIVERGED, ""))
        self.assertTrue(run.stderr.startswith("no declaration gets further: diverged: p is "), run.stderr)

    def test_fault_behind_a_declaration(self):
        given = small_dump.inputs()
        values = small_dump.stages(given)
        values["acc"] = values["acc"] * np.float32(1.5)
        small_dump.write(self.file, values, given)
        with h5py.File(self.file, "r+") as f:
            f["/tiles/s"].attrs["scaled"] = False
        declare = self.judge(self.file)["declare"]
        self.assertEqual((declare["assignments"], declare["then"]), ({"s.scaled": "true"}, "acc"))
        mended = self.judge(self.file, "--declare", "s.scaled=true")["causes"]
        self.assertEqual(declare["causes"], [cause for cause in mended if cause["rank"] == 1])
        line = f"\ndeclare: s.scaled = true; what remains is {mended[0]['name']}"
        self.assertIn(line, self.run_it(self.file).stdout)

    def test_declared_of_a_family(self):
        # Scores in units of log2, with the scale, as the family has them; in f32, which P is cast to, too.
        given = small_dump.inputs()
        values = small_dump.stages(given)
        for stage in "sm":
            values[stage] = values[stage] * np.float32(np.log2(np.e))
        small_dump.write(self.file, values, given, only=["s", "m"])
        self.assertEqual(self.judge(self.file)["verdict"], "diverged")
        self.assertEqual(self.judge(self.file, "--like", "cutlass-fmha")["verdict"], "match")
        again = self.judge(self.file, "--like", "cutlass-fmha", "--declare", "s.log_base=e")
        self.assertEqual(again["first_divergence"]["stage"], "s")
        self.assert_one_line(self.run_it(self.file, "--like", "flash"), "none of flash-attention-1, ", "cutlass-fmha")

    def test_what_is_no_declaration(self):
        for assignment, words in (("s.scales=true", "s.scaled=false"), ("s.scaled", "NAME=VALUE"),
                                  ("s.scaled=maybe", "none of true, false"), ("p.scale=0", "scale of p is 0"),
                                  ("p.scale=much", "no number"), ("problem.sink=first", "sink")):
            with self.subTest(assignment):
                self.assert_one_line(self.run_it(self.file, "--declare", assignment), words)

    def test_of_one_recording_alone(self):
        self.assert_one_line(self.run_it("--against", self.file, self.file, "--declare", "s.scaled=true"), "--declare")


class Arrays(TileDiffCase):
    """--npy, read back by NumPy."""

    def arrays(self, *arguments):
        target = self.folder / "arrays"
        self.assertEqual(self.run_it(self.file, *arguments, "--npy", target).returncode, DIVERGED)
        self.assertEqual(sorted(path.name for path in target.iterdir()),
                         ["difference.npy", "expected.npy", "got.npy"])
        return [np.load(target / f"{name}.npy") for name in ("got", "expected", "difference")]

    def test_arrays_of_every_stage(self):
        places = {"q": (0, 2, 17, 3), "k": (0, 2, 1, 21, 3), "v": (0, 2, 0, 33, 3), "s": (0, 2, 5, 20),
                  "m": (0, 2, 2, 7), "p": (0, 2, 23, 39), "l": (0, 2, 2, 23), "acc": (0, 2, 2, 22, 9),
                  "o": (0, 2, 22, 9), "lse": (0, 2, 22)}
        healthy = small_dump.stages(small_dump.inputs())
        for stage, index in places.items():
            with self.subTest(stage):
                small_dump.write(self.file, spoiled(stage, index, 50), only=[stage])
                got, expected, difference = self.arrays()
                self.assertEqual([a.dtype for a in (got, expected, difference)],
                                 [np.float32, np.float64, np.float64])
                with h5py.File(self.file) as f:
                    stored = f[small_dump.DATASETS[stage]][0, 2].astype(np.float32)
                np.testing.assert_array_equal(got, stored)
                np.testing.assert_allclose(expected, healthy[stage][0, 2].astype(np.float64), rtol=2e-3, atol=2e-3)
                np.testing.assert_allclose(difference, got - expected, rtol=1e-12, atol=1e-12)
                self.assertEqual(got[index[2:]], 50)

    def test_tiles_that_were_not_captured_are_nan(self):
        small_dump.write(self.file, spoiled("s", (0, 1, 3, 20), 50), only=["q"])
        with h5py.File(self.file, "r+") as f:
            s = f.create_dataset("tiles/s", (1, small_dump.H, small_dump.SQ, small_dump.SKV), np.float32,
                                 chunks=small_dump.CHUNKS["s"], fillvalue=small_dump.UNWRITTEN)
            s[0, 1, :16, 16:32] = spoiled("s", (0, 1, 3, 20), 50)["s"][0, 1, :16, 16:32]
        got, expected, _ = self.arrays()
        captured = np.zeros(got.shape, bool)
        captured[:16, 16:32] = True
        np.testing.assert_array_equal(np.isnan(got), ~captured)
        np.testing.assert_array_equal(np.isnan(expected), ~captured)
        self.assertEqual(got[3, 20], 50)

    def test_bits_of_unwritten_elements_survive(self):
        small_dump.write(self.file, spoiled("p", (0, 0, 4, 4), small_dump.UNWRITTEN))
        got, _, _ = self.arrays()
        self.assertEqual(got.view(np.uint32)[4, 4], 0x7FD17E5C)

    def test_match_writes_nothing(self):
        small_dump.write(self.file)
        self.assertEqual(self.run_it(self.file, "--npy", self.folder / "arrays").returncode, MATCH)
        self.assertFalse((self.folder / "arrays").exists())


class Pairs(TileDiffCase):
    def setUp(self):
        super().setUp()
        self.other = self.folder / "other.h5"
        small_dump.write(self.file)

    def test_same_dump(self):
        small_dump.write(self.other)
        run = self.run_it("--against", self.other, self.file)
        self.assertEqual(run.returncode, MATCH, run.stdout)
        self.assertIn(str(self.other), run.stdout.splitlines()[-1])
        self.assertEqual(self.judge("--against", self.file, self.file)["verdict"], "match")

    def test_mistake_in_either(self):
        given = small_dump.inputs()
        small_dump.write(self.other, small_dump.stages(given, p_factor=1.001), given)
        for pair in ((self.file, self.other), (self.other, self.file)):
            report = self.judge(pair[0], "--against", pair[1])
            self.assertEqual(report["first_divergence"]["stage"], "p")
            self.assertEqual(report["other"], str(pair[1]))

    def test_nan_in_either(self):
        small_dump.write(self.other, spoiled("o", (0, 0, 3, 3), np.nan))
        for pair in ((self.file, self.other), (self.other, self.file)):
            self.assertEqual(self.judge(pair[0], "--against", pair[1])["first_divergence"]["stage"], "o")

    def test_arrays(self):
        given = small_dump.inputs()
        small_dump.write(self.other, small_dump.stages(given, p_factor=1.001), given)
        target = self.folder / "arrays"
        self.assertEqual(self.run_it("--against", self.other, self.file, "--npy", target).returncode, DIVERGED)
        with h5py.File(self.other) as f:
            np.testing.assert_allclose(np.load(target / "expected.npy"), f["tiles/p"][0, 0], rtol=1e-15)

    def test_other_inputs(self):
        small_dump.write(self.other, given=small_dump.inputs(seed=8))
        self.assert_one_line(self.run_it("--against", self.other, self.file), "/inputs/q differs")

    def test_other_problem(self):
        small_dump.write(self.other)
        with h5py.File(self.other, "r+") as f:
            f["problem"].attrs["mask"] = "causal"
        self.assert_one_line(self.run_it("--against", self.other, self.file), "/problem differs")

    def test_nothing_in_common(self):
        small_dump.write(self.file, only=["s"])
        small_dump.write(self.other, only=["p"])
        self.assert_one_line(self.run_it("--against", self.other, self.file), "no tile")


if __name__ == "__main__":
    main()
