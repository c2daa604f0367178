// What is said of a recording that diverges: which mistake, how certain, and what is left open.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "oracle/causes/formula_names.h"
#include "oracle/causes/replayed.h"
#include "oracle/causes/table.h"
#include "oracle/report/text.h"
#include "oracle/runs/same_run.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/planted_calls.h"
#include "tests/oracle/plants.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 83;

MemoryRecording run_with(const Plant& plant, InputKind kind = InputKind::ramped_k) {
    return recorded(make_call(small_problem_of_floats(), seed, {}, kind), plant);
}

const FoundCause& best(const Report& report) {
    if (report.diagnosis.causes.empty()) throw std::runtime_error("no cause was found");
    return report.diagnosis.causes[0];
}

std::set<std::string_view> tied_with_best(const Report& report) {
    std::set<std::string_view> names;
    for (const FoundCause& cause : report.diagnosis.causes)
        if (cause.rank == 1) names.insert(cause.name);
    return names;
}

/// Whether a mistake is known that shows that name.
bool is_planted(std::string_view name) {
    for (const auto family : all_mistakes())
        for (const MistakeInfo& mistake : family)
            if (std::ranges::find(mistake.causes, name) != mistake.causes.end()) return true;
    return false;
}

/// A row without candidates is a name of formulas, or one that candidates of other rows have.
TEST(CauseTable, HasManyRowsThatAreComplete) {
    std::set<std::pair<std::string_view, Stage>> rows;
    std::set<std::string_view> names;
    const std::vector<std::string_view> called = names_of_formulas();
    const std::set<std::string_view> of_formulas(called.begin(), called.end());
    for (const Cause& cause : all_causes()) {
        EXPECT_FALSE(cause.family.empty() || cause.says.empty() || cause.look_at.empty()) << cause.name;
        EXPECT_TRUE(cause.candidates || is_planted(cause.name) || of_formulas.contains(cause.name))
            << cause.name;
        EXPECT_EQ(cause.stages.empty(), cause.structural) << cause.name;
        names.insert(cause.name);
        for (const Stage stage : cause.stages)
            EXPECT_TRUE(rows.insert({cause.name, stage}).second) << cause.name << " twice in a stage";
    }
    EXPECT_GE(names.size(), 45u);
    for (const std::string_view name : called) EXPECT_TRUE(names.contains(name)) << name;
}

std::string row_of(const Cause& cause) {
    std::string stages;
    for (const Stage stage : cause.stages)
        stages += (stages.empty() ? "" : " ") + std::string(stage_info(stage).name);
    return fmt::format("| {} | {} | {} | {}{} |", cause.name, cause.family,
                       cause.structural ? "places" : stages, cause.says, cause.legal ? " (legal)" : "");
}

TEST(CauseTable, IsTheOneOfTheDocument) {
    std::ifstream document(TILESCOPE_CAUSES_DOCUMENT);
    std::vector<std::string> documented;
    bool is_in_table = false;
    for (std::string line; std::getline(document, line);) {
        is_in_table = is_in_table ? line.starts_with("|") : line == "|---|---|---|---|" && documented.empty();
        if (is_in_table && !line.starts_with("|---")) documented.push_back(line);
    }
    std::vector<std::string> rows;
    for (const Cause& cause : all_causes()) rows.push_back(row_of(cause));
    std::ranges::sort(documented);
    std::ranges::sort(rows);
    EXPECT_EQ(documented, rows);
}

TEST(CauseTable, SaysWhatARaceLooksLikeAsTheDocument) {
    std::ifstream document(TILESCOPE_CAUSES_DOCUMENT);
    const std::string text((std::istreambuf_iterator<char>(document)), {});
    const std::size_t first = text.find("*Races.*");
    const std::string races = text.substr(first, text.find("are what a missing barrier looks like") - first);
    for (const Cause& cause : all_causes())
        EXPECT_EQ(races.find(fmt::format("`{}`", cause.name)) != std::string::npos,
                  cause.race_alike || cause.name == "racing")
            << cause.name;
}

TEST(Causes, NothingIsSearchedWhereNothingDiverges) {
    const Report report = diagnosed(run_with({}));
    EXPECT_EQ(report.verdict, Verdict::match);
    EXPECT_FALSE(report.diagnosis.searched);
    EXPECT_EQ(causes_text(report), "");
    EXPECT_TRUE(nlohmann::json::parse(to_json(report))["causes"].is_null());
}

