#include "oracle/causes/two_mistakes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "oracle/causes/ancestry.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/formulas.h"
#include "oracle/causes/reported.h"
#include "oracle/causes/where.h"
#include "oracle/describe/bits.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

constexpr std::string_view unwritten_family = "unwritten / stale";

/// One mistake that is made with other parameters elsewhere: "which 0 and 1".
void add_parameters(const FoundCause& second, const Evidence& evidence, FoundCause& cause) {
    for (std::size_t i = 0; i < cause.parameters.size() && i < second.parameters.size(); ++i) {
        const CauseParameter& other = second.parameters[i];
        if (other.name == cause.parameters[i].name && other != cause.parameters[i])
            cause.parameters[i].value += " and " + other.value;
    }
    cause.free_parameters += second.free_parameters;
    cause.not_determined = second.not_determined;
    const double left = (1 - second.explained_after) * double(second.elements);
    cause.explained_after = 1 - left / double(evidence.compared);
}

/// Zeros in the place of rows.
bool is_of_bound(const Found& one) {
    return one.cause->name == rows_zeroed_name;
}

/// What a store moves elsewhere is missing where it should be, and the index of a load that leads elsewhere leads beyond its
/// bound as well: both are made by one index.
bool is_of_one_index(const Found& first, const Found& second) {
    const auto follows = [](const Found& index, const Found& missing) {
        if (index.cause->family != "address") return false;
        return missing.cause->family == unwritten_family ||
               (is_of_bound(missing) && index.cause->name == operand_addresses_name);
    };
    return is_operand(first.acts) && (follows(first, second) || follows(second, first));
}

/// One of two mistakes leaves more wrong than its tiles or rows tell: where it would change what is right, a rule tells it.
void narrow(const Evidence& evidence, Found& first) {
    Candidate& candidate = first.candidate;
    if (candidate.change.where || first.acts != evidence.observed) return;
    const Misfit misfit = misfit_of(evidence, candidate.change);
    if (misfit.anywhere() - misfit.unexplained <= evidence.wrong_elements / 100) return;
    std::optional<RuledChange> ruled = with_rule(evidence, candidate.change);
    if (!ruled) return;
    const Misfit with_rule = misfit_of(evidence, ruled->change);
    if (with_rule.anywhere() >= misfit.anywhere()) return;
    candidate.change = std::move(ruled->change);
    first.scope = Scope::ruled;
    first.rule = std::move(ruled->rule);
    take_misfit(with_rule, first);
}

/// The tiles of a kernel that makes the first mistake. What changes nothing but inputs is put into them: then what is solved
/// for starts from it.
Evidence beside(const Evidence& evidence, const Found& first) {
    const Change& change = first.candidate.change;
    const bool is_of_inputs = change.inputs && !change.result && first.acts == evidence.observed;
    if (is_of_inputs) return with_inputs(evidence, change);
    return with_known(evidence, first.acts, {change});
}

/// Whether it takes less than half of what a list of the wrong elements would.
bool is_shorter_than_list(const FoundCause& cause, const Evidence& evidence) {
    return 2 * cause.bits <= listing_bits(evidence.wrong_elements, evidence.compared);
}

/// Whether it gives most of what is wrong, by numbers of many kinds, and nothing else: then it is made, whatever else is.
bool is_proved_alone(const Evidence& evidence, const Found& first) {
    constexpr std::size_t enough_numbers = 32;
    std::set<float> numbers;
    std::int64_t explained = 0;
    std::int64_t changed_right = 0;
    visit_sides(evidence, first.candidate.change, [&](const Observation& seen, Eigen::Index i, Side side) {
        const float got = seen.got.data()[i];
        explained += side == Side::changed;
        changed_right += side == Side::healthy;
        if (side == Side::changed && std::isfinite(got)) numbers.insert(got);
    });
    return numbers.size() >= enough_numbers && 3 * explained >= 2 * evidence.wrong_elements &&
           100 * changed_right <= explained;
}

/// Places of which every other one may be without the second mistake: place / step % 2.
struct Halves {
    ElementPlace place;
    std::int64_t step;
};

constexpr Halves halves[] = {
    {ElementPlace::batch, 1},   {ElementPlace::head, 1}, {ElementPlace::q_block, 1}, {ElementPlace::row, 1},
    {ElementPlace::row, 8},     {ElementPlace::row, 16}, {ElementPlace::col, 1},     {ElementPlace::col, 4},
    {ElementPlace::kv_tile, 1}, {ElementPlace::rose, 1},
};

/// A search for two mistakes of a stage.
class PairSearch {
 public:
    PairSearch(const Evidence& evidence, const Report& report, int threads, Diagnosis& diagnosis)
        : evidence_(evidence), report_(report), threads_(threads), diagnosis_(diagnosis) {}

