// Elements that are stored at other places of a tile than their own: to which, is read from where the dump has them.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/array_addresses.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/left_in_memory.h"
#include "oracle/causes/table.h"
#include "oracle/causes/where.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/tile_index.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

/// Elements between the end of a stored row and the next one.
constexpr std::array<std::int64_t, 10> row_paddings = {0, 8, 16, 4, 2, 1, 3, 5, 6, 7};
/// Tiles that tell a map, each by itself, and that tell a rule together.
constexpr std::size_t most_telling_tiles = 3;
constexpr std::size_t most_labelled_tiles = 24;
/// Maps that fit what is left of a tile.
constexpr std::size_t most_maps_of_tile = 4;

/// How the elements of a tile are stored.
struct TileStore {
    AddressMap index;
    std::int64_t padding = 0;  ///< elements between the end of a row and the next one
    /// Elements that the map is for, by the place that they are computed for; empty: all of them.
    std::function<bool(const SearchedTile&, Eigen::Index, Eigen::Index)> where;
    /// What stands where nothing is stored: that of an earlier tile, or what nobody knows.
    bool keeps = false;
};

/// For each place of the tile the element that was stored there last, -1 for none; row by row. Rows beyond the end of
/// the sequence are stored as well: -2.
std::vector<std::int64_t> last_stored(const TileStore& store, const SearchedTile& site, Eigen::Index rows,
                                      Eigen::Index cols, const TileShape& whole) {
    const std::int64_t ld = whole.cols + store.padding;
    const AddressMap index = in_rows_of(store.index, ld);
    std::vector<std::int64_t> memory(std::size_t(whole.rows * ld), -1);
    for (Eigen::Index i = 0; i < whole.rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const bool moves = !store.where || store.where(site, i, j);
            const std::int64_t at = moves ? index.apply(i, j) : i * ld + j;
            if (at >= 0 && at < std::ssize(memory)) memory[std::size_t(at)] = i < rows ? i * cols + j : -2;
        }
    }
    return memory;
}

/// Rows beyond a sequence are loaded as zeros. P of a q of zeros is what its mask and bias make of it.
bool is_zero_beyond(Stage stage) {
    return is_operand(stage);
}

/// Which elements of a tile before nobody stored, those behind its end as well.
IsLeft not_stored(const TileStore& store, Stage stage) {
    const auto known = std::make_shared<std::map<TileId, std::vector<std::int64_t>>>();
    return [=](const SearchedTile& tile, Eigen::Index row, Eigen::Index col) {
        const TileShape whole = tile_shape(tile.call->problem, stage);
        std::vector<std::int64_t>& memory = (*known)[tile.id];
        if (memory.empty()) {
            const TileShape extent = tile_extent(tile.call->problem, stage, tile.id);
            memory = last_stored(store, tile, extent.rows, extent.cols, whole);
        }
        return memory[std::size_t(row * (whole.cols + store.padding) + col)] == -1;
    };
}

Estimate stored_by(const TileStore& store, Stage stage, const SearchedTile& site, const Estimate& right) {
    const Eigen::Index rows = right.value.rows();
    const Eigen::Index cols = right.value.cols();
    const TileShape whole = tile_shape(site.call->problem, stage);
    const std::int64_t ld = whole.cols + store.padding;
    const std::vector<std::int64_t> memory = last_stored(store, site, rows, cols, whole);
    Estimate kept = right;
    if (store.keeps) {
        take_left(stage, site, 1, not_stored(store, stage), kept);
    } else {
        kept.error.setConstant(infinity);
    }
    Estimate estimate = right;
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const std::int64_t from = memory[std::size_t(i * ld + j)];
            if (from == -2) {
                estimate.value(i, j) = 0;
                estimate.error(i, j) = is_zero_beyond(stage) ? 0 : infinity;
                continue;
            }
            const Estimate& source = from == -1 ? kept : right;
            const Eigen::Index at = from == -1 ? i * cols + j : from;
            estimate.value(i, j) = source.value.data()[at];
            estimate.error(i, j) = source.error.data()[at];
        }
    }
    return estimate;
}

