#include "oracle/judge.h"

#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <exception>
#include <tuple>

#include "dump/schema/error.h"
#include "oracle/formula/head_call.h"
#include "oracle/judge/given_outputs.h"
#include "oracle/judge/gradient_judge.h"
#include "oracle/judge/named_judge.h"
#include "oracle/judge/q_block.h"
#include "oracle/judge/references.h"
#include "oracle/judge/team.h"
#include "oracle/judge/undeclared.h"
#include "oracle/judge/verdict.h"

namespace tilescope {

namespace {

[[noreturn]] void cannot_judge(const Recording& recording, const std::string& what,
                               const std::string& what_to_do) {
    throw Error(what, recording.name(), what_to_do);
}

/// `pair`: named tiles are compared, too.
void require_judgeable(const Recording& recording, bool pair) {
    if (!recording.has_inputs())
        cannot_judge(recording, "/inputs is missing or not whole",
                     "record q, k and v as well, and dout and lse of a backward pass");
    require_known_semantics(recording);
    for (const StageInfo& info : stages_of(recording.problem())) {
        if (is_named(info.stage) && !pair) continue;
        const std::string dropped = dropped_of(recording, info);
        if (!dropped.empty())
            cannot_judge(recording, dropped, "record again with more room or a narrower selection");
    }
}

/// What P and acc are relative to, apart from scales.
auto own_units_of(const Units& units) {
    return std::tuple(units.m_from_lse, units.p_of_tile_max, units.p_normalised, units.acc_normalised);
}

/// What depends on the KV tiles before it only compares between runs that take them in the same order, and keep the
/// same of them.
bool comparable(const Problem& problem, Stage stage, const Units& a, const Units& b) {
    const bool alike = a.kv_order == b.kv_order && own_units_of(a) == own_units_of(b);
    return is_named(stage) || alike || problem.direction == Direction::backward || stage < Stage::m ||
           stage > Stage::acc;
}

Plan make_plan(const Recording& recording, const Recording* other, const JudgeOptions& options,
               HeadInputCache& inputs) {
    Plan plan{.recording = recording,
              .other = other,
              .compare = options.compare,
              .inputs = inputs,
              .observe = options.observe,
              .observe_inherited = options.observe_inherited,
              .rounding = {},
              .until = options.until};
    int stages = 0;
    bool named = false;
    for (const StageInfo& info : stages_of(recording.problem())) {
        const bool captured = recording.has_stage(info.stage) &&
                              (other == nullptr || (other->has_stage(info.stage) &&
                                                    comparable(recording.problem(), info.stage,
                                                               recording.units(), other->units())));
        plan.captured[static_cast<std::size_t>(info.stage)] = captured;
        if (!captured) continue;
        named = named || is_named(info.stage);
        if (is_named(info.stage)) continue;
        plan.last = std::min(info.stage, Stage::acc);
        ++stages;
    }
    if (stages == 0 && !named) {
        const std::string& ended = recording.capture().ended;
        cannot_judge(recording,
                     "no tile was captured" + (ended == "completed" ? "" : ", and " + how_it_ended(ended)),
                     "check the selection and that the kernel has hooks");
    }
    // A running statistic comes before itself: its value after tile t is computed from the one after tile t
    // - 1.
    plan.rounding = rounding_model_of(recording, options.confidence);
    const bool running = plan.has(Stage::m) || plan.has(Stage::l) || plan.has(Stage::acc);
    plan.end_to_end =
        other == nullptr && !plan.until && (stages > 1 || running || options.end_to_end_everywhere);
    plan.drift = other == nullptr && running;
    return plan;
}

std::int64_t divergences_in(const JudgedPart& partial) {
    std::int64_t count = 0;
    for (const StageTally& tally : partial.stages) count += tally.outside;
    return count;
}

/// What is judged at once: a query block, a KV tile with its gradients, or what a query block or a head has
/// of a named tile.
struct JudgeTask {
    void (*judge)(const Plan& plan, const TileId& tile, Pass pass, JudgedPart& partial);
    Stage stage;  ///< whose tiles it counts
    TileId tile;
    std::int64_t head_kv;  ///< whose K and V it needs
};

void judge_forward(const Plan& plan, const TileId& tile, Pass pass, JudgedPart& partial) {
    QBlockJudge(plan, tile, pass, partial).run();
}

/// Everything that is judged, by a number.
class WorkList {
 public:
    explicit WorkList(const Plan& plan) : plan_(plan), problem_(plan.problem()) {
        const bool backward = problem_.direction == Direction::backward;
        of_rows_ = backward ? judge_gradient_rows : judge_forward;
        const bool rows = std::ranges::any_of(
            all_stages(), [&](const StageInfo& info) { return info.per_q_block && plan.has(info.stage); });
        rows_ = rows ? tile_count(problem_, Stage::q) : 0;
        keys_ = plan.has(Stage::dk) || plan.has(Stage::dv) ? tile_count(problem_, Stage::dk) : 0;
        parts_ = {{Stage::q, rows_, 1}, {Stage::dk, keys_, 1}};
        for (int i = 0; i < max_named_tiles; ++i) {
            const Stage stage = named_tile(i);
            if (!plan.has(stage) || (plan.other == nullptr && !plan.observe)) continue;
            const std::int64_t step = stage_info(problem_, stage).per_kv_tile ? problem_.kv_tiles() : 1;
            parts_.push_back({stage, tile_count(problem_, stage) / step, step});
        }
        for (const Part& part : parts_) size_ += part.count;
    }

