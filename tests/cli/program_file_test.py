"""Declared kernels in files: tile-diff judges them, and refuses what is none in a line.

usage: program_file_test.py TILE_DIFF
"""

import json
import pathlib
import random

import h5py
import jsonschema
import numpy as np

import small_dump
from small_program import COLS, DEPTH, ROWS, STEP, TEXT, computed, write
from tile_diff_case import DIVERGED, MATCH, TileDiffCase, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "oracle/report/report.schema.json").read_text())


class Judged(TileDiffCase):
    def judge_valid(self, *arguments):
        report = self.judge(self.file, *arguments)
        jsonschema.Draft202012Validator(SCHEMA).validate(report)
        return report

    def test_healthy(self):
        write(self.file, *computed())
        report = self.judge_valid()
        self.assertEqual((report["verdict"], report["first_wrong"], report["kernel"]), ("match", None, "gemm"))
        self.assertEqual(report["sizes"], dict(rows=ROWS, cols=COLS, depth=DEPTH, step=STEP))
        self.assertEqual([(s["name"], s["compared"], s["outside"], s["state"]) for s in report["stages"]],
                         [("acc", 3 * ROWS * COLS, 0, "ok"), ("y", ROWS * COLS, 0, "ok")])
        run = self.run_it(self.file)
        self.assertEqual((run.returncode, run.stdout.splitlines()[-1], run.stderr), (MATCH, "match", ""))

    def test_wrong(self):
        write(self.file, *computed(added=0.25))
        report = self.judge_valid("--top", "2")
        self.assertEqual(report["first_wrong"], "y")
        acc, y = report["stages"]
        self.assertEqual((acc["state"], y["state"], y["outside"]), ("ok", "first wrong", ROWS * COLS))
        self.assertEqual(len(y["worst"]), 2)
        _, stored = computed(added=0.25)
        for element in y["worst"]:
            self.assertEqual(element["got"], float(stored["y"][tuple(element["index"])]))
            self.assertAlmostEqual(element["got"] - element["expected"], 0.25, delta=0.01)
        self.assertIn({"slot": "term", "becomes": "acc * c + 0.25"}, [c["rewrites"][0] for c in report["causes"]])
        self.assertEqual(report["search"], {"cut_off": False, "failed": []})

    def test_wrong_without_causes(self):
        write(self.file, *computed(added=0.25))
        self.assertIsNone(self.judge_valid("--no-causes")["causes"])
        run = self.run_it(self.file, "--quiet")
        self.assertEqual((run.returncode, run.stdout.count("\n"), run.stderr), (DIVERGED, 1, ""))

    def test_elements_as_other_types(self):
        """float32 for all of them; of bf16 the HDF5 float; the last state alone."""
        inputs, stages = computed()
        floats = dict(a=inputs["a"].astype(np.float32), w=(inputs["w"].astype(np.uint32) << 16).view(np.float32), c=inputs["c"])
        write(self.file, floats, dict(acc=stages["acc"][-1], y=stages["y"].astype(np.float32)))
        self.assertEqual([s["compared"] for s in self.judge_valid()["stages"]], [ROWS * COLS, ROWS * COLS])
        write(self.file, inputs, stages)
        with h5py.File(self.file, "r+") as f:
            del f["program/inputs/w"]
            bf16 = h5py.h5t.IEEE_F32LE.copy()
            bf16.set_fields(15, 7, 8, 0, 7)
            bf16.set_size(2)
            bf16.set_ebias(127)
            dataset = h5py.h5d.create(f["program/inputs"].id, b"w", bf16, h5py.h5s.create_simple((COLS, DEPTH)))
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, inputs["w"], mtype=bf16)
            f["program/inputs/w"].attrs["dtype"] = "bf16"
        self.assertEqual(self.judge_valid()["verdict"], "match")

    def test_codes_of_fp8(self):
        """1.5 and -2 in both types, by hand."""
        for dtype, codes in (("e4m3", [0x3C, 0xC0]), ("e5m2", [0x3E, 0xC0])):
            text = f"axes i: n\ninput x[i]: {dtype}\nstage y[i] = x + x\noutput y"
            write(self.file, dict(x=np.array(codes, np.uint8)), dict(y=np.array([3, -4], np.float32)), text, {})
            with self.subTest(dtype):
                self.assertEqual(self.judge_valid()["verdict"], "match")

    def test_declared_otherwise(self):
        """A variant that is as right: the kernel adds 0.25, and keeps y in bf16."""
        write(self.file, *computed(added=0.25))
        report = self.judge_valid("--declare", "y=acc * c + 0.25")
        self.assertEqual((report["verdict"], report["declared"]), ("match", ["y=acc * c + 0.25"]))
        self.assertEqual([s["outside"] for s in report["stages"]], [0, 0])
        run = self.run_it(self.file, "--declare", "y=acc * c + 0.25")
        self.assertEqual(run.stdout.splitlines()[0], "judged as if it declared y=acc * c + 0.25")
        inputs, stages = computed()
        coarse = (stages["acc"][-1] * np.float32(0.125)).view(np.uint32) & np.uint32(0xFFFF0000)
        write(self.file, inputs, dict(stages, y=coarse.view(np.float32)), TEXT.replace("y[n, m]: f16", "y[n, m]"))
        self.assertEqual(self.judge_valid("--no-causes")["first_wrong"], "y")
        self.assertEqual(self.judge_valid("--declare", "y : f32=acc * c & 0xffff0000", "--no-causes")["first_wrong"], None)
        # Both neighbours of what lies between are not those that cut digits off.
        self.assertEqual(self.judge_valid("--declare", "y:bf16=acc * c", "--no-causes")["first_wrong"], "y")

    def test_declared_state(self):
        """It starts from what it did, unless that is said as well; stages behind it stay as they are."""
        inputs, stages = computed()
        acc = stages["acc"] + np.float32(2)
        y = (acc[-1] * np.float32(0.125)).astype(np.float16)
        write(self.file, inputs, dict(acc=acc, y=y), TEXT.replace("tensor_core_f32", "tensor_core_f32 from 2.0"))
        self.assertEqual(self.judge_valid()["verdict"], "match")
        self.assertEqual(self.judge_valid("--declare", "acc=sum(k: a * w) in tensor_core_f32 + acc")["verdict"], "match")
        report = self.judge_valid("--declare", "acc=sum(k: a * w) in tensor_core_f32 + acc from 0.0", "--no-causes")
        self.assertEqual([s["outside"] for s in report["stages"]], [ROWS * COLS, 0])
        self.assertEqual(report["program"].count("from"), 1)
        run = self.run_it(self.file, "--declare", "y=f16(acc) * c", "--explain-tolerance", "y,0,0")
        self.assertIn("f16(acc) * c", run.stdout)

    def test_declared_wrongly(self):
        write(self.file, *computed())
        for declaration, words in [("y=acc * d", ["column 9", "d"]), ("y = acc *", ["makes no program"]), ("y= acc ) * c", ["column 8"]),
                                   ("y: f17=acc", ["column 4", "f17"]), ("z=acc", ['no stage "z"', "name one of acc, y"]),
                                   ("a=acc", ['no stage "a"']), ("y", ["column 2", "= is missing"]), ("y=", ["column 3", "the formula is missing"]),
                                   ("=acc", ["column 1", "the stage is missing"]), ("y=acc stage z[n]=acc", ["column 7", "another statement"]),
                                   ("y=acc $", ["column 7"]), ("s.scaled=true", ["column 2", "STAGE=FORMULA"])]:  # fmt: skip
            with self.subTest(declaration):
                self.assert_refused("--declare " + declaration, *words, arguments=["--declare", declaration])

    def test_an_output_that_nothing_tells_of_is_no_match(self):
        """z is what terms of 1e8 leave, and y is right."""
        text = "axes n: rows\ninput a[n]; b[n]\nstage p[n] = a * b - a * a\nstage z[n] = p\nstage y[n] = b * 2.0\noutput y, z"
        a = np.linspace(1.0e4, 1.1e4, 50, dtype=np.float32)
        b = a + np.float32(0.001)
        write(self.file, dict(a=a, b=b), dict(y=2 * b, z=np.ones(50, np.float32)), text, {})
        self.assert_refused("50 of 50 elements of z cannot be judged")

    def test_among_others(self):
        write(self.folder / "right.h5", *computed())
        write(self.folder / "wrong.h5", *computed(added=0.25))
        small_dump.write(self.folder / "attention.h5")
        report = self.judge(self.folder)
        jsonschema.Draft202012Validator(SCHEMA).validate(report)
        self.assertEqual(report["counts"], dict(match=2, known=0, diverged=1, unjudged=0))
        baseline = self.folder / "baseline"
        self.assertEqual(self.run_it(self.folder, "--write-baseline", baseline).returncode, DIVERGED)
        baseline.write_text(baseline.read_text().replace("reason =", "reason = issue 12"))
        self.assertEqual(self.run_it(self.folder, "--baseline", baseline).returncode, MATCH)
        for name in ("text", "html", "junit", "markdown", "sarif"):
            run = self.run_it(self.folder, "--report", f"{name}=-")
            self.assertIn("acc * c", run.stdout.replace("\\", ""))

    def test_the_wrong_stage_as_arrays(self):
        """Of a state its blocks come first; what nobody stored is NaN."""
        inputs, stored = computed()
        folder = self.folder / "arrays"

        def arrays():
            return [np.load(folder / f"{name}.npy") for name in ("got", "expected", "difference")]

        write(self.file, inputs, stored)
        self.assertEqual(self.run_it(self.file, "--npy", folder).returncode, MATCH)
        self.assertFalse(folder.exists())
        for name in ("acc", "y"):
            with self.subTest(name):
                wrong = {stage: np.array(array) for stage, array in stored.items()}
                wrong[name][..., 3, 1] += 1
                write(self.file, inputs, wrong)
                self.assertEqual(self.run_it(self.file, "--npy", folder).returncode, DIVERGED)
                got, expected, difference = arrays()
                np.testing.assert_array_equal(got, np.float32(wrong[name]))
                np.testing.assert_allclose(got - expected, difference, atol=1e-6)
                self.assertEqual(np.argwhere(np.abs(difference[0] if name == "acc" else difference) > 0.5).tolist(), [[3, 1]])
        write(self.file, inputs, {"acc": stored["acc"][-1] + 1})
        self.assertEqual(self.run_it(self.file, "--npy", folder).returncode, DIVERGED)
        got, expected, difference = arrays()
        self.assertEqual(got.shape, stored["acc"].shape)
        self.assertTrue(np.isnan(got[:-1]).all() and np.isnan(expected[:-1]).all())
        np.testing.assert_allclose(difference[-1], 1, atol=1e-3)

    def test_options_of_attention(self):
        write(self.file, *computed())
        other = self.folder / "other.h5"
        write(other, *computed())
        for option in (["--against", other], ["--against", other, "--same-run"], ["--stage", "y"], ["--row", "1"], ["--tile", "1"],
                       ["--png", self.folder / "png"], ["--like", "flash-attention-2"],
                       ["--atol", "1"], ["--rtol", "1"], ["--cause-of", other],
                       ["--replay-out", self.folder / "out.h5"], ["--search-all"], ["--without-cause", "scale_missing"], ["--suggest"]):
            with self.subTest(option[0]):
                run = self.run_it(self.file, *option)
                self.assert_one_line(run, self.file, option[0], "declared kernel")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["other.h5", "run.h5"])
        small_dump.write(other)
        self.assert_one_line(self.run_it("--against", self.file, other), self.file, "declared kernel")


