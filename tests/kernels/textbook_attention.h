#pragma once

#include <vector>

#include "dump/schema.h"
#include "kernels/run/inputs.h"

namespace tilescope::testing {

/// Attention as textbooks write it, in float64 with the whole score matrix, and how far a float32 kernel may
/// be from it.
struct TextbookAttention {
    std::vector<double> o;  ///< [batch][heads][seqlen_q][head_dim]
    std::vector<double> o_tolerance;
    std::vector<double> lse;  ///< [batch][heads][seqlen_q]
    std::vector<double> lse_tolerance;
};

/// The tolerances follow from float32 (from tensor cores and the type of P, where the units say so), first
/// order, with the usual n u for a sum of n terms (Higham, Accuracy and Stability, 2002, 3.1).
TextbookAttention textbook_attention(const Problem& problem, const Units& units, const RunInputs& inputs);

/// Whether query `row` sees key `key`.
bool is_visible(const Problem& problem, std::int64_t row, std::int64_t key);

}  // namespace tilescope::testing
