#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/describe/coordinate.h"

namespace tilescope {

/// What a node of an expression does with what stands before it. Those after `at_least` change one number by the numbers n
/// and k of the node itself.
enum class Op : std::uint8_t {
    number,      ///< n
    coordinate,  ///< its number
    plus,
    minus,
    times,
    quotient,
    rest,
    exclusive,       ///< x ^ y
    bits_of,         ///< x & y
    up,              ///< x << y
    down,            ///< x >> y
    at_most,         ///< min(x, y)
    at_least,        ///< max(x, y)
    multiple,        ///< x / n * n
    reversed,        ///< x / n * n + n - 1 - x % n
    permuted,        ///< x / n * n + k * x % n
    exchanged_bits,  ///< bits n and k of x
    if_bit,          ///< k where bit n of x is set, else 0; n: the bit's value
    rounded_up,      ///< (x + n - 1) / n * n
};

/// A whole number as a kernel computes it: an index, or a part of one. An expression is a value: it can be compared, printed, priced and
/// evaluated.
class Expr {
 public:
    struct Node {
        Op op = Op::number;
        Coordinate coordinate = Coordinate::nothing;
        std::int64_t n = 0;
        std::int64_t k = 0;

        bool operator==(const Node&) const = default;
    };

    Expr() : Expr(std::int64_t(0)) {}
    // An index is written as in C: row * ld + 4.
    Expr(std::int64_t number);    // NOLINT(google-explicit-constructor)
    Expr(Coordinate coordinate);  // NOLINT(google-explicit-constructor)

    static Expr of_two(Op op, const Expr& left, const Expr& right);
    /// `op`: one of those that change one number by n, above 0, and k.
    static Expr changed(Op op, const Expr& of, std::int64_t n, std::int64_t k = 0);

    /// A division by 0 is 0.
    std::int64_t at(const Place& place) const;
    /// Where the coordinate is x and all others are 0.
    std::int64_t at(Coordinate coordinate, std::int64_t x) const;
    /// Of the element of a tile, where all others are 0.
    std::int64_t at(const TileAxes& axes, std::int64_t row, std::int64_t col) const;
    /// Of the coordinate's numbers from `first` on, at the same place otherwise.
    void along(Coordinate coordinate, const Place& place, std::span<std::int64_t> numbers,
               std::int64_t first = 0) const;

    /// As in C: "(row ^ 4) + 16".
    std::string text() const;
    /// Choices that it takes to write it: numbers that are not 0, and where two coordinates are added that they are.
    int choices() const;
    bool takes(Coordinate coordinate) const;
    /// Whether it is computed from two coordinates or more.
    bool is_mixed() const;
    /// Whether it is a number and nothing else.
    bool is_number() const { return size_ == 1 && only_.op == Op::number; }
    /// Whether it is one, as a factor in parentheses.
    bool is_sum() const { return nodes().back().op == Op::plus || nodes().back().op == Op::minus; }
    /// Whether it is this coordinate and nothing else.
    bool is(Coordinate coordinate) const;

    /// Operands before what is done with them.
    std::span<const Node> nodes() const { return {size_ == 1 ? &only_ : nodes_.get(), size_}; }

    bool operator==(const Expr& other) const;

 private:
    explicit Expr(const Node& only) : only_(only) {}
    /// The nodes of both, one after the other, and then `last`.
    Expr(std::span<const Node> left, std::span<const Node> right, const Node& last);
    template <class NumberOf>
    std::int64_t evaluate(const NumberOf& number_of) const;
    template <class NumberOf>
    std::int64_t evaluate(const NumberOf& number_of, std::int64_t* stack) const;
    void evaluate_along(Coordinate coordinate, const Place& place, std::span<std::int64_t> numbers,
                        std::int64_t first) const;

    Node only_;  ///< of a number or a coordinate alone
    /// Of others: operands before what is done with them. They never change, so that copies share them.
    std::shared_ptr<const Node[]> nodes_;
    std::size_t size_ = 1;
};

Expr operator+(const Expr& left, const Expr& right);
Expr operator-(const Expr& left, const Expr& right);
Expr operator*(const Expr& left, const Expr& right);
Expr operator/(const Expr& left, const Expr& right);
Expr operator%(const Expr& left, const Expr& right);
Expr operator^(const Expr& left, const Expr& right);
Expr operator&(const Expr& left, const Expr& right);
/// `of` + c, or what it is less -c; itself for 0.
Expr moved_by(const Expr& of, std::int64_t c);

/// An index into an array, [a][b][c] with the extents of b and c: (a * extent of b + b) * extent of c + c.
struct Index {
    std::vector<Expr> parts;
    std::vector<Expr> extents;  ///< of all parts but the first

    std::int64_t at(const Place& place) const;
    std::int64_t at(const TileAxes& axes, std::int64_t row, std::int64_t col) const;
    /// (a * extent of b + b) * extent of c + c
    Expr address() const;
    /// "[row ^ 4][d]"
    std::string text() const;

    bool operator==(const Index&) const = default;
};

}  // namespace tilescope
