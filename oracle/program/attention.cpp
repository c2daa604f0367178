#include "oracle/program/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "dump/schema/declarations.h"
#include "dump/schema/semantics.h"

namespace tilescope {

namespace {

/// What a declaration says that the language has no words for; nullptr: nothing.
const char* unsaid(const Recording& recording) {
    const Problem& p = recording.problem();
    const Units& u = recording.units();
    const SideInputs& side = recording.side_inputs();
    struct Rule {
        bool applies;
        const char* why;
    };
    const Rule rules[] = {
        {p.is_split(), "splits"},
        {!p.shard.kv_positions.empty() || p.shard.seqlen_kv > 0, "shards"},
        {!side.seqlens_q.empty() || !side.seqlens_kv.empty(), "lengths of batch entries"},
        {!side.descale_q.empty() || !side.descale_k.empty() || !side.descale_v.empty(), "descales"},
        {u.q_scale != 1 || u.k_scale != 1, "scaled operands"},
        {u.kv_order == KvOrder::reverse, "tiles in reverse order"},
        {p.dtype_acc != Dtype::f32, "an accumulator that is not float32"},
        {u.s_log_base != LogBase::e || u.m_log_base != LogBase::e || !u.m_scaled, "scores in other units"},
        {!u.s_scaled && u.s_biased && (p.alibi != Alibi::none || recording.has_bias()),
         "a bias before the scale"},
        {u.s_cast != Dtype::f32, "scores that were rounded"},
        {masks_with_number(u) || !std::isinf(u.m_start), "numbers in place of hidden scores"},
        {u.m_from_lse || u.m_stale_threshold != 0 || u.m_offset != 0,
         "maxima that are not those of the rows"},
        {u.p_exp_error > 0 || u.p_exp == ExpFunction::fast_expf || u.s_tanh == TanhFunction::tanh_approx,
         "functions that are approximate"},
        {u.p_scale != 1 || u.l_scale != 1 || u.acc_scale != 1 || u.p_of_tile_max || u.p_normalised ||
             u.acc_normalised,
         "P relative to something else"},
        {std::isfinite(u.p_least_argument) || std::isfinite(u.p_flush_below), "bounds of the exponential"},
        {p.direction == Direction::backward && (!u.ds_capped || u.ds_scale != 1), "gradients in other units"},
    };
    for (const Rule& rule : rules) {
        if (rule.applies) return rule.why;
    }
    return nullptr;
}

std::string number(double x) {
    return fmt::format("{:.17g}", x);
}

std::string_view dtype(Dtype of) {
    return dtype_info(of).name;
}

/// "in tensor_core_f32"
std::string added_up(Accumulation how) {
    return how == Accumulation::fma_f32 ? "" : fmt::format(" in {}", declarations::name_of(how));
}

std::string empty_row(EmptyRow row) {
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

class Declared {
 public:
    explicit Declared(const Recording& recording)
        : recording_(recording), p_(recording.problem()), u_(recording.units()) {}

    std::string text() {
        const bool forward = p_.direction == Direction::forward;
        inputs();
        operands();
        scores();
        forward ? softmax() : gradients();
        return text_;
    }

 private:
    template <class... Args>
    void line(fmt::format_string<Args...> format, Args&&... args) {
        text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
    }

    std::string kv_head() const { return p_.is_interleaved() ? "h % heads_kv" : "h / group"; }

    void inputs() {
        line(
            "axes   b: batch; h: heads; i: seqlen_q by block_m; j: seqlen_kv by block_n; d: head_dim; e: "
            "head_dim_v");
        if (p_.l_lanes > 1) line("axes   w: lanes");
        line("sizes  {}", p_.is_interleaved() ? "heads_kv" : "group");
        if (p_.direction == Direction::backward && !p_.dkv_per_head)
            line("axes   g: kv_heads; n: heads_of_each");
        line("input  Q[b, h, i, d]: {}; K[b, {}, j, d]: {}; V[b, {}, j, e]: {}", dtype(p_.dtype_q), kv_head(),
             dtype(p_.dtype_k), kv_head(), dtype(p_.dtype_v));
        if (p_.alibi != Alibi::none) line("input  slope[b, h]");
        if (recording_.has_bias()) line("input  bias[b, h, i, j]");
        if (p_.sink != AttentionSink::none) line("input  sink[h]");
        if (p_.direction == Direction::backward)
            line("input  dout[b, h, i, e]: {}; o[b, h, i, e]: {}; lse[b, h, i]", dtype(p_.dtype_dout),
                 dtype(p_.dtype_o));
    }

    /// What the products take: inputs, or what the kernel staged of them, a copy of k and v for each query block.
    void operands() {
        const bool forward = p_.direction == Direction::forward;
        const auto is_staged = [&](Stage stage) { return forward && recording_.has_stage(stage); };
        if (is_staged(Stage::q)) line("stage  q[b, h, i, d]: {} = Q", dtype(p_.dtype_q));
        if (is_staged(Stage::k) || is_staged(Stage::v)) line("axes   t: q_blocks");
        if (is_staged(Stage::k)) line("stage  k[b, h, t, j, d]: {} = K", dtype(p_.dtype_k));
        if (is_staged(Stage::v)) line("stage  v[b, h, t, j, e]: {} = V", dtype(p_.dtype_v));
        q_ = is_staged(Stage::q) ? "q" : "Q";
        k_ = is_staged(Stage::k) ? "k[b, h, i / block_m, j, d]" : "K";
        v_ = is_staged(Stage::v) ? "v[b, h, i / block_m, j, e]" : "V";
    }

    /// q k, as the sum over d adds it up.
    std::string product() const {
        return fmt::format("sum(d: {} * {}){}", q_, k_, added_up(u_.s_accumulation));
    }

    /// The key on the diagonal.
    std::string diagonal() const {
        std::string text = "i";
        if (p_.causal_alignment == CausalAlignment::bottom_right) text += " + seqlen_kv - seqlen_q";
        if (p_.diagonal_offset == 0) return text;
        return fmt::format("{} {} {}", text, p_.diagonal_offset < 0 ? '-' : '+',
                           std::abs(p_.diagonal_offset));
    }

    std::string visible() const {
        std::vector<std::string> parts;
        const std::int64_t bound = p_.window_bounds == WindowBounds::inclusive ? 0 : 1;
        if (p_.mask == Mask::causal) parts.push_back("j <= " + diagonal());
        if (p_.window_right >= 0)
            parts.push_back(fmt::format("j - {} <= {}", p_.window_right - bound, diagonal()));
        if (p_.window_left >= 0)
            parts.push_back(fmt::format("j + {} >= {}", p_.window_left - bound, diagonal()));
        return joined(parts, " and ");
    }

    /// The steps from the product to the score that the softmax takes: s is what stands after some of them.
    void scores() {
        const bool is_capped = p_.logits_soft_cap != 0;
        const std::string mask = visible().empty() ? "" : fmt::format(" where {} else -inf", visible());
        std::string formula = product();
        bool is_recorded = false;
        const auto record = [&](bool here) {
            if (!here || is_recorded) return;
            line("stage  s[b, h, i, j] = {}{}", formula, u_.s_masked ? mask : "");
            formula = "s";
            is_recorded = true;
        };
        record(!u_.s_scaled && !(is_capped && u_.s_capped));
        formula = fmt::format("{} * {}", formula, number(p_.sm_scale));
        if (is_capped) {
            record(!u_.s_capped);
            formula = fmt::format("tanh({} / {})", formula, number(p_.logits_soft_cap));
            record(!u_.s_scaled);
            formula = fmt::format("{} * {}", formula, number(p_.logits_soft_cap));
        }
        record(!u_.s_biased && (p_.alibi != Alibi::none || recording_.has_bias()));
        // Kernels take the slope of the distance, or of key and diagonal apart, which is never rounded less.
        const std::string alibi = fmt::format("slope * j - slope * ({})", diagonal());
        if (p_.alibi != Alibi::none)
            formula +=
                p_.alibi == Alibi::linear ? fmt::format(" + ({})", alibi) : fmt::format(" - abs({})", alibi);
        if (recording_.has_bias()) formula += " + bias";
        const bool is_last = !is_recorded && (u_.s_masked || mask.empty());
        record(true);
        score_ = is_last ? "s" : "x";
        if (!is_last) line("stage  x[b, h, i, j] = {}{}", formula, mask);
    }

    /// P before its cast, and as an operand.
    std::pair<std::string, std::string> probabilities(const std::string& less) {
        const std::string formula =
            fmt::format("exp({} - {}) where {} > -inf else 0.0", score_, less, score_);
        const bool is_cast = u_.p_cast != Dtype::f32;
        line("stage  {}[b, h, i, j] = {}", is_cast ? "u" : "p", formula);
        if (is_cast) line("stage  p[b, h, i, j]: {} = u", dtype(u_.p_cast));
        return {is_cast ? "u" : "p", u_.p_cast == p_.dtype_p ? "p" : fmt::format("{}(p)", dtype(p_.dtype_p))};
    }

    void softmax() {
        const bool sink_first = p_.sink == AttentionSink::first;
        line("stage  m[b, h, i] over j = max(m, max(j: {})) from {}", score_, sink_first ? "sink" : "-inf");
        const auto [before_cast, operand] = probabilities("m");
        const std::string summed = u_.l_sums_cast_p ? operand : before_cast;
        const std::string factor = "(exp(m.before - m) where m.before > -inf else 0.0)";
        if (p_.l_lanes > 1)
            line(
                "stage  l[b, h, i, w] over j = l * {} + sum(j: {} where j % block_n / {} % lanes == w else "
                "0.0)",
                factor, summed, p_.l_lane_columns);
        else
            line("stage  l[b, h, i] over j = l * {} + sum(j: {}) from {}", factor, summed,
                 sink_first ? "1.0" : "0.0");
        line("stage  acc[b, h, i, e] over j = acc * {} + sum(j: {} * {}){}", factor, operand, v_,
             added_up(u_.acc_accumulation));
        outputs();
    }

    void outputs() {
        const std::string l = p_.l_lanes > 1 ? "sum(w: l)" : "l";
        const bool sink_last = p_.sink == AttentionSink::last;
        const std::string whole = sink_last ? fmt::format("({} + exp(sink - m))", l) : l;
        line("stage  o[b, h, i, e]: {} = acc / {} where {} > 0.0 else {}", dtype(p_.dtype_o), whole, l,
             sink_last ? "0.0" : empty_row(u_.o_empty_row));
        std::string lse = fmt::format("m + log({})", u_.lse_includes_sink ? whole : l);
        std::string empty = sink_last && u_.lse_includes_sink ? "sink" : empty_row(u_.lse_empty_row);
        if (u_.lse_log_base == LogBase::two) {
            lse = fmt::format("({}) * {}", lse, number(std::numbers::log2e));
            empty = empty == "sink" ? fmt::format("sink * {}", number(std::numbers::log2e)) : empty;
        }
        line("stage  lse[b, h, i] = {} where {} > 0.0 else {}", lse, l, empty);
        line("output o, lse");
    }

    void gradients() {
        const std::string base =
            u_.lse_log_base == LogBase::two ? fmt::format(" * {}", number(std::numbers::ln2)) : "";
        const auto [before_cast, p] = probabilities("lse" + base);
        line("stage  delta[b, h, i] = sum(e: dout * o)");
        line("stage  dp[b, h, i, j] = sum(e: dout * V){}", added_up(u_.dp_accumulation));
        std::string slope;
        if (p_.logits_soft_cap != 0) {
            const std::string cap = number(p_.logits_soft_cap);
            line("stage  t[b, h, i, j] = tanh({} * {} / {})", product(), number(p_.sm_scale), cap);
            slope = " * (1.0 - t * t)";
        }
        line("stage  ds[b, h, i, j]: {} = {} * (dp - delta){} where {} > -inf else 0.0", dtype(u_.ds_cast),
             u_.ds_from_cast_p ? p : before_cast, slope, score_);
        const std::string ds = u_.ds_cast == p_.dtype_ds ? "ds" : fmt::format("{}(ds)", dtype(p_.dtype_ds));
        line("stage  dq[b, h, i, d]: {} = sum(j: {} * K){} * {}", dtype(p_.dtype_dq), ds,
             added_up(u_.dq_accumulation), number(p_.sm_scale));
        gradients_of_keys(ds, p);
    }

    void gradients_of_keys(std::string ds, std::string p) {
        std::string axes = "b, h, j";
        std::string along = "i";
        std::string q = "Q";
        std::string dout = "dout";
        if (!p_.dkv_per_head) {
            // The query heads that read a KV head.
            const std::string head = p_.is_interleaved() ? "n * kv_heads + g" : "g * heads_of_each + n";
            axes = "b, g, j";
            along = "n, i";
            q = fmt::format("Q[b, {}, i, d]", head);
            dout = fmt::format("dout[b, {}, i, e]", head);
            const auto at_head = [&](std::string& formula, std::string_view name) {
                formula.replace(formula.find(name), name.size(), fmt::format("{}[b, {}, i, j]", name, head));
            };
            at_head(ds, "ds");
            at_head(p, "p");
        }
        line("stage  dk[{}, d]: {} = sum({}: {} * {}){} * {}", axes, dtype(p_.dtype_dk), along, ds, q,
             added_up(u_.dk_accumulation), number(p_.sm_scale));
        line("stage  dv[{}, e]: {} = sum({}: {} * {}){}", axes, dtype(p_.dtype_dv), along, p, dout,
             added_up(u_.dv_accumulation));
        line("output dq, dk, dv");
    }

    const Recording& recording_;
    const Problem& p_;
    const Units& u_;
    std::string text_;
    std::string q_;
    std::string k_;
    std::string v_;
    std::string score_;
};

}  // namespace

AttentionProgram attention_program(const Recording& recording) {
    if (const char* const why = unsaid(recording)) return {std::nullopt, why};
    return {Declared(recording).text(), ""};
}

AttentionInputs attention_inputs(const Recording& recording) {
    const Problem& p = recording.problem();
    AttentionInputs all;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape,
                         std::vector<float> values) {
        all.memory.push_back(std::move(values));
        all.inputs[name] = {Dtype::f32, std::move(shape),
                            std::as_bytes(std::span<const float>(all.memory.back()))};
    };
    const auto read = [&](const std::string& name, Input input, std::int64_t heads, std::int64_t rows,
                          std::int64_t cols, bool is_row = false) {
        std::vector<float> values(std::size_t(p.batch * heads * rows * cols));
        for (std::int64_t i = 0; i < p.batch * heads; ++i)
            recording.read_input(input, i / heads, i % heads, 0, rows,
                                 Span<float>(values.data() + i * rows * cols, std::size_t(rows * cols)));
        std::vector<std::int64_t> shape{p.batch, heads, rows, cols};
        if (is_row) shape.pop_back();
        add(name, shape, std::move(values));
    };
    read("Q", Input::q, p.heads, p.seqlen_q, p.head_dim);
    read("K", Input::k, p.heads_kv, p.seqlen_kv, p.head_dim);
    read("V", Input::v, p.heads_kv, p.seqlen_kv, p.head_dim_v);
    const SideInputs& side = recording.side_inputs();
    if (p.alibi != Alibi::none) {
        std::vector<float> slopes = side.alibi_slopes;
        for (std::int64_t i = std::int64_t(slopes.size()); i < p.batch * p.heads; ++i)
            slopes.push_back(slopes[std::size_t(i - p.heads)]);
        add("slope", {p.batch, p.heads}, std::move(slopes));
    }
    if (p.sink != AttentionSink::none) add("sink", {p.heads}, side.sink);
    if (recording.has_bias()) {
        std::vector<float> bias(std::size_t(p.batch * p.heads * p.seqlen_q * p.seqlen_kv));
        for (std::int64_t i = 0; i < p.batch * p.heads * p.seqlen_q; ++i)
            recording.read_bias(i / p.seqlen_q / p.heads, i / p.seqlen_q % p.heads, i % p.seqlen_q, 0,
                                Span<float>(bias.data() + i * p.seqlen_kv, std::size_t(p.seqlen_kv)));
        add("bias", {p.batch, p.heads, p.seqlen_q, p.seqlen_kv}, std::move(bias));
    }
    if (p.is_interleaved())
        all.sizes["heads_kv"] = p.heads_kv;
    else
        all.sizes["group"] = p.heads / p.heads_kv;
    all.sizes["block_m"] = p.block_m;
    if (p.direction == Direction::forward && (recording.has_stage(Stage::k) || recording.has_stage(Stage::v)))
        all.sizes["q_blocks"] = p.q_blocks();
    all.sizes["block_n"] = p.block_n;
    if (p.l_lanes > 1) all.sizes["lanes"] = p.l_lanes;
    if (p.direction == Direction::backward) {
        read("dout", Input::dout, p.heads, p.seqlen_q, p.head_dim_v);
        read("o", Input::o, p.heads, p.seqlen_q, p.head_dim_v);
        read("lse", Input::lse, p.heads, p.seqlen_q, 1, true);
        if (!p.dkv_per_head) {
            all.sizes["kv_heads"] = p.heads_kv;
            all.sizes["heads_of_each"] = p.heads / p.heads_kv;
        }
    }
    return all;
}

RecordedAttention::RecordedAttention(const Recording& recording, const Program& program)
    : recording_(recording) {
    for (const ProgramArray& array : program.arrays) {
        const std::optional<Stage> stage = array.is_stage ? stage_from_name(array.name) : std::nullopt;
        stages_.push_back(stage && recording.has_stage(*stage) ? stage : std::nullopt);
    }
}

bool RecordedAttention::has(int stage) const {
    return stages_[std::size_t(stage)].has_value();
}

void RecordedAttention::read(const ProgramTile& tile, std::span<double> out, std::span<char> known) const {
    const Stage stage = *stages_[std::size_t(tile.stage)];
    const Problem& p = recording_.problem();
    const StageInfo info = stage_info(p, stage);
    const std::int64_t block_cols = tile_shape(p, stage).cols;
    for (std::int64_t i = 0; i < tile.size(); ++i) {
        const std::vector<std::int64_t> at = tile.index_of(i);
        TileId id{at[0], at[1], 0, std::max<std::int64_t>(tile.block, 0)};
        const bool is_copy = at.size() > 4;  // of keys, for each query block
        if (is_copy) id.q_block = at[2];
        const bool is_of_rows = info.per_q_block && !is_copy;
        const std::int64_t rows = is_of_rows ? p.block_m : p.block_n;
        const std::int64_t row = at[is_copy ? 3 : 2];
        (is_of_rows ? id.q_block : id.kv_tile) = row / rows;
        std::int64_t col = at.size() > 3 ? at.back() : 0;
        if (is_of_rows && info.per_kv_tile && tile.block < 0) {
            id.kv_tile = col / p.block_n;
            col %= p.block_n;
        }
        const std::vector<float>& values = tile_of(stage, id);
        if (values.empty()) continue;
        const float value = values[std::size_t(row % rows * block_cols + col)];
        out[std::size_t(i)] = double(value);
        known[std::size_t(i)] = 1;
    }
}

const std::vector<float>& RecordedAttention::tile_of(Stage stage, const TileId& id) const {
    const std::scoped_lock lock(reading_);
    const auto [found, is_new] = tiles_.try_emplace({stage, id});
    if (is_new && recording_.has_tile(stage, id)) {
        found->second.resize(std::size_t(tile_shape(recording_.problem(), stage).elements()));
        if (!recording_.read_tile(stage, id, found->second)) found->second.clear();
    }
    return found->second;
}

}  // namespace tilescope
