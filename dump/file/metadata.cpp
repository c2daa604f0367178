#include "dump/file/metadata.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/file/named_tiles.h"
#include "dump/file/requires.h"
#include "dump/file/shard.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope::hdf5 {

namespace {

const char* const other_file_advice = "give the file that tile-run or a capture wrote";

template <class Value>
Value required(std::optional<Value> value, const char* name, const std::string& where) {
    if (!value) throw Error("has no attribute " + std::string(name), where, damaged_advice);
    return *value;
}

void read_sizes(hid_t group, const std::string& where, Problem& problem) {
    for (const declarations::SizeAttribute& attribute : declarations::size_attributes()) {
        const std::optional<std::int64_t> value = read_integer(group, attribute.name, where);
        if (attribute.required) required(value, attribute.name, where);
        if (value) {
            problem.*attribute.member = *value;
        } else if (attribute.otherwise != nullptr) {
            problem.*attribute.member = problem.*attribute.otherwise;
        }
    }
}

template <class Enum>
void read_name_into(hid_t object, const char* name, const std::string& where, Enum& value) {
    value = read_name<Enum>(object, name, where).value_or(value);
}

Id open_problem(const InputFile& file) {
    std::optional<Id> group = open_group(file, layout::path::problem);
    if (!group) throw Error("is missing", file.where(layout::path::problem), damaged_advice);
    return std::move(*group);
}

}  // namespace

void check_format(const InputFile& file) {
    const std::string where = shortened(file.path);
    const hid_t root = file.id.get();
    const std::optional<std::string> format = read_text(root, "format", where);
    if (format != layout::format_name) {
        throw Error("is an HDF5 file, but not a Tilescope dump (no attribute format=\"tilescope\")", where,
                    other_file_advice);
    }
    const std::int64_t version =
        required(read_integer(root, "format_version", where), "format_version", where);
    if (version > format_version) {
        throw Error("has format_version " + std::to_string(version) + "; this program reads up to " +
                        std::to_string(format_version),
                    where, "update Tilescope");
    }
    if (version < 1) {
        throw Error("has format_version " + std::to_string(version), where, damaged_advice);
    }
    if (read_integer(root, "complete", where).value_or(0) != 1) {
        throw Error("was not completed (no attribute complete=1)", where, "record it again");
    }
    check_requires(file);
}

bool is_of_program(const InputFile& file) {
    if (!has_object(file, layout::path::program)) return false;
    for (const char* path :
         {layout::path::problem, layout::path::inputs, layout::path::tiles, layout::path::outputs}) {
        if (has_object(file, path))
            throw Error("stands beside " + std::string(layout::path::program) +
                            ", and a file holds either attention or a declared kernel",
                        file.where(path), "write two files");
    }
    return true;
}

Provenance read_provenance(const InputFile& file) {
    Provenance provenance;
    for (const layout::ProvenanceAttribute& attribute : layout::provenance_attributes()) {
        provenance.*attribute.member =
            readable(read_text(file.id.get(), attribute.name, shortened(file.path)).value_or(""),
                     layout::longest_shown);
    }
    return provenance;
}

Problem read_problem(const InputFile& file) {
    const std::string where = file.where(layout::path::problem);
    const Id group = open_problem(file);
    Problem problem;
    read_sizes(group.get(), where, problem);
    problem.sm_scale = required(read_number(group.get(), "sm_scale", where), "sm_scale", where);
    problem.logits_soft_cap =
        read_number(group.get(), "logits_soft_cap", where).value_or(problem.logits_soft_cap);
    for (const declarations::NameAttribute& attribute : declarations::name_attributes()) {
        const auto read = [&](auto Problem::*member) {
            read_name_into(group.get(), attribute.name, where, problem.*member);
        };
        std::visit(read, attribute.member);
    }
    const std::string starts = read_text(group.get(), "split_starts", where).value_or("");
    const auto list = declarations::list_of(starts);
    if (!list)
        throw Error("split_starts is " + readable(starts) + ", no list of KV tiles", where, damaged_advice);
    problem.split_starts = *list;
    problem.dkv_per_head = read_flag(group.get(), "dkv_per_head", where).value_or(problem.dkv_per_head);
    problem.shard = read_shard(group.get(), where);
    validate(problem, where);
    return problem;
}

