#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gate/statistics.h"

namespace tilescope {

/// Nanoseconds of a unit of latencies: ns, us, ms or s; nullopt: it is none of them.
std::optional<double> nanoseconds_of(std::string_view unit);

/// What identifies a configuration: column to value, as text.
using ConfigurationKey = std::map<std::string, std::string>;

/// The samples of one configuration, sorted.
struct Configuration {
    ConfigurationKey key;
    std::vector<double> latencies;
    std::optional<Interval> sm_clock_mhz;  ///< smallest and largest; null without that column
};

/// A file of latencies, as ../GATES.md describes it.
struct LatencyFile {
    std::string path;
    std::string unit;            ///< ns, us, ms or s
    std::string implementation;  ///< empty without that column
    std::vector<std::string> key_columns;
    std::vector<Configuration> configurations;    ///< in the order of the file
    std::map<std::string, std::string> metadata;  ///< of the lines "# name: value"
};

/// Reads the rows of one implementation; an empty name stands for the only one there is.
/// Errors: Error naming the line: a column is missing, a latency is not a positive number, there are several
/// implementations and none is named.
LatencyFile read_latencies(const std::string& path, const std::string& implementation);

/// Takes a column out of what identifies a configuration; its values become metadata of that name.
/// Errors: Error when the file has no such column, or has configurations that differ in nothing else.
void ignore_column(LatencyFile& file, const std::string& column);

/// "batch=1 heads=8": the columns named, in their order; "all samples" when there are none.
std::string describe(const ConfigurationKey& key, const std::vector<std::string>& columns);

}  // namespace tilescope
