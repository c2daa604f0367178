// Elements of a tile at other rows and columns: by their number in the memory of the array, or of the tile.

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "oracle/program/solved.h"
#include "oracle/program/votes.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

constexpr std::int64_t most_places_of_map = 1024;
constexpr std::int64_t most_slice = 1 << 16;
/// Which index it is that is otherwise.
constexpr double bits_of_tile_map = 2;
/// That nobody knows what stands beyond the tile.
constexpr double bits_of_end = 1;
constexpr double bits_of_pad = 3;
/// That so many elements hold tells no address.
constexpr std::ptrdiff_t most_of_one_value = 16;
/// Elements between the rows of a tile in shared memory.
constexpr std::int64_t pads[] = {0, 1, 2, 4, 8, 16};
constexpr TileAxes tile_axes{Coordinate::row, Coordinate::d};

/// How rows follow one another where a kernel may have read.
struct Rows {
    std::int64_t ld = 0;     ///< elements from one to the next
    std::int64_t width = 0;  ///< those of them that are no padding
    bool are_of_tile = false;
};

/// The row and the column where an element is read, counted within its tile.
struct TilePlace {
    Expr row;
    Expr col;
    /// Rows of `ld` columns before the first one; nullopt: a column beyond the row is none of the next one.
    std::optional<std::int64_t> turns_from{};
};

/// On which sides of its tile an index is where nobody knows what stands.
struct OpenSides {
    bool below = false;
    bool above = false;

    bool contain(std::int64_t to, std::int64_t count) const {
        return (below && to < 0) || (above && to >= count);
    }
};
using OpenEnds = std::array<OpenSides, 2>;

/// The last two dimensions, each of them the index of an axis.
class TileMaps {
 public:
    TileMaps(RewriteOffers& offers, const NodeSamples& of, std::array<int, 2> axes)
        : offers_(offers),
          samples_(offers.samples()),
          of_(of),
          axes_(axes),
          first_(samples_.dimensions(of) - 2) {}

    void offer() {
        const std::int64_t cols = samples_.range_of(of_, first_ + 1, of_.samples.front().part).count;
        offer_maps(Rows{cols, cols, false});
        const std::int64_t block = block_of(1);
        if (!is_cut(1) || block < 2 || block >= cols) return;
        for (const std::int64_t pad : pads) offer_maps(Rows{block + pad, block, true});
    }

 private:
    std::int64_t block_of(std::size_t k) const { return samples_.call().blocks[std::size_t(axes_[k])]; }
    bool is_cut(std::size_t k) const { return offers_.program().axes[std::size_t(axes_[k])].block >= 0; }
    std::int64_t origin(const NodeSample& sample, std::size_t k) const {
        return sample.at[std::size_t(axes_[k])] / block_of(k) * block_of(k);
    }
    std::int64_t within(const NodeSample& sample, std::size_t k) const {
        return sample.at[std::size_t(axes_[k])] - origin(sample, k);
    }

    void offer_maps(const Rows& rows) {
        if (rows.ld < 2) return;
        const std::vector<AddressSample> wrong = addresses(rows);
        for (const AddressMap& map : find_address_maps(wrong, rows.ld, tile_axes, most_expressions)) {
            if (!map.has_rows()) {
                offer_place(rows, {Expr(0), map.index.parts[0], 0});
                continue;
            }
            TilePlace place{map.index.parts[0], map.index.parts[1]};
            offer_place(rows, place);
            // Behind the end of a row the next one begins.
            std::int64_t least = 0;
            std::int64_t most = 0;
            for (const NodeSample& sample : of_.samples) {
                const std::int64_t col = place.col.at(tile_axes, within(sample, 0), within(sample, 1));
                least = std::min(least, col);
                most = std::max(most, col);
            }
            if (least == 0 && most < rows.ld) continue;
            place.turns_from = (rows.ld - 1 - least) / rows.ld;
            offer_place(rows, place);
        }
    }

