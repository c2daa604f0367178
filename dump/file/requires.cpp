#include "dump/file/requires.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/file/shard.h"
#include "dump/schema/error.h"

namespace tilescope::hdf5 {

namespace {

// Those of /problem that are in no table of dump/file/layout.h.
constexpr const char* other_attributes[] = {"sm_scale",    "logits_soft_cap", "kv_order",
                                            "named_tiles", "split_starts",    "dkv_per_head"};

constexpr const char* side_inputs[] = {layout::path::seqlens_q,    layout::path::seqlens_kv,
                                       layout::path::cu_seqlens_q, layout::path::cu_seqlens_kv,
                                       layout::path::page_table,   layout::path::alibi_slopes,
                                       layout::path::sink,         layout::path::bias};

std::string path_of(const declarations::UnitsAttribute& attribute) {
    return dataset_of(stage_info(attribute.stage)) + "/" + attribute.name;
}

// Every declaration of the page, by its path: attributes of /problem, units, and datasets of /inputs.
std::vector<std::string> known_declarations() {
    std::vector<std::string> known;
    const auto add = [&known](std::string object, const char* name) {
        known.push_back(std::move(object) + "/" + name);
    };
    for (const declarations::SizeAttribute& attribute : declarations::size_attributes())
        add(layout::path::problem, attribute.name);
    for (const declarations::NameAttribute& attribute : declarations::name_attributes())
        add(layout::path::problem, attribute.name);
    for (const char* name : other_attributes) add(layout::path::problem, name);
    for (const char* name : shard_attributes()) add(layout::path::problem, name);
    for (const declarations::UnitsAttribute& attribute : declarations::units_attributes()) {
        known.push_back(path_of(attribute));
        // The backward pass reads lse: its units stand at the input.
        if (attribute.stage == Stage::lse) add(std::string(layout::path::inputs) + "/lse", attribute.name);
    }
    for (const layout::InputInfo& input : layout::all_inputs()) known.push_back(input.dataset);
    for (const layout::DescaleInfo& descale : layout::all_descales()) known.push_back(descale.dataset);
    known.insert(known.end(), std::begin(side_inputs), std::end(side_inputs));
    return known;
}

}  // namespace

void check_requires(const InputFile& file) {
    const std::string where = shortened(file.path);
    const std::vector<std::string> required = read_texts(file.id.get(), "requires", where);
    if (required.empty()) return;
    const std::vector<std::string> known = known_declarations();
    std::string unknown;
    for (const std::string& name : required) {
        // Text that is missing is empty.
        if (name.empty() || std::ranges::find(known, name) != known.end()) continue;
        unknown += (unknown.empty() ? "" : ", ") + name;
    }
    if (unknown.empty()) return;
    throw Error("cannot be understood without " + shortened(unknown) +
                    " (attribute requires), which this program does not know",
                where, "update Tilescope, or correct the name after dump/FORMAT.md");
}

void write_requires(hid_t file, const Problem& problem, const Units& units) {
    std::vector<std::string> names;
    for (const declarations::SizeAttribute& attribute : declarations::size_attributes()) {
        if (attribute.is_added && !declarations::is_default(attribute, problem))
            names.push_back(std::string(layout::path::problem) + "/" + attribute.name);
    }
    for (const declarations::NameAttribute& attribute : declarations::name_attributes()) {
        if (attribute.is_added && !declarations::is_default(attribute, problem))
            names.push_back(std::string(layout::path::problem) + "/" + attribute.name);
    }
    if (!problem.split_starts.empty()) names.push_back(std::string(layout::path::problem) + "/split_starts");
    for (const char* name : required_of_shard(problem.shard))
        names.push_back(std::string(layout::path::problem) + "/" + name);
    for (const declarations::UnitsAttribute& attribute : declarations::units_attributes()) {
        if (attribute.is_required && !declarations::is_default(attribute, units))
            names.push_back(path_of(attribute));
    }
    if (!names.empty()) write_texts(file, "requires", names);
}

}  // namespace tilescope::hdf5
