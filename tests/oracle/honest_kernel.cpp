#include "tests/oracle/honest_kernel.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "tests/oracle/honest_output.h"
#include "tests/oracle/honest_scores.h"
#include "tests/oracle/honest_softmax.h"

namespace tilescope::test {

double sign_from(float value) {
    const std::uint32_t hash = (std::bit_cast<std::uint32_t>(value) + 0x9e3779b9u) * 0x85ebca6bu;
    return (hash >> 31) != 0 ? 1.0 : -1.0;
}

float off_by_two_ulp(double exact, float key) {
    return float(exact * (1 + sign_from(key) * 0.74 * 0x1p-23));
}

bool Block::is_visible(std::int64_t row, std::int64_t key) const {
    const std::int64_t right = key - diagonal(row);
    const std::int64_t excluded = p.window_bounds == WindowBounds::exclusive ? 1 : 0;
    if (p.mask == Mask::causal && right > 0) return false;
    if (p.window_right >= 0 && right > p.window_right - excluded) return false;
    if (p.window_left >= 0 && -right > p.window_left - excluded) return false;
    return true;
}

float Block::scale(std::int64_t row, std::int64_t key) const {
    float scale = float(p.sm_scale);
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
    return a.v.dequantises ? 1.0f : in.side.descale_v.at(id.batch, head_kv(), first_key());
}

float Block::changed(float healthy, float got, std::int64_t row, std::int64_t col) {
    if (healthy == got || (std::isnan(healthy) && std::isnan(got))) return got;
    const auto key = [](const Changed& c) {
        return std::tuple(c.tile.kv_tile, c.tile.batch, c.tile.head, c.row, c.col, c.tile.q_block);
    };
    const Changed here{id, row, col};
    if (!run.first_changed || key(here) < key(*run.first_changed)) run.first_changed = here;
    return got;
}

void Block::record(Stage stage, const Tile& tile) {
    const TileShape shape = tile_shape(p, stage);
    std::vector<float> whole(std::size_t(shape.elements()), std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t i = 0; i < tile.rows; ++i)
        std::ranges::copy(tile.row(i), whole.begin() + i * shape.cols);
    run.recording.set_tile(stage, id, std::move(whole));
}

namespace {

/// An element of q, k or v as the kernel holds it.
float loaded(const Loading& loading, const Descale& descale, float value, std::int64_t batch,
             std::int64_t head, std::int64_t row) {
    if (!loading.dequantises || descale.empty()) return value;
    return decode(loading.cast, encode(loading.cast, value * descale.at(batch, head, row)));
}

Tile stage_q(Block& b) {
    Tile tile(b.rows, b.p.head_dim);
    const std::int64_t seqlen = b.run.recording.problem().seqlen_q;
    for (std::int64_t i = 0; i < b.rows; ++i) {
        const std::int64_t row = b.first_row() + i;
        const float* source =
            b.in.q.data() + ((b.id.batch * b.p.heads + b.id.head) * seqlen + row) * tile.cols;
        for (std::int64_t d = 0; d < tile.cols; ++d) {
            const float value = loaded(b.a.q, b.in.side.descale_q, source[d], b.id.batch, b.id.head, row);
            tile.at(i, d) = b.faulty(Mistake::q_row_zeroed, i) ? b.changed(value, 0, row, d) : value;
        }
    }
    b.record(Stage::q, tile);
    return tile;
}

Tile stage_kv(Block& b, Stage stage) {
    const bool is_k = stage == Stage::k;
    Tile tile(tile_extent(b.p, stage, b.id).rows, is_k ? b.p.head_dim : b.p.head_dim_v);
    const std::int64_t seqlen = b.run.recording.problem().seqlen_kv;
    const float* head =
        (is_k ? b.in.k : b.in.v).data() + (b.id.batch * b.p.heads_kv + b.head_kv()) * seqlen * tile.cols;
    const bool stale = b.faulty(is_k ? Mistake::stale_k_tile : Mistake::swapped_v_tile) && b.id.kv_tile > 0;
    const auto value_at = [&](std::int64_t key, std::int64_t d) {
        return loaded(is_k ? b.a.k : b.a.v, is_k ? b.in.side.descale_k : b.in.side.descale_v,
                      head[key * tile.cols + d], b.id.batch, b.head_kv(), key);
    };
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        const std::int64_t key = b.first_key() + i;
        for (std::int64_t d = 0; d < tile.cols; ++d) {
            const float value = value_at(key, d);
            const float got = stale ? value_at(key - b.p.block_n, d) : value;
            tile.at(i, d) = b.changed(value, got, key, d);
        }
    }
    b.record(stage, tile);
    return tile;
}

bool tile_is_hidden(const Block& b) {
    const std::int64_t keys = tile_extent(b.p, Stage::k, b.id).rows;
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t j = 0; j < keys; ++j) {
            if (b.is_visible(b.first_row() + i, b.first_key() + j)) return false;
        }
    }
    return true;
}

