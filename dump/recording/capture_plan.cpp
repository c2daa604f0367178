#include "dump/recording/capture_plan.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr const char* plan_place = "capture";

/// The tiles start where a cache line of the GPU does.
constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t offset) {
    return (offset + alignment - 1) / alignment * alignment;
}

std::vector<bool> selected_values(const Ranges& ranges, std::int64_t count) {
    std::vector<bool> selected(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) selected[std::size_t(i)] = ranges.contains(i);
    return selected;
}

/// Gives slots to the entries of `slots` that are to have one, in order, and returns those entries.
template <class Selects>
std::vector<std::int32_t> number(std::vector<std::int32_t>& slots, Selects selects) {
    std::vector<std::int32_t> entries;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        if (!selects(i)) continue;
        slots[i] = std::int32_t(entries.size());
        entries.push_back(std::int32_t(i));
    }
    return entries;
}

SinkAxis sink_axis(const Problem& problem, Axis axis, std::int64_t extent) {
    SinkAxis kept = {std::int32_t(extent), std::int32_t(extent), 0, 0};
    if (axis == Axis::query) {
        kept.inside = std::int32_t(problem.seqlen_q);
        kept.per_q_block = std::int32_t(problem.block_m);
    } else if (axis == Axis::key) {
        kept.inside = std::int32_t(problem.seqlen_kv);
        kept.per_kv_tile = std::int32_t(problem.block_n);
    }
    return kept;
}

}  // namespace

CapturePlan::CapturePlan(const Problem& problem, const Selection& selection, std::size_t max_bytes,
                         SinkMode mode)
    : problem_(problem), selection_(selection), mode_(mode) {
    validate(problem, plan_place);
    const std::size_t tables_end = place_tables(max_bytes);
    number_slots();
    place_stages(tables_end, max_bytes);
    const auto selects_nothing = [](const StagePlan& stage) { return stage.selected == 0; };
    if (std::ranges::all_of(stages_, selects_nothing)) {
        throw Error("the selection " + to_string(selection, problem.named_tiles) + " selects no tile of " +
                        std::to_string(problem.batch) + " batches, " + std::to_string(problem.heads) +
                        " heads, " + std::to_string(problem.q_blocks()) + " query blocks and " +
                        std::to_string(problem.kv_tiles()) + " KV tiles of the " +
                        (problem.direction == Direction::forward ? "forward" : "backward") + " pass",
                    plan_place, "select some of them, counted from 0");
    }
    write_head();
}

/// Sizes the tables before anything is allocated. Returns where they end.
std::size_t CapturePlan::place_tables(std::size_t max_bytes) {
    // validate() keeps the product below 2^40.
    const std::int64_t q_blocks = problem_.batch * problem_.heads * problem_.q_blocks();
    const bool by_head =
        std::ranges::any_of(stages_of(problem_), std::logical_not(), &StageInfo::per_q_block);
    const std::int64_t dkv_heads = by_head ? problem_.batch * problem_.dkv_heads() : 0;
    const auto end_of = [](std::size_t offset, std::int64_t entries) {
        return offset + std::size_t(entries) * sizeof(std::int32_t);
    };
    q_block_slots_offset_ = sizeof(SinkCounters);
    kv_tile_slots_offset_ = end_of(q_block_slots_offset_, q_blocks);
    dkv_head_slots_offset_ = end_of(kv_tile_slots_offset_, problem_.kv_tiles());
    const std::size_t end = end_of(dkv_head_slots_offset_, dkv_heads);
    if (q_blocks > std::numeric_limits<std::int32_t>::max() || end + alignment > max_bytes) {
        throw Error("the tables for " + std::to_string(q_blocks) + " query blocks and " +
                        std::to_string(problem_.kv_tiles()) + " KV tiles take " +
                        std::to_string(end + alignment) + " bytes of the " + std::to_string(max_bytes) +
                        " allowed",
                    plan_place, "allow more memory or capture a smaller problem");
    }
    q_block_slots_.assign(std::size_t(q_blocks), -1);
    kv_tile_slots_.assign(std::size_t(problem_.kv_tiles()), -1);
    dkv_head_slots_.assign(std::size_t(dkv_heads), -1);
    return end;
}

