#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "dump/schema/error.h"
#include "oracle/program/attention.h"
#include "oracle/program/attention_text.h"

namespace tilescope {

namespace {

/// Takes what a recording has, input by input.
class InputsTaken {
 public:
    explicit InputsTaken(const Recording& recording)
        : recording_(recording), p_(recording.problem()), side_(recording.side_inputs()) {}

    AttentionInputs all() {
        tensor("Q", Input::q, p_.heads, side_.seqlens_q, p_.seqlen_q, p_.head_dim);
        tensor("K", Input::k, p_.heads_kv, side_.seqlens_kv, p_.seqlen_kv, p_.head_dim);
        tensor("V", Input::v, p_.heads_kv, side_.seqlens_kv, p_.seqlen_kv, p_.head_dim_v);
        descale("q", side_.descale_q, p_.heads, p_.seqlen_q);
        descale("k", side_.descale_k, p_.heads_kv, p_.seqlen_kv);
        descale("v", side_.descale_v, p_.heads_kv, p_.seqlen_kv);
        lengths();
        bias();
        if (p_.sink != AttentionSink::none) add("sink", {p_.heads}, side_.sink);
        if (!is_forward()) {
            tensor("dO", Input::dout, p_.heads, side_.seqlens_q, p_.seqlen_q, p_.head_dim_v);
            tensor("o", Input::o, p_.heads, side_.seqlens_q, p_.seqlen_q, p_.head_dim_v);
            tensor("lse", Input::lse, p_.heads, side_.seqlens_q, p_.seqlen_q, 1);
            all_.inputs["lse"].shape.pop_back();
        }
        sizes();
        return std::move(all_);
    }

 private:
    bool is_forward() const { return p_.direction == Direction::forward; }

    void add(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values) {
        all_.memory.push_back(std::move(values));
        all_.inputs[name] = {Dtype::f32, std::move(shape),
                             std::as_bytes(std::span<const float>(all_.memory.back()))};
    }

    /// What lies beyond the length of an entry may be anything: what a kernel without a mask would read. What is no number there is 0.
    void tensor(const std::string& name, Input input, std::int64_t heads,
                const std::vector<std::int64_t>& lengths, std::int64_t rows, std::int64_t cols) {
        if (!recording_.has_input(input)) return;
        std::vector<float> values(std::size_t(p_.batch * heads * rows * cols));
        for (std::int64_t i = 0; i < p_.batch * heads; ++i) {
            const std::int64_t there = lengths.empty() ? rows : lengths[std::size_t(i / heads)];
            const std::span<float> all(values.data() + i * rows * cols, std::size_t(rows * cols));
            const auto read = [&](std::int64_t count) {
                if (count > 0)
                    recording_.read_input(input, i / heads, i % heads, 0, count,
                                          Span<float>(all.data(), std::size_t(count * cols)));
            };
            const std::span<float> beyond = all.subspan(std::size_t(there * cols));
            try {
                read(rows);
            } catch (const Error&) {
                // Packed and paged entries end with their last row.
                std::ranges::fill(beyond, 0.0F);
                read(there);
            }
            std::ranges::replace_if(
                beyond, [](float x) { return !std::isfinite(x); }, 0.0F);
        }
        add(name, {p_.batch, heads, rows, cols}, std::move(values));
    }

    void descale(const std::string& of, const Descale& descale, std::int64_t heads, std::int64_t rows) {
        if (descale.empty()) return;
        std::vector<std::int64_t> shape;
        if (descale.heads > 0) shape = {p_.batch, heads};
        if (descale.per_channel()) shape.push_back(descale.channels);
        if (!descale.per_channel() && descale.per_block()) {
            shape.push_back(descale.blocks);
            all_.sizes["rows_" + of] = descale.rows > 0 ? descale.rows : rows;
        }
        add("descale_" + of, std::move(shape), descale.values);
    }

    /// Of each entry, and how much further right than its row's number the diagonal is.
    void lengths() {
        if (side_.seqlens_q.empty() && side_.seqlens_kv.empty()) return;
        const auto of_entries = [&](const auto& number) {
            std::vector<float> values;
            for (std::int64_t b = 0; b < p_.batch; ++b)
                values.push_back(float(number(problem_of(p_, side_, b))));
            return values;
        };
        if (!side_.seqlens_kv.empty())
            add("length_kv", {p_.batch}, of_entries([](const Problem& p) { return p.seqlen_kv; }));
        if (!side_.seqlens_q.empty() && !is_forward())
            add("length_q", {p_.batch}, of_entries([](const Problem& p) { return p.seqlen_q; }));
        if (p_.causal_alignment == CausalAlignment::bottom_right)
            add("diagonal", {p_.batch},
                of_entries([](const Problem& p) { return p.seqlen_kv - p.seqlen_q; }));
    }

    void bias() {
        if (p_.alibi != Alibi::none) {
            std::vector<float> slopes = side_.alibi_slopes;
            for (std::int64_t i = std::int64_t(slopes.size()); i < p_.batch * p_.heads; ++i)
                slopes.push_back(slopes[std::size_t(i - p_.heads)]);
            add("slope", {p_.batch, p_.heads}, std::move(slopes));
        }
        if (!recording_.has_bias()) return;
        std::vector<float> values(std::size_t(p_.batch * p_.heads * p_.seqlen_q * p_.seqlen_kv));
        for (std::int64_t i = 0; i < p_.batch * p_.heads * p_.seqlen_q; ++i)
            recording_.read_bias(i / p_.seqlen_q / p_.heads, i / p_.seqlen_q % p_.heads, i % p_.seqlen_q, 0,
                                 Span<float>(values.data() + i * p_.seqlen_kv, std::size_t(p_.seqlen_kv)));
        add("bias", {p_.batch, p_.heads, p_.seqlen_q, p_.seqlen_kv}, std::move(values));
    }

    void sizes() {
        if (p_.is_interleaved())
            all_.sizes["heads_kv"] = p_.heads_kv;
        else
            all_.sizes["group"] = p_.heads / p_.heads_kv;
        all_.sizes["block_m"] = p_.block_m;
        all_.sizes["block_n"] = p_.block_n;
        all_.sizes.merge(position_sizes(p_));
        if (recording_.has_stage(Stage::k) || recording_.has_stage(Stage::v))
            all_.sizes["q_blocks"] = p_.q_blocks();
        if (is_forward()) {
            if (p_.l_lanes > 1) all_.sizes["lanes"] = p_.l_lanes;
            if (p_.is_split()) all_.sizes["splits"] = p_.splits();
        } else if (!p_.dkv_per_head) {
            all_.sizes["kv_heads"] = p_.heads_kv;
            all_.sizes["heads_of_each"] = p_.heads / p_.heads_kv;
        }
    }

    const Recording& recording_;
    const Problem& p_;
    const SideInputs& side_;
    AttentionInputs all_;
};

}  // namespace

AttentionInputs attention_inputs(const Recording& recording) {
    return InputsTaken(recording).all();
}

}  // namespace tilescope