void compute(Block& b) {
    const Tile q = stage_q(b);
    const std::int64_t tiles = b.p.kv_tiles();
    const std::int64_t per_split = b.p.kv_tiles_per_split > 0 ? b.p.kv_tiles_per_split : tiles + 1;
    std::vector<State> splits;
    for (std::int64_t first = 0; first < std::max<std::int64_t>(1, tiles); first += per_split)
        splits.push_back(initial_state(b, first == 0));
    for (std::int64_t i = 0; i < tiles; ++i) {
        b.id.kv_tile = b.a.kv_order == KvOrder::reverse ? tiles - 1 - i : i;
        if (b.a.skips_hidden_tiles && tile_is_hidden(b)) continue;
        const Tile k = stage_kv(b, Stage::k);
        const Tile v = stage_kv(b, Stage::v);
        const Scores scores = compute_scores(b, q, k);
        softmax_step(b, scores, v, splits[std::size_t(b.id.kv_tile / per_split)]);
    }
    b.id.kv_tile = 0;
    write_outputs(b, splits);
}

void set_inputs(const Inputs& inputs, MemoryRecording& recording) {
    recording.set_input(Input::q, inputs.q);
    recording.set_input(Input::k, inputs.k);
    recording.set_input(Input::v, inputs.v);
    recording.set_side_inputs(inputs.side);
    recording.set_bias(inputs.bias);
}

}  // namespace

KernelRun run_kernel(Problem problem, const Arithmetic& arithmetic, const Inputs& inputs,
                     const Plant& plant) {
    problem.dtype_p = arithmetic.p_operand;
    KernelRun run{MemoryRecording(problem, units_of(arithmetic, inputs.side)), std::nullopt};
    Provenance provenance;
    provenance.compute_capability = arithmetic.compute_capability;
    run.recording.set_provenance(provenance);
    set_inputs(inputs, run.recording);
    for (std::int64_t i = 0; i < tile_count(problem, Stage::o); ++i) {
        const TileId id = tile_at(problem, Stage::o, i);
        Problem entry = problem;
        if (!inputs.side.seqlens_q.empty()) entry.seqlen_q = inputs.side.seqlens_q[std::size_t(id.batch)];
        if (!inputs.side.seqlens_kv.empty()) entry.seqlen_kv = inputs.side.seqlens_kv[std::size_t(id.batch)];
        const std::int64_t rows = std::min(entry.seqlen_q - id.q_block * entry.block_m, entry.block_m);
        if (rows <= 0) continue;
        Block block{entry, arithmetic, inputs, plant, run, id, rows};
        compute(block);
    }
    return run;
}

MemoryRecording declared_as(const Recording& run, const Problem& problem, const Units& units,
                            const Inputs& inputs) {
    MemoryRecording other(problem, units);
    other.set_provenance(run.provenance());
    set_inputs(inputs, other);
    for (const StageInfo& info : stages_of(Direction::forward)) {
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            std::vector<float> values(std::size_t(tile_shape(problem, info.stage).elements()));
            if (run.read_tile(info.stage, tile, values)) other.set_tile(info.stage, tile, std::move(values));
        }
    }
    return other;
}

}  // namespace tilescope::test