Units read_common_units(const InputFile& file) {
    const Id group = open_problem(file);
    Units units;
    read_name_into(group.get(), "kv_order", file.where(layout::path::problem), units.kv_order);
    return units;
}

void read_stage_units(hid_t dataset, const std::string& where, Stage stage, Units& units) {
    for (const declarations::UnitsAttribute& attribute : declarations::units_attributes()) {
        if (attribute.stage != stage) continue;
        const auto read = [&](auto Units::*member) {
            if constexpr (std::is_same_v<decltype(units.*member), bool&>) {
                units.*member = read_flag(dataset, attribute.name, where).value_or(units.*member);
            } else if constexpr (std::is_same_v<decltype(units.*member), double&>) {
                units.*member = read_number(dataset, attribute.name, where).value_or(units.*member);
            } else {
                read_name_into(dataset, attribute.name, where, units.*member);
            }
        };
        std::visit(read, attribute.member);
    }
    validate(units, where);
}

void check_dtype(hid_t dataset, const std::string& where, Dtype dtype) {
    const std::optional<std::string> named = read_text(dataset, "dtype", where);
    const std::string declared(dtype_info(dtype).name);
    if (!named || *named == declared) return;
    throw Error("attribute dtype is " + *named + " where " + declared + " is declared", where,
                damaged_advice);
}

void write_format(hid_t file, const Provenance& provenance) {
    write_text(file, "format", layout::format_name);
    write_integer(file, "format_version", format_version);
    for (const layout::ProvenanceAttribute& attribute : layout::provenance_attributes()) {
        write_text(file, attribute.name, provenance.*attribute.member);
    }
}

void write_complete(hid_t file) {
    write_integer(file, "complete", 1);
}

void write_problem(hid_t group, const Problem& problem, const Units& units) {
    for (const declarations::SizeAttribute& attribute : declarations::size_attributes()) {
        if (attribute.is_added && declarations::is_default(attribute, problem)) continue;
        write_integer(group, attribute.name, problem.*attribute.member);
    }
    if (!problem.split_starts.empty())
        write_text(group, "split_starts", declarations::list_text(problem.split_starts));
    write_number(group, "sm_scale", problem.sm_scale);
    write_number(group, "logits_soft_cap", problem.logits_soft_cap);
    write_text(group, "kv_order", declarations::name_of(units.kv_order));
    write_flag(group, "dkv_per_head", problem.dkv_per_head);
    write_named_tiles(group, problem);
    write_shard(group, problem.shard);
    for (const declarations::NameAttribute& attribute : declarations::name_attributes()) {
        if (attribute.is_added && declarations::is_default(attribute, problem)) continue;
        const auto write = [&](auto Problem::*member) {
            write_text(group, attribute.name, declarations::name_of(problem.*member));
        };
        std::visit(write, attribute.member);
    }
}

void write_stage_units(hid_t dataset, Stage stage, const Units& units) {
    for (const declarations::UnitsAttribute& attribute : declarations::units_attributes()) {
        if (attribute.stage != stage || (attribute.is_required && declarations::is_default(attribute, units)))
            continue;
        const auto write = [&](auto Units::*member) {
            if constexpr (std::is_same_v<decltype(units.*member), const bool&>) {
                write_flag(dataset, attribute.name, units.*member);
            } else if constexpr (std::is_same_v<decltype(units.*member), const double&>) {
                write_number(dataset, attribute.name, units.*member);
            } else {
                write_text(dataset, attribute.name, declarations::name_of(units.*member));
            }
        };
        std::visit(write, attribute.member);
    }
}

void write_dtype(hid_t dataset, Dtype dtype) {
    write_text(dataset, "dtype", std::string(dtype_info(dtype).name));
}

}  // namespace tilescope::hdf5
