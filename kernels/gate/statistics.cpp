#include "kernels/gate/statistics.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/statistics/univariate_statistics.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>
#include <vector>

namespace tilescope {

namespace {

// Of Boost, because those of the standard library draw other numbers with another compiler.
using Draws = boost::random::mt19937_64;

double squared_deviations(std::span<const double> sorted) {
    // The mean is updated from sample to sample, so that constant samples deviate from it by exactly zero.
    return boost::math::statistics::sample_variance(sorted.begin(), sorted.end()) * double(sorted.size() - 1);
}

/// E[g] / delta without it: gamma(df / 2) / (sqrt(df / 2) gamma((df - 1) / 2)).
double small_sample_correction(double degrees_of_freedom) {
    const double half = degrees_of_freedom / 2;
    return boost::math::tgamma_ratio(half, half - 0.5) / std::sqrt(half);
}

double resampled_median(std::span<const double> samples, Draws& draws, std::vector<double>& resample) {
    const boost::random::uniform_int_distribution<std::size_t> index(0, samples.size() - 1);
    resample.resize(samples.size());
    for (double& value : resample) value = samples[index(draws)];
    return boost::math::statistics::median(resample);
}

Interval percentiles(std::vector<double>& values, double confidence) {
    std::ranges::sort(values);
    const double tail = (1 - confidence) / 2;
    return {quantile_of(values, tail), quantile_of(values, 1 - tail)};
}

}  // namespace

bool overlap(const Interval& a, const Interval& b) {
    return a.low <= b.high && b.low <= a.high;
}

double median_of(std::span<const double> sorted) {
    return quantile_of(sorted, 0.5);
}

double quantile_of(std::span<const double> sorted, double level) {
    const double place = level * double(sorted.size() - 1);
    const auto below = std::size_t(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], place - double(below));
}

Percentiles percentiles_of(std::span<const double> sorted) {
    return {quantile_of(sorted, 0.5), quantile_of(sorted, 0.9), quantile_of(sorted, 0.99)};
}

std::size_t least_samples(double confidence) {
    // The median is outside of n samples when all lie on one side of it: 2 * 2^-n.
    return std::size_t(std::ceil(1 - std::log2(1 - confidence)));
}

std::optional<Effect> hedges_g(std::span<const double> candidate, std::span<const double> baseline,
                               double confidence) {
    const auto n_candidate = double(candidate.size());
    const auto n_baseline = double(baseline.size());
    const double samples = n_candidate + n_baseline;
    const double deviations = squared_deviations(candidate) + squared_deviations(baseline);
    if (deviations == 0) return std::nullopt;

    const double difference = boost::math::statistics::mean(baseline.begin(), baseline.end()) -
                              boost::math::statistics::mean(candidate.begin(), candidate.end());
    const double d = difference / std::sqrt(deviations / (samples - 2));
    const double correction = small_sample_correction(samples - 2);
    const double error = correction * std::sqrt(samples / (n_candidate * n_baseline) + d * d / (2 * samples));
    const double z = boost::math::quantile(boost::math::normal(), (1 + confidence) / 2);
    const double g = correction * d;
    return Effect{g, {g - z * error, g + z * error}};
}

MedianIntervals bootstrap_medians(std::span<const double> candidate, std::span<const double> baseline,
                                  const Resampling& resampling) {
    const auto resamples = std::size_t(resampling.resamples);
    std::vector<double> candidates(resamples);
    std::vector<double> baselines(resamples);
    std::vector<double> ratios(resamples);
    std::vector<double> resample;
    Draws draws(resampling.seed);
    for (std::size_t i = 0; i < resamples; ++i) {
        candidates[i] = resampled_median(candidate, draws, resample);
        baselines[i] = resampled_median(baseline, draws, resample);
        ratios[i] = candidates[i] / baselines[i];
    }
    return {percentiles(candidates, resampling.confidence), percentiles(baselines, resampling.confidence),
            percentiles(ratios, resampling.confidence)};
}

}  // namespace tilescope
