// What is read out of numbers and places alone: rules, formulas, addresses, and unknowns of equations.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "oracle/describe/bits.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/factor_function.h"
#include "oracle/solve/fitted_index.h"
#include "oracle/solve/least_squares.h"
#include "oracle/solve/place_rule.h"
#include "oracle/solve/value_index.h"

namespace tilescope::test {
namespace {

constexpr std::array<std::string_view, 3> names = {"tile", "row", "col"};

/// Four tiles of 32 x 16.
std::vector<LabelledPlace> places_where(const std::function<bool(int, int, int)>& inside) {
    std::vector<LabelledPlace> places;
    for (int tile = 0; tile < 4; ++tile)
        for (int row = 0; row < 32; ++row)
            for (int col = 0; col < 16; ++col) {
                LabelledPlace place;
                place.at = {tile, row, col};
                place.inside = inside(tile, row, col);
                places.push_back(place);
            }
    return places;
}

std::string rule_of(const std::function<bool(int, int, int)>& inside, std::int64_t most_wrong = 0) {
    const auto rule = find_place_rule(places_where(inside), names.size(), most_wrong);
    return rule ? rule->text(names) : "";
}

TEST(PlaceRule, IsTheShortest) {
    EXPECT_EQ(rule_of([](int tile, int, int) { return tile == 2; }), "tile == 2");
    EXPECT_EQ(rule_of([](int, int row, int) { return row >= 20; }), "row >= 20");
    EXPECT_EQ(rule_of([](int, int row, int) { return row < 5; }), "row < 5");
    EXPECT_EQ(rule_of([](int, int row, int) { return row % 4 == 1; }), "row % 4 == 1");
    EXPECT_EQ(rule_of([](int, int, int col) { return col / 4 % 2 == 1; }), "col % 8 >= 4");
    EXPECT_EQ(rule_of([](int, int row, int) { return row >= 8 && row < 12; }), "8 <= row < 12");
    EXPECT_EQ(rule_of([](int tile, int row, int) { return tile > 0 && row % 8 == 3; }),
              "tile >= 1 and row % 8 == 3");
}

/// Of bounds that hold the rounder one, counted from where it is less.
TEST(PlaceRule, CountsFromTheEnd) {
    const auto rule_to_end = [](std::int64_t first, std::int64_t count) {
        std::vector<LabelledPlace> places;
        for (std::int32_t key = 0; key < count; ++key) {
            LabelledPlace place;
            place.at = {key};
            place.inside = key >= first;
            places.push_back(place);
        }
        const auto rule = find_place_rule(places, 1, 0, {count});
        return rule ? rule->conditions.front().text("key", "seqlen_kv") : "";
    };
    EXPECT_EQ(rule_to_end(17, 25), "key >= seqlen_kv - 8");
    EXPECT_EQ(rule_to_end(24, 25), "key >= seqlen_kv - 1");
    EXPECT_EQ(rule_to_end(16, 25), "key >= 16");
}

/// No value of any coordinate has more places inside than may be wrong.
TEST(PlaceRule, OfFewPlacesEverywhereIsNone) {
    const auto inside = [](int tile, int row, int col) {
        return tile == col % 4 && row == (5 * col + 3) % 24;
    };
    for (const std::int64_t most_wrong : {0, 4, 8, 12}) EXPECT_EQ(rule_of(inside, most_wrong), "");
}

/// One place of another row, and one of another column, are inside by chance.
TEST(PlaceRule, OfTwoConditionsLeavesOutWhatIsInsideByChance) {
    const auto inside = [](int tile, int row, int col) {
        const bool by_chance = (tile == 3 && row == 4 && col == 7) || (tile == 0 && row == 6 && col == 2);
        return by_chance || (tile == 1 && row % 4 == 1);
    };
    EXPECT_EQ(rule_of(inside, 4), "tile == 1 and row % 4 == 1");
}

TEST(PlaceRule, IsNoneWhereNoneIsShort) {
    EXPECT_EQ(rule_of([](int, int, int) { return true; }), "");
    EXPECT_EQ(rule_of([](int, int, int) { return false; }), "");
    std::mt19937 draw(7);
    EXPECT_EQ(rule_of([&](int, int, int) { return draw() % 3 == 0; }), "");
}

TEST(PlaceRule, MayBeWrongOfAFew) {
    const auto inside = [](int tile, int row, int col) {
        return row % 4 == 1 && !(tile == 0 && row == 1 && col == 0);
    };
    EXPECT_EQ(rule_of(inside, 0), "");
    EXPECT_EQ(rule_of(inside, 1), "row % 4 == 1");
}

std::string formula_of(const std::function<std::int64_t(std::int64_t)>& y, std::int64_t count = 32) {
    std::vector<std::pair<std::int64_t, std::int64_t>> table;
    for (std::int64_t x = 0; x < count; ++x) table.emplace_back(x, y(x));
    const auto formula = fitted_index(table, Coordinate::row);
    if (!formula) return "";
    for (const auto& [x, of_x] : table) EXPECT_EQ(formula->at(Coordinate::row, x), of_x) << formula->text();
    return formula->text();
}

TEST(FittedIndex, IsTheShortest) {
    EXPECT_EQ(formula_of([](auto x) { return x + 16; }), "row + 16");
    EXPECT_EQ(formula_of([](auto x) { return 3 * x - 1; }), "3 * row - 1");
    EXPECT_EQ(formula_of([](auto) { return 5; }), "5");
    EXPECT_EQ(formula_of([](auto x) { return x ^ 6; }), "row ^ 6");
    EXPECT_EQ(formula_of([](auto x) { return (x ^ 6) + 8; }), "(row ^ 6) + 8");
    EXPECT_EQ(formula_of([](auto x) { return x % 12; }), "row % 12");
    EXPECT_EQ(formula_of([](auto x) { return x / 4 * 4; }), "row / 4 * 4");
    EXPECT_EQ(formula_of([](auto x) { return std::min<std::int64_t>(x, 9); }), "min(row, 9)");
    // Among powers of two to turn an order around is an exclusive or; it is none among others.
    EXPECT_EQ(formula_of([](auto x) { return x / 8 * 8 + 7 - x % 8; }), "row ^ 7");
    EXPECT_EQ(formula_of([](auto x) { return x / 6 * 6 + 5 - x % 6; }, 24), "row / 6 * 6 + 5 - row % 6");
    EXPECT_EQ(formula_of([](auto x) { return x / 8 * 8 + x * 3 % 8; }), "row / 8 * 8 + 3 * row % 8");
    // Two bits in each other's place.
    EXPECT_EQ(formula_of([](auto x) { return (x & ~std::int64_t(6)) | (x & 2) << 1 | (x & 4) >> 1; }),
              "row with bits 1 and 2 exchanged");
    EXPECT_EQ(formula_of([](auto x) { return (x & ~std::int64_t(7)) | (x & 3) << 1 | (x & 4) >> 2; }),
              "(row & 1 ? 2 : 0) ^ (row & 2 ? 4 : 0) ^ (row & 4 ? 1 : 0) ^ (row & 8 ? 8 : 0) ^ (row & 16 ? "
              "16 : 0)");
}

TEST(FittedIndex, IsNoneOfNoise) {
    std::mt19937 draw(3);
    EXPECT_EQ(formula_of([&](auto) { return std::int64_t(draw() % 32); }), "");
}

/// A tile of 16 x 16 whose elements come from other addresses of an array with rows of 16. The array has few
/// different values, as quantised ones have.
std::string map_of(const std::function<std::int64_t(std::int64_t, std::int64_t)>& address) {
    std::mt19937 draw(11);
    std::vector<double> array(4096);
    for (double& value : array) value = double(draw() % 200) - 99.5;
    constexpr std::int64_t origin = 1024;
    const ValueIndex index(array);
    std::vector<AddressSample> samples;
    for (std::int64_t row = 0; row < 16; ++row)
        for (std::int64_t col = 0; col < 16; ++col) {
            const double value = array[std::size_t(origin + address(row, col))];
            samples.push_back({row, col, index.sources(value, 0, origin)});
        }
    const auto map = find_address_map(samples, 16, {Coordinate::row, Coordinate::d});
    return map ? map->text() : "";
}

TEST(AddressMap, IsReadFromValuesThatRepeat) {
    EXPECT_EQ(map_of([](auto row, auto d) { return 16 * row + d; }), "[row][d]");
    EXPECT_EQ(map_of([](auto row, auto d) { return 16 * (row + 2) + d - 3; }), "[row + 2][d - 3]");
    EXPECT_EQ(map_of([](auto row, auto d) { return 16 * d + row; }), "[d][row]");
    EXPECT_EQ(map_of([](auto row, auto d) { return 24 * row + d; }), "[24 * row + d]");
    EXPECT_EQ(map_of([](auto row, auto d) { return 16 * (row ^ 5) + d; }), "[row ^ 5][d]");
    EXPECT_EQ(map_of([](auto row, auto d) { return 16 * row + (d ^ 12); }), "[row][d ^ 12]");
    EXPECT_EQ(map_of([](auto row, auto d) { return 16 * std::min<std::int64_t>(row, 11) + d; }),
              "[min(row, 11)][d]");
    // A swizzle: the row's lower bits are added, without carry, to those of the column.
    EXPECT_EQ(map_of([](auto row, auto d) { return 16 * row + (d ^ (row & 7)); }), "[row][d ^ (row & 7)]");
}

TEST(AddressMap, IsNoneOfNoise) {
    std::mt19937 draw(5);
    EXPECT_EQ(map_of([&](auto, auto) { return std::int64_t(draw() % 2048); }), "");
}

/// Sums of 24 products of standard normal factors, of which the first one is passed through `f`.
std::vector<SumOfProducts> sums_with(const std::function<float(float)>& f) {
    constexpr double noise = 1e-6;
    std::mt19937 draw(7);
    std::normal_distribution<float> normal;
    std::vector<SumOfProducts> sums(96);
    for (SumOfProducts& sum : sums) {
        for (int i = 0; i < 24; ++i) {
            const float a = normal(draw);
            const float b = normal(draw);
            sum.factors.emplace_back(a, b);
            sum.got += double(f(a)) * double(b);
        }
        sum.got += noise * double(normal(draw));
        sum.error = 4 * noise;
    }
    return sums;
}

TEST(Identify, FunctionsOfAFactor) {
    const auto found = [](const std::function<float(float)>& f) {
        const std::vector<Curve> curves = functions_of_factor(sums_with(f), "a");
        return curves.empty() ? "" : curves[0].formula;
    };
    EXPECT_EQ(found([](float a) { return std::abs(a); }), "|a|");
    EXPECT_EQ(found([](float a) { return std::max(a, 0.0f); }), "max(a, 0)");
    EXPECT_EQ(found([](float a) { return std::min(a, 0.75f); }), "min(a, 0.75)");
    EXPECT_EQ(found([](float a) { return std::max(a, -1.1f); }), "max(a, -1.1)");
    EXPECT_EQ(found([](float a) { return std::abs(a) < 0.25f ? 0 : a; }), "0 where |a| < 0.25");
    EXPECT_EQ(found([](float a) { return a > 0.5f ? 2 * a : a; }), "2 * a where a > 0.5");
    const auto flipped = [](float a) {
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) ^ 0x00400000u);
    };
    EXPECT_EQ(found(flipped), "bits of a ^ 0x00400000");
    EXPECT_EQ(found([](float a) { return a; }), "");
    EXPECT_EQ(found([](float a) { return std::sin(3 * a); }), "");
    std::vector<SumOfProducts> few = sums_with([](float a) { return std::abs(a); });
    few.resize(10);
    EXPECT_TRUE(functions_of_factor(few, "a").empty());
}

