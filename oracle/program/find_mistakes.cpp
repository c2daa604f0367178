#include "oracle/program/find_mistakes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "dump/schema/error.h"
#include "oracle/describe/bits.h"
#include "oracle/program/build.h"
#include "oracle/program/conditions.h"
#include "oracle/program/fitted_numbers.h"
#include "oracle/program/grown_state.h"
#include "oracle/program/no_numbers.h"
#include "oracle/program/offered_rewrites.h"
#include "oracle/program/picked_indices.h"
#include "oracle/program/place_conditions.h"
#include "oracle/program/reader_alone.h"
#include "oracle/program/rewrites.h"
#include "oracle/program/rewritten.h"
#include "oracle/program/searched_call.h"
#include "oracle/program/solved.h"
#include "oracle/program/store_mistakes.h"
#include "oracle/program/weighed_mistake.h"
#include "oracle/program/wrong_places.h"

namespace tilescope {

namespace {

/// A formula of a stage before the one that was seen to be wrong.
constexpr double bits_of_other_stage = 2;
/// One mistake is likelier than two: of what explains another wrong stage as well, or where the kernel left no number beside the numbers,
/// the other one need not be described.
constexpr double bits_of_second = 8;
/// What it reads beyond an array, where another one may say what stands there.
constexpr double bits_of_open = 2;
/// Of one whose numbers have fewer digits yet.
constexpr double bits_of_wider_type = 4;
/// Of what kernels are known to do.
constexpr double bits_of_known = -4;
/// Of two that are as short the one that leaves less is likelier.
constexpr double bits_of_element_left = 1;
constexpr double most_bits_left = 8;
/// That there is no number tells less than a formula that makes none.
constexpr double bits_of_no_reason = 6;
/// What is said shorter is no other place of a store.
constexpr double least_bits_of_store = 6;
/// That are held against tiles.
constexpr std::size_t most_looked_at = 96;
/// Of the stages behind the first wrong one.
constexpr std::size_t most_stages_searched = 3;

class MistakeSearch {
 public:
    MistakeSearch(const ProgramCall& call, const StoredTiles& stored, const ProgramReport& report,
                  const ProgramOptions& options, std::optional<Dtype> kept_as = std::nullopt)
        : searched_(call, stored, report, options, kept_as),
          declared_(call.program),
          program_(searched_.program()),
          report_(report) {
        for (const int stage : searched_.rewritten()) {
            const auto follows = [&](const StageVerdict& other) { return is_wrong_behind(other, stage); };
            if (stage != searched_.wrong() && std::ranges::any_of(report_.stages, follows))
                shared_.insert(stage);
        }
    }

    /// What is stored is none of the numbers of its type.
    bool is_kept_wider() const { return searched_.is_kept_wider(); }

    FoundMistakes run() {
        // What was solved for mostly is it, and how long that is bounds what else is worth a replay.
        const SolvedRewrites solved(searched_);
        std::vector<ProgramRewrite> of_all = solved.all();
        add_variants(searched_, of_all);
        price(of_all);
        try_out(of_all);
        if (!says_most(found_)) {
            // Few, so that they need not take from what the lists may take.
            const std::int64_t before = elements_computed();
            std::vector<ProgramRewrite> fitted = fitted_numbers(searched_);
            for (ProgramRewrite& rewrite : picked_indices(searched_)) fitted.push_back(std::move(rewrite));
            begun_ += elements_computed() - before;
            price(fitted);
            try_out(fitted);
        }
        if (searched_.options().searches_stores && shortest_ > least_bits_of_store) try_stores();
        std::vector<ProgramRewrite> rewrites = listed_rewrites(searched_);
        price(rewrites);
        try_out(rewrites);
        if (found_.empty() && searched_.options().tells_parts && !is_cut_off_) {
            for (const ProgramRewrite& rewrite : of_all) keep_part(found_of(rewrite));
            std::vector<ProgramRewrite> of_halves = solved.of_halves();
            price(of_halves);
            for (const ProgramRewrite& rewrite : of_halves) keep_part(found_of(rewrite));
            for (const ProgramRewrite& rewrite : rewrites)
                if (rewrite.is_known) keep_part(found_of(rewrite));
        }
        std::vector<ProgramMistake> told = as_short_as_any(found_, parts_);
        const bool is_all = !told.empty() && told.front().explained >= most_of_wrong;
        FoundMistakes found;
        found.sets_none_apart = searched_.sets_none_apart() && !is_all;
        if (!is_all) found.besides = without_number(searched_);
        if (told.empty() && !searched_.options().tells_parts) found.wrong_where = where_wrong(searched_);
        found.wrong_is_none = !found.wrong_where.empty() && !some_wrong_is_finite(searched_);
        found.mistakes = std::move(told);
        found.is_cut_off = is_cut_off_;
        found.seen_in = searched_.wrong();
        found.program = std::make_shared<const Program>(program_);
        return found;
    }

