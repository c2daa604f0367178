#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gate/latency_csv.h"
#include "kernels/gate/statistics.h"

namespace tilescope {

/// A latency with its unit, such as 255 us.
struct Latency {
    double value = 0;
    std::string unit;  ///< ns, us, ms or s
};

/// Of "255us". Errors: Error when it is not a positive, finite number with a unit.
Latency parse_latency(std::string_view text, const std::string& option);

/// What the candidate must meet; every part that is set, in every configuration.
struct Requirements {
    std::optional<double> ratio;     ///< the ratio's upper end is at most this
    std::optional<double> effect;    ///< Hedges' g is at least this
    bool non_overlap = false;        ///< its median's interval ends below that of the baseline
    std::optional<Latency> at_most;  ///< its median's interval ends here at most

    bool any() const { return ratio || effect || non_overlap || at_most; }
};

/// The samples of one side, summed up.
struct Sample {
    std::size_t count = 0;
    double median = 0;
    double p90 = 0;
    double p99 = 0;
    Interval interval;  ///< of the median
    std::optional<Interval> sm_clock_mhz;
};

/// One configuration, compared.
struct ComparedConfiguration {
    ConfigurationKey key;
    Sample candidate;
    Sample baseline;
    double ratio = 0;  ///< candidate's median / baseline's median: below 1 is faster
    Interval ratio_interval;
    bool medians_overlap = false;
    std::optional<Effect> effect;    ///< null when all samples of both are constant
    std::vector<std::string> unmet;  ///< what is required and not so; empty when everything is met
};

struct LatencyReport {
    LatencyFile candidate;
    LatencyFile baseline;
    Requirements requirements;
    Resampling resampling;
    std::vector<ComparedConfiguration> configurations;  ///< in the candidate's order
    std::vector<std::string> notes;                     ///< what a reader should know beside the figures
};

/// Null when everything that is required is met.
const ComparedConfiguration* first_unmet(const LatencyReport& report);

/// Errors: Error when the files cannot be compared: other units, devices or configurations, too few samples,
/// or a required effect where all samples are constant.
LatencyReport compare_latencies(LatencyFile candidate, LatencyFile baseline, const Requirements& requirements,
                                const Resampling& resampling);

}  // namespace tilescope
