// The terms of a sum of the backward pass: from where in an operand they are read.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "oracle/causes/table.h"
#include "oracle/causes/tile_sums.h"

namespace tilescope {

namespace {

/// Where an operand is read that should be read at x.
struct TermMap {
    std::string text;
    std::vector<std::int64_t> from;  ///< of each term
};

/// The maps that stay within the tile, each once; the identity is none of them.
std::vector<TermMap> term_maps(const std::string& x, std::int64_t length) {
    std::vector<TermMap> maps;
    std::set<std::vector<std::int64_t>> known;
    const auto add = [&](std::string text, const std::function<std::int64_t(std::int64_t)>& map) {
        TermMap next{std::move(text), {}};
        bool moves = false;
        for (std::int64_t i = 0; i < length; ++i) {
            const std::int64_t from = map(i);
            if (from < 0 || from >= length) return;
            moves = moves || from != i;
            next.from.push_back(from);
        }
        if (moves && known.insert(next.from).second) maps.push_back(std::move(next));
    };
    add("0", [](std::int64_t) { return 0; });
    add(fmt::format("{} - {}", length - 1, x), [=](std::int64_t i) { return length - 1 - i; });
    for (std::int64_t n = 1; n < std::min<std::int64_t>(length, 64); ++n) {
        add(fmt::format("{} ^ {}", x, n), [=](std::int64_t i) { return i ^ n; });
        add(fmt::format("min({}, {})", x, n), [=](std::int64_t i) { return std::min(i, n); });
        add(fmt::format("max({}, {})", x, n), [=](std::int64_t i) { return std::max(i, n); });
        add(fmt::format("max({} - {}, 0)", x, n),
            [=](std::int64_t i) { return std::max<std::int64_t>(i - n, 0); });
        if (n == 1) continue;
        add(fmt::format("{} % {}", x, n), [=](std::int64_t i) { return i % n; });
        add(fmt::format("{0} / {1} * {1}", x, n), [=](std::int64_t i) { return i / n * n; });
        add(fmt::format("{} / {}", x, n), [=](std::int64_t i) { return i / n; });
        add(fmt::format("{0} / {1} * {1} + {2} - {0} % {1}", x, n, n - 1),
            [=](std::int64_t i) { return i / n * n + n - 1 - i % n; });
        for (std::int64_t odd = 3; odd < n && (n & (n - 1)) == 0 && n <= 32; odd += 2)
            add(fmt::format("{0} / {1} * {1} + {0} * {2} % {1}", x, n, odd),
                [=](std::int64_t i) { return i / n * n + i * odd % n; });
    }
    for (int low = 0; low < 5; ++low) {
        for (int high = low + 1; high < 6; ++high)
            add(fmt::format("{} with bits {} and {} exchanged", x, low, high), [=](std::int64_t i) {
                const std::int64_t differ = (i >> low ^ i >> high) & 1;
                return i ^ (differ << low | differ << high);
            });
    }
    return maps;
}

/// An operand of a sum, whose terms are its columns or its rows.
struct TermOperand {
    Stage sum;
    const char* name;
    const char* text;  ///< of an element, with the index of the term in braces
    const char* term;
    bool is_left;
};

constexpr std::array<TermOperand, 10> term_operands = {{
    {Stage::delta, "dout", "dout[row][{}]", "d", true},
    {Stage::delta, "o", "o[row][{}]", "d", false},
    {Stage::dp, "dout", "dout[row][{}]", "d", true},
    {Stage::dp, "v", "v[col][{}]", "d", false},
    {Stage::dq, "ds", "ds[row][{}]", "col", true},
    {Stage::dq, "k", "k[{}][d]", "col", false},
    {Stage::dk, "ds", "ds[{}][col]", "row", true},
    {Stage::dk, "q", "q[{}][d]", "row", false},
    {Stage::dv, "p", "p[{}][col]", "row", true},
    {Stage::dv, "dout", "dout[{}][d]", "row", false},
}};

/// Element (i, t) of a left operand, (t, j) of a right one; 0 behind the end of a tail.
double or_zero(const Matrix& operand, Eigen::Index row, Eigen::Index col) {
    return row < operand.rows() && col < operand.cols() ? operand(row, col) : 0;
}

/// The sum with the terms of one operand read elsewhere, in natural units.
double sum_with(const TermOperand& operand, const SearchedTile& site, const std::vector<std::int64_t>& from,
                Eigen::Index i, Eigen::Index j) {
    const auto dot = [&](const Matrix& left, const Matrix& right) {
        double sum = 0;
        for (Eigen::Index t = 0; t < Eigen::Index(from.size()); ++t) {
            const Eigen::Index other = from[std::size_t(t)];
            sum += or_zero(left, i, operand.is_left ? other : t) *
                   or_zero(right, operand.is_left ? t : other, j);
        }
        return sum;
    };
    if (operand.sum == Stage::delta) return dot(site.dout.value, site.o.value.row(i).transpose());
    if (operand.sum == Stage::dp) return dot(site.dout.value, site.v.value.transpose());
    double sum = 0;
    for (const GradientPart& part : *site.parts) sum += dot(part.a.value, part.b.value);
    return sum * kernel_unit(operand.sum, site);
}

/// Whether most of the wrong sums are those of the map, as far as a few tell.
bool may_be(const TermOperand& operand, const std::vector<WrongSum>& wrong, const TermMap& map) {
    std::size_t tried = 0;
    std::size_t off = 0;
    for (const WrongSum& one : wrong) {
        const double sum = sum_with(operand, one.seen->site, map.from, one.row, one.col);
        off += !(std::abs(sum - one.sum.got) <= 3 * one.sum.error);
        if (off * 8 > ++tried + 8) return false;
    }
    return off * 8 <= tried;
}

void read_columns(const std::vector<std::int64_t>& from, Matrix& values) {
    const Matrix old = values;
    for (Eigen::Index t = 0; t < old.cols(); ++t) {
        const Eigen::Index other = from[std::size_t(t)];
        if (other < old.cols()) {
            values.col(t) = old.col(other);
        } else {
            values.col(t).setZero();
        }
    }
}

void read_terms(const TermOperand& operand, const std::vector<std::int64_t>& from, SearchedTile& site) {
    if (!is_gradient(operand.sum)) {
        Operand& other = operand.sum == Stage::dp ? site.v : site.o;
        read_columns(from, operand.is_left ? site.dout.value : other.value);
        return;
    }
    for (GradientPart& part : site.own_parts()) {
        if (operand.is_left) {
            read_columns(from, part.a.value);
            read_columns(from, part.a.error);
            // What was hidden may be read now, and what is read may be hidden.
            part.scores.setZero();
        } else {
            Matrix transposed = part.b.value.transpose();
            read_columns(from, transposed);
            part.b.value = transposed.transpose();
        }
    }
}

}  // namespace

std::vector<Candidate> terms_read_elsewhere(const Evidence& evidence) {
    constexpr std::size_t few = 48;
    std::vector<Candidate> candidates;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, few);
    if (wrong.size() < 8) return candidates;
    const std::int64_t length = terms_of_sum(evidence.problem(), evidence.acts);
    for (const TermOperand& operand : term_operands) {
        if (operand.sum != evidence.acts) continue;
        for (const TermMap& map : term_maps(operand.term, length)) {
            if (!may_be(operand, wrong, map)) continue;
            const auto change = [=](SearchedTile& site) { read_terms(operand, map.from, site); };
            candidates.push_back(
                {{{"multiplies", fmt::format(fmt::runtime(operand.text), map.text)}}, {.inputs = change}, 2});
        }
    }
    return candidates;
}

}  // namespace tilescope
