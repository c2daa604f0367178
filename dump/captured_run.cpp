#include "dump/captured_run.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dump/array_shape.h"
#include "dump/error.h"

namespace tilescope {

namespace {

constexpr const char* where = "captured run";

void require_bytes(const std::string& what, std::size_t bytes, std::size_t expected) {
    if (bytes == expected) return;
    throw Error(
        what + " has " + std::to_string(bytes) + " bytes where the problem needs " + std::to_string(expected),
        where, "pass it contiguous, with the problem's shape and dtype");
}

struct NamedInput {
    Input input;
    const char* name;
    std::vector<std::byte> InputArrays::*array;
};

constexpr NamedInput named_inputs[] = {
    {Input::q, "q", &InputArrays::q}, {Input::k, "k", &InputArrays::k},
    {Input::v, "v", &InputArrays::v}, {Input::dout, "dout", &InputArrays::dout},
    {Input::o, "o", &InputArrays::o}, {Input::lse, "lse", &InputArrays::lse},
};

const std::vector<std::byte>& array_of(const InputArrays& inputs, Input input) {
    return inputs.*named_inputs[static_cast<std::size_t>(input)].array;
}

void require_inputs(const InputArrays& inputs, const Problem& problem) {
    const auto has = [&](const NamedInput& named) { return !(inputs.*named.array).empty(); };
    if (std::ranges::none_of(named_inputs, has)) return;
    for (const NamedInput& named : named_inputs) {
        const std::string what = std::string("input ") + named.name;
        if (has(named) && !reads_input(problem.direction, named.input)) {
            throw Error(what + " is none of the forward pass", where,
                        "declare direction = backward, or leave it out");
        }
        if (!has(named) && !requires_input(problem.direction, named.input)) continue;
        require_bytes(what, (inputs.*named.array).size(), input_bytes(problem, named.input));
    }
}

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

std::size_t input_bytes(const Problem& problem, Input input) {
    return input_shape(problem, input).bytes(problem.batch);
}

std::size_t output_bytes(const Problem& problem, Stage stage, Dtype dtype) {
    return output_shape(problem, stage, dtype).bytes(problem.batch);
}

CapturedRun::CapturedRun(CapturePlan plan, std::vector<std::byte> memory, Units units, Provenance provenance,
                         InputArrays inputs)
    : plan_(std::move(plan)),
      memory_(std::move(memory)),
      units_(units),
      provenance_(std::move(provenance)),
      inputs_(std::move(inputs)) {
    require_bytes("the sink's memory", memory_.size(), plan_.bytes());
    require_inputs(inputs_, problem());
    sink_ = plan_.sink(memory_.data());
    capture_.selection = plan_.selection();
    for (const StageInfo& info : all_stages()) summarise(info.stage);
}

void CapturedRun::set_side_inputs(SideInputs inputs) {
    validate(inputs, problem(), where);
    side_inputs_ = std::move(inputs);
}

void CapturedRun::set_bias(Bias bias) {
    validate(bias, problem(), where);
    bias_ = std::move(bias);
}

std::uint32_t* CapturedRun::tile_words(Stage stage, std::int64_t slot) const {
    const SinkStage& room = sink_.stages[std::size_t(stage)];
    return room.words + std::size_t(slot) * room.rows * room.cols;
}

bool CapturedRun::holds_written_element(Stage stage, std::int64_t slot) const {
    const TileShape extent = tile_extent(problem(), stage, plan_.tile_of_slot(stage, slot));
    const std::size_t ld = sink_.stages[std::size_t(stage)].cols;
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
    const std::int64_t capacity = plan_.capacity(stage);
    StageCapture& summary = capture_.stages[index];
    summary = StageCapture();
    recorded_[index].assign(std::size_t(capacity), false);
    for (std::int64_t slot = 0; slot < capacity; ++slot) {
        recorded_[index][std::size_t(slot)] = holds_written_element(stage, slot);
        const std::uint32_t conflicts = sink_.stages[index].conflicts[slot];
        if (conflicts != 0) summary.conflicts.push_back({plan_.tile_of_slot(stage, slot), conflicts});
    }
    summary.elements_out_of_range = std::int64_t(sink_.counters->out_of_range[index]);
    summary.elements_dropped = std::int64_t(sink_.counters->dropped[index]);
    if (summary.elements_dropped == 0) return;
    const std::int64_t listed = std::min(plan_.selected_tiles(stage), capacity + max_listed_dropped);
    for (std::int64_t slot = capacity; slot < listed; ++slot) {
        summary.dropped.push_back(plan_.tile_of_slot(stage, slot));
    }
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
    unsigned long long& dropped = sink_.counters->dropped[std::size_t(stage)];
    dropped = std::max(dropped, without_room);
    summarise(stage);
}

void CapturedRun::merge_tile(Stage stage, std::int64_t slot, Dtype dtype, std::span<const std::byte> bits) {
    const TileId tile = plan_.tile_of_slot(stage, slot);
    const TileShape extent = tile_extent(problem(), stage, tile);
    const ArrayShape shape = output_shape(problem(), stage, dtype);
    const TileShape whole = tile_shape(problem(), stage);
    const std::int64_t first_row = (stage_info(stage).per_q_block ? tile.q_block : tile.kv_tile) * whole.rows;
    const std::size_t ld = sink_.stages[std::size_t(stage)].cols;
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

bool CapturedRun::has_input(Input input) const {
    return !array_of(inputs_, input).empty();
}

void CapturedRun::read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                             std::int64_t count, std::span<float> out) const {
    const ArrayShape shape = input_shape(problem(), input);
    const std::span<const std::byte> bits =
        std::span(array_of(inputs_, input))
            .subspan(shape.row_offset(batch, head, row),
                     std::size_t(count) * std::size_t(shape.cols) * shape.element_bytes());
    decode_array(shape.dtype, bits, out.first(std::size_t(count * shape.cols)));
}

void CapturedRun::read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                            std::span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = bias_.at(batch, head, row, first_key + std::int64_t(i));
    }
}

}  // namespace tilescope
