#!/usr/bin/env python3
"""Compares the statistics of tile-gate with SciPy's.

usage: scipy_test.py TILE_GATE

The ends of bootstrap intervals are compared by their rank among SciPy's resamples. With R and N resamples a quantile
of level p lies at rank p with the standard error sqrt(p (1 - p) (1 / R + 1 / N)); five of these are allowed, which
independent resamples exceed with a probability of 6e-7.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy
import scipy.special
import scipy.stats

TILE_GATE = pathlib.Path(sys.argv.pop(1)).resolve()
RESAMPLES = 10000
SCIPY_RESAMPLES = 100000
STANDARD_ERRORS = 5


def draw(random, kind, n, centre):
    if kind == "skewed":
        return centre * random.lognormal(0, 0.2, n)
    if kind == "ticks":  # a timer of a coarse step: many ties
        return numpy.round(centre * random.lognormal(0, 0.02, n) / 0.1) * 0.1
    return random.normal(centre, 0.03 * centre, n)


def median_ratio(candidate, baseline, axis=-1):
    return numpy.median(candidate, axis) / numpy.median(baseline, axis)


CASES = [("normal", 25, 40, 10.0, 10.1, 0.95), ("skewed", 31, 18, 250.0, 240.0, 0.95),
         ("skewed", 12, 12, 12.0, 13.0, 0.99), ("ticks", 60, 51, 9.0, 9.4, 0.9)]


class AgreesWithScipy(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def gate(self, candidate, baseline, confidence, seed):
        for name, samples in (("candidate", candidate), ("baseline", baseline)):
            rows = "\n".join(repr(float(sample)) for sample in samples)
            (self.folder / f"{name}.csv").write_text(f"latency_us\n{rows}\n")
        run = subprocess.run([TILE_GATE, "latency", self.folder / "candidate.csv", self.folder / "baseline.csv",
                              "--confidence", str(confidence), "--resamples", str(RESAMPLES), "--seed", str(seed),
                              "--json", "-"], capture_output=True, text=True, check=True)
        return json.loads(run.stdout)["configurations"][0]

    def assert_rank(self, distribution, got, level):
        error = STANDARD_ERRORS * math.sqrt(level * (1 - level) * (1 / RESAMPLES + 1 / SCIPY_RESAMPLES))
        self.assertLessEqual(numpy.mean(distribution < got), level + error)
        self.assertGreaterEqual(numpy.mean(distribution <= got), level - error)

    def assert_interval(self, data, statistic, interval, confidence, random):
        scipys = scipy.stats.bootstrap(data, statistic, n_resamples=SCIPY_RESAMPLES, batch=5000, vectorized=True,
                                       confidence_level=confidence, method="percentile", random_state=random)
        tail = (1 - confidence) / 2
        self.assert_rank(scipys.bootstrap_distribution, interval[0], tail)
        self.assert_rank(scipys.bootstrap_distribution, interval[1], 1 - tail)

    def test_intervals_of_medians_and_their_ratio(self):
        for index, (kind, n, m, centre, other, confidence) in enumerate(CASES):
            with self.subTest(kind=kind, n=n, m=m, seed=index):
                random = numpy.random.default_rng(index)
                candidate, baseline = draw(random, kind, n, centre), draw(random, kind, m, other)
                got = self.gate(candidate, baseline, confidence, seed=index)
                self.assertEqual(got["candidate"]["median"], numpy.median(candidate))
                self.assertEqual(got["baseline"]["median"], numpy.median(baseline))
                self.assertAlmostEqual(got["ratio"], median_ratio(candidate, baseline), delta=1e-15)
                self.assert_interval((candidate,), numpy.median, got["candidate"]["interval"], confidence, random)
                self.assert_interval((baseline,), numpy.median, got["baseline"]["interval"], confidence, random)
                self.assert_interval((candidate, baseline), median_ratio, got["ratio_interval"], confidence, random)

    def test_hedges_g(self):
        for index, (kind, n, m, centre, other, confidence) in enumerate(CASES):
            with self.subTest(kind=kind, n=n, m=m, seed=index):
                random = numpy.random.default_rng(100 + index)
                candidate, baseline = draw(random, kind, n, centre), draw(random, kind, m, other)
                got = self.gate(candidate, baseline, confidence, seed=index)
                # Student's t for equal variances is Cohen's d times sqrt(n m / (n + m)).
                d = scipy.stats.ttest_ind(baseline, candidate).statistic * math.sqrt((n + m) / (n * m))
                half = (n + m - 2) / 2
                correction = math.exp(scipy.special.gammaln(half) - scipy.special.gammaln(half - 0.5)) / math.sqrt(half)
                # Relative: both subtract means that agree in their leading digits.
                self.assertAlmostEqual(got["hedges_g"] / (correction * d), 1, delta=1e-10)
                width = scipy.stats.norm.ppf((1 + confidence) / 2) * correction * math.sqrt(
                    (n + m) / (n * m) + d * d / (2 * (n + m)))
                low, high = got["hedges_g_interval"]
                self.assertAlmostEqual((high - low) / (2 * width), 1, delta=1e-10)


if __name__ == "__main__":
    unittest.main()
