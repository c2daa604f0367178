// What a mask leaves in scores, and which scores it hides, read out of the scores.

#include <algorithm>
#include <cmath>

#include "oracle/causes/curves.h"
#include "oracle/causes/mask_comparisons.h"
#include "oracle/causes/signature.h"
#include "oracle/formula/scores.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// What the tile holds without its mask.
Estimate open_scores(std::span<const Change> known, const SearchedTile& site) {
    return expected_with(known, Stage::s, unmasked(site));
}

Change fills_masked(std::vector<Change> known, const Curve& curve) {
    return {.result = [=, known = std::move(known)](const SearchedTile& site, Estimate& s) {
        const Estimate open = open_scores(known, site);
        const DumpFactor factor =
            dump_factor(*site.call, Stage::s, site.first_row, site.first_key, s.value.rows(), s.value.cols());
        for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
            const KeyRange keys = site.call->visible_to(site.first_row + i, site.first_key);
            for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                if (const std::int64_t key = site.first_key + j; key >= keys.first && key < keys.last)
                    continue;
                const double unit = factor.at(i, j);
                const Uncertain is =
                    passed_through(curve, {open.value(i, j) * unit, open.error(i, j) * std::abs(unit)});
                s.value(i, j) = is.value / unit;
                s.error(i, j) = is.error / std::abs(unit);
            }
        }
    }};
}

/// What is there of scores that the mask hides, beside what they are without it.
std::vector<Candidate> masked_score_value(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!results_can_be_read(evidence) || !evidence.units().s_masked) return {};
    std::vector<CurvePoint> points;
    Thinned thinned(evidence);
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        const Estimate open = open_scores(evidence.known, seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            const KeyRange keys = seen.site.call->visible_to(seen.site.first_row + i, seen.site.first_key);
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const std::int64_t key = seen.site.first_key + j;
                const bool hidden = key < keys.first || key >= keys.last;
                if (!hidden || !seen.is_wrong(i, j) || !std::isfinite(seen.got(i, j))) continue;
                const double unit = seen.factor.at(i, j);
                if (!thinned.takes(true)) continue;
                points.push_back({open.value(i, j) * unit, open.error(i, j) * std::abs(unit),
                                  double(seen.got(i, j)), true});
            }
        }
    }
    for (const Curve& curve : lines_through(points, known_numbers(evidence), "s"))
        candidates.push_back(
            {{{"it is", curve.formula}}, fills_masked(evidence.known, curve), curve.parameters});
    return candidates;
}

/// Of the inputs, for what else is done to scores: wherever a rule says, the mask hides them, or none of them.
Change hides_all() {
    return {.inputs = [](SearchedTile& site) {
        site.own_call().visible = [](std::int64_t, std::int64_t) { return KeyRange{0, 0}; };
    }};
}

Change shows_all() {
    return {.inputs = [](SearchedTile& site) { site = unmasked(std::move(site)); }};
}

}  // namespace

std::vector<Candidate> mask_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!results_can_be_read(evidence) || !evidence.units().s_masked) return candidates;
    const auto masked = float(evidence.units().s_masked_value);
    bool hides = false;
    bool shows = false;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            if (!seen.wrong[std::size_t(i)]) continue;
            hides = hides || seen.got.data()[i] == masked;
            shows = shows || (std::isfinite(seen.got.data()[i]) && seen.expected.value.data()[i] == masked);
        }
    }
    if ((hides || shows) && evidence.known.empty()) candidates = other_comparisons(evidence);
    if (hides) candidates.push_back({{all_hidden}, hides_all()});
    if (shows) candidates.push_back({{{"scores", "shown"}}, shows_all()});
    return candidates;
}

std::vector<Cause> identified_mask_causes() {
    return {
        {"masked_score_value",
         "mask geometry",
         {Stage::s},
         "masked scores hold something else than -inf",
         "the value that the mask puts in the place of a score",
         masked_score_value},
    };
}

}  // namespace tilescope
