#include "oracle/causes/array_strides.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tilescope {

namespace {

/// Tiles that are asked.
constexpr std::size_t most_asked_tiles = 16;

using Stride = ArrayStrides::Stride;

constexpr std::array<Stride, 4> own_strides = {
    {{0, true, true, true, true}, {0, true, false, true, true}, {0, true, false, false, true}, {1}}};

/// The stride of `axis` that equals the number: the one that it should be, the smallest product of extents, or the
/// number itself.
Stride stride_of(std::int64_t number, std::size_t axis, const ArrayOfHeads& array) {
    if (own_strides[axis].in(array) == number) return own_strides[axis];
    for (const int factors : {1, 2, 3}) {
        for (int bits = 1; bits < 8; ++bits) {
            const Stride product{0, true, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
            const bool has_them = product.heads + product.length + product.cols == factors;
            if (number > 1 && has_them && product.in(array) == number) return product;
        }
    }
    return {number};
}

/// Of one tile: addresses are down * query + along * col + base.
struct StridesOfTile {
    TileId id;
    std::int64_t down;
    std::int64_t along;
    std::int64_t base;
};

std::vector<StridesOfTile> strides_of_tiles(const Evidence& evidence, const ArrayOfHeads& array,
                                            const SourcesOf& sources_of) {
    std::vector<StridesOfTile> tiles;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad() || tiles.size() == most_asked_tiles) break;
        for (const bool whole : {true, false}) {
            std::vector<AddressSample> samples;
            for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
                for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
                    if (whole || seen.is_wrong(i, j))
                        if (auto sources = sources_of(seen, i, j))
                            samples.push_back({seen.site.first_row + i, j, std::move(*sources)});
            const auto map = find_address_map(samples, array.cols, {"query", "d"});
            if (!map || !map->strides) continue;
            const bool is_own = map->strides->down == array.cols && map->strides->along == 1 &&
                                map->strides->offset == origin(seen.site, evidence.acts, array) -
                                                            seen.site.first_row * array.cols;
            if (is_own) continue;
            tiles.push_back({seen.site.id, map->strides->down, map->strides->along, map->strides->offset});
            break;
        }
    }
    return tiles;
}

/// By how much the base rises with a coordinate, of two tiles that differ in it and not in the `other` one.
template <class Of, class Other>
std::optional<std::int64_t> rise_of(const std::vector<StridesOfTile>& tiles, const Of& of, const Other& other,
                                    std::int64_t other_stride) {
    for (const StridesOfTile& a : tiles) {
        for (const StridesOfTile& b : tiles) {
            const std::int64_t by = of(b.id) - of(a.id);
            if (by <= 0 || (other_stride == 0 && other(a.id) != other(b.id))) continue;
            const std::int64_t rise = b.base - a.base - other_stride * (other(b.id) - other(a.id));
            if (rise % by == 0) return rise / by;
        }
    }
    return std::nullopt;
}

}  // namespace

std::int64_t Stride::in(const ArrayOfHeads& array) const {
    if (!is_product) return number;
    return (heads ? array.heads : 1) * (length ? array.length : 1) * (cols ? array.cols : 1);
}

std::string Stride::text() const {
    if (!is_product) return std::to_string(number);
    std::string text;
    const auto add = [&](bool has_it, const char* name) {
        if (has_it) text += (text.empty() ? "" : " * ") + std::string(name);
    };
    add(heads, "heads");
    add(length, "seqlen_q");
    add(cols, "head_dim_v");
    return text;
}

std::int64_t ArrayStrides::address(const ArrayOfHeads& array, std::int64_t batch, std::int64_t head,
                                   std::int64_t query, std::int64_t col) const {
    return offset + batch * strides[0].in(array) + head * strides[1].in(array) +
           query * strides[2].in(array) + col * strides[3].in(array);
}

std::string ArrayStrides::text() const {
    constexpr std::array<const char*, 4> names = {"batch", "head", "query", "d"};
    std::string text;
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
        if (strides[axis] == Stride{0}) continue;
        const std::string factor = strides[axis] == Stride{1} ? "" : " * " + strides[axis].text();
        text += (text.empty() ? "" : " + ") + std::string(names[axis]) + factor;
    }
    if (offset != 0) text += fmt::format(" {} {}", offset < 0 ? '-' : '+', std::abs(offset));
    return "[" + text + "]";
}

int ArrayStrides::parameters() const {
    int changed = offset != 0;
    for (std::size_t axis = 0; axis < strides.size(); ++axis) changed += strides[axis] != own_strides[axis];
    return changed;
}

std::optional<ArrayStrides> array_strides(const Evidence& evidence, const ArrayOfHeads& array,
                                          const SourcesOf& sources_of) {
    std::vector<StridesOfTile> tiles = strides_of_tiles(evidence, array, sources_of);
    if (tiles.size() < 2) return std::nullopt;
    const StridesOfTile first = tiles.front();
    std::erase_if(tiles, [&](const StridesOfTile& tile) {
        return tile.down != first.down || tile.along != first.along;
    });
    const auto batch = [](const TileId& id) { return id.batch; };
    const auto head = [](const TileId& id) { return id.head; };
    const std::int64_t by_head = rise_of(tiles, head, batch, 0).value_or(own_strides[1].in(array));
    const std::int64_t by_batch = rise_of(tiles, batch, head, by_head).value_or(own_strides[0].in(array));
    ArrayStrides found;
    found.offset = first.base - by_batch * first.id.batch - by_head * first.id.head;
    found.strides = {stride_of(by_batch, 0, array), stride_of(by_head, 1, array),
                     stride_of(first.down, 2, array), stride_of(array.cols == 1 ? 1 : first.along, 3, array)};
    const auto agree = std::ranges::count_if(tiles, [&](const StridesOfTile& tile) {
        return tile.base == found.offset + by_batch * tile.id.batch + by_head * tile.id.head;
    });
    if (4 * agree < 3 * std::ssize(tiles) || found.parameters() == 0) return std::nullopt;
    return found;
}

}  // namespace tilescope
