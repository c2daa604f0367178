#include "oracle/program/attention_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "dump/schema/declarations.h"

namespace tilescope {

namespace {

std::string with_each(std::string x, std::string_view sign, const std::vector<std::string>& factors) {
    for (const std::string& factor : factors) x += fmt::format(" {} {}", sign, factor);
    return x;
}

/// Those that the other list does not have.
std::vector<std::string> without(const std::vector<std::string>& factors,
                                 const std::vector<std::string>& others) {
    std::vector<std::string> rest;
    for (const std::string& factor : factors) {
        if (std::ranges::find(others, factor) == others.end()) rest.push_back(factor);
    }
    return rest;
}

std::vector<std::string> base_factor(LogBase from, LogBase to) {
    if (from == to) return {};
    return {number_text(to == LogBase::two ? std::numbers::log2e : std::numbers::ln2)};
}

}  // namespace

std::string times(std::string x, const std::vector<std::string>& factors) {
    return with_each(std::move(x), "*", factors);
}

std::string over(std::string x, const std::vector<std::string>& factors) {
    return with_each(std::move(x), "/", factors);
}

std::string converted(const std::string& x, const ScoreUnit& from, const ScoreUnit& to) {
    return over(times(times(x, without(from.factors, to.factors)), base_factor(from.base, to.base)),
                without(to.factors, from.factors));
}

std::string number_text(double number) {
    if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
    std::string text = fmt::format("{:.17g}", number);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::vector<std::string> factor_text(double factor) {
    if (factor == 1) return {};
    return {number_text(factor)};
}

std::string typed(Dtype dtype) {
    return dtype == Dtype::f32 ? "" : fmt::format(": {}", dtype_info(dtype).name);
}

PositionText position_text(const Positions& positions, const std::string& axis, const std::string& of) {
    PositionText position{axis};
    std::int64_t begin = count_of(positions);
    for (std::size_t k = positions.size(); k > 0; --k) {
        const PositionRange& range = positions[k - 1];
        const std::int64_t end = std::exchange(begin, begin - range.count);
        const auto size = [&](const char* what, std::int64_t number) {
            const std::string name =
                fmt::format("{}_{}{}", of, what, positions.size() == 1 ? "" : std::to_string(k));
            position.sizes[name] = number;
            return name;
        };
        std::string own = axis;
        if (range.stride != 1) own += " * " + size("step", range.stride);
        const std::int64_t offset = range.first - begin * range.stride;
        if (offset != 0) own += " + " + size("offset", offset);
        if (k < positions.size())
            own = fmt::format("{} where {} < {} else {}", own, axis, size("end", end), position.text);
        position.text = own == axis ? own : fmt::format("({})", own);
    }
    return position;
}

std::map<std::string, std::int64_t> position_sizes(const Problem& problem) {
    std::map<std::string, std::int64_t> sizes = position_text(problem.shard.q_positions, "i", "row").sizes;
    sizes.merge(position_text(problem.shard.kv_positions, "j", "key").sizes);
    if (problem.shard.is_part() && problem.causal_alignment == CausalAlignment::bottom_right) {
        sizes["whole_q"] = problem.whole_seqlen_q();
        sizes["whole_kv"] = problem.whole_seqlen_kv();
    }
    return sizes;
}

std::string added_up(Accumulation how) {
    return how == Accumulation::fma_f32 ? "" : fmt::format(" in {}", declarations::name_of(how));
}

std::string empty_row_text(EmptyRow row) {
    switch (row) {
        case EmptyRow::zero:
            return "0.0";
        case EmptyRow::minus_infinity:
            return "-inf";
        case EmptyRow::plus_infinity:
            return "inf";
        case EmptyRow::nan:
            break;
    }
    return "inf - inf";
}

StaleMax stale_max(const AttentionText& of) {
    if (!of.is_forward()) return {};
    const auto is_recorded = [&](Stage stage) { return of.recording.has_stage(stage); };
    return {of.u.m_stale_threshold,
            std::ranges::any_of(std::array{Stage::m, Stage::p, Stage::l, Stage::acc}, is_recorded)};
}

std::string exponential_name(LogBase base) {
    return base == LogBase::two ? "exp2" : "exp";
}

std::string logarithm_name(LogBase base) {
    return base == LogBase::two ? "log2" : "log";
}

std::string exponential_text(const std::string& x, const ScoreUnit& of_x, const std::string& y,
                             const ScoreUnit& of_y, double log_scale) {
    const bool is_two = of_x.base == LogBase::two || of_y.base == LogBase::two;
    const ScoreUnit exponent{{}, is_two ? LogBase::two : LogBase::e};
    std::string less = converted(y, of_y, exponent);
    if (log_scale != 0)
        less =
            fmt::format("({} - {})", less, number_text(is_two ? log_scale * std::numbers::log2e : log_scale));
    return fmt::format("{}({} - {})", exponential_name(exponent.base), converted(x, of_x, exponent), less);
}

std::string sum_of_row(const AttentionText& of, const std::string& state) {
    return of.p.l_lanes > 1 ? fmt::format("sum(w: l{})", state) : "l" + state;
}

void write_exponential(AttentionText& to, const std::string& declared, const std::string& formula,
                       double log_scale) {
    const double flushed = to.u.p_flush_below;
    const double off = to.u.p_exp_error;
    if (std::isinf(flushed) && off == 0) return to.line("stage  {} = {}", declared, formula);
    const std::string exact = "exact_" + declared.substr(0, declared.find('['));
    to.line("stage  exact_{} = {}", declared, formula);
    std::string value = exact;
    if (off > 0)
        value = fmt::format("between({} * {}, {} * {})", exact, number_text(1 - off), exact,
                            number_text(1 + off));
    if (std::isfinite(flushed))
        value = fmt::format("{} where {} >= exp({}) else between(0.0, {})", value, exact,
                            number_text(flushed + log_scale),
                            off > 0 ? fmt::format("{} * {}", exact, number_text(1 + off)) : exact);
    to.line("stage  {} = {}", declared, value);
}

namespace {

bool rounds_p_unseen(const AttentionText& of) {
    const StaleMax stale = stale_max(of);
    return stale.threshold > 0 && !stale.is_shown;
}

/// P as it multiplies V. Relative to a maximum that is not known it may be rounded either way.
std::string operand_text(const AttentionText& of, const std::string& p) {
    const Dtype dtype = of.p.dtype_p;
    if (!rounds_p_unseen(of)) return fmt::format("{}({})", dtype_info(dtype).name, p);
    const double unit = unit_roundoff(dtype);
    const std::string quantum = number_text(half_quantum(dtype) * std::exp(stale_max(of).threshold));
    return fmt::format("(between({} * {} - {}, {} * {} + {}) where {} > 0.0 else 0.0)", p,
                       number_text(1 - unit), quantum, p, number_text(1 + unit), quantum, p);
}

/// Type to which the stage p is rounded.
Dtype cast_of_p(const AttentionText& of) {
    return rounds_p_unseen(of) ? Dtype::f32 : of.u.p_cast;
}

bool p_takes_descale(const AttentionText& of) {
    return of.is_forward() && of.u.p_descale_v != DescaleInP::none && !of.descale_of_v.empty();
}

}  // namespace

Probabilities name_probabilities(const AttentionText& of) {
    const Units& u = of.u;
    const bool is_recorded = p_takes_descale(of) && u.p_descale_v == DescaleInP::recorded;
    const bool is_operand = p_takes_descale(of) && !is_recorded;
    const bool is_changed = cast_of_p(of) != Dtype::f32 || is_recorded || u.p_normalised;
    const bool is_cast = of.p.dtype_p != Dtype::f32 && (cast_of_p(of) != of.p.dtype_p || is_operand);
    const std::string operand = is_operand ? "p * descale_v" : "p";
    return {is_changed ? "u" : "p", is_cast ? operand_text(of, operand) : operand};
}

void write_probability(AttentionText& to, const Probabilities& p, const std::string& less,
                       const ScoreUnit& unit) {
    const Units& u = to.u;
    const double log_scale = std::log(u.p_scale);
    std::string formula = exponential_text(to.score, to.score_unit, less, unit, log_scale);
    std::string hidden = "0.0";
    if (std::isfinite(u.p_least_argument)) {
        const std::string least = fmt::format("exp({})", number_text(u.p_least_argument + log_scale));
        formula = fmt::format("max({}, {})", formula, least);
        // As long as it is nothing beside a sum of 2^20 keys.
        if (std::exp(u.p_least_argument) < 0x1p-44) hidden = fmt::format("between(0.0, {})", least);
    }
    std::string shown = fmt::format("{} > -inf", to.score);
    if (hides_with_number(to)) shown += fmt::format(" and ({} or seen == 0.0)", visible_text(to));
    write_exponential(to, p.before_cast + "[b, h, i, j]",
                      fmt::format("{} where {} else {}", formula, shown, hidden), log_scale);
}

void write_cast(AttentionText& to, const Probabilities& p) {
    if (p.before_cast == "p") return;
    std::string formula = p.before_cast;
    if (to.u.p_of_tile_max && to.u.p_normalised) formula += " * to_m";
    if (p_takes_descale(to) && to.u.p_descale_v == DescaleInP::recorded) formula += " * descale_v";
    if (to.u.p_normalised) {
        const std::string l = over(sum_of_row(to), factor_text(to.u.l_scale));
        formula = fmt::format("{} / {} where {} > 0.0 else 0.0", formula, l, sum_of_row(to));
    }
    to.line("stage  p[b, h, i, j]{} = {}", typed(cast_of_p(to)), formula);
}

std::string log_sum_exp_text(const AttentionText& of, const std::string& m, const std::string& l) {
    const ScoreUnit unit = unit_of_max(of);
    const bool is_two = unit.base == LogBase::two;
    std::string text =
        fmt::format("{} + {}({})", converted(m, unit, {{}, unit.base}), logarithm_name(unit.base), l);
    if (of.u.l_scale != 1)
        text += " - " + number_text(is_two ? std::log2(of.u.l_scale) : std::log(of.u.l_scale));
    return text;
}

std::string lse_text(const AttentionText& of, const std::string& m, const std::string& l) {
    const LogBase base = unit_of_max(of).base;
    const std::string text = log_sum_exp_text(of, m, l);
    if (base == of.u.lse_log_base) return text;
    return converted(fmt::format("({})", text), {{}, base}, {{}, of.u.lse_log_base});
}

}  // namespace tilescope
