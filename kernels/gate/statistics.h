#pragma once

// What tile-gate computes from samples; ../GATES.md derives it. Samples are finite and sorted.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tilescope {

struct Interval {
    double low = 0;
    double high = 0;
};

bool overlap(const Interval& a, const Interval& b);

/// The mean of the two middle ones when their number is even.
double median_of(std::span<const double> sorted);

/// Hyndman and Fan's type 7, NumPy's default: linear between the order statistics around level * (n - 1).
/// `level` is in [0, 1].
double quantile_of(std::span<const double> sorted, double level);

/// What half, nine tenths and 99 of 100 samples are not above.
struct Percentiles {
    double p50 = 0;
    double p90 = 0;
    double p99 = 0;
};
Percentiles percentiles_of(std::span<const double> sorted);

/// The fewest samples whose smallest and largest enclose the median with this confidence: a resampled median
/// never leaves them.
std::size_t least_samples(double confidence);

/// A standardised difference of means. Positive: the candidate is faster.
struct Effect {
    double g = 0;       ///< Hedges' g, with the exact correction for small samples
    Interval interval;  ///< from its large-sample standard error
};

/// Both have two samples or more. Null when all samples of both are constant: there is no deviation to
/// divide by.
std::optional<Effect> hedges_g(std::span<const double> candidate, std::span<const double> baseline,
                               double confidence);

struct Resampling {
    int resamples = 10000;
    double confidence = 0.95;
    std::uint64_t seed = 1;
};

/// Percentile intervals of the medians and of candidate's median / baseline's median.
struct MedianIntervals {
    Interval candidate;
    Interval baseline;
    Interval ratio;
};

/// The same arguments give the same bits. Samples are positive.
MedianIntervals bootstrap_medians(std::span<const double> candidate, std::span<const double> baseline,
                                  const Resampling& resampling);

}  // namespace tilescope
