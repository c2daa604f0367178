#include "oracle/causes/combinations.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "oracle/causes/curves.h"
#include "oracle/causes/slots.h"
#include "oracle/formula/head_call.h"
#include "oracle/solve/combination.h"

namespace tilescope {

namespace {

/// What the elements of a tile hold in the place of the variable.
SlotNumbers held_in(const SumForm& form, const Observation& seen) {
    if (form.variable != var::result)
        return numbers_of(*std::ranges::find(all_slots(), form.variable, &Slot::variable), seen);
    SlotNumbers held{{}, seen.got.cast<double>(), seen.expected.error};
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
            const double unit = seen.factor.at(i, j);
            held.error(i, j) += cast_after(seen.site, seen.context.stage, std::abs(held.taken(i, j)));
            held.taken(i, j) /= unit;
            held.error(i, j) /= std::abs(unit);
        }
    }
    return held;
}

/// Of each wrong element what all terms are, and what is there.
std::vector<Equation> equations_of(const Evidence& evidence, const SumForm& form) {
    constexpr std::size_t most_tiles = 8;
    constexpr std::size_t most = 4000;
    std::vector<Equation> equations;
    const std::size_t tiles = std::min<std::size_t>(
        most_tiles, std::size_t(std::ranges::count_if(evidence.seen, &Observation::is_bad)));
    for (const Observation& seen : std::span(evidence.seen).first(tiles)) {
        const SlotNumbers held = held_in(form, seen);
        TileVariables variables(form.terms, seen.site);
        const std::int64_t step = seen.wrong_elements * std::int64_t(tiles) / std::int64_t(most) | 1;
        std::int64_t met = 0;
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                if (!seen.is_wrong(i, j) || met++ % step != 0) continue;
                Equation next{{}, held.taken(i, j), held.error(i, j)};
                if (form.is_exponent) {
                    next.error /= next.got;
                    next.got = std::log(next.got);
                }
                for (const Expr& term : form.terms) next.terms.push_back(term.of(variables.at(i, j)).value);
                const bool is_known =
                    std::isfinite(next.got) && std::isfinite(next.error) &&
                    std::ranges::all_of(next.terms, [](double x) { return std::isfinite(x); });
                if (is_known) equations.push_back(std::move(next));
            }
        }
    }
    return equations;
}

/// Those of some terms alone.
std::vector<Equation> with_terms(std::vector<Equation> equations, const std::vector<std::size_t>& way) {
    for (Equation& equation : equations) {
        std::vector<double> some;
        for (const std::size_t term : way) some.push_back(equation.terms[term]);
        equation.terms = std::move(some);
    }
    return equations;
}

/// The fewest first.
std::vector<std::vector<std::size_t>> ways_to_choose(std::size_t count) {
    std::vector<std::vector<std::size_t>> ways;
    for (std::size_t a = 0; a < count; ++a) {
        ways.push_back({a});
        for (std::size_t b = a + 1; b < count; ++b) {
            ways.push_back({a, b});
            for (std::size_t c = b + 1; c < count; ++c) ways.push_back({a, b, c});
        }
    }
    std::ranges::stable_sort(ways, {}, [](const auto& way) { return way.size(); });
    return ways;
}

/// The expression of factors that were found.
Expr sum_of(const SumForm& form, std::span<const double> times) {
    std::optional<Expr> sum;
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (times[i] == 0) continue;
        const Expr term = times[i] == 1 ? form.terms[i] : number(times[i]) * form.terms[i];
        sum = sum ? *sum + term : term;
    }
    const Expr all = sum.value_or(Expr(0));
    return form.is_exponent ? exp(all) : all;
}

/// A result has the roundings of a healthy one, too, and is stored; before the first tile there is nothing to rescale.
Change becomes(const SumForm& form, Stage stage, const Expr& sum) {
    if (form.variable != var::result) return rewritten({{form.variable, if_any(form.variable, sum)}});
    Change change = rewritten({{var::result, sum}});
    change.result = [=, sums = change.result](const SearchedTile& site, Estimate& result) {
        const Estimate right = result;
        sums(site, result);
        const DumpFactor unit = dump_factor(*site.call, stage, site.first_row, site.first_key,
                                            result.value.rows(), result.value.cols());
        for (Eigen::Index i = 0; i < result.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < result.value.cols(); ++j) {
                const double value = result.value(i, j);
                if (!std::isfinite(value) || value == right.value(i, j)) continue;
                result.error(i, j) +=
                    right.error(i, j) +
                    cast_after(site, stage, std::abs(value * unit.at(i, j))) / std::abs(unit.at(i, j));
            }
        }
    };
    return change;
}

}  // namespace

std::vector<Candidate> combinations(const Evidence& evidence, const SumForm& form) {
    std::vector<Candidate> candidates;
    if (!can_be_read(evidence)) return candidates;
    constexpr std::size_t fewest = 8;
    const std::vector<Equation> equations = equations_of(evidence, form);
    if (equations.size() < fewest) return candidates;
    std::vector<std::string> names;
    for (const Expr& term : form.terms)
        names.push_back(term.is_number() ? "" : term.is_sum() ? "(" + term.text() + ")" : term.text());
    for (const std::vector<std::size_t>& way : ways_to_choose(form.terms.size())) {
        if (way.size() > 2 && !candidates.empty()) break;
        const auto found = combination_of(with_terms(equations, way), known_numbers(evidence));
        if (!found || std::ranges::any_of(*found, [](const KnownNumber& c) { return c.value == 0; }))
            continue;
        std::vector<KnownNumber> told(form.terms.size());
        std::vector<double> times(form.terms.size(), 0);
        for (std::size_t i = 0; i < way.size(); ++i) {
            told[way[i]] = (*found)[i];
            times[way[i]] = (*found)[i].value;
        }
        int unusual = 0;
        for (std::size_t i = 0; i < times.size(); ++i) unusual += times[i] != form.usual[i];
        if (unusual == 0) continue;
        const std::string text = text_of_sum(told, names);
        candidates.push_back({{{form.parameter, form.is_exponent ? "exp(" + text + ")" : text}},
                              becomes(form, evidence.acts, sum_of(form, times)),
                              unusual});
    }
    return candidates;
}

}  // namespace tilescope
