// Elements that are stored at other places of a tile than their own: to which, is read from where the dump has them.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/element_places.h"
#include "oracle/causes/left_in_memory.h"
#include "oracle/causes/table.h"
#include "oracle/causes/where.h"
#include "oracle/identify/address_map.h"
#include "oracle/identify/value_index.h"
#include "oracle/judge/tile_judge.h"

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
    AddressMap map;
    std::int64_t ld = 0;
    /// Elements that the map is for, by the place that they are computed for; empty: all of them.
    std::function<bool(const SearchedTile&, Eigen::Index, Eigen::Index)> where;
    /// What stands where nothing is stored: that of an earlier tile, or what nobody knows.
    bool keeps = false;
};

/// Where in the memory of a tile an element is stored.
std::int64_t address_of(const TileStore& store, const SearchedTile& site, Eigen::Index i, Eigen::Index j) {
    const bool moves = !store.where || store.where(site, i, j);
    return moves ? store.map.apply(i, j) : i * store.ld + j;
}

/// For each place of the tile the element that was stored there last, -1 for none; row by row. Rows beyond the end of
/// the sequence are stored as well: -2.
std::vector<std::int64_t> last_stored(const TileStore& store, const SearchedTile& site, Eigen::Index rows,
                                      Eigen::Index cols, std::int64_t block_rows) {
    std::vector<std::int64_t> memory(std::size_t(block_rows * store.ld), -1);
    for (Eigen::Index i = 0; i < block_rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const std::int64_t at = address_of(store, site, i, j);
            if (at >= 0 && at < std::ssize(memory)) memory[std::size_t(at)] = i < rows ? i * cols + j : -2;
        }
    }
    return memory;
}

/// What lies beyond a sequence is loaded as zeros, and has no probability.
bool is_zero_beyond(Stage stage) {
    return is_operand(stage) || stage == Stage::p;
}

Estimate stored_by(const TileStore& store, Stage stage, const SearchedTile& site, const Estimate& right) {
    const Eigen::Index rows = right.value.rows();
    const Eigen::Index cols = right.value.cols();
    const std::int64_t block_rows = tile_shape(site.call->problem, stage).rows;
    const std::vector<std::int64_t> memory = last_stored(store, site, rows, cols, block_rows);
    Estimate kept = right;
    if (store.keeps) {
        take_left(stage, site, 1, is_left_anywhere, kept);
    } else {
        kept.error.setConstant(infinity);
    }
    Estimate estimate = right;
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const std::int64_t from = memory[std::size_t(i * store.ld + j)];
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

bool is_telling(double value) {
    return std::isfinite(value) && value != 0;
}

FoundStores stores_found(const Observation& seen) {
    FoundStores found{&seen, {}};
    const ValueIndex got(std::vector<double>(seen.got.data(), seen.got.data() + seen.got.size()));
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
            const double expected = seen.expected.value(i, j);
            if (!is_telling(expected)) continue;
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

/// Whether the element stands where the map stores it; nullopt where that is not in the tile or its own place.
std::optional<bool> is_stored(const Observation& seen, const TileStore& store, Eigen::Index i,
                              Eigen::Index j) {
    const std::int64_t at = store.map.apply(i, j);
    const std::int64_t row = at / store.ld;
    const std::int64_t col = at % store.ld;
    if (at < 0 || row >= seen.got.rows() || col >= seen.got.cols() || (row == i && col == j))
        return std::nullopt;
    return std::abs(double(seen.got(row, col)) - seen.expected.value(i, j)) <= seen.expected.error(i, j);
}

/// Which elements are stored so, where others stand at their own place.
std::optional<LabelledElements::Rule> rule_of_tile_store(const Evidence& evidence, const TileStore& store) {
    LabelledElements elements(evidence, evidence.observed);
    std::size_t tiles = 0;
    for (const Observation& seen : evidence.seen) {
        if (++tiles > most_labelled_tiles) break;
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                if (!is_telling(seen.expected.value(i, j))) continue;
                const bool at_home = !seen.is_wrong(i, j);
                const std::optional<bool> stored = is_stored(seen, store, i, j);
                if (stored && *stored != at_home) elements.add(seen.site, i, j, *stored);
            }
        }
    }
    // Of what was written over some stands at its place by chance.
    if (elements.outside() * 50 < elements.inside()) return std::nullopt;
    return elements.rule(elements.inside() / 50);
}

void add_tile_stores(const Evidence& evidence, TileStore store, std::int64_t padding,
                     std::vector<Candidate>& candidates) {
    const auto& strides = store.map.strides;
    if (strides && strides->down == store.ld && strides->along == 1 && strides->offset == 0) return;
    std::vector<CauseParameter> parameters = {
        {"stored to", std::string(stage_info(evidence.observed).name) + store.map.text}};
    if (padding > 0) parameters.push_back({"of rows of", std::to_string(store.ld)});
    const auto is_same = [&](const Candidate& other) { return other.parameters == parameters; };
    if (std::ranges::any_of(candidates, is_same)) return;
    const auto add = [&](int rule_cost) {
        for (const bool keeps : {false, true}) {
            store.keeps = keeps;
            const auto place = [=, stage = evidence.observed](const SearchedTile& site, Estimate& estimate) {
                estimate = stored_by(store, stage, site, estimate);
            };
            candidates.push_back(
                {parameters, {.result = place}, cost_of(store.map) + (padding > 0) + rule_cost});
        }
    };
    add(0);
    if (auto rule = rule_of_tile_store(evidence, store)) {
        store.where = std::move(rule->holds);
        parameters.push_back({"where", std::move(rule->text)});
        add(1 + rule->conditions);
    }
}

std::vector<Candidate> stored_elsewhere_in_tile(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    const Stage stage = evidence.observed;
    const AddressNames names = {place_name(ElementPlace::row, stage), place_name(ElementPlace::col, stage)};
    const std::int64_t cols = tile_shape(evidence.problem(), stage).cols;
    std::size_t tiles = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad() || ++tiles > most_telling_tiles) break;
        const FoundStores found = stores_found(seen);
        for (const std::int64_t padding : row_paddings) {
            for (const bool whole : {true, false}) {
                const std::vector<AddressSample> samples = in_memory(found, cols + padding, whole);
                for (AddressMap& map : find_address_maps(samples, cols + padding, names, most_maps_of_tile))
                    add_tile_stores(evidence, {std::move(map), cols + padding, {}, false}, padding,
                                    candidates);
            }
        }
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
