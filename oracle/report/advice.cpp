#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "dump/schema/declarations.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

using declarations::Declaration;

/// What `requires` has to list where all of it is declared; "" where it need not be there.
std::string requires_line(const Problem& problem, const Units& units) {
    std::string names;
    const auto is_default = [&](const Declaration& declaration) {
        return declarations::value_text(declaration, problem, units) ==
               declarations::value_text(declaration, Problem(), Units());
    };
    for (const Declaration& declaration : declarations::all_declarations()) {
        if (!declaration.is_required || is_default(declaration)) continue;
        names +=
            fmt::format("{}\"{}/{}\"", names.empty() ? "" : ", ", declaration.object, declaration.attribute);
    }
    return names.empty() ? "" : fmt::format("  f.attrs[\"requires\"] = [{}]\n", names);
}

/// A dataset that holds nothing but units, in h5py; nothing where the stage was recorded.
std::string dataset_line(const Report& report, const std::string& object) {
    constexpr std::string_view tiles = "/tiles/";
    if (!object.starts_with(tiles)) return "";
    const std::optional<Stage> stage = stage_from_name(object.substr(tiles.size()));
    if (!stage || report.stage(*stage).captured) return "";
    const DatasetShape shape = dataset_shape(report.problem, *stage);
    std::string dims;
    std::string chunk;
    for (std::size_t i = 0; i < shape.dims.size(); ++i) {
        dims += fmt::format("{}{}", i > 0 ? ", " : "", shape.dims[i]);
        chunk += fmt::format("{}{}", i > 0 ? ", " : "", std::min(shape.chunk[i], shape.dims[i]));
    }
    return fmt::format("  f.require_dataset(\"{}\", ({}), \"f4\", chunks=({}))\n", object, dims, chunk);
}

/// The same in both languages.
std::string lines_of(const Report& report, const Suggestion& suggestion) {
    Problem problem = report.problem;
    Units units = report.units;
    std::string host = "beside the Capture (dump/HOOKS.md):\n";
    std::string file = "in the file, with h5py (dump/FORMAT.md):\n";
    for (const auto& [name, value] : suggestion.assignments) {
        const Declaration& declaration = *declarations::find_declaration(name);
        host += fmt::format("  {}\n", declarations::code_line(declaration, value));
        const std::string dataset = dataset_line(report, declaration.object);
        if (file.find(dataset) == std::string::npos) file += dataset;
        file += fmt::format("  {}\n", declarations::h5py_line(declaration, problem.direction, value));
        declarations::declare(declaration, value, problem, units);
    }
    return host + file + requires_line(problem, units);
}

}  // namespace

std::string suggestion_arguments(const Report& report) {
    if (!report.diagnosis.suggestion) return "";
    std::string text;
    for (const auto& [name, value] : report.diagnosis.suggestion->assignments)
        text += fmt::format("--declare {}={}\n", name, value);
    return text;
}

std::string suggestion_advice(const Report& report) {
    const std::optional<Suggestion>& suggestion = report.diagnosis.suggestion;
    std::string end;
    for (const std::string& line : lines_of(report.diagnosis.end)) end += line + "\n";
    if (suggestion)
        return fmt::format("{}\n{}{}", remains_text(*suggestion), lines_of(report, *suggestion), end);
    const bool match = !report.guilty && report.unjudged.empty();
    const bool tried_all = report.diagnosis.end.is_whole();
    return fmt::format("{}: {}\n{}",
                       match       ? "nothing to declare"
                       : tried_all ? "no declaration gets further"
                                   : "no declaration was found that gets further",
                       verdict_line(report), end);
}

}  // namespace tilescope
