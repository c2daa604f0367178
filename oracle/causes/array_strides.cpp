#include "oracle/causes/array_strides.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tilescope {

namespace {

/// Tiles that are asked.
constexpr std::size_t most_asked_tiles = 16;

/// The extents that strides of an output are products of.
constexpr std::array<Coordinate, 3> factors = {Coordinate::heads, Coordinate::seqlen_q,
                                               Coordinate::head_dim_v};

/// A product of some of them: of those whose bit is set.
struct StrideProduct {
    std::int64_t number = 1;
    std::optional<Expr> expr{};
    int count = 0;
};

StrideProduct product_of(unsigned bits, const ArrayExtents& array) {
    const std::array<std::int64_t, 3> extents = {array.heads, array.length, array.cols};
    StrideProduct product;
    for (std::size_t i = 0; i < factors.size(); ++i) {
        if ((bits >> i & 1) == 0) continue;
        product.number *= extents[i];
        product.expr = product.expr ? *product.expr * factors[i] : Expr(factors[i]);
        ++product.count;
    }
    return product;
}

/// Of batch, head, query and d.
constexpr std::array<unsigned, 4> own_products = {7, 6, 4, 0};

/// `of` times the number, told as the product that it should be, as the smallest product of extents, or as the number itself;
/// nullopt of 0.
std::optional<Expr> term_of(Coordinate of, std::int64_t number, unsigned own, const ArrayExtents& array) {
    if (number == 0) return std::nullopt;
    if (number == 1) return Expr(of);
    std::vector<StrideProduct> products = {product_of(own, array)};
    for (const int count : {1, 2, 3})
        for (unsigned bits = 1; bits < 8; ++bits)
            if (StrideProduct next = product_of(bits, array); next.count == count) products.push_back(next);
    const auto told = std::ranges::find(products, number, &StrideProduct::number);
    return Expr(of) * (told != products.end() ? *told->expr : Expr(number));
}

/// Of one tile: addresses are down * query + along * col + base.
struct StridesOfTile {
    TileId id;
    std::int64_t down;
    std::int64_t along;
    std::int64_t base;
};

std::vector<StridesOfTile> strides_of_tiles(const Evidence& evidence, const ArrayExtents& array,
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
            const auto map = find_address_map(samples, array.cols, {Coordinate::query, Coordinate::d});
            if (!map || !map->strides) continue;
            const bool is_own =
                map->strides->down == array.cols && map->strides->along == 1 &&
                map->strides->offset == origin(seen.site, evidence.acts) - seen.site.first_row * array.cols;
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

std::optional<ArrayStrides> array_strides(const Evidence& evidence, const ArrayExtents& array,
                                          const SourcesOf& sources_of) {
    std::vector<StridesOfTile> tiles = strides_of_tiles(evidence, array, sources_of);
    if (tiles.size() < 2) return std::nullopt;
    const StridesOfTile first = tiles.front();
    std::erase_if(tiles, [&](const StridesOfTile& tile) {
        return tile.down != first.down || tile.along != first.along;
    });
    const auto batch = [](const TileId& id) { return id.batch; };
    const auto head = [](const TileId& id) { return id.head; };
    const std::int64_t by_head =
        rise_of(tiles, head, batch, 0).value_or(product_of(own_products[1], array).number);
    const std::int64_t by_batch =
        rise_of(tiles, batch, head, by_head).value_or(product_of(own_products[0], array).number);
    const std::int64_t offset = first.base - by_batch * first.id.batch - by_head * first.id.head;
    const auto agree = std::ranges::count_if(tiles, [&](const StridesOfTile& tile) {
        return tile.base == offset + by_batch * tile.id.batch + by_head * tile.id.head;
    });
    if (4 * agree < 3 * std::ssize(tiles)) return std::nullopt;
    const std::array<std::int64_t, 4> strides = {by_batch, by_head, first.down,
                                                 array.cols == 1 ? 1 : first.along};
    constexpr std::array<Coordinate, 4> axes = {Coordinate::batch, Coordinate::head, Coordinate::query,
                                                Coordinate::d};
    std::optional<Expr> sum;
    ArrayStrides found{{}, offset != 0};
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        found.choices += strides[axis] != product_of(own_products[axis], array).number;
        const std::optional<Expr> term = term_of(axes[axis], strides[axis], own_products[axis], array);
        if (term) sum = sum ? *sum + *term : *term;
    }
    if (found.choices == 0) return std::nullopt;
    found.address = moved_by(sum.value_or(0), offset);
    return found;
}

}  // namespace tilescope
