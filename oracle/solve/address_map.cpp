#include "oracle/solve/address_map.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "oracle/solve/effort.h"
#include "oracle/solve/fitted_index.h"

namespace tilescope {

namespace {

/// Share of the samples that a map has to explain: others may have been saturated, or come from beyond the array.
constexpr double enough_samples = 0.85;
/// Fewer tell no map.
constexpr std::size_t fewest_samples = 12;
/// Pairs of samples that vote for a stride.
constexpr int most_pairs = 96;

using Votes = std::unordered_map<std::int64_t, int>;

/// The number with most votes, the smallest of several; nullopt where fewer than `least` agree.
std::optional<std::int64_t> elected(const Votes& votes, int least) {
    std::pair<int, std::int64_t> best = {0, 0};
    for (const auto& [number, count] : votes) {
        const bool nearer = count == best.first && std::abs(number) < std::abs(best.second);
        if (count > best.first || nearer) best = {count, number};
    }
    if (best.first < least) return std::nullopt;
    return best.second;
}

/// Samples by their place.
class Samples {
 public:
    explicit Samples(std::span<const AddressSample> all) : all_(all) {
        spend(64 * std::ssize(all));
        for (const AddressSample& sample : all) at_[{sample.row, sample.col}] = &sample;
    }

    /// Whether all samples have the same row, or the same column.
    bool is_one(std::int64_t AddressSample::*coordinate) const {
        return std::ranges::all_of(all_, [&](const AddressSample& sample) {
            return sample.*coordinate == all_.front().*coordinate;
        });
    }

    /// What most pairs of samples say whose places differ so; `combine` of their addresses.
    template <class Other, class Combine>
    std::optional<std::int64_t> difference(const Other& other_place, const Combine& combine) const {
        Votes votes;
        int pairs = 0;
        // From everywhere in the tile, not from its first rows alone.
        const std::size_t step = all_.size() / std::size_t(4 * most_pairs) + 1;
        for (std::size_t i = 0; i < all_.size() && pairs < most_pairs; i += step) {
            const auto other = at_.find(other_place(all_[i]));
            if (other == at_.end()) continue;
            ++pairs;
            for (const std::int64_t from : all_[i].sources)
                for (const std::int64_t to : other->second->sources) ++votes[combine(from, to)];
        }
        if (pairs < 4) return std::nullopt;
        return elected(votes, pairs * 2 / 3);
    }

    double share(const AddressMap& map) const {
        const auto right = std::ranges::count_if(all_, [&](const AddressSample& sample) {
            return std::ranges::binary_search(sample.sources, map.apply(sample.row, sample.col));
        });
        return double(right) / double(all_.size());
    }

    /// What most samples say, of `number` of a sample and one of its addresses.
    template <class Number>
    std::optional<std::int64_t> constant(const Number& number) const {
        Votes votes;
        for (const AddressSample& sample : all_) spend(16 * std::ssize(sample.sources));
        for (const AddressSample& sample : all_)
            for (const std::int64_t source : sample.sources) ++votes[number(sample, source)];
        return elected(votes, int(double(all_.size()) * enough_samples));
    }

    std::span<const AddressSample> all() const { return all_; }

