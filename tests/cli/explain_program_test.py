"""--explain-tolerance of declared kernels: which operation a tolerance comes from, and what is refused.

usage: explain_program_test.py TILE_DIFF
"""

import re

import numpy as np

from small_program import COLS, DEPTH, ROWS, STEP, computed, write
from tile_diff_case import MATCH, TileDiffCase, main

U = 2.0**-24
LINE = re.compile(r"^(.{10}) (.{16}) (.{10}) (.{10})  ( *)(.*)$")
N, K = 5, 7


def numbers(*shape, seed=3):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class ExplainProgram(TileDiffCase):
    def explain(self, element):
        """Of each operation share, value, what it may be off by, and its own rounding; the tolerance; the last line."""
        run = self.run_it(self.file, "--explain-tolerance", element)
        self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
        head, *lines = run.stdout.splitlines()
        self.assertEqual(head.split(), ["share", "value", "off", "by", "own"])
        operations, shares = {}, []
        for line in lines:
            self.assertLessEqual(len(line), 110)
            share, value, error, own, _, text = LINE.match(line).groups()
            if text == "tolerance":
                break
            operations.setdefault(text, (float(share) if share.strip() else None, value.strip(), float(error), own.strip()))
            shares.append(float(share) if share.strip() else 0)
        tolerance = float(share)
        # Each is printed with three digits.
        self.assertAlmostEqual(sum(shares), tolerance, delta=0.005 * (tolerance + sum(map(abs, shares))))
        return operations, tolerance, lines[-1]

    def judged_tolerance(self, stage, index):
        worst = next(s for s in self.judge(self.file, "--no-causes")["stages"] if s["name"] == stage)["worst"][0]
        self.assertEqual(worst["index"], list(index))
        return worst["tolerance"]

    def near(self, got, expected):
        self.assertAlmostEqual(float(got) / expected, 1, delta=0.006)

    def test_product_and_sum(self):
        """u of the product and u of the sum; the element is wrong, so that the report tells its tolerance."""
        a, b, c = numbers(3, N)
        y = a * b + c
        y[2] += 1
        write(self.file, dict(a=a, b=b, c=c), dict(y=y), "axes n: rows\ninput a[n]; b[n]; c[n]\nstage y[n] = a * b + c\noutput y", {})
        operations, tolerance, last = self.explain("y,2")
        exact = [float(x[2]) for x in (a, b, c)]
        product, whole = exact[0] * exact[1], exact[0] * exact[1] + exact[2]
        self.assertEqual(list(operations), ["a * b + c", "a * b", "a", "b", "c"])
        self.near(operations["a * b"][0], U * abs(product))
        self.near(operations["a * b + c"][0], U * abs(whole))
        self.near(operations["a * b + c"][2], U * (abs(product) + abs(whole)))
        self.assertAlmostEqual(float(operations["a * b"][1]), product, delta=1e-7)
        self.assertEqual(operations["c"], (0, f"{c[2]:.9g}", 0, "0"))
        self.near(tolerance, self.judged_tolerance("y", [2]))
        self.assertIn("y[2]: expected ", last)
        self.assertIn("OUTSIDE", last)

    def test_cast(self):
        """What lies on a tie goes either way: half an ulp, of which the cast has all but what it was given. What lies in the middle
        goes one way: the cast takes away what it was given."""
        a, b = np.float32([3 * 2.0**-13, 3 * 2.0**-15]), np.float32([3, 3])
        c = np.float32([1 - 5 * 2.0**-13, 1 - 5 * 2.0**-15])  # 1 + 2^-11 and 1 + 2^-13
        write(self.file, dict(a=a, b=b, c=c), dict(y=np.ones(2, np.float16)),
              "axes n: rows\ninput a[n]; b[n]; c[n]\nstage y[n]: f16 = a * b + c\noutput y", {})  # fmt: skip
        operations, tolerance, last = self.explain("y,0")
        given = operations["a * b + c"][2]
        self.near(tolerance, 2.0**-11)
        self.near(given, U * (9 * 2.0**-13 + 1 + 2.0**-11))
        self.near(operations["y: f16"][0], 2.0**-11 - given)
        # Without its rounding float32 holds the sum.
        self.near(operations["a * b"][0], given)
        self.assertIn("within", last)
        operations, tolerance, _ = self.explain("y,1")
        self.assertEqual((tolerance, operations["y: f16"][2]), (0, 0))
        self.near(operations["y: f16"][0], -operations["a * b + c"][2])

    def test_exact_cast(self):
        """What rounds a number that is exact makes an exact one."""
        a, b = numbers(2, N)
        rounded = a.astype(np.float16).astype(np.float32)
        write(self.file, dict(a=a, b=b), dict(y=rounded * b), "axes n: rows\ninput a[n]; b[n]\nstage y[n] = f16(a) * b\noutput y", {})
        operations, tolerance, _ = self.explain("y,4")
        self.near(tolerance, U * abs(float(rounded[4]) * float(b[4])))
        self.assertEqual(operations["f16(a)"], (0, f"{rounded[4]:.9g}", 0, "0"))
        self.assertEqual(operations["f16(a) * b"][0], operations["f16(a) * b"][2])

    def test_terms_of_a_sum(self):
        """One line each for the sum and for what its terms carry in: u |a + b| |w| of all that are rounded."""
        a, b, w = numbers(N, K), numbers(N, K, seed=4), numbers(K, seed=5)
        y = ((a + b) * w).sum(1)
        write(self.file, dict(a=a, b=b, w=w), dict(y=y), "axes n: rows; k: depth\ninput a[n, k]; b[n, k]; w[k]\n"
              "stage t[n, k] = a + b\nstage y[n] = sum(k: t * w)\noutput y", {})  # fmt: skip
        operations, _, _ = self.explain("y,3")
        self.assertEqual(list(operations), ["sum(k: t * w)", "t, not stored", "a + b"])
        exact = a[3].astype(np.float64) + b[3]
        is_rounded = exact.astype(np.float32) != exact
        carried = (U * abs(exact) * abs(w) * is_rounded).sum()
        self.near(operations["a + b"][0], carried)
        self.assertEqual(operations["a + b"][1], f"({K} terms)")
        self.near(operations["a + b"][2], U * (abs(exact) * is_rounded).max())
        share, _, error, own = operations["sum(k: t * w)"]
        self.near(error, share + carried)
        self.assertEqual(float(own), share)

    def test_state(self):
        inputs, stages = computed()
        wrong = stages["acc"].copy()
        wrong[1, 7, 5] += 1
        write(self.file, inputs, dict(stages, acc=wrong))
        operations, tolerance, last = self.explain("acc,7,5,1")
        self.near(tolerance, self.judged_tolerance("acc", [7, 5]))
        self.assertEqual(operations["acc, carried on"][1:3], (f"{stages['acc'][0, 7, 5]:.9g}", 0))
        after = float(stages["acc"][1, 7, 5])
        self.near(operations["acc + sum(k: a * w) in tensor_core_f32"][0], U * abs(after))
        self.assertIn("acc[7, 5] after block 1 of k", last)
        self.assertIn(f"after block {DEPTH // STEP - 1} of k", self.explain("acc,7,5")[2])
        # Not stored it is followed into, and all of its blocks round.
        write(self.file, inputs, dict(y=stages["y"]))
        operations, _, _ = self.explain("y,7,5")
        self.assertEqual(list(operations)[:3], ["y: f16", "acc * c", "acc, not stored"])
        states = stages["acc"][:, 7, 5].astype(np.float64)
        # The first block adds to zero.
        self.near(operations["acc + sum(k: a * w) in tensor_core_f32"][0], 0.125 * U * abs(states[1:]).sum())
        self.assertIn("acc[7, 5] after block 2 of k: expected", self.explain("acc,7,5")[2])
        self.assertIn("not stored", self.explain("acc,7,5")[2])

    def test_state_of_another_block(self):
        """The last block takes the other branch: what rounds is what the second one did."""
        a, b = numbers(2, N)
        write(self.file, dict(a=a, b=b), dict(s=a * b), "axes n: rows; k: depth by 1\ninput a[n]; b[n]\n"
              "stage s[n] over k = a * b where k == 1 else s\noutput s", dict(depth=3))  # fmt: skip
        operations, tolerance, _ = self.explain("s,1,2")
        self.near(tolerance, U * abs(float(a[1]) * float(b[1])))
        self.near(operations["a * b"][0], tolerance)

    def test_refused(self):
        write(self.file, *computed())
        for element, words in [("z,0,0", ['no stage "z"', "name one of acc, y"]), ("a,0,0", ['no stage "a"']),
                               ("y,0", ["has 1 indices", "give y,n,m"]), ("y,0,0,0", ["has 3 indices", "give y,n,m"]),
                               ("acc,0,0,0,0", ["has 4 indices", "give acc,n,m[,block of k]"]), ("acc,0,0,3", ["block 3", "0 to 2"]),
                               (f"y,{ROWS},0", [f"n {ROWS}", f"0 to {ROWS - 1}"]), (f"y,0,{COLS}", [f"m {COLS}", f"0 to {COLS - 1}"]),
                               ("y,0,-1", ['"-1" is not a number']), ("y,0,x\n", ['"x?" is not a number'])]:  # fmt: skip
            with self.subTest(element):
                run = self.run_it(self.file, "--explain-tolerance", element)
                self.assert_one_line(run, "--explain-tolerance", *words)
                self.assertEqual(run.stdout, "")

    def test_nothing_expected(self):
        a = np.float32([np.nan, 1])
        write(self.file, dict(a=a), dict(y=a), "axes n: rows\ninput a[n]\nstage y[n] = a + a\noutput y", {})
        run = self.run_it(self.file, "--explain-tolerance", "y,0")
        self.assertIn("of which nothing can be expected", run.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
