// Values that come from other addresses: from which, is read from where in memory the dumped values stand.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "oracle/causes/table.h"
#include "oracle/identify/address_map.h"
#include "oracle/identify/value_index.h"

namespace tilescope {

namespace {

/// Elements of a tile whose addresses vote.
constexpr Eigen::Index most_samples = 2048;
/// Larger arrays are not searched.
constexpr std::int64_t most_elements = std::int64_t(1) << 25;
/// Tiles of which each proposes a map.
constexpr std::size_t most_tiles = 3;

/// Maps that the tiles speak for, each once: from what is wrong in a tile, and from all of it, since an index that
/// is right for some rows is still one index.
template <class Sources>
std::vector<AddressMap> maps_of(const Evidence& evidence, std::int64_t ld, const AddressNames& names,
                                const Sources& sources) {
    std::vector<AddressMap> maps;
    std::size_t tiles = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad() || ++tiles > most_tiles) break;
        for (const bool whole : {true, false}) {
            std::vector<AddressSample> samples;
            for (Eigen::Index i = 0; i < std::min(seen.got.size(), most_samples); ++i) {
                const Eigen::Index row = i / seen.got.cols();
                const Eigen::Index col = i % seen.got.cols();
                const double got = seen.got.data()[i];
                // A zero stands anywhere.
                if ((!whole && !seen.is_wrong(row, col)) || !std::isfinite(got) || got == 0) continue;
                samples.push_back({row, col, sources(seen, row, col)});
            }
            const auto map = find_address_map(samples, ld, names);
            const auto is_same = [&](const AddressMap& other) { return map->text == other.text; };
            if (map && map->parameters > 0 && std::ranges::none_of(maps, is_same)) maps.push_back(*map);
        }
    }
    return maps;
}

// ---- staged operands

/// q, k or v of all heads, as one array.
struct OperandArray {
    std::int64_t heads;
    std::int64_t length;
    std::int64_t cols;
    ValueIndex values;

    std::int64_t size_of_head() const { return length * cols; }
    std::int64_t address(std::int64_t batch, std::int64_t head, std::int64_t row) const {
        return ((batch * heads + head) * length + row) * cols;
    }
};

std::shared_ptr<const OperandArray> operand_array(const Evidence& evidence, Stage stage) {
    const Problem& problem = evidence.problem();
    const bool is_q = is_of_queries(stage);
    const std::int64_t heads = is_q ? problem.heads : problem.heads_kv;
    const std::int64_t length = is_q ? problem.seqlen_q : problem.seqlen_kv;
    const std::int64_t cols = tile_shape(problem, stage).cols;
    if (problem.batch * heads * length * cols > most_elements) return nullptr;
    std::vector<double> values;
    values.reserve(std::size_t(problem.batch * heads * length * cols));
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        for (std::int64_t head = 0; head < heads; ++head) {
            const Matrix rows = evidence.world->input_rows(stage, batch, head, 0, length);
            values.insert(values.end(), rows.data(), rows.data() + rows.size());
        }
    }
    return std::make_shared<const OperandArray>(heads, length, cols, ValueIndex(std::move(values)));
}

/// Where the first element of the tile stands.
std::int64_t origin(const SearchedTile& site, Stage stage, const OperandArray& array) {
    const bool is_q = is_of_queries(stage);
    return array.address(site.id.batch, is_q ? site.id.head : site.call->problem.head_kv(site.id.head),
                         is_q ? site.first_row : site.first_key);
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
            return units.k_cast == Dtype::f32 && (side.descale_k.empty() || !units.k_dequantised);
        default:
            return units.v_cast == Dtype::f32 && (side.descale_v.empty() || !units.v_dequantised);
    }
}

/// The tile from addresses of the array. Bounded: rows of another head, or beyond the sequence, are zeros; otherwise
/// what lies beyond the array is not known.
Change reads(Stage stage, const std::shared_ptr<const OperandArray>& array, const AddressMap& map,
             bool bounded) {
    const auto is_there = [=](const SearchedTile& site, std::int64_t at) {
        if (!bounded) return array->values.has(at);
        const std::int64_t from = origin(site, stage, *array);
        const std::int64_t begin = from / array->size_of_head() * array->size_of_head();
        return at >= begin && at < begin + length_of(site, stage) * array->cols;
    };
    const auto each = [=](const SearchedTile& site, Eigen::Index rows, Eigen::Index cols, const auto& see) {
        const std::int64_t from = origin(site, stage, *array);
        for (Eigen::Index i = 0; i < rows; ++i)
            for (Eigen::Index j = 0; j < cols; ++j) see(i, j, from + map.apply(i, j));
    };
    const auto inputs = [=](SearchedTile& site) {
        each(site, site.raw.rows(), site.raw.cols(), [&](Eigen::Index i, Eigen::Index j, std::int64_t at) {
            site.raw(i, j) = is_there(site, at) ? array->values.at(at) : 0;
        });
    };
    if (bounded) return {.inputs = inputs};
    const auto result = [=](const SearchedTile& site, Estimate& estimate) {
        each(site, estimate.value.rows(), estimate.value.cols(),
             [&](Eigen::Index i, Eigen::Index j, std::int64_t at) {
                 if (!is_there(site, at)) estimate.error(i, j) = infinity;
             });
    };
    return {.inputs = inputs, .result = result};
}