 private:
    std::span<const AddressSample> all_;
    std::map<std::pair<std::int64_t, std::int64_t>, const AddressSample*> at_;
};

/// An offset is whole rows and the longest columns.
std::int64_t nearest_row(std::int64_t c, std::int64_t ld) {
    const std::int64_t rows = c / ld;
    const std::int64_t cols = c % ld;
    return 2 * cols > ld ? rows + 1 : 2 * cols < -ld ? rows - 1 : rows;
}

Index in_rows(Expr row, Expr col, std::int64_t ld) {
    return {{std::move(row), std::move(col)}, {Expr(ld)}};
}

/// [row + 2][d - 8]: the offset as whole rows and the nearest columns.
Index rows_and_columns(std::int64_t c, std::int64_t ld, Coordinate row, Coordinate col) {
    const std::int64_t rows = nearest_row(c, ld);
    return in_rows(moved_by(row, rows), moved_by(col, c - rows * ld), ld);
}

Index index_of_strides(const Strides& strides, std::int64_t ld, const TileAxes& axes) {
    const auto [a, b, c] = strides;
    if (a == ld && b == 1) return rows_and_columns(c, ld, axes.down, axes.along);
    if (a == 1 && b == ld) return rows_and_columns(c, ld, axes.along, axes.down);
    const auto term = [](std::int64_t by, Coordinate of) { return by == 1 ? Expr(of) : Expr(by) * of; };
    if (a == 0 && b == 0) return {{Expr(c)}, {}};
    const Expr sum = a == 0   ? term(b, axes.along)
                     : b == 0 ? term(a, axes.down)
                              : term(a, axes.down) + term(b, axes.along);
    return {{moved_by(sum, c)}, {}};
}

using Maps = std::vector<AddressMap>;

Maps by_strides(const Samples& samples, std::int64_t ld, const TileAxes& axes, std::size_t /*most*/) {
    const auto minus = [](std::int64_t from, std::int64_t to) { return to - from; };
    // A single row has no stride from one to the next, and a single column none along the rows.
    const auto down =
        samples.is_one(&AddressSample::row)
            ? std::optional(ld)
            : samples.difference([](const AddressSample& s) { return std::pair(s.row + 1, s.col); }, minus);
    const auto along =
        samples.is_one(&AddressSample::col)
            ? std::optional<std::int64_t>(1)
            : samples.difference([](const AddressSample& s) { return std::pair(s.row, s.col + 1); }, minus);
    if (!down || !along) return {};
    const std::int64_t a = *down;
    const std::int64_t b = *along;
    const auto c = samples.constant([&](const AddressSample& sample, std::int64_t source) {
        return source - a * sample.row - b * sample.col;
    });
    if (!c) return {};
    return {map_of_strides({a, b, *c}, ld, axes)};
}

/// The source of each line (row or column) whose elements agree on one, `rest` being what an element of the line adds.
template <class Line, class Rest>
std::vector<std::pair<std::int64_t, std::int64_t>> sources_of_lines(const Samples& samples, const Line& line,
                                                                    const Rest& rest) {
    std::map<std::int64_t, std::pair<Votes, int>> of_line;
    for (const AddressSample& sample : samples.all()) {
        auto& [votes, elements] = of_line[line(sample)];
        ++elements;
        spend(16 * std::ssize(sample.sources));
        for (const std::int64_t source : sample.sources) ++votes[source - rest(sample)];
    }
    int longest = 1;
    for (const auto& [number, found] : of_line) longest = std::max(longest, found.second);
    std::vector<std::pair<std::int64_t, std::int64_t>> table;
    for (const auto& [number, found] : of_line) {
        const auto& [votes, elements] = found;
        if (elements < std::min(4, longest)) continue;
        if (const auto source = elected(votes, elements * 9 / 10 + 1)) table.emplace_back(number, *source);
    }
    return table;
}

Maps by_rows(const Samples& samples, std::int64_t ld, const TileAxes& axes, std::size_t most) {
    auto table = sources_of_lines(
        samples, [](const AddressSample& s) { return s.row; }, [](const AddressSample& s) { return s.col; });
    // In rows where they are whole rows.
    const bool whole = std::ranges::all_of(table, [&](const auto& entry) { return entry.second % ld == 0; });
    if (whole)
        for (auto& [row, source] : table) source /= ld;
    Maps maps;
    for (const Expr& row : fitted_indices(table, axes.down, most))
        maps.push_back(
            {whole ? in_rows(row, axes.along, ld) : Index{{row + axes.along}, {}}, axes, row.choices()});
    return maps;
}

Maps by_columns(const Samples& samples, std::int64_t ld, const TileAxes& axes, std::size_t most) {
    const auto table = sources_of_lines(
        samples, [](const AddressSample& s) { return s.col; },
        [&](const AddressSample& s) { return ld * s.row; });
    Maps maps;
    for (const Expr& col : fitted_indices(table, axes.along, most))
        maps.push_back({in_rows(axes.down, col, ld), axes, col.choices()});
    return maps;
}

/// The bits that a row or a column has, each with what it changes of the address.
using BitTable = std::vector<std::pair<std::int64_t, std::int64_t>>;

std::optional<BitTable> changes_of_bits(const Samples& samples, std::int64_t AddressSample::*coordinate) {
    std::int64_t most = 0;
    for (const AddressSample& sample : samples.all()) most = std::max(most, sample.*coordinate);
    BitTable table;
    for (std::int64_t bit = 1; bit <= most; bit *= 2) {
        const auto change = samples.difference(
            [&](const AddressSample& sample) {
                AddressSample other{sample.row, sample.col, {}};
                other.*coordinate ^= bit;
                return std::pair(other.row, other.col);
            },
            [](std::int64_t from, std::int64_t to) { return from ^ to; });
        if (!change) return std::nullopt;
        table.emplace_back(bit, *change);
    }
    return table;
}

/// Bits of a coordinate that are moved by the same number of places, as an index has them: (row & 6) << 2.
struct MovedBits {
    Coordinate of = Coordinate::nothing;
    int by = 0;
    std::int64_t mask = 0;
    std::int64_t all = 0;  ///< bits of the coordinate

