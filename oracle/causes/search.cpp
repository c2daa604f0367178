#include "oracle/causes/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "oracle/causes/ancestry.h"
#include "oracle/causes/in_parallel.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/where.h"
#include "oracle/causes/zeros.h"
#include "oracle/describe/bits.h"

namespace tilescope {

namespace {

/// Of the work that is left: for one cause, and for what numbers of all of them are read from, before they are tried.
constexpr double share_of_one = 0.25;
constexpr double share_of_reading = 0.5;

/// What is tried one after the other.
enum class Tried : std::uint8_t { names, formulas, forms };

Tried kind_of(const Cause& cause) {
    return !cause.form ? Tried::names : cause.name == formula_name ? Tried::formulas : Tried::forms;
}

bool is_tried(const Evidence& evidence, const Cause& cause, Tried kind) {
    return cause.candidates && kind_of(cause) == kind && std::ranges::count(cause.stages, evidence.acts) > 0;
}

std::vector<Trial> trials_of(const Evidence& evidence, Tried kind, int threads) {
    std::vector<const Cause*> causes;
    for (const Cause& cause : all_causes())
        if (is_tried(evidence, cause, kind)) causes.push_back(&cause);
    std::vector<std::vector<Candidate>> of_cause(causes.size());
    const auto name = [&](std::size_t i) { return causes[i]->name; };
    const std::vector<bool> are_known = evidence.world->attempts().each(
        causes.size(), threads, share_of_one, share_of_reading, name, [&](std::size_t i) {
            of_cause[i] = causes[i]->candidates(evidence);
            return false;
        });
    std::vector<Trial> trials;
    for (std::size_t i = 0; i < causes.size(); ++i) {
        if (!are_known[i]) continue;
        for (Candidate& candidate : of_cause[i]) {
            const Cause* cause = candidate.name.empty() ? causes[i] : &cause_named(candidate.name);
            if (!evidence.world->leaves_out(cause->name)) trials.push_back({cause, std::move(candidate), {}});
        }
    }
    // In the order of the table, in which those of one name stand together.
    std::ranges::stable_sort(trials, {}, &Trial::cause);
    return trials;
}

/// Those of a kind, each replayed once.
std::vector<Trial> tried(const Evidence& evidence, Tried kind, int threads) {
    std::vector<Trial> trials = trials_of(evidence, kind, threads);
    const auto name = [&](std::size_t i) { return trials[i].cause->name; };
    const std::vector<bool> came_to_end =
        evidence.world->attempts().each(trials.size(), threads, share_of_one, 1, name, [&](std::size_t i) {
            trials[i].misfit = misfit_of(evidence, trials[i].candidate.change);
            return false;
        });
    std::vector<Trial> ended;
    for (std::size_t i = 0; i < trials.size(); ++i)
        if (came_to_end[i]) ended.push_back(std::move(trials[i]));
    return ended;
}

/// Elements that one cause may leave more than another and still explain as much.
std::int64_t noise(const Evidence& evidence) {
    return evidence.wrong_elements / 1000;
}

/// Whether the same rows are wrong in every tile that diverges, one after the other.
bool are_rows_alike(const Evidence& evidence) {
    std::optional<Places> rows;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        const std::optional<Places> here = places_of(seen.bad_rows);
        if (!here || here->period > 0 || (rows && *rows != *here)) return false;
        rows = here;
    }
    return rows.has_value();
}

/// Of a list of the tiles, or of the rows, that diverge, in parameters. What a word tells costs one for each step; a
/// longer list its bits.
int cost_of_list(const Evidence& evidence, Scope scope) {
    constexpr double bits_of_scope_parameter = 16;
    if (scope != Scope::bad_rows || are_rows_alike(evidence)) return int(scope);
    std::int64_t bad = 0;
    std::int64_t all = 0;
    for (const Observation& seen : evidence.seen) {
        bad += std::ranges::count(seen.bad_rows, true);
        all += std::ssize(seen.bad_rows);
    }
    return int(scope) + int(choice_bits(bad, all) / bits_of_scope_parameter);
}

/// The widest scope in which next to nothing is left.
void choose_scope(const Evidence& evidence, const Misfit& misfit, double enough, Found& found) {
    const auto most = std::int64_t(double(evidence.wrong_elements) * (1 - enough));
    for (const Scope scope : {Scope::everywhere, Scope::bad_tiles, Scope::bad_rows}) {
        found.scope = scope;
        take_misfit(misfit, found);
        if (found.left <= most) break;
    }
    found.scope_cost = cost_of_list(evidence, found.scope);
}

/// Elements that a rule tells in place of a list of rows, where it explains enough of what is wrong in as few words. Of
/// whole tiles a rule says no more than their numbers, and may be wrong of those that were not recorded.
void choose_rule(const Evidence& evidence, const Misfit& misfit, double enough, Found& found) {
    const auto most = std::int64_t(double(evidence.wrong_elements) * (1 - enough));
    // What memory keeps depends on where it is written: a list of tiles or rows does not tell that.
    const bool is_listed = found.scope != Scope::everywhere && found.candidate.change.made_where;
    const bool is_of_tiles = found.cause->name == skipped_kv_tile_name;
    if (!is_listed && (found.scope != Scope::bad_rows || is_of_tiles)) return;
    if (misfit.unexplained > most) return;
    std::optional<RuledChange> ruled = with_rule(evidence, found.candidate.change);
    if (!ruled) return;
    const int cost = 1 + ruled->conditions;
    if (found.left <= most && !is_listed && cost > found.scope_cost) return;
    const Misfit with_rule = misfit_of(evidence, ruled->change);
    if (with_rule.anywhere() > most) return;
    found.scope = Scope::ruled;
    found.scope_cost = cost;
    take_misfit(with_rule, found);
    found.rule = std::move(ruled->rule);
    found.candidate.change = std::move(ruled->change);
}

/// Whether all that the stage is computed from was dumped, or is an operand: then its NaN is made in it.
bool comes_from_known(const Evidence& evidence) {
    constexpr std::array inner = {Stage::s, Stage::m, Stage::p};
    return evidence.direct() && std::ranges::all_of(inner, [&](Stage stage) {
               return stage >= evidence.acts || evidence.world->has(stage);
           });
}

/// Whether the replay says anything that wider budgets and NaN everywhere do not.
bool tells(const Evidence& evidence, const Trial& trial) {
    // Many formulas leave no number: a missing guard is what leaves that alone.
    if (trial.candidate.change.formula && trial.misfit.by_value == 0 && !trial.candidate.lacks_guard)
        return false;
    const bool more_than_nan =
        trial.misfit.tells_more_than_nan() || (comes_from_known(evidence) && trial.misfit.anywhere() == 0);
    return trial.misfit.tells_values() && (trial.cause->legal || more_than_nan);
}

/// Parameters, whether fitted or one of those that are tried, and the scope.
std::int64_t parameters_of(const Found& found) {
    return std::max<std::int64_t>(std::ssize(found.candidate.parameters) + found.scope_cost, found.cost());
}

/// The number that all that is wrong holds, as where nothing is stored.
std::optional<float> one_number_of(const Evidence& evidence) {
    constexpr std::int64_t enough = 16;
    std::set<float> values;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size() && values.size() < 2; ++i)
            if (seen.wrong[std::size_t(i)] && !std::isnan(seen.got.data()[i]))
                values.insert(seen.got.data()[i]);
    }
    if (values.size() != 1) return std::nullopt;
    // An infinite output is what any row has that takes itself for empty, or whose sum overflows.
    const float value = *values.begin();
    const bool is_telling =
        evidence.wrong_elements >= enough || (std::isinf(value) && is_output(evidence.observed));
    return is_telling ? std::optional(value) : std::nullopt;
}

