#include "oracle/causes/mask_comparisons.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "oracle/causes/element_places.h"
#include "oracle/formula/scores.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// What a score has to pass to be seen.
enum class MaskBound : std::uint8_t { end, diagonal, left, right };
constexpr std::array mask_bounds = {MaskBound::end, MaskBound::diagonal, MaskBound::left, MaskBound::right};

/// In pairs that differ by what is equal.
enum class Sign : std::uint8_t { less, at_most, more, at_least, equal, other };
constexpr std::array<std::string_view, 6> sign_texts = {"<", "<=", ">", ">=", "==", "!="};

bool compares(Sign sign, std::int64_t a, std::int64_t b) {
    switch (sign) {
        case Sign::less:
            return a < b;
        case Sign::at_most:
            return a <= b;
        case Sign::more:
            return a > b;
        case Sign::at_least:
            return a >= b;
        case Sign::equal:
            return a == b;
        case Sign::other:
            break;
    }
    return a != b;
}

/// An index of a score, or 0.
using MaskIndex = std::optional<ElementPlace>;
constexpr std::array<MaskIndex, 9> mask_indices = {
    std::nullopt,          ElementPlace::key,     ElementPlace::query, ElementPlace::col,  ElementPlace::row,
    ElementPlace::kv_tile, ElementPlace::q_block, ElementPlace::head,  ElementPlace::batch};

std::int64_t value_of(MaskIndex index, const SearchedTile& site, Eigen::Index i, Eigen::Index j) {
    return index ? place_of(*index, site, Stage::s, i, j) : 0;
}

std::string text_of_index(MaskIndex index) {
    return index ? std::string(place_name(*index, Stage::s)) : "0";
}

/// left sign right + offset, where the offset is the bound's own and `more`.
struct Comparison {
    MaskBound bound = MaskBound::diagonal;
    MaskIndex left = ElementPlace::key;
    Sign sign = Sign::at_most;
    MaskIndex right = ElementPlace::query;
    std::int64_t more = 0;
    bool is_of_number = false;  ///< with `more` alone

    bool holds(const SearchedTile& site, Eigen::Index i, Eigen::Index j) const;
    std::string text() const;
};

bool has_bound(MaskBound bound, const Problem& problem) {
    switch (bound) {
        case MaskBound::diagonal:
            return problem.mask == Mask::causal;
        case MaskBound::left:
            return problem.window_left >= 0;
        case MaskBound::right:
            return problem.window_right >= 0;
        case MaskBound::end:
            break;
    }
    return true;
}

/// As it should be.
Comparison comparison_of(MaskBound bound, const Problem& problem) {
    const bool inclusive = problem.window_bounds == WindowBounds::inclusive;
    switch (bound) {
        case MaskBound::end:
            return {bound, ElementPlace::key, Sign::less, std::nullopt};
        case MaskBound::left:
            return {bound, ElementPlace::key, inclusive ? Sign::at_least : Sign::more, ElementPlace::query};
        case MaskBound::right:
            return {bound, ElementPlace::key, inclusive ? Sign::at_most : Sign::less, ElementPlace::query};
        case MaskBound::diagonal:
            break;
    }
    return {};
}

std::int64_t offset_of(MaskBound bound, const Problem& problem) {
    switch (bound) {
        case MaskBound::end:
            return problem.seqlen_kv;
        case MaskBound::left:
            return diagonal_of(problem, 0) - problem.window_left;
        case MaskBound::right:
            return diagonal_of(problem, 0) + problem.window_right;
        case MaskBound::diagonal:
            break;
    }
    return diagonal_of(problem, 0);
}

bool Comparison::holds(const SearchedTile& site, Eigen::Index i, Eigen::Index j) const {
    const std::int64_t offset = (is_of_number ? 0 : offset_of(bound, site.call->problem)) + more;
    return compares(sign, value_of(left, site, i, j), value_of(right, site, i, j) + offset);
}

/// "key >= query": what the bound adds on the right is always the same.
std::string Comparison::text() const {
    if (is_of_number)
        return fmt::format("{} {} {}", text_of_index(left), sign_texts[std::size_t(sign)], more);
    const std::string of = bound == MaskBound::end ? "seqlen_kv" : text_of_index(right);
    const std::string moved = more == 0 ? "" : fmt::format(" {} {}", more < 0 ? '-' : '+', std::abs(more));
    const bool adds = bound == MaskBound::end && right;
    return fmt::format("{} {} {}{}{}", text_of_index(left), sign_texts[std::size_t(sign)],
                       adds ? text_of_index(right) + " + " : "", of, moved);
}

CauseParameter comparison_told(const Comparison& comparison) {
    constexpr std::array<const char*, 4> names = {"end", "diagonal", "left of the window",
                                                  "right of the window"};
    return {names[std::size_t(comparison.bound)], comparison.text()};
}

/// Whether the mask shows the score where one of its comparisons is this one.
bool is_shown_with(const Comparison& comparison, const SearchedTile& site, Eigen::Index i, Eigen::Index j) {
    const Problem& problem = site.call->problem;
    return std::ranges::all_of(mask_bounds, [&](MaskBound bound) {
        if (!has_bound(bound, problem)) return true;
        if (bound == comparison.bound) return comparison.holds(site, i, j);
        return comparison_of(bound, problem).holds(site, i, j);
    });
}

