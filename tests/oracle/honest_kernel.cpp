#include "tests/oracle/honest_kernel.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "dump/recording/array_shape.h"
#include "tests/oracle/honest_backward.h"
#include "tests/oracle/honest_output.h"
#include "tests/oracle/honest_points.h"
#include "tests/oracle/honest_scores.h"
#include "tests/oracle/honest_softmax.h"
#include "tests/oracle/plants.h"

namespace tilescope::test {

double sign_from(float value) {
    const std::uint32_t hash = (std::bit_cast<std::uint32_t>(value) + 0x9e3779b9u) * 0x85ebca6bu;
    return (hash >> 31) != 0 ? 1.0 : -1.0;
}

float off_by_two_ulp(double exact, float key) {
    return float(exact * (1 + sign_from(key) * 0.74 * 0x1p-23));
}

bool Block::is_visible(std::int64_t row, std::int64_t key) const {
    const std::int64_t right = position(key) - diagonal(row);
    const std::int64_t excluded = p.window_bounds == WindowBounds::exclusive ? 1 : 0;
    if (p.mask == Mask::causal && right > 0) return false;
    if (p.window_right >= 0 && right > p.window_right - excluded) return false;
    if (p.window_left >= 0 && -right > p.window_left - excluded) return false;
    return true;
}

float Block::scale(std::int64_t row, std::int64_t key) const {
    float scale = float(p.sm_scale / (double(a.q.scale) * double(a.k.scale)));
    if (!a.q.dequantises) scale *= in.side.descale_q.at(id.batch, id.head, row);
    if (!a.k.dequantises) scale *= in.side.descale_k.at(id.batch, head_kv(), key);
    return scale;
}

float Block::last_factor(std::int64_t row, std::int64_t key) const {
    return capped() ? float(p.logits_soft_cap) : scale(row, key);
}

float Block::last_factor_log2(std::int64_t row, std::int64_t key) const {
    return last_factor(row, key) * log2e;
}

float Block::v_descale() const {
    const bool in_p = a.p_descale != DescaleInP::none && p.direction == Direction::forward;
    return a.v.dequantises || in_p ? 1.0f : in.side.descale_v.at(id.batch, head_kv(), first_key());
}

Block Block::mistaken() const {
    const Points* made = &mistake_info(plant.mistake).points;
    if (mistaken_call == nullptr) return {p, a, in, plant, run, id, rows, nullptr, earlier, made};
    return {
        mistaken_call->p, mistaken_call->a, mistaken_call->in, plant, run, id, rows, nullptr, earlier, made};
}

void Block::note_changes(Stage stage, const Tile& right, const Tile& wrong) {
    const auto key = [](const Changed& c) {
        return std::tuple(c.tile.kv_tile, c.tile.batch, c.tile.head, c.row, c.col, c.tile.q_block);
    };
    const auto same = [](float x, float y) {
        return is_unwritten(x) == is_unwritten(y) && (x == y || (std::isnan(x) && std::isnan(y)));
    };
    const TileShape extent = tile_extent(p, stage, id);
    const std::int64_t first_row = stage == Stage::k || stage == Stage::v ? first_key() : Block::first_row();
    const std::int64_t first_col = stage == Stage::s || stage == Stage::p ? first_key() : 0;
    std::optional<Changed>& first = run.changed[std::size_t(stage)];
    for (std::int64_t i = 0; i < extent.rows; ++i) {
        for (std::int64_t j = 0; j < extent.cols; ++j) {
            if (same(right.at(i, j), wrong.at(i, j))) continue;
            const Changed here{id, first_row + i, first_col + j};
            if (!first || key(here) < key(*first)) first = here;
        }
    }
}

namespace {

void change_elements(const Block& b, Stage stage, float (*change)(const Block&, const Spot&, float),
                     Tile& tile) {
    if (change == nullptr) return;
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        for (std::int64_t j = 0; j < tile.cols; ++j) tile.at(i, j) = change(b, {stage, i, j}, tile.at(i, j));
    }
}

}  // namespace

void Block::spoil_used(Stage stage, Tile& tile) const {
    change_elements(*this, stage, at(&Points::spoilt), tile);
}

void Block::spoil_dumped(Stage stage, Tile& tile) const {
    change_elements(*this, stage, at(&Points::dumped), tile);
}

