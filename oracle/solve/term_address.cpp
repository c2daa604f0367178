#include "oracle/solve/term_address.h"

#include <algorithm>
#include <array>
#include <utility>

#include "oracle/describe/edits.h"

namespace tilescope {

void TermAddress::along(Coordinate coordinate, const Place& place, std::int64_t cols,
                        std::span<std::int64_t> at) const {
    std::array<std::int64_t, 64> col_at;  // NOLINT: written before it is read
    const std::int64_t ld = stride_in(place, cols);
    for (std::size_t first = 0; first < at.size(); first += col_at.size()) {
        const std::span row_at = at.subspan(first, std::min(col_at.size(), at.size() - first));
        outer.along(coordinate, place, row_at, std::int64_t(first));
        inner.along(coordinate, place, std::span(col_at).first(row_at.size()), std::int64_t(first));
        for (std::size_t i = 0; i < row_at.size(); ++i) row_at[i] = row_at[i] * ld + col_at[i];
    }
}

std::string TermAddress::text(std::int64_t cols) const {
    if (has_own_stride() && padding == 0) return Index{{outer, inner}, {}}.text();
    const Expr ld = cols + padding;
    std::string text = Index{{(has_own_stride() ? ld : stride) * outer + inner}, {}}.text();
    if (!has_own_stride() && padding != 0) text += " of rows of " + ld.text();
    return text;
}

int TermAddress::choices() const {
    return outer.choices() + inner.choices() + stride.choices() + int(padding != 0);
}

bool TermAddress::stays_in_rows(std::span<const CoordinateRange> ranges) const {
    constexpr std::int64_t most_of_others = 16;
    if (!has_own_stride()) return false;
    // Made of one coordinate, or of two: the second of a mixture is one of a few bits.
    std::vector<CoordinateRange> taken;
    for (const CoordinateRange& range : ranges)
        if (inner.takes(range.coordinate)) taken.push_back(range);
    taken.resize(2);
    if (taken[1].coordinate == ranges[1].coordinate) std::swap(taken[0], taken[1]);
    Place place;
    for (std::int64_t x = 0; x < taken[0].length; ++x) {
        for (std::int64_t other = 0; other < std::min(taken[1].length, most_of_others); ++other) {
            place[taken[0].coordinate] = x;
            if (taken[1].coordinate != Coordinate::nothing) place[taken[1].coordinate] = other;
            const std::int64_t at = inner.at(place);
            if (at < 0 || at >= ranges[1].length) return false;
        }
    }
    return true;
}

std::vector<TermAddress> other_term_addresses(std::span<const CoordinateRange> ranges,
                                              std::span<const Expr> strides) {
    constexpr std::int64_t most = 64;
    const TermAddress own{ranges[0].coordinate, ranges[1].coordinate};
    const TermAddress exchanged{own.inner, own.outer};
    std::vector<TermAddress> all;
    for (const Expr& outer : edits_with(ranges[0], ranges, most)) all.push_back({outer, own.inner});
    for (const Expr& inner : edits_with(ranges[1], ranges, most)) all.push_back({own.outer, inner});
    all.push_back(exchanged);
    for (const Expr& stride : strides)
        for (TermAddress next : {own, exchanged}) {
            next.stride = stride;
            all.push_back(next);
        }
    return all;
}

}  // namespace tilescope
