// What is added to the scores: the additive bias and ALiBi.

#include <algorithm>
#include <cmath>

#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

std::vector<Candidate> bias_missing(const Evidence& evidence) {
    if (!evidence.call().read_bias) return {};
    return always({.inputs = [](SearchedTile& site) { site.own_call().read_bias = nullptr; }});
}

std::vector<Candidate> bias_before_scale(const Evidence& evidence) {
    if (!evidence.call().read_bias) return {};
    return always({.inputs = [](SearchedTile& site) {
        HeadCall& call = site.own_call();
        call.read_bias = [read = call.read_bias, scale = float(call.problem.sm_scale)](
                             std::int64_t row, std::int64_t key, MatrixF& tile) {
            read(row, key, tile);
            tile *= scale;
        };
    }});
}

/// The bias of another head, or of the first batch entry.
std::vector<Candidate> bias_of_other_head(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.call().read_bias) return {};
    const std::int64_t heads = evidence.problem().heads;
    const auto add = [&](std::string which, std::function<TileId(const SearchedTile&)> place) {
        const auto change = [place = std::move(place)](SearchedTile& site) {
            const TileId from = place(site);
            if (from.head >= site.call->problem.heads) return;
            site.own_call().read_bias = site.world->call(from.batch, from.head)->read_bias;
        };
        candidates.push_back({{{"which", std::move(which)}}, {.inputs = change}, 1});
    };
    for (std::int64_t head = 0; head < std::min<std::int64_t>(heads, 16) && heads > 1; ++head)
        add(digits(head), [=](const SearchedTile& s) { return TileId{s.id.batch, head, 0, 0}; });
    for (const std::int64_t offset : {-1, 1}) {
        if (heads == 1) break;
        add(offset < 0 ? "the one before" : "the next one", [=](const SearchedTile& s) {
            const std::int64_t there = s.call->problem.heads;
            return TileId{s.id.batch, (s.id.head + offset + there) % there, 0, 0};
        });
    }
    if (evidence.problem().batch > 1)
        add("that of batch 0", [](const SearchedTile& s) { return TileId{0, s.id.head, 0, 0}; });
    return candidates;
}

bool has_alibi(const Evidence& evidence) {
    return evidence.problem().alibi != Alibi::none;
}

std::vector<Candidate> alibi_missing(const Evidence& evidence) {
    if (!has_alibi(evidence)) return {};
    return always({.inputs = [](SearchedTile& site) { site.own_call().alibi_slope = 0; }});
}

std::vector<Candidate> alibi_sign(const Evidence& evidence) {
    if (!has_alibi(evidence)) return {};
    return always({.inputs = [](SearchedTile& site) { site.own_call().alibi_slope *= -1; }});
}

/// A factor that the scores have and the slope should not, or the other way round.
std::vector<Candidate> alibi_scaled(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!has_alibi(evidence)) return {};
    for (const NamedConstant& constant : known_constants(evidence)) {
        candidates.push_back(
            {{{"factor", constant.name}},
             {.inputs = [by = constant.value](SearchedTile& site) { site.own_call().alibi_slope *= by; }},
             1});
    }
    return candidates;
}

const std::vector<float>& slopes_of(const SearchedTile& site) {
    return site.world->recording().side_inputs().alibi_slopes;
}

std::int64_t slope_count(const SearchedTile& site) {
    return std::ssize(slopes_of(site));
}

std::vector<Candidate> alibi_of_other_head(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!has_alibi(evidence)) return {};
    const auto add = [&](std::string name, int free, auto index) {
        candidates.push_back({{{"head", std::move(name)}},
                              {.inputs =
                                   [=](SearchedTile& site) {
                                       const std::vector<float>& slopes = slopes_of(site);
                                       const auto at = std::size_t(index(site));
                                       if (at < slopes.size())
                                           site.own_call().alibi_slope = double(slopes[at]);
                                   }},
                              free});
    };
    const std::int64_t heads = evidence.problem().heads;
    // Slopes are those of a batch entry, or of all of them.
    const auto first = [](const SearchedTile& s) {
        return slope_count(s) > s.call->problem.heads ? s.id.batch * s.call->problem.heads : 0;
    };
    if (heads != evidence.problem().heads_kv)
        add("its KV head", 0,
            [=](const SearchedTile& s) { return first(s) + s.call->problem.head_kv(s.id.head); });
    add("the next one", 1,
        [=](const SearchedTile& s) { return (first(s) + s.id.head + 1) % slope_count(s); });
    add("the one before", 1,
        [=](const SearchedTile& s) { return (first(s) + s.id.head + slope_count(s) - 1) % slope_count(s); });
    for (std::int64_t head = 0; head < std::min<std::int64_t>(heads, 16); ++head)
        add(digits(head), 1, [=](const SearchedTile& s) { return first(s) + head; });
    return candidates;
}

/// Of linear slopes the offset follows from the difference, which is the slope times the offset.
std::vector<Candidate> alibi_offset(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!has_alibi(evidence)) return {};
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
    for (const std::int64_t shift : columns) {
        candidates.push_back(
            {{{"columns", digits(shift)}},
             {.inputs = [=](SearchedTile& site) { site.own_call().alibi_shift += double(shift); }},
             1});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> bias_causes() {
    const std::vector<Stage> s = {Stage::s};
    return {
        {"bias_missing", "sink, ALiBi, bias", s, "the additive bias is not added", "where the bias is loaded",
         bias_missing},
        {"bias_before_scale", "order", s, "the bias is added before the product with sm_scale",
         "the order of bias and sm_scale", bias_before_scale},
        {"bias_of_other_head", "sink, ALiBi, bias", s,
         "the additive bias is that of another head or batch entry", "the strides of the bias",
         bias_of_other_head, "--shape with several heads"},
        {"alibi_missing", "sink, ALiBi, bias", s, "ALiBi is not added", "where the slope is applied",
         alibi_missing},
        {"alibi_sign", "sink, ALiBi, bias", s, "ALiBi is added with the other sign",
         "the sign of slope times distance", alibi_sign},
        {"alibi_scaled", "sink, ALiBi, bias", s, "the ALiBi slope is multiplied with a constant too many",
         "the order of ALiBi and sm_scale, and log2(e)", alibi_scaled},
        {"alibi_of_other_head", "sink, ALiBi, bias", s, "the ALiBi slope is that of another head",
         "the index into the slopes", alibi_of_other_head, "--shape with several heads"},
        {"alibi_offset", "sink, ALiBi, bias", s, "the distance of ALiBi is counted from another diagonal",
         "the key index and the diagonal that ALiBi takes", alibi_offset},
    };
}

}  // namespace tilescope
