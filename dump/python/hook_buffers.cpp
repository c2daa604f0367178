#include "dump/python/hook_buffers.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "dump/array_recording.h"
#include "dump/hook/sink.h"
#include "dump/recording/capture_plan.h"
#include "dump/schema/error.h"
#include "dump/schema/selection.h"

namespace nb = nanobind;

namespace tilescope {

namespace {

constexpr const char* hooks_place = "Recorder";

Stage stage_named(const Problem& problem, const std::string& name) {
    if (const auto stage = stage_from_name(name, problem.named_tiles)) return *stage;
    throw Error("there is no stage " + name, hooks_place, "choose from its stages");
}

/// The smallest box with what is selected, as selected_box() has it of each stage, of these stages.
Selection whole_box(const ArrayRecording& call, const std::vector<std::string>& stages) {
    Selection selection = call.capture().selection.value_or(Selection());
    selection.stages.clear();
    // Of the stage whose tiles have all four coordinates.
    const TileArray box = selected_box(call.problem(), Stage::s, selection);
    selection = {};
    selection.batch.ranges = {{box.first.batch, box.last.batch}};
    selection.head.ranges = {{box.first.head, box.last.head}};
    selection.q_block.ranges = {{box.first.q_block, box.last.q_block}};
    selection.kv_tile.ranges = {{box.first.kv_tile, box.last.kv_tile}};
    for (const std::string& name : stages) selection.stages.push_back(stage_named(call.problem(), name));
    return selection;
}

/// Where hooks find the buffers of a Recorder, one for each stage: [batch][head][q_block][kv_tile] of a box are the slots
/// of a plan. Tables and counters lie beside them, in memory of the same device.
class HookBuffers {
 public:
    HookBuffers(const ArrayRecording& call, const std::vector<std::string>& stages)
        : plan_(call.problem(), whole_box(call, stages), std::numeric_limits<std::int64_t>::max()) {}

    /// What the tables and counters begin as.
    nb::bytes tables() const { return nb::bytes(plan_.head().data(), plan_.head_bytes()); }

    /// The bytes of a Sink with its tables and the buffer of each stage at these addresses.
    nb::bytes sink(std::uintptr_t tables, const std::map<std::string, std::uintptr_t>& buffers) const {
        Sink sink = plan_.sink(reinterpret_cast<std::byte*>(tables));
        for (const auto& [name, address] : buffers)
            sink.stages[std::size_t(stage_named(plan_.problem(), name))].words =
                reinterpret_cast<std::uint32_t*>(address);
        return nb::bytes(&sink, sizeof sink);
    }

    /// Errors: Error where hooks named a place that the problem does not have; `tables` as the kernel left them.
    void require_inside(const nb::bytes& tables) const {
        SinkCounters counters;
        std::memcpy(&counters, tables.data(), sizeof counters);
        for (const StageInfo& info : stages_of(plan_.problem())) {
            const SinkLoss& loss = counters.out_of_range[std::size_t(info.stage)];
            if (loss.elements == 0) continue;
            std::string at;
            for (const std::int32_t number : loss.first)
                at += (at.empty() ? "" : ", ") + std::to_string(number);
            throw Error(
                std::to_string(loss.elements) + " elements of " + std::string(info.name) +
                    " are in no tile of the call, the first at batch, head, query block, KV tile, row, "
                    "column " +
                    at,
                hooks_place, "compare block_m, block_n and the shapes with what the hooks are given");
        }
    }

 private:
    CapturePlan plan_;
};

}  // namespace

void bind_hook_buffers(nb::module_& module) {
    nb::class_<HookBuffers>(module, "HookBuffers")
        .def(nb::init<const ArrayRecording&, const std::vector<std::string>&>())
        .def("tables", &HookBuffers::tables)
        .def("sink", &HookBuffers::sink)
        .def("require_inside", &HookBuffers::require_inside);
}

}  // namespace tilescope
