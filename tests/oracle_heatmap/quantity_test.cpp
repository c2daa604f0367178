// Quantities of elements, against numbers worked out by hand.

#include "oracle/heatmap/quantity.h"
#include "oracle/formula/estimate.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/oracle_heatmap/one_tile.h"

namespace tilescope::test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();
const float quiet_nan = std::numeric_limits<float>::quiet_NaN();
const float unwritten = std::bit_cast<float>(unwritten_bits);

void expect_value(const OneTile& tile, Quantity quantity, Eigen::Index col, double value) {
    const ElementValue found = tile.value(quantity, 0, col);
    EXPECT_EQ(found.kind, Kind::finite) << quantity_info(quantity).name << " of column " << col;
    EXPECT_DOUBLE_EQ(found.value, value) << quantity_info(quantity).name << " of column " << col;
}

void expect_kind(const OneTile& tile, Quantity quantity, Eigen::Index col, Kind kind) {
    EXPECT_EQ(int(tile.value(quantity, 0, col).kind), int(kind))
        << quantity_info(quantity).name << " of column " << col;
}

TEST(Quantities, OfOrdinaryElements) {
    const OneTile tile = row_of(Stage::acc, {1.5f, -3, 0, 1}, {1.25, -2, 0, 1 + 0x1p-24}, {0.125, 4, 1, 1});
    expect_value(tile, Quantity::dumped, 0, 1.5);
    expect_value(tile, Quantity::expected, 0, 1.25);
    expect_value(tile, Quantity::difference, 0, 0.25);
    expect_value(tile, Quantity::over_budget, 0, 2);
    expect_value(tile, Quantity::relative, 0, 0.2);
    // From 1.25 to 1.5 there are 2^-2 / 2^-23 steps.
    expect_value(tile, Quantity::ulps, 0, 0x1p21);
    expect_value(tile, Quantity::difference, 1, -1);
    expect_value(tile, Quantity::over_budget, 1, 0.25);
    expect_value(tile, Quantity::relative, 1, 0.5);
    for (const QuantityInfo& info : all_quantities()) expect_value(tile, info.quantity, 2, 0);
    // Half an ulp, to the even neighbour.
    expect_value(tile, Quantity::ulps, 3, 0);
}

TEST(Quantities, WithoutABudgetAreTheLargestFiniteNumber) {
    const OneTile k = row_of(Stage::k, {1, 2}, {1, 3}, {0, 0});
    expect_value(k, Quantity::over_budget, 0, 0);
    expect_value(k, Quantity::over_budget, 1, largest);
    const OneTile s = row_of(Stage::s, {1}, {0}, {1});
    expect_value(s, Quantity::relative, 0, largest);
}

TEST(Quantities, OfElementsThatAreNotFinite) {
    const OneTile tile = row_of(Stage::acc, {quiet_nan, inf, 1, -inf, unwritten, inf, 2},
                                {1, 1, inf, -inf, 1, -1, double(quiet_nan)}, {1, 1, 1, 1, 1, 1, 1});
    const std::array<Kind, 7> dumped = {
        Kind::nan,       Kind::plus_infinity, Kind::finite, Kind::minus_infinity,
        Kind::unwritten, Kind::plus_infinity, Kind::finite};
    const std::array<Kind, 7> expected = {Kind::finite,         Kind::finite, Kind::plus_infinity,
                                          Kind::minus_infinity, Kind::finite, Kind::finite,
                                          Kind::indifferent};
    // That of what was dumped; an infinity as it is to be is no difference.
    const std::array<Kind, 7> difference = {Kind::nan,        Kind::plus_infinity, Kind::should_be_infinite,
                                            Kind::finite,     Kind::unwritten,     Kind::plus_infinity,
                                            Kind::indifferent};
    for (Eigen::Index col = 0; col < 7; ++col) {
        expect_kind(tile, Quantity::dumped, col, dumped[std::size_t(col)]);
        expect_kind(tile, Quantity::expected, col, expected[std::size_t(col)]);
        expect_kind(tile, Quantity::difference, col, difference[std::size_t(col)]);
    }
    for (const Quantity unsigned_one : {Quantity::over_budget, Quantity::ulps, Quantity::relative}) {
        expect_kind(tile, unsigned_one, 1, Kind::plus_infinity);
        expect_kind(tile, unsigned_one, 2, Kind::should_be_infinite);
        expect_kind(tile, unsigned_one, 4, Kind::unwritten);
        expect_kind(row_of(Stage::acc, {-inf}, {1}, {1}), unsigned_one, 0, Kind::minus_infinity);
    }
}

