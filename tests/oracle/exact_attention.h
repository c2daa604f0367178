#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/oracle/attention_inputs.h"

namespace tilescope::test {

/// Attention by its definition: no tiles, no running state, long double. What the oracle is held against.
class ExactAttention {
 public:
    using Real = long double;

    ExactAttention(const Problem& problem, const Inputs& inputs) : p_(problem), in_(inputs) {}

    /// Whether q row `row` sees key `key`, by the definition of each mask.
    static bool visible(const Problem& p, std::int64_t row, std::int64_t key) {
        std::int64_t diagonal = row;
        if (p.causal_alignment == CausalAlignment::bottom_right) diagonal += p.seqlen_kv - p.seqlen_q;
        const bool hidden = (p.mask == Mask::causal && key > diagonal) ||
                            (p.window_left >= 0 && diagonal - key > p.window_left) ||
                            (p.window_right >= 0 && key - diagonal > p.window_right);
        return !hidden && key >= 0 && key < p.seqlen_kv;
    }

    /// Natural units, before the mask.
    Real score(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t key) const {
        Real sum = 0;
        for (std::int64_t d = 0; d < p_.head_dim; ++d)
            sum += Real(q(batch, head, row, d)) * k(batch, head, key, d);
        return sum * Real(p_.sm_scale);
    }

    /// Keys below `keys` that the row sees.
    std::vector<std::int64_t> seen(std::int64_t row, std::int64_t keys) const {
        std::vector<std::int64_t> list;
        for (std::int64_t key = 0; key < keys; ++key) {
            if (visible(p_, row, key)) list.push_back(key);
        }
        return list;
    }

    struct Row {
        Real m = -std::numeric_limits<Real>::infinity();
        Real l = 0;
        std::vector<Real> acc;
    };

    /// m, l and acc of a row after the keys below `keys`.
    Row row_after(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t keys) const {
        Row result;
        result.acc.assign(std::size_t(p_.head_dim_v), 0);
        const auto list = seen(row, keys);
        for (const std::int64_t key : list) result.m = std::max(result.m, score(batch, head, row, key));
        for (const std::int64_t key : list) {
            const Real p = std::exp(score(batch, head, row, key) - result.m);
            result.l += p;
            for (std::int64_t d = 0; d < p_.head_dim_v; ++d)
                result.acc[std::size_t(d)] += p * v(batch, head, key, d);
        }
        return result;
    }

 private:
    std::int64_t head_kv(std::int64_t head) const { return head * p_.heads_kv / p_.heads; }
    float q(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t d) const {
        return in_.q[std::size_t(((b * p_.heads + h) * p_.seqlen_q + row) * p_.head_dim + d)];
    }
    float k(std::int64_t b, std::int64_t h, std::int64_t key, std::int64_t d) const {
        return in_.k[std::size_t(((b * p_.heads_kv + head_kv(h)) * p_.seqlen_kv + key) * p_.head_dim + d)];
    }
    float v(std::int64_t b, std::int64_t h, std::int64_t key, std::int64_t d) const {
        return in_.v[std::size_t(((b * p_.heads_kv + head_kv(h)) * p_.seqlen_kv + key) * p_.head_dim_v + d)];
    }

    const Problem& p_;
    const Inputs& in_;
};

}  // namespace tilescope::test
