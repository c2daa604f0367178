#include "dump/program_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "dump/file/attributes.h"
#include "dump/file/capture.h"
#include "dump/file/check.h"
#include "dump/file/layout.h"
#include "dump/file/metadata.h"
#include "dump/file/output.h"
#include "dump/file/trial.h"
#include "dump/schema/declarations.h"
#include "dump/schema/error.h"
#include "dump/schema/program.h"

namespace tilescope {

namespace {

using hdf5::InputFile;
using hdf5::StoredDataset;

/// Inputs and stages stand in groups of their own.
struct ArrayGroup {
    bool is_stage;
    const char* path;
    const char* noun;
    std::map<std::string, ProgramTensor> ProgramRecording::*arrays;
};
constexpr std::array array_groups = {
    ArrayGroup{false, layout::path::program_inputs, "input", &ProgramRecording::inputs},
    ArrayGroup{true, layout::path::program_stages, "stage", &ProgramRecording::stages}};

Program parse_text(const std::string& text, const std::string& where) {
    try {
        return parse_program(text);
    } catch (const Error& error) {
        throw Error(where + ": " + error.what());
    }
}

/// An array in the file, and where its elements go.
struct StoredTensor {
    StoredDataset dataset;
    ProgramTensor* tensor = nullptr;
};

/// A declared kernel whose arrays are not read yet.
struct StoredProgram {
    ProgramRecording recording;
    std::vector<StoredTensor> tensors;  ///< that point into the recording
};

constexpr std::size_t longest_name = 256;

/// "" behind the last one.
std::string link_name(hid_t group, hsize_t index) {
    std::array<char, longest_name> name = {};
    const ssize_t length = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, index, name.data(),
                                              name.size(), H5P_DEFAULT);
    return length > 0 ? name.data() : "";
}
std::string attribute_name(hid_t object, hsize_t index) {
    std::array<char, longest_name> name = {};
    const ssize_t length = H5Aget_name_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, index, name.data(),
                                              name.size(), H5P_DEFAULT);
    return length > 0 ? name.data() : "";
}

/// Of more names than are known, one of the first is not.
template <class Known>
void require_known(hid_t object, std::string (*name_at)(hid_t, hsize_t), const std::vector<std::string>& all,
                   const Known& known, const std::string& what, const std::string& where) {
    for (hsize_t i = 0; i <= all.size(); ++i) {
        const std::string name = name_at(object, i);
        if (name.empty()) return;
        if (!known(name))
            throw Error("holds " + shortened(name) + ", and the program has no such " + what, where,
                        "correct its name, or declare it in the text");
    }
}

void read_program_sizes(const InputFile& file, const Program& program, ProgramRecording& recording) {
    const std::optional<hdf5::Id> group = hdf5::open_group(file, layout::path::program_sizes);
    if (!group) return;
    const std::string where = file.where(layout::path::program_sizes);
    for (const std::string& name : program.sizes) {
        const std::optional<std::int64_t> size = hdf5::read_integer(group->get(), name.c_str(), where);
        if (size) recording.sizes[name] = *size;
    }
    const auto known = [&](const std::string& name) { return recording.sizes.contains(name); };
    require_known(group->get(), attribute_name, program.sizes, known, "size", where);
}

/// What hooks say of a stage: which part of it they recorded, and what was written twice.
void read_recorded(const StoredDataset& dataset, ProgramTensor& tensor) {
    const std::string first = hdf5::read_text(dataset.id.get(), "first", dataset.where).value_or("");
    const auto list = declarations::list_of(first);
    const bool is_one_each = list && (list->empty() || list->size() == tensor.shape.size());
    if (!is_one_each || std::ranges::any_of(*list, [](std::int64_t index) { return index < 0; }))
        throw Error("first is " + readable(first) + ", no index of each dimension", dataset.where,
                    "write those of its first element, joined by ,");
    tensor.first = *list;
    tensor.conflicts = hdf5::read_integer(dataset.id.get(), "conflicts", dataset.where).value_or(0);
    if (tensor.conflicts < 0)
        throw Error("conflicts is " + std::to_string(tensor.conflicts), dataset.where,
                    "write how many there were");
    tensor.hooks = hdf5::read_stage_hooks(dataset.id.get(), dataset.where);
}

/// Errors: Error for another number of dimensions than the text declares.
void check_rank(const StoredDataset& dataset, const ProgramArray& array) {
    const std::size_t rank = array.indices.size();
    const bool has_blocks = array.over >= 0 && dataset.dims.size() == rank + 1;
    if (dataset.dims.size() == rank || has_blocks) return;
    throw Error("has " + std::to_string(dataset.dims.size()) + " dimensions, and the program declares " +
                    std::to_string(rank) + (array.over >= 0 ? ", with blocks before them or without" : ""),
                dataset.where, "store it along the indices that the text declares");
}

