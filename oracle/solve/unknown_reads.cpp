#include "oracle/solve/unknown_reads.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "oracle/solve/effort.h"
#include "oracle/solve/unknown_terms.h"

namespace tilescope {

namespace {

/// What a line takes at an address.
struct LineTerms {
    std::vector<double> known;           ///< of every term; 0 where it is not known
    std::vector<std::ptrdiff_t> column;  ///< of every term: which unknown number it is, or -1
    std::size_t unknowns = 0;
    std::size_t moved = 0;  ///< known numbers but zeros that are not those of the right address
};

LineTerms terms_of_line(const TermQuestion& question, const TermLine& line, const TileMemory& memory,
                        const TermAddress& address) {
    const std::size_t terms = question.terms();
    const std::int64_t cols = memory.cols - address.padding;
    const Place& place = line.front().place;
    std::vector<std::int64_t> at(terms);
    std::vector<std::int64_t> right(terms);
    address.along(question.term, place, cols, at);
    question.right(address.padding).along(question.term, place, cols, right);
    LineTerms taken{std::vector<double>(terms, 0), std::vector<std::ptrdiff_t>(terms, -1)};
    spend(std::int64_t(24 * terms));
    for (std::size_t t = 0; t < terms; ++t) {
        if (std::ranges::all_of(line, [=](const TermResult& result) { return result.factors[t] == 0; }))
            continue;
        const double number = memory.at(at[t]);
        if (std::isnan(number)) {
            taken.column[t] = std::ptrdiff_t(taken.unknowns++);
            continue;
        }
        taken.known[t] = number;
        taken.moved += number != 0 && at[t] != right[t];
    }
    return taken;
}

/// Whether the results that tell no unknown number are what the line needs; nullopt: too few to say.
std::optional<bool> is_line_right(const TermLine& line, const LineTerms& taken) {
    constexpr std::size_t least = 5;
    if (taken.unknowns + least > line.size() || taken.moved < taken.unknowns) return std::nullopt;
    const auto sums = Eigen::Index(line.size());
    Eigen::MatrixXd factors = Eigen::MatrixXd::Zero(sums, Eigen::Index(taken.unknowns));
    spend(sums * std::int64_t(2 * taken.known.size()));
    Eigen::VectorXd left(sums);
    Eigen::VectorXd errors(sums);
    for (Eigen::Index i = 0; i < sums; ++i) {
        const TermResult& result = line[std::size_t(i)];
        double known = result.carried;
        double magnitude = std::abs(known);
        for (std::size_t t = 0; t < taken.known.size(); ++t) {
            if (taken.column[t] >= 0) {
                factors(i, taken.column[t]) += result.factors[t];
                continue;
            }
            known += taken.known[t] * result.factors[t];
            magnitude += std::abs(taken.known[t] * result.factors[t]);
        }
        // Terms of another size have other roundings.
        constexpr double rounding = 1e-6;
        left(i) = result.got - known;
        errors(i) = result.error + rounding * magnitude;
    }
    const UnknownTerms unknown = spend_sums(factors, std::vector<bool>(line.size(), true));
    std::size_t tried = 0;
    std::size_t off = 0;
    for (Eigen::Index i = 0; i < sums; ++i) {
        if (unknown.open[std::size_t(i)]) continue;
        ++tried;
        const double allowed = 3 * (errors(i) + unknown.error(i, errors));
        off += !(std::abs(left(i) - unknown.added(i, left)) <= allowed);
        if (off * 8 > line.size()) return false;
    }
    if (tried < least) return std::nullopt;
    return off * 8 <= tried;
}

}  // namespace

std::vector<TermRead> find_unknown_reads(const TermQuestion& question, std::span<const TermLine> lines,
                                         std::size_t most) {
    struct FoundRead {
        TermRead read;
        std::size_t unknowns;
    };
    std::vector<FoundRead> found;
    std::map<std::int64_t, std::vector<TileMemory>> memories;
    for (const std::int64_t padding : question.paddings)
        for (const TileMemory& memory : question.memories)
            memories[padding].push_back(memory.padded(padding));
    for (TermAddress address : other_term_addresses(question.ranges, question.strides)) {
        if (address.outer.is_mixed() || address.inner.is_mixed() || address.stays_in_rows(question.ranges))
            continue;
        bool is_of_line = true;
        for (const CoordinateRange& range : std::span(question.ranges).subspan(2))
            is_of_line &= !address.takes(range.coordinate);
        if (!is_of_line) continue;
        for (const std::int64_t padding : question.paddings) {
            address.padding = padding;
            std::size_t unknowns = 0;
            std::size_t right = 0;
            std::size_t tried = 0;
            for (const TermLine& line : lines) {
                const TileMemory& memory = memories[padding][line.front().memory];
                const LineTerms taken = terms_of_line(question, line, memory, address);
                const std::optional<bool> is_right = is_line_right(line, taken);
                if (!is_right) continue;
                ++tried;
                if (!*is_right) break;
                ++right;
                unknowns += taken.unknowns;
            }
            if (right > 0 && right == tried && 2 * right >= lines.size() && unknowns > 0)
                found.push_back({{address, std::nullopt}, unknowns});
        }
    }
    // Of as many numbers, the one that leaves least open.
    std::ranges::stable_sort(
        found, {}, [](const FoundRead& one) { return std::pair(one.read.choices(), one.unknowns); });
    std::vector<TermRead> reads;
    for (const FoundRead& one : found)
        if (reads.size() < most) reads.push_back(one.read);
    return reads;
}

}  // namespace tilescope
