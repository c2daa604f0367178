#pragma once

// Which rows a rank has, and what it computes in a step: calls that any attention kernel knows, without a mask or with a
// causal one, on all of the rows and keys or on a half of them.

#include <cstdint>
#include <optional>

#include "dump/schema/shard.h"

namespace ring {

enum class Layout { contiguous, zigzag, striped };

struct Ring {
    Layout layout = Layout::contiguous;
    bool causal = false;
    std::int64_t ranks = 1;
    std::int64_t seqlen = 0;  ///< a multiple of twice the ranks

    std::int64_t rows() const { return seqlen / ranks; }
};

/// Rows next to each other of what a rank has.
struct Rows {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

/// What a rank computes with the keys of another one.
struct StepCall {
    Rows q;
    Rows kv;
    bool causal = false;
    std::int64_t causal_offset = 0;  ///< row i of q sees key j of kv when j <= i + causal_offset
};

/// Where the rows [first, first + count) of a rank lie in the sequence.
inline tilescope::Positions positions(const Ring& ring, std::int64_t rank, const Rows& rows) {
    const std::int64_t half = ring.rows() / 2;
    const tilescope::PositionRange halves[] = {{rank * half, half, 1},
                                               {(2 * ring.ranks - 1 - rank) * half, half, 1}};
    switch (ring.layout) {
        case Layout::contiguous:
            return {{rank * ring.rows() + rows.first, rows.count, 1}};
        case Layout::striped:
            return {{rank + rows.first * ring.ranks, rows.count, ring.ranks}};
        case Layout::zigzag:
            if (rows.count == 2 * half) return {halves[0], halves[1]};
            return {halves[rows.first == 0 ? 0 : 1]};
    }
    return {};
}

/// nullopt where none of the keys is seen.
inline std::optional<StepCall> call_of(const Ring& ring, std::int64_t rank, std::int64_t source) {
    const Rows all = {0, ring.rows()};
    const Rows first_half = {0, ring.rows() / 2};
    const Rows second_half = {ring.rows() / 2, ring.rows() / 2};
    if (!ring.causal) return StepCall{all, all, false, 0};
    if (source == rank) return StepCall{all, all, true, 0};
    switch (ring.layout) {
        case Layout::contiguous:
            if (source > rank) return std::nullopt;
            return StepCall{all, all, false, 0};
        case Layout::striped:
            return StepCall{all, all, true, source < rank ? 0 : -1};
        case Layout::zigzag:
            // The rank's second half comes after all that ranks behind it have.
            if (source < rank) return StepCall{all, first_half, false, 0};
            return StepCall{second_half, all, false, 0};
    }
    return std::nullopt;
}

}  // namespace ring
