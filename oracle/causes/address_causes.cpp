// Values that come from other addresses: from which, is read from where in memory the dumped values stand.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "oracle/causes/array_addresses.h"
#include "oracle/causes/array_indices.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/table.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/term_search.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

/// Larger arrays are not searched.
constexpr std::int64_t largest_array = std::int64_t(1) << 25;

/// A zero stands anywhere, a NaN nowhere.
bool tells_address(double value) {
    return std::isfinite(value) && value != 0;
}

// ---- staged operands

/// The operand as it lies in memory; empty where it is too large to be searched.
std::shared_ptr<const ArrayOfHeads> operand_array(const CauseSearch& world, Stage stage) {
    return world.once<ArrayOfHeads>(fmt::format("operand {}", stage_info(stage).name), [&] {
        const Problem& problem = world.recording().problem();
        const bool is_q = is_of_queries(stage);
        const std::int64_t heads = is_q ? problem.heads : problem.heads_kv;
        const std::int64_t length = is_q ? problem.seqlen_q : problem.seqlen_kv;
        const std::int64_t cols = tile_shape(problem, stage).cols;
        std::vector<double> values;
        const bool is_large = problem.batch * heads * length * cols > largest_array;
        for (std::int64_t batch = 0; batch < problem.batch && !is_large; ++batch) {
            for (std::int64_t head = 0; head < heads; ++head) {
                const Matrix rows = world.input_rows(stage, batch, head, 0, length);
                values.insert(values.end(), rows.data(), rows.data() + rows.size());
            }
        }
        return ArrayOfHeads{heads, length, cols, ValueIndex(std::move(values))};
    });
}

std::int64_t length_of(const SearchedTile& site, Stage stage) {
    return is_of_queries(stage) ? site.call->problem.seqlen_q : site.call->problem.seqlen_kv;
}

/// Whether a staged tile holds the numbers of the input and no others.
bool is_copied(const Evidence& evidence, Stage stage) {
    const Units& units = evidence.units();
    const SideInputs& side = evidence.world->recording().side_inputs();
    switch (stage) {
        case Stage::dout:
            return true;
        case Stage::q:
            return units.q_scale == 1 && units.q_cast == Dtype::f32 &&
                   (side.descale_q.empty() || !units.q_dequantised);
        case Stage::k:
            return units.k_scale == 1 && units.k_cast == Dtype::f32 &&
                   (side.descale_k.empty() || !units.k_dequantised);
        default:
            return units.v_cast == Dtype::f32 && (side.descale_v.empty() || !units.v_dequantised);
    }
}

/// The address in the array of each element of a tile.
using AddressInTile = std::function<std::int64_t(Eigen::Index row, Eigen::Index col)>;
using AddressesOfTiles = std::function<AddressInTile(const SearchedTile&)>;

AddressesOfTiles addresses_by(Stage stage, CountedFrom counted_from, const AddressMap& described) {
    return [=](const SearchedTile& site) -> AddressInTile {
        const ArrayOfHeads& array = *operand_array(*site.world, stage);
        const Counting from = counting(site, stage, array, counted_from);
        return [=, map = in_rows_of(described, array.cols)](Eigen::Index row, Eigen::Index col) {
            return from.address + map.apply(from.first_row + row, col);
        };
    };
}

/// The tile from addresses of the array. Bounded: rows of another head, or beyond the sequence, are zeros; otherwise
/// what lies beyond the array is not known.
Change reads(Stage stage, const AddressesOfTiles& addresses, bool bounded) {
    // `see` gets each element with its value, or nullopt where there is none.
    const auto each = [=](const SearchedTile& site, Eigen::Index rows, Eigen::Index cols, const auto& see) {
        const ArrayOfHeads& array = *operand_array(*site.world, stage);
        const AddressInTile address = addresses(site);
        const std::int64_t own = origin(site, stage, array);
        const std::int64_t begin = own / array.size_of_head() * array.size_of_head();
        const std::int64_t end = begin + length_of(site, stage) * array.cols;
        for (Eigen::Index i = 0; i < rows; ++i) {
            for (Eigen::Index j = 0; j < cols; ++j) {
                const std::int64_t at = address(i, j);
                const bool is_there = array.values.has(at) && (!bounded || (at >= begin && at < end));
                see(i, j, is_there ? std::optional(array.values.at(at)) : std::nullopt);
            }
        }
    };
    const auto inputs = [=](SearchedTile& site) {
        each(site, site.raw.rows(), site.raw.cols(),
             [&](Eigen::Index i, Eigen::Index j, std::optional<double> value) {
                 site.raw(i, j) = value.value_or(0);
             });
    };
    if (bounded) return {.inputs = inputs};
    const auto result = [=](const SearchedTile& site, Estimate& estimate) {
        each(site, estimate.value.rows(), estimate.value.cols(),
             [&](Eigen::Index i, Eigen::Index j, std::optional<double> value) {
                 if (!value) estimate.error(i, j) = infinity;
             });
    };
    return {.inputs = inputs, .result = result};
}

