#include "oracle/causes/other_declarations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <numbers>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "dump/schema/declarations.h"
#include "dump/schema/rounding.h"
#include "dump/schema/semantics.h"
#include "oracle/causes/rounded_partials.h"
#include "oracle/causes/staged_scales.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// An interval that a number lies in.
struct Within {
    double least = 0;
    double most = 0;

    bool contains(double number) const { return number >= least && number <= most; }
};

/// Room is made for numbers by a factor of two or more; by less they are off. As a logarithm.
constexpr double least_room = 0.69;

/// The multiple of `unit` in the interval, and numbers in it of as few decimal digits as it takes, and of up to three more.
/// None where 0 is in it.
std::vector<double> round_numbers(const Within& within, double unit) {
    if (!(within.least * within.most > 0) || !std::isfinite(within.most - within.least)) return {};
    std::vector<double> numbers;
    const double middle = (within.least + within.most) / 2;
    const double multiple = std::round(middle / unit) * unit;
    if (within.contains(multiple)) numbers.push_back(multiple);
    int more = 4;
    for (int digits = 1; digits <= 9 && more > 0; ++digits) {
        const double number = std::strtod(fmt::format("{:.{}g}", middle, digits).c_str(), nullptr);
        if (!within.contains(number) || (!numbers.empty() && numbers.back() == number)) continue;
        numbers.push_back(number);
        --more;
    }
    return numbers;
}

/// Of the first wrong element, got / expected, with what rounding the maximum beside it may add.
Within times_expected(const Element& first) {
    const double off = first.tolerance + 0x1p-17 * std::abs(first.expected);
    const double least = first.got / (first.expected + off);
    const double most = first.got / (first.expected - off);
    const bool tells = std::abs(first.expected) > 2 * off && std::isfinite(first.got);
    return tells ? Within{std::min(least, most), std::max(least, most)} : Within();
}

/// Constants that kernels multiply with, and what the first wrong element, of the stage that is scaled, is multiplied with.
std::vector<double> factors_for(const Recording& recording, const declarations::Declaration& declaration,
                                const Declared& as, Stage guilty, const Element& first) {
    const double scale = as.problem.sm_scale;
    std::vector<double> factors = {
        scale,           scale * std::numbers::log2e, 1 / scale, std::numbers::log2e, 448, 256, 240, 127, 1,
        as.units.p_scale};
    if (declaration.name != std::string(stage_info(guilty).name) + ".scale") return factors;
    const Within ratio = times_expected(first);
    if (!(ratio.least > 0) || std::abs(std::log(ratio.most)) < least_room) return factors;
    const double power = std::exp2(std::round(std::log2(ratio.most)));
    const double now = recording.units().*std::get<double Units::*>(declaration.member);
    if (ratio.contains(power)) factors.push_back(power * now);
    for (const double number : round_numbers(ratio, 1)) factors.push_back(number * now);
    return factors;
}

/// In the dump's units of m, one natural one; nullopt where it has several.
std::optional<double> unit_of_m(const Recording& recording, const Declared& as) {
    const Problem& p = as.problem;
    const Units& u = as.units;
    const bool descaled =
        !recording.side_inputs().descale_q.empty() || !recording.side_inputs().descale_k.empty();
    if (!u.m_scaled && (descaled || p.logits_soft_cap != 0)) return std::nullopt;
    return (u.m_scaled ? 1 : 1 / product_scale(p, u)) *
           (u.m_log_base == LogBase::two ? std::numbers::log2e : 1);
}

/// What may have been added to the maximum: the difference of m, or what p, l and acc are smaller by.
std::vector<double> offsets_of_maximum(const Recording& recording, const Declared& as, Stage guilty,
                                       const Element& first) {
    std::vector<double> numbers;
    if (guilty == Stage::m) {
        const std::optional<double> unit = unit_of_m(recording, as);
        const double from_middle = first.got - first.expected;
        if (!unit || !std::isfinite(from_middle)) return {};
        // A maximum that stays behind is one end of what it may be.
        const bool stays_behind = as.units.m_stale_threshold > 0;
        const double off =
            stays_behind ? from_middle - std::copysign(first.tolerance, from_middle) : from_middle;
        const double rounding = (stays_behind ? 0 : first.tolerance) +
                                gamma(4, u_f32) * (std::abs(from_middle) + std::abs(first.got));
        numbers = round_numbers({(off - rounding) / *unit, (off + rounding) / *unit}, std::numbers::ln2);
    } else if (guilty >= Stage::p && guilty <= Stage::acc) {
        const Within ratio = times_expected(first);
        if (!(ratio.least > 0)) return {};
        numbers = round_numbers({-std::log(ratio.most), -std::log(ratio.least)}, std::numbers::ln2);
    }
    std::erase_if(numbers, [](double number) { return std::abs(number) < least_room; });
    return numbers;
}

