#include "dump/file/layout.h"

#include <vector>

namespace tilescope::layout {

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
constexpr Named<LogBase> log_base_names[] = {{LogBase::e, "e"}, {LogBase::two, "2"}};
constexpr Named<KvOrder> kv_order_names[] = {{KvOrder::forward, "forward"}, {KvOrder::reverse, "reverse"}};
constexpr Named<Accumulation> accumulation_names[] = {{Accumulation::fma_f32, "fma_f32"},
                                                      {Accumulation::fma_f16, "fma_f16"},
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
constexpr ProvenanceAttribute provenance[] = {
    {"producer", &Provenance::producer},
    {"kernel", &Provenance::kernel},
    {"device", &Provenance::device},
    {"compute_capability", &Provenance::compute_capability},
    {"cuda_version", &Provenance::cuda_version},
    {"launch", &Provenance::launch},
    {"command", &Provenance::command},
    {"time", &Provenance::time},
};

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
    {"dtype_q", &Problem::dtype_q},
    {"dtype_k", &Problem::dtype_k},
    {"dtype_v", &Problem::dtype_v},
    {"dtype_p", &Problem::dtype_p},
    {"dtype_acc", &Problem::dtype_acc},
    {"dtype_o", &Problem::dtype_o},
    {"dtype_dout", &Problem::dtype_dout},
    {"dtype_ds", &Problem::dtype_ds},
    {"dtype_dq", &Problem::dtype_dq},
    {"dtype_dk", &Problem::dtype_dk},
    {"dtype_dv", &Problem::dtype_dv},
};

constexpr UnitsAttribute units[] = {
    {Stage::q, "dequantised", &Units::q_dequantised},
    {Stage::q, "scale", &Units::q_scale, true},
    {Stage::q, "cast", &Units::q_cast},
    {Stage::k, "dequantised", &Units::k_dequantised},
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
    {Stage::m, "stale_threshold", &Units::m_stale_threshold},
    {Stage::p, "exp", &Units::p_exp},
    {Stage::p, "exp_error", &Units::p_exp_error},
    {Stage::p, "cast", &Units::p_cast},
    {Stage::p, "scale", &Units::p_scale},
    {Stage::l, "sums_cast_p", &Units::l_sums_cast_p},
    {Stage::l, "scale", &Units::l_scale},
    {Stage::acc, "accumulation", &Units::acc_accumulation},
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

constexpr ThreadAttribute threads[] = {
    {"lanes", &ThreadLayout::lanes},           {"lane_columns", &ThreadLayout::lane_columns},
    {"group_rows", &ThreadLayout::group_rows}, {"group_cols", &ThreadLayout::group_cols},
    {"groups", &ThreadLayout::groups},         {"split_groups", &ThreadLayout::split_groups},
};

constexpr InputInfo inputs[] = {
    {Input::q, "q", "/inputs/q", 4}, {Input::k, "k", "/inputs/k", 4},
    {Input::v, "v", "/inputs/v", 4}, {Input::dout, "dout", "/inputs/dout", 4},
    {Input::o, "o", "/inputs/o", 4}, {Input::lse, "lse", "/inputs/lse", 3},
};

constexpr DescaleInfo descales[] = {
    {"/inputs/descale_q", &SideInputs::descale_q, &Problem::heads, &Problem::seqlen_q},
    {"/inputs/descale_k", &SideInputs::descale_k, &Problem::heads_kv, &Problem::seqlen_kv},
    {"/inputs/descale_v", &SideInputs::descale_v, &Problem::heads_kv, &Problem::seqlen_kv},
};

}  // namespace

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
        for (const DtypeInfo& info : all_dtypes()) table.push_back({info.dtype, info.name});
        return table;
    }();
    return dtype_names;
}

std::string writers_of(const StageInfo& info) {
    return std::string(path::writers) + "/" + std::string(info.name);
}

std::span<const ProvenanceAttribute> provenance_attributes() {
    return provenance;
}
std::span<const SizeAttribute> size_attributes() {
    return sizes;
}
std::span<const NameAttribute> name_attributes() {
    return enumerators;
}
std::span<const UnitsAttribute> units_attributes() {
    return units;
}
bool is_default(const UnitsAttribute& attribute, const Units& units) {
    return std::visit([&](auto Units::*member) { return units.*member == Units().*member; },
                      attribute.member);
}
std::span<const ThreadAttribute> thread_attributes() {
    return threads;
}
std::span<const InputInfo> all_inputs() {
    return inputs;
}
std::span<const DescaleInfo> all_descales() {
    return descales;
}

}  // namespace tilescope::layout