void CapturePlan::number_slots() {
    const std::vector<bool> batches = selected_values(selection_.batch, problem_.batch);
    const std::vector<bool> heads = selected_values(selection_.head, problem_.heads);
    const std::vector<bool> q_blocks = selected_values(selection_.q_block, problem_.q_blocks());
    q_block_of_slot_ = number(q_block_slots_, [&](std::size_t i) {
        const std::size_t row = i / q_blocks.size();
        const std::size_t batch = row / heads.size(), head = row % heads.size(),
                          q_block = i % q_blocks.size();
        return batches[batch] && heads[head] && q_blocks[q_block] &&
               selection_.lists_block(std::int64_t(batch), std::int64_t(head), std::int64_t(q_block));
    });
    kv_tile_of_slot_ =
        number(kv_tile_slots_, [&](std::size_t i) { return selection_.kv_tile.contains(std::int64_t(i)); });
    const std::size_t dkv_heads = std::size_t(problem_.dkv_heads());
    dkv_head_of_slot_ = number(dkv_head_slots_, [&](std::size_t i) {
        const std::int64_t head = std::int64_t(i % dkv_heads);
        return batches[i / dkv_heads] && selection_.selects_head(problem_, Stage::dk, head) &&
               selection_.lists_head(std::int64_t(i / dkv_heads), query_heads(problem_, Stage::dk, head));
    });
}

std::size_t CapturePlan::tile_bytes(Stage stage) const {
    if (mode_ == SinkMode::statistics) return sizeof(TileStatistics);
    return std::size_t(tile_shape(problem_, stage).elements()) * sizeof(std::uint32_t);
}

void CapturePlan::place_stages(std::size_t offset, std::size_t max_bytes) {
    std::size_t free_bytes = max_bytes - (offset + alignment);
    const std::vector<StageInfo> stages = stages_of(problem_);
    const bool keeps_writers = mode_ == SinkMode::writers;
    for (const StageInfo& info : stages) {
        StagePlan& stage = stages_[std::size_t(info.stage)];
        if (!selection_.selects(info.stage)) continue;
        const std::size_t slots =
            outer_of_slot(info.stage).size() * (info.per_kv_tile ? kv_tile_of_slot_.size() : 1);
        // A tile comes with a word for its conflict counter.
        const std::size_t bytes = tile_bytes(info.stage) * (keeps_writers ? 2 : 1) + sizeof(std::uint32_t);
        const std::size_t capacity =
            std::min({slots, free_bytes / bytes, std::size_t(std::numeric_limits<std::uint32_t>::max())});
        stage = {std::int64_t(slots), std::int64_t(capacity), offset, 0};
        offset += capacity * sizeof(std::uint32_t);
        free_bytes -= capacity * bytes;
    }
    offset = aligned(offset);
    head_.resize(offset);
    for (const StageInfo& info : stages) {
        StagePlan& stage = stages_[std::size_t(info.stage)];
        stage.tiles_offset = offset;
        offset += std::size_t(stage.capacity) * tile_bytes(info.stage);
    }
    if (keeps_writers) writers_distance_ = offset - head_.size();
    bytes_ = offset + writers_distance_;
    if (mode_ == SinkMode::statistics) head_.resize(bytes_);
}

void CapturePlan::write_head() {
    const auto copy = [this](std::size_t offset, const auto& table) {
        // Not memcpy: an empty table has no address.
        std::ranges::copy(std::as_bytes(std::span(table)), head_.begin() + std::ptrdiff_t(offset));
    };
    copy(q_block_slots_offset_, q_block_slots_);
    copy(kv_tile_slots_offset_, kv_tile_slots_);
    copy(dkv_head_slots_offset_, dkv_head_slots_);
    if (mode_ != SinkMode::statistics) return;
    for (const StagePlan& stage : stages_) {
        copy(stage.tiles_offset, std::vector<TileStatistics>(std::size_t(stage.capacity)));
    }
}

void CapturePlan::fill_unwritten(std::byte* memory) const {
    std::ranges::copy(head_, memory);
    auto* words = reinterpret_cast<std::uint32_t*>(memory + head_.size());
    std::fill(words, words + (bytes_ - head_.size()) / sizeof(std::uint32_t), unwritten_bits);
}