/// Where a declared type shows.
struct TypeOfStage {
    std::string_view name;
    Stage stage;
    bool is_stored =
        true;  ///< the recorded values are of the type; false: they are cast after they were recorded
};
constexpr TypeOfStage types[] = {{"q.cast", Stage::q},
                                 {"k.cast", Stage::k},
                                 {"v.cast", Stage::v},
                                 {"s.cast", Stage::s},
                                 {"p.cast", Stage::p},
                                 {"ds.cast", Stage::ds},
                                 {"problem.dtype_p", Stage::p, false},
                                 {"problem.dtype_ds", Stage::ds, false},
                                 {"problem.dtype_o", Stage::o},
                                 {"problem.dtype_partial_o", Stage::o, false},
                                 {"problem.dtype_acc", Stage::acc},
                                 {"problem.dtype_dq", Stage::dq},
                                 {"problem.dtype_dk", Stage::dk},
                                 {"problem.dtype_dv", Stage::dv}};

bool all_of_type(Dtype dtype, const MatrixF& values) {
    return std::all_of(values.data(), values.data() + values.size(), [&](float value) {
        return !std::isfinite(value) || decode(dtype, encode(dtype, value)) == value;
    });
}

/// Whether the type shows in every tile that was recorded: a mistake in some of them is none of a declaration.
bool shows(const Recording& recording, const TypeOfStage& type, Dtype dtype) {
    if (!recording.has_stage(type.stage)) return false;
    bool any = false;
    for (std::int64_t i = 0; i < tile_count(recording.problem(), type.stage); ++i) {
        const TileId tile = tile_at(recording.problem(), type.stage, i);
        const Problem problem = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
        const std::optional<MatrixF> values = load_tile(recording, problem, type.stage, tile);
        if (values && type.is_stored && !all_of_type(dtype, *values)) return false;
        any = any || values;
    }
    return any;
}

/// Sums in few bits explain much: only with what else makes them so.
bool may_sum_so(const Declared& as, std::string_view name, std::string_view accumulation) {
    if (accumulation == "tensor_core_fp8") return dtype_info(as.problem.dtype_q).bytes == 1;
    if (accumulation == "tensor_core_tf32") return as.problem.dtype_q == Dtype::f32;
    const bool in_half = accumulation == "fma_f16" || accumulation == "tensor_core_f16";
    if (!in_half && accumulation != "fma_bf16") return true;
    return name == "acc.accumulation" && as.problem.dtype_acc == (in_half ? Dtype::f16 : Dtype::bf16);
}

SeenDiagonals seen_diagonals(const Recording& recording, const Block& block) {
    const Problem problem = problem_of(recording.problem(), recording.side_inputs(), block.batch);
    SeenDiagonals seen;
    for (std::int64_t kv_tile = 0; kv_tile < problem.kv_tiles() && recording.has_stage(Stage::s); ++kv_tile) {
        const std::optional<MatrixF> s =
            load_tile(recording, problem, Stage::s, {block.batch, block.head, block.q_block, kv_tile});
        if (!s) continue;
        for (Eigen::Index i = 0; i < s->rows(); ++i) {
            for (Eigen::Index j = 0; j < s->cols(); ++j) {
                const std::int64_t key = kv_tile * problem.block_n + j;
                const bool is_score =
                    key < problem.seqlen_kv && block.q_block * problem.block_m + i < problem.seqlen_q;
                if (!std::isfinite((*s)(i, j))) {
                    seen.hides = seen.hides || is_score;
                    continue;
                }
                const std::int64_t diagonal = diagonal_of(problem, block.q_block * problem.block_m + i);
                seen.left = std::max(seen.left, diagonal - key);
                seen.right = std::max(seen.right, key - diagonal);
                seen.most = std::max(seen.most.value_or(key - diagonal), key - diagonal);
            }
        }
    }
    return seen;
}

/// Of a P that is larger than it should be: the argument that it is the exponential of, as a round number to
/// either base.
std::vector<double> least_arguments(const Element& first, const Units& units) {
    if (!(first.got > 0) || !(first.got > first.expected) || first.got >= units.p_scale) return {};
    const double argument = std::log(first.got / units.p_scale);
    const double rounding = units.p_cast == Dtype::f32 ? 1e-5 : 2 * unit_roundoff(units.p_cast);
    std::vector<double> arguments;
    for (const double unit : {1.0, std::numbers::ln2, 0.5, 0.1}) {
        const double round = std::round(argument / unit) * unit;
        if (round < 0 && std::abs(round - argument) <= rounding * std::max(1.0, -argument))
            arguments.push_back(round);
    }
    return arguments;
}

