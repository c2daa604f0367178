#include "viewer/state/settings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "oracle/report/output_file.h"

namespace tilescope::viewer {

namespace {

constexpr std::size_t most_recent = 12;

/// Reads a member, where it is there and of the right kind and between the limits.
template <typename T>
void read(const nlohmann::json& json, const char* name, T& value, T low, T high) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number()) return;
    const double number = found->get<double>();
    if (number >= double(low) && number <= double(high)) value = T(number);
}

void read(const nlohmann::json& json, const char* name, bool& value) {
    const auto found = json.find(name);
    if (found != json.end() && found->is_boolean()) value = found->get<bool>();
}

nlohmann::json to_json(const ScaleChoice& scale) {
    return {{"kind", int(scale.kind)}, {"colours", int(scale.colours)},
            {"clip", scale.clip},      {"automatic", scale.automatic},
            {"low", scale.low},        {"high", scale.high}};
}

void read(const nlohmann::json& json, ScaleChoice& scale) {
    int kind = int(scale.kind);
    int colours = int(scale.colours);
    read(json, "kind", kind, 0, scale_kind_count - 1);
    read(json, "colours", colours, 0, colour_map_count - 1);
    scale.kind = ScaleKind(kind);
    scale.colours = ColourMap(colours);
    read(json, "clip", scale.clip, 0.0, 0.4);
    read(json, "automatic", scale.automatic);
    constexpr double largest = 1e300;
    read(json, "low", scale.low, -largest, largest);
    read(json, "high", scale.high, -largest, largest);
}

void read(const nlohmann::json& json, Settings& settings) {
    if (!json.is_object()) return;
    const auto recent = json.find("recent");
    if (recent != json.end() && recent->is_array()) {
        for (const nlohmann::json& entry : *recent) {
            if (entry.is_string() && settings.recent.size() < most_recent)
                settings.recent.push_back(entry.get<std::string>());
        }
    }
    read(json, "width", settings.width, 640, 8192);
    read(json, "height", settings.height, 400, 8192);
    read(json, "tile_grid", settings.tile_grid);
    read(json, "mask_edges", settings.mask_edges);
    read(json, "warp_lines", settings.warp_lines);
    read(json, "history", settings.history);
    read(json, "warp_rows", settings.warp_rows, 1, 1024);
    read(json, "lane_columns", settings.lane_columns, 1, 1024);
    const auto scales = json.find("scales");
    if (scales == json.end() || !scales->is_object()) return;
    for (const QuantityInfo& info : all_quantities()) {
        if (info.against == Reference::end_to_end) continue;
        const auto scale = scales->find(std::string(info.name));
        if (scale != scales->end() && scale->is_object())
            read(*scale, settings.scales[std::size_t(info.quantity)]);
    }
}

}  // namespace

Settings default_settings() {
    Settings settings;
    for (const QuantityInfo& info : all_quantities()) {
        ScaleChoice& scale = settings.scales[std::size_t(info.quantity)];
        scale.kind = info.scale;
        scale.colours = info.colours;
    }
    return settings;
}

std::string settings_path() {
    const char* config = std::getenv("XDG_CONFIG_HOME");
    if (config != nullptr && *config == '/') return std::string(config) + "/tilescope/view.json";
    const char* home = std::getenv("HOME");
    return home != nullptr && *home == '/' ? std::string(home) + "/.config/tilescope/view.json" : "";
}

Settings load_settings(const std::string& path) {
    Settings settings = default_settings();
    std::error_code ignored;
    // Reading a directory throws.
    if (!std::filesystem::is_regular_file(path, ignored)) return settings;
    std::ifstream file(path);
    read(nlohmann::json::parse(file, nullptr, false), settings);
    return settings;
}

void save_settings(const std::string& path, const Settings& settings) {
    if (path.empty()) return;
    nlohmann::json json = {{"recent", settings.recent},         {"width", settings.width},
                           {"height", settings.height},         {"tile_grid", settings.tile_grid},
                           {"mask_edges", settings.mask_edges}, {"warp_lines", settings.warp_lines},
                           {"warp_rows", settings.warp_rows},   {"lane_columns", settings.lane_columns},
                           {"history", settings.history}};
    for (const QuantityInfo& info : all_quantities()) {
        // Shown as the local ones are.
        if (info.against == Reference::end_to_end) continue;
        json["scales"][std::string(info.name)] = to_json(settings.scales[std::size_t(info.quantity)]);
    }
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    try {
        OutputFile file(path);
        file.write(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
        file.commit();
    } catch (const std::exception&) {
        // A view that could not keep its settings has still shown what was asked for.
    }
}

void remember_recent(Settings& settings, const std::string& entry) {
    std::erase(settings.recent, entry);
    settings.recent.insert(settings.recent.begin(), entry);
    if (settings.recent.size() > most_recent) settings.recent.resize(most_recent);
}

}  // namespace tilescope::viewer
