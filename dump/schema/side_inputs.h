#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/comparison.h"

namespace tilescope {

/// Numbers that fp8 operands are multiplied with: one for the tensor, one a head, one for each block of rows of a
/// head, or one for each channel of a head, which is a column of it.
struct Descale {
    std::int64_t heads = 0;     ///< heads of the operand; 0: one value for the whole tensor
    std::int64_t blocks = 1;    ///< blocks of a head; 1 where it is by channel
    std::int64_t rows = 0;      ///< rows of a block; the last one may be shorter
    std::vector<float> values;  ///< [batch][heads][blocks or channels], or one; empty: the operand has none
    std::int64_t channels = 0;  ///< columns of a head, each with a number of its own; 0: all have the same

    bool empty() const { return values.empty(); }
    bool per_block() const { return blocks > 1; }
    bool per_channel() const { return channels > 0; }
    /// What row `row` of a head is multiplied with, all its columns alike; 1 where there is none.
    float at(std::int64_t batch, std::int64_t head, std::int64_t row) const;
    /// What column `channel` of a head is multiplied with beside; 1 where it is not by channel.
    float of_channel(std::int64_t batch, std::int64_t head, std::int64_t channel) const;

    TILESCOPE_EQUALITY(Descale);
};

/// The call's inputs beside q, k, v and the bias. What the call has none of is empty.
struct SideInputs {
    std::vector<std::int64_t> seqlens_q;   ///< [batch]: rows that a batch entry has of seqlen_q
    std::vector<std::int64_t> seqlens_kv;  ///< [batch]
    std::vector<float> alibi_slopes;       ///< [heads] or [batch][heads]
    std::vector<float> sink;               ///< [heads], in natural units
    Descale descale_q;
    Descale descale_k;
    Descale descale_v;

    TILESCOPE_EQUALITY(SideInputs);
};

/// What is added to the scores, in natural units. Every size is that of the problem, or 1: the same for all.
struct Bias {
    std::int64_t batch = 1;
    std::int64_t heads = 1;
    std::int64_t seqlen_q = 1;
    std::int64_t seqlen_kv = 1;
    std::vector<float> values;  ///< [batch][heads][seqlen_q][seqlen_kv]; empty: there is none

    bool empty() const { return values.empty(); }
    float at(std::int64_t in_batch, std::int64_t head, std::int64_t row, std::int64_t key) const {
        const auto index = [](std::int64_t i, std::int64_t size) { return size == 1 ? 0 : i; };
        const std::int64_t line =
            (index(in_batch, batch) * heads + index(head, heads)) * seqlen_q + index(row, seqlen_q);
        return values[static_cast<std::size_t>(line * seqlen_kv + index(key, seqlen_kv))];
    }
};

/// The problem as batch entry `batch` has it: with its own sequence lengths, which may be 0.
Problem problem_of(const Problem& problem, const SideInputs& inputs, std::int64_t batch);

/// Throws Error(where) unless sizes fit the problem, lengths are within seqlen_q and seqlen_kv, every number
/// is finite, and what /problem declares (alibi, sink) is there.
void validate(const SideInputs& inputs, const Problem& problem, const std::string& where);

/// A bias may hide a key with -inf; NaN and +inf have no place in a score.
bool is_bias(float value);

/// Throws Error(where) unless there is none, or each size is that of the problem or 1, there are as many
/// values as the sizes say, and each is_bias.
void validate(const Bias& bias, const Problem& problem, const std::string& where);

}  // namespace tilescope
