#include "dump/file/inputs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/file/metadata.h"
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

}  // namespace tilescope::hdf5