/// Rows of an output without a value: so a guard in any stage before leaves them.
bool is_left_by_guard(const Evidence& evidence) {
    const std::optional<float> number = one_number_of(evidence);
    if (!is_output(evidence.observed) || !number || (*number != 0 && !std::isinf(*number))) return false;
    return std::ranges::all_of(evidence.seen, [&](const Observation& seen) {
        for (Eigen::Index row = 0; row < seen.got.rows(); ++row) {
            const bool is_left = (seen.got.row(row).array() == *number).all();
            if (seen.bad_rows[std::size_t(row)] && !is_left) return false;
        }
        return true;
    });
}

bool leaves_zeros(const Found& one) {
    return one.cause->name == rows_uncovered_name &&
           std::ranges::find(one.candidate.parameters, CauseParameter{"left", "0"}) !=
               one.candidate.parameters.end();
}

}  // namespace

void take_misfit(const Misfit& misfit, Found& found) {
    found.left = left_by(found.scope, misfit);
    found.open = open_by(found.scope, misfit);
    found.open_left = misfit.unknown_left;
    found.open_anywhere = open_by(Scope::everywhere, misfit);
}

void leave_out_guesses(const Evidence& evidence, std::vector<Found>& found) {
    constexpr std::int64_t few = 2;
    const auto is_from_afar = [&](const Found& one) {
        return !one.by_value && one.acts != evidence.observed;
    };
    const std::optional<float> one_number = one_number_of(evidence);
    const bool may_be_zeros = one_number == 0.0F || std::ranges::any_of(found, leaves_zeros);
    const bool zeros_tell_nothing =
        evidence.observed == Stage::o && may_be_zeros && zeros_have_other_explanations(evidence);
    std::set<std::string_view> faults;
    std::set<std::string_view> from_afar;
    for (const Found& one : found) {
        if (one.cause->legal) continue;
        faults.insert(one.cause->name);
        if (is_from_afar(one)) from_afar.insert(one.cause->name);
    }
    std::erase_if(found, [&](const Found& one) {
        const std::int64_t explained = evidence.wrong_elements - one.left;
        if (one.cause->legal) return false;
        // What leaves o and lse as they are is no guess from either.
        if (one.candidate.explains_others) return false;
        if (explained < parameters_of(one) || explained < 2 * one.candidate.fitted) return true;
        if (one_number && (one.acts != evidence.observed || one.candidate.is_made_before)) return true;
        // One number stands at many addresses.
        if (one_number && one.cause->family == "address") return true;
        if (is_from_afar(one) &&
            (one.cost() > 0 || !one.candidate.parameters.empty() || from_afar.size() > 1))
            return true;
        if (zeros_tell_nothing && (one_number || leaves_zeros(one))) return true;
        return explained <= few && (one.cost() > 0 || !one.by_value || faults.size() > 1);
    });
}

