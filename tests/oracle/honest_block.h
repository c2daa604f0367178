#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dump/schema/dtype.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

inline constexpr float log2e = 1.44269504f;
inline constexpr float ln2 = 0.69314718f;

/// A tile without padding, row-major.
struct Tile {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::vector<float> values;

    Tile() = default;
    Tile(std::int64_t r, std::int64_t c, float fill = 0)
        : rows(r), cols(c), values(std::size_t(r * c), fill) {}
    float& at(std::int64_t row, std::int64_t col) { return values[std::size_t(row * cols + col)]; }
    float at(std::int64_t row, std::int64_t col) const { return values[std::size_t(row * cols + col)]; }
    std::span<const float> row(std::int64_t r) const {
        return std::span(values).subspan(std::size_t(r * cols), std::size_t(cols));
    }
};

/// The running statistics of one split.
struct State {
    Tile m;
    Tile l;
    Tile acc;
};

struct Points;
struct Earlier;

/// An element of a stage, in its tile.
struct Spot {
    Stage stage = Stage::q;
    std::int64_t row = 0;
    std::int64_t col = 0;
};

/// What the kernel computes where a mistake makes it compute another call than the one that is declared.
struct MistakenCall {
    Problem p;
    const Arithmetic& a;
    const Inputs& in;
};

/// One thread block, a query block of a head: what all of its steps take.
struct Block {
    const Problem& p;  ///< with the batch entry's own lengths
    const Arithmetic& a;
    const Inputs& in;
    const Plant& plant;
    KernelRun& run;
    TileId id;
    std::int64_t rows;
    const MistakenCall* mistaken_call = nullptr;  ///< null: the declared one
    const Earlier* earlier = nullptr;             ///< null: nothing is kept of earlier tiles
    const Points* points = nullptr;               ///< null: nothing is done wrong

    std::int64_t first_row() const { return id.q_block * p.block_m; }
    std::int64_t first_key() const { return id.kv_tile * p.block_n; }
    std::int64_t head_kv() const {
        const bool interleaved = p.head_grouping == HeadGrouping::interleaved;
        return interleaved ? id.head % p.heads_kv : id.head / (p.heads / p.heads_kv);
    }
    bool capped() const { return p.logits_soft_cap != 0; }
    bool biased() const { return p.alibi != Alibi::none || !in.bias.empty(); }
    /// Of the whole call, as positions are.
    std::int64_t diagonal(std::int64_t row) const {
        const bool is_last = p.causal_alignment == CausalAlignment::bottom_right;
        const std::int64_t begins = is_last ? p.whole_seqlen_kv() - p.whole_seqlen_q() : 0;
        return position_of(p.shard.q_positions, row) + begins + p.diagonal_offset;
    }
    std::int64_t position(std::int64_t key) const { return position_of(p.shard.kv_positions, key); }
    bool is_visible(std::int64_t row, std::int64_t key) const;

    /// What turns a sum of products into a score: sm_scale and the descales that q and k are without.
    float scale(std::int64_t row, std::int64_t key) const;
    /// The last multiplication before the softmax: with the cap, or scale().
    float last_factor(std::int64_t row, std::int64_t key) const;
    /// The same for scores to the base two.
    float last_factor_log2(std::int64_t row, std::int64_t key) const;
    /// descale_v that V is without.
    float v_descale() const;
    /// `x / y`, or its product with the reciprocal.
    float quotient(float x, float y) const { return a.reciprocal ? x * (1 / y) : x / y; }

    /// Whether the mistake is made at this tile.
    bool is_faulty() const { return plant.applies(id.batch, id.head, id.kv_tile); }
    /// Whether a backward kernel makes this one in the head.
    bool makes(Mistake mistake) const { return plant.is(mistake, id.batch, id.head); }
    /// The block as the mistake has it, without regard to rows. Valid as long as this one.
    Block mistaken() const;
    /// The point's function, or null where nothing is done wrong there.
    template <class Function>
    Function at(Function Points::*point) const {
        return points != nullptr ? points->*point : nullptr;
    }
    /// Records a tile; its padding holds NaN, which nobody may look at.
    void record(Stage stage, const Tile& tile);
    /// Remembers which elements of a stage's dump the mistake changed.
    void note_changes(Stage stage, const Tile& right, const Tile& wrong);
    /// Lets a mistake that changes single elements do so, in what is computed with or in the dump alone.
    void spoil_used(Stage stage, Tile& tile) const;
    void spoil_dumped(Stage stage, Tile& tile) const;
    /// Takes from `right` the query rows that the mistake leaves alone.
    void keep_right_rows(const Tile& right, Tile& wrong) const;
};

/// What a step leaves that goes on with what it dumps.
struct Values {
    Tile dumped;
    static constexpr std::array parts = {&Values::dumped};
};

/// Does a step and records its stage. Where the mistake is made it is done both ways: what comes out right is
/// what the other is held against, and stays in the rows that the mistake leaves alone. A step returns a
/// struct with `dumped` and `parts`, the members of all its tiles.
template <class Step>
auto take(Block& b, Stage stage, const Step& step) {
    auto result = step(std::as_const(b));
    if (b.is_faulty()) {
        const Block mistaken = b.mistaken();
        auto wrong = step(mistaken);
        for (const auto part : wrong.parts) mistaken.spoil_used(stage, wrong.*part);
        mistaken.spoil_dumped(stage, wrong.dumped);
        if (stage != Stage::k && stage != Stage::v) {
            for (const auto part : wrong.parts) b.keep_right_rows(result.*part, wrong.*part);
        }
        b.note_changes(stage, result.dumped, wrong.dumped);
        result = std::move(wrong);
    }
    b.record(stage, result.dumped);
    return result;
}

/// -1 or 1, from the bits of `value`: errors that do not cancel and do not depend on anything else.
double sign_from(float value);

/// `exact` off by most of 2 ulp: a relative error of 2^-23 is between one and two of them.
float off_by_two_ulp(double exact, float key);

/// Stages a query block, or the keys or values of a tile.
Tile stage_operand(Block& block, Stage stage);

/// q or k of the tile as the kernel has it before its scale. Records nothing.
Tile operand_before_its_scale(const Block& block, Stage stage);

/// Whether the mask leaves the tile nothing.
bool tile_is_hidden(const Block& block);

}  // namespace tilescope::test
