#include "oracle/python/programs.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dump/program_file.h"
#include "dump/recording/program_rooms.h"
#include "dump/schema/error.h"
#include "dump/schema/shared_selection.h"
#include "oracle/program/find_mistakes.h"
#include "oracle/program/judge_program.h"

namespace nb = nanobind;

namespace tilescope {

namespace {

using Bits = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
/// The dtype that the bits stand for, these, and of what hooks recorded the index of the first element, the writes that changed one
/// and the lines of these hooks.
using Arrays = std::map<std::string, std::tuple<std::string, Bits, std::vector<std::int64_t>, std::int64_t,
                                                std::vector<std::string>>>;

std::map<std::string, ProgramInput> inputs_of(const Arrays& arrays) {
    std::map<std::string, ProgramInput> inputs;
    for (const auto& [name, array] : arrays) {
        const auto& [dtype_name, bits, first, conflicts, hooks] = array;
        const std::optional<Dtype> dtype = dtype_from_name(dtype_name);
        if (!dtype) throw Error("'" + dtype_name + "' is no dtype", name, "choose one of FORMAT.md");
        ProgramInput input{
            *dtype, {}, {static_cast<const std::byte*>(bits.data()), bits.nbytes()}, first, conflicts};
        for (const std::string& hook : hooks)
            if (const auto line = source_line_from(hook)) input.hooks.push_back(*line);
        for (std::size_t i = 0; i < bits.ndim(); ++i) input.shape.push_back(std::int64_t(bits.shape(i)));
        inputs[name] = std::move(input);
    }
    return inputs;
}

std::vector<std::string> texts_of(const std::vector<SourceLine>& hooks) {
    std::vector<std::string> texts;
    for (const SourceLine& hook : hooks) texts.push_back(to_string(hook));
    return texts;
}

std::map<std::string, ProgramTensor> tensors_of(const std::map<std::string, ProgramInput>& inputs) {
    std::map<std::string, ProgramTensor> tensors;
    for (const auto& [name, input] : inputs)
        tensors[name] = {input.dtype, input.shape,     {input.bits.begin(), input.bits.end()},
                         input.first, input.conflicts, input.hooks};
    return tensors;
}

/// What a recorder of a declared kernel records, and the sink that its buffers make. Keeps the inputs of the call.
class ProgramBuffers {
 public:
    ProgramBuffers(const Program& program, const Arrays& inputs,
                   const std::map<std::string, std::int64_t>& sizes, const std::vector<std::string>& stages,
                   const std::string& selection)
        : program_(program), call_(bind_program(program_, inputs_of(inputs), sizes)) {
        recorded_ = recorded_stages(call_, selection, stages);
        // What is asked of the call from here on are extents.
        for (ProgramInput& input : call_.inputs) input.bits = {};
    }
    ProgramBuffers(const ProgramBuffers&) = delete;
    ProgramBuffers& operator=(const ProgramBuffers&) = delete;

    /// Of each recorded stage the index of its first element, and its extents.
    std::vector<std::tuple<std::string, std::vector<std::int64_t>, std::vector<std::int64_t>>> boxes() const {
        std::vector<std::tuple<std::string, std::vector<std::int64_t>, std::vector<std::int64_t>>> boxes;
        for (const RecordedStage& stage : recorded_)
            boxes.emplace_back(program_.array(stage.stage).name, stage.first, stage.count);
        return boxes;
    }
    /// Tables of a sink, whose buffers lie at these addresses, in the order of boxes().
    nb::bytes tables(const std::vector<std::uintptr_t>& words) const {
        std::vector<std::uint32_t*> pointers;
        for (const std::uintptr_t address : words)
            pointers.push_back(reinterpret_cast<std::uint32_t*>(address));
        const std::vector<ProgramRoom> rooms = program_rooms(call_, recorded_, pointers);
        return nb::bytes(rooms.data(), rooms.size() * sizeof(ProgramRoom));
    }
    /// The bytes of a ProgramSink, whose tables were copied to an address.
    nb::bytes sink(std::uintptr_t tables) const {
        const ProgramSink sink = program_sink(recorded_, reinterpret_cast<ProgramRoom*>(tables));
        return nb::bytes(&sink, sizeof sink);
    }
    /// Writes that changed an element already written, in the order of boxes(); `tables` as the kernel left them.
    /// Errors: Error where hooks named a place that a stage does not have.
    std::vector<std::int64_t> conflicts(const nb::bytes& tables) const {
        const std::vector<ProgramRoom> rooms = rooms_in(tables);
        require_inside(call_, rooms);
        std::vector<std::int64_t> conflicts;
        for (const RecordedStage& stage : recorded_)
            conflicts.push_back(std::int64_t(rooms[std::size_t(stage.number)].conflicts));
        return conflicts;
    }
    /// The lines of the hooks that recorded each, in the same order.
    std::vector<std::vector<std::string>> hooks(const nb::bytes& tables) const {
        const std::vector<ProgramRoom> rooms = rooms_in(tables);
        std::vector<std::vector<std::string>> hooks;
        for (const RecordedStage& stage : recorded_)
            hooks.push_back(texts_of(hooks_of(rooms[std::size_t(stage.number)])));
        return hooks;
    }