/// Below which argument exponentials are 0: between that of the first P that is, and the least one that is not. Of sums it
/// is that of llama.cpp alone, whose kernels flush the factor that rescales them.
std::vector<double> flush_thresholds(const Recording& recording, const Declared& as, Stage guilty,
                                     const Element& first) {
    if (guilty == Stage::l || guilty == Stage::acc) return {-20};
    if (guilty != Stage::p || first.got != 0 || !(first.expected > 0)) return {};
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < tile_count(recording.problem(), Stage::p); ++i) {
        const TileId tile = tile_at(recording.problem(), Stage::p, i);
        const Problem problem = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
        const std::optional<MatrixF> p = load_tile(recording, problem, Stage::p, tile);
        for (Eigen::Index e = 0; p && e < p->size(); ++e)
            if (p->data()[e] > 0) least = std::min(least, double(p->data()[e]));
    }
    const Within arguments{std::log((first.expected + first.tolerance) / as.units.p_scale),
                           std::min(std::log(least / as.units.p_scale), 0.0)};
    std::vector<double> thresholds;
    for (const double step : {5.0, 1.0, std::numbers::ln2, 0.5, 0.1}) {
        const double round = std::floor(arguments.most / step) * step;
        if (arguments.contains(round)) thresholds.push_back(round);
    }
    return thresholds;
}

/// How far rows stayed behind their maximum, and by how much it rose where they followed it; natural units.
struct SeenLags {
    double most_behind = 0;
    double least_rise = std::numeric_limits<double>::infinity();
    bool consistent = true;  ///< each m is the one before or the maximum

    void add(float before, float maximum, float m, double unit) {
        if (!(maximum > before) || std::isinf(before)) {
            consistent = consistent && m == std::max(before, maximum);
        } else if (m == before) {
            most_behind = std::max(most_behind, (double(maximum) - double(before)) / unit);
        } else {
            least_rise = std::min(least_rise, (double(maximum) - double(before)) / unit);
            consistent = consistent && m == maximum;
        }
    }
};

/// Nothing is added where a tile was not recorded.
void add_lags(const Recording& recording, const Problem& entry, const TileId& block, double unit,
              SeenLags& lags) {
    std::optional<MatrixF> before;
    std::int64_t split = -1;
    for (std::int64_t i = 0; i < entry.kv_tiles() && lags.consistent; ++i) {
        TileId tile = block;
        tile.kv_tile = kv_tile_in_order(entry, recording.units().kv_order, i);
        const std::optional<MatrixF> s = load_tile(recording, entry, Stage::s, tile);
        std::optional<MatrixF> m = load_tile(recording, entry, Stage::m, tile);
        const bool goes_on = before && split == entry.split_of(tile.kv_tile);
        split = entry.split_of(tile.kv_tile);
        for (Eigen::Index row = 0; goes_on && s && m && row < m->rows(); ++row)
            lags.add((*before)(row, 0), s->row(row).maxCoeff(), (*m)(row, 0), unit);
        before = std::move(m);
    }
}

/// A threshold for a maximum that stays behind, by every recorded s and m; a round number to either base where one
/// fits. Only where the two have the same units, and where some rows stay behind and others follow by more.
std::optional<double> seen_threshold(const Recording& recording) {
    const Problem& p = recording.problem();
    const Units& u = recording.units();
    const std::optional<double> unit = unit_of_m(recording, {p, u, {}});
    const bool alike = u.s_scaled == u.m_scaled && u.s_log_base == u.m_log_base && u.s_masked && u.s_capped &&
                       u.s_biased && !masks_with_number(u) && unit;
    if (!alike || !recording.has_stage(Stage::s) || !recording.has_stage(Stage::m)) return std::nullopt;
    SeenLags lags;
    for (std::int64_t i = 0; i < tile_count(p, Stage::q) && lags.consistent; ++i) {
        const TileId block = tile_at(p, Stage::q, i);
        add_lags(recording, problem_of(p, recording.side_inputs(), block.batch), block, *unit, lags);
    }
    if (!lags.consistent || lags.most_behind == 0 || !(lags.most_behind < lags.least_rise))
        return std::nullopt;
    for (const double step : {1.0, std::numbers::ln2, 0.5, 0.1}) {
        const double round = std::ceil(lags.most_behind / step) * step;
        if (std::isfinite(lags.least_rise) && round < lags.least_rise) return round;
    }
    return std::nullopt;
}