/// The addresses of the element's value: the nearest ones, and the same place of other heads, which is far away,
/// and likely all the same.
std::vector<std::int64_t> addresses_of(const ArrayOfHeads& array, Stage stage, const Observation& seen,
                                       Eigen::Index row, Eigen::Index col) {
    const std::int64_t from = origin(seen.site, stage, array);
    std::vector<std::int64_t> found = array.values.sources(seen.got(row, col), 0, from);
    for (std::int64_t& address : found) address += from;
    for (std::int64_t at = (from + row * array.cols + col) % array.size_of_head(); array.values.has(at);
         at += array.size_of_head()) {
        if (array.values.at(at) == seen.got(row, col)) found.push_back(at);
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

std::vector<Candidate> other_addresses(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Stage stage = evidence.acts;
    if (!evidence.direct() || !is_copied(evidence, stage)) return candidates;
    const std::shared_ptr<const ArrayOfHeads> array = operand_array(*evidence.world, stage);
    if (!array->values.has(0)) return candidates;
    const auto sources_of = [&](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        return tells_address(seen.got(row, col)) ? std::optional(addresses_of(*array, stage, seen, row, col))
                                                 : std::nullopt;
    };
    for (const auto& [from, maps] : maps_in_array(evidence, *array, sources_of)) {
        for (const AddressMap& map : maps) {
            std::vector<CauseParameter> parameters = meaning_of_row(stage, from);
            parameters.insert(parameters.begin(), {"reads", map.text()});
            for (const bool bounded : {true, false})
                candidates.push_back(
                    {parameters, reads(stage, addresses_by(stage, from, map), bounded), cost_of(map)});
        }
    }
    const auto stands_at = [&](const Observation& seen, Eigen::Index row, Eigen::Index col,
                               std::int64_t at) -> std::optional<bool> {
        const double got = seen.got(row, col);
        return tells_address(got) ? std::optional(array->values.at(at) == got) : std::nullopt;
    };
    for (const OtherArrayIndex& index : other_array_indices(evidence, stands_at)) {
        const auto addresses = [=, index = index.index](const SearchedTile& site) -> AddressInTile {
            return [=, place = element_place(stage, site, 0, 0)](Eigen::Index row, Eigen::Index col) mutable {
                move_in_tile(stage, row, col, place);
                return index.at(place);
            };
        };
        for (const bool bounded : {true, false})
            candidates.push_back(
                {{{"reads", index.text}}, reads(stage, addresses, bounded), index.choices + 1});
    }
    return candidates;
}

// ---- stages

/// Elements from a row of a tile to the next: those of a whole tile, for tiles at the end as well.
std::int64_t row_length(const Problem& problem, Stage stage) {
    return tile_shape(problem, stage).cols;
}

std::shared_ptr<const ValueIndex> index_of(const Matrix& tile, std::int64_t ld) {
    std::vector<double> values(std::size_t(tile.rows() * ld), quiet_nan);
    for (Eigen::Index i = 0; i < tile.rows(); ++i) std::ranges::copy(tile.row(i), values.begin() + i * ld);
    return std::make_shared<const ValueIndex>(std::move(values));
}

/// Where in a tile's memory, in rows of `ld` elements, each of its elements is read; beyond it nothing is known.
using ReadAt =
    std::function<std::optional<std::int64_t>(const SearchedTile&, Eigen::Index row, Eigen::Index col)>;

ReadAt read_by(const AddressMap& described, std::int64_t ld) {
    return [=, map = in_rows_of(described, ld)](const SearchedTile&, Eigen::Index row,
                                                Eigen::Index col) -> std::optional<std::int64_t> {
        const std::int64_t at = map.apply(row, col);
        if (at < 0 || (map.has_rows() && map.row_of(row, col) != at / ld)) return std::nullopt;
        return at;
    };
}

/// A tile's elements where they are read.
Estimate moved(const SearchedTile& site, const Estimate& right, const ReadAt& read, std::int64_t ld) {
    Estimate estimate = right;
    for (Eigen::Index i = 0; i < right.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < right.value.cols(); ++j) {
            const std::int64_t at = read(site, i, j).value_or(-1);
            if (at < 0 || at / ld >= right.value.rows() || at % ld >= right.value.cols()) {
                estimate.error(i, j) = infinity;
                continue;
            }
            estimate.value(i, j) = right.value(at / ld, at % ld);
            estimate.error(i, j) = right.error(at / ld, at % ld);
        }
    }
    return estimate;
}

/// A number that is looked for in a tile.
struct SoughtValue {
    double value;
    double tolerance;
};

/// A tile like that of an element, and the number that is looked for in it.
using TileOf = std::function<Matrix(const Observation&)>;
using Sought = std::function<SoughtValue(const Observation&, Eigen::Index row, Eigen::Index col)>;

/// Maps that say where in a tile like its own the numbers of each element stand; a NaN stands nowhere.
std::vector<AddressMap> maps_within_tiles(const Evidence& evidence, const TileOf& tile_of,
                                          const Sought& sought) {
    const std::int64_t ld = row_length(evidence.problem(), evidence.observed);
    std::map<const Observation*, std::shared_ptr<const ValueIndex>> tiles;
    const auto sample_of = [&](const Observation& seen, Eigen::Index row,
                               Eigen::Index col) -> std::optional<AddressSample> {
        if (!tells_address(seen.got(row, col))) return std::nullopt;
        std::shared_ptr<const ValueIndex>& tile = tiles[&seen];
        if (!tile) tile = index_of(tile_of(seen), ld);
        const SoughtValue one = sought(seen, row, col);
        AddressSample sample{row, col, {}};
        if (std::isfinite(one.value) && std::isfinite(one.tolerance))
            sample.sources = tile->sources(one.value, one.tolerance, 0);
        return sample;
    };
    // What runs past a row is in the row before or in nobody's: both fit most elements.
    constexpr std::size_t most_kinds = 2;
    return voted_maps(evidence, ld, axes_of_tile(evidence.observed), sample_of, most_kinds);
}

/// Indices of row, column and the tile's numbers that a few wrong elements speak for: where no map of a tile by itself
/// says it, or few elements of each tile are wrong.
std::vector<TermRead> indices_within_tiles(const Evidence& evidence, const TileOf& tile_of,
                                           const Sought& sought) {
    constexpr std::int64_t few = 64;
    constexpr std::size_t most = 4;
    const Problem& problem = evidence.problem();
    const TileShape shape = tile_shape(problem, evidence.observed);
    TermQuestion question;
    const TileAxes axes = axes_of_tile(evidence.observed);
    // An element is a sum of one term.
    question.term = Coordinate::nothing;
    question.ranges = {{axes.down, shape.rows},
                       {axes.along, shape.cols},
                       {Coordinate::nothing, 1},
                       {Coordinate::kv_tile, problem.kv_tiles()},
                       {Coordinate::q_block, problem.q_blocks()},
                       {Coordinate::head, problem.heads}};
    const std::int64_t step = evidence.wrong_elements / few | 1;
    std::int64_t met = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        const Matrix tile = tile_of(seen);
        TileMemory memory{std::vector<double>(std::size_t(shape.rows * shape.cols), quiet_nan), shape.cols};
        for (Eigen::Index i = 0; i < tile.rows(); ++i)
            std::ranges::copy(tile.row(i), memory.values.begin() + i * shape.cols);
        question.memories.push_back(std::move(memory));
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            const Eigen::Index row = i / seen.got.cols();
            const Eigen::Index col = i % seen.got.cols();
            if (!seen.is_wrong(row, col) || met++ % step != 0 || !tells_address(seen.got(row, col))) continue;
            const SoughtValue one = sought(seen, row, col);
            if (!std::isfinite(one.value) || !std::isfinite(one.tolerance)) continue;
            question.results.push_back({element_place(evidence.observed, seen.site, row, col),
                                        question.memories.size() - 1,
                                        {1.0},
                                        0,
                                        one.value,
                                        one.tolerance,
                                        0});
        }
    }
    if (question.results.size() < 8) return {};
    return find_term_reads(question, most);
}