    bool is_whole() const { return by == 0 && mask == all; }
    Expr expr() const {
        const Expr bits = mask == all ? Expr(of) : Expr(of) & mask;
        return by == 0 ? bits : Expr::of_two(by > 0 ? Op::up : Op::down, bits, std::abs(by));
    }
};

/// The exclusive or of all of them; 0 of none.
class Exclusive {
 public:
    void add(const Expr& more) { all_ = all_ ? *all_ ^ more : more; }
    Expr expr() const { return all_.value_or(0); }

 private:
    std::optional<Expr> all_;
};

/// Of one number of an index, `part` of what each bit changes of the address.
std::vector<MovedBits> moved_bits(const BitTable& table, Coordinate of,
                                  const std::function<std::int64_t(std::int64_t)>& part) {
    std::map<int, MovedBits> moved;
    std::int64_t all = 0;
    for (const auto& [bit, change] : table) {
        all |= bit;
        for (auto left = std::uint64_t(part(change)); left != 0; left &= left - 1) {
            const int by = std::countr_zero(left) - std::countr_zero(std::uint64_t(bit));
            moved.try_emplace(by, MovedBits{of, by}).first->second.mask |= bit;
        }
    }
    std::vector<MovedBits> groups;
    for (auto& [by, group] : moved) {
        group.all = all;
        groups.push_back(group);
    }
    std::ranges::stable_sort(groups, {}, [](const MovedBits& group) { return std::abs(group.by); });
    return groups;
}

/// One number of an index, of the bits of both coordinates.
Expr number_of_bits(const std::vector<MovedBits>& own, const std::vector<MovedBits>& other, std::int64_t c,
                    int& parameters) {
    Exclusive number;
    for (const std::vector<MovedBits>* groups : {&own, &other}) {
        for (const MovedBits& group : *groups) {
            number.add(group.expr());
            if (groups == &other || !group.is_whole()) parameters += 2;
        }
    }
    if (c != 0) {
        number.add(c);
        ++parameters;
    }
    return number.expr();
}

/// Of rows whose length is a power of two, the bits of row and column by themselves.
AddressMap map_of_bits(const BitTable& rows, const BitTable& cols, std::int64_t c, std::int64_t ld,
                       const TileAxes& axes) {
    AddressMap map{{}, axes, int(rows.size() + cols.size())};
    const auto is_outside = [](const auto& entry) { return entry.second < 0; };
    if (c < 0 || ld <= 0 || !std::has_single_bit(std::uint64_t(ld)) ||
        std::ranges::any_of(rows, is_outside) || std::ranges::any_of(cols, is_outside)) {
        Exclusive address;
        if (c != 0) address.add(c);
        for (const auto& [bit, change] : rows) address.add(Expr::changed(Op::if_bit, axes.down, bit, change));
        for (const auto& [bit, change] : cols)
            address.add(Expr::changed(Op::if_bit, axes.along, bit, change));
        map.index = {{address.expr()}, {}};
        return map;
    }
    const auto row_of = [=](std::int64_t change) { return change / ld; };
    const auto col_of = [=](std::int64_t change) { return change % ld; };
    int parameters = 0;
    const Expr row = number_of_bits(moved_bits(rows, axes.down, row_of), moved_bits(cols, axes.along, row_of),
                                    c / ld, parameters);
    const Expr col = number_of_bits(moved_bits(cols, axes.along, col_of), moved_bits(rows, axes.down, col_of),
                                    c % ld, parameters);
    map.index = in_rows(row, col, ld);
    map.parameters = std::min(map.parameters, parameters);
    return map;
}

Maps by_bits(const Samples& samples, std::int64_t ld, const TileAxes& axes, std::size_t /*most*/) {
    const auto rows = changes_of_bits(samples, &AddressSample::row);
    const auto cols = changes_of_bits(samples, &AddressSample::col);
    if (!rows || !cols) return {};
    // Each bit of a place has its own effect: otherwise it is no exchange of places.
    std::set<std::int64_t> different = {0};
    for (const BitTable* table : {&*rows, &*cols})
        for (const auto& [bit, change] : *table)
            if (!different.insert(change).second) return {};
    const auto c = samples.constant([&](const AddressSample& sample, std::int64_t source) {
        std::int64_t address = source;
        for (const auto& [bit, change] : *rows) address ^= (sample.row & bit) != 0 ? change : 0;
        for (const auto& [bit, change] : *cols) address ^= (sample.col & bit) != 0 ? change : 0;
        return address;
    });
    if (!c) return {};
    return {map_of_bits(*rows, *cols, *c, ld, axes)};
}

}  // namespace

AddressMap map_of_strides(const Strides& strides, std::int64_t ld, const TileAxes& axes) {
    const auto [a, b, c] = strides;
    return {index_of_strides(strides, ld, axes), axes, (a != ld && a != 1) + (b != ld && b != 1) + (c != 0),
            strides};
}

AddressMap in_rows_of(const AddressMap& map, std::int64_t ld) {
    AddressMap other = map;
    if (map.has_rows()) other.index.extents[0] = ld;
    return other;
}

std::optional<AddressMap> find_address_map(std::span<const AddressSample> samples, std::int64_t ld,
                                           const TileAxes& axes) {
    std::vector<AddressMap> maps = find_address_maps(samples, ld, axes, 1);
    if (maps.empty()) return std::nullopt;
    return std::move(maps.front());
}

std::vector<AddressMap> find_address_maps(std::span<const AddressSample> all, std::int64_t ld,
                                          const TileAxes& axes, std::size_t most) {
    std::vector<AddressSample> known(all.begin(), all.end());
    std::erase_if(known, [](const AddressSample& sample) { return sample.sources.empty(); });
    if (known.size() < fewest_samples || 2 * known.size() < all.size()) return {};
    const Samples samples(known);
    std::vector<AddressMap> maps;
    for (const auto find : {by_strides, by_rows, by_columns, by_bits}) {
        for (AddressMap& map : find(samples, ld, axes, most)) {
            if (maps.size() == most || samples.share(map) < enough_samples) continue;
            maps.push_back(std::move(map));
        }
        if (maps.size() == most) break;
    }
    return maps;
}

}  // namespace tilescope
