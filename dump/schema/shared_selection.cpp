#include "dump/schema/shared_selection.h"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "dump/schema/selection.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

constexpr std::array<std::string_view, 5> attention_axes = {"batch", "head", "q_block", "kv_tile", "block"};

using Names = std::set<std::string, std::less<>>;

/// Of all programs that were declared so far.
struct SharedNames {
    std::mutex mutex;
    Names axes;
    Names stages;
};

SharedNames& shared() {
    static SharedNames names;
    return names;
}

Names axis_names_of(const Program& program) {
    Names names;
    for (const ProgramAxis& axis : program.axes) names.insert(axis.name);
    return names;
}

Names stage_names_of(const Program& program) {
    Names names;
    for (const ProgramArray& array : program.arrays)
        if (array.is_stage) names.insert(array.name);
    return names;
}

bool is_coordinate(std::string_view name) {
    return std::ranges::find(attention_axes, name) != attention_axes.end();
}

using IsName = std::function<bool(std::string_view)>;

/// Who has a name: the kernel that is asked for, or others. A name of both is the kernel's.
struct Known {
    IsName own;
    IsName others;

    bool leaves(std::string_view name) const { return !own(name) && others(name); }
};

/// The clause without stages of others; nullopt where it is about others alone.
std::optional<std::string> part_of_clause(std::string_view clause, const Known& of_axes,
                                          const Known& of_stages) {
    const std::size_t equals = clause.find('=');
    const std::string_view key = clause.substr(0, equals);
    if (equals == std::string_view::npos) return std::string(clause);
    if (key != "stage") return of_axes.leaves(key) ? std::nullopt : std::optional(std::string(clause));
    std::vector<std::string> names;
    for (const std::string_view name : split(clause.substr(equals + 1), ','))
        if (!of_stages.leaves(name)) names.emplace_back(name);
    return names.empty() ? std::nullopt : std::optional("stage=" + joined(names, ","));
}

std::string part_of(std::string_view selection, const Known& of_axes, const Known& of_stages) {
    const std::vector<std::string_view> clauses = split(selection, ':');
    // An empty clause is none, whatever is left beside it.
    if (std::ranges::find(clauses, std::string_view()) != clauses.end()) return std::string(selection);
    std::vector<std::string> own;
    for (const std::string_view clause : clauses)
        if (const std::optional<std::string> part = part_of_clause(clause, of_axes, of_stages))
            own.push_back(*part);
    return joined(own, ":");
}

}  // namespace

void share_names(const Program& program) {
    const std::scoped_lock lock(shared().mutex);
    shared().axes.merge(axis_names_of(program));
    shared().stages.merge(stage_names_of(program));
}

std::string part_of_attention(std::string_view selection, Span<const NamedTile> named) {
    const std::scoped_lock lock(shared().mutex);
    const auto is_stage = [&](std::string_view name) { return stage_from_name(name, named).has_value(); };
    const Known of_axes{is_coordinate, [](std::string_view name) { return shared().axes.contains(name); }};
    const Known of_stages{is_stage, [](std::string_view name) { return shared().stages.contains(name); }};
    return part_of(selection, of_axes, of_stages);
}

std::string part_of_program(std::string_view selection, const Program& program) {
    const std::scoped_lock lock(shared().mutex);
    const Names own_axes = axis_names_of(program);
    const Names own_stages = stage_names_of(program);
    const Known of_axes{
        [&](std::string_view name) { return own_axes.contains(name); },
        [](std::string_view name) { return is_coordinate(name) || shared().axes.contains(name); }};
    const Known of_stages{[&](std::string_view name) { return own_stages.contains(name); },
                          [](std::string_view name) {
                              return stage_from_name(name, {}).has_value() || shared().stages.contains(name);
                          }};
    return part_of(selection, of_axes, of_stages);
}

}  // namespace tilescope