TEST(Quantities, NanIsExpectedOfCopies) {
    OneTile tile = row_of(Stage::o, {quiet_nan, 1, unwritten},
                          {double(quiet_nan), double(quiet_nan), double(unwritten)}, {0, 0, 0});
    tile.pair = true;
    tile.problem.dtype_o = Dtype::f32;
    expect_value(tile, Quantity::difference, 0, 0);
    expect_kind(tile, Quantity::difference, 1, Kind::nan);
    expect_kind(tile, Quantity::expected, 2, Kind::unwritten);
    expect_kind(tile, Quantity::difference, 2, Kind::indifferent);
}

TEST(Quantities, MaskedCellsAreMaskedWhereTheyHoldWhatTheyShould) {
    OneTile tile;
    tile.problem.seqlen_q = tile.problem.seqlen_kv = tile.problem.block_m = tile.problem.block_n = 3;
    tile.problem.mask = Mask::causal;
    tile.got.resize(3, 3);
    // Row 0 sees key 0, row 1 keys 0 and 1.
    tile.got << 1, -inf, 5, 1, 1, unwritten, 1, 1, -inf;
    Matrix value(3, 3);
    value << 1, -inf, -inf, 1, 1, -inf, 1, 1, 1;
    tile.expected = {value, Matrix::Constant(3, 3, 0.5)};
    for (const Quantity quantity : {Quantity::dumped, Quantity::expected, Quantity::over_budget}) {
        EXPECT_EQ(tile.value(quantity, 0, 1).kind, Kind::masked);
        EXPECT_EQ(tile.value(quantity, 0, 0).kind, Kind::finite);
    }
    // A score that the mask should have hidden.
    EXPECT_EQ(tile.value(Quantity::dumped, 0, 2).kind, Kind::finite);
    EXPECT_EQ(tile.value(Quantity::over_budget, 0, 2).kind, Kind::should_be_infinite);
    // Unwritten is what it is, and no error where the mask hides it.
    EXPECT_EQ(tile.value(Quantity::dumped, 1, 2).kind, Kind::unwritten);
    EXPECT_EQ(tile.value(Quantity::over_budget, 1, 2).kind, Kind::masked);
    // Visible, and yet -inf.
    EXPECT_EQ(tile.value(Quantity::dumped, 2, 2).kind, Kind::minus_infinity);
    EXPECT_EQ(tile.value(Quantity::difference, 2, 2).kind, Kind::minus_infinity);

    tile.stage = Stage::p;
    tile.got << 1, 0, 0.5f, 1, 1, 0, 1, 1, 0;
    value << 1, 0, 0, 1, 1, 0, 1, 1, 1;
    tile.expected = {value, Matrix::Constant(3, 3, 0.5)};
    EXPECT_EQ(tile.value(Quantity::dumped, 0, 1).kind, Kind::masked);
    EXPECT_EQ(tile.value(Quantity::over_budget, 0, 1).kind, Kind::masked);
    EXPECT_EQ(tile.value(Quantity::over_budget, 0, 2).value, 1);
    EXPECT_EQ(tile.value(Quantity::over_budget, 2, 2).value, 2);
}

TEST(Quantities, TolerancesGivenByHandAreNotForOperands) {
    OneTile s = row_of(Stage::s, {2}, {1}, {100});
    s.options.atol = 0.25;
    s.options.rtol = 0.25;
    expect_value(s, Quantity::over_budget, 0, 2);
    for (const Stage stage : {Stage::q, Stage::k, Stage::v, Stage::dout}) {
        OneTile operand = row_of(stage, {2}, {1}, {4});
        operand.options = s.options;
        expect_value(operand, Quantity::over_budget, 0, 0.25);
    }
}

