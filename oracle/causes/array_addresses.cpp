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

}  // namespace

std::vector<AddressMap> voted_maps(const Evidence& evidence, std::int64_t ld, const TileAxes& axes,
                                   const SampleOf& sample_of, std::size_t most) {
    std::vector<AddressMap> maps;
    add_maps_of_tiles(evidence, ld, axes, sample_of, most, maps);
    add_pooled_maps(evidence, ld, axes, sample_of, most, maps);
    return maps;
}

}  // namespace tilescope
