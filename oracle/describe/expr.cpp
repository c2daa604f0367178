#include "oracle/describe/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tilescope {

namespace {

/// How tightly a text holds together: as operators do in C, but that & stands in parentheses in everything.
enum Binding : std::uint8_t { loosest, of_bits, of_exclusive, of_shift, of_sum, of_product, of_atom };

struct OpInfo {
    std::string_view text;  ///< with {0} and {1} for operands, {n} and {k}
    Binding binding;
    Binding of_left;
    Binding of_right;
    int numbers;  ///< of n and k, those that are chosen
};

constexpr std::array<OpInfo, std::size_t(Op::rounded_up) + 1> op_infos = {{
    {"{n}", of_atom, of_atom, of_atom, 1},
    {"", of_atom, of_atom, of_atom, 0},
    {"{0} + {1}", of_sum, of_sum, of_product, 0},
    {"{0} - {1}", of_sum, of_sum, of_product, 0},
    {"{0} * {1}", of_product, of_product, of_atom, 0},
    {"{0} / {1}", of_product, of_product, of_atom, 0},
    {"{0} % {1}", of_product, of_product, of_atom, 0},
    {"{0} ^ {1}", of_exclusive, of_exclusive, of_shift, 0},
    {"{0} & {1}", of_bits, of_atom, of_atom, 0},
    {"{0} << {1}", of_shift, of_atom, of_atom, 0},
    {"{0} >> {1}", of_shift, of_atom, of_atom, 0},
    {"min({0}, {1})", of_atom, loosest, loosest, 0},
    {"max({0}, {1})", of_atom, loosest, loosest, 0},
    {"{0} / {n} * {n}", of_product, of_product, of_atom, 1},
    {"{0} / {n} * {n} + {n-1} - {0} % {n}", of_sum, of_product, of_atom, 1},
    {"{0} / {n} * {n} + {k} * {0} % {n}", of_sum, of_atom, of_atom, 2},
    {"{0} with bits {n} and {k} exchanged", loosest, of_atom, of_atom, 2},
    {"({0} & {n} ? {k} : 0)", of_atom, of_atom, of_atom, 1},
    {"{0} rounded up to {n}", loosest, of_atom, of_atom, 1},
}};

const OpInfo& info_of(Op op) {
    return op_infos[std::size_t(op)];
}

bool has_two_operands(Op op) {
    return op >= Op::plus && op <= Op::at_least;
}

std::int64_t combined(Op op, std::int64_t x, std::int64_t y) {
    switch (op) {
        case Op::plus:
            return x + y;
        case Op::minus:
            return x - y;
        case Op::times:
            return x * y;
        case Op::quotient:
            return y == 0 ? 0 : x / y;
        case Op::rest:
            return y == 0 ? 0 : x % y;
        case Op::exclusive:
            return x ^ y;
        case Op::bits_of:
            return x & y;
        case Op::up:
            return std::int64_t(std::uint64_t(x) << y);
        case Op::down:
            return x >> y;
        case Op::at_most:
            return std::min(x, y);
        default:
            return std::max(x, y);
    }
}

std::int64_t with_exchanged_bits(std::int64_t x, std::int64_t low, std::int64_t high) {
    const std::int64_t differ = (x >> low ^ x >> high) & 1;
    return x ^ (differ << low | differ << high);
}

std::int64_t changed_by(Op op, std::int64_t x, std::int64_t n, std::int64_t k) {
    switch (op) {
        case Op::multiple:
            return x / n * n;
        case Op::reversed:
            return x / n * n + n - 1 - x % n;
        case Op::permuted:
            return x / n * n + x * k % n;
        case Op::exchanged_bits:
            return with_exchanged_bits(x, n, k);
        case Op::if_bit:
            return (x & n) != 0 ? k : 0;
        default:
            return (x + n - 1) / n * n;
    }
}

/// The text of a part of an expression.
struct Told {
    std::string text;
    Binding binding = of_atom;
    bool is_number = false;
    std::int64_t number = 0;