 private:
    RewriteOutcome outcome_of(const WeighedMistake& found, bool in_tiles, double share = most_of_wrong) {
        if (elements_computed() - begun_ > searched_.options().searched_elements) {
            is_cut_off_ = true;
            return {};
        }
        const Rewritten with(program_, found.rewrite, found.dtype);
        try {
            return in_tiles ? searched_.outcome_in_tiles(found.rewrite.stage, share)
                            : searched_.outcome_in_parts(found.rewrite.stage, share);
        } catch (const Error&) {
            // It needs too much memory at once.
            is_cut_off_ = true;
            return {};
        }
    }

    /// If it explains whatever it may.
    double least_bits(const ProgramRewrite& rewrite) const {
        return rewrite.bits - (shared_.contains(rewrite.stage) ? bits_of_second : 0);
    }

    /// What is known of kernels, and in which stage it is, added to their bits.
    void price(std::vector<ProgramRewrite>& rewrites) const {
        const auto& is_known = searched_.options().is_known_mistake;
        for (ProgramRewrite& rewrite : rewrites) {
            if (rewrite.stage != searched_.wrong()) rewrite.bits += bits_of_other_stage;
            rewrite.is_known = is_known && is_known(program_, rewrite.stage, rewrite.value, rewrite.is_start);
            if (rewrite.is_known) rewrite.bits += bits_of_known;
        }
        std::ranges::stable_sort(rewrites, {}, [&](const ProgramRewrite& one) { return least_bits(one); });
    }

    WeighedMistake found_of(const ProgramRewrite& rewrite) const {
        return {rewrite,
                rewrite.dtype.value_or(program_.array(rewrite.stage).dtype),
                {.stage = rewrite.stage,
                 .slot = rewrite.slot,
                 .bits = rewrite.bits,
                 .is_known = rewrite.is_known}};
    }

    /// The shorter ones first, until none that is left is as short as one that explains it. What explains the parts is held against the
    /// tiles, and where it holds is read from these.
    void try_out(const std::vector<ProgramRewrite>& rewrites) {
        for (const ProgramRewrite& rewrite : rewrites) {
            const double bits = least_bits(rewrite);
            if (bits > shortest_ + bits_of_known_as_short || looked_at_ == most_looked_at) break;
            if (bits > shortest_ + as_short(rewrite.is_known)) continue;
            WeighedMistake found = found_of(rewrite);
            if (!outcome_of(found, false).is_possible) continue;
            ++looked_at_;
            if (!complete(found)) continue;
            if (shared_.contains(found.rewrite.stage)) {
                found.mistake.explains_others = explains_others(found);
                if (found.mistake.explains_others) found.saved += bits_of_second;
            }
            if (is_contradicted(found)) {
                found.mistake.explains_others = false;
                std::optional<WeighedMistake> here = in_reader_alone(found);
                if (here && complete(*here)) {
                    found = std::move(*here);
                } else {
                    found.mistake.becomes += ", for " + program_.array(searched_.wrong()).name + " alone";
                    found.mistake.bits += bits_of_other_stage;
                }
            }
            add(std::move(found));
        }
        std::ranges::stable_sort(found_, {}, &WeighedMistake::bits);
    }

    /// Beside what leaves much open a longer one is looked for.
    void add(WeighedMistake found) {
        if (!is_mostly_open(found.mistake)) shortest_ = std::min(shortest_, found.bits());
        found_.push_back(std::move(found));
    }

    /// What of it stands at another place than its own.
    void try_stores() {
        const std::int64_t before = elements_computed();
        try {
            for (ProgramMistake& mistake : store_mistakes(searched_)) {
                WeighedMistake found{
                    {.stage = mistake.stage, .value = mistake.value}, mistake.dtype, std::move(mistake)};
                const double wrong = (1 - found.mistake.healthy) * double(found.mistake.elements);
                found.open = double(found.mistake.open) / wrong;
                // Where kernels are known a store is among what they are known to do.
                found.mistake.is_known = bool(searched_.options().is_known_mistake);
                if (found.mistake.is_known) found.mistake.bits += bits_of_known;
                // Where there is no number it says as well.
                if (searched_.sets_none_apart()) found.saved = bits_of_second;
                add(std::move(found));
            }
        } catch (const Error&) {
            is_cut_off_ = is_cut_off_ || found_.empty();
        }
        begun_ += elements_computed() - before;
        std::ranges::stable_sort(found_, {}, &WeighedMistake::bits);
    }

