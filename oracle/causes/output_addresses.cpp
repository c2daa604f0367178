// Outputs that are stored at other addresses than their own: to which, is read from where the dump has them.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dump/schema/rounding.h"
#include "oracle/causes/array_addresses.h"
#include "oracle/causes/array_indices.h"
#include "oracle/causes/array_strides.h"
#include "oracle/causes/table.h"
#include "oracle/causes/where.h"
#include "oracle/replay/tiles.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

/// Larger outputs are not searched, nor those of which a replay takes seconds.
constexpr std::int64_t largest_output = std::int64_t(1) << 22;
constexpr std::int64_t most_scores = std::int64_t(1) << 25;
/// A value that is found more often tells nothing: by chance many are near it.
constexpr std::size_t most_differences = 8;
/// Maps that fit what others were not written over.
constexpr std::size_t most_maps = 4;

/// Calls `see` with every query block of the recording.
template <class See>
void for_each_block(const CauseSearch& world, const See& see) {
    const Problem& problem = world.recording().problem();
    for (std::int64_t i = 0; i < tile_count(problem, Stage::o); ++i) {
        const TileId id = tile_at(problem, Stage::o, i);
        const Problem& entry = world.call(id.batch, id.head)->problem;
        if (tile_extent(entry, Stage::o, id).rows > 0) see(id, entry);
    }
}

/// The output as dumped; what nobody wrote is NaN.
ValueIndex dumped_output(const CauseSearch& world, Stage stage) {
    const Problem& problem = world.recording().problem();
    const ArrayExtents shape = array_shape(stage, problem);
    std::vector<double> values(std::size_t(shape.size()), quiet_nan);
    for_each_block(world, [&](const TileId& id, const Problem& entry) {
        const auto tile = load_tile(world.recording(), entry, stage, id);
        if (!tile) return;
        const std::int64_t head = id.batch * shape.heads + id.head;
        const std::int64_t first = (head * shape.length + id.q_block * problem.block_m) * shape.cols;
        for (Eigen::Index i = 0; i < tile->size(); ++i) values[std::size_t(first + i)] = tile->data()[i];
    });
    return ValueIndex(std::move(values));
}

/// What a query block computes, in natural units.
struct BlockOutput {
    SearchedTile site;  ///< of which only the place is kept
    Estimate own;
};

std::vector<BlockOutput> computed_output(const CauseSearch& world, Stage stage) {
    std::vector<BlockOutput> blocks;
    for_each_block(world, [&](const TileId& id, const Problem&) {
        ChangedReplay walk(world, id, stage, {});
        walk.run(stage, [&](const SearchedTile& site, const Estimate& own) {
            SearchedTile place;
            place.world = site.world;
            place.id = site.id;
            place.call = site.call;
            place.first_row = site.first_row;
            blocks.push_back({std::move(place), own});
        });
    });
    return blocks;
}

/// Where a kernel stores its output.
struct OutputStore {
    std::string name;  ///< not that of another one
    Index index;
    /// Elements that are stored there, the others being stored where they should be; empty: all of them.
    std::function<bool(const SearchedTile&, Eigen::Index row, Eigen::Index col)> where{};
};

/// "[batch][head][d][query]", or its own place with another extent.
std::string text_of_store(const OtherIndex& other, const Index& right) {
    return other.index.extents == right.extents || other.is_layout
               ? other.index.text()
               : "its own place with " + other.text(right);
}

/// The output of a kernel whose stores go elsewhere, in natural units.
struct StoredOutput {
    std::vector<double> value;
    std::vector<double> error;
    std::vector<bool> is_stored;
};

/// One block after the other: what is stored twice is that of the last one.
StoredOutput output_stored(const CauseSearch& world, Stage stage, const OutputStore& store) {
    const Problem& problem = world.recording().problem();
    const ArrayExtents shape = array_shape(stage, problem);
    const auto size = std::size_t(shape.size());
    StoredOutput stored{std::vector<double>(size), std::vector<double>(size), std::vector<bool>(size)};
    const auto blocks = world.once<std::vector<BlockOutput>>(
        fmt::format("computed {}", stage_info(stage).name), [&] { return computed_output(world, stage); });
    for (const auto& [site, own] : *blocks) {
        const AddressInTile address = addresses_by(store.index, stage, site);
        for (Eigen::Index i = 0; i < own.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < own.value.cols(); ++j) {
                const bool moves = !store.where || store.where(site, i, j);
                const std::int64_t at = moves ? address(i, j) : origin(site, stage) + i * shape.cols + j;
                if (at < 0 || at >= std::ssize(stored.value)) continue;
                stored.value[std::size_t(at)] = own.value(i, j);
                stored.error[std::size_t(at)] = own.error(i, j);
                stored.is_stored[std::size_t(at)] = true;
            }
        }
    }
    return stored;
}

