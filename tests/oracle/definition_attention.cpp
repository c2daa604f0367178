// Written from the comments of dump/schema.h and dump/schema/side_inputs.h alone: it shares no function with the
// oracle, and none with the structs that it reads.

#include "tests/oracle/definition_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tilescope::test {

namespace {

constexpr Real infinity = std::numeric_limits<Real>::infinity();

/// The row that is defined.
struct Row {
    const AttentionCall& call;
    std::int64_t batch;
    std::int64_t head;
    std::int64_t head_kv;
    std::int64_t row;
    std::int64_t rows;
    std::int64_t keys;
};

/// float64 knows the exponential of a score that its terms' magnitude x met in to x 2^-52: what magnitudes
/// of p grow by where that is no longer small against the least deviation that counts.
Real condition_of(const std::vector<DefinedScore>& scores) {
    Real largest = 0;
    for (const DefinedScore& score : scores) largest = std::max(largest, score.magnitude);
    return std::max<Real>(1, largest / 256);
}

Real in_base(LogBase base, Real natural) {
    return base == LogBase::two ? natural * std::numbers::log2e_v<Real> : natural;
}

Real descale_of(const Descale& descale, std::int64_t batch, std::int64_t head, std::int64_t row) {
    if (descale.values.empty() || descale.channels > 0) return 1;
    if (descale.heads == 0) return Real(descale.values[0]);
    const std::int64_t block = row / descale.rows;
    return Real(descale.values[std::size_t(block + descale.blocks * (head + descale.heads * batch))]);
}

/// What a column of a head is multiplied with, where its descale is by channel.
Real channel_of(const Descale& descale, std::int64_t batch, std::int64_t head, std::int64_t column) {
    if (descale.channels == 0) return 1;
    return Real(descale.values[std::size_t(column + descale.channels * (head + descale.heads * batch))]);
}

Real q_descale(const Row& r) {
    return descale_of(r.call.inputs.side.descale_q, r.batch, r.head, r.row);
}

Real k_descale(const Row& r, std::int64_t key) {
    return descale_of(r.call.inputs.side.descale_k, r.batch, r.head_kv, key);
}

Real v_descale(const Row& r, std::int64_t key) {
    return descale_of(r.call.inputs.side.descale_v, r.batch, r.head_kv, key);
}

Real q_channel(const Row& r, std::int64_t d) {
    return channel_of(r.call.inputs.side.descale_q, r.batch, r.head, d);
}

Real k_channel(const Row& r, std::int64_t d) {
    return channel_of(r.call.inputs.side.descale_k, r.batch, r.head_kv, d);
}

Real v_channel(const Row& r, std::int64_t d) {
    return channel_of(r.call.inputs.side.descale_v, r.batch, r.head_kv, d);
}

std::int64_t head_kv_of(const Problem& problem, std::int64_t head) {
    if (problem.head_grouping == HeadGrouping::interleaved) {
        while (head >= problem.heads_kv) head -= problem.heads_kv;
        return head;
    }
    const std::int64_t group = problem.heads / problem.heads_kv;
    std::int64_t head_kv = 0;
    while ((head_kv + 1) * group <= head) ++head_kv;
    return head_kv;
}

Row row_of(const AttentionCall& call, std::int64_t batch, std::int64_t head, std::int64_t row) {
    return {call,
            batch,
            head,
            head_kv_of(call.problem, head),
            row,
            rows_of_entry(call, batch),
            keys_of_entry(call, batch)};
}

Real q_at(const Row& r, std::int64_t d) {
    const Problem& p = r.call.problem;
    return Real(
        r.call.inputs.q[std::size_t(d + p.head_dim * (r.row + p.seqlen_q * (r.head + p.heads * r.batch)))]);
}

Real k_at(const Row& r, std::int64_t key, std::int64_t d) {
    const Problem& p = r.call.problem;
    const std::int64_t line = key + p.seqlen_kv * (r.head_kv + p.heads_kv * r.batch);
    return Real(r.call.inputs.k[std::size_t(d + p.head_dim * line)]);
}

Real v_at(const Row& r, std::int64_t key, std::int64_t d) {
    const Problem& p = r.call.problem;
    const std::int64_t line = key + p.seqlen_kv * (r.head_kv + p.heads_kv * r.batch);
    return Real(r.call.inputs.v[std::size_t(d + p.head_dim_v * line)]);
}

std::int64_t diagonal_of(const Problem& problem, std::int64_t rows, std::int64_t keys, std::int64_t row) {
    return row + (problem.causal_alignment == CausalAlignment::top_left ? 0 : keys - rows) +
           problem.diagonal_offset;
}

Real alibi_of(const Row& r, std::int64_t key) {
    const Problem& p = r.call.problem;
    if (p.alibi == Alibi::none) return 0;
    const std::vector<float>& slopes = r.call.inputs.side.alibi_slopes;
    const bool of_head_alone = std::int64_t(slopes.size()) == p.heads;
    const Real slope = Real(slopes[std::size_t(of_head_alone ? r.head : r.head + p.heads * r.batch)]);
    const Real distance = Real(key - diagonal_of(p, r.rows, r.keys, r.row));
    return p.alibi == Alibi::linear ? slope * distance : -slope * std::abs(distance);
}

Real added_bias_of(const Row& r, std::int64_t key) {
    const Bias& bias = r.call.inputs.bias;
    if (bias.values.empty()) return 0;
    std::int64_t index = 0;
    for (const auto& [size, place] : {std::pair{bias.batch, r.batch}, std::pair{bias.heads, r.head},
                                      std::pair{bias.seqlen_q, r.row}, std::pair{bias.seqlen_kv, key}}) {
        index = index * size + (size > 1 ? place : 0);
    }
    return Real(bias.values[std::size_t(index)]);
}

/// What the scores lack where sm_scale, and the descales that q and k are staged without, are not applied.
Real missing_scale(const Row& r, std::int64_t key) {
    const Units& u = r.call.units;
    Real scale = Real(r.call.problem.sm_scale) / Real(u.q_scale) / Real(u.k_scale);
    if (!u.q_dequantised) scale *= q_descale(r);
    if (!u.k_dequantised) scale *= k_descale(r, key);
    return scale;
}

/// What turns a score in natural units into that of the dump.
Real dumped_unit(const Row& r, std::int64_t key) {
    const Units& u = r.call.units;
    const Real cap = Real(r.call.problem.logits_soft_cap);
    Real divisor = 1;
    if (!u.s_scaled) divisor = cap != 0 && u.s_capped ? cap : missing_scale(r, key);
    return in_base(u.s_log_base, 1) / divisor;
}

/// What stands in the dump's s where the mask hides a score. One that is masked after it was recorded is not
/// rounded with it.
Real masked_number(const Row& r) {
    const Units& u = r.call.units;
    const float number = float(u.s_masked_value);
    return Real(u.s_masked ? decode(u.s_cast, encode(u.s_cast, number)) : number);
}

DefinedScore score_of(const Row& r, std::int64_t key) {
    const Problem& p = r.call.problem;
    const Real factor = q_descale(r) * k_descale(r, key) * Real(p.sm_scale);
    DefinedScore score;
    for (std::int64_t d = 0; d < p.head_dim; ++d) {
        const Real term = factor * q_at(r, d) * q_channel(r, d) * k_at(r, key, d) * k_channel(r, d);
        score.scaled += term;
        score.magnitude += std::abs(term);
    }
    const Real cap = Real(p.logits_soft_cap);
    score.capped = cap == 0 ? score.scaled : cap * std::tanh(score.scaled / cap);
    score.bias = alibi_of(r, key) + added_bias_of(r, key);
    if (score.bias != -infinity)
        score.magnitude += std::abs(alibi_of(r, key)) + std::abs(added_bias_of(r, key));
    score.hidden = !mask_leaves(p, r.rows, r.keys, r.row, key);
    score.value = score.hidden ? masked_number(r) / dumped_unit(r, key) : score.capped + score.bias;
    return score;
}

Defined dumped_score(const Row& r, std::int64_t key, const DefinedScore& score) {
    const Units& u = r.call.units;
    Real value = u.s_capped ? score.capped : score.scaled;
    if (u.s_biased) value += score.bias;
    const Real unit = dumped_unit(r, key);
    const Real number = masked_number(r);
    const Real magnitude = std::max(score.magnitude * unit, number == -infinity ? 0 : std::abs(number));
    if (u.s_masked && score.hidden) return {number, magnitude};
    return {value * unit, score.magnitude * unit};
}

std::int64_t split_of(const Problem& problem, std::int64_t tile) {
    if (problem.kv_tiles_per_split != 0) return tile / problem.kv_tiles_per_split;
    std::int64_t split = 0;
    for (const std::int64_t start : problem.split_starts) split += start <= tile ? 1 : 0;
    return split;
}

/// Whether the running state after `tile` has taken in `other`.
bool has_taken(const AttentionCall& call, std::int64_t tile, std::int64_t other) {
    if (split_of(call.problem, tile) != split_of(call.problem, other)) return false;
    return call.units.kv_order == KvOrder::forward ? other <= tile : other >= tile;
}

Real sink_of(const Row& r) {
    return Real(r.call.inputs.side.sink[std::size_t(r.head)]);
}

/// What turns m in natural units into those of the dump.
Real dumped_max(const Row& r, Real natural) {
    const Units& u = r.call.units;
    const Real cap = Real(r.call.problem.logits_soft_cap);
    return in_base(u.m_log_base, u.m_scaled ? natural : natural / (cap != 0 ? cap : missing_scale(r, 0)));
}

/// ln of the sum of exp of all scores that were taken before the tile, and of the sink.
Real lse_before(const Row& r, const std::vector<DefinedScore>& scores, std::int64_t tile) {
    const Problem& p = r.call.problem;
    std::vector<Real> terms;
    if (p.sink == AttentionSink::first && split_of(p, tile) == 0) terms.push_back(sink_of(r));
    for (std::int64_t key = 0; key < r.keys; ++key) {
        const std::int64_t other = key / p.block_n;
        if (other != tile && has_taken(r.call, tile, other) && scores[std::size_t(key)].counts())
            terms.push_back(scores[std::size_t(key)].value);
    }
    if (terms.empty()) return -infinity;
    const Real most = *std::max_element(terms.begin(), terms.end());
    Real sum = 0;
    for (const Real term : terms) sum += std::exp(term - most);
    return most + std::log(sum);
}

/// The largest score of a tile, -inf where none counts.
Defined max_of_tile(const Row& r, const std::vector<DefinedScore>& scores, std::int64_t tile) {
    const std::int64_t size = r.call.problem.block_n;
    Defined most{-infinity, 0};
    for (std::int64_t key = tile * size; key < std::min(r.keys, (tile + 1) * size); ++key) {
        if (!scores[std::size_t(key)].counts()) continue;
        most.value = std::max(most.value, scores[std::size_t(key)].value);
        most.magnitude = std::max(most.magnitude, scores[std::size_t(key)].magnitude);
    }
    return most;
}

/// m after a tile, in natural units. One that may be stale is a choice, and follows the maximum where it
/// would be too far behind; what was chosen is known as the float32 that is dumped.
Defined max_after(const Row& r, const std::vector<DefinedScore>& scores, std::int64_t tile) {
    const Problem& p = r.call.problem;
    const Real threshold = Real(r.call.units.m_stale_threshold);
    if (r.call.units.m_from_lse) {
        const Defined own = max_of_tile(r, scores, tile);
        const Real lse = lse_before(r, scores, tile);
        Real magnitude = std::max(own.magnitude, lse == -infinity ? 0 : std::abs(lse));
        for (const DefinedScore& score : scores) magnitude = std::max(magnitude, score.magnitude);
        // The number that stands for hidden scores, where the row has seen nothing else.
        if (own.value != -infinity) magnitude = std::max(magnitude, std::abs(own.value));
        return {std::max(own.value, lse), magnitude};
    }
    const auto chosen = [&](Real most) {
        return threshold == 0 ? most : Real(float(dumped_max(r, most))) / dumped_max(r, 1);
    };
    Defined m{-infinity, 0};
    if (p.sink == AttentionSink::first && split_of(p, tile) == 0)
        m = {chosen(sink_of(r)), std::abs(sink_of(r))};
    const std::int64_t tiles = (r.keys + p.block_n - 1) / p.block_n;
    for (std::int64_t i = 0; i < tiles; ++i) {
        const std::int64_t next = r.call.units.kv_order == KvOrder::forward ? i : tiles - 1 - i;
        if (!has_taken(r.call, tile, next)) continue;
        Real most = m.value;
        for (std::int64_t key = next * p.block_n; key < std::min(r.keys, (next + 1) * p.block_n); ++key) {
            if (!scores[std::size_t(key)].counts()) continue;
            most = std::max(most, scores[std::size_t(key)].value + Real(r.call.units.m_offset));
            m.magnitude = std::max(m.magnitude, scores[std::size_t(key)].magnitude);
        }
        if (most > m.value + threshold) m.value = chosen(most);
    }
    // The number that stands for hidden scores, where the row has seen nothing else.
    if (m.value != -infinity) m.magnitude = std::max(m.magnitude, std::abs(m.value));
    return m;
}

/// m, l and acc after a tile, and p of its keys.
void define_tile(const Row& r, const std::vector<DefinedScore>& scores, std::int64_t tile,
                 DefinedRow& result) {
    const Problem& p = r.call.problem;
    const Units& u = r.call.units;
    const bool with_sink = p.sink == AttentionSink::first && split_of(p, tile) == 0;
    const Defined m = max_after(r, scores, tile);
    const auto taken = [&](std::int64_t key) {
        return scores[std::size_t(key)].counts() && has_taken(r.call, tile, key / p.block_n);
    };
    const Real condition = condition_of(scores);
    std::vector<Defined> l(std::size_t(p.l_lanes));
    std::vector<Defined> acc(std::size_t(p.head_dim_v));
    if (with_sink) l[0].value = std::exp(sink_of(r) - m.value) * Real(u.l_scale);
    Real total = with_sink ? std::exp(sink_of(r) - m.value) : 0;
    for (std::int64_t key = 0; key < r.keys; ++key)
        total += taken(key) ? std::exp(scores[std::size_t(key)].value - m.value) : 0;
    const Real over_l = total == 0 ? 0 : 1 / total;
    const Real own_max = max_of_tile(r, scores, tile).value;
    const Real to_p = (u.p_normalised    ? over_l
                       : u.p_of_tile_max ? std::exp(m.value - own_max)
                                         : 1) *
                      Real(u.p_scale);
    const Real acc_scale =
        (u.acc_normalised ? over_l : 1) * Real(u.acc_scale) / (u.acc_dequantised ? 1 : v_descale(r, 0));
    for (std::int64_t key = 0; key < r.keys; ++key) {
        const Real weight = taken(key) ? std::exp(scores[std::size_t(key)].value - m.value) : 0;
        if (key / p.block_n == tile) {
            const Real descale = u.p_descale_v == DescaleInP::recorded ? v_descale(r, key) : 1;
            const Real scaled = weight == 0 ? 0 : weight * to_p * descale;
            result.p[std::size_t(key)] = {scaled, scaled * condition};
        }
        if (!taken(key)) continue;
        const std::int64_t lane = key % p.block_n % (p.l_lanes * p.l_lane_columns) / p.l_lane_columns;
        l[std::size_t(lane)].value += weight * Real(u.l_scale);
        for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
            const Real dequantised =
                v_at(r, key, d) * v_descale(r, key) * (u.acc_dequantised ? v_channel(r, d) : 1);
            const Real term = weight * dequantised * acc_scale;
            acc[std::size_t(d)].value += term;
            acc[std::size_t(d)].magnitude += std::abs(term) * condition;
        }
    }
    for (Defined& lane : l) lane.magnitude = lane.value * condition;