void Block::keep_right_rows(const Tile& right, Tile& wrong) const {
    for (std::int64_t i = 0; i < rows; ++i) {
        if (plant.applies_to_row(first_row() + i)) continue;
        for (std::int64_t j = 0; j < right.cols; ++j) wrong.at(i, j) = right.at(i, j);
    }
}

void Block::record(Stage stage, const Tile& tile) {
    const TileShape shape = tile_shape(p, stage);
    const TileShape extent = tile_extent(p, stage, id);
    std::vector<float> whole(std::size_t(shape.elements()), nan);
    for (std::int64_t i = 0; i < extent.rows; ++i)
        std::ranges::copy(tile.row(i).first(std::size_t(extent.cols)), whole.begin() + i * shape.cols);
    TileId to = id;
    if (const auto head =
            is_faulty() && stage == Stage::o ? mistake_info(plant.mistake).points.o_head : nullptr)
        to.head = head(*this);
    run.recording.set_tile(stage, to, std::move(whole));
}

namespace {

/// What the kernel reads an operand with.
struct OperandInfo {
    const Loading& loading;
    const Descale& descale;
    const std::vector<float>& memory;
    Input input;
};

OperandInfo operand_info(const Block& b, Stage stage) {
    const SideInputs& side = b.in.side;
    if (stage == Stage::q) return {b.a.q, side.descale_q, b.in.q, Input::q};
    if (stage == Stage::k) return {b.a.k, side.descale_k, b.in.k, Input::k};
    return {b.a.v, side.descale_v, b.in.v, Input::v};
}

/// An element as the kernel holds it; beyond the end of memory there is 0.
float load(const Block& b, const OperandInfo& operand, const Source& from) {
    if (from.value) return *from.value;
    const ArrayShape shape = input_shape(b.run.recording.problem(), operand.input);
    if (from.row < 0 || from.row >= shape.rows) return 0;
    const float value = operand.memory[std::size_t(
        ((from.batch * shape.heads + from.head) * shape.rows + from.row) * shape.cols + from.col)];
    const Loading& loading = operand.loading;
    if (!loading.multiplies(operand.descale)) return value;
    const float descale = loading.dequantises ? operand.descale.at(from.batch, from.head, from.row) : 1;
    return rounded(loading.cast, value * descale * loading.scale);
}

Values staged_tile(const Block& b, Stage stage) {
    const OperandInfo operand = operand_info(b, stage);
    const bool is_q = stage == Stage::q;
    const bool whole = !is_q && b.points != nullptr && b.points->tail != Tail::cut;
    const std::int64_t rows = is_q ? b.rows : whole ? b.p.block_n : tile_extent(b.p, stage, b.id).rows;
    Tile tile(rows, stage == Stage::v ? b.p.head_dim_v : b.p.head_dim);
    const std::int64_t first = is_q ? b.first_row() : b.first_key();
    const auto change_source = b.at(&Points::load);
    const auto change_value = b.at(&Points::staged);
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t d = 0; d < tile.cols; ++d) {
            Source from{b.id.batch, is_q ? b.id.head : b.head_kv(), first + i, d, std::nullopt};
            if (change_source != nullptr) change_source(b, stage, from);
            const float value = load(b, operand, from);
            tile.at(i, d) = change_value != nullptr ? change_value(b, {stage, i, d}, value) : value;
        }
    }
    return {std::move(tile)};
}

}  // namespace

Tile operand_before_its_scale(const Block& b, Stage stage) {
    Arithmetic plain = b.a;
    plain.q.scale = plain.k.scale = 1;
    const Block unscaled{b.p, plain, b.in, b.plant, b.run, b.id, b.rows};
    return staged_tile(unscaled, stage).dumped;
}

Tile stage_operand(Block& b, Stage stage) {
    return take(b, stage, [&](const Block& block) { return staged_tile(block, stage); }).dumped;
}

bool tile_is_hidden(const Block& b) {
    const auto visible = b.at(&Points::visible);
    const std::int64_t keys = tile_extent(b.p, Stage::k, b.id).rows;
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t j = 0; j < keys; ++j) {
            const std::int64_t row = b.first_row() + i;
            const std::int64_t key = b.first_key() + j;
            if (visible != nullptr ? visible(b, row, key) : b.is_visible(row, key)) return false;
        }
    }
    return true;
}