/// Where the elements of a tile are read, and what it takes to say so.
struct ReadWithinTile {
    std::string text;
    int cost;
    ReadAt at;
};

std::vector<ReadWithinTile> reads_within_tiles(const Evidence& evidence, const TileOf& tile_of,
                                               const Sought& sought) {
    const std::int64_t ld = row_length(evidence.problem(), evidence.observed);
    std::vector<ReadWithinTile> reads;
    for (const AddressMap& map : maps_within_tiles(evidence, tile_of, sought))
        reads.push_back({map.text(), cost_of(map), read_by(map, ld)});
    for (const TermRead& read : indices_within_tiles(evidence, tile_of, sought)) {
        const auto at = [=, stage = evidence.observed](const SearchedTile& site, Eigen::Index row,
                                                       Eigen::Index col) {
            return std::optional(read.address.at(element_place(stage, site, row, col), ld));
        };
        reads.push_back({read.address.text(ld), 1 + read.choices(), at});
    }
    return reads;
}

/// The elements of a tile in each other's place.
std::vector<Candidate> other_places(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    const auto tile_of = [](const Observation& seen) { return seen.expected.value; };
    // Of a number that was rounded as it was stored, what another one in its place may be off by is its own.
    const Dtype stored =
        is_output(evidence.observed) ? stage_dtype(evidence.problem(), evidence.observed) : Dtype::f32;
    const auto sought = [=](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        const double got = seen.got(row, col);
        return SoughtValue{got, seen.expected.error(row, col) + cast_bound(stored, std::abs(got))};
    };
    for (const ReadWithinTile& read : reads_within_tiles(evidence, tile_of, sought)) {
        const auto place = [=, stage = evidence.observed](const SearchedTile& site, Estimate& estimate) {
            estimate = moved(site, estimate, read.at, row_length(site.call->problem, stage));
        };
        candidates.push_back({{{"holds", read.text}}, {.result = place}, read.cost});
    }
    return candidates;
}

