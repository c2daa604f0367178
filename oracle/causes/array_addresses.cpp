#include "oracle/causes/array_addresses.h"

#include <algorithm>
#include <span>

namespace tilescope {

namespace {

/// Elements whose addresses vote for one map.
constexpr Eigen::Index most_samples = 2048;
/// Tiles of which each proposes a map, or that propose one together.
constexpr std::size_t most_voting_tiles = 3;
constexpr std::int64_t most_pooled_tiles = 8;

/// Of what is wrong in a tile, or of all of it, since an index that is right for some rows is still one index.
void add_samples(const Observation& seen, bool whole, Eigen::Index most, const SampleOf& sample_of,
                 std::vector<AddressSample>& samples) {
    const auto enough = samples.size() + std::size_t(most);
    for (Eigen::Index i = 0; i < seen.got.size() && samples.size() < enough; ++i) {
        const Eigen::Index row = i / seen.got.cols();
        const Eigen::Index col = i % seen.got.cols();
        if (!whole && !seen.is_wrong(row, col)) continue;
        if (auto sample = sample_of(seen, row, col)) samples.push_back(std::move(*sample));
    }
}

void add_new(const AddressMap& map, std::vector<AddressMap>& maps) {
    if (std::ranges::find(maps, map.index, &AddressMap::index) == maps.end()) maps.push_back(map);
}

void propose(std::span<const AddressSample> samples, std::int64_t ld, const TileAxes& axes, std::size_t most,
             std::vector<AddressMap>& maps) {
    for (const AddressMap& map : find_address_maps(samples, ld, axes, most))
        if (map.parameters > 0) add_new(map, maps);
}

void add_maps_of_tiles(const Evidence& evidence, std::int64_t ld, const TileAxes& axes,
                       const SampleOf& sample_of, std::size_t most, std::vector<AddressMap>& maps) {
    std::size_t tiles = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad() || ++tiles > most_voting_tiles) break;
        for (const bool whole : {true, false}) {
            std::vector<AddressSample> samples;
            add_samples(seen, whole, most_samples, sample_of, samples);
            propose(samples, ld, axes, most, maps);
        }
    }
}

/// Where few rows of a tile are wrong, and where the array's strides matter, several tiles tell together.
void add_pooled_maps(const Evidence& evidence, std::int64_t ld, const TileAxes& axes,
                     const SampleOf& sample_of, std::size_t most, std::vector<AddressMap>& maps) {
    const auto bad = std::ranges::count_if(evidence.seen, &Observation::is_bad);
    const auto tiles = std::min<std::int64_t>(bad, most_pooled_tiles);
    for (const bool whole : {true, false}) {
        std::vector<AddressSample> samples;
        // The bad ones come first; some of every head and block.
        for (std::int64_t i = 0; i < tiles; ++i)
            add_samples(evidence.seen[std::size_t(i * bad / tiles)], whole, most_samples / tiles, sample_of,
                        samples);
        propose(samples, ld, axes, most, maps);
    }
}

bool counts_queries(Stage stage) {
    return stage_info(stage).row_axis == Axis::query;
}

TileAxes axes_counted_from(Stage stage, CountedFrom from) {
    const Coordinate in_head = counts_queries(stage) ? Coordinate::query : Coordinate::key;
    return {from == CountedFrom::tile   ? Coordinate::row
            : from == CountedFrom::head ? in_head
                                        : Coordinate::flat_row};
}

/// The batch entry and head of the array that a tile is of, and the tile's first row in it.
struct PlaceInArray {
    std::int64_t batch;
    std::int64_t head;
    std::int64_t first;
};

PlaceInArray place_in_array(const SearchedTile& site, Stage stage) {
    if (counts_queries(stage)) return {site.id.batch, site.id.head, site.first_row};
    return {site.id.batch, site.call->problem.head_kv(site.id.head), site.first_key};
}

}  // namespace

std::vector<AddressMap> voted_maps(const Evidence& evidence, std::int64_t ld, const TileAxes& axes,
                                   const SampleOf& sample_of, std::size_t most) {
    std::vector<AddressMap> maps;
    add_maps_of_tiles(evidence, ld, axes, sample_of, most, maps);
    add_pooled_maps(evidence, ld, axes, sample_of, most, maps);
    return maps;
}

Counting counting(const SearchedTile& site, Stage stage, const ArrayOfHeads& array, CountedFrom from) {
    const PlaceInArray place = place_in_array(site, stage);
    const std::int64_t rows = (place.batch * array.heads + place.head) * array.length;
    if (from == CountedFrom::tile) return {0, (rows + place.first) * array.cols};
    if (from == CountedFrom::head) return {place.first, rows * array.cols};
    return {rows + place.first, 0};
}

std::int64_t origin(const SearchedTile& site, Stage stage, const ArrayOfHeads& array) {
    return counting(site, stage, array, CountedFrom::tile).address;
}

std::vector<CauseParameter> meaning_of_row(Stage stage, CountedFrom from) {
    if (from != CountedFrom::array) return {};
    return {{"flat_row", counts_queries(stage) ? "(batch * heads + head) * seqlen_q + query"
                                               : "(batch * heads_kv + head) * seqlen_kv + key"}};
}

std::map<CountedFrom, std::vector<AddressMap>> maps_in_array(const Evidence& evidence,
                                                             const ArrayOfHeads& array,
                                                             const SourcesOf& sources_of, std::size_t most) {
    const Stage stage = evidence.acts;
    const SearchedTile& first = evidence.seen.front().site;
    const Counting own = counting(first, stage, array, CountedFrom::tile);
    std::map<CountedFrom, std::vector<AddressMap>> maps;
    for (const CountedFrom from : {CountedFrom::tile, CountedFrom::head, CountedFrom::array}) {
        const TileAxes axes = axes_counted_from(stage, from);
        const auto sample_of = [&](const Observation& seen, Eigen::Index row,
                                   Eigen::Index col) -> std::optional<AddressSample> {
            std::optional<std::vector<std::int64_t>> sources = sources_of(seen, row, col);
            if (!sources) return std::nullopt;
            const Counting counted = counting(seen.site, stage, array, from);
            for (std::int64_t& source : *sources) source -= counted.address;
            return AddressSample{counted.first_row + row, col, std::move(*sources)};
        };
        if (from == CountedFrom::tile) {
            maps[from] = voted_maps(evidence, array.cols, axes, sample_of, most);
            continue;
        }
        add_pooled_maps(evidence, array.cols, axes, sample_of, most, maps[from]);
        const Counting counted = counting(first, stage, array, from);
        for (const AddressMap& map : maps[CountedFrom::tile]) {
            if (!map.strides) continue;
            Strides strides = *map.strides;
            strides.offset += own.address - counted.address - strides.down * counted.first_row;
            add_new(map_of_strides(strides, array.cols, axes), maps[from]);
        }
    }
    // Of a single head both are the same; where there are more, another leading dimension moves all that follow.
    if (!array.values.has(array.size_of_head())) {
        std::erase_if(maps[CountedFrom::head], [&](const AddressMap& map) {
            return map.strides && map.strides->along == 1 && map.strides->down % array.cols != 0;
        });
    }
    return maps;
}

}  // namespace tilescope