/// Where the dump has the values of a tile's elements.
struct FoundStores {
    const Observation* seen;
    std::vector<AddressSample> samples;  ///< with addresses row * cols + col
};

FoundStores stores_found(const Observation& seen) {
    FoundStores found{&seen, {}};
    const ValueIndex got(std::vector<double>(seen.got.data(), seen.got.data() + seen.got.size()));
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
            const double expected = seen.expected.value(i, j);
            if (!tells_address(expected)) continue;
            auto homes = got.sources(expected, seen.expected.error(i, j), i * seen.got.cols() + j);
            for (std::int64_t& home : homes) home += i * seen.got.cols() + j;
            // Those that others were written over are nowhere.
            if (!homes.empty()) found.samples.push_back({i, j, std::move(homes)});
        }
    }
    return found;
}

/// The samples in rows of `ld`; those that do not stand at their own place alone, or all of them.
std::vector<AddressSample> in_memory(const FoundStores& found, std::int64_t ld, bool whole) {
    std::vector<AddressSample> samples;
    const Eigen::Index cols = found.seen->got.cols();
    for (AddressSample sample : found.samples) {
        if (!whole && !found.seen->is_wrong(sample.row, sample.col)) continue;
        for (std::int64_t& source : sample.sources) source = source / cols * ld + source % cols;
        samples.push_back(std::move(sample));
    }
    return samples;
}

/// What the dump says of elements that a store may have moved.
class MovedElements {
 public:
    MovedElements(const Observation& seen, const AddressMap& index, std::int64_t ld)
        : seen_(seen), index_(in_rows_of(index, ld)), ld_(ld), written_over_(std::size_t(seen.got.size())) {
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const std::optional<Eigen::Index> to = place_of_store(i, j);
                if (to && *to != i * seen.got.cols() + j && holds(*to, i, j))
                    written_over_[std::size_t(*to)] = true;
            }
        }
    }

    /// Whether the element is not stored at its own place; nullopt where that cannot be told.
    std::optional<bool> is_moved(Eigen::Index i, Eigen::Index j) const {
        const Eigen::Index own = i * seen_.got.cols() + j;
        const std::optional<Eigen::Index> to = place_of_store(i, j);
        if (!tells_address(seen_.expected.value(i, j)) || to == own) return std::nullopt;
        const bool at_home = !seen_.is_wrong(i, j);
        const bool stored = to && holds(*to, i, j);
        if (at_home != stored && to) return stored;
        if (at_home) return to ? std::nullopt : std::optional(false);
        return written_over_[std::size_t(own)] ? std::nullopt : std::optional(true);
    }

 private:
    /// In the dumped tile, row-major; nullopt: beyond it.
    std::optional<Eigen::Index> place_of_store(Eigen::Index i, Eigen::Index j) const {
        const std::int64_t at = index_.apply(i, j);
        if (at < 0 || at / ld_ >= seen_.got.rows() || at % ld_ >= seen_.got.cols()) return std::nullopt;
        return at / ld_ * seen_.got.cols() + at % ld_;
    }

    bool holds(Eigen::Index place, Eigen::Index i, Eigen::Index j) const {
        const double got = seen_.got.data()[place];
        return std::abs(got - seen_.expected.value(i, j)) <= seen_.expected.error(i, j);
    }

    const Observation& seen_;
    AddressMap index_;
    std::int64_t ld_;
    std::vector<bool> written_over_;  ///< places that hold an element that the index stores there
};

