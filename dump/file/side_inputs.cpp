#include "dump/file/side_inputs.h"

#include <string>
#include <utility>

#include "dump/file/attributes.h"
#include "dump/file/hdf5.h"
#include "dump/file/layout.h"
#include "dump/schema/error.h"

namespace tilescope::hdf5 {

namespace {

using Dims = std::vector<std::int64_t>;

std::vector<std::int64_t> read_lengths(const InputFile& file, const char* path, const Dims& dims) {
    const std::optional<StoredArray> array = open_array(file, path, Elements::integers);
    if (!array) return {};
    require_dims(*array, dims);
    return read_integers(file, *array);
}

// Sums of lengths: the rows of entry b are [b] to [b + 1].
void check_sums(const std::vector<std::int64_t>& sums, std::int64_t most, const std::string& where) {
    if (sums.front() != 0) refuse("begins with " + std::to_string(sums.front()) + ", not with 0", where);
    for (std::size_t entry = 0; entry + 1 < sums.size(); ++entry) {
        const std::int64_t begin = sums[entry];
        const std::int64_t end = sums[entry + 1];
        if (end < begin) {
            refuse("decreases from " + std::to_string(begin) + " to " + std::to_string(end), where);
        }
        if (end - begin <= most) continue;
        refuse("gives batch " + std::to_string(entry) + " " + std::to_string(end - begin) +
                   " rows, more than the " + std::to_string(most) + " of /problem",
               where);
    }
}

/// Datasets with the lengths of q, or of k and v.
struct LengthPaths {
    const char* lengths;
    const char* sums;
};

// An entry's lengths are given, or follow from the sums that place it in a packed tensor.
std::vector<std::int64_t> read_places(const InputFile& file, const LengthPaths& paths, std::int64_t batch,
                                      std::int64_t most, RowPlaces& places) {
    std::vector<std::int64_t> lengths = read_lengths(file, paths.lengths, {batch});
    places.first_rows = read_lengths(file, paths.sums, {batch + 1});
    if (places.first_rows.empty()) return lengths;
    const std::string where = file.where(paths.sums);
    if (!lengths.empty()) refuse("is there together with " + std::string(paths.lengths), where);
    check_sums(places.first_rows, most, where);
    for (std::size_t entry = 0; entry + 1 < places.first_rows.size(); ++entry) {
        lengths.push_back(places.first_rows[entry + 1] - places.first_rows[entry]);
    }
    return lengths;
}

void read_page_table(const InputFile& file, std::int64_t batch, RowPlaces& places) {
    const std::optional<StoredArray> table = open_array(file, layout::path::page_table, Elements::integers);
    if (!table) return;
    if (!places.first_rows.empty()) {
        refuse("is there together with " + std::string(layout::path::cu_seqlens_kv), table->where);
    }
    require_dims(*table, Dims{batch, any_size});
    if (table->elements == 0) refuse("has no pages", table->where);
    places.pages = read_integers(file, *table);
    places.pages_per_entry = table->dims[1];
}

std::vector<float> read_slopes(const InputFile& file, const Problem& problem) {
    const std::optional<StoredArray> array = open_array(file, layout::path::alibi_slopes, Elements::floats);
    if (!array) return {};
    const bool per_entry = array->dims.size() == 2;
    require_dims(*array, per_entry ? Dims{problem.batch, problem.heads} : Dims{problem.heads});
    return read_floats(file, *array);
}

std::vector<float> read_sink(const InputFile& file, const Problem& problem) {
    const std::optional<StoredArray> array = open_array(file, layout::path::sink, Elements::floats);
    if (!array) return {};
    require_dims(*array, Dims{problem.heads});
    return read_floats(file, *array);
}

Descale read_descale(const InputFile& file, const Problem& problem, const layout::DescaleInfo& info) {
    Descale descale;
    const std::optional<StoredArray> array = open_array(file, info.dataset, Elements::floats);
    if (!array) return descale;
    const std::int64_t heads = problem.*info.heads;
    if (array->dims.size() == 1) {
        require_dims(*array, Dims{1});
    } else if (array->dims.size() == 2) {
        require_dims(*array, Dims{problem.batch, heads});
        descale = {heads, 1, problem.*info.seqlen, {}};
    } else if (array->dims.size() == 4) {
        const std::int64_t channels = problem.*info.head_dim;
        require_dims(*array, Dims{problem.batch, heads, 1, channels});
        descale = {heads, 1, problem.*info.seqlen, {}, channels};
    } else {
        require_dims(*array, Dims{problem.batch, heads, any_size});
        const std::optional<std::int64_t> rows = read_integer(array->id.get(), "rows", array->where);
        if (!rows) refuse("has no attribute rows", array->where);
        descale = {heads, array->dims[2], *rows, {}};
    }
    // An array without elements is not the same as no array.
    if (array->elements == 0) refuse("is empty", array->where);
    descale.values = read_floats(file, *array);
    return descale;
}

void write_array(hid_t file, const char* path, hid_t type, const Dims& dims, const void* values) {
    const std::vector<hsize_t> sizes(dims.begin(), dims.end());
    const Id space = checked(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
    const Id properties = creation_properties(H5P_DATASET_CREATE);
    const Id array =
        checked(H5Dcreate2(file, path, type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
    check(H5Dwrite(array.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
}

void write_descale(hid_t file, const char* path, const Descale& descale, std::int64_t batch,
                   std::int64_t seqlen) {
    if (descale.empty()) return;
    Dims dims = {1};
    const bool with_rows =
        descale.heads > 0 && !descale.per_channel() && (descale.per_block() || descale.rows != seqlen);
    if (descale.heads > 0) dims = {batch, descale.heads};
    if (with_rows) dims.push_back(descale.blocks);
    if (descale.per_channel()) dims.insert(dims.end(), {1, descale.channels});
    write_array(file, path, H5T_IEEE_F32LE, dims, descale.values.data());
    if (!with_rows) return;
    const Id array = checked(H5Dopen2(file, path, H5P_DEFAULT));
    write_integer(array.get(), "rows", descale.rows);
}

}  // namespace

StoredSideInputs read_side_inputs(const InputFile& file, const Problem& problem) {
    StoredSideInputs inputs;
    inputs.side.seqlens_q = read_places(file, {layout::path::seqlens_q, layout::path::cu_seqlens_q},
                                        problem.batch, problem.seqlen_q, inputs.q);
    inputs.side.seqlens_kv = read_places(file, {layout::path::seqlens_kv, layout::path::cu_seqlens_kv},
                                         problem.batch, problem.seqlen_kv, inputs.kv);
    read_page_table(file, problem.batch, inputs.kv);
    inputs.side.alibi_slopes = read_slopes(file, problem);
    inputs.side.sink = read_sink(file, problem);
    for (const layout::DescaleInfo& info : layout::all_descales()) {
        inputs.side.*info.member = read_descale(file, problem, info);
    }
    validate(inputs.side, problem, file.where(layout::path::inputs));
    return inputs;
}

void write_side_inputs(hid_t file, const SideInputs& inputs, const Problem& problem) {
    const std::pair<const char*, const std::vector<std::int64_t>&> lengths[] = {
        {layout::path::seqlens_q, inputs.seqlens_q}, {layout::path::seqlens_kv, inputs.seqlens_kv}};
    for (const auto& [path, values] : lengths) {
        if (!values.empty()) write_array(file, path, H5T_STD_I64LE, {problem.batch}, values.data());
    }
    if (!inputs.alibi_slopes.empty()) {
        const bool per_entry = std::ssize(inputs.alibi_slopes) != problem.heads;
        write_array(file, layout::path::alibi_slopes, H5T_IEEE_F32LE,
                    per_entry ? Dims{problem.batch, problem.heads} : Dims{problem.heads},
                    inputs.alibi_slopes.data());
    }
    if (!inputs.sink.empty()) {
        write_array(file, layout::path::sink, H5T_IEEE_F32LE, {problem.heads}, inputs.sink.data());
    }
    for (const layout::DescaleInfo& info : layout::all_descales()) {
        write_descale(file, info.dataset, inputs.*info.member, problem.batch, problem.*info.seqlen);
    }
}

}  // namespace tilescope::hdf5