/// What is where nothing was stored.
struct LeftThere {
    const char* name;  ///< nullptr: nothing
    double value;
};
const LeftThere all_left_there[] = {{nullptr, double(std::bit_cast<float>(unwritten_bits))}, {"0", 0}};

Change stores(Stage stage, const OutputStore& store, double left) {
    const std::string name = fmt::format("stored {} {}", stage_info(stage).name, store.name);
    return {.result = [=](const SearchedTile& site, Estimate& estimate) {
        const auto stored =
            site.world->once<StoredOutput>(name, [&] { return output_stored(*site.world, stage, store); });
        const std::int64_t from = origin(site, stage);
        for (Eigen::Index i = 0; i < estimate.value.size(); ++i) {
            const auto at = std::size_t(from + i);
            estimate.value.data()[i] = stored->is_stored[at] ? stored->value[at] : left;
            estimate.error.data()[i] = stored->is_stored[at] ? stored->error[at] : 0;
        }
    }};
}

/// The dumped output, and where in it a number may be that was computed for another place.
struct DumpedOutput {
    Stage stage;
    Dtype dtype;
    ValueIndex values;

    double error_of(const Observation& seen, Eigen::Index row, Eigen::Index col) const {
        return seen.expected.error(row, col) + cast_bound(dtype, std::abs(seen.expected.value(row, col)));
    }

    /// Whether the element may have been stored there.
    bool is_at(std::int64_t address, const Observation& seen, Eigen::Index row, Eigen::Index col) const {
        return values.has(address) &&
               std::abs(values.at(address) - seen.expected.value(row, col)) <= error_of(seen, row, col);
    }
    bool is_at_home(const Observation& seen, Eigen::Index row, Eigen::Index col) const {
        return is_at(origin(seen.site, stage) + row * seen.got.cols() + col, seen, row, col);
    }

    /// What others were written over is nowhere, and does not vote.
    std::optional<std::vector<std::int64_t>> places_of(const Observation& seen, Eigen::Index row,
                                                       Eigen::Index col) const {
        const double expected = seen.expected.value(row, col);
        if (!std::isfinite(expected) || expected == 0) return std::nullopt;
        const std::int64_t from = origin(seen.site, stage);
        std::vector<std::int64_t> found = values.sources(expected, error_of(seen, row, col), from);
        if (found.empty() || found.size() > most_differences) return std::nullopt;
        for (std::int64_t& address : found) address += from;
        return found;
    }
};

/// Which elements are stored so, where others are at their own place.
std::optional<LabelledElements::Rule> rule_of(const Evidence& evidence, const DumpedOutput& dumped,
                                              const OutputStore& store) {
    LabelledElements elements(evidence, dumped.stage);
    for (const Observation& seen : evidence.seen) {
        const AddressInTile address = addresses_by(store.index, dumped.stage, seen.site);
        const std::int64_t from = origin(seen.site, dumped.stage);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const double expected = seen.expected.value(i, j);
                const std::int64_t at = address(i, j);
                const bool is_own = at == from + i * seen.got.cols() + j;
                if (is_own || !dumped.values.has(at) || !std::isfinite(expected) || expected == 0) continue;
                const bool stored = dumped.is_at(at, seen, i, j);
                if (stored != dumped.is_at_home(seen, i, j)) elements.add(seen.site, i, j, stored);
            }
        }
    }
    // Of what was written over some stands at its place by chance.
    if (elements.outside() * 50 < elements.inside()) return std::nullopt;
    return elements.rule(elements.inside() / 50);
}

void add_stores(const Evidence& evidence, const DumpedOutput& dumped, OutputStore store,
                const std::string& text, int cost, std::vector<Candidate>& candidates) {
    std::vector<CauseParameter> parameters = {{"stores to", text}};
    const auto add = [&](int rule_cost) {
        for (const LeftThere& left : all_left_there) {
            candidates.push_back({parameters, stores(dumped.stage, store, left.value), cost + rule_cost});
            // Nothing, unless it is said.
            if (left.name) candidates.back().parameters.push_back({"elsewhere", left.name});
        }
    };
    add(0);
    if (auto rule = rule_of(evidence, dumped, store)) {
        store.where = std::move(rule->holds);
        store.name += " where " + rule->text;
        parameters.push_back({"where", std::move(rule->text)});
        add(1 + rule->conditions);
    }
}

