#include "oracle/causes/formula_change.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "oracle/causes/hidden_scores.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/program/build.h"
#include "oracle/program/carried.h"

namespace tilescope {

std::shared_ptr<const MaybeProgram> program_of(const CauseSearch& world, MergedFrom merged_from) {
    const char* const name = merged_from == MergedFrom::outputs ? "program" : "program of states";
    return world.once<MaybeProgram>(name, [&]() -> MaybeProgram {
        const AttentionProgram declared = attention_program(world.recording(), merged_from);
        if (!declared.text) return nullptr;
        return std::make_unique<RecordedProgram>(
            world.recording(), parse_program(*declared.text),
            std::make_shared<const AttentionInputs>(attention_inputs(world.recording())));
    });
}

namespace {

std::optional<CarriedMistake> carried_to(const FormulaChange& change, const Program& declared) {
    if (!change.beside) return carried(*change.found_in, change.mistake, declared);
    const std::optional<Program> with = program_with(*change.beside, declared);
    return with ? carried(*change.found_in, change.mistake, *with) : std::nullopt;
}

}  // namespace

std::optional<Program> program_with(const FormulaChange& change, const Program& declared) {
    std::optional<CarriedMistake> with = carried_to(change, declared);
    if (!with) return std::nullopt;
    // Its formulas are as they were.
    if (with->store) return std::nullopt;
    if (with->condition < 0) return std::move(with->program);
    const int stage = with->program.array_named(change.found_in->array(change.mistake.stage).name);
    ProgramArray& array = with->program.arrays[std::size_t(stage)];
    // The condition is of the places of the stage that it was seen in.
    const bool are_same_places =
        std::ranges::equal(array.indices, with->program.array(with->stage).indices,
                           [&](int one, int other) { return are_alike(with->program, one, other); });
    if (!are_same_places || change.mistake.is_start) return std::nullopt;
    array.value =
        ProgramBuilder(with->program).chosen(array.value, with->condition, declared.array(stage).value);
    return std::move(with->program);
}

namespace {

/// Tiles of a stage by another formula, in the dump's units; a negative error where the stage has its own one.
using FormulaTiles = std::map<TileId, Estimate>;

/// Of `stage`, which is the one that it was seen in, or the one that it is made in.
FormulaTiles tiles_of(const CauseSearch& world, const FormulaChange& change, Stage stage) {
    FormulaTiles tiles;
    const std::shared_ptr<const MaybeProgram> known = program_of(world, change.merged_from);
    if (!*known) return tiles;
    const RecordedProgram& own = **known;
    std::optional<CarriedMistake> with = carried_to(change, own.program);
    if (!with) return tiles;
    if (!with->store && with->condition >= 0 &&
        with->stage != with->program.array_named(stage_info(stage).name)) {
        // Its places are those of the stage that it was seen in.
        std::optional<Program> whole = program_with(change, own.program);
        if (!whole) return tiles;
        *with = {std::move(*whole)};
    }
    const ProgramCall call{with->program, own.call.sizes, own.call.extents, own.call.blocks, own.call.inputs};
    const int number = with->program.array_named(stage_info(stage).name);
    const ProgramArray& array = with->program.array(number);
    const TileShape shape = tile_shape(world.recording().problem(), stage);
    const auto put = [&](std::span<const std::int64_t> at, std::int64_t block, Uncertain expected) {
        const RecordedAttention::Place place = own.stored.place_of(stage, at, block);
        const auto [found, is_new] = tiles.try_emplace(place.id);
        if (is_new) {
            found->second = zeros(shape.rows, shape.cols);
            found->second.error.setConstant(-1);
        }
        found->second.value(place.row, place.col) = expected.value;
        found->second.error(place.row, place.col) = expected.error;
    };
    if (with->store) {
        const WholeStage whole =
            whole_stage(call, own.options, number, std::numeric_limits<std::int64_t>::max());
        const std::vector<Uncertain> memory =
            memory_of(call, own.options, whole, *with->store, with->condition);
        for (std::int64_t i = 0; i < whole.size(); ++i) put(whole.index_of(i), -1, memory[std::size_t(i)]);
        return tiles;
    }
    std::vector<std::int64_t> axes(with->program.axes.size());
    evaluate_stage(call, own.options, number, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        if (array.over >= 0)
            axes[std::size_t(array.over)] = tile.block * call.blocks[std::size_t(array.over)];
        for (std::int64_t i = 0; i < tile.size(); ++i) {
            const std::vector<std::int64_t> at = tile.index_of(i);
            for (std::size_t k = 0; k < at.size(); ++k)
                axes[std::size_t(with->program.axis_of(array.indices[k]))] = at[k];
            const bool is_there =
                with->condition < 0 || whole_at(call, with->condition, axes).value_or(0) != 0;
            if (!is_there) continue;
            put(at, tile.block, {expected.value[std::size_t(i)], expected.error[std::size_t(i)]});
        }
    });
    return tiles;
}

TileId id_of(Stage stage, const SearchedTile& site) {
    const StageInfo info = stage_info(site.world->recording().problem(), stage);
    TileId id = site.id;
    if (!info.per_q_block) id.q_block = 0;
    if (!info.per_kv_tile) id.kv_tile = 0;
    return id;
}

struct TilePlace {
    Eigen::Index row;
    Eigen::Index col;
};

/// The place that tells what the formula makes of an element: its own; of a column behind the last key, one that is hidden like it, of its
/// row or of another one. nullopt: there is none.
std::optional<TilePlace> place_like(const Estimate& by_formula, const Matrix& healthy, Eigen::Index row,
                                    Eigen::Index col) {
    const auto is_known = [&](Eigen::Index i, Eigen::Index j) { return by_formula.error(i, j) >= 0; };
    const Eigen::Index cols = std::min(by_formula.error.cols(), healthy.cols());
    if (col < cols && is_known(row, col)) return TilePlace{row, col};
    Eigen::Index keys = cols;
    while (keys > 0 && (by_formula.error.col(keys - 1).array() < 0).all()) --keys;
    if (col < keys) return std::nullopt;
    const Eigen::Index rows = std::min(by_formula.error.rows(), healthy.rows());
    for (Eigen::Index k = 0; k < rows; ++k) {
        const Eigen::Index i = (row + k) % rows;
        for (Eigen::Index j = 0; j < keys; ++j) {
            if (is_known(i, j) && healthy(i, j) == healthy(row, col)) return TilePlace{i, j};
        }
    }
    return std::nullopt;
}

/// What the formula of the stage makes of hidden scores.
std::optional<double> where_hidden(const FormulaChange& change, Stage stage) {
    const ProgramMistake& mistake = change.mistake;
    const bool is_of_stage = change.found_in->array(mistake.stage).name == stage_info(stage).name;
    if (mistake.is_start || mistake.store || mistake.condition >= 0 || !is_of_stage) return std::nullopt;
    return value_where_hidden(*change.found_in, mistake.value);
}

}  // namespace

