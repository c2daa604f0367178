#include "oracle/causes/suggest.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dump/recording/recording_view.h"
#include "oracle/causes/attempts.h"
#include "oracle/causes/find_causes.h"
#include "oracle/causes/other_declarations.h"

namespace tilescope {

namespace {

/// Of the work that is left.
constexpr double share_of_one_declaration = 0.25;
/// More of them at once are no oversight.
constexpr int most_assignments = 4;
/// Ways to get equally far that are followed.
constexpr std::size_t most_ways = 4;
/// Query blocks that a change has to serve before the whole recording is judged with it.
constexpr std::size_t most_blocks = 4;

/// A stage that does what is not declared is one that a declaration may make right.
Report with_undeclared(Report report) {
    for (const StageInfo& info : stages_of(report.problem)) {
        StageReport& stage = report.stages[static_cast<std::size_t>(info.stage)];
        if (report.guilty || stage.undeclared.empty()) continue;
        stage.undeclared.clear();
        report.guilty = info.stage;
        report.first_divergence = stage.tally.first;
    }
    return report;
}

/// How far the judge gets: the first wrong stage, or past all of them.
constexpr int all_right = stage_count;

int reached_by(const Report& report) {
    return report.guilty ? int(*report.guilty) : all_right;
}

std::int64_t not_judged(const Report& report) {
    std::int64_t elements = 0;
    for (const StageReport& stage : report.stages) elements += stage.tally.not_judged;
    return elements;
}

/// nullopt with a declaration that cannot be, and with one that leaves less to compare.
std::optional<Report> judged_as(const Recording& recording, const Declared& as, const Report& report,
                                JudgeOptions options) {
    options.confidence = report.confidence;
    options.compare.top = 0;
    try {
        Report with = judge(DeclaredAs(recording, as.problem, as.units), options);
        if (not_judged(with) > not_judged(report)) return std::nullopt;
        return with;
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// Whether what diverges is less than it was: no declaration is right that makes another stage wrong.
bool is_better(const Report& with, const Report& without) {
    const auto diverges = [](const Report& report, std::size_t stage) {
        return report.stages[stage].tally.diverges() && report.stages[stage].undeclared.empty();
    };
    for (std::size_t stage = 0; stage < stage_count; ++stage) {
        if (diverges(with, stage) && (!diverges(without, stage) || Stage(stage) == *without.guilty))
            return false;
    }
    return true;
}

/// The block of the first divergence, and others that have bad rows of the same stage.
std::vector<Block> blocks_of(const Report& report) {
    const Element& first = *report.first_divergence;
    std::vector<Block> blocks = {{first.tile.batch, first.tile.head, first.tile.q_block}};
    const StageTally& tally = report.stage(*report.guilty).tally;
    if (!stage_info(report.problem, *report.guilty).per_q_block) return blocks;
    const std::size_t step = tally.bad_rows.size() / most_blocks + 1;
    for (std::size_t i = 0; i < tally.bad_rows.size() && blocks.size() < most_blocks; i += step) {
        const BadRow& row = tally.bad_rows[i];
        const Block block{row.batch, row.head, row.row / report.problem.block_m};
        if (std::ranges::find(blocks, block) == blocks.end()) blocks.push_back(block);
    }
    return blocks;
}

/// Of a block up to the stage: products, and what is done for each of their results.
std::int64_t effort_of_judging(const Problem& problem, Stage until) {
    constexpr std::int64_t of_element = 64;
    const bool by_blocks = stage_info(problem, until).per_q_block;
    const std::int64_t rows = by_blocks ? std::min(problem.block_m, problem.seqlen_q) : problem.seqlen_q;
    return rows * problem.seqlen_kv * (problem.head_dim + problem.head_dim_v + of_element);
}

class Search {
 public:
    Search(const Recording& recording, const Report& report, int threads, Attempts& attempts)
        : recording_(recording),
          report_(report),
          threads_(threads),
          attempts_(attempts),
          blocks_(blocks_of(report)),
          others_(recording, report, blocks_.front()) {}

    /// The assignments that get furthest. Several ways are followed at once: what is equal for now may come to
    /// an end later.
    std::optional<Declared> furthest() const {
        Ways best{{{recording_.problem(), recording_.units(), {}}}, reached_by(report_)};
        for (int step = 0; step < most_assignments && best.reached < all_right; ++step) {
            Ways next{{}, best.reached};
            for (const Declared& way : best.to) step_from(way, Stage(best.reached), next);
            if (next.to.empty()) break;
            best = std::move(next);
        }
        if (best.to.front().assignments.empty()) return std::nullopt;
        return best.to.front();
    }

 private:
    /// Those that get equally far.
    struct Ways {
        std::vector<Declared> to;
        int reached;
    };

    /// In every block that is looked at; 0 where `wrong` or a stage before it still is.
    int reached_in_blocks(const Declared& as, Stage wrong) const {
        int reached_all = all_right;
        for (const Block& block : blocks_) {
            attempts_.check();
            spend(effort_of_judging(report_.problem, wrong));
            JudgeOptions options;
            options.only_head = {block.batch, block.head};
            if (stage_info(report_.problem, wrong).per_q_block) options.only_q_block = block.q_block;
            options.until = wrong;
            options.threads = 1;
            const std::optional<Report> with = judged_as(recording_, as, report_, options);
            if (!with || reached_by(*with) <= int(wrong)) return 0;
            reached_all = std::min(reached_all, reached_by(*with));
        }
        return reached_all;
    }

    void try_all(std::vector<Declared> candidates, Stage wrong, Ways& best) const {
        std::vector<int> reached(candidates.size(), 0);
        const auto name = [&](std::size_t i) -> std::string_view {
            return candidates[i].assignments.back().name;
        };
        const std::vector<bool> ended = attempts_.each(
            candidates.size(), threads_, share_of_one_declaration, 1, name, [&](std::size_t i) {
                reached[i] = reached_in_blocks(candidates[i], wrong);
                return reached[i] == all_right;
            });
        for (std::size_t i = 0; i < candidates.size(); ++i)
            if (!ended[i]) reached[i] = 0;
        for (std::size_t i = 0; i < candidates.size() && best.reached < all_right; ++i) {
            if (reached[i] < best.reached || reached[i] <= int(wrong)) continue;
            if (reached[i] > best.reached) best = {{}, reached[i]};
            if (best.to.size() < most_ways) best.to.push_back(std::move(candidates[i]));
        }
    }

    /// One assignment, or two, one of them of the stage that is wrong: each alone may leave it as wrong as it was.
    void step_from(const Declared& from, Stage wrong, Ways& best) const {
        std::vector<Declared> all = others_.beside(from, wrong);
        try_all(all, wrong, best);
        if (!best.to.empty()) return;
        const std::string prefix = std::string(stage_info(wrong).name) + ".";
        const std::string type = "problem.dtype_" + std::string(stage_info(wrong).name);
        const auto is_of_stage = [&](const Declared& next) {
            const std::string& name = next.assignments.back().name;
            return name.starts_with(prefix) || name == type;
        };
        const auto is_near = [&](const Declared& next) {
            const bool scales_operands = next.assignments.size() > from.assignments.size() + 2;
            return is_of_stage(next) || scales_operands ||
                   next.assignments.back().name.starts_with("problem.");
        };
        for (const Declared& first : all) {
            if (!is_of_stage(first)) continue;
            std::vector<Declared> seconds = others_.beside(first, wrong);
            std::erase_if(seconds, std::not_fn(is_near));
            try_all(std::move(seconds), wrong, best);
        }
    }

    const Recording& recording_;
    const Report& report_;
    int threads_;
    Attempts& attempts_;
    std::vector<Block> blocks_;
    OtherDeclarations others_;
};

/// NaN alone shows that rows which see nothing hold it, and not which rows these are.
bool is_told_by_nan(const Report& report, const Declared& found) {
    const StageTally& tally = report.stage(*report.guilty).tally;
    return tally.nan > 0 && tally.nan == tally.outside &&
           !std::ranges::all_of(found.assignments, [](const Assignment& assignment) {
               return assignment.name.ends_with(".empty_row");
           });
}

/// Why it is still wrong with what is declared.
void find_rest(const Recording& declared, const Report& with, const CauseOptions& options,
               Suggestion& suggestion) {
    const Diagnosis rest = find_causes(declared, with, options);
    suggestion.searched = rest.searched;
    suggestion.end = rest.end;
    for (FoundCause cause : rest.causes) {
        if (cause.rank != rest.causes.front().rank) break;
        cause.changes = nullptr;  // they refer to `declared`
        suggestion.causes.push_back(std::move(cause));
    }
}

/// What declarations explain everywhere is no mistake that is made in some rows or tiles, or explains most of it.
void leave_out_parts(Diagnosis& diagnosis) {
    std::erase_if(diagnosis.causes, [](const FoundCause& cause) {
        return cause.structural || cause.explained_after < 1 || cause.scope != Scope::everywhere;
    });
    if (!diagnosis.causes.empty()) return;
    diagnosis.then.clear();
    diagnosis.answers.clear();
}

std::optional<Suggestion> suggested(const Recording& recording, const Report& of, const CauseOptions& options,
                                    Attempts& attempts) {
    const Report report = with_undeclared(of);
    if (!report.guilty || !report.first_divergence || !report.other.empty() || report.atol || report.rtol)
        return std::nullopt;
    const std::optional<Declared> found = Search(recording, report, options.threads, attempts).furthest();
    if (!found || is_told_by_nan(report, *found)) return std::nullopt;
    JudgeOptions judging;
    judging.threads = options.threads;
    const std::optional<Report> with = judged_as(recording, *found, report, judging);
    if (!with || !is_better(*with, report)) return std::nullopt;
    Suggestion suggestion{found->assignments, with->guilty, false, {}, {}};
    if (!with->guilty) return suggestion;
    CauseOptions of_rest = options;
    of_rest.effort = attempts.left();
    of_rest.check = [&] { attempts.check(); };
    find_rest(DeclaredAs(recording, found->problem, found->units), *with, of_rest, suggestion);
    return suggestion;
}

}  // namespace

Diagnosis declarations_of(const Recording& recording, const Report& report, const CauseOptions& options) {
    Diagnosis diagnosis;
    Attempts attempts(options.effort / 2, options.check, options.begins);
    attempts.run([&] {
        attempts.uncounted(SearchPart::declarations,
                           [&] { diagnosis.suggestion = suggested(recording, report, options, attempts); });
    });
    diagnosis.end = attempts.end();
    return diagnosis;
}

Diagnosis causes_and_declarations(const Recording& recording, const Report& report,
                                  const CauseOptions& options) {
    Diagnosis diagnosis = find_causes(recording, report, options);
    Diagnosis declared = declarations_of(recording, report, options);
    diagnosis.suggestion = std::move(declared.suggestion);
    diagnosis.end.add(declared.end);
    if (diagnosis.suggestion && !diagnosis.suggestion->then) leave_out_parts(diagnosis);
    return diagnosis;
}

}  // namespace tilescope
