#include "kernels/gate/latency_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

// The end of an interval is a quantile of the resamples: fewer beyond it would leave it to chance.
constexpr double least_in_tail = 10;
// Beyond this the clocks explain a part of the ratio that a requirement may hang on.
constexpr double notable_clock_ratio = 1.02;

void require_sense(const Requirements& requirements, const Resampling& resampling) {
    if (requirements.ratio && !(*requirements.ratio > 0 && std::isfinite(*requirements.ratio))) {
        throw Error("it is not a positive, finite number", "--require-ratio", "give one like 1.05");
    }
    if (requirements.effect && !std::isfinite(*requirements.effect)) {
        throw Error("it is not a finite number", "--require-effect", "give one like 0.8");
    }
    if (!(resampling.confidence > 0 && resampling.confidence < 1)) {
        throw Error("it is not between 0 and 1", "--confidence", "give one like 0.95");
    }
    const double tail = (1 - resampling.confidence) / 2;
    if (!(resampling.resamples * tail >= least_in_tail)) {
        throw Error(fmt::format("{} resamples leave fewer than {} beyond each end of the interval",
                                resampling.resamples, least_in_tail),
                    "--resamples", fmt::format("use at least {:.0f}", std::ceil(least_in_tail / tail)));
    }
}

std::vector<std::string> sorted(std::vector<std::string> names) {
    std::ranges::sort(names);
    return names;
}

const Configuration* find(const LatencyFile& file, const ConfigurationKey& key) {
    const auto found = std::ranges::find(file.configurations, key, &Configuration::key);
    return found == file.configurations.end() ? nullptr : &*found;
}

/// Errors: Error when `file` lacks a configuration of `other`.
void require_configurations_of(const LatencyFile& other, const LatencyFile& file) {
    for (const Configuration& configuration : other.configurations) {
        if (find(file, configuration.key) != nullptr) continue;
        throw Error(fmt::format("it has no samples of {}, which {} has",
                                describe(configuration.key, other.key_columns), other.path),
                    file.path, "measure the same configurations for both");
    }
}

void require_comparable(const LatencyFile& candidate, const LatencyFile& baseline) {
    if (candidate.unit != baseline.unit) {
        throw Error(fmt::format("its latencies are in {}, those of {} in {}", baseline.unit, candidate.path,
                                candidate.unit),
                    baseline.path, "write both in the same unit");
    }
    if (sorted(candidate.key_columns) != sorted(baseline.key_columns)) {
        throw Error("its configurations have other columns than those of " + candidate.path, baseline.path,
                    "describe configurations by the same columns in both");
    }
    const auto ours = candidate.metadata.find("device");
    const auto theirs = baseline.metadata.find("device");
    if (ours != candidate.metadata.end() && theirs != baseline.metadata.end() &&
        ours->second != theirs->second) {
        throw Error(
            fmt::format("it was measured on {}, {} on {}", theirs->second, candidate.path, ours->second),
            baseline.path, "measure both on the same device");
    }
    require_configurations_of(candidate, baseline);
    require_configurations_of(baseline, candidate);
}

void require_samples(const LatencyFile& file, const Configuration& configuration, double confidence) {
    const std::size_t least = least_samples(confidence);
    if (configuration.latencies.size() >= least) return;
    throw Error(fmt::format("{} has {} samples, and no interval of {:g} % confidence has fewer than {}",
                            describe(configuration.key, file.key_columns), configuration.latencies.size(),
                            100 * confidence, least),
                file.path, "measure more samples or lower --confidence");
}

void judge(const Requirements& requirements, const LatencyFile& file, ComparedConfiguration& compared) {
    if (requirements.ratio && !(compared.ratio_interval.high <= *requirements.ratio)) {
        compared.unmet.push_back(fmt::format("ratio {:.4g}, whose interval ends at {:.4g}, above {:g}",
                                             compared.ratio, compared.ratio_interval.high,
                                             *requirements.ratio));
    }
    if (requirements.at_most) {
        const auto& [value, unit] = *requirements.at_most;
        const double high = compared.candidate.interval.high *
                            (nanoseconds_of(file.unit).value() / nanoseconds_of(unit).value());
        if (!(high <= value)) {
            compared.unmet.push_back(fmt::format("the median's interval ends at {:.5g} {}, above {:g} {}",
                                                 high, unit, value, unit));
        }
    }
    if (requirements.non_overlap && !(compared.candidate.interval.high < compared.baseline.interval.low)) {
        compared.unmet.push_back(compared.medians_overlap ? "the intervals of the medians overlap"
                                                          : "the candidate is slower");
    }
    if (!requirements.effect) return;
    if (!compared.effect) {
        throw Error(fmt::format("all samples of {} are constant in both files, so Hedges' g is undefined",
                                describe(compared.key, file.key_columns)),
                    file.path, "measure with a finer timer, or leave out --require-effect");
    }
    if (!(compared.effect->g >= *requirements.effect)) {
        compared.unmet.push_back(
            fmt::format("Hedges' g {:.3g}, below {:g}", compared.effect->g, *requirements.effect));
    }
}