std::vector<Candidate> other_addresses(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Stage stage = evidence.acts;
    if (!evidence.direct() || !is_copied(evidence, stage)) return candidates;
    const std::shared_ptr<const OperandArray> array = operand_array(evidence, stage);
    if (!array) return candidates;
    const auto sources = [&](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        const std::int64_t from = origin(seen.site, stage, *array);
        std::vector<std::int64_t> near = array->values.sources(seen.got(row, col), 0, from);
        // The same place of other heads is far away, and likely all the same.
        for (std::int64_t at = (from + row * array->cols + col) % array->size_of_head();
             array->values.has(at); at += array->size_of_head()) {
            if (array->values.at(at) == seen.got(row, col)) near.push_back(at - from);
        }
        std::ranges::sort(near);
        near.erase(std::unique(near.begin(), near.end()), near.end());
        return near;
    };
    for (const AddressMap& map : maps_of(evidence, array->cols, {"row", "d"}, sources)) {
        for (const bool bounded : {false, true})
            candidates.push_back({{{"reads", map.text}}, reads(stage, array, map, bounded), cost_of(map)});
    }
    return candidates;
}

// ---- stages

/// Elements from a row of a tile to the next: those of a whole tile, for tiles at the end as well.
std::int64_t row_length(const Evidence& evidence) {
    return tile_shape(evidence.problem(), evidence.observed).cols;
}

std::shared_ptr<const ValueIndex> index_of(const Matrix& tile, std::int64_t ld) {
    std::vector<double> values(std::size_t(tile.rows() * ld), quiet_nan);
    for (Eigen::Index i = 0; i < tile.rows(); ++i) std::ranges::copy(tile.row(i), values.begin() + i * ld);
    return std::make_shared<const ValueIndex>(std::move(values));
}

/// A tile's elements where the map takes them from; of those beyond the tile nothing is known.
Estimate moved(const Estimate& right, const AddressMap& map, std::int64_t ld) {
    Estimate estimate = right;
    for (Eigen::Index i = 0; i < right.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < right.value.cols(); ++j) {
            const std::int64_t at = map.apply(i, j);
            if (!stays_inside(map, i, j, right.value.rows(), ld) || at % ld >= right.value.cols()) {
                estimate.error(i, j) = infinity;
                continue;
            }
            estimate.value(i, j) = right.value(at / ld, at % ld);
            estimate.error(i, j) = right.error(at / ld, at % ld);
        }
    }
    return estimate;
}

AddressNames names_of_tile(Stage stage) {
    return {"row", stage_info(stage).col_axis == Axis::key ? "col" : "d"};
}

/// The elements of a tile in each other's place.
std::vector<Candidate> other_places(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    const std::int64_t ld = row_length(evidence);
    std::map<const Observation*, std::shared_ptr<const ValueIndex>> tiles;
    const auto sources = [&](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        std::shared_ptr<const ValueIndex>& tile = tiles[&seen];
        if (!tile) tile = index_of(seen.expected.value, ld);
        const double got = seen.got(row, col);
        // Of a number that was rounded as it was stored, what another one in its place may be off by is its own.
        const bool is_stored = is_output(evidence.observed);
        const Dtype dtype = stage_dtype(evidence.problem(), evidence.observed);
        const double stored = is_stored ? cast_bound(dtype, std::abs(got)) : 0;
        return tile->sources(got, seen.expected.error(row, col) + stored, 0);
    };

    for (const AddressMap& map : maps_of(evidence, ld, names_of_tile(evidence.observed), sources)) {
        const auto place = [=](const SearchedTile&, Estimate& estimate) {
            estimate = moved(estimate, map, ld);
        };
        candidates.push_back({{{"holds", map.text}}, {.result = place}, cost_of(map)});
    }
    return candidates;
}

/// Exponentials of other scores than their own, less the maximum of their own row.
std::vector<Candidate> other_scores(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    const std::int64_t ld = row_length(evidence);
    std::map<const Observation*, std::shared_ptr<const ValueIndex>> tiles;
    const auto sources = [&](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        std::shared_ptr<const ValueIndex>& tile = tiles[&seen];
        if (!tile) tile = index_of(finished_scores(seen.site).value, ld);
        const double p = seen.natural(row, col);
        const double error = seen.expected.error(row, col) / seen.expected.value(row, col);
        if (!(p > 0) || !std::isfinite(error)) return std::vector<std::int64_t>();
        return tile->sources(std::log(p) + seen.site.m.value(row, 0), 2 * std::abs(error), 0);
    };

    for (const AddressMap& map : maps_of(evidence, ld, names_of_tile(Stage::p), sources)) {
        const auto read = [=](SearchedTile& site) {
            take_finished_scores(site);
            site.dumped_s = moved(site.dumped_s, map, ld);
        };
        candidates.push_back({{{"reads", map.text}}, {.inputs = read}, cost_of(map)});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> address_causes() {
    return {
        {"operand_addresses",
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