/// An element that is not at home, where its home is, and what tells it.
struct MovedElement {
    Eigen::Index row = 0;
    Eigen::Index col = 0;
    std::int64_t home = 0;
    double expected = 0;
    double error = 0;
};

/// Of a tile those of the last rows, which no others of the tile are written over.
struct MovedElements {
    const Observation* seen = nullptr;
    std::vector<MovedElement> all;
    std::vector<MovedElement> few;  ///< some, among them those that are stored last of each row
};

MovedElements moved_elements(const Observation& seen, const DumpedOutput& dumped) {
    constexpr Eigen::Index most = 1024;
    constexpr std::size_t few = 96;
    const std::int64_t own = origin(seen.site, dumped.stage);
    const Eigen::Index cols = seen.got.cols();
    MovedElements moved{&seen, {}, {}};
    for (Eigen::Index i = std::max<Eigen::Index>(0, seen.got.rows() - most / cols - 1); i < seen.got.rows();
         ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const double expected = seen.expected.value(i, j);
            if (!std::isfinite(expected) || expected == 0 || dumped.is_at_home(seen, i, j)) continue;
            moved.all.push_back({i, j, own + i * cols + j, expected, dumped.error_of(seen, i, j)});
        }
    }
    const std::size_t step = moved.all.size() / few | 1;
    for (std::size_t i = 0; i < moved.all.size(); ++i)
        if (i % step == 0 || moved.all[i].col == cols - 1) moved.few.push_back(moved.all[i]);
    return moved;
}

/// Elements by the address that an index stores them to, and whether they are there.
using StoredElements = std::vector<std::pair<std::int64_t, bool>>;

/// Whether what an element of the tile stores is written over by a later one of the tile, which is where it belongs.
bool is_written_over(const Observation& seen, std::int64_t from_origin, const MovedElement& element) {
    const std::int64_t own = element.row * seen.got.cols() + element.col;
    if (from_origin <= own || from_origin >= seen.got.size()) return false;
    return !seen.wrong[std::size_t(from_origin)];
}

void add_stored(const Observation& seen, std::span<const MovedElement> elements, const DumpedOutput& dumped,
                const OutputStore& store, StoredElements& stored) {
    const ValueIndex& values = dumped.values;
    const AddressInTile address = addresses_by(store.index, dumped.stage, seen.site);
    const std::int64_t own = origin(seen.site, dumped.stage);
    for (const MovedElement& element : elements) {
        const std::int64_t at = address(element.row, element.col);
        if (!values.has(at)) continue;
        const bool is_there =
            at != element.home && std::abs(values.at(at) - element.expected) <= element.error;
        if (!is_there && is_written_over(seen, at - own, element)) continue;
        stored.emplace_back(at, is_there);
    }
}

/// Of those that no other is written over, how many more are there than are not; not more than 0 where few are.
std::int64_t agreement_of(StoredElements stored) {
    constexpr std::int64_t fewest = 8;
    if (std::ranges::count(stored, true, &StoredElements::value_type::second) < fewest) return 0;
    std::ranges::stable_sort(stored, {}, &StoredElements::value_type::first);
    std::int64_t there = 0;
    std::int64_t elsewhere = 0;
    for (std::size_t i = 0; i < stored.size(); ++i)
        if (i + 1 == stored.size() || stored[i + 1].first != stored[i].first)
            ++(stored[i].second ? there : elsewhere);
    return there < fewest ? -elsewhere : there - elsewhere;
}

/// Tiles that tell together what an index agrees with.
using TellingTiles = std::vector<const MovedElements*>;

/// Whether most of the tiles that no other is written over is where the index stores it.
bool agrees(const TellingTiles& tiles, const DumpedOutput& dumped, const OutputStore& store) {
    // A few stand anywhere by chance.
    constexpr std::int64_t chance = 2;
    StoredElements stored;
    for (const MovedElements* tile : tiles) add_stored(*tile->seen, tile->few, dumped, store, stored);
    if (std::ranges::count(stored, true, &StoredElements::value_type::second) <= chance) return false;
    stored.clear();
    for (const MovedElements* tile : tiles) add_stored(*tile->seen, tile->all, dumped, store, stored);
    return agreement_of(std::move(stored)) > 0;
}