    /// Where what the wrong places need stands, from the first element of the tile.
    std::vector<AddressSample> addresses(const Rows& of) const {
        std::map<std::vector<std::int64_t>, ValueIndex> slices;
        std::vector<AddressSample> wrong;
        std::vector<AddressSample> often;
        SpreadChoice some(of_.wrong, most_places_of_map);
        for (const NodeSample& sample : of_.samples) {
            if (!sample.is_wrong || !some.takes()) continue;
            const AxisRange rows = samples_.range_of(of_, first_, sample.part);
            const AxisRange cols = samples_.range_of(of_, first_ + 1, sample.part);
            if (rows.count * cols.count > most_slice || (!of.are_of_tile && cols.count != of.ld)) return {};
            std::vector<std::int64_t> key(sample.index.begin(),
                                          sample.index.begin() + std::ptrdiff_t(first_));
            key.push_back(std::int64_t(sample.part));
            auto found = slices.find(key);
            if (found == slices.end())
                found = slices.emplace(std::move(key), ValueIndex(slice_of(sample, rows, cols))).first;
            const std::int64_t row = origin(sample, 0) - rows.first;
            const std::int64_t col = origin(sample, 1) - cols.first;
            const std::int64_t from = row * cols.count + col;
            AddressSample place{within(sample, 0), within(sample, 1), {}};
            const std::vector<std::int64_t> sources =
                found->second.sources(sample.needed, sample.error, from);
            for (const std::int64_t at : sources) {
                const std::int64_t to = (at + from) % cols.count - col;
                if (!of.are_of_tile || (to >= 0 && to < of.width))
                    place.sources.push_back(((at + from) / cols.count - row) * of.ld + to);
            }
            (std::ssize(sources) < most_of_one_value ? wrong : often).push_back(std::move(place));
        }
        // Zeros stand everywhere; of quantised arrays there is nothing else.
        if (wrong.size() < often.size()) std::ranges::move(often, std::back_inserter(wrong));
        return wrong;
    }

    std::vector<double> slice_of(const NodeSample& sample, const AxisRange& rows,
                                 const AxisRange& cols) const {
        std::vector<double> values;
        ElementIndices index = sample.index;
        for (std::int64_t i = 0; i < rows.count * cols.count; ++i) {
            index[first_] = std::int32_t(rows.first + i / cols.count);
            index[first_ + 1] = std::int32_t(cols.first + i % cols.count);
            values.push_back(samples_.value_at(of_, sample, index));
        }
        return values;
    }

    static std::array<std::int64_t, 2> at(const Rows& rows, const TilePlace& place, std::int64_t of_row,
                                          std::int64_t of_col) {
        std::int64_t row = place.row.at(tile_axes, of_row, of_col);
        std::int64_t col = place.col.at(tile_axes, of_row, of_col);
        if (place.turns_from) {
            col += *place.turns_from * rows.ld;
            row += col / rows.ld - *place.turns_from;
            col %= rows.ld;
        }
        return {row, col};
    }

    /// Behind the rows of a tile another one stands, as in an array, or nobody knows what.
    void offer_place(const Rows& rows, const TilePlace& place) {
        // In places that were not looked at as well.
        OpenEnds ends{};
        for (std::int64_t row = 0; row < block_of(0); ++row) {
            for (std::int64_t col = 0; col < block_of(1); ++col) {
                const std::array<std::int64_t, 2> to = at(rows, place, row, col);
                for (std::size_t k = 0; k < 2; ++k) {
                    if (!is_cut(k)) continue;
                    ends[k].below = ends[k].below || to[k] < 0;
                    ends[k].above = ends[k].above || to[k] >= block_of(k);
                }
            }
        }
        if (!rows.are_of_tile) {
            offer_read(rows, place, {});
            ends[1] = {};
        }
        if (rows.are_of_tile || ends[0].below || ends[0].above) offer_read(rows, place, ends);
    }

