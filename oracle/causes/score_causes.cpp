#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "dump/schema/semantics.h"
#include "oracle/causes/bare_scores.h"
#include "oracle/causes/left_out_tiles.h"
#include "oracle/causes/rewrites.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// What is masked first and capped then is -cap.
std::vector<Candidate> cap_after_mask(const Evidence& evidence) {
    if (!evidence.call().capped()) return {};
    return always({.result = [](const SearchedTile& site, Estimate& s) {
        const double cap = site.call->problem.logits_soft_cap;
        HeadCall bare = *site.call;
        bare.visible = [](std::int64_t, std::int64_t) {
            return KeyRange{0, std::numeric_limits<std::int64_t>::max()};
        };
        Estimate hidden = zeros(s.value.rows(), s.value.cols());
        hidden.value.setConstant(-cap);
        hidden.error.setConstant(cap * 8 * u_f32);
        if (bare.biased()) hidden = add_bias(bare, site.first_row, site.first_key, hidden);
        for (Eigen::Index i = 0; i < s.value.size(); ++i) {
            if (s.value.data()[i] != -infinity) continue;
            s.value.data()[i] = hidden.value.data()[i];
            s.error.data()[i] = hidden.error.data()[i];
        }
    }});
}

/// Whether the sums that the dumped scores were made of are numbers of the type, or infinite where they are
/// beyond its range. What is infinite in float32 says nothing.
bool scores_are(const Evidence& evidence, Dtype dtype) {
    std::int64_t fit = 0;
    std::int64_t others = 0;
    for (const BareScore& score : bare_scores(evidence)) {
        const double sum = score.got / score.unit;
        if (!std::isfinite(score.expected)) continue;
        if (std::isinf(sum)) {
            const bool is_beyond = std::isinf(rounded_to(dtype, score.expected / score.unit));
            (is_beyond ? fit : others) += 1;
            continue;
        }
        const double noise = score.is_bare ? 8 * u_f32 * std::abs(sum) : score.error / score.unit;
        // Where cap and bias hide more than the type's last bits nothing can be told.
        if (std::isnan(sum) || noise > std::ldexp(std::abs(sum), -14)) continue;
        (std::abs(rounded_to(dtype, sum) - sum) <= noise ? fit : others) += 1;
    }
    return fit >= 8 && others * 50 <= fit;
}

/// The sum of products rounded to a narrow type before anything else is done with it. What overflows is
/// infinite, or what a guard makes of it. `is_seen`: the dump shows numbers of the type.
Change rounds_sum(Dtype dtype, bool guarded, bool is_seen) {
    return {.result =
                [=](const SearchedTile& site, Estimate& s) {
                    Estimate sum = scaled_scores(*site.call, site.q, site.k);
                    Matrix unit(sum.value.rows(), sum.value.cols());
                    for (Eigen::Index i = 0; i < unit.rows(); ++i)
                        for (Eigen::Index j = 0; j < unit.cols(); ++j)
                            unit(i, j) = unit_of(*site.call, site.first_row + i, site.first_key + j);
                    sum.value.array() /= unit.array();
                    sum.error.array() /= unit.array();
                    round_to(dtype, 1, sum);
                    sum.value.array() *= unit.array();
                    sum.error.array() *= unit.array();
                    sum.error += 6 * u_f32 * sum.value.cwiseAbs();
                    sum.error = sum.value.array().isInf().select(0.0, sum.error);
                    s = dumped_from_scaled(*site.call, site.first_row, site.first_key, std::move(sum));
                    if (guarded) s.value = (s.value.array() == infinity).select(-infinity, s.value);
                },
            .widens = is_seen};
}

/// Sums beyond the range of float16 are infinite. Where only some order of the sum leaves the range, the dump
/// says whether the kernel's did.
void overflows(const SearchedTile& site, Estimate& s) {
    const HeadCall& call = *site.call;
    const Estimate sums = scaled_scores(call, site.q, site.k);
    const Estimate magnitudes = scaled_scores(call, {site.q.value.cwiseAbs()}, {site.k.value.cwiseAbs()});
    const auto dumped = load_tile(site.world->recording(), call.problem, Stage::s, site.id);
    const auto beyond = [](double sum) { return std::isinf(rounded_to(Dtype::f16, sum)); };
    for (Eigen::Index i = 0; i < sums.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < sums.value.cols(); ++j) {
            const double unit = unit_of(call, site.first_row + i, site.first_key + j);
            if (!std::isfinite(s.value(i, j))) continue;
            if (beyond(sums.value(i, j) / unit)) {
                s.value(i, j) = std::copysign(infinity, sums.value(i, j));
            } else if (dumped && std::isinf((*dumped)(i, j)) && beyond(magnitudes.value(i, j) / unit)) {
                s.value(i, j) = double((*dumped)(i, j));
            } else {
                continue;
            }
            s.error(i, j) = 0;
        }
    }
}