/// KV tiles at which some row's maximum falls, in the block or the last one of its head: there its state starts anew.
std::string seen_starts(const Recording& recording, const Block& block) {
    std::set<std::int64_t> starts;
    if (!recording.has_stage(Stage::m)) return "";
    const Problem problem = problem_of(recording.problem(), recording.side_inputs(), block.batch);
    for (const std::int64_t q_block : {block.q_block, problem.q_blocks() - 1}) {
        std::optional<MatrixF> before;
        for (std::int64_t kv_tile = 0; kv_tile < problem.kv_tiles(); ++kv_tile) {
            std::optional<MatrixF> m =
                load_tile(recording, problem, Stage::m, {block.batch, block.head, q_block, kv_tile});
            if (m && before && (m->array() < before->array()).any()) starts.insert(kv_tile);
            before = std::move(m);
        }
    }
    // Splits of one length have a declaration of their own.
    const std::int64_t length = starts.empty() ? 0 : *starts.begin();
    std::int64_t at = 0;
    const bool is_even =
        std::ranges::all_of(starts, [&](std::int64_t start) { return start == (at += length); });
    return is_even && at + length >= problem.kv_tiles()
               ? ""
               : declarations::list_text({starts.begin(), starts.end()});
}

/// What a number may be instead. `first` is the first divergence, of the stage `guilty`.
std::vector<std::string> numbers_for(const Recording& recording, const declarations::Declaration& declaration,
                                     const Declared& as, Stage guilty, const Element& first,
                                     const SeenDiagonals& seen) {
    std::vector<double> numbers;
    const auto is = [&](std::string_view name) { return declaration.name == name; };
    const Problem& problem = as.problem;
    if (is("problem.logits_soft_cap")) numbers = {0};
    if (is("problem.sm_scale")) numbers = {1 / std::sqrt(double(problem.head_dim))};
    if (declaration.name.ends_with(".scale"))
        numbers = factors_for(recording, declaration, as, guilty, first);
    if (is("q.scale") || is("k.scale")) {
        const std::array<double, 4> scales = staged_scales(problem);
        numbers = {1};
        numbers.insert(numbers.begin(), scales.begin(), scales.end());
    }
    const bool is_number = std::isinf(first.expected) && std::isfinite(first.got) && first.got < 0;
    if (is("s.masked_value") && is_number) numbers = {first.got};
    if (is("m.start") && guilty == Stage::m && is_number) numbers = {first.got};
    if (is("m.offset")) numbers = offsets_of_maximum(recording, as, guilty, first);
    if (is("p.flush_below")) numbers = flush_thresholds(recording, as, guilty, first);
    // A diagonal that is off by one is a mistake, likelier than a place for it; that of the other alignment has a
    // name, and one that hides nothing is none.
    const std::int64_t lengths = problem.seqlen_kv - problem.seqlen_q;
    const bool other =
        problem.causal_alignment == CausalAlignment::top_left ? seen.most == lengths : seen.most == -lengths;
    if (is("problem.diagonal_offset") && seen.hides && seen.most && std::abs(*seen.most) > 1 && !other)
        numbers = {double(problem.diagonal_offset + *seen.most)};
    if (is("problem.window_left")) numbers = {double(seen.left), double(seen.left + 1), -1};
    if (is("problem.window_right")) numbers = {double(seen.right), double(seen.right + 1), -1};
    if (is("p.least_argument")) numbers = least_arguments(first, as.units);
    if (is("problem.kv_tiles_per_split")) {
        for (std::int64_t tiles = 0; tiles < std::min<std::int64_t>(problem.kv_tiles(), 16); ++tiles)
            numbers.push_back(double(tiles));
    }
    if (is("problem.l_lane_columns")) numbers = {1, 2, 4, 8, 16};
    std::vector<std::string> texts;
    for (const double number : numbers) {
        // As text that every number of the declaration's type can be read from.
        const bool whole = number == std::floor(number) && std::abs(number) < 1e6;
        texts.push_back(whole ? std::to_string(std::int64_t(number)) : declarations::number_text(number));
    }
    return texts;
}

/// The stage that is read otherwise; nullopt of what all are computed from.
std::optional<Stage> stage_of(const declarations::Declaration& declaration) {
    const auto type = std::ranges::find(types, declaration.name, &TypeOfStage::name);
    if (type != std::end(types)) return type->stage;
    const std::string_view name = declaration.name;
    for (const StageInfo& info : all_stages())
        if (name.starts_with(info.name) && name.substr(info.name.size()).starts_with('.')) return info.stage;
    return std::nullopt;
}

