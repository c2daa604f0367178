#include "oracle/judge.h"

#include <fmt/format.h>
#include <algorithm>
#include <deque>
#include <exception>
#include <tuple>

#include "dump/schema/error.h"
#include "oracle/judge/given_outputs.h"
#include "oracle/judge/in_every_process.h"
#include "oracle/judge/judge_tiles.h"
#include "oracle/judge/references.h"
#include "oracle/judge/tally_bytes.h"
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
    return std::tuple(units.m_from_lse, units.m_offset, units.p_of_tile_max, units.p_normalised,
                      units.acc_normalised);
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
    SharingOr sharing(options.sharing);
    // References are of the forward pass, and so is what a backward pass was given.
    const bool alone = other == nullptr && !options.only_head && !options.only_q_block;
    const bool forward = recording.problem().direction == Direction::forward;
    Steps steps(options,
                tile_steps(plan) + (!alone    ? 0
                                    : forward ? reference_steps(recording)
                                              : given_output_steps(recording)),
                *sharing);
    const auto step = [&] { steps.step(); };
    const TilesToJudge tiles[] = {{plan, options}};
    TilesFound of_tiles = options.tiles != nullptr
                              ? *options.tiles
                              : std::move(judge_tiles(tiles, options.threads, *sharing, steps).front());
    rethrow(of_tiles.failure, *sharing);
    JudgedPart& found = of_tiles.part;
    for (std::size_t i = 0; i < report.stages.size(); ++i) {
        const bool compared = other != nullptr || !is_named(Stage(i));
        report.stages[i].captured = plan.captured[i] && compared;
        report.stages[i].tally = std::move(found.stages[i]);
        if (plan.captured[i] && !compared)
            report.without_reference.emplace_back(stage_info(report.problem, Stage(i)).name);
    }
    if (plan.drift) report.drift = std::move(found.drift);
    if (alone && forward)
        report.references = judge_references(recording, options.confidence, options.threads, step, *sharing);
    if (other == nullptr) {
        count_conflicts(recording, report);
        count_writers(recording, report);
    }
    if (alone)
        report.warnings =
            warnings_of_given_outputs(recording, options.confidence, options.threads, step, *sharing);
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
/// attribute declares. The recording is judged again as a kernel without them leaves it. nullopt where q, k or s
/// are wrong then, too. Errors: NoVerdict where nothing else is.
std::optional<Report> judge_as_declared(const Recording& recording, JudgeOptions options,
                                        Report as_recorded) {
    std::vector<FoldedScale> folded;
    for (const Stage stage : {Stage::q, Stage::k})
        if (const std::optional<FoldedScale> fold = folded_scale(recording, stage)) folded.push_back(*fold);
    DeclaredView view(recording, folded);
    CastOfScores cast(view);
    // Who looks on was shown the recording as it is.
    options.progress = {};
    options.observe_inherited = {};
    options.observe = [&](Stage stage, const TileId&, const MatrixF& got, const Estimate& expected) {
        if (stage == Stage::s) cast.look_at(got, expected);
    };
    options.tiles = nullptr;
    Report report = run(view, nullptr, options);
    report.units = recording.units();
    SharingOr sharing(options.sharing);
    view.fold_what_it_read(*sharing);
    cast.fold_what_it_saw(*sharing);

    std::string missing;
    const auto excuse = [&](Stage stage, const std::string& what, const char* declaration) {
        std::string& undeclared = report.stages[static_cast<std::size_t>(stage)].undeclared;
        undeclared += (undeclared.empty() ? "" : ", ") + what;
        missing +=
            fmt::format("{}{}, and no attribute declares {}", missing.empty() ? "" : "; ", what, declaration);
    };
    for (const FoldedScale& fold : folded) {
        const bool is_q = fold.stage == Stage::q;
        excuse(fold.stage,
               fmt::format("{0} is staged as {1}({0} * {2:g})", stage_info(fold.stage).name,
                           dtype_info(fold.dtype).name, fold.factor),
               is_q ? "a scale of q as staged (attributes scale and cast of /tiles/q)"
                    : "a scale of k as staged (attributes scale and cast of /tiles/k)");
    }
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
        for (const Stage stage : {Stage::q, Stage::k, Stage::s})
            as_recorded.stages[static_cast<std::size_t>(stage)].undeclared = report.stage(stage).undeclared;
        reach_verdict(as_recorded);
        const auto inherits = [&](Stage stage) { return as_recorded.stage(stage).tally.inherited > 0; };
        if (!as_recorded.guilty && (inherits(Stage::o) || inherits(Stage::lse))) return std::nullopt;
        if (!as_recorded.guilty) report = std::move(as_recorded);
    }
    if (report.guilty == Stage::q || report.guilty == Stage::k || report.guilty == Stage::s)
        return std::nullopt;
    report.warnings.push_back(missing);
    if (report.guilty) return report;
    throw NoVerdict(missing, recording.name(),
                    "declare it, or leave the stage out; what else was recorded matches", std::move(report));
}

Report run_pair(const Recording& recording, const Recording& other, const JudgeOptions& options) {
    Problem comparable = other.problem();
    comparable.dtype_p = recording.problem().dtype_p;
    comparable.dtype_acc = recording.problem().dtype_acc;
    comparable.dtype_partial_o = recording.problem().dtype_partial_o;
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

}  // namespace

Report judge(const Recording& recording, const JudgeOptions& options) {
    SharingOr sharing(options.sharing);
    return in_every_process(*sharing, [&] {
        Report report = run(recording, nullptr, options);
        if (!may_be_undeclared(recording, report)) return report;
        return judge_as_declared(recording, options, report).value_or(std::move(report));
    });
}

Report judge_pair(const Recording& recording, const Recording& other, const JudgeOptions& options) {
    SharingOr sharing(options.sharing);
    return in_every_process(*sharing, [&] { return run_pair(recording, other, options); });
}

std::vector<TilesFound> judge_tiles(std::span<const Recording* const> recordings,
                                    std::span<const JudgeOptions> options, WorkSharing& sharing) {
    std::vector<TilesFound> all(recordings.size());
    std::deque<HeadInputCache> inputs;
    std::vector<std::optional<Plan>> plans(recordings.size());
    std::vector<Failure> refused(recordings.size());
    for (std::size_t i = 0; i < recordings.size(); ++i) {
        try {
            require_judgeable(*recordings[i], false);
            plans[i].emplace(
                make_plan(*recordings[i], nullptr, options[i], inputs.emplace_back(*recordings[i])));
        } catch (...) {
            refused[i] = caught_failure(0, sharing);
        }
    }
    // What one process cannot judge no process does.
    fold(sharing, refused, [](const std::vector<Failure>& part, std::vector<Failure>& whole) {
        for (std::size_t i = 0; i < whole.size(); ++i) keep_first_failure(part[i], whole[i]);
    });
    std::vector<TilesToJudge> tiles;
    for (std::size_t i = 0; i < recordings.size(); ++i)
        if (refused[i].piece < 0) tiles.push_back({*plans[i], options[i]});
    std::vector<TilesFound> judged;
    if (!tiles.empty()) {
        std::int64_t pieces = 0;
        for (const TilesToJudge& one : tiles) pieces += tile_steps(one.plan);
        Steps steps(options.front(), pieces, sharing);
        judged = judge_tiles(tiles, options.front().threads, sharing, steps);
    }
    auto next = judged.begin();
    for (std::size_t i = 0; i < recordings.size(); ++i) {
        if (refused[i].piece < 0)
            all[i] = std::move(*next++);
        else
            all[i].failure = refused[i];
    }
    return all;
}

}  // namespace tilescope
