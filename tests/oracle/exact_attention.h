#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/oracle/definition_attention.h"

namespace tilescope::test {

/// Attention by its definition for a call without side inputs, in natural units.
class ExactAttention {
 public:
    ExactAttention(const Problem& problem, const Inputs& inputs) : call_{problem, {}, inputs} {}

    /// Whether q row `row` sees key `key`, by the definition of each mask.
    static bool visible(const Problem& p, std::int64_t row, std::int64_t key) {
        return key >= 0 && key < p.seqlen_kv && mask_leaves(p, p.seqlen_q, p.seqlen_kv, row, key);
    }

    struct Row {
        Real m = -std::numeric_limits<Real>::infinity();
        Real l = 0;
        std::vector<Real> acc;
    };

    /// m, l and acc of a row after the keys below `keys`, which end a KV tile.
    Row row_after(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t keys) const {
        const DefinedRow defined = define_row(call_, batch, head, row);
        const auto tile = std::size_t((keys - 1) / call_.problem.block_n);
        Row result{defined.m[tile].value, defined.l[tile][0].value, {}};
        for (const Defined& acc : defined.acc[tile]) result.acc.push_back(acc.value);
        return result;
    }

 private:
    AttentionCall call_;
};

}  // namespace tilescope::test