TEST(Causes, SayWhatHowMuchAndWhere) {
    const Report report = diagnosed(run_with({Mistake::acc_not_rescaled}));
    const FoundCause& cause = best(report);
    EXPECT_EQ(cause.name, "acc_not_rescaled");
    EXPECT_EQ(cause.stage, Stage::acc);
    EXPECT_EQ(cause.where, "everywhere");
    EXPECT_EQ(cause.explained_after, 1);
    EXPECT_LT(cause.explained_before, 0.9);
    EXPECT_FALSE(cause.legal);
    EXPECT_GT(cause.bits, 0);
    EXPECT_LT(cause.bits, 8 + 8 + 1);
    const std::string text = to_text(report);
    EXPECT_NE(text.find("cause: acc_not_rescaled in acc: "), std::string::npos) << text;
    EXPECT_NE(text.find("\n  acc = acc + sum("), std::string::npos) << text;
    EXPECT_NE(text.find("  explained 100 % of "), std::string::npos) << text;
    EXPECT_NE(text.find("  look at: acc *= exp(m_old - m_new)"), std::string::npos) << text;
    const nlohmann::json json = nlohmann::json::parse(to_json(report))["causes"][0];
    for (const char* key : {"name", "family", "stage", "explained_before", "explained_after", "parameters",
                            "free_parameters", "where", "look_at", "rank"})
        EXPECT_TRUE(json.contains(key)) << key;
}

/// What the reports have of a mistake as data.
std::string rewrites_of(const Report& report) {
    return nlohmann::json::parse(to_json(report))["causes"][0]["rewrites"].dump();
}

TEST(Causes, HaveWhatBecomesOfTheFormulaAsData) {
    EXPECT_EQ(
        rewrites_of(diagnosed(run_with({Mistake::acc_rescaled_twice}))),
        R"x([{"becomes":"acc * rescale * rescale + sum(j: p * v[b, h, i / block_m, j, e])","slot":"acc"}])x");
    EXPECT_EQ(rewrites_of(diagnosed(run_with({Mistake::kv_head_zero}))),
              R"([{"becomes":"K[b, 0, j, d]","slot":"k"}])");
    EXPECT_EQ(rewrites_of(diagnosed(run_with({Mistake::acc_not_carried}))),
              R"x([{"becomes":"sum(j: p * v[b, h, i / block_m, j, e])","slot":"acc"}])x");
    EXPECT_EQ(rewrites_of(diagnosed(run_with({Mistake::half_accumulator}))), "[]");
}

TEST(Causes, SayHowManyParametersWereFitted) {
    MemoryRecording recording = run_with({});
    change_stage(recording, Stage::o,
                 [](float o, const TileId&, std::int64_t, std::int64_t) { return 3 * o; });
    const Report report = diagnosed(recording);
    EXPECT_EQ(title_of(best(report)), "output_constant (o acc * 3.0 / l_row where l_row > 0.0 else 0.0)");
    EXPECT_NE(causes_text(report).find("; everywhere; a parameter fitted\n"), std::string::npos)
        << causes_text(report);
    EXPECT_EQ(nlohmann::json::parse(to_json(report))["causes"][0]["free_parameters"], 1);
}

TEST(Causes, AreNamedWhereTheyWerePlanted) {
    const Plant plant{Mistake::l_not_rescaled, 1, 2, -1, 2};
    const FoundCause cause = best(diagnosed(run_with(plant)));
    EXPECT_EQ(cause.name, "l_not_rescaled") << title_of(cause);
    EXPECT_EQ(cause.where, "where b >= 1");
    EXPECT_NE(title_of(cause).find("h == 2 and j / block_n >= 2"), std::string::npos) << title_of(cause);
    EXPECT_EQ(cause.explained_after, 1);
}

TEST(Causes, OneRowIsEnough) {
    const Plant plant{Mistake::q_row_zeroed, 1, 2, 37, 0};
    const Report report = diagnosed(run_with(plant));
    EXPECT_EQ(best(report).explained_after, 1);
    // A row of zeros is also one that was not loaded and holds 0.
    const std::set<std::string_view> named = tied_with_best(report);
    EXPECT_TRUE(named.contains("rows_zeroed") || named.contains("rows_not_loaded")) << causes_text(report);
    for (const std::string_view name : named)
        EXPECT_TRUE(name == "rows_zeroed" || name == "rows_not_loaded") << causes_text(report);
}