    /// What explains a part of what is wrong, as one of two mistakes does.
    void keep_part(WeighedMistake found) {
        if (!outcome_of(found, false, enough_of_wrong).is_possible || !complete(found, enough_of_wrong))
            return;
        found.mistake.is_part = true;
        parts_.push_back(std::move(found));
    }

    std::optional<LostDigits> lost_digits(const WeighedMistake& found) {
        const Rewritten with(program_, found.rewrite, found.dtype);
        return searched_.lost_digits();
    }

    /// Numbers that end where those of bfloat16 do are rarely of a type with more digits.
    static bool ends_earlier(LostDigits lost, const RewriteOutcome& outcome) {
        if (lost.type != Dtype::f16) return false;
        lost.type = Dtype::bf16;
        return std::ranges::all_of(outcome.explained,
                                   [&](const LookedElement* element) { return lost.lacks(element->got); });
    }

    /// False: it does not explain so much of the tiles.
    bool complete(WeighedMistake& found, double share = most_of_wrong) {
        const RewriteOutcome outcome = outcome_of(found, true, share);
        if (!outcome.is_possible) return false;
        const std::optional<LostDigits> lost = lost_digits(found);
        found.mistake.is_narrower = lost.has_value();
        if (lost && ends_earlier(*lost, outcome)) found.mistake.bits += bits_of_wider_type;
        // Small numbers are 0 in many types, and where they are left out.
        const auto is_zero = [](const LookedElement* element) { return element->got == 0; };
        if (found.mistake.is_narrower && std::ranges::all_of(outcome.explained, is_zero)) return false;
        ProgramMistake& mistake = found.mistake;
        mistake.becomes = program_text(program_, found.rewrite.value);
        if (found.rewrite.is_start) mistake.becomes = "from " + mistake.becomes;
        mistake.seen_in = searched_.wrong();
        mistake.value = found.rewrite.value;
        mistake.also = found.rewrite.also;
        for (const StageFormula& other : mistake.also)
            mistake.becomes +=
                "; " + program_.array(other.stage).name + " " + program_text(program_, other.value);
        mistake.is_start = found.rewrite.is_start;
        mistake.dtype = found.dtype;
        mistake.is_none = std::isnan(program_.node(found.rewrite.value).number);
        if (found.dtype != declared_.array(found.rewrite.stage).dtype)
            mistake.becomes = std::string(dtype_info(found.dtype).name) + ": " + mistake.becomes;
        const double all = double(outcome.right + outcome.wrong + outcome.apart);
        mistake.healthy = double(outcome.right) / all;
        found.open = double(outcome.open) / double(outcome.wrong);
        if (outcome.open > 0) mistake.bits += bits_of_open;
        std::int64_t otherwise = outcome.unexplained + outcome.open + std::ssize(outcome.broken);
        double few = (1 - most_of_right) * double(outcome.right);
        if (share < most_of_wrong) few = std::max(few, broken_by_chance * double(outcome.wrong));
        if (double(outcome.broken.size() + outcome.right_open.size()) > few) {
            // What stands beyond an array may be multiplied with 0.
            const bool is_everywhere =
                double(outcome.broken.size()) <= few &&
                double(outcome.right_open.size()) <= most_open_of_right * double(outcome.right);
            const std::optional<FoundCondition> condition =
                is_everywhere ? std::nullopt : condition_of(outcome);
            if (!condition && !is_everywhere) {
                std::optional<WeighedMistake> grown = where_a_state_grew(found, outcome);
                if (!grown) return false;
                found = std::move(*grown);
                return complete(found, share);
            }
            if (condition) {
                found.is_in_places = true;
                mistake.where = program_text(program_, condition->node);
                mistake.condition = condition->node;
                mistake.bits += condition->bits;
                otherwise = outcome.unexplained + outcome.open;
            }
        }
        const std::int64_t apart = outcome.apart - outcome.apart_right;
        if (outcome.apart > 0 && mistake.where.empty() &&
            double(apart) <= (1 - most_of_wrong) * double(outcome.apart))
            found.saved = bits_of_second;
        mistake.explained = 1 - double(otherwise + apart) / all;
        mistake.elements = outcome.right + outcome.wrong + outcome.apart;
        mistake.open = outcome.open;
        found.left = std::min(most_bits_left, bits_of_element_left * double(otherwise - outcome.open));
        if (mistake.is_none) found.left += bits_of_no_reason;
        take_out_condition(found);
        // A list of the wrong elements, a bit for each, would be a description as well; where tolerances are wide much explains them.
        const double listed = listing_bits(outcome.wrong, mistake.elements) + double(outcome.wrong);
        return 2 * mistake.bits <= listed && is_evident(mistake, outcome);
    }

