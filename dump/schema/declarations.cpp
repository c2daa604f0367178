#include "dump/schema/declarations.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <type_traits>

#include "dump/schema/dropout.h"
#include "dump/schema/dtype.h"
#include "dump/schema/error.h"

namespace tilescope::declarations {

namespace {

constexpr Named<Direction> direction_names[] = {{Direction::forward, "forward"},
                                                {Direction::backward, "backward"}};
constexpr Named<Axis> axis_names[] = {
    {Axis::query, "query"}, {Axis::key, "key"}, {Axis::feature, "feature"}, {Axis::unit, "unit"}};
constexpr Named<Mask> mask_names[] = {{Mask::none, "none"}, {Mask::causal, "causal"}};
constexpr Named<CausalAlignment> alignment_names[] = {{CausalAlignment::top_left, "top_left"},
                                                      {CausalAlignment::bottom_right, "bottom_right"}};
constexpr Named<WindowBounds> window_bounds_names[] = {{WindowBounds::inclusive, "inclusive"},
                                                       {WindowBounds::exclusive, "exclusive"}};
constexpr Named<Alibi> alibi_names[] = {
    {Alibi::none, "none"}, {Alibi::linear, "linear"}, {Alibi::distance, "distance"}};
constexpr Named<AttentionSink> sink_names[] = {
    {AttentionSink::none, "none"}, {AttentionSink::first, "first"}, {AttentionSink::last, "last"}};
constexpr Named<HeadGrouping> head_grouping_names[] = {{HeadGrouping::consecutive, "consecutive"},
                                                       {HeadGrouping::interleaved, "interleaved"}};
constexpr Named<LogBase> log_base_names[] = {{LogBase::e, "e"}, {LogBase::two, "2"}};
constexpr Named<KvOrder> kv_order_names[] = {{KvOrder::forward, "forward"}, {KvOrder::reverse, "reverse"}};
constexpr Named<Accumulation> accumulation_names[] = {{Accumulation::fma_f32, "fma_f32"},
                                                      {Accumulation::fma_f16, "fma_f16"},
                                                      {Accumulation::fma_bf16, "fma_bf16"},
                                                      {Accumulation::tensor_core_f32, "tensor_core_f32"},
                                                      {Accumulation::tensor_core_f16, "tensor_core_f16"},
                                                      {Accumulation::tensor_core_tf32, "tensor_core_tf32"},
                                                      {Accumulation::tensor_core_fp8, "tensor_core_fp8"}};
constexpr Named<ExpFunction> exp_names[] = {{ExpFunction::expf, "expf"},
                                            {ExpFunction::fast_expf, "fast_expf"},
                                            {ExpFunction::exp2f, "exp2f"},
                                            {ExpFunction::ex2_approx, "ex2_approx"}};
constexpr Named<TanhFunction> tanh_names[] = {{TanhFunction::tanhf, "tanhf"},
                                              {TanhFunction::tanh_approx, "tanh_approx"}};
constexpr Named<EmptyRow> empty_row_names[] = {{EmptyRow::zero, "zero"},
                                               {EmptyRow::minus_infinity, "-inf"},
                                               {EmptyRow::plus_infinity, "inf"},
                                               {EmptyRow::nan, "nan"}};
constexpr Named<DescaleInP> descale_in_p_names[] = {
    {DescaleInP::none, "none"}, {DescaleInP::operand, "operand"}, {DescaleInP::recorded, "recorded"}};
constexpr Named<ShardKind> shard_kind_names[] = {{ShardKind::step, "step"},
                                                 {ShardKind::owned, "owned"},
                                                 {ShardKind::final, "final"},
                                                 {ShardKind::received, "received"}};

constexpr SizeAttribute sizes[] = {
    {"batch", &Problem::batch, true, nullptr},
    {"heads", &Problem::heads, true, nullptr},
    {"heads_kv", &Problem::heads_kv, false, &Problem::heads},
    {"seqlen_q", &Problem::seqlen_q, true, nullptr},
    {"seqlen_kv", &Problem::seqlen_kv, true, nullptr},
    {"head_dim", &Problem::head_dim, true, nullptr},
    {"head_dim_v", &Problem::head_dim_v, false, &Problem::head_dim},
    {"block_m", &Problem::block_m, true, nullptr},
    {"block_n", &Problem::block_n, true, nullptr},
    {"diagonal_offset", &Problem::diagonal_offset, false, nullptr, true},
    {"window_left", &Problem::window_left, false, nullptr},
    {"window_right", &Problem::window_right, false, nullptr},
    {"kv_tiles_per_split", &Problem::kv_tiles_per_split, false, nullptr},
    {"l_lanes", &Problem::l_lanes, false, nullptr},
    {"l_lane_columns", &Problem::l_lane_columns, false, nullptr},
};

constexpr NameAttribute enumerators[] = {
    {"direction", &Problem::direction},
    {"mask", &Problem::mask},
    {"causal_alignment", &Problem::causal_alignment},
    {"window_bounds", &Problem::window_bounds},
    {"alibi", &Problem::alibi},
    {"sink", &Problem::sink},
    {"head_grouping", &Problem::head_grouping, true},
    {"dtype_q", &Problem::dtype_q},
    {"dtype_k", &Problem::dtype_k},
    {"dtype_v", &Problem::dtype_v},
    {"dtype_p", &Problem::dtype_p},
    {"dtype_acc", &Problem::dtype_acc},
    {"dtype_o", &Problem::dtype_o},
    {"dtype_partial_o", &Problem::dtype_partial_o, true},
    {"dtype_dout", &Problem::dtype_dout},
    {"dtype_ds", &Problem::dtype_ds},
    {"dtype_dq", &Problem::dtype_dq},
    {"dtype_dk", &Problem::dtype_dk},
    {"dtype_dv", &Problem::dtype_dv},
};

constexpr UnitsAttribute of_stages[] = {
    {Stage::q, "dequantised", &Units::q_dequantised},
    {Stage::q, "scale", &Units::q_scale, true},
    {Stage::q, "cast", &Units::q_cast},
    {Stage::k, "dequantised", &Units::k_dequantised},
    {Stage::k, "scale", &Units::k_scale, true},
    {Stage::k, "cast", &Units::k_cast},
    {Stage::v, "dequantised", &Units::v_dequantised},
    {Stage::v, "cast", &Units::v_cast},
    {Stage::s, "scaled", &Units::s_scaled},
    {Stage::s, "capped", &Units::s_capped},
    {Stage::s, "tanh", &Units::s_tanh},
    {Stage::s, "biased", &Units::s_biased},
    {Stage::s, "masked", &Units::s_masked},
    {Stage::s, "masked_value", &Units::s_masked_value, true},
    {Stage::s, "cast", &Units::s_cast, true},
    {Stage::s, "log_base", &Units::s_log_base},
    {Stage::s, "accumulation", &Units::s_accumulation},
    {Stage::m, "scaled", &Units::m_scaled},
    {Stage::m, "log_base", &Units::m_log_base},
    {Stage::m, "from_lse", &Units::m_from_lse, true},
    {Stage::m, "stale_threshold", &Units::m_stale_threshold},
    {Stage::m, "offset", &Units::m_offset, true},
    {Stage::m, "start", &Units::m_start, true},
    {Stage::p, "exp", &Units::p_exp},
    {Stage::p, "exp_error", &Units::p_exp_error},
    {Stage::p, "cast", &Units::p_cast},
    {Stage::p, "scale", &Units::p_scale},
    {Stage::p, "descale_v", &Units::p_descale_v, true},
    {Stage::p, "of_tile_max", &Units::p_of_tile_max, true},
    {Stage::p, "normalised", &Units::p_normalised, true},
    {Stage::p, "least_argument", &Units::p_least_argument, true},
    {Stage::p, "flush_below", &Units::p_flush_below, true},
    {Stage::l, "sums_cast_p", &Units::l_sums_cast_p},
    {Stage::l, "scale", &Units::l_scale},
    {Stage::acc, "accumulation", &Units::acc_accumulation},
    {Stage::acc, "normalised", &Units::acc_normalised, true},
    {Stage::acc, "scale", &Units::acc_scale},
    {Stage::acc, "dequantised", &Units::acc_dequantised},
    {Stage::o, "empty_row", &Units::o_empty_row},
    {Stage::lse, "log_base", &Units::lse_log_base},
    {Stage::lse, "empty_row", &Units::lse_empty_row},
    {Stage::lse, "includes_sink", &Units::lse_includes_sink},
    {Stage::dp, "accumulation", &Units::dp_accumulation},
    {Stage::ds, "from_cast_p", &Units::ds_from_cast_p},
    {Stage::ds, "capped", &Units::ds_capped},
    {Stage::ds, "cast", &Units::ds_cast},
    {Stage::ds, "scale", &Units::ds_scale},
    {Stage::dq, "accumulation", &Units::dq_accumulation},
    {Stage::dk, "accumulation", &Units::dk_accumulation},
    {Stage::dv, "accumulation", &Units::dv_accumulation},
};

/// Names that are no enumerator's.
struct NameInCode {
    std::string_view name;
    std::string_view code;
};
constexpr NameInCode enumerators_of_names[] = {
    {"2", "two"}, {"-inf", "minus_infinity"}, {"inf", "plus_infinity"}};

/// Of an enumerator's type, in C++.
template <class Enum>
constexpr std::string_view type_name() {
    if constexpr (std::is_same_v<Enum, Mask>) return "Mask";
    if constexpr (std::is_same_v<Enum, CausalAlignment>) return "CausalAlignment";
    if constexpr (std::is_same_v<Enum, WindowBounds>) return "WindowBounds";
    if constexpr (std::is_same_v<Enum, Alibi>) return "Alibi";
    if constexpr (std::is_same_v<Enum, AttentionSink>) return "AttentionSink";
    if constexpr (std::is_same_v<Enum, HeadGrouping>) return "HeadGrouping";
    if constexpr (std::is_same_v<Enum, DescaleInP>) return "DescaleInP";
    if constexpr (std::is_same_v<Enum, LogBase>) return "LogBase";
    if constexpr (std::is_same_v<Enum, KvOrder>) return "KvOrder";
    if constexpr (std::is_same_v<Enum, Accumulation>) return "Accumulation";
    if constexpr (std::is_same_v<Enum, ExpFunction>) return "ExpFunction";
    if constexpr (std::is_same_v<Enum, TanhFunction>) return "TanhFunction";
    if constexpr (std::is_same_v<Enum, EmptyRow>) return "EmptyRow";
    if constexpr (std::is_same_v<Enum, Dtype>) return "Dtype";
}

// Of /problem: what says how the call is computed, and not what was stored.
constexpr std::int64_t Problem::*problem_sizes[] = {&Problem::diagonal_offset, &Problem::window_left,
                                                    &Problem::window_right, &Problem::kv_tiles_per_split,
                                                    &Problem::l_lane_columns};
constexpr Dtype Problem::*problem_dtypes[] = {
    &Problem::dtype_p,  &Problem::dtype_acc, &Problem::dtype_o,  &Problem::dtype_partial_o,
    &Problem::dtype_ds, &Problem::dtype_dq,  &Problem::dtype_dk, &Problem::dtype_dv};

template <class Value, std::size_t size>
bool is_among(Value Problem::*const (&members)[size], Value Problem::*member) {
    return std::ranges::find(members, member) != std::end(members);
}

std::string shortest_text(auto value) {
    std::array<char, 40> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

template <class Value>
std::string text_of(Value value) {
    if constexpr (std::is_same_v<Value, bool>) {
        return value ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<Value>) {
        return shortest_text(value);
    } else if constexpr (std::is_enum_v<Value>) {
        return std::string(name_of(value));
    } else {
        return list_text(value);
    }
}

template <class Value>
std::optional<Value> parsed(std::string_view text) {
    if constexpr (std::is_same_v<Value, bool>) {
        if (text == "true" || text == "1") return true;
        if (text == "false" || text == "0") return false;
        return std::nullopt;
    } else if constexpr (std::is_arithmetic_v<Value>) {
        Value value{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
        return value;
    } else if constexpr (std::is_enum_v<Value>) {
        return value_of<Value>(text);
    } else {
        return list_of(text);
    }
}

std::vector<Declaration> make_declarations() {
    std::vector<Declaration> all;
    const auto of_problem = [&](const char* name, Member member, bool is_added = false) {
        const std::string called = std::string("problem.") + name;
        all.push_back({called, member, "/problem", name, called, is_added});
    };
    of_problem("sm_scale", &Problem::sm_scale);
    of_problem("logits_soft_cap", &Problem::logits_soft_cap);
    of_problem("kv_order", &Units::kv_order);
    all.back().code = "options.units.kv_order";
    of_problem("split_starts", &Problem::split_starts, true);
    for (const SizeAttribute& size : sizes)
        if (is_among(problem_sizes, size.member)) of_problem(size.name, size.member, size.is_added);
    for (const NameAttribute& attribute : enumerators) {
        std::visit(
            [&]<class Value>(Value Problem::*member) {
                if constexpr (std::is_same_v<Value, Dtype>) {
                    if (is_among(problem_dtypes, member))
                        of_problem(attribute.name, member, attribute.is_added);
                } else if constexpr (!std::is_same_v<Value, Direction>) {
                    of_problem(attribute.name, member, attribute.is_added);
                }
            },
            attribute.member);
    }
    for (const UnitsAttribute& unit : of_stages) {
        const StageInfo& info = stage_info(unit.stage);
        const std::string stage(info.name);
        const std::string code = "options.units." + stage + "_" + unit.name;
        std::visit(
            [&](auto member) {
                all.push_back(
                    {stage + "." + unit.name, member, dataset_of(info), unit.name, code, unit.is_required});
            },
            unit.member);
    }
    return all;
}

/// Calls use(value), of the problem or its units.
template <class Use>
void with_value(const Declaration& declaration, auto& problem, auto& units, const Use& use) {
    std::visit(
        [&](auto member) {
            if constexpr (requires { units.*member; }) {
                use(units.*member);
            } else {
                use(problem.*member);
            }
        },
        declaration.member);
}

}  // namespace

std::string list_text(const std::vector<std::int64_t>& numbers) {
    std::string text;
    for (const std::int64_t number : numbers) text += (text.empty() ? "" : ",") + shortest_text(number);
    return text;
}

std::optional<std::vector<std::int64_t>> list_of(std::string_view text) {
    std::vector<std::int64_t> numbers;
    while (!text.empty()) {
        const std::string_view first = text.substr(0, text.find(','));
        const std::optional<std::int64_t> number = parsed<std::int64_t>(first);
        if (!number) return std::nullopt;
        numbers.push_back(*number);
        text.remove_prefix(std::min(first.size() + 1, text.size()));
    }
    return numbers;
}

std::string number_text(double value) {
    return shortest_text(value);
}

std::span<const Declaration> all_declarations() {
    static const std::vector<Declaration> all = make_declarations();
    return all;
}

const Declaration* find_declaration(std::string_view name) {
    const auto found = std::ranges::find(all_declarations(), name, &Declaration::name);
    return found == all_declarations().end() ? nullptr : &*found;
}

std::string value_text(const Declaration& declaration, const Problem& problem, const Units& units) {
    std::string text;
    with_value(declaration, problem, units, [&](auto value) { text = text_of(value); });
    return text;
}

std::vector<std::string> values_of(const Declaration& declaration) {
    std::vector<std::string> values;
    const Problem problem;
    const Units defaults;
    with_value(declaration, problem, defaults, [&]<class Value>(Value) {
        if constexpr (std::is_same_v<Value, bool>) {
            values = {"true", "false"};
        } else if constexpr (std::is_enum_v<Value>) {
            for (const Named<Value>& entry : names(Value())) values.emplace_back(entry.name);
        }
    });
    return values;
}

std::string h5py_line(const Declaration& declaration, Direction direction, std::string_view value) {
    const bool is_read = direction == Direction::backward && declaration.name.starts_with("lse.");
    const std::string object = is_read ? "/inputs/lse" : declaration.object;
    std::string line = "f[\"" + object + "\"].attrs[\"" + declaration.attribute + "\"] = ";
    const Problem problem;
    const Units units;
    with_value(declaration, problem, units, [&]<class Value>(Value) {
        if constexpr (std::is_same_v<Value, bool>) {
            line += value == "true" ? "True" : "False";
        } else if constexpr (std::is_arithmetic_v<Value>) {
            line += value.ends_with("inf") ? "float(\"" + std::string(value) + "\")" : std::string(value);
        } else {
            line += "\"" + std::string(value) + "\"";
        }
    });
    return line;
}

std::string code_line(const Declaration& declaration, std::string_view value) {
    std::string line = declaration.code + " = ";
    const Problem problem;
    const Units units;
    with_value(declaration, problem, units, [&]<class Value>(Value) {
        if constexpr (std::is_enum_v<Value>) {
            const auto renamed = std::ranges::find(enumerators_of_names, value, &NameInCode::name);
            line += "tilescope::" + std::string(type_name<Value>()) +
                    "::" + std::string(renamed != std::end(enumerators_of_names) ? renamed->code : value);
        } else if constexpr (!std::is_arithmetic_v<Value>) {
            line += "{" + std::string(value) + "}";
        } else {
            const bool infinite = std::is_same_v<Value, double> && value.ends_with("inf");
            line += infinite ? (value.starts_with("-") ? "-INFINITY" : "INFINITY") : std::string(value);
        }
    });
    return line + ";";
}

void declare(const Declaration& declaration, std::string_view value, Problem& problem, Units& units) {
    with_value(declaration, problem, units, [&]<class Value>(Value& member) {
        const std::optional<Value> given = parsed<Value>(value);
        if (!given) {
            std::string known;
            for (const std::string& name : values_of(declaration))
                known += (known.empty() ? "" : ", ") + name;
            throw Error("is " + std::string(value) + (known.empty() ? ", no number" : ", none of " + known),
                        declaration.name, "dump/FORMAT.md has its values");
        }
        member = *given;
    });
}

void declare(std::string_view assignment, Problem& problem, Units& units) {
    const std::size_t equals = assignment.find('=');
    if (const std::string_view name = assignment.substr(0, equals); names_dropout(name)) {
        if (equals != std::string_view::npos && is_no_dropout(assignment.substr(equals + 1))) return;
        refuse_dropout(name, std::string(assignment));
    }
    const Declaration* declaration = find_declaration(assignment.substr(0, equals));
    if (equals == std::string_view::npos || declaration == nullptr) {
        throw Error("is not NAME=VALUE of a declaration such as s.scaled=false or problem.mask=causal",
                    std::string(assignment), "dump/FORMAT.md lists them");
    }
    declare(*declaration, assignment.substr(equals + 1), problem, units);
}

std::span<const Named<ShardKind>> names(ShardKind) {
    return shard_kind_names;
}
std::span<const Named<Direction>> names(Direction) {
    return direction_names;
}
std::span<const Named<Axis>> names(Axis) {
    return axis_names;
}
std::span<const Named<Mask>> names(Mask) {
    return mask_names;
}
std::span<const Named<CausalAlignment>> names(CausalAlignment) {
    return alignment_names;
}
std::span<const Named<WindowBounds>> names(WindowBounds) {
    return window_bounds_names;
}
std::span<const Named<Alibi>> names(Alibi) {
    return alibi_names;
}
std::span<const Named<AttentionSink>> names(AttentionSink) {
    return sink_names;
}
std::span<const Named<HeadGrouping>> names(HeadGrouping) {
    return head_grouping_names;
}
std::span<const Named<DescaleInP>> names(DescaleInP) {
    return descale_in_p_names;
}
std::span<const Named<LogBase>> names(LogBase) {
    return log_base_names;
}
std::span<const Named<KvOrder>> names(KvOrder) {
    return kv_order_names;
}
std::span<const Named<Accumulation>> names(Accumulation) {
    return accumulation_names;
}
std::span<const Named<ExpFunction>> names(ExpFunction) {
    return exp_names;
}
std::span<const Named<TanhFunction>> names(TanhFunction) {
    return tanh_names;
}
std::span<const Named<EmptyRow>> names(EmptyRow) {
    return empty_row_names;
}
std::span<const Named<Dtype>> names(Dtype) {
    static const std::vector<Named<Dtype>> dtype_names = [] {
        std::vector<Named<Dtype>> table;
        for (const DtypeInfo& info : attention_dtypes()) table.push_back({info.dtype, info.name});
        return table;
    }();
    return dtype_names;
}

std::span<const SizeAttribute> size_attributes() {
    return sizes;
}
std::span<const NameAttribute> name_attributes() {
    return enumerators;
}
std::span<const UnitsAttribute> units_attributes() {
    return of_stages;
}
bool is_default(const UnitsAttribute& attribute, const Units& units) {
    return std::visit([&](auto Units::*member) { return units.*member == Units().*member; },
                      attribute.member);
}

bool is_default(const NameAttribute& attribute, const Problem& problem) {
    return std::visit([&](auto Problem::*member) { return problem.*member == Problem().*member; },
                      attribute.member);
}

bool is_default(const SizeAttribute& attribute, const Problem& problem) {
    return problem.*attribute.member == Problem().*attribute.member;
}

}  // namespace tilescope::declarations
