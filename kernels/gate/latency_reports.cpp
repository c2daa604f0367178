#include "kernels/gate/latency_reports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tilescope {

namespace {

using Json = nlohmann::ordered_json;

/// The key columns with one value in all configurations, or those with several.
std::vector<std::string> key_columns(const LatencyReport& report, bool with_one_value) {
    std::vector<std::string> chosen;
    for (const std::string& column : report.candidate.key_columns) {
        std::set<std::string> values;
        for (const ComparedConfiguration& compared : report.configurations) {
            values.insert(compared.key.at(column));
        }
        if ((values.size() == 1) == with_one_value) chosen.push_back(column);
    }
    return chosen;
}

/// What a file says of that which it was measured with, and how a report says it.
struct Origin {
    const char* name;
    const char* words;
};
constexpr Origin origins[] = {{"device", " on "},
                              {"driver", ", driver "},
                              {"cuda_runtime", ", CUDA runtime "},
                              {"pytorch", ", PyTorch "},
                              {"cudnn", ", cuDNN "}};

std::string side_as_text(const char* role, const LatencyFile& file) {
    std::string text = fmt::format("{} {}{}", role, file.path,
                                   file.implementation.empty() ? "" : ": " + file.implementation);
    for (const Origin& origin : origins) {
        const auto found = file.metadata.find(origin.name);
        if (found != file.metadata.end()) text += origin.words + found->second;
    }
    return text + "\n";
}

std::string head_as_text(const LatencyReport& report) {
    std::string text =
        side_as_text("candidate", report.candidate) + side_as_text("baseline ", report.baseline);
    if (report.configurations.size() > 1) {
        const std::vector<std::string> common = key_columns(report, true);
        if (!common.empty()) text += "all have " + describe(report.configurations.front().key, common) + "\n";
    }
    return text + fmt::format("medians in {}; intervals of {:g} % from {} resamples, seed {}\n\n",
                              report.candidate.unit, 100 * report.resampling.confidence,
                              report.resampling.resamples, report.resampling.seed);
}

std::string interval_as_text(const Interval& interval) {
    return fmt::format("[{:.5g}, {:.5g}]", interval.low, interval.high);
}

std::string median_as_text(const Sample& sample) {
    return fmt::format("{:.5g} {} p90 {:.5g} p99 {:.5g} n={}", sample.median,
                       interval_as_text(sample.interval), sample.p90, sample.p99, sample.count);
}

using Row = std::vector<std::string>;

Row row_of(const ComparedConfiguration& compared, const std::vector<std::string>& columns, bool required) {
    Row row = {describe(compared.key, columns),
               median_as_text(compared.candidate),
               median_as_text(compared.baseline),
               fmt::format("{:.4f} [{:.4f}, {:.4f}]", compared.ratio, compared.ratio_interval.low,
                           compared.ratio_interval.high),
               compared.medians_overlap ? "overlap" : "apart",
               compared.effect ? fmt::format("{:.3g} [{:.3g}, {:.3g}]", compared.effect->g,
                                             compared.effect->interval.low, compared.effect->interval.high)
                               : "undefined"};
    if (required) row.push_back(compared.unmet.empty() ? "met" : "NOT MET");
    return row;
}

std::string table_as_text(const LatencyReport& report) {
    const bool required = report.requirements.any();
    const bool one = report.configurations.size() == 1;
    const std::vector<std::string> columns = one ? report.candidate.key_columns : key_columns(report, false);
    std::vector<Row> rows = {
        {"configuration", "candidate", "baseline", "candidate / baseline", "medians", "Hedges' g"}};
    if (required) rows[0].push_back("verdict");
    for (const ComparedConfiguration& compared : report.configurations) {
        rows.push_back(row_of(compared, columns, required));
    }
    std::vector<std::size_t> widths(rows[0].size());
    for (const Row& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const Row& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

std::string required_as_text(const Requirements& requirements) {
    std::vector<std::string> parts;
    if (requirements.ratio) parts.push_back(fmt::format("ratio at most {:g}", *requirements.ratio));
    if (requirements.effect) parts.push_back(fmt::format("Hedges' g at least {:g}", *requirements.effect));
    if (requirements.non_overlap) parts.push_back("faster, with intervals apart");
    if (requirements.at_most)
        parts.push_back(
            fmt::format("at most {:g} {}", requirements.at_most->value, requirements.at_most->unit));
    return fmt::format("{}", fmt::join(parts, " and "));
}

std::string verdict_as_text(const LatencyReport& report) {
    const std::size_t count = report.configurations.size();
    if (!report.requirements.any()) {
        return fmt::format("measured: {} configurations; nothing is required of them\n", count);
    }
    const std::string required = required_as_text(report.requirements);
    const ComparedConfiguration* unmet = first_unmet(report);
    if (unmet == nullptr) return fmt::format("met: {} in all {} configurations\n", required, count);
    const auto failing = std::ranges::count_if(
        report.configurations, [](const ComparedConfiguration& compared) { return !compared.unmet.empty(); });
    return fmt::format("not met: {} in {} of {} configurations; first {}: {}\n", required,
                       count - std::size_t(failing), count,
                       describe(unmet->key, report.candidate.key_columns), fmt::join(unmet->unmet, "; "));
}

Json as_json(const Interval& interval) {
    return {interval.low, interval.high};
}

Json as_json(const Sample& sample) {
    Json json = {{"samples", sample.count},
                 {"median", sample.median},
                 {"p90", sample.p90},
                 {"p99", sample.p99},
                 {"interval", as_json(sample.interval)},
                 {"sm_clock_mhz", nullptr}};
    if (sample.sm_clock_mhz) json["sm_clock_mhz"] = as_json(*sample.sm_clock_mhz);
    return json;
}

Json as_json(const LatencyFile& file) {
    return {{"file", file.path}, {"implementation", file.implementation}, {"metadata", file.metadata}};
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json as_json(const ComparedConfiguration& compared, const std::vector<std::string>& columns) {
    Json json;
    json["configuration"] = Json::object();
    for (const std::string& column : columns) json["configuration"][column] = compared.key.at(column);
    json["candidate"] = as_json(compared.candidate);
    json["baseline"] = as_json(compared.baseline);
    json["ratio"] = compared.ratio;
    json["ratio_interval"] = as_json(compared.ratio_interval);
    json["medians_overlap"] = compared.medians_overlap;
    json["hedges_g"] = compared.effect ? Json(compared.effect->g) : Json(nullptr);
    json["hedges_g_interval"] = compared.effect ? as_json(compared.effect->interval) : Json(nullptr);
    json["unmet"] = compared.unmet;
    return json;
}

}  // namespace

std::string verdict_of(const LatencyReport& report) {
    if (!report.requirements.any()) return "measured";
    return first_unmet(report) == nullptr ? "met" : "not met";
}

std::string to_text(const LatencyReport& report) {
    std::string text = head_as_text(report) + table_as_text(report) + "\n";
    for (const std::string& note : report.notes) text += "note: " + note + "\n";
    return text + verdict_as_text(report);
}

std::string to_json(const LatencyReport& report) {
    Json json;
    json["verdict"] = verdict_of(report);
    json["unit"] = report.candidate.unit;
    json["candidate"] = as_json(report.candidate);
    json["baseline"] = as_json(report.baseline);
    json["require_ratio"] = or_null(report.requirements.ratio);
    json["require_effect"] = or_null(report.requirements.effect);
    json["require_non_overlap"] = report.requirements.non_overlap;
    const std::optional<Latency>& at_most = report.requirements.at_most;
    json["require_at_most"] =
        at_most ? Json(fmt::format("{:g}{}", at_most->value, at_most->unit)) : Json(nullptr);
    json["resamples"] = report.resampling.resamples;
    json["confidence"] = report.resampling.confidence;
    json["seed"] = report.resampling.seed;
    json["configurations"] = Json::array();
    for (const ComparedConfiguration& compared : report.configurations) {
        json["configurations"].push_back(as_json(compared, report.candidate.key_columns));
    }
    json["notes"] = report.notes;
    return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace tilescope