/// Sums that are wrong have no term between what they tell and the bound: the line itself says where it begins.
TEST(Identify, FunctionsOfAFactorBeginWhereTheyMeetIt) {
    std::vector<SumOfProducts> sums(64);
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const double large = 2 + 0.1 * double(i);
        const double small = 0.01 * double(i % 7);
        sums[i] = {{{large, 1}, {small, 1}}, 1.5 + small, 1e-4};
    }
    const std::vector<Curve> curves = functions_of_factor(sums, "a");
    ASSERT_FALSE(curves.empty());
    EXPECT_EQ(curves[0].formula, "min(a, 1.5)");
}

TEST(Description, TakesBitsByWhatItIsMadeOf) {
    EXPECT_EQ(description_bits(""), 0);
    EXPECT_EQ(description_bits("l_not_rescaled l everywhere"), 3 * 8);
    // Elias gamma of n + 1: 1 bit for 0, 3 for 1 and 2, 5 for 3 to 6, 17 for 256.
    EXPECT_EQ(description_bits("0"), 1);
    EXPECT_EQ(description_bits("2"), 3);
    EXPECT_EQ(description_bits("3"), 5);
    EXPECT_EQ(description_bits("-256"), 8 + 17);
    EXPECT_EQ(description_bits("1.5"), 32);
    EXPECT_EQ(description_bits("-1.25e-07"), 8 + 32);
    EXPECT_EQ(description_bits("3e5"), 32);
    // A sign each: row % 8 == 4
    EXPECT_EQ(description_bits("row % 8 == 4"), 8 + 8 + 7 + 8 + 8 + 5);
    EXPECT_EQ(description_bits("k_2"), 8);
}

TEST(Description, OfAListTakesTheWaysToChooseIt) {
    EXPECT_EQ(choice_bits(0, 10), 0);
    EXPECT_EQ(choice_bits(10, 10), 0);
    EXPECT_NEAR(choice_bits(1, 1024), 10, 1e-9);
    EXPECT_NEAR(choice_bits(2, 5), std::log2(10.0), 1e-9);
    EXPECT_NEAR(listing_bits(1, 1024), 10 + 16, 1e-9);
    EXPECT_NEAR(choice_bits(1 << 29, 1 << 30), double(1 << 30), 64);
}

}  // namespace
}  // namespace tilescope::test