bool are_tied(const Found& a, const Found& b, const Evidence& evidence) {
    return std::abs(a.left - b.left) <= noise(evidence) && a.cost() == b.cost();
}

namespace {

/// Those of the trials that explain enough, as search() has them.
std::vector<Found> chosen_of(const Evidence& evidence, const std::vector<Trial>& trials, double enough) {
    const std::int64_t grain = noise(evidence) + 1;
    const auto better = [&](const Found& a, const Found& b) {
        return std::tuple(a.left / grain, a.cost()) < std::tuple(b.left / grain, b.cost());
    };
    std::vector<Found> found;
    for (const Trial& trial : trials) {
        if (!tells(evidence, trial)) continue;
        Found next;
        next.cause = trial.cause;
        next.candidate = trial.candidate;
        next.acts = evidence.acts;
        next.by_value = trial.misfit.by_value > 0;
        choose_scope(evidence, trial.misfit, enough, next);
        evidence.world->attempts().one(trial.cause->name, share_of_one,
                                       [&] { choose_rule(evidence, trial.misfit, enough, next); });
        if (double(next.left) > double(evidence.wrong_elements) * (1 - enough)) continue;
        if (!found.empty() && found.back().cause == next.cause) {
            // Of those that explain as much the one that leaves less open.
            const bool is_as_good =
                !better(found.back(), next) && next.open_anywhere < found.back().open_anywhere;
            if (better(next, found.back()) || is_as_good) found.back() = std::move(next);
        } else {
            found.push_back(std::move(next));
        }
    }
    leave_out_guesses(evidence, found);
    std::ranges::stable_sort(found, better);
    return found;
}

/// Of a cause that explains it in several stages the best, and those that are as good in another stage: which of
/// them it is one recording does not tell.
void keep_best_of_each(const Evidence& evidence, std::vector<Found>& found) {
    std::vector<Found> kept;
    for (Found& one : found) {
        const auto best =
            std::ranges::find(kept, one.cause->name, [](const Found& other) { return other.cause->name; });
        const bool is_in_same_stage = std::ranges::any_of(kept, [&](const Found& other) {
            return other.cause->name == one.cause->name && other.acts == one.acts;
        });
        if (best == kept.end() || (are_tied(*best, one, evidence) && !is_in_same_stage))
            kept.push_back(std::move(one));
    }
    found = std::move(kept);
}

/// What it does not explain, and what it says nothing of, in so coarse steps that chance makes none.
std::int64_t unsaid(const Evidence& evidence, const Found& one) {
    return (one.left + one.open_anywhere) / (evidence.wrong_elements / 1000 + 1);
}

/// A form says no more than a mistake by name that explains as much, and leaves no more than it.
void leave_out_forms(const Evidence& evidence, std::vector<Found>& found) {
    const auto named = std::ranges::find(found, false, [](const Found& one) { return one.cause->form; });
    if (named == found.end()) return;
    const std::int64_t left = unsaid(evidence, *named);
    const int cost = named->cost();
    std::erase_if(found, [&](const Found& one) {
        return one.cause->form && unsaid(evidence, one) >= left && one.cost() >= cost;
    });
}

}  // namespace

