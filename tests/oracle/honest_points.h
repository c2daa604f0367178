#pragma once

#include "tests/oracle/honest_block.h"
#include "tests/oracle/honest_scores.h"
#include "tests/oracle/honest_softmax.h"

namespace tilescope::test {

// The points of the kernel at which a mistake can be made. A mistake is a row of the table in plants.h that
// has a function at one or two of them.

/// Where an element of q, k or v is read from.
struct Source {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;
    std::int64_t col = 0;
    std::optional<float> value;  ///< in place of what memory holds
};

/// What becomes of the keys beyond the last one in the last KV tile.
enum class Tail : std::uint8_t {
    cut,      ///< they are never there
    masked,   ///< loaded, and masked
    unmasked  ///< loaded, and taken for keys
};

/// What is added to a score: bias + slope (key - diagonal + shift).
struct BiasTerms {
    float bias = 0;
    float slope = 0;
    std::int64_t shift = 0;
};

/// A row at its end: after its last tile, or normalised.
struct EndedRow {
    float m = -infinity;
    float l = 0;
    std::vector<float> acc;
};

struct RowOutput {
    float lse = -infinity;
    std::vector<float> o;
};

struct Points {
    /// What is computed, in place of what is declared.
    void (*call)(Call&) = nullptr;
    void (*load)(const Block&, Stage, Source&) = nullptr;
    /// An element of q, k or v as it is staged.
    float (*staged)(const Block&, const Spot&, float value) = nullptr;
    Tail tail = Tail::cut;
    /// K as the product takes it.
    Tile (*k_operand)(const Block&, const Tile& k) = nullptr;
    /// The sum of products of a query row and a key of the tile.
    float (*product)(const Block&, float sum, std::int64_t row_in_tile, std::int64_t key_in_tile) = nullptr;
    bool (*visible)(const Block&, std::int64_t row, std::int64_t key) = nullptr;
    void (*bias)(const Block&, std::int64_t row, std::int64_t key, BiasTerms&) = nullptr;
    /// A score before its mask, as the softmax takes it.
    float (*score)(const Block&, float score) = nullptr;
    /// What a masked cell holds.
    float (*hidden)(const Block&, std::int64_t row, std::int64_t key) = nullptr;
    void (*initial)(const Block&, State&) = nullptr;
    float (*max)(const MaxStep&) = nullptr;
    float (*probability)(const ProbabilityStep&) = nullptr;
    /// P, scaled, as V is multiplied with it.
    float (*cast)(const Block&, float scaled) = nullptr;
    float (*sum)(const SumStep&) = nullptr;
    /// P and V as their product takes them.
    Tile (*p_operand)(const Block&, const Probabilities&) = nullptr;
    Tile (*v_operand)(const Block&, const Tile& v) = nullptr;
    float (*acc)(const AccStep&) = nullptr;
    /// What the products of P and V are multiplied with as they join acc.
    float (*joins_with)(const Block&, float factor) = nullptr;
    /// What acc is multiplied with before it is divided by l.
    float (*o_scale)(const Block&, float scale) = nullptr;
    float (*divided)(const Block&, float acc, float l) = nullptr;
    /// The splits, before they are combined, and the weight of one of them.
    void (*splits)(const Block&, std::vector<RowOutput>&) = nullptr;
    float (*weight)(const Block&, float weight, std::int64_t splits) = nullptr;
    /// o and lse of a row without splits.
    void (*output)(const Block&, const EndedRow&, RowOutput&) = nullptr;
    /// An element that a stage goes on with, and what of it is dumped.
    float (*spoilt)(const Block&, const Spot&, float value) = nullptr;
    float (*dumped)(const Block&, const Spot&, float value) = nullptr;
    /// The query head whose o this thread block overwrites.
    std::int64_t (*o_head)(const Block&) = nullptr;
};

/// What the tiles before this one of the block left behind.
struct Earlier {
    std::optional<Tile> k;
    std::optional<Tile> v;
    std::optional<Probabilities> p;
};

}  // namespace tilescope::test
