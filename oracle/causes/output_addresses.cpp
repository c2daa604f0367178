// Outputs that are stored at other addresses than their own: to which, is read from where the dump has them.

#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dump/schema/rounding.h"
#include "oracle/causes/array_addresses.h"
#include "oracle/causes/signature.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// Larger outputs are not searched, nor those of which a replay takes seconds.
constexpr std::int64_t most_elements = std::int64_t(1) << 22;
constexpr std::int64_t most_scores = std::int64_t(1) << 25;
/// A value that is found more often tells nothing: by chance many are near it.
constexpr std::size_t most_places = 8;

std::int64_t elements_of(const Problem& problem, Stage stage) {
    return problem.batch * problem.heads * problem.seqlen_q * tile_shape(problem, stage).cols;
}

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
ArrayOfHeads dumped_output(const Evidence& evidence, Stage stage) {
    const Problem& problem = evidence.problem();
    const std::int64_t cols = tile_shape(problem, stage).cols;
    std::vector<double> values(std::size_t(elements_of(problem, stage)), quiet_nan);
    for_each_block(*evidence.world, [&](const TileId& id, const Problem& entry) {
        const auto tile = load_tile(evidence.world->recording(), entry, stage, id);
        if (!tile) return;
        const std::int64_t head = id.batch * problem.heads + id.head;
        const std::int64_t first = (head * problem.seqlen_q + id.q_block * problem.block_m) * cols;
        for (Eigen::Index i = 0; i < tile->size(); ++i) values[std::size_t(first + i)] = tile->data()[i];
    });
    return {problem.heads, problem.seqlen_q, cols, ValueIndex(std::move(values))};
}

/// What a query block computes, in natural units.
struct BlockOutput {
    SearchedTile site;  ///< of which only the place is kept
    Estimate own;
};

std::vector<BlockOutput> computed_output(const Evidence& evidence) {
    std::vector<BlockOutput> blocks;
    for_each_block(*evidence.world, [&](const TileId& id, const Problem&) {
        ChangedReplay walk(*evidence.world, id, evidence.acts, {});
        walk.run(evidence.acts, [&](const SearchedTile& site, const Estimate& own) {
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

/// The output of a kernel whose stores go elsewhere, in natural units.
struct StoredOutput {
    std::vector<double> value;
    std::vector<double> error;
    std::vector<bool> is_stored;
};

/// One block after the other: what is stored twice is that of the last one.
StoredOutput output_stored(std::span<const BlockOutput> blocks, const Evidence& evidence,
                           const ArrayOfHeads& array, CountedFrom counted_from, const AddressMap& map) {
    const auto size = std::size_t(elements_of(evidence.problem(), evidence.acts));
    StoredOutput stored{std::vector<double>(size), std::vector<double>(size), std::vector<bool>(size)};
    for (const auto& [site, own] : blocks) {
        const Counting from = counting(site, evidence.acts, array, counted_from);
        for (Eigen::Index i = 0; i < own.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < own.value.cols(); ++j) {
                const std::int64_t at = from.address + map.apply(from.first_row + i, j);
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
    const char* name;
    double value;
};
const LeftThere all_left_there[] = {{"nothing", double(std::bit_cast<float>(unwritten_bits))}, {"0", 0}};

Change stores(const std::shared_ptr<const StoredOutput>& stored,
              const std::shared_ptr<const ArrayOfHeads>& array, Stage stage, double left) {
    return {.result = [=](const SearchedTile& site, Estimate& estimate) {
        const std::int64_t from = origin(site, stage, *array);
        for (Eigen::Index i = 0; i < estimate.value.size(); ++i) {
            const auto at = std::size_t(from + i);
            estimate.value.data()[i] = stored->is_stored[at] ? stored->value[at] : left;
            estimate.error.data()[i] = stored->is_stored[at] ? stored->error[at] : 0;
        }
    }};
}

std::vector<Candidate> stored_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Stage stage = evidence.acts;
    const Problem& problem = evidence.problem();
    const bool is_large = elements_of(problem, stage) > most_elements ||
                          problem.batch * problem.heads * problem.seqlen_q * problem.seqlen_kv > most_scores;
    if (!evidence.direct() || !evidence.known.empty() || is_large) return candidates;
    const auto array = std::make_shared<const ArrayOfHeads>(dumped_output(evidence, stage));
    const Dtype dtype = stage_dtype(problem, stage);
    const auto sources_of = [&](const Observation& seen, Eigen::Index row,
                                Eigen::Index col) -> std::optional<std::vector<std::int64_t>> {
        const double expected = seen.expected.value(row, col);
        if (!std::isfinite(expected) || expected == 0) return std::nullopt;
        const double error = seen.expected.error(row, col) + cast_bound(dtype, std::abs(expected));
        const std::int64_t from = origin(seen.site, stage, *array);
        std::vector<std::int64_t> found = array->values.sources(expected, error, from);
        if (found.size() > most_places) return std::nullopt;
        for (std::int64_t& address : found) address += from;
        return found;
    };
    std::vector<BlockOutput> blocks;
    for (const auto& [from, maps] : maps_in_array(evidence, *array, sources_of)) {
        for (const AddressMap& map : maps) {
            if (blocks.empty()) blocks = computed_output(evidence);
            const auto stored =
                std::make_shared<const StoredOutput>(output_stored(blocks, evidence, *array, from, map));
            std::vector<CauseParameter> parameters = meaning_of_row(stage, from);
            parameters.insert(parameters.begin(), {"stores to", map.text});
            for (const LeftThere& left : all_left_there) {
                candidates.push_back({parameters, stores(stored, array, stage, left.value), cost_of(map)});
                candidates.back().parameters.push_back({"elsewhere", left.name});
            }
        }
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
