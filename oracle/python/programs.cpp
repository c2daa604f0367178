#include "oracle/python/programs.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dump/program_file.h"
#include "dump/schema/error.h"
#include "oracle/program/find_mistakes.h"
#include "oracle/program/judge_program.h"

namespace nb = nanobind;

namespace tilescope {

namespace {

using Bits = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
/// The dtype that the bits stand for, and these.
using Arrays = std::map<std::string, std::tuple<std::string, Bits>>;

std::map<std::string, ProgramInput> inputs_of(const Arrays& arrays) {
    std::map<std::string, ProgramInput> inputs;
    for (const auto& [name, array] : arrays) {
        const auto& [dtype_name, bits] = array;
        const std::optional<Dtype> dtype = dtype_from_name(dtype_name);
        if (!dtype) throw Error("'" + dtype_name + "' is no dtype", name, "choose one of FORMAT.md");
        ProgramInput input{*dtype, {}, {static_cast<const std::byte*>(bits.data()), bits.nbytes()}};
        for (std::size_t i = 0; i < bits.ndim(); ++i) input.shape.push_back(std::int64_t(bits.shape(i)));
        inputs[name] = std::move(input);
    }
    return inputs;
}

std::map<std::string, ProgramTensor> tensors_of(const std::map<std::string, ProgramInput>& inputs) {
    std::map<std::string, ProgramTensor> tensors;
    for (const auto& [name, input] : inputs)
        tensors[name] = {input.dtype, input.shape, {input.bits.begin(), input.bits.end()}};
    return tensors;
}

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
    bool is_cut_off = false;
    std::vector<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, double, double>> stages;
    std::vector<std::tuple<std::string, std::string, std::string, std::string, double, double>> mistakes;
};

Held held_against(const Program& program, const std::map<std::string, ProgramInput>& inputs,
                  const std::map<std::string, ProgramInput>& stored,
                  const std::map<std::string, std::int64_t>& sizes, bool causes) {
    const ProgramCall call = bind_program(program, inputs, sizes);
    const StoredArrays arrays(call, stored);
    const ProgramReport report = judge_program(call, arrays);
    Held held;
    if (report.first_wrong >= 0) held.first_wrong = program.array(report.first_wrong).name;
    for (const StageVerdict& stage : report.stages)
        held.stages.emplace_back(program.array(stage.stage).name, stage.compared, stage.outside,
                                 stage.not_judged, stage.largest_difference, stage.budget_used);
    FoundMistakes found;
    if (causes) found = find_mistakes(call, arrays, report);
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
        .def_ro("stages", &Held::stages)
        .def_ro("mistakes", &Held::mistakes)
        .def_ro("is_cut_off", &Held::is_cut_off);
    nb::class_<Program>(module, "Program")
        .def("__init__",
             [](Program* program, const std::string& text) { new (program) Program(parse_program(text)); })
        .def("names",
             [](const Program& program) {
                 std::vector<std::tuple<std::string, bool>> names;
                 for (const ProgramArray& array : program.arrays)
                     names.emplace_back(array.name, array.is_stage);
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
}

}  // namespace tilescope