/// A name that is left out is not said, and one whose candidates have other names takes none of these with it.
TEST(Causes, ThatAreLeftOutTakeNoOthersWithThem) {
    const Call call = call_that_shows(Mistake::kv_head_modulo, Direction::forward, 1);
    const MemoryRecording run = recorded(call, {Mistake::kv_head_modulo});
    const auto first_without = [&](const std::string& cause) {
        Report report = judged(run);
        CauseOptions options;
        options.without = {cause};
        report.diagnosis = find_causes(run, report, options);
        return report.diagnosis.causes.empty() ? "" : std::string(report.diagnosis.causes[0].name);
    };
    EXPECT_EQ(first_without("operand_addresses"), "kv_head_modulo");
    EXPECT_NE(first_without("kv_head_modulo"), "kv_head_modulo");
}

/// A change of one value is no mistake of the table, and no share of right elements around it makes it one.
TEST(Causes, NoneIsNamedForAStrayValue) {
    MemoryRecording run = run_with({});
    for (const Stage stage : {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o}) {
        MemoryRecording recording = copy_of(run);
        const TileId tile{1, 2, 1, stage == Stage::o ? 0 : 2};
        poke(recording, stage, tile, 3, 0, peek(recording, stage, tile, 3, 0) * 1.37f + 0.11f);
        const Report report = diagnosed(recording);
        ASSERT_EQ(report.guilty, stage);
        const auto& causes = report.diagnosis.causes;
        EXPECT_TRUE(causes.empty() || causes[0].structural || causes[0].scope == Scope::bad_rows)
            << stage_info(stage).name << ": " << title_of(causes[0]);
    }
}

/// Noise that no formula makes: only its places can be told.
TEST(Causes, NoneIsNamedForNoise) {
    MemoryRecording run = run_with({});
    for (const Stage stage : {Stage::s, Stage::p, Stage::l, Stage::acc, Stage::o}) {
        MemoryRecording recording = copy_of(run);
        change_stage(recording, stage,
                     [&](float value, const TileId& tile, std::int64_t row, std::int64_t col) {
                         const double turn =
                             double((tile.q_block * 131 + tile.kv_tile * 57 + row * 17 + col * 29) % 101);
                         return std::isfinite(value) ? float(value * (1.5 + std::sin(turn * turn))) : value;
                     });
        const Report report = diagnosed(recording);
        ASSERT_EQ(report.guilty, stage);
        const auto& causes = report.diagnosis.causes;
        EXPECT_TRUE(causes.empty() || causes[0].structural)
            << stage_info(stage).name << ": " << title_of(causes[0]) << ", seed " << seed;
        EXPECT_NE(causes_text(report).find("no known cause explains"), std::string::npos);
    }
}

TEST(Causes, ALegalVariationIsNamedAsOne) {
    MemoryRecording run = run_with({});
    change_stage(run, Stage::lse, [](float value, auto...) { return value * 1.44269504f; });
    const Report report = diagnosed(run);
    EXPECT_EQ(best(report).name, "lse_in_other_base");
    EXPECT_TRUE(best(report).legal);
    EXPECT_NE(to_text(report).find("legal, if it is meant: lse_in_other_base"), std::string::npos);
}

TEST(Causes, EquivalentOnesAreTies) {
    // A descale that is sm_scale: which of both is missing does not show.
    const MistakeInfo& mistake = mistake_info(Mistake::descale_q_missing_in_s);
    const auto of_descales = std::ranges::find(planted_inputs(), "descales", &PlantedInput::name);
    Call call = planted_call(mistake, *of_descales, planted_shapes()[0], seed);
    call.inputs.side.descale_q.values.assign(call.inputs.side.descale_q.values.size(),
                                             float(call.problem.sm_scale));
    const Report report = diagnosed(recorded(call, {mistake.mistake}));
    const std::set<std::string_view> first = tied_with_best(report);
    EXPECT_TRUE(first.contains("scale_missing")) << causes_text(report);
    EXPECT_TRUE(first.contains("descale_missing")) << causes_text(report);
    EXPECT_NE(to_text(report).find("  as good: "), std::string::npos);
    EXPECT_NE(to_text(report).find("; this recording does not tell which of them it is\n"),
              std::string::npos);
}

