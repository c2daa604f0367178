#include "oracle/causes/output_indices.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "oracle/identify/index_forms.h"

namespace tilescope {

namespace {

using Part = OutputIndex::Part;
using ExtentOf = std::function<std::int64_t(const Problem&)>;

constexpr std::array<const char*, store_variables> variable_names = {"batch",   "head", "query", "d",
                                                                     "q_block", "row",  "0"};
/// The variables that the parts should be of, and so many numbers are enough for each.
constexpr std::size_t own_parts = 4;
constexpr std::int64_t most_of_number = 32;

struct NamedExtent {
    std::string name;
    ExtentOf of;
};

std::array<NamedExtent, own_parts> own_extents(bool is_row) {
    return {{{"batch_size", [](const Problem& p) { return p.batch; }},
             {"heads", [](const Problem& p) { return p.heads; }},
             {"seqlen_q", [](const Problem& p) { return p.seqlen_q; }},
             {"head_dim_v", [=](const Problem& p) { return is_row ? 1 : p.head_dim_v; }}}};
}

/// Extents that a kernel may take for another one.
std::vector<NamedExtent> extents_of_others() {
    return {{"heads_kv", [](const Problem& p) { return p.heads_kv; }},
            {"heads", [](const Problem& p) { return p.heads; }},
            {"batch_size", [](const Problem& p) { return p.batch; }},
            {"seqlen_q", [](const Problem& p) { return p.seqlen_q; }},
            {"seqlen_kv", [](const Problem& p) { return p.seqlen_kv; }},
            {"head_dim", [](const Problem& p) { return p.head_dim; }},
            {"head_dim_v", [](const Problem& p) { return p.head_dim_v; }},
            {"block_m", [](const Problem& p) { return p.block_m; }},
            {"block_n", [](const Problem& p) { return p.block_n; }},
            {"q_blocks * block_m", [](const Problem& p) { return p.q_blocks() * p.block_m; }}};
}

/// The extents of others, then its own one with padding.
std::vector<NamedExtent> other_extents(const NamedExtent& own) {
    std::vector<NamedExtent> extents = extents_of_others();
    for (const std::int64_t padding : {1, -1, 2, -2, 3, -3, 4, -4, 5, 6, 7, 8, -8, 16, 32}) {
        extents.push_back({fmt::format("{} {} {}", own.name, padding < 0 ? '-' : '+', std::abs(padding)),
                           [=, of = own.of](const Problem& p) { return of(p) + padding; }});
    }
    for (const std::int64_t multiple : {16, 32, 64, 128}) {
        extents.push_back(
            {fmt::format("{} rounded up to {}", own.name, multiple),
             [=, of = own.of](const Problem& p) { return (of(p) + multiple - 1) / multiple * multiple; }});
    }
    return extents;
}

OutputIndex own_index(bool is_row) {
    OutputIndex index;
    const auto extents = own_extents(is_row);
    for (std::size_t part = 0; part < own_parts; ++part)
        index.parts[part] = {StoreVariable(part), {}, false, extents[part].of};
    index.parameters = 1;
    return index;
}

std::string brackets(const std::array<std::string, own_parts>& parts, bool is_row) {
    std::string text;
    for (std::size_t part = 0; part < own_parts - std::size_t(is_row); ++part)
        text += fmt::format("[{}]", parts[part]);
    return text;
}

std::array<std::string, own_parts> own_names() {
    return {variable_names[0], variable_names[1], variable_names[2], variable_names[3]};
}

/// The parts in another order.
void add_layouts(bool is_row, std::vector<OutputIndex>& indices) {
    std::array<std::size_t, own_parts> order = {0, 1, 2, 3};
    const OutputIndex own = own_index(is_row);
    while (std::next_permutation(order.begin(), order.end() - int(is_row))) {
        OutputIndex index = own;
        std::array<std::string, own_parts> names;
        for (std::size_t part = 0; part < own_parts; ++part) {
            index.parts[part] = own.parts[order[part]];
            names[part] = variable_names[order[part]];
        }
        index.text = brackets(names, is_row);
        indices.push_back(std::move(index));
    }
}

/// What a part counts up to is that of another array.
void add_extents(const Problem& problem, bool is_row, std::vector<OutputIndex>& indices) {
    const auto owns = own_extents(is_row);
    for (std::size_t part = 1; part < own_parts - std::size_t(is_row); ++part) {
        std::set<std::int64_t> known = {owns[part].of(problem)};
        for (const NamedExtent& extent : other_extents(owns[part])) {
            if (const std::int64_t now = extent.of(problem); now <= 0 || !known.insert(now).second) continue;
            OutputIndex index = own_index(is_row);
            index.parts[part].extent = extent.of;
            index.text = fmt::format("its own place with {} for {}", extent.name, owns[part].name);
            indices.push_back(std::move(index));
        }
    }
}

/// A part is another variable, or two have each other's.
void add_variables(bool is_row, std::vector<OutputIndex>& indices) {
    const auto add = [&](const std::vector<std::pair<std::size_t, std::size_t>>& changes) {
        OutputIndex index = own_index(is_row);
        auto names = own_names();
        for (const auto& [part, variable] : changes) {
            index.parts[part].variable = StoreVariable(variable);
            names[part] = variable_names[variable];
        }
        index.text = brackets(names, is_row);
        indices.push_back(std::move(index));
    };
    const std::size_t parts = own_parts - std::size_t(is_row);
    for (std::size_t part = 0; part < parts; ++part) {
        for (std::size_t variable = 0; variable < store_variables; ++variable)
            if (variable != part && (!is_row || variable != std::size_t(StoreVariable::d)))
                add({{part, variable}});
        for (std::size_t other = part + 1; other < parts; ++other) add({{part, other}, {other, part}});
    }
}

/// A part is a function of its own variable, or of the row in the tile.
void add_functions(const Problem& problem, bool is_row, std::vector<OutputIndex>& indices) {
    const auto add = [&](std::size_t part, bool is_within_tile, const IndexFormula& formula) {
        OutputIndex index = own_index(is_row);
        auto names = own_names();
        Part& changed = index.parts[part];
        if (is_within_tile) changed.variable = StoreVariable::row;
        changed.is_within_tile = is_within_tile;
        changed.of = formula.apply;
        names[part] = is_within_tile ? "first row + " + formula.text : formula.text;
        index.text = brackets(names, is_row);
        index.parameters = 1 + formula.parameters;
        indices.push_back(std::move(index));
    };
    const auto add_all = [&](std::size_t part, bool is_within_tile, std::int64_t count) {
        const std::string name = variable_names[is_within_tile ? std::size_t(StoreVariable::row) : part];
        for (const std::int64_t by : {1, -1, 2, -2, 3, -3, 4, -4, 8, -8, 16, -16}) {
            add(part, is_within_tile,
                {[=](std::int64_t x) { return x + by; },
                 fmt::format("{} {} {}", name, by < 0 ? '-' : '+', std::abs(by)), 1});
        }
        for (const std::int64_t by : {2, 3, 4, 5, 8})
            add(part, is_within_tile,
                {[=](std::int64_t x) { return by * x; }, fmt::format("{} * {}", by, name), 1});
        for_each_index_form(std::min(count - 1, most_of_number), name, [&](const IndexFormula& form) {
            add(part, is_within_tile, form);
            return true;
        });
        const std::int64_t end = std::min(count, most_of_number);
        for (std::int64_t low = 0; 1LL << low < end; ++low)
            for (std::int64_t high = low + 1; 1LL << high < end; ++high)
                add(part, is_within_tile, formula_of(IndexPart::Form::exchanged_bits, name, low, high));
    };
    const auto extents = own_extents(is_row);
    for (std::size_t part = 0; part < own_parts - std::size_t(is_row); ++part)
        add_all(part, false, extents[part].of(problem));
    add_all(std::size_t(StoreVariable::query), true, problem.block_m);
}

}  // namespace

std::int64_t OutputIndex::address(const Problem& problem, const StorePlace& place) const {
    std::int64_t address = 0;
    for (const Part& part : parts) {
        const std::int64_t x = place[std::size_t(part.variable)];
        std::int64_t value = part.of ? part.of(x) : x;
        if (part.is_within_tile) value += place[std::size_t(StoreVariable::query)] - x;
        address = address * part.extent(problem) + value;
    }
    return address;
}

std::vector<OutputIndex> other_output_indices(const Problem& problem, bool is_row) {
    std::vector<OutputIndex> indices;
    add_layouts(is_row, indices);
    add_variables(is_row, indices);
    add_extents(problem, is_row, indices);
    add_functions(problem, is_row, indices);
    return indices;
}

}  // namespace tilescope