namespace {

void compute(Block& b) {
    const Tile q = stage_operand(b, Stage::q);
    const std::int64_t tiles = b.p.kv_tiles();
    const std::int64_t per_split = b.p.kv_tiles_per_split > 0 ? b.p.kv_tiles_per_split : tiles + 1;
    std::vector<std::optional<State>> splits(
        std::size_t(std::max<std::int64_t>(1, (tiles + per_split - 1) / per_split)));
    Earlier earlier;
    b.earlier = &earlier;
    for (std::int64_t i = 0; i < tiles; ++i) {
        b.id.kv_tile = b.a.kv_order == KvOrder::reverse ? tiles - 1 - i : i;
        if (b.a.skips_hidden_tiles && tile_is_hidden(b.is_faulty() ? b.mistaken() : b)) continue;
        Tile k = stage_operand(b, Stage::k);
        Tile v = stage_operand(b, Stage::v);
        const Scores scores = compute_scores(b, q, k);
        const std::int64_t split = b.id.kv_tile / per_split;
        Probabilities p = softmax_step(b, scores, v, split == 0, splits[std::size_t(split)]);
        earlier = {std::move(k), std::move(v), std::move(p)};
    }
    b.id.kv_tile = 0;
    std::vector<State> ended;
    for (std::size_t split = 0; split < splits.size(); ++split)
        ended.push_back(splits[split] ? *splits[split] : initial_state(b, split == 0));
    write_outputs(b, ended);
}

void set_inputs(const Inputs& inputs, MemoryRecording& recording) {
    recording.set_input(Input::q, inputs.q);
    recording.set_input(Input::k, inputs.k);
    recording.set_input(Input::v, inputs.v);
    recording.set_side_inputs(inputs.side);
    recording.set_bias(inputs.bias);
    if (recording.problem().direction == Direction::forward) return;
    recording.set_input(Input::dout, inputs.dout);
    recording.set_input(Input::o, inputs.o);
    recording.set_input(Input::lse, inputs.lse);
}

void run_forward(const Call& call, const Plant& plant, KernelRun& run) {
    const SideInputs& side = call.inputs.side;
    Call mistaken = call;
    const auto change_call = mistake_info(plant.mistake).points.call;
    if (change_call != nullptr) change_call(mistaken);
    for (std::int64_t i = 0; i < tile_count(call.problem, Stage::o); ++i) {
        const TileId id = tile_at(call.problem, Stage::o, i);
        const Problem entry = problem_of(call.problem, side, id.batch);
        const std::int64_t rows = std::min(entry.seqlen_q - id.q_block * entry.block_m, entry.block_m);
        if (rows <= 0) continue;
        const MistakenCall computed{problem_of(mistaken.problem, side, id.batch), mistaken.arithmetic,
                                    mistaken.inputs};
        Block block{entry,       call.arithmetic,
                    call.inputs, plant,
                    run,         id,
                    rows,        change_call != nullptr ? &computed : nullptr};
        compute(block);
    }
}

}  // namespace

std::optional<Changed> KernelRun::first_changed() const {
    for (const auto& first : changed) {
        if (first) return first;
    }
    return std::nullopt;
}

KernelRun run_kernel(const Call& declared, const Plant& plant) {
    Call call = declared;
    call.problem.dtype_p = call.arithmetic.p_operand;
    call.problem.dtype_ds = call.arithmetic.ds_operand;
    KernelRun run{MemoryRecording(call.problem, units_of(call.arithmetic, call.inputs.side))};
    Provenance provenance;
    provenance.compute_capability = call.arithmetic.compute_capability;
    run.recording.set_provenance(provenance);
    set_inputs(call.inputs, run.recording);
    (call.problem.direction == Direction::forward ? run_forward : compute_gradients)(call, plant, run);
    return run;
}

MemoryRecording recorded(const Call& call, const Plant& plant) {
    return run_kernel(call, plant).recording;
}

MemoryRecording declared_as(const Recording& run, const Problem& problem, const Units& units,
                            const Inputs& inputs) {
    MemoryRecording other(problem, units);
    other.set_provenance(run.provenance());
    set_inputs(inputs, other);
    for (const StageInfo& info : stages_of(problem.direction)) {
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            std::vector<float> values(std::size_t(tile_shape(problem, info.stage).elements()));
            if (run.read_tile(info.stage, tile, values)) other.set_tile(info.stage, tile, std::move(values));
        }
    }
    return other;
}

}  // namespace tilescope::test