void open_arrays(const InputFile& file, const Program& program, const ArrayGroup& kind,
                 StoredProgram& stored) {
    const std::optional<hdf5::Id> group = hdf5::open_group(file, kind.path);
    std::map<std::string, ProgramTensor>& arrays = stored.recording.*kind.arrays;
    std::vector<std::string> names;
    for (const ProgramArray& array : program.arrays) {
        if (array.is_stage != kind.is_stage) continue;
        names.push_back(array.name);
        const std::string path = std::string(kind.path) + "/" + array.name;
        std::optional<StoredDataset> dataset;
        if (group) dataset = hdf5::open_whole_dataset(file, path, array.dtype);
        if (!dataset && array.is_stage) continue;
        if (!dataset) throw Error("is missing, and the program reads it", file.where(path), "store it there");
        check_rank(*dataset, array);
        hdf5::check_dtype(dataset->id.get(), dataset->where, array.dtype);
        ProgramTensor& tensor = arrays[array.name];
        tensor.dtype = dataset->dtype;
        tensor.shape = dataset->dims;
        if (array.is_stage) read_recorded(*dataset, tensor);
        stored.tensors.push_back({std::move(*dataset), &tensor});
    }
    if (!group) return;
    const auto known = [&](const std::string& name) { return arrays.contains(name); };
    require_known(group->get(), link_name, names, known, kind.noun, file.where(kind.path));
}

/// Datasets can lie on one another, each as large as the file.
void require_bytes(const InputFile& file, const std::vector<StoredTensor>& tensors) {
    std::int64_t left = file.bytes;
    for (const StoredTensor& stored : tensors) {
        if (stored.dataset.declared_bytes > left)
            throw Error("and the arrays before it have more bytes than the file", stored.dataset.where,
                        "store each array by itself");
        left -= stored.dataset.declared_bytes;
    }
}

StoredProgram open_program(InputFile& file) {
    const hdf5::PluginsOff plugins_off;
    hdf5::open_hdf5(file);
    hdf5::check_format(file);
    const std::string where = file.where(layout::path::program);
    if (!hdf5::is_of_program(file)) hdf5::refuse("is missing", where);
    const std::optional<hdf5::Id> group = hdf5::open_group(file, layout::path::program);
    StoredProgram stored;
    stored.recording.provenance = hdf5::read_provenance(file);
    const std::optional<std::string> text = hdf5::read_text(group->get(), "text", where);
    if (!text) hdf5::refuse("has no attribute text", where);
    stored.recording.text = *text;
    const Program program = parse_text(*text, where);
    read_program_sizes(file, program, stored.recording);
    for (const ArrayGroup& kind : array_groups) open_arrays(file, program, kind, stored);
    require_bytes(file, stored.tensors);
    return stored;
}

void read_bits(const InputFile& file, const StoredTensor& stored) {
    const StoredDataset& dataset = stored.dataset;
    std::vector<std::byte>& bits = stored.tensor->bits;
    bits.resize(static_cast<std::size_t>(dataset.declared_bytes));
    if (hdf5::read_exactly(file.descriptor.get(), dataset.offset, dataset.declared_bytes, bits.data()))
        return;
    const std::string reason = errno == 0 ? "the file has become shorter" : std::strerror(errno);
    throw Error("cannot be read: " + reason, dataset.where, "check its disk");
}

/// Errors: Error unless the array has as many elements as its shape says, each index at least one.
void require_elements(const ProgramTensor& tensor, const std::string& where) {
    std::int64_t bytes = dtype_info(tensor.dtype).bytes;
    for (const std::int64_t extent : tensor.shape) {
        if (extent < 1 || __builtin_mul_overflow(bytes, extent, &bytes))
            throw Error("has an extent of " + std::to_string(extent), where, "give it elements");
    }
    if (bytes != std::int64_t(tensor.bits.size()))
        throw Error("has " + std::to_string(tensor.bits.size()) + " bytes, and its shape asks for " +
                        std::to_string(bytes),
                    where, "give all of its elements");
}

/// The array as the file keeps it: in the declared type, or as the float32 that its numbers are.
ProgramTensor kept(const ProgramTensor& tensor, const ProgramArray& array, const std::string& where) {
    require_elements(tensor, where);
    if (tensor.dtype == array.dtype || tensor.dtype == Dtype::f32) return tensor;
    if (!array.is_stage)
        throw Error("is " + std::string(dtype_info(tensor.dtype).name) + ", and the program declares " +
                        std::string(dtype_info(array.dtype).name),
                    where, "give it in that type, or declare another");
    std::vector<float> numbers(tensor.bits.size() / std::size_t(dtype_info(tensor.dtype).bytes));
    decode_array(tensor.dtype, tensor.bits, numbers);
    ProgramTensor wide{Dtype::f32, tensor.shape, {}, tensor.first, tensor.conflicts, tensor.hooks};
    wide.bits.resize(numbers.size() * sizeof(float));
    std::memcpy(wide.bits.data(), numbers.data(), wide.bits.size());
    return wide;
}

