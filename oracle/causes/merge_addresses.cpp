#include "oracle/causes/merge_addresses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oracle/identify/index_forms.h"

namespace tilescope {

namespace {

/// A number that a place has.
struct Coordinate {
    std::string name;
    std::int64_t MergePlace::*member;
    std::int64_t extent = 0;
};

std::vector<Coordinate> coordinates_of(const MergedArray& array) {
    std::vector<Coordinate> coordinates;
    if (array.splits > 1) coordinates.push_back({"split", &MergePlace::split, array.splits});
    coordinates.push_back({"row", &MergePlace::row, array.rows});
    if (!array.element.empty()) coordinates.push_back({array.element, &MergePlace::element, array.elements});
    return coordinates;
}

std::vector<Coordinate> other_coordinates(const Coordinate& than) {
    std::vector<Coordinate> others;
    for (const Coordinate& other : {Coordinate{"split", &MergePlace::split},
                                    {"row", &MergePlace::row},
                                    {"query", &MergePlace::query},
                                    {"head", &MergePlace::head}})
        if (other.name != than.name) others.push_back(other);
    return others;
}

std::int64_t address_in(const MergedArray& array, const MergePlace& at) {
    const std::int64_t state = at.split * array.rows + at.row;
    return array.element.empty() ? state : state * array.elements + at.element;
}

void add_replaced(const MergedArray& array, const Coordinate& of, const std::string& text, int numbers,
                  const MergeNumber& instead, std::vector<MergeAddress>& addresses) {
    addresses.push_back({text,
                         [=, member = of.member](MergePlace at) {
                             at.*member = instead(at);
                             return address_in(array, at);
                         },
                         numbers});
}

void add_forms(const MergedArray& array, const Coordinate& of, std::vector<MergeAddress>& addresses) {
    for (const IndexFormula& form : index_forms(of.name, of.extent))
        add_replaced(
            array, of, "of " + (form.parameters == 0 ? of.name + " " : "") + form.text, form.parameters,
            [form, member = of.member](const MergePlace& at) { return form.apply(at.*member); }, addresses);
}

/// Another name in the place of this one.
void add_names(const MergedArray& array, const Coordinate& of, std::vector<MergeAddress>& addresses) {
    for (const Coordinate& other : other_coordinates(of))
        add_replaced(
            array, of, fmt::format("with {} for {}", other.name, of.name), 0,
            [from = other.member](const MergePlace& at) { return at.*from; }, addresses);
}

/// The low bits of another name beside it.
void add_swizzles(const MergedArray& array, const Coordinate& of, std::vector<MergeAddress>& addresses) {
    for (const Coordinate& other : other_coordinates(of))
        for (const std::int64_t bits : {1, 3, 7, 15, 2, 4, 8, 16})
            add_replaced(
                array, of, fmt::format("of {} ^ ({} & {})", of.name, other.name, bits), 1,
                [=, own = of.member, from = other.member](const MergePlace& at) {
                    return at.*own ^ (at.*from & bits);
                },
                addresses);
}

void add_exchanged(const MergedArray& array, std::vector<MergeAddress>& addresses) {
    const std::vector<Coordinate> coordinates = coordinates_of(array);
    for (std::size_t i = 0; i + 1 < coordinates.size(); ++i) {
        for (std::size_t j = i + 1; j < coordinates.size(); ++j) {
            const auto a = coordinates[i].member;
            const auto b = coordinates[j].member;
            addresses.push_back(
                {fmt::format("with {} and {} exchanged", coordinates[i].name, coordinates[j].name),
                 [=](MergePlace at) {
                     std::swap(at.*a, at.*b);
                     return address_in(array, at);
                 }});
        }
    }
}

MergedArray with_rows(MergedArray array, std::int64_t rows) {
    array.rows = rows;
    return array;
}

MergedArray with_elements(MergedArray array, std::int64_t elements) {
    array.elements = elements;
    return array;
}

void add_distance(const MergedArray& array, const std::string& name, std::int64_t distance, int numbers,
                  std::vector<MergeAddress>& addresses) {
    if (array.splits > 1 && distance != array.rows)
        addresses.push_back(
            {fmt::format("with splits {} rows apart", name),
             [array = with_rows(array, distance)](const MergePlace& at) { return address_in(array, at); },
             numbers});
    if (!array.element.empty() && distance != array.elements)
        addresses.push_back(
            {fmt::format("with rows {} apart", name),
             [array = with_elements(array, distance)](const MergePlace& at) { return address_in(array, at); },
             numbers});
}

}  // namespace

std::vector<MergeAddress> merge_addresses(const Problem& problem, const MergedArray& array) {
    std::vector<MergeAddress> addresses;
    for (const Coordinate& of : coordinates_of(array)) {
        add_names(array, of, addresses);
        add_forms(array, of, addresses);
    }
    for (const Coordinate& of : coordinates_of(array)) add_swizzles(array, of, addresses);
    add_exchanged(array, addresses);
    for (const auto& [name, distance] : {std::pair<const char*, std::int64_t>{"seqlen_q", problem.seqlen_q},
                                         {"seqlen_kv", problem.seqlen_kv},
                                         {"block_n", problem.block_n},
                                         {"head_dim", problem.head_dim},
                                         {"head_dim_v", problem.head_dim_v}})
        add_distance(array, name, distance, 0, addresses);
    for (std::int64_t n = 0; n <= 2 * std::max(array.rows, array.elements); ++n)
        add_distance(array, std::to_string(n), n, 1, addresses);
    return addresses;
}

}  // namespace tilescope
