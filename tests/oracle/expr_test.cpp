// Expressions of indices say as text what they compute.

#include "oracle/describe/expr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "oracle/describe/edits.h"

namespace tilescope::test {
namespace {

/// Evaluates a text by the rules of C, with & before ^ before | as it has them.
class Calculator {
 public:
    Calculator(std::string_view text, const Place& place) : text_(text), place_(place) {}

    std::int64_t value() {
        const std::int64_t result = exclusive();
        EXPECT_EQ(at_, text_.size()) << text_;
        return result;
    }

 private:
    void skip() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool take(std::string_view what) {
        skip();
        if (!text_.substr(at_).starts_with(what)) return false;
        at_ += what.size();
        return true;
    }
    std::int64_t exclusive() {
        std::int64_t x = bits();
        while (take("^")) x ^= bits();
        return x;
    }
    std::int64_t bits() {
        std::int64_t x = shift();
        while (take("&")) x &= shift();
        return x;
    }
    std::int64_t shift() {
        std::int64_t x = sum();
        for (;;) {
            if (take("<<")) {
                x <<= sum();
            } else if (take(">>")) {
                x >>= sum();
            } else {
                return x;
            }
        }
    }
    std::int64_t sum() {
        std::int64_t x = product();
        for (;;) {
            if (take("+")) {
                x += product();
            } else if (take("-")) {
                x -= product();
            } else {
                return x;
            }
        }
    }
    std::int64_t product() {
        std::int64_t x = atom();
        for (;;) {
            if (take("*")) {
                x *= atom();
            } else if (take("/")) {
                x /= atom();
            } else if (take("%")) {
                x %= atom();
            } else {
                return x;
            }
        }
    }
    std::int64_t of_two(bool least) {
        const std::int64_t x = exclusive();
        EXPECT_TRUE(take(","));
        const std::int64_t y = exclusive();
        EXPECT_TRUE(take(")"));
        return least ? std::min(x, y) : std::max(x, y);
    }
    std::int64_t atom() {
        if (take("-")) return -atom();
        if (take("min(")) return of_two(true);
        if (take("max(")) return of_two(false);
        if (take("(")) {
            std::int64_t x = exclusive();
            if (take("?")) {
                const std::int64_t yes = exclusive();
                EXPECT_TRUE(take(":"));
                const std::int64_t no = exclusive();
                x = x != 0 ? yes : no;
            }
            EXPECT_TRUE(take(")")) << text_.substr(at_);
            return x;
        }
        skip();
        if (std::isdigit(text_[at_]) != 0) {
            std::int64_t x = 0;
            while (at_ < text_.size() && std::isdigit(text_[at_]) != 0) x = 10 * x + (text_[at_++] - '0');
            return x;
        }
        const std::size_t first = at_;
        while (at_ < text_.size() && (std::isalnum(text_[at_]) != 0 || text_[at_] == '_')) ++at_;
        const std::string_view name = text_.substr(first, at_ - first);
        for (std::size_t i = 0; i < coordinate_count; ++i)
            if (coordinate_name(Coordinate(i)) == name) return place_[Coordinate(i)];
        ADD_FAILURE() << "no coordinate " << name << " in " << text_;
        return 0;
    }