    result.m.push_back({dumped_max(r, m.value), dumped_max(r, m.magnitude)});
    result.l.push_back(std::move(l));
    result.acc.push_back(std::move(acc));
}

Real value_of(EmptyRow empty) {
    switch (empty) {
        case EmptyRow::zero:
            return 0;
        case EmptyRow::minus_infinity:
            return -infinity;
        case EmptyRow::plus_infinity:
            return infinity;
        default:
            return std::numeric_limits<Real>::quiet_NaN();
    }
}

void define_output(const Row& r, const std::vector<DefinedScore>& scores, DefinedRow& result) {
    const Problem& p = r.call.problem;
    result.o.resize(std::size_t(p.head_dim_v));
    const bool with_sink = p.sink != AttentionSink::none;
    if (!result.sees_any && !with_sink) {
        for (Defined& o : result.o) o.value = value_of(r.call.units.o_empty_row);
        return;
    }
    Real most = with_sink ? sink_of(r) : -infinity;
    for (const DefinedScore& score : scores) most = std::max(most, score.seen() ? score.value : -infinity);
    Real sum = with_sink ? std::exp(sink_of(r) - most) : 0;
    for (const DefinedScore& score : scores) sum += score.seen() ? std::exp(score.value - most) : 0;
    const Real condition = condition_of(scores);
    for (std::int64_t key = 0; key < r.keys; ++key) {
        if (!scores[std::size_t(key)].seen()) continue;
        const Real weight = std::exp(scores[std::size_t(key)].value - most) / sum;
        for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
            const Real term = weight * v_at(r, key, d) * v_descale(r, key) * v_channel(r, d);
            result.o[std::size_t(d)].value += term;
            result.o[std::size_t(d)].magnitude += std::abs(term) * condition;
        }
    }
}