std::vector<Found> search(const Evidence& evidence, double enough, int threads) {
    std::vector<Trial> trials = tried(evidence, Tried::names, threads);
    for (const Tried kind : {Tried::formulas, Tried::forms})
        for (Trial& form : tried(evidence, kind, threads)) trials.push_back(std::move(form));
    return chosen_of(evidence, trials, enough);
}

SingleCauses::SingleCauses(const Evidence& evidence, bool is_first, int threads) : evidence_(evidence) {
    for (const Stage acts : acting_stages(evidence))
        if (acts == evidence.observed || evidence.beneath.empty())
            trials_.emplace_back(acts, std::vector<Trial>());
    // What explains numbers may be as good an explanation by a name and by a formula.
    for (const Tried kind : {Tried::names, Tried::formulas, Tried::forms}) {
        if (is_explained(kind == Tried::formulas)) break;
        if (kind == Tried::formulas && !is_first && is_left_by_guard(evidence)) continue;
        for (auto& [acts, trials] : trials_) {
            evidence_.acts = acts;
            for (Trial& trial : tried(evidence_, kind, threads)) trials.push_back(std::move(trial));
        }
    }
}

/// Whether a formula, or a mistake by name in which nothing was fitted, explains all of it, wherever it is made; if that is asked for,
/// without a number.
bool SingleCauses::is_explained(bool without_numbers) const {
    Evidence here = evidence_;
    return std::ranges::any_of(trials_, [&](const auto& of_stage) {
        here.acts = of_stage.first;
        return here.direct() && std::ranges::any_of(of_stage.second, [&](const Trial& trial) {
                   const bool is_choice =
                       !trial.cause->form && trial.candidate.free_parameters + trial.candidate.fitted > 0;
                   const bool is_enough = !without_numbers || trial.misfit.by_value == 0;
                   return !trial.cause->legal && !is_choice && is_enough &&
                          trial.misfit.anywhere() <= noise(here) && tells(here, trial);
               });
    });
}

std::vector<Found> SingleCauses::explaining(double share) const {
    std::vector<Found> all;
    Evidence here = evidence_;
    for (const auto& [acts, trials] : trials_) {
        here.acts = acts;
        // Tiles of a dumped stage that are not there were likelier skipped than computed otherwise.
        const bool is_of_missing_tiles = acts != here.observed && here.world->has(acts);
        for (Found& found : chosen_of(here, trials, share))
            if (!is_of_missing_tiles || found.cause->name == skipped_kv_tile_name)
                all.push_back(std::move(found));
    }
    std::ranges::stable_sort(all, [&](const Found& a, const Found& b) {
        return std::pair(unsaid(here, a), a.cost()) < std::pair(unsaid(here, b), b.cost());
    });
    keep_best_of_each(here, all);
    leave_out_guesses(here, all);
    leave_out_forms(here, all);
    return all;
}

}  // namespace tilescope