TEST(Causes, TwoFaultsAreFoundOneAfterTheOther) {
    MemoryRecording run = run_with({Mistake::l_not_rescaled});
    change_stage(run, Stage::lse, [](float value, auto...) { return -value; });
    const Report report = diagnosed(run);
    EXPECT_EQ(best(report).name, "l_not_rescaled");
    ASSERT_EQ(report.diagnosis.then.size(), 1u);
    EXPECT_EQ(report.diagnosis.then[0].name, "lse_sign");
    EXPECT_NE(to_text(report).find("then: lse_sign in lse: "), std::string::npos);
}

TEST(Causes, TwoFaultsOfOneStageAreFoundTogether) {
    MemoryRecording run = run_with({}, InputKind::normal);
    const float base = std::log2(std::exp(1.0f));
    change_stage(run, Stage::lse, [&](float value, const TileId& tile, auto...) {
        return tile.head < 2 ? value * base : -value;
    });
    const Report report = diagnosed(run);
    std::set<std::string_view> both;
    for (const FoundCause& cause : report.diagnosis.causes) both.insert(cause.name);
    for (const FoundCause& cause : report.diagnosis.then) both.insert(cause.name);
    EXPECT_TRUE(both.contains("lse_in_other_base") && both.contains("lse_sign")) << causes_text(report);
}

TEST(Causes, AreFoundFromTheOutputAlone) {
    for (const auto& [mistake, name] :
         {std::pair{Mistake::acc_not_rescaled, "acc_not_rescaled"}, {Mistake::scaled_twice, "scale_twice"}}) {
        const MemoryRecording run = run_with({mistake});
        const Report report = diagnosed(with_stages(run, {Stage::o}));
        EXPECT_EQ(best(report).name, name);
        EXPECT_EQ(best(report).observed, Stage::o);
        EXPECT_EQ(best(report).explained_after, 1);
    }
}

TEST(Causes, OfWhatNobodyWroteNoValuesAreAskedFor) {
    for (const Stage stage : {Stage::q, Stage::k, Stage::s, Stage::o}) {
        MemoryRecording run = run_with({});
        run.set_capture(everything_selected());
        run.remove_tile(stage, {1, 1, stage_info(stage).per_q_block ? 1 : 0, 0});
        const Report report = diagnosed(run);
        ASSERT_EQ(report.guilty, stage);
        EXPECT_EQ(best(report).name, "tile_skipped");
        EXPECT_EQ(causes_text(report).find("wrong elements: tile_skipped"), 0) << causes_text(report);
        std::vector<CauseParameter> where = {{"tiles", "1"}, {"batch", "1"}, {"head", "1"}};
        if (stage != Stage::k) where.push_back({"query block", "1"});
        EXPECT_EQ(best(report).parameters, where);
    }
    // Where values are wrong as well, nothing else is said of them.
    MemoryRecording run = run_with({});
    change_stage(run, Stage::s, [](float value, const TileId&, std::int64_t row, std::int64_t col) {
        return row % 4 == 1 ? value + 3 + float(std::cos(double(col * col))) : value;
    });
    EXPECT_EQ(causes_text(diagnosed(run)).find("no known cause explains the values"), 0);
}

TEST(Causes, PatternsAreToldWithoutReplay) {
    MemoryRecording run = run_with({});
    change_stage(run, Stage::s, [](float value, const TileId&, std::int64_t row, std::int64_t col) {
        return row % 4 == 1 ? value + 3 + float(std::cos(double(col * col))) : value;
    });
    const FoundCause cause = best(diagnosed(run));
    EXPECT_EQ(cause.name, "periodic_rows");
    EXPECT_TRUE(cause.structural);
    EXPECT_EQ(cause.parameters[0], (CauseParameter{"period", "4"}));
    EXPECT_EQ(cause.parameters[1], (CauseParameter{"phase", "1"}));
}

TEST(Replay, HoldsWhatTheFaultyKernelHolds) {
    const Plant plant{Mistake::l_not_rescaled, 1, 2, -1, 2};
    const MemoryRecording run = run_with(plant);
    const Report report = diagnosed(run);
    const ReplayedRecording replay(run, best(report), report.confidence);
    const MemoryRecording healthy = run_with({});
    double furthest = 0;
    double moved = 0;
    for (std::int64_t i = 0; i < tile_count(replay.problem(), Stage::l); ++i) {
        const TileId tile = tile_at(replay.problem(), Stage::l, i);
        if (!run.has_tile(Stage::l, tile)) continue;
        const float got = peek(run, Stage::l, tile, 0, 0);
        furthest = std::max(furthest, double(std::abs(peek(replay, Stage::l, tile, 0, 0) / got - 1)));
        moved = std::max(moved, double(std::abs(peek(healthy, Stage::l, tile, 0, 0) / got - 1)));
    }
    EXPECT_LT(furthest, 1e-5);
    EXPECT_GT(moved, 0.1);
}

