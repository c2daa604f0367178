#pragma once

// Names in the file, as tables that the reader and the writer share. dump/FORMAT.md lists the same.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "dump/recording.h"

namespace tilescope::layout {

inline constexpr const char* format_name = "tilescope";

namespace path {
inline constexpr const char* problem = "/problem";
inline constexpr const char* inputs = "/inputs";
inline constexpr const char* tiles = "/tiles";
inline constexpr const char* outputs = "/outputs";
inline constexpr const char* capture = "/capture";
}  // namespace path

/// An enumerator and its name in the file.
template <class Enum>
struct Named {
    Enum value;
    std::string_view name;
};

std::span<const Named<Mask>> names(Mask);
std::span<const Named<CausalAlignment>> names(CausalAlignment);
std::span<const Named<LogBase>> names(LogBase);
std::span<const Named<KvOrder>> names(KvOrder);
std::span<const Named<Accumulation>> names(Accumulation);
std::span<const Named<ExpFunction>> names(ExpFunction);
std::span<const Named<Dtype>> names(Dtype);

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

/// Root attributes that say who made the recording.
struct ProvenanceAttribute {
    const char* name;
    std::string Provenance::*member;
};
std::span<const ProvenanceAttribute> provenance_attributes();

/// Integers of /problem. An absent one takes the value of `otherwise`, which stands before it in the table,
/// or the default of Problem.
struct SizeAttribute {
    const char* name;
    std::int64_t Problem::*member;
    bool required;
    std::int64_t Problem::*otherwise;
};
std::span<const SizeAttribute> size_attributes();

/// Dtypes of /problem.
struct DtypeAttribute {
    const char* name;
    Dtype Problem::*member;
};
std::span<const DtypeAttribute> dtype_attributes();

/// What a stage contains: an attribute of its dataset.
using UnitsMember = std::variant<bool Units::*, LogBase Units::*, Accumulation Units::*, ExpFunction Units::*,
                                 Dtype Units::*>;
struct UnitsAttribute {
    Stage stage;
    const char* name;
    UnitsMember member;
};
std::span<const UnitsAttribute> units_attributes();

/// An input tensor: [batch, heads or heads_kv, seqlen, head_dim or head_dim_v].
struct InputInfo {
    Input input;
    const char* name;
    const char* dataset;
    Dtype Problem::*dtype;
    std::int64_t Problem::*heads;
    std::int64_t Problem::*seqlen;
    std::int64_t Problem::*head_dim;
};
std::span<const InputInfo> all_inputs();

/// Whether `stage` is o or lse.
bool is_output(Stage stage);

/// Type in which the kernel stores the output `stage`.
Dtype output_dtype(const Problem& problem, Stage stage);

}  // namespace tilescope::layout
