#include "oracle/identify/index_formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "oracle/identify/effort.h"
#include "oracle/identify/index_forms.h"

namespace tilescope {

namespace {

using Table = std::span<const std::pair<std::int64_t, std::int64_t>>;

/// So much of a table may be otherwise: an index that ran out of its array.
constexpr double most_otherwise = 0.02;

bool is_right(Table table, const std::function<std::int64_t(std::int64_t)>& apply) {
    const auto wrong =
        std::ranges::count_if(table, [&](const auto& entry) { return apply(entry.first) != entry.second; });
    return double(wrong) <= most_otherwise * double(table.size());
}

/// The commonest number.
template <class Of>
std::int64_t commonest(Table table, const Of& of) {
    std::map<std::int64_t, int> counts;
    for (const auto& [x, y] : table) ++counts[of(x, y)];
    return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first;
}

std::string plus(std::int64_t c) {
    if (c == 0) return "";
    return fmt::format(" {} {}", c < 0 ? '-' : '+', c < 0 ? -c : c);
}

std::string sum_text(std::string_view term, std::int64_t c) {
    return std::string(term) + plus(c);
}

/// `base` of x, moved by what it takes.
std::optional<IndexFormula> moved(Table table, const IndexFormula& base) {
    spend(32 * std::ssize(table));
    const std::int64_t c =
        commonest(table, [&](std::int64_t x, std::int64_t y) { return y - base.apply(x); });
    const auto apply = [of = base.apply, c](std::int64_t x) { return of(x) + c; };
    if (!is_right(table, apply)) return std::nullopt;
    const std::string term = base.binds_loosely && c != 0 ? "(" + base.text + ")" : base.text;
    return IndexFormula{apply, sum_text(term, c), base.parameters + (c != 0)};
}

/// Formulas that fit, the shortest first, until there are enough.
struct Fitting {
    std::vector<IndexFormula> formulas;
    std::size_t most;

    bool has_enough() const { return formulas.size() >= most; }
    void add(std::optional<IndexFormula> formula) {
        if (formula && !has_enough()) formulas.push_back(std::move(*formula));
    }
};

void linear(Table table, std::string_view name, Fitting& fitting) {
    std::map<std::int64_t, int> slopes;
    for (std::size_t i = 1; i < table.size(); ++i) {
        const std::int64_t by = table[i].first - table[i - 1].first;
        const std::int64_t rise = table[i].second - table[i - 1].second;
        if (by != 0 && rise % by == 0) ++slopes[rise / by];
    }
    if (slopes.empty()) return;
    const std::int64_t a =
        std::ranges::max_element(slopes, {}, [](const auto& entry) { return entry.second; })->first;
    const std::string text = a == 0    ? ""
                             : a == 1  ? std::string(name)
                             : a == -1 ? fmt::format("-{}", name)
                                       : fmt::format("{} * {}", a, name);
    auto found = moved(table, {[=](std::int64_t x) { return a * x; }, text, a != 1});
    if (found && a == 0) found->text = std::to_string(found->apply(0));
    fitting.add(std::move(found));
}

/// Forms with a number n that is at most the greatest x.
void with_number(Table table, std::string_view name, Fitting& fitting) {
    std::int64_t most = 0;
    for (const auto& [x, y] : table) most = std::max(most, x);
    for_each_index_form(most, name, [&](const IndexFormula& form) {
        fitting.add(moved(table, form));
        return !fitting.has_enough();
    });
}

/// x / n * n + a * x % n
void in_steps(Table table, std::string_view name, Fitting& fitting) {
    for (const std::int64_t n : {4, 8, 16, 32, 64}) {
        for (std::int64_t a = 3; a < n && !fitting.has_enough(); a += 2) {
            fitting.add(moved(table, formula_of(IndexPart::Form::permuted, name, n, a)));
        }
    }
}

/// Each bit of y an exclusive or of bits of x: swizzles, fragments and exchanged bits.
void of_bits(Table table, std::string_view name, Fitting& fitting) {
    std::map<std::int64_t, std::int64_t> known(table.begin(), table.end());
    std::int64_t most = 0;
    for (const auto& [x, y] : known) {
        if (x < 0 || y < 0) return;
        most = std::max(most, x);
    }
    std::vector<std::int64_t> of_bit;
    for (std::int64_t bit = 1; bit <= most; bit *= 2) {
        std::map<std::int64_t, int> votes;
        for (const auto& [x, y] : known)
            if (const auto other = known.find(x ^ bit); other != known.end()) ++votes[y ^ other->second];
        if (votes.empty()) return;
        of_bit.push_back(
            std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first);
    }
    const auto linear_part = [of_bit](std::int64_t x) {
        std::int64_t y = 0;
        for (std::size_t i = 0; i < of_bit.size(); ++i)
            if (x >> i & 1) y ^= of_bit[i];
        return y;
    };
    const std::int64_t c =
        commonest(table, [&](std::int64_t x, std::int64_t y) { return y ^ linear_part(x); });
    const auto apply = [=](std::int64_t x) { return linear_part(x) ^ c; };
    // As many numbers as bits: more entries than that have to agree.
    if (table.size() < 2 * of_bit.size() || !is_right(table, apply)) return;
    std::string text;
    for (std::size_t i = 0; i < of_bit.size(); ++i) {
        if (of_bit[i] != 0)
            text += fmt::format("{}({} & {} ? {} : 0)", text.empty() ? "" : " ^ ", name, 1 << i, of_bit[i]);
    }
    if (c != 0) text += fmt::format("{}{}", text.empty() ? "" : " ^ ", c);
    fitting.add(IndexFormula{apply, text, int(of_bit.size())});
}

}  // namespace

std::vector<IndexFormula> describe_indices(Table table, std::string_view name, std::size_t most) {
    std::set<std::int64_t> different;
    for (const auto& [x, y] : table) different.insert(x);
    if (different.size() < 3) return {};
    Fitting fitting{{}, most};
    for (const auto describe : {linear, with_number, in_steps, of_bits})
        if (!fitting.has_enough()) describe(table, name, fitting);
    return std::move(fitting.formulas);
}

std::optional<IndexFormula> describe_indices(Table table, std::string_view name) {
    std::vector<IndexFormula> formulas = describe_indices(table, name, 1);
    if (formulas.empty()) return std::nullopt;
    return std::move(formulas.front());
}

}  // namespace tilescope