    std::string within(Binding needed) const { return binding < needed ? "(" + text + ")" : text; }
};

std::string filled(std::string_view pattern, const std::string& left, const std::string& right,
                   std::int64_t n, std::int64_t k) {
    std::string text;
    while (!pattern.empty()) {
        const std::size_t open = pattern.find('{');
        text += pattern.substr(0, open);
        if (open == std::string_view::npos) break;
        const std::size_t close = pattern.find('}', open);
        const std::string_view what = pattern.substr(open + 1, close - open - 1);
        text += what == "0"   ? left
                : what == "1" ? right
                : what == "n" ? std::to_string(n)
                : what == "k" ? std::to_string(k)
                              : std::to_string(n - 1);
        pattern.remove_prefix(close + 1);
    }
    return text;
}

Told told_of_two(Op op, const Told& left, const Told& right) {
    // As one writes them: row - 4, and -row.
    if (op == Op::plus && right.is_number && right.number < 0)
        return {fmt::format("{} - {}", left.within(of_sum), -right.number), of_sum};
    if (op == Op::times && left.is_number && left.number == -1)
        return {"-" + right.within(of_atom), of_product};
    const OpInfo& info = info_of(op);
    return {filled(info.text, left.within(info.of_left), right.within(info.of_right), 0, 0), info.binding};
}

}  // namespace

Expr::Expr(std::int64_t number) : nodes_{{.op = Op::number, .n = number}} {}
Expr::Expr(Coordinate coordinate) : nodes_{{.op = Op::coordinate, .coordinate = coordinate}} {}

Expr Expr::of_two(Op op, const Expr& left, const Expr& right) {
    std::vector<Node> nodes;
    nodes.reserve(left.nodes_.size() + right.nodes_.size() + 1);
    nodes.insert(nodes.end(), left.nodes_.begin(), left.nodes_.end());
    nodes.insert(nodes.end(), right.nodes_.begin(), right.nodes_.end());
    nodes.push_back({.op = op});
    return Expr(std::move(nodes));
}

Expr Expr::changed(Op op, const Expr& of, std::int64_t n, std::int64_t k) {
    std::vector<Node> nodes;
    nodes.reserve(of.nodes_.size() + 1);
    nodes.insert(nodes.end(), of.nodes_.begin(), of.nodes_.end());
    nodes.push_back({.op = op, .n = n, .k = k});
    return Expr(std::move(nodes));
}

template <class NumberOf>
std::int64_t Expr::evaluate(const NumberOf& number_of) const {
    if (nodes_.size() == 1) {
        const Node& only = nodes_.front();
        return only.op == Op::number ? only.n : number_of(only.coordinate);
    }
    // Of n nodes at most (n + 1) / 2 wait. Those of kernels are few: memory of its own is for what is nested deeper.
    constexpr std::size_t most_waiting = 16;
    std::array<std::int64_t, most_waiting> few{};
    std::vector<std::int64_t> many(nodes_.size() < 2 * most_waiting ? 0 : nodes_.size());
    std::int64_t* stack = many.empty() ? few.data() : many.data();
    std::size_t depth = 0;
    for (const Node& node : nodes_) {
        if (node.op == Op::number) {
            stack[depth++] = node.n;
        } else if (node.op == Op::coordinate) {
            stack[depth++] = number_of(node.coordinate);
        } else if (has_two_operands(node.op)) {
            --depth;
            stack[depth - 1] = combined(node.op, stack[depth - 1], stack[depth]);
        } else {
            stack[depth - 1] = changed_by(node.op, stack[depth - 1], node.n, node.k);
        }
    }
    return stack[0];
}

std::int64_t Expr::at(const Place& place) const {
    return evaluate([&](Coordinate coordinate) { return place[coordinate]; });
}

std::int64_t Expr::at(Coordinate coordinate, std::int64_t x) const {
    return evaluate([&](Coordinate of) { return of == coordinate ? x : 0; });
}

std::int64_t Expr::at(const TileAxes& axes, std::int64_t row, std::int64_t col) const {
    return evaluate([&](Coordinate of) { return of == axes.down ? row : of == axes.along ? col : 0; });
}