Change masks_by(const Comparison& comparison) {
    return {.result = [=](const SearchedTile& site, Estimate& s) {
        const Estimate open = expected_of(Stage::s, unmasked(site));
        const DumpFactor factor =
            dump_factor(*site.call, Stage::s, site.first_row, site.first_key, s.value.rows(), s.value.cols());
        for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                const bool shown = is_shown_with(comparison, site, i, j);
                s.value(i, j) = shown ? open.value(i, j) : site.call->units.s_masked_value / factor.at(i, j);
                s.error(i, j) = shown ? open.error(i, j) : 0;
            }
        }
    }};
}

/// A score, and whether the kernel showed it.
struct MaskedScore {
    const SearchedTile* site = nullptr;
    Eigen::Index row = 0;
    Eigen::Index col = 0;
    bool shown = false;
    bool wrong = false;

    bool is_as(const Comparison& comparison) const {
        return is_shown_with(comparison, *site, row, col) == shown;
    }
};

std::vector<MaskedScore> masked_scores(const Evidence& evidence) {
    constexpr std::int64_t most = 2000;
    const auto masked = float(evidence.units().s_masked_value);
    const std::int64_t wrong_step = evidence.wrong_elements / most | 1;
    const std::int64_t right_step = (evidence.compared - evidence.wrong_elements) / most | 1;
    std::array<std::int64_t, 2> met = {0, 0};
    std::vector<MaskedScore> scores;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            const bool wrong = seen.wrong[std::size_t(i)];
            if (met[std::size_t(wrong)]++ % (wrong ? wrong_step : right_step) != 0) continue;
            const Eigen::Index cols = seen.got.cols();
            scores.push_back({&seen.site, i / cols, i % cols, seen.got.data()[i] != masked, wrong});
        }
    }
    return scores;
}

/// Comparisons that somebody may have written in place of the one of this bound.
std::vector<Comparison> comparisons_of(MaskBound bound, const Evidence& evidence) {
    const Comparison healthy = comparison_of(bound, evidence.problem());
    std::vector<Comparison> others;
    for (std::size_t sign = 0; sign < sign_texts.size(); ++sign) {
        Comparison other = healthy;
        other.sign = Sign(sign);
        // What is equal belongs to the other side where the bound is one further on, which rows of the table say.
        if (sign / 2 != std::size_t(healthy.sign) / 2) others.push_back(other);
    }
    for (MaskIndex Comparison::*side : {&Comparison::left, &Comparison::right}) {
        for (const MaskIndex index : mask_indices) {
            Comparison other = healthy;
            other.*side = index;
            if (index != healthy.*side) others.push_back(other);
        }
    }
    return others;
}

/// The same comparison with the end of the keys elsewhere, counted from where they begin if that is nearer. Where another
/// diagonal or window is meant, rows of the table say so.
std::vector<Comparison> earlier_ends(const Evidence& evidence) {
    std::vector<Comparison> ends;
    const std::int64_t keys = evidence.problem().seqlen_kv;
    for (std::int64_t less = 1; less < keys; ++less) {
        ends.push_back(comparison_of(MaskBound::end, evidence.problem()));
        ends.back().is_of_number = keys - less < less;
        ends.back().more = ends.back().is_of_number ? keys - less : -less;
    }
    return ends;
}

/// A comparison that the wrong scores agree with.
struct FittingComparison {
    Comparison comparison;
    std::int64_t others = 0;  ///< right scores that it would change
};

/// Those that nearly all wrong scores agree with, first the ones that would change the fewest right ones.
std::vector<FittingComparison> fitting_of(const std::vector<Comparison>& comparisons,
                                          const std::vector<MaskedScore>& scores, std::size_t most) {
    const std::int64_t most_off = std::ranges::count(scores, true, &MaskedScore::wrong) / 100;
    std::vector<FittingComparison> fitting;
    for (const Comparison& comparison : comparisons) {
        std::int64_t off = 0;
        FittingComparison next{comparison};
        for (const MaskedScore& score : scores) {
            if (score.is_as(comparison)) continue;
            (score.wrong ? off : next.others) += 1;
            if (off > most_off) break;
        }
        if (off <= most_off) fitting.push_back(std::move(next));
    }
    std::ranges::stable_sort(fitting, {}, &FittingComparison::others);
    if (fitting.size() > most) fitting.resize(most);
    return fitting;
}

}  // namespace

SearchedTile unmasked(SearchedTile site) {
    site.own_call().visible = [](std::int64_t, std::int64_t) {
        return KeyRange{0, std::numeric_limits<std::int64_t>::max()};
    };
    return site;
}

std::vector<Candidate> other_comparisons(const Evidence& evidence) {
    const std::vector<MaskedScore> scores = masked_scores(evidence);
    std::vector<Comparison> comparisons;
    for (const MaskBound bound : mask_bounds)
        if (has_bound(bound, evidence.problem()))
            for (const Comparison& comparison : comparisons_of(bound, evidence))
                comparisons.push_back(comparison);
    std::vector<Candidate> candidates;
    for (const auto& [comparison, others] : fitting_of(comparisons, scores, 12))
        candidates.push_back({{comparison_told(comparison)}, masks_by(comparison), 1});
    for (const auto& [comparison, others] : fitting_of(earlier_ends(evidence), scores, 2))
        candidates.push_back({{comparison_told(comparison)}, masks_by(comparison), 2});
    return candidates;
}

}  // namespace tilescope
