#include "oracle/identify/array_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "oracle/identify/effort.h"

namespace tilescope {

namespace {

using Form = IndexPart::Form;
using Made = ArrayIndex::Made;

std::int64_t number_in(IndexNumbers numbers, ArrayNumber number) {
    return numbers[std::size_t(number)];
}

/// Arrays of the same dimensions in another order. The extent of the first one is the last of `extents`.
void add_layouts(std::size_t extents, std::vector<ArrayIndex>& all) {
    std::array<std::uint8_t, 4> order = {0, 1, 2, 3};
    while (std::next_permutation(order.begin(), order.end())) {
        ArrayIndex next;
        for (std::size_t level = 0; level < order.size(); ++level) {
            const std::uint8_t of = order[level];
            next.parts[level].name = of;
            if (level > 0) next.extents[level - 1].name = std::uint8_t(of > 0 ? of - 1 : extents - 1);
        }
        next.is_layout = true;
        all.push_back(next);
    }
}

std::vector<ArrayIndex> other_array_indices(std::span<const std::int64_t> lengths, std::size_t extents,
                                            ArrayNumber tile) {
    constexpr std::int64_t most_more = 16;
    std::vector<ArrayIndex> all;
    for (std::uint8_t level = 0; level < 4; ++level) {
        for (const IndexPart& part : other_index_parts(level, lengths)) {
            ArrayIndex next;
            next.parts[level] = part;
            all.push_back(next);
        }
    }
    const auto add_made = [&](Made made, std::size_t level, ArrayNumber of) {
        for (const IndexPart& part : other_index_parts(std::uint8_t(of), lengths)) {
            ArrayIndex next;
            next.parts[level] = part;
            next.made = made;
            all.push_back(next);
        }
    };
    add_made(Made::of_group, 1, ArrayNumber::head);
    add_made(Made::of_row, 2, ArrayNumber::row);
    add_made(Made::of_tile, 2, tile);
    ArrayIndex exchanged;
    exchanged.made = Made::of_tile;
    exchanged.parts[2].name = std::uint8_t(ArrayNumber::row);
    exchanged.added = tile;
    all.push_back(exchanged);
    for (std::uint8_t level = 0; level < 3; ++level) {
        const auto add = [&](const ArrayIndex::Extent& extent) {
            ArrayIndex next;
            next.extents[level] = extent;
            all.push_back(next);
        };
        for (std::uint8_t name = 0; name < extents; ++name)
            if (name != level) add({name});
        for (std::int64_t n = 1; n <= most_more; ++n)
            for (const std::int64_t by : {n, -n}) add({level, by});
    }
    for (std::uint8_t first = 0; first < 4; ++first) {
        for (std::uint8_t second = first + 1; second < 4; ++second) {
            ArrayIndex next;
            std::swap(next.parts[first], next.parts[second]);
            all.push_back(next);
        }
    }
    add_layouts(extents, all);
    return all;
}

/// Whether nearly all elements that tell have it so.
bool is_agreed_on(const ArrayIndex& index, std::span<const ArrayElement> elements, std::int64_t size,
                  std::span<const std::int64_t> extents) {
    constexpr std::size_t least = 8;
    std::size_t tried = 0;
    std::size_t off = 0;
    for (const ArrayElement& element : elements) {
        spend(64);
        const std::int64_t at = index.of(element.numbers, extents);
        if (at < 0 || at >= size) continue;
        ++tried;
        off += !element.holds(at);
        if (off * 8 > tried) return false;
    }
    return tried >= least;
}

}  // namespace

std::int64_t ArrayIndex::of(IndexNumbers numbers, std::span<const std::int64_t> extents_there) const {
    std::int64_t at = parts[0].of(numbers);
    for (std::size_t level = 0; level < extents.size(); ++level) {
        std::int64_t part = parts[level + 1].of(numbers);
        if (level == 0 && made == Made::of_group) part /= number_in(numbers, ArrayNumber::group);
        if (level == 1 && made == Made::of_row) part += number_in(numbers, ArrayNumber::first_row);
        if (level == 1 && made == Made::of_tile)
            part = part * number_in(numbers, ArrayNumber::block) + number_in(numbers, added);
        at = at * (extents_there[extents[level].name] + extents[level].plus) + part;
    }
    return at;
}

std::string ArrayIndex::text(IndexNames numbers, IndexNames names_of_extents) const {
    std::string text;
    if (is_layout) {
        for (const IndexPart& part : parts) text += fmt::format("[{}]", part.text(numbers));
        return text;
    }
    const auto add = [&](const std::string& is, std::string_view right) {
        text += fmt::format("{}{} in place of {}", text.empty() ? "" : ", ", is, right);
    };
    for (std::size_t level = 0; level < parts.size(); ++level)
        if (level == 1 && made == Made::of_group) {
            add(fmt::format("({}) / group", parts[level].text(numbers)), numbers[level]);
        } else if (level == 2 && made == Made::of_row) {
            add(parts[level].text(numbers), "row");
        } else if (level == 2 && made == Made::of_tile) {
            add(parts[level].text(numbers), "tile");
            if (added != ArrayNumber::row) add(std::string(numbers[std::size_t(added)]), "row");
        } else if (parts[level].form != Form::same || parts[level].name != level) {
            add(parts[level].text(numbers), numbers[level]);
        }
    for (std::size_t level = 0; level < extents.size(); ++level) {
        const auto& [name, plus] = extents[level];
        if (extents[level] == Extent{std::uint8_t(level)}) continue;
        const std::string_view extent = names_of_extents[name];
        add(plus == 0  ? std::string(extent)
            : plus < 0 ? fmt::format("{} - {}", extent, -plus)
                       : fmt::format("{} + {}", extent, plus),
            names_of_extents[level]);
    }
    return text;
}

int ArrayIndex::parameters() const {
    if (is_layout) return 0;
    int all = 0;
    for (const IndexPart& part : parts) all += part.parameters();
    for (const Extent& extent : extents) all += extent.plus != 0;
    // Another tile has a name of its own.
    return std::max(all, 1) + int(made == Made::of_tile);
}

std::vector<ArrayIndex> find_array_indices(std::span<const ArrayElement> elements, std::int64_t size,
                                           std::span<const std::int64_t> lengths,
                                           std::span<const std::int64_t> extents, ArrayNumber tile,
                                           std::size_t most) {
    std::vector<ArrayIndex> found;
    for (const ArrayIndex& index : other_array_indices(lengths, extents.size(), tile))
        if (is_agreed_on(index, elements, size, extents)) found.push_back(index);
    std::ranges::stable_sort(found, {}, &ArrayIndex::parameters);
    if (found.size() > most) found.resize(most);
    return found;
}

}  // namespace tilescope
