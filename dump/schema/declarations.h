#pragma once

// What a recording declares about the call and its stages, as tables that everyone shares who names an
// attribute: the file, tile-diff's options, and whoever suggests another value. dump/FORMAT.md lists the same.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dump/schema.h"

namespace tilescope::declarations {

/// An enumerator and its name.
template <class Enum>
struct Named {
    Enum value;
    std::string_view name;
};

std::span<const Named<Direction>> names(Direction);
std::span<const Named<Axis>> names(Axis);
std::span<const Named<Mask>> names(Mask);
std::span<const Named<CausalAlignment>> names(CausalAlignment);
std::span<const Named<WindowBounds>> names(WindowBounds);
std::span<const Named<Alibi>> names(Alibi);
std::span<const Named<AttentionSink>> names(AttentionSink);
std::span<const Named<HeadGrouping>> names(HeadGrouping);
std::span<const Named<LogBase>> names(LogBase);
std::span<const Named<KvOrder>> names(KvOrder);
std::span<const Named<Accumulation>> names(Accumulation);
std::span<const Named<ExpFunction>> names(ExpFunction);
std::span<const Named<TanhFunction>> names(TanhFunction);
std::span<const Named<EmptyRow>> names(EmptyRow);
std::span<const Named<DescaleInP>> names(DescaleInP);
std::span<const Named<Dtype>> names(Dtype);
std::span<const Named<ShardKind>> names(ShardKind);

template <class Enum>
std::string_view name_of(Enum value) {
    for (const Named<Enum>& entry : names(value)) {
        if (entry.value == value) return entry.name;
    }
    return "";
}

template <class Enum>
std::optional<Enum> value_of(std::string_view name) {
    for (const Named<Enum>& entry : names(Enum())) {
        if (entry.name == name) return entry.value;
    }
    return std::nullopt;
}

/// Integers of /problem. An absent one takes the value of `otherwise`, which stands before it in the table,
/// or the default of Problem.
struct SizeAttribute {
    const char* name;
    std::int64_t Problem::*member;
    bool required;
    std::int64_t Problem::*otherwise;
    bool is_added = false;  ///< as UnitsAttribute::is_required
};
std::span<const SizeAttribute> size_attributes();

/// Names of enumerators in /problem.
using NameMember =
    std::variant<Direction Problem::*, Mask Problem::*, CausalAlignment Problem::*, WindowBounds Problem::*,
                 Alibi Problem::*, AttentionSink Problem::*, HeadGrouping Problem::*, Dtype Problem::*>;
struct NameAttribute {
    const char* name;
    NameMember member;
    bool is_added = false;  ///< as UnitsAttribute::is_required
};
std::span<const NameAttribute> name_attributes();

/// What a stage contains: an attribute of its dataset.
using UnitsMember = std::variant<bool Units::*, double Units::*, LogBase Units::*, Accumulation Units::*,
                                 ExpFunction Units::*, TanhFunction Units::*, EmptyRow Units::*,
                                 DescaleInP Units::*, Dtype Units::*>;
struct UnitsAttribute {
    Stage stage;
    const char* name;
    UnitsMember member;
    /// Readers of version 1 need not know it: written where it is not the default, and then in `requires`.
    bool is_required = false;
};
std::span<const UnitsAttribute> units_attributes();
bool is_default(const UnitsAttribute& attribute, const Units& units);
bool is_default(const SizeAttribute& attribute, const Problem& problem);
bool is_default(const NameAttribute& attribute, const Problem& problem);

/// One of them under the name that options and reports use, "s.cast" or "problem.mask". Shapes and the types of
/// stored tensors are not among them: another value would be that of another file.
using Member = std::variant<bool Units::*, double Units::*, LogBase Units::*, Accumulation Units::*,
                            ExpFunction Units::*, TanhFunction Units::*, EmptyRow Units::*,
                            DescaleInP Units::*, Dtype Units::*, KvOrder Units::*, HeadGrouping Problem::*,
                            Mask Problem::*, CausalAlignment Problem::*, WindowBounds Problem::*,
                            Alibi Problem::*, AttentionSink Problem::*, Dtype Problem::*,
                            std::int64_t Problem::*, double Problem::*, std::vector<std::int64_t> Problem::*>;
struct Declaration {
    std::string name;
    Member member;
    std::string object;        ///< that has it in the file: "/problem" or "/tiles/s"
    std::string attribute;     ///< its name there
    std::string code;          ///< beside a Capture: "problem.mask" or "options.units.s_scaled"
    bool is_required = false;  ///< as UnitsAttribute has it
};
std::span<const Declaration> all_declarations();
/// Null where there is none of that name.
const Declaration* find_declaration(std::string_view name);

/// Numbers with commas between them, "" for none. nullopt for what is no such list.
std::string list_text(const std::vector<std::int64_t>& numbers);
std::optional<std::vector<std::int64_t>> list_of(std::string_view text);

/// The shortest text that reads back as the number.
std::string number_text(double value);

/// As the file has it: "f16", "true", "0.125".
std::string value_text(const Declaration& declaration, const Problem& problem, const Units& units);

/// Every value of a flag or an enumerator; empty for a number.
std::vector<std::string> values_of(const Declaration& declaration);

/// The line of h5py that writes it into the open file `f` of a pass, and the line of C++ beside a Capture.
/// `value` is one of it, as value_text() has it.
std::string h5py_line(const Declaration& declaration, Direction direction, std::string_view value);
std::string code_line(const Declaration& declaration, std::string_view value);

/// Errors: Error for a text that is no value of it.
void declare(const Declaration& declaration, std::string_view value, Problem& problem, Units& units);

/// The same of "s.cast=f16". Errors: Error for a name that is not among them, too.
void declare(std::string_view assignment, Problem& problem, Units& units);

}  // namespace tilescope::declarations
