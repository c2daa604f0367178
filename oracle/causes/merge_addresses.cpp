#include "oracle/causes/merge_addresses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oracle/describe/edits.h"

namespace tilescope {

namespace {

/// The numbers of an address, and how far apart splits and rows are.
struct ReadAddress {
    Expr split = Coordinate::split;
    Expr row = Coordinate::row;
    Expr element;
    Expr rows;
    Expr elements;
    bool has_elements = false;

    Expr expr() const {
        const Expr state = split * rows + row;
        return has_elements ? state * elements + element : state;
    }
};

ReadAddress own_address(const MergedArray& array) {
    ReadAddress own;
    own.element = array.element;
    own.rows = array.rows;
    own.elements = array.elements;
    own.has_elements = array.element != Coordinate::nothing;
    return own;
}

/// A number of the address that counts something.
struct CountedNumber {
    CoordinateRange range;
    Expr ReadAddress::*part;
};

std::vector<CountedNumber> numbers_of(const MergedArray& array) {
    std::vector<CountedNumber> numbers;
    if (array.splits > 1) numbers.push_back({{Coordinate::split, array.splits}, &ReadAddress::split});
    numbers.push_back({{Coordinate::row, array.rows}, &ReadAddress::row});
    if (array.element != Coordinate::nothing)
        numbers.push_back({{array.element, array.elements}, &ReadAddress::element});
    return numbers;
}

/// Collects addresses that are otherwise than the own one of an array.
struct OtherAddresses {
    ReadAddress own;
    std::vector<MergeAddress> all{};

    void add(OtherRead kind, Expr ReadAddress::*part, const Expr& instead,
             Coordinate of = Coordinate::nothing) {
        ReadAddress next = own;
        next.*part = instead;
        all.push_back({next.expr(), kind, of, instead});
    }
};

void add_edits(const CountedNumber& number, OtherAddresses& addresses) {
    for (const Expr& edit : edits_of(number.range, number.range.length))
        addresses.add(OtherRead::number, number.part, edit, number.range.coordinate);
}

/// Another number in the place of this one, or its low bits beside it.
void add_others(const CountedNumber& number, bool swizzled, OtherAddresses& addresses) {
    const Coordinate own = number.range.coordinate;
    for (const Coordinate other : {Coordinate::split, Coordinate::row, Coordinate::query, Coordinate::head}) {
        if (other == own) continue;
        if (!swizzled) {
            addresses.add(OtherRead::coordinate, number.part, other, own);
            continue;
        }
        for (const std::int64_t bits : {1, 3, 7, 15, 2, 4, 8, 16})
            addresses.add(OtherRead::number, number.part, Expr(own) ^ (Expr(other) & bits), own);
    }
}

void add_exchanged(const std::vector<CountedNumber>& numbers, OtherAddresses& addresses) {
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
        for (std::size_t j = i + 1; j < numbers.size(); ++j) {
            ReadAddress next = addresses.own;
            std::swap(next.*numbers[i].part, next.*numbers[j].part);
            addresses.all.push_back({next.expr(), OtherRead::exchanged, numbers[i].range.coordinate,
                                     numbers[j].range.coordinate});
        }
    }
}

void add_distance(const MergedArray& array, const Expr& distance, std::int64_t now,
                  OtherAddresses& addresses) {
    if (array.splits > 1 && now != array.rows)
        addresses.add(OtherRead::splits_apart, &ReadAddress::rows, distance);
    if (array.element != Coordinate::nothing && now != array.elements)
        addresses.add(OtherRead::rows_apart, &ReadAddress::elements, distance);
}

}  // namespace

std::vector<MergeAddress> merge_addresses(const Problem& problem, const MergedArray& array) {
    OtherAddresses addresses{own_address(array)};
    const std::vector<CountedNumber> numbers = numbers_of(array);
    for (const CountedNumber& number : numbers) {
        add_others(number, false, addresses);
        add_edits(number, addresses);
    }
    for (const CountedNumber& number : numbers) add_others(number, true, addresses);
    add_exchanged(numbers, addresses);
    const Place extents = Place::in(problem);
    for (const Coordinate extent : {Coordinate::seqlen_q, Coordinate::seqlen_kv, Coordinate::block_n,
                                    Coordinate::head_dim, Coordinate::head_dim_v})
        add_distance(array, extent, extents[extent], addresses);
    for (std::int64_t n = 0; n <= 2 * std::max(array.rows, array.elements); ++n)
        add_distance(array, n, n, addresses);
    return std::move(addresses.all);
}

std::string MergeAddress::text() const {
    const std::string_view own = coordinate_name(of);
    switch (kind) {
        case OtherRead::number:
            return instead.choices() == 0 ? fmt::format("of {} {}", own, instead.text())
                                          : "of " + instead.text();
        case OtherRead::coordinate:
            return fmt::format("with {} for {}", instead.text(), own);
        case OtherRead::exchanged:
            return fmt::format("with {} and {} exchanged", own, instead.text());
        case OtherRead::splits_apart:
            return fmt::format("with splits {} rows apart", instead.text());
        case OtherRead::rows_apart:
            return fmt::format("with rows {} apart", instead.text());
    }
    return {};
}

int MergeAddress::choices() const {
    const bool is_distance = kind == OtherRead::splits_apart || kind == OtherRead::rows_apart;
    return is_distance ? int(instead.is_number()) : instead.choices();
}

}  // namespace tilescope
