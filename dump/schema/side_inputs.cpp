#include "dump/schema/side_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr const char* inputs_advice = "record it again with inputs that fit the problem";

void require_lengths(const std::vector<std::int64_t>& lengths, std::int64_t batch, std::int64_t most,
                     const char* name, const std::string& where) {
    if (lengths.empty()) return;
    if (std::ssize(lengths) != batch) {
        throw Error(std::string(name) + " has " + std::to_string(lengths.size()) + " entries for batch " +
                        std::to_string(batch),
                    where, inputs_advice);
    }
    for (const std::int64_t length : lengths) {
        if (length >= 0 && length <= most) continue;
        throw Error(std::string(name) + " holds " + std::to_string(length) + ", not between 0 and " +
                        std::to_string(most),
                    where, inputs_advice);
    }
}

void require_finite(const std::vector<float>& values, const char* name, const std::string& where) {
    if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return;
    throw Error(std::string(name) + " holds a number that is not finite", where, inputs_advice);
}

void require_count(const std::vector<float>& values, std::initializer_list<std::int64_t> counts,
                   const char* name, const std::string& where) {
    if (std::ranges::find(counts, std::ssize(values)) != counts.end()) return;
    throw Error(std::string(name) + " has " + std::to_string(values.size()) + " entries, not " +
                    std::to_string(*counts.begin()),
                where, inputs_advice);
}

/// What a descale goes with.
struct DescaledShape {
    const char* name;
    std::int64_t heads;
    std::int64_t seqlen;
    std::int64_t head_dim;
};

void require_descale(const Descale& descale, const Problem& problem, const DescaledShape& of,
                     const std::string& where) {
    const auto& [name, heads, seqlen, head_dim] = of;
    if (descale.empty()) return;
    require_finite(descale.values, name, where);
    if (descale.heads == 0) {
        require_count(descale.values, {1}, name, where);
        return;
    }
    if (descale.per_channel()) {
        if (descale.heads != heads || descale.channels != head_dim || descale.blocks != 1)
            throw Error(std::string(name) + " has " + std::to_string(descale.channels) + " channels of " +
                            std::to_string(descale.heads) + " heads for an operand with " +
                            std::to_string(head_dim) + " of " + std::to_string(heads),
                        where, inputs_advice);
        require_count(descale.values, {problem.batch * heads * head_dim}, name, where);
        return;
    }
    const bool covers = descale.heads == heads && descale.blocks >= 1 && descale.rows >= 1 &&
                        descale.rows <= std::numeric_limits<std::int32_t>::max() &&
                        descale.blocks <= seqlen && (descale.blocks - 1) * descale.rows < seqlen &&
                        descale.blocks * descale.rows >= seqlen;
    if (!covers) {
        throw Error(std::string(name) + " has " + std::to_string(descale.blocks) + " blocks of " +
                        std::to_string(descale.rows) + " rows for " + std::to_string(descale.heads) +
                        " heads, which do not cover the operand",
                    where, inputs_advice);
    }
    require_count(descale.values, {problem.batch * heads * descale.blocks}, name, where);
}

}  // namespace

float Descale::at(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    if (values.empty() || per_channel()) return 1;
    if (heads == 0) return values.front();
    return values[static_cast<std::size_t>((batch * heads + head) * blocks + row / rows)];
}

float Descale::of_channel(std::int64_t batch, std::int64_t head, std::int64_t channel) const {
    if (!per_channel()) return 1;
    return values[static_cast<std::size_t>((batch * heads + head) * channels + channel)];
}

Problem problem_of(const Problem& problem, const SideInputs& inputs, std::int64_t batch) {
    Problem entry = problem;
    if (!inputs.seqlens_q.empty()) entry.seqlen_q = inputs.seqlens_q[static_cast<std::size_t>(batch)];
    if (!inputs.seqlens_kv.empty()) entry.seqlen_kv = inputs.seqlens_kv[static_cast<std::size_t>(batch)];
    return entry;
}

void validate(const SideInputs& inputs, const Problem& problem, const std::string& where) {
    require_lengths(inputs.seqlens_q, problem.batch, problem.seqlen_q, "seqlens_q", where);
    require_lengths(inputs.seqlens_kv, problem.batch, problem.seqlen_kv, "seqlens_kv", where);
    if (problem.shard.is_part() && !(inputs.seqlens_q.empty() && inputs.seqlens_kv.empty()))
        throw Error("a shard has lengths of its batch entries", where,
                    "record a call of several ranks whose entries all have the same lengths");
    require_finite(inputs.alibi_slopes, "alibi_slopes", where);
    require_finite(inputs.sink, "sink", where);
    if (problem.alibi != Alibi::none || !inputs.alibi_slopes.empty()) {
        require_count(inputs.alibi_slopes, {problem.heads, problem.batch * problem.heads}, "alibi_slopes",
                      where);
    }
    if (problem.sink != AttentionSink::none || !inputs.sink.empty()) {
        require_count(inputs.sink, {problem.heads}, "sink", where);
    }
    const auto& [heads, heads_kv] = std::pair(problem.heads, problem.heads_kv);
    require_descale(inputs.descale_q, problem, {"descale_q", heads, problem.seqlen_q, problem.head_dim},
                    where);
    require_descale(inputs.descale_k, problem, {"descale_k", heads_kv, problem.seqlen_kv, problem.head_dim},
                    where);
    require_descale(inputs.descale_v, problem, {"descale_v", heads_kv, problem.seqlen_kv, problem.head_dim_v},
                    where);
}

bool is_bias(float value) {
    return value < std::numeric_limits<float>::infinity();
}

void validate(const Bias& bias, const Problem& problem, const std::string& where) {
    if (bias.empty()) return;
    const std::tuple<const char*, std::int64_t, std::int64_t> sizes[] = {
        {"batch", bias.batch, problem.batch},
        {"heads", bias.heads, problem.heads},
        {"seqlen_q", bias.seqlen_q, problem.seqlen_q},
        {"seqlen_kv", bias.seqlen_kv, problem.seqlen_kv},
    };
    std::int64_t elements = 1;
    for (const auto& [name, size, full] : sizes) {
        if (size != 1 && size != full) {
            throw Error("bias has " + std::string(name) + " " + std::to_string(size) + ", neither 1 nor " +
                            std::to_string(full),
                        where, inputs_advice);
        }
        elements *= size;
    }
    require_count(bias.values, {elements}, "bias", where);
    if (!std::ranges::all_of(bias.values, is_bias))
        throw Error("bias holds NaN or +inf", where, inputs_advice);
}

}  // namespace tilescope