/// Some of the tiles, of all query blocks, each by itself; of an output with one number a row all of them together.
std::vector<TellingTiles> telling_tiles(std::span<const MovedElements> tiles) {
    constexpr std::size_t most = 6;
    TellingTiles all;
    for (const MovedElements& tile : tiles) all.push_back(&tile);
    if (!all.empty() && all.front()->seen->got.cols() == 1) return {all};
    std::ranges::stable_sort(all, {}, [](const MovedElements* tile) { return tile->seen->site.id.q_block; });
    const std::size_t count = std::min(most, all.size());
    std::vector<TellingTiles> some;
    for (std::size_t i = 0; i < count; ++i)
        some.push_back({all[count == all.size() ? i : i * (all.size() - 1) / (most - 1)]});
    return some;
}

/// Of some elements that are at home how many the index would store elsewhere: where several indices say the same of what is
/// wrong, the one that leaves right what is right.
std::int64_t right_elements_moved(const Evidence& evidence, const DumpedOutput& dumped,
                                  const OutputStore& store) {
    constexpr Eigen::Index of_tile = 32;
    std::int64_t moved = 0;
    for (const Observation& seen : evidence.seen) {
        const AddressInTile address = addresses_by(store.index, dumped.stage, seen.site);
        const std::int64_t own = origin(seen.site, dumped.stage);
        for (Eigen::Index i = 0; i < seen.got.size(); i += seen.got.size() / of_tile | 1) {
            const Eigen::Index row = i / seen.got.cols();
            const Eigen::Index col = i % seen.got.cols();
            moved += !seen.is_wrong(row, col) && address(row, col) != own + i;
        }
    }
    return moved;
}

/// An index that most of what is wrong agrees with.
struct AgreeingStore {
    OutputStore store;
    int cost = 0;
    std::int64_t agreement = 0;
    std::int64_t right_moved = 0;
};

/// Indices by which most of what is wrong in a tile is stored, those first by which most is stored in all.
std::vector<AgreeingStore> agreeing_indices(const Evidence& evidence, const DumpedOutput& dumped) {
    std::vector<MovedElements> tiles;
    for (const Observation& seen : evidence.seen)
        if (seen.is_bad()) tiles.push_back(moved_elements(seen, dumped));
    // In the order that they are stored in.
    std::ranges::sort(tiles, {}, [](const MovedElements& tile) { return tile.seen->site.id; });
    const std::vector<TellingTiles> telling = telling_tiles(tiles);
    std::vector<AgreeingStore> found;
    IndexedArray array = indexed_array(dumped.stage, evidence.problem());
    array.most_number = 32;
    for (const OtherIndex& other : other_indices(array)) {
        const OutputStore store{text_of_store(other, array.right), other.index};
        const auto tells = [&](const TellingTiles& some) { return agrees(some, dumped, store); };
        if (std::ranges::none_of(telling, tells)) continue;
        StoredElements stored;
        for (const MovedElements& tile : tiles) add_stored(*tile.seen, tile.all, dumped, store, stored);
        found.push_back({store, other.choices() + 1, agreement_of(std::move(stored)),
                         right_elements_moved(evidence, dumped, store)});
    }
    std::ranges::stable_sort(found, [](const AgreeingStore& a, const AgreeingStore& b) {
        return a.agreement != b.agreement ? a.agreement > b.agreement : a.right_moved < b.right_moved;
    });
    if (found.size() > most_maps) found.resize(most_maps);
    return found;
}

std::vector<Candidate> stored_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Stage stage = evidence.acts;
    const Problem& problem = evidence.problem();
    const bool is_large = array_shape(stage, problem).size() > largest_output ||
                          problem.batch * problem.heads * problem.seqlen_q * problem.seqlen_kv > most_scores;
    if (!evidence.direct() || !evidence.known.empty() || is_large) return candidates;
    const DumpedOutput dumped{stage, stage_dtype(problem, stage), dumped_output(*evidence.world, stage)};
    for (const AgreeingStore& index : agreeing_indices(evidence, dumped))
        add_stores(evidence, dumped, index.store, index.store.name, index.cost, candidates);
    const auto places = [&](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        return dumped.places_of(seen, row, col);
    };
    if (const auto strides = array_strides(evidence, array_shape(stage, problem), places)) {
        const Index index{{strides->address}, {}};
        add_stores(evidence, dumped, {index.text(), index}, index.text(), strides->choices + 1, candidates);
    }
    return candidates;
}

}  // namespace

std::vector<Cause> output_address_causes() {
    return {{"output_stored_elsewhere",
             "address",
             {Stage::o, Stage::lse},
             "the output is stored to other addresses than its own",
             "the index of the store to global memory: strides, layout, and the first row",
             stored_elsewhere}};
}

}  // namespace tilescope
