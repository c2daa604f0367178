#include "dump/schema/source_line.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <vector>

#include "dump/schema/text.h"

namespace tilescope {

namespace {

bool is_absolute(std::string_view path) {
    return path.starts_with('/') || path.substr(std::min<std::size_t>(path.size(), 1)).starts_with(':');
}

/// Without those that only lead elsewhere.
std::vector<std::string_view> components_of(std::string_view path) {
    std::vector<std::string_view> components;
    while (!path.empty()) {
        const std::size_t end = std::min(path.find('/'), path.size());
        const std::string_view component = path.substr(0, end);
        path.remove_prefix(std::min(end + 1, path.size()));
        if (component == ".." && !components.empty()) {
            components.pop_back();
        } else if (component != ".." && component != "." && !component.empty()) {
            components.push_back(component);
        }
    }
    return components;
}

}  // namespace

std::string kept_path(std::string_view path) {
    std::string slashed(path);
    std::ranges::replace(slashed, '\\', '/');
    const std::vector<std::string_view> components = components_of(slashed);
    const std::size_t kept = is_absolute(slashed) ? 2 : components.size();
    std::string text;
    for (std::size_t i = components.size() - std::min(kept, components.size()); i < components.size(); ++i)
        text += (text.empty() ? "" : "/") + std::string(components[i]);
    return one_line(text);
}

std::string to_string(const SourceLine& source) {
    return source.file + ":" + std::to_string(source.line);
}

std::optional<SourceLine> source_line_from(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    SourceLine source{std::string(text.substr(0, colon)), 0};
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), source.line);
    const bool is_line = error == std::errc() && end == digits.data() + digits.size() && source.line > 0 &&
                         source.line <= std::numeric_limits<std::int32_t>::max();
    const bool is_file = !source.file.empty() && source.file.size() <= max_source_file &&
                         !is_absolute(source.file) && kept_path(source.file) == source.file;
    if (!is_line || !is_file || to_string(source) != text) return std::nullopt;
    return source;
}

}  // namespace tilescope
