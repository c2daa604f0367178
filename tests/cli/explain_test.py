"""--explain-tolerance: the table of one element, and what is refused.

usage: explain_test.py TILE_DIFF
"""

import re

import h5py

import small_dump
from tile_diff_case import MATCH, TileDiffCase, main

ELEMENTS = {"q": "0,2,17,3", "k": "0,2,21,3,1", "v": "0,2,33,3", "s": "0,3,5,20", "m": "0,3,7,0,2", "p": "0,1,23,39",
            "l": "0,1,23,0,1", "acc": "0,1,22,9", "o": "0,1,22,9", "lse": "0,1,22,0"}
INDICES = {"q": (0, 2, 17, 3), "k": (0, 2, 1, 21, 3), "v": (0, 2, 0, 33, 3), "s": (0, 3, 5, 20), "m": (0, 3, 2, 7),
           "p": (0, 1, 23, 39), "l": (0, 1, 1, 23), "acc": (0, 1, 2, 22, 9), "o": (0, 1, 22, 9), "lse": (0, 1, 22)}
HEAD = re.compile(r"^got (\S+)  expected (\S+)  tolerance (\S+)  \|got - expected\| / tolerance (.+)$")
# Copies: these tolerances are 0.
EXACT = ("q", "k", "v", "m")


class Explain(TileDiffCase):
    def setUp(self):
        super().setUp()
        small_dump.write(self.file)

    def explain(self, element, **options):
        run = self.run_it(self.file, "--explain-tolerance", element, **options)
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        lines = run.stdout.splitlines()
        self.assertLessEqual(len(lines), 30)
        self.assertLessEqual(max(map(len, lines)), 110)
        return lines

    def test_every_stage(self):
        with h5py.File(self.file) as f:
            stored = {stage: float(f[small_dump.DATASETS[stage]][INDICES[stage]]) for stage in ELEMENTS}
        for stage, place in ELEMENTS.items():
            with self.subTest(stage):
                lines = self.explain(f"{stage},{place}")
                self.assertTrue(lines[0].startswith(f"{stage} at batch 0, head "), lines[0])
                got, expected, tolerance, ratio = HEAD.match(lines[1]).groups()
                self.assertAlmostEqual(float(got), stored[stage], delta=1e-8 * abs(stored[stage]))
                self.assertLessEqual(abs(float(got) - float(expected)), float(tolerance))
                self.assertLessEqual(float(ratio), 1)
                self.assertEqual(float(tolerance) == 0, stage in EXACT)

    def test_terms_add_up(self):
        for stage in ("s", "p", "l", "acc", "o", "lse"):
            with self.subTest(stage):
                values = []
                for line in self.explain(f"{stage},{ELEMENTS[stage]}")[4:]:
                    words = line.split()
                    if words[1:] == ["tolerance"]:
                        break
                    # Brackets: the other bound of the same sum. A formula may go on in a second line.
                    if re.match(r"^ {0,10}[0-9]", line[:11]):
                        values.append(float(words[0]))
                self.assertEqual(words[1:], ["tolerance"])
                self.assertGreater(len(values), 2)
                self.assertAlmostEqual(sum(values) / float(words[0]), 1, delta=0.02)

    def test_tolerance_is_that_of_the_report(self):
        values = small_dump.stages(small_dump.inputs())
        spoiled = values["acc"].copy()
        spoiled[INDICES["acc"]] = 50
        small_dump.write(self.file, {"acc": spoiled})
        worst = self.judge(self.file)["stages"][small_dump.STAGES.index("acc")]["worst"][0]
        lines = self.explain("acc,0,1,22,9,2")
        self.assertEqual(HEAD.match(lines[1]).group(1), "50")
        self.assertEqual(HEAD.match(lines[1]).group(3), f"{worst['tolerance']:.3g}")

    def test_unwritten_element(self):
        values = small_dump.stages(small_dump.inputs())
        values["s"][INDICES["s"]] = small_dump.UNWRITTEN
        small_dump.write(self.file, values)
        self.assertIn("got nothing", self.explain("s,0,3,5,20")[1])

    def refused(self, element, *words, arguments=()):
        run = self.run_it(self.file, "--explain-tolerance", element, *arguments)
        self.assert_one_line(run, *words)
        self.assertEqual(run.stdout, "")

    def test_wrong_text(self):
        self.refused("x,0,0,0,0", 'no stage "x"', "name one of q, k, v")
        self.refused("", "has no name")
        self.refused("s", "has 1 fields", "s,BATCH,HEAD,ROW,COL")
        self.refused("acc,0,0,0,0,0,0", "has 7 fields", "acc,BATCH,HEAD,ROW,COL[,KV_TILE]")
        self.refused("s,0,0,0,1.5", '"1.5" is not a number')
        self.refused("s,0,0,0,two\nlines", "two?lines")

    def test_outside_the_problem(self):
        self.refused("s,0,4,0,0", "head 4", "0 to 3")
        self.refused("s,0,0,24,0", "row 24", "0 to 23")
        self.refused("s,0,0,0,40", "key 40", "0 to 39")
        self.refused("acc,0,0,0,0,3", "KV tile 3", "0 to 2")
        self.refused("v,0,0,0,0,2", "q block 2", "0 to 1")

    def test_tile_that_was_not_captured(self):
        small_dump.write(self.file, only=["s", "o"])
        self.refused("p,0,1,23,39", self.file, "p at batch 0, head 1, row 23, key 39, KV tile 2 was not captured")
        self.explain("s,0,1,23,39")
        self.explain("o,0,1,22,9")

    def test_other_options(self):
        for arguments in (["--atol", "1"], ["--rtol", "1"], ["--json", "-"], ["--npy", "x"], ["--against", self.file]):
            self.refused("s,0,0,0,0", "excludes", arguments=arguments)

    def test_file_that_cannot_be_read(self):
        self.file.write_text("q k v\n")
        self.refused("s,0,0,0,0", self.file)

    def test_help(self):
        text = self.run_it("--help").stdout
        self.assertIn("--explain-tolerance STAGE,BATCH,HEAD,ROW,COL[,KV_TILE]", text)


if __name__ == "__main__":
    main()