Change change_in(const std::shared_ptr<const FormulaChange>& formula, Stage stage) {
    const std::string name = std::string(stage_info(stage).name) + " by " + formula->name();
    Change change;
    change.indices = {{formula->found_in->array(formula->mistake.stage).name, formula->mistake.becomes}};
    change.formula = formula;
    change.widens = formula->mistake.is_narrower;
    const std::optional<double> hidden = where_hidden(*formula, stage);
    const double healthy_hidden = stage == Stage::s ? -infinity : 0;
    change.result = [=](const SearchedTile& site, Estimate& estimate) {
        const auto tiles =
            site.world->once<FormulaTiles>(name, [&] { return tiles_of(*site.world, *formula, stage); });
        const auto tile = tiles->find(id_of(stage, site));
        if (tile == tiles->end()) return;
        const Estimate& other = tile->second;
        DumpFactor factor;
        if (!is_operand(stage))
            factor = dump_factor(*site.call, stage, site.first_row, site.first_key, estimate.value.rows(),
                                 estimate.value.cols());
        const Matrix healthy = estimate.value;
        const std::int64_t keys = site.world->call(site.id.batch, site.id.head)->problem.seqlen_kv;
        for (Eigen::Index i = 0; i < std::min(healthy.rows(), other.value.rows()); ++i) {
            for (Eigen::Index j = 0; j < healthy.cols(); ++j) {
                const std::optional<TilePlace> from = place_like(other, healthy, i, j);
                // Behind the last key of a tile in which nothing else is hidden.
                const bool is_hidden =
                    !from && hidden && healthy(i, j) == healthy_hidden && site.first_key + j >= keys;
                if (is_hidden) estimate.value(i, j) = *hidden / factor.at(i, j);
                if (!from) continue;
                estimate.value(i, j) = other.value(from->row, from->col) / factor.at(i, j);
                estimate.error(i, j) = other.error(from->row, from->col) / std::abs(factor.at(i, j));
            }
        }
    };
    return change;
}

std::optional<Change> without_condition(const Change& change, Stage stage) {
    if (!change.formula || change.formula->mistake.condition < 0) return std::nullopt;
    FormulaChange anywhere = *change.formula;
    anywhere.mistake.condition = -1;
    anywhere.mistake.where.clear();
    return change_in(std::make_shared<const FormulaChange>(std::move(anywhere)), stage);
}

}  // namespace tilescope
