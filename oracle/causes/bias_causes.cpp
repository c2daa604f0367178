// What is added to the scores: the additive bias and ALiBi.

#include <algorithm>
#include <cmath>

#include "oracle/causes/other_heads.h"
#include "oracle/causes/rewrites.h"

namespace tilescope {

namespace {

std::vector<Candidate> bias_missing(const Evidence&) {
    return always({.inputs = [](SearchedTile& site) { site.own_call().read_bias = nullptr; }});
}

std::vector<Candidate> bias_before_scale(const Evidence&) {
    return always({.inputs = [](SearchedTile& site) {
        HeadCall& call = site.own_call();
        call.read_bias = [read = call.read_bias, scale = float(call.problem.sm_scale)](
                             std::int64_t row, std::int64_t key, MatrixF& tile) {
            read(row, key, tile);
            tile *= scale;
        };
    }});
}

bool has_bias(const Evidence& evidence) {
    return evidence.call().read_bias != nullptr;
}

Change has_bias_of(const Expr& batch, const Expr& head) {
    return {.inputs = [=](SearchedTile& site) {
        const std::int64_t from = at_tile(head, site);
        const std::int64_t heads = site.call->problem.heads;
        site.own_call().read_bias = site.world->call(at_tile(batch, site), (from + heads) % heads)->read_bias;
    }};
}

std::vector<Candidate> bias_of_other_head(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const OtherHead& other : other_heads(evidence))
        candidates.push_back({{{"head", other.head.text()}}, has_bias_of(Coordinate::batch, other.head), 1});
    if (evidence.problem().batch > 1)
        candidates.push_back({{{"batch", "0"}}, has_bias_of(0, Coordinate::head), 1});
    return candidates;
}

bool has_alibi(const Evidence& evidence) {
    return evidence.problem().alibi != Alibi::none;
}

/// Slopes are those of a batch entry, or of all of them.
std::vector<Candidate> alibi_of_other_head(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const OtherHead& other : other_heads(evidence)) {
        const auto change = [head = other.head](SearchedTile& site) {
            const std::vector<float>& slopes = site.world->recording().side_inputs().alibi_slopes;
            const std::int64_t heads = site.call->problem.heads;
            const std::int64_t first = std::ssize(slopes) > heads ? site.id.batch * heads : 0;
            const std::int64_t count = std::ssize(slopes);
            site.own_call().alibi_slope =
                double(slopes[std::size_t((first + at_tile(head, site) + count) % count)]);
        };
        candidates.push_back({{{"head", other.head.text()}}, {.inputs = change}, other.free_parameters});
    }
    return candidates;
}

/// Of linear slopes the offset follows from the difference, which is the slope times the offset.
std::vector<NamedConstant> alibi_offsets(const Evidence& evidence) {
    std::vector<std::int64_t> columns = {-1, 1};
    const Problem entry = evidence.call().problem;
    for (const std::int64_t known : {entry.seqlen_kv - entry.seqlen_q, entry.seqlen_q - entry.seqlen_kv})
        if (known != 0) columns.push_back(known);
    std::vector<double> differences;
    for (const Observation& seen : evidence.seen) {
        const double slope = seen.site.call->alibi_slope;
        if (!evidence.direct() || !seen.is_bad() || slope == 0) continue;
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                if (!seen.is_wrong(i, j)) continue;
                const double expected = seen.expected.value(i, j) / seen.factor.at(i, j);
                differences.push_back(-(seen.natural(i, j) - expected) / slope);
            }
        }
    }
    // Of slopes near 0 it may be any number.
    if (const double middle = median_of(differences); std::abs(middle) < 0x1p31) {
        for (const std::int64_t at : {std::llround(middle), std::llround(-middle)}) {
            if (at != 0 && std::ranges::find(columns, at) == columns.end()) columns.push_back(at);
        }
    }
    std::vector<NamedConstant> offsets;
    for (const std::int64_t shift : columns) offsets.push_back({digits(shift), double(shift)});
    return offsets;
}

}  // namespace

std::vector<Cause> bias_causes() {
    const std::vector<Stage> s = {Stage::s};
    return {
        {"bias_missing", "sink, ALiBi, bias", s, "the additive bias is not added", "where the bias is loaded",
         where_declared(has_bias, bias_missing)},
        {"bias_before_scale", "order", s, "the bias is added before the product with sm_scale",
         "the order of bias and sm_scale", where_declared(has_bias, bias_before_scale)},
        {"bias_of_other_head", "sink, ALiBi, bias", s,
         "the additive bias is that of another head or batch entry", "the strides of the bias",
         where_declared(has_bias, bias_of_other_head), "--shape with several heads"},
        {"alibi_missing", "sink, ALiBi, bias", s, "ALiBi is not added", "where the slope is applied",
         where_declared(has_alibi, rewrites({{var::alibi_slope, 0}}))},
        {"alibi_sign", "sink, ALiBi, bias", s, "ALiBi is added with the other sign",
         "the sign of slope times distance",
         where_declared(has_alibi, rewrites({{var::alibi_slope, -1 * var::alibi_slope}}))},
        {"alibi_scaled", "sink, ALiBi, bias", s, "the ALiBi slope is multiplied with a constant too many",
         "the order of ALiBi and sm_scale, and log2(e)",
         where_declared(has_alibi, rewrites_with("factor", known_constants,
                                                 {{var::alibi_slope, var::alibi_slope * var::constant}}))},
        {"alibi_of_other_head", "sink, ALiBi, bias", s, "the ALiBi slope is that of another head",
         "the index into the slopes", where_declared(has_alibi, alibi_of_other_head),
         "--shape with several heads"},
        {"alibi_offset", "sink, ALiBi, bias", s, "the distance of ALiBi is counted from another diagonal",
         "the key index and the diagonal that ALiBi takes",
         where_declared(has_alibi, rewrites_with("columns", alibi_offsets,
                                                 {{var::alibi_shift, var::alibi_shift + var::constant}}))},
    };
}

}  // namespace tilescope
