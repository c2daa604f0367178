#include "oracle/solve/array_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "oracle/describe/edits.h"
#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// One part is another expression: of its own coordinate, of a query head, of the row of the tile, of the tile.
void add_parts(const IndexedArray& array, std::vector<OtherIndex>& all) {
    const auto add = [&](std::size_t level, Expr part) {
        OtherIndex next{array.right};
        next.index.parts[level] = std::move(part);
        all.push_back(std::move(next));
    };
    const auto edits = [&](const CoordinateRange& own) {
        return edits_with(own, array.ranges, array.most_number);
    };
    const std::size_t parts = array.right.parts.size();
    for (std::size_t level = 0; level < parts; ++level) {
        for (Expr& part : edits(array.ranges[level])) add(level, std::move(part));
        for (const Coordinate extent : array.extents) add(level, extent);
    }
    for (const CoordinateRange& range : std::span(array.ranges).subspan(parts)) {
        if (range.coordinate == Coordinate::head) {
            // By the extent rather than by its number: so it holds of other calls as well.
            add(1, Expr(Coordinate::head) % Coordinate::heads_kv);
            for (const Expr& head : edits(range)) {
                add(1, head);
                add(1, head / Coordinate::group);
            }
        }
        if (range.coordinate == Coordinate::row)
            for (const Expr& row : edits(range)) add(2, Expr(Coordinate::first_row) + row);
        if (range.coordinate == array.tile)
            for (const Expr& tile : edits(range)) add(2, tile * array.block + Coordinate::row);
    }
    // first + row, with another number in the place of the first one.
    for (const CoordinateRange& range : array.ranges)
        if (range.length > 1) add(2, Expr(range.coordinate) + Coordinate::row);
    add(2, Expr(Coordinate::first_row) - Coordinate::row);
    add(2, Expr(Coordinate::row) * array.block + array.tile);
    for (std::size_t first = 0; first < parts; ++first) {
        for (std::size_t second = first + 1; second < parts; ++second) {
            all.push_back({array.right});
            std::swap(all.back().index.parts[first], all.back().index.parts[second]);
        }
    }
}

/// Extents that a kernel may take for its own one: those of others, with padding, rounded up.
std::vector<Expr> other_extents(const Expr& own, const IndexedArray& array) {
    constexpr std::int64_t most_longer = 16;
    std::vector<Expr> others(array.extents.begin(), array.extents.end());
    others.push_back(Expr(Coordinate::q_blocks) * Coordinate::block_m);
    for (std::int64_t n = 1; n <= most_longer; ++n)
        for (const std::int64_t by : {n, -n}) others.push_back(moved_by(own, by));
    others.push_back(moved_by(own, 2 * most_longer));
    for (const std::int64_t multiple : {16, 32, 64, 128})
        others.push_back(Expr::changed(Op::rounded_up, own, multiple));
    return others;
}

/// What an extent is that of another array; the same number but once.
void add_extents(const IndexedArray& array, std::vector<OtherIndex>& all) {
    for (std::size_t level = 0; level < array.right.extents.size(); ++level) {
        const Expr& own = array.right.extents[level];
        std::set<std::int64_t> known = {own.at(array.place)};
        for (const Expr& extent : other_extents(own, array)) {
            const std::int64_t now = extent.at(array.place);
            if (now <= 0 || !known.insert(now).second) continue;
            all.push_back({array.right});
            all.back().index.extents[level] = extent;
        }
    }
}

}  // namespace

std::vector<OtherIndex> other_layouts(const IndexedArray& array) {
    std::vector<OtherIndex> all;
    std::vector<std::size_t> order(array.right.parts.size());
    std::iota(order.begin(), order.end(), 0);
    while (std::next_permutation(order.begin(), order.end())) {
        OtherIndex next{array.right, true};
        for (std::size_t level = 0; level < order.size(); ++level) {
            const std::size_t of = order[level];
            next.index.parts[level] = array.right.parts[of];
            if (level > 0)
                next.index.extents[level - 1] = of > 0 ? array.extents[of - 1] : array.extents.back();
        }
        all.push_back(std::move(next));
    }
    return all;
}

std::vector<OtherIndex> other_indices(const IndexedArray& array) {
    std::vector<OtherIndex> all = other_layouts(array);
    add_parts(array, all);
    add_extents(array, all);
    return all;
}

std::string OtherIndex::text(const Index& right) const {
    if (is_layout) return index.text();
    std::string text;
    const auto add = [&](const std::vector<Expr>& are, const std::vector<Expr>& should_be) {
        for (std::size_t i = 0; i < are.size(); ++i)
            if (are[i] != should_be[i])
                text += fmt::format("{}{} in place of {}", text.empty() ? "" : ", ", are[i].text(),
                                    should_be[i].text());
    };
    add(index.parts, right.parts);
    add(index.extents, right.extents);
    return text;
}

int OtherIndex::numbers() const {
    int all = 0;
    for (const std::vector<Expr>* exprs : {&index.parts, &index.extents})
        for (const Expr& one : *exprs) all += one.choices();
    return all;
}

}  // namespace tilescope
