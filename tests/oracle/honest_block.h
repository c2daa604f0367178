#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "dump/dtype.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float log2e = 1.44269504f;
inline constexpr float ln2 = 0.69314718f;

/// A tile without padding, row-major.
struct Tile {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::vector<float> values;

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

/// One thread block, a query block of a head: what all of its steps take.
struct Block {
    const Problem& p;  ///< with the batch entry's own lengths
    const Arithmetic& a;
    const Inputs& in;
    const Plant& plant;
    KernelRun& run;
    TileId id;
    std::int64_t rows;

    std::int64_t first_row() const { return id.q_block * p.block_m; }
    std::int64_t first_key() const { return id.kv_tile * p.block_n; }
    std::int64_t head_kv() const { return id.head / (p.heads / p.heads_kv); }
    bool capped() const { return p.logits_soft_cap != 0; }
    bool biased() const { return p.alibi != Alibi::none || !in.bias.empty(); }
    std::int64_t diagonal(std::int64_t row) const {
        return p.causal_alignment == CausalAlignment::bottom_right ? row + p.seqlen_kv - p.seqlen_q : row;
    }
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

    bool faulty(Mistake mistake) const {
        return plant.mistake == mistake && plant.applies(id.batch, id.head, id.kv_tile);
    }
    bool faulty(Mistake mistake, std::int64_t row_in_block) const {
        return faulty(mistake) && plant.applies_to_row(first_row() + row_in_block);
    }
    /// `got` in place of `healthy`, remembered where it differs.
    float changed(float healthy, float got, std::int64_t row, std::int64_t col);
    /// Records a tile; its padding holds NaN, which nobody may look at.
    void record(Stage stage, const Tile& tile);
};

/// -1 or 1, from the bits of `value`: errors that do not cancel and do not depend on anything else.
double sign_from(float value);

/// `exact` off by most of 2 ulp: a relative error of 2^-23 is between one and two of them.
float off_by_two_ulp(double exact, float key);

}  // namespace tilescope::test