    void run(const SingleCauses& singles) {
        constexpr std::size_t most = 3;
        const bool is_first = evidence_.observed == *report_.guilty;
        std::vector<Found> firsts = singles.explaining(enough_of_two);
        // NaN goes on from what is wrong before.
        if (!is_first) std::erase_if(firsts, [](const Found& one) { return !one.by_value; });
        if (firsts.size() > most) firsts.resize(most);
        for (Found& first : firsts)
            if (is_one_of_two(std::move(first))) return;
        if (!is_first || acting_stages(evidence_).size() > 1) return;
        if (search_parts()) return;
        const auto best = std::ranges::min_element(tried_, {}, &Found::left);
        if (best == tried_.end() || !is_proved_alone(evidence_, *best)) return;
        diagnosis_.causes.push_back(report_of(*best, evidence_, report_));
        diagnosis_.causes.back().leaves_rest = true;
    }

 private:
    /// Where one mistake is made among the elements of the other, neither is seen alone but in a part of them.
    bool search_parts() {
        constexpr std::size_t most_tiles = 3;
        constexpr std::int64_t least_wrong = 16;
        // Each part is a search of its own: of large tiles few are worth their time.
        constexpr std::int64_t most_elements = 24'000;
        std::int64_t elements = 0;
        for (const Halves& half : halves) {
            for (const std::int64_t side : {0, 1}) {
                const Evidence part = part_of(
                    evidence_, most_tiles, [&](const SearchedTile& site, Eigen::Index row, Eigen::Index col) {
                        return place_of(half.place, site, evidence_.observed, row, col) / half.step % 2 ==
                               side;
                    });
                if (part.wrong_elements < least_wrong) continue;
                for (const Observation& seen : part.seen) elements += seen.got.size();
                if (elements > most_elements) return false;
                std::vector<Found> firsts = search(part, enough_of_one, threads_);
                if (!firsts.empty() && is_one_of_two(std::move(firsts[0]))) return true;
            }
        }
        return false;
    }

    /// Whether another mistake explains what it leaves; then both are reported.
    bool is_one_of_two(Found first) {
        const bool is_known = std::ranges::any_of(tried_, [&](const Found& other) {
            return other.cause == first.cause && other.candidate.parameters == first.candidate.parameters &&
                   other.acts == first.acts;
        });
        if (is_known) return false;
        Evidence here = evidence_;
        here.acts = first.acts;
        const Misfit misfit = misfit_of(here, first.candidate.change);
        take_misfit(misfit, first);
        first.left = misfit.anywhere();
        narrow(evidence_, first);
        tried_.push_back(first);
        const bool is_enough = double(first.left) <= (1 - enough_of_two) * double(evidence_.wrong_elements);
        return is_enough && add_pair(first, here);
    }

    /// The second explains what the first leaves, where both are made or where the first is not.
    bool add_pair(const Found& first, const Evidence& here) {
        const Evidence rests[] = {beside(here, first), without_explained(here, first.candidate.change)};
        const Evidence* rest = nullptr;
        std::optional<Found> second;
        const auto ease = [](const Found& one) { return std::pair(one.cause->form, one.cost()); };
        for (const Evidence& next : rests) {
            if (next.wrong_elements == 0 || next.wrong_elements >= evidence_.wrong_elements) continue;
            std::vector<Found> seconds = search(next, enough_of_one, threads_);
            // On top of another mistake a function fits too easily.
            if (seconds.empty() || (second && ease(*second) <= ease(seconds[0]))) continue;
            if (!is_shorter_than_list(report_of(seconds[0], next, report_), next)) continue;
            second = std::move(seconds[0]);
            rest = &next;
        }
        if (!second) return false;
        const std::shared_ptr<const FormulaChange>& formula = second->candidate.change.formula;
        const auto of_both = formula ? name_of_both(*formula, evidence_) : std::nullopt;
        if (of_both) second->cause = &cause_named(*of_both);
        diagnosis_.causes.push_back(report_of(first, evidence_, report_));
        FoundCause next = report_of(*second, *rest, report_);
        // Numbers that are solved for, each in its place, are no other parameters of one mistake.
        const bool is_again = second->cause == first.cause && !first.cause->form;
        if (of_both || (is_of_one_index(first, *second) && is_of_bound(first))) {
            // The formula is that of both; the index is what is wrong, and the bound follows it.
            next.explained_before = diagnosis_.causes.back().explained_before;
            diagnosis_.causes.back() = std::move(next);
        } else if (is_again || is_of_one_index(first, *second)) {
            add_parameters(next, evidence_, diagnosis_.causes.back());
        } else {
            diagnosis_.then.push_back(std::move(next));
        }
        return true;
    }

    const Evidence& evidence_;
    const Report& report_;
    int threads_;
    Diagnosis& diagnosis_;
    std::vector<Found> tried_;
};

}  // namespace

void find_two(const Evidence& evidence, const SingleCauses& singles, const Report& report, int threads,
              Diagnosis& diagnosis) {
    PairSearch(evidence, report, threads, diagnosis).run(singles);
}

}  // namespace tilescope
