#include "dump/file/dropout.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "dump/file/attributes.h"
#include "dump/file/hdf5.h"
#include "dump/file/layout.h"
#include "dump/schema/dropout.h"

namespace tilescope::hdf5 {

namespace {

/// Of one object: more have no place in a dump.
constexpr std::size_t most_names = 256;

herr_t keep_name(hid_t, const char* name, const H5A_info_t*, void* into) {
    auto& names = *static_cast<std::vector<std::string>*>(into);
    if (names_dropout(name)) names.emplace_back(name);
    return names.size() < most_names ? 0 : 1;
}

/// Whether the attribute says that nothing is dropped: 0, false, "" or "none".
bool says_none(hid_t object, const char* name, const std::string& where) {
    const Id attribute(H5Aopen(object, name, H5P_DEFAULT));
    const Id type(attribute ? H5Aget_type(attribute.get()) : H5I_INVALID_HID);
    const H5T_class_t kind = type ? H5Tget_class(type.get()) : H5T_NO_CLASS;
    if (kind == H5T_STRING) return is_no_dropout(read_text(object, name, where).value_or(""));
    if (kind == H5T_ENUM) return !read_flag(object, name, where).value_or(true);
    return read_number(object, name, where).value_or(1) == 0;
}

void check_attributes(hid_t object, const std::string& where) {
    std::vector<std::string> names;
    hsize_t from = 0;
    if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, &from, keep_name, &names) < 0)
        hdf5::refuse("its attributes cannot be listed (" + last_error() + ")", where);
    for (const std::string& name : names)
        if (!says_none(object, name.c_str(), where)) refuse_dropout(name, where);
}

void check_objects(hid_t group, const std::string& where) {
    H5G_info_t info = {};
    if (H5Gget_info(group, &info) < 0) hdf5::refuse("cannot be read (" + last_error() + ")", where);
    for (hsize_t i = 0; i < info.nlinks && i < most_names; ++i) {
        std::array<char, 256> name = {};
        if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(),
                               H5P_DEFAULT) < 0)
            hdf5::refuse("its names cannot be read (" + last_error() + ")", where);
        if (names_dropout(name.data())) refuse_dropout(name.data(), where);
    }
}

}  // namespace

void check_dropout(const InputFile& file) {
    check_attributes(file.id.get(), file.where("/"));
    for (const char* path : {layout::path::problem, layout::path::inputs, layout::path::tiles}) {
        const std::optional<Id> group = open_group(file, path);
        if (!group) continue;
        const bool is_problem = path == layout::path::problem;
        if (is_problem) check_attributes(group->get(), file.where(path));
        if (!is_problem) check_objects(group->get(), file.where(path));
    }
    const std::string p = std::string(layout::path::tiles) + "/p";
    if (!has_object(file, p)) return;
    if (const std::optional<Id> header = open_header(file, p)) check_attributes(header->get(), file.where(p));
}

}  // namespace tilescope::hdf5
