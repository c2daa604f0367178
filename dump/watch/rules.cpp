#include "dump/watch/rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <vector>

#include "dump/watch/bounds.h"

namespace tilescope {

namespace {

using Found = std::optional<Breach>;

constexpr std::uint32_t bit(Stage stage) {
    return 1u << unsigned(stage);
}
constexpr std::uint32_t every_stage = (1u << stage_count) - 1;

Found above(std::string_view what, double got, double limit) {
    if (got <= limit) return std::nullopt;
    return Breach{what, got, "is above", limit};
}

Found below(std::string_view what, double got, double limit) {
    if (got >= limit) return std::nullopt;
    return Breach{what, got, "is below", limit};
}

/// More non-finite elements than `legal` of the tile's can account for.
Found more_than(const WatchedTile& tile, std::string_view what, std::int64_t got, std::int64_t legal) {
    const std::optional<std::int64_t> writes = tile.writes_of(legal);
    if (!writes) return std::nullopt;
    return above(what, double(got), double(*writes));
}

/// Rows of an output that see no key, times its columns, where such a row may hold one of `values`.
std::int64_t empty_elements(const WatchedTile& tile, std::initializer_list<EmptyRow> values) {
    if (tile.stage != Stage::o && tile.stage != Stage::lse && tile.stage != Stage::delta) return 0;
    const Units& units = tile.call.units;
    // delta is made of the o that the forward pass stored.
    const EmptyRow held = tile.stage == Stage::lse ? units.lse_empty_row : units.o_empty_row;
    if (std::ranges::find(values, held) == values.end()) return 0;
    return tile.extent.cols * tile.block->keyless_rows;
}

Found nan(const WatchedTile& tile) {
    // Sums of infinities of both signs are NaN.
    const std::int64_t legal =
        tile.stage == Stage::delta
            ? empty_elements(tile, {EmptyRow::nan, EmptyRow::minus_infinity, EmptyRow::plus_infinity})
            : empty_elements(tile, {EmptyRow::nan});
    return more_than(tile, "NaN", tile.got.nan, legal);
}

std::int64_t legal_infinities(const WatchedTile& tile) {
    const Units& units = tile.call.units;
    switch (tile.stage) {
        case Stage::s:
            // What the bias hides is -inf once it is added, what the mask hides once it is applied.
            return units.s_masked || (units.s_biased && tile.call.run.has_bias()) ? tile.cells().hidden : 0;
        case Stage::m:
            return tile.cells().keyless_rows;
        case Stage::o:
        case Stage::lse:
        case Stage::delta:
            return empty_elements(tile, {EmptyRow::minus_infinity, EmptyRow::plus_infinity});
        default:
            return 0;
    }
}

Found infinite(const WatchedTile& tile) {
    return more_than(tile, "infinities", tile.got.infinite, legal_infinities(tile));
}

Found negative(const WatchedTile& tile) {
    if (tile.got.finite() == 0) return std::nullopt;
    return below("least", tile.got.least, 0);
}

Found p_too_large(const WatchedTile& tile) {
    const std::optional<ProbabilityBound> bound = probability_bound(tile);
    if (!bound || tile.got.finite() == 0) return std::nullopt;
    return above("greatest", tile.got.greatest, bound->most);
}

/// Where the running maximum rose, some row has it in this tile.
Found p_without_maximum(const WatchedTile& tile) {
    const std::optional<ProbabilityBound> bound = probability_bound(tile);
    if (!bound || tile.state == nullptr || tile.got.finite() == 0 ||
        tile.call.problem.sink == AttentionSink::first)
        return std::nullopt;
    const bool first = tile.block->first == tile.id.kv_tile;
    const TileSummary& m = *tile.state->of(Stage::m);
    const bool rose = m.finite() > 0 && m.nan == 0 && m.greatest > tile.state->m_rises_above;
    const bool lags = tile.call.units.m_stale_threshold > 0;
    if (!rose || (lags && !first)) return std::nullopt;
    return below("greatest", tile.got.greatest, bound->least_at_maximum);
}

Found l_too_large(const WatchedTile& tile) {
    const std::optional<RowSumBound> bound = row_sum_bound(tile);
    if (!bound || tile.got.finite() == 0) return std::nullopt;
    return above("greatest", tile.got.greatest, bound->most);
}

Found l_too_small(const WatchedTile& tile) {
    const std::optional<RowSumBound> bound = row_sum_bound(tile);
    const bool every_row = tile.cells().keyless_rows == 0;
    if (!bound || !every_row || tile.call.problem.l_lanes > 1 || tile.got.finite() == 0) return std::nullopt;
    return below("least", tile.got.least, bound->least);
}

/// Every row: l = l before * rescale + sum of P, where no rescale is above 1.
Found l_sum_differs(const WatchedTile& tile) {
    const Problem& problem = tile.call.problem;
    const Units& units = tile.call.units;
    const std::optional<double> error = tile_sum_error(tile);
    const std::optional<TileSummary> p = tile.state->of_all_rows(Stage::p);
    const std::optional<TileSummary>& l_before = tile.state->l_before;
    if (!error || !p || !tile.all_rows || problem.sink == AttentionSink::first) return std::nullopt;
    if (tile.state->tiles > 1 && !l_before) return std::nullopt;
    const std::int64_t of_p = tile_extent(tile.entry, Stage::p, tile.id).elements();
    const std::optional<double> sum = WatchedTile::sum_of(tile.got, tile.extent.elements());
    const std::optional<double> added = WatchedTile::sum_of(*p, of_p);
    const std::optional<double> before =
        l_before ? WatchedTile::sum_of(*l_before, tile.extent.elements()) : 0.0;
    if (!sum || !added || !before) return std::nullopt;
    // What is lost where a small P is cast, and below the unit of the statistics.
    const double quantum = half_quantum(problem.dtype_p) + half_quantum(units.p_cast) + 2 * statistics_unit;
    const double least = units.l_scale * (*added / units.p_scale);
    const double off = units.l_scale * double(of_p) * quantum / std::min(units.p_scale, 1.0);
    if (Found found = below("sum", *sum, least * (1 - *error) - off)) return found;
    return above("sum", *sum, (least + *before) * (1 + *error) + off);
}

Found m_falls(const WatchedTile& tile) {
    const std::optional<TileSummary>& before = tile.state->m_before;
    if (!before || before->nan > 0 || tile.got.nan > 0 || before->finite() == 0 || !tile.all_rows)
        return std::nullopt;
    if (tile.got.finite() == 0) return below("finite elements", 0, double(before->finite()));
    if (Found fallen = below("greatest", tile.got.greatest, before->greatest)) return fallen;
    // The least of what is finite may fall where a row sees its first key.
    if (before->infinite > 0) return std::nullopt;
    return below("least", tile.got.least, before->least);
}

/// m is the maximum of what s holds, in the same units: what converting one to the other may be off by.
std::optional<double> score_error(const WatchedTile& tile) {
    const Units& units = tile.call.units;
    const Problem& problem = tile.call.problem;
    const bool biased = problem.alibi != Alibi::none || tile.call.run.has_bias();
    const bool whole = (units.s_capped || problem.logits_soft_cap == 0) && (units.s_biased || !biased);
    if (!whole || units.m_from_lse || units.s_scaled != units.m_scaled ||
        units.s_log_base != units.m_log_base)
        return std::nullopt;
    return 0x1p-21 * std::max(tile.state->s.magnitude(), tile.state->m_magnitude);
}

/// How far m may be from the maximum, in its own units.
struct MaximumReach {
    double below = 0;
    double above = 0;
};

std::optional<MaximumReach> maximum_reach(const WatchedTile& tile) {
    const Units& units = tile.call.units;
    if (units.m_stale_threshold == 0 && units.m_offset == 0) return MaximumReach();
    const std::optional<double> unit = score_unit(tile.call, units.m_scaled, units.m_log_base);
    if (!unit) return std::nullopt;
    const double rounding = 0x1p-20 * (units.m_stale_threshold + std::abs(units.m_offset));
    return MaximumReach{(units.m_stale_threshold - units.m_offset + rounding) / *unit,
                        (units.m_offset + rounding) / *unit};
}

Found m_above_scores(const WatchedTile& tile) {
    const std::optional<double> error = score_error(tile);
    const std::optional<MaximumReach> reach = maximum_reach(tile);
    const bool sink = tile.call.problem.sink == AttentionSink::first;
    const bool known = tile.state->s.known && std::isfinite(tile.state->s.greatest);
    if (!error || !reach || sink || !known || tile.got.finite() == 0) return std::nullopt;
    return above("greatest", tile.got.greatest, tile.state->s.greatest + *error + reach->above);
}

Found m_below_scores(const WatchedTile& tile) {
    const std::optional<double> error = score_error(tile);
    const std::optional<MaximumReach> reach = maximum_reach(tile);
    const std::optional<TileSummary>& s = tile.state->of(Stage::s);
    const bool hides = !tile.call.units.s_masked && tile.cells().hidden > 0;
    if (!error || !std::isfinite(*error) || !reach || !s || hides || s->finite() == 0 || tile.got.nan > 0)
        return std::nullopt;
    const double got =
        tile.got.finite() == 0 ? -std::numeric_limits<double>::infinity() : double(tile.got.greatest);
    return below("greatest", got, s->greatest - *error - reach->below);
}

/// What turns numbers made of V, with its descale in them or not, into what others are in; nullopt where the
/// rows of the head have several.
std::optional<double> descale_of_v(const WatchedTile& tile, bool from_dequantised, bool to_dequantised) {
    const Descale& descale = tile.call.run.side_inputs().descale_v;
    if (descale.empty() || from_dequantised == to_dequantised) return 1.0;
    if (descale.per_block() || descale.per_channel()) return std::nullopt;
    const double factor = descale.at(tile.id.batch, tile.call.problem.head_kv(tile.id.head), 0);
    if (factor <= 0) return std::nullopt;
    return to_dequantised ? factor : 1 / factor;
}

Found acc_outside(const WatchedTile& tile) {
    const Units& units = tile.call.units;
    const ValueRange& v = tile.state->v;
    // Of the rows that acc is of.
    const std::optional<TileSummary> l =
        tile.all_rows ? tile.state->of_all_rows(Stage::l) : tile.state->of(Stage::l);
    const std::optional<double> descale = descale_of_v(tile, units.v_dequantised, units.acc_dequantised);
    if (units.acc_normalised || !v.known || !std::isfinite(v.magnitude()) || !l || l->finite() < l->written ||
        tile.got.finite() == 0 || !descale)
        return std::nullopt;
    const double lanes = double(tile.call.problem.l_lanes);
    const double keys = double(tile.cells().most_keys);
    const double error = mean_error(tile.call, keys, double(tile.state->tiles)) * v.magnitude();
    const double weight = *descale * units.acc_scale * lanes * double(l->greatest) / units.l_scale;
    if (Found found = above("greatest", tile.got.greatest, weight * (std::max(v.greatest, 0.0) + error)))
        return found;
    return below("least", tile.got.least, weight * (std::min(v.least, 0.0) - error));
}

Found o_outside(const WatchedTile& tile) {
    const Units& units = tile.call.units;
    const Problem& problem = tile.call.problem;
    const ValueRange& v = tile.all_v;
    const std::optional<double> of_splits = split_error(tile);
    const std::optional<double> descale = descale_of_v(tile, units.v_dequantised, true);
    if (!v.known || !of_splits || !descale || tile.got.finite() == 0) return std::nullopt;
    // The weights add up to less than 1 with a sink, and an empty row may hold 0.
    const bool zero = problem.sink != AttentionSink::none ||
                      (tile.block->keyless_rows > 0 && units.o_empty_row == EmptyRow::zero);
    const double least = zero ? std::min(v.least, 0.0) : v.least;
    const double greatest = zero ? std::max(v.greatest, 0.0) : v.greatest;
    const double partials = problem.is_split() ? unit_roundoff(problem.dtype_partial_o) : 0;
    const double error =
        (mean_error(tile.call, double(tile.block->most_keys), double(tile.block->tiles.size())) +
         2 * unit_roundoff(problem.dtype_o) + *of_splits + partials) *
            *descale * v.magnitude() +
        half_quantum(problem.dtype_o) + *descale * half_quantum(problem.dtype_partial_o);
    if (Found found = above("greatest", tile.got.greatest, *descale * greatest + error)) return found;
    return below("least", tile.got.least, *descale * least - error);
}

/// o = acc / l of the last KV tile.
Found o_is_not_acc_over_l(const WatchedTile& tile) {
    const Problem& problem = tile.call.problem;
    const Units& units = tile.call.units;
    const SplitState* const state = tile.state;
    const bool one_state = problem.sink == AttentionSink::none && !problem.is_split() && problem.l_lanes == 1;
    if (!one_state || units.acc_normalised || state == nullptr || !state->of_all_rows(Stage::acc) ||
        !state->of_all_rows(Stage::l))
        return std::nullopt;
    const TileSummary &acc = *state->of(Stage::acc), &l = *state->of(Stage::l);
    const std::optional<double> descale = descale_of_v(tile, units.acc_dequantised, true);
    const bool clean = tile.block->keyless_rows == 0 && acc.finite() == acc.written &&
                       l.finite() == l.written && l.least > 0 && tile.got.finite() == tile.got.written &&
                       tile.got.written >= tile.extent.elements() && acc.written >= tile.extent.elements();
    if (!clean || !descale) return std::nullopt;
    const double scale = *descale * units.l_scale / units.acc_scale;
    const double relative = unit_roundoff(problem.dtype_o) + 0x1p-20;
    const double absolute = half_quantum(problem.dtype_o);
    const double got = tile.got.magnitude();
    const double least = acc.magnitude() / l.greatest * scale, most = acc.magnitude() / l.least * scale;
    if (Found found = above("largest magnitude", got, most * (1 + relative) + absolute)) return found;
    return below("largest magnitude", got, least * (1 - relative) - absolute);
}

/// lse = m + log(l) of the last KV tile.
Found lse_outside(const WatchedTile& tile) {
    const Problem& problem = tile.call.problem;
    const Units& units = tile.call.units;
    const SplitState* const state = tile.state;
    const std::optional<double> unit = score_unit(tile.call, units.m_scaled, units.m_log_base);
    const bool one_state = problem.sink == AttentionSink::none && !problem.is_split() && problem.l_lanes == 1;
    if (!unit || !one_state || state == nullptr || !state->of_all_rows(Stage::m) ||
        !state->of_all_rows(Stage::l))
        return std::nullopt;
    const TileSummary &m = *state->of(Stage::m), &l = *state->of(Stage::l);
    const bool clean = tile.block->keyless_rows == 0 && m.finite() == m.written && l.finite() == l.written &&
                       l.least > 0 && tile.got.finite() > 0;
    if (!clean) return std::nullopt;
    const double base = units.lse_log_base == LogBase::two ? std::numbers::ln2 : 1.0;
    const double log_least = std::log(l.least / units.l_scale),
                 log_most = std::log(l.greatest / units.l_scale);
    const double error =
        0x1p-19 * (m.magnitude() * *unit + std::max(std::abs(log_least), std::abs(log_most)) + 1);
    const auto limit = [=](float of_m, double log, double off) { return (of_m * *unit + log + off) / base; };
    const double greatest = tile.got.greatest, least = tile.got.least;
    if (Found found = above("greatest", greatest, limit(m.greatest, log_most, error))) return found;
    if (Found found = below("greatest", greatest, limit(m.greatest, log_least, -error))) return found;
    if (Found found = below("least", least, limit(m.least, log_least, -error))) return found;
    return above("least", least, limit(m.least, log_most, error));
}

struct Operand {
    Stage stage;
    Input input;
    bool Units::*dequantised;
    Descale SideInputs::*descale;
};
constexpr Operand operands[] = {
    {Stage::q, Input::q, &Units::q_dequantised, &SideInputs::descale_q},
    {Stage::k, Input::k, &Units::k_dequantised, &SideInputs::descale_k},
    {Stage::v, Input::v, &Units::v_dequantised, &SideInputs::descale_v},
    {Stage::dout, Input::dout, nullptr, nullptr},
};

/// An operand holds its rows of the input, bit by bit.
Found operand_differs(const WatchedTile& tile) {
    const auto operand = std::ranges::find(operands, tile.stage, &Operand::stage);
    const StatisticsRun& run = tile.call.run;
    const Units& units = tile.call.units;
    const bool holds_channels =
        run.side_inputs().descale_k.per_channel() && !units.k_dequantised;  // of k, in q
    const bool scaled = (tile.stage == Stage::q && (units.q_scale != 1 || holds_channels)) ||
                        (tile.stage == Stage::k && units.k_scale != 1);
    const bool raw =
        !scaled && (operand->descale == nullptr || (run.side_inputs().*operand->descale).empty() ||
                    !(units.*operand->dequantised));
    if (!run.has_input(operand->input) || !raw || tile.got.written != tile.extent.elements() ||
        tile.got.finite() == 0)
        return std::nullopt;
    const InputSummary& input = tile.call.inputs.of(tile.entry, operand->input, tile.stage, tile.id);
    const auto differs = [](std::string_view what, double got, double expected) -> Found {
        if (got == expected) return std::nullopt;
        return Breach{what, got, "is not that of the input,", expected};
    };
    if (Found found = differs("least", tile.got.least, input.least)) return found;
    if (Found found = differs("greatest", tile.got.greatest, input.greatest)) return found;
    return differs("count of zeros", double(tile.got.zero), double(input.zero));
}

Found unwritten(const WatchedTile& tile) {
    const bool of_kv_tile = tile.block != nullptr && stage_info(tile.stage).per_kv_tile;
    const std::int64_t least =
        of_kv_tile ? least_written(tile.entry, tile.stage, tile.id, tile.cells()) : tile.extent.elements();
    return below("elements written", double(tile.got.written), double(least));
}

constexpr WatchRule rules[] = {
    {"nan", every_stage, 0, "finite inputs give no NaN, but in outputs of rows without keys where declared",
     nan},
    {"infinity", every_stage, 1, "only hidden scores and rows without keys are infinite", infinite},
    {"operand", bit(Stage::q) | bit(Stage::k) | bit(Stage::v) | bit(Stage::dout), 2,
     "an operand holds its rows of the input", operand_differs},
    {"m_above_scores", bit(Stage::m), 2, "the running maximum is not above every score seen", m_above_scores},
    {"m_below_scores", bit(Stage::m), 2, "the running maximum is not below a score of its tile",
     m_below_scores},
    {"m_falls", bit(Stage::m), 2, "the running maximum does not fall from one KV tile to the next", m_falls},
    {"p_negative", bit(Stage::p), 2, "an exponential is not negative", negative},
    {"p_above_one", bit(Stage::p), 2, "exp(s - m) is at most 1, or what a stale maximum and p_scale allow",
     p_too_large},
    {"p_without_maximum", bit(Stage::p), 2, "where the maximum rises, some exp(s - m) is 1",
     p_without_maximum},
    {"l_negative", bit(Stage::l), 2, "a row sum is not negative", negative},
    {"l_above_keys", bit(Stage::l), 2, "a row sum is at most the number of keys seen", l_too_large},
    {"l_below_one", bit(Stage::l), 2, "a row sum has the 1 of its maximum in it", l_too_small},
    {"l_sum", bit(Stage::l), 2, "l is the l before, rescaled by at most 1, and the row sums of P",
     l_sum_differs},
    {"acc_outside_v", bit(Stage::acc), 2, "the accumulator is at most l times the largest |v|", acc_outside},
    {"o_outside_v", bit(Stage::o), 2, "the output lies between the least and the greatest v", o_outside},
    {"o_not_acc_over_l", bit(Stage::o), 2, "the output is acc / l of the last KV tile", o_is_not_acc_over_l},
    {"lse_outside", bit(Stage::lse), 2, "lse is m + log(l) of the last KV tile", lse_outside},
    {"unwritten", every_stage, 3, "every element is written of the rows that see something of a tile",
     unwritten},
    {"missing", every_stage, 3, "every tile that has keys to see is written", nullptr},
    {"not_repeatable", every_stage, 4, "two launches with the same inputs give the same bits", nullptr},
};

}  // namespace

std::string to_string(const Breach& breach) {
    char text[128];
    std::snprintf(text, sizeof text, "%.*s %.9g %.*s %.9g", int(breach.what.size()), breach.what.data(),
                  breach.got, int(breach.relation.size()), breach.relation.data(), breach.limit);
    return text;
}

std::span<const WatchRule> all_watch_rules() {
    return rules;
}

const WatchRule& watch_rule(std::string_view name) {
    return *std::ranges::find(rules, name, &WatchRule::name);
}

}  // namespace tilescope
