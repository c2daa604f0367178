#include "kernels/gate/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/gate/driver_version.h"

namespace tilescope {
namespace {

std::vector<double> one_to(int n) {
    std::vector<double> values(std::size_t(n), 0.0);
    std::iota(values.begin(), values.end(), 1);
    return values;
}

/// `n` values, half on each side of the mean, whose sample variance is deviation^2.
std::vector<double> two_valued(int n, double mean, double deviation) {
    const double half = deviation * std::sqrt(double(n - 1) / n);
    std::vector<double> values(std::size_t(n), mean - half);
    std::fill(values.begin() + n / 2, values.end(), mean + half);
    return values;
}

std::vector<double> drawn(int n, unsigned seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> latency(2, 0.1);
    std::vector<double> values(std::size_t(n), 0.0);
    for (double& value : values) value = latency(random);
    std::ranges::sort(values);
    return values;
}

TEST(Quantile, IsTheOneOfR) {
    // quantile(1:10) of R, whose default is type 7 too.
    const std::vector<double> values = one_to(10);
    EXPECT_EQ(quantile_of(values, 0), 1);
    EXPECT_EQ(quantile_of(values, 0.25), 3.25);
    EXPECT_EQ(quantile_of(values, 0.5), 5.5);
    EXPECT_EQ(quantile_of(values, 0.75), 7.75);
    EXPECT_EQ(quantile_of(values, 1), 10);
    EXPECT_EQ(quantile_of(std::vector<double>{7}, 0.975), 7);
}

TEST(Percentiles, AreThoseQuantiles) {
    const auto [p50, p90, p99] = percentiles_of(one_to(101));
    EXPECT_EQ(p50, 51);
    EXPECT_EQ(p90, 91);
    EXPECT_EQ(p99, 100);
}

TEST(DriverVersion, IsTheFirstNumberWithDots) {
    EXPECT_EQ(
        driver_version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 2024"),
        "535.161.08");
    EXPECT_EQ(driver_version_in(
                  "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"),
              "580.95.05");
    EXPECT_EQ(driver_version_in(""), "");
}

TEST(Median, IsTheMeanOfTheMiddleOnes) {
    EXPECT_EQ(median_of(std::vector<double>{1, 2, 9}), 2);
    EXPECT_EQ(median_of(std::vector<double>{1, 2, 4, 9}), 3);
}

TEST(LeastSamples, AreThoseOfTheSignTest) {
    // The interval from the smallest to the largest of n has confidence 1 - 2^(1 - n): 0.9375 for 5,
    // 0.96875 for 6, 0.9922 for 8.
    EXPECT_EQ(least_samples(0.9375), 5u);
    EXPECT_EQ(least_samples(0.95), 6u);
    EXPECT_EQ(least_samples(0.99), 8u);
}

TEST(HedgesG, AgreesWithTheExampleOfBorenstein) {
    // Borenstein, Hedges, Higgins and Rothstein, Introduction to Meta-Analysis (2009), chapter 4: means 103
    // and 100, deviations 5.5 and 4.5, 50 in each group: g = 0.5924 with the standard error 0.2028.
    const std::vector<double> slow = two_valued(50, 103, 5.5);
    const std::vector<double> fast = two_valued(50, 100, 4.5);
    const std::optional<Effect> effect = hedges_g(fast, slow, 0.95);
    ASSERT_TRUE(effect);
    EXPECT_NEAR(effect->g, 0.5924, 5e-5);
    EXPECT_NEAR((effect->interval.high - effect->interval.low) / 2, 1.959964 * 0.2028, 1.96 * 5e-5);
    EXPECT_NEAR((effect->interval.high + effect->interval.low) / 2, effect->g, 1e-12);
}

TEST(HedgesG, IsPositiveWhenTheCandidateIsFaster) {
    const std::vector<double> slow = drawn(30, 1);
    std::vector<double> fast = slow;
    for (double& value : fast) value *= 0.5;
    EXPECT_GT(hedges_g(fast, slow, 0.95)->g, 0);
    EXPECT_EQ(hedges_g(fast, slow, 0.95)->g, -hedges_g(slow, fast, 0.95)->g);
    EXPECT_EQ(hedges_g(slow, slow, 0.95)->g, 0);
}

TEST(HedgesG, HasTheExactCorrection) {
    // gamma(df / 2) / (sqrt(df / 2) gamma((df - 1) / 2)) is 1 / sqrt(pi) for df = 2 and sqrt(2 / pi) for df
    // = 4.
    const double d_2 = 1 / std::sqrt(2.0);
    EXPECT_NEAR(hedges_g(std::vector<double>{1, 3}, std::vector<double>{2, 4}, 0.95)->g,
                d_2 / std::sqrt(std::numbers::pi), 1e-14);
    EXPECT_NEAR(hedges_g(std::vector<double>{1, 2, 3}, std::vector<double>{2, 3, 4}, 0.95)->g,
                std::sqrt(2 / std::numbers::pi), 1e-14);
    // Hedges' approximation 1 - 3 / (4 df - 1) is off by 1 / df^3 at most, for many samples.
    const int n = 50000;
    const double df = 2.0 * n - 2;
    EXPECT_NEAR(hedges_g(two_valued(n, 1, 1), two_valued(n, 2, 1), 0.95)->g, 1 - 3 / (4 * df - 1), 1e-11);
}

TEST(HedgesG, IsUndefinedForConstantSamples) {
    // 0.1 three times: the sum is rounded, and the deviations are zero all the same.
    const std::vector<double> constant = {0.1, 0.1, 0.1};
    EXPECT_FALSE(hedges_g(constant, {std::vector<double>{2, 2, 2}}, 0.95));
    EXPECT_TRUE(hedges_g(constant, {std::vector<double>{2, 2, 3}}, 0.95));
}

TEST(Bootstrap, AgreesWithTheTableOfEfron) {
    // Efron, Bootstrap methods: another look at the jackknife (1979), section 3: of 13 samples the resampled
    // median is the 2nd with probability 0.0015, the 3rd 0.0142, the 4th 0.0550, the 5th 0.1242, the 6th
    // 0.1936 and the 7th 0.2230. So 0.005 is reached at the 3rd, 0.025 at the 4th and 0.1 at the 5th. The
    // nearest step is 8 standard errors of 10000 resamples away.
    const std::vector<double> samples = one_to(13);
    const std::map<double, Interval> expected = {{0.99, {3, 11}}, {0.95, {4, 10}}, {0.8, {5, 9}}};
    for (const auto& [confidence, interval] : expected) {
        const MedianIntervals got = bootstrap_medians(samples, samples, {10000, confidence, 5});
        EXPECT_EQ(got.candidate.low, interval.low) << confidence;
        EXPECT_EQ(got.candidate.high, interval.high) << confidence;
        EXPECT_EQ(got.baseline.low, interval.low) << confidence;
        EXPECT_EQ(got.baseline.high, interval.high) << confidence;
    }
}

/// The probability that a resampled median is each sample, exactly: the median is at most the j-th of n when
/// more than half of n draws are, each with probability j / n.
std::vector<double> median_probabilities(int n) {
    std::vector<double> probabilities;
    double before = 0;
    for (int j = 1; j <= n; ++j) {
        const boost::math::binomial draws(n, double(j) / n);
        const double at_most = j == n ? 1 : cdf(complement(draws, n / 2));
        probabilities.push_back(at_most - before);
        before = at_most;
    }
    return probabilities;
}

/// Checks that `quantile` is the one of `level` up to what `resamples` draws leave open: the probability of
/// being wrongly outside of five standard errors is 6e-7.
void expect_quantile(const std::map<double, double>& probabilities, double quantile, double level,
                     int resamples) {
    const double error = 5 * std::sqrt(level * (1 - level) / resamples);
    double below = 0;
    double up_to = 0;
    for (const auto& [value, probability] : probabilities) {
        if (value < quantile) below += probability;
        if (value <= quantile) up_to += probability;
    }
    EXPECT_LE(below, level + error) << quantile;
    EXPECT_GE(up_to, level - error) << quantile;
}

TEST(Bootstrap, AgreesWithTheExactDistributionOfTheRatio) {
    for (const unsigned seed : {11u, 12u, 13u}) {
        SCOPED_TRACE(seed);
        const std::vector<double> candidate = drawn(15, seed);
        const std::vector<double> baseline = drawn(21, seed + 100);
        const std::vector<double> of_candidate = median_probabilities(15);
        const std::vector<double> of_baseline = median_probabilities(21);
        std::map<double, double> probabilities;
        for (std::size_t i = 0; i < candidate.size(); ++i) {
            for (std::size_t j = 0; j < baseline.size(); ++j) {
                probabilities[candidate[i] / baseline[j]] += of_candidate[i] * of_baseline[j];
            }
        }
        const int resamples = 100000;
        const Interval ratio = bootstrap_medians(candidate, baseline, {resamples, 0.95, seed}).ratio;
        expect_quantile(probabilities, ratio.low, 0.025, resamples);
        expect_quantile(probabilities, ratio.high, 0.975, resamples);
    }
}

TEST(Bootstrap, EnclosesTheTrueRatioAsOftenAsItSays) {
    // 1000 pairs of samples with equal medians: five standard errors of their count are allowed.
    constexpr int pairs = 1000;
    int enclosed = 0;
    for (unsigned pair = 0; pair < pairs; ++pair) {
        const Interval ratio =
            bootstrap_medians(drawn(20, 2 * pair), drawn(20, 2 * pair + 1), {500, 0.95, pair}).ratio;
        enclosed += ratio.low <= 1 && 1 <= ratio.high;
    }
    EXPECT_GE(double(enclosed) / pairs, 0.95 - 5 * std::sqrt(0.95 * 0.05 / pairs));
}

TEST(Bootstrap, OfEqualSamplesEnclosesOne) {
    const std::vector<double> samples = drawn(50, 3);
    const MedianIntervals got = bootstrap_medians(samples, samples, {});
    EXPECT_LT(got.ratio.low, 1);
    EXPECT_GT(got.ratio.high, 1);
    EXPECT_TRUE(overlap(got.candidate, got.baseline));
}

TEST(Bootstrap, FollowsTheScale) {
    // Powers of two scale without rounding, so that equality is exact.
    const std::vector<double> candidate = drawn(31, 7);
    const std::vector<double> baseline = drawn(40, 8);
    std::vector<double> scaled = candidate;
    for (double& value : scaled) value *= 4;
    const MedianIntervals once = bootstrap_medians(candidate, baseline, {});
    const MedianIntervals scaled_once = bootstrap_medians(scaled, baseline, {});
    EXPECT_EQ(scaled_once.ratio.low, 4 * once.ratio.low);
    EXPECT_EQ(scaled_once.ratio.high, 4 * once.ratio.high);
    EXPECT_EQ(scaled_once.candidate.high, 4 * once.candidate.high);
    EXPECT_EQ(scaled_once.baseline.high, once.baseline.high);
}

TEST(Bootstrap, IsDrawnFromItsSeed) {
    const std::vector<double> candidate = drawn(31, 7);
    const std::vector<double> baseline = drawn(40, 8);
    const Interval first = bootstrap_medians(candidate, baseline, {1000, 0.95, 1}).ratio;
    const Interval again = bootstrap_medians(candidate, baseline, {1000, 0.95, 1}).ratio;
    const Interval other = bootstrap_medians(candidate, baseline, {1000, 0.95, 2}).ratio;
    EXPECT_EQ(first.low, again.low);
    EXPECT_EQ(first.high, again.high);
    EXPECT_TRUE(first.low != other.low || first.high != other.high);
}

TEST(Overlap, IncludesCommonEnds) {
    EXPECT_TRUE(overlap({1, 2}, {2, 3}));
    EXPECT_TRUE(overlap({2, 3}, {1, 2}));
    EXPECT_TRUE(overlap({1, 4}, {2, 3}));
    EXPECT_FALSE(overlap({1, 2}, {2.5, 3}));
    EXPECT_FALSE(overlap({2.5, 3}, {1, 2}));
}

}  // namespace
}  // namespace tilescope