void define_lse(const Row& r, const std::vector<DefinedScore>& scores, DefinedRow& result) {
    const Units& u = r.call.units;
    const bool with_sink = r.call.problem.sink != AttentionSink::none && u.lse_includes_sink;
    if (!result.sees_any && !with_sink) {
        result.lse.value = value_of(u.lse_empty_row);
        return;
    }
    Real most = with_sink ? sink_of(r) : -infinity;
    Real magnitude = with_sink ? std::abs(sink_of(r)) : 0;
    for (const DefinedScore& score : scores) {
        if (score.seen()) most = std::max(most, score.value);
        magnitude = std::max(magnitude, score.magnitude);
    }
    Real sum = with_sink ? std::exp(sink_of(r) - most) : 0;
    for (const DefinedScore& score : scores) sum += score.seen() ? std::exp(score.value - most) : 0;
    result.lse = {in_base(u.lse_log_base, most + std::log(sum)),
                  in_base(u.lse_log_base, magnitude + std::log(sum))};
}

}  // namespace

std::int64_t rows_of_entry(const AttentionCall& call, std::int64_t batch) {
    const std::vector<std::int64_t>& lengths = call.inputs.side.seqlens_q;
    return lengths.empty() ? call.problem.seqlen_q : lengths[std::size_t(batch)];
}