std::vector<Candidate> half_scores(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        std::vector<CauseParameter> parameters = {{"dtype", std::string(dtype_info(dtype).name)}};
        const bool is_seen = evidence.direct() && scores_are(evidence, dtype);
        candidates.push_back({parameters, rounds_sum(dtype, false, is_seen)});
        parameters.push_back({"beyond its range", "-inf"});
        // A guard alone makes infinities, too.
        if (is_seen) candidates.push_back({parameters, rounds_sum(dtype, true, true), 1});
        parameters.back() = {"kept as", "score"};
        if (evidence.direct() && are_numbers_of(evidence, dtype)) {
            const double by =
                evidence.units().s_scaled ? 1 : 1 / product_scale(evidence.problem(), evidence.units());
            candidates.push_back(
                {parameters,
                 {.result = [=](const SearchedTile&, Estimate& s) { round_to(dtype, by, s); },
                  .widens = true}});
        }
    }
    // A sum that is kept narrow throughout: the budget of such a sum, where all that is left is its noise.
    if (evidence.units().s_accumulation != Accumulation::fma_f16 && scores_are(evidence, Dtype::f16))
        candidates.push_back(
            {{{"dtype", "f16"}, {"kept as", "running sum"}},
             {.inputs =
                  [](SearchedTile& site) { site.own_call().units.s_accumulation = Accumulation::fma_f16; },
              .result = overflows,
              .widens = true},
             1});
    return candidates;
}

/// Where tiles were dumped, one that is left out is not among them.
std::vector<Candidate> kv_tile_skipped(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t tiles = evidence.problem().kv_tiles();
    const auto add = [&](std::string which, int free, auto is_skipped) {
        const auto change = [=](const SearchedTile& site, Estimate& s) {
            if (!is_skipped(site)) return;
            s.value.setConstant(-infinity);
            s.error.setZero();
        };
        candidates.push_back({{{"which", std::move(which)}}, {.result = change}, free});
    };
    const auto last_of = [](const SearchedTile& site) { return site.call->problem.kv_tiles() - 1; };
    if (tiles < 2) return {};
    add("the first", 0, [](const SearchedTile& site) { return site.id.kv_tile == 0; });
    add("the last", 0, [=](const SearchedTile& site) { return site.id.kv_tile == last_of(site); });
    for (std::int64_t tile = 1; tile < std::min<std::int64_t>(tiles - 1, 8); ++tile)
        add(digits(tile), 1, [=](const SearchedTile& site) { return site.id.kv_tile == tile; });
    const auto is_absent = [](const SearchedTile& site) { return is_left_out(*site.world, site.id); };
    if (!evidence.direct()) {
        add("those that are not in the recording", 0, is_absent);
        return candidates;
    }
    const auto leave_unwritten = [=](const SearchedTile& site, Estimate& s) {
        if (!is_absent(site)) return;
        s.value.setConstant(double(std::bit_cast<float>(unwritten_bits)));
        s.error.setZero();
    };
    candidates.push_back({{{"which", "those that no thread wrote"}}, {.result = leave_unwritten}});
    return candidates;
}

/// Halves of a KV tile, as lanes or unrolled loops leave them out, and its beginning.
std::vector<Candidate> keys_skipped(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (evidence.direct() || evidence.world->has(Stage::s)) return {};
    const std::int64_t block = evidence.problem().block_n;
    for (Places part : parts_of(block)) {
        if (part.period > 0 && part.count * 2 != part.period) continue;
        if (part.period == block) part.period = 0;
        const auto hide_others = [=](const SearchedTile&, Estimate& s) {
            for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                if (part.contains(j)) continue;
                s.value.col(j).setConstant(-infinity);
                s.error.col(j).setZero();
            }
        };
        candidates.push_back({{{"but for", "columns " + to_string(part)}}, {.result = hide_others}, 1});
    }
    return candidates;
}

/// No program says what the ranks of a call compute of it.
bool is_shard(const Evidence& evidence) {
    const Shard& shard = evidence.problem().shard;
    return !shard.kv_positions.empty() || shard.seqlen_kv > 0;
}

/// What the dump shows; without it, all that are known.
std::vector<NamedConstant> constants_of_products(const Evidence& evidence) {
    if (!evidence.direct()) return known_constants(evidence);
    std::vector<Sample> samples;
    for (const BareScore& score : bare_scores(evidence))
        samples.push_back({score.got, score.expected, score.error});
    const auto ratio = ratio_of(samples);
    if (!ratio) return {};
    return {named(evidence, ratio->value, ratio->uncertainty)};
}

}  // namespace

std::vector<Cause> score_causes() {
    const std::vector<Stage> s = {Stage::s};
    return {
        {"cap_after_mask", "order", s, "the mask is applied before the soft cap, which makes -inf finite",
         "the order of mask and soft cap", cap_after_mask},
        {skipped_kv_tile_name, "trip / tile", s, "a KV tile does not count",
         "the bounds of the loop over KV tiles", kv_tile_skipped},
        {"keys_skipped", "trip / tile", s, "keys of every KV tile take no part",
         "the step and the bounds of the loop over the keys of a tile", keys_skipped},
        {"dot_runs_on", "layout", s, "the product of q and k runs on behind head_dim, into the next rows",
         "the bound of the loads along head_dim", dot_runs_on},
        {"half_scores", "overflow", s, "q k is kept in a narrow type",
         "the accumulator type of the first product", half_scores, "--input large"},
        {"tail_not_masked", "tail", s, "keys past seqlen_kv are not masked: they take part like any other",
         "the mask of the last KV tile", tail_not_masked, "seqlen_kv that no tile divides"},
        {"score_constant",
         "constants",
         {Stage::s},
         "the scores are multiplied with a constant too many",
         "the factors between q k and the exponential",
         where_declared(is_shard, rewrites_with("factor", constants_of_products,
                                                {{var::sm_scale, var::sm_scale * var::constant}}, true))},
    };
}

}  // namespace tilescope