/// Which elements are stored so, where others stand at their own place.
std::optional<LabelledElements::Rule> rule_of_tile_store(const Evidence& evidence, const TileStore& store) {
    LabelledElements elements(evidence, evidence.observed);
    const std::int64_t ld = tile_shape(evidence.problem(), evidence.observed).cols + store.padding;
    std::size_t tiles = 0;
    for (const Observation& seen : evidence.seen) {
        if (++tiles > most_labelled_tiles) break;
        const MovedElements moved(seen, store.index, ld);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
                if (const auto is_moved = moved.is_moved(i, j)) elements.add(seen.site, i, j, *is_moved);
    }
    // Of what was written over some stands at its place by chance.
    if (elements.outside() * 50 < elements.inside()) return std::nullopt;
    return elements.rule(elements.inside() / 50);
}

void add_tile_stores(const Evidence& evidence, TileStore store, std::vector<Candidate>& candidates) {
    const Stage stage = evidence.observed;
    std::vector<CauseParameter> parameters = {
        {"stored to", std::string(stage_info(stage).name) + store.index.text()}};
    if (store.padding > 0) {
        const std::int64_t ld = tile_shape(evidence.problem(), stage).cols + store.padding;
        parameters.push_back({"of rows of", std::to_string(ld)});
    }
    const auto is_same = [&](const Candidate& other) { return other.parameters == parameters; };
    if (std::ranges::any_of(candidates, is_same)) return;
    const auto add = [&](int rule_cost) {
        for (const bool keeps : {false, true}) {
            store.keeps = keeps;
            const auto place = [=](const SearchedTile& site, Estimate& estimate) {
                estimate = stored_by(store, stage, site, estimate);
            };
            candidates.push_back(
                {parameters, {.result = place}, cost_of(store.index) + (store.padding > 0) + rule_cost});
        }
    };
    add(0);
    if (auto rule = rule_of_tile_store(evidence, store)) {
        store.where = std::move(rule->holds);
        parameters.push_back({"where", std::move(rule->text)});
        add(1 + rule->conditions);
    }
}

/// What the tile's elements may have been stored by, in rows of `ld`: any map that all of them, or the moved ones, fit, and
/// indices with another row or column.
std::vector<AddressMap> indices_of_stores(const Evidence& evidence, const FoundStores& found,
                                          std::int64_t ld) {
    const Stage stage = evidence.observed;
    const TileShape shape = tile_shape(evidence.problem(), stage);
    const TileAxes axes = axes_of_tile(stage);
    std::vector<AddressMap> indices;
    for (const bool whole : {true, false}) {
        for (const AddressMap& map :
             find_address_maps(in_memory(found, ld, whole), ld, axes, most_maps_of_tile)) {
            const auto& strides = map.strides;
            const bool is_own = strides && strides->down == ld && strides->along == 1 && strides->offset == 0;
            if (!is_own) indices.push_back(map);
        }
    }
    for (AddressMap& index :
         find_tile_indices(in_memory(found, ld, false), shape.rows, shape.cols, ld, axes, most_maps_of_tile))
        indices.push_back(std::move(index));
    return indices;
}

std::vector<Candidate> stored_elsewhere_in_tile(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    const std::int64_t cols = tile_shape(evidence.problem(), evidence.observed).cols;
    std::size_t tiles = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad() || ++tiles > most_telling_tiles) break;
        const FoundStores found = stores_found(seen);
        for (const std::int64_t padding : row_paddings)
            for (AddressMap& index : indices_of_stores(evidence, found, cols + padding))
                add_tile_stores(evidence, {std::move(index), padding, {}, false}, candidates);
    }
    return candidates;
}

}  // namespace

std::vector<Cause> store_causes() {
    return {{"elements_stored_elsewhere",
             "address",
             {Stage::q, Stage::k, Stage::v, Stage::s, Stage::p, Stage::dout, Stage::dp, Stage::ds},
             "elements are stored at other places of their tile, where they write over others",
             "the index of the store to shared memory: leading dimension, swizzle, fragment layout",
             stored_elsewhere_in_tile}};
}

}  // namespace tilescope