    /// Of numbers. What is not finite is so by many formulas, and anything is in the places of a condition.
    bool is_evident(const ProgramMistake& mistake, const RewriteOutcome& outcome) const {
        if (mistake.bits <= outcome.evidence) return true;
        return without_number(outcome) > 0 &&
               (mistake.is_none ||
                (mistake.where.empty() && outcome.right > 0 && leaves_out(program_, mistake)));
    }

    /// What the formula says of the places in which it is so is a condition of these.
    void take_out_condition(WeighedMistake& found) {
        ProgramMistake& mistake = found.mistake;
        const ProgramRewrite& rewrite = found.rewrite;
        if (rewrite.is_start || !rewrite.also.empty()) return;
        const ProgramArray& array = program_.array(rewrite.stage);
        const ProgramArray& wrong = program_.array(searched_.wrong());
        // Of a stage that the wrong one takes element by element the places are the same.
        const auto is_same = [&](int one, int other) { return are_alike(program_, one, other); };
        const bool is_of_places =
            rewrite.stage == searched_.wrong() ||
            (std::ranges::equal(array.indices, wrong.indices, is_same) && array.over < 0 && wrong.over < 0 &&
             !straight_reads(program_, wrong.value, rewrite.stage).empty());
        if (!is_of_places) return;
        const std::optional<FormulaWhere> out =
            taken_out(program_, array.value, rewrite.value, axes_of(program_, rewrite.stage));
        if (!out) return;
        mistake.value = out->value;
        mistake.condition = ProgramBuilder(program_).both(mistake.condition, out->condition);
        mistake.becomes = program_text(program_, mistake.value);
        mistake.where = program_text(program_, mistake.condition);
    }

    /// The same, where a state grew in the block, or stayed as it was.
    std::optional<WeighedMistake> where_a_state_grew(const WeighedMistake& found,
                                                     const RewriteOutcome& outcome) {
        const ProgramRewrite& rewrite = found.rewrite;
        if (found.depends_on_state || rewrite.stage != searched_.wrong() || rewrite.is_start ||
            !rewrite.also.empty())
            return std::nullopt;
        const std::optional<int> condition = condition_of_states(program_, searched_, outcome);
        if (!condition) return std::nullopt;
        WeighedMistake grown = found;
        grown.depends_on_state = true;
        grown.rewrite.value =
            where_they_differ(program_, program_.array(rewrite.stage).value, rewrite.value, *condition);
        grown.rewrite.bits += bits_of_state;
        grown.mistake.bits += bits_of_state;
        return grown;
    }

    /// The same formula, written out in that of the wrong stage, which alone takes it so; nullopt: it does not take that stage as it is.
    std::optional<WeighedMistake> in_reader_alone(const WeighedMistake& found) {
        const std::optional<int> value = written_in(program_, searched_.wrong(), found.rewrite);
        if (!value) return std::nullopt;
        WeighedMistake here = found;
        here.rewrite.stage = here.mistake.stage = searched_.wrong();
        here.rewrite.value = *value;
        here.dtype = program_.array(searched_.wrong()).dtype;
        here.mistake.bits = found.rewrite.bits;
        here.saved = 0;
        return here;
    }

    /// What holds of the elements that the rewrite explains, and of none that it would break.
    std::optional<FoundCondition> condition_of(const RewriteOutcome& outcome) {
        std::vector<LabelledIndices> places;
        for (const LookedElement* const element : outcome.explained) places.push_back({element->at, true});
        for (const auto* const right : {&outcome.broken, &outcome.right_open}) {
            for (const LookedElement* const element : *right) places.push_back({element->at, false});
        }
        return condition_of_places(searched_, places);
    }

    /// Whether another stage is wrong as well in which it takes part.
    bool is_wrong_behind(const StageVerdict& other, int stage) const {
        return other.stage != searched_.wrong() && other.outside > 0 &&
               searched_.takes_part_in(stage, other.stage);
    }

