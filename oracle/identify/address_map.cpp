#include "oracle/identify/address_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "oracle/identify/effort.h"
#include "oracle/identify/index_formula.h"

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

    double share(const std::function<std::int64_t(std::int64_t, std::int64_t)>& apply) const {
        const auto right = std::ranges::count_if(all_, [&](const AddressSample& sample) {
            return std::ranges::binary_search(sample.sources, apply(sample.row, sample.col));
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

std::string with_offset(std::string text, std::int64_t c) {
    if (c == 0) return text;
    return text + fmt::format(" {} {}", c < 0 ? '-' : '+', c < 0 ? -c : c);
}

/// An offset is whole rows and the longest columns.
std::int64_t nearest_row(std::int64_t c, std::int64_t ld) {
    const std::int64_t rows = c / ld;
    const std::int64_t cols = c % ld;
    return 2 * cols > ld ? rows + 1 : 2 * cols < -ld ? rows - 1 : rows;
}

/// "[row + 2][d - 8]": the offset as whole rows and the nearest columns.
IndexText rows_and_columns(std::int64_t c, std::int64_t ld, const AddressNames& names) {
    const std::int64_t rows = nearest_row(c, ld);
    return {with_offset(std::string(names.row), rows), with_offset(std::string(names.col), c - rows * ld)};
}

IndexText strides_text(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t ld,
                       const AddressNames& names) {
    if (a == ld && b == 1) return rows_and_columns(c, ld, names);
    if (a == 1 && b == ld) return rows_and_columns(c, ld, {names.col, names.row});
    const auto term = [](std::int64_t by, std::string_view name) {
        return by == 1 ? std::string(name) : fmt::format("{} * {}", by, name);
    };
    std::string text = a == 0 ? "" : term(a, names.row);
    if (b != 0) text += (text.empty() ? "" : " + ") + term(b, names.col);
    return {"", with_offset(text.empty() ? "0" : text, c)};
}

using Maps = std::vector<AddressMap>;

Maps by_strides(const Samples& samples, std::int64_t ld, const AddressNames& names, std::size_t /*most*/) {
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
    return {map_of_strides({a, b, *c}, ld, names)};
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

Maps by_rows(const Samples& samples, std::int64_t ld, const AddressNames& names, std::size_t most) {
    auto table = sources_of_lines(
        samples, [](const AddressSample& s) { return s.row; }, [](const AddressSample& s) { return s.col; });
    // In rows where they are whole rows.
    const bool whole = std::ranges::all_of(table, [&](const auto& entry) { return entry.second % ld == 0; });
    if (whole)
        for (auto& [row, source] : table) source /= ld;
    Maps maps;
    for (const IndexFormula& formula : describe_indices(table, names.row, most)) {
        AddressMap map;
        map.parameters = formula.parameters;
        const std::int64_t by = whole ? ld : 1;
        map.apply = [by, of = formula.apply](std::int64_t row, std::int64_t col) {
            return by * of(row) + col;
        };
        if (whole) map.row_of = [of = formula.apply](std::int64_t row, std::int64_t) { return of(row); };
        map.index = whole ? IndexText{formula.text, std::string(names.col)}
                          : IndexText{"", fmt::format("{} + {}", formula.text, names.col)};
        maps.push_back(std::move(map));
    }
    return maps;
}

Maps by_columns(const Samples& samples, std::int64_t ld, const AddressNames& names, std::size_t most) {
    const auto table = sources_of_lines(
        samples, [](const AddressSample& s) { return s.col; },
        [&](const AddressSample& s) { return ld * s.row; });
    Maps maps;
    for (const IndexFormula& formula : describe_indices(table, names.col, most)) {
        AddressMap map;
        map.parameters = formula.parameters;
        map.apply = [ld, of = formula.apply](std::int64_t row, std::int64_t col) {
            return ld * row + of(col);
        };
        map.row_of = [](std::int64_t row, std::int64_t) { return row; };
        map.index = {std::string(names.row), formula.text};
        maps.push_back(std::move(map));
    }
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

std::string bits_text(const BitTable& table, std::string_view name) {
    std::string text;
    for (const auto& [bit, change] : table) text += fmt::format(" ^ ({} & {} ? {} : 0)", name, bit, change);
    return text;
}

/// Bits of a coordinate that are moved by the same number of places, as an index has them: "(row & 6) << 2".
struct MovedBits {
    std::string_view name;
    int by = 0;
    std::int64_t mask = 0;
    std::int64_t all = 0;  ///< bits of the coordinate

    bool is_whole() const { return by == 0 && mask == all; }
    std::string text() const {
        const std::string bits = mask == all ? std::string(name) : fmt::format("({} & {})", name, mask);
        return by == 0 ? bits : fmt::format("{} {} {}", bits, by > 0 ? "<<" : ">>", std::abs(by));
    }
};

/// Of one number of an index, `part` of what each bit changes of the address.
std::vector<MovedBits> moved_bits(const BitTable& table, std::string_view name,
                                  const std::function<std::int64_t(std::int64_t)>& part) {
    std::map<int, MovedBits> moved;
    std::int64_t all = 0;
    for (const auto& [bit, change] : table) {
        all |= bit;
        for (auto left = std::uint64_t(part(change)); left != 0; left &= left - 1) {
            const int by = std::countr_zero(left) - std::countr_zero(std::uint64_t(bit));
            moved.try_emplace(by, MovedBits{name, by}).first->second.mask |= bit;
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
std::string number_of_bits(const std::vector<MovedBits>& own, const std::vector<MovedBits>& other,
                           std::int64_t c, int& parameters) {
    std::string text;
    const auto add = [&](const std::string& more) { text += (text.empty() ? "" : " ^ ") + more; };
    for (const std::vector<MovedBits>* groups : {&own, &other}) {
        for (const MovedBits& group : *groups) {
            add(group.text());
            if (groups == &other || !group.is_whole()) parameters += 2;
        }
    }
    if (c != 0) {
        add(std::to_string(c));
        ++parameters;
    }
    return text.empty() ? "0" : text;
}

/// Of rows whose length is a power of two, the bits of row and column by themselves.
void describe_by_bits(const BitTable& rows, const BitTable& cols, std::int64_t c, std::int64_t ld,
                      const AddressNames& names, AddressMap& map) {
    map.parameters = int(rows.size() + cols.size());
    map.index = {"", fmt::format("{}{}{}", c, bits_text(rows, names.row), bits_text(cols, names.col))};
    if (ld <= 0 || !std::has_single_bit(std::uint64_t(ld))) return;
    const auto row_of = [=](std::int64_t change) { return change / ld; };
    const auto col_of = [=](std::int64_t change) { return change % ld; };
    int parameters = 0;
    const std::string row = number_of_bits(moved_bits(rows, names.row, row_of),
                                           moved_bits(cols, names.col, row_of), c / ld, parameters);
    const std::string col = number_of_bits(moved_bits(cols, names.col, col_of),
                                           moved_bits(rows, names.row, col_of), c % ld, parameters);
    map.index = {row, col};
    map.parameters = std::min(map.parameters, parameters);
}

Maps by_bits(const Samples& samples, std::int64_t ld, const AddressNames& names, std::size_t /*most*/) {
    const auto rows = changes_of_bits(samples, &AddressSample::row);
    const auto cols = changes_of_bits(samples, &AddressSample::col);
    if (!rows || !cols) return {};
    // Each bit of a place has its own effect: otherwise it is no exchange of places.
    std::set<std::int64_t> different = {0};
    for (const BitTable* table : {&*rows, &*cols})
        for (const auto& [bit, change] : *table)
            if (!different.insert(change).second) return {};
    const auto linear = [rows = *rows, cols = *cols](std::int64_t row, std::int64_t col) {
        std::int64_t address = 0;
        for (const auto& [bit, change] : rows) address ^= row & bit ? change : 0;
        for (const auto& [bit, change] : cols) address ^= col & bit ? change : 0;
        return address;
    };
    const auto c = samples.constant([&](const AddressSample& sample, std::int64_t source) {
        return source ^ linear(sample.row, sample.col);
    });
    if (!c) return {};
    AddressMap map;
    describe_by_bits(*rows, *cols, *c, ld, names, map);
    map.apply = [=, c = *c](std::int64_t row, std::int64_t col) { return linear(row, col) ^ c; };
    return {map};
}

}  // namespace

AddressMap map_of_strides(const Strides& strides, std::int64_t ld, const AddressNames& names) {
    const auto [a, b, c] = strides;
    AddressMap map;
    map.strides = strides;
    map.ld = ld;
    map.parameters = (a != ld && a != 1) + (b != ld && b != 1) + (c != 0);
    map.apply = [=](std::int64_t row, std::int64_t col) { return a * row + b * col + c; };
    map.index = strides_text(a, b, c, ld, names);
    const std::int64_t rows = nearest_row(c, ld);
    if (a == ld && b == 1) map.row_of = [rows](std::int64_t row, std::int64_t) { return row + rows; };
    if (a == 1 && b == ld) map.row_of = [rows](std::int64_t, std::int64_t col) { return col + rows; };
    return map;
}

AddressMap in_rows_of(const AddressMap& map, std::int64_t ld) {
    AddressMap other = map;
    if (!map.row_of || map.ld == ld) return other;
    other.ld = ld;
    other.apply = [apply = map.apply, row_of = map.row_of, was = map.ld, ld](std::int64_t row,
                                                                             std::int64_t col) {
        const std::int64_t of = row_of(row, col);
        return of * ld + apply(row, col) - of * was;
    };
    return other;
}

bool stays_inside(const AddressMap& map, std::int64_t row, std::int64_t col, std::int64_t rows,
                  std::int64_t ld) {
    const std::int64_t address = map.apply(row, col);
    if (address < 0 || address >= rows * ld) return false;
    return !map.row_of || map.row_of(row, col) == address / ld;
}

std::optional<AddressMap> find_address_map(std::span<const AddressSample> samples, std::int64_t ld,
                                           const AddressNames& names) {
    std::vector<AddressMap> maps = find_address_maps(samples, ld, names, 1);
    if (maps.empty()) return std::nullopt;
    return std::move(maps.front());
}

std::vector<AddressMap> find_address_maps(std::span<const AddressSample> all, std::int64_t ld,
                                          const AddressNames& names, std::size_t most) {
    std::vector<AddressSample> known(all.begin(), all.end());
    std::erase_if(known, [](const AddressSample& sample) { return sample.sources.empty(); });
    if (known.size() < fewest_samples || 2 * known.size() < all.size()) return {};
    const Samples samples(known);
    std::vector<AddressMap> maps;
    for (const auto find : {by_strides, by_rows, by_columns, by_bits}) {
        for (AddressMap& map : find(samples, ld, names, most)) {
            if (maps.size() == most || samples.share(map.apply) < enough_samples) continue;
            map.ld = ld;
            maps.push_back(std::move(map));
        }
        if (maps.size() == most) break;
    }
    return maps;
}

}  // namespace tilescope