    std::string_view text_;
    const Place& place_;
    std::size_t at_ = 0;
};

using Draw = std::mt19937;

std::int64_t drawn(Draw& draw, std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(draw);
}

/// Numbers stay small and above 0, as those of indices do: a rest and a shift of others are not the same everywhere.
Expr expr_of(Draw& draw, int depth) {
    using enum Op;
    if (depth == 0) {
        constexpr std::array of = {Coordinate::row, Coordinate::d, Coordinate::kv_tile};
        return drawn(draw, 0, 3) == 0 ? Expr(drawn(draw, 1, 9)) : Expr(of[std::size_t(drawn(draw, 0, 2))]);
    }
    const Expr left = expr_of(draw, depth - 1);
    const Expr right = expr_of(draw, depth - 1);
    switch (drawn(draw, 0, 12)) {
        case 0:
            return left + right;
        case 1:
            return moved_by(left, drawn(draw, -5, 5));
        case 2:
            return left * right;
        case 3:
            return left / drawn(draw, 1, 9);
        case 4:
            return left % drawn(draw, 1, 9);
        case 5:
            return left ^ right;
        case 6:
            return left & right;
        case 7:
            return Expr::of_two(at_most, left, right);
        case 8:
            return Expr::of_two(at_least, left - right, 0);
        case 9:
            return Expr::of_two(drawn(draw, 0, 1) == 0 ? up : down, left, drawn(draw, 1, 4));
        case 10:
            return Expr::changed(drawn(draw, 0, 1) == 0 ? multiple : reversed, left, drawn(draw, 2, 9));
        case 11:
            return Expr::changed(permuted, left, 8, 3);
        default:
            return Expr::changed(if_bit, left, 4, 11);
    }
}

Place drawn_place(Draw& draw) {
    Place place;
    for (const Coordinate of : {Coordinate::row, Coordinate::d, Coordinate::kv_tile})
        place[of] = drawn(draw, 0, 63);
    return place;
}

TEST(Expr, IsWhatItsTextSaysInC) {
    constexpr unsigned seed = 1;
    Draw draw(seed);
    for (int i = 0; i < 4000; ++i) {
        const Expr expr = expr_of(draw, 1 + i % 4);
        const Place place = drawn_place(draw);
        const std::string text = expr.text();
        ASSERT_EQ(expr.at(place), Calculator(text, place).value()) << text << ", seed " << seed << ", " << i;
    }
}

TEST(Expr, IsTheSameAlongACoordinate) {
    constexpr unsigned seed = 2;
    Draw draw(seed);
    for (int i = 0; i < 500; ++i) {
        const Expr expr = expr_of(draw, i % 4);
        Place place = drawn_place(draw);
        std::array<std::int64_t, 32> along{};
        expr.along(Coordinate::d, place, along);
        for (std::int64_t d = 0; d < 32; ++d) {
            place[Coordinate::d] = d;
            ASSERT_EQ(along[std::size_t(d)], expr.at(place)) << expr.text() << ", seed " << seed << ", " << i;
        }
    }
}

TEST(Expr, MayBeNestedDeeply) {
    constexpr std::int64_t deep = 100;
    Expr sum = Coordinate::row;
    for (std::int64_t i = 0; i < deep; ++i) sum = Expr(1) + sum;
    EXPECT_EQ(sum.at(Coordinate::row, 5), deep + 5);
}

TEST(Expr, IsWrittenAsAnAuthorDoes) {
    const Expr row = Coordinate::row;
    const Expr d = Coordinate::d;
    EXPECT_EQ(((row ^ 4) + 16).text(), "(row ^ 4) + 16");
    EXPECT_EQ(moved_by(row, -16).text(), "row - 16");
    EXPECT_EQ((d ^ row % 8 * 2).text(), "d ^ row % 8 * 2");
    EXPECT_EQ((d ^ (row & 7)).text(), "d ^ (row & 7)");
    EXPECT_EQ((Expr(-1) * row + 15).text(), "-row + 15");
    EXPECT_EQ((Expr(41) * (row * 2) + d).text(), "41 * (row * 2) + d");
    EXPECT_EQ((Index{{row ^ 4, d}, {Coordinate::head_dim}}.text()), "[row ^ 4][d]");
}

TEST(Expr, CountsWhatWasChosen) {
    const Expr row = Coordinate::row;
    EXPECT_EQ(row.choices(), 0);
    EXPECT_EQ(Expr(0).choices(), 0);
    EXPECT_EQ((row ^ 4).choices(), 1);
    EXPECT_EQ(Expr::of_two(Op::at_least, row - 4, 0).choices(), 1);
    EXPECT_EQ(Expr::changed(Op::permuted, row, 8, 3).choices(), 2);
    // Which coordinate is added, and how often.
    EXPECT_EQ((row + Expr(Coordinate::col)).choices(), 1);
    EXPECT_EQ((row + Expr(Coordinate::col) * 4).choices(), 2);
}

/// Its numbers of a range, one at a time.
std::vector<std::int64_t> numbers_of(const Expr& expr, std::int64_t length) {
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < length; ++i) numbers.push_back(expr.at(Coordinate::row, i));
    return numbers;
}

TEST(Edits, ChangeARangeEachInAnotherWay) {
    for (const std::int64_t length : {1, 2, 8, 80, 5000}) {
        std::set<std::vector<std::int64_t>> known = {numbers_of(Coordinate::row, length)};
        for (const Expr& edit : edits_of({Coordinate::row, length}, 64))
            EXPECT_TRUE(known.insert(numbers_of(edit, length)).second) << edit.text() << " of " << length;
    }
}

TEST(Edits, AreTheSameAlongARangeAsOneByOne) {
    constexpr std::int64_t length = 80;  // more than are evaluated together
    constexpr std::int64_t first = 3;
    Place place;
    place[Coordinate::d] = 5;
    for (const Expr& edit :
         edits_with({Coordinate::row, length}, std::array{CoordinateRange{Coordinate::d, 8}}, 64)) {
        std::vector<std::int64_t> numbers(length);
        edit.along(Coordinate::row, place, numbers, first);
        for (std::int64_t i = 0; i < length; ++i) {
            place[Coordinate::row] = first + i;
            EXPECT_EQ(numbers[std::size_t(i)], edit.at(place)) << edit.text() << " at " << i;
        }
    }
}

}  // namespace
}  // namespace tilescope::test
