#include "oracle/formula/head_call.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numbers>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

Eigen::VectorXd descale_rows(const Descale& descale, std::int64_t batch, std::int64_t head,
                             std::int64_t rows) {
    if (descale.empty()) return Eigen::VectorXd::Ones(rows);
    Eigen::VectorXd values(rows);
    for (Eigen::Index row = 0; row < rows; ++row) values(row) = double(descale.at(batch, head, row));
    return values;
}

Eigen::RowVectorXd descale_channels(const Descale& descale, std::int64_t batch, std::int64_t head) {
    Eigen::RowVectorXd values(descale.channels);
    for (Eigen::Index i = 0; i < values.size(); ++i) values(i) = double(descale.of_channel(batch, head, i));
    return values;
}

double base_factor(LogBase base) {
    return base == LogBase::two ? std::numbers::log2e : 1;
}

}  // namespace

RoundingModel rounding_model_of(const Recording& recording, double confidence) {
    std::array<double, stage_count> elements{};
    for (const StageInfo& info : all_stages()) {
        if (!recording.has_stage(info.stage)) continue;
        // The bound of dq, dk and dv holds where two sums of roundings are as small as they probably are.
        const double sums = info.backward && is_output(info.stage) ? 2 : 1;
        elements[static_cast<std::size_t>(info.stage)] =
            sums * double(tile_count(recording.problem(), info.stage)) *
            double(tile_shape(recording.problem(), info.stage).elements());
    }
    return rounding_model(confidence, elements, tensor_core(recording.provenance().compute_capability));
}

HeadCall make_head_call(const Recording& recording, const RoundingModel& rounding, std::int64_t batch,
                        std::int64_t head) {
    const SideInputs& side = recording.side_inputs();
    HeadCall call;
    call.problem = problem_of(recording.problem(), side, batch);
    call.units = recording.units();
    // Outputs are the same for any maximum: where nothing that depends on it was recorded, the true one
    // serves.
    const auto recorded = [&](Stage stage) { return recording.has_stage(stage); };
    if (std::ranges::none_of(std::array{Stage::m, Stage::p, Stage::l, Stage::acc}, recorded))
        call.units.m_stale_threshold = 0;
    // No product of the backward pass has both.
    if (call.problem.direction == Direction::backward) call.units.p_descale_v = DescaleInP::none;
    call.rounding = rounding;
    const std::int64_t head_kv = call.problem.head_kv(head);
    if (call.problem.alibi != Alibi::none) {
        const bool per_batch = std::ssize(side.alibi_slopes) > call.problem.heads;
        call.alibi_slope =
            double(side.alibi_slopes[std::size_t((per_batch ? batch * call.problem.heads : 0) + head)]);
    }
    if (call.problem.sink != AttentionSink::none) call.sink = double(side.sink[std::size_t(head)]);
    call.q_descale = descale_rows(side.descale_q, batch, head, call.problem.seqlen_q);
    call.k_descale = descale_rows(side.descale_k, batch, head_kv, call.problem.seqlen_kv);
    call.v_descale = descale_rows(side.descale_v, batch, head_kv, call.problem.seqlen_kv);
    call.q_channels = descale_channels(side.descale_q, batch, head);
    call.k_channels = descale_channels(side.descale_k, batch, head_kv);
    call.v_channels = descale_channels(side.descale_v, batch, head_kv);
    if (recording.has_bias()) {
        call.read_bias = [&recording, batch, head](std::int64_t row, std::int64_t key, MatrixF& tile) {
            for (Eigen::Index i = 0; i < tile.rows(); ++i)
                recording.read_bias(batch, head, row + i, key,
                                    {tile.data() + i * tile.cols(), std::size_t(tile.cols())});
        };
    }
    return call;
}

ExpArgumentBound exp_argument_bound(const HeadCall& call) {
    const Units& u = call.units;
    ExpArgumentBound bound = exp_argument_bound(u.p_exp);
    const double more = scale_roundings(call) - 1;
    if (more > 0 && (!u.s_scaled || !u.m_scaled)) bound.terms += gamma(more, u_f32);
    return bound;
}

bool has_rest_of_scale(const HeadCall& call) {
    return call.units.q_scale != 1 || call.units.k_scale != 1;
}

double scale_roundings(const HeadCall& call) {
    const bool descaled = !call.units.q_dequantised || !call.units.k_dequantised;
    return 1 + (descaled ? 2 : 0) + (has_rest_of_scale(call) ? 1 : 0);
}