    void offer_read(const Rows& rows, const TilePlace& place, const OpenEnds& ends) {
        const std::optional<std::array<int, 2>> nodes = nodes_of(rows, place, ends);
        if (!nodes) return;
        std::vector<double> values;
        std::array<std::vector<std::size_t>, 2> behind;
        for (const NodeSample& sample : of_.samples) {
            const std::array<std::int64_t, 2> to = at(rows, place, within(sample, 0), within(sample, 1));
            const bool is_known =
                !ends[0].contain(to[0], block_of(0)) && !ends[1].contain(to[1], block_of(1));
            const ElementIndices index = index_at(sample, to);
            values.push_back(is_known ? samples_.value_at(of_, sample, index) : std::nan(""));
            for (std::size_t k = 0; k < 2 && is_known; ++k)
                if (is_behind(index, k)) behind[k].push_back(values.size() - 1);
        }
        const int instead = read_at(*nodes);
        const double bits = bits_of_tile_map + bits_of_expression(place.row) + bits_of_expression(place.col) +
                            (place.turns_from ? bits_of_end : 0) + (is_open(ends) ? bits_of_end : 0) +
                            (rows.are_of_tile ? bits_of_end : 0) + (rows.ld > rows.width ? bits_of_pad : 0);
        ProgramBuilder& build = offers_.build();
        bool is_offered = false;
        // Guarded loads leave 0 behind the array, and masks -inf in columns of a stage; its rows there were computed of what nobody knows.
        for (const double number : {0.0, -HUGE_VAL}) {
            std::vector<double> with = values;
            int is_inside = -1;
            for (std::size_t k = is_of_stage() ? 1 : 0; k < 2; ++k) {
                if (!is_number_of(behind[k], number)) continue;
                for (const std::size_t i : behind[k]) with[i] = number;
                const int extent = offers_.program().axes[std::size_t(axes_[k])].extent;
                is_inside = build.both(is_inside, build.of_two(ProgramOp::less, (*nodes)[k], extent));
            }
            if (is_inside < 0) continue;
            offers_.offer(of_, build.chosen(instead, is_inside, build.real(number)), with, bits + bits_of_end,
                          "index");
            is_offered = true;
        }
        if (!is_offered) offers_.offer(of_, instead, values, bits, "index");
    }

    bool is_of_stage() const {
        const ProgramNode& node = offers_.program().node(of_.node);
        return !samples_.is_read(of_) || offers_.program().array(node.what).is_stage;
    }

    static bool is_open(const OpenEnds& ends) {
        return std::ranges::any_of(ends, [](const OpenSides& of) { return of.below || of.above; });
    }

    ElementIndices index_at(const NodeSample& sample, const std::array<std::int64_t, 2>& to) const {
        ElementIndices index = sample.index;
        for (std::size_t k = 0; k < 2; ++k) index[first_ + k] = std::int32_t(origin(sample, k) + to[k]);
        return index;
    }

    /// Whether the row, or the column, is behind the last one of the array.
    bool is_behind(const ElementIndices& index, std::size_t k) const {
        return index[first_ + k] >= samples_.call().extents[std::size_t(axes_[k])];
    }

    /// Whether all of these that tell something need that number.
    bool is_number_of(const std::vector<std::size_t>& places, double number) const {
        std::int64_t telling = 0;
        for (const std::size_t i : places) {
            if (!of_.samples[i].is_wrong) continue;
            if (!of_.samples[i].agrees(number)) return false;
            ++telling;
        }
        return telling > 0;
    }

    int read_at(const std::array<int, 2>& nodes) {
        if (!samples_.is_read(of_)) return offers_.build().at_indices(of_.node, axes_, nodes);
        ProgramNode read = offers_.program().node(of_.node);
        std::ranges::copy(nodes, read.list.begin() + std::ptrdiff_t(first_));
        return offers_.build().add(std::move(read));
    }

