#include "oracle/causes/answers.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <map>
#include <set>

#include "oracle/causes/formula_change.h"
#include "oracle/causes/formulas.h"
#include "oracle/causes/table.h"
#include "oracle/runs/found_places.h"
#include "oracle/runs/stages_before.h"

namespace tilescope {

namespace {

/// Names of one mistake in the recurrence, by the numbers of the running state that it is made in.
constexpr std::array<std::array<std::string_view, 3>, 5> names_of_one = {{
    {"m_not_carried", "l_not_carried", "acc_not_carried"},
    {"m_starts_at", "l_starts_at"},
    {"l_not_rescaled", "acc_not_rescaled"},
    {"l_rescaled_inversely", "acc_rescaled_inversely"},
    {"l_rescaled_twice", "acc_rescaled_twice"},
}};

bool name_the_same(std::string_view a, std::string_view b) {
    return a == b || std::ranges::any_of(names_of_one, [=](const auto& names) {
               return std::ranges::find(names, a) != names.end() &&
                      std::ranges::find(names, b) != names.end();
           });
}

bool is_in(std::span<const Stage> stages, Stage stage) {
    return std::ranges::find(stages, stage) != stages.end();
}

/// A mistake that a replay, the writes or the tiles that are there prove: no pattern of places.
bool is_proved(const FoundCause& cause) {
    return !cause.structural || cause.name == racing_name || cause.name == skipped_name;
}

const FoundCause* cause_shown_in(Stage stage, const Diagnosis& found) {
    for (const std::vector<FoundCause>* causes : {&found.causes, &found.then}) {
        for (const FoundCause& cause : *causes)
            if (cause.observed == stage && is_proved(cause)) return &cause;
    }
    return nullptr;
}

/// Tiles of a stage as a kernel with one of the causes has them.
using TilesOfCause = std::map<TileId, Estimate>;

/// The blocks, as those of a stage that goes along the other sequence.
std::vector<TileId> blocks_of(const CauseSearch& world, Stage stage, Stage observed,
                              std::span<const TileId> blocks) {
    constexpr std::size_t enough = 4;
    std::set<TileId> mapped;
    for (const TileId& block : blocks.first(std::min(enough, blocks.size()))) {
        if (is_of_all_queries(stage) == is_of_all_queries(observed)) {
            mapped.insert(block);
            continue;
        }
        const Problem& problem = world.recording().problem();
        const std::int64_t head = query_heads(problem, observed, block.head).first;
        for (const std::int64_t q_block : {std::int64_t(0), problem.q_blocks() - 1})
            mapped.insert({block.batch, head, q_block, 0});
    }
    return {mapped.begin(), mapped.end()};
}

TilesOfCause tiles_of(const CauseSearch& world, const FoundCause& cause, Stage stage,
                      std::span<const TileId> blocks) {
    TilesOfCause tiles;
    for (const TileId& block : blocks_of(world, stage, cause.observed, blocks)) {
        ChangedReplay walk(world, block, cause.stage, *cause.changes);
        walk.run(stage, [&](const SearchedTile& site, const Estimate& estimate) {
            tiles.emplace(site.id, estimate);
        });
    }
    return tiles;
}

/// Whether the mistake leaves elements that nobody writes: what is computed from them is not known.
bool leaves_unwritten(const Evidence& evidence, const FoundCause& cause) {
    const auto is_left = [](const auto& tile) {
        const Matrix& value = tile.second.value;
        return std::any_of(value.data(), value.data() + value.size(),
                           [](double x) { return is_unwritten(float(x)); });
    };
    return std::ranges::any_of(tiles_of(*evidence.world, cause, cause.stage, evidence.blocks), is_left);
}

/// Earlier stages that diverge by themselves and that `stage` is computed from.
std::vector<Stage> wrong_before(const Report& report, Stage stage) {
    std::vector<Stage> wrong = stages_before(report.problem.direction, stage);
    std::erase_if(wrong, [&](Stage before) {
        return state_of(report, before) != StageState::wrong_too && before != report.guilty;
    });
    return wrong;
}

/// Each of them, and all together.
std::vector<std::vector<Stage>> wrong_sets(const Report& report, Stage stage) {
    const std::vector<Stage> wrong = wrong_before(report, stage);
    std::vector<std::vector<Stage>> sets;
    for (const Stage before : wrong) sets.push_back({before});
    if (wrong.size() > 1) sets.push_back(wrong);
    return sets;
}

/// Whether a kernel with the changes that computes the `hidden` stages where others read what it dumped leaves the
/// stage as it was dumped: by what search() asks of a cause.
bool leaves_as_dumped(const Evidence& evidence, std::span<const Stage> hidden, Stage acts, Scope scope,
                      std::span<const Change> changes) {
    const CauseSearch world(*evidence.world, hidden);
    Evidence replayed = evidence;
    replayed.world = &world;
    replayed.acts = acts;
    replayed.known.assign(changes.begin(), changes.end() - 1);
    const Misfit misfit = misfit_of(replayed, changes.back());
    return double(left_by(scope, misfit)) <= (1 - enough_of_one) * double(evidence.wrong_elements) &&
           misfit.tells_values() && misfit.tells_more_than_nan();
}

bool covers(const Evidence& evidence, const FoundCause& cause) {
    const Direction direction = evidence.problem().direction;
    if (!cause.changes) return false;
    const std::shared_ptr<const FormulaChange>& formula = cause.changes->back().formula;
    const bool is_before = is_in(stages_before(direction, evidence.observed), cause.stage);
    const bool is_beside = formula && (is_made_beside(*formula) || explains_other_stages(*formula));
    if ((!is_before && !is_beside) || leaves_unwritten(evidence, cause)) return false;
    // Of a formula its program says what follows, from stages as well that nobody records.
    const bool is_everywhere = cause.scope == Scope::everywhere || (formula && has_condition(*formula));
    if (formula && cause.changes->size() == 1 && is_everywhere) {
        const Misfit misfit = misfit_of(evidence, change_in(formula, evidence.observed));
        const double most = (1 - enough_of_one) * double(evidence.wrong_elements);
        if (double(left_by(Scope::everywhere, misfit)) <= most && misfit.tells_values() &&
            misfit.by_value > 0)
            return true;
    }
    if (!is_before) return false;
    const auto leaves_it = [&](std::span<const Stage> hidden) {
        return leaves_as_dumped(evidence, hidden, cause.stage, cause.scope, *cause.changes);
    };
    // Where the mistake was made before what was dumped, the dump tells most; else what follows is computed.
    return (cause.stage != cause.observed && leaves_it({})) || leaves_it({&cause.observed, 1});
}

/// The comparisons that hide scores among the keys also hide those behind the last one, which are not dumped: the maximum
/// and the sums alone show them.
bool is_mask_with_tail(const FoundCause& mask, const FoundCause& tail) {
    const bool is_formula = mask.changes && mask.changes->back().formula;
    const bool is_of_mask =
        mask.family == "mask geometry" || (is_formula && hides_otherwise(*mask.changes->back().formula));
    // The number that a key behind the last one has is where a maximum seems to start.
    const bool is_of_tail = tail.family == "tail" || tail.name == "m_starts_at";
    return is_of_mask && mask.stage == Stage::s && is_of_tail && tail.stage > Stage::s;
}

/// The bound of the store of o leaves rows out, and lets others pass that end up in lse.
bool is_bound_of_output(const FoundCause& left_out, const FoundCause& in_lse) {
    return left_out.family == "coverage" && left_out.stage == Stage::o &&
           in_lse.name == rows_stored_over_lse_name;
}

/// A number that keys behind the last one are masked with is where their maximum starts, too, and they are in the sum.
bool is_start_of_tail(const FoundCause& start, const FoundCause& tail) {
    if (start.name != "m_starts_at" || tail.family != "tail" || tail.parameters.empty()) return false;
    return tail.parameters.back().value == masked_with(start.parameters.front().value);
}

bool is_named_formula(const FoundCause& cause) {
    return cause.name != formula_name && cause.changes && cause.changes->back().formula;
}

/// What a state begins with, as a formula that has a name: it has no parts that another stage could share.
bool is_named_start(const FoundCause& cause) {
    return is_named_formula(cause) && cause.changed_parts.empty();
}

/// Formulas of two stages are written differently; where they have a name it tells, and the place.
bool have_same_parameters(const FoundCause& a, const FoundCause& b) {
    if (is_named_formula(a) && is_named_formula(b)) return a.where == b.where;
    return a.parameters == b.parameters;
}

}  // namespace

bool is_same_mistake(const FoundCause& a, const FoundCause& b) {
    if (is_mask_with_tail(a, b) || is_mask_with_tail(b, a)) return true;
    if (is_start_of_tail(a, b) || is_start_of_tail(b, a)) return true;
    if (is_bound_of_output(a, b) || is_bound_of_output(b, a)) return true;
    if (!a.changed_parts.empty() && a.changed_parts == b.changed_parts) return true;
    const bool is_same = a.stage == b.stage || have_same_parameters(a, b) || a.name == racing_name ||
                         is_named_start(a) || is_named_start(b);
    // A mask that shows what is behind the last key shows it to the maximum and to the sum.
    const bool is_of_tail = a.family == "tail" && b.family == "tail" && a.stage != b.stage &&
                            !a.parameters.empty() && !b.parameters.empty() &&
                            a.parameters.back().value == b.parameters.back().value;
    return (is_same && name_the_same(a.name, b.name)) || is_of_tail;
}

std::vector<Stage> leave_open(const Evidence& evidence, const Report& report, int threads) {
    for (const std::vector<Stage>& computed : wrong_sets(report, evidence.observed)) {
        const CauseSearch world(*evidence.world, computed);
        if (collect_evidence(world, report, evidence.observed, threads).wrong_elements == 0) return computed;
    }
    return {};
}

std::optional<StageAnswer> answer_from_dump(const Evidence& evidence, const Report& report,
                                            const Diagnosis& found) {
    if (evidence.wrong_elements == 0) return std::nullopt;
    for (const std::vector<Stage>& some : wrong_sets(report, evidence.observed)) {
        // By narrower budgets than those that the hidden stages leave open.
        const std::vector<Change> nothing(1);
        if (!leaves_as_dumped(evidence, some, some.front(), Scope::everywhere, nothing)) continue;
        StageAnswer answer{evidence.observed, AnswerKind::covered, {}, {}, some};
        if (const FoundCause* cause = cause_shown_in(some.front(), found)) {
            answer.cause = cause->name;
            answer.made_in = cause->stage;
        }
        return answer;
    }
    return std::nullopt;
}

std::vector<FoundCause> causes_that_cover(const Evidence& evidence, const Diagnosis& found) {
    std::vector<FoundCause> covering;
    if (evidence.wrong_elements == 0) return covering;
    for (const std::vector<FoundCause>* causes : {&found.causes, &found.then}) {
        for (const FoundCause& cause : *causes)
            if (cause.rank == 1 && covers(evidence, cause)) covering.push_back(cause);
    }
    return covering;
}

StageAnswer answer_from_search(Stage stage, const Diagnosis& of_stage, const Diagnosis& found) {
    StageAnswer answer{stage, AnswerKind::unexplained, {}, {}, {}};
    if (of_stage.causes.empty() || !is_proved(of_stage.causes[0])) return answer;
    answer.kind = AnswerKind::own_cause;
    answer.cause = of_stage.causes[0].name;
    answer.made_in = of_stage.causes[0].stage;
    for (const std::vector<FoundCause>* causes : {&found.causes, &found.then}) {
        for (const FoundCause& before : *causes) {
            // One mistake that explains two stages is likelier than two, though another explains this one as well.
            const bool is_same = std::ranges::any_of(
                of_stage.causes, [&](const FoundCause& cause) { return is_same_mistake(cause, before); });
            if (!is_same || before.rank > 1 || before.observed == stage) continue;
            answer.kind = AnswerKind::covered;
            answer.cause = before.name;
            answer.made_in = before.stage;
            answer.made_again = true;
            return answer;
        }
    }
    return answer;
}

namespace {

bool differ(const Estimate& a, const Estimate& b) {
    for (Eigen::Index i = 0; i < std::min(a.value.size(), b.value.size()); ++i) {
        const double x = a.value.data()[i];
        const double y = b.value.data()[i];
        const double error = a.error.data()[i] + b.error.data()[i];
        if (std::isinf(error)) continue;
        if (std::isnan(x) != std::isnan(y) || std::abs(x - y) > error) return true;
    }
    return false;
}

bool differ(const TilesOfCause& a, const TilesOfCause& b) {
    return std::ranges::any_of(a, [&](const auto& tile) {
        const auto same = b.find(tile.first);
        return same != b.end() && differ(tile.second, same->second);
    });
}

/// A stage that may be recorded, and which pairs of causes it tells apart.
struct Telling {
    Stage stage;
    std::bitset<64> pairs;
};

Telling telling_of(const CauseSearch& world, Stage stage, std::span<const TileId> blocks,
                   std::span<const FoundCause* const> causes) {
    Telling telling{stage, {}};
    std::vector<TilesOfCause> tiles;
    for (const FoundCause* cause : causes) tiles.push_back(tiles_of(world, *cause, stage, blocks));
    std::size_t pair = 0;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
        for (std::size_t j = i + 1; j < tiles.size() && pair < telling.pairs.size(); ++j, ++pair)
            telling.pairs[pair] = differ(tiles[i], tiles[j]);
    }
    return telling;
}

}  // namespace

