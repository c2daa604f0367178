#include "dump/file/threads.h"

#include <algorithm>
#include <vector>

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/schema/error.h"

namespace tilescope::hdf5 {

namespace {

constexpr const char* name_attribute = "fragment";
constexpr std::int64_t owner_columns = 2;  ///< thread, register

std::string path_of(const std::string& fragment) {
    return std::string(layout::path::fragments) + "/" + fragment;
}

/// Any number that an owner cannot have stays one.
int narrow(std::int64_t value) {
    return int(std::clamp<std::int64_t>(value, -1, 1 << 30));
}

std::optional<Fragment> read_fragment(const InputFile& file, const std::string& name) {
    if (!open_group(file, layout::path::fragments)) return std::nullopt;
    const std::optional<StoredArray> array = open_array(file, path_of(name), Elements::integers);
    if (!array) return std::nullopt;
    constexpr std::int64_t most_elements = 256 * 256 * owner_columns;
    if (array->dims.size() != 3 || array->dims[2] != owner_columns || array->elements > most_elements) {
        throw Error("is not of [rows, columns, 2] with at most 256 rows and columns", array->where,
                    damaged_advice);
    }
    Fragment fragment;
    fragment.name = name;
    fragment.rows = array->dims[0];
    fragment.cols = array->dims[1];
    const std::vector<std::int64_t> numbers = read_integers(file, *array);
    for (std::size_t i = 0; i < numbers.size(); i += owner_columns)
        fragment.owners.push_back({narrow(numbers[i]), narrow(numbers[i + 1])});
    validate(fragment, array->where);
    return fragment;
}

}  // namespace

void read_stage_threads(const InputFile& file, hid_t dataset, const std::string& where,
                        const Problem& problem, Stage stage, ThreadLayouts& threads) {
    ThreadLayout& declared = threads[stage];
    declared.fragment = read_text(dataset, name_attribute, where).value_or("");
    if (!declared.declared()) return;
    for (const layout::ThreadAttribute& attribute : layout::thread_attributes())
        declared.*attribute.member = read_integer(dataset, attribute.name, where).value_or(0);
    const bool is_there =
        std::ranges::find(threads.fragments, declared.fragment, &Fragment::name) != threads.fragments.end();
    if (!is_there && is_fragment_name(declared.fragment)) {
        if (std::optional<Fragment> fragment = read_fragment(file, declared.fragment))
            threads.fragments.push_back(std::move(*fragment));
    }
    static_cast<void>(ThreadMap(problem, stage, threads, where));
}

void write_stage_threads(hid_t dataset, const ThreadLayout& declared) {
    if (!declared.declared()) return;
    write_text(dataset, name_attribute, declared.fragment);
    for (const layout::ThreadAttribute& attribute : layout::thread_attributes()) {
        if (declared.*attribute.member != 0)
            write_integer(dataset, attribute.name, declared.*attribute.member);
    }
}

void write_fragments(hid_t file, std::span<const Fragment> fragments) {
    if (fragments.empty()) return;
    const Id group = create_group(file, layout::path::fragments);
    for (const Fragment& fragment : fragments) {
        std::vector<std::int32_t> numbers;
        for (const ThreadElement& owner : fragment.owners) {
            numbers.push_back(owner.thread);
            numbers.push_back(owner.reg);
        }
        const hsize_t dims[3] = {hsize_t(fragment.rows), hsize_t(fragment.cols), hsize_t(owner_columns)};
        const Id space = checked(H5Screate_simple(3, dims, nullptr));
        const Id properties = creation_properties(H5P_DATASET_CREATE);
        const Id dataset = checked(H5Dcreate2(group.get(), fragment.name.c_str(), H5T_STD_I32LE, space.get(),
                                              H5P_DEFAULT, properties.get(), H5P_DEFAULT));
        check(H5Dwrite(dataset.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()));
    }
}

}  // namespace tilescope::hdf5
