#include "dump/file/references.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/file/metadata.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope::hdf5 {

namespace {

constexpr const char* root = "/references";
constexpr hsize_t most_references = 16;
constexpr std::size_t longest_name = 64;

bool is_name(const std::string& name) {
    return name != "." && std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~' && c != '/'; });
}

std::string name_at(hid_t group, hsize_t index, const std::string& where) {
    std::array<char, longest_name + 2> text = {};
    const ssize_t length = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, index, text.data(),
                                              text.size(), H5P_DEFAULT);
    if (length < 0) refuse("its names cannot be read (" + last_error() + ")", where);
    if (length == 0 || static_cast<std::size_t>(length) > longest_name) {
        refuse("has a name of " + std::to_string(length) + " characters, not of 1 to " +
                   std::to_string(longest_name),
               where);
    }
    std::string name(text.data());
    if (!is_name(name))
        refuse("has the name \"" + shortened(name) + "\", which is not printable ASCII", where);
    return name;
}

// The object behind a hard link. It is asked for its type alone: open_dataset checks everything else.
Id open_hard_link(hid_t group, const char* name) {
    H5L_info_t link = {};
    const bool is_hard = H5Lexists(group, name, H5P_DEFAULT) > 0 &&
                         H5Lget_info(group, name, &link, H5P_DEFAULT) >= 0 && link.type == H5L_TYPE_HARD;
    return is_hard ? Id(H5Oopen(group, name, H5P_DEFAULT)) : Id();
}

// The type in which the reference stored o: named, or that of the elements, or that of the kernel's o.
Dtype dtype_of_o(hid_t group, const std::string& where, const Problem& problem) {
    const Id dataset = open_hard_link(group, "o");
    if (!dataset || H5Iget_type(dataset.get()) != H5I_DATASET) return problem.dtype_o;
    const std::optional<Dtype> named = read_name<Dtype>(dataset.get(), "dtype", where);
    if (named) return *named;
    const Id type(H5Dget_type(dataset.get()));
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        if (type && H5Tequal(type.get(), element_type(dtype).get()) > 0) return dtype;
    }
    return problem.dtype_o;
}

std::optional<StoredDataset> open_output(const InputFile& file, const std::string& path, Dtype dtype,
                                         const std::vector<std::int64_t>& dims) {
    std::optional<StoredDataset> dataset = open_dataset(file, path, dtype, dims);
    if (dataset) require_whole(*dataset);
    return dataset;
}

void open_lse(const InputFile& file, const std::string& path, const Problem& problem, ReferenceInfo& info,
              StoredReferences::Outputs& outputs) {
    std::optional<StoredDataset>& lse = outputs[1];
    lse = open_output(file, path, Dtype::f32, {problem.batch, problem.heads, problem.seqlen_q});
    info.has_lse = lse.has_value();
    if (!lse) return;
    const hid_t id = lse->id.get();
    info.lse_log_base = read_name<LogBase>(id, "log_base", lse->where).value_or(LogBase::e);
    if (read_name<Dtype>(id, "dtype", lse->where).value_or(Dtype::f32) != Dtype::f32) {
        refuse("attribute dtype is not f32", lse->where);
    }
}

void open_reference(const InputFile& file, const Problem& problem, const std::string& name,
                    StoredReferences& references) {
    const std::string path = std::string(root) + "/" + name;
    const std::optional<Id> group = open_group(file, path);
    if (!group) refuse("cannot be looked up", file.where(path));
    ReferenceInfo info;
    info.name = name;
    StoredReferences::Outputs outputs;
    const Dtype dtype = dtype_of_o(group->get(), file.where(path + "/o"), problem);
    outputs[0] = open_output(file, path + "/o", dtype,
                             {problem.batch, problem.heads, problem.seqlen_q, problem.head_dim_v});
    info.has_o = outputs[0].has_value();
    if (info.has_o) info.dtype_o = dtype;
    open_lse(file, path + "/lse", problem, info, outputs);
    if (!info.has_o && !info.has_lse) refuse("holds neither o nor lse", file.where(path));
    references.infos.push_back(std::move(info));
    references.outputs.push_back(std::move(outputs));
}

}  // namespace

const StoredDataset* StoredReferences::find(std::size_t index, Stage stage) const {
    if (index >= infos.size() || !infos[index].has(stage)) return nullptr;
    return &*outputs[index][stage == Stage::o ? 0 : 1];
}

StoredReferences open_references(const InputFile& file, const Problem& problem) {
    StoredReferences references;
    const std::optional<Id> group = open_group(file, root);
    if (!group) return references;
    const std::string where = file.where(root);
    if (problem.direction == Direction::backward)
        refuse("is there, but o and lse are no outputs of the backward pass", where);
    H5G_info_t info = {};
    if (H5Gget_info(group->get(), &info) < 0) refuse("cannot be read (" + last_error() + ")", where);
    if (info.nlinks > most_references) {
        refuse("holds " + std::to_string(info.nlinks) + " references, more than " +
                   std::to_string(most_references),
               where);
    }
    for (hsize_t i = 0; i < info.nlinks; ++i) {
        open_reference(file, problem, name_at(group->get(), i, where), references);
    }
    return references;
}

}  // namespace tilescope::hdf5
