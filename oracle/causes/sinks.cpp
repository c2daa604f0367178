#include "oracle/causes/sinks.h"

#include <cmath>
#include <numbers>

#include "oracle/causes/other_heads.h"
#include "oracle/causes/rewrites.h"
#include "oracle/formula/softmax.h"

namespace tilescope {

namespace {

bool joins(const Evidence& evidence, AttentionSink when) {
    const bool at_end = evidence.acts == Stage::o || evidence.acts == Stage::lse;
    return evidence.problem().sink == when && at_end == (when == AttentionSink::last);
}

/// The state that the first tile of the first split starts from.
Change starts_with(Stage acts, std::function<double(const SearchedTile&)> sink, double weight) {
    return {.inputs = [=](SearchedTile& site) {
        if (!site.begins || site.call->problem.split_of(site.id.kv_tile) != 0) return;
        const double value = sink(site);
        site.before.m.value.setConstant(value);
        site.before.m.error.setConstant(std::isfinite(value) ? gamma(3, u_f32) * std::abs(value) : 0);
        if (acts != Stage::l) return;
        site.before.l.value.setConstant(weight);
        site.factor = rescale_factor(*site.call, site.before.m, site.m);
    }};
}

}  // namespace

std::vector<Candidate> sink_missing_at_start(const Evidence& evidence) {
    if (!joins(evidence, AttentionSink::first)) return {};
    return always(starts_with(
        evidence.acts, [](const SearchedTile&) { return -infinity; }, 0));
}

std::vector<Candidate> sink_twice(const Evidence& evidence) {
    if (joins(evidence, AttentionSink::first))
        return always(starts_with(
            evidence.acts, [](const SearchedTile& site) { return site.call->sink; }, 2));
    if (!joins(evidence, AttentionSink::last)) return {};
    return always(rewritten({{var::sink, var::sink + number(std::numbers::ln2)}}));
}

namespace {

/// A sink of another value, where it joins.
Change has_sink(const Evidence& evidence, std::function<double(const SearchedTile&)> sink) {
    if (joins(evidence, AttentionSink::first)) return starts_with(evidence.acts, std::move(sink), 1);
    return {.inputs = [sink = std::move(sink)](SearchedTile& site) { site.own_call().sink = sink(site); }};
}

bool has_any_sink(const Evidence& evidence) {
    return joins(evidence, AttentionSink::first) || joins(evidence, AttentionSink::last);
}

}  // namespace

std::vector<Candidate> sink_scaled(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!has_any_sink(evidence)) return {};
    for (const NamedConstant& constant : known_constants(evidence)) {
        const auto scaled = [by = constant.value](const SearchedTile& site) { return site.call->sink * by; };
        candidates.push_back({{{"factor", constant.name}}, has_sink(evidence, scaled), 1});
    }
    return candidates;
}

std::vector<Candidate> sink_of_other_head(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!has_any_sink(evidence)) return {};
    for (const OtherHead& other : other_heads(evidence)) {
        const auto sink = [head = other.head](const SearchedTile& site) {
            const std::vector<float>& sinks = site.world->recording().side_inputs().sink;
            const std::int64_t count = std::ssize(sinks);
            return double(sinks[std::size_t((at_tile(head, site) + count) % count)]);
        };
        candidates.push_back(
            {{{"head", other.head.text()}}, has_sink(evidence, sink), other.free_parameters});
    }
    return candidates;
}

}  // namespace tilescope
