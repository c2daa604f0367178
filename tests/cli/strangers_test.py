"""Kernels with drawn mistakes (tests/bench/strangers): the same draw is the same files, a kernel without a mistake matches,
and what a mistake may be written as compiles.

usage: strangers_test.py TILE_DIFF
"""

import hashlib
import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))

from strangers import grammar, sites, text  # noqa: E402
from tile_diff_case import MATCH, TileDiffCase, main  # noqa: E402


class Strangers(TileDiffCase):
    def draw(self, folder, *arguments):
        command = [sys.executable, BENCH / "strangers", "--out", self.folder / folder, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        files = sorted((self.folder / folder).iterdir())
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def test_the_same_draw_is_the_same_files(self):
        for kind in ("--second", "--backward"):
            with self.subTest(kind):
                first, again, other = (self.draw(kind + run, "--count", "2", "--seed", seed, kind)
                                       for run, seed in ("15", "25", "36"))
                self.assertEqual(first, again)
                self.assertNotEqual(first, other)

    def test_a_mistake_has_its_truth(self):
        for name in self.draw("truth", "--count", "3"):
            if name.endswith(".json"):
                truth = json.loads((self.folder / "truth" / name).read_text())
                mistake, = truth["mistakes"]
                self.assertEqual(mistake["stage"], truth["stage"])
                self.assertIn(truth["stage"], truth["recorded"])
                self.assertEqual([line[0] for line in mistake["diff"]], ["-", "+"])

    def test_whether_a_condition_shows_on_a_shape(self):
        size = dict(B=1, H=2, NQ=40, NK=48, BM=16, BN=16, D=32, DV=32)
        for guard, holds in (("", "always"), ("b == B - 1", "always"), ("h >= 1", "sometimes"), ("t == (NK - 1) / BN", "sometimes"),
                             ("m > old", "sometimes"), ("row >= NQ / BM * BM && qb > 7", "never"), ("r / 8 % 4 == 3", "never")):
            self.assertEqual(grammar.holds(guard, size), holds, guard)

    def test_kernels_without_a_mistake_match(self):
        for direction in ([], ["--backward"]):
            folder = "healthy" + "".join(direction)
            for name in self.draw(folder, "--count", "6", "--healthy", *direction):
                if name.endswith(".h5"):
                    run = self.run_it(self.folder / folder / name)
                    self.assertEqual(run.returncode, MATCH, (name, run.stdout[-1000:], run.stderr))

    def test_what_an_author_could_have_written_compiles(self):
        for direction in sites.TABLES:
            there = text.expressions(direction)
            self.assertEqual(set(there), {site.name for site in sites.TABLES[direction]})
            rewritten = {site: others for site, others in (sites.INSTEAD | sites.LEFT_OVER).items() if site in there}
            most = max(map(len, rewritten.values()))
            kernels = [{site: f"({others[i % len(others)]})" for site, others in rewritten.items()} for i in range(most)]
            self.assertEqual(len(text.compile_kernels(direction, kernels)), most)


if __name__ == "__main__":
    main()
