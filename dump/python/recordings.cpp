#include "dump/python/recordings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "dump/array_recording.h"
#include "dump/reader.h"
#include "dump/recording.h"
#include "dump/recording/array_shape.h"
#include "dump/schema/declarations.h"
#include "dump/schema/error.h"
#include "dump/schema/families.h"
#include "dump/schema/selection.h"
#include "dump/schema/shared_selection.h"
#include "dump/writer.h"

namespace nb = nanobind;

namespace tilescope {

namespace {

constexpr const char* python_place = "tilescope";

/// Names as /problem and the stages of a file have them ("seqlen_q", "mask", "s.scaled"), and their values as text.
using Declared = std::map<std::string, std::string>;

template <class Enum>
Enum enumerator_of(const std::string& name, const std::string& value) {
    if (const std::optional<Enum> found = declarations::value_of<Enum>(value)) return *found;
    std::string known;
    for (const auto& each : declarations::names(Enum()))
        known += (known.empty() ? "" : ", ") + std::string(each.name);
    throw Error(name + " = " + value + " is not known", python_place, "choose from " + known);
}

/// Shapes and the types of stored arrays, which no option of tile-diff changes. False for another name.
bool declare_shape(const std::string& name, const std::string& value, Problem& problem) {
    if (name == "dkv_per_head") {
        problem.dkv_per_head = value == "true";
        return true;
    }
    for (const declarations::SizeAttribute& attribute : declarations::size_attributes()) {
        if (name != attribute.name) continue;
        problem.*attribute.member = std::stoll(value);
        return true;
    }
    for (const declarations::NameAttribute& attribute : declarations::name_attributes()) {
        if (name != attribute.name) continue;
        std::visit(
            [&]<class Enum>(Enum Problem::*member) { problem.*member = enumerator_of<Enum>(name, value); },
            attribute.member);
        return true;
    }
    return false;
}

/// Which part of a call on several ranks it is. False for another name.
bool declare_shard(const std::string& name, const std::string& value, Problem& problem) {
    Shard& shard = problem.shard;
    for (const ShardSize& size : shard_sizes)
        if (name == size.name) return shard.*size.member = std::stoll(value), true;
    for (const ShardPositions& list : shard_positions)
        if (name == list.name) return shard.*list.member = positions_in(value, name), true;
    if (name != "shard") return false;
    shard.kind = enumerator_of<ShardKind>(name, value);
    return true;
}

/// What a call is, in order: its shape, what the family of kernels does, and what is declared beside.
std::pair<Problem, Units> declared_call(const Declared& shape, const std::string& family,
                                        const Declared& others) {
    Problem problem;
    Units units;
    for (const auto& [name, value] : shape)
        if (!declare_shape(name, value, problem) && !declare_shard(name, value, problem))
            declarations::declare("problem." + name + "=" + value, problem, units);
    if (!family.empty()) declarations::declare_family(family, problem, units);
    for (const auto& [name, value] : others) declarations::declare(name + "=" + value, problem, units);
    if (problem.shard.is_part()) problem = with_shard(problem, problem.shard);
    return {problem, units};
}

Input input_of(const std::string& name) {
    for (int i = 0; i < input_count; ++i)
        if (name == input_name(Input(i))) return Input(i);
    throw Error("there is no input " + name, python_place, "choose from q, k, v, dout, o, lse");
}

Stage stage_of(const Recording& recording, const std::string& name) {
    if (const auto stage = stage_from_name(name, recording.problem().named_tiles)) return *stage;
    throw Error("there is no stage " + name, recording.name(), "choose from its stages");
}

using HostBits = nb::ndarray<nb::ro, nb::ndim<4>, nb::device::cpu>;

HostArray host_array_of(const HostBits& array, const std::string& dtype,
                        std::vector<std::int64_t> batch_starts) {
    HostArray of;
    of.data = array.data();
    of.dtype = enumerator_of<Dtype>("dtype", dtype);
    for (std::size_t i = 0; i < 4; ++i) of.strides[i] = array.stride(i);
    of.batch_starts = std::move(batch_starts);
    return of;
}

/// A new NumPy array with these numbers.
nb::object owned_array(std::vector<float> values, std::vector<std::size_t> shape) {
    auto* kept = new std::vector<float>(std::move(values));
    nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<std::vector<float>*>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, float>(kept->data(), shape.size(), shape.data(), owner));
}

nb::object tile_of(const Recording& recording, const std::string& stage_name, std::int64_t batch,
                   std::int64_t head, std::int64_t q_block, std::int64_t kv_tile) {
    const Problem& problem = recording.problem();
    const Stage stage = stage_of(recording, stage_name);
    const TileId id{batch, head, q_block, kv_tile};
    const DatasetShape whole = dataset_shape(problem, stage);
    const std::vector<std::int64_t> index = chunk_index(problem, stage, id);
    for (std::size_t i = 0; i < index.size(); ++i)
        if (index[i] < 0 || index[i] * whole.chunk[i] >= whole.dims[i])
            throw nb::index_error(("there is no such tile of " + stage_name).c_str());
    const TileShape shape = tile_shape(problem, stage);
    std::vector<float> values(std::size_t(shape.elements()));
    if (!recording.read_tile(stage, id, values)) return nb::none();
    return owned_array(std::move(values), {std::size_t(shape.rows), std::size_t(shape.cols)});
}

nb::object input_rows(const Recording& recording, const std::string& name, std::int64_t batch,
                      std::int64_t head) {
    const Input input = input_of(name);
    const Problem& problem = recording.problem();
    if (!recording.has_input(input)) return nb::none();
    const ArrayShape shape = input_shape(problem, input);
    if (batch < 0 || batch >= problem.batch || head < 0 || head >= shape.heads)
        throw nb::index_error(("there is no such head of " + name).c_str());
    const Problem entry = problem_of(problem, recording.side_inputs(), batch);
    const std::int64_t rows = input_shape(entry, input).rows;
    std::vector<float> values(std::size_t(rows * shape.cols));
    recording.read_input(input, batch, head, 0, rows, values);
    return owned_array(std::move(values), {std::size_t(rows), std::size_t(shape.cols)});
}

/// Everything that is declared of it, as declared_call() takes it back.
Declared declared_of(const Recording& recording) {
    const Problem& problem = recording.problem();
    Declared all = {{"dkv_per_head", problem.dkv_per_head ? "true" : "false"}};
    for (const declarations::SizeAttribute& attribute : declarations::size_attributes())
        all[attribute.name] = std::to_string(problem.*attribute.member);
    for (const declarations::NameAttribute& attribute : declarations::name_attributes())
        std::visit([&](auto member) { all[attribute.name] = declarations::name_of(problem.*member); },
                   attribute.member);
    for (const declarations::Declaration& declaration : declarations::all_declarations())
        all[declaration.name] = declarations::value_text(declaration, problem, recording.units());
    return all;
}

std::vector<std::string> recorded_stages(const Recording& recording) {
    std::vector<std::string> names;
    for (const StageInfo& info : stages_of(recording.problem()))
        if (recording.has_stage(info.stage)) names.emplace_back(info.name);
    return names;
}

/// Values, heads, blocks, rows of a block and channels, as Descale has them.
using DescaleTuple = std::tuple<std::vector<float>, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

Descale descale_of(DescaleTuple tuple) {
    auto& [values, heads, blocks, rows, channels] = tuple;
    return {heads, blocks, rows, std::move(values), channels};
}

void set_sides(ArrayRecording& call, std::vector<std::int64_t> seqlens_q,
               std::vector<std::int64_t> seqlens_kv, std::vector<float> alibi_slopes, std::vector<float> sink,
               DescaleTuple q, DescaleTuple k, DescaleTuple v) {
    call.set_side_inputs({std::move(seqlens_q), std::move(seqlens_kv), std::move(alibi_slopes),
                          std::move(sink), descale_of(std::move(q)), descale_of(std::move(k)),
                          descale_of(std::move(v))});
}

using TilesOfStage = nb::ndarray<const float, nb::ndim<6>, nb::c_contig, nb::device::cpu>;

/// The first tile that is selected of the stage, how many along each coordinate, rows and columns of a tile.
std::vector<std::int64_t> box_of(const ArrayRecording& call, const std::string& name) {
    const Stage stage = stage_of(call, name);
    const TileArray box = selected_box(call.problem(), stage, call.capture().selection.value_or(Selection()));
    const TileShape shape = tile_shape(call.problem(), stage);
    return {box.first.batch,
            box.first.head,
            box.first.q_block,
            box.first.kv_tile,
            box.last.batch - box.first.batch + 1,
            box.last.head - box.first.head + 1,
            box.last.q_block - box.first.q_block + 1,
            box.last.kv_tile - box.first.kv_tile + 1,
            shape.rows,
            shape.cols};
}

/// An array of the box_of() the stage.
void set_tile_array(ArrayRecording& call, const std::string& name, const TilesOfStage& tiles) {
    const Stage stage = stage_of(call, name);
    const std::vector<std::int64_t> box = box_of(call, name);
    for (std::size_t i = 0; i < 6; ++i)
        if (std::int64_t(tiles.shape(i)) != box[4 + i])
            throw Error("tiles of " + name + " have another shape than their box", python_place, "see box()");
    TileArray array = selected_box(call.problem(), stage, call.capture().selection.value_or(Selection()));
    array.data = tiles.data();
    call.set_tiles(stage, array);
}

using BiasArray = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

void set_bias_array(ArrayRecording& call, const BiasArray& bias) {
    const auto size = [&](std::size_t i) { return std::int64_t(bias.shape(i)); };
    call.set_bias({size(0), size(1), size(2), size(3), {bias.data(), bias.data() + bias.size()}});
}

/// Query rows of all heads that are judged, and how many there are.
std::pair<std::int64_t, std::int64_t> selected_rows(const ArrayRecording& call) {
    std::int64_t selected = 0;
    std::int64_t all = 0;
    for (std::int64_t i = 0; i < tile_count(call.problem(), Stage::q); ++i) {
        const TileId block = tile_at(call.problem(), Stage::q, i);
        const Problem entry = problem_of(call.problem(), call.side_inputs(), block.batch);
        const std::int64_t rows = std::max<std::int64_t>(0, tile_extent(entry, Stage::q, block).rows);
        all += rows;
        if (call.may_hold(block)) selected += rows;
    }
    return {selected, all};
}

}  // namespace