/// Exponentials of other scores than their own, less the maximum of their own row.
std::vector<Candidate> other_scores(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    const auto tile_of = [](const Observation& seen) { return finished_scores(seen.site).value; };
    const auto sought = [](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        const double error = seen.expected.error(row, col) / seen.expected.value(row, col);
        return SoughtValue{std::log(seen.natural(row, col)) + seen.site.m.value(row, 0), 2 * std::abs(error)};
    };
    for (const ReadWithinTile& read : reads_within_tiles(evidence, tile_of, sought)) {
        const auto change = [=](SearchedTile& site) {
            take_finished_scores(site);
            site.dumped_s = moved(site, site.dumped_s, read.at, row_length(site.call->problem, Stage::p));
        };
        candidates.push_back({{{"reads", read.text}}, {.inputs = change}, read.cost});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> address_causes() {
    return {
        {operand_addresses_name,
         "address",
         {Stage::q, Stage::k, Stage::v, Stage::dout},
         "the staged tile holds elements of other addresses of its array",
         "the index of the load from global memory, and that of the store to shared memory",
         other_addresses},
        {"elements_moved",
         "address",
         {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse, Stage::delta, Stage::dp,
          Stage::ds, Stage::dq, Stage::dk, Stage::dv},
         "elements of the tile stand in each other's place",
         "the index with which the tile is stored, and the fragment layout",
         other_places},
        {"scores_read_elsewhere",
         "address",
         {Stage::p},
         "the exponentials are those of other scores of the tile",
         "the index with which the softmax reads its scores: fragment layout, leading dimension",
         other_scores},
    };
}

}  // namespace tilescope
