#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "oracle/causes/array_addresses.h"

namespace tilescope {

/// An index into an array of all heads that is linear in batch, head, query and column.
struct ArrayStrides {
    /// Elements from one to the next: a number, or a product of extents of the array where it equals one.
    struct Stride {
        std::int64_t number = 0;
        bool is_product = false;
        bool heads = false;
        bool length = false;
        bool cols = false;

        std::int64_t in(const ArrayOfHeads& array) const;
        std::string text() const;
        bool operator==(const Stride&) const = default;
    };

    std::array<Stride, 4> strides;  ///< of batch, head, query and column
    std::int64_t offset = 0;

    std::int64_t address(const ArrayOfHeads& array, std::int64_t batch, std::int64_t head, std::int64_t query,
                         std::int64_t col) const;
    /// "[batch * heads * seqlen_q * head_dim_v + query * heads * head_dim_v + head * head_dim_v + d]"
    std::string text() const;
    /// Numbers in it: strides that are not those of [batch][head][query][d], and the offset.
    int parameters() const;
};

/// The strides that the bad tiles speak for together, each of which tells two of them by itself; nullopt where they
/// do not agree, and where they are those that the array has.
std::optional<ArrayStrides> array_strides(const Evidence& evidence, const ArrayOfHeads& array,
                                          const SourcesOf& sources_of);

}  // namespace tilescope
