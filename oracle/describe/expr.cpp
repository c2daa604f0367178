#include "oracle/describe/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>
#include <vector>

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

constexpr std::size_t most_at_once = 64;
/// Operands that wait without memory of their own.
constexpr std::size_t most_waiting = 16;

/// The same of many numbers, with a loop for each operation that is frequent: what it is is asked once.
template <class Right>
void combine(Op op, std::span<std::int64_t> x, const Right& y) {
    const auto each = [&](const auto& of) {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = of(x[i], y(i));
    };
    switch (op) {
        case Op::plus:
            return each([](std::int64_t a, std::int64_t b) { return a + b; });
        case Op::times:
            return each([](std::int64_t a, std::int64_t b) { return a * b; });
        case Op::exclusive:
            return each([](std::int64_t a, std::int64_t b) { return a ^ b; });
        case Op::at_most:
            return each([](std::int64_t a, std::int64_t b) { return std::min(a, b); });
        case Op::at_least:
            return each([](std::int64_t a, std::int64_t b) { return std::max(a, b); });
        default:
            return each([=](std::int64_t a, std::int64_t b) { return combined(op, a, b); });
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

Expr::Expr(std::int64_t number) : Expr(Node{.op = Op::number, .n = number}) {}
Expr::Expr(Coordinate coordinate) : Expr(Node{.op = Op::coordinate, .coordinate = coordinate}) {}

Expr::Expr(std::span<const Node> left, std::span<const Node> right, const Node& last)
    : size_(left.size() + right.size() + 1) {
    const std::shared_ptr<Node[]> nodes = std::make_shared<Node[]>(size_);
    std::ranges::copy(left, nodes.get());
    std::ranges::copy(right, nodes.get() + left.size());
    nodes[size_ - 1] = last;
    nodes_ = nodes;
}

Expr Expr::of_two(Op op, const Expr& left, const Expr& right) {
    return {left.nodes(), right.nodes(), {.op = op}};
}

Expr Expr::changed(Op op, const Expr& of, std::int64_t n, std::int64_t k) {
    return {of.nodes(), {}, {.op = op, .n = n, .k = k}};
}

bool Expr::operator==(const Expr& other) const {
    return std::ranges::equal(nodes(), other.nodes());
}

template <class NumberOf>
std::int64_t Expr::evaluate(const NumberOf& number_of) const {
    if (size_ == 1) return only_.op == Op::number ? only_.n : number_of(only_.coordinate);
    // Of n nodes at most (n + 1) / 2 wait. Those of kernels are few: memory of its own is for what is nested deeper.
    if (size_ >= 2 * most_waiting) {
        std::vector<std::int64_t> many(size_);
        return evaluate(number_of, many.data());
    }
    std::array<std::int64_t, most_waiting> few;  // NOLINT: written before it is read
    return evaluate(number_of, few.data());
}

template <class NumberOf>
std::int64_t Expr::evaluate(const NumberOf& number_of, std::int64_t* stack) const {
    std::int64_t* end = stack;
    for (const Node& node : nodes()) {
        if (node.op == Op::number) {
            *end++ = node.n;
        } else if (node.op == Op::coordinate) {
            *end++ = number_of(node.coordinate);
        } else if (has_two_operands(node.op)) {
            --end;
            end[-1] = combined(node.op, end[-1], end[0]);
        } else {
            end[-1] = changed_by(node.op, end[-1], node.n, node.k);
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

void Expr::along(Coordinate coordinate, const Place& place, std::span<std::int64_t> numbers,
                 std::int64_t first) const {
    if (!takes(coordinate)) {
        std::ranges::fill(numbers, at(place));
        return;
    }
    for (; !numbers.empty(); first += std::int64_t(most_at_once)) {
        const std::size_t count = std::min(most_at_once, numbers.size());
        evaluate_along(coordinate, place, numbers.first(count), first);
        numbers = numbers.subspan(count);
    }
}

/// One node for many numbers, then the next: what a node does is looked up once.
void Expr::evaluate_along(Coordinate coordinate, const Place& place, std::span<std::int64_t> numbers,
                          std::int64_t first) const {
    using Row = std::array<std::int64_t, most_at_once>;
    std::array<Row, most_waiting> few;  // NOLINT: written before it is read
    std::vector<Row> many(size_ < 2 * most_waiting ? 0 : size_);
    Row* stack = many.empty() ? few.data() : many.data();
    const std::size_t count = numbers.size();
    const std::span<const Node> all = nodes();
    // The first operand is made where the result belongs.
    std::size_t depth = 0;
    const auto row = [&](std::size_t at) { return at == 0 ? numbers : std::span(stack[at]).first(count); };
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Node& node = all[i];
        if (node.op == Op::coordinate && node.coordinate == coordinate) {
            std::ranges::copy(std::views::iota(first, first + std::int64_t(count)), row(depth++).begin());
        } else if (node.op == Op::number || node.op == Op::coordinate) {
            const std::int64_t number = node.op == Op::number ? node.n : place[node.coordinate];
            if (depth > 0 && has_two_operands(all[i + 1].op)) {
                combine(all[++i].op, row(depth - 1), [=](std::size_t) { return number; });
            } else {
                std::ranges::fill(row(depth++), number);
            }
        } else if (has_two_operands(node.op)) {
            --depth;
            combine(node.op, row(depth - 1), [right = row(depth)](std::size_t n) { return right[n]; });
        } else {
            for (std::int64_t& number : row(depth - 1)) number = changed_by(node.op, number, node.n, node.k);
        }
    }
}

std::string Expr::text() const {
    std::vector<Told> stack;
    for (const Node& node : nodes()) {
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
    for (const Node& node : nodes()) {
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
    return std::ranges::any_of(nodes(), [&](const Node& node) {
        return node.op == Op::coordinate && node.coordinate == coordinate;
    });
}

bool Expr::is_mixed() const {
    const auto first = std::ranges::find(nodes(), Op::coordinate, &Node::op);
    return std::ranges::any_of(nodes(), [&](const Node& node) {
        return node.op == Op::coordinate && node.coordinate != first->coordinate;
    });
}

bool Expr::is(Coordinate coordinate) const {
    return size_ == 1 && takes(coordinate);
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

Expr Index::address() const {
    Expr address = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) address = address * extents[i - 1] + parts[i];
    return address;
}

std::string Index::text() const {
    std::string text;
    for (const Expr& part : parts) text += "[" + part.text() + "]";
    return text;
}

}  // namespace tilescope
