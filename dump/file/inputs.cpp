#include "dump/file/inputs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/file/metadata.h"
#include "dump/file/output.h"
#include "dump/file/side_inputs.h"
#include "dump/recording/array_shape.h"
#include "dump/schema/error.h"

namespace tilescope::hdf5 {

namespace {

const RowPlaces& places_of(const StoredInputs& inputs, Input input) {
    return has_key_rows(input) ? inputs.kv_rows : inputs.q_rows;
}

const std::optional<StoredDataset>& tensor_of(const StoredInputs& inputs, Input input) {
    return inputs.tensors[static_cast<std::size_t>(input)];
}

// The shape that the tensor must have: padded, packed one entry after the other, or in pages as k has them.
std::vector<std::int64_t> tensor_dims(const StoredInputs& inputs, const Problem& problem,
                                      const layout::InputInfo& info) {
    const RowPlaces& places = places_of(inputs, info.input);
    const ArrayShape shape = input_shape(problem, info.input);
    std::vector<std::int64_t> dims = {problem.batch, shape.heads, shape.rows, shape.cols};
    if (!places.first_rows.empty()) {
        dims[0] = 1;
        dims[2] = places.first_rows.back();
    } else if (!places.padded()) {
        // v has as many pages as k, of the same size.
        const std::optional<StoredDataset>& k = tensor_of(inputs, Input::k);
        dims[0] = k ? k->dims[0] : any_size;
        dims[2] = k ? k->dims[2] : any_size;
    }
    dims.resize(static_cast<std::size_t>(info.rank));
    return dims;
}

std::optional<StoredDataset> open_tensor(const InputFile& file, const StoredInputs& inputs,
                                         const Problem& problem, const layout::InputInfo& info) {
    const Dtype dtype = input_shape(problem, info.input).dtype;
    std::optional<StoredDataset> dataset =
        open_dataset(file, info.dataset, dtype, tensor_dims(inputs, problem, info));
    if (!dataset) return std::nullopt;
    require_whole(*dataset);
    check_dtype(dataset->id.get(), dataset->where, dtype);
    return dataset;
}

void open_tensors(const InputFile& file, const Problem& problem, StoredInputs& inputs) {
    bool some = false;
    bool all = true;
    for (const layout::InputInfo& info : layout::all_inputs()) {
        if (!reads_input(problem.direction, info.input)) continue;
        std::optional<StoredDataset> dataset = open_tensor(file, inputs, problem, info);
        some = some || dataset;
        all = all && (dataset || !requires_input(problem.direction, info.input));
        inputs.tensors[static_cast<std::size_t>(info.input)] = std::move(dataset);
    }
    if (all || !some) return;
    const bool forward = problem.direction == Direction::forward;
    throw Error(std::string("holds some inputs, but not all of ") +
                    (forward ? "q, k and v" : "q, k, v, dout and lse"),
                file.where(layout::path::inputs), damaged_advice);
}

// Entries of the table that no row needs may hold anything.
void check_pages(const InputFile& file, const Problem& problem, const StoredInputs& inputs) {
    const RowPlaces& places = inputs.kv_rows;
    const std::optional<StoredDataset>& k = tensor_of(inputs, Input::k);
    if (places.pages.empty() || !k) return;
    const std::int64_t pages = k->dims[0];
    const std::int64_t page_size = k->dims[2];
    if (page_size < 1) throw Error("has pages without rows", k->where, damaged_advice);
    const std::string where = file.where(layout::path::page_table);
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        const std::int64_t rows = inputs.rows(problem, Input::k, batch);
        const std::int64_t needed = rows == 0 ? 0 : (rows - 1) / page_size + 1;
        if (needed > places.pages_per_entry) {
            throw Error("has " + std::to_string(places.pages_per_entry) + " pages of " +
                            std::to_string(page_size) + " rows for the " + std::to_string(rows) +
                            " rows of batch " + std::to_string(batch),
                        where, damaged_advice);
        }
        for (std::int64_t i = 0; i < needed; ++i) {
            const std::int64_t page =
                places.pages[static_cast<std::size_t>(batch * places.pages_per_entry + i)];
            if (page >= 0 && page < pages) continue;
            throw Error("sends batch " + std::to_string(batch) + " to page " + std::to_string(page) + " of " +
                            std::to_string(pages),
                        where, damaged_advice);
        }
    }
}

std::optional<StoredArray> open_bias(const InputFile& file, const Problem& problem) {
    std::optional<StoredArray> bias = open_array(file, layout::path::bias, Elements::floats);
    if (!bias) return std::nullopt;
    std::array<std::int64_t, 4> dims = bias_dims(problem);
    if (bias->dims.size() == dims.size()) {
        for (std::size_t i = 0; i < dims.size(); ++i) {
            if (bias->dims[i] == 1) dims[i] = 1;
        }
    }
    require_dims(*bias, dims);
    return bias;
}

}  // namespace