Sink CapturePlan::sink(std::byte* base) const {
    const auto at = [base]<class T>(T*& pointer, std::size_t offset) {
        pointer = reinterpret_cast<T*>(base + offset);
    };
    Sink sink;
    sink.mode = mode_;
    sink.every_kv_tile = std::ssize(kv_tile_of_slot_) == problem_.kv_tiles();
    for (const StageInfo& info : stages_of(problem_)) {
        const StagePlan& plan = stage_plan(info.stage);
        if (plan.selected == 0) continue;
        (info.per_q_block ? sink.q_block_stages : sink.head_stages) |=
            1u << unsigned(info.stage) | (mode_ == SinkMode::statistics ? 0 : sink_notes_hooks);
        const TileShape shape = tile_shape(problem_, info.stage);
        SinkStage& stage = sink.stages[std::size_t(info.stage)];
        if (mode_ == SinkMode::statistics) {
            at(stage.statistics, plan.tiles_offset);
        } else {
            at(stage.words, plan.tiles_offset);
        }
        at(stage.conflicts, plan.conflicts_offset);
        stage.capacity = std::uint32_t(plan.capacity);
        stage.kv_slots = info.per_kv_tile ? std::uint32_t(kv_tile_of_slot_.size()) : 1;
        stage.elements = std::uint32_t(shape.elements());
        stage.row = sink_axis(problem_, info.row_axis, shape.rows);
        stage.col = sink_axis(problem_, info.col_axis, shape.cols);
        stage.per_q_block = info.per_q_block;
        stage.per_kv_tile = info.per_kv_tile;
        stage.whole =
            info.per_q_block && plan.capacity == plan.selected && (sink.every_kv_tile || !info.per_kv_tile);
    }
    sink.writers = writers_distance_ / sizeof(std::uint32_t);
    at(sink.counters, 0);
    at(sink.q_block_slots, q_block_slots_offset_);
    at(sink.kv_tile_slots, kv_tile_slots_offset_);
    at(sink.dkv_head_slots, dkv_head_slots_offset_);
    sink.batch = std::int32_t(problem_.batch);
    sink.heads = std::int32_t(problem_.heads);
    sink.dkv_heads = std::int32_t(problem_.dkv_heads());
    sink.q_blocks = std::int32_t(problem_.q_blocks());
    sink.kv_tiles = std::int32_t(problem_.kv_tiles());
    return sink;
}

std::int64_t CapturePlan::tile_slot(Stage stage, const TileId& tile) const {
    const auto in = [](std::int64_t value, std::int64_t count) { return value >= 0 && value < count; };
    const StageInfo info = stage_info(problem_, stage);
    const std::int64_t heads = stage_heads(problem_, stage);
    if (selected_tiles(stage) == 0 || !in(tile.batch, problem_.batch) || !in(tile.head, heads) ||
        (info.per_q_block && !in(tile.q_block, problem_.q_blocks())) ||
        (info.per_kv_tile && !in(tile.kv_tile, problem_.kv_tiles()))) {
        return -1;
    }
    const std::int64_t head = tile.batch * heads + tile.head;
    const std::int64_t outer_slot =
        info.per_q_block ? q_block_slots_[std::size_t(head * problem_.q_blocks() + tile.q_block)]
                         : dkv_head_slots_[std::size_t(head)];
    if (!info.per_kv_tile || outer_slot < 0) return outer_slot;
    const std::int64_t kv_slot = kv_tile_slots_[std::size_t(tile.kv_tile)];
    return kv_slot < 0 ? -1 : outer_slot * std::int64_t(kv_tile_of_slot_.size()) + kv_slot;
}

TileId CapturePlan::tile_of_slot(Stage stage, std::int64_t slot) const {
    const StageInfo info = stage_info(problem_, stage);
    TileId tile;
    if (info.per_kv_tile) {
        const std::int64_t kv_slots = std::int64_t(kv_tile_of_slot_.size());
        tile.kv_tile = kv_tile_of_slot_[std::size_t(slot % kv_slots)];
        slot /= kv_slots;
    }
    std::int64_t outer = outer_of_slot(stage)[std::size_t(slot)];
    if (info.per_q_block) {
        tile.q_block = outer % problem_.q_blocks();
        outer /= problem_.q_blocks();
    }
    tile.head = outer % stage_heads(problem_, stage);
    tile.batch = outer / stage_heads(problem_, stage);
    return tile;
}

}  // namespace tilescope
