#include "dump/recording/captured_run.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dump/recording/array_shape.h"
#include "dump/recording/sink_contents.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr const char* run_place = "captured run";

/// Equal bits, or two NaNs: conversions of the same NaN differ in payload between GPU and CPU.
bool same_value(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b) && !is_unwritten(a) && !is_unwritten(b));
}

/// Errors: Error when the memory has another size than the plan needs.
std::unique_ptr<SinkContents> whole(const CapturePlan& plan, MemoryBlock memory) {
    require_bytes("the sink's memory", memory.size(), plan.bytes());
    return host_contents(std::move(memory));
}

}  // namespace

std::size_t output_bytes(const Problem& problem, Stage stage, Dtype dtype) {
    return output_shape(problem, stage, dtype).bytes(problem.batch);
}

CapturedRun::CapturedRun(CapturePlan plan, std::unique_ptr<SinkContents> contents, RecordedCall call)
    : RecordedCall(std::move(call)), plan_(std::move(plan)), contents_(std::move(contents)) {
    if (plan_.mode() == SinkMode::statistics) {
        throw Error("the sink holds statistics, no tiles", run_place, "capture in another mode");
    }
    sink_ = plan_.sink(contents_->hold(0, plan_.head_bytes()));
    capture_.selection = plan_.selection();
    for (const StageInfo& info : stages_of(problem())) summarise(info.stage);
}

CapturedRun::CapturedRun(const CapturePlan& plan, MemoryBlock memory, RecordedCall call)
    : CapturedRun(plan, whole(plan, std::move(memory)), std::move(call)) {}

CapturedRun::CapturedRun(const CapturePlan& plan, MemoryBlock memory, const Units& units,
                         Provenance provenance, InputArrays inputs)
    : CapturedRun(plan, std::move(memory),
                  RecordedCall(plan.problem(), units, std::move(provenance), std::move(inputs))) {}

SinkTile CapturedRun::tile_at(Stage stage, std::int64_t slot) const {
    return {plan_.tile_offset(stage, slot), tile_shape(problem(), stage),
            tile_extent(problem(), stage, plan_.tile_of_slot(stage, slot))};
}

SinkTile CapturedRun::writers_at(Stage stage, std::int64_t slot) const {
    SinkTile writers = tile_at(stage, slot);
    writers.offset = plan_.writers_offset(stage, slot);
    return writers;
}

std::optional<SinkTile> CapturedRun::find_tile(Stage stage, const TileId& tile) const {
    const std::int64_t slot = plan_.tile_slot(stage, tile);
    if (slot < 0 || slot >= plan_.capacity(stage)) return std::nullopt;
    return tile_at(stage, slot);
}

void CapturedRun::summarise(Stage stage) {
    capture_.stages[std::size_t(stage)] = summarise_stage(plan_, sink_, stage);
}

void CapturedRun::merge_output(Stage stage, Dtype dtype, Span<const std::byte> bits) {
    const std::string name(stage_info(problem(), stage).name);
    const bool is_stored = is_output(stage) || is_merged(problem(), stage);
    if (!is_stored || !tilescope::has_stage(problem(), stage)) {
        const bool forward = problem().direction == Direction::forward;
        throw Error("stage " + name + " is not an output", run_place,
                    forward ? "merge o or lse" : "merge dq, dk or dv");
    }
    require_bytes("output " + name, bits.size(), output_bytes(problem(), stage, dtype));
    const auto tile_words = std::size_t(tile_shape(problem(), stage).elements());
    const auto tiles = std::size_t(plan_.capacity(stage));
    auto* const words = reinterpret_cast<std::uint32_t*>(
        contents_->hold(plan_.tile_offset(stage, 0), tiles * tile_words * sizeof(std::uint32_t)));
    for (std::size_t slot = 0; slot < tiles; ++slot) {
        merge_tile(stage, std::int64_t(slot), dtype, bits, words + slot * tile_words);
    }

    unsigned long long without_room = 0;
    for (std::int64_t slot = plan_.capacity(stage); slot < plan_.selected_tiles(stage); ++slot) {
        const TileShape extent = tile_extent(problem(), stage, plan_.tile_of_slot(stage, slot));
        without_room += static_cast<unsigned long long>(extent.elements());
    }
    unsigned long long& dropped = sink_.counters->dropped[std::size_t(stage)].elements;
    dropped = std::max(dropped, without_room);
    summarise(stage);
}

void CapturedRun::merge_tile(Stage stage, std::int64_t slot, Dtype dtype, Span<const std::byte> bits,
                             std::uint32_t* words) {
    const TileId tile = plan_.tile_of_slot(stage, slot);
    const TileShape extent = tile_extent(problem(), stage, tile);
    const ArrayShape shape = output_shape(problem(), stage, dtype);
    const TileShape whole = tile_shape(problem(), stage);
    const std::int64_t first_row =
        (stage_info(problem(), stage).per_q_block ? tile.q_block : tile.kv_tile) * whole.rows;
    const std::size_t ld = std::size_t(sink_.stages[std::size_t(stage)].col.extent);
    std::uint32_t& conflicts = sink_.stages[std::size_t(stage)].conflicts[slot];
    std::vector<float> stored(std::size_t(shape.cols));

    for (std::int64_t row = 0; row < extent.rows; ++row) {
        const Span<const std::byte> row_bits =
            bits.subspan(shape.row_offset(tile.batch, tile.head, first_row + row),
                         std::size_t(shape.cols) * shape.element_bytes());
        decode_array(dtype, row_bits, stored);
        mark_unstored(dtype, stored);
        for (std::size_t col = 0; col < stored.size(); ++col) {
            std::uint32_t& word = words[std::size_t(row) * ld + col];
            const bool hook_wrote = word != unwritten_bits;
            if (hook_wrote && !same_value(std::bit_cast<float>(word), stored[col])) ++conflicts;
            word = std::bit_cast<std::uint32_t>(stored[col]);
        }
    }
}

bool CapturedRun::has_stage(Stage stage) const {
    for (std::int64_t slot = 0; slot < plan_.capacity(stage); ++slot) {
        if (contents_->has_tile(tile_at(stage, slot))) return true;
    }
    return false;
}

bool CapturedRun::has_tile(Stage stage, const TileId& tile) const {
    const std::optional<SinkTile> place = find_tile(stage, tile);
    return place && contents_->has_tile(*place);
}

bool CapturedRun::read_tile(Stage stage, const TileId& tile, Span<float> out) const {
    const std::optional<SinkTile> place = find_tile(stage, tile);
    return place && contents_->read_tile(*place, out);
}

bool CapturedRun::has_writers(Stage stage) const {
    if (plan_.mode() != SinkMode::writers) return false;
    for (std::int64_t slot = 0; slot < plan_.capacity(stage); ++slot) {
        if (contents_->has_tile(writers_at(stage, slot))) return true;
    }
    return false;
}

bool CapturedRun::read_writers(Stage stage, const TileId& tile, Span<ElementWriter> out) const {
    if (plan_.mode() != SinkMode::writers || !find_tile(stage, tile)) return false;
    std::vector<float> words(out.size());
    if (!contents_->read_tile(writers_at(stage, plan_.tile_slot(stage, tile)), words)) return false;
    std::ranges::transform(words, out.begin(),
                           [](float word) { return element_writer(std::bit_cast<std::uint32_t>(word)); });
    return true;
}

}  // namespace tilescope
