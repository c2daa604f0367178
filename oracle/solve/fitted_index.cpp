#include "oracle/solve/fitted_index.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// So much of a table may be otherwise: an index that ran out of its array.
constexpr double most_otherwise = 0.02;

bool is_right(IndexTable table, Coordinate x, const Expr& expr) {
    const auto wrong = std::ranges::count_if(
        table, [&](const auto& entry) { return expr.at(x, entry.first) != entry.second; });
    return double(wrong) <= most_otherwise * double(table.size());
}

/// The commonest number.
template <class Of>
std::int64_t commonest(IndexTable table, const Of& of) {
    std::map<std::int64_t, int> counts;
    for (const auto& [x, y] : table) ++counts[of(x, y)];
    return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first;
}

/// Expressions that fit, the shortest first, until there are enough.
struct Fitting {
    IndexTable table;
    Coordinate x;
    std::size_t most;
    std::vector<Expr> exprs{};

    bool has_enough() const { return exprs.size() >= most; }
    void add(Expr expr) {
        if (!has_enough() && is_right(table, x, expr)) exprs.push_back(std::move(expr));
    }
    /// Moved by what it takes.
    void add_moved(const Expr& base) {
        if (has_enough()) return;
        spend(32 * std::ssize(table));
        const std::int64_t c =
            commonest(table, [&](std::int64_t from, std::int64_t to) { return to - base.at(x, from); });
        add(moved_by(base, c));
    }
};

void add_linear(Fitting& fitting) {
    const IndexTable table = fitting.table;
    std::map<std::int64_t, int> slopes;
    for (std::size_t i = 1; i < table.size(); ++i) {
        const std::int64_t by = table[i].first - table[i - 1].first;
        const std::int64_t rise = table[i].second - table[i - 1].second;
        if (by != 0 && rise % by == 0) ++slopes[rise / by];
    }
    if (slopes.empty()) return;
    const std::int64_t a =
        std::ranges::max_element(slopes, {}, [](const auto& entry) { return entry.second; })->first;
    if (a == 0) {
        fitting.add(commonest(table, [](std::int64_t, std::int64_t y) { return y; }));
    } else {
        fitting.add_moved(a == 1 ? Expr(fitting.x) : Expr(a) * fitting.x);
    }
}

/// Forms with a number n that is at most the greatest x.
void add_forms(Fitting& fitting) {
    std::int64_t most = 0;
    for (const auto& entry : fitting.table) most = std::max(most, entry.first);
    const Expr x = fitting.x;
    for (std::int64_t n = 1; n <= most && !fitting.has_enough(); ++n) {
        for (const Expr& form : {x ^ n, Expr::of_two(Op::at_most, x, n), Expr::of_two(Op::at_least, x, n)})
            fitting.add_moved(form);
        if (n == 1) continue;
        for (const Expr& form :
             {x % n, Expr::changed(Op::multiple, x, n), Expr::changed(Op::reversed, x, n), x / n})
            fitting.add_moved(form);
    }
}

/// x / n * n + a * x % n
void add_orders(Fitting& fitting) {
    for (const std::int64_t n : {4, 8, 16, 32, 64})
        for (std::int64_t a = 3; a < n && !fitting.has_enough(); a += 2)
            fitting.add_moved(Expr::changed(Op::permuted, fitting.x, n, a));
}

/// Two bits in each other's place.
void add_exchanged(Fitting& fitting) {
    std::int64_t most = 0;
    for (const auto& entry : fitting.table) most = std::max(most, entry.first);
    for (int high = 1; (most >> high) > 0; ++high)
        for (int low = 0; low < high && !fitting.has_enough(); ++low)
            fitting.add(Expr::changed(Op::exchanged_bits, fitting.x, low, high));
}

/// Each bit of y an exclusive or of bits of x: swizzles, fragments and exchanged bits.
void add_bits(Fitting& fitting) {
    const std::map<std::int64_t, std::int64_t> known(fitting.table.begin(), fitting.table.end());
    std::int64_t most = 0;
    for (const auto& [x, y] : known) {
        if (x < 0 || y < 0) return;
        most = std::max(most, x);
    }
    // As many numbers as bits: more entries than that have to agree.
    std::size_t bits = 0;
    std::optional<Expr> sum;
    for (std::int64_t bit = 1; bit <= most; bit *= 2, ++bits) {
        std::map<std::int64_t, int> votes;
        for (const auto& [x, y] : known)
            if (const auto other = known.find(x ^ bit); other != known.end()) ++votes[y ^ other->second];
        if (votes.empty()) return;
        const std::int64_t change =
            std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first;
        if (change == 0) continue;
        const Expr term = Expr::changed(Op::if_bit, fitting.x, bit, change);
        sum = sum ? *sum ^ term : term;
    }
    if (!sum || fitting.table.size() < 2 * bits) return;
    const std::int64_t c =
        commonest(fitting.table, [&](std::int64_t x, std::int64_t y) { return y ^ sum->at(fitting.x, x); });
    fitting.add(c == 0 ? *sum : *sum ^ c);
}

}  // namespace

std::vector<Expr> fitted_indices(IndexTable table, Coordinate x, std::size_t most) {
    std::set<std::int64_t> different;
    for (const auto& entry : table) different.insert(entry.first);
    if (different.size() < 3) return {};
    Fitting fitting{table, x, most};
    for (const auto add : {add_linear, add_forms, add_orders, add_exchanged, add_bits})
        if (!fitting.has_enough()) add(fitting);
    return std::move(fitting.exprs);
}

std::optional<Expr> fitted_index(IndexTable table, Coordinate x) {
    std::vector<Expr> exprs = fitted_indices(table, x, 1);
    if (exprs.empty()) return std::nullopt;
    return std::move(exprs.front());
}

}  // namespace tilescope