std::vector<Stage> stages_that_tell(const CauseSearch& world, std::span<const TileId> blocks,
                                    std::span<const FoundCause> causes) {
    std::vector<const FoundCause*> tied;
    for (const FoundCause& cause : causes)
        if (cause.rank == 1 && cause.changes) tied.push_back(&cause);
    if (tied.size() == 1 && tied[0]->changes->back().formula) {
        std::vector<Stage> loads = loads_in(*tied[0]->changes->back().formula);
        std::erase_if(loads, [&](Stage stage) { return world.has(stage) || stage == tied[0]->observed; });
        return loads;
    }
    if (tied.size() < 2) return {};
    std::vector<Telling> telling;
    for (const Stage stage : stages_before(world.recording().problem().direction, tied[0]->observed))
        if (!world.has(stage)) telling.push_back(telling_of(world, stage, blocks, tied));
    std::vector<Stage> stages;
    for (std::bitset<64> told;;) {
        const auto news = [&](const Telling& one) { return (one.pairs & ~told).count(); };
        const auto best = std::ranges::max_element(telling, {}, news);
        if (best == telling.end() || news(*best) == 0) break;
        told |= best->pairs;
        stages.push_back(best->stage);
    }
    std::ranges::sort(stages);
    return stages;
}

}  // namespace tilescope
