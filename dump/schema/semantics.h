#pragma once

#include <array>
#include <cstdint>

#include "dump/schema.h"

namespace tilescope {

/// Keys [first, last) that a query attends to. Every mask of this project is such an interval.
struct KeyRange {
    std::int64_t first = 0;
    std::int64_t last = 0;

    bool empty() const { return first >= last; }
    bool contains(std::int64_t key) const { return key >= first && key < last; }
    bool operator==(const KeyRange&) const = default;
};

/// Key of the diagonal of q row `row` in the whole call, which may lie outside of the keys: the row's position, or that +
/// seqlen_kv - seqlen_q, as causal_alignment says, and diagonal_offset further to the right.
std::int64_t diagonal_of(const Problem& problem, std::int64_t row);

/// Where key `key` of the recording lies in the whole call.
std::int64_t key_position(const Problem& problem, std::int64_t key);

/// The keys that q row `row` sees: causal alignment and windows.
KeyRange visible_keys(const Problem& problem, std::int64_t row);

/// What a sum of products of the staged q and k is multiplied with to be a score, beside descales: sm_scale, less
/// what q and k have of it.
double product_scale(const Problem& problem, const Units& units);

/// What kernels multiply q or k with before their product: sm_scale, or its root where they do so with both, with
/// log2(e) and without.
std::array<double, 4> staged_scales(const Problem& problem);

/// What stands in place of a score that the mask hides, in the units of s: s_masked_value, as its cast leaves
/// it where s was recorded after its mask.
double masked_score(const Units& units);

/// Whether that is a number, and not -inf.
bool masks_with_number(const Units& units);

/// Whether any row of the query block sees any key of the KV tile. Kernels may skip the others.
bool tile_is_visible(const Problem& problem, std::int64_t q_block, std::int64_t kv_tile);

/// The KV tile that the kernel takes after `taken` others.
std::int64_t kv_tile_in_order(const Problem& problem, KvOrder order, std::int64_t taken);

}  // namespace tilescope