    std::int64_t size() const { return size_; }
    /// Query blocks come first. KV tiles are computed from what they hold.
    std::int64_t rows() const { return rows_; }

    /// nullopt where the batch entry is too short to have it, or where `options` ask for something else.
    std::optional<JudgeTask> at(std::int64_t i, const JudgeOptions& options) const {
        auto part = parts_.begin();
        for (; i >= part->count; ++part) i -= part->count;
        const Stage stage = part->stage;
        const TileId tile = tile_at(problem_, stage, i * part->step);
        const HeadRange heads = query_heads(problem_, stage, tile.head);
        const JudgeTask work{stage == Stage::q ? of_rows_ : judge_gradient_keys, stage, tile,
                             problem_.head_kv(heads.first)};
        const auto& head = options.only_head;
        if (head && (head->first != tile.batch || head->second < heads.first || head->second >= heads.last))
            return std::nullopt;
        const bool of_rows = stage_info(problem_, stage).per_q_block;
        if (options.only_q_block && (!of_rows || *options.only_q_block != tile.q_block)) return std::nullopt;
        const Problem entry = problem_of(problem_, plan_.recording.side_inputs(), work.tile.batch);
        if (!is_named(stage) && tile_extent(entry, stage, work.tile).rows <= 0) return std::nullopt;
        if (stage == Stage::q && !has_rows(tile)) return std::nullopt;
        return work;
    }

 private:
    /// Whether anything of the query block was recorded, or is missing.
    bool has_rows(const TileId& q_block) const {
        const Recording& recording = plan_.recording;
        const std::optional<Selection>& selection = recording.capture().selection;
        const bool asked_for = selection && selection->batch.contains(q_block.batch) &&
                               selection->head.contains(q_block.head) &&
                               selection->lists_block(q_block.batch, q_block.head, q_block.q_block) &&
                               selection->q_block.contains(q_block.q_block);
        return asked_for || recording.may_hold(q_block);
    }

    const Plan& plan_;
    const Problem& problem_;
    decltype(JudgeTask::judge) of_rows_ = nullptr;
    /// Every `step`-th tile of a stage.
    struct Part {
        Stage stage;
        std::int64_t count;
        std::int64_t step;
    };
    std::vector<Part> parts_;
    std::int64_t rows_ = 0;
    std::int64_t keys_ = 0;
    std::int64_t size_ = 0;
};

/// `inherits`: something that it is computed from diverged.
void judge_work(const Plan& plan, const JudgeTask& work, bool inherits, JudgedPart& partial) {
    if (is_named(work.stage)) return judge_named(plan, work.stage, work.tile, partial);
    const std::int64_t before = divergences_in(partial);
    work.judge(plan, work.tile, Pass::divergences, partial);
    if (!plan.end_to_end || (divergences_in(partial) == before && !inherits)) return;
    JudgedPart again;
    again.drift.resize(partial.drift.size());
    work.judge(plan, work.tile, Pass::inherited, again);
    for (std::size_t i = 0; i < partial.stages.size(); ++i)
        partial.stages[i].inherited += again.stages[i].inherited;
}

/// Counts what is done.
class Steps {
 public:
    Steps(const JudgeOptions& options, std::int64_t total) : progress_(options.progress), total_(total) {}
    void step() {
        if (progress_) progress_(++done_, total_);
    }