 private:
    static std::vector<ProgramRoom> rooms_in(const nb::bytes& tables) {
        std::vector<ProgramRoom> rooms(tables.size() / sizeof(ProgramRoom));
        std::memcpy(rooms.data(), tables.data(), rooms.size() * sizeof(ProgramRoom));
        return rooms;
    }

    Program program_;
    ProgramCall call_;
    std::vector<RecordedStage> recorded_;
};

/// Writes nothing that could not be judged.
void save_program(const std::string& path, const Program& program, ProgramRecording recording,
                  const std::map<std::string, ProgramInput>& inputs,
                  const std::map<std::string, ProgramInput>& stored) {
    const StoredArrays checked(bind_program(program, inputs, recording.sizes), stored);
    recording.inputs = tensors_of(inputs);
    recording.stages = tensors_of(stored);
    write_program_recording(path, recording);
}

/// What is judged, as Python reads it.
struct Held {
    std::string text;
    std::string first_wrong;
    std::string first_wrong_end_to_end;
    bool is_cut_off = false;
    std::vector<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t, double, double, std::vector<std::string>>>
        stages;
    std::vector<std::tuple<std::string, std::string, std::string, std::string, double, double>> mistakes;
};

Held held_against(const Program& program, const std::map<std::string, ProgramInput>& inputs,
                  const std::map<std::string, ProgramInput>& stored,
                  const std::map<std::string, std::int64_t>& sizes, bool causes) {
    const ProgramCall call = bind_program(program, inputs, sizes);
    const StoredArrays arrays(call, stored);
    ProgramOptions options;
    options.tells_inherited = true;
    const ProgramReport report = judge_program(call, arrays, options);
    require_judged_outputs(program, report);
    Held held;
    const auto name = [&](int stage) { return stage < 0 ? std::string() : program.array(stage).name; };
    held.first_wrong = name(report.first_wrong);
    held.first_wrong_end_to_end = name(report.first_wrong_end_to_end);
    for (const StageVerdict& stage : report.stages)
        held.stages.emplace_back(program.array(stage.stage).name, stage.compared, stage.outside,
                                 stage.outside_end_to_end, stage.inherited, stage.unwritten, stage.conflicts,
                                 stage.not_judged, stage.largest_difference, stage.budget_used,
                                 texts_of(stage.hooks));
    FoundMistakes found;
    if (causes) found = find_all_mistakes(call, arrays, report);
    held.is_cut_off = found.is_cut_off;
    for (const ProgramMistake& mistake : found.mistakes)
        held.mistakes.emplace_back(program.array(mistake.stage).name, mistake.slot, mistake.becomes,
                                   mistake.where, mistake.explained, mistake.bits);
    held.text = report_text(call, report, found);
    return held;
}

}  // namespace

void bind_programs(nb::module_& module) {
    nb::class_<Held>(module, "Held")
        .def_ro("text", &Held::text)
        .def_ro("first_wrong", &Held::first_wrong)
        .def_ro("first_wrong_end_to_end", &Held::first_wrong_end_to_end)
        .def_ro("stages", &Held::stages)
        .def_ro("mistakes", &Held::mistakes)
        .def_ro("is_cut_off", &Held::is_cut_off);
    nb::class_<Program>(module, "Program")
        .def("__init__",
             [](Program* program, const std::string& text) {
                 new (program) Program(parse_program(text));
                 share_names(*program);
             })
        .def("part_of",
             [](const Program& program, const std::string& text) { return part_of_program(text, program); })
        .def("names",
             [](const Program& program) {
                 std::vector<std::tuple<std::string, bool, std::string>> names;
                 for (const ProgramArray& array : program.arrays)
                     names.emplace_back(array.name, array.is_stage, dtype_info(array.dtype).name);
                 return names;
             })
        .def("save",
             [](const Program& program, const std::string& path, const std::string& text,
                const Arrays& inputs, const Arrays& stored, const std::map<std::string, std::int64_t>& sizes,
                const std::string& kernel) {
                 ProgramRecording recording{.text = text, .sizes = sizes};
                 recording.provenance.producer = "tilescope " TILESCOPE_VERSION " (Python)";
                 recording.provenance.kernel = kernel;
                 const std::map<std::string, ProgramInput> given = inputs_of(inputs);
                 const std::map<std::string, ProgramInput> kept = inputs_of(stored);
                 const nb::gil_scoped_release release;
                 save_program(path, program, std::move(recording), given, kept);
             })
        .def("judge", [](const Program& program, const Arrays& inputs, const Arrays& stored,
                         const std::map<std::string, std::int64_t>& sizes, bool causes) {
            const std::map<std::string, ProgramInput> given = inputs_of(inputs);
            const std::map<std::string, ProgramInput> kept = inputs_of(stored);
            const nb::gil_scoped_release release;
            return held_against(program, given, kept, sizes, causes);
        });
    nb::class_<ProgramBuffers>(module, "ProgramBuffers")
        .def(nb::init<const Program&, const Arrays&, const std::map<std::string, std::int64_t>&,
                      const std::vector<std::string>&, const std::string&>())
        .def("boxes", &ProgramBuffers::boxes)
        .def("tables", &ProgramBuffers::tables)
        .def("sink", &ProgramBuffers::sink)
        .def("conflicts", &ProgramBuffers::conflicts)
        .def("hooks", &ProgramBuffers::hooks);
}

}  // namespace tilescope