TEST(SameRun, ShowsWhatDiffersFirst) {
    const MemoryRecording run = run_with({});
    MemoryRecording other = copy_of(run);
    EXPECT_EQ(compare_same_run(run, other).changed(), nullptr);
    poke(other, Stage::acc, {1, 2, 1, 2}, 3, 5,
         std::nextafter(peek(other, Stage::acc, {1, 2, 1, 2}, 3, 5), 1e9f));
    poke(other, Stage::p, {1, 2, 1, 3}, 7, 4, 0.123f);
    const SameRun runs = compare_same_run(run, other);
    ASSERT_NE(runs.changed(), nullptr);
    EXPECT_EQ(runs.changed()->stage, Stage::p);
    EXPECT_EQ(runs.tiles_changed, 1);
    EXPECT_EQ(runs.rows, "7");
    EXPECT_EQ(runs.columns, "4");
    EXPECT_NE(to_text(runs).find("cause: racing in p"), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(to_json(runs))["verdict"], "diverged");
}

TEST(SameRun, DiffersEverywhereBesideWhatIsTheSameByChance) {
    const MemoryRecording run = run_with({});
    MemoryRecording other = copy_of(run);
    change_stage(other, Stage::o, [](float value, const TileId& tile, std::int64_t row, std::int64_t col) {
        return tile == TileId{} && row == 3 && col == 5 ? value : value + 1;
    });
    EXPECT_EQ(compare_same_run(run, other).where, "everywhere");
}

/// A step of several ranks, with k as it read it: the last rows came otherwise, and scores with them.
TEST(SameRun, ShowsWhatArrivedOtherwise) {
    MemoryRecording run = run_with({});
    Problem problem = run.problem();
    const std::int64_t rows = problem.seqlen_kv;
    MemoryRecording other = copy_of(run);
    std::vector<float> k(std::size_t(problem.batch * problem.heads_kv * rows * problem.head_dim));
    for (std::size_t i = 0; i < k.size(); ++i) k[i] = float(i);
    run.set_input(Input::k, k);
    const std::int64_t first = rows / 2;
    for (std::size_t i = std::size_t(first * problem.head_dim); i < std::size_t(rows * problem.head_dim); ++i)
        k[i] = -1;
    other.set_input(Input::k, k);
    poke(other, Stage::s, {0, 0, 0, 0}, 0, 0, 7);

    const auto is_refused = [](const Recording& a, const Recording& b) {
        try {
            compare_same_run(a, b);
            return std::string("accepted");
        } catch (const Error& error) {
            return std::string(error.what());
        }
    };
    EXPECT_NE(is_refused(run, other).find("/inputs/k differs from"), std::string::npos)
        << is_refused(run, other);

    problem.shard.ranks = 2;
    problem.shard.rank = 1;
    problem.shard.step = 1;
    const DeclaredAs step(run, problem, run.units());
    const DeclaredAs again(other, problem, run.units());
    const SameRun runs = compare_same_run(step, again);
    ASSERT_TRUE(runs.arrived);
    EXPECT_EQ(runs.arrived->input, Input::k);
    EXPECT_EQ(runs.arrived->row, first);
    EXPECT_EQ(runs.arrived->changed, (rows - first) * problem.head_dim);
    EXPECT_EQ(runs.arrived->rows, std::to_string(first) + "-" + std::to_string(rows - 1));
    const std::string text = to_text(runs);
    EXPECT_NE(text.find("cause: transfer_incomplete in k: what rank 1 read at step 1 differs"),
              std::string::npos)
        << text;
    const auto json = nlohmann::json::parse(to_json(runs));
    EXPECT_EQ(json["verdict"], "diverged");
    EXPECT_EQ(json["arrived"]["name"], "k");
    EXPECT_EQ(json["causes"][0]["name"], "transfer_incomplete");
}

}  // namespace
}  // namespace tilescope::test
