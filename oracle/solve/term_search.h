#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "oracle/solve/place_rule.h"
#include "oracle/solve/term_address.h"

namespace tilescope {

/// A tile of an operand as it lies in memory, row by row.
struct TileMemory {
    std::vector<double> values;  ///< NaN: not known
    std::int64_t cols = 0;

    /// The same with so many unknown elements behind each row.
    TileMemory padded(std::int64_t padding) const;
    /// NaN beyond the tile.
    double at(std::int64_t address) const {
        const bool is_inside = address >= 0 && address < std::int64_t(values.size());
        return is_inside ? values[std::size_t(address)] : std::numeric_limits<double>::quiet_NaN();
    }
};

/// A result of the kernel that is made of terms, each a number that is read from memory times a factor: their sum, or
/// where it is a maximum the largest number.
struct TermResult {
    Place place;                  ///< that the index is computed from; the number of the term is free
    std::size_t memory = 0;       ///< of its first part; each part of a sum has the next one
    std::vector<double> factors;  ///< of every term, part after part
    double carried = 0;           ///< what the terms are added to, or compared with
    double got = 0;
    double error = 0;
    double threshold = 0;  ///< by how much a maximum has to be larger than what was there

    bool fits(double value) const {
        // Terms of another size have other roundings: a sum of zeros has none.
        constexpr double rounding = 4e-6;
        if (value == got) return true;
        return std::isfinite(value) && std::abs(value - got) <= 3 * error + rounding * std::abs(value);
    }
};

/// The results of which the wrong index is looked for.
struct TermQuestion {
    bool is_maximum = false;
    Coordinate term = Coordinate::nothing;  ///< that counts the terms
    std::vector<CoordinateRange>
        ranges;  ///< of the tile's rows and columns, and what else the index may be made of
    std::vector<TileMemory> memories;
    std::vector<TermResult> results;
    std::vector<Expr> strides;
    std::vector<std::int64_t> paddings = {0};

    std::size_t terms() const;
    /// Where terms should be read.
    TermAddress right(std::int64_t padding = 0) const {
        return {ranges[0].coordinate, ranges[1].coordinate, {}, padding};
    }
};

/// The terms that `holds` are read at the address, the others where they should be.
struct TermRead {
    TermAddress address;
    std::optional<PlaceCondition> only;  ///< on the number of the term

    bool holds(std::int64_t term) const { return !only || only->holds(term); }
    /// Numbers in it; at least the choice of what is otherwise.
    int choices() const { return std::max(address.choices(), 1) + (!only ? 0 : only->period > 0 ? 2 : 1); }
};

/// The addresses that nearly all results agree with as far as the memory is known, those of the fewest numbers first, at
/// most so many.
std::vector<TermRead> find_term_reads(const TermQuestion& question, std::size_t most);

}  // namespace tilescope
