#include "dump/recording/flight.h"

#include <bit>
#include <cmath>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

CapturePlan plan_of(const Problem& problem, const FlightOptions& options) {
    if (options.launches < 1) {
        throw Error("no launch is to be kept", "flight recorder", "keep one or more");
    }
    for (const float limit : options.limits) {
        if (limit >= 0) continue;
        throw Error("a limit is not a magnitude", "flight recorder", "give a number that is not negative");
    }
    CapturePlan plan(problem, options.selection, options.max_bytes / std::size_t(options.launches));
    for (const StageInfo& info : stages_of(problem)) {
        if (plan.capacity(info.stage) == plan.selected_tiles(info.stage)) continue;
        throw Error("there is no room for all tiles of " + std::string(info.name) + " of " +
                        std::to_string(options.launches) + " launches",
                    "flight recorder", "allow more bytes, keep fewer launches or select fewer tiles");
    }
    return plan;
}

}  // namespace

FlightLimits no_flight_limits() {
    FlightLimits limits;
    limits.fill(no_flight_limit);
    return limits;
}

std::string to_string(const Problem& problem, const FlightFreeze& freeze) {
    const StageInfo info = stage_info(problem, freeze.stage);
    std::string text = "launch " + std::to_string(freeze.launch) + ": " +
                       (std::isnan(freeze.value) ? "nan" : std::to_string(freeze.value)) + " in " +
                       std::string(info.name) + " of batch " + std::to_string(freeze.tile.batch) + ", head " +
                       std::to_string(freeze.tile.head);
    if (info.per_q_block) text += ", q block " + std::to_string(freeze.tile.q_block);
    if (info.per_kv_tile) text += ", KV tile " + std::to_string(freeze.tile.kv_tile);
    return text + ", row " + std::to_string(freeze.row) + " and column " + std::to_string(freeze.col) +
           " of the tile";
}

FlightPlan::FlightPlan(const Problem& problem, FlightOptions options)
    : options_(std::move(options)), plan_(plan_of(problem, options_)) {
    validate(options_.threads, problem, "flight recorder");
    // Only offsets are taken.
    std::byte base = {};
    const Sink sink = plan_.sink(&base);
    const auto head = reinterpret_cast<std::uintptr_t>(&base) + plan_.head_bytes();
    for (const StageInfo& info : stages_of(problem)) {
        const std::size_t index = std::size_t(info.stage);
        if (plan_.capacity(info.stage) == 0) continue;
        const auto offset = reinterpret_cast<std::uintptr_t>(sink.stages[index].words);
        const auto elements =
            std::uint64_t(plan_.capacity(info.stage) * tile_shape(problem, info.stage).elements());
        FlightStage& stage = stages_.stages[index];
        stage.first = (offset - head) / sizeof(std::uint32_t);
        stage.last = stage.first + elements;
        stage.limit_bits = std::bit_cast<std::uint32_t>(options_.limits[index]);
        stage.hides = hides_with_infinity(info.stage);
    }
}

FlightFreeze FlightPlan::freeze_of(const FlightState& state) const {
    FlightFreeze freeze;
    freeze.launch = std::int64_t(state.frozen_launch);
    freeze.value = std::bit_cast<float>(state.value_bits);
    for (const StageInfo& info : stages_of(plan_.problem())) {
        const FlightStage& stage = stages_.stages[std::size_t(info.stage)];
        if (state.place < stage.first || state.place >= stage.last) continue;
        const TileShape shape = tile_shape(plan_.problem(), info.stage);
        const auto element = std::int64_t(state.place - stage.first);
        freeze.stage = info.stage;
        freeze.tile = plan_.tile_of_slot(info.stage, element / shape.elements());
        freeze.row = element % shape.elements() / shape.cols;
        freeze.col = element % shape.cols;
    }
    return freeze;
}

CapturedRun FlightPlan::recording(std::vector<std::byte> memory, InputArrays inputs, SideInputs side,
                                  std::int64_t launch) const {
    Provenance provenance = options_.provenance;
    provenance.launch += (provenance.launch.empty() ? "" : ", ") + ("launch " + std::to_string(launch));
    RecordedCall call(plan_.problem(), options_.units, std::move(provenance), std::move(inputs));
    call.set_side_inputs(std::move(side));
    call.set_bias(options_.bias);
    call.set_threads(options_.threads);
    return {plan_, std::move(memory), std::move(call)};
}

}  // namespace tilescope