/// What p, l, m and acc are kept relative to. Outputs do not depend on it, but the budgets of what was not recorded do.
constexpr std::string_view kept_relative[] = {
    "m.from_lse", "m.offset", "m.start", "p.of_tile_max", "p.normalised", "p.flush_below", "acc.normalised"};

bool keeps_state(const Recording& recording) {
    return std::ranges::any_of(std::array{Stage::m, Stage::p, Stage::l, Stage::acc},
                               [&](Stage stage) { return recording.has_stage(stage); });
}

/// Whether it may be why `wrong` is: nothing of a later stage is. A backward pass begins with its lse.
bool concerns(const declarations::Declaration& declaration, Stage wrong, Direction direction) {
    const std::optional<Stage> stage = stage_of(declaration);
    return !stage || *stage <= wrong || (*stage == Stage::lse && direction == Direction::backward);
}

}  // namespace

OtherDeclarations::OtherDeclarations(const Recording& recording, const Report& report, const Block& block)
    : recording_(recording),
      report_(report),
      block_(block),
      seen_(seen_diagonals(recording, block)),
      starts_(seen_starts(recording, block)) {}

bool OtherDeclarations::may_be(const declarations::Declaration& declaration, const std::string& value,
                               const Declared& as, Stage wrong) const {
    if (value == declarations::value_text(declaration, as.problem, as.units)) return false;
    if (!may_sum_so(as, declaration.name, value)) return false;
    // Of a sum that was not recorded nothing shows but that its budget is wide.
    const bool sums = std::string_view(declaration.name).ends_with(".accumulation");
    if (sums && !recording_.has_stage(*stage_of(declaration))) return false;
    if (std::ranges::count(kept_relative, declaration.name) != 0 && !keeps_state(recording_)) return false;
    const Problem& problem = as.problem;
    const bool shares_heads = problem.heads > problem.heads_kv && problem.heads_kv > 1;
    if (declaration.name == "problem.head_grouping" && !shares_heads) return false;
    if (declaration.name == "p.descale_v" && recording_.side_inputs().descale_v.empty()) return false;
    const auto type = std::ranges::find(types, declaration.name, &TypeOfStage::name);
    if (type == std::end(types)) return true;
    // Values that are right are of the type that is declared, or of one that rounds less.
    if (type->is_stored && type->stage != wrong && value != "f32") return false;
    const auto [known, is_new] = shown_.try_emplace({declaration.name, value}, false);
    const Dtype dtype = *dtype_from_name(value);
    const bool of_splits = type->name == "problem.dtype_partial_o";
    if (is_new)
        known->second = of_splits ? partials_show(recording_, dtype, report_.confidence)
                                  : shows(recording_, *type, dtype);
    return known->second;
}

std::vector<Declared> OtherDeclarations::beside(const Declared& as, Stage wrong) const {
    std::vector<Declared> all;
    for (const declarations::Declaration& declaration : declarations::all_declarations()) {
        if (!concerns(declaration, wrong, as.problem.direction)) continue;
        std::vector<std::string> values = declarations::values_of(declaration);
        if (declaration.name == "m.stale_threshold") {
            // Every recorded m tells: it is looked at once, and only where m is wrong.
            if (wrong != Stage::m || as.units.m_stale_threshold > 0) continue;
            if (!looked_at_lags_) threshold_ = seen_threshold(recording_);
            looked_at_lags_ = true;
            if (threshold_) values = {declarations::number_text(*threshold_)};
        } else if (declaration.name == "problem.split_starts") {
            if (starts_.empty() || as.problem.kv_tiles_per_split > 0) continue;
            values = {starts_};
        } else if (values.empty()) {
            values =
                numbers_for(recording_, declaration, as, *report_.guilty, *report_.first_divergence, seen_);
        }
        for (const std::string& value : values) {
            if (!may_be(declaration, value, as, wrong)) continue;
            Declared next = as;
            declarations::declare(declaration, value, next.problem, next.units);
            next.assignments.push_back({declaration.name, value});
            all.push_back(std::move(next));
        }
    }
    // Beside others than the units of s they would be tried too often.
    const auto is_of_s = [](const Assignment& one) { return one.name.starts_with("s."); };
    if (!std::ranges::all_of(as.assignments, is_of_s)) return all;
    for (Declared& way : ways_to_scale_operands(recording_, as, wrong, block_)) all.push_back(std::move(way));
    return all;
}

}  // namespace tilescope
