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

/// Of text that only people read about so many bytes are kept.
inline constexpr std::size_t longest_shown = 4096;

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
inline constexpr const char* program = "/program";
inline constexpr const char* program_sizes = "/program/sizes";
inline constexpr const char* program_inputs = "/program/inputs";
inline constexpr const char* program_stages = "/program/stages";
}  // namespace path

/// Root attributes that say who made the recording.
struct ProvenanceAttribute {
    const char* name;
    std::string Provenance::*member;
};
std::span<const ProvenanceAttribute> provenance_attributes();

/// Who wrote the elements of a stage: "/capture/writers/s".
std::string writers_of(const StageInfo& info);

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
    std::int64_t Problem::*head_dim;
};
std::span<const DescaleInfo> all_descales();

}  // namespace tilescope::layout