std::int64_t keys_of_entry(const AttentionCall& call, std::int64_t batch) {
    const std::vector<std::int64_t>& lengths = call.inputs.side.seqlens_kv;
    return lengths.empty() ? call.problem.seqlen_kv : lengths[std::size_t(batch)];
}

bool mask_leaves(const Problem& problem, std::int64_t rows, std::int64_t keys, std::int64_t row,
                 std::int64_t key) {
    const std::int64_t distance = key - diagonal_of(problem, rows, keys, row);
    const std::int64_t cut = problem.window_bounds == WindowBounds::exclusive ? 1 : 0;
    if (problem.mask == Mask::causal && distance > 0) return false;
    if (problem.window_left >= 0 && -distance > problem.window_left - cut) return false;
    if (problem.window_right >= 0 && distance > problem.window_right - cut) return false;
    return true;
}

std::vector<DefinedScore> define_scores(const AttentionCall& call, std::int64_t batch, std::int64_t head,
                                        std::int64_t row) {
    const Row r = row_of(call, batch, head, row);
    std::vector<DefinedScore> scores;
    for (std::int64_t key = 0; key < r.keys; ++key) scores.push_back(score_of(r, key));
    return scores;
}

DefinedRow define_row(const AttentionCall& call, std::int64_t batch, std::int64_t head, std::int64_t row) {
    const Row r = row_of(call, batch, head, row);
    const std::vector<DefinedScore> scores = define_scores(call, batch, head, row);
    DefinedRow result;
    for (std::int64_t key = 0; key < r.keys; ++key) {
        const DefinedScore& score = scores[std::size_t(key)];
        result.s.push_back(dumped_score(r, key, score));
        result.seen.push_back(score.seen());
        result.sees_any = result.sees_any || score.seen();
    }
    result.p.resize(std::size_t(r.keys));
    for (std::int64_t tile = 0; tile * call.problem.block_n < r.keys; ++tile)
        define_tile(r, scores, tile, result);
    define_output(r, scores, result);
    define_lse(r, scores, result);
    return result;
}

std::vector<Real> define_operand(const AttentionCall& call, Stage stage, std::int64_t batch,
                                 std::int64_t head, std::int64_t row) {
    const Row r = row_of(call, batch, head, row);
    const Units& u = call.units;
    std::vector<Real> values;
    const std::int64_t columns = stage == Stage::v ? call.problem.head_dim_v : call.problem.head_dim;
    for (std::int64_t d = 0; d < columns; ++d) {
        if (stage == Stage::q)
            values.push_back(q_at(r, d) * (u.q_dequantised ? q_descale(r) * q_channel(r, d) : 1) *
                             Real(u.q_scale) * (u.k_dequantised ? 1 : k_channel(r, d)));
        if (stage == Stage::k)
            values.push_back(k_at(r, row, d) * (u.k_dequantised ? k_descale(r, row) * k_channel(r, d) : 1) *
                             Real(u.k_scale));
        if (stage == Stage::v)
            values.push_back(v_at(r, row, d) * (u.v_dequantised ? v_descale(r, row) * v_channel(r, d) : 1));
    }
    return values;
}

}  // namespace tilescope::test
