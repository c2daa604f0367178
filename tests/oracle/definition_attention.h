#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "dump/schema.h"
#include "tests/oracle/attention_inputs.h"

namespace tilescope::test {

/// One attention call with everything that decides what its stages hold.
struct AttentionCall {
    Problem problem;
    Units units;
    Inputs inputs;
};

/// What the oracle is held against: wider than float64 on x86-64.
using Real = long double;

/// A value by the definition of its stage, and the magnitude of the terms that met in it.
struct Defined {
    Real value = 0;
    Real magnitude = 0;
};

/// One key's score on its way to the softmax, in natural units.
struct DefinedScore {
    Real scaled = 0;
    Real capped = 0;
    Real bias = 0;
    bool hidden = false;                                  ///< by the mask: value is what masked scores hold
    Real value = -std::numeric_limits<Real>::infinity();  ///< as the softmax sees it
    Real magnitude = 0;                                   ///< of the terms of all of this

    /// Whether it takes part in the softmax: a number in place of a hidden score does.
    bool counts() const { return value != -std::numeric_limits<Real>::infinity(); }
    bool seen() const { return !hidden && counts(); }
};

/// What the stages hold in one q row, in the dump's units. P is not cast.
struct DefinedRow {
    std::vector<Defined> s;                 ///< [key]
    std::vector<Defined> m;                 ///< [KV tile]
    std::vector<Defined> p;                 ///< [key]
    std::vector<std::vector<Defined>> l;    ///< [KV tile][lane]
    std::vector<std::vector<Defined>> acc;  ///< [KV tile][column]
    std::vector<Defined> o;                 ///< [column]
    Defined lse;
    std::vector<bool> seen;  ///< [key]: whether the softmax gives it any weight
    bool sees_any = false;
};

/// Attention by its definition: sums over whole rows, with no running state. A row of the batch entry's own
/// length.
DefinedRow define_row(const AttentionCall& call, std::int64_t batch, std::int64_t head, std::int64_t row);

/// The scores of such a row, [key].
std::vector<DefinedScore> define_scores(const AttentionCall& call, std::int64_t batch, std::int64_t head,
                                        std::int64_t row);

/// Row `row` of the staged q, k or v, in the dump's units, without a cast; `head` counts q heads.
std::vector<Real> define_operand(const AttentionCall& call, Stage stage, std::int64_t batch,
                                 std::int64_t head, std::int64_t row);

/// Lengths of a batch entry.
std::int64_t rows_of_entry(const AttentionCall& call, std::int64_t batch);
std::int64_t keys_of_entry(const AttentionCall& call, std::int64_t batch);

/// Whether the masks leave q row `row` the key, in a sequence of `keys` keys and `rows` rows.
bool mask_leaves(const Problem& problem, std::int64_t rows, std::int64_t keys, std::int64_t row,
                 std::int64_t key);

}  // namespace tilescope::test
