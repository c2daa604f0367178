#include "oracle/report/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <vector>

#include "dump/schema/error.h"
#include "oracle/replay/tiles.h"
#include "oracle/report/output_file.h"

namespace tilescope {

namespace {

/// A NumPy array file that starts as NaN and is filled in any order.
template <class T>
class NpyFile {
 public:
    NpyFile(const std::string& path, const std::vector<std::int64_t>& shape, const char* dtype)
        : file_(path) {
        // Format 1.0: magic, header length, a Python dictionary padded so that the data is aligned to 64
        // bytes.
        std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", dtype,
                                         fmt::join(shape, ", "));
        constexpr std::size_t preamble = 10;
        header.resize((preamble + header.size() + 1 + 63) / 64 * 64 - preamble - 1, ' ');
        header += '\n';
        const std::string magic{'\x93',
                                'N',
                                'U',
                                'M',
                                'P',
                                'Y',
                                '\x01',
                                '\x00',
                                char(header.size() & 0xff),
                                char(header.size() >> 8)};
        file_.write(magic + header);
        data_ = preamble + header.size();
        fill(shape);
    }

    void write(std::int64_t element, std::span<const T> values) {
        file_.write_at(data_ + std::uint64_t(element) * sizeof(T), std::as_bytes(values));
    }
    void commit() { file_.commit(); }

 private:
    void fill(const std::vector<std::int64_t>& shape) {
        std::int64_t elements = 1;
        for (const std::int64_t size : shape) elements *= size;
        const std::vector<T> nothing(std::size_t(std::min<std::int64_t>(elements, 1 << 20)),
                                     std::numeric_limits<T>::quiet_NaN());
        for (std::int64_t at = 0; at < elements; at += std::ssize(nothing)) {
            const auto count = std::size_t(std::min<std::int64_t>(elements - at, std::ssize(nothing)));
            write(at, std::span(nothing).first(count));
        }
    }

    OutputFile file_;
    std::uint64_t data_ = 0;
};

/// What npy_files() names.
struct NpyFiles {
    NpyFiles(const std::string& directory, const std::vector<std::int64_t>& shape)
        : NpyFiles(npy_files(created(directory)), shape) {}

    void commit() {
        got.commit();
        expected.commit();
        difference.commit();
    }

    NpyFile<float> got;
    NpyFile<double> expected;
    NpyFile<double> difference;

 private:
    NpyFiles(const std::array<std::string, 3>& files, const std::vector<std::int64_t>& shape)
        : got(files[0], shape, "<f4"), expected(files[1], shape, "<f8"), difference(files[2], shape, "<f8") {}

    static const std::string& created(const std::string& directory) {
        std::error_code error;
        std::filesystem::create_directories(directory, error);
        if (error)
            throw Error("cannot be created (" + error.message() + ")", directory,
                        "choose a place that can be written");
        return directory;
    }
};

/// Of an element of a tile, in an array of that shape along the blocks of a state and the axes of the stage.
std::int64_t number_of(const ProgramTile& tile, std::int64_t element,
                       const std::vector<std::int64_t>& shape) {
    const std::vector<std::int64_t> index = tile.index_of(element);
    std::int64_t number = std::max<std::int64_t>(tile.block, 0);
    for (std::size_t k = 0; k < index.size(); ++k)
        number = number * shape[shape.size() - index.size() + k] + index[k];
    return number;
}

/// Index of the tile's first element in the head's part of the dataset, and the distance between its rows.
struct Placement {
    std::int64_t first = 0;
    std::int64_t row_stride = 1;
};

Placement place_tile(const Problem& problem, Stage stage, const TileId& tile) {
    const DatasetShape shape = dataset_shape(problem, stage);
    const std::vector<std::int64_t> index = chunk_index(problem, stage, tile);
    Placement place;
    for (std::size_t axis = 2; axis < shape.dims.size(); ++axis) {
        place.first = place.first * shape.dims[axis] + index[axis] * shape.chunk[axis];
    }
    const bool is_column =
        stage_info(problem, stage).col_axis == Axis::unit && tile_shape(problem, stage).cols == 1;
    place.row_stride = is_column ? 1 : shape.dims.back();
    return place;
}

}  // namespace

std::array<std::string, 3> npy_files(const std::string& directory) {
    return {directory + "/got.npy", directory + "/expected.npy", directory + "/difference.npy"};
}

void write_npy(const std::string& directory, const Report& report, const Recording& recording,
               const Recording* other, JudgeOptions options) {
    if (!report.guilty) return;
    const Stage guilty = *report.guilty;
    const Problem& problem = recording.problem();
    const DatasetShape dataset = dataset_shape(problem, guilty);
    const std::vector<std::int64_t> shape(dataset.dims.begin() + 2, dataset.dims.end());
    NpyFiles files(directory, shape);

    // Tiles are disjoint, and so are the places that several threads write to.
    options.only_head = std::pair{report.first_divergence->tile.batch,
                                  query_heads(problem, guilty, report.first_divergence->tile.head).first};
    options.observe = [&](Stage stage, const TileId& tile, const MatrixF& values, const Estimate& estimate) {
        if (stage != guilty) return;
        const Placement place = place_tile(problem, stage, tile);
        const Matrix distance = values.cast<double>() - estimate.value;
        const auto width = std::size_t(values.cols());
        const Eigen::Index rows = values.rows();
        for (Eigen::Index row = 0; row < rows; ++row) {
            const std::int64_t at = place.first + row * place.row_stride;
            files.got.write(at, {values.row(row).data(), width});
            files.expected.write(at, {estimate.value.row(row).data(), width});
            files.difference.write(at, {distance.row(row).data(), width});
        }
    };
    if (other != nullptr) {
        judge_pair(recording, *other, options);
    } else {
        judge(recording, options);
    }
    files.commit();
}

void write_npy(const std::string& directory, const RecordedCall& recorded, int stage) {
    const ProgramCall& call = recorded.call;
    const ProgramArray& array = recorded.program.array(stage);
    std::vector<std::int64_t> shape;
    if (array.over >= 0) shape.push_back(call.blocks_of(array.over));
    for (const int index : array.indices)
        shape.push_back(call.extents[std::size_t(recorded.program.axis_of(index))]);
    NpyFiles files(directory, shape);
    ProgramOptions options;
    options.stored = &recorded.stored;
    evaluate_stage(call, options, stage, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        std::vector<double> stored(std::size_t(tile.size()));
        std::vector<char> known(stored.size(), 0);
        recorded.stored.read(tile, stored, known);
        const std::int64_t width = tile.indices.empty() ? 1 : tile.indices.back().count;
        constexpr double none = std::numeric_limits<double>::quiet_NaN();
        for (std::int64_t first = 0; first < tile.size(); first += width) {
            std::vector<float> got;
            std::vector<double> should;
            std::vector<double> distance;
            for (auto i = std::size_t(first); i < std::size_t(first + width); ++i) {
                got.push_back(float(known[i] != 0 ? stored[i] : none));
                should.push_back(known[i] != 0 ? expected.value[i] : none);
                distance.push_back(known[i] != 0 ? stored[i] - expected.value[i] : none);
            }
            const std::int64_t at = number_of(tile, first, shape);
            files.got.write(at, got);
            files.expected.write(at, should);
            files.difference.write(at, distance);
        }
    });
    files.commit();
}

}  // namespace tilescope