    /// An index that is counted within its tile.
    int within_tile(const Expr& expr) {
        ProgramBuilder& build = offers_.build();
        return build.index(expr, [&](Coordinate coordinate) {
            const std::size_t of = coordinate == tile_axes.down ? 0 : 1;
            return is_cut(of) ? build.within_block(axes_[of]) : build.axis(axes_[of]);
        });
    }

    int length_of_row(const Rows& rows) {
        ProgramBuilder& build = offers_.build();
        const ProgramAxis& axis = offers_.program().axes[std::size_t(axes_[1])];
        if (rows.are_of_tile) return build.moved(axis.block, rows.ld - rows.width);
        if (rows.ld == samples_.call().extents[std::size_t(axes_[1])]) return axis.extent;
        return build.whole(rows.ld);
    }

    std::optional<std::array<int, 2>> nodes_of(const Rows& rows, const TilePlace& place,
                                               const OpenEnds& ends) {
        ProgramBuilder& build = offers_.build();
        std::array<int, 2> within{within_tile(place.row), within_tile(place.col)};
        if (within[0] < 0 || within[1] < 0) return std::nullopt;
        int turned = -1;
        if (place.turns_from) {
            const int ld = length_of_row(rows);
            const int from = build.moved(within[1], *place.turns_from * rows.ld);
            turned = build.moved(build.of_two(ProgramOp::quotient, from, ld), -*place.turns_from);
            within[1] = build.of_two(ProgramOp::rest, from, ld);
        }
        const auto with_turns = [&](int row) {
            return turned < 0 ? row : build.of_two(ProgramOp::plus, row, turned);
        };
        within[0] = turned >= 0 && place.row == Expr(0) ? turned : with_turns(within[0]);
        std::array<int, 2> nodes{from_first_of_tile(0, within[0]), from_first_of_tile(1, within[1])};
        if (place.row == Expr(tile_axes.down)) nodes[0] = with_turns(build.axis(axes_[0]));
        for (std::size_t k = 0; k < 2; ++k) {
            const int is_there = within_sides(k, within[k], ends[k]);
            if (is_there >= 0) nodes[k] = build.chosen(nodes[k], is_there, build.whole(-1));
        }
        return nodes;
    }

    /// That an index which is counted within its tile is on none of these sides; -1: there are none.
    int within_sides(std::size_t k, int within, const OpenSides& sides) {
        ProgramBuilder& build = offers_.build();
        const int block = offers_.program().axes[std::size_t(axes_[k])].block;
        return build.both(sides.below ? build.of_two(ProgramOp::at_least, within, build.whole(0)) : -1,
                          sides.above ? build.of_two(ProgramOp::less, within, block) : -1);
    }

    int from_first_of_tile(std::size_t k, int within) {
        if (!is_cut(k)) return within;
        ProgramBuilder& build = offers_.build();
        const int block = offers_.program().axes[std::size_t(axes_[k])].block;
        return build.of_two(ProgramOp::plus, build.of_two(ProgramOp::times, build.block_of(axes_[k]), block),
                            within);
    }

    RewriteOffers& offers_;
    const FormulaSamples& samples_;
    const NodeSamples& of_;
    std::array<int, 2> axes_;
    std::size_t first_;
};

}  // namespace

void offer_tile_maps(RewriteOffers& offers, const NodeSamples& of) {
    const FormulaSamples& samples = offers.samples();
    const std::size_t dimensions = samples.dimensions(of);
    if (dimensions < 2 || of.samples.empty()) return;
    const ProgramNode& node = offers.program().node(of.node);
    std::array<int, 2> axes{};
    for (std::size_t k = 0; k < 2; ++k) {
        const std::size_t dimension = dimensions - 2 + k;
        axes[k] = samples.is_read(of) ? offers.program().axis_of(node.list[dimension]) : of.axes[dimension];
        if (axes[k] < 0 || std::ranges::find(of.axes, axes[k]) == of.axes.end()) return;
    }
    TileMaps(offers, of, axes).offer();
}

}  // namespace tilescope
