#include "oracle/report/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "oracle/report/text.h"
#include "oracle/runs/stages_before.h"
#include "oracle/runs/wrong_threads.h"

namespace tilescope {

namespace {

std::string name_in(const Report& report, Stage stage) {
    return std::string(stage_info(report.problem, stage).name);
}

/// The rows of one head that are wrong.
struct BadHead {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::vector<std::int64_t> rows;  ///< ascending
};

std::vector<BadHead> bad_heads(const StageTally& tally) {
    std::vector<BadHead> heads;
    for (const BadRow& bad : tally.bad_rows) {
        if (heads.empty() || heads.back().batch != bad.batch || heads.back().head != bad.head)
            heads.push_back({bad.batch, bad.head, {}});
        heads.back().rows.push_back(bad.row);
    }
    return heads;
}

/// Rows of a head of the stage; 0 where its rows are neither q rows nor keys.
std::size_t rows_of_head(const Problem& problem, Stage stage) {
    const Axis axis = stage_info(problem, stage).row_axis;
    return std::size_t(axis == Axis::key ? problem.seqlen_kv : axis == Axis::query ? problem.seqlen_q : 0);
}

/// " of batch 1, head 2", as far as there are several.
std::string head_text(const Problem& problem, std::int64_t heads, const BadHead& bad) {
    std::string text;
    if (problem.batch > 1) text = fmt::format("batch {}", bad.batch);
    if (heads > 1) text += fmt::format("{}head {}", text.empty() ? "" : ", ", bad.head);
    return text.empty() ? "" : " of " + text;
}

/// "acc is wrong in every row, first in KV tile 1"
std::string what_and_where(const Report& report) {
    const Stage guilty = *report.guilty;
    const std::string what =
        report.other.empty() ? fmt::format("{} is wrong", name_in(report, guilty))
                             : fmt::format("{} differs between the two recordings", name_in(report, guilty));
    const StageInfo info = stage_info(report.problem, guilty);
    const std::string rows = bad_rows_text(report, guilty);
    std::string text = rows.empty() ? what : fmt::format("{} in {}", what, rows);
    if (info.per_kv_tile && report.problem.kv_tiles() > 1)
        text += fmt::format(", first in KV tile {}", report.first_divergence->tile.kv_tile);
    return text;
}

std::string cause_text(const Diagnosis& diagnosis) {
    if (diagnosis.suggestion) return suggestion_text(*diagnosis.suggestion);
    if (!diagnosis.causes.empty()) {
        const FoundCause& cause = diagnosis.causes.front();
        return says_of(cause) + (cause.legal ? ", legal if it is meant" : "");
    }
    if (!diagnosis.places.empty()) return diagnosis.places.front();
    return diagnosis.tried_all() ? "no known cause explains it" : "no cause was found";
}

/// What follows the colon of the headline.
std::string why(const Report& report, const Diagnosis& diagnosis, CausesKnown known) {
    if (!report.other.empty()) return "which of them is wrong, if any, this comparison does not say";
    if (known == CausesKnown::not_yet) return "its cause is being searched";
    if (known == CausesKnown::no) return "its cause was not searched";
    std::string text = cause_text(diagnosis);
    for (const std::string& line : lines_of(diagnosis.end)) text += "; " + one_line(line);
    return text;
}

std::string evidence_of(const FoundCause& cause) {
    if (cause.structural)
        return fmt::format("{}: the pattern tells right from wrong in {} of {} elements", headline_of(cause),
                           percent_of(cause.explained_after), cause.elements);
    return fmt::format("{}: explains {}, healthy replay {}; {}", label_of(cause), explained_text(cause),
                       percent_of(cause.explained_before), cause.where);
}

std::string also_of(const Report& report, const Diagnosis& diagnosis) {
    std::string alike;
    for (std::size_t i = 1; i < diagnosis.causes.size(); ++i) {
        if (diagnosis.causes[i].rank == diagnosis.causes[0].rank)
            alike += (alike.empty() ? "" : ", ") + headline_of(diagnosis.causes[i]);
    }
    std::string text = alike.empty() ? "" : "as good: " + alike;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
    for (const FoundCause& cause : diagnosis.then)
        add(fmt::format("then {} in {}", headline_of(cause), name_in(report, cause.stage)));
    for (const StageAnswer& answer : diagnosis.answers) {
        const bool is_open =
            answer.kind == AnswerKind::unexplained || answer.kind == AnswerKind::not_searched;
        if (answer.stage != report.guilty && is_open)
            add(fmt::format("{} is wrong too, {}", name_in(report, answer.stage), to_string(answer.kind)));
    }
    return text;
}

/// How a chain says a state, in a word and as a sentence.
struct StateWords {
    std::string_view word;
    std::string_view says;
};
/// Where one recording is judged, and where two are compared, of which neither is known to be wrong.
struct StateRow {
    StageState state;
    StateWords alone;
    StateWords of_pair;
};
constexpr StateWords unjudged_words{"?", "not judged: its tolerance is as wide as what could be there"};
constexpr StateWords undeclared_words{
    "?", "not judged: it follows a convention that the recording does not declare"};
constexpr std::array state_words = {
    StateRow{StageState::not_captured, {"-", "not recorded"}, {"-", "not recorded by both"}},
    StateRow{StageState::not_compared,
             {"-", "recorded, with nothing that it could be compared with"},
             {"-", "recorded, with nothing that it could be compared with"}},
    StateRow{StageState::not_judged, unjudged_words, unjudged_words},
    StateRow{StageState::not_declared, undeclared_words, undeclared_words},
    StateRow{StageState::ok,
             {"right", "right, given the stages before it, and end to end"},
             {"same", "the same in both, as far as rounding goes"}},
    StateRow{StageState::inherited,
             {"inherited", "right, given the stages before it, which are wrong"},
             {"inherited", "the same, given the stages before it, which differ"}},
    StateRow{StageState::wrong_too,
             {"wrong too", "wrong, given the stages before it"},
             {"differs", "differs, too"}},
    StateRow{StageState::first_wrong,
             {"guilty", "the first that is wrong, given the stages before it"},
             {"differs", "the first that differs"}},
};

/// Those that the stage is computed from and that are wrong by themselves.
std::vector<Stage> wrong_before(const Report& report, Stage stage) {
    std::vector<Stage> wrong;
    for (const Stage before : stages_before(report.problem.direction, stage)) {
        const StageState state = state_of(report, before);
        if (state == StageState::first_wrong || state == StageState::wrong_too) wrong.push_back(before);
    }
    return wrong;
}

/// "closest to its budget: acc, 0.41 of it"
std::string closest_of(const Report& report) {
    std::string_view name;
    double most = 0;
    for (const StageInfo& info : stages_of(report.problem)) {
        const double used = report.stage(info.stage).tally.budget_used;
        if (used <= most) continue;
        most = used;
        name = info.name;
    }
    if (name.empty()) return "every bit of it is as expected";
    return fmt::format("closest to its budget: {}, {:.2g} of it", name, most);
}

std::string not_recorded(const Report& report) {
    std::string names;
    for (const StageInfo& info : stages_of(report.problem)) {
        if (!is_named(info.stage) && !report.stage(info.stage).captured)
            names += fmt::format(" {}", info.name);
    }
    return names.empty() ? "" : "not recorded:" + names;
}

Card card_of_right(const Report& report) {
    if (!report.unjudged.empty()) return {verdict_line(report), "", "", "", not_recorded(report)};
    return {verdict_line(report), closest_of(report), "", "", not_recorded(report)};
}

}  // namespace

std::string bad_rows_text(const Report& report, Stage stage) {
    const std::vector<BadHead> heads = bad_heads(report.stage(stage).tally);
    if (heads.empty()) return "";
    const std::string_view noun = stage_info(report.problem, stage).row_axis == Axis::key ? "key" : "row";
    const std::int64_t heads_of_stage = stage_heads(report.problem, stage);
    const std::size_t all = rows_of_head(report.problem, stage);
    const bool whole =
        std::ranges::all_of(heads, [&](const BadHead& head) { return head.rows.size() == all; });
    if (whole && heads.size() == std::size_t(report.problem.batch * heads_of_stage))
        return fmt::format("every {}", noun);
    if (heads.size() == 1) {
        const std::string where = head_text(report.problem, heads_of_stage, heads[0]);
        if (whole) return fmt::format("every {}{}", noun, where);
        const std::vector<std::int64_t>& rows = heads[0].rows;
        return fmt::format("{}{} {}{}", noun, rows.size() == 1 ? "" : "s", row_ranges(rows, 4), where);
    }
    std::size_t rows = 0;
    for (const BadHead& head : heads) rows += head.rows.size();
    const std::string of_heads =
        fmt::format("{} of {} heads", heads.size(), report.problem.batch * heads_of_stage);
    return whole ? fmt::format("every {} of {}", noun, of_heads)
                 : fmt::format("{} {}s of {}", rows, noun, of_heads);
}

Card card_of(const Report& report, const Diagnosis& diagnosis, CausesKnown known) {
    if (!report.guilty) return card_of_right(report);
    Card card;
    card.headline = fmt::format("{}: {}", what_and_where(report), why(report, diagnosis, known));
    if (known != CausesKnown::yes || !report.other.empty()) return card;
    if (diagnosis.threads) card.threads = threads_sentence(report, *diagnosis.threads);
    // With a declaration what is left of the mistake is said in its line.
    if (!diagnosis.causes.empty() && !diagnosis.suggestion) {
        const FoundCause& cause = diagnosis.causes.front();
        card.evidence = evidence_of(cause);
        if (!cause.legal) card.look_at = look_at_of(cause) + hooked_text(report, cause.stage);
    }
    if (!diagnosis.suggestion) card.also = also_of(report, diagnosis);
    return card;
}

std::vector<ChainLink> chain_of(const Report& report) {
    std::vector<ChainLink> chain;
    for (const StageInfo& info : stages_of(report.problem)) {
        const StageState state = state_of(report, info.stage);
        const auto row = std::ranges::find(state_words, state, &StateRow::state);
        const StateWords& words = report.other.empty() ? row->alone : row->of_pair;
        ChainLink link{info.stage, std::string(words.word), fmt::format("{}: {}", info.name, words.says), {}};
        if (state == StageState::inherited) link.inherits = wrong_before(report, info.stage);
        std::string from;
        for (const Stage before : link.inherits) from += (from.empty() ? "" : ", ") + name_in(report, before);
        if (link.inherits.size() == 1) link.word = "from " + from;
        if (!from.empty()) link.says += ": " + from;
        chain.push_back(std::move(link));
    }
    return chain;
}

}  // namespace tilescope