std::int64_t StoredInputs::rows(const Problem& problem, Input input, std::int64_t batch) const {
    const Problem entry = places_of(*this, input).padded() ? problem : problem_of(problem, side, batch);
    return input_shape(entry, input).rows;
}

RowRun StoredInputs::find_rows(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                               std::int64_t count) const {
    const RowPlaces& places = places_of(*this, input);
    const std::vector<std::int64_t>& dims = tensor_of(*this, input)->dims;
    if (places.padded()) return {(batch * dims[1] + head) * dims[2] + row, count};
    if (places.pages.empty()) {
        return {head * dims[2] + places.first_rows[static_cast<std::size_t>(batch)] + row, count};
    }
    const std::int64_t page_size = dims[2];
    const std::int64_t slot = batch * places.pages_per_entry + row / page_size;
    const std::int64_t page = places.pages[static_cast<std::size_t>(slot)];
    const std::int64_t in_page = row % page_size;
    return {(page * dims[1] + head) * page_size + in_page, std::min(count, page_size - in_page)};
}

std::array<std::int64_t, 4> bias_dims(const Problem& problem) {
    return {problem.batch, problem.heads, problem.seqlen_q, problem.seqlen_kv};
}

StoredInputs open_inputs(const InputFile& file, const Problem& problem) {
    StoredInputs inputs;
    StoredSideInputs stored = read_side_inputs(file, problem);
    inputs.q_rows = std::move(stored.q);
    inputs.kv_rows = std::move(stored.kv);
    inputs.side = std::move(stored.side);
    open_tensors(file, problem, inputs);
    check_pages(file, problem, inputs);
    inputs.bias = open_bias(file, problem);
    return inputs;
}

namespace {

constexpr std::int64_t elements_at_once = std::int64_t(1) << 18;

/// A contiguous dataset that is written in runs of rows.
struct RowDataset {
    std::array<std::int64_t, 4> dims;
    int rank;  ///< 3: rows are one number, and dims ends with 1
    Id type;
    Id space;
    Id dataset;
};

RowDataset create_rows(const OutputFile& file, const char* path, Dtype dtype,
                       const std::array<std::int64_t, 4>& dims, int rank = 4) {
    RowDataset rows;
    rows.dims = dims;
    rows.rank = rank;
    const std::vector<hsize_t> sizes(dims.begin(), dims.end());
    rows.type = element_type(dtype);
    rows.space = checked(H5Screate_simple(rank, sizes.data(), nullptr));
    const Id properties = creation_properties(H5P_DATASET_CREATE);
    rows.dataset = checked(H5Dcreate2(file.id.get(), path, rows.type.get(), rows.space.get(), H5P_DEFAULT,
                                      properties.get(), H5P_DEFAULT));
    return rows;
}

// Calls visit(first, second, row, count) for runs of rows of each [first][second], in order.
template <class Visit>
void for_each_run(const std::array<std::int64_t, 4>& dims, Visit visit) {
    const std::int64_t most = std::clamp(elements_at_once / dims[3], std::int64_t(1), dims[2]);
    for (std::int64_t first = 0; first < dims[0]; ++first) {
        for (std::int64_t second = 0; second < dims[1]; ++second) {
            for (std::int64_t row = 0; row < dims[2]; row += most) {
                visit(first, second, row, std::min(most, dims[2] - row));
            }
        }
    }
}

void write_rows(const OutputFile& file, const RowDataset& rows, std::int64_t first, std::int64_t second,
                std::int64_t row, std::int64_t count, const void* bits) {
    const hsize_t start[4] = {static_cast<hsize_t>(first), static_cast<hsize_t>(second),
                              static_cast<hsize_t>(row), 0};
    const hsize_t block[4] = {1, 1, static_cast<hsize_t>(count), static_cast<hsize_t>(rows.dims[3])};
    const Id memory = checked(H5Screate_simple(rows.rank, block, nullptr));
    check(H5Sselect_hyperslab(rows.space.get(), H5S_SELECT_SET, start, nullptr, block, nullptr));
    // The same type on both sides: HDF5 moves the bits and converts nothing.
    check(H5Dwrite(rows.dataset.get(), rows.type.get(), memory.get(), rows.space.get(), H5P_DEFAULT, bits));
    file.check_written();
}

// The bits of `values` in `dtype`, which must hold each of them exactly.
void encode_exactly(Dtype dtype, std::span<const float> values, std::span<std::byte> bits,
                    const std::string& where) {
    const auto bytes = static_cast<std::size_t>(dtype_info(dtype).bytes);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t element = encode(dtype, values[i]);
        const float stored = decode(dtype, element);
        if (std::bit_cast<std::uint32_t>(stored) != std::bit_cast<std::uint32_t>(values[i]) &&
            !(std::isnan(stored) && std::isnan(values[i]))) {
            throw Error(
                "holds " + std::to_string(values[i]) + ", which is no " + std::string(dtype_info(dtype).name),
                where, "declare the dtype that the kernel read");
        }
        std::memcpy(&bits[i * bytes], &element, bytes);
    }
}