double product_unit(const HeadCall& call, Stage stage) {
    const auto largest = [](const Eigen::VectorXd& descale, const Eigen::RowVectorXd& channels) {
        return (descale.size() == 0 ? 1 : descale.maxCoeff()) *
               (channels.size() == 0 ? 1 : channels.cwiseAbs().maxCoeff());
    };
    const Units& u = call.units;
    // Each is as long as the sequence, and this is asked for with every tile.
    const auto of_q = [&] { return u.q_dequantised ? 1 : largest(call.q_descale, call.q_channels); };
    const auto of_k = [&] { return u.k_dequantised ? 1 : largest(call.k_descale, call.k_channels); };
    const auto of_v = [&] { return largest(call.v_descale, call.v_channels); };
    switch (stage) {
        case Stage::acc: {
            const bool without_descale =
                (!u.v_dequantised || !u.acc_dequantised) && u.p_descale_v == DescaleInP::none;
            return (without_descale ? of_v() : 1) / u.acc_scale;
        }
        case Stage::delta:
            return 1;
        case Stage::dp:
            return u.v_dequantised ? 1 : of_v();
        case Stage::dq:
            // As staged, or as it was before its scale.
            return of_k() / (std::min(u.k_scale, 1.0) * u.ds_scale);
        case Stage::dk:
            return of_q() / (std::min(u.q_scale, 1.0) * u.ds_scale);
        case Stage::dv:
            return 1 / u.p_scale;
        default:
            return of_q() * of_k() / (u.q_scale * u.k_scale);
    }
}

DumpFactor operand_factor_of_p(const HeadCall& call, std::int64_t first_key, std::int64_t rows,
                               std::int64_t cols) {
    DumpFactor factor;
    factor.scalar = call.units.p_scale;
    if (call.units.p_descale_v == DescaleInP::none) return factor;
    factor.row = Eigen::VectorXd::Ones(rows);
    // A mistake may have more columns than there are keys.
    const std::int64_t known = std::clamp<std::int64_t>(call.v_descale.size() - first_key, 0, cols);
    factor.col = Eigen::VectorXd::Ones(cols);
    factor.col.head(known) = call.v_descale.segment(first_key, known);
    return factor;
}

DumpFactor dump_factor(const HeadCall& call, Stage stage, std::int64_t first_row, std::int64_t first_key,
                       std::int64_t rows, std::int64_t cols) {
    const Problem& p = call.problem;
    const Units& u = call.units;
    DumpFactor factor;
    switch (stage) {
        case Stage::s: {
            factor.scalar = base_factor(u.s_log_base);
            if (u.s_scaled) break;
            const bool by_cap = call.capped() && u.s_capped;
            factor.scalar /= by_cap ? p.logits_soft_cap : product_scale(p, u);
            if (by_cap || (u.q_dequantised && u.k_dequantised)) break;
            factor.row = Eigen::VectorXd::Ones(rows);
            factor.col = Eigen::VectorXd::Ones(cols);
            if (!u.q_dequantised) factor.row = call.q_descale.segment(first_row, rows).cwiseInverse();
            if (!u.k_dequantised) factor.col = call.k_descale.segment(first_key, cols).cwiseInverse();
            break;
        }
        case Stage::m:
            factor.scalar = base_factor(u.m_log_base);
            if (u.m_scaled) break;
            factor.scalar /= call.capped() ? p.logits_soft_cap : product_scale(p, u);
            // One number for the head: require_known_semantics() refuses descales per block here.
            if (!call.capped() && !u.q_dequantised) factor.scalar /= call.q_descale(first_row);
            if (!call.capped() && !u.k_dequantised) factor.scalar /= call.k_descale(first_key);
            break;
        case Stage::p:
            factor.scalar = u.p_scale;
            if (u.p_descale_v == DescaleInP::recorded)
                return operand_factor_of_p(call, first_key, rows, cols);
            break;
        case Stage::l:
            factor.scalar = u.l_scale;
            break;
        case Stage::acc:
            factor.scalar = u.acc_scale;
            if (u.acc_dequantised) break;
            factor.scalar /= call.v_descale(first_key);
            if (call.v_channels.size() == 0) break;
            factor.row = Eigen::VectorXd::Ones(rows);
            factor.col = call.v_channels.transpose().cwiseInverse();
            break;
        case Stage::lse:
            factor.scalar = base_factor(u.lse_log_base);
            break;
        case Stage::q:
        case Stage::k:
        case Stage::v:
        case Stage::o:
        case Stage::dout:
        case Stage::delta:
        case Stage::dp:
        case Stage::dq:
        case Stage::dk:
        case Stage::dv:
            break;
        case Stage::named0:
        case Stage::named1:
        case Stage::named2:
        case Stage::named3:
            break;
        case Stage::ds:
            factor.scalar = u.ds_scale;
            break;
    }
    return factor;
}

