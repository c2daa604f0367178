#include "kernels/gate/latency_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr std::size_t longest_line = std::size_t(1) << 16;
constexpr std::size_t most_bytes = std::size_t(1) << 26;
constexpr std::string_view latency_prefix = "latency_";
// Columns that describe a sample and not the configuration.
constexpr std::string_view labels[] = {"sample", "launches"};
constexpr std::string_view implementation_column = "implementation";
constexpr std::string_view clock_column = "sm_clock_mhz";

std::string_view trim(std::string_view text) {
    const auto begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string> split(std::string_view line) {
    std::vector<std::string> fields;
    for (;;) {
        const auto comma = line.find(',');
        fields.emplace_back(trim(line.substr(0, comma)));
        if (comma == std::string_view::npos) return fields;
        line.remove_prefix(comma + 1);
    }
}

/// What the columns of the header are.
struct Columns {
    std::size_t latency = 0;
    std::optional<std::size_t> implementation;
    std::optional<std::size_t> clock;
    std::vector<std::pair<std::size_t, std::string>> keys;
    std::size_t count = 0;
};

class Reader {
 public:
    Reader(const std::string& path, const std::string& implementation)
        : wanted_(implementation), stream_(path) {
        file_.path = path;
        if (!stream_) throw Error("it cannot be read", path, "give a CSV file of latencies");
    }

    LatencyFile read() {
        std::string line;
        while (next_line(line)) {
            if (line_ == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
            const std::string_view text = trim(line);
            if (text.empty()) continue;
            if (text.front() == '#') {
                add_metadata(text.substr(1));
            } else if (columns_.count == 0) {
                read_header(text);
            } else {
                read_row(text);
            }
        }
        if (stream_.bad()) throw Error("it cannot be read", file_.path, "give a CSV file of latencies");
        finish();
        return std::move(file_);
    }

 private:
    [[noreturn]] void refuse(const std::string& what, const std::string& what_to_do) const {
        throw Error(what, fmt::format("{}:{}", file_.path, line_), what_to_do);
    }

    /// A file such as /dev/zero has no end, and no end of a line.
    bool next_line(std::string& line) {
        line.clear();
        ++line_;
        for (int c = stream_.get(); c != std::ifstream::traits_type::eof(); c = stream_.get()) {
            if (++bytes_ > most_bytes) refuse("it is longer than 64 MiB", "give a file of latencies");
            if (c == '\n') return true;
            if (line.size() == longest_line) {
                refuse("it has a line of more than 64 KiB", "give a CSV file of latencies");
            }
            line.push_back(static_cast<char>(c));
        }
        return !line.empty();
    }

    void add_metadata(std::string_view comment) {
        const auto colon = comment.find(':');
        if (colon == std::string_view::npos) return;
        file_.metadata[std::string(trim(comment.substr(0, colon)))] = trim(comment.substr(colon + 1));
    }

    std::vector<std::string> fields_of(std::string_view line) const {
        if (line.find('"') != std::string_view::npos) {
            refuse("it holds a quote", "write fields without quotes and commas");
        }
        return split(line);
    }

    void read_header(std::string_view line) {
        const std::vector<std::string> names = fields_of(line);
        columns_.count = names.size();
        bool has_latency = false;
        std::set<std::string> seen;
        for (std::size_t i = 0; i < names.size(); ++i) {
            const std::string& name = names[i];
            if (name.empty()) refuse(fmt::format("column {} has no name", i + 1), "name it in the header");
            if (!seen.insert(name).second) refuse("there are two columns " + name, "keep one of them");
            if (name.starts_with(latency_prefix)) {
                if (has_latency) refuse("it has two columns of latencies", "keep one of them");
                has_latency = true;
                columns_.latency = i;
                file_.unit = name.substr(latency_prefix.size());
            } else if (name == implementation_column) {
                columns_.implementation = i;
            } else if (name == clock_column) {
                columns_.clock = i;
            } else if (std::ranges::find(labels, name) == std::end(labels)) {
                columns_.keys.emplace_back(i, name);
                file_.key_columns.push_back(name);
            }
        }
        if (!has_latency || !nanoseconds_of(file_.unit)) {
            refuse("the header has no column of latencies",
                   "name it latency_ns, latency_us, latency_ms or latency_s");
        }
    }

    /// Errors: Error when it is not a positive, finite number.
    double positive(const std::string& field, const std::string& name) const {
        double value = 0;
        const char* end = field.data() + field.size();
        const auto [rest, status] = std::from_chars(field.data(), end, value);
        if (status != std::errc() || rest != end) {
            refuse(fmt::format("{} '{}' is not a number", name, field), "write it like 12.5");
        }
        if (!(value > 0) || !std::isfinite(value)) {
            refuse(fmt::format("{} {} is not positive and finite", name, field),
                   "measure it again; a sample that was not taken has no row");
        }
        return value;
    }

    Configuration& configuration_of(const std::vector<std::string>& fields) {
        ConfigurationKey key;
        for (const auto& [index, name] : columns_.keys) key[name] = fields[index];
        const auto [place, is_new] = places_.try_emplace(key, file_.configurations.size());
        if (is_new) file_.configurations.push_back({key, {}, std::nullopt});
        return file_.configurations[place->second];
    }

    void read_row(std::string_view line) {
        const std::vector<std::string> fields = fields_of(line);
        if (fields.size() != columns_.count) {
            refuse(fmt::format("it has {} fields and the header {}", fields.size(), columns_.count),
                   "write a field for each column");
        }
        const double latency = positive(fields[columns_.latency], "latency");
        if (columns_.implementation) {
            const std::string& name = fields[*columns_.implementation];
            implementations_.insert(name);
            if (!wanted_.empty() && name != wanted_) return;
        }
        Configuration& configuration = configuration_of(fields);
        configuration.latencies.push_back(latency);
        if (!columns_.clock) return;
        const double mhz = positive(fields[*columns_.clock], std::string(clock_column));
        const Interval range = configuration.sm_clock_mhz.value_or(Interval{mhz, mhz});
        configuration.sm_clock_mhz = Interval{std::min(range.low, mhz), std::max(range.high, mhz)};
    }

    void finish() {
        if (columns_.count == 0) {
            throw Error("it has no header", file_.path, "begin it with a line that names the columns");
        }
        const std::string names = fmt::format("{}", fmt::join(implementations_, ", "));
        if (!wanted_.empty() && !implementations_.contains(wanted_)) {
            throw Error("it has no implementation " + wanted_, file_.path,
                        names.empty() ? "leave out its name" : "choose one of " + names);
        }
        if (wanted_.empty() && implementations_.size() > 1) {
            throw Error("it has several implementations", file_.path,
                        "choose one with --candidate or --baseline: " + names);
        }
        if (file_.configurations.empty()) throw Error("it has no samples", file_.path, "measure it again");
        if (!implementations_.empty()) {
            file_.implementation = wanted_.empty() ? *implementations_.begin() : wanted_;
        }
        for (Configuration& configuration : file_.configurations) {
            std::ranges::sort(configuration.latencies);
        }
    }

    LatencyFile file_;
    std::string wanted_;
    std::ifstream stream_;
    std::size_t line_ = 0;
    std::size_t bytes_ = 0;
    Columns columns_;
    std::set<std::string> implementations_;
    std::map<ConfigurationKey, std::size_t> places_;
};

}  // namespace

std::optional<double> nanoseconds_of(std::string_view unit) {
    constexpr std::pair<std::string_view, double> units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    for (const auto& [name, ns] : units)
        if (unit == name) return ns;
    return std::nullopt;
}

LatencyFile read_latencies(const std::string& path, const std::string& implementation) {
    return Reader(path, implementation).read();
}

void ignore_column(LatencyFile& file, const std::string& column) {
    if (std::erase(file.key_columns, column) == 0) {
        throw Error("it has no column " + column + " that tells configurations apart", file.path,
                    "ignore one of: " + fmt::format("{}", fmt::join(file.key_columns, ", ")));
    }
    std::set<std::string> values;
    std::set<ConfigurationKey> keys;
    for (Configuration& configuration : file.configurations) {
        values.insert(configuration.key.extract(column).mapped());
        if (keys.insert(configuration.key).second) continue;
        throw Error(fmt::format("without {} two of its configurations are the same: {}", column,
                                describe(configuration.key, file.key_columns)),
                    file.path, "leave one of them out of the file");
    }
    file.metadata[column] = fmt::format("{}", fmt::join(values, ", "));
}

std::string describe(const ConfigurationKey& key, const std::vector<std::string>& columns) {
    if (columns.empty()) return "all samples";
    std::vector<std::string> parts;
    for (const std::string& column : columns) parts.push_back(column + "=" + key.at(column));
    return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace tilescope