def replaced(path, **how):
    """Another dataset in its place."""
    def edit(f):
        del f[path]
        f.create_dataset(path, **how)
    return edit


def linked(path, link):
    def edit(f):
        del f[path]
        f[path] = link
    return edit


def attribute(path, name, value):
    return lambda f: f[path].attrs.__setitem__(name, value)


def removed(path):
    return lambda f: f.__delitem__(path)


def added(path, value):
    return lambda f: f.__setitem__(path, value)


def of_huge_size(text_after, **sizes):
    """A program whose sizes no shape tells."""
    text = "axes n: rows; m: cols; j: j_size; l: l_size\ninput a[n, m]\n" + text_after + "\nstage y[n] = sum(m: a)\noutput y"
    def edit(f):
        f["program"].attrs["text"] = text
        del f["program"]
        f.create_group("program").attrs["text"] = text
        f.create_group("program/sizes").attrs.update(sizes)
        f["program/inputs/a"] = np.ones((4, 8), np.float32)
        f["program/stages/z"] = np.ones(4, np.float32)
    return edit


A, W, C, ACC, Y = (f"program/{where}" for where in ("inputs/a", "inputs/w", "inputs/c", "stages/acc", "stages/y"))
F16 = np.zeros((ROWS, DEPTH), np.float16)
#: What is done to a healthy file, and words of the line with which it is refused.
HOSTILE = [
    (attribute("/", "complete", 0), "was not completed"),
    (attribute("/", "format_version", 2), "format_version 2"),
    (attribute("/", "requires", ["/program/later"]), "/program/later"),
    (lambda f: f["program"].attrs.__delitem__("text"), "/program: has no attribute text"),
    (attribute("program", "text", 7), "text is not text"),
    (attribute("program", "text", ["axes", "output"]), "exactly one element"),
    (attribute("program", "text", ""), "/program: line 1"),
    (attribute("program", "text", "axes n: rows\noutput z"), "line 2"),
    (attribute("program", "text", TEXT + "#" + "x" * 65536), "65536"),
    (attribute("program", "text", TEXT + "#" + "x" * (1 << 21)), "1 MiB"),
    (linked("program", h5py.SoftLink("/elsewhere")), "/program: is a soft or external link"),
    (linked("program", h5py.ExternalLink("other.h5", "/program")), "/program: is a soft or external link"),
    (replaced("program", data=F16), "/program: is not a group"),
    (added("problem/x", 1), "/problem: stands beside /program"),
    (added("inputs/q", F16), "/inputs: stands beside /program"),
    (added("tiles/s", F16), "/tiles: stands beside /program"),
    (added("outputs/o", F16), "/outputs: stands beside /program"),
    (removed("program/sizes"), "step: this size is not known"),
    (attribute("program/sizes", "step", np.nan), "step is not an integer"),
    (attribute("program/sizes", "step", "32"), "step is not an integer"),
    (attribute("program/sizes", "step", [32, 32]), "exactly one element"),
    (attribute("program/sizes", "step", 0), "the block of this axis is 0"),
    (attribute("program/sizes", "step", -32), "the block of this axis is -32"),
    (attribute("program/sizes", "step", 2**62), "beyond the indices of any array"),
    (attribute("program/sizes", "step", -(2**63)), "beyond the indices of any array"),
    (attribute("program/sizes", "rows", ROWS + 1), f"it is {ROWS + 1} elsewhere"),
    (attribute("program/sizes", "stride", 2), "/program/sizes: holds stride"),
    (attribute("program/sizes", "x" * 5000, 2), "/program/sizes: holds xxx"),
    (linked("program/sizes", h5py.SoftLink("/program/inputs")), "/program/sizes: is a soft or external link"),
    (removed("program/inputs"), "/program/inputs/a: is missing"),
    (removed(A), "/program/inputs/a: is missing"),
    (added("program/inputs/b", F16), "/program/inputs: holds b"),
    (added("program/inputs/y", F16), "/program/inputs: holds y"),
    (added("program/inputs/\x1b[2J\n", F16), "/program/inputs: holds ?[2J?"),
    (linked(A, h5py.SoftLink("/program/inputs/w")), "/program/inputs/a: is a soft or external link"),
    (linked(A, h5py.ExternalLink("/etc/passwd", "/a")), "/program/inputs/a: is a soft or external link"),
    (lambda f: (f.__delitem__(A), f.create_group(A)), "/program/inputs/a: is not a dataset"),
    (replaced(A, data=F16.astype(np.float64)), "holds 8-byte floats"),
    (replaced(A, data=F16.astype(">f4")), "holds big-endian 4-byte floats"),
    (replaced(A, data=F16.astype(np.int32)), "holds 4-byte integers"),
    (replaced(A, data=F16.astype(np.uint8)), "holds 1-byte integers"),
    (replaced(W, data=np.zeros((COLS, DEPTH), np.float16)), "not little-endian f32 or bf16"),
    (attribute(A, "dtype", "bf16"), "/program/inputs/a: "),
    (replaced(A, data=np.full((ROWS, DEPTH), 0.1, np.float32)), "which is no number of f16"),
    (replaced(A, data=F16, compression="gzip"), "is compressed or filtered"),
    (replaced(A, data=F16, chunks=(8, 8)), "has chunks"),
    (replaced(A, data=F16[0]), "/program/inputs/a: has 1 dimensions"),
    (replaced(C, data=np.zeros(1, np.float32)), "/program/inputs/c: has 1 dimensions"),
    (replaced(C, data=h5py.Empty(np.float32)), "/program/inputs/c: "),
    (replaced(A, data=F16[:, 1:]), "depth: "),
    (replaced(A, data=F16[:0]), "the extent of this axis is 0"),
    (replaced(A, shape=(ROWS, DEPTH), dtype=np.float16), "but stores 0"),
    (replaced(A, shape=(2**40, 2**40), dtype=np.float16), "/program/inputs/a: declares 9223372036854775807 bytes"),
    (replaced(A, shape=(2**20, 2**20), dtype=np.float16), "/program/inputs/a: declares 2199023255552 bytes"),
    (replaced(ACC, data=np.zeros((4, ROWS, COLS), np.float32)), f"the program makes [3, {ROWS}, {COLS}]"),
    (replaced(ACC, data=np.zeros(ROWS, np.float32)), "/program/stages/acc: has 1 dimensions"),
    (replaced(Y, data=np.zeros((COLS, ROWS), np.float16)), f"the program makes [{ROWS}, {COLS}]"),
    (replaced(Y, data=np.zeros((ROWS, COLS), np.int16)), "holds 2-byte integers"),
    (attribute(ACC, "first", "0,0"), "first is 0,0, no index of each dimension"),
    (attribute(ACC, "first", "0,0,-1"), "first is 0,0,-1"),
    (attribute(ACC, "first", "0,0,x"), "first is 0,0,x"),
    (attribute(ACC, "first", 0), "first is not text"),
    (attribute(ACC, "first", "0,0,1"), f"from [0, 0, 1], and the program makes [3, {ROWS}, {COLS}]"),
    (attribute(ACC, "first", "9223372036854775807,0,0"), "from [9223372036854775807, 0, 0]"),
    (attribute(ACC, "conflicts", -1), "conflicts is -1"),
    (added("program/stages/acc2", F16), "/program/stages: holds acc2"),
    (added("program/stages/a", F16), "/program/stages: holds a,"),
    (removed("program/stages"), "nothing of what the kernel stored"),
    (lambda f: (f[A].write_direct(np.full_like(F16, np.nan)), f.__delitem__(Y)), "no element can be judged"),
    (of_huge_size("stage t[j, l] = 1.0 * j\nstage z[n] = sum(m, j, l: a * t)", j_size=2**40, l_size=2), "MiB at once"),
    (of_huge_size("stage t[j, l] = 1.0 * j\nstage z[n] = sum(m, j, l: a * t)", j_size=2**53, l_size=2**53), "MiB at once"),
    (of_huge_size("stage z[n] = sum(m, j, l: a * j * l)", j_size=2**32, l_size=2**32), "MiB at once"),
    (of_huge_size("stage z[n] over j = z + sum(m, l: a)", j_size=2**32, l_size=2**31), "MiB at once"),
]  # fmt: skip