void bind_recordings(nb::module_& module) {
    nb::exception<Error>(module, "Error", PyExc_ValueError);

    nb::class_<Recording>(module, "Recording")
        .def_prop_ro("name", &Recording::name)
        .def_prop_ro("declared", &declared_of)
        .def_prop_ro("stages", &recorded_stages)
        .def_prop_ro("ended", [](const Recording& recording) { return recording.capture().ended; })
        .def("tile", &tile_of, nb::arg("stage"), nb::arg("batch") = 0, nb::arg("head") = 0,
             nb::arg("q_block") = 0, nb::arg("kv_tile") = 0)
        .def("input", &input_rows, nb::arg("name"), nb::arg("batch") = 0, nb::arg("head") = 0);

    nb::class_<ArrayRecording, Recording>(module, "Call")
        .def("__init__",
             [](ArrayRecording* self, const Declared& shape, const std::string& family,
                const Declared& others) {
                 const auto [problem, units] = declared_call(shape, family, others);
                 new (self) ArrayRecording(problem, units);
             })
        // The array stays alive with the call, which does not copy it.
        .def(
            "set_input",
            [](ArrayRecording& self, const std::string& name, const HostBits& array, const std::string& dtype,
               std::vector<std::int64_t> batch_starts) {
                self.set_input(input_of(name), host_array_of(array, dtype, std::move(batch_starts)));
            },
            nb::keep_alive<1, 3>())
        .def(
            "set_output",
            [](ArrayRecording& self, const std::string& name, const HostBits& array, const std::string& dtype,
               std::vector<std::int64_t> batch_starts) {
                self.set_output(stage_of(self, name), host_array_of(array, dtype, std::move(batch_starts)));
            },
            nb::keep_alive<1, 3>())
        .def("set_side_inputs", &set_sides)
        .def("set_bias", &set_bias_array)
        .def("set_run", [](ArrayRecording& self, std::string run) { self.set_run(std::move(run)); })
        .def("selects",
             [](const ArrayRecording& self, std::int64_t batch, std::int64_t head, std::int64_t q_block) {
                 return self.may_hold({batch, head, q_block, 0});
             })
        .def("select",
             [](ArrayRecording& self, const std::string& text) {
                 self.select(parse_selection(text, python_place, self.problem().named_tiles));
             })
        .def("part_of",
             [](const ArrayRecording& self, const std::string& text) {
                 return part_of_attention(text, self.problem().named_tiles);
             })
        .def("selects_stage",
             [](const ArrayRecording& self, const std::string& stage) {
                 const std::optional<Selection>& selection = self.capture().selection;
                 return !selection || selection->selects(stage_of(self, stage));
             })
        .def("box", &box_of)
        .def("set_tiles", &set_tile_array, nb::keep_alive<1, 3>())
        .def("selected_rows", &selected_rows)
        .def(
            "sample_rows",
            [](ArrayRecording& self, std::int64_t rows, std::uint64_t seed,
               const std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>& also) {
                std::vector<QueryRow> rows_also;
                for (const auto& [batch, head, row] : also) rows_also.push_back({batch, head, row});
                self.select(sample_rows(self.problem(), self.side_inputs(), rows, seed, rows_also));
            },
            nb::arg("rows"), nb::arg("seed"), nb::arg("also") = nb::list());

    module.attr("unwritten_bits") = unwritten_bits;
    module.def("save", &save_recording, nb::call_guard<nb::gil_scoped_release>());
    module.def("open", &open_recording, nb::call_guard<nb::gil_scoped_release>());
    module.def("families", [] {
        std::vector<std::string> names;
        for (const declarations::Family& family : declarations::all_families())
            names.emplace_back(family.name);
        return names;
    });
}

}  // namespace tilescope