    /// What everything that was stored is, if the kernel has the mistake; nullopt: nothing can be said of it.
    std::optional<ProgramReport> report_with(const WeighedMistake& found) {
        const Rewritten with(program_, found.rewrite, found.dtype);
        try {
            return judge_program(searched_.call(), searched_.stored(), searched_.options());
        } catch (const Error&) {
            return std::nullopt;
        }
    }

    /// Whether it leaves what these stored. Much leaves all rows empty.
    bool explains_others(const WeighedMistake& found) {
        if (found.is_in_places) return false;
        const auto is_more_than_empty = [&](const StageVerdict& other) {
            return is_wrong_behind(other, found.rewrite.stage) &&
                   std::ranges::any_of(other.worst,
                                       [](const ProgramElement& one) { return one.got != -HUGE_VAL; });
        };
        const bool leaves_some = found.mistake.healthy >= 1 - most_of_wrong;
        if (!leaves_some && std::ranges::none_of(report_.stages, is_more_than_empty)) return false;
        const std::optional<ProgramReport> report = report_with(found);
        return report && std::ranges::all_of(report_.stages, [&](const StageVerdict& other) {
                   return !is_wrong_behind(other, found.rewrite.stage) ||
                          double(report->verdict_of(other.stage).outside) <=
                              (1 - most_of_wrong) * double(other.outside);
               });
    }

    /// Whether stages that were right would not be, with the mistake in what they take as well.
    bool is_contradicted(const WeighedMistake& found) {
        const int stage = found.mistake.stage;
        const bool has_others = std::ranges::any_of(report_.stages, [&](const StageVerdict& other) {
            return other.stage != searched_.wrong() && other.outside == 0 && other.stage > stage &&
                   searched_.takes_part_in(stage, other.stage);
        });
        if (stage == searched_.wrong() || !has_others || found.is_in_places) return false;
        const std::optional<ProgramReport> report = report_with(found);
        return report && std::ranges::any_of(report->stages, [&](const StageVerdict& verdict) {
                   return verdict.outside > 0 && report_.verdict_of(verdict.stage).outside == 0;
               });
    }

    SearchedCall searched_;
    const Program& declared_;
    Program& program_;
    const ProgramReport& report_;
    std::int64_t begun_ = elements_computed();
    bool is_cut_off_ = false;
    std::size_t looked_at_ = 0;
    double shortest_ = HUGE_VAL;
    std::set<int> shared_;  ///< stages that nobody stored, and that other wrong ones take as well
    std::vector<WeighedMistake> found_;
    std::vector<WeighedMistake> parts_;  ///< each explains some of it
};

}  // namespace

double bits_to_choose(const ProgramMistake& mistake) {
    return mistake.bits - (mistake.is_known ? bits_of_known : 0);
}

FoundMistakes find_mistakes(const ProgramCall& call, const StoredTiles& stored, const ProgramReport& report,
                            ProgramOptions options) {
    // Of elements that nobody wrote no formula tells why.
    if (report.first_wrong < 0 || report.verdict_of(report.first_wrong).samples.empty()) return {};
    try {
        MistakeSearch search(call, stored, report, options);
        FoundMistakes found = search.run();
        const bool is_explained = !found.mistakes.empty() && !found.mistakes.front().is_part;
        if (is_explained || !search.is_kept_wider()) return found;
        FoundMistakes wider = MistakeSearch(call, stored, report, options, Dtype::f32).run();
        return wider.mistakes.empty() ? found : wider;
    } catch (const Error&) {
        // What is wrong is known: that a search for more takes too much memory is no reason to leave it out.
        FoundMistakes none;
        none.is_cut_off = true;
        return none;
    }
}

FoundMistakes find_all_mistakes(const ProgramCall& call, const StoredTiles& stored,
                                const ProgramReport& report) {
    FoundMistakes found = find_mistakes(call, stored, report);
    const bool explains_others = std::ranges::any_of(found.mistakes, &ProgramMistake::explains_others);
    if (found.is_cut_off || explains_others) return found;
    for (const StageVerdict& verdict : report.stages) {
        if (verdict.outside == 0 || verdict.stage == report.first_wrong) continue;
        if (found.then.size() == most_stages_searched) break;
        ProgramReport of_other = report;
        of_other.first_wrong = verdict.stage;
        found.then.push_back(find_mistakes(call, stored, of_other));
        if (found.then.back().is_cut_off) break;
    }
    return found;
}

}  // namespace tilescope