void Expr::along(Coordinate coordinate, Place place, std::span<std::int64_t> numbers) const {
    if (is(coordinate)) {
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::int64_t(i);
    } else if (!takes(coordinate)) {
        std::ranges::fill(numbers, at(place));
    } else {
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            place[coordinate] = std::int64_t(i);
            numbers[i] = at(place);
        }
    }
}

std::string Expr::text() const {
    std::vector<Told> stack;
    for (const Node& node : nodes_) {
        const OpInfo& info = info_of(node.op);
        if (node.op == Op::number) {
            stack.push_back({std::to_string(node.n), node.n < 0 ? of_sum : of_atom, true, node.n});
        } else if (node.op == Op::coordinate) {
            stack.push_back({std::string(coordinate_name(node.coordinate))});
        } else if (has_two_operands(node.op)) {
            const Told right = std::move(stack.back());
            stack.pop_back();
            stack.back() = told_of_two(node.op, stack.back(), right);
        } else {
            stack.back() = {filled(info.text, stack.back().within(info.of_left), {}, node.n, node.k),
                            info.binding};
        }
    }
    return stack.front().text;
}

int Expr::choices() const {
    int count = 0;
    std::vector<bool> takes_some;  // of the stack
    for (const Node& node : nodes_) {
        if (node.op == Op::number || node.op == Op::coordinate) {
            takes_some.push_back(node.op == Op::coordinate);
            count += node.op == Op::number && node.n != 0;
        } else if (has_two_operands(node.op)) {
            const bool right = takes_some.back();
            takes_some.pop_back();
            count += right && takes_some.back() && (node.op == Op::plus || node.op == Op::minus);
            takes_some.back() = takes_some.back() || right;
        } else {
            count += info_of(node.op).numbers;
        }
    }
    return count;
}

bool Expr::takes(Coordinate coordinate) const {
    return std::ranges::any_of(
        nodes_, [&](const Node& node) { return node.op == Op::coordinate && node.coordinate == coordinate; });
}

bool Expr::is_mixed() const {
    const auto first = std::ranges::find(nodes_, Op::coordinate, &Node::op);
    return std::ranges::any_of(nodes_, [&](const Node& node) {
        return node.op == Op::coordinate && node.coordinate != first->coordinate;
    });
}

bool Expr::is(Coordinate coordinate) const {
    return nodes_.size() == 1 && takes(coordinate);
}

Expr operator+(const Expr& left, const Expr& right) {
    return Expr::of_two(Op::plus, left, right);
}
Expr operator-(const Expr& left, const Expr& right) {
    return Expr::of_two(Op::minus, left, right);
}
Expr operator*(const Expr& left, const Expr& right) {
    return Expr::of_two(Op::times, left, right);
}
Expr operator/(const Expr& left, const Expr& right) {
    return Expr::of_two(Op::quotient, left, right);
}
Expr operator%(const Expr& left, const Expr& right) {
    return Expr::of_two(Op::rest, left, right);
}
Expr operator^(const Expr& left, const Expr& right) {
    return Expr::of_two(Op::exclusive, left, right);
}
Expr operator&(const Expr& left, const Expr& right) {
    return Expr::of_two(Op::bits_of, left, right);
}

Expr moved_by(const Expr& of, std::int64_t c) {
    return c == 0 ? of : of + c;
}

std::int64_t Index::at(const Place& place) const {
    std::int64_t address = parts.front().at(place);
    for (std::size_t i = 1; i < parts.size(); ++i)
        address = address * extents[i - 1].at(place) + parts[i].at(place);
    return address;
}

std::int64_t Index::at(const TileAxes& axes, std::int64_t row, std::int64_t col) const {
    std::int64_t address = parts.front().at(axes, row, col);
    for (std::size_t i = 1; i < parts.size(); ++i)
        address = address * extents[i - 1].at(axes, row, col) + parts[i].at(axes, row, col);
    return address;
}

std::string Index::text() const {
    std::string text;
    for (const Expr& part : parts) text += "[" + part.text() + "]";
    return text;
}

}  // namespace tilescope