class Hostile(TileDiffCase):
    def test_each_in_a_line(self):
        for number, (edit, words) in enumerate(HOSTILE):
            write(self.file, *computed())
            with h5py.File(self.file, "r+") as f:
                edit(f)
            with self.subTest(words, number=number):
                self.assert_refused(words)

    def test_datasets_on_one_another(self):
        """Each is as large as most of the file."""
        text = "axes i: n\ninput x0[i]; x1[i]; x2[i]\nstage y[i] = x0 + x1 + x2\noutput y"
        x = np.ones(50000, np.float32)
        write(self.file, dict(x0=x), dict(y=3 * x), text, {})
        with h5py.File(self.file, "r+") as f:
            for name in ("x1", "x2"):
                f["program/inputs/" + name] = f["program/inputs/x0"]
        self.assert_refused("/program/inputs/x2", "more bytes than the file")

    def test_damaged_bytes_never_crash(self):
        write(self.file, *computed())
        whole = self.file.read_bytes()
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        for round in range(40):
            damaged = bytearray(whole[: draw.randrange(len(whole))] if round % 4 == 0 else whole)
            for _ in range(draw.choice([1, 8, 64])):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            self.file.write_bytes(damaged)
            run = self.run_it(self.file, "--no-causes")
            with self.subTest(seed=seed, round=round):
                self.assertIn(run.returncode, (0, 1, 2), run.stderr)
                self.assertEqual(run.stderr.count("\n"), run.returncode == 2, run.stderr)


if __name__ == "__main__":
    main()