Sample sample_of(const Configuration& configuration, const Interval& interval) {
    const Percentiles percentiles = percentiles_of(configuration.latencies);
    return {configuration.latencies.size(), percentiles.p50, percentiles.p90, percentiles.p99, interval,
            configuration.sm_clock_mhz};
}

ComparedConfiguration compare(const LatencyReport& report, const Configuration& candidate,
                              const Configuration& baseline) {
    const Resampling& resampling = report.resampling;
    require_samples(report.candidate, candidate, resampling.confidence);
    require_samples(report.baseline, baseline, resampling.confidence);
    // Every configuration begins with the seed, so that its figures do not depend on the others.
    const MedianIntervals intervals = bootstrap_medians(candidate.latencies, baseline.latencies, resampling);
    ComparedConfiguration compared;
    compared.key = candidate.key;
    compared.candidate = sample_of(candidate, intervals.candidate);
    compared.baseline = sample_of(baseline, intervals.baseline);
    compared.ratio = compared.candidate.median / compared.baseline.median;
    compared.ratio_interval = intervals.ratio;
    compared.medians_overlap = overlap(intervals.candidate, intervals.baseline);
    compared.effect = hedges_g(candidate.latencies, baseline.latencies, resampling.confidence);
    judge(report.requirements, report.candidate, compared);
    return compared;
}

void note_clocks(const ComparedConfiguration& compared, LatencyReport& report) {
    if (!compared.candidate.sm_clock_mhz || !compared.baseline.sm_clock_mhz) return;
    const Interval& ours = *compared.candidate.sm_clock_mhz;
    const Interval& theirs = *compared.baseline.sm_clock_mhz;
    if (std::max(ours.high, theirs.high) <= notable_clock_ratio * std::min(ours.low, theirs.low)) return;
    report.notes.push_back(fmt::format(
        "{}: the SM clock was {:.0f} to {:.0f} MHz for the candidate, {:.0f} to "
        "{:.0f} for the baseline",
        describe(compared.key, report.candidate.key_columns), ours.low, ours.high, theirs.low, theirs.high));
}

void note_differences(LatencyReport& report) {
    // What always differs between two runs.
    constexpr std::string_view expected[] = {"command", "time"};
    for (const auto& [name, ours] : report.candidate.metadata) {
        const auto theirs = report.baseline.metadata.find(name);
        if (theirs == report.baseline.metadata.end() || ours == theirs->second) continue;
        if (std::ranges::find(expected, name) != std::end(expected)) continue;
        report.notes.push_back(
            fmt::format("{}: {} for the candidate, {} for the baseline", name, ours, theirs->second));
    }
    for (const ComparedConfiguration& compared : report.configurations) {
        note_clocks(compared, report);
        if (!compared.effect) {
            report.notes.push_back(
                fmt::format("{}: all samples are constant, so Hedges' g is undefined and "
                            "the intervals have no width",
                            describe(compared.key, report.candidate.key_columns)));
        }
    }
}

}  // namespace

Latency parse_latency(std::string_view text, const std::string& option) {
    Latency latency;
    const char* const end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, latency.value);
    latency.unit = std::string(rest, end);
    if (status != std::errc() || !nanoseconds_of(latency.unit) || !(latency.value > 0) ||
        !std::isfinite(latency.value)) {
        throw Error("'" + std::string(text) + "' is not a positive, finite number with a unit", option,
                    "give one like 255us, in ns, us, ms or s");
    }
    return latency;
}

const ComparedConfiguration* first_unmet(const LatencyReport& report) {
    const auto found = std::ranges::find_if(
        report.configurations, [](const ComparedConfiguration& compared) { return !compared.unmet.empty(); });
    return found == report.configurations.end() ? nullptr : &*found;
}

LatencyReport compare_latencies(LatencyFile candidate, LatencyFile baseline, const Requirements& requirements,
                                const Resampling& resampling) {
    require_sense(requirements, resampling);
    require_comparable(candidate, baseline);
    LatencyReport report;
    report.candidate = std::move(candidate);
    report.baseline = std::move(baseline);
    report.requirements = requirements;
    report.resampling = resampling;
    for (const Configuration& configuration : report.candidate.configurations) {
        report.configurations.push_back(
            compare(report, configuration, *find(report.baseline, configuration.key)));
    }
    note_differences(report);
    return report;
}

}  // namespace tilescope
