#include "dump/captured_run.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dump/array_shape.h"
#include "dump/error.h"
#include "dump/sink_summary.h"

namespace tilescope {

namespace {

constexpr const char* where = "captured run";

/// Whether an output element still holds the 0xff bytes that its buffer was filled with. In fp8 that is a NaN
/// a kernel can store.
bool still_filled(Dtype dtype, std::span<const std::byte> element) {
    return dtype_info(dtype).bytes > 1 &&
           std::ranges::all_of(element, [](std::byte byte) { return byte == std::byte(0xff); });
}

/// Equal bits, or two NaNs: conversions of the same NaN differ in payload between GPU and CPU.
bool same_value(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b) && !is_unwritten(a) && !is_unwritten(b));
}

}  // namespace

std::size_t output_bytes(const Problem& problem, Stage stage, Dtype dtype) {
    return output_shape(problem, stage, dtype).bytes(problem.batch);
}

CapturedRun::CapturedRun(CapturePlan plan, MemoryBlock memory, RecordedCall call)
    : RecordedCall(std::move(call)), plan_(std::move(plan)), memory_(std::move(memory)) {
    require_bytes("the sink's memory", memory_.size(), plan_.bytes());
    if (plan_.mode() == SinkMode::statistics) {
        throw Error("the sink holds statistics, no tiles", where, "capture in another mode");
    }
    sink_ = plan_.sink(memory_.data());
    capture_.selection = plan_.selection();
    for (const StageInfo& info : all_stages()) summarise(info.stage);
}

CapturedRun::CapturedRun(const CapturePlan& plan, MemoryBlock memory, const Units& units,
                         Provenance provenance, InputArrays inputs)
    : CapturedRun(plan, std::move(memory),
                  RecordedCall(plan.problem(), units, std::move(provenance), std::move(inputs))) {}

std::uint32_t* CapturedRun::tile_words(Stage stage, std::int64_t slot) const {
    const SinkStage& room = sink_.stages[std::size_t(stage)];
    return room.words + std::size_t(slot) * room.elements;
}

bool CapturedRun::holds_written_element(Stage stage, std::int64_t slot) const {
    const TileShape extent = tile_extent(problem(), stage, plan_.tile_of_slot(stage, slot));
    const std::size_t ld = std::size_t(sink_.stages[std::size_t(stage)].col.extent);
    const std::uint32_t* words = tile_words(stage, slot);
    for (std::int64_t row = 0; row < extent.rows; ++row) {
        const std::span<const std::uint32_t> row_words(words + std::size_t(row) * ld,
                                                       std::size_t(extent.cols));
        const auto written = [](std::uint32_t word) { return word != unwritten_bits; };
        if (std::ranges::any_of(row_words, written)) return true;
    }
    return false;
}

void CapturedRun::summarise(Stage stage) {
    const std::size_t index = std::size_t(stage);
    std::vector<bool>& recorded = recorded_[index];
    recorded.resize(std::size_t(plan_.capacity(stage)));
    for (std::size_t slot = 0; slot < recorded.size(); ++slot) {
        recorded[slot] = holds_written_element(stage, std::int64_t(slot));
    }
    capture_.stages[index] = summarise_stage(plan_, sink_, stage);
}

void CapturedRun::merge_output(Stage stage, Dtype dtype, std::span<const std::byte> bits) {
    if (!is_output(stage) || !tilescope::has_stage(problem().direction, stage)) {
        const bool forward = problem().direction == Direction::forward;
        throw Error("stage " + std::string(stage_info(stage).name) + " is not an output", where,
                    forward ? "merge o or lse" : "merge dq, dk or dv");
    }
    require_bytes("output " + std::string(stage_info(stage).name), bits.size(),
                  output_bytes(problem(), stage, dtype));
    for (std::int64_t slot = 0; slot < plan_.capacity(stage); ++slot) merge_tile(stage, slot, dtype, bits);

    unsigned long long without_room = 0;
    for (std::int64_t slot = plan_.capacity(stage); slot < plan_.selected_tiles(stage); ++slot) {
        const TileShape extent = tile_extent(problem(), stage, plan_.tile_of_slot(stage, slot));
        without_room += static_cast<unsigned long long>(extent.elements());
    }
    unsigned long long& dropped = sink_.counters->dropped[std::size_t(stage)].elements;
    dropped = std::max(dropped, without_room);
    summarise(stage);
}

void CapturedRun::merge_tile(Stage stage, std::int64_t slot, Dtype dtype, std::span<const std::byte> bits) {
    const TileId tile = plan_.tile_of_slot(stage, slot);
    const TileShape extent = tile_extent(problem(), stage, tile);
    const ArrayShape shape = output_shape(problem(), stage, dtype);
    const TileShape whole = tile_shape(problem(), stage);
    const std::int64_t first_row = (stage_info(stage).per_q_block ? tile.q_block : tile.kv_tile) * whole.rows;
    const std::size_t ld = std::size_t(sink_.stages[std::size_t(stage)].col.extent);
    std::uint32_t* words = tile_words(stage, slot);
    std::uint32_t& conflicts = sink_.stages[std::size_t(stage)].conflicts[slot];
    std::vector<float> stored(std::size_t(shape.cols));

    for (std::int64_t row = 0; row < extent.rows; ++row) {
        const std::span<const std::byte> row_bits =
            bits.subspan(shape.row_offset(tile.batch, tile.head, first_row + row),
                         std::size_t(shape.cols) * shape.element_bytes());
        decode_array(dtype, row_bits, stored);
        for (std::size_t col = 0; col < stored.size(); ++col) {
            if (still_filled(dtype, row_bits.subspan(col * shape.element_bytes(), shape.element_bytes()))) {
                stored[col] = std::bit_cast<float>(unwritten_bits);
            }
            std::uint32_t& word = words[std::size_t(row) * ld + col];
            const bool hook_wrote = word != unwritten_bits;
            if (hook_wrote && !same_value(std::bit_cast<float>(word), stored[col])) ++conflicts;
            word = std::bit_cast<std::uint32_t>(stored[col]);
        }
    }
}

bool CapturedRun::has_stage(Stage stage) const {
    const std::vector<bool>& tiles = recorded_[std::size_t(stage)];
    return std::ranges::find(tiles, true) != tiles.end();
}

bool CapturedRun::has_tile(Stage stage, const TileId& tile) const {
    const std::int64_t slot = plan_.tile_slot(stage, tile);
    return slot >= 0 && slot < plan_.capacity(stage) && recorded_[std::size_t(stage)][std::size_t(slot)];
}

bool CapturedRun::read_tile(Stage stage, const TileId& tile, std::span<float> out) const {
    if (!has_tile(stage, tile)) return false;
    const std::uint32_t* words = tile_words(stage, plan_.tile_slot(stage, tile));
    std::transform(words, words + tile_shape(problem(), stage).elements(), out.begin(),
                   [](std::uint32_t word) { return std::bit_cast<float>(word); });
    return true;
}

}  // namespace tilescope