namespace {

using Refuse = std::function<void(const char* what, const char* what_to_do)>;

/// Descales by channel are lost in a sum over channels, and those of a key in a sum over keys.
void require_known_descales(const Recording& recording, const Refuse& refuse) {
    const Units& u = recording.units();
    const SideInputs& side = recording.side_inputs();
    if (!u.q_dequantised && side.descale_q.per_channel())
        refuse("q is declared without descale_q although it differs by channel", "record q dequantised");
    if (!u.v_dequantised && side.descale_v.per_channel() &&
        recording.problem().direction == Direction::backward)
        refuse("v is declared without descale_v although it differs by channel, over which dp is a sum",
               "record v dequantised");
    if (!u.acc_dequantised && side.descale_v.per_block())
        refuse("acc is declared without descale_v although it differs by block", "record acc dequantised");
    const bool backward = recording.problem().direction == Direction::backward;
    if (u.p_descale_v == DescaleInP::none || backward) return;
    if (side.descale_v.per_channel())
        refuse("P is declared with descale_v, which differs by channel", "declare where acc or o takes it");
    if (std::ranges::any_of(side.descale_v.values, [](float value) { return !(value > 0); }))
        refuse("P is declared with descale_v, which is not positive everywhere", "declare where V takes it");
    if (u.v_dequantised && recording.has_stage(Stage::v))
        refuse("P is declared with descale_v, and V, too", "declare dequantised = false of v");
    if (!u.acc_dequantised)
        refuse("P is declared with descale_v, and acc without it", "declare dequantised = true of acc");
    if (u.p_descale_v == DescaleInP::operand && u.p_cast != Dtype::f32)
        refuse("P is declared cast, but without descale_v that it is multiplied with before",
               "declare descale_v = recorded of p");
    if (u.l_sums_cast_p)
        refuse("l is declared to add P after its cast, and that with descale_v", "leave one of them out");
}

}  // namespace

void require_known_semantics(const Recording& recording) {
    const Problem& p = recording.problem();
    const Units& u = recording.units();
    const SideInputs& side = recording.side_inputs();
    const Refuse refuse = [&](const char* what, const char* what_to_do) {
        throw Error(what, recording.name(), what_to_do);
    };
    require_known_descales(recording, refuse);
    const bool capped = p.logits_soft_cap != 0;
    const bool biased = p.alibi != Alibi::none || recording.has_bias();
    if (capped && !u.s_capped && biased && u.s_biased)
        refuse("s is declared biased but not capped, although the cap comes first",
               "declare what s contains");
    const bool q_blocks = !u.q_dequantised && side.descale_q.per_block();
    const bool k_blocks = !u.k_dequantised && side.descale_k.per_block();
    if (!u.m_scaled && !capped && (q_blocks || k_blocks))
        refuse("m is declared unscaled although the descales differ by block", "record m in scaled units");
    if (!u.s_scaled && biased && u.s_biased && (q_blocks || k_blocks))
        refuse("s is declared biased and unscaled although the descales differ by block",
               "record s in scaled units");
    if (p.sink == AttentionSink::first && p.l_lanes > 1)
        refuse("the sink is in l, and l holds partial sums of lanes", "declare the sink as last");
    if (p.sink == AttentionSink::first && !u.lse_includes_sink)
        refuse("lse is declared without the sink, which is in l from the start", "declare the sink as last");
    if (u.p_of_tile_max && masks_with_number(u))
        refuse(
            "p is declared relative to its tile's maximum, which may be a number in place of a hidden score",
            "record p relative to m");
    if (u.m_offset != 0 && p.sink == AttentionSink::first)
        refuse("m is declared with an offset, and the sink is in m and l from the start",
               "declare the sink as last");
    if (u.m_offset != 0 && u.m_from_lse)
        refuse("m is declared with an offset and from the log-sum-exp before it", "declare one of them");
    if (p.direction == Direction::forward) return;
    if (u.m_from_lse || u.p_of_tile_max || u.p_normalised || u.acc_normalised ||
        u.p_least_argument > -std::numeric_limits<double>::infinity())
        refuse("P of a backward pass is declared relative to something else than lse", "leave it out");
    if (p.sink != AttentionSink::none && !u.lse_includes_sink)
        refuse("lse is declared without the sink, which P is normalised with", "give the lse with the sink");
    if (!u.ds_capped && u.ds_cast != Dtype::f32)
        refuse("ds is declared cast, but without the derivative of the cap", "declare what ds contains");
    if (!recording.has_input(Input::o) && !recording.has_stage(Stage::delta))
        refuse("/inputs/o is missing, and delta was not recorded", "record one of them");
}

}  // namespace tilescope
