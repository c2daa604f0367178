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
inline constexpr const char* writers = "/capture/writers";
inline constexpr const char* fragments = "/fragments";
inline constexpr const char* sink_image = "/capture/sink";
inline constexpr const char* seqlens_q = "/inputs/seqlens_q";
inline constexpr const char* seqlens_kv = "/inputs/seqlens_kv";
inline constexpr const char* cu_seqlens_q = "/inputs/cu_seqlens_q";
inline constexpr const char* cu_seqlens_kv = "/inputs/cu_seqlens_kv";
inline constexpr const char* page_table = "/inputs/page_table";
inline constexpr const char* alibi_slopes = "/inputs/alibi_slopes";
inline constexpr const char* sink = "/inputs/sink";
inline constexpr const char* bias = "/inputs/bias";
}  // namespace path

/// An enumerator and its name in the file.
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
std::span<const Named<LogBase>> names(LogBase);
std::span<const Named<KvOrder>> names(KvOrder);
std::span<const Named<Accumulation>> names(Accumulation);
std::span<const Named<ExpFunction>> names(ExpFunction);
std::span<const Named<TanhFunction>> names(TanhFunction);
std::span<const Named<EmptyRow>> names(EmptyRow);
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

/// Who wrote the elements of a stage: "/capture/writers/s".
std::string writers_of(const StageInfo& info);

/// Names of enumerators in /problem.
using NameMember =
    std::variant<Direction Problem::*, Mask Problem::*, CausalAlignment Problem::*, WindowBounds Problem::*,
                 Alibi Problem::*, AttentionSink Problem::*, Dtype Problem::*>;
struct NameAttribute {
    const char* name;
    NameMember member;
};
std::span<const NameAttribute> name_attributes();

/// What a stage contains: an attribute of its dataset.
using UnitsMember =
    std::variant<bool Units::*, double Units::*, LogBase Units::*, Accumulation Units::*,
                 ExpFunction Units::*, TanhFunction Units::*, EmptyRow Units::*, Dtype Units::*>;
struct UnitsAttribute {
    Stage stage;
    const char* name;
    UnitsMember member;
    /// Readers of version 1 need not know it: written where it is not the default, and then in `requires`.
    bool is_required = false;
};
std::span<const UnitsAttribute> units_attributes();
bool is_default(const UnitsAttribute& attribute, const Units& units);

/// The threads that own a stage's elements: attributes of its dataset beside `fragment`.
struct ThreadAttribute {
    const char* name;
    std::int64_t ThreadLayout::*member;
};
std::span<const ThreadAttribute> thread_attributes();

/// An input tensor, as input_shape() describes it; one of rank 3 is without columns.
struct InputInfo {
    Input input;
    const char* name;
    const char* dataset;
    int rank;
};
std::span<const InputInfo> all_inputs();

/// The descale of an input.
struct DescaleInfo {
    const char* dataset;
    Descale SideInputs::*member;
    std::int64_t Problem::*heads;
    std::int64_t Problem::*seqlen;
};
std::span<const DescaleInfo> all_descales();

}  // namespace tilescope::layout