void write_tensor(const OutputFile& file, const Recording& recording, const layout::InputInfo& info) {
    const Problem& problem = recording.problem();
    const ArrayShape shape = input_shape(problem, info.input);
    const Dtype dtype = shape.dtype;
    const std::int64_t cols = shape.cols;
    const RowDataset tensor =
        create_rows(file, info.dataset, dtype, {problem.batch, shape.heads, shape.rows, cols}, info.rank);
    write_dtype(tensor.dataset.get(), dtype);
    if (info.input == Input::lse) write_stage_units(tensor.dataset.get(), Stage::lse, recording.units());

    std::vector<float> values;
    std::vector<std::byte> bits;
    const std::string where = recording.name() + " input " + info.name;
    for_each_run(
        tensor.dims, [&](std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count) {
            // A recording need not have the rows beyond an entry's length.
            const Problem entry = problem_of(problem, recording.side_inputs(), batch);
            const std::int64_t length = input_shape(entry, info.input).rows;
            const std::int64_t there = std::clamp(length - row, std::int64_t(0), count);
            values.assign(static_cast<std::size_t>(count * cols), 0.0f);
            bits.resize(values.size() * static_cast<std::size_t>(dtype_info(dtype).bytes));
            const std::span<float> read = std::span(values).first(static_cast<std::size_t>(there * cols));
            if (there > 0) recording.read_input(info.input, batch, head, row, there, read);
            encode_exactly(dtype, values, bits, where);
            write_rows(file, tensor, batch, head, row, count, bits.data());
        });
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
    return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// The sizes to store: 1 along each axis on which the bias is the same everywhere, as far as a recording
// tells.
std::array<std::int64_t, 4> stored_bias_dims(const Recording& recording) {
    const std::array<std::int64_t, 4> full = bias_dims(recording.problem());
    std::array<std::int64_t, 4> dims = {1, 1, 1, 1};
    std::vector<float> line(static_cast<std::size_t>(full[3]));
    std::vector<float> other(line.size());
    const auto differs = [&](std::int64_t batch, std::int64_t head, std::int64_t row) {
        recording.read_bias(batch, head, row, 0, other);
        return !same_bits(line, other);
    };
    for (std::int64_t batch = 0; batch < full[0]; ++batch) {
        for (std::int64_t head = 0; head < full[1]; ++head) {
            for (std::int64_t row = 0; row < full[2] && dims != full; ++row) {
                recording.read_bias(batch, head, row, 0, line);
                if (dims[0] == 1 && batch > 0 && differs(0, head, row)) dims[0] = full[0];
                if (dims[1] == 1 && head > 0 && differs(batch, 0, row)) dims[1] = full[1];
                if (dims[2] == 1 && row > 0 && differs(batch, head, 0)) dims[2] = full[2];
                const std::span<const float> keys(line);
                if (dims[3] == 1 && !same_bits(keys.first(keys.size() - 1), keys.subspan(1)))
                    dims[3] = full[3];
            }
        }
    }
    return dims;
}

void write_bias(const OutputFile& file, const Recording& recording) {
    const RowDataset bias = create_rows(file, layout::path::bias, Dtype::f32, stored_bias_dims(recording));
    const std::int64_t keys = bias.dims[3];
    std::vector<float> values;
    for_each_run(bias.dims, [&](std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count) {
        values.resize(static_cast<std::size_t>(count * keys));
        for (std::int64_t i = 0; i < count; ++i) {
            recording.read_bias(batch, head, row + i, 0,
                                std::span(values).subspan(static_cast<std::size_t>(i * keys),
                                                          static_cast<std::size_t>(keys)));
        }
        if (!std::ranges::all_of(values, is_bias)) {
            throw Error("holds NaN or +inf", recording.name() + " bias", "give numbers or -inf");
        }
        write_rows(file, bias, batch, head, row, count, values.data());
    });
}

}  // namespace

void write_inputs(const OutputFile& file, const Recording& recording) {
    if (recording.has_inputs()) {
        for (const layout::InputInfo& info : layout::all_inputs()) {
            const bool read = reads_input(recording.problem().direction, info.input);
            if (read && recording.has_input(info.input)) write_tensor(file, recording, info);
        }
    }
    write_side_inputs(file.id.get(), recording.side_inputs(), recording.problem());
    if (recording.has_bias()) write_bias(file, recording);
}

}  // namespace tilescope::hdf5