TEST(Quantities, InheritedIsWhatDiffersEndToEndAlone) {
    // Right, right for what it is computed from, wrong by itself, and NaN of what is NaN.
    OneTile o =
        row_of(Stage::o, {1, 2, 3, quiet_nan}, {1, 2.5, 5, double(quiet_nan)}, {1, 1, 1, double(quiet_nan)});
    o.problem.dtype_o = Dtype::f32;
    ObservedTile tile = o.view();
    const Estimate exact{Eigen::RowVector4d(1, 7, 7, 7), Eigen::RowVector4d(1, 1, 1, 1)};
    tile.end_to_end = &exact;
    const std::array<Kind, 4> kinds = {Kind::finite, Kind::inherited, Kind::finite, Kind::inherited};
    QuantityValues values;
    values_of(tile, Quantity::over_budget, values);
    for (Eigen::Index col = 0; col < 4; ++col) {
        EXPECT_EQ(value_of(tile, Quantity::over_budget, 0, col).kind, kinds[std::size_t(col)]) << col;
        EXPECT_EQ(values.kinds[std::size_t(col)], kinds[std::size_t(col)]) << col;
        EXPECT_EQ(is_inherited(tile, 0, col), kinds[std::size_t(col)] == Kind::inherited) << col;
        EXPECT_EQ(value_of(tile, Quantity::difference, 0, col).kind,
                  col == 3 ? Kind::indifferent : Kind::finite);
    }
    EXPECT_EQ(value_of(tile, Quantity::over_budget, 0, 1).value, 0.5);
    tile.end_to_end = nullptr;
    EXPECT_EQ(value_of(tile, Quantity::over_budget, 0, 1).kind, Kind::finite);
}

TEST(Quantities, UlpsAreThoseOfTheOutputsType) {
    OneTile tile = row_of(Stage::o, {1 + 0x1p-9f}, {1}, {1});
    tile.problem.dtype_o = Dtype::f16;
    expect_value(tile, Quantity::ulps, 0, 2);
    tile.problem.dtype_o = Dtype::f32;
    expect_value(tile, Quantity::ulps, 0, 0x1p14);
}

/// Every kind of float, expected or dumped.
float any_float(std::mt19937_64& random) {
    switch (random() % 12) {
        case 0:
            return quiet_nan;
        case 1:
            return unwritten;
        case 2:
            return inf;
        case 3:
            return -inf;
        case 4:
            return 0;
        case 5:
            return -0.0f;
        default:
            return std::bit_cast<float>(std::uint32_t(random()));
    }
}

TEST(Quantities, WholeTilesHoldWhatTheirElementsDo) {
    constexpr std::uint64_t seed = 71;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 400; ++round) {
        OneTile tile;
        tile.stage = all_stages()[random() % built_in_stages].stage;
        tile.problem.seqlen_q = tile.problem.seqlen_kv = 24;
        tile.problem.block_m = tile.problem.block_n = 8;
        tile.problem.mask = random() % 2 == 0 ? Mask::causal : Mask::none;
        tile.problem.dtype_o = random() % 2 == 0 ? Dtype::f16 : Dtype::f32;
        tile.tile = {0, 0, std::int64_t(random() % 3), std::int64_t(random() % 3)};
        tile.pair = random() % 4 == 0;
        if (random() % 4 == 0) tile.options.rtol = 1e-3;
        tile.got.resize(8, 8);
        tile.expected = zeros(8, 8);
        for (Eigen::Index i = 0; i < 64; ++i) {
            tile.got.data()[i] = any_float(random);
            tile.expected.value.data()[i] = random() % 2 == 0 ? tile.got.data()[i] : any_float(random);
            tile.expected.error.data()[i] = std::abs(any_float(random));
        }
        for (const QuantityInfo& info : all_quantities()) {
            QuantityValues whole;
            values_of(tile.view(), info.quantity, whole);
            for (Eigen::Index row = 0; row < 8; ++row) {
                for (Eigen::Index col = 0; col < 8; ++col) {
                    const ElementValue one = tile.value(info.quantity, row, col);
                    const auto i = std::size_t(row * 8 + col);
                    ASSERT_EQ(int(whole.kinds[i]), int(one.kind)) << info.name;
                    if (one.kind != Kind::finite) continue;
                    const double clamped = std::clamp(one.value, -double(largest), double(largest));
                    ASSERT_EQ(whole.values[i], float(clamped)) << info.name;
                }
            }
        }
    }
}

TEST(Quantities, JudgedElementsAreInCoordinatesOfTheTensor) {
    OneTile tile;
    tile.stage = Stage::s;
    tile.problem.seqlen_q = tile.problem.seqlen_kv = 24;
    tile.problem.block_m = tile.problem.block_n = 8;
    tile.tile = {1, 2, 2, 1};
    tile.got = MatrixF::Ones(8, 8);
    tile.expected = {Matrix::Zero(8, 8), Matrix::Constant(8, 8, 0.25)};
    const Element element = judged_element(tile.view(), 3, 5);
    EXPECT_EQ(element.row, 19);
    EXPECT_EQ(element.col, 13);
    EXPECT_EQ(element.finding, Finding::outside);
    EXPECT_EQ(element.tolerance, 0.25);
    EXPECT_EQ(element.ratio(), 4);
    EXPECT_EQ(element.tile, tile.tile);
}

}  // namespace
}  // namespace tilescope::test