void write_tensor(hid_t file, const std::string& path, const ProgramTensor& tensor, Dtype declared) {
    const hdf5::Id type = hdf5::element_type(tensor.dtype);
    const std::vector<hsize_t> dims(tensor.shape.begin(), tensor.shape.end());
    const hdf5::Id space =
        hdf5::checked(dims.empty() ? H5Screate(H5S_SCALAR)
                                   : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    const hdf5::Id properties = hdf5::creation_properties(H5P_DATASET_CREATE);
    const hdf5::Id dataset = hdf5::checked(
        H5Dcreate2(file, path.c_str(), type.get(), space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
    hdf5::check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bits.data()));
    hdf5::write_dtype(dataset.get(), declared);
    if (!tensor.first.empty())
        hdf5::write_text(dataset.get(), "first", declarations::list_text(tensor.first));
    if (tensor.conflicts != 0) hdf5::write_integer(dataset.get(), "conflicts", tensor.conflicts);
    hdf5::write_stage_hooks(dataset.get(), tensor.hooks);
}

void write_arrays(const hdf5::OutputFile& file, const Program& program, const ArrayGroup& kind,
                  const ProgramRecording& recording) {
    hdf5::create_group(file.id.get(), kind.path);
    for (const auto& [name, tensor] : recording.*kind.arrays) {
        const std::string path = std::string(kind.path) + "/" + name;
        const ProgramArray& array = program.array(program.array_named(name));
        write_tensor(file.id.get(), path, kept(tensor, array, path), array.dtype);
        file.check_written();
    }
}

void write_program(const hdf5::OutputFile& file, const Program& program, const ProgramRecording& recording) {
    hdf5::write_format(file.id.get(), recording.provenance);
    const hdf5::Id group = hdf5::create_group(file.id.get(), layout::path::program);
    hdf5::write_text(group.get(), "text", recording.text);
    const hdf5::Id sizes = hdf5::create_group(file.id.get(), layout::path::program_sizes);
    for (const auto& [name, size] : recording.sizes) hdf5::write_integer(sizes.get(), name.c_str(), size);
    for (const ArrayGroup& kind : array_groups) write_arrays(file, program, kind, recording);
    hdf5::check(H5Fflush(file.id.get(), H5F_SCOPE_LOCAL));
    hdf5::write_complete(file.id.get());
}

/// Errors: Error for names that the program does not declare, and for an input that is missing.
void require_declared(const Program& program, const ProgramRecording& recording) {
    for (const auto& [name, size] : recording.sizes) {
        if (std::ranges::find(program.sizes, name) == program.sizes.end())
            throw Error("the program has no such size", name, "give those that it declares");
    }
    for (const ArrayGroup& kind : array_groups) {
        for (const auto& [name, tensor] : recording.*kind.arrays) {
            const int array = program.array_named(name);
            if (array < 0 || program.array(array).is_stage != kind.is_stage)
                throw Error("the program has no such " + std::string(kind.noun), name,
                            "give those that it declares");
        }
    }
    for (const ProgramArray& array : program.arrays) {
        if (!array.is_stage && !recording.inputs.contains(array.name))
            throw Error("this input is missing", array.name, "give it");
    }
}

}  // namespace

bool holds_program(const std::string& path) {
    const hdf5::Session session;
    const auto look = [&] {
        const hdf5::PluginsOff plugins_off;
        InputFile file = hdf5::open_file(path);
        hdf5::open_hdf5(file);
        return std::string(hdf5::has_object(file, layout::path::program) ? "program" : "");
    };
    try {
        return !ask_in_child(look, shortened(path)).empty();
    } catch (const Error&) {
        return false;
    }
}

ProgramRecording read_program_recording(const std::string& path) {
    const hdf5::Session session;
    // What the copy has tried is what is opened: another file may have the name by now.
    InputFile file = hdf5::open_file(path);
    const auto try_it = [&] {
        open_program(file);
        return std::string();
    };
    ask_in_child(try_it, shortened(path));
    StoredProgram stored = open_program(file);
    for (const StoredTensor& tensor : stored.tensors) read_bits(file, tensor);
    hdf5::require_unchanged(file);
    return std::move(stored.recording);
}

void write_program_recording(const std::string& path, const ProgramRecording& recording) {
    const Program program = parse_text(recording.text, "program");
    require_declared(program, recording);
    TemporaryFile temporary(path);
    hdf5::fill_file(temporary, path, nullptr,
                    [&](hdf5::OutputFile& file) { write_program(file, program, recording); });
    temporary.commit();
}

}  // namespace tilescope