 private:
    const decltype(JudgeOptions::progress)& progress_;
    std::int64_t total_;
    std::atomic<std::int64_t> done_ = 0;
};

/// What the threads of judge_all() share.
struct SharedByThreads {
    std::atomic<bool> failed = false;
    std::exception_ptr failure;
    std::atomic<std::int64_t> divergences = 0;  ///< of the query blocks
};

/// The calling thread's share of the work from `first` up to `last`.
void judge_share(const Plan& plan, const WorkList& list, std::int64_t first, std::int64_t last,
                 const JudgeOptions& options, Steps& steps, SharedByThreads& shared, JudgedPart& mine) {
    const bool of_keys = first == list.rows();
    const bool inherits =
        shared.divergences > 0 || (of_keys && options.may_inherit) || options.end_to_end_everywhere;
    std::shared_ptr<const HeadInputs> inputs_in_use;
#pragma omp for schedule(dynamic)
    for (std::int64_t i = first; i < last; ++i) {
        if (shared.failed) continue;
        try {
            if (const std::optional<JudgeTask> work = list.at(i, options)) {
                if (!is_named(work->stage)) inputs_in_use = plan.inputs.get(work->tile.batch, work->head_kv);
                judge_work(plan, *work, inherits, mine);
                for (StageTally& tally : mine.stages) compact_bad_rows(tally);
            }
            steps.step();
        } catch (...) {
#pragma omp critical
            if (!shared.failed.exchange(true)) shared.failure = std::current_exception();
        }
    }
}

void merge_partial(const Plan& plan, const JudgedPart& mine, JudgedPart& whole) {
    for (std::size_t i = 0; i < whole.stages.size(); ++i)
        merge(mine.stages[i], plan.compare, whole.stages[i]);
    for (std::size_t i = 0; i < whole.drift.size(); ++i) {
        whole.drift[i].m = std::max(whole.drift[i].m, mine.drift[i].m);
        whole.drift[i].l = std::max(whole.drift[i].l, mine.drift[i].l);
        whole.drift[i].acc = std::max(whole.drift[i].acc, mine.drift[i].acc);
    }
}

/// In parallel. Tallies of threads merge into the same whole in any order.
JudgedPart judge_all(const Plan& plan, const WorkList& list, const JudgeOptions& options, Steps& steps) {
    JudgedPart whole;
    whole.drift.resize(std::size_t(plan.problem().kv_tiles()));
    SharedByThreads shared;

#pragma omp parallel num_threads(team_size(options.threads))
    {
        JudgedPart mine;
        mine.drift.resize(whole.drift.size());
        judge_share(plan, list, 0, list.rows(), options, steps, shared, mine);
        shared.divergences += divergences_in(mine);
#pragma omp barrier
        judge_share(plan, list, list.rows(), list.size(), options, steps, shared, mine);
#pragma omp critical
        merge_partial(plan, mine, whole);
    }
    if (shared.failure) std::rethrow_exception(shared.failure);
    for (StageTally& tally : whole.stages) compact_bad_rows(tally);
    return whole;
}

/// What is known before anything is judged.
Report begin_report(const Recording& recording, const Recording* other, const JudgeOptions& options) {
    Report report;
    report.recording = recording.name();
    report.other = other != nullptr ? other->name() : "";
    report.problem = recording.problem();
    report.units = recording.units();
    report.threads = recording.threads();
    for (std::size_t i = 0; i < report.stages.size(); ++i)
        report.stages[i].hooks = recording.capture().stages[i].hooks;
    report.options = options_of(recording);
    report.provenance = recording.provenance();
    report.ended = recording.capture().ended;
    report.confidence = options.confidence;
    report.atol = options.compare.atol;
    report.rtol = options.compare.rtol;
    return report;
}

Report run(const Recording& recording, const Recording* other, const JudgeOptions& options) {
    require_judgeable(recording, other != nullptr);
    HeadInputCache inputs(recording);
    const Plan plan = make_plan(recording, other, options, inputs);

    Report report = begin_report(recording, other, options);
    const WorkList list(plan);
    // References are of the forward pass, and so is what a backward pass was given.
    const bool alone = other == nullptr && !options.only_head && !options.only_q_block;
    const bool forward = recording.problem().direction == Direction::forward;
    Steps steps(options, list.size() + (!alone    ? 0
                                        : forward ? reference_steps(recording)
                                                  : given_output_steps(recording)));
    const auto step = [&] { steps.step(); };
    JudgedPart found = judge_all(plan, list, options, steps);
    for (std::size_t i = 0; i < report.stages.size(); ++i) {
        const bool compared = other != nullptr || !is_named(Stage(i));
        report.stages[i].captured = plan.captured[i] && compared;
        report.stages[i].tally = std::move(found.stages[i]);
        if (plan.captured[i] && !compared)
            report.without_reference.emplace_back(stage_info(report.problem, Stage(i)).name);
    }
    if (plan.drift) report.drift = std::move(found.drift);
    if (alone && forward)
        report.references = judge_references(recording, options.confidence, options.threads, step);
    if (other == nullptr) {
        count_conflicts(recording, report);
        count_writers(recording, report);
    }
    if (alone)
        report.warnings = warnings_of_given_outputs(recording, options.confidence, options.threads, step);
    add_warnings(recording, report);
    if (other == nullptr) add_warnings_of_named(recording, report);
    if (!options.only_head && !options.only_q_block && report.ended != "completed")
        report.reached = reached_blocks(recording);
    if (other != nullptr && recording.units().kv_order != other->units().kv_order) {
        report.warnings.push_back(
            "m, p, l and acc are not compared: the two runs take the KV tiles in another order");
    }
    reach_verdict(report);

    const auto judged = [](const StageReport& stage) { return stage.captured; };
    if (!report.without_reference.empty() && std::ranges::none_of(report.stages, judged)) {
        throw NoVerdict("only named tiles were captured, and they have no reference", recording.name(),
                        "compare it with another recording, or record stages as well", std::move(report));
    }
    if (report.compared() == 0 && report.verdict == Verdict::match && silent_output(report).empty()) {
        cannot_judge(recording, "no element could be compared",
                     "check the selection and that the kernel has hooks");
    }
    for (const Recording* run : {&recording, other}) {
        if (report.verdict != Verdict::match || run == nullptr || run->capture().ended == "completed")
            continue;
        throw UnfinishedRun(how_it_ended(run->capture().ended) + ", and what it left matches", run->name(),
                            "find out why it ended", std::move(report));
    }
    const std::string silent = report.verdict == Verdict::match ? silent_output(report) : "";
    if (!silent.empty())
        throw NoVerdict(silent, recording.name(),
                        "record s and m as well, which narrows the tolerances, or other inputs",
                        std::move(report));
    return report;
}

/// One may have recorded more than the other.
void require_same_named_tiles(const Recording& a, const Recording& b) {
    const std::vector<NamedTile>& mine = a.problem().named_tiles;
    const std::vector<NamedTile>& theirs = b.problem().named_tiles;
    const std::size_t common = std::min(mine.size(), theirs.size());
    if (std::equal(mine.begin(), mine.begin() + std::ptrdiff_t(common), theirs.begin())) return;
    cannot_judge(b, "/problem declares other named tiles than " + a.name(),
                 "declare the same ones in the same order, or leave out the last ones");
}

void require_same_inputs(const Recording& a, const Recording& b) {
    if (a.side_inputs() != b.side_inputs())
        cannot_judge(b, "/inputs differs from " + a.name() + " in lengths, slopes, sinks or descales",
                     "record both from the same inputs");
    for (std::int64_t batch = 0; batch < a.problem().batch; ++batch) {
        const Problem problem = problem_of(a.problem(), a.side_inputs(), batch);
        const auto require_same = [&](Input input, const char* name, std::int64_t head, std::int64_t rows) {
            const Matrix mine = load_input(a, input, batch, head, 0, rows);
            const Matrix theirs = load_input(b, input, batch, head, 0, rows);
            const auto same = [](double x, double y) { return x == y || (x != x && y != y); };
            if (std::equal(mine.data(), mine.data() + mine.size(), theirs.data(), same)) return;
            cannot_judge(b, std::string("/inputs/") + name + " differs from " + a.name(),
                         "record both from the same inputs");
        };
        for (std::int64_t head = 0; head < problem.heads; ++head) {
            require_same(Input::q, "q", head, problem.seqlen_q);
            if (problem.direction == Direction::forward) continue;
            require_same(Input::dout, "dout", head, problem.seqlen_q);
            require_same(Input::lse, "lse", head, problem.seqlen_q);
            if (a.has_input(Input::o) && b.has_input(Input::o))
                require_same(Input::o, "o", head, problem.seqlen_q);
        }
        for (std::int64_t head = 0; head < problem.heads_kv; ++head) {
            require_same(Input::k, "k", head, problem.seqlen_kv);
            require_same(Input::v, "v", head, problem.seqlen_kv);
        }
    }
}

/// What the first wrong stage may be all the same: one of the conventions of healthy kernels that no
/// attribute declares. The recording is judged again as a kernel without them leaves it. nullopt where q or s
/// are wrong then, too. Errors: NoVerdict where nothing else is.
std::optional<Report> judge_as_declared(const Recording& recording, JudgeOptions options,
                                        Report as_recorded) {
    const std::optional<FoldedScale> folded =
        recording.has_stage(Stage::q) ? folded_scale(recording) : std::nullopt;
    const DeclaredView view(recording, folded);
    CastOfScores cast(recording);
    // Who looks on was shown the recording as it is.
    options.progress = {};
    options.observe_inherited = {};
    options.observe = [&](Stage stage, const TileId&, const MatrixF& got, const Estimate& expected) {
        if (stage == Stage::s) cast.look_at(got, expected);
    };
    Report report = run(view, nullptr, options);

    std::string missing;
    const auto excuse = [&](Stage stage, const std::string& what, const char* declaration) {
        std::string& undeclared = report.stages[static_cast<std::size_t>(stage)].undeclared;
        undeclared += (undeclared.empty() ? "" : ", ") + what;
        missing +=
            fmt::format("{}{}, and no attribute declares {}", missing.empty() ? "" : "; ", what, declaration);
    };
    if (folded)
        excuse(Stage::q,
               fmt::format("q is staged as {}(q * {:g})", dtype_info(folded->dtype).name, folded->factor),
               "a scale of q as staged (attributes scale and cast of /tiles/q)");
    if (view.masks_with_numbers())
        excuse(Stage::s, fmt::format("s holds {:g} where the mask hides a score", view.masked_value()),
               "the value that masked scores hold (masked_value of /tiles/s)");
    const bool s_diverges = report.stage(Stage::s).tally.diverges();
    const std::optional<CastOfScores::Found> rounded = s_diverges ? cast.found() : std::nullopt;
    if (s_diverges && !rounded) return std::nullopt;
    if (rounded) excuse(Stage::s, rounded->what, rounded->declaration);

    if (missing.empty()) return std::nullopt;
    reach_verdict(report);
    if (report.guilty && view.masks_with_numbers()) {
        // A first tile that is hidden altogether leaves what the next one wipes out: taken for scores, its
        // numbers may make everything right that comes after them.
        for (const Stage stage : {Stage::q, Stage::s})
            as_recorded.stages[static_cast<std::size_t>(stage)].undeclared = report.stage(stage).undeclared;
        reach_verdict(as_recorded);
        const auto inherits = [&](Stage stage) { return as_recorded.stage(stage).tally.inherited > 0; };
        if (!as_recorded.guilty && (inherits(Stage::o) || inherits(Stage::lse))) return std::nullopt;
        if (!as_recorded.guilty) report = std::move(as_recorded);
    }
    if (report.guilty == Stage::q || report.guilty == Stage::s) return std::nullopt;
    report.warnings.push_back(missing);
    if (report.guilty) return report;
    throw NoVerdict(missing, recording.name(),
                    "declare it, or leave the stage out; what else was recorded matches", std::move(report));
}

}  // namespace

Report judge(const Recording& recording, const JudgeOptions& options) {
    Report report = run(recording, nullptr, options);
    if (!may_be_undeclared(recording, report)) return report;
    return judge_as_declared(recording, options, report).value_or(std::move(report));
}

Report judge_pair(const Recording& recording, const Recording& other, const JudgeOptions& options) {
    Problem comparable = other.problem();
    comparable.dtype_p = recording.problem().dtype_p;
    comparable.dtype_acc = recording.problem().dtype_acc;
    comparable.dtype_ds = recording.problem().dtype_ds;
    require_same_named_tiles(recording, other);
    comparable.named_tiles = recording.problem().named_tiles;
    if (comparable != recording.problem()) {
        cannot_judge(other, "/problem differs from " + recording.name(),
                     "compare recordings of the same shapes, tiles, mask and sm_scale");
    }
    require_judgeable(recording, true);
    require_judgeable(other, true);
    require_same_inputs(recording, other);
    return run(recording, &other, options);
}

}  // namespace tilescope
