#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracle/causes/walk.h"
#include "oracle/estimate.h"
#include "oracle/report.h"

namespace tilescope {

/// A dumped tile of the stage that diverges, with what goes into its formula.
struct Observation {
    Site site;  ///< what its stage is computed from
    MatrixF got;
    Estimate expected;  ///< of a kernel with the changes known so far, in the dump's units
    DumpFactor factor;  ///< from natural units to the dump's
    TileContext context;
    std::vector<bool> wrong;     ///< of each element, row-major
    std::vector<bool> unjudged;  ///< of each element: nothing can be expected of a healthy kernel either
    std::vector<bool> bad_rows;  ///< of each row: something in it is wrong
    std::vector<bool> settled;   ///< rows that are explained already: nothing is compared there
    std::int64_t wrong_elements = 0;
    std::int64_t compared = 0;

    bool is_bad() const { return wrong_elements > 0; }
    bool is_wrong(Eigen::Index row, Eigen::Index col) const {
        return wrong[std::size_t(row * got.cols() + col)];
    }
    /// Got, in natural units.
    double natural(Eigen::Index row, Eigen::Index col) const {
        return double(got(row, col)) / factor.at(row, col);
    }
};

/// What is known of a stage that diverges: tiles that do and tiles that do not, from several heads and query
/// blocks.
struct Evidence {
    const World* world = nullptr;
    Stage acts = Stage::q;      ///< in which the mistake is looked for
    Stage observed = Stage::q;  ///< in which it shows
    std::vector<Change> known;  ///< changes that are in the replay already
    std::vector<TileId> blocks;
    std::vector<Observation> seen;
    std::int64_t wrong_elements = 0;
    std::int64_t compared = 0;

    /// Whether the stage that is looked at was dumped itself: then its values tell parameters.
    bool direct() const { return acts == observed; }
    const HeadCall& call() const { return *seen.front().site.call; }
    const Problem& problem() const { return world->recording().problem(); }
    const Units& units() const { return world->recording().units(); }
};

/// A NaN, and not what nobody wrote.
bool is_computed_nan(float got);

/// From the query blocks with bad rows, and from as many without.
Evidence collect_evidence(const World& world, const Report& report, Stage observed, int threads);

/// The same tiles, judged with `known` changes of the stage `acts`.
Evidence with_known(const Evidence& evidence, Stage acts, std::vector<Change> known);

/// The same without the rows that `change` explains.
Evidence without_explained(const Evidence& evidence, const Change& change);

/// Elements that do not fit.
struct Misfit {
    std::int64_t in_bad_rows = 0;
    std::int64_t beside_bad_rows = 0;  ///< in tiles that have bad rows
    std::int64_t in_good_tiles = 0;
    /// Wrong elements that fit, sharply and within a budget that allows for the difference; the latter count
    /// as fitting where the former are most.
    std::int64_t sharp = 0;
    std::int64_t swallowed = 0;
    std::int64_t by_value = 0;  ///< of the sharp ones: numbers, infinities, and elements that nobody wrote
    std::int64_t finite = 0;    ///< judged elements that the change expects to be finite, and that fit
    /// Of finite wrong elements that fit, the sum of |got - replay| / |got - healthy|.
    double distance = 0;
    std::int64_t distances = 0;
    bool widens = false;  ///< the change's budget is wider by right

    std::int64_t in_bad_tiles() const { return in_bad_rows + beside_bad_rows; }
    std::int64_t anywhere() const { return in_bad_tiles() + in_good_tiles; }
    /// Whether what was dumped is nearer to the replay than to what is right, and not only within a wider
    /// budget.
    bool tells_values() const;
    /// Whether anything is known but that all is NaN.
    bool tells_more_than_nan() const { return by_value > 0 || finite > 0; }
};

/// What would still diverge in a kernel with the known changes and this one. Gives up, with everything in
/// misfit, where the first bad tiles show that the change explains next to nothing.
Misfit misfit_of(const Evidence& evidence, const Change& change);

}  // namespace tilescope
